"""How much an estimate varies if whole groups of questions (images, dialogues) are drawn.

Groups are independent; questions within a group may depend on each other in any way.
"""

from __future__ import annotations

import math
from array import array
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from functools import cached_property
from itertools import accumulate
from operator import mul
from typing import TypeVar

from msgspec import Struct

from snellen.analysis.quantiles import normal_quantile, student_t

GroupT = TypeVar("GroupT", bound=Hashable)

BINARY_CARRIER_SHARE = 0.7
"""The part of the groups that carry wrong answers which counts near a bound. 12 groups of 25 at 0.9 with a correlation
of 0.6 are covered 92.8 of 100 times with all of them and 95.9 with this part; 20 of 25 at 0.95, 90.3 and 95.3."""


class GroupLabels(tuple[GroupT, ...]):
    """Group (image, dialogue) of each question, with cached sizes and order."""

    @classmethod
    def of(cls, groups: Sequence[GroupT]) -> GroupLabels[GroupT]:
        """Return `groups` as labels; labels are returned unchanged, with what they have cached."""
        if isinstance(groups, GroupLabels):
            return groups
        return cls(groups)

    @cached_property
    def sizes(self) -> Counter[GroupT]:
        """Number of questions by group."""
        return Counter(self)

    @cached_property
    def n_others(self) -> array[int]:
        """Number of other questions in the group of each question."""
        return array("q", (self.sizes[group] - 1 for group in self))

    @cached_property
    def order(self) -> array[int]:
        """Indexes of the questions, sorted by group. Within a group they keep their order.

        For the groups `a, b, a` they are 0, 2, 1. This is a counting sort: `next_position` has the position at which
        the next question of each group belongs.
        """
        starts = accumulate(self.sizes.values(), initial=0)
        next_position = dict(zip(self.sizes, starts, strict=False))
        order = array("q", bytes(8 * len(self)))  # 8 zero bytes for each index
        for question, group in enumerate(self):
            position = next_position[group]
            order[position] = question
            next_position[group] += 1
        return order


class GroupSpread(Struct, frozen=True):
    """Variances of an estimate that is a sum over questions, if other groups were drawn."""

    groups: int
    effective_groups: float
    """1 / sum_g w_g^2, where w_g is the share of the questions in group g: the effective sample size if all questions
    of a group have the same value. Equals the number of groups if these have one size."""
    jackknife: float = 0.0
    """Delete-one-group jackknife; 0 for a single group."""
    exchangeable: float = 0.0
    """Estimated from the mean correlation within groups."""
    independent: float = 0.0
    """If all questions were independent."""
    dependent: float = 0.0
    """If all questions of a group had the same value."""
    df: float = 0.0
    """Degrees of freedom that the design allows."""
    observed_df: float = 0.0
    """Degrees of freedom, fewer than `df` if a few groups make up most of the spread."""
    binary_df: float = math.inf
    """The same for values at the bounds in groups of several: near a bound, the samples that happen to have few wrong
    answers also show too little of how these cluster, so that fewer groups count (`BINARY_CARRIER_SHARE`)."""
    skew: float = 0.0
    """Skewness of the estimate, from unbiased cumulants for groups of one size; 0 for fewer than five groups."""

    @property
    def error(self) -> float:
        """Cluster-robust standard error."""
        return math.sqrt(self.jackknife)

    def variance(self, binary: bool = False) -> float:
        """Return the variance of a mean: its square root times the normal quantile z is the 95% margin.

        The estimate from groups is multiplied by (t / z)^2, where t is the quantile of Student's distribution. The
        result is kept between the variance of independent questions and that of groups whose questions all have equal
        values. For the effective sample size this means 1 / sum w^2 <= n_eff (z / t)^2 <= n. The NCHS standards for
        proportions (Parker et al. 2017, after Korn and Graubard 1998) do the same without the first bound.

        Args:
            binary: Whether each value is one of two, such as right and wrong. The mean then determines the variance of
                a single value. Otherwise that variance is also an estimate, with a t of its own.
        """
        df = self.observed_df
        if binary:
            df = min(df, self.binary_df)
        t_factor = (student_t(df) / normal_quantile()) ** 2
        correlated = self.independent + t_factor * (self.exchangeable - self.independent)
        estimated = max(t_factor * self.jackknife, correlated)

        upper = self.dependent
        if not binary:
            upper *= (student_t(self.df) / normal_quantile()) ** 2 * self.groups / (self.groups - 1)
        return max(min(estimated, upper), self.independent)


