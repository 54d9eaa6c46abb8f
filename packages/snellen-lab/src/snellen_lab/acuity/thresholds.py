"""Thresholds of models in psychometric tests, or bounds if the threshold is beyond the levels of a test."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import Literal

from msgspec import Struct, field

from snellen.plugin_api import wilson
from snellen_lab.acuity.parameter_grid import ParameterGrid
from snellen_lab.acuity.posterior import (
    MISFIT_OVERDISPERSION,
    OVERDISPERSION,
    Interval,
    Posterior,
    binomial_cdf,
)
from snellen_lab.acuity.trials import AcuityTest

Verdict = Literal["threshold", "sees all", "sees none", "undecided"]
"""Where the threshold is: within the levels; beyond the hardest level, which is still seen; beyond the easiest level,
which is not seen; or not known."""
LOG_SPACING_RATIO = 4.0
"""Levels are compared by their logarithms if the largest is at least this many times the smallest."""
WITHIN = 0.8
"""A threshold is reported if its posterior probability of being within the levels is above this."""
BEYOND = 0.5
"""A bound is reported if the posterior probability that the threshold is beyond the levels is above this."""
DIP = 0.005
"""A level is reported as read worse than the curve, and than a harder level, if the p-value is below this."""
MISFIT = 0.05
"""The curve does not fit if the p-value is below this."""
STEEP = 1.5
"""A curve narrower than this many gaps between levels cannot be distinguished from a step."""
FEW = 3
"""With fewer replies at a level, their share means little."""
Answers = Sequence[tuple[float, bool]]
"""Pairs of a level and whether the reply was correct, in any order."""


class LevelScale(Struct, frozen=True, dict=True):
    """Converts the levels of a test to x, which grows with ease: a logarithm to base 2 if they span a ratio of 4."""

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
        smallest = min(self.levels)
        return smallest > 0 and max(self.levels) / smallest >= LOG_SPACING_RATIO

    def x(self, level: float) -> float:
        value = math.log2(level) if self.is_log else level
        return -value if self.smaller_is_easier else value

    def level(self, x: float) -> float:
        value = -x if self.smaller_is_easier else x
        return 2**value if self.is_log else value

    @property
    def unit(self) -> float:
        """The width of 1 in units of x: an octave, or the range of the levels."""
        if self.is_log:
            return 1.0
        return self.x(self.levels[-1]) - self.x(self.levels[0])

    @cached_property
    def indexes(self) -> dict[float, int]:
        """Index of each level, the hardest first."""
        return {level: index for index, level in enumerate(self.levels)}

    def posterior(self, answers: Answers, chance: float, silent: int = 0) -> Posterior:
        """Return the posterior of the curve after some replies.

        Args:
            answers: The level of each reply, and whether it was correct.
            chance: Probability that a random option is correct.
            silent: Number of wrong replies that named no option.
        """
        x_values = tuple(self.x(level) for level in self.levels)
        always_answers = silent == 0
        grid = _parameter_grid(x_values, chance, always_answers)
        correct = [0] * len(self.levels)
        total = [0] * len(self.levels)
        for level, is_correct in answers:
            index = self.indexes[level]
            total[index] += 1
            correct[index] += is_correct
        return Posterior(grid, correct, total, silent=silent)

    def robust_posterior(self, answers: Answers, chance: float, silent: int = 0) -> Posterior:
        """Return the posterior if the curve need not fit exactly. Results use it; the choice of questions does not.

        Shares at levels may scatter around the curve (a beta-binomial distribution), and certainly do if the curve does not
        fit. The arguments are those of `posterior`.
        """
        posterior = self.posterior(answers, chance, silent)
        if silent:  # Replies without an option have parameters of their own.
            return posterior
        grid = posterior.grid
        correct = posterior.correct
        total = posterior.total
        curve_fits = posterior.with_single_rise().fit().p >= MISFIT
        if curve_fits:
            return Posterior(grid, correct, total, overdispersion=OVERDISPERSION)
        overdispersed = Posterior(grid, correct, total, overdispersion=MISFIT_OVERDISPERSION)
        return overdispersed.with_single_rise()

    def interval(self, posterior: Posterior) -> Interval:
        """Return the threshold with its interval, extended to the gap between levels if the curve is steeper than that.

        If the curve is a step, replies only tell between which levels it is.
        """
        threshold = posterior.threshold
        levels = posterior.grid.levels
        easier_index = int(levels.searchsorted(threshold.value))
        if not 0 < easier_index < len(levels):
            return threshold
        harder = float(levels[easier_index - 1])
        easier = float(levels[easier_index])
        if posterior.width.value > STEEP * (easier - harder):
            return threshold
        return Interval(threshold.value, min(threshold.low, harder), max(threshold.high, easier))


@lru_cache(maxsize=48)
def _parameter_grid(
    levels: tuple[float, ...], chance: float, always_answers: bool
) -> ParameterGrid:
    """Share one grid among all tests with the same levels: each takes some 15 MB."""
    return ParameterGrid(levels, chance, always_answers)


class LevelPoint(Struct, frozen=True):
    """Replies at a level, and the fitted curve there with its credible interval; shares in [0, 1]."""

    level: float
    trials: int = field(name="asked")
    right: int
    fitted: float
    low: float
    high: float


class Ideal(Struct, frozen=True):
    """Threshold of a template-matching reader that sees images as the model's own processor leaves them."""

    level: float
    """The threshold, or the level that bounds it."""
    verdict: Verdict
    side: int | None = None
    """The longer side, in pixels, to which images are declared to be reduced; None for the model's own processor."""


