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
    SHARE,
    AbsentCell,
    Cell,
    ChartAxis,
    ChartPanel,
    Document,
    IntervalRow,
    NumberCell,
    PlotPoint,
    Table,
    csv_table,
    interval_chart,
    short_name,
    write_in_form,
)
from snellen_lab.cell_texts import percent_or_dash
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

NO_CELL = "the cell has no such value"
ONLY_CELL = "as declared"
"""Label of the only cell of a study without factors."""


def _capitalise(text: str) -> str:
    return text[:1].upper() + text[1:]


def _compute(numbers: StudyNumbers) -> StudyPart:
    """Return the score of each cell of a study, as rows, tables and charts."""
    rows = []
    for series in numbers.series:
        for scores in _scores(series):
            row = study_row(series, "cells", "value", scores.estimate, cell=scores.label)
            rows.append(row)
    return StudyPart(tuple(rows), tuple(_tables(numbers)), tuple(_charts(numbers)))


def _scores(series: StudySeries) -> list[CellScores]:
    """Return the scores of all cells, those of the baseline last."""
    if series.baseline is None:
        return list(series.cells)
    return [*series.cells, series.baseline]


class _Block(Struct, frozen=True):
    """The series of all models for one metric on one benchmark."""

    name: str
    """The benchmark, with the protocol where cells have several."""
    series: tuple[StudySeries, ...]

    @property
    def chance(self) -> float | None:
        """Chance level of the benchmark; None if it has none."""
        for series in self.series:
            if series.chance is not None:
                return series.chance
        return None

    @property
    def by_label(self) -> dict[str, dict[str, CellScores]]:
        """Scores by label of the cell and by model."""
        cells: dict[str, dict[str, CellScores]] = defaultdict(dict)
        for series in self.series:
            for scores in _scores(series):
                cells[scores.label][series.model] = scores
        return cells


def _blocks(numbers: StudyNumbers) -> dict[str, list[_Block]]:
    """Return the blocks by metric, with the benchmarks in order."""
    series_of_blocks: dict[tuple[str, str], list[StudySeries]] = defaultdict(list)
    for series in numbers.series:
        name = series.place
        if series.split:
            name += f", {series.split}"
        series_of_blocks[series.metric, name].append(series)

    blocks_by_metric: dict[str, list[_Block]] = defaultdict(list)
    for (metric, name), block_series in series_of_blocks.items():
        blocks_by_metric[metric].append(_Block(name, tuple(block_series)))
    return blocks_by_metric


def _tables(numbers: StudyNumbers) -> list[Table]:
    """Return a table for each metric: a row per benchmark and cell, a column per model."""
    labels = [cell.label for cell in numbers.grid.cells]
    absent = {(cell.model, cell.spec.label): cell.why for cell in numbers.cells}
    tables = []
    for blocks in _blocks(numbers).values():
        first = blocks[0].series[0]
        has_chance = any(block.chance is not None for block in blocks)
        header = ["benchmark", "cell"]
        if has_chance:
            header.append("chance")
        header.extend(numbers.models)

        rows: list[tuple[Cell, ...]] = []
        for block in blocks:
            scores_by_label = block.by_label
            for label in labels:
                row: list[Cell] = [block.name, label or ONLY_CELL]
                if has_chance:
                    row.append(percent_or_dash(block.chance))
                scores = scores_by_label[label]
                for model in numbers.models:
                    if model in scores:
                        row.append(NumberCell(first.unit, scores[model].estimate))
                    else:
                        row.append(AbsentCell(absent.get((model, label)) or NO_CELL))
                rows.append(tuple(row))
        title = f"{_capitalise(first.row.heading)} in each cell"
        tables.append(Table(title, tuple(header), tuple(rows), label_columns=2))
    return tables


def _charts(numbers: StudyNumbers) -> Iterator[ChartPanel]:
    """Yield an interval chart for each block, with a row per cell and a mark per model."""
    for blocks in _blocks(numbers).values():
        for block in blocks:
            first = block.series[0]
            chance = block.chance if first.unit == SHARE else None
            scores_by_label = block.by_label
            rows = []
            estimates = []
            # Cells with the same label share a row.
            for label in dict.fromkeys(cell.label for cell in numbers.grid.cells):
                points = []
                for model, scores in scores_by_label[label].items():
                    series = numbers.models.index(model)
                    points.append(PlotPoint(series, model, scores.estimate, first.unit))
                    estimates.append(scores.estimate)
                if points:
                    rows.append(IntervalRow(label or ONLY_CELL, tuple(points), chance))
            axis = ChartAxis.of_metric(first.row, estimates, first.unit)
            title = f"{_capitalise(first.row.display_name)}, {block.name}"
            yield ChartPanel(title, interval_chart(title, rows, axis))


CELLS = StudyStatistic("Cells", _compute)


WHISKERS = "One dot per cell; whiskers are 95% intervals, and the dashed line is chance. Point at a mark for its numbers."
STUDY_FILES = ("study.html", "study.md", "results.csv", "results.json")
RUN_HEADER = ("model", "cell", "asked", "answered elsewhere", "failed", "folder or reason")


class StudyOutcome(Struct, frozen=True):
    """The results of a study."""

    study: StudySpec
    folder: Path
    numbers: StudyNumbers
    parts: Mapping[str, StudyPart]
    """Results of each statistic, by its title."""
    notes: tuple[str, ...] = ()

    @property
    def rows(self) -> list[StudyRow]:
        """Return the rows of all parts of the study."""
        return [row for study_part in self.parts.values() for row in study_part.rows]

    def runs_table(self) -> Table:
        """Return a table with the numbers of requests and the folder of each cell."""
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
                    cell.run.distinct_requests,
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


def _document(outcome: StudyOutcome) -> Document:
    """Return a study as a document of sections, which can be written as HTML or Markdown."""
    document = Document(
        f"Snellen study: {outcome.study.title}",
        kicker=f"Snellen study · {outcome.study.name}",
        heading=(outcome.study.title,),
        lines=_facts(outcome),
    )
    for number, (title, study_part) in enumerate(outcome.parts.items()):
        section = document.section(f"part-{number}", title)
        section.charts(list(study_part.charts), WHISKERS, outcome.numbers.models)
        for table in study_part.tables:
            section.table(table)
    document.section("runs", "Runs").table(outcome.runs_table())
    return document


def _page(outcome: StudyOutcome) -> str:
    return _document(outcome).html()


def _facts(outcome: StudyOutcome) -> list[str]:
    return [*filter(None, (outcome.study.about,)), *outcome.study.notes, *outcome.notes]


def _markdown(outcome: StudyOutcome) -> str:
    return _document(outcome).markdown(outcome.study.title, _facts(outcome))


def _csv(outcome: StudyOutcome) -> str:
    """Return the rows of a study as CSV, with long texts shortened."""
    records = []
    for row in outcome.rows:
        record = {}
        for name, value in flat_study_row(row).items():
            record[name] = short_name(value) if isinstance(value, str) else value
        records.append(record)
    return csv_table(records)


def _json(outcome: StudyOutcome) -> str:
    """Return the rows of a study as a JSON list."""
    records = [flat_study_row(row) for row in outcome.rows]
    return json.dumps(records, indent=1, ensure_ascii=False) + "\n"


_FORMS: dict[str, Callable[[StudyOutcome], str]] = {
    ".html": _page,
    ".md": _markdown,
    ".csv": _csv,
    ".json": _json,
}
