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

MIN_GROUPS_FOR_INTERVAL = 3
"""Of fewer images no interval is given: it would hold BLEU-4 on two captions in 87 of 100."""
RELATIVE_STEP = 1e-4
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
MIN_TREND_ROUNDS = 3
DOCUMENT_FIELD_TAG = "key"
RowFunction = Callable[[Counts], Sequence[float | None]]


def corpus_estimates(
    scored: ScoredBenchmark, tallied: Sequence[QuestionCounts]
) -> dict[str, Estimate]:
    """Estimate a metric that is computed from sums over all questions, such as a corpus BLEU.

    Args:
        scored: The benchmark.
        tallied: What each question adds to the sums. All belong to one metric.

    Returns:
        A metric can yield several numbers, such as precision and recall. The mapping goes from the name of each to its
        estimate.
    """
    metric = summed_metric(tallied[0].metric)
    counts: list[Counts] = []
    groups: list[Hashable] = []
    for tally in tallied:
        if tally.counts:
            counts.append(tally.counts)
            groups.append(scored.samples[tally.sample_id].group)
    bounds = [row.bounds for row in metric.rows]
    estimate_list = linearised_estimates(counts, groups, metric.compute, bounds)

    estimates: dict[str, Estimate] = {}
    for name, estimate in zip(metric.names, estimate_list, strict=True):
        estimates[name] = with_counts(estimate, tallied, len(counts))
    return estimates


def trend_estimates(scored: ScoredBenchmark, scores: Sequence[Score]) -> dict[str, Estimate]:
    """Estimate how accuracy changes over the rounds of dialogues: its correlation with the round number, and its slope.

    For example, accuracies of 0.9, 0.8 and 0.7 in the rounds 1, 2 and 3 have the correlation -1 and the slope -0.1. All
    rounds have equal weight, also if few dialogues reach them, as in ReForm-Eval (A.8, Table 21). Rounds of one
    dialogue may depend on each other, so the intervals are computed from groups of rounds, one for each dialogue.

    Args:
        scored: A benchmark of dialogues.
        scores: The accuracy of each question, that is, of each round of each dialogue.

    Returns:
        The estimates `round_correlation` and `round_slope`, by name; empty if no dialogue has three rounds. Both are
        without a value if a round has no scored question, and the correlation also if all rounds are equally accurate.
    """
    n_rounds = max((score.turn for score in scores), default=-1) + 1
    if n_rounds < MIN_TREND_ROUNDS:
        return {}
    n_values = 0
    # For each dialogue, the sum of accuracies in each round, then the number of values in each round.
    counts_by_dialogue: dict[str, list[float]] = defaultdict(lambda: [0.0] * (2 * n_rounds))
    for score in scores:
        if score.value is None:
            continue
        n_values += 1
        counts = counts_by_dialogue[score.sample_id]
        counts[score.turn] += score.value
        counts[n_rounds + score.turn] += 1

    def compute(sums: Counts) -> tuple[float | None, float | None]:
        """Return the correlation and the slope.

        Args:
            sums: The sum of accuracies in each round, then the number of answers in each round; shape (2 * rounds,).

        Returns:
            A pair of None if a round has no answer.
        """
        accuracy_sums = sums[:n_rounds]
        answer_counts = sums[n_rounds:]
        if not all(answer_counts):
            return None, None  # a round that no dialogue has reached
        accuracies: list[float] = []
        for accuracy_sum, n_answers in zip(accuracy_sums, answer_counts, strict=True):
            accuracies.append(accuracy_sum / n_answers)
        return round_trend(accuracies)

    groups = [scored.samples[sample_id].group for sample_id in counts_by_dialogue]
    all_counts = [tuple(counts) for counts in counts_by_dialogue.values()]
    bounds = [TREND_BOUNDS] * len(ROUND_TREND.names)
    estimate_list = linearised_estimates(all_counts, groups, compute, bounds)
    estimates: dict[str, Estimate] = {}
    for name, estimate in zip(ROUND_TREND.names, estimate_list, strict=True):
        estimates[name] = with_counts(estimate, scores, n_values)
    return estimates


