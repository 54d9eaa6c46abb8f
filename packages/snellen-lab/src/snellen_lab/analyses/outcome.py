"""What an analysis found: its numbers, those that the paper prints beside them, a table, a chart, files.

The chart that an analysis declares, from the numbers of its table.
"""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict

from snellen import DataError
from snellen.plugin_api import (
    METHODS,
    Axis,
    Block,
    Cell,
    ChartBlock,
    ChartDrawing,
    ChartPanel,
    Estimate,
    Head,
    IntervalRow,
    ModelCard,
    PlotPoint,
    RunView,
    Scale,
    ScatterPoint,
    Section,
    Table,
    TableBlock,
    csv_table,
    decimal_text,
    escape,
    find,
    heat_map,
    interval_chart,
    markdown_tables,
    model_cards,
    offline_document,
    radar_chart,
    scaled_estimate,
    scatter_chart,
    stand_alone,
    with_legend,
    write_in_form,
)
from snellen_lab.analyses.declaration import AnalysisSpec
from snellen_lab.analyses.observations import (
    DIGITS,
    AnalysisRow,
    AnalysisStatistic,
    Member,
    Observation,
    by_quantity,
    group_of,
    mean_over_models,
    observe,
    pooled,
    why_no_group,
)
from snellen_lab.papers.printed_tables import PrintedValue, paper_of


def analysis_charts(
    spec: AnalysisSpec, rows: Sequence[AnalysisRow], members: Sequence[Member]
) -> Iterator[ChartPanel]:
    """A panel for each method and unit."""
    if spec.plot == "scatter":
        yield from _scatter(spec, members)
        return
    panels: dict[tuple[str, str], list[AnalysisRow]] = defaultdict(list)
    for row in rows:
        panels[row.method, row.unit].append(row)
    for (method, unit), of in panels.items():
        title = ", ".join(filter(None, (method, unit)))
        if spec.plot == "heat":
            yield ChartPanel(title, _heat(f"{spec.title}, {title}", of, unit))
        elif spec.plot == "intervals":
            yield ChartPanel(title, _intervals(f"{spec.title}, {title}", of, unit))
        elif spec.plot == "radar":
            yield ChartPanel(title, _radar(f"{spec.title}, {title}", of, series_of(rows)))


def series_of(rows: Sequence[AnalysisRow]) -> list[str]:
    """The groups, each a series of a radar."""
    return list(dict.fromkeys(map(_name, rows)))


def _name(row: AnalysisRow) -> str:
    return ", ".join(row.groups)


def _heat(title: str, rows: Sequence[AnalysisRow], unit: str) -> ChartDrawing:
    names, quantities = dict.fromkeys(map(_name, rows)), dict.fromkeys(row.quantity for row in rows)
    return heat_map(
        title,
        list(names),
        list(quantities),
        {(_name(row), row.quantity): row.estimate for row in rows},
        Scale(unit, DIGITS.get(unit, 2)),
    )


def _intervals(title: str, rows: Sequence[AnalysisRow], unit: str) -> ChartDrawing:
    """A row for each group and quantity, so that no colour has to tell them apart."""
    quantities = dict.fromkeys(row.quantity for row in rows)
    lines = [
        IntervalRow(
            label, (PlotPoint(list(quantities).index(row.quantity), label, row.estimate, unit),)
        )
        for row in rows
        for label in [f"{_name(row)}, {row.quantity}" if len(quantities) > 1 else _name(row)]
    ]
    return interval_chart(
        title, lines, _axis(rows[0].statistic, unit, [row.estimate for row in rows])
    )


def _radar(title: str, rows: Sequence[AnalysisRow], series: Sequence[str]) -> ChartDrawing:
    """An axis for each quantity, of per cents, and an outline for each group."""
    quantities = list(dict.fromkeys(row.quantity for row in rows))
    points: dict[str, dict[str, PlotPoint]] = defaultdict(dict)
    for row in rows:
        label = f"{_name(row)}, {row.quantity}"
        share = scaled_estimate(row.estimate, 0.01)
        points[_name(row)][row.quantity] = PlotPoint(series.index(_name(row)), label, share)
    polygons = [
        (series.index(name), [of.get(quantity) for quantity in quantities])
        for name, of in points.items()
    ]
    return radar_chart(title, quantities, polygons, [None] * len(quantities))


