"""Estimates: a mean, its standard error over independent groups, and an interval that holds.

Groups (pictures, dialogues) are independent; questions within one may depend on each other in any way. Three things
are estimated separately that a normal interval mixes up: how much groups differ (a standard error), how well so few
groups can tell that (Student's t), and how an interval bends near the bounds of a metric (the score interval).
`bench/interval_coverage.py` measures how often the intervals hold the true value.
"""

from __future__ import annotations

import math
from array import array
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from functools import cached_property, lru_cache
from itertools import accumulate
from operator import mul
from statistics import NormalDist
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import replace

from snellen.records import Estimate

GroupT = TypeVar("GroupT", bound=Hashable)

CONFIDENCE = 0.95
"""The share of intervals that hold the true value."""
Bounds = tuple[float, float]
"""The least and the greatest possible value of a metric; infinite where there is none."""
Interval = tuple[float | None, float | None]
UNIT_INTERVAL: Bounds = (0.0, 1.0)
"""The bounds of a share."""
NO_BOUNDS: Bounds = (-math.inf, math.inf)
SAME = 1e-12
"""Values that differ by less than this, relative to their size, differ by rounding."""
FEW_GROUPS = 3
"""Up to this many groups, Student's t covers 90 to 92 of 100 for values within bounds that never come near one. The
variance is then multiplied by G / (G - 1)."""
FEW_UNBOUNDED_GROUPS = 5
"""Like `FEW_GROUPS`, for values without bounds."""
BINARY_CARRIERS = 0.7
"""The part of the groups that carry wrong answers which counts near a bound. 12 groups of 25 at 0.9 with a correlation
of 0.6 are covered 92.8 of 100 times with all of them and 95.9 with this part; 20 of 25 at 0.95, 90.3 and 95.3."""
RARE = 11
"""Outcomes of which there are more than this are not rare: Wilson's limit is below `rare_limit` from 10.1 on."""


class GroupLabels(tuple[GroupT, ...]):
    """Group (image, dialogue) of each question, with cached sizes and order."""

    @classmethod
    def of(cls, groups: Sequence[GroupT]) -> GroupLabels[GroupT]:
        return groups if isinstance(groups, GroupLabels) else cls(groups)

    @cached_property
    def sizes(self) -> Counter[GroupT]:
        """Number of questions by group."""
        return Counter(self)

    @cached_property
    def others(self) -> array[int]:
        """Number of other questions in the group of each question."""
        return array("q", (self.sizes[group] - 1 for group in self))

    @cached_property
    def order(self) -> array[int]:
        """Indexes of the questions, sorted by group."""
        starts = accumulate(self.sizes.values(), initial=0)
        next_position = dict(zip(self.sizes, starts, strict=False))
        order = array("q", bytes(8 * len(self)))
        for question, group in enumerate(self):
            order[next_position[group]] = question
            next_position[group] += 1
        return order


def estimate_mean(
    values: Sequence[float],
    groups: Sequence[Hashable],
    *,
    bounds: Bounds = UNIT_INTERVAL,
    unscored: int = 0,
) -> Estimate:
    """Estimate a mean with a 95% interval. Values of one group (image, dialogue) may depend on each other.

    The standard error is that of the delete-one-group jackknife (`group_spread`). The interval is a score interval
    (`score_interval`) with Student's t, because few groups estimate that error poorly. For independent zeros and ones
    it is Wilson's interval, and wider if one of them is rare (`share_interval`). Bounds on both sides of zero mean a
    difference, whose gains and losses are estimated separately. There is no interval for a single group, nor for equal
    values without bounds, because an unseen value could be arbitrarily different.

    Args:
        values: One value per question.
        groups: The group of each question.
        bounds: The least and the greatest possible value.
        unscored: Number of questions without a value, for the record only.
    """
    n = len(values)
    if not n:
        return Estimate(None, None, None, None, 0, unscored)
    mean = math.fsum(values) / n
    labels = GroupLabels.of(groups)
    deviations = array("d", ((value - mean) / n for value in values))
    spread = group_spread(deviations, labels)
    low, high = _mean_interval(values, labels, mean, spread, bounds)
    return Estimate(mean, spread.error, low, high, n, unscored, groups=spread.groups)


