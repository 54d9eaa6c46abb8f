"""The result of an analysis, as a table, charts and files, next to the numbers that a paper prints."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

from msgspec import Struct
from msgspec.structs import asdict

from snellen import DataError
from snellen.plugin_api import (
    Cell,
    ChartPanel,
    Document,
    Method,
    ModelCard,
    ReportedRun,
    Table,
    chart_svg,
    csv_table,
    decimal_text,
    find_registered,
    model_cards,
    write_in_form,
)
from snellen_lab.analyses.charts import analysis_charts, series_of
from snellen_lab.analyses.declaration import AnalysisSpec
from snellen_lab.analyses.group_statistics import (
    DIGITS,
    AnalysisRow,
    AnalysisStatistic,
    Member,
    arrange_by_quantity,
    pooled,
)
from snellen_lab.analyses.model_groups import group_of, why_no_group
from snellen_lab.analyses.observations import Observation, observe
from snellen_lab.papers.printed_tables import PrintedValue, paper_of

ROUNDING = 1e-9
INTERVALS_NOTE = "In brackets: Student's 95% interval of the mean over three or more models, as a sample of similar models."


class PaperComparison(Struct, frozen=True):
    """A number of an analysis next to the same number as the paper prints it."""

    row: AnalysisRow
    printed: PrintedValue
    erratum: str = ""
    """Why the printed number is a known misprint, from the suite's errata; empty if it is not one."""

    @property
    def agrees(self) -> bool:
        """Return whether the two numbers differ by no more than rounding can explain.

        Both the printed number, and the printed values that ours is computed from, are rounded.
        """
        computed = self.row.estimate.value
        if computed is None or self.printed.value is None:
            return False
        rounding_of_printed = 0.5 * 10.0**-self.printed.digits
        tolerance = rounding_of_printed + self.row.slack + ROUNDING
        return abs(computed - float(self.printed.value)) <= tolerance


class AnalysisOutcome(Struct, frozen=True):
    """The result of an analysis."""

    spec: AnalysisSpec
    rows: tuple[AnalysisRow, ...]
    checks: tuple[PaperComparison, ...]
    """Numbers of the paper's models only, next to those that it prints."""
    notes: tuple[str, ...]
    charts: tuple[ChartPanel, ...]

    @property
    def series(self) -> tuple[str, ...]:
        """Return the names of the groups that the chart shows by colour.

        This is () unless it is a radar chart: other charts write the names of groups as labels.
        """
        return tuple(series_of(self.rows)) if self.spec.plot == "radar" else ()

    @property
    def unexplained(self) -> list[PaperComparison]:
        """Return the numbers that the paper prints differently without being known misprints."""
        return [check for check in self.checks if not check.agrees and not check.erratum]

    @property
    def table(self) -> Table:
        """Return a table with a row for each group and method, and a column for each quantity."""
        quantities = list(dict.fromkeys(row.quantity for row in self.rows))
        headings = [grouping.heading for grouping in self.spec.groups]
        has_methods = any(row.method for row in self.rows)
        if has_methods:
            headings.append("method")

        table_rows: list[tuple[Cell, ...]] = []
        for (groups, method, _), row_by_quantity in arrange_by_quantity(self.rows).items():
            labels = [*groups, method] if has_methods else list(groups)
            n_models = max(row.models for row in row_by_quantity.values())
            numbers = [_interval_cell(row_by_quantity.get(quantity)) for quantity in quantities]
            table_rows.append((*labels, n_models, *numbers))

        notes = []
        if self.spec.about:
            notes.append(self.spec.about)
        units = ", ".join(dict.fromkeys(row.unit for row in self.rows if row.unit))
        if units:
            notes.append(f"In {units}.")
        if any(row.statistic.startswith("mean") for row in self.rows):
            notes.append(INTERVALS_NOTE)
        statistics = ", ".join(dict.fromkeys(row.statistic for row in self.rows))
        return Table(
            f"{self.spec.title}: {statistics}",
            (*headings, "models", *quantities),
            tuple(table_rows),
            len(headings),
            tuple(notes),
        )

    @property
    def check_table(self) -> Table:
        """Return a table of the numbers that the paper prints differently."""
        rows = []
        n_agreeing = 0
        for check in self.checks:
            if check.agrees:
                n_agreeing += 1
                continue
            computed = _decimal(check.row.estimate.value, check.printed.digits + 1)
            rows.append(
                (check.printed.location, check.printed.printed, computed, check.erratum or "no")
            )
        title = f"{n_agreeing} of {len(self.checks)} printed figures agree"
        if rows:
            title += "; these do not"
        header = ("printed where", "printed", "computed", "a known misprint")
        return Table(title, header, tuple(rows))


