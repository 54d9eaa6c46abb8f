"""Statistics of ratings by several raters: Krippendorff's alpha, and means over raters and items."""

from __future__ import annotations

import math
import random
from collections.abc import Hashable, Sequence
from statistics import NormalDist
from typing import NamedTuple

from snellen.plugin_api import (
    Estimate,
    group_spread,
    score_interval,
    student_t,
    unvaried_interval,
)

RESAMPLES = 2000
SMALLEST_VARIANCE = 1e-24
"""Variance below which a mean counts as constant."""


class _Moments(NamedTuple):
    """Number, sum and sum of squares of the values of an item."""

    n: int
    total: float
    squares: float


def alpha_estimate(units: Sequence[Sequence[float]], rng: random.Random) -> Estimate:
    """Return Krippendorff's alpha for interval values: 1 - observed / expected disagreement.

    It is at most 1, and 0 at chance. With the difference function (a - b)^2 the disagreement of all ordered pairs of m
    values is 2 (m sum x^2 - (sum x)^2), so that
    alpha = 1 - (n - 1) sum_u [m_u S_u - T_u^2] / (m_u - 1) / (n S - T^2) (Krippendorff 2011, "Computing
    Krippendorff's Alpha-Reliability").

    Args:
        units: The values of each item. Items with one value do not count.
        rng: Source of the resamples.

    Returns:
        Alpha with its 2.5th and 97.5th percentile over resamples of items; n counts values. Raters are not resampled:
        two copies of one rater would agree with each other. It has no value if all values are the same or none can be
        compared.
    """
    moments = []
    for values in units:
        if len(values) > 1:
            squares = math.fsum(value * value for value in values)
            moments.append(_Moments(len(values), math.fsum(values), squares))

    resampled_alphas = []
    if len(moments) > 1:
        for _ in range(RESAMPLES):
            alpha = _alpha(rng.choices(moments, k=len(moments)))
            if alpha is not None:
                resampled_alphas.append(alpha)
    low = high = None
    if resampled_alphas:
        resampled_alphas.sort()
        last = len(resampled_alphas) - 1
        low = resampled_alphas[round(0.025 * last)]
        high = resampled_alphas[round(0.975 * last)]
    n = sum(unit.n for unit in moments)
    return Estimate(_alpha(moments), None, low, high, n, groups=len(moments))


def _alpha(units: Sequence[_Moments]) -> float | None:
    """Return Krippendorff's alpha for interval values (see `alpha_estimate`).

    Args:
        units: For each item, the number, the sum and the sum of squares of its ratings.

    Returns:
        Alpha; None if all ratings are equal, because agreement by chance is then certain.
    """
    n_ratings = math.fsum(unit.n for unit in units)
    total = math.fsum(unit.total for unit in units)
    squares = math.fsum(unit.squares for unit in units)
    expected_disagreement = n_ratings * squares - total * total
    if expected_disagreement <= 0:
        return None
    disagreements = []
    for unit in units:
        disagreement = unit.n * unit.squares - unit.total * unit.total
        disagreements.append(disagreement / (unit.n - 1))
    observed_disagreement = (n_ratings - 1) * math.fsum(disagreements)
    return 1 - observed_disagreement / expected_disagreement


def crossed_mean(
    values: Sequence[float],
    raters: Sequence[Hashable],
    items: Sequence[Hashable],
    bounds: tuple[float, float],
    missing: int = 0,
) -> Estimate:
    """Return the mean of ratings with a 95% interval for other raters and other items.

    The variance is V_raters + V_items - V_cells (Cameron, Gelbach and Miller 2011, section 2.2), each a delete-one-group
    jackknife. It is at least the larger of the first two, because the difference can be too small. Student's t has as
    many degrees of freedom as the smaller number of raters or items, minus 1 (section 2.3). The interval is asymmetric
    near the bounds of the scale (`score_interval`).

    Args:
        values: The ratings.
        raters: The rater of each rating.
        items: The rated item of each rating.
        bounds: The scale.
        missing: Ratings that were not given, which count as unscored.

    Returns:
        The mean. It has no interval for a single rater or item.
    """
    n = len(values)
    if not n:
        return Estimate(None, None, None, None, 0, missing)
    mean = math.fsum(values) / n
    deviations = [(value - mean) / n for value in values]
    by_rater = group_spread(deviations, raters)
    by_item = group_spread(deviations, items)
    fewest = min(by_rater.groups, by_item.groups)
    if fewest < 2:
        return Estimate(mean, None, None, None, n, missing, 0, fewest)

    cell_variance = group_spread(deviations, range(n)).jackknife
    variance = max(
        by_rater.jackknife + by_item.jackknife - cell_variance,
        by_rater.jackknife,
        by_item.jackknife,
    )
    low_bound, high_bound = bounds
    if variance > SMALLEST_VARIANCE and low_bound < mean < high_bound:
        # The score interval has the normal quantile: its variance is scaled to have that of Student's distribution.
        scale = (student_t(fewest - 1) / NormalDist().inv_cdf(0.975)) ** 2
        low, high = score_interval(mean, scale * variance, bounds)
    else:
        low, high = unvaried_interval(mean, fewest, bounds)
    return Estimate(mean, math.sqrt(variance), low, high, n, missing, 0, fewest)
