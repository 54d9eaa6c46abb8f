"""Runs as a report sees them: each under a name of its own, its rows at hand, its lines told apart."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from functools import cached_property

from msgspec import Struct

from snellen.analysis.capability import ALL, protocol_preference
from snellen.catalogue import dimension_titles
from snellen.metrics.declaration import MetricRow
from snellen.reasons import word_reason
from snellen.records import METHODS, Estimate, Method, Result
from snellen.scoring.choice_metrics import CHOICE_METRICS
from snellen.scoring.scored_run import ScoredBenchmark, ScoredRun, run_labels

CHOICE_ROWS = tuple(row.name for metric in CHOICE_METRICS for row in metric.rows if not row.secondary_to)
"""What every question with options is measured by, in the order of the tables."""


class RunView(Struct, frozen=True, dict=True):
    """One run and its rows, all of them under its label (`run_labels`)."""

    label: str
    run: ScoredRun
    rows: tuple[Result, ...]

    @cached_property
    def numbers(self) -> dict[tuple[str, str, str, str, str], Result]:
        """(protocol, metric, benchmark, dimension of a mean, slice) -> result."""
        return {
            (row.protocol, row.metric, row.benchmark, row.dimension if row.benchmark == ALL else "", row.slice): row
            for row in self.rows
        }

    @cached_property
    def covered(self) -> Counter[tuple[str, str]]:
        """(protocol, metric) -> benchmarks it has a number for."""
        return Counter((row.protocol, row.metric) for row in self.rows if not row.slice and row.benchmark != ALL)

    @cached_property
    def instead(self) -> dict[str, str]:
        """Rows that stand in the tables in place of others, as published."""
        rules = [one.published for one in self.run.benchmarks if one.published]
        return {row: other for rule in rules for row, other in rule.instead.items()}

    @property
    def lines(self) -> list[MethodRow]:
        """The methods under which the run has anything to show."""
        methods = {row.protocol: row.method for row in self.rows}
        return [
            MethodRow(
                self, method, tuple(sorted((p for p, m in methods.items() if m == method), key=protocol_preference))
            )
            for method in METHODS
            if method in methods.values()
        ]

    def benchmark(self, name: str) -> ScoredBenchmark | None:
        return next((one for one in self.run.benchmarks if one.spec.name == name), None)


class MetricEstimates(Struct, frozen=True):
    """An estimate and the protocol that gave it; the secondary ones beside it where replies were unparsed."""

    protocol: str
    estimate: Estimate
    unit: str = ""
    reason: str = ""
    """Why there is no value, where the estimate's counts do not say."""
    beside: tuple[tuple[str, Estimate], ...] = ()
    """Label and estimate."""


class MethodRow(Struct, frozen=True, dict=True):
    """A model under one method; `protocols` in order of preference."""

    sheet: RunView
    method: Method
    protocols: tuple[str, ...]

    @property
    def label(self) -> str:
        return f"{self.sheet.label}, {self.method}"

    def overall(self, metric: str) -> MetricEstimates | None:
        """The mean over all benchmarks: of the protocol that covers most of them, then of the preferred one."""
        metric = self.sheet.instead.get(metric, metric)
        for protocol in self._order(metric):
            if found := self._find(protocol, metric, ALL, ALL, ""):
                return found
        return None

    def at(self, metric: str, benchmark: str, dimension: str = "", part: str = "") -> MetricEstimates | None:
        """One benchmark, one slice of it, or (benchmark `*`) the mean of a dimension; protocols in the same order."""
        metric = self.sheet.instead.get(metric, metric)
        for protocol in self._order(metric):
            if found := self._find(protocol, metric, benchmark, dimension, part):
                return found
        return None

    def _find(self, protocol: str, metric: str, *place: str) -> MetricEstimates | None:
        benchmark, dimension, part = place
        numbers = self.sheet.numbers
        result = numbers.get((protocol, metric, benchmark, dimension, part))
        if result is None:
            return None
        secondary = [
            (row.label, numbers[protocol, row.name, benchmark, dimension, part].estimate)
            for row in secondary_rows(metric)
            if (protocol, row.name, benchmark, dimension, part) in numbers
        ]
        # They differ from the headline only where something was unparsed.
        is_same = all((one.value, one.n) == (result.estimate.value, result.estimate.n) for _, one in secondary)
        return MetricEstimates(
            protocol,
            result.estimate,
            result.unit,
            word_reason(result.reason, result.detail),
            () if is_same else tuple(secondary),
        )

    def _order(self, metric: str) -> list[str]:
        covered = self.sheet.covered
        return sorted(self.protocols, key=lambda protocol: -covered[protocol, metric])


def secondary_rows(metric: str) -> list[MetricRow]:
    """The labelled rows that stand beside a headline row of choices."""
    return [row for one in CHOICE_METRICS for row in one.rows if row.secondary_to == metric and row.label]


def run_views(runs: Sequence[ScoredRun], rows: Sequence[Result]) -> list[RunView]:
    """A view of each run. `rows` are those of all runs, as `results_of_all` gives them."""
    tables: dict[str, list[Result]] = defaultdict(list)
    for row in rows:
        tables[row.model].append(row)
    return [RunView(label, run, tuple(tables[label])) for label, run in zip(run_labels(runs), runs, strict=True)]


def method_rows(sheets: Sequence[RunView]) -> list[MethodRow]:
    return [line for sheet in sheets for line in sheet.lines]


def benchmarks_of(sheets: Sequence[RunView]) -> list[str]:
    """Names of all benchmarks, by dimension, then as they come."""
    found = {one.spec.name: one.spec.dimension for sheet in sheets for one in sheet.run.benchmarks}
    return sorted(found, key=lambda name: _place(found[name]))


def dimensions_of(sheets: Sequence[RunView]) -> list[str]:
    """The dimensions of all benchmarks in the order of their suites; last those of suites that are not here."""
    found = {one.spec.dimension for sheet in sheets for one in sheet.run.benchmarks if one.spec.dimension}
    return sorted(found, key=lambda name: (_place(name), name))


def _place(dimension: str) -> int:
    known = list(dimension_titles())
    return known.index(dimension) if dimension in known else len(known)


def chance(scored: ScoredBenchmark) -> float | None:
    """What guessing scores: the mean of 1 / number of options over a benchmark's questions with options.

    A question that never shows all of its options counts by those that it showed.
    """
    shown: dict[tuple[str, int], int] = {}
    for one in scored.predictions:
        key = one.sample_id, one.turn
        shown[key] = max(shown.get(key, 0), len(one.variant.order))
    shares = [
        1 / (shown.get((sample.id, number)) or len(turn.options))
        for sample in scored.samples.values()
        for number, turn in enumerate(sample.rounds)
        if turn.options
    ]
    return math.fsum(shares) / len(shares) if shares else None


def mean_chance(benchmarks: Sequence[ScoredBenchmark]) -> float | None:
    """Chance of a mean over benchmarks, which counts them alike."""
    levels = [level for one in benchmarks if (level := chance(one)) is not None]
    return math.fsum(levels) / len(levels) if levels else None


def each_choice_benchmark(sheet: RunView) -> Iterator[ScoredBenchmark]:
    for one in sheet.run.benchmarks:
        if chance(one) is not None:
            yield one
