"""What is known of a psychometric function after some answers: a posterior on a grid.

    psi(x) = guess + (1 - guess - lapse) * F(x),  F(x) = 1 / (1 + exp(-2 ln(19) (x - threshold) / width))

in the parameters of psignifit (Schütt et al. 2016, eq. 1 and 2): F is 0.5 at the threshold, and rises from 0.05 to 0.95
within the width. x is the logarithm to base 2 of a level, or the level itself, and grows with ease.

F may also rise in two steps with a plateau at 0.5, as where half of the images are harder than the others. Without such
curves, and without frequent lapses, questions gather where one narrow curve would be told best, and never show that the
curve is another one.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
THRESHOLDS, WIDTHS = 201, 12
"""Points of the grid along two of its four axes."""
LAPSES = (0.002, 0.015, 0.04, 0.08, 0.14, 0.24, 0.32)
"""Shares of answers that are wrong however easy the question is."""
SILENT_LAPSES = (*LAPSES, 0.4, 0.6)
"""Those where some replies named no option: a reader of text may find nothing in half of the pictures, however easy."""
FREQUENT_LAPSES = 0.03
"""Density that is added to (1 - lapse)^19 for any share of lapses: one model in six has any share up to 0.35."""
SILENT_FREQUENT_LAPSES = 0.01
"""The same where some replies named no option."""
RISES = {0.0: 0.6, 0.75: 0.4}
"""How curves rise, with prior probabilities: at once, or in two steps, each by so much narrower than the width."""
GUESSES = {0.7: 0.05, 1.0: 0.9, 1.3: 0.05}
"""Shares of right answers to what cannot be seen, in units of chance, with their prior probabilities. Options are
turned, so that whoever names one each time is right by chance or nearly so, whatever it prefers."""
SILENT_GUESSES = {0.02: 0.1, 0.35: 0.04, 0.7: 0.08, 1.0: 0.7, 1.3: 0.08}
"""Those where some replies named no option: a reader of text does not guess, and others do not always."""
STEEPNESS = 2 * np.log(1 / 0.05 - 1)
OVERDISPERSION = {0.0: 0.8, 0.2: 0.1, 0.4: 0.1}
"""Prior probabilities of psignifit's eta, by which shares of levels scatter about the curve; 0 is binomial."""
MISFIT_OVERDISPERSION = {0.2: 0.2, 0.4: 0.4, 0.6: 0.4}
"""Those where a curve that rises at once does not fit. Curves in two steps are left out then: they fit a notch above the
threshold as if it were the plateau."""
MARGIN = 0.5
"""How far beyond the levels a threshold may lie, in parts of their range."""
CREDIBILITY = 0.95
MEDIAN_AND_ENDS = (0.5, (1 - CREDIBILITY) / 2, (1 + CREDIBILITY) / 2)
FIT_DRAWS = 999
FITTED_PARAMETERS = 2
"""Parameters that answers determine, as a rule: the threshold and the width."""
BINS = 1000
"""Steps of probability in which a curve's interval is found."""


class Interval(NamedTuple):
    """A parameter's posterior median with its central credible interval."""

    value: float
    low: float
    high: float


class Fit(NamedTuple):
    """How well a curve fits."""

    p: float
    """Of the hypothesis that answers at a level are independent with the probability of the curve."""
    overdispersion: float
    """Pearson's statistic by its degrees of freedom, at least 1."""


