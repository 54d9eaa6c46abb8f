"""From answers at levels to a threshold, or to a bound where the levels do not hold it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import Literal

from msgspec import Struct

from snellen.plugin_api import wilson
from snellen_lab.acuity.posterior import (
    MISFIT_OVERDISPERSION,
    OVERDISPERSION,
    Interval,
    ParameterGrid,
    Posterior,
    at_most,
)
from snellen_lab.acuity.trials import AcuityTest

Verdict = Literal["threshold", "sees all", "sees none", "undecided"]
"""Whether the threshold lies within the levels; the hardest one is still seen; the easiest one is not; or answers leave
open which."""
RATIO = 4.0
"""Levels of a greater ratio are spaced, and their thresholds compared, by logarithm."""
WITHIN, BEYOND = 0.8, 0.5
"""Posterior probability within the levels from which a threshold is given, and beyond them from which a bound is."""
DIP = 0.005
"""Probability below which a level that is read worse than the curve, and than a harder one, is named."""
MISFIT = 0.05
"""Probability of so much scatter about the curve below which the curve does not fit."""
STEEP = 1.5
"""A curve that rises within so many gaps between levels is a step for all that answers tell."""
FEW = 3
"""Answers at a level, or place, below which their share says little."""
Answers = Sequence[tuple[float, bool]]
"""Levels with whether the answer was right, in any order."""


class LevelScale(Struct, frozen=True, dict=True):
    """The levels of a test as numbers that grow with ease: logarithms to base 2 where they span a ratio of 4."""

    levels: tuple[float, ...]
    """From the hardest to the easiest."""

    @classmethod
    def of(cls, test: AcuityTest) -> LevelScale:
        return cls(tuple(sorted(test.levels, reverse=test.easier == "smaller")))

    @property
    def smaller_is_easier(self) -> bool:
        return self.levels[0] > self.levels[-1]

    @property
    def is_log(self) -> bool:
        return min(self.levels) > 0 and max(self.levels) / min(self.levels) >= RATIO

    def x(self, level: float) -> float:
        value = math.log2(level) if self.is_log else level
        return -value if self.smaller_is_easier else value

    def level(self, x: float) -> float:
        value = -x if self.smaller_is_easier else x
        return 2**value if self.is_log else value

    @property
    def unit(self) -> float:
        """What a width of 1 means in units of x: an octave, or the range of the levels."""
        return 1.0 if self.is_log else self.x(self.levels[-1]) - self.x(self.levels[0])

    @cached_property
    def places(self) -> dict[float, int]:
        """The place of each level, the hardest first."""
        return {level: place for place, level in enumerate(self.levels)}

    def posterior(self, answers: Answers, chance: float, silent: int = 0) -> Posterior:
        """What is known after these answers, of which so many named no option."""
        grid = _grid(tuple(self.x(level) for level in self.levels), chance, not silent)
        right, total = [0] * len(self.levels), [0] * len(self.levels)
        for level, is_right in answers:
            total[self.places[level]] += 1
            right[self.places[level]] += is_right
        return Posterior(grid, right, total, silent=silent)

    def robust_posterior(self, answers: Answers, chance: float, silent: int = 0) -> Posterior:
        """Return what is known if the curve need not fit: for results, not for the placement of questions.

        Shares of levels may scatter about the curve (a beta-binomial distribution), and do so where it does not fit.
        """
        posterior = self.posterior(answers, chance, silent)
        if silent:  # what a reader finds nothing in has parameters of its own
            return posterior
        grid, right, total = posterior.grid, posterior.right, posterior.total
        if posterior.rising_at_once().fit().p >= MISFIT:
            return Posterior(grid, right, total, overdispersion=OVERDISPERSION)
        overdispersed = Posterior(grid, right, total, overdispersion=MISFIT_OVERDISPERSION)
        return overdispersed.rising_at_once()

    def interval(self, posterior: Posterior) -> Interval:
        """Return the threshold with its interval, which holds the gap between levels if the curve is steeper than that.

        Of a step, answers tell no more than between which levels it is.
        """
        threshold = posterior.threshold
        levels = posterior.grid.levels
        place = int(levels.searchsorted(threshold.value))
        if not 0 < place < len(levels):
            return threshold
        harder, easier = float(levels[place - 1]), float(levels[place])
        if posterior.width.value > STEEP * (easier - harder):
            return threshold
        return Interval(threshold.value, min(threshold.low, harder), max(threshold.high, easier))


@lru_cache(maxsize=48)
def _grid(levels: tuple[float, ...], chance: float, always_answers: bool) -> ParameterGrid:
    """One for all tests of the same levels: each takes some 15 MB."""
    return ParameterGrid(levels, chance, always_answers)


class LevelPoint(Struct, frozen=True):
    """What was answered at a level, and what the fitted curve says of it; shares in [0, 1]."""

    level: float
    asked: int
    right: int
    fitted: float
    low: float
    high: float


class Ideal(Struct, frozen=True):
    """The threshold of a reader by templates on what a model's own processor leaves of the pictures."""

    level: float
    """Its threshold, or the level that bounds it."""
    verdict: Verdict
    side: int | None = None
    """The longer side to which pictures are declared to be reduced; None for what the model's own processor leaves."""


