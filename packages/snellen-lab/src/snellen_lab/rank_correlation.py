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
    """Return Spearman's rank correlation of two series, with a 95% interval.

    The interval is Fisher's, with the variance (1 + r^2 / 2) / (G - 3) of ranks (Bonett and Wright 2000, equation 4).

    Args:
        x: The first series.
        y: The second series, of the same length.
        groups: Number of independent groups of values (such as images), G.

    Returns:
        The correlation. It has no value if all values of one side are equal, and no interval with fewer than five
        groups or if it is 1 or -1.
    """
    n = len(x)
    correlation_of_ranks = pearson(fractional_ranks(x), fractional_ranks(y))
    if correlation_of_ranks is None or groups < 5 or abs(correlation_of_ranks) >= 1 - 1e-12:
        return Estimate(correlation_of_ranks, None, None, None, n, groups=groups)
    rho = correlation_of_ranks
    # The interval is computed for atanh(rho), which is nearly normal, and transformed back.
    standard_error = math.sqrt((1 + rho * rho / 2) / (groups - 3))
    margin = NORMAL_QUANTILE * standard_error
    low = math.tanh(math.atanh(rho) - margin)
    high = math.tanh(math.atanh(rho) + margin)
    return Estimate(rho, standard_error * (1 - rho * rho), low, high, n, groups=groups)