class ParameterGrid:
    """All psychometric functions that are considered for a test, and how likely they are before any answer.

    Thresholds are equally likely within the levels, and less and less likely beyond. Widths lie around a sixth of the
    levels' range (an octave for sizes of letters), 95% within a factor of four. Lapses follow a mixture of Beta(1, 20)
    and a uniform distribution, and guess rates are near chance. Two curves in five rise in two steps. Where some
    replies name no option, more lapses and fewer guesses are likely, too.
    """

    def __init__(
        self,
        levels: Sequence[float],
        chance: float,
        always_answers: bool = True,
    ) -> None:
        self.levels, self.chance = np.asarray(levels, dtype=float), chance
        guesses = GUESSES if always_answers else SILENT_GUESSES
        least, most = self.levels.min(), self.levels.max()
        span = most - least
        self.thresholds = np.linspace(least - MARGIN * span, most + MARGIN * span, THRESHOLDS)
        self.widths = np.geomspace(span / 40, span, WIDTHS)
        self.lapses = np.array(LAPSES if always_answers else SILENT_LAPSES)
        frequent = FREQUENT_LAPSES if always_answers else SILENT_FREQUENT_LAPSES
        self.guesses = np.array(list(guesses)) * chance
        outside = np.maximum(
            np.maximum(least - self.thresholds, self.thresholds - most) / (MARGIN * span), 0.0
        )
        self._priors = (
            np.where(outside > 0, 0.5 + 0.5 * np.cos(np.pi * np.minimum(outside, 1.0)), 1.0),
            np.exp(-0.5 * np.log2(self.widths * 6 / span) ** 2),
            ((1 - self.lapses) ** 19 + frequent) * np.gradient(self.lapses),
            np.array(list(guesses.values())),
            np.array(list(RISES.values())),
        )

    @cached_property
    def prior(self) -> Array:
        """(T, K) the prior, which sums to 1: of thresholds, and of all else as in `shape`."""
        weights = np.ones(())
        for values in self._priors:
            weights = np.multiply.outer(weights, values / values.sum())
        return np.asarray(weights.reshape(len(self.thresholds), -1))

    @cached_property
    def right(self) -> npt.NDArray[np.float32]:
        """(T, N, K) probabilities of a right answer at each level."""
        distance = self.levels[:, None] - self.thresholds[:, None, None]
        rises = [_rise(distance, self.widths, narrower) for narrower in RISES]
        rise = np.stack(rises, axis=-1, dtype=np.float32)[:, :, :, None, None, :]
        guess = self.guesses[:, None].astype(np.float32)
        lapse = self.lapses[:, None, None].astype(np.float32)
        right = guess + (1 - guess - lapse) * rise
        return np.asarray(
            right.reshape(len(self.thresholds), len(self.levels), -1), dtype=np.float32
        )

    @cached_property
    def bins(self) -> tuple[npt.NDArray[np.int16], Array]:
        """(N, T * K) which of BINS equal parts of [0, 1] each probability of a right answer is in, and their ends."""
        right = self.right.swapaxes(0, 1).reshape(len(self.levels), -1)
        ends = np.histogram_bin_edges(right, BINS, (0, 1))
        places = [np.searchsorted(ends, row, side="right") - 1 for row in right]
        return np.clip(places, 0, BINS - 1).astype(np.int16), ends

    @property
    def shape(self) -> tuple[int, ...]:
        """Numbers of thresholds, widths, lapses, guess rates and rises."""
        return (
            len(self.thresholds),
            len(self.widths),
            len(self.lapses),
            len(self.guesses),
            len(RISES),
        )

    def likelihood(self, place: int, right: float, wrong: float) -> npt.NDArray[np.float32]:
        """(T, K) logarithms of how likely so many right and wrong answers at a level are."""
        probability = self.right[:, place]
        return np.asarray(
            np.float32(right) * np.log(probability) + np.float32(wrong) * np.log1p(-probability)
        )

    def overdispersed_likelihood(
        self, place: int, right: int, wrong: int, eta: float
    ) -> npt.NDArray[np.float32]:
        """Return `likelihood` of a beta-binomial distribution, whose parameters sum to 1 / eta^2 - 1.

        The share of a level is drawn from a beta distribution around the curve (Schütt et al. 2016, eq. 4), so that
        many answers at a level say less than as many at several.
        """
        probability = self.right[:, place]
        total = np.float32(1 / eta**2 - 1)
        logs = np.zeros_like(probability)
        for count in range(right):
            logs += np.log(probability * total + count)
        for count in range(wrong):
            logs += np.log((1 - probability) * total + count)
        for count in range(right + wrong):
            logs -= np.log(total + count)
        return np.asarray(logs)

    def likelihood_of_silence(self, silent: float, named: float) -> npt.NDArray[np.float32]:
        """(K,) logarithms of how likely so many wrong answers name no option, and so many a wrong one.

        Who names one with a probability of g where nothing is seen is right in a share of g times chance, and of the
        wrong answers g (1 - chance) / (1 - g chance) name an option.
        """
        names = np.minimum(self.guesses / self.chance, 1 - 1e-3)
        named_share = names * (1 - self.chance) / (1 - names * self.chance)
        logs = named * np.log(named_share) + silent * np.log1p(-named_share)
        logs_by_guess = np.broadcast_to(logs[:, None], self.shape[1:])
        return np.asarray(logs_by_guess.reshape(-1), dtype=np.float32)


def _rise(distance: Array, width: Array, narrower: float) -> Array:
    """Return F at a distance from the threshold: a logistic function, or the mean of two that are `narrower`.

    Two of width w are as far apart that their mean rises from 0.05 to 0.95 within the whole width: where it is 0.05,
    the first one is 0.1, a distance of w ln(9) / (2 ln(19)) below the middle of its rise.
    """
    step = (1 - narrower) * width
    apart = width - 2 * step * np.log(9) / STEEPNESS if narrower else np.zeros_like(width)
    first, second = (
        1 / (1 + np.exp(np.clip(-STEEPNESS * (distance + side * apart / 2) / step, -60, 60)))
        for side in (1, -1)
    )
    return np.asarray((first + second) / 2)


