"""Every cell's own number: one row per cell, one column per model, and a dot plot.

What a study found, and the files that it is written to.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from msgspec import Struct

from snellen.plugin_api import (
    DASH,
    SHARE,
    AbsentCell,
    Block,
    Cell,
    ChartBlock,
    ChartPanel,
    Head,
    IntervalRow,
    NumberCell,
    PlotPoint,
    Section,
    Table,
    TableBlock,
    axis_of,
    capitalised,
    csv_table,
    escape,
    interval_chart,
    markdown_tables,
    offline_document,
    percent,
    short_name,
    write_in_form,
)
from snellen_lab.studies.declaration import StudySpec
from snellen_lab.studies.series import (
    CellScores,
    StudyNumbers,
    StudyPart,
    StudyRow,
    StudySeries,
    StudyStatistic,
    flat_study_row,
    study_row,
)

NO_CELL = "the cell has no such number"
ONLY_CELL = "as declared"
"""The label of the cell of a study in which nothing varies."""


def _compute(numbers: StudyNumbers) -> StudyPart:
    rows = [
        study_row(series, "cells", "value", scores.estimate, cell=scores.label)
        for series in numbers.series
        for scores in _scores(series)
    ]
    return StudyPart(tuple(rows), tuple(_tables(numbers)), tuple(_charts(numbers)))


def _scores(series: StudySeries) -> list[CellScores]:
    return [*series.cells, *([series.baseline] if series.baseline else [])]


class _Block(Struct, frozen=True):
    """One metric on one benchmark, of all models."""

    name: str
    """The benchmark, with the protocol where cells have several."""
    series: tuple[StudySeries, ...]

    @property
    def chance(self) -> float | None:
        return next((series.chance for series in self.series if series.chance is not None), None)

    @property
    def by_label(self) -> dict[str, dict[str, CellScores]]:
        """Cell -> model -> its scores."""
        cells: dict[str, dict[str, CellScores]] = defaultdict(dict)
        for series in self.series:
            for scores in _scores(series):
                cells[scores.label][series.model] = scores
        return cells


def _blocks(numbers: StudyNumbers) -> dict[str, list[_Block]]:
    """The blocks of each metric, benchmarks in order."""
    members: dict[str, dict[str, list[StudySeries]]] = defaultdict(lambda: defaultdict(list))
    for study_series in numbers.series:
        place = (
            f"{study_series.place}, {study_series.split}"
            if study_series.split
            else study_series.place
        )
        members[study_series.metric][place].append(study_series)
    return {
        metric: [_Block(name, tuple(series)) for name, series in by_name.items()]
        for metric, by_name in members.items()
    }


def _tables(numbers: StudyNumbers) -> list[Table]:
    """One for each metric."""
    labels = [cell.label for cell in numbers.grid.cells]
    absent = {(cell.model, cell.spec.label): cell.why for cell in numbers.cells}
    tables = []
    for blocks in _blocks(numbers).values():
        row, unit = blocks[0].series[0].row, blocks[0].series[0].unit
        has_chance = any(block.chance is not None for block in blocks)
        rows: list[tuple[Cell, ...]] = []
        for block in blocks:
            guess = [DASH if block.chance is None else percent(block.chance)] if has_chance else []
            by_label = block.by_label
            for label in labels:
                scores = by_label[label]
                figures = (
                    NumberCell(unit, scores[model].estimate)
                    if model in scores
                    else AbsentCell(absent.get((model, label)) or NO_CELL)
                    for model in numbers.models
                )
                rows.append((block.name, label or ONLY_CELL, *guess, *figures))
        header = ("benchmark", "cell", *(["chance"] if has_chance else []), *numbers.models)
        tables.append(
            Table(f"{capitalised(row.heading)} in each cell", header, tuple(rows), label_columns=2)
        )
    return tables


def _charts(numbers: StudyNumbers) -> Iterator[ChartPanel]:
    """One panel for each block: cells from top to bottom, a lane and a mark for each model."""
    for blocks in _blocks(numbers).values():
        for block in blocks:
            first = block.series[0]
            by_label = block.by_label
            lanes = {
                cell.label: tuple(
                    PlotPoint(numbers.models.index(model), model, scores.estimate, first.unit)
                    for model, scores in by_label[cell.label].items()
                )
                for cell in numbers.grid.cells
            }
            axis = axis_of(
                first.row, [point.estimate for lane in lanes.values() for point in lane], first.unit
            )
            chance = block.chance if first.unit == SHARE else None
            rows = [
                IntervalRow(label or ONLY_CELL, lane, chance)
                for label, lane in lanes.items()
                if lane
            ]
            title = f"{capitalised(first.row.display_name)}, {block.name}"
            yield ChartPanel(title, interval_chart(title, rows, axis))


CELLS = StudyStatistic("Cells", _compute)


WHISKERS = "A dot a cell; whiskers are 95% intervals, the dashed line is what guessing gives. Point at a mark for its numbers."
STUDY_FILES = ("study.html", "study.md", "results.csv", "results.json")
RUN_HEADER = ("model", "cell", "asked", "answered elsewhere", "failed", "folder or reason")


class StudyOutcome(Struct, frozen=True):
    """All that a study found."""

    study: StudySpec
    folder: Path
    numbers: StudyNumbers
    parts: Mapping[str, StudyPart]
    """By the title of each statistic."""
    notes: tuple[str, ...] = ()

    @property
    def rows(self) -> list[StudyRow]:
        return [row for part in self.parts.values() for row in part.rows]

    def runs_table(self) -> Table:
        """What was asked in each cell, and where it is kept."""
        rows = []
        for cell in self.numbers.cells:
            if cell.run is None:
                rows.append((cell.model, cell.spec.label or "all", 0, 0, 0, cell.why))
                continue
            label = cell.spec.label or "all"
            rows.append(
                (
                    cell.model,
                    label,
                    cell.run.asked,
                    cell.run.reused,
                    cell.run.failed,
                    cell.run.folder.name,
                )
            )
        return Table(f"{len(rows)} cells", RUN_HEADER, tuple(rows), label_columns=2)


def write_study(outcome: StudyOutcome, path: Path) -> Path:
    """Write a study as `.html` (one page that opens offline), `.md`, `.csv` or `.json`.

    Raises DataError for another suffix, StoreError when the file cannot be written.
    """
    return write_in_form(path, "a study", outcome, _FORMS)


def _page(outcome: StudyOutcome) -> str:
    sections = [Section(f"part-{number}", *part) for number, part in enumerate(_parts(outcome))]
    head = Head(
        f"Snellen study · {outcome.study.name}",
        (outcome.study.title,),
        lines=tuple(_facts(outcome)),
    )
    runs = Section("runs", "Runs", (TableBlock(outcome.runs_table()),))
    return offline_document(f"Snellen study: {outcome.study.title}", head, [*sections, runs])


def _parts(outcome: StudyOutcome) -> Iterator[tuple[str, tuple[Block, ...]]]:
    """The title of each statistic and what is shown of it."""
    models = tuple(outcome.numbers.models)
    for title, part in outcome.parts.items():
        charts = [ChartBlock(tuple(part.charts), WHISKERS, models)] if part.charts else []
        yield title, (*charts, *map(TableBlock, part.tables))


def _facts(outcome: StudyOutcome) -> list[str]:
    return [*filter(None, (outcome.study.about,)), *outcome.study.notes, *outcome.notes]


def _markdown(outcome: StudyOutcome) -> str:
    lines = [f"# {escape(outcome.study.title)}", ""]
    for fact in _facts(outcome):
        lines += [escape(fact), ""]
    for title, part in outcome.parts.items():
        lines += [f"## {title}", "", *markdown_tables(part.tables, 3)]
    return "\n".join([*lines, "## Runs", "", *markdown_tables([outcome.runs_table()], 3)])


def _csv(outcome: StudyOutcome) -> str:
    rows = [flat_study_row(row) for row in outcome.rows]
    return csv_table(
        [
            {name: short_name(x) if isinstance(x, str) else x for name, x in row.items()}
            for row in rows
        ]
    )


def _json(outcome: StudyOutcome) -> str:
    return (
        json.dumps([flat_study_row(row) for row in outcome.rows], indent=1, ensure_ascii=False)
        + "\n"
    )


_FORMS: dict[str, Callable[[StudyOutcome], str]] = {
    ".html": _page,
    ".md": _markdown,
    ".csv": _csv,
    ".json": _json,
}
