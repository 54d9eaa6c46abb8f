"""The numbers of a study: one metric of one model on one benchmark, over all cells; and what a statistic makes of them:
rows for CSV and JSON, tables and charts for people."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict

from snellen.plugin_api import (
    OVERALL,
    ChartPanel,
    Estimate,
    Method,
    MetricRow,
    Result,
    ScoredBenchmark,
    ScoredRun,
    Table,
    aggregate_run,
    declared_row,
    estimate_mean,
    find_registered,
    headline_metric,
    mean_chance,
    unit_multiplier,
)
from snellen_lab.studies.cells import CellGrid, CellSpec

Question = tuple[str, int]
"""Sample id and round."""


class StudyCell(Struct, frozen=True):
    """One cell of a study for one model."""

    model: str
    """Name that the caller used."""
    spec: CellSpec
    run: ScoredRun | None = None
    """None if the cell was not run."""
    why: str = ""
    """Why it was not run."""
    full_benchmarks: Mapping[str, str] = {}
    """Names of the original benchmarks by name of their sample or variant."""


class CellScores(Struct, frozen=True):
    """A metric in one cell."""

    cell: StudyCell
    benchmark: str
    """The evaluated benchmark: the original, or a sample or variant of it."""
    estimate: Estimate
    values: Mapping[Question, float] = {}
    """Value of each question; empty if the metric is not a mean over questions, or for a mean over benchmarks."""

    @property
    def label(self) -> str:
        return self.cell.spec.label


class StudySeries(Struct, frozen=True, dict=True):
    """One metric of one model on one benchmark (`*`: the mean over all), in all cells that were run."""

    model: str
    benchmark: str
    protocol: str
    """Protocol of all cells; empty if it varies between cells."""
    method: Method | None
    """Method of all cells; None if it varies."""
    split: str
    """The protocol of this series if a cell has several protocols; else empty."""
    metric: str
    unit: str
    cells: tuple[CellScores, ...]
    """The cells of the grid, in its order."""
    baseline: CellScores | None
    groups: Mapping[Question, str]
    """The group (image) of each question."""
    chance: float | None = None

    @property
    def row(self) -> MetricRow:
        return declared_row(self.metric)

    @property
    def place(self) -> str:
        """The benchmark as text."""
        return "mean of the benchmarks" if self.benchmark == OVERALL else self.benchmark

    @property
    def bounds(self) -> tuple[float, float]:
        """The bounds of a value, in the unit of the series."""
        scale = unit_multiplier(self.unit)
        low = -math.inf if self.row.low is None else scale * self.row.low
        high = math.inf if self.row.high is None else scale * self.row.high
        return low, high

    @cached_property
    def common(self) -> tuple[Question, ...]:
        """The questions that have a value in every cell of the grid, in order."""
        if not self.cells:
            return ()
        first, *other_values = (cell.values for cell in self.cells)
        return tuple(
            question for question in first if all(question in values for values in other_values)
        )

    @property
    def n_incomplete(self) -> int:
        """Number of questions that have a value in some cells but not in all."""
        return len({question for cell in self.cells for question in cell.values}) - len(self.common)

    @property
    def levels(self) -> list[float]:
        """The value in each cell: over the common questions for a mean over questions, else over all."""
        if self.common:
            return [
                math.fsum(cell.values[q] for q in self.common) / len(self.common)
                for cell in self.cells
            ]
        return [cell.estimate.value for cell in self.cells if cell.estimate.value is not None]

    def mean_of_questions(self) -> Estimate:
        """Return the mean over cells and common questions. Its interval treats images as a sample, but not cells."""
        values = [
            math.fsum(cell.values[q] for cell in self.cells) / len(self.cells) for q in self.common
        ]
        groups = [self.groups[question] for question in self.common]
        return estimate_mean(values, groups, bounds=self.bounds, unscored=self.n_incomplete)

    def difference(
        self, first: Mapping[Question, float], second: Mapping[Question, float]
    ) -> Estimate:
        """Return the paired difference, first minus second, on the common questions."""
        low, high = self.bounds
        common = [question for question in first if question in second]
        return estimate_mean(
            [first[question] - second[question] for question in common],
            [self.groups[question] for question in common],
            bounds=(low - high, high - low),
        )


class StudyNumbers(Struct, frozen=True):
    """All values of a study, from which its statistics are computed."""

    grid: CellGrid
    cells: tuple[StudyCell, ...]
    series: tuple[StudySeries, ...]

    @property
    def models(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(cell.model for cell in self.cells))

    def of_benchmarks(self) -> list[StudySeries]:
        """Return the series of single benchmarks, without means over benchmarks."""
        return [series for series in self.series if series.benchmark != OVERALL]


def study_numbers(
    grid: CellGrid, cells: Sequence[StudyCell], metrics: Sequence[str]
) -> StudyNumbers:
    """Return all series of a study: the cells of a model, benchmark and metric, and of a protocol if cells have several.

    Args:
        grid: The factors of the study with their levels.
        cells: The combinations of levels, each with its run.
        metrics: Rows to include; if empty, the headline of each benchmark.
    """
    parts_by_series: dict[tuple[str, str, str, str], list[_Part]] = defaultdict(list)
    has_several_protocols = _has_several_protocols(cells)
    for cell in cells:
        if not cell.run:
            continue
        for part in _parts(cell, cell.run, metrics):
            protocol = part.result.protocol if has_several_protocols else ""
            key = (cell.model, part.whole, protocol, part.result.metric)
            parts_by_series[key].append(part)

    # Means over benchmarks come after the benchmarks.
    ordered = sorted(parts_by_series.items(), key=lambda item: item[0][1] == OVERALL)
    series = tuple(_series(key, members) for key, members in ordered)
    return StudyNumbers(grid, tuple(cells), series)


class _Part(Struct, frozen=True):
    """A result of a cell's run, with what lies behind it."""

    whole: str
    result: Result
    scores: CellScores
    groups: dict[Question, str]
    chance: float | None