class GroupSpread(Struct, frozen=True):
    """Variances of an estimate that is a sum over questions, if other groups were drawn."""

    groups: int
    effective_groups: float
    """1 / sum_g w_g^2, where w_g is the share of the questions in group g: the effective sample size if all questions
    of a group have the same value. Equals the number of groups if these have one size."""
    jackknife: float = 0.0
    """Delete-one-group jackknife; 0 for a single group."""
    exchangeable: float = 0.0
    """Estimated from the mean correlation within groups."""
    independent: float = 0.0
    """If all questions were independent."""
    dependent: float = 0.0
    """If all questions of a group had the same value."""
    df: float = 0.0
    """Degrees of freedom that the design allows."""
    observed_df: float = 0.0
    """Degrees of freedom, fewer than `df` if a few groups make up most of the spread."""
    binary_df: float = math.inf
    """The same for values at the bounds in groups of several: near a bound, the samples that happen to have few wrong
    answers also show too little of how these cluster, so that fewer groups count (`BINARY_CARRIERS`)."""
    skew: float = 0.0
    """Skewness of the estimate, from unbiased cumulants for groups of one size; 0 for fewer than five groups."""

    @property
    def error(self) -> float:
        """Cluster-robust standard error."""
        return math.sqrt(self.jackknife)

    def variance(self, binary: bool = False) -> float:
        """Return the variance whose square root times z is the 95% margin.

        The estimate from groups is multiplied by (t / z)^2 and kept between the variance of independent questions
        and that of groups with equal values: 1 / sum w^2 <= n_eff (z / t)^2 <= n for the effective sample size.
        The NCHS standards for proportions (Parker et al. 2017, after Korn and Graubard 1998) do the same without the
        first bound.

        Args:
            binary: Whether each value is at a bound. The mean then determines the variance of a value; else that
                variance is estimated too and has a t of its own.
        """
        df = min(self.observed_df, self.binary_df) if binary else self.observed_df
        factor = (student_t(df) / z()) ** 2
        correlated = self.independent + factor * (self.exchangeable - self.independent)
        estimated = max(factor * self.jackknife, correlated)

        upper = self.dependent
        if not binary:
            upper *= (student_t(self.df) / z()) ** 2 * self.groups / (self.groups - 1)
        return max(min(estimated, upper), self.independent)


