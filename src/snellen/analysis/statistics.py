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
FEW_GROUPS, FEW_UNBOUNDED = 3, 5
"""Up to so many pictures Student's t covers 90 to 92 for values that never come near a bound, or have none: they get a
variance G / (G - 1) times as great."""
BINARY_CARRIERS = 0.7
"""The part of the groups that carry wrong answers which counts near a bound. 12 groups of 25 at 0.9 with a correlation
of 0.6 are covered 92.8 of 100 times with all of them and 95.9 with this part; 20 of 25 at 0.95, 90.3 and 95.3."""
RARE = 11
"""Outcomes of which there are more than this are not rare: Wilson's limit is below `rare_limit` from 10.1 on."""


class GroupLabels(tuple[GroupT, ...]):
    """The group (picture, dialogue) of each question, with what is asked of the same labels again and again."""

    @classmethod
    def of(cls, groups: Sequence[GroupT]) -> GroupLabels[GroupT]:
        return groups if isinstance(groups, GroupLabels) else cls(groups)

    @cached_property
    def sizes(self) -> Counter[GroupT]:
        return Counter(self)

    @cached_property
    def others(self) -> array[int]:
        """For each question how many others are in its group."""
        return array("q", (self.sizes[group] - 1 for group in self))

    @cached_property
    def order(self) -> array[int]:
        """The questions by number, one group behind the other."""
        ends = dict(zip(self.sizes, accumulate(self.sizes.values(), initial=0), strict=False))
        order = array("q", bytes(8 * len(self)))
        for place, group in enumerate(self):
            order[ends[group]] = place
            ends[group] += 1
        return order


def estimate_mean(
    values: Sequence[float],
    groups: Sequence[Hashable],
    *,
    bounds: Bounds = UNIT_INTERVAL,
    unscored: int = 0,
) -> Estimate:
    """Mean of `values` with a 95% interval; values of one group (picture, dialogue) may depend on each other.

    The standard error is that of the delete-one-group jackknife (`group_spread`). The interval is a score interval
    (`score_interval`) within `bounds`, with Student's t because few groups estimate that error poorly; for independent
    zeros and ones it is Wilson's, and wider where one of them is rare (`share_interval`). Bounds on both sides of zero
    mean a difference, whose gains and losses are estimated separately. There is no interval for a single group, or for
    values that are all the same where no bounds limit how different an unseen value can be.
    """
    n = len(values)
    if not n:
        return Estimate(None, None, None, None, 0, unscored)
    mean, groups = math.fsum(values) / n, GroupLabels.of(groups)
    spread = group_spread(array("d", ((value - mean) / n for value in values)), groups)
    low, high = _mean_interval(values, groups, mean, spread, bounds)
    return Estimate(mean, spread.error, low, high, n, unscored, groups=spread.groups)


class GroupSpread(Struct, frozen=True):
    """Variances of an estimate that is a sum over questions: how far it would vary if other groups were drawn."""

    groups: int
    effective_groups: float
    """1 / sum_g w_g^2, where w_g is the share of the questions in group g: the effective sample size if all questions
    of a group come out alike. Equals the number of groups if these have one size."""
    jackknife: float = 0.0
    """Delete-one-group jackknife; 0 for a single group."""
    exchangeable: float = 0.0
    """Estimated from the mean correlation within groups."""
    independent: float = 0.0
    """If all questions were independent."""
    dependent: float = 0.0
    """If all questions of a group came out alike."""
    df: float = 0.0
    """Degrees of freedom that the design allows."""
    observed_df: float = 0.0
    """Degrees of freedom where a few groups make up most of the spread."""
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
        """Variance whose square root times z is the 95% margin.

        The estimate from groups is multiplied by (t / z)^2 and kept between the variance of independent questions
        and that of groups that come out alike: 1 / sum w^2 <= n_eff (z / t)^2 <= n for the effective sample size.
        The NCHS standards for proportions (Parker et al. 2017, after Korn and Graubard 1998) do the same without the
        first bound. For `binary` values the mean determines the variance of one; else that has a t of its own.
        """
        df = min(self.observed_df, self.binary_df) if binary else self.observed_df
        factor = (student_t(df) / z()) ** 2
        correlated = self.independent + factor * (self.exchangeable - self.independent)
        estimated = max(factor * self.jackknife, correlated)
        unknown = (
            1.0 if binary else (student_t(self.df) / z()) ** 2 * self.groups / (self.groups - 1)
        )
        return max(min(estimated, self.dependent * unknown), self.independent)


