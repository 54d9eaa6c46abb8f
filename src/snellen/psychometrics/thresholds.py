"""From answers at levels to a threshold, or to a bound where the levels do not hold it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Literal

from msgspec import Struct

from snellen.analysis.statistics import wilson
from snellen.psychometrics.posterior import Interval, ParameterGrid, Posterior, counts_by_level
from snellen.stimuli.trials import AcuityTest

Verdict = Literal["threshold", "sees all", "sees none", "not measured"]
"""Whether the threshold lies within the levels; the hardest one is still seen; the easiest one is not; or the levels
are places and no quantity."""
RATIO = 4.0
"""Levels of a greater ratio are spaced, and their thresholds compared, by logarithm."""
SURE = 0.5
"""Posterior probability beyond the levels from which no threshold is given."""
DIP = 0.005
"""Probability below which a level that is read worse than the curve, and than a harder one, is named."""


class LevelScale(Struct, frozen=True, dict=True):
    """The levels of a test as numbers that grow with ease: logarithms to base 2 where they span a ratio of 4."""

    levels: tuple[float, ...]
    """From the hardest to the easiest."""
    smaller_is_easier: bool

    @classmethod
    def of(cls, test: AcuityTest) -> LevelScale:
        return cls(tuple(sorted(test.levels, reverse=test.easier == "smaller")), test.easier == "smaller")

    @cached_property
    def is_log(self) -> bool:
        return min(self.levels) > 0 and max(self.levels) / min(self.levels) >= RATIO

    def x(self, level: float) -> float:
        value = math.log2(level) if self.is_log else level
        return -value if self.smaller_is_easier else value

    def level(self, x: float) -> float:
        value = -x if self.smaller_is_easier else x
        return 2**value if self.is_log else value

    @cached_property
    def places(self) -> dict[float, int]:
        """The place of each level, the hardest first."""
        return {level: place for place, level in enumerate(self.levels)}


class LevelPoint(Struct, frozen=True):
    """What was answered at a level, and what the fitted curve says of it; shares in [0, 1]."""

    level: float
    asked: int
    right: int
    fitted: float
    low: float
    high: float


class Threshold(Struct, frozen=True):
    """What is known of one test of one model. Levels are in the test's unit; intervals are 95 % and credible."""

    benchmark: str
    test: str
    title: str
    unit: str
    method: str
    asked: int
    verdict: Verdict
    value: float | None
    """The level at which the model is halfway between guessing and its best; None unless it lies within the levels."""
    low: float | None
    """The harder end; None where it lies beyond the hardest level."""
    high: float | None
    """The easier end; None where it lies beyond the easiest level."""
    hardest: float
    easiest: float
    slope: Interval
    """The width of the curve from 5 to 95 %: in octaves (factors of 2) where `is_log`, else in the unit."""
    is_log: bool
    lapse: Interval
    guess: Interval
    chance: float
    points: tuple[LevelPoint, ...]
    """The hardest level first; levels that were asked."""
    notes: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """`7.9 px [7.1, 8.8]`, `below 2 px` or `not at 128 px`."""
        unit = f" {self.unit}" * bool(self.unit)
        if self.verdict == "sees all":
            return f"sees all, to {self.hardest:g}{unit}"
        if self.verdict == "sees none":
            return f"not even {self.easiest:g}{unit}"
        if self.value is None:
            return "not measured"
        low, high = (
            f"beyond {end:g}" if bound is None else f"{bound:.3g}"
            for bound, end in ((self.low, self.hardest), (self.high, self.easiest))
        )
        return f"{self.value:.3g}{unit} [{low}, {high}]"


def threshold_of(
    test: AcuityTest, benchmark: str, method: str, answers: Iterable[tuple[float, bool]], chance: float
) -> Threshold:
    """The threshold that pairs of a level and whether the answer was right speak for, in any order."""
    scale = LevelScale.of(test)
    given = [(scale.places[level], is_right) for level, is_right in answers]
    right, asked = counts_by_level(given, len(scale.levels))
    grid = ParameterGrid([scale.x(level) for level in scale.levels], chance)
    posterior = Posterior(grid, right, asked)
    ends = grid.levels[0], grid.levels[-1]
    found = posterior.threshold
    easier, harder = posterior.beyond(ends[1]), posterior.below(ends[0])
    verdict: Verdict = "sees none" if easier > SURE else "sees all" if harder > SURE else "threshold"
    curve = posterior.curve()
    points = tuple(
        LevelPoint(level, round(asked[place]), round(right[place]), *map(float, curve[place]))
        for place, level in enumerate(scale.levels)
        if asked[place]
    )
    within = verdict == "threshold"
    return Threshold(
        benchmark=benchmark, test=test.name, title=test.title, unit=test.unit, method=method, asked=len(given),
        verdict="not measured" if test.easier == "neither" else verdict,
        value=scale.level(found.value) if within else None,
        low=scale.level(found.low) if within and found.low >= ends[0] else None,
        high=scale.level(found.high) if within and found.high <= ends[1] else None,
        hardest=scale.levels[0], easiest=scale.levels[-1], slope=posterior.width, is_log=scale.is_log,
        lapse=posterior.lapse, guess=posterior.guess, chance=chance, points=points, notes=dips(points, test.unit),
    )  # fmt: skip


def dips(points: Sequence[LevelPoint], unit: str) -> tuple[str, ...]:
    """A sentence for each level that is read less than its curve says and less than a harder one, beyond chance: a
    border of tiles, or a size that a model's own scaling hurts."""
    notes = []
    for place, point in enumerate(points):
        harder = max((other.right / other.asked for other in points[:place] if other.asked >= 3), default=0.0)
        if point.right / point.asked < harder and _at_most(point.right, point.asked, point.fitted) < DIP / len(points):
            notes.append(
                f"at {point.level:g} {unit}".rstrip() + f" only {point.right} of {point.asked} were right, where "
                f"{point.fitted:.0%} were to be expected and a harder level had {harder:.0%}"
            )
    return tuple(notes)


def _at_most(right: int, asked: int, probability: float) -> float:
    """The probability of so few right answers, binomial."""
    return math.fsum(
        math.comb(asked, count) * probability**count * (1 - probability) ** (asked - count)
        for count in range(right + 1)
    )


class PlaceShare(Struct, frozen=True):
    """How often a thing at a place was seen, with Wilson's interval."""

    place: str
    asked: int
    right: int
    low: float
    high: float


def shares_by(tags: Mapping[str, str], answers: Mapping[str, bool]) -> tuple[PlaceShare, ...]:
    """By the value of a tag of samples, how many of their answers were right."""
    counts: dict[str, list[bool]] = {}
    for sample, is_right in answers.items():
        counts.setdefault(tags[sample], []).append(is_right)
    return tuple(
        PlaceShare(place, len(values), sum(values), *wilson(sum(values) / len(values), len(values)))
        for place, values in sorted(counts.items())
    )