def _interval_cell(row: AnalysisRow | None) -> Cell:
    """Return a number with its interval, as in `53.7 [40.2, 67.2]`; "" if there is none."""
    if row is None or row.estimate.value is None:
        return ""
    digits = DIGITS.get(row.unit, 3)
    estimate = row.estimate
    text = _decimal(estimate.value, digits)
    if estimate.low is not None and estimate.high is not None:
        text += f" [{_decimal(estimate.low, digits)}, {_decimal(estimate.high, digits)}]"
    return text


def _decimal(value: float | None, digits: int) -> str:
    return "" if value is None else decimal_text(value, digits)


def compute_analysis(
    spec: AnalysisSpec,
    reported_runs: Sequence[ReportedRun] = (),
    cards: dict[str, ModelCard] | None = None,
) -> AnalysisOutcome:
    """Carry out an analysis on the models of a paper and on runs.

    Args:
        spec: The analysis.
        reported_runs: Runs, scored as published.
        cards: Model cards by name; by default those that Snellen knows.

    Raises:
        DataError: There is nothing to show, for example no run for values that only runs have.
    """
    all_cards = model_cards() if cards is None else cards
    values = observe(spec, reported_runs, all_cards)
    if not values.observations:
        why = f"no paper prints the values of this analysis; name runs (snellen analyse {spec.name} RUNS)"
        if reported_runs:
            why = " ".join(values.notes)
        raise DataError(f"{spec.name}: {why}")

    def display_order(member: Member) -> tuple[int, float]:
        return get_args(Method).index(member.observation.method), member.x or 0.0

    members = sorted(_group_members(spec, values.observations, all_cards), key=display_order)
    if not any(member.groups for member in members):
        raise DataError(
            f"{spec.name}: no model is in any group; write model cards (docs/analyses.md)"
        )
    rows = _statistic_rows(spec, members)
    # The paper's numbers are compared with those of its own models.
    paper_members = [member for member in members if not member.observation.is_run]
    paper_rows: tuple[AnalysisRow, ...] = ()
    if paper_members:
        paper_rows = _statistic_rows(spec, paper_members) if reported_runs else rows
    return AnalysisOutcome(
        spec,
        rows,
        checks=tuple(_comparisons(spec, paper_rows)),
        notes=(*spec.notes, *values.notes, *_ungrouped_notes(spec, members, all_cards)),
        charts=tuple(analysis_charts(spec, rows, members)),
    )


def _group_members(
    spec: AnalysisSpec, observations: Sequence[Observation], cards: Mapping[str, ModelCard]
) -> Iterator[Member]:
    """Yield each value with the groups of its model.

    A model that lacks a group in one of the groupings gets no groups at all: ().
    """
    for observation in observations:
        groups: list[str] = []
        for grouping in spec.groups:
            group = group_of(observation, grouping, cards)
            if group is not None:
                groups.append(group)
        if len(groups) < len(spec.groups):
            groups = []
        fact = getattr(cards.get(observation.card), spec.groups[0].by or "", None)
        x = float(fact) if isinstance(fact, int) else None
        yield Member(observation, tuple(groups), x)


def _statistic_rows(spec: AnalysisSpec, members: Sequence[Member]) -> tuple[AnalysisRow, ...]:
    statistic: AnalysisStatistic = find_registered("analysis_statistics", spec.statistic)
    return tuple(statistic.compute(pooled(members) if spec.pool else members))


def _ungrouped_notes(
    spec: AnalysisSpec, members: Sequence[Member], cards: Mapping[str, ModelCard]
) -> Iterator[str]:
    """Yield notes that explain why runs, and which of the paper's models, are in no group."""
    ungrouped: dict[str, Observation] = {}
    for member in members:
        if not member.groups:
            ungrouped[member.observation.model] = member.observation
    printed_models = []
    for model, observation in ungrouped.items():
        if not observation.is_run:
            printed_models.append(model)
            continue
        for grouping in spec.groups:
            if group_of(observation, grouping, cards) is None:
                yield f"{why_no_group(observation, grouping, cards)}."
    if printed_models:
        yield f"In no group, of the paper's models: {', '.join(printed_models)}."


