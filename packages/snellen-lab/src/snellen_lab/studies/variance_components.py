"""Where the variance of scores comes from: crossed random effects, by analysis of variance and the method of moments.

Every question (a level of the last factor) is scored once under every combination of levels: prompt a, seed b, question
i. The score is a sum of independent effects, one for each subset S of the factors,

    y_{abi} = mu + e_a + e_b + e_i + e_{ab} + e_{ai} + e_{bi} + e_{abi},

and the expected mean square of a subset is a sum over the subsets that hold it, n_f being the number of levels of f:

    E MS_S = sum_{T >= S} sigma^2_T prod_{f not in T} n_f.

Solved for the variances (Moebius inversion; Searle, Casella and McCulloch, Variance Components, 1992, chapter 4),

    sigma^2_S = sum_{T >= S} (-1)^{|T| - |S|} MS_T / prod_{f not in S} n_f.

The subset of all factors is the residual: its own interaction cannot be told from noise with one score each.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import combinations

from msgspec import Struct

from snellen import DataError

RESIDUAL = "residual"
JOINED = " x "
"""Between the names of the factors of an interaction."""


class VarianceComponent(Struct, frozen=True):
    """The variance of one source of effects."""

    source: str
    """A factor, an interaction (`prompt x seed`), or the residual."""
    factors: tuple[str, ...]
    variance: float
    """As estimated without bias: it may come out below 0, where the true one is near 0."""
    share: float
    """Of the sum of all variances, those below 0 counting as 0; between 0 and 1."""
    mean_square: float
    df: int
    levels: int
    """How many levels the effects of this source have: variance / levels is its part in the variance of the mean."""


def variance_components(
    factors: Sequence[str], sizes: Sequence[int], values: Sequence[float]
) -> list[VarianceComponent]:
    """The components of a fully crossed design with one score a combination: factors, interactions, residual.

    `values` has prod(sizes) scores, the last factor running fastest. A factor with a single level has no effects that
    could be told from the mean and is left out. Raises DataError for another number of values, or when no factor has
    two levels.
    """
    if len(values) != math.prod(sizes):
        raise DataError(
            f"{len(values)} values are not a full crossing of {' x '.join(map(str, sizes))} levels"
        )
    varied = [(name, size) for name, size in zip(factors, sizes, strict=True) if size > 1]
    if not varied:
        raise DataError("a variance needs a factor with two levels")
    names, counts = [name for name, _ in varied], [size for _, size in varied]
    whole = tuple(range(len(varied)))
    squares = _sums_of_squares(counts, values)
    total = math.prod(counts)
    mean_squares, degrees = dict[tuple[int, ...], float](), dict[tuple[int, ...], int]()
    for subset in _subsets(whole):
        degrees[subset] = math.prod(counts[f] - 1 for f in subset)
        between = (_sign(subset, part) * squares[part] for part in _subsets(subset))
        mean_squares[subset] = max(0.0, math.fsum(between)) / degrees[subset]
    variances = {
        subset: math.fsum(
            _sign(subset, larger) * mean_squares[larger]
            for larger in mean_squares
            if set(subset) <= set(larger)
        )
        / (total / math.prod(counts[f] for f in subset))
        for subset in mean_squares
    }
    everything = math.fsum(max(0.0, variance) for variance in variances.values())
    return [
        VarianceComponent(
            RESIDUAL
            if subset == whole and len(whole) > 1
            else JOINED.join(names[f] for f in subset),
            tuple(names[f] for f in subset),
            variance,
            max(0.0, variance) / everything if everything else 0.0,
            mean_squares[subset],
            degrees[subset],
            math.prod(counts[f] for f in subset),
        )
        for subset, variance in variances.items()
    ]


def _subsets(whole: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """All subsets but the empty one, the smaller ones first."""
    for size in range(1, len(whole) + 1):
        yield from combinations(whole, size)


def _sign(subset: Sequence[int], superset: Sequence[int]) -> int:
    return -1 if (len(subset) - len(superset)) % 2 else 1


def _sums_of_squares(
    counts: Sequence[int], values: Sequence[float]
) -> dict[tuple[int, ...], float]:
    """For each subset of the factors: N / n_S times the sum of its squared means, of deviations from the grand mean."""
    grand = math.fsum(values) / len(values)
    whole = tuple(range(len(counts)))
    sums = {whole: [value - grand for value in values]}
    for size in range(len(counts) - 1, 0, -1):
        for subset in combinations(whole, size):
            # One factor is summed over in the sums of a subset that is larger by it.
            missing = next(f for f in whole if f not in subset)
            larger = tuple(sorted((*subset, missing)))
            place = larger.index(missing)
            inner = math.prod(counts[f] for f in larger[place + 1 :])
            sums[subset] = _summed(sums[larger], counts[missing], inner)
    total = len(values)
    return {
        subset: math.fsum(x * x for x in cells) * len(cells) / total
        for subset, cells in sums.items()
    }  # the squared mean is (sum n_S / N)^2, taken N / n_S times


def _summed(cells: Sequence[float], count: int, inner: int) -> list[float]:
    """Sums over a factor of `count` levels, within which `inner` cells run."""
    block = count * inner
    return [
        math.fsum(cells[start + offset : start + block : inner])
        for start in range(0, len(cells), block)
        for offset in range(inner)
    ]
