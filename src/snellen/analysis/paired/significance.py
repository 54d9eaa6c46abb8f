"""The test of a paired difference, which its interval agrees with, corrections for many, and how many questions would
decide one."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from statistics import NormalDist
from typing import Literal

from msgspec.structs import replace

from snellen.analysis.statistics import SAME, Interval, z
from snellen.records import Estimate

Correction = Literal["holm", "bh", "none"]
ENUMERATED = 16
"""Most groups whose 2^G signs are all tried."""
POWER = 0.8
LEVEL = 0.05
"""Of the test of a difference, and of all differences that are corrected together."""


def agreeing(estimate: Estimate, p: float) -> tuple[Estimate, float]:
    """A difference and the p-value of its sign-flip test, as one test: what one of them leaves open, both do.

    The p-value is the larger of the two that test and interval give: an interval whose end lies m from the value d on
    the side of zero stands for 2 (1 - Phi(z d / m)) (Altman and Bland 2011). The interval reaches zero unless the
    p-value is below 5%; so it excludes zero where, and only where, that is so.
    """
    low, high = estimate.low, estimate.high
    if estimate.value is None or low is None or high is None:
        return estimate, p
    p = max(p, _p_of_interval(estimate.value, low, high))
    return (
        (replace(estimate, low=min(low, 0.0), high=max(high, 0.0)), p)
        if p >= LEVEL
        else (estimate, p)
    )


def _p_of_interval(value: float, low: float, high: float) -> float:
    margin = value - low if value > 0 else high - value
    if not margin:
        return float(not value)
    return _normal_test(z() * value / margin)


def corrected_interval(estimate: Estimate, p: float, p_adjusted: float, family: int) -> Interval:
    """The interval of a difference that excludes zero where, and only where, its p-value corrected for a family of so
    many differences is below 5%.

    Where nothing is shown it is at the level of 5% over the size of the family, else at the level that the correction
    leaves, 5% p / p corrected.
    """
    if estimate.value is None or estimate.low is None or estimate.high is None:
        return None, None
    if p_adjusted == p and (p < LEVEL or family < 2):
        return (
            estimate.low,
            estimate.high,
        )  # to the last bit: whoever reads both is told that nothing was corrected
    level = LEVEL * p / p_adjusted if p and p_adjusted < LEVEL else LEVEL / max(family, 1)
    wider = z(level) / z()
    low = estimate.value - wider * (estimate.value - estimate.low)
    high = estimate.value + wider * (estimate.high - estimate.value)
    return (low, high) if p_adjusted < LEVEL else (min(low, 0.0), max(high, 0.0))


def sign_flip_test(sums: Sequence[float]) -> float:
    """Two-sided p-value of the hypothesis that two systems are equally good.

    `sums` holds, for each group of questions that may depend on each other (a picture), the summed differences of
    the two systems. Were they equally good, each sum could as well have the other sign. If all that are not zero have
    one size, the number of positive ones is binomial: for single questions that are right or wrong this is McNemar's
    exact test (McNemar 1947). Up to 16 groups all signs are tried (Fisher's randomisation test); beyond that, the
    sum of S_g over the root of the sum of S_g^2 is standard normal, as in McNemar's test for groups (Durkalski et
    al. 2003).
    """
    largest = max(map(abs, sums), default=0.0)
    moved = [value for value in sums if abs(value) > SAME * largest]
    if not moved:
        return 1.0
    sizes = [abs(value) for value in moved]
    if max(sizes) - min(sizes) <= SAME * largest * len(sums):
        return _binomial_test(sum(value > 0 for value in moved), len(moved))
    if len(moved) <= ENUMERATED:
        return _randomisation_test(moved)
    return _normal_test(math.fsum(moved) / math.sqrt(math.fsum(value * value for value in moved)))


def _binomial_test(successes: int, n: int) -> float:
    """Two-sided test of a probability of one half: twice the smaller tail."""
    fewer = min(successes, n - successes)
    if n > 1000:
        # The tail by the normal distribution with continuity correction, right to 1e-3 of itself here.
        return min(1.0, _normal_test((n - 2 * fewer - 1) / math.sqrt(n)))
    tail = Fraction(sum(math.comb(n, k) for k in range(fewer + 1)), 2 ** (n - 1))
    return min(1.0, float(tail))


def _normal_test(statistic: float) -> float:
    return math.erfc(abs(statistic) / math.sqrt(2))


def _randomisation_test(sums: Sequence[float]) -> float:
    """The share of all signs under which the sum is at least as far from zero."""
    observed = abs(math.fsum(sums))
    totals = [0.0]
    for value in sums:
        totals = [total + sign * value for total in totals for sign in (1, -1)]
    reach = observed - SAME * math.fsum(map(abs, sums))
    return sum(abs(total) >= reach for total in totals) / len(totals)


def adjusted(p_values: Sequence[float], correction: Correction = "holm") -> list[float]:
    """p-values corrected for their number, in the same order.

    `holm` (Holm 1979) bounds the chance of any false finding, `bh` (Benjamini and Hochberg 1995) the expected share of
    false ones among the findings.
    """
    return _CORRECTIONS[correction](p_values)


def holm(p_values: Sequence[float]) -> list[float]:
    """max over j <= i of (m - j + 1) p_(j), at most 1."""
    count, corrected, largest = len(p_values), [0.0] * len(p_values), 0.0
    for place, i in enumerate(sorted(range(count), key=p_values.__getitem__)):
        largest = max(largest, min(1.0, (count - place) * p_values[i]))
        corrected[i] = largest
    return corrected


def benjamini_hochberg(p_values: Sequence[float]) -> list[float]:
    """min over j >= i of m p_(j) / j."""
    count, corrected, least = len(p_values), [0.0] * len(p_values), 1.0
    for place, i in reversed(list(enumerate(sorted(range(count), key=p_values.__getitem__), 1))):
        least = min(least, count * p_values[i] / place)
        corrected[i] = least
    return corrected


_CORRECTIONS: dict[Correction, Callable[[Sequence[float]], list[float]]] = {
    "holm": holm,
    "bh": benjamini_hochberg,
    "none": list,
}


def questions_needed(difference: float, stderr: float, n: int) -> int | None:
    """How many such questions would show a difference of this size at the 5% level with probability POWER.

    n ((z_0.975 + z_power) stderr / difference)^2, with the standard error that `n` questions gave. None if there is
    no difference, or none of its questions tells how much they vary.
    """
    if not n or not stderr or abs(difference) <= SAME:
        return None
    return math.ceil(n * ((z() + NormalDist().inv_cdf(POWER)) * stderr / difference) ** 2)