def _axis(title: str, unit: str, estimates: Sequence[Estimate]) -> Axis:
    ends = [end for e in estimates for end in (e.low, e.value, e.high) if end is not None]
    low, high = min([0.0, *ends]), max([0.0, *ends])
    return Axis(f"{title}, {unit}" if unit else title, unit, high + 0.04 * (high - low) or 1.0, low)


def _scatter(spec: AnalysisSpec, members: Sequence[Member]) -> Iterator[ChartPanel]:
    """Each model's mean value against the number on its card, on a scale of powers of ten."""
    placed: dict[tuple[str, str], dict[Member, list[float]]] = defaultdict(
        lambda: defaultdict(list)
    )
    first: dict[tuple[str, str], Member] = {}
    for member in members:
        if member.groups and member.x:
            key = first.setdefault((member.observation.method, member.observation.model), member)
            placed[member.observation.method, member.observation.unit][key].append(
                member.observation.value
            )
    for (method, unit), points in placed.items():
        strata = list(dict.fromkeys(member.groups[1:] for member in points))
        dots = [
            ScatterPoint(
                strata.index(member.groups[1:]),
                ", ".join((member.observation.model, *member.groups[1:])),
                Estimate(math.log10(member.x or 1.0), None, None, None, 1),
                Estimate(mean_over_models(values).value, None, None, None, 1),
            )
            for member, values in points.items()
        ]
        x = [dot.x.value or 0.0 for dot in dots]
        heading = f"log10 of {spec.groups[0].heading}"
        x_axis = Axis(heading, "1", max(x) + 0.2, min(x) - 0.2)
        yield ChartPanel(
            method,
            scatter_chart(
                f"{spec.title}, {method}", dots, x_axis, _axis("mean", unit, [d.y for d in dots])
            ),
        )


ROUNDING = 1e-9
INTERVALS = "In brackets Student's 95% interval of the mean over three or more models, taken as a sample of such models."


class PrintedBeside(Struct, frozen=True):
    """A number of an analysis and what the paper prints for it."""

    row: AnalysisRow
    printed: PrintedValue
    known: str = ""
    """Why the printed figure is a known misprint, as the suite's errata say; empty where it is not one."""

    @property
    def agrees(self) -> bool:
        """Whether the difference is one of rounding, of the printed figure and of those it was computed from."""
        if self.row.estimate.value is None or self.printed.value is None:
            return False
        reach = 0.5 * 10.0**-self.printed.digits + self.row.slack + ROUNDING
        return abs(self.row.estimate.value - float(self.printed.value)) <= reach


class AnalysisOutcome(Struct, frozen=True):
    """All that an analysis found."""

    spec: AnalysisSpec
    rows: tuple[AnalysisRow, ...]
    checks: tuple[PrintedBeside, ...]
    """The paper's models alone, beside what it prints."""
    notes: tuple[str, ...]
    charts: tuple[ChartPanel, ...]

    @property
    def series(self) -> tuple[str, ...]:
        """What the colours of its charts mean; on most charts the labels say so."""
        return tuple(series_of(self.rows)) if self.spec.plot == "radar" else ()

    @property
    def unexplained(self) -> list[PrintedBeside]:
        """Figures that the paper prints otherwise, and that are not known misprints."""
        return [check for check in self.checks if not check.agrees and not check.known]

    @property
    def table(self) -> Table:
        """A row for each group and method, a column for each quantity."""
        quantities = list(dict.fromkeys(row.quantity for row in self.rows))
        lines = by_quantity(self.rows)
        methods = ("method",) if any(row.method for row in self.rows) else ()
        headings = tuple(grouping.heading for grouping in self.spec.groups)
        counts = {key: max(row.models for row in cells.values()) for key, cells in lines.items()}
        rows: list[tuple[Cell, ...]] = [
            (
                *groups,
                *([method] if methods else ()),
                counts[groups, method, statistic],
                *(_cell(cells.get(name)) for name in quantities),
            )
            for (groups, method, statistic), cells in lines.items()
        ]
        title = f"{self.spec.title}: {', '.join(dict.fromkeys(row.statistic for row in self.rows))}"
        units = ", ".join(dict.fromkeys(row.unit for row in self.rows if row.unit))
        facts = (
            *filter(None, (self.spec.about,)),
            *([f"In {units}."] if units else ()),
            *([INTERVALS] if any(row.statistic.startswith("mean") for row in self.rows) else ()),
        )
        return Table(
            title,
            (*headings, *methods, "models", *quantities),
            tuple(rows),
            len(headings) + len(methods),
            facts,
        )

    @property
    def check_table(self) -> Table:
        """Numbers that the paper prints otherwise."""
        rows = tuple(
            (
                check.printed.place,
                check.printed.printed,
                _figure(check.row.estimate.value, check.printed.digits + 1),
                check.known or "no",
            )
            for check in self.checks
            if not check.agrees
        )
        agree = sum(check.agrees for check in self.checks)
        title = f"{agree} of {len(self.checks)} printed figures agree" + (
            "; these do not" if rows else ""
        )
        return Table(title, ("printed where", "printed", "computed", "a known misprint"), rows)