def group_spread(deviations: Sequence[float], groups: Sequence[Hashable]) -> GroupSpread:
    """Spread of a sum of `deviations`, which add up to 0, if whole groups are drawn.

    With the share w_g of the questions that are in group g and the sum S_g of its deviations, the delete-one-group
    jackknife of a mean is (G - 1) / G sum_g (S_g / (1 - w_g))^2 (MacKinnon, Nielsen and Webb 2023, equation 13),
    G / (G - 1) sum_g S_g^2 for groups of one size. Satterthwaite's degrees of freedom when groups come out alike are
    (sum w^2)^2 / sum w^4 - 1, G - 1 for groups of one size.
    """
    groups = GroupLabels.of(groups)
    n, sizes = len(deviations), groups.sizes
    of_size = Counter(sizes.values())
    total = math.fsum(map(mul, deviations, deviations))
    count, squares = len(sizes), sum(number * size**2 for size, number in of_size.items()) / n**2
    if count < 2:
        return GroupSpread(count, 1.0, independent=total)
    sums = (
        sum_by_group(deviations, groups)
        if count < n
        else dict(zip(groups, deviations, strict=True))
    )
    if len(of_size) == 1:
        share = 1 - 1 / count
        shifts = [sums[group] / share for group in sizes]
    else:
        shifts = [sums[group] / (1 - size / n) for group, size in sizes.items()]
    df = max(
        1.0, squares**2 / (sum(number * size**4 for size, number in of_size.items()) / n**4) - 1
    )
    correlation = _correlation(deviations, groups, sums) if count < n and total else 0.0
    dependent = n * total * squares
    jackknife = (count - 1) / count * math.fsum(map(mul, shifts, shifts))
    cubes = (
        (count - 1) ** 2
        / count
        / max(1, count - 2)
        * math.fsum(map(mul, map(mul, shifts, shifts), shifts))
    )
    carriers = _carriers(shifts)
    return GroupSpread(
        count,
        1 / squares,
        jackknife,
        total + correlation * (dependent - total),
        total,
        dependent,
        df,
        max(1.0, min(df, math.pi * carriers - 1)),
        max(1.0, BINARY_CARRIERS * math.pi * carriers - 1) if count < n else math.inf,
        cubes / jackknife / math.sqrt(jackknife) if jackknife and count > 4 else 0.0,
    )


def sum_by_group(deviations: Sequence[float], groups: Sequence[GroupT]) -> dict[GroupT, float]:
    """The sum of each group, whatever the order of the questions in it."""
    labels = GroupLabels.of(groups)
    by_group = array("d", map(deviations.__getitem__, labels.order))
    ends = accumulate(labels.sizes.values())
    return {
        group: math.fsum(by_group[end - size : end])
        for (group, size), end in zip(labels.sizes.items(), ends, strict=True)
    }


def _correlation(
    deviations: Sequence[float], groups: GroupLabels[Hashable], sums: Mapping[Hashable, float]
) -> float:
    """Mean correlation of two questions of one group, 0 to 1; all questions in groups of two or more weigh the same.

    sum_g sum_{i != j in g} d_i d_j / (n_g - 1), over that for a correlation of 1.
    """
    n, sizes, total = len(deviations), groups.sizes, math.fsum(map(mul, deviations, deviations))
    between = math.fsum(sums[group] ** 2 / (size - 1) for group, size in sizes.items() if size > 1)
    if len(set(sizes.values())) == 1:
        within = total / (n / len(sizes) - 1)
    else:
        within = math.fsum(
            d * d / others for d, others in zip(deviations, groups.others, strict=True) if others
        )
    paired = n - sum(size == 1 for size in sizes.values())
    return min(1.0, max(0.0, n * (between - within) / paired / total))


def _carriers(shifts: Sequence[float]) -> float:
    """Effective number of groups, (sum x)^2 / sum x^2, on the side of the mean that has fewer.

    G / pi for many normal shifts. Where few groups hold all the wrong answers, as few tell how wrong answers cluster.
    """
    sides = ([x for x in shifts if x > 0], [x for x in shifts if x < 0])
    squares = [math.fsum(map(mul, side, side)) for side in sides]
    return min(
        math.fsum(side) ** 2 / square if square else 0.0
        for side, square in zip(sides, squares, strict=True)
    )


def _mean_interval(
    values: Sequence[float],
    groups: Sequence[Hashable],
    mean: float,
    spread: GroupSpread,
    bounds: Bounds,
) -> Interval:
    low, high = bounds
    varied = max(values) - min(values) > SAME * max(1.0, abs(mean))
    if spread.groups > 1 and varied and low < 0 < high and math.isfinite(high - low):
        return _difference_interval(values, groups, spread, bounds)
    return interval_of(mean, spread, bounds, varied=varied, binary=set(values) == {low, high})


