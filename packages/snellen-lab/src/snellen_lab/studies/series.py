"""The numbers of a study, and the results of a statistic: rows for CSV and JSON, tables and charts for people.

A study runs models under all combinations of some settings, such as prompts and seeds. Such a combination is a cell. A
series is one metric of one model on one benchmark, over all cells.
"""

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
"""Id of a sample and index of one of its rounds."""


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
        """Return the smallest and the largest possible value, in the unit of the series.

        A missing bound is infinite.
        """
        scale = unit_multiplier(self.unit)
        low = -math.inf
        high = math.inf
        if self.row.low is not None:
            low = scale * self.row.low
        if self.row.high is not None:
            high = scale * self.row.high
        return low, high

    @cached_property
    def common(self) -> tuple[Question, ...]:
        """Return the questions that have a value in every cell; () if there are none."""
        if not self.cells:
            return ()
        first, *others = self.cells
        common = []
        for question in first.values:
            if all(question in other.values for other in others):
                common.append(question)
        return tuple(common)

    @property
    def n_incomplete(self) -> int:
        """Return the number of questions that have a value in some cells but not in all."""
        questions: set[Question] = set()
        for cell in self.cells:
            questions.update(cell.values)
        return len(questions) - len(self.common)

    @property
    def levels(self) -> list[float]:
        """Return the value of the metric in each cell.

        If it is a mean over questions, only questions that have a value in every cell count.
        """
        if not self.common:
            return [cell.estimate.value for cell in self.cells if cell.estimate.value is not None]
        means = []
        for cell in self.cells:
            total = math.fsum(cell.values[question] for question in self.common)
            means.append(total / len(self.common))
        return means

    def mean_of_questions(self) -> Estimate:
        """Return the mean over all cells and over the questions that have a value in every cell.

        Its interval says what other images of the same kind would give in the same cells. It does
        not cover the choice of cells.
        """
        question_means = []
        groups = []
        for question in self.common:
            total = math.fsum(cell.values[question] for cell in self.cells)
            question_means.append(total / len(self.cells))
            groups.append(self.groups[question])
        return estimate_mean(question_means, groups, bounds=self.bounds, unscored=self.n_incomplete)

    def difference(
        self, first: Mapping[Question, float], second: Mapping[Question, float]
    ) -> Estimate:
        """Return the mean difference (first minus second) over the questions with both values.

        Args:
            first: A value for each question.
            second: Another value for each question.
        """
        differences = []
        groups = []
        for question, value in first.items():
            if question in second:
                differences.append(value - second[question])
                groups.append(self.groups[question])
        low, high = self.bounds
        return estimate_mean(differences, groups, bounds=(low - high, high - low))


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
    """Sort the results of all runs of a study into series: one for each model, benchmark and metric.

    If a benchmark was evaluated under several protocols, each has a series of its own.

    Args:
        grid: The factors of the study with their levels.
        cells: The combinations of levels, each with its run.
        metrics: Metrics to include; if empty, the headline metric of each benchmark.
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

    benchmark_series = []
    mean_series = []  # means over benchmarks come last
    for key, parts in parts_by_series.items():
        _, benchmark, _, _ = key
        series = _series(key, parts)
        if benchmark == OVERALL:
            mean_series.append(series)
        else:
            benchmark_series.append(series)
    return StudyNumbers(grid, tuple(cells), (*benchmark_series, *mean_series))


class _Part(Struct, frozen=True):
    """One result of the run of a cell, with the values of its questions."""

    whole: str
    """The benchmark; for a sample or variant of a benchmark, the full, original one."""
    result: Result
    scores: CellScores
    groups: dict[Question, str]
    """The group (image) of each question."""
    chance: float | None
    """Accuracy of random answers; None for another metric."""


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
    """Yield the results of a cell that a study compares: of each benchmark, and their mean.

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
    """Return a result of a cell with the value of each question.

    Args:
        cell: The cell.
        run: Its run.
        result: A result of the run.
        scored: The benchmark of the result; None if the result is a mean over benchmarks, without values of questions.
    """
    is_accuracy = result.metric == "accuracy"
    if scored is None:
        return _Part(
            whole=OVERALL,
            result=result,
            scores=CellScores(cell, OVERALL, result.estimate),
            groups={},
            chance=mean_chance(run.benchmarks) if is_accuracy else None,
        )
    scale = unit_multiplier(result.unit)
    values = {}
    groups = {}
    for score in scored.score_rows.get((result.protocol, result.method, result.metric), ()):
        if score.value is not None:
            question = (score.sample_id, score.turn)
            values[question] = scale * score.value
            groups[question] = scored.samples[score.sample_id].group
    return _Part(
        whole=cell.full_benchmarks.get(result.benchmark, result.benchmark),
        result=result,
        scores=CellScores(cell, result.benchmark, result.estimate, values),
        groups=groups,
        chance=scored.chance_accuracy if is_accuracy else None,
    )


