"""Which samples of a source take part: rules over their strata, seeded by name (ReForm-Eval A.1, E.1).

A stratum is whatever a reader balances by: the answer, the object category, the question's type. Rules take
the strata in the source's order and return positions in it, ascending.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

from snellen.errors import DataError
from snellen.seeds import rng_for

Rule = Literal["all", "random", "balanced", "equal", "equidistant"]


class Sampling(Struct, frozen=True, forbid_unknown_fields=True):
    """How a subset is drawn.

    - `all`: everything.
    - `random`: `count` samples, or the share `ratio`, whatever their stratum.
    - `balanced`: `count` or `ratio`, strata as frequent as in the source (ReForm-Eval E.1).
    - `equal`: `each` samples of every stratum, or `count` in total, as evenly as the strata allow.
    - `equidistant`: shuffled, then every `step`-th (ReForm-Eval A.1, TDIUC).
    """

    rule: Rule = "all"
    ratio: float | None = None
    count: int | None = None
    each: int | None = None
    step: int | None = None
    keep_below: int = 0
    """A source with fewer samples is kept whole (ReForm-Eval E.1: 1000)."""

    def __post_init__(self) -> None:
        settings = [name for name in ("ratio", "count", "each", "step") if getattr(self, name) is not None]
        if len(settings) != (self.rule != "all") or (settings and settings[0] not in _TAKES[self.rule]):
            takes = " or ".join(_TAKES[self.rule]) or "nothing"
            raise ValueError(f"the sampling rule {self.rule} takes {takes}, not {' and '.join(settings) or 'nothing'}")
        if self.ratio is not None and not 0 < self.ratio <= 1:
            raise ValueError(f"ratio = {self.ratio} is no share in (0, 1]")
        for name in ("count", "each", "step"):
            if (value := getattr(self, name)) is not None and value < 1:
                raise ValueError(f"{name} = {value} leaves nothing")


_TAKES: dict[Rule, tuple[str, ...]] = {
    "all": (),
    "random": ("ratio", "count"),
    "balanced": ("ratio", "count"),
    "equal": ("each", "count"),
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
    sample_size = _wanted(sampling, count)
    match sampling.rule:
        case "random":
            places = rng.sample(range(count), sample_size)
        case "balanced":
            sizes = Counter(strata)
            places = _draw(strata, _proportional(sizes, sample_size), rng)
        case "equal":
            sizes = Counter(strata)
            shares = dict.fromkeys(sizes, sampling.each) if sampling.each else _even(sizes, sample_size)
            places = _draw(strata, {name: min(share or 0, sizes[name]) for name, share in shares.items()}, rng)
        case _:
            shuffled = list(range(count))
            rng.shuffle(shuffled)
            places = shuffled[:: sampling.step]
    return sorted(places)


def _wanted(sampling: Sampling, count: int) -> int:
    if sampling.ratio is not None:
        # 0.1 is a little more than a tenth, but 0.29 * 100 is a little less than 29.
        return min(max(int(sampling.ratio * count + 1e-9), 1), count)
    sample_size = sampling.count or 0
    if sample_size > count:
        raise DataError(
            f"the source has {count} samples, {sample_size} are to be drawn; give a smaller count or a ratio"
        )
    return sample_size


def _proportional(sizes: Counter[str], sample_size: int) -> dict[str, int]:
    """Shares of `wanted` in proportion to the sizes, by largest remainder; ties go to the larger stratum."""
    total = sum(sizes.values())
    shares = {name: sample_size * size // total for name, size in sizes.items()}
    remainders = sorted(sizes, key=lambda name: (-(sample_size * sizes[name] % total), -sizes[name], name))
    for name in remainders[: sample_size - sum(shares.values())]:
        shares[name] += 1
    return shares


def _even(sizes: Counter[str], sample_size: int) -> dict[str, int]:
    """Equal shares for all strata; what a stratum is too small to provide goes to the others."""
    shares: dict[str, int] = {}
    remaining = sample_size
    ordered = sorted(sizes, key=lambda name: (sizes[name], name))
    for place, name in enumerate(ordered):
        shares[name] = min(sizes[name], remaining // (len(ordered) - place))
        remaining -= shares[name]
    return shares


def _draw(strata: Sequence[str], shares: dict[str, int], rng: random.Random) -> list[int]:
    """Draw each stratum's share of positions, one stratum after another in order of their names."""
    places: dict[str, list[int]] = {}
    for place, name in enumerate(strata):
        places.setdefault(name, []).append(place)
    return [place for name in sorted(places) for place in rng.sample(places[name], shares.get(name, 0))]