def _has_several_protocols(cells: Sequence[StudyCell]) -> bool:
    """Return whether a benchmark of a run was evaluated under several protocols."""
    for cell in cells:
        if not cell.run:
            continue
        for use in cell.run.manifest.benchmarks:
            if len(use.protocols) > 1:
                return True
    return False


def _parts(cell: StudyCell, run: ScoredRun, metrics: Sequence[str]) -> Iterator[_Part]:
    """Yield the results of a cell that a study compares: those of each benchmark, and their mean over several.

    Args:
        cell: The cell.
        run: Its run.
        metrics: The metrics to compare; the headline of each benchmark if empty.
    """
    benchmarks = {scored.spec.name: scored for scored in run.benchmarks}
    headlines = {headline_metric(scored.spec) for scored in benchmarks.values()}
    for result in aggregate_run(run):
        if result.slice:
            continue
        if result.benchmark == OVERALL:
            is_mean_of_all = result.dimension == OVERALL and len(benchmarks) > 1
            if not is_mean_of_all:
                continue
        scored = benchmarks.get(result.benchmark)
        headline_rows = headlines if scored is None else {headline_metric(scored.spec)}
        if result.metric in (metrics or headline_rows):
            yield _part(cell, run, result, scored)


def _part(cell: StudyCell, run: ScoredRun, result: Result, scored: ScoredBenchmark | None) -> _Part:
    """Return a result of a cell with the value of each question, or without them if it is a mean over benchmarks."""
    if scored is None:
        chance = mean_chance(run.benchmarks) if result.metric == "accuracy" else None
        return _Part(OVERALL, result, CellScores(cell, OVERALL, result.estimate), {}, chance)
    scale = unit_multiplier(result.unit)
    values = {
        (score.sample_id, score.turn): scale * score.value
        for score in scored.score_rows.get((result.protocol, result.method, result.metric), ())
        if score.value is not None
    }
    return _Part(
        cell.full_benchmarks.get(result.benchmark, result.benchmark),
        result,
        CellScores(cell, result.benchmark, result.estimate, values),
        {question: scored.samples[question[0]].group for question in values},
        scored.chance_accuracy if result.metric == "accuracy" else None,
    )