def _series(key: tuple[str, str, str, str], parts: Sequence[_Part]) -> StudySeries:
    """Join the results of all cells into a series. The baseline cell is kept apart.

    Args:
        key: Model, benchmark, protocol ("" unless cells have several) and metric.
        parts: The result of each cell.
    """
    model, benchmark, split, metric = key
    protocols = {part.result.protocol for part in parts}
    methods = {part.result.method for part in parts}
    cells: list[CellScores] = []
    baseline: CellScores | None = None
    groups: dict[Question, str] = {}
    chance: float | None = None
    for part in parts:
        groups.update(part.groups)
        if not part.scores.cell.spec.is_baseline:
            cells.append(part.scores)
        elif baseline is None:
            baseline = part.scores
        if chance is None:
            chance = part.chance

    return StudySeries(
        model=model,
        benchmark=benchmark,
        protocol=protocols.pop() if len(protocols) == 1 else "",
        method=methods.pop() if len(methods) == 1 else None,
        split=split,
        metric=metric,
        unit=parts[0].result.unit,
        cells=tuple(cells),
        baseline=baseline,
        groups=groups,
        chance=chance,
    )


# --- what a statistic gives ------------------------------------------------------------------------------------------


class StudyRow(Struct, frozen=True, kw_only=True):
    """One number of a study."""

    statistic: str
    quantity: str
    """Name of the number, such as `mean` or `share of variance`."""
    model: str
    benchmark: str
    protocol: str
    metric: str
    unit: str
    estimate: Estimate
    cell: str = ""
    """The cell, source of variance or sample that the number belongs to."""
    against: str = ""
    """The other cell, or other metric, in a comparison."""
    cells: int = 0
    """Number of cells that it is computed from."""


class StudyPart(Struct, frozen=True):
    """The results of one statistic."""

    rows: tuple[StudyRow, ...] = ()
    tables: tuple[Table, ...] = ()
    charts: tuple[ChartPanel, ...] = ()


def part_of(
    rows: Sequence[StudyRow], table: Table, other_tables: Sequence[Table] = ()
) -> StudyPart:
    """Return the results of a statistic. If the first table is empty, all tables are left out."""
    if not table.rows:
        return StudyPart(tuple(rows))
    return StudyPart(tuple(rows), (table, *other_tables))


class StudyStatistic(Struct, frozen=True):
    """One statistic (the registry's group `study_statistics`)."""

    title: str
    """Heading of its section."""
    compute: Callable[[StudyNumbers], StudyPart]


def compute_statistics(numbers: StudyNumbers, statistics: Iterable[str]) -> dict[str, StudyPart]:
    """Compute statistics by their registered names.

    Returns:
        The results of each statistic, by its title.

    Raises:
        UnknownNameError: If a name is not registered.
    """
    declared: list[StudyStatistic] = []
    for name in statistics:
        declared.append(find_registered("study_statistics", name))
    return {statistic.title: statistic.compute(numbers) for statistic in declared}


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
    """Return one number of a series as a row of results.

    Args:
        series: The series.
        statistic: Name of the statistic that computes the number.
        quantity: Name of the number.
        estimate: The number, with its interval.
        cell: The cell that it belongs to.
        against: The cell or metric that it is compared with.
        unit: Its unit, by default that of the metric.
    """
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
    """Return a row as a dict of plain values; the fields of its estimate (value, low, high, ...) come last."""
    flat = asdict(row)
    del flat["estimate"]
    flat.update(asdict(row.estimate))
    return flat