def interval_of(
    value: float, spread: GroupSpread, bounds: Bounds, *, varied: bool = True, binary: bool = False
) -> Interval:
    """The 95% interval of an estimate within bounds, from its spread over groups; None for a single group.

    `varied`: not all values are the same; `binary`: each value is at one of the bounds.
    """
    if spread.groups < 2:
        return None, None
    varied = varied and spread.independent > (SAME * max(1.0, abs(value))) ** 2
    if not varied or not bounds[0] < value < bounds[1]:
        return unvaried_interval(value, spread.effective_groups, bounds)
    observed = (1 - 1 / spread.groups) * spread.jackknife
    ends = sum(map(math.isfinite, bounds))
    is_short = spread.groups <= (
        FEW_GROUPS if ends == 2 and not binary else FEW_UNBOUNDED if ends == 0 else 0
    )
    variance = spread.variance(binary) * (spread.groups / (spread.groups - 1) if is_short else 1.0)
    return score_interval(value, variance, bounds, observed=observed, skew=spread.skew)


def score_interval(
    value: float, variance: float, bounds: Bounds, *, observed: float = 0.0, skew: float = 0.0
) -> tuple[float, float]:
    """The values mu with (value - mu)^2 <= z^2 v(mu): a score interval, which bends with the bounds a and b.

    v(mu) = variance (mu - a) (b - mu) / ((value - a) (b - value)): a quasi-binomial variance that is the given one
    at mu = value. On [0, 1] this is Wilson's interval on the effective sample size value (1 - value) / variance, with
    `rare_limit` near a bound; with one bound only, that of a quasi-Poisson rate, v proportional to mu - a. Without
    bounds v(mu) = variance + skew sqrt(variance) (mu - value) (the third cumulant is v v'; Morris 1982), where that
    lengthens the interval: else value -+ z sqrt(variance). `observed` is the variance that groups show, if greater: a
    rare outcome that a large group has throughout came once.
    """
    low, high = bounds
    if value <= low or value >= high:
        raise ValueError(f"{value} is not within {low} and {high}")
    if math.isinf(low) and math.isinf(high):
        margin = z() * math.sqrt(variance)
        below, above = skewed_margins(margin**2, margin * z() * skew)
        return value - max(below, margin), value + max(above, margin)
    if math.isinf(low):
        begin, end = score_interval(-value, variance, (-high, math.inf))
        return -end, -begin
    above = value - low
    if math.isinf(high):
        below, up = skewed_margins(z() ** 2 * variance, z() ** 2 * variance / above)
        count = above**2 / max(variance, observed)
        return low + max(0.0, min(above - below, above * rare_limit(count) / count)), value + up
    begin, end = share_interval(
        above / (high - low),
        *(above * (high - value) / spread for spread in (variance, max(variance, observed))),
    )
    return low + (high - low) * begin, low + (high - low) * end


def skewed_margins(product: float, difference: float) -> tuple[float, float]:
    """How far below and above a value mu lies that solves (value - mu)^2 = product + difference (mu - value)."""
    root = math.hypot(difference / 2, math.sqrt(product))
    return root - difference / 2, root + difference / 2


def unvaried_interval(value: float, groups: float, bounds: Bounds) -> Interval:
    """Interval of a mean of values that are all the same: others may exist unseen.

    By the upper limit q for 0 of G independent groups, a share q of the values may lie at a bound:
    [value - q (value - a), value + q (b - value)], which at 0 and 1 is that of a share. None without bounds.
    """
    low, high = bounds
    if math.isinf(low) or math.isinf(high):
        return None, None
    unseen = share_interval(0.0, groups)[1]
    return value - unseen * (value - low), value + unseen * (high - value)