def _comparisons(spec: AnalysisSpec, rows: Sequence[AnalysisRow]) -> Iterator[PaperComparison]:
    """Yield each number of an analysis that the paper prints as well, next to the printed one.

    Nothing is yielded if the analysis does not declare where the paper prints its numbers.
    """
    printed = spec.printed
    if printed is None or not rows:
        return
    paper = paper_of(spec.suite)
    errata = {erratum.location: erratum.why for erratum in paper.errata}
    for cell in paper.values(printed.table):
        if any(cell.labels.get(label) != text for label, text in printed.rows.items()):
            continue
        groups = tuple(cell.labels.get(label, "") for label in printed.groups)
        for row in rows:
            if groups != row.groups[: len(groups)]:
                continue
            if cell.labels.get("method", row.method) != row.method:
                continue
            column = printed.columns.get(f"{row.method} {row.quantity}")
            if not column:
                column = printed.columns.get(row.quantity, row.quantity)
            if column == cell.column:
                yield PaperComparison(row, cell, errata.get(cell.location, ""))


def flat_analysis_row(row: AnalysisRow, spec: AnalysisSpec) -> dict[str, Any]:
    """Return a row as a dict of plain values, with each group under the heading of its column."""
    flat: dict[str, Any] = {"analysis": spec.name}
    for grouping, group in zip(spec.groups, row.groups, strict=True):
        flat[grouping.heading] = group
    for name, value in asdict(row).items():
        if name not in ("groups", "estimate", "slack"):
            flat[name] = value
    flat.update(asdict(row.estimate))
    return flat


def write_analysis(outcome: AnalysisOutcome, path: Path) -> Path:
    """Write an analysis as `.html` (one page that opens offline), `.md`, `.csv`, `.json`, or its first chart as `.svg`.

    Raises DataError for another suffix or an analysis without a chart, and StoreError if the file cannot be written.
    """
    return write_in_form(path, "an analysis", outcome, FORMS)


def _tables(outcome: AnalysisOutcome) -> list[Table]:
    """Return the table of an analysis and, if it repeats printed numbers, the table of these checks."""
    tables = [outcome.table]
    if outcome.checks:
        tables.append(outcome.check_table)
    return tables


def _document(outcome: AnalysisOutcome) -> Document:
    """Return an analysis as a document, which can be written as HTML or Markdown."""
    spec = outcome.spec
    lines = list(outcome.notes)
    if spec.about:
        lines.insert(0, spec.about)
    document = Document(
        f"Snellen analysis: {spec.title}",
        kicker=f"Snellen analysis · {spec.name}",
        heading=(spec.title,),
        lines=lines,
    )
    section = document.section("analysis", spec.title)
    section.charts(outcome.charts, INTERVALS_NOTE, outcome.series)
    for table in _tables(outcome):
        section.table(table)
    return document


def _page(outcome: AnalysisOutcome) -> str:
    """Return an analysis as an HTML page."""
    return _document(outcome).html()


def _markdown(outcome: AnalysisOutcome) -> str:
    """Return an analysis as Markdown."""
    return _document(outcome).markdown(outcome.spec.title, outcome.notes)


def _csv(outcome: AnalysisOutcome) -> str:
    """Return the numbers of an analysis as CSV, one row per number."""
    return csv_table([flat_analysis_row(row, outcome.spec) for row in outcome.rows])


def _json(outcome: AnalysisOutcome) -> str:
    """Return the numbers of an analysis as a JSON list of objects."""
    rows = [flat_analysis_row(row, outcome.spec) for row in outcome.rows]
    return json.dumps(rows, indent=1, ensure_ascii=False) + "\n"


def _svg(outcome: AnalysisOutcome) -> str:
    """Return the first chart of an analysis as SVG. Raises DataError if it has no chart."""
    if not outcome.charts:
        raise DataError(f"{outcome.spec.name} has no plot; write .html, .md, .csv or .json")
    return chart_svg(outcome.charts[0].drawing, outcome.series)


FORMS: dict[str, Callable[[AnalysisOutcome], str]] = {
    ".html": _page,
    ".md": _markdown,
    ".csv": _csv,
    ".json": _json,
    ".svg": _svg,
}