def group_spread(deviations: Sequence[float], groups: Sequence[Hashable]) -> GroupSpread:
    """Compute the spread of a sum if whole groups are drawn.

    With the share w_g of the questions that are in group g and the sum S_g of its deviations, the delete-one-group
    jackknife of a mean is (G - 1) / G sum_g (S_g / (1 - w_g))^2 (MacKinnon, Nielsen and Webb 2023, equation 13),
    G / (G - 1) sum_g S_g^2 for groups of one size. Satterthwaite's degrees of freedom for groups with equal values are
    (sum w^2)^2 / sum w^4 - 1, G - 1 for groups of one size.

    Args:
        deviations: One per question; they add up to 0.
        groups: The group of each question.
    """
    labels = GroupLabels.of(groups)
    sizes = labels.sizes
    n = len(deviations)
    count = len(sizes)
    total = math.fsum(map(mul, deviations, deviations))
    if count < 2:
        return GroupSpread(count, 1.0, independent=total)

    # There are many groups but few sizes.
    groups_by_size = Counter(sizes.values())
    squared_shares = sum(number * size**2 for size, number in groups_by_size.items()) / n**2
    fourth_powers = sum(number * size**4 for size, number in groups_by_size.items()) / n**4
    df = max(1.0, squared_shares**2 / fourth_powers - 1)

    is_grouped = count < n
    if is_grouped:
        sums = sum_by_group(deviations, labels)
    else:
        sums = dict(zip(labels, deviations, strict=True))
    if len(groups_by_size) == 1:
        other_groups = 1 - 1 / count
        shifts = [sums[group] / other_groups for group in sizes]
    else:
        shifts = [sums[group] / (1 - size / n) for group, size in sizes.items()]

    jackknife = (count - 1) / count * math.fsum(map(mul, shifts, shifts))
    cubed_shifts = map(mul, map(mul, shifts, shifts), shifts)
    third_cumulant = (count - 1) ** 2 / count / max(1, count - 2) * math.fsum(cubed_shifts)
    skew = 0.0
    if jackknife and count > 4:
        skew = third_cumulant / jackknife / math.sqrt(jackknife)

    correlation = 0.0
    if is_grouped and total:
        correlation = _correlation_within_groups(deviations, labels, sums)
    dependent = n * total * squared_shares

    carriers = _carrier_groups(shifts)
    binary_df = math.inf
    if is_grouped:
        binary_df = max(1.0, BINARY_CARRIERS * math.pi * carriers - 1)
    return GroupSpread(
        count,
        1 / squared_shares,
        jackknife,
        total + correlation * (dependent - total),
        total,
        dependent,
        df,
        max(1.0, min(df, math.pi * carriers - 1)),
        binary_df,
        skew,
    )


def sum_by_group(deviations: Sequence[float], groups: Sequence[GroupT]) -> dict[GroupT, float]:
    """Return the sum of each group, which does not depend on the order of its questions."""
    labels = GroupLabels.of(groups)
    sorted_deviations = array("d", map(deviations.__getitem__, labels.order))
    sums: dict[GroupT, float] = {}
    start = 0
    for group, size in labels.sizes.items():
        sums[group] = math.fsum(sorted_deviations[start : start + size])
        start += size
    return sums


def _correlation_within_groups(
    deviations: Sequence[float], groups: GroupLabels[Hashable], sums: Mapping[Hashable, float]
) -> float:
    """Return the mean correlation of two questions of a group, 0 to 1.

    It is sum_g sum_{i != j in g} d_i d_j / (n_g - 1), divided by the same for a correlation of 1. All questions in
    groups of two or more have the same weight.
    """
    n = len(deviations)
    sizes = groups.sizes
    total = math.fsum(map(mul, deviations, deviations))
    between = math.fsum(sums[group] ** 2 / (size - 1) for group, size in sizes.items() if size > 1)
    if len(set(sizes.values())) == 1:
        within = total / (n / len(sizes) - 1)
    else:
        within = math.fsum(
            deviation * deviation / others
            for deviation, others in zip(deviations, groups.others, strict=True)
            if others
        )
    n_grouped = n - sum(size == 1 for size in sizes.values())
    correlation = n * (between - within) / n_grouped / total
    return min(1.0, max(0.0, correlation))


def _carrier_groups(shifts: Sequence[float]) -> float:
    """Return the effective number of groups, (sum x)^2 / sum x^2, on the side of the mean that has fewer.

    It is G / pi for many normal shifts. If few groups hold all wrong replies, only these tell how wrong replies
    cluster.
    """
    effective: list[float] = []
    for side in ([x for x in shifts if x > 0], [x for x in shifts if x < 0]):
        squares = math.fsum(map(mul, side, side))
        effective.append(math.fsum(side) ** 2 / squares if squares else 0.0)
    return min(effective)


def _mean_interval(
    values: Sequence[float],
    groups: Sequence[Hashable],
    mean: float,
    spread: GroupSpread,
    bounds: Bounds,
) -> Interval:
    low, high = bounds
    varied = max(values) - min(values) > SAME * max(1.0, abs(mean))
    is_difference = low < 0 < high and math.isfinite(high - low)
    if is_difference and varied and spread.groups > 1:
        return _difference_interval(values, groups, spread, bounds)
    return interval_of(mean, spread, bounds, varied=varied, binary=set(values) == {low, high})


