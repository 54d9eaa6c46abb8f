"""Means over questions: of one benchmark, or of several whose questions all count alike.

Some take several answers in a row, some of which never came. A question that CircularEval fails in its first pass
needs one answer, one that it passes needs all: a failed request rather loses the latter. So do a dialogue's later
rounds, and answers to which many steps lead. Where a request fails whatever the model would have said, each value
counts 1 / (probability that so many answers come in a row). That probability is the product over k of the share
answered among those that were waiting for their k-th answer (Kaplan and Meier 1958); so the mean of circular verdicts
is the product over passes of the shares right, and requests of one question may well fail together.

The same holds of a run that was stopped, or is under way: questions that fail early have ended before those that are
right each time, but how far a question came depends on when it was begun. What nobody has reached yet is not known:
where that weighs more than a little there is no mean, and where few have reached it the interval holds its worst cases.
The questions before the first open one, in the order of asking, would still be wrong too often (`bench/unfinished.py`).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import accumulate
from operator import mul

from msgspec import Struct
from msgspec.structs import replace

from snellen.analysis.reading_error import widened_by_reading
from snellen.analysis.statistics import (
    SAME,
    Bounds,
    GroupSpread,
    estimate_mean,
    group_spread,
    interval_of,
)
from snellen.metrics.declaration import (
    OF_ANSWERED,
    MetricRow,
    ReplyMetric,
    declared,
    find_metric,
    metric_of,
)
from snellen.metrics.question_counts import QuestionCounts
from snellen.reasons import Reason
from snellen.records import Estimate, Result, Score
from snellen.scoring.scored_run import ScoredBenchmark, ScoredRun

LITTLE = 0.05
"""The share of the questions of which nothing may be known without the mean being withheld."""
FEW = 10
"""So many answers in one place at least, or they do not tell how the rows that broke off there would have gone on."""


class CensoredMean(Struct, frozen=True):
    """A weighted mean of scores."""

    value: float
    deviations: list[float]
    """By how much each score changes the mean, in the order of the scores; they sum to zero."""
    unknown: float = 0.0
    """The share of the questions whose rows broke off where no other went on. Nothing tells how they would have ended;
    in the mean they count as if they had broken off one answer earlier."""
    doubtful: float = 0.0
    """The share of those whose rows broke off where fewer than `FEW` others went on, or after that."""

    @property
    def is_known(self) -> bool:
        """Whether so few rows broke off where no other went on that the mean says something."""
        return self.unknown <= LITTLE

    @property
    def is_sure(self) -> bool:
        """Whether the deviations tell how far it may be off."""
        return self.doubtful <= LITTLE


def is_censored(scores: Sequence[Score]) -> bool:
    """Whether values are missing because rows of answers broke off: a plain mean of the others is biased."""
    return any(score.broken for score in scores)


def censored_mean(parts: Sequence[Sequence[Score]]) -> CensoredMean | None:
    """The mean over all scores of some parts (benchmarks), each of which has its own probabilities of an answer.

    The deviations hold what estimating these probabilities changes (for verdicts this is Greenwood's variance). None
    without any value.
    """
    rows = [_Rows(scores) for scores in parts]
    weighed = [pair for part_rows in rows for pair in part_rows.weighed_values()]
    total = math.fsum(weight for weight, _ in weighed)
    if not total:
        return None
    mean = math.fsum(weight * value for weight, value in weighed) / total
    lost = zip(*(part_rows.weights_lost for part_rows in rows), strict=True)
    unknown, doubtful = (math.fsum(weights) / total for weights in lost)
    return CensoredMean(
        mean, [shift / total for row in rows for shift in row.shifts(mean)], unknown, doubtful
    )


def with_doubtful_as(scores: Sequence[Score], value: float) -> list[Score]:
    """The scores with this value for each row that broke off where fewer than `FEW` others went on, or after that."""
    place = _Rows(scores).doubtful_from
    if place is None:
        return list(scores)
    return [
        replace(score, value=value, steps=place, broken=False, reason=None)
        if score.broken and score.steps >= place
        else replace(score, steps=min(score.steps, place))
        for score in scores
    ]


class _Rows:
    """How far the rows of answers of some scores came."""

    def __init__(self, scores: Sequence[Score]) -> None:
        self._scores = scores
        self._steps = [score.steps for score in scores]
        self._count()
        nowhere, self.doubtful_from = (self._first_place_with_fewer(fewest) for fewest in (1, FEW))
        """The place from which on fewer than `FEW` went on where others broke off; None where there is none."""
        self.weights_lost = self._weight_beyond(nowhere), self._weight_beyond(self.doubtful_from)
        """Of the rows that broke off where no other went on, and of those that did in that place or later."""
        self._move_back_where_none_goes_on()
        self._count()

    def _count(self) -> None:
        lengths, places = Counter(self._steps), range(max(self._steps, default=0) + 1)
        broken = Counter(
            steps for steps, score in zip(self._steps, self._scores, strict=True) if score.broken
        )
        longer = len(self._steps) - sum(number for steps, number in lengths.items() if steps < 0)
        self._came: list[int] = []
        self._waiting: list[int] = []
        for k in places:
            longer -= lengths[k]
            self._came.append(longer)
            self._waiting.append(longer + broken[k])
        odds = [
            waiting / answered if answered else 1.0
            for waiting, answered in zip(self._waiting, self._came, strict=True)
        ]
        self._weights: list[float] = [1.0, *accumulate(odds, mul)]
        """The factor of a value that took this many answers."""

    def _first_place_with_fewer(self, fewest: int) -> int | None:
        """The first place, after a first answer, where rows broke off and fewer than so many went on."""
        counts = list(zip(self._waiting, self._came, strict=True))
        return next(
            (k for k, (waiting, came) in enumerate(counts) if k and waiting > came < fewest), None
        )

    def _weight_beyond(self, place: int | None) -> float:
        """Of the rows that broke off in this place or later."""
        if place is None:
            return 0.0
        ended = sum(
            score.broken and steps >= place
            for score, steps in zip(self._scores, self._steps, strict=True)
        )
        return self._weights[place] * ended

    def _move_back_where_none_goes_on(self) -> None:
        """Shorten rows that broke off where no other was answered, to -1 where none was answered at all."""
        for k in range(max(self._steps, default=0), -1, -1):
            if not any(steps > k for steps in self._steps):
                for i, score in enumerate(self._scores):
                    if score.broken and self._steps[i] == k:
                        self._steps[i] -= 1

    def weighed_values(self) -> Iterator[tuple[float, float]]:
        """Weight and value of each score that has one."""
        for score, steps in zip(self._scores, self._steps, strict=True):
            if score.value is not None:
                yield self._weights[steps], score.value

    def shifts(self, mean: float) -> list[float]:
        """The weighted deviation of each value, and what its answers change of the weights of all."""
        own_shifts = [
            0.0 if score.value is None else self._weights[steps] * (score.value - mean)
            for score, steps in zip(self._scores, self._steps, strict=True)
        ]
        later = [0.0] * len(self._came)  # the deviations of those that took an answer in this place
        for shift, steps in zip(own_shifts, self._steps, strict=True):
            for k in range(steps if shift else 0):
                later[k] += shift
        places = list(zip(later, self._waiting, self._came, strict=True))
        missed = [after / waiting if waiting else 0.0 for after, waiting, _ in places]
        came = [
            after / answered - after / waiting if answered else 0.0
            for after, waiting, answered in places
        ]
        upto = [0.0, *accumulate(came)]
        return [
            shift - upto[max(steps, 0)] + (missed[steps] if score.broken and steps >= 0 else 0.0)
            for score, shift, steps in zip(self._scores, own_shifts, self._steps, strict=True)
        ]


Part = tuple[ScoredBenchmark, Sequence[Score]]
"""Scores of one metric, and the benchmark that they are of."""


def mean_estimate(scored: ScoredBenchmark, scores: Sequence[Score], metric: str) -> Estimate:
    """The mean of one metric over these scores, with its interval."""
    return mean_of_parts([(scored, scores)], metric)


def why_withheld(estimate: Estimate, scores: Sequence[Score]) -> Reason | None:
    """Why a mean of scores has no value although some of them have one; None where that is not so."""
    is_withheld = estimate.value is None and estimate.n > 0 and is_censored(scores)
    return "too few asked to the end" if is_withheld else None


def mean_of_parts(parts: Sequence[Part], metric: str) -> Estimate:
    """The mean of one metric over the questions of several benchmarks; those about one picture stay one group.

    Where answers in a row broke off it is what the mean would be without that (`snellen.analysis.question_means`).
    """
    row, values, groups = declared(metric), list[float](), list[str]()
    kinds: Counter[tuple[int, int]] = Counter()
    for scored, scores in parts:
        samples = scored.samples
        for score in scores:
            if score.value is None:
                continue
            sample = samples[score.sample_id]
            values.append(score.value)
            groups.append(sample.group)
            if row.question_maximum:
                kinds[
                    score.n_presentations,
                    len(sample.turns[score.turn].options if sample.turns else sample.options),
                ] += 1
    bounds = _bounds(kinds, row)
    estimate = estimate_mean(values, groups, bounds=bounds)
    estimate = with_counts(
        estimate, [score for _, scores in parts for score in scores], len(values)
    )
    if any(is_censored(scores) for _, scores in parts):
        estimate = _censored_estimate(parts, bounds, estimate)
    doubtful = [
        (score.value, score.doubt)
        for _, scores in parts
        for score in scores
        if score.value is not None and score.doubt is not None
    ]
    estimate = widened_by_reading(estimate, doubtful, len(values), bounds)
    return (
        _with_worst_cases(estimate, math.fsum(values), bounds) if estimate.unanswered else estimate
    )


def with_counts(estimate: Estimate, records: Sequence[Score | QuestionCounts], n: int) -> Estimate:
    """An estimate with what these records, of which `n` have a value, are besides: errors, not asked, unscored."""
    lacking = [record for record in records if record.reason is not None]
    unanswered = sum(record.never_answered for record in lacking)
    not_asked = sum(record.never_asked for record in lacking)
    return replace(
        estimate,
        n=n,
        unscored=len(records) - n - unanswered,
        errors=unanswered - not_asked,
        absent=sum(record.absent for record in lacking),
        not_asked=not_asked,
    )


def _censored_estimate(parts: Sequence[Part], bounds: Bounds, plain: Estimate) -> Estimate:
    """The mean without the bias of rows of answers that broke off; `plain` is that of the values alone."""
    mean = censored_mean([scores for _, scores in parts])
    if mean is None:
        return plain
    if not mean.is_known:
        return replace(plain, value=None, stderr=None, low=None, high=None)
    spread = _spread_of(parts, mean)
    low, high = interval_of(mean.value, spread, bounds)
    if mean.doubtful:
        low, high = (_limit_where_doubtful(parts, bounds, end) for end in (0, 1))
    return replace(
        plain, value=mean.value, stderr=spread.error, low=low, high=high, groups=spread.groups
    )


def _spread_of(parts: Sequence[Part], mean: CensoredMean) -> GroupSpread:
    all_scores = (
        (scored.samples[score.sample_id].group, score)
        for scored, scores in parts
        for score in scores
    )
    counted = [
        (group, shift)
        for (group, score), shift in zip(all_scores, mean.deviations, strict=True)
        if score.value is not None or abs(shift) > SAME
    ]
    return group_spread([shift for _, shift in counted], [group for group, _ in counted])


def _limit_where_doubtful(parts: Sequence[Part], bounds: Bounds, end: int) -> float | None:
    """An end of the interval, if all rows of which little is known had ended with the least value, or the greatest."""
    if math.isinf(bounds[end]):
        return None
    worst = [(scored, with_doubtful_as(scores, bounds[end])) for scored, scores in parts]
    mean = censored_mean([scores for _, scores in worst])
    return interval_of(mean.value, _spread_of(worst, mean), bounds)[end] if mean else None


def _with_worst_cases(estimate: Estimate, total: float, bounds: Bounds) -> Estimate:
    """With what the mean is if all questions without an answer had the least value, and the greatest."""
    if math.isinf(bounds[0]) or math.isinf(bounds[1]):
        return estimate
    unanswered = estimate.unanswered
    least, most = ((total + unanswered * bound) / (estimate.n + unanswered) for bound in bounds)
    return replace(estimate, least=least, most=most)


def mean_over_questions(run: ScoredRun, rows: Sequence[Result]) -> Estimate | None:
    """The mean over all questions behind these rows of one run, each of a benchmark.

    None where that is not defined: they are of different metrics, or of one that is not a mean over questions.
    """
    [metric, *other_metrics] = {row.metric for row in rows}
    if other_metrics or metric.endswith(OF_ANSWERED) or not _is_mean_over_questions(run, metric):
        return None
    protocols = {row.benchmark: row.protocol for row in rows}
    members = [scored for scored in run.benchmarks if scored.spec.name in protocols]
    return mean_of_parts(
        [
            (
                scored,
                list(scored.scores_of(metric, protocols[scored.spec.name])),
            )
            for scored in members
        ],
        metric,
    )


def _is_mean_over_questions(run: ScoredRun, metric: str) -> bool:
    corpus = {
        row
        for scored in run.benchmarks
        for tally in scored.tallies
        for row in find_metric(tally.metric).names
    }
    declaring = metric_of(metric)
    by_answer = isinstance(declaring, ReplyMetric) and declaring.mean_over == "answers"
    return metric not in corpus and not by_answer


def _bounds(kinds: Counter[tuple[int, int]], row: MetricRow) -> Bounds:
    """The bounds of the mean over this many questions of each number of presentations and of options, as declared."""
    if row.question_maximum and kinds:
        maxima = (count * row.question_maximum(*kind) for kind, count in kinds.items())
        return row.bounds[0], math.fsum(maxima) / kinds.total()
    return row.bounds
