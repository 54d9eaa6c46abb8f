"""Test of whether counts are uniform over cells (Pearson's chi-square test)."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from snellen.plugin_api import rng_for

MIN_EXPECTED = 5
"""Expected count per cell below which the chi-square distribution is a poor approximation (Cochran 1954)."""
DRAWS = 10_000


def uniformity_p_value(counts: Sequence[int], *names: str) -> float:
    """Return the probability of counts at least this uneven if all cells are equally likely.

    If few counts are expected per cell, the distribution is simulated, and the p-value is at least 1 / (DRAWS + 1).

    Args:
        counts: The count of each cell.
        names: Strings that seed the simulation.
    """
    total = sum(counts)
    n_cells = len(counts)
    if not total or n_cells < 2:
        return 1.0
    observed = _chi_square(counts)
    if total / n_cells >= MIN_EXPECTED:
        return chi_square_p_value(observed, n_cells - 1)

    rng = rng_for(*names, "uniform")
    n_as_uneven = 0
    for _ in range(DRAWS):
        simulated = Counter(rng.choices(range(n_cells), k=total))
        if _chi_square([simulated[cell] for cell in range(n_cells)]) >= observed - 1e-9:
            n_as_uneven += 1
    return (n_as_uneven + 1) / (DRAWS + 1)


def _chi_square(counts: Sequence[int]) -> float:
    """Return Pearson's statistic for equally likely cells."""
    expected = sum(counts) / len(counts)
    return sum((count - expected) ** 2 for count in counts) / expected


def chi_square_p_value(statistic: float, freedom: int) -> float:
    """Return the upper tail of the chi-square distribution with an integer number of degrees of freedom.

    It is Q(k/2, x/2) in closed form: a Poisson sum for even k, and the complementary error function plus a similar sum
    for odd k (Abramowitz and Stegun 26.4.4 and 26.4.5).
    """
    half = statistic / 2
    if half <= 0:
        return 1.0
    is_odd = freedom % 2
    tail = math.erfc(math.sqrt(half)) if is_odd else 0.0
    for step in range(freedom // 2):
        power = step + is_odd / 2
        tail += math.exp(-half + power * math.log(half) - math.lgamma(power + 1))
    return min(tail, 1.0)
