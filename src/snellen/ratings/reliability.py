"""How far raters agree, and how a mean over raters and items would vary if others were drawn. Pure."""

from __future__ import annotations

import math
import random
from collections.abc import Hashable, Sequence

from snellen.analysis.statistics import Bounds, group_spread, score_interval, student_t, unvaried_interval, z
from snellen.records import Estimate

RESAMPLES = 2000


def interval_alpha(units: Sequence[Sequence[float]]) -> float | None:
    """Krippendorff's alpha for interval values: 1 - observed / expected disagreement, at most 1; 0 is chance.

    A unit holds the values that one item got; items with one value count for nothing. With the difference function
    (a - b)^2 the disagreement of all ordered pairs of m values is 2 (m sum x^2 - (sum x)^2), so
    alpha = 1 - (n - 1) sum_u [m_u S_u - T_u^2] / (m_u - 1) / (n S - T^2) (Krippendorff 2011, "Computing
    Krippendorff's Alpha-Reliability"). None where all values are the same, or none can be compared.
    """
    return _alpha([_moments(unit) for unit in units if len(unit) > 1])


def alpha_estimate(units: Sequence[Sequence[float]], rng: random.Random) -> Estimate:
    """`interval_alpha` with the 2.5th and 97.5th percentile over resamples of items; n counts values.

    Raters are not drawn again: two copies of one rater would agree with each other.
    """
    moments = [_moments(unit) for unit in units if len(unit) > 1]
    drawn = (_alpha(rng.choices(moments, k=len(moments))) for _ in range(RESAMPLES if len(moments) > 1 else 0))
    found = sorted(value for value in drawn if value is not None)
    low, high = (found[round(share * (len(found) - 1))] for share in (0.025, 0.975)) if found else (None, None)
    return Estimate(_alpha(moments), None, low, high, sum(m for m, _, _ in moments), groups=len(moments))


_Moments = tuple[int, float, float]
"""How many values, their sum, the sum of their squares."""


def _moments(unit: Sequence[float]) -> _Moments:
    return len(unit), math.fsum(unit), math.fsum(value * value for value in unit)


def _alpha(units: Sequence[_Moments]) -> float | None:
    n, total, squares = (math.fsum(unit[place] for unit in units) for place in range(3))
    expected = n * squares - total * total
    if expected <= 0:
        return None
    observed = math.fsum((m * square - part * part) / (m - 1) for m, part, square in units)
    return 1 - (n - 1) * observed / expected


def crossed_mean(
    values: Sequence[float], raters: Sequence[Hashable], items: Sequence[Hashable], bounds: Bounds, missing: int = 0
) -> Estimate:
    """Mean of ratings with a 95 % interval for other raters and other items; each rates, or is rated, many times.

    The variance is V_raters + V_items - V_cells (Cameron, Gelbach and Miller 2011, section 2.2), each a
    delete-one-group jackknife, and at least the larger of the first two, since the difference can come out too small.
    Student's t has as many degrees of freedom as the fewer of raters and items, less one (the same, section 2.3). The
    interval bends near the bounds of the scale (`score_interval`). None for a single rater or item. `missing` ratings
    are counted as unscored.
    """
    n = len(values)
    if not n:
        return Estimate(None, None, None, None, 0, missing)
    mean = math.fsum(values) / n
    parts = [(value - mean) / n for value in values]
    by_rater, by_item = group_spread(parts, raters), group_spread(parts, items)
    fewest = min(by_rater.groups, by_item.groups)
    if fewest < 2:
        return Estimate(mean, None, None, None, n, missing, 0, fewest)
    cells = group_spread(parts, range(n)).jackknife
    one, other = by_rater.jackknife, by_item.jackknife
    variance = max(one + other - cells, one, other)
    factor = (student_t(fewest - 1) / z()) ** 2
    if variance > 1e-24 and bounds[0] < mean < bounds[1]:
        low, high = score_interval(mean, factor * variance, bounds)
        return Estimate(mean, math.sqrt(variance), low, high, n, missing, 0, fewest)
    return Estimate(mean, math.sqrt(variance), *unvaried_interval(mean, fewest, bounds), n, missing, 0, fewest)
