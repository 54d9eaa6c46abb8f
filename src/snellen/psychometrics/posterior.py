"""What is known of a psychometric function after some answers: a posterior on a grid.

    psi(x) = guess + (1 - guess - lapse) * F(x),  F(x) = 1 / (1 + exp(-2 ln(19) (x - threshold) / width))

in the parameters of psignifit (Schütt et al. 2016, eq. 1 and 2): F is 0.5 at the threshold, and rises from 0.05 to 0.95
within the width. x is the logarithm to base 2 of a level, or the level itself, and grows with ease.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

from snellen.errors import MissingExtraError

try:
    import numpy as np
    import numpy.typing as npt
except ImportError:
    raise MissingExtraError("numpy", "metrics", "measuring thresholds") from None

Array = npt.NDArray[np.float64]
THRESHOLDS, WIDTHS = 201, 12
"""Points of the grid along two of its four axes."""
LAPSES = (0.002, 0.015, 0.04, 0.08, 0.14, 0.24)
"""Shares of answers that are wrong however easy the question is."""
GUESSES = {0.02: 0.1, 0.35: 0.04, 0.7: 0.08, 1.0: 0.7, 1.3: 0.08}
"""Shares of right answers to what cannot be seen, in units of chance, with their prior probabilities. A reader of text
does not guess; a model that will not always answer is below chance, one with a lucky taste for an option above."""
STEEPNESS = 2 * np.log(1 / 0.05 - 1)
MARGIN = 0.5
"""How far beyond the levels a threshold may lie, in parts of their range."""
LEVEL = 0.95


class Interval(NamedTuple):
    """A parameter's posterior median with its central credible interval."""

    value: float
    low: float
    high: float


class ParameterGrid:
    """All psychometric functions that are considered for a test, and how likely they are before any answer.

    Thresholds are equally likely within the levels, and less and less likely beyond. Widths lie around a sixth of the
    levels' range (an octave for sizes of letters), 95 % within a factor of four; lapses follow Beta(1, 20), and guess
    rates are at chance or near, or nothing.
    """

    def __init__(self, levels: Sequence[float], chance: float) -> None:
        self.levels, self.chance = np.asarray(levels, dtype=float), chance
        least, most = self.levels.min(), self.levels.max()
        span = most - least
        self.thresholds = np.linspace(least - MARGIN * span, most + MARGIN * span, THRESHOLDS)
        self.widths = np.geomspace(span / 40, span, WIDTHS)
        self.lapses, self.guesses = np.array(LAPSES), np.array(list(GUESSES)) * chance
        outside = np.maximum(np.maximum(least - self.thresholds, self.thresholds - most) / (MARGIN * span), 0.0)
        self._priors = (
            np.where(outside > 0, 0.5 + 0.5 * np.cos(np.pi * np.minimum(outside, 1.0)), 1.0),
            np.exp(-0.5 * np.log2(self.widths * 6 / span) ** 2),
            (1 - self.lapses) ** 19 * np.gradient(self.lapses),
            np.array(list(GUESSES.values())),
        )

    @cached_property
    def log_prior(self) -> Array:
        """(T, W, L, G) logarithms of the prior, which sums to 1."""
        weights = np.ones(())
        for values in self._priors:
            weights = np.multiply.outer(weights, values / values.sum())
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(weights))

    @cached_property
    def right(self) -> Array:
        """(N, T, W, L, G) probabilities of a right answer at each level."""
        x = self.levels[:, None, None]
        rise = 1 / (1 + np.exp(-STEEPNESS * (x - self.thresholds[None, :, None]) / self.widths))
        guess, lapse = self.guesses[None, :], self.lapses[:, None]
        return np.asarray(guess + (1 - guess - lapse) * rise[..., None, None])

    @cached_property
    def right_by_threshold(self) -> Array:
        """(T, N, W * L * G) the same, in the order in which placement sums over all but the threshold."""
        flat = self.right.reshape(len(self.levels), len(self.thresholds), -1)
        return np.ascontiguousarray(flat.swapaxes(0, 1))

    @cached_property
    def logs(self) -> tuple[Array, Array]:
        """The logarithms of `right` and of its complement."""
        return np.log(self.right), np.log1p(-self.right)


