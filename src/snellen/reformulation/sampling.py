"""Which samples of a source take part: rules over their strata, seeded by name (ReForm-Eval A.1, E.1).

A stratum is whatever a reader balances by: the answer, the object category, the question's type. Rules take
the strata in the source's order and return positions in it, ascending.

Every sample has a chance to be drawn that is known beforehand (`inclusion_probabilities`) and never 0, but for groups
that lack a label under `grouped`: seats that do not come out even among strata are drawn by systematic sampling of the
remainders (Madow, Annals of Mathematical Statistics 20, 1949), which gives each stratum its exact share in the mean and
never more than one seat beside it.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from snellen.common.seeds import rng_for
from snellen.errors import DataError

SamplingRule = Literal["all", "random", "balanced", "equal", "layered", "grouped", "equidistant"]
"""How a subset is drawn; `Sampling` describes each rule."""


class Sampling(Struct, frozen=True, forbid_unknown_fields=True):
    """How a subset is drawn.

    - `all`: everything.
    - `random`: `count` samples, or the share `ratio`, whatever their stratum.
    - `balanced`: `count` or `ratio`, strata as frequent as in the source (ReForm-Eval E.1); each sample is as likely.
    - `equal`: `each` samples of every stratum, or `count` in total, as evenly as the strata allow.
    - `layered`: `each` samples of every kind, or `count` in total, as evenly as the kinds allow, and within a kind as
      evenly as its answers allow. Strata are named `KIND/ANSWER`.
    - `grouped`: about `count` samples, from each group (a picture) as many of every label (ReForm-Eval A.6). Strata are
      named `GROUP/LABEL`. One of every label from groups drawn at random, more from each once all have given one.
    - `equidistant`: shuffled, then every `step`-th (ReForm-Eval A.1, TDIUC).
    """

    rule: SamplingRule = "all"
    ratio: float | None = None
    count: int | None = None
    each: int | None = None
    step: int | None = None
    keep_below: int = 0
    """A source with fewer samples is kept whole (ReForm-Eval E.1: 1000)."""

    def __post_init__(self) -> None:
        settings = [
            name for name in ("ratio", "count", "each", "step") if getattr(self, name) is not None
        ]
        if len(settings) != (self.rule != "all") or (
            settings and settings[0] not in _TAKES[self.rule]
        ):
            takes = " or ".join(_TAKES[self.rule]) or "nothing"
            raise ValueError(
                f"the sampling rule {self.rule} takes {takes}, not {' and '.join(settings) or 'nothing'}"
            )
        if self.ratio is not None and not 0 < self.ratio <= 1:
            raise ValueError(f"ratio = {self.ratio} is not a share in (0, 1]")
        for name in ("count", "each", "step"):
            if (value := getattr(self, name)) is not None and value < 1:
                raise ValueError(f"{name} = {value} leaves nothing")


_TAKES: dict[SamplingRule, tuple[str, ...]] = {
    "all": (),
    "random": ("ratio", "count"),
    "balanced": ("ratio", "count"),
    "equal": ("each", "count"),
    "layered": ("each", "count"),
    "grouped": ("count",),
    "equidistant": ("step",),
}


def draw_sample(strata: Sequence[str], sampling: Sampling, *names: str | int) -> list[int]:
    """Positions of the chosen samples, ascending; `names` seed the draw.

    A ratio is rounded down, but gives at least one sample. Raises DataError when more samples are requested
    than there are.
    """
    count = len(strata)
    if sampling.rule == "all" or count < sampling.keep_below:
        return list(range(count))
    rng = rng_for(*names, "sampling")
    sample_size = _sample_size(sampling, count)
    match sampling.rule:
        case "random":
            places = rng.sample(range(count), sample_size)
        case "balanced" | "equal" | "layered":
            # Of its own, so that a draw without remainders is the same whatever becomes of them.
            expected = _expected_seats(Counter(strata), sampling, sample_size)
            seats = _seats(
                expected,
                rng_for(*names, "remainders"),
                _kind if sampling.rule == "layered" else None,
            )
            places = _draw(strata, seats, rng)
        case "grouped":
            groups = _sets_by_group(Counter(strata))
            full, last, remaining = _rounds_of_sets(groups, sample_size, len(_labels(strata)))
            again = Counter(rng_for(*names, "groups").sample(last, remaining))
            seats = {
                name: min(full, groups[_group(name)]) + again[_group(name)] for name in set(strata)
            }
            places = _draw(strata, seats, rng)
        case _:
            shuffled = list(range(count))
            rng.shuffle(shuffled)
            places = shuffled[:: sampling.step]
    return sorted(places)


def inclusion_probabilities(strata: Sequence[str], sampling: Sampling) -> dict[str, float]:
    """How likely each sample of a stratum is to be drawn, by the stratum's name.

    Raises DataError when more samples are requested than there are.
    """
    count, sizes = len(strata), Counter(strata)
    if sampling.rule == "all" or count < sampling.keep_below:
        return dict.fromkeys(sizes, 1.0)
    sample_size = _sample_size(sampling, count)
    if sampling.rule in ("balanced", "equal", "layered"):
        expected = _expected_seats(sizes, sampling, sample_size)
        return {name: float(expected[name] / size) for name, size in sizes.items()}
    if sampling.rule == "grouped":
        groups = _sets_by_group(sizes)
        full, last, remaining = _rounds_of_sets(groups, sample_size, len(_labels(strata)))
        sets_drawn = {
            name: min(full, sets) + (remaining / len(last) if name in last else 0)
            for name, sets in groups.items()
        }
        return {name: sets_drawn[_group(name)] / size for name, size in sizes.items()}
    if sampling.step is not None:
        sample_size = math.ceil(count / sampling.step)
    return dict.fromkeys(sizes, sample_size / count)


def _sample_size(sampling: Sampling, count: int) -> int:
    if sampling.ratio is not None:
        # 0.1 is a little more than a tenth, but 0.29 * 100 is a little less than 29.
        return min(max(int(sampling.ratio * count + 1e-9), 1), count)
    sample_size = sampling.count or 0
    if sample_size > count:
        raise DataError(
            f"the source has {count} samples, {sample_size} are to be drawn; give a smaller count or a ratio"
        )
    return sample_size


def _expected_seats(
    sizes: Counter[str], sampling: Sampling, sample_size: int
) -> dict[str, Fraction]:
    """How many samples of each stratum are drawn in the mean over seeds."""
    if sampling.rule == "layered":
        kinds: Counter[str] = Counter()
        for name, size in sizes.items():
            kinds[_kind(name)] += size
        shares = _expected_seats(kinds, replace(sampling, rule="equal"), sample_size)
        return {
            name: share
            for kind, of_kind in shares.items()
            for name, share in _evenly(
                {n: s for n, s in sizes.items() if _kind(n) == kind}, of_kind
            ).items()
        }
    if sampling.each is not None:
        return {name: Fraction(min(sampling.each, size)) for name, size in sizes.items()}
    if sampling.rule == "balanced":
        total = sum(sizes.values())
        return {name: Fraction(sample_size * size, total) for name, size in sizes.items()}
    return _evenly(sizes, Fraction(sample_size))


def _evenly(sizes: Mapping[str, int], total: Fraction) -> dict[str, Fraction]:
    """`total` shared out over strata, none of which gets more than it has."""
    expected: dict[str, Fraction] = {}
    remaining = total
    for served, (name, size) in enumerate(sorted(sizes.items(), key=lambda stratum: stratum[1])):
        # What a small stratum cannot provide goes to the larger ones.
        expected[name] = min(Fraction(size), remaining / (len(sizes) - served))
        remaining -= expected[name]
    return expected


def _kind(stratum: str) -> str:
    return stratum.partition("/")[0]


def _group(stratum: str) -> str:
    return stratum.rpartition("/")[0]


def _labels(strata: Sequence[str]) -> set[str]:
    return {stratum.rpartition("/")[2] for stratum in strata}


def _sets_by_group(sizes: Counter[str]) -> dict[str, int]:
    """How many sets of one sample of every label each group has."""
    labels = _labels([*sizes])
    return {
        group: min(sizes[f"{group}/{label}"] for label in labels)
        for group in dict.fromkeys(map(_group, sizes))
    }


def _rounds_of_sets(
    groups: dict[str, int], sample_size: int, labels: int
) -> tuple[int, list[str], int]:
    """In how many rounds every group that has a set left gives one, which can give one more, and how many of them do.

    Raises DataError where the groups have fewer sets than are to be drawn.
    """
    remaining, full = sample_size // labels, 0
    while (giving := [group for group, sets in groups.items() if sets > full]) and len(
        giving
    ) < remaining:
        remaining -= len(giving)
        full += 1
    if len(giving) < remaining:
        raise DataError(
            f"the source has {sum(groups.values())} sets of one sample of each of {labels} labels in a group, "
            f"{sample_size // labels} are to be drawn; give a smaller count"
        )
    return full, giving, remaining


def _seats(
    expected: dict[str, Fraction], rng: random.Random, together: Callable[[str], str] | None = None
) -> dict[str, int]:
    """Whole numbers that are as expected in the mean, each off by less than one, and with the same sum; so is the sum
    of those that stand `together`, as what they share is laid end to end."""
    order = sorted(expected)
    rng.shuffle(order)
    if together:
        order.sort(key=together)
    unit = math.lcm(*(share.denominator for share in expected.values()))
    # A comb with one tooth per unit falls on the strata laid end to end; only its start is random.
    end = unit - 1 - rng.randrange(unit)
    seats = {}
    for name in order:
        begin, end = end, end + int(expected[name] * unit)
        seats[name] = end // unit - begin // unit
    return seats


def _draw(strata: Sequence[str], shares: dict[str, int], rng: random.Random) -> list[int]:
    """Draw each stratum's share of positions, one stratum after another in order of their names."""
    places: dict[str, list[int]] = {}
    for place, name in enumerate(strata):
        places.setdefault(name, []).append(place)
    return [
        place for name in sorted(places) for place in rng.sample(places[name], shares.get(name, 0))
    ]