def round_trend(accuracies: Sequence[float]) -> tuple[float | None, float]:
    """Describe how accuracy changes over the rounds of a dialogue (ReForm-Eval, appendix A.8 and Table 21).

    Args:
        accuracies: The mean accuracy in round 1, in round 2, and so on. Rounds have equal weight.

    Returns:
        The correlation (Pearson's r) of the accuracy with the number of the round, which is None if all accuracies are
        equal; and the change of accuracy per round by least squares. The paper prints only r.
    """
    n_rounds = len(accuracies)
    mean_round = (n_rounds + 1) / 2
    mean_accuracy = math.fsum(accuracies) / n_rounds
    round_deviations = [number - mean_round for number in range(1, n_rounds + 1)]
    accuracy_deviations = [accuracy - mean_accuracy for accuracy in accuracies]
    sum_of_round_squares = math.fsum(deviation**2 for deviation in round_deviations)
    sum_of_accuracy_squares = math.fsum(deviation**2 for deviation in accuracy_deviations)
    if max(accuracies) == min(accuracies) or sum_of_accuracy_squares == 0.0:
        return None, 0.0

    sum_of_products = math.fsum(map(mul, round_deviations, accuracy_deviations))
    slope = sum_of_products / sum_of_round_squares
    correlation = sum_of_products / math.sqrt(sum_of_round_squares * sum_of_accuracy_squares)
    correlation = max(-1.0, min(1.0, correlation))  # rounding may lead out of the range
    return correlation, slope


def document_field(sample: Sample) -> str:
    """Return the field of a document that a question asks for: its tag `key`, or else the question itself."""
    return sample.tags.get(DOCUMENT_FIELD_TAG) or sample.question


def macro_estimate(
    scored: ScoredBenchmark, scores: Sequence[Score], part_of: Callable[[Score], str]
) -> Estimate:
    """Estimate a macro average: the unweighted mean over parts (such as fields or classes) of the mean of each part.

    A part with few questions thus counts as much as a part with many. A part without a scored question is left out.
    With K parts, question i of part k, which has n_k questions, shifts the average by (x_i - mean_k) / (K n_k).

    Args:
        scored: The benchmark.
        scores: Scores of its questions.
        part_of: Function that returns the name of the part that a score belongs to.
    """
    scores_by_part: dict[str, list[Score]] = defaultdict(list)
    for score in scores:
        if score.value is not None:
            scores_by_part[part_of(score)].append(score)
    if not scores_by_part:
        return with_counts(Estimate(value=None, stderr=None, low=None, high=None, n=0), scores, 0)

    means = {}
    for part, members in scores_by_part.items():
        means[part] = statistics.fmean(score.value or 0.0 for score in members)
    shifts_by_group: dict[str, list[float]] = defaultdict(list)
    for part, members in scores_by_part.items():
        for score in members:
            deviation = (score.value or 0.0) - means[part]
            group = scored.samples[score.sample_id].group
            shifts_by_group[group].append(deviation / (len(means) * len(members)))

    # The deviations in each part sum to zero, so all deviations together do, too.
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
    """Estimate numbers that are computed from sums over questions, each with a 95% interval.

    The method is linearisation (Woodruff 1971; Binder 1983, section 4). The influence of a question is how much the
    number would change, to first order, if the question counted once more: sum_j dvalue/dsum_j count_j. The interval is
    computed from the influences as it is from the values of a mean.

    Args:
        counts: For each question, what it adds to the sums.
        groups: The group (image or dialogue) of each question.
        compute: Function from the sums to the numbers.
        bounds: For each number, its least and greatest possible value. A number outside of them is treated as
            unbounded.

    Returns:
        One estimate for each number. There is no interval for one or two groups, or if the number is undefined for
        sums close to the observed ones.
    """
    if not counts:
        return [Estimate(value=None, stderr=None, low=None, high=None, n=0)] * len(bounds)
    values = compute(_summed(counts))
    linearised = linearised_deviations(counts, compute, len(bounds))
    estimates: list[Estimate] = []
    for deviations, value, row_bounds in zip(linearised, values, bounds, strict=True):
        if deviations:
            estimates.append(linear_estimate(deviations, groups, row_bounds))
        else:
            n_groups = len(set(groups))
            estimates.append(
                Estimate(
                    value=value, stderr=None, low=None, high=None, n=len(counts), groups=n_groups
                )
            )
    return estimates