def group_spread(deviations: Sequence[float], groups: Sequence[Hashable]) -> GroupSpread:
    """Compute how much a mean would vary if other groups of questions had been drawn, such as other images.

    Questions of the same group may depend on each other, so whole groups count as drawn, not single questions. There
    are G groups. A share w_g of the questions is in group g, and the deviations of these questions add up to S_g.

    - The variance of the mean is that of the delete-one-group jackknife, (G - 1) / G sum_g (S_g / (1 - w_g))^2
      (MacKinnon, Nielsen and Webb 2023, equation 13). For groups of one size it is G / (G - 1) sum_g S_g^2.
    - The degrees of freedom are those of Satterthwaite if the questions of a group have equal values,
      (sum w^2)^2 / sum w^4 - 1. For groups of one size they are G - 1.

    Args:
        deviations: For each question, how much it shifts the mean: (value - mean) / n. They add up to 0.
        groups: The group of each question.

    Examples:
        >>> group_spread([-0.5, 0.5, 0.5, -0.5], ["a", "a", "b", "b"]).groups
        2
    """
    labels = GroupLabels.of(groups)
    n = len(deviations)
    n_groups = len(labels.sizes)
    independent = _sum_of_squares(deviations)
    if n_groups < 2:
        return GroupSpread(n_groups, 1.0, independent=independent)

    # There are many groups but few sizes.
    groups_by_size = Counter(labels.sizes.values())
    squares = sum(count * size**2 for size, count in groups_by_size.items())
    fourth_powers = sum(count * size**4 for size, count in groups_by_size.items())
    sum_squared_shares = squares / n**2
    sum_fourth_powers = fourth_powers / n**4
    df = max(1.0, sum_squared_shares**2 / sum_fourth_powers - 1)

    is_grouped = n_groups < n
    if is_grouped:
        sums = sum_by_group(deviations, labels)
    else:
        sums = dict(zip(labels, deviations, strict=True))
    shifts = _shifts_without_group(sums, labels)
    jackknife = (n_groups - 1) / n_groups * _sum_of_squares(shifts)

    skew = 0.0
    if jackknife and n_groups > 4:
        squared_shifts = map(mul, shifts, shifts)
        cubed_shifts = map(mul, squared_shifts, shifts)
        factor = (n_groups - 1) ** 2 / n_groups / max(1, n_groups - 2)
        third_cumulant = factor * math.fsum(cubed_shifts)
        skew = third_cumulant / jackknife / math.sqrt(jackknife)

    correlation = 0.0
    if is_grouped and independent:
        correlation = _correlation_within_groups(deviations, labels, sums)
    dependent = n * independent * sum_squared_shares
    exchangeable = independent + correlation * (dependent - independent)

    carriers = _carrier_groups(shifts)
    observed_df = max(1.0, min(df, math.pi * carriers - 1))
    binary_df = math.inf
    if is_grouped:
        binary_df = max(1.0, BINARY_CARRIER_SHARE * math.pi * carriers - 1)
    return GroupSpread(
        groups=n_groups,
        effective_groups=1 / sum_squared_shares,
        jackknife=jackknife,
        exchangeable=exchangeable,
        independent=independent,
        dependent=dependent,
        df=df,
        observed_df=observed_df,
        binary_df=binary_df,
        skew=skew,
    )


