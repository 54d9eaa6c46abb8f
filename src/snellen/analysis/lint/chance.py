"""How likely a count is by chance alone."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from snellen.seeds import rng_for

FEW = 5
"""With fewer expected per cell the chi-square distribution is a poor approximation (Cochran 1954)."""
DRAWS = 10_000


def uniformity_p_value(counts: Sequence[int], *names: str) -> float:
    """How likely counts at least this uneven are if every cell is equally likely (Pearson's test).

    With few expected per cell it is simulated, seeded by `names`: then no p-value is below 1 / (DRAWS + 1).
    """
    total, cells = sum(counts), len(counts)
    if not total or cells < 2:
        return 1.0
    observed = _unevenness(counts)
    if total / cells >= FEW:
        return chi_square_p_value(observed, cells - 1)
    rng = rng_for(*names, "uniform")
    as_uneven = 0
    for _ in range(DRAWS):
        drawn = Counter(rng.choices(range(cells), k=total))
        as_uneven += _unevenness([drawn[cell] for cell in range(cells)]) >= observed - 1e-9
    return (as_uneven + 1) / (DRAWS + 1)


def _unevenness(counts: Sequence[int]) -> float:
    expected = sum(counts) / len(counts)
    return sum((count - expected) ** 2 for count in counts) / expected


def chi_square_p_value(statistic: float, freedom: int) -> float:
    """Upper tail of the chi-square distribution with whole degrees of freedom, in closed form.

    Q(k/2, x/2): for even k a Poisson sum, for odd k the complementary error function and a like sum
    (Abramowitz and Stegun 26.4.4 and 26.4.5).
    """
    half = statistic / 2
    if half <= 0:
        return 1.0
    odd = freedom % 2
    tail = math.erfc(math.sqrt(half)) if odd else 0.0
    for step in range(freedom // 2):
        power = step + odd / 2
        tail += math.exp(-half + power * math.log(half) - math.lgamma(power + 1))
    return min(tail, 1.0)


def hits_p_value(hits: float, chances: Sequence[float]) -> float:
    """Two-sided p-value of `hits` in independent trials with these chances, by the normal approximation."""
    spread = math.sqrt(math.fsum(p * (1 - p) for p in chances))
    return math.erfc(abs(hits - math.fsum(chances)) / spread / math.sqrt(2)) if spread else 1.0
