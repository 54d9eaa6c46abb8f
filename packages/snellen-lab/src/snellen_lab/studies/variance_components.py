"""Components of the variance of scores: crossed random effects, by analysis of variance and the method of moments.

Every question (a level of the last factor) is scored once under every combination of levels: prompt a, seed b, question
i. The score is a sum of independent effects, one for each subset S of the factors,

    y_{abi} = mu + e_a + e_b + e_i + e_{ab} + e_{ai} + e_{bi} + e_{abi},

and the expected mean square of a subset is a sum over the subsets that contain it, where n_f is the number of levels of f:

    E MS_S = sum_{T >= S} sigma^2_T prod_{f not in T} n_f.

Solved for the variances (Moebius inversion; Searle, Casella and McCulloch, Variance Components, 1992, chapter 4),

    sigma^2_S = sum_{T >= S} (-1)^{|T| - |S|} MS_T / prod_{f not in S} n_f.

The subset of all factors is the residual: with one score each, their interaction cannot be told from noise.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import combinations

from msgspec import Struct

from snellen import DataError

RESIDUAL = "residual"
JOINED = " x "
"""Separator of the factors in the name of an interaction."""
Subset = tuple[int, ...]
"""Indexes of factors, in ascending order."""


class VarianceComponent(Struct, frozen=True):
    """The variance of one source of effects."""

    source: str
    """A factor, an interaction (`prompt x seed`), or the residual."""
    factors: tuple[str, ...]
    variance: float
    """Unbiased estimate. It may be below 0 if the true variance is near 0."""
    share: float
    """Share of the sum of all variances, between 0 and 1; those below 0 count as 0."""
    mean_square: float
    df: int
    levels: int
    """Number of levels of the effect. The source adds variance / levels to the variance of the mean."""


def variance_components(
    factors: Sequence[str], sizes: Sequence[int], values: Sequence[float]
) -> list[VarianceComponent]:
    """Return the components of a fully crossed design with one score per combination of levels.

    A component is the variance of the scores that is due to one factor, or to the interaction of several. A subset of the
    factors stands for the interaction of its factors, or for a single factor. The mean square of a subset is its sum of
    squares, without what is due to smaller subsets, divided by its degrees of freedom. Its expected value contains the
    variances of all larger subsets too, which are subtracted with alternating signs.

    Args:
        factors: Names of the factors. A factor with a single level has no effects and is left out.
        sizes: Number of levels of each factor.
        values: prod(sizes) scores, in which the last factor varies fastest.

    Returns:
        Components of the factors, of their interactions, and the residual.

    Raises:
        DataError: The number of values is another one, or no factor has two levels.
    """
    if len(values) != math.prod(sizes):
        level_counts = " x ".join(str(size) for size in sizes)
        raise DataError(f"{len(values)} values are not a full crossing of {level_counts} levels")
    names = []
    counts = []
    for name, size in zip(factors, sizes, strict=True):
        if size > 1:
            names.append(name)
            counts.append(size)
    if not names:
        raise DataError("a variance needs a factor with two levels")

    all_factors = tuple(range(len(names)))
    sums_of_squares = _sums_of_squares(counts, values)
    mean_squares: dict[Subset, float] = {}
    degrees_of_freedom: dict[Subset, int] = {}
    for subset in _subsets(all_factors):
        terms = [_sign(subset, inner) * sums_of_squares[inner] for inner in _subsets(subset)]
        degrees = math.prod(counts[factor] - 1 for factor in subset)
        degrees_of_freedom[subset] = degrees
        mean_squares[subset] = max(0.0, math.fsum(terms)) / degrees

    combinations_of_levels: dict[Subset, int] = {}
    variances: dict[Subset, float] = {}
    for subset in mean_squares:
        combinations_of_levels[subset] = math.prod(counts[factor] for factor in subset)
        terms = []
        for larger, mean_square in mean_squares.items():
            contains_subset = all(factor in larger for factor in subset)
            if contains_subset:
                terms.append(_sign(subset, larger) * mean_square)
        scores_per_combination = len(values) / combinations_of_levels[subset]
        variances[subset] = math.fsum(terms) / scores_per_combination

    total_variance = math.fsum(max(0.0, variance) for variance in variances.values())
    components = []
    for subset, variance in variances.items():
        subset_names = tuple(names[factor] for factor in subset)
        source = JOINED.join(subset_names)
        if subset == all_factors and len(all_factors) > 1:
            source = RESIDUAL
        share = max(0.0, variance) / total_variance if total_variance else 0.0
        components.append(
            VarianceComponent(
                source=source,
                factors=subset_names,
                variance=variance,
                share=share,
                mean_square=mean_squares[subset],
                df=degrees_of_freedom[subset],
                levels=combinations_of_levels[subset],
            )
        )
    return components


def _subsets(factors: Subset) -> Iterator[Subset]:
    """Yield all subsets except the empty one, the smaller ones first."""
    for size in range(1, len(factors) + 1):
        yield from combinations(factors, size)


def _sign(first: Subset, second: Subset) -> int:
    """Return 1 if the sizes of two subsets differ by an even number, and -1 if by an odd one."""
    return -1 if (len(first) - len(second)) % 2 else 1


def _sums_of_squares(counts: Sequence[int], values: Sequence[float]) -> dict[Subset, float]:
    """Return the sum of squares of each subset of the factors, before those of smaller subsets are subtracted.

    For a subset S with n_S combinations of levels, it is N / n_S times the sum of the squared means of S, where a mean
    is taken over the scores of one combination, as deviations from the mean of all N scores.

    Args:
        counts: Number of levels of each factor.
        values: The N scores, in which the last factor varies fastest.
    """
    n = len(values)
    grand_mean = math.fsum(values) / n
    all_factors = tuple(range(len(counts)))
    # For each subset, the sum of the deviations for each combination of its levels: n_S numbers. Subsets get smaller.
    sums_by_subset = {all_factors: [value - grand_mean for value in values]}
    for size in range(len(counts) - 1, 0, -1):
        for subset in combinations(all_factors, size):
            # The sums of a subset with one more factor are known; sum them over that factor.
            extra = next(factor for factor in all_factors if factor not in subset)
            larger = tuple(sorted((*subset, extra)))
            factors_after_extra = larger[larger.index(extra) + 1 :]
            stride = math.prod(counts[factor] for factor in factors_after_extra)
            sums_by_subset[subset] = _sum_over(sums_by_subset[larger], counts[extra], stride)

    squares = {}
    for subset, sums in sums_by_subset.items():
        # A mean is sum * n_S / N, so N / n_S * mean^2 is sum^2 * n_S / N.
        squares[subset] = math.fsum(deviation * deviation for deviation in sums) * len(sums) / n
    return squares


def _sum_over(cells: Sequence[float], count: int, stride: int) -> list[float]:
    """Sum an array over one of its axes, where the array is stored as a flat list in row-major order.

    Args:
        cells: The numbers.
        count: Length of the axis.
        stride: Distance in `cells` between neighbours along the axis: the product of the lengths of the later axes.
    """
    block = count * stride
    sums = []
    for start in range(0, len(cells), block):
        for offset in range(stride):
            along_axis = cells[start + offset : start + block : stride]
            sums.append(math.fsum(along_axis))
    return sums
