"""Draw a subset of the samples of a source (ReForm-Eval A.1, E.1).

Every sample belongs to a *stratum*, a group by which a reader balances: its answer, its object category or the type of its
question. A rule (`Sampling`) says how many samples of each stratum are drawn: its *seats*. Rules receive the strata in the
order of the source and return positions in that order, ascending. The draw is seeded by names.

Every sample has a known probability to be drawn (`inclusion_probabilities`). It is never 0, except under `grouped` for
groups that lack a label. If the expected number of seats is not a whole number, systematic sampling (Madow, Annals of
Mathematical Statistics 20, 1949) decides which strata get one seat more. Each stratum then has the expected number in the
mean over seeds, and is never off by one seat or more.
"""

from __future__ import annotations

import math
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from fractions import Fraction
from typing import Literal, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from snellen.common.seeds import rng_for
from snellen.errors import DataError

SamplingRule = Literal["all", "random", "balanced", "equal", "layered", "grouped", "equidistant"]
"""How a subset is drawn; `Sampling` describes each rule."""
_SETTINGS_OF_RULE: dict[SamplingRule, tuple[str, ...]] = {
    "all": (),
    "random": ("ratio", "count"),
    "balanced": ("ratio", "count"),
    "equal": ("each", "count"),
    "layered": ("each", "count"),
    "grouped": ("count",),
    "equidistant": ("step",),
}
"""Settings of each rule, of which it takes one."""


class Sampling(Struct, frozen=True, forbid_unknown_fields=True):
    """How a subset is drawn.

    - `all`: all samples.
    - `random`: `count` samples, or the share `ratio`, regardless of strata.
    - `balanced`: `count` or `ratio`, with strata as frequent as in the source (ReForm-Eval E.1). All samples are equally
      likely.
    - `equal`: `each` samples of every stratum, or `count` in total, as evenly as the strata allow.
    - `layered`: `each` samples of every kind, or `count` in total, as evenly as the kinds allow, and within a kind as
      evenly as its answers allow. Strata are named `KIND/ANSWER`.
    - `grouped`: about `count` samples, with the same number of every label from each group, such as an image
      (ReForm-Eval A.6). Strata are named `GROUP/LABEL`. A set of one sample per label is drawn from each group; second
      sets follow when every group has given one, and groups for the last sets are drawn at random.
    - `equidistant`: shuffled, then every `step`-th (ReForm-Eval A.1, TDIUC).

    Examples:
        >>> Sampling("balanced", ratio=0.1).ratio
        0.1
    """

    rule: SamplingRule = "all"
    ratio: float | None = None
    count: int | None = None
    each: int | None = None
    step: int | None = None
    keep_below: int = 0
    """A source with fewer samples is used completely (ReForm-Eval E.1: 1000)."""

    def __post_init__(self) -> None:
        """Raise ValueError unless the one number that the rule needs, such as `count`, is given and in range."""
        allowed = _SETTINGS_OF_RULE[self.rule]
        given = [
            name for name in ("ratio", "count", "each", "step") if getattr(self, name) is not None
        ]
        has_one_allowed = len(given) == 1 and given[0] in allowed
        is_right = has_one_allowed if allowed else not given
        if not is_right:
            allowed_names = " or ".join(allowed) or "nothing"
            given_names = " and ".join(given) or "nothing"
            raise ValueError(
                f"the sampling rule {self.rule} takes {allowed_names}, not {given_names}"
            )
        if self.ratio is not None and not 0 < self.ratio <= 1:
            raise ValueError(f"ratio = {self.ratio} is not a share in (0, 1]")
        for name in ("count", "each", "step"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"{name} = {value} leaves nothing")

    def draw(self, strata: Sequence[str], *names: str | int) -> list[int]:
        """Draw a subset of the samples of a source.

        Args:
            strata: Stratum of each sample, in the order of the source.
            names: Names that seed the draw.

        Returns:
            Positions of the chosen samples in the source, ascending. A ratio is rounded down, but gives at least one.

        Raises:
            DataError: The rule requests more samples than there are.

        Examples:
            >>> Sampling("equal", each=1).draw(["yes", "no", "yes", "yes"], "demo")
            [1, 2]
        """
        return draw_sample(strata, self, *names)

    def subset_name(self, whole: str) -> str:
        """Return the default name of a subset of a benchmark.

        Examples:
            >>> Sampling("random", ratio=0.1).subset_name("animals")
            'animals-10p'
            >>> Sampling("equal", each=5).subset_name("animals")
            'animals-5-each'
        """
        if self.ratio:
            return f"{whole}-{100 * self.ratio:g}p"
        if self.each:
            return f"{whole}-{self.each}-each"
        if self.step:
            return f"{whole}-every-{self.step}"
        return f"{whole}-{self.count}"