class Threshold(Struct, frozen=True):
    """Result of one test of one model. Levels are in the test's unit; intervals are 95% credible intervals."""

    benchmark: str
    test: str
    title: str
    unit: str
    method: str
    trials: int = field(name="asked")
    verdict: Verdict
    value: float | None
    """The level at which the model is halfway between chance and its best; None unless it is within the levels."""
    low: float | None
    """The harder end; None if it is beyond the hardest level."""
    high: float | None
    """The easier end; None if it is beyond the easiest level."""
    hardest: float
    easiest: float
    slope: Interval
    """Width of the curve from 5 to 95%: in octaves (factors of 2) if `is_log`, else in the unit."""
    is_log: bool
    lapse: Interval
    guess: Interval
    chance: float
    points: tuple[LevelPoint, ...]
    """All levels, the hardest first. Some may have no replies."""
    notes: tuple[str, ...] = ()
    ideal: Ideal | None = None
    """None if it was not measured."""

    @property
    def scale(self) -> LevelScale:
        """Scale with the hardest and the easiest level, which is enough for conversions."""
        return LevelScale((self.hardest, self.easiest))

    @property
    def unit_suffix(self) -> str:
        """The unit after a space; empty if levels have no unit."""
        return f" {self.unit}" if self.unit else ""

    @property
    def text(self) -> str:
        """`7.9 px [7.1, 8.8]`, `sees all, to 2.5 px` or `not even 160 px`."""
        if self.verdict == "sees all":
            return f"sees all, to {self.hardest:.4g}{self.unit_suffix}"
        if self.verdict == "sees none":
            return f"not even {self.easiest:.4g}{self.unit_suffix}"
        if self.value is None:
            return self.verdict
        smaller, larger = self.bounds
        if smaller is None:
            low = f"below {min(self.hardest, self.easiest):.2g}"
        else:
            low = f"{smaller:.3g}"
        if larger is None:
            high = f"above {max(self.hardest, self.easiest):.3g}"
        else:
            high = f"{larger:.3g}"
        return f"{self.value:.3g}{self.unit_suffix} [{low}, {high}]"

    @property
    def bounds(self) -> tuple[float | None, float | None]:
        """The ends of the interval as numbers, the smaller first; None for an end beyond the levels."""
        if self.scale.smaller_is_easier:
            return (self.high, self.low)
        return (self.low, self.high)

    def share_at(self, level: float) -> float:
        """Return the share of correct replies that the fitted curve gives at a level, in [0, 1].

        Between the levels of the test it is interpolated.
        """
        scale = self.scale
        x = scale.x(level)
        for harder, easier in pairwise(self.points):
            start = scale.x(harder.level)
            end = scale.x(easier.level)
            if x <= end:
                progress = (x - start) / (end - start)
                return harder.fitted + (easier.fitted - harder.fitted) * progress
        return self.points[-1].fitted


