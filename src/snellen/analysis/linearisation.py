"""Estimates of metrics that follow from sums over all questions, with intervals over images or dialogues.

BLEU, F1 and the trend over the rounds of a dialogue are not means over questions but smooth functions of sums. Near
its value such a function changes like a sum of deviations, whose standard error is known (Taylor linearisation).
"""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Callable, Hashable, Sequence
from operator import mul

from snellen.analysis.group_spread import group_spread
from snellen.analysis.intervals import NO_BOUNDS, UNIT_INTERVAL, Bounds, interval_of
from snellen.analysis.question_means import with_counts
from snellen.metrics.declaration import Metric, metric_row, share_row, summed_metric
from snellen.metrics.question_counts import Counts, QuestionCounts
from snellen.records import Estimate, Sample, Score
from snellen.scoring.scored_run import ScoredBenchmark

FEWEST_GROUPS = 3
"""Of fewer images no interval is given: it would hold BLEU-4 on two captions in 87 of 100."""
STEP = 1e-4
"""Step of central differences, relative to the sum."""
ROUND_TREND = Metric(
    description="of dialogues: correlation and slope of accuracy against the number of the round (arXiv 2310.02569, A.8)",
    rows=(
        metric_row(
            "round_correlation",
            unit="r",
            low=-1.0,
            high=1.0,
            better="neither",
            interval="linearised",
        ),
        metric_row(
            "round_slope",
            unit="share per round",
            low=-1.0,
            high=1.0,
            better="neither",
            interval="linearised",
        ),
    ),
)
FIELD_MACRO = Metric(
    description="mean over a document's fields of each field's own exact match: a rare field counts fully",
    rows=(
        share_row(
            "field_exact_match_macro", "field exact match, mean of fields", interval="linearised"
        ),
    ),
)
TREND_BOUNDS = (-1.0, 1.0)
FEWEST_ROUNDS = 3
FIELD_TAG = "key"
RowFunction = Callable[[Counts], Sequence[float | None]]


def corpus_estimates(
    scored: ScoredBenchmark, tallied: Sequence[QuestionCounts]
) -> dict[str, Estimate]:
    """Estimate each row of a metric that is computed from summed counts, such as a corpus BLEU.

    Args:
        scored: The benchmark.
        tallied: The counts of its questions, all by one metric.

    Returns:
        The estimates by row.
    """
    first = tallied[0]
    metric = summed_metric(first.metric)
    tallies_with_counts = [tally for tally in tallied if tally.counts]
    counts = [tally.counts for tally in tallies_with_counts]
    groups = [scored.samples[tally.sample_id].group for tally in tallies_with_counts]
    bounds = [row.bounds for row in metric.rows]
    row_estimates = linearised_estimates(counts, groups, metric.compute, bounds)
    estimates = {}
    for row, estimate in zip(metric.names, row_estimates, strict=True):
        estimates[row] = with_counts(estimate, tallied, len(tallies_with_counts))
    return estimates


def trend_estimates(scored: ScoredBenchmark, scores: Sequence[Score]) -> dict[str, Estimate]:
    """Return the correlation and the slope of accuracy against the number of the round, with intervals.

    Rounds are unweighted, as in ReForm-Eval (A.8, Table 21); dialogues are the independent groups.

    Args:
        scored: A benchmark of dialogues.
        scores: The accuracies of all rounds.

    Returns:
        The estimates by row; empty below three rounds.
    """
    n_rounds = max((score.turn for score in scores), default=-1) + 1
    if n_rounds < FEWEST_ROUNDS:
        return {}
    n_values = 0
    # For each dialogue, the sum of accuracies in each round, then the number of values in each round.
    counts_by_dialogue: dict[str, list[float]] = defaultdict(lambda: [0.0] * (2 * n_rounds))
    for score in scores:
        if score.value is None:
            continue
        n_values += 1
        counts = counts_by_dialogue[score.sample_id]
        counts[score.turn] += score.value or 0.0
        counts[n_rounds + score.turn] += 1

    def compute(sums: Counts) -> tuple[float | None, float | None]:
        """Return the correlation and the slope from the sums of right and of all answers in each round."""
        right = sums[:n_rounds]
        answered = sums[n_rounds:]
        if not all(answered):
            return None, None  # a round that no dialogue has reached
        return round_trend(
            [n_right / n_answered for n_right, n_answered in zip(right, answered, strict=True)]
        )

    groups = [scored.samples[name].group for name in counts_by_dialogue]
    all_counts = [tuple(counts) for counts in counts_by_dialogue.values()]
    bounds = [TREND_BOUNDS] * len(ROUND_TREND.names)
    estimates = {}
    for row, estimate in zip(
        ROUND_TREND.names, linearised_estimates(all_counts, groups, compute, bounds), strict=True
    ):
        estimates[row] = with_counts(estimate, scores, n_values)
    return estimates