def interval_of(
    value: float, spread: GroupSpread, bounds: Bounds, *, varied: bool = True, binary: bool = False
) -> Interval:
    """Return the 95% interval of an estimate from its spread over groups, or a pair of None for a single group.

    Args:
        value: The estimate.
        spread: Its spread over groups.
        bounds: The least and the greatest possible value.
        varied: Whether the values differ from each other.
        binary: Whether each value is at a bound.
    """
    if spread.groups < 2:
        return None, None
    is_rounding = spread.independent <= (SAME * max(1.0, abs(value))) ** 2
    is_inside = bounds[0] < value < bounds[1]
    if not varied or is_rounding or not is_inside:
        return unvaried_interval(value, spread.effective_groups, bounds)

    finite_bounds = sum(map(math.isfinite, bounds))
    if finite_bounds == 0:
        few = FEW_UNBOUNDED_GROUPS
    elif finite_bounds == 2 and not binary:
        few = FEW_GROUPS
    else:
        few = 0
    variance = spread.variance(binary)
    if spread.groups <= few:
        variance *= spread.groups / (spread.groups - 1)
    observed = (1 - 1 / spread.groups) * spread.jackknife
    return score_interval(value, variance, bounds, observed=observed, skew=spread.skew)


def score_interval(
    value: float, variance: float, bounds: Bounds, *, observed: float = 0.0, skew: float = 0.0
) -> tuple[float, float]:
    """Return the score interval: the values mu with (value - mu)^2 <= z^2 v(mu), which bends with the bounds a and b.

    v(mu) = variance (mu - a) (b - mu) / ((value - a) (b - value)): a quasi-binomial variance that is the given one
    at mu = value. On [0, 1] this is Wilson's interval on the effective sample size value (1 - value) / variance, with
    `rare_limit` near a bound; with one bound only, that of a quasi-Poisson rate, v proportional to mu - a. Without
    bounds v(mu) = variance + skew sqrt(variance) (mu - value) (the third cumulant is v v'; Morris 1982), where that
    lengthens the interval: else value -+ z sqrt(variance).

    Args:
        value: The estimate, inside the bounds.
        variance: Its variance.
        bounds: The least and the greatest possible value.
        observed: The variance that groups show, if greater: a rare outcome throughout a large group occurred once.
        skew: Skewness of the estimate.

    Raises:
        ValueError: The value is not inside the bounds.
    """
    low, high = bounds
    if value <= low or value >= high:
        raise ValueError(f"{value} is not within {low} and {high}")

    if math.isinf(low) and math.isinf(high):
        margin = z() * math.sqrt(variance)
        below, above = skewed_margins(margin**2, margin * z() * skew)
        return value - max(below, margin), value + max(above, margin)

    if math.isinf(low):
        mirrored_low, mirrored_high = score_interval(-value, variance, (-high, math.inf))
        return -mirrored_high, -mirrored_low

    height = value - low
    if math.isinf(high):
        squared_margin = z() ** 2 * variance
        below, above = skewed_margins(squared_margin, squared_margin / height)
        count = height**2 / max(variance, observed)
        lower = min(height - below, height * rare_limit(count) / count)
        return low + max(0.0, lower), value + above

    span = high - low
    product = height * (high - value)
    share_low, share_high = share_interval(
        height / span, product / variance, product / max(variance, observed)
    )
    return low + span * share_low, low + span * share_high


def skewed_margins(product: float, difference: float) -> tuple[float, float]:
    """Return the distances below and above value of the mu that solve (value - mu)^2 = product + difference (mu - value)."""
    root = math.hypot(difference / 2, math.sqrt(product))
    return root - difference / 2, root + difference / 2


