"""Quantiles of distributions that intervals need: normal, Student's t, and limits of rare counts."""

from __future__ import annotations

import math
from functools import lru_cache
from statistics import NormalDist

CONFIDENCE = 0.95
"""The share of intervals that hold the true value."""
MAX_RARE_COUNT = 11
"""Outcomes of which there are more than this are not rare: Wilson's limit is below `rare_limit` from 10.1 on."""


@lru_cache(maxsize=4096)
def rare_limit(count: float, n: float = math.inf) -> float:
    """Return the smallest expected count with which a count this large still has a probability of 5%.

    This is the lower confidence limit of a rare count: seeing 3 cases, the expected number is at least 0.82. It is n
    times the 5% quantile of Beta(count, n - count + 1), or the 5% quantile of Gamma(count) for unlimited trials
    (Poisson).

    The logarithm of the probability is concave in the logarithm of the expected count, so from the second step on
    Newton's method approaches the solution from below.

    Args:
        count: The observed count, whole or fractional.
        n: The number of trials, whole or fractional.

    Returns:
        The expected count; 0 for a count of 0, and n if the count is not rare.
    """
    if count <= 0:
        return 0.0
    if count > MAX_RARE_COUNT:
        return n
    # The chance is binomial for n trials and Poisson for infinitely many; its logarithm is
    # constant + count log(expected) + log_failures + log(series).
    is_binomial = math.isfinite(n)
    failures = n - count + 1
    constant = -math.lgamma(count + 1) - math.log(1 - CONFIDENCE)
    if is_binomial:
        constant += math.lgamma(n + 1) - math.lgamma(failures) - count * math.log(n)

    expected = count / 2
    for _ in range(50):
        failure_chance = 1 - expected / n
        series = 1.0
        term = 1.0
        k = 0
        while term > 1e-16 * series:
            k += 1
            term *= expected * (1 + k / n) / (count + k)
            series += term
        log_failures = failures * math.log(failure_chance) if is_binomial else -expected
        log_ratio = constant + count * math.log(expected) + log_failures + math.log(series)
        step = log_ratio * failure_chance * series / count
        expected *= math.exp(-step)
        if not expected or abs(step) < 1e-12:
            break
    return expected


def normal_quantile(level: float = 0.05) -> float:
    """Return the quantile of the normal distribution for a two-sided test.

    The margin of an interval is this many standard errors: 1.96 for the level 0.05, which gives a 95% interval.

    Args:
        level: The probability that the true value is outside of the interval.
    """
    return NormalDist().inv_cdf(1 - level / 2)


@lru_cache(maxsize=4096)
def student_t(df: float, confidence: float = CONFIDENCE) -> float:
    """Return the t with P(|T| <= t) = confidence: the 97.5% quantile of Student's distribution by default.

    With t = sqrt(df) tan x, the probability is 2 / B(1/2, df / 2) times the integral of cos^(df - 1) from 0 to x. It is
    concave in x, so Newton's method approaches the solution from below. It starts at the normal quantile, which is too
    small.

    Args:
        df: Degrees of freedom, whole or fractional, at least 1.
        confidence: The probability.

    Examples:
        >>> round(student_t(10), 3)
        2.228
    """
    if df < 1:
        raise ValueError(f"{df} degrees of freedom are fewer than 1")
    log_gamma_ratio = math.lgamma((df + 1) / 2) - math.lgamma(df / 2)
    density = 2 / math.sqrt(math.pi) * math.exp(log_gamma_ratio)  # 2 / B(1/2, df / 2)
    normal_quantile = NormalDist().inv_cdf((1 + confidence) / 2)
    x = math.atan(normal_quantile / math.sqrt(df))
    for _ in range(50):
        missing = confidence / density - _cosine_integral(x, df - 1)
        step = missing / math.pow(math.cos(x), df - 1)
        x += step
        if abs(step) < 1e-12 * x:
            break
    return math.sqrt(df) * math.tan(x)


def _cosine_integral(x: float, power: float) -> float:
    """Return the integral of cos^power from 0 to x, for x < pi / 2, by Simpson's rule."""
    n_steps = 64
    heights: list[float] = []
    for step in range(n_steps + 1):
        cosine = math.cos(x * step / n_steps)
        heights.append(math.pow(cosine, power))
    # Simpson's rule: weights 1, 4, 2, 4, ..., 2, 4, 1, times a third of the width of a step.
    ends = heights[0] + heights[-1]
    odd_sum = sum(heights[1::2])
    even_sum = sum(heights[2:-1:2])
    return (ends + 4 * odd_sum + 2 * even_sum) * x / n_steps / 3