def _difference_interval(
    values: Sequence[float], groups: Sequence[Hashable], spread: GroupSpread, bounds: Bounds
) -> tuple[float, float]:
    """Mean of gains minus mean of losses by MOVER (Zou and Donner 2008, equation 3), r the correlation of the two.

    low = g - l - sqrt((g - g_low)^2 + (l_high - l)^2 - 2 r (g - g_low) (l_high - l)), and high in the same way. So
    the interval of two systems that seldom differ still allows for gains and losses that were not seen. Where there are
    only gains, an unseen loss is at most the greatest gain, and the other way round.
    """
    most_gained, most_lost = max(values), -min(values)
    most_gained, most_lost = (
        bounds[1] if most_gained > 0 else min(bounds[1], most_lost),
        -bounds[0] if most_lost > 0 else min(-bounds[0], most_gained),
    )
    gain = estimate_mean(
        [value if value > 0 else 0.0 for value in values], groups, bounds=(0.0, most_gained)
    )
    loss = estimate_mean(
        [-value if value < 0 else 0.0 for value in values], groups, bounds=(0.0, most_lost)
    )
    (down, up), (better, worse) = margins(gain), margins(loss)
    error_of_gain, error_of_loss = gain.stderr or 0.0, loss.stderr or 0.0
    covariance = (error_of_gain**2 + error_of_loss**2 - spread.error**2) / 2
    r = (
        max(-1.0, min(1.0, covariance / error_of_gain / error_of_loss))
        if error_of_gain and error_of_loss
        else 0.0
    )
    mean = (gain.value or 0.0) - (loss.value or 0.0)
    below = math.sqrt(max(0.0, down**2 + worse**2 - 2 * r * down * worse))
    above = math.sqrt(max(0.0, up**2 + better**2 - 2 * r * up * better))
    return max(bounds[0], mean - below), min(bounds[1], mean + above)


def margins(estimate: Estimate) -> tuple[float, float]:
    """How far the interval of an estimate that has one reaches below and above it."""
    value, low, high = estimate.value or 0.0, estimate.low or 0.0, estimate.high or 0.0
    return max(0.0, value - low), max(0.0, high - value)


def wilson(share: float, n: float) -> tuple[float, float]:
    """Wilson's 95% interval of a share of n independent trials; n may be fractional."""
    half = z() ** 2 / n
    middle = (share + half / 2) / (1 + half)
    width = z() * math.sqrt(share * (1 - share) / n + half / (4 * n)) / (1 + half)
    # At the ends the formula gives 0 and 1 except for rounding.
    return (0.0 if share <= 0 else max(0.0, middle - width)), (
        1.0 if share >= 1 else min(1.0, middle + width)
    )


def share_interval(share: float, n: float, rare_n: float | None = None) -> tuple[float, float]:
    """Wilson's interval with the limits of rare outcomes, where they are wider (Brown, Cai and DasGupta 2001, 4.1.1).

    Wilson's alone covers 0.005 in 86 of 100 samples of 30, since one outcome has 0.0059 as its lower limit. `rare_n`
    is the sample size for those limits, by default `n`.
    """
    rare_n = rare_n or n
    low, high = wilson(share, n)
    rare, rare_misses = (rare_limit(part * rare_n, rare_n) / rare_n for part in (share, 1 - share))
    return min(low, rare), max(high, 1 - rare_misses)


@lru_cache(maxsize=4096)
def rare_limit(count: float, n: float = math.inf) -> float:
    """The least expected count for which `count` or more of n trials come with a chance of 5%; 0 for 0, n if not rare.

    n times the 5% quantile of Beta(count, n - count + 1), or that of Gamma(count) for a Poisson count; both numbers
    may be fractional. The logarithm of the chance is concave in that of the expected count, so that Newton's steps rise
    to the solution from the second on.
    """
    if count <= 0 or count > RARE:
        return n if count > 0 else 0.0
    others, constant = n - count + 1, -math.lgamma(count + 1) - math.log(1 - CONFIDENCE)
    if math.isfinite(n):
        constant += math.lgamma(n + 1) - math.lgamma(others) - count * math.log(n)
    expected = count / 2
    for _ in range(50):
        free, series, term, k = 1 - expected / n, 1.0, 1.0, 0
        while term > 1e-16 * series:
            k += 1
            term *= expected * (1 + k / n) / (count + k)
            series += term
        none = others * math.log(free) if math.isfinite(n) else -expected
        excess = constant + count * math.log(expected) + none + math.log(series)
        step = excess * free * series / count
        expected *= math.exp(-step)
        if not expected or abs(step) < 1e-12:
            break
    return expected


@lru_cache(maxsize=64)
def z(level: float = 0.05) -> float:
    """How many standard errors reach to the ends of an interval that a two-sided test at this level would have."""
    return NormalDist().inv_cdf(1 - level / 2)


@lru_cache(maxsize=4096)
def student_t(df: float, confidence: float = CONFIDENCE) -> float:
    """The t with P(|T| <= t) = confidence (by default the 97.5% quantile); df is at least 1 and need not be whole.

    With t = sqrt(df) tan x, P(|T| <= t) = 2 / B(1/2, df / 2) times the integral of cos^(df - 1) from 0 to x, which is
    concave in x, so that Newton's steps from the normal quantile, which is too small, rise to the solution.
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
    """Integral of cos^power from 0 to x < pi / 2, by Simpson's rule."""
    steps = 64
    heights = [math.pow(math.cos(x * k / steps), power) for k in range(steps + 1)]
    return (
        (heights[0] + heights[-1] + 4 * sum(heights[1::2]) + 2 * sum(heights[2:-1:2]))
        * x
        / steps
        / 3
    )