def round_trend(accuracies: Sequence[float]) -> tuple[float | None, float]:
    """Describe how accuracy changes over the rounds of a dialogue (ReForm-Eval, appendix A.8 and Table 21).

    Args:
        accuracies: Mean accuracy of each round over all tests. Rounds have equal weight.

    Returns:
        Pearson's r of the accuracy with the number of the round, None if all accuracies are equal; and the least-squares
        change of accuracy per round. The paper prints r alone.
    """
    n_rounds = len(accuracies)
    mean_round = (n_rounds + 1) / 2
    mean_accuracy = math.fsum(accuracies) / n_rounds
    round_offsets = [number - mean_round for number in range(1, n_rounds + 1)]
    accuracy_offsets = [accuracy - mean_accuracy for accuracy in accuracies]
    round_squares = math.fsum(offset**2 for offset in round_offsets)
    accuracy_squares = math.fsum(offset**2 for offset in accuracy_offsets)
    if max(accuracies) == min(accuracies) or accuracy_squares == 0.0:
        return None, 0.0

    products = math.fsum(map(mul, round_offsets, accuracy_offsets))
    correlation = products / math.sqrt(round_squares * accuracy_squares)
    slope = products / round_squares
    return max(-1.0, min(1.0, correlation)), slope


def document_field(sample: Sample) -> str:
    """Return the field of a document that a question asks for: its tag `key`, or else the question itself."""
    return sample.tags.get(FIELD_TAG) or sample.question


def macro_estimate(
    scored: ScoredBenchmark, scores: Sequence[Score], part_of: Callable[[Score], str]
) -> Estimate:
    """Estimate the unweighted mean over parts (fields, classes) of the mean of each part.

    A rare part counts as much as a common one. A part without a scored question is left out. Of K parts, question i of
    part k, which has n_k questions, moves the value by (x_i - mean_k) / (K n_k).

    Args:
        scored: The benchmark.
        scores: Scores of its questions.
        part_of: Function from a score to the name of its part.
    """
    scores_by_part: dict[str, list[Score]] = defaultdict(list)
    for score in scores:
        if score.value is not None:
            scores_by_part[part_of(score)].append(score)
    if not scores_by_part:
        return with_counts(Estimate(None, None, None, None, 0), scores, 0)

    means = {}
    for part, members in scores_by_part.items():
        means[part] = statistics.fmean(score.value or 0.0 for score in members)
    shifts_by_group: dict[str, list[float]] = defaultdict(list)
    for part, members in scores_by_part.items():
        for score in members:
            deviation = (score.value or 0.0) - means[part]
            group = scored.samples[score.sample_id].group
            shifts_by_group[group].append(deviation / (len(means) * len(members)))

    # The deviations of a part sum to zero, and so do those of all.
    deviations = [math.fsum(shifts) for shifts in shifts_by_group.values()]
    value = statistics.fmean(means.values())
    estimate = linear_estimate((value, deviations), list(shifts_by_group), UNIT_INTERVAL)
    n_scored = sum(map(len, scores_by_part.values()))
    return with_counts(estimate, scores, n_scored)


