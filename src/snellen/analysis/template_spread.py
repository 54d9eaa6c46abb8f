"""The spread between the best and the worst template, without the part that is chance alone.

Of several equally good templates one comes out best and one worst by noise, so best minus worst is above zero even
for a model that templates do not affect. Here the best and the worst are chosen on some pictures and compared on the
others (cross-fitting; Chernozhukov et al. 2018, definition 3.1), where chance favours neither.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import permutations

from snellen.analysis.statistics import CONFIDENCE, GroupSpread, group_spread, interval_of, student_t
from snellen.records import Estimate
from snellen.seeds import rng_for

FOLDS = 10
SPREAD_BOUNDS = (-1.0, 1.0)
Shares = Mapping[str, Sequence[tuple[float, str]]]
"""By template: for each presentation, 1 if right else 0, and its group (picture)."""


def template_spread(shares: Shares, *seed: str) -> Estimate:
    """Accuracy of the best template minus that of the worst, chosen on other groups than they are compared on.

    Its expectation is 0 when templates make no difference, so it can come out below 0. The interval involves no
    choice: the true spread is at least the true difference of any two templates, so it begins at the largest of their
    lower limits (Bonferroni over ordered pairs) and ends at the largest of their upper limits. `n` is the number of
    presentations compared. No value where a template was shown for fewer than two groups.
    """
    fold_of = _folds(sorted({group for pairs in shares.values() for _, group in pairs}), seed)
    best, worst = [], []
    for fold in range(FOLDS):
        ranked = _ranked(shares, fold_of, fold)
        if ranked:
            best += [pair for pair in shares[ranked[-1]] if fold_of[pair[1]] == fold]
            worst += [pair for pair in shares[ranked[0]] if fold_of[pair[1]] == fold]
    if not best or not worst or len({group for _, group in best + worst}) < 2:
        return Estimate(None, None, None, None, 0)
    value, spread = _difference(best, worst)
    low, high = _limits(shares)
    n = min(len(best), len(worst))
    return Estimate(value, spread.error, min(low, value), max(high, value), n, groups=spread.groups)


def _limits(shares: Shares) -> tuple[float, float]:
    ordered = list(permutations(shares.values(), 2))
    lows, highs = [], []
    for first, second in ordered:
        value, spread = _difference(first, second)
        low, high = interval_of(value, spread, SPREAD_BOUNDS)
        if low is None or high is None:
            return SPREAD_BOUNDS
        apart = student_t(spread.df, 1 - (1 - CONFIDENCE) / len(ordered)) / student_t(spread.df)
        lows.append(value - apart * (value - low))
        highs.append(high)
    return max(SPREAD_BOUNDS[0], *lows), max(highs)


def _folds(groups: Sequence[str], seed: Sequence[str]) -> dict[str, int]:
    order = list(groups)
    rng_for(*seed, "template spread").shuffle(order)
    return {group: place % FOLDS for place, group in enumerate(order)}


def _ranked(shares: Shares, fold_of: Mapping[str, int], fold: int) -> list[str]:
    """Templates from worst to best on all other folds; empty if one of them does not occur there."""
    means = {}
    for template, pairs in shares.items():
        values = [value for value, group in pairs if fold_of[group] != fold]
        if not values:
            return []
        means[template] = math.fsum(values) / len(values)
    return sorted(means, key=lambda template: (means[template], template))


def _difference(best: Sequence[tuple[float, str]], worst: Sequence[tuple[float, str]]) -> tuple[float, GroupSpread]:
    """Difference of two means, paired by the groups that both have."""
    deviations: dict[str, float] = defaultdict(float)
    means = []
    for sign, pairs in ((1, best), (-1, worst)):
        means.append(math.fsum(value for value, _ in pairs) / len(pairs))
        for value, group in pairs:
            deviations[group] += sign * (value - means[-1]) / len(pairs)
    return means[0] - means[1], group_spread(list(deviations.values()), list(deviations))