def draw_sample(strata: Sequence[str], sampling: Sampling, *names: str | int) -> list[int]:
    """Draw a subset of the samples of a source.

    Args:
        strata: Stratum of each sample, in the order of the source.
        sampling: How the subset is drawn. A ratio is rounded down, but gives at least one sample.
        names: Names that seed the draw.

    Returns:
        Positions of the chosen samples in the source, ascending.

    Raises:
        DataError: The rule requests more samples than there are.

    Examples:
        >>> draw_sample(["yes", "no", "yes", "yes"], Sampling("equal", each=1), "demo")
        [1, 2]
    """
    n_samples = len(strata)
    if sampling.rule == "all" or n_samples < sampling.keep_below:
        return list(range(n_samples))
    rng = rng_for(*names, "sampling")
    sample_size = _sample_size(sampling, n_samples)
    match sampling.rule:
        case "random":
            positions = rng.sample(range(n_samples), sample_size)
        case "balanced" | "equal" | "layered":
            expected = _expected_seats(Counter(strata), sampling, sample_size)
            # A generator of its own, so that draws without remainders do not depend on how these are shared out.
            remainder_rng = rng_for(*names, "remainders")
            neighbours = _kind if sampling.rule == "layered" else None
            seats = _round_seats(expected, remainder_rng, neighbours)
            positions = _draw_from_strata(strata, seats, rng)
        case "grouped":
            seats = _seats_by_group(Counter(strata), sample_size, rng_for(*names, "groups"))
            positions = _draw_from_strata(strata, seats, rng)
        case _:
            positions = list(range(n_samples))
            rng.shuffle(positions)
            positions = positions[:: sampling.step]
    return sorted(positions)


def inclusion_probabilities(strata: Sequence[str], sampling: Sampling) -> dict[str, float]:
    """Return the probability of each sample of a stratum to be drawn, by the stratum's name.

    Args:
        strata: Stratum of each sample.
        sampling: How the subset is drawn.

    Raises:
        DataError: The rule requests more samples than there are.

    Examples:
        >>> inclusion_probabilities(["yes", "no", "yes", "yes"], Sampling("equal", count=2))
        {'yes': 0.3333333333333333, 'no': 1.0}
    """
    n_samples = len(strata)
    sizes = Counter(strata)
    if sampling.rule == "all" or n_samples < sampling.keep_below:
        return dict.fromkeys(sizes, 1.0)
    sample_size = _sample_size(sampling, n_samples)
    if sampling.rule in ("balanced", "equal", "layered"):
        expected = _expected_seats(sizes, sampling, sample_size)
        return {stratum: float(expected[stratum] / size) for stratum, size in sizes.items()}
    if sampling.rule == "grouped":
        return _probabilities_by_group(sizes, sample_size)
    if sampling.step is not None:
        sample_size = math.ceil(n_samples / sampling.step)
    return dict.fromkeys(sizes, sample_size / n_samples)


def _sample_size(sampling: Sampling, n_samples: int) -> int:
    """Return how many samples a rule draws from a source; 0 if its setting is `each` or `step`.

    Raises:
        DataError: The rule requests more samples than there are.
    """
    if sampling.ratio is not None:
        # 0.1 is a little more than a tenth, but 0.29 * 100 is a little less than 29.
        rounded = int(sampling.ratio * n_samples + 1e-9)
        return min(max(rounded, 1), n_samples)
    sample_size = sampling.count or 0
    if sample_size > n_samples:
        raise DataError(
            f"the source has {n_samples} samples, {sample_size} are to be drawn; give a smaller count or a ratio"
        )
    return sample_size


def _draw_from_strata(
    strata: Sequence[str], seats: Mapping[str, int], rng: random.Random
) -> list[int]:
    """Draw a number of samples from each stratum (group of samples).

    Args:
        strata: For each sample, the name of its stratum.
        seats: How many samples to draw from each stratum.
        rng: Source of randomness.

    Returns:
        The indices of the drawn samples, by stratum in alphabetical order.
    """
    indices_by_stratum: dict[str, list[int]] = defaultdict(list)
    for index, stratum in enumerate(strata):
        indices_by_stratum[stratum].append(index)
    drawn: list[int] = []
    for stratum, indices in sorted(indices_by_stratum.items()):
        drawn += rng.sample(indices, seats.get(stratum, 0))
    return drawn