class Posterior:
    """What is known after `right` of `total` answers at each level were right; the order of answers does not matter."""

    def __init__(
        self,
        grid: ParameterGrid,
        right: npt.ArrayLike,
        total: npt.ArrayLike,
        weights: Array | None = None,
        silent: int = 0,
        overdispersion: Mapping[float, float] | None = None,
    ) -> None:
        """Weigh the grid by answers.

        Args:
            grid: The psychometric functions that are considered.
            right: Correct answers at each level, shape (N,).
            total: Answers at each level, shape (N,).
            weights: In proportion to what follows from the answers, if that is known already.
            silent: Wrong answers that named no option.
            overdispersion: Prior probabilities of eta in `overdispersed_likelihood`; by default, answers at a level
                are independent.
        """
        self.grid, self.right, self.total = (
            grid,
            np.asarray(right, dtype=float),
            np.asarray(total, dtype=float),
        )
        if weights is None:
            by_eta = {
                eta: self._log_likelihood(eta) + math.log(share)
                for eta, share in (overdispersion or {0.0: 1.0}).items()
            }
            most = max(float(logs.max()) for logs in by_eta.values())
            likelihood = sum(np.exp(logs - most) for logs in by_eta.values())
            if silent:
                logs = grid.likelihood_of_silence(
                    silent, float((self.total - self.right).sum()) - silent
                )
                likelihood = likelihood * np.exp(logs - logs.max())
            weights = grid.prior * likelihood
        self.weights: Array = weights / weights.sum()
        """(T, K) as the grid's prior."""

    def rising_at_once(self) -> Posterior:
        """Return the posterior of the curves that rise at once."""
        weights = self.weights.reshape(self.grid.shape).copy()
        weights[..., 1:] = 0
        return Posterior(self.grid, self.right, self.total, weights.reshape(self.weights.shape))

    def _log_likelihood(self, eta: float) -> Array:
        """(T, K) logarithms of how likely the answers are."""
        logs = np.zeros_like(self.grid.prior)
        for place in np.flatnonzero(self.total).tolist():
            right, wrong = self.right[place], self.total[place] - self.right[place]
            if eta:
                logs += self.grid.overdispersed_likelihood(place, round(right), round(wrong), eta)
            else:
                logs += self.grid.likelihood(place, right, wrong)
        return logs

    def _interval(self, axis: int, values: Array) -> Interval:
        """A parameter's median and central interval, between the points of the grid."""
        cube = self.weights.reshape(self.grid.shape)
        marginal = cube.sum(axis=tuple(set(range(cube.ndim)) - {axis}))
        ends = np.concatenate([[values[0]], (values[1:] + values[:-1]) / 2, [values[-1]]])
        return Interval(*np.interp(MEDIAN_AND_ENDS, [0.0, *np.cumsum(marginal)], ends).tolist())

    def beyond(self, x: float) -> float:
        """How likely the threshold is greater than x."""
        return float(self.weights[self.grid.thresholds > x].sum())

    def below(self, x: float) -> float:
        """How likely the threshold is less than x."""
        return float(self.weights[self.grid.thresholds < x].sum())

    @property
    def threshold(self) -> Interval:
        return self._interval(0, self.grid.thresholds)

    @property
    def width(self) -> Interval:
        return self._interval(1, self.grid.widths)

    @property
    def lapse(self) -> Interval:
        return self._interval(2, self.grid.lapses)

    @property
    def guess(self) -> Interval:
        return self._interval(3, self.grid.guesses)

    @cached_property
    def right_with_threshold(self) -> Array:
        """(N, T) the probability of each threshold together with a right answer at each level."""
        sums = np.matmul(self.grid.right, self.weights[..., None].astype(np.float32))
        return np.asarray(sums[..., 0].T, dtype=float)

    @property
    def mean_right(self) -> Array:
        """(N,) the mean probability of a right answer at each level."""
        return np.asarray(self.right_with_threshold.sum(axis=1))

    def fit(self, draws: int = FIT_DRAWS) -> Fit:
        """Test whether answers scatter about the curve as independent ones do.

        The statistic is Pearson's, sum_i (r_i - n_i p_i)^2 / (n_i p_i (1 - p_i)) over levels; its distribution is
        simulated with as many answers at each level, so that few answers at a level do no harm.
        """
        asked = self.total > 0
        total = self.total[asked]
        expected = np.clip(self.mean_right[asked], 1e-3, 1 - 1e-3)

        def pearson(right: Array) -> Array:
            deviation = (right - total * expected) ** 2 / (total * expected * (1 - expected))
            return np.asarray(deviation.sum(axis=-1))

        observed = float(pearson(self.right[asked]))
        rng = np.random.default_rng(0)
        simulated = pearson(
            rng.binomial(total.astype(int), expected, (draws, len(total))).astype(float)
        )
        p = (1 + int((simulated >= observed).sum())) / (draws + 1)
        freedom = max(1, len(total) - FITTED_PARAMETERS)
        return Fit(p, max(1.0, observed / freedom))

    def curve(self) -> Array:
        """(N, 3) the same, with its central interval to a thousandth."""
        bins, ends = self.grid.bins
        weights = self.weights.reshape(-1)
        shares = [np.bincount(row, weights, BINS) for row in bins]
        rows = [np.interp(MEDIAN_AND_ENDS[1:], [0.0, *np.cumsum(row)], ends) for row in shares]
        return np.column_stack([self.mean_right, rows])

    def most_informative(self, remaining: Sequence[int]) -> int:
        """The level whose answer is expected to leave the least entropy of the threshold, whatever the other parameters
        are (Kontsevich and Tyler 1999; Prins 2013), of those where questions remain."""
        places = np.flatnonzero(np.asarray(remaining))
        right = self.right_with_threshold[places]
        expected = _entropy_sum(right) + _entropy_sum(self.weights.sum(axis=1) - right)
        return int(places[np.argmin(expected)])

    def after(self, place: int) -> Posterior:
        """The posterior as it will be on average after one more answer at a level."""
        right, total, probability = (
            self.right.copy(),
            self.total.copy(),
            float(self.mean_right[place]),
        )
        right[place] += probability
        total[place] += 1
        factors = np.exp(self.grid.likelihood(place, probability, 1 - probability))
        return Posterior(self.grid, right, total, self.weights * factors)