def unvaried_interval(value: float, groups: float, bounds: Bounds) -> Interval:
    """Return the interval of a mean of equal values, because other values may exist unseen.

    By the upper limit q for 0 of G independent groups, a share q of the values may be at a bound:
    [value - q (value - a), value + q (b - value)], which at 0 and 1 is that of a share. Without bounds, the interval
    is a pair of None.
    """
    low, high = bounds
    if math.isinf(low) or math.isinf(high):
        return None, None
    unseen = share_interval(0.0, groups)[1]
    return value - unseen * (value - low), value + unseen * (high - value)


def _difference_interval(
    values: Sequence[float], groups: Sequence[Hashable], spread: GroupSpread, bounds: Bounds
) -> tuple[float, float]:
    """Return the interval of mean gain minus mean loss by MOVER (Zou and Donner 2008, equation 3).

    low = g - l - sqrt((g - g_low)^2 + (l_high - l)^2 - 2 r (g - g_low) (l_high - l)) with the correlation r of the
    two, and high in the same way. So the interval of two systems that seldom differ still allows for unseen gains and
    losses.
    """
    greatest_gain = max(values)
    greatest_loss = -min(values)
    # An unseen loss is at most the greatest gain, and the reverse.
    gain_bound = bounds[1] if greatest_gain > 0 else min(bounds[1], greatest_loss)
    loss_bound = -bounds[0] if greatest_loss > 0 else min(-bounds[0], greatest_gain)
    gains = [value if value > 0 else 0.0 for value in values]
    losses = [-value if value < 0 else 0.0 for value in values]
    gain = estimate_mean(gains, groups, bounds=(0.0, gain_bound))
    loss = estimate_mean(losses, groups, bounds=(0.0, loss_bound))

    gain_error = gain.stderr or 0.0
    loss_error = loss.stderr or 0.0
    correlation = 0.0
    if gain_error and loss_error:
        covariance = (gain_error**2 + loss_error**2 - spread.error**2) / 2
        correlation = max(-1.0, min(1.0, covariance / gain_error / loss_error))

    gain_below, gain_above = margins(gain)
    loss_below, loss_above = margins(loss)
    below = gain_below**2 + loss_above**2 - 2 * correlation * gain_below * loss_above
    above = gain_above**2 + loss_below**2 - 2 * correlation * gain_above * loss_below
    mean = (gain.value or 0.0) - (loss.value or 0.0)
    low = mean - math.sqrt(max(0.0, below))
    high = mean + math.sqrt(max(0.0, above))
    return max(bounds[0], low), min(bounds[1], high)


def margins(estimate: Estimate) -> tuple[float, float]:
    """Return the distances from an estimate down and up to the ends of its interval."""
    value = estimate.value or 0.0
    low = estimate.low or 0.0
    high = estimate.high or 0.0
    return max(0.0, value - low), max(0.0, high - value)


def wilson(share: float, n: float) -> tuple[float, float]:
    """Return Wilson's 95% interval of a share of n independent trials; n may be fractional."""
    half = z() ** 2 / n
    middle = (share + half / 2) / (1 + half)
    width = z() * math.sqrt(share * (1 - share) / n + half / (4 * n)) / (1 + half)
    # At the ends the formula gives 0 and 1 except for rounding.
    low = 0.0 if share <= 0 else max(0.0, middle - width)
    high = 1.0 if share >= 1 else min(1.0, middle + width)
    return low, high


def share_interval(share: float, n: float, rare_n: float | None = None) -> tuple[float, float]:
    """Return Wilson's interval, extended to the limits of rare outcomes (Brown, Cai and DasGupta 2001, 4.1.1).

    Wilson's alone covers 0.005 in 86 of 100 samples of 30, since one outcome has 0.0059 as its lower limit.

    Args:
        share: The share of trials with the outcome.
        n: Number of trials, whole or fractional.
        rare_n: Number of trials for the limits of rare outcomes; `n` if None.
    """
    rare_n = rare_n or n
    low, high = wilson(share, n)
    rare_low = rare_limit(share * rare_n, rare_n) / rare_n
    rare_miss_low = rare_limit((1 - share) * rare_n, rare_n) / rare_n
    return min(low, rare_low), max(high, 1 - rare_miss_low)


