"""Estimate a mean over questions in groups (images, dialogues), with a 95% interval.

Three things are estimated separately that a normal interval mixes up: how much groups differ (`group_spread`), how well
so few groups can tell that (Student's t), and how an interval bends near the bounds of a metric (`intervals`).
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Hashable, Sequence

from snellen.analysis.group_spread import GroupLabels, GroupSpread, group_spread
from snellen.analysis.intervals import RELATIVE_ROUNDING, UNIT_INTERVAL, Bounds, interval_of
from snellen.records import Estimate


def estimate_mean(
    values: Sequence[float],
    groups: Sequence[Hashable],
    *,
    bounds: Bounds = UNIT_INTERVAL,
    unscored: int = 0,
) -> Estimate:
    """Estimate the mean over questions with a 95% interval that allows for dependence within groups.

    Questions about the same image, or of the same dialogue, form a group, because their values may depend on each
    other.

    Method: the standard error is that of the delete-one-group jackknife (`group_spread`). The interval is a score
    interval (`score_interval`) with Student's t, because few groups estimate the error poorly. For independent zeros
    and ones it is Wilson's interval, and wider if one of them is rare (`share_interval`). If the bounds are on both
    sides of zero, the values are differences, and gains and losses are estimated separately.

    Args:
        values: One value per question.
        groups: The group of each question.
        bounds: The least and the greatest possible value.
        unscored: Number of questions without a value. It is copied to the result and changes nothing else.

    Returns:
        The mean, its standard error and interval. There is no interval for a single group, nor for equal values without
        bounds, because an unseen value could be arbitrarily different.

    Examples:
        >>> estimate_mean([1.0, 0.0, 1.0, 1.0], ["a", "a", "b", "c"]).value
        0.75
    """
    n = len(values)
    if not n:
        return Estimate(value=None, stderr=None, low=None, high=None, n=0, unscored=unscored)
    mean = math.fsum(values) / n
    labels = GroupLabels.of(groups)
    influences = array("d", ((value - mean) / n for value in values))
    spread = group_spread(influences, labels)

    lower_bound, upper_bound = bounds
    rounding_error = RELATIVE_ROUNDING * max(1.0, abs(mean))
    varied = max(values) - min(values) > rounding_error
    is_difference = lower_bound < 0 < upper_bound and math.isfinite(upper_bound - lower_bound)
    if is_difference and varied and spread.groups > 1:
        low, high = _difference_interval(values, labels, spread, bounds)
    else:
        is_binary = set(values) == {lower_bound, upper_bound}
        low, high = interval_of(mean, spread, bounds, varied=varied, binary=is_binary)
    return Estimate(
        value=mean,
        stderr=spread.error,
        low=low,
        high=high,
        n=n,
        unscored=unscored,
        groups=spread.groups,
    )


def _difference_interval(
    values: Sequence[float], groups: Sequence[Hashable], spread: GroupSpread, bounds: Bounds
) -> tuple[float, float]:
    """Return the 95% interval of the mean gain g minus the mean loss l, by MOVER (Zou and Donner 2008, equation 3).

    The values are differences between two systems. A positive one is a gain and a negative one a loss. The lower end is
    g - l - sqrt((g - g_low)^2 + (l_high - l)^2 - 2 r (g - g_low) (l_high - l)), where r is the correlation of the two;
    the upper end is computed in the same way. The interval therefore allows for gains and losses that were not seen,
    even if the systems seldom differ.

    Args:
        values: The difference on each question.
        groups: The group (image or dialogue) of each question.
        spread: The spread of the mean difference over groups.
        bounds: The least and the greatest possible difference.
    """
    greatest_gain = max(values)
    greatest_loss = -min(values)
    gain_bound = bounds[1]
    loss_bound = -bounds[0]
    # If no gain was seen, an unseen one is assumed to be at most the greatest loss, and the reverse.
    if greatest_gain <= 0:
        gain_bound = min(gain_bound, greatest_loss)
    if greatest_loss <= 0:
        loss_bound = min(loss_bound, greatest_gain)

    gains = [value if value > 0 else 0.0 for value in values]
    losses = [-value if value < 0 else 0.0 for value in values]
    gain = estimate_mean(gains, groups, bounds=(0.0, gain_bound))
    loss = estimate_mean(losses, groups, bounds=(0.0, loss_bound))

    gain_error = gain.stderr or 0.0
    loss_error = loss.stderr or 0.0
    correlation = 0.0
    if gain_error and loss_error:
        covariance = (gain_error**2 + loss_error**2 - spread.error**2) / 2
        correlation = max(-1.0, min(1.0, covariance / gain_error / loss_error))

    gain_below, gain_above = gain.margins
    loss_below, loss_above = loss.margins
    below = gain_below**2 + loss_above**2 - 2 * correlation * gain_below * loss_above
    above = gain_above**2 + loss_below**2 - 2 * correlation * gain_above * loss_below
    mean = (gain.value or 0.0) - (loss.value or 0.0)
    low = mean - math.sqrt(max(0.0, below))
    high = mean + math.sqrt(max(0.0, above))
    return max(bounds[0], low), min(bounds[1], high)