def _entropy_sum(joint: Array) -> Array:
    """The entropy of each row's distribution, times the row's sum."""
    totals = joint.sum(axis=1, keepdims=True)
    shares = np.maximum(joint / totals, 1e-300)
    return np.asarray(-(totals * shares * np.log(shares)).sum(axis=1))


def at_most(right: int, total: int, probability: float) -> float:
    """The binomial probability of so few right answers."""
    return math.fsum(
        math.comb(total, count) * probability**count * (1 - probability) ** (total - count)
        for count in range(right + 1)
    )


AT_ONCE = 6
"""Questions of a test that are asked together at first, and again once its threshold is roughly known."""
CHECK_EVERY, FOLLOW_EVERY = 12, 4
"""One question of so many is a check at an easier level, which shows lapses, and curves that do not rise; and one of so
many goes back to a level whose answers were a surprise."""
SURPRISE, ESTABLISHED = 0.1, 1e-4
"""Probability of so few right answers at a level below which they are a surprise, and below which nothing is left to
find out about it."""
SURE = 0.975
"""Probability that the threshold lies beyond the levels from which no more is asked."""


def number_at_once(n_asked: int) -> int:
    """How many questions to ask together after so many: few while an answer changes where to ask next."""
    return min((n_asked + 2) // 4, AT_ONCE) if n_asked else AT_ONCE


def next_levels(
    posterior: Posterior, remaining: Sequence[int], count: int, rng: random.Random
) -> list[int]:
    """The levels of the next `count` questions: at first evenly over all levels, so that any two models share some
    questions; then each is the most informative one if those before it are answered as expected, but for checks.
    `remaining` says how many questions each level still has."""
    n_asked = round(float(posterior.total.sum()))
    if not n_asked:
        return [(2 * number + 1) * len(remaining) // (2 * count) for number in range(count)]
    free, levels = list(remaining), list[int]()
    for number in range(n_asked + 1, n_asked + 1 + min(count, sum(free))):
        level = posterior.most_informative(free)
        easier = [place for place in range(level + 1, len(free)) if free[place]]
        if (
            easier
            and number % FOLLOW_EVERY == 0
            and (surprising := _surprising(posterior, easier)) is not None
        ):
            level = surprising
        elif easier and number % CHECK_EVERY == 0:
            level = min(easier, key=lambda place: (posterior.total[place], rng.random()))
        levels.append(level)
        free[level] -= 1
        posterior = posterior.after(level)
    return levels


def _surprising(posterior: Posterior, places: Sequence[int]) -> int | None:
    """The level with the least likely answers of those that have too few right ones, unless that is established."""
    expected = posterior.mean_right
    chances = {
        place: at_most(
            round(posterior.right[place]), round(posterior.total[place]), expected[place]
        )
        for place in places
    }
    doubtful = [place for place in places if ESTABLISHED < chances[place] < SURPRISE]
    return min(doubtful, key=chances.__getitem__, default=None)


def is_known(posterior: Posterior, width: float) -> bool:
    """Whether the interval is no wider than `width` (in units of x), or the threshold surely beyond the levels."""
    interval, levels = posterior.threshold, posterior.grid.levels
    beyond = max(posterior.beyond(levels[-1]), posterior.below(levels[0]))
    return posterior.total.sum() >= 2 * AT_ONCE and (
        interval.high - interval.low <= width or beyond > SURE
    )