# --- balanced, equal and layered --------------------------------------------------------------------------------------


def _expected_seats(
    sizes: Mapping[str, int], sampling: Sampling, sample_size: int
) -> dict[str, Fraction]:
    """Return how many samples to draw from each stratum (group of samples), as an average over draws: its seats.

    Seats can be fractions such as 1.3, which `_round_seats` rounds for one draw. By rule:

    - `balanced`: in proportion to the size of the stratum;
    - `equal`: the same number for each, as far as it has samples;
    - `layered`: the same number for each kind of strata, and within a kind for each stratum.

    Args:
        sizes: Number of samples of each stratum.
        sampling: The rule. With `each`, it says how many samples of each stratum (if `layered`, of each kind) are drawn.
        sample_size: Number of samples to draw, unless the rule has `each`.

    Example: 6 seats over strata of 2 and 10 samples are 1 and 5 if balanced, 2 and 4 if equal.
    """
    if sampling.rule == "layered":
        return _expected_seats_by_kind(sizes, sampling, sample_size)
    expected: dict[str, Fraction] = {}
    if sampling.each is not None:
        for stratum, size in sizes.items():
            expected[stratum] = Fraction(min(sampling.each, size))
        return expected
    if sampling.rule == "balanced":
        n_samples = sum(sizes.values())
        for stratum, size in sizes.items():
            expected[stratum] = Fraction(sample_size * size, n_samples)
        return expected
    return _share_evenly(sizes, Fraction(sample_size))


def _expected_seats_by_kind(
    sizes: Mapping[str, int], sampling: Sampling, sample_size: int
) -> dict[str, Fraction]:
    """Divide seats evenly over kinds of strata, and those of a kind evenly over its strata."""
    sizes_by_kind: dict[str, dict[str, int]] = defaultdict(dict)
    for stratum, size in sizes.items():
        sizes_by_kind[_kind(stratum)][stratum] = size
    kind_sizes = {kind: sum(members.values()) for kind, members in sizes_by_kind.items()}

    kind_seats = _expected_seats(kind_sizes, replace(sampling, rule="equal"), sample_size)
    expected: dict[str, Fraction] = {}
    for kind, seats in kind_seats.items():
        expected |= _share_evenly(sizes_by_kind[kind], seats)
    return expected


def _share_evenly(sizes: Mapping[str, int], total: Fraction) -> dict[str, Fraction]:
    """Divide a number of seats evenly among strata. A stratum gets at most as many seats as it has samples.

    Example: 7 seats over strata of 1, 3 and 9 samples are 1, 3 and 3.
    """
    expected: dict[str, Fraction] = {}
    remaining = total
    n_strata_left = len(sizes)
    # Seats that a small stratum cannot take go to the larger ones.
    for stratum, size in sorted(sizes.items(), key=lambda item: item[1]):
        expected[stratum] = min(Fraction(size), remaining / n_strata_left)
        remaining -= expected[stratum]
        n_strata_left -= 1
    return expected


def _round_seats(
    expected: Mapping[str, Fraction],
    rng: random.Random,
    neighbours: Callable[[str], str] | None = None,
) -> dict[str, int]:
    """Round expected seats (numbers of samples to draw) to whole numbers, at random and without changing their sum.

    This is systematic sampling. The strata are laid end to end on a line, each as long as its expected seats, and there
    is a seat at every whole number from a random start on. A stratum with 1.3 expected seats therefore gets 1 or 2, and
    1.3 on average over seeds.

    Args:
        expected: Expected seats of each stratum.
        rng: Source of randomness.
        neighbours: Returns the group of a stratum. Groups stay together on the line, so that their sums are also off by
            less than one.
    """
    order = sorted(expected)
    rng.shuffle(order)
    if neighbours is not None:
        order.sort(key=neighbours)  # the order within a group stays as shuffled
    # Lengths in units of a common denominator are whole numbers, without errors of rounding.
    unit = math.lcm(*(share.denominator for share in expected.values()))
    end = unit - 1 - rng.randrange(unit)
    seats: dict[str, int] = {}
    for stratum in order:
        begin = end
        end = begin + int(expected[stratum] * unit)
        seats[stratum] = end // unit - begin // unit
    return seats


