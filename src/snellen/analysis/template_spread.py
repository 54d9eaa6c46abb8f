"""Cross-fitted accuracy gap between the best and the worst prompt template."""

from __future__ import annotations

import math
import statistics
from array import array
from collections.abc import Mapping, Sequence
from itertools import combinations
from operator import or_

from msgspec import Struct

from snellen.analysis.statistics import (
    CONFIDENCE,
    GroupSpread,
    group_spread,
    interval_of,
    student_t,
)
from snellen.common.seeds import rng_for
from snellen.metrics.declaration import Metric, share
from snellen.records import Estimate

TEMPLATE_SPREAD = Metric(
    what="accuracy of the best template minus that of the worst, chosen on other pictures, so that it can be below 0 "
    "(arXiv 2310.02569, Table 25)",
    rows=(share("template_spread", better="lower", scale="", unparsed="wrong"),),
)


FOLDS = 10
SPREAD_BOUNDS = (-1.0, 1.0)
TEMPLATE_DEVIATION = Metric(
    what="standard deviation of the accuracy over templates",
    rows=(
        share(
            "template_deviation",
            "accuracy's standard deviation over templates",
            better="lower",
            scale="",
            interval="none",
            unparsed="wrong",
        ),
    ),
)
Shares = Mapping[str, Sequence[tuple[float, str]]]
"""By template: for each presentation, 1 if right else 0, and its group (picture)."""


def template_spread(shares: Shares, *seed: str) -> Estimate:
    """Accuracy of the best template minus that of the worst, chosen on other groups than they are compared on.

    Its expectation is 0 when templates make no difference, so it can come out below 0. The interval involves no
    choice: the true spread is at least the true difference of any two templates, so it begins at the largest of their
    lower limits (Bonferroni over ordered pairs) and ends at the largest of their upper limits. `n` is the number of
    presentations compared. No value where a template was shown for fewer than two groups.
    """
    groups = sorted({group for pairs in shares.values() for _, group in pairs})
    fold_of = _folds(groups, seed)
    parts = _by_fold(shares, fold_of)
    totals = {
        name: [(math.fsum(value for value, _ in pairs), len(pairs)) for pairs in by_fold]
        for name, by_fold in parts.items()
    }
    best: list[tuple[float, str]] = []
    worst: list[tuple[float, str]] = []
    for fold in range(FOLDS):
        ranked = _ranked(totals, fold)
        if ranked:
            best += parts[ranked[-1]][fold]
            worst += parts[ranked[0]][fold]
    if not best or not worst or len({group for _, group in best + worst}) < 2:
        return Estimate(None, None, None, None, 0)
    places = {group: place for place, group in enumerate(groups)}
    value, spread = _difference(_shifts(best, places), _shifts(worst, places))
    low, high = _limits([_shifts(pairs, places) for pairs in shares.values()])
    n = min(len(best), len(worst))
    return Estimate(value, spread.error, min(low, value), max(high, value), n, groups=spread.groups)


def template_deviation(shares: Shares) -> Estimate:
    """Estimate the standard deviation of the accuracy over prompt templates.

    Args:
        shares: For each template, a pair (1.0 if correct else 0.0, image group) per presentation.

    Returns:
        The sample standard deviation of the accuracies, without an interval: of few templates there is none worth
        giving. It is above 0 by chance even if templates make no difference; `template_spread` is not.
    """
    accuracies = [
        math.fsum(value for value, _ in pairs) / len(pairs) for pairs in shares.values() if pairs
    ]
    n = min((len(pairs) for pairs in shares.values()), default=0)
    if len(accuracies) < 2:
        return Estimate(None, None, None, None, n)
    return Estimate(statistics.stdev(accuracies), None, None, None, n)


class _Shifts(Struct, frozen=True):
    """The mean over some presentations, how far each group moves it, and which groups they are of (others move it
    by 0)."""

    mean: float
    by_group: array[float]
    has: bytearray


def _limits(templates: Sequence[_Shifts]) -> tuple[float, float]:
    lows, highs = list[float](), list[float]()
    for first, second in combinations(templates, 2):
        value, spread = _difference(first, second)
        # In the other order the difference is the negative, and its spread the same.
        for difference in (value, -value):
            low, high = interval_of(difference, spread, SPREAD_BOUNDS)
            if low is None or high is None:
                return SPREAD_BOUNDS
            ordered = len(templates) * (len(templates) - 1)
            apart = student_t(spread.df, 1 - (1 - CONFIDENCE) / ordered) / student_t(spread.df)
            lows.append(difference - apart * (difference - low))
            highs.append(high)
    return max(SPREAD_BOUNDS[0], *lows), max(highs)


def _folds(groups: Sequence[str], seed: Sequence[str]) -> dict[str, int]:
    order = list(groups)
    rng_for(*seed, "template spread").shuffle(order)
    return {group: place % FOLDS for place, group in enumerate(order)}


def _by_fold(
    shares: Shares, fold_of: Mapping[str, int]
) -> dict[str, list[list[tuple[float, str]]]]:
    """For each template its presentations in each fold."""
    parts: dict[str, list[list[tuple[float, str]]]] = {
        name: [[] for _ in range(FOLDS)] for name in shares
    }
    for name, pairs in shares.items():
        for pair in pairs:
            parts[name][fold_of[pair[1]]].append(pair)
    return parts


def _ranked(totals: Mapping[str, Sequence[tuple[float, int]]], fold: int) -> list[str]:
    """Templates from worst to best on all other folds; empty if one of them does not occur there.

    `totals` has for each template and fold the sum of the values and their number.
    """
    means = {}
    for template, by_fold in totals.items():
        other_totals = [total for number, total in enumerate(by_fold) if number != fold]
        count = sum(number for _, number in other_totals)
        if not count:
            return []
        means[template] = math.fsum(value for value, _ in other_totals) / count
    return sorted(means, key=lambda template: (means[template], template))


def _shifts(pairs: Sequence[tuple[float, str]], places: Mapping[str, int]) -> _Shifts:
    """Of presentations; `places` says where each group stands."""
    count = len(pairs)
    mean = math.fsum(value for value, _ in pairs) / count
    by_group, has = array("d", bytes(8 * len(places))), bytearray(len(places))
    for value, group in pairs:
        place = places[group]
        by_group[place] += (value - mean) / count
        has[place] = True
    return _Shifts(mean, by_group, has)


def _difference(first: _Shifts, second: _Shifts) -> tuple[float, GroupSpread]:
    """Difference of two means, paired by the groups that both have."""
    groups = [
        place for place, is_measured in enumerate(map(or_, first.has, second.has)) if is_measured
    ]
    minuend, subtrahend = first.by_group, second.by_group
    return first.mean - second.mean, group_spread(
        array("d", (minuend[g] - subtrahend[g] for g in groups)), groups
    )