def _cell(row: AnalysisRow | None) -> Cell:
    """`53.7 [40.2, 67.2]`."""
    if row is None or row.estimate.value is None:
        return ""
    digits, e = DIGITS.get(row.unit, 3), row.estimate
    ends = (
        ""
        if e.low is None or e.high is None
        else f" [{_figure(e.low, digits)}, {_figure(e.high, digits)}]"
    )
    return f"{_figure(e.value, digits)}{ends}"


def _figure(value: float | None, digits: int) -> str:
    return "" if value is None else decimal_text(value, digits)


def compute_analysis(
    spec: AnalysisSpec, views: Sequence[RunView] = (), cards: dict[str, ModelCard] | None = None
) -> AnalysisOutcome:
    """An analysis of the paper's models and of `views`, runs scored as published.

    Raises DataError where nothing can be shown, such as without runs for what only runs have.
    """
    all_cards = model_cards() if cards is None else cards
    gathered = observe(spec, views, all_cards)
    if not gathered.observations:
        no_runs = f"no paper prints what this analysis looks at; name runs (snellen analyse {spec.name} RUNS)"
        raise DataError(f"{spec.name}: {' '.join(gathered.notes) if views else no_runs}")
    members = sorted(
        _members(spec, gathered.observations, all_cards),
        key=lambda member: (METHODS.index(member.observation.method), member.x or 0.0),
    )
    if not any(member.groups for member in members):
        raise DataError(
            f"{spec.name}: no model is in any group; write model cards (--cards FILE, docs/analyses.md)"
        )
    rows = _computed(spec, members)
    of_paper = [member for member in members if not member.observation.is_run]
    run_rows = _computed(spec, of_paper) if views and of_paper else rows if of_paper else ()
    notes = (*spec.notes, *gathered.notes, *_ungrouped(spec, members, all_cards))
    return AnalysisOutcome(
        spec,
        rows,
        tuple(_beside(spec, run_rows)),
        notes,
        tuple(analysis_charts(spec, rows, members)),
    )


def _members(
    spec: AnalysisSpec, observations: Sequence[Observation], cards: Mapping[str, ModelCard]
) -> Iterator[Member]:
    for observation in observations:
        groups = [group_of(observation, grouping, cards) for grouping in spec.groups]
        named_groups = tuple(group for group in groups if group is not None)
        fact = getattr(cards.get(observation.card), spec.groups[0].by or "", None)
        yield Member(
            observation,
            named_groups if len(named_groups) == len(groups) else (),
            float(fact) if isinstance(fact, int) else None,
        )


def _computed(spec: AnalysisSpec, members: Sequence[Member]) -> tuple[AnalysisRow, ...]:
    statistic: AnalysisStatistic = find("analysis_statistics", spec.statistic)
    return tuple(statistic.compute(pooled(members) if spec.pool else members))


