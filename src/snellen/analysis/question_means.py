"""Means over questions: of one benchmark, or of several whose questions all count alike."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from snellen.analysis.statistics import Bounds, estimate_mean
from snellen.metrics.declaration import MetricRow, ReplyMetric, declared, metric_of
from snellen.records import Estimate, Result, Score
from snellen.scoring.scored_run import ScoredBenchmark, ScoredRun
from snellen.scoring.text_scoring import rows_of

Part = tuple[ScoredBenchmark, Sequence[Score]]
"""Scores of one metric, and the benchmark that they are of."""


def mean_estimate(scored: ScoredBenchmark, scores: Sequence[Score], metric: str) -> Estimate:
    """The mean of one metric over these scores, with its interval."""
    return mean_of_parts([(scored, scores)], metric)


def mean_of_parts(parts: Sequence[Part], metric: str) -> Estimate:
    """The mean of one metric over the questions of several benchmarks; those about one picture stay one group."""
    row, values, groups, errors, asked = declared(metric), [], [], 0, 0
    kinds: Counter[tuple[int, int]] = Counter()
    for scored, scores in parts:
        samples = scored.samples
        asked += len(scores)
        for score in scores:
            if score.value is None:
                errors += score.never_answered
                continue
            sample = samples[score.sample_id]
            values.append(score.value)
            groups.append(sample.group)
            if row.question_maximum:
                kinds[
                    score.n_presentations, len(sample.turns[score.turn].options if sample.turns else sample.options)
                ] += 1
    unscored = asked - len(values) - errors
    return estimate_mean(values, groups, bounds=_bounds(kinds, row), unscored=unscored, errors=errors)


def mean_over_questions(run: ScoredRun, rows: Sequence[Result]) -> Estimate | None:
    """The mean over all questions behind these rows of one run, each of a benchmark.

    None where that is not defined: they are of different metrics, or of one that is no mean over questions.
    """
    [metric, *others] = {row.metric for row in rows}
    if others or not _is_mean_over_questions(run, metric):
        return None
    protocols = {row.benchmark: row.protocol for row in rows}
    members = [scored for scored in run.benchmarks if scored.spec.name in protocols]
    return mean_of_parts(
        [
            (
                scored,
                [s for s in scored.scores if s.metric == metric and s.protocol == protocols[scored.spec.name]],
            )
            for scored in members
        ],
        metric,
    )


def _is_mean_over_questions(run: ScoredRun, metric: str) -> bool:
    corpus = {row for scored in run.benchmarks for tally in scored.tallies for row in rows_of(tally.metric)}
    declaring = metric_of(metric)
    by_answer = isinstance(declaring, ReplyMetric) and declaring.mean_over == "answers"
    return metric not in corpus and not by_answer


def _bounds(kinds: Counter[tuple[int, int]], row: MetricRow) -> Bounds:
    """The bounds of the mean over so many questions of each number of presentations and of options, as declared."""
    low = -math.inf if row.low is None else row.low
    if row.question_maximum and kinds:
        maxima = (count * row.question_maximum(*kind) for kind, count in kinds.items())
        return low, math.fsum(maxima) / kinds.total()
    return low, math.inf if row.high is None else row.high