def scaled_estimate(estimate: Estimate, factor: float) -> Estimate:
    """The estimate in another unit: value, error and interval times a positive factor."""
    numbers = {
        name: getattr(estimate, name)
        for name in ("value", "stderr", "low", "high", "least", "most")
    }
    return replace(
        estimate,
        **{name: None if number is None else factor * number for name, number in numbers.items()},
    )


def mean_of_estimates(estimates: Sequence[Estimate]) -> Estimate:
    """Unweighted mean of independent estimates (ReForm-Eval E.1: benchmarks count equally).

    Its interval keeps its width where some estimates are at the end of their range, and lies within the mean of their
    bounds (`_margins_of_sum`). None as soon as one estimate has no interval.
    """
    valued = [estimate for estimate in estimates if estimate.value is not None]
    members = valued or estimates
    n, groups = sum(e.n for e in members), sum(e.groups or e.n for e in members)
    # Questions of an estimate without a value are in no mean, even where some have values.
    unscored = sum(e.unscored + e.n for e in estimates) - n
    errors, not_asked = sum(e.errors for e in estimates), sum(e.not_asked for e in estimates)
    absent = sum(e.absent for e in members)
    if not valued:
        return Estimate(None, None, None, None, n, unscored, errors, groups, not_asked=not_asked)
    mean = math.fsum(estimate.value or 0.0 for estimate in valued) / len(valued)
    is_of_all = not any(e.unanswered for e in estimates if e.value is None)
    least, most = _mean_worst_cases(valued) if is_of_all else (None, None)
    se = math.hypot(*(estimate.stderr or 0.0 for estimate in valued)) / len(valued)
    if any(estimate.low is None or estimate.high is None for estimate in valued):
        return Estimate(
            mean, se, None, None, n, unscored, errors, groups, least, most, absent, not_asked
        )
    below, above = (side / len(valued) for side in _margins_of_sum(valued))
    return Estimate(
        mean,
        se,
        mean - below,
        mean + above,
        n,
        unscored,
        errors,
        groups,
        least,
        most,
        absent,
        not_asked,
    )


def _margins_of_sum(estimates: Sequence[Estimate]) -> tuple[float, float]:
    """How far the interval of the sum of independent estimates reaches below and above it.

    The margins of a score interval whose variance v changes linearly have the product z^2 v and the difference z^2 v',
    and v v' is the third cumulant (Morris 1982). Variances and third cumulants add up, so the products do, and the
    difference is the mean of the differences, weighted by the products. Margins of an estimate at the end of its
    range, whose variance is unknown, are squared and added (MOVER; Zou and Donner 2008, equation 4): skewed errors
    of many estimates add up to one side, where MOVER alone is too short. On few questions a score interval's
    product is less than z^2 v by a factor 1 + z^2 / n, for the sum of B by 1 + z^2 / (B n): most is put back.
    """
    varied: list[tuple[float, float, float]] = []
    fixed: list[tuple[float, float]] = []
    for estimate in estimates:
        below, above = margins(estimate)
        if product := below * above:
            lacking = max(0.0, (z() * (estimate.stderr or 0.0)) ** 2 - product)
            varied.append((below, above, product + (1 - 1 / len(estimates)) * lacking))
        else:
            fixed.append((below, above))
    total = math.fsum(product for _, _, product in varied)
    weighted = math.fsum(product * (above - below) for below, above, product in varied)
    down, up = skewed_margins(total, weighted / total if varied else 0.0)
    # No further than if all were at their limits, and so within the bounds.
    down = min(down, math.fsum(below for below, _, _ in varied))
    up = min(up, math.fsum(above for _, above, _ in varied))
    return math.hypot(down, *(below for below, _ in fixed)), math.hypot(
        up, *(above for _, above in fixed)
    )


def _mean_worst_cases(valued: Sequence[Estimate]) -> Interval:
    """The mean of the worst cases; an estimate without errors is its own, and one with them may have none."""
    ends = [
        (estimate.least, estimate.most) if estimate.unanswered else (estimate.value, estimate.value)
        for estimate in valued
    ]
    least, most = ([end for end in side if end is not None] for side in zip(*ends, strict=True))
    if not any(estimate.unanswered for estimate in valued) or not len(least) == len(most) == len(
        valued
    ):
        return None, None
    return math.fsum(least) / len(valued), math.fsum(most) / len(valued)