def linearised_estimates(
    counts: Sequence[Counts],
    groups: Sequence[Hashable],
    compute: RowFunction,
    bounds: Sequence[Bounds],
) -> list[Estimate]:
    """Return the value of each row with its 95% interval, from a sum of deviations.

    The method is that of Woodruff (1971) and Binder (1983, section 4).

    A question deviates by sum_j dvalue/dsum_j count_j, the first-order change of the value when it is counted once
    more. The deviations are then treated like those of a mean: by group, with Student's t, within the bounds. There is
    no interval for one or two groups, or where the value is undefined nearby; a value outside the bounds is treated as
    unbounded.
    """
    if not counts:
        return [Estimate(None, None, None, None, 0)] * len(bounds)
    values = compute(_summed(counts))
    linearised = linearised_deviations(counts, compute, len(bounds))
    return [
        linear_estimate(deviations, groups, row_bounds)
        if deviations
        else Estimate(value, None, None, None, len(counts), groups=len(set(groups)))
        for deviations, value, row_bounds in zip(linearised, values, bounds, strict=True)
    ]


def linearised_deviations(
    counts: Sequence[Counts], compute: RowFunction, rows: int
) -> list[tuple[float, list[float]] | None]:
    """Return the value of each row, and the change of that value by each question's deviation from the mean.

    The changes of all questions sum to zero. An item is None if the row is undefined, at these counts or close to them,
    or if nothing was counted.
    """
    if not counts:
        return [None] * rows
    sums = _summed(counts)
    linearised: list[tuple[float, list[float]] | None] = []
    for value, gradient in zip(compute(sums), _gradients(compute, sums, rows), strict=True):
        if value is None or gradient is None:
            linearised.append(None)
            continue
        shifts = [sum(map(mul, gradient, question_counts)) for question_counts in counts]
        middle = math.fsum(shifts) / len(counts)
        linearised.append((value, [shift - middle for shift in shifts]))
    return linearised


def linear_estimate(
    linearised: tuple[float, list[float]], groups: Sequence[Hashable], bounds: Bounds
) -> Estimate:
    """Return a value with its interval, from the change of the value by each question's deviation from the mean.

    Examples:
        >>> groups = ["a", "a", "b", "c"]
        >>> estimate = linear_estimate((0.5, [0.5, -0.5, 0.5, -0.5]), groups, (0.0, 1.0))
        >>> estimate.value, estimate.n, estimate.groups
        (0.5, 4, 3)
    """
    value, deviations = linearised
    spread = group_spread(deviations, groups)
    low, high = interval_of(value, spread, bounds if bounds[0] <= value <= bounds[1] else NO_BOUNDS)
    if spread.groups < FEWEST_GROUPS:
        low = high = None
    error = spread.error if spread.groups > 1 else None
    return Estimate(value, error, low, high, len(deviations), groups=spread.groups)


def gradient_of(compute: Callable[[Counts], float | None], sums: Counts) -> Counts | None:
    """Return the derivatives of a number by the sums that it follows from; None where it is undefined nearby.

    Examples:
        >>> gradient = gradient_of(lambda sums: sums[0] / sums[1], (3.0, 4.0))
        >>> [round(slope, 4) for slope in gradient]
        [0.25, -0.1875]
    """
    [gradient] = _gradients(lambda near: (compute(near),), sums, 1)
    return None if gradient is None else tuple(gradient)


def _gradients(compute: RowFunction, sums: Counts, rows: int) -> list[list[float] | None]:
    """dvalue/dsum_j for each row, by central differences; None where the value is undefined nearby.

    Where a sum is zero all its counts are zero, so its derivative affects no question.
    """
    columns: list[Sequence[float | None]] = []
    for j, total in enumerate(sums):
        if not total:
            columns.append([0.0] * rows)
            continue
        step = abs(total) * STEP
        above, below = (
            compute((*sums[:j], total + sign * step, *sums[j + 1 :])) for sign in (1, -1)
        )
        columns.append(
            [
                None if high is None or low is None else (high - low) / (2 * step)
                for high, low in zip(above, below, strict=True)
            ]
        )
    gradients: list[list[float] | None] = []
    for row in zip(*columns, strict=True):
        slopes = [slope for slope in row if slope is not None]
        gradients.append(slopes if len(slopes) == len(row) else None)
    return gradients


def _summed(counts: Sequence[Counts]) -> Counts:
    return tuple(map(math.fsum, zip(*counts, strict=True)))
