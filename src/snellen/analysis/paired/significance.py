"""Tests of paired differences, with intervals that agree with them, and corrections for several comparisons."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from statistics import NormalDist
from typing import Literal

from msgspec.structs import replace

from snellen.analysis.intervals import RELATIVE_ROUNDING, Interval
from snellen.analysis.quantiles import normal_quantile
from snellen.records import Estimate

Correction = Literal["holm", "bh", "none"]
MAX_ENUMERATED_GROUPS = 16
"""Greatest number of groups for which all 2^G signs are tried."""
POWER = 0.8
SIGNIFICANCE_LEVEL = 0.05
"""Level of the test of a difference, and of all differences that are corrected together."""


def agree_with_test(estimate: Estimate, p: float) -> tuple[Estimate, float]:
    """Make the interval of a difference and the p-value of its sign-flip test agree.

    After that, the interval excludes zero if, and only if, the p-value is below 5%. The p-value becomes the larger one
    of the test's and that of the interval, which is 2 (1 - Phi(z d / m)) for a value d whose interval extends m towards
    zero (Altman and Bland 2011). If it is 5% or more, the interval is extended to zero.

    Args:
        estimate: The difference.
        p: The p-value of its test.

    Returns:
        The difference with its interval, and the p-value.
    """
    low = estimate.low
    high = estimate.high
    if estimate.value is None or low is None or high is None:
        return estimate, p
    p = max(p, _p_of_interval(estimate.value, low, high))
    if p < SIGNIFICANCE_LEVEL:
        return estimate, p
    return replace(estimate, low=min(low, 0.0), high=max(high, 0.0)), p


def _p_of_interval(value: float, low: float, high: float) -> float:
    """Return the two-sided p-value of a difference that follows from its 95% interval (Altman and Bland 2011)."""
    margin_to_zero = value - low if value > 0 else high - value
    if margin_to_zero == 0:
        return 1.0 if value == 0 else 0.0
    return _normal_test(normal_quantile() * value / margin_to_zero)


def corrected_interval(estimate: Estimate, p: float, p_adjusted: float, family: int) -> Interval:
    """Return the interval of a difference that agrees with its p-value after a correction for multiple comparisons.

    The interval excludes zero if, and only if, the corrected p-value is below 5%. Its error level is then
    5% * p / p_adjusted; otherwise it is 5% divided by the number of differences that were corrected together.

    Args:
        estimate: The difference with its 95% interval.
        p: Its p-value.
        p_adjusted: Its corrected p-value.
        family: Number of differences that are corrected together.
    """
    if estimate.value is None or estimate.low is None or estimate.high is None:
        return None, None
    is_significant = p_adjusted < SIGNIFICANCE_LEVEL
    is_uncorrected = p_adjusted == p and (p < SIGNIFICANCE_LEVEL or family < 2)
    if is_uncorrected:
        # Not computed again, because rounding would make it differ from the uncorrected interval.
        return estimate.low, estimate.high

    level = SIGNIFICANCE_LEVEL / max(family, 1)
    if is_significant and p:
        level = SIGNIFICANCE_LEVEL * p / p_adjusted
    widening = normal_quantile(level) / normal_quantile()
    low = estimate.value - widening * (estimate.value - estimate.low)
    high = estimate.value + widening * (estimate.high - estimate.value)
    if is_significant:
        return low, high
    return min(low, 0.0), max(high, 0.0)


def sign_flip_test(sums: Sequence[float]) -> float:
    """Return the two-sided p-value of the hypothesis that two systems are equally good.

    If they are, the difference of each group could as well have the other sign. There are three cases:

    - All differences that are not zero have the same size. The number of positive ones is then binomial. For single
      questions that are right or wrong this is McNemar's exact test (McNemar 1947).
    - Up to 16 groups differ. All combinations of signs are tried (Fisher's randomisation test).
    - More groups differ. sum S_g / sqrt(sum S_g^2) is standard normal, as in McNemar's test for groups (Durkalski et
      al. 2003).

    Args:
        sums: For each group of questions that may depend on each other (an image), the sum S_g of the differences.

    Example:
        >>> sign_flip_test([1.0, 1.0, 1.0, 1.0, 1.0, -1.0])  # 2 (1 + 6) / 2^6
        0.21875
    """
    largest = max((abs(value) for value in sums), default=0.0)
    nonzero = [value for value in sums if abs(value) > RELATIVE_ROUNDING * largest]
    if not nonzero:
        return 1.0

    sizes = [abs(value) for value in nonzero]
    are_of_one_size = max(sizes) - min(sizes) <= RELATIVE_ROUNDING * largest * len(sums)
    if are_of_one_size:
        n_positive = sum(value > 0 for value in nonzero)
        return _binomial_test(n_positive, len(nonzero))
    if len(nonzero) <= MAX_ENUMERATED_GROUPS:
        return _randomisation_test(nonzero)
    sum_of_squares = math.fsum(value * value for value in nonzero)
    return _normal_test(math.fsum(nonzero) / math.sqrt(sum_of_squares))


def _binomial_test(successes: int, n: int) -> float:
    """Return the two-sided p-value of so many successes in n trials if their probability is one half.

    It is twice the smaller tail of the binomial distribution. For 3 of 10 it is 0.34.
    """
    fewer = min(successes, n - successes)
    if n > 1000:
        # The error of the normal distribution with continuity correction is at most 0.1% of the tail.
        statistic = (n - 2 * fewer - 1) / math.sqrt(n)
        return min(1.0, _normal_test(statistic))
    n_combinations = sum(math.comb(n, k) for k in range(fewer + 1))
    both_tails = Fraction(2 * n_combinations, 2**n)
    return min(1.0, float(both_tails))


def _normal_test(statistic: float) -> float:
    """Return the two-sided p-value of a standard normal statistic."""
    return math.erfc(abs(statistic) / math.sqrt(2))


def _randomisation_test(sums: Sequence[float]) -> float:
    """Return the two-sided p-value of a sum, by trying both signs of every summand.

    It is the share of all combinations of signs whose sum is at least as far from zero as the observed sum. For [1, 2]
    these are 3, -1, 1 and -3, so the p-value is 0.5.
    """
    totals = [0.0]
    for value in sums:
        next_totals = []
        for total in totals:
            next_totals.append(total + value)
            next_totals.append(total - value)
        totals = next_totals
    rounding_error = RELATIVE_ROUNDING * math.fsum(abs(value) for value in sums)
    observed = abs(math.fsum(sums)) - rounding_error
    n_as_far = sum(abs(total) >= observed for total in totals)
    return n_as_far / len(totals)


def adjusted(p_values: Sequence[float], correction: Correction = "holm") -> list[float]:
    """Return p-values corrected for their number, in the same order.

    `holm` (Holm 1979) bounds the chance of any false finding, `bh` (Benjamini and Hochberg 1995) the expected share of
    false ones among the findings.
    """
    if correction == "holm":
        return holm(p_values)
    if correction == "bh":
        return benjamini_hochberg(p_values)
    return list(p_values)


def holm(p_values: Sequence[float]) -> list[float]:
    """Correct p-values for multiple comparisons by Holm's method.

    Of m p-values, the i-th smallest becomes the maximum over j <= i of (m - j + 1) p_(j), at most 1.

    Example:
        >>> holm([0.25, 0.125])
        [0.25, 0.25]
    """
    m = len(p_values)
    corrected = [0.0] * m
    ascending = sorted(range(m), key=lambda index: p_values[index])
    largest_so_far = 0.0
    for position, index in enumerate(ascending):
        product = (m - position) * p_values[index]
        largest_so_far = max(largest_so_far, min(1.0, product))
        corrected[index] = largest_so_far
    return corrected


def benjamini_hochberg(p_values: Sequence[float]) -> list[float]:
    """Correct p-values for multiple comparisons by the false discovery rate (Benjamini and Hochberg).

    Of m p-values, the i-th smallest becomes the minimum over j >= i of m p_(j) / j.

    Example:
        >>> benjamini_hochberg([0.25, 0.0625])
        [0.25, 0.125]
    """
    m = len(p_values)
    corrected = [0.0] * m
    ascending = sorted(range(m), key=lambda index: p_values[index])
    least_so_far = 1.0
    for rank in range(m, 0, -1):  # from the largest p-value down
        index = ascending[rank - 1]
        least_so_far = min(least_so_far, m * p_values[index] / rank)
        corrected[index] = least_so_far
    return corrected


MIN_DIFFERING_IMAGES = 6
"""Images whose answers have to differ for p < 0.05: the sign-flip test of m images gives at least 2 / 2^m."""


def questions_needed(difference: float, stderr: float, n: int, differing: int) -> int | None:
    """Estimate how many questions would make a difference of this size significant at the 5% level.

    With that many, it would be significant with the probability `POWER`. The number is
    n ((z_0.975 + z_power) stderr / difference)^2 by the normal distribution. It is raised until at least
    `MIN_DIFFERING_IMAGES` images differ, because few questions do not follow the normal distribution.

    Args:
        difference: The observed difference.
        stderr: Its standard error.
        n: Number of questions that gave this error.
        differing: Number of images on which the two models differ.

    Returns:
        The number, or None if there is no difference or its error is unknown.
    """
    if not n or not stderr or abs(difference) <= RELATIVE_ROUNDING:
        return None
    z_power = NormalDist().inv_cdf(POWER)
    ratio = (normal_quantile() + z_power) * stderr / difference
    by_normal = math.ceil(n * ratio**2)
    if not differing:
        return by_normal
    return max(by_normal, math.ceil(MIN_DIFFERING_IMAGES * n / differing))
