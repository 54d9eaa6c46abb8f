"""Estimates that are made of others: in another unit, or the mean of several benchmarks."""

from __future__ import annotations

import math
from collections.abc import Sequence

from msgspec.structs import replace

from snellen.analysis.intervals import Interval, skewed_margins
from snellen.analysis.quantiles import normal_quantile
from snellen.records import Estimate


def mean_of_estimates(estimates: Sequence[Estimate]) -> Estimate:
    """Return the unweighted mean of independent estimates (ReForm-Eval E.1: benchmarks count equally).

    Its interval keeps its width if some estimates are at the end of their range, and is within the mean of their
    bounds (`_margins_of_sum`). There is no interval if one estimate has none.

    Examples:
        >>> mean_of_estimates([Estimate(0.5, 0.05, 0.4, 0.6, 100), Estimate(0.75, 0.05, 0.64, 0.83, 80)]).value
        0.625
    """
    valued = [estimate for estimate in estimates if estimate.value is not None]
    averaged = valued or estimates
    n_questions = sum(estimate.n for estimate in averaged)
    # Questions of an estimate without a value are not in the mean, even if some of them have values.
    n_unscored = sum(estimate.unscored + estimate.n for estimate in estimates) - n_questions
    mean = Estimate(
        value=None,
        stderr=None,
        low=None,
        high=None,
        n=n_questions,
        unscored=n_unscored,
        errors=sum(estimate.errors for estimate in estimates),
        groups=sum(estimate.groups or estimate.n for estimate in averaged),
        not_asked=sum(estimate.not_asked for estimate in estimates),
    )
    if not valued:
        return mean

    value = math.fsum(estimate.value or 0.0 for estimate in valued) / len(valued)
    stderr_of_sum = math.hypot(*(estimate.stderr or 0.0 for estimate in valued))
    worst_case = None
    best_case = None
    # An estimate without a value, but with unanswered questions, has an unknown worst case.
    if not any(estimate.unanswered for estimate in estimates if estimate.value is None):
        worst_case, best_case = _mean_worst_cases(valued)
    mean = replace(
        mean,
        value=value,
        stderr=stderr_of_sum / len(valued),
        least=worst_case,
        most=best_case,
        absent=sum(estimate.absent for estimate in averaged),
    )
    if any(estimate.low is None or estimate.high is None for estimate in valued):
        return mean
    below, above = _margins_of_sum(valued)
    return replace(mean, low=value - below / len(valued), high=value + above / len(valued))


def _margins_of_sum(estimates: Sequence[Estimate]) -> tuple[float, float]:
    """Return how far the 95% interval of a sum of independent estimates extends below and above the sum.

    An estimate has the margins `below` (value minus the low end) and `above` (high end minus value). For a score
    interval whose variance v changes linearly with the value, below * above = z^2 v, and above - below = z^2 v' (Morris
    1982; v v' is the third cumulant). Variances and third cumulants of a sum add up. So the products of the margins add
    up, and the difference of the margins is the mean of the differences, weighted by the products.

    Two corrections follow:

    - An estimate at the end of its range has an unknown variance. The margins of such estimates are squared and added
      (MOVER; Zou and Donner 2008, equation 4).
    - With n questions, the product of a score interval is smaller than z^2 v by the factor 1 + z^2 / n. For the sum of
      B benchmarks the factor should be 1 + z^2 / (B n), so most of the shortfall is added again.
    """
    products: list[float] = []
    weighted_differences: list[float] = []
    inner_below: list[float] = []
    inner_above: list[float] = []
    # Of estimates at the end of their range.
    end_below: list[float] = []
    end_above: list[float] = []
    for estimate in estimates:
        below, above = estimate.margins
        product = below * above
        if not product:
            end_below.append(below)
            end_above.append(above)
            continue
        shortfall = max(0.0, (normal_quantile() * (estimate.stderr or 0.0)) ** 2 - product)
        product += (1 - 1 / len(estimates)) * shortfall
        products.append(product)
        weighted_differences.append(product * (above - below))
        inner_below.append(below)
        inner_above.append(above)

    total = math.fsum(products)
    difference = math.fsum(weighted_differences) / total if products else 0.0
    below_sum, above_sum = skewed_margins(total, difference)
    # No further than if all estimates were at their limits, so that the interval stays within the bounds.
    below_sum = min(below_sum, math.fsum(inner_below))
    above_sum = min(above_sum, math.fsum(inner_above))
    return math.hypot(below_sum, *end_below), math.hypot(above_sum, *end_above)


def _mean_worst_cases(estimates: Sequence[Estimate]) -> Interval:
    """Return the mean of several estimates if all missing replies were wrong, and if all were right.

    Returns:
        The lowest and the highest mean. A pair of None if no reply is missing, or if an estimate with missing replies
        has no worst case.
    """
    if not any(estimate.unanswered for estimate in estimates):
        return None, None
    least: list[float] = []
    most: list[float] = []
    for estimate in estimates:
        lowest = estimate.value
        highest = estimate.value
        if estimate.unanswered:
            lowest = estimate.least
            highest = estimate.most
        if lowest is None or highest is None:
            return None, None
        least.append(lowest)
        most.append(highest)
    return math.fsum(least) / len(estimates), math.fsum(most) / len(estimates)