def _sum_of_squares(values: Sequence[float]) -> float:
    return math.fsum(map(mul, values, values))


def _shifts_without_group(
    sums: Mapping[Hashable, float], groups: GroupLabels[Hashable]
) -> list[float]:
    """Return, for each group, how far the mean moves (except for the sign) if the group is left out.

    It is S_g / (1 - w_g), where S_g is the sum of the group's deviations and w_g its share of the questions.
    """
    n = len(groups)
    n_groups = len(groups.sizes)
    are_of_one_size = len(set(groups.sizes.values())) == 1
    if are_of_one_size:
        other_groups_share = 1 - 1 / n_groups
        return [sums[group] / other_groups_share for group in groups.sizes]
    return [sums[group] / (1 - size / n) for group, size in groups.sizes.items()]


def sum_by_group(deviations: Sequence[float], groups: Sequence[GroupT]) -> dict[GroupT, float]:
    """Return the sum of the deviations of each group.

    The sums are exact (`math.fsum`), so they do not depend on the order of the questions.

    Args:
        deviations: One number per question.
        groups: The group of each question.
    """
    labels = GroupLabels.of(groups)
    sorted_deviations = array("d", map(deviations.__getitem__, labels.order))
    sums: dict[GroupT, float] = {}
    start = 0
    for group, size in labels.sizes.items():
        end = start + size
        sums[group] = math.fsum(sorted_deviations[start:end])
        start = end
    return sums


def _correlation_within_groups(
    deviations: Sequence[float], groups: GroupLabels[Hashable], sums: Mapping[Hashable, float]
) -> float:
    """Return the mean correlation between two questions of the same group, from 0 to 1.

    It is sum_g sum_{i != j in g} d_i d_j / (n_g - 1), divided by what that sum would be for a correlation of 1. Here
    d_i is the deviation of question i and n_g the number of questions of group g. All questions in groups of two or
    more have the same weight.

    Args:
        deviations: The deviation of each question from the mean.
        groups: The group of each question.
        sums: The sum of the deviations of each group.
    """
    n = len(deviations)
    sizes = groups.sizes
    total = _sum_of_squares(deviations)

    # sum_{i != j} d_i d_j = (sum d)^2 - sum d^2 in each group.
    squared_sums = math.fsum(
        sums[group] ** 2 / (size - 1) for group, size in sizes.items() if size > 1
    )
    are_of_one_size = len(set(sizes.values())) == 1
    if are_of_one_size:
        sums_of_squares = total / (n / len(sizes) - 1)
    else:
        terms: list[float] = []
        for deviation, n_others in zip(deviations, groups.n_others, strict=True):
            if n_others:
                terms.append(deviation * deviation / n_others)
        sums_of_squares = math.fsum(terms)

    n_single = sum(size == 1 for size in sizes.values())
    correlation = n * (squared_sums - sums_of_squares) / (n - n_single) / total
    return min(1.0, max(0.0, correlation))


def _carrier_groups(shifts: Sequence[float]) -> float:
    """Return how many groups effectively determine how a mean varies, a number that can be fractional.

    A shift is the change of the mean that one group causes. The effective number of groups is (sum x)^2 / sum x^2,
    which is the plain number if all shifts are equal. It is computed for upward and for downward shifts, and the
    smaller one is returned: if few groups hold all wrong replies, only these tell how wrong replies cluster. For many
    normal shifts of G groups it is G / pi.
    """
    upward = [shift for shift in shifts if shift > 0]
    downward = [shift for shift in shifts if shift < 0]
    return min(_effective_number(upward), _effective_number(downward))


def _effective_number(values: Sequence[float]) -> float:
    """Return (sum x)^2 / sum x^2: the number of values if all are equal, fewer if some are larger; 0 for no values."""
    squares = _sum_of_squares(values)
    if not squares:
        return 0.0
    return math.fsum(values) ** 2 / squares
