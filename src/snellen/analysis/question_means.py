"""Means over the questions of one benchmark, or of several benchmarks whose questions have equal weights.

Some scores need several answers in a row, called a sequence here, and a failed request breaks a sequence off. This biases a plain
mean. For example, CircularEval needs one answer to a question that the model gets wrong in the first pass, but all
answers to a question that it gets right. Failed requests thus remove more right questions than wrong ones. The later
rounds of dialogues and answers of protocols in several steps have the same problem.

If failures do not depend on what the model would have answered, weighting corrects the bias: each value counts
1 / (probability of that many answers in a row). That probability is the product over k of the share of sequences with a k-th
answer among those that were waiting for it (Kaplan and Meier 1958). The mean of circular verdicts is then the product
over passes of the shares right. Requests of one question may fail together.

The same applies to a run that was stopped or is still running: questions that fail early end before those that are
right each time, but how far a question came depends on when it was begun. Steps that no question has reached are
unknown. If they have more than a little weight (`MAX_UNKNOWN_SHARE`) there is no mean. If few sequences have reached them (`MIN_CONTINUING_SEQUENCES`), the
interval covers the worst cases. Restricting the mean to the questions before the first unfinished one would not help:
it is still biased towards wrong answers (`bench/unfinished.py`).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from snellen.analysis.group_means import estimate_mean
from snellen.analysis.group_spread import GroupSpread, group_spread
from snellen.analysis.intervals import RELATIVE_ROUNDING, Bounds, interval_of
from snellen.analysis.reading_error import widened_by_reading
from snellen.metrics.declaration import (
    OF_ANSWERED,
    MetricRow,
    ReplyMetric,
    declared_row,
    find_metric,
    metric_of,
)
from snellen.metrics.question_counts import QuestionCounts
from snellen.reasons import Reason
from snellen.records import Estimate, ReadingDoubt, Result, Score
from snellen.scoring.scored_run import ScoredBenchmark, ScoredRun

MAX_UNKNOWN_SHARE = 0.05
"""Largest share of questions with an unknown outcome for which a mean is still given."""
MIN_CONTINUING_SEQUENCES = 10
"""Least number of sequences that must continue after a step to tell how the sequences that broke off there would have ended."""


class CensoredMean(Struct, frozen=True):
    """A mean of scores, weighted to correct for questions whose sequence of requests ended early."""

    value: float
    deviations: list[float]
    """Influence of each score on the mean, in the order of the scores; they sum to zero."""
    unknown: float = 0.0
    """Share of the questions whose sequences broke off at a step after which no sequence continued.

    Their outcome cannot be estimated. In the mean they count as if they had broken off one answer earlier.
    """
    doubtful: float = 0.0
    """Share of the questions whose sequences broke off at or after a step that fewer than `MIN_CONTINUING_SEQUENCES` other sequences passed."""

    @property
    def is_known(self) -> bool:
        """Whether the share of unknown outcomes is small enough for a mean."""
        return self.unknown <= MAX_UNKNOWN_SHARE

    @property
    def is_sure(self) -> bool:
        """Whether the deviations are enough for an interval of the mean."""
        return self.doubtful <= MAX_UNKNOWN_SHARE


def is_censored(scores: Sequence[Score]) -> bool:
    """Return whether sequences of answers broke off, so that a plain mean of the remaining values is biased.

    Examples:
        >>> is_censored([])
        False
    """
    return any(score.broken for score in scores)


def censored_mean(scores_of_benchmarks: Sequence[Sequence[Score]]) -> CensoredMean | None:
    """Return the mean over all scores, corrected for questions whose sequence of requests ended early.

    The module's docstring explains why a plain mean of the remaining values is biased.

    Args:
        scores_of_benchmarks: The scores of each benchmark. How likely a request is answered is estimated for each
            benchmark separately.

    Returns:
        The mean and the influence of each score on it, which includes the error of the estimated probabilities
        (Greenwood's variance for verdicts); None if no score has a value.
    """
    sequences_by_benchmark = [_AnswerSequences(scores) for scores in scores_of_benchmarks]
    weights: list[float] = []
    weighted_values: list[float] = []
    for sequences in sequences_by_benchmark:
        for weight, value in sequences.weighted_values():
            weights.append(weight)
            weighted_values.append(weight * value)
    total_weight = math.fsum(weights)
    if not total_weight:
        return None

    mean = math.fsum(weighted_values) / total_weight
    deviations: list[float] = []
    for sequences in sequences_by_benchmark:
        for shift in sequences.shifts(mean):
            deviations.append(shift / total_weight)
    unknown_weight = math.fsum(sequences.unknown_weight for sequences in sequences_by_benchmark)
    doubtful_weight = math.fsum(sequences.doubtful_weight for sequences in sequences_by_benchmark)
    return CensoredMean(
        mean, deviations, unknown_weight / total_weight, doubtful_weight / total_weight
    )


def with_doubtful_as(scores: Sequence[Score], value: float) -> list[Score]:
    """Fill in `value` for the questions that ended early at a step of which little is known.

    A step is a request in the sequence of a question. The first step at which some questions ended early, and fewer
    than `MIN_CONTINUING_SEQUENCES` others continued, is the last one that is kept. A question that ended there or later receives the value;
    all others are cut at that step.
    """
    doubtful_from = _AnswerSequences(scores).doubtful_from
    if doubtful_from is None:
        return list(scores)
    changed: list[Score] = []
    for score in scores:
        if score.broken and score.steps >= doubtful_from:
            changed.append(
                replace(score, value=value, steps=doubtful_from, broken=False, reason=None)
            )
        else:
            changed.append(replace(score, steps=min(score.steps, doubtful_from)))
    return changed


class _AnswerSequences:
    """How many answers are behind each score, and the weights of the scores that follow from these numbers.

    A question may need several answers, one after the other: a sequence. Step k is the request that follows the first k
    answers. If it fails, the sequence has the length k and broke off at step k.
    """

    def __init__(self, scores: Sequence[Score]) -> None:
        """Measure how far the sequences of some scores came. There is a sequence of answers for each question.

        The weights are computed twice, because sequences without a longer one are shortened in between.
        """
        self._scores = scores
        self._lengths = [score.steps for score in scores]
        self._compute_weights()
        unknown_from = self._first_step_with_fewer(1)
        self.doubtful_from = self._first_step_with_fewer(MIN_CONTINUING_SEQUENCES)
        """First step at which sequences broke off and fewer than `MIN_CONTINUING_SEQUENCES` others continued; None if there is none."""
        self.unknown_weight = self._weight_from(unknown_from)
        """Weight of the sequences that broke off at or after the first step that no sequence passed."""
        self.doubtful_weight = self._weight_from(self.doubtful_from)
        """Weight of the sequences that broke off at `doubtful_from` or later."""
        self._shorten_sequences_without_survivors()
        self._compute_weights()

    def _compute_weights(self) -> None:
        """Count, for each step, the sequences that reached it and the sequences that passed it, and compute the weights of values.

        A sequence has the answers behind a score. It reaches step k if it has k answers, and passes it if it has
        more.
        """
        n_sequences_by_length = Counter(self._lengths)
        n_broken_by_length: Counter[int] = Counter()
        n_not_begun = 0
        for steps, score in zip(self._lengths, self._scores, strict=True):
            if score.broken:
                n_broken_by_length[steps] += 1
            if steps < 0:
                n_not_begun += 1

        self._answered: list[int] = []
        self._waiting: list[int] = []
        n_longer = len(self._lengths) - n_not_begun
        for step in range(max(self._lengths, default=0) + 1):
            n_longer -= n_sequences_by_length[step]
            self._answered.append(n_longer)
            self._waiting.append(n_longer + n_broken_by_length[step])

        self._weights: list[float] = [1.0]
        """Weight of a value, by the number of answers that it took."""
        for waiting, answered in zip(self._waiting, self._answered, strict=True):
            inverse_share = waiting / answered if answered else 1.0
            self._weights.append(self._weights[-1] * inverse_share)

    def _first_step_with_fewer(self, fewest: int) -> int | None:
        """Return the first step from 1 on at which some sequences ended early and fewer than `fewest` others continued.

        A sequence has the requests of one question, and each of them is a step. None if there is no such step.
        """
        for step in range(1, len(self._waiting)):
            some_ended = self._waiting[step] > self._answered[step]
            if some_ended and self._answered[step] < fewest:
                return step
        return None

    def _weight_from(self, step: int | None) -> float:
        """Return the weight of the sequences that broke off at this step or later."""
        if step is None:
            return 0.0
        n_broken = sum(
            score.broken and steps >= step
            for score, steps in zip(self._scores, self._lengths, strict=True)
        )
        return self._weights[step] * n_broken

    def _shorten_sequences_without_survivors(self) -> None:
        """Shorten the sequences that ended early until at least one other sequence is longer.

        There is a sequence of answers for each question, and `_lengths` has their lengths. If all sequences ended at the same step,
        there is nothing to tell how they would have continued. They then count as if they had ended one step earlier,
        down to a length of -1.
        """
        for length in range(max(self._lengths, default=0), -1, -1):
            has_longer_sequence = any(steps > length for steps in self._lengths)
            if has_longer_sequence:
                continue
            for index, score in enumerate(self._scores):
                if score.broken and self._lengths[index] == length:
                    self._lengths[index] -= 1

    def weighted_values(self) -> Iterator[tuple[float, float]]:
        """Yield the weight and the value of each score with a value."""
        for score, steps in zip(self._scores, self._lengths, strict=True):
            if score.value is not None:
                yield self._weights[steps], score.value

    def shifts(self, mean: float) -> list[float]:
        """Return the influence of each score on a corrected mean.

        A score has two effects: its own weighted deviation from the mean, and its effect on the weights of other
        values. An answer at a step lowers the weights of all values that needed that step; a failed request raises
        them.
        """
        deviations: list[float] = []
        for score, steps in zip(self._scores, self._lengths, strict=True):
            if score.value is None:
                deviations.append(0.0)
            else:
                deviations.append(self._weights[steps] * (score.value - mean))

        # For each step, the summed deviations of the sequences that passed it.
        deviations_after = [0.0] * len(self._answered)
        for deviation, steps in zip(deviations, self._lengths, strict=True):
            if deviation:
                for step in range(steps):
                    deviations_after[step] += deviation

        gains_when_failed: list[float] = []
        losses_until = [0.0]  # summed over the steps before
        for after, waiting, answered in zip(
            deviations_after, self._waiting, self._answered, strict=True
        ):
            gain = after / waiting if waiting else 0.0
            loss = after / answered - after / waiting if answered else 0.0
            gains_when_failed.append(gain)
            losses_until.append(losses_until[-1] + loss)

        shifts: list[float] = []
        for score, deviation, steps in zip(self._scores, deviations, self._lengths, strict=True):
            shift = deviation - losses_until[max(steps, 0)]
            if score.broken and steps >= 0:
                shift += gains_when_failed[steps]
            shifts.append(shift)
        return shifts


BenchmarkScores = tuple[ScoredBenchmark, Sequence[Score]]
"""A benchmark and its scores in one metric."""


def mean_estimate(scored: ScoredBenchmark, scores: Sequence[Score], metric: str) -> Estimate:
    """Return the mean of some scores in one metric, with its interval."""
    return mean_of_parts([(scored, scores)], metric)


def why_withheld(estimate: Estimate, scores: Sequence[Score]) -> Reason | None:
    """Return why a mean has no value although some of its scores have one; None in all other cases."""
    is_withheld = estimate.value is None and estimate.n > 0 and is_censored(scores)
    return "too few asked to the end" if is_withheld else None


def mean_of_parts(parts: Sequence[BenchmarkScores], metric: str) -> Estimate:
    """Return the mean of one metric over the questions of several benchmarks, with a 95% interval.

    Questions about the same image form one group of dependent values. The mean is corrected for questions whose
    sequence of requests ended early. The interval includes the uncertainty about which option a reply chooses.

    Args:
        parts: Each benchmark with the scores of its questions.
        metric: The name of the metric.
    """
    row = declared_row(metric)
    all_scores: list[Score] = []
    values: list[float] = []
    groups: list[str] = []
    # The values of questions whose reply can be read in more than one way, with the doubt about them.
    doubtful: list[tuple[float, ReadingDoubt]] = []
    # The number of questions, by (number of presentations, number of options). The two determine a question's maximum.
    n_questions_by_maximum: Counter[tuple[int, int]] = Counter()
    for scored, scores in parts:
        samples = scored.samples
        for score in scores:
            all_scores.append(score)
            if score.value is None:
                continue
            sample = samples[score.sample_id]
            values.append(score.value)
            groups.append(sample.group)
            if score.doubt is not None:
                doubtful.append((score.value, score.doubt))
            if row.question_maximum:
                options = sample.turns[score.turn].options if sample.turns else sample.options
                n_questions_by_maximum[score.n_presentations, len(options)] += 1

    bounds = _bounds_of_mean(n_questions_by_maximum, row)
    estimate = estimate_mean(values, groups, bounds=bounds)
    estimate = with_counts(estimate, all_scores, len(values))
    if any(is_censored(scores) for _, scores in parts):
        estimate = _censored_estimate(parts, bounds, estimate)
    estimate = widened_by_reading(estimate, doubtful, len(values), bounds)
    if estimate.unanswered:
        estimate = _with_worst_cases(estimate, math.fsum(values), bounds)
    return estimate


def with_counts(estimate: Estimate, records: Sequence[Score | QuestionCounts], n: int) -> Estimate:
    """Add to an estimate the numbers of records without a value, by cause. `n` records have a value."""
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


def _censored_estimate(
    parts: Sequence[BenchmarkScores], bounds: Bounds, plain: Estimate
) -> Estimate:
    """Return the mean corrected for questions whose sequence of requests ended early.

    Args:
        parts: Each benchmark with the scores of its questions.
        bounds: The least and the greatest possible mean.
        plain: The uncorrected mean with its question counts. It is returned if no question has a value.
    """
    mean = censored_mean([scores for _, scores in parts])
    if mean is None:
        return plain
    if not mean.is_known:
        return replace(plain, value=None, stderr=None, low=None, high=None)
    spread = _spread_of(parts, mean)
    low, high = interval_of(mean.value, spread, bounds)
    if mean.doubtful:
        low = _worst_case_end(parts, bounds, is_high=False)
        high = _worst_case_end(parts, bounds, is_high=True)
    return replace(
        plain, value=mean.value, stderr=spread.error, low=low, high=high, groups=spread.groups
    )


def _spread_of(parts: Sequence[BenchmarkScores], mean: CensoredMean) -> GroupSpread:
    """Return how much a corrected mean varies over image groups.

    Questions without a value and without an influence on the mean are left out.

    Args:
        parts: Each benchmark with the scores of its questions.
        mean: The mean over them, with the influence of each score in the same order.
    """
    all_scores: list[tuple[str, Score]] = []
    for scored, scores in parts:
        for score in scores:
            group = scored.samples[score.sample_id].group
            all_scores.append((group, score))
    influences: list[float] = []
    groups: list[str] = []
    for (group, score), influence in zip(all_scores, mean.deviations, strict=True):
        if score.value is not None or abs(influence) > RELATIVE_ROUNDING:
            influences.append(influence)
            groups.append(group)
    return group_spread(influences, groups)


def _worst_case_end(
    parts: Sequence[BenchmarkScores], bounds: Bounds, *, is_high: bool
) -> float | None:
    """Return one end of the interval of a mean in the worst case.

    In the worst case all questions that ended early, at a step of which too little is known, had the least value (for
    the low end) or the greatest one (for the high end).

    Args:
        parts: Each benchmark with the scores of its questions.
        bounds: The least and the greatest possible value.
        is_high: Whether to return the high end of the interval, and not the low end.

    Returns:
        The end; None if the metric has no bound there.
    """
    least, greatest = bounds
    worst_value = greatest if is_high else least
    if math.isinf(worst_value):
        return None
    worst_parts = [(scored, with_doubtful_as(scores, worst_value)) for scored, scores in parts]
    mean = censored_mean([scores for _, scores in worst_parts])
    if mean is None:
        return None
    low, high = interval_of(mean.value, _spread_of(worst_parts, mean), bounds)
    return high if is_high else low


def _with_worst_cases(estimate: Estimate, total: float, bounds: Bounds) -> Estimate:
    """Add the means that result if all unanswered questions had the least, or the greatest, value.

    `total` is the sum of the values.
    """
    lowest, highest = bounds
    if math.isinf(lowest) or math.isinf(highest):
        return estimate
    unanswered = estimate.unanswered
    count = estimate.n + unanswered
    return replace(
        estimate,
        least=(total + unanswered * lowest) / count,
        most=(total + unanswered * highest) / count,
    )


def mean_over_questions(run: ScoredRun, rows: Sequence[Result]) -> Estimate | None:
    """Return the mean of a metric over all questions of several benchmarks of a run.

    Args:
        run: The run.
        rows: The result of each benchmark. It names the metric and the protocol.

    Returns:
        The mean; None if the rows have different metrics, or a metric that is not a mean over questions.
    """
    metric, *other_metrics = {row.metric for row in rows}
    if other_metrics or metric.endswith(OF_ANSWERED) or not _is_mean_over_questions(run, metric):
        return None
    protocol_by_benchmark = {row.benchmark: row.protocol for row in rows}
    parts: list[BenchmarkScores] = []
    for scored in run.benchmarks:
        protocol = protocol_by_benchmark.get(scored.spec.name)
        if protocol is not None:
            parts.append((scored, list(scored.scores_of(metric, protocol))))
    return mean_of_parts(parts, metric)


def _is_mean_over_questions(run: ScoredRun, metric: str) -> bool:
    """Return whether a metric is a mean over questions.

    It is not if it is computed from counts that are summed over all questions, such as a corpus BLEU, or if it is a
    mean over classes of questions with the same answer.
    """
    metrics_from_counts: set[str] = set()
    for scored in run.benchmarks:
        for tally in scored.tallies:
            metrics_from_counts.update(find_metric(tally.metric).names)
    declaring = metric_of(metric)
    is_mean_over_answers = isinstance(declaring, ReplyMetric) and declaring.mean_over == "answers"
    return metric not in metrics_from_counts and not is_mean_over_answers


def _bounds_of_mean(n_questions_by_maximum: Counter[tuple[int, int]], row: MetricRow) -> Bounds:
    """Return the least and the greatest possible mean of a metric.

    Args:
        n_questions_by_maximum: The number of questions, by (number of presentations, number of options).
        row: The metric. If the greatest value of a question depends on these two numbers, the greatest mean is the mean
            of the greatest values.
    """
    if not row.question_maximum or not n_questions_by_maximum:
        return row.bounds
    maxima: list[float] = []
    for (n_presentations, n_options), n_questions in n_questions_by_maximum.items():
        maxima.append(n_questions * row.question_maximum(n_presentations, n_options))
    greatest_mean = math.fsum(maxima) / n_questions_by_maximum.total()
    return row.bounds[0], greatest_mean