def _ungrouped(
    spec: AnalysisSpec, members: Sequence[Member], cards: Mapping[str, ModelCard]
) -> Iterator[str]:
    """What keeps runs from joining a group; and which of the paper's models are in none."""
    alone = {
        member.observation.model: member.observation for member in members if not member.groups
    }
    for observation in alone.values():
        for grouping in spec.groups if observation.is_run else ():
            if group_of(observation, grouping, cards) is None:
                yield f"{why_no_group(observation, grouping, cards)}."
    printed = [name for name, value in alone.items() if not value.is_run]
    if printed:
        yield f"In no group, of the paper's models: {', '.join(printed)}."


def _beside(spec: AnalysisSpec, rows: Sequence[AnalysisRow]) -> Iterator[PrintedBeside]:
    """Each number that the paper prints too."""
    where = spec.printed
    if where is None or not rows:
        return
    paper = paper_of(spec.suite)
    errata = {erratum.place: erratum.why for erratum in paper.errata}
    for cell in paper.values(where.table):
        if any(cell.labels.get(label) != text for label, text in where.rows.items()):
            continue
        groups = tuple(cell.labels.get(label, "") for label in where.groups)
        for row in rows:
            column = where.columns.get(f"{row.method} {row.quantity}") or where.columns.get(
                row.quantity, row.quantity
            )
            same_method = "method" not in cell.labels or cell.labels["method"] == row.method
            if groups == row.groups[: len(groups)] and column == cell.column and same_method:
                yield PrintedBeside(row, cell, errata.get(cell.place, ""))


def flat_analysis_row(row: AnalysisRow, spec: AnalysisSpec) -> dict[str, Any]:
    """A row as a flat dict of plain values, groups under their headings."""
    groups = {
        grouping.heading: group for grouping, group in zip(spec.groups, row.groups, strict=True)
    }
    fields = {
        name: value
        for name, value in asdict(row).items()
        if name not in ("groups", "estimate", "slack")
    }
    return {"analysis": spec.name, **groups, **fields, **asdict(row.estimate)}


def write_analysis(outcome: AnalysisOutcome, path: Path) -> Path:
    """Write an analysis as `.html` (one page that opens offline), `.md`, `.csv`, `.json`, or its first chart as `.svg`.

    Raises DataError for another suffix or an analysis without a chart, StoreError when the file cannot be written.
    """
    return write_in_form(path, "an analysis", outcome, FORMS)


def _tables(outcome: AnalysisOutcome) -> list[Table]:
    return [outcome.table, *([outcome.check_table] if outcome.checks else ())]


def _page(outcome: AnalysisOutcome) -> str:
    spec = outcome.spec
    head = Head(
        f"Snellen analysis · {spec.name}",
        (spec.title,),
        lines=(*filter(None, (spec.about,)), *outcome.notes),
    )
    charts = (ChartBlock(outcome.charts, INTERVALS, outcome.series),) if outcome.charts else ()
    blocks: tuple[Block, ...] = (*charts, *(TableBlock(table) for table in _tables(outcome)))
    return offline_document(
        f"Snellen analysis: {spec.title}", head, [Section("analysis", spec.title, blocks)]
    )


def _markdown(outcome: AnalysisOutcome) -> str:
    lines = [f"# {escape(outcome.spec.title)}", ""]
    for note in outcome.notes:
        lines += [escape(note), ""]
    return "\n".join([*lines, *markdown_tables(_tables(outcome), 2)])


def _csv(outcome: AnalysisOutcome) -> str:
    return csv_table([flat_analysis_row(row, outcome.spec) for row in outcome.rows])


def _json(outcome: AnalysisOutcome) -> str:
    rows = [flat_analysis_row(row, outcome.spec) for row in outcome.rows]
    return json.dumps(rows, indent=1, ensure_ascii=False) + "\n"


def _svg(outcome: AnalysisOutcome) -> str:
    if not outcome.charts:
        raise DataError(f"{outcome.spec.name} declares no plot; write .html, .md, .csv or .json")
    return stand_alone(with_legend(outcome.charts[0].drawing, outcome.series))


FORMS: dict[str, Callable[[AnalysisOutcome], str]] = {
    ".html": _page,
    ".md": _markdown,
    ".csv": _csv,
    ".json": _json,
    ".svg": _svg,
}