def _series(key: tuple[str, str, str, str], cell_numbers: Sequence[_Part]) -> StudySeries:
    """Return the cells of one model, benchmark, slice and metric as a series, with the baseline cell apart."""
    model, benchmark, split, metric = key
    protocols = {cell_number.result.protocol for cell_number in cell_numbers}
    methods = {cell_number.result.method for cell_number in cell_numbers}
    cells: list[CellScores] = []
    baseline: CellScores | None = None
    groups: dict[Question, str] = {}
    chance: float | None = None
    for cell_number in cell_numbers:
        groups.update(cell_number.groups)
        if not cell_number.scores.cell.spec.is_baseline:
            cells.append(cell_number.scores)
        elif baseline is None:
            baseline = cell_number.scores
        if chance is None:
            chance = cell_number.chance

    return StudySeries(
        model,
        benchmark,
        protocols.pop() if len(protocols) == 1 else "",
        methods.pop() if len(methods) == 1 else None,
        split,
        metric,
        cell_numbers[0].result.unit,
        tuple(cells),
        baseline,
        groups,
        chance,
    )


# --- what a statistic gives ------------------------------------------------------------------------------------------


class StudyRow(Struct, frozen=True, kw_only=True):
    """One number of a study."""

    statistic: str
    quantity: str
    """What the number is: mean, share of variance ..."""
    model: str
    benchmark: str
    protocol: str
    metric: str
    unit: str
    estimate: Estimate
    cell: str = ""
    """The cell, source of variance or sample that it is about."""
    against: str = ""
    """What it is compared with: another cell, or another metric."""
    cells: int = 0
    """How many cells it rests on."""


class StudyPart(Struct, frozen=True):
    """All that one statistic found."""

    rows: tuple[StudyRow, ...] = ()
    tables: tuple[Table, ...] = ()
    charts: tuple[ChartPanel, ...] = ()


def part_of(
    rows: Sequence[StudyRow], table: Table, other_tables: Sequence[Table] = ()
) -> StudyPart:
    """Return rows with their tables, which are left out if the first one is empty."""
    return StudyPart(tuple(rows), (table, *other_tables) if table.rows else ())


class StudyStatistic(Struct, frozen=True):
    """One statistic (the registry's group `study_statistics`)."""

    title: str
    """Heading of its section."""
    compute: Callable[[StudyNumbers], StudyPart]


def compute_statistics(numbers: StudyNumbers, statistics: Iterable[str]) -> dict[str, StudyPart]:
    """Return the result of each named statistic, by its title. Raises UnknownNameError."""
    declared_statistics: list[StudyStatistic] = [
        find_registered("study_statistics", name) for name in statistics
    ]
    return {statistic.title: statistic.compute(numbers) for statistic in declared_statistics}


def study_row(
    series: StudySeries,
    statistic: str,
    quantity: str,
    estimate: Estimate,
    *,
    cell: str = "",
    against: str = "",
    unit: str | None = None,
) -> StudyRow:
    """Return a row about a series; its unit is the metric's unless another one is named."""
    return StudyRow(
        statistic=statistic,
        quantity=quantity,
        model=series.model,
        benchmark=series.benchmark,
        protocol=series.protocol,
        metric=series.metric,
        unit=series.unit if unit is None else unit,
        estimate=estimate,
        cell=cell,
        against=against,
        cells=len(series.cells),
    )


def bare(value: float | None, n: int = 0) -> Estimate:
    """Return an estimate without an interval."""
    return Estimate(value, None, None, None, n)


def flat_study_row(row: StudyRow) -> dict[str, Any]:
    """Return a row as a flat dict of plain values."""
    fields = asdict(row)
    return {
        **{name: value for name, value in fields.items() if name != "estimate"},
        **asdict(row.estimate),
    }
