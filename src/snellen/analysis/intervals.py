"""95% intervals of estimates, which bend near the bounds of a metric.

`bench/interval_coverage.py` measures how often the intervals hold the true value.
"""

from __future__ import annotations

import math

from snellen.analysis.group_spread import GroupSpread
from snellen.analysis.quantiles import normal_quantile, rare_limit

Bounds = tuple[float, float]
"""The least and the greatest possible value of a metric; infinite where there is none."""
Interval = tuple[float | None, float | None]
UNIT_INTERVAL: Bounds = (0.0, 1.0)
"""The bounds of a share."""
NO_BOUNDS: Bounds = (-math.inf, math.inf)
RELATIVE_ROUNDING = 1e-12
"""Values that differ by less than this, relative to their size, differ by rounding."""
FEW_BOUNDED_GROUPS = 3
"""Up to this many groups, Student's t covers 90 to 92 of 100 for values within bounds that never come near one. The
variance is then multiplied by G / (G - 1)."""
FEW_UNBOUNDED_GROUPS = 5
"""Like `FEW_BOUNDED_GROUPS`, for values without bounds."""


def interval_of(
    value: float, spread: GroupSpread, bounds: Bounds, *, varied: bool = True, binary: bool = False
) -> Interval:
    """Return the lower and the upper end of the 95% interval of an estimate.

    The interval stays within the bounds of the metric. It is widened if there are few groups of questions, because
    these tell little about how much an estimate varies.

    Args:
        value: The estimate.
        spread: How much the estimate varies over groups of questions, such as all questions about one image.
        bounds: The least and the greatest possible value of the metric; infinite if there is none.
        varied: Whether the values of the questions differ from each other.
        binary: Whether the value of each question is one of the two bounds, such as 0 (wrong) and 1 (right).

    Returns:
        A pair of None if all questions belong to one group, or if all values are equal and a bound is infinite.
    """
    if spread.groups < 2:
        return None, None
    low, high = bounds
    largest_rounding_error = RELATIVE_ROUNDING * max(1.0, abs(value))
    is_rounding = spread.independent <= largest_rounding_error**2  # a variance
    is_inside = low < value < high
    if not varied or is_rounding or not is_inside:
        return unvaried_interval(value, spread.effective_groups, bounds)

    # With few groups the interval would be too short for values that seldom come near a bound.
    has_no_bound = math.isinf(low) and math.isinf(high)
    has_both_bounds = math.isfinite(low) and math.isfinite(high)
    few_groups = 0
    if has_no_bound:
        few_groups = FEW_UNBOUNDED_GROUPS
    elif has_both_bounds and not binary:
        few_groups = FEW_BOUNDED_GROUPS
    variance = spread.variance(binary)
    if spread.groups <= few_groups:
        variance *= spread.groups / (spread.groups - 1)

    observed_variance = (1 - 1 / spread.groups) * spread.jackknife
    return score_interval(value, variance, bounds, observed=observed_variance, skew=spread.skew)


def score_interval(
    value: float, variance: float, bounds: Bounds, *, observed: float = 0.0, skew: float = 0.0
) -> tuple[float, float]:
    """Return the 95% score interval of an estimate, which takes the bounds a and b of the metric into account.

    It has all values mu with (value - mu)^2 <= z^2 v(mu), where v(mu) is the variance of the estimate if mu is the true
    value. For mu = value, it is the given variance.

    - With two bounds, v(mu) = variance (mu - a) (b - mu) / ((value - a) (b - value)), a quasi-binomial variance. On
      [0, 1] this is Wilson's interval on the effective sample size value (1 - value) / variance, with `rare_limit` near
      a bound.
    - With one bound, v is proportional to mu - a, as for a quasi-Poisson rate.
    - Without bounds, v(mu) = variance + skew sqrt(variance) (mu - value), because the third cumulant is v v' (Morris
      1982). On each side, the margin is at least z sqrt(variance).

    Args:
        value: The estimate, inside the bounds.
        variance: Its variance.
        bounds: The least and the greatest possible value.
        observed: The variance that groups show, if greater: a rare outcome throughout a large group occurred once.
        skew: Skewness of the estimate.

    Raises:
        ValueError: The value is not inside the bounds.

    Examples:
        >>> low, high = score_interval(0.75, 0.0025, (0.0, 1.0))
        >>> round(low, 3), round(high, 3)
        (0.641, 0.834)
    """
    low, high = bounds
    if value <= low or value >= high:
        raise ValueError(f"{value} is not within {low} and {high}")

    if math.isinf(low) and math.isinf(high):
        margin = normal_quantile() * math.sqrt(variance)
        below, above = skewed_margins(margin**2, margin * normal_quantile() * skew)
        return value - max(below, margin), value + max(above, margin)

    if math.isinf(low):
        mirrored_low, mirrored_high = score_interval(-value, variance, (-high, math.inf))
        return -mirrored_high, -mirrored_low

    height = value - low
    greater_variance = max(variance, observed)
    if math.isinf(high):
        squared_margin = normal_quantile() ** 2 * variance
        below, above = skewed_margins(squared_margin, squared_margin / height)
        count = height**2 / greater_variance
        lower_height = min(height - below, height * rare_limit(count) / count)
        return low + max(0.0, lower_height), value + above

    span = high - low
    product = height * (high - value)
    effective_n = product / variance
    rare_n = product / greater_variance
    share_low, share_high = share_interval(height / span, effective_n, rare_n)
    return low + span * share_low, low + span * share_high