def describe_input_limit(threshold: Threshold) -> str:
    """Return how a threshold compares with the ideal one, as in `2.1 times what its input allows (4 px)`.

    The text is empty if the ideal threshold was not measured.
    """
    ideal = threshold.ideal
    unit = threshold.unit_suffix
    if ideal is None or ideal.verdict == "undecided":
        return ""
    if ideal.verdict == "sees none":
        return f"its input does not allow even {ideal.level:g}{unit}"
    is_bound = ideal.verdict == "sees all"
    allowed = f"{ideal.level:.3g}{unit}"
    if is_bound:
        allowed += " or less"
    if threshold.value is None:
        return f"its input allows {allowed}"
    ratio = f"{threshold.value / ideal.level:.2g}"
    if is_bound:
        ratio = f"more than {ratio}"
    return f"{ratio} times what its input allows ({allowed})"


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
    """Return the threshold, or the bound, that follows from replies, of which `silent` named no option."""
    scale = LevelScale.of(test)
    posterior = scale.robust_posterior(answers, chance, silent)
    verdict = _verdict(posterior)
    value = low = high = None
    if verdict == "threshold":
        interval = scale.interval(posterior)
        hardest_x, easiest_x = posterior.grid.levels[[0, -1]]
        value = scale.level(interval.value)
        if interval.low >= hardest_x:
            low = scale.level(interval.low)
        if interval.high <= easiest_x:
            high = scale.level(interval.high)

    # Notes speak of one plain curve; the robust posterior already allows for what they report.
    plain_posterior = scale.posterior(answers, chance, silent).with_single_rise()
    notes = dips(_level_points(scale, plain_posterior), test.unit)
    if not silent:
        notes += misfit_notes(plain_posterior)

    return Threshold(
        benchmark=benchmark,
        test=test.name,
        title=test.title,
        unit=test.unit,
        method=method,
        trials=len(answers),
        verdict=verdict,
        value=value,
        low=low,
        high=high,
        hardest=scale.levels[0],
        easiest=scale.levels[-1],
        slope=posterior.width,
        is_log=scale.is_log,
        lapse=posterior.lapse,
        guess=posterior.guess,
        chance=chance,
        points=_level_points(scale, posterior),
        notes=notes,
        ideal=ideal,
    )


def _level_points(scale: LevelScale, posterior: Posterior) -> tuple[LevelPoint, ...]:
    """Return the replies at each level, with the fitted curve there, the hardest level first."""
    points: list[LevelPoint] = []
    curve = posterior.curve()
    for index, level in enumerate(scale.levels):
        fitted, low, high = curve[index]
        point = LevelPoint(
            level=level,
            trials=round(posterior.total[index]),
            right=round(posterior.correct[index]),
            fitted=float(fitted),
            low=float(low),
            high=float(high),
        )
        points.append(point)
    return tuple(points)


def _verdict(posterior: Posterior) -> Verdict:
    """Return where the threshold lies: among the tested levels, beyond the hardest, beyond the easiest, or undecided."""
    levels = posterior.grid.levels
    harder = posterior.probability_below(levels[0])
    easier = posterior.probability_above(levels[-1])
    if easier > BEYOND:
        return "sees none"
    if harder > BEYOND:
        return "sees all"
    if 1 - harder - easier > WITHIN:
        return "threshold"
    return "undecided"


def misfit_notes(posterior: Posterior) -> tuple[str, ...]:
    """Return a sentence if replies scatter about the curve more than chance allows."""
    fit_test = posterior.fit()
    if fit_test.p >= MISFIT:
        return ()
    p_text = "< 0.01" if fit_test.p < 0.01 else f"= {fit_test.p:.2f}"
    return (
        f"the curve does not fit (p {p_text}): answers scatter about it {fit_test.overdispersion:.1f} times as much as chance "
        "allows, and the interval is widened for that",
    )


def dips(points: Sequence[LevelPoint], unit: str) -> tuple[str, ...]:
    """Return a sentence for each level that is read significantly less often than the curve says and a harder level.

    Causes are borders of tiles, and sizes that suffer from the model's own scaling.
    """
    points_with_replies = [point for point in points if point.trials]
    best_harder_share = 0.0
    notes = []
    for point in points_with_replies:
        share = point.right / point.trials
        p = binomial_cdf(point.right, point.trials, point.fitted)
        if share < best_harder_share and p < DIP / len(points_with_replies):
            level = f"{point.level:g} {unit}".rstrip()
            notes.append(
                f"the curve does not only rise: at {level} only {point.right} of {point.trials} answers were right, "
                f"where {point.fitted:.0%} were to be expected, and {best_harder_share:.0%} were at a harder level"
            )
        if point.trials >= FEW:
            best_harder_share = max(best_harder_share, share)
    return tuple(notes)


class PlaceShare(Struct, frozen=True):
    """How often an object at a place was seen, with Wilson's interval. Places are counted row by row."""

    place: int
    trials: int = field(name="asked")
    right: int
    low: float
    high: float


def place_shares(answers: Iterable[tuple[float, bool]]) -> tuple[PlaceShare, ...]:
    """Return the share of right replies at each place, in the order of places."""
    verdicts_by_place: dict[int, list[bool]] = defaultdict(list)
    for place, is_right in answers:
        verdicts_by_place[int(place)].append(is_right)

    shares = []
    for place, verdicts in sorted(verdicts_by_place.items()):
        n_replies = len(verdicts)
        n_right = sum(verdicts)
        low, high = wilson(n_right / n_replies, n_replies)
        shares.append(PlaceShare(place, n_replies, n_right, low, high))
    return tuple(shares)


def total_shares(shares: Sequence[PlaceShare]) -> tuple[int, int]:
    """Return the numbers of right replies and of all replies over these places."""
    right = sum(share.right for share in shares)
    total = sum(share.trials for share in shares)
    return right, total
