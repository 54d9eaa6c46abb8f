"""What each run measured on each question under one metric, and how far a question moves the metric's value."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property

from msgspec import Struct

from snellen.analysis.capability import protocol_preference
from snellen.analysis.censoring import censored_mean
from snellen.analysis.linearisation import linearised_deviations
from snellen.analysis.statistics import NO_BOUNDS, Bounds
from snellen.metrics.corpus import Counts, summed_metric
from snellen.metrics.declaration import MetricRow, ReplyMetric, declared, metric_of
from snellen.records import Method, Score
from snellen.scoring.scored_run import ScoredBenchmark
from snellen.scoring.text_scoring import rows_of

QuestionKey = tuple[str, int]
"""Sample and round."""


class QuestionMeasures(Struct, frozen=True, dict=True):
    """One metric of one benchmark in one run: a value for each question, or the counts its value is computed from."""

    scored: ScoredBenchmark
    protocol: str
    method: Method
    metric: str
    values: Mapping[QuestionKey, float] = {}
    censored: Mapping[QuestionKey, Score] = {}
    """All scores of a metric of which some rows of answers broke off (`snellen.analysis.censoring`)."""
    counts: Mapping[QuestionKey, Counts] = {}
    counted_by: str = ""
    """The metric that made the counts, of which `metric` is a row."""

    @property
    def row(self) -> MetricRow:
        return declared(self.metric)

    @cached_property
    def keys(self) -> frozenset[QuestionKey]:
        return frozenset(self.counts if self.counted_by else self.censored or self.values)

    def group(self, key: QuestionKey) -> str:
        """The picture or dialogue of a question: questions of one group may depend on each other."""
        return self.scored.samples[key[0]].group

    def spread_over(self, keys: Sequence[QuestionKey]) -> tuple[float, list[float]] | None:
        """The metric's value over these questions, and how each question's deviation adds to it; these sum to zero.

        For a mean, (v_i - mean) / n; for a metric of summed counts the first-order change (Woodruff 1971). None where
        the metric is undefined.
        """
        if self.counted_by:
            metric = summed_metric(self.counted_by)
            place = metric.names.index(self.metric)
            return linearised_deviations(
                [self.counts[key] for key in keys], lambda sums: (metric.compute(sums)[place],), 1
            )[0]
        if self.censored:
            weighed = censored_mean([[self.censored[key] for key in keys]])
            return (weighed.value, weighed.deviations) if weighed else None
        if not keys:
            return None
        values = [self.values[key] for key in keys]
        mean = math.fsum(values) / len(values)
        return mean, [(value - mean) / len(values) for value in values]


def difference_bounds(row: MetricRow) -> Bounds:
    """The least and the greatest difference of two values of a metric."""
    if row.low is None or row.high is None:
        return NO_BOUNDS
    return row.low - row.high, row.high - row.low


def by_group(deviations: Iterable[float], groups: Iterable[str]) -> dict[str, float]:
    """The sum of each group, whatever the order of its questions."""
    members: dict[str, list[float]] = defaultdict(list)
    for deviation, group in zip(deviations, groups, strict=True):
        members[group].append(deviation)
    return {group: math.fsum(values) for group, values in members.items()}


def measures_of(scored: ScoredBenchmark) -> Iterator[QuestionMeasures]:
    """Every metric of a benchmark under every protocol, on the questions that have a value."""
    values: dict[tuple[str, Method, str], dict[QuestionKey, float]] = defaultdict(dict)
    broken = {(score.protocol, score.method, score.metric) for score in scored.scores if score.broken}
    censored: dict[tuple[str, Method, str], dict[QuestionKey, Score]] = defaultdict(dict)
    counts: dict[tuple[str, Method, str], dict[QuestionKey, Counts]] = defaultdict(dict)
    for tally in scored.tallies:
        if tally.counts:
            counts[tally.protocol, tally.method, tally.metric][tally.sample_id, tally.turn] = tally.counts
    from_counts = {row for _, _, metric in counts for row in rows_of(metric)}
    for score in scored.scores:
        measure, key = (score.protocol, score.method, score.metric), (score.sample_id, score.turn)
        if score.value is not None and score.metric not in from_counts:
            values[measure][key] = score.value
        if measure in broken and (score.value is not None or score.steps or score.broken):
            censored[measure][key] = score
    for (protocol, method, metric), by_question in values.items():
        declaring = metric_of(metric)
        if isinstance(declaring, ReplyMetric) and declaring.mean_over == "answers":
            continue  # no mean over questions, which is what is compared
        broken_off = censored.get((protocol, method, metric), {})
        yield QuestionMeasures(scored, protocol, method, metric, values=by_question, censored=broken_off)
    for (protocol, method, metric), by_counts in counts.items():
        for row in rows_of(metric):
            yield QuestionMeasures(scored, protocol, method, row, counts=by_counts, counted_by=metric)


def shared_protocol(runs: Sequence[Iterable[str]]) -> str | None:
    """The protocol that all runs have, of several the preferred one."""
    shared = set.intersection(*(set(protocols) for protocols in runs))
    return min(shared, key=protocol_preference, default=None)