class Threshold(Struct, frozen=True):
    """What is known of one test of one model. Levels are in the test's unit; intervals are 95% and credible."""

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
    """The width of the curve from 5 to 95%: in octaves (factors of 2) where `is_log`, else in the unit."""
    is_log: bool
    lapse: Interval
    guess: Interval
    chance: float
    points: tuple[LevelPoint, ...]
    """Of all levels, the hardest first; some were not asked."""
    notes: tuple[str, ...] = ()
    ideal: Ideal | None = None
    """None where it was not measured."""

    @property
    def scale(self) -> LevelScale:
        """As far as conversions need it: with the hardest and the easiest level."""
        return LevelScale((self.hardest, self.easiest))

    @property
    def text(self) -> str:
        """`7.9 px [7.1, 8.8]`, `sees all, to 2.5 px` or `not even 160 px`."""
        unit = f" {self.unit}" * bool(self.unit)
        if self.verdict == "sees all":
            return f"sees all, to {self.hardest:.4g}{unit}"
        if self.verdict == "sees none":
            return f"not even {self.easiest:.4g}{unit}"
        if self.value is None:
            return self.verdict
        least, most = self.bounds
        low = f"below {min(self.hardest, self.easiest):.2g}" if least is None else f"{least:.3g}"
        high = f"above {max(self.hardest, self.easiest):.3g}" if most is None else f"{most:.3g}"
        return f"{self.value:.3g}{unit} [{low}, {high}]"

    @property
    def bounds(self) -> tuple[float | None, float | None]:
        """The ends of the interval as numbers, the smaller first; None for one beyond the levels."""
        return (self.high, self.low) if self.scale.smaller_is_easier else (self.low, self.high)

    def share_at(self, level: float) -> float:
        """The share of right answers by the fitted curve at a level among those of the test."""
        scale, x = self.scale, self.scale.x(level)
        for harder, easier in pairwise(self.points):
            start, end = scale.x(harder.level), scale.x(easier.level)
            if x <= end:
                return harder.fitted + (easier.fitted - harder.fitted) * (x - start) / (end - start)
        return self.points[-1].fitted


def input_words(threshold: Threshold) -> str:
    """`2.1 times what its input allows`; empty where the ideal was not measured."""
    ideal, unit = threshold.ideal, f" {threshold.unit}" * bool(threshold.unit)
    if ideal is None or ideal.verdict == "undecided":
        return ""
    if ideal.verdict == "sees none":
        return f"its input does not allow even {ideal.level:g}{unit}"
    allowed = f"{ideal.level:.3g}{unit}" + " or less" * (ideal.verdict == "sees all")
    if threshold.value is None:
        return f"its input allows {allowed}"
    more = "more than " * (ideal.verdict == "sees all")
    return f"{more}{threshold.value / ideal.level:.2g} times what its input allows ({allowed})"


