"""Statistics of ratings by several raters: Krippendorff's alpha, and means over raters and items."""

from __future__ import annotations

import math
import random
from collections.abc import Hashable, Sequence
from statistics import NormalDist

from snellen.plugin_api import (
    Estimate,
    group_spread,
    score_interval,
    student_t,
    unvaried_interval,
)
from snellen_lab.agreement.krippendorff import RatingCounts

RESAMPLES = 2000
SMALLEST_VARIANCE = 1e-24
"""Variance below which a mean counts as constant."""


def alpha_estimate(units: Sequence[Sequence[float]], rng: random.Random) -> Estimate:
    """Return Krippendorff's alpha for interval values, at most 1, and 0 at chance (see `RatingCounts`).

    Args:
        units: The values of each item. Items with one value do not count.
        rng: Source of the resamples.

    Returns:
        Alpha with its 2.5th and 97.5th percentile over resamples of items; n counts values. Raters are not resampled:
        two copies of one rater would agree with each other. It has no value if all values are the same or none can be
        compared.
    """
    ratings = RatingCounts(units, "interval")
    resampled_alphas = []
    if ratings.n_items > 1:
        for _ in range(RESAMPLES):
            times = [0] * ratings.n_items
            for item in rng.choices(range(ratings.n_items), k=ratings.n_items):
                times[item] += 1
            alpha = ratings.alpha(times)
            if alpha is not None:
                resampled_alphas.append(alpha)
    low = high = None
    if resampled_alphas:
        resampled_alphas.sort()
        last = len(resampled_alphas) - 1
        low = resampled_alphas[round(0.025 * last)]
        high = resampled_alphas[round(0.975 * last)]
    return Estimate(ratings.alpha(), None, low, high, ratings.n_ratings, groups=ratings.n_items)


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