def skewed_margins(product: float, difference: float) -> tuple[float, float]:
    """Return how far an asymmetric interval extends below and above its value.

    The ends of the interval are the two solutions mu of (value - mu)^2 = product + difference (mu - value).

    Args:
        product: The margin below times the margin above.
        difference: The margin above minus the margin below.

    Returns:
        The margin below and the margin above.
    """
    half = difference / 2
    root = math.hypot(half, math.sqrt(product))
    return root - half, root + half


def unvaried_interval(value: float, groups: float, bounds: Bounds) -> Interval:
    """Return the 95% interval of a mean if all observed values are equal. Other values may exist that were not observed.

    If 0 of G independent groups have some property, at most a share q of all groups has it (with 95% confidence). A
    share q of the values may therefore be at a bound, a or b: [value - q (value - a), value + q (b - value)]. For a
    value of 0 or 1 this is the interval of a share.

    Args:
        value: The common value.
        groups: The number of independent groups G, which can be fractional.
        bounds: The least and the greatest possible value. If one of them is infinite, the interval is a pair of None.

    Examples:
        >>> low, high = unvaried_interval(1.0, 40, (0.0, 1.0))
        >>> round(low, 3), high
        (0.912, 1.0)
    """
    low, high = bounds
    if math.isinf(low) or math.isinf(high):
        return None, None
    _, unseen_share = share_interval(0.0, groups)
    return value - unseen_share * (value - low), value + unseen_share * (high - value)


def wilson(share: float, n: float) -> tuple[float, float]:
    """Return Wilson's 95% confidence interval of a share.

    Args:
        share: The share of trials with some outcome.
        n: The number of independent trials, which may be fractional.

    Examples:
        >>> low, high = wilson(0.9, 100)
        >>> round(low, 3), round(high, 3)
        (0.826, 0.945)
    """
    shrinkage = normal_quantile() ** 2 / n
    middle = (share + shrinkage / 2) / (1 + shrinkage)
    variance = share * (1 - share) / n + shrinkage / (4 * n)
    margin = normal_quantile() * math.sqrt(variance) / (1 + shrinkage)
    low = max(0.0, middle - margin)
    high = min(1.0, middle + margin)
    # At the ends the formula gives 0 and 1 except for rounding.
    if share <= 0:
        low = 0.0
    if share >= 1:
        high = 1.0
    return low, high


def share_interval(share: float, n: float, rare_n: float | None = None) -> tuple[float, float]:
    """Return the 95% interval of a share, such as 3 of 30 trials with some outcome.

    It is Wilson's interval, extended where one outcome is rare (Brown, Cai and DasGupta 2001, 4.1.1). Wilson's interval
    alone is too narrow there: it contains a true share of 0.005 in only 86 of 100 samples of 30 trials, because a
    single outcome already has 0.0059 as its lower limit.

    Args:
        share: The share of trials with the outcome.
        n: Number of trials, whole or fractional.
        rare_n: Number of trials for the limits of rare outcomes; `n` if None.
    """
    rare_n = rare_n or n
    n_outcomes = share * rare_n
    n_misses = (1 - share) * rare_n
    least_share = rare_limit(n_outcomes, rare_n) / rare_n
    least_share_of_misses = rare_limit(n_misses, rare_n) / rare_n

    low, high = wilson(share, n)
    return min(low, least_share), max(high, 1 - least_share_of_misses)