def threshold_of(
    test: AcuityTest,
    benchmark: str,
    method: str,
    answers: Answers,
    chance: float,
    *,
    silent: int = 0,
    ideal: Ideal | None = None,
) -> Threshold:
    """The threshold that answers speak for, of which `silent` named no option."""
    scale = LevelScale.of(test)
    posterior = scale.robust_posterior(answers, chance, silent)
    ends, interval = posterior.grid.levels[[0, -1]], scale.interval(posterior)
    verdict = _verdict(posterior)
    points = _level_points(scale, posterior)
    plain = scale.posterior(answers, chance, silent).rising_at_once()
    plain_points = _level_points(scale, plain)
    is_within = verdict == "threshold"
    return Threshold(
        benchmark=benchmark,
        test=test.name,
        title=test.title,
        unit=test.unit,
        method=method,
        asked=len(answers),
        verdict=verdict,
        value=scale.level(interval.value) if is_within else None,
        low=scale.level(interval.low) if is_within and interval.low >= ends[0] else None,
        high=scale.level(interval.high) if is_within and interval.high <= ends[1] else None,
        hardest=scale.levels[0],
        easiest=scale.levels[-1],
        slope=posterior.width,
        is_log=scale.is_log,
        lapse=posterior.lapse,
        guess=posterior.guess,
        chance=chance,
        points=points,
        notes=(*dips(plain_points, test.unit), *(() if silent else misfit_notes(plain))),
        ideal=ideal,
    )


def _level_points(scale: LevelScale, posterior: Posterior) -> tuple[LevelPoint, ...]:
    """Return what was answered at each level, with the fitted curve."""
    points: list[LevelPoint] = []
    curve = posterior.curve()
    for place, level in enumerate(scale.levels):
        total = round(posterior.total[place])
        right = round(posterior.right[place])
        fitted, low, high = map(float, curve[place])
        points.append(LevelPoint(level, total, right, fitted, low, high))
    return tuple(points)


def _verdict(posterior: Posterior) -> Verdict:
    harder, easier = (
        posterior.below(posterior.grid.levels[0]),
        posterior.beyond(posterior.grid.levels[-1]),
    )
    if easier > BEYOND:
        return "sees none"
    if harder > BEYOND:
        return "sees all"
    return "threshold" if 1 - harder - easier > WITHIN else "undecided"


def misfit_notes(posterior: Posterior) -> tuple[str, ...]:
    """Return a sentence if answers scatter about the curve more than chance allows."""
    fit = posterior.fit()
    if fit.p >= MISFIT:
        return ()
    p = "< 0.01" if fit.p < 0.01 else f"= {fit.p:.2f}"
    return (
        f"the curve does not fit (p {p}): answers scatter about it {fit.overdispersion:.1f} times as much as chance "
        "allows, and the interval is widened for that",
    )


def dips(points: Sequence[LevelPoint], unit: str) -> tuple[str, ...]:
    """A sentence for each level that is read less than its curve says and less than a harder one, beyond chance: a
    border of tiles, or a size that a model's own scaling hurts."""
    asked_points = [point for point in points if point.asked]
    notes = []
    for place, point in enumerate(asked_points):
        harder = max(
            (lower.right / lower.asked for lower in asked_points[:place] if lower.asked >= FEW),
            default=0.0,
        )
        chance = at_most(point.right, point.asked, point.fitted)
        if point.right / point.asked < harder and chance < DIP / len(asked_points):
            notes.append(
                f"the curve does not only rise: at {point.level:g} {unit}".rstrip()
                + f" only {point.right} of {point.asked} answers were right, where {point.fitted:.0%} were to be "
                f"expected, and {harder:.0%} were at a harder level"
            )
    return tuple(notes)


class PlaceShare(Struct, frozen=True):
    """How often a thing at a place was seen, with Wilson's interval. Places are counted row by row."""

    place: int
    asked: int
    right: int
    low: float
    high: float


def place_shares(answers: Iterable[tuple[float, bool]]) -> tuple[PlaceShare, ...]:
    """By place, how many answers were right."""
    by_place: dict[int, list[bool]] = {}
    for place, is_right in answers:
        by_place.setdefault(int(place), []).append(is_right)
    return tuple(
        PlaceShare(place, len(values), sum(values), *wilson(sum(values) / len(values), len(values)))
        for place, values in sorted(by_place.items())
    )