@lru_cache(maxsize=4096)
def rare_limit(count: float, n: float = math.inf) -> float:
    """Return the least expected count at which `count` or more of n trials have a chance of 5%.

    It is n times the 5% quantile of Beta(count, n - count + 1), or the quantile of Gamma(count) for a Poisson count.
    Both numbers may be fractional. The logarithm of the chance is concave in that of the expected count, so Newton's
    steps rise to the solution from the second on.

    Returns:
        The expected count; 0 for a count of 0, and n if the count is not rare.
    """
    if count <= 0:
        return 0.0
    if count > RARE:
        return n
    others = n - count + 1
    constant = -math.lgamma(count + 1) - math.log(1 - CONFIDENCE)
    if math.isfinite(n):
        constant += math.lgamma(n + 1) - math.lgamma(others) - count * math.log(n)
    expected = count / 2
    for _ in range(50):
        free = 1 - expected / n
        series = 1.0
        term = 1.0
        k = 0
        while term > 1e-16 * series:
            k += 1
            term *= expected * (1 + k / n) / (count + k)
            series += term
        log_none = others * math.log(free) if math.isfinite(n) else -expected
        excess = constant + count * math.log(expected) + log_none + math.log(series)
        step = excess * free * series / count
        expected *= math.exp(-step)
        if not expected or abs(step) < 1e-12:
            break
    return expected


@lru_cache(maxsize=64)
def z(level: float = 0.05) -> float:
    """Return the normal quantile of a two-sided test: the margin of its interval in standard errors."""
    return NormalDist().inv_cdf(1 - level / 2)


@lru_cache(maxsize=4096)
def student_t(df: float, confidence: float = CONFIDENCE) -> float:
    """Return the t with P(|T| <= t) = confidence: the 97.5% quantile by default.

    With t = sqrt(df) tan x, P(|T| <= t) = 2 / B(1/2, df / 2) times the integral of cos^(df - 1) from 0 to x, which is
    concave in x, so that Newton's steps from the normal quantile, which is too small, rise to the solution.

    Args:
        df: Degrees of freedom, whole or fractional, at least 1.
        confidence: The probability.
    """
    if df < 1:
        raise ValueError(f"{df} degrees of freedom are fewer than 1")
    density = 2 / math.sqrt(math.pi) * math.exp(math.lgamma((df + 1) / 2) - math.lgamma(df / 2))
    x = math.atan(NormalDist().inv_cdf((1 + confidence) / 2) / math.sqrt(df))
    for _ in range(50):
        step = (confidence / density - _cosine_integral(x, df - 1)) / math.pow(math.cos(x), df - 1)
        x += step
        if abs(step) < 1e-12 * x:
            break
    return math.sqrt(df) * math.tan(x)


def _cosine_integral(x: float, power: float) -> float:
    """Return the integral of cos^power from 0 to x < pi / 2, by Simpson's rule."""
    steps = 64
    heights = [math.pow(math.cos(x * k / steps), power) for k in range(steps + 1)]
    weighted = heights[0] + heights[-1] + 4 * sum(heights[1::2]) + 2 * sum(heights[2:-1:2])
    return weighted * x / steps / 3


def scaled_estimate(estimate: Estimate, factor: float) -> Estimate:
    """Return the estimate in another unit: value, error and interval times a positive factor."""
    scaled: dict[str, float | None] = {}
    for name in ("value", "stderr", "low", "high", "least", "most"):
        number = getattr(estimate, name)
        scaled[name] = None if number is None else factor * number
    return replace(estimate, **scaled)


