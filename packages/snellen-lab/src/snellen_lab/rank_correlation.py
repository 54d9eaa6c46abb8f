"""Pearson's and Spearman's correlation, with Fisher's interval for ranks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist, StatisticsError, correlation

from snellen.plugin_api import Estimate, fractional_ranks

NORMAL_QUANTILE = NormalDist().inv_cdf(0.975)
"""Half the width of a 95% interval in standard errors."""


def pearson(x: Sequence[float], y: Sequence[float]) -> float | None:
    """Return the correlation, or None for fewer than two values or if all values of one side are equal."""
    try:
        return correlation(x, y)
    except StatisticsError:
        return None


def spearman(x: Sequence[float], y: Sequence[float], groups: int) -> Estimate:
    """Return Spearman's rank correlation with a 95% interval.

    The interval is Fisher's, with the variance (1 + r^2 / 2) / (G - 3) of ranks (Bonett and Wright 2000, equation 4),
    where G is the number of independent groups (images). There is no interval with fewer than five groups or for a
    correlation of one, and no value if all values of one side are equal.
    """
    n = len(x)
    rho = pearson(fractional_ranks(x), fractional_ranks(y))
    if rho is None or groups < 5 or abs(rho) >= 1 - 1e-12:
        return Estimate(rho, None, None, None, n, groups=groups)
    error = math.sqrt((1 + rho * rho / 2) / (groups - 3))
    middle = math.atanh(rho)
    low, high = (
        math.tanh(middle - NORMAL_QUANTILE * error),
        math.tanh(middle + NORMAL_QUANTILE * error),
    )
    return Estimate(rho, error * (1 - rho * rho), low, high, n, groups=groups)