def linearised_deviations(
    counts: Sequence[Counts], compute: RowFunction, rows: int
) -> list[tuple[float, list[float]] | None]:
    """Compute numbers from sums over questions, and how much each question contributes to each number.

    Args:
        counts: For each question, what it adds to the sums.
        compute: Function from the sums to the numbers.
        rows: How many numbers it returns.

    Returns:
        For each number, its value and a list with the influence of each question. The influences sum to zero. The item
        is None if the number is undefined for these sums or for sums close to them, or if there are no questions.
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
        mean_shift = math.fsum(shifts) / len(counts)
        influences = [shift - mean_shift for shift in shifts]
        linearised.append((value, influences))
    return linearised


def linear_estimate(
    linearised: tuple[float, list[float]], groups: Sequence[Hashable], bounds: Bounds
) -> Estimate:
    """Return an estimate with a 95% interval, given how much each question contributes to its value.

    Args:
        linearised: The value, and the influence of each question on it. The influences sum to zero.
        groups: The group of each question.
        bounds: The least and the greatest possible value; ignored if the value is outside of them.

    Examples:
        >>> groups = ["a", "a", "b", "c"]
        >>> estimate = linear_estimate((0.5, [0.5, -0.5, 0.5, -0.5]), groups, (0.0, 1.0))
        >>> estimate.value, estimate.n, estimate.groups
        (0.5, 4, 3)
    """
    value, deviations = linearised
    spread = group_spread(deviations, groups)
    is_within_bounds = bounds[0] <= value <= bounds[1]
    low, high = interval_of(value, spread, bounds if is_within_bounds else NO_BOUNDS)
    if spread.groups < MIN_GROUPS_FOR_INTERVAL:
        low = high = None
    error = spread.error if spread.groups > 1 else None
    return Estimate(
        value=value, stderr=error, low=low, high=high, n=len(deviations), groups=spread.groups
    )


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
    """Return the partial derivatives of numbers by the sums that they are computed from, by central differences.

    Args:
        compute: Function from sums to numbers.
        sums: The sums at which to differentiate.
        rows: How many numbers the function returns.

    Returns:
        For each number, its derivative by each sum; None if the number is undefined for sums close to these.
    """
    derivatives_by_sum: list[list[float | None]] = []
    for index, total in enumerate(sums):
        if not total:
            # All counts in a sum of zero are zero, so its derivative affects no question.
            derivatives_by_sum.append([0.0] * rows)
            continue
        step = abs(total) * RELATIVE_STEP
        sums_before = sums[:index]
        sums_after = sums[index + 1 :]
        values_above = compute((*sums_before, total + step, *sums_after))
        values_below = compute((*sums_before, total - step, *sums_after))
        derivatives: list[float | None] = []
        for above, below in zip(values_above, values_below, strict=True):
            if above is None or below is None:
                derivatives.append(None)
            else:
                derivatives.append((above - below) / (2 * step))
        derivatives_by_sum.append(derivatives)

    gradients: list[list[float] | None] = []
    for derivatives_of_number in zip(*derivatives_by_sum, strict=True):
        defined = [derivative for derivative in derivatives_of_number if derivative is not None]
        is_defined = len(defined) == len(derivatives_of_number)
        gradients.append(defined if is_defined else None)
    return gradients


def _summed(counts: Sequence[Counts]) -> Counts:
    return tuple(map(math.fsum, zip(*counts, strict=True)))