class Posterior:
    """What is known after `right` of `asked` answers at each level were right; the order of answers does not matter."""

    def __init__(self, grid: ParameterGrid, right: npt.ArrayLike, asked: npt.ArrayLike) -> None:
        self.grid, self.right, self.asked = grid, np.asarray(right, dtype=float), np.asarray(asked, dtype=float)
        log_right, log_wrong = grid.logs
        used = np.flatnonzero(self.asked)
        logs = grid.log_prior + np.tensordot(self.right[used], log_right[used], 1)
        logs = logs + np.tensordot((self.asked - self.right)[used], log_wrong[used], 1)
        weights = np.exp(logs - logs.max())
        self.weights: Array = weights / weights.sum()

    def interval(self, axis: int, values: Array, level: float = LEVEL) -> Interval:
        """A parameter's median and central interval, between the points of the grid."""
        marginal = self.weights.sum(axis=tuple(other for other in range(4) if other != axis))
        ends = np.concatenate([[values[0]], (values[1:] + values[:-1]) / 2, [values[-1]]])
        cumulative = np.concatenate([[0.0], np.cumsum(marginal)])
        middle, low, high = np.interp([0.5, (1 - level) / 2, (1 + level) / 2], cumulative, ends)
        return Interval(float(middle), float(low), float(high))

    def beyond(self, x: float) -> float:
        """How likely the threshold is greater than x."""
        return float(self.weights[self.grid.thresholds > x].sum())

    def below(self, x: float) -> float:
        """How likely the threshold is less than x."""
        return float(self.weights[self.grid.thresholds < x].sum())

    @property
    def threshold(self) -> Interval:
        return self.interval(0, self.grid.thresholds)

    @property
    def width(self) -> Interval:
        return self.interval(1, self.grid.widths)

    @property
    def lapse(self) -> Interval:
        return self.interval(2, self.grid.lapses)

    @property
    def guess(self) -> Interval:
        return self.interval(3, self.grid.guesses)

    @property
    def mean_right(self) -> Array:
        """(N,) the mean probability of a right answer at each level."""
        return np.asarray(self.grid.right.reshape(len(self.grid.levels), -1) @ self.weights.ravel())

    def curve(self) -> Array:
        """(N, 3) the same, with its central interval."""
        flat, weights = self.grid.right.reshape(len(self.grid.levels), -1), self.weights.ravel()
        rows = []
        for values in flat:
            order = np.argsort(values)
            cumulative = np.cumsum(weights[order])
            ends = np.searchsorted(cumulative, [(1 - LEVEL) / 2, (1 + LEVEL) / 2]).clip(max=len(order) - 1)
            rows.append(values[order[ends]])
        return np.column_stack([self.mean_right, rows])

    def most_informative(self, left: Sequence[int]) -> int:
        """The level whose answer is expected to leave the least entropy of the threshold, whatever the other parameters
        are (Kontsevich and Tyler 1999; Prins 2013), of those where questions are left."""
        places = np.flatnonzero(np.asarray(left))
        flat = self.weights.reshape(len(self.grid.thresholds), -1)
        marginal = flat.sum(axis=1)
        right = np.matmul(self.grid.right_by_threshold[:, places], flat[..., None])[..., 0].T
        expected = _entropy_sum(right) + _entropy_sum(marginal - right)
        return int(places[np.argmin(expected)])

    def after(self, place: int) -> Posterior:
        """The posterior as it will be on average after one more answer at a level."""
        right, asked = self.right.copy(), self.asked.copy()
        right[place] += float(np.vdot(self.grid.right[place], self.weights))
        asked[place] += 1
        return Posterior(self.grid, right, asked)


def _entropy_sum(joint: Array) -> Array:
    """The entropy of each row's distribution, times the row's sum."""
    totals = joint.sum(axis=1, keepdims=True)
    shares = np.maximum(joint / totals, 1e-300)
    return np.asarray(-(totals * shares * np.log(shares)).sum(axis=1))


def at_most(right: int, asked: int, probability: float) -> float:
    """The binomial probability of so few right answers."""
    return math.fsum(
        math.comb(asked, count) * probability**count * (1 - probability) ** (asked - count)
        for count in range(right + 1)
    )


def counts_by_level(answers: Sequence[tuple[int, bool]], levels: int) -> tuple[Array, Array]:
    """How many answers were right, and how many there were, at each level; from pairs of a level and whether right."""
    right, asked = np.zeros(levels), np.zeros(levels)
    for place, is_right in answers:
        asked[place] += 1
        right[place] += is_right
    return right, asked
