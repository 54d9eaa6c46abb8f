"""Does a model get worse as a dialogue goes on? Correlation and slope of accuracy against round."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist

from msgspec import Struct

from snellen.errors import DataError


class RoundTrend(Struct, frozen=True):
    """How accuracy changes with the number of the round (1, 2, ...), rounds unweighted."""

    rounds: int
    correlation: float | None
    """Pearson r in [-1, 1]; None when all rounds have the same accuracy."""
    correlation_low: float | None
    correlation_high: float | None
    """Interval of r by Fisher's z; None below four rounds."""
    slope: float
    """Least-squares change of accuracy per round."""
    slope_low: float | None
    slope_high: float | None
    """Interval of the slope by Student's t with rounds - 2 degrees of freedom; None below three rounds."""
    per_round: tuple[int, ...] = ()
    """Number of tests behind each round's accuracy, if given."""


def round_trend(accuracies: Sequence[float], *, per_round: Sequence[int] = (), confidence: float = 0.95) -> RoundTrend:
    """Trend of per-round accuracy (ReForm-Eval, appendix A.8 and Table 21, which prints r alone).

    accuracies[i] is the mean over all tests of round i + 1. The intervals treat rounds as independent,
    with normal errors of equal variance; they ignore n per round. Raises DataError below two
    rounds or for `per_round` of another length.
    """
    n = len(accuracies)
    if n < 2 or len(per_round) not in (0, n):
        raise DataError(
            f"dialogue trend: {n} rounds, counts for {len(per_round)}; give at least two rounds, all counted"
        )
    middle, mean = (n + 1) / 2, math.fsum(accuracies) / n
    across = math.fsum((round_ - middle) ** 2 for round_ in range(1, n + 1))
    up = math.fsum((value - mean) ** 2 for value in accuracies)
    both = math.fsum((round_ - middle) * (value - mean) for round_, value in enumerate(accuracies, start=1))
    flat = max(accuracies) == min(accuracies) or up == 0.0
    slope = 0.0 if flat else both / across
    r = None if flat else max(-1.0, min(1.0, both / math.sqrt(across * up)))
    r_low, r_high = (None, None) if r is None or n < 4 else _fisher_interval(r, n, confidence)
    half = None
    if n >= 3:
        residual = max(0.0, up - slope * both)
        half = student_quantile((1 + confidence) / 2, n - 2) * math.sqrt(residual / (n - 2) / across)
    low, high = (None, None) if half is None else (slope - half, slope + half)
    return RoundTrend(n, r, r_low, r_high, slope, low, high, tuple(per_round))


def _fisher_interval(r: float, n: int, confidence: float) -> tuple[float, float]:
    """tanh(atanh(r) -+ z / sqrt(n - 3)) (Fisher 1921)."""
    if abs(r) == 1.0:
        return r, r
    half = NormalDist().inv_cdf((1 + confidence) / 2) / math.sqrt(n - 3)
    return math.tanh(math.atanh(r) - half), math.tanh(math.atanh(r) + half)


def student_quantile(probability: float, degrees: int) -> float:
    """Quantile of Student's t for a probability in [0.5, 1), by bisection of its distribution function."""
    low, high = 0.0, 1.0
    while student_cdf(high, degrees) < probability:
        high *= 2
    for _ in range(200):
        middle = (low + high) / 2
        if middle in (low, high):
            break
        low, high = (middle, high) if student_cdf(middle, degrees) < probability else (low, middle)
    return high


def student_cdf(t: float, degrees: int) -> float:
    """P(T <= t), t >= 0, whole degrees of freedom: the finite sums of Abramowitz and Stegun 26.7.3-4."""
    theta = math.atan2(t, math.sqrt(degrees))
    cosine, term, total = math.cos(theta), 1.0, 0.0
    if degrees % 2:
        term = cosine
        for step in range(1, degrees - 1, 2):
            total += term
            term *= cosine**2 * (step + 1) / (step + 2)
        both_tails = 2 / math.pi * (theta + math.sin(theta) * total)
    else:
        for step in range(0, degrees, 2):
            total += term
            term *= cosine**2 * (step + 1) / (step + 2)
        both_tails = math.sin(theta) * total
    return 0.5 + both_tails / 2