def mean_of_estimates(estimates: Sequence[Estimate]) -> Estimate:
    """Return the unweighted mean of independent estimates (ReForm-Eval E.1: benchmarks count equally).

    Its interval keeps its width if some estimates are at the end of their range, and is within the mean of their
    bounds (`_margins_of_sum`). There is no interval if one estimate has none.
    """
    valued = [estimate for estimate in estimates if estimate.value is not None]
    members = valued or estimates
    n = sum(estimate.n for estimate in members)
    # Questions of an estimate without a value are in no mean, even if some have values.
    unscored = sum(estimate.unscored + estimate.n for estimate in estimates) - n
    mean = Estimate(
        None,
        None,
        None,
        None,
        n,
        unscored,
        sum(estimate.errors for estimate in estimates),
        sum(estimate.groups or estimate.n for estimate in members),
        not_asked=sum(estimate.not_asked for estimate in estimates),
    )
    if not valued:
        return mean

    value = math.fsum(estimate.value or 0.0 for estimate in valued) / len(valued)
    covers_all = not any(estimate.unanswered for estimate in estimates if estimate.value is None)
    least, most = _mean_worst_cases(valued) if covers_all else (None, None)
    mean = replace(
        mean,
        value=value,
        stderr=math.hypot(*(estimate.stderr or 0.0 for estimate in valued)) / len(valued),
        least=least,
        most=most,
        absent=sum(estimate.absent for estimate in members),
    )
    if any(estimate.low is None or estimate.high is None for estimate in valued):
        return mean
    below, above = _margins_of_sum(valued)
    return replace(mean, low=value - below / len(valued), high=value + above / len(valued))


def _margins_of_sum(estimates: Sequence[Estimate]) -> tuple[float, float]:
    """Return the distances from a sum of independent estimates down and up to the ends of its interval.

    The margins of a score interval whose variance v changes linearly have the product z^2 v and the difference z^2 v',
    and v v' is the third cumulant (Morris 1982). Variances and third cumulants add up, so the products do, and the
    difference is the mean of the differences, weighted by the products. Margins of an estimate at the end of its
    range, whose variance is unknown, are squared and added (MOVER; Zou and Donner 2008, equation 4): skewed errors
    of many estimates add up to one side, where MOVER alone is too short. On few questions a score interval's
    product is less than z^2 v by a factor 1 + z^2 / n, for the sum of B by 1 + z^2 / (B n): most is put back.
    """
    varied_margins: list[tuple[float, float]] = []
    products: list[float] = []
    fixed_margins: list[tuple[float, float]] = []
    for estimate in estimates:
        below, above = margins(estimate)
        product = below * above
        if not product:
            fixed_margins.append((below, above))
            continue
        missing = max(0.0, (z() * (estimate.stderr or 0.0)) ** 2 - product)
        varied_margins.append((below, above))
        products.append(product + (1 - 1 / len(estimates)) * missing)

    total = math.fsum(products)
    difference = 0.0
    if varied_margins:
        weighted = math.fsum(
            product * (above - below)
            for (below, above), product in zip(varied_margins, products, strict=True)
        )
        difference = weighted / total
    down, up = skewed_margins(total, difference)
    # No further than if all were at their limits, and so within the bounds.
    down = min(down, math.fsum(below for below, _ in varied_margins))
    up = min(up, math.fsum(above for _, above in varied_margins))
    sum_below = math.hypot(down, *(below for below, _ in fixed_margins))
    sum_above = math.hypot(up, *(above for _, above in fixed_margins))
    return sum_below, sum_above


def _mean_worst_cases(estimates: Sequence[Estimate]) -> Interval:
    """Return the mean of the worst cases, or a pair of None if no reply is missing or a worst case is unknown."""
    if not any(estimate.unanswered for estimate in estimates):
        return None, None
    least: list[float] = []
    most: list[float] = []
    for estimate in estimates:
        lowest = estimate.least if estimate.unanswered else estimate.value
        highest = estimate.most if estimate.unanswered else estimate.value
        if lowest is None or highest is None:
            return None, None
        least.append(lowest)
        most.append(highest)
    return math.fsum(least) / len(estimates), math.fsum(most) / len(estimates)
