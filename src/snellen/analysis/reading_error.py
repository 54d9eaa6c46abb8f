"""Widen an interval by the error of reading replies.

A score counts each reply as what it most probably means. Two things follow from the probabilities of the readings
(`records.ReadingDoubt`): by how much the mean would change on average if each reply counted by its probabilities (the
bias of taking the most probable meaning), and the variance that reading adds to the mean.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from msgspec.structs import replace

from snellen.analysis.intervals import Bounds
from snellen.analysis.quantiles import normal_quantile
from snellen.records import Estimate, ReadingDoubt


def certain(value: float) -> ReadingDoubt:
    """Return the doubt about a value whose readings are all certain: no other value is possible."""
    return ReadingDoubt(expected=value, variance=0.0, least=value, most=value)


def difference_doubt(first: ReadingDoubt, second: ReadingDoubt) -> ReadingDoubt:
    """Return the possible differences between two runs on a question, given the possible values of each run.

    The difference is least if the unsure readings of the first run are wrong and those of the second run are right, and
    greatest in the opposite case. Reading errors in the two runs are independent, so their variances add up.
    """
    return ReadingDoubt(
        expected=first.expected - second.expected,
        variance=first.variance + second.variance,
        least=first.least - second.most,
        most=first.most - second.least,
    )


DoubtfulValue = tuple[float, ReadingDoubt]
"""The value of a question, and what the probabilities of its readings say of it."""


def widened_by_reading(
    estimate: Estimate, doubtful: Iterable[DoubtfulValue], n: int, bounds: Bounds
) -> Estimate:
    """Widen the interval of a mean by the uncertainty about which option a reply chooses.

    Reading a reply means to find out which option it chooses. The variances of sampling and of reading are added on
    each side of the mean (MOVER; Zou and Donner 2008). If the uncertain replies are expected to change the mean, the
    interval also grows by that difference, on the side of the expected mean.

    Args:
        estimate: The mean, with an interval for sampling alone.
        doubtful: The value of each question whose reply is uncertain, with its expected value and variance.
        n: The number of all questions in the mean.
        bounds: The least and the greatest possible mean.

    Examples:
        >>> estimate = Estimate(0.5, 0.1, 0.3, 0.7, 25)
        >>> doubt = ReadingDoubt(expected=0.75, variance=0.1875, least=0.0, most=1.0)
        >>> widened = widened_by_reading(estimate, [(1.0, doubt)], 25, (0.0, 1.0))
        >>> round(widened.low, 3), round(widened.high, 3)
        (0.287, 0.703)
    """
    bias = 0.0
    variance = 0.0
    for value, doubt in doubtful:
        bias += (doubt.expected - value) / n
        variance += doubt.variance / n**2
    if estimate.value is None or estimate.low is None or estimate.high is None:
        return estimate
    if not variance and not bias:
        return estimate
    margin = normal_quantile() * math.sqrt(variance)
    below = math.hypot(estimate.value - estimate.low, margin) - min(bias, 0.0)
    above = math.hypot(estimate.high - estimate.value, margin) + max(bias, 0.0)
    return replace(
        estimate,
        stderr=math.hypot(estimate.stderr or 0.0, math.sqrt(variance)),
        low=max(bounds[0], estimate.value - below),
        high=min(bounds[1], estimate.value + above),
    )