def _kind(stratum: str) -> str:
    """Return the kind of a stratum of the rule `layered`: "colour" of "colour/red"."""
    return stratum.partition("/")[0]


# --- grouped ----------------------------------------------------------------------------------------------------------


def _group(stratum: str) -> str:
    """Return the group of a stratum of the rule `grouped`: "image/7" of "image/7/yes"."""
    return stratum.rpartition("/")[0]


def _labels(strata: Collection[str]) -> set[str]:
    """Return the labels of strata of the rule `grouped`: "yes" of "image/7/yes"."""
    return {stratum.rpartition("/")[2] for stratum in strata}


def _seats_by_group(
    sizes: Mapping[str, int], sample_size: int, rng: random.Random
) -> dict[str, int]:
    """Return how many samples are drawn from each stratum: as many as its group gives sets.

    Args:
        sizes: Number of samples of each stratum.
        sample_size: Number of samples to draw in total.
        rng: Draws the groups that give the last sets.
    """
    n_sets = _sets_by_group(sizes)
    plan = _plan_rounds(n_sets, sample_size, len(_labels(sizes)))
    gives_more = set(rng.sample(plan.giving, plan.n_remaining))
    seats: dict[str, int] = {}
    for stratum in sizes:
        group = _group(stratum)
        n_sets_drawn = min(plan.n_complete, n_sets[group])
        if group in gives_more:
            n_sets_drawn += 1
        seats[stratum] = n_sets_drawn
    return seats


def _probabilities_by_group(sizes: Mapping[str, int], sample_size: int) -> dict[str, float]:
    """Return the probability of each sample of a stratum to be drawn, by the stratum's name.

    Args:
        sizes: Number of samples of each stratum.
        sample_size: Number of samples to draw in total.
    """
    n_sets = _sets_by_group(sizes)
    plan = _plan_rounds(n_sets, sample_size, len(_labels(sizes)))
    probabilities: dict[str, float] = {}
    for stratum, size in sizes.items():
        group = _group(stratum)
        expected_sets: float = min(plan.n_complete, n_sets[group])
        if group in plan.giving:
            expected_sets += plan.n_remaining / len(plan.giving)
        probabilities[stratum] = expected_sets / size
    return probabilities


def _sets_by_group(sizes: Mapping[str, int]) -> dict[str, int]:
    """Return how many sets of one sample per label each group can give.

    Example: the strata "g/yes" with 5 samples and "g/no" with 2 give 2 sets of the group "g".
    """
    labels = _labels(sizes)
    n_sets: dict[str, int] = {}
    for stratum in sizes:
        group = _group(stratum)
        n_sets[group] = min(sizes.get(f"{group}/{label}", 0) for label in labels)
    return n_sets


class _RoundPlan(NamedTuple):
    """How many sets of samples are drawn from each group, in rounds."""

    n_complete: int
    """Number of rounds in which every group gives a set, if it has one left."""
    giving: list[str]
    """Groups with a set left for the last round."""
    n_remaining: int
    """How many of these give it."""


def _plan_rounds(n_sets: Mapping[str, int], sample_size: int, n_labels: int) -> _RoundPlan:
    """Plan how many sets of samples are drawn from each group, where a set has one sample for each label.

    In each round, every group that has a set left gives one, until there are enough. In the last round, some of these
    groups may give none.

    Args:
        n_sets: Number of sets of one sample per label that each group has.
        sample_size: Number of samples to draw.
        n_labels: Number of labels, the size of a set.

    Raises:
        DataError: The groups have fewer sets than are to be drawn.
    """
    n_wanted = sample_size // n_labels
    n_remaining = n_wanted
    n_rounds = 0
    giving = [group for group, available in n_sets.items() if available > 0]
    while giving and len(giving) < n_remaining:
        n_remaining -= len(giving)
        n_rounds += 1
        giving = [group for group in giving if n_sets[group] > n_rounds]
    if len(giving) < n_remaining:
        raise DataError(
            f"the source has {sum(n_sets.values())} sets of one sample of each of {n_labels} labels in a group, "
            f"{n_wanted} are to be drawn; give a smaller count"
        )
    return _RoundPlan(n_complete=n_rounds, giving=giving, n_remaining=n_remaining)
