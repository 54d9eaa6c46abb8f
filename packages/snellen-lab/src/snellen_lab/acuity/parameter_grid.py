"""Psychometric functions on a grid of parameters, with their prior probabilities.

    psi(x) = guess + (1 - guess - lapse) * F(x),  F(x) = 1 / (1 + exp(-2 ln(19) (x - threshold) / width))

in the parameters of psignifit (Schütt et al. 2016, eq. 1 and 2): F is 0.5 at the threshold, and rises from 0.05 to 0.95
within the width. x is the logarithm to base 2 of a level, or the level itself, and grows with ease.

F may also rise in two steps with a plateau at 0.5, for example if half of the images are harder than the others.
Without such curves, and without frequent lapses, questions would gather where one narrow curve is estimated best, and
would never show that the curve has another form.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Array32 = npt.NDArray[np.float32]

N_THRESHOLDS = 201
N_WIDTHS = 12
LAPSES = (0.002, 0.015, 0.04, 0.08, 0.14, 0.24, 0.32)
"""Lapse rates: shares of replies that are wrong however easy the question is."""
SILENT_LAPSES = (*LAPSES, 0.4, 0.6)
"""Lapse rates if some replies named no option: a model that reads text may find none in half of all images."""
FREQUENT_LAPSES = 0.03
"""Density that is added to (1 - lapse)^19 for every lapse rate: one model in six has any rate up to 0.35."""
SILENT_FREQUENT_LAPSES = 0.01
"""The same density if some replies named no option."""
RISES = {0.0: 0.6, 0.75: 0.4}
"""Prior probabilities of the forms of a curve. 0 is a single rise; s > 0 is two rises, each narrower by a share of s
than the width."""
GUESSES = {0.7: 0.05, 1.0: 0.9, 1.3: 0.05}
"""Prior probabilities of the guess rate, as a multiple of chance. The options of a question are rotated, so a model that
sees nothing and always names an option is correct about as often as chance, whichever option it prefers."""
SILENT_GUESSES = {0.02: 0.1, 0.35: 0.04, 0.7: 0.08, 1.0: 0.7, 1.3: 0.08}
"""Prior probabilities of the guess rate if some replies named no option: such a model may guess rarely or never."""
STEEPNESS = 2 * np.log(1 / 0.05 - 1)
"""2 ln(19): the slope of the logistic function that rises from 0.05 to 0.95 within a width of 1."""
MARGIN = 0.5
"""How far beyond the levels a threshold may be, as a share of their range."""
N_BINS = 1000
"""Bins of probability in which the interval of a curve is computed."""


class ParameterGrid:
    """All psychometric functions that are considered for a test, with their prior probabilities.

    Thresholds are uniform within the levels and less and less likely beyond. Widths are around a sixth of the range of
    levels (an octave for sizes of letters), 95% of them within a factor of four. Lapse rates follow a mixture of
    Beta(1, 20) and a uniform distribution, and guess rates are near chance. Two curves in five rise in two steps. If
    some replies name no option, more lapses and fewer guesses are likely, too.

    In the shapes of arrays below, T counts thresholds, N levels, and K all combinations of the other four parameters.
    """

    def __init__(
        self,
        levels: Sequence[float],
        chance: float,
        always_answers: bool = True,
    ) -> None:
        """Lay out the grid and its priors.

        Args:
            levels: The levels as x, from the hardest to the easiest.
            chance: Probability that a random option is right.
            always_answers: Whether each reply named an option.
        """
        self.levels = np.asarray(levels, dtype=float)
        self.chance = chance
        lapses = LAPSES if always_answers else SILENT_LAPSES
        frequent_lapses = FREQUENT_LAPSES if always_answers else SILENT_FREQUENT_LAPSES
        guesses = GUESSES if always_answers else SILENT_GUESSES

        lowest = self.levels.min()
        highest = self.levels.max()
        span = highest - lowest
        self.thresholds = np.linspace(lowest - MARGIN * span, highest + MARGIN * span, N_THRESHOLDS)
        self.widths = np.geomspace(span / 40, span, N_WIDTHS)
        self.lapses = np.array(lapses)
        self.guesses = np.array(list(guesses)) * chance

        # Uniform within the levels; a half cosine that falls to 0 over the margin on both sides.
        distance = np.maximum(lowest - self.thresholds, self.thresholds - highest)
        outside = np.maximum(distance / (MARGIN * span), 0.0)
        falling = 0.5 + 0.5 * np.cos(np.pi * np.minimum(outside, 1.0))
        threshold_prior = np.where(outside > 0, falling, 1.0)

        # Normal in octaves around a sixth of the span, with a standard deviation of one octave.
        octaves = np.log2(self.widths * 6 / span)
        width_prior = np.exp(-0.5 * octaves**2)

        # Beta(1, 20) with a uniform part, weighted by the spacing of the grid.
        lapse_density = (1 - self.lapses) ** 19 + frequent_lapses
        lapse_prior = lapse_density * np.gradient(self.lapses)

        self._priors = (
            threshold_prior,
            width_prior,
            lapse_prior,
            np.array(list(guesses.values())),
            np.array(list(RISES.values())),
        )

    @property
    def shape(self) -> tuple[int, ...]:
        """Numbers of thresholds, widths, lapse rates, guess rates and forms of the rise."""
        return tuple(len(prior) for prior in self._priors)

    @cached_property
    def prior(self) -> Array:
        """Prior probabilities of all curves, shape (T, K), which sum to 1: products of the priors of their parameters."""
        probabilities = np.ones(())
        for prior in self._priors:
            probabilities = np.multiply.outer(probabilities, prior / prior.sum())
        return np.asarray(probabilities.reshape(len(self.thresholds), -1))

    @cached_property
    def correct_probability(self) -> Array32:
        """Probability of a correct reply on each curve at each level, shape (T, N, K)."""
        # Distance of level n from threshold t: shape (T, N, 1), to be combined with the widths.
        distance = self.levels[:, None] - self.thresholds[:, None, None]
        rises = [_rise(distance, self.widths, narrowing) for narrowing in RISES]
        # Axes: threshold, level, width, lapse, guess and form of the rise.
        rise = np.stack(rises, axis=-1, dtype=np.float32)[:, :, :, None, None, :]
        guess = self.guesses[:, None].astype(np.float32)
        lapse = self.lapses[:, None, None].astype(np.float32)
        probability = guess + (1 - guess - lapse) * rise
        all_curves = probability.reshape(len(self.thresholds), len(self.levels), -1)
        return np.asarray(all_curves, dtype=np.float32)

    @cached_property
    def bins(self) -> tuple[npt.NDArray[np.int16], Array]:
        """The probabilities of a correct reply, sorted into `N_BINS` equal intervals of [0, 1].

        First the index of the interval for each level and curve, shape (N, T * K), then the edges of the intervals.
        """
        by_level = self.correct_probability.swapaxes(0, 1).reshape(len(self.levels), -1)
        edges = np.histogram_bin_edges(by_level, N_BINS, (0, 1))
        indices = [
            np.searchsorted(edges, probabilities, side="right") - 1 for probabilities in by_level
        ]
        return np.clip(indices, 0, N_BINS - 1).astype(np.int16), edges

    def log_likelihood(self, level_index: int, correct: float, wrong: float) -> Array32:
        """Return the log-likelihood of each curve, shape (T, K), after some correct and wrong replies at a level."""
        probability = self.correct_probability[:, level_index]
        logs_of_correct = np.float32(correct) * np.log(probability)
        logs_of_wrong = np.float32(wrong) * np.log1p(-probability)
        return np.asarray(logs_of_correct + logs_of_wrong)

    def overdispersed_log_likelihood(
        self, level_index: int, correct: int, wrong: int, eta: float
    ) -> Array32:
        """Return the log-likelihood of each curve, shape (T, K), if replies at a level depend on each other.

        The share of correct replies at a level is drawn from a beta distribution around the curve, so that their number has
        a beta-binomial distribution (Schütt et al. 2016, eq. 4). Many replies at one level then say less than as many at
        several levels.

        Args:
            level_index: Index of the level.
            correct: Number of correct replies at the level.
            wrong: Number of wrong replies.
            eta: How much shares scatter, in (0, 1): the parameters of the beta distribution sum to 1 / eta^2 - 1.
        """
        probability = self.correct_probability[:, level_index]
        concentration = np.float32(1 / eta**2 - 1)
        logs = np.zeros_like(probability)
        # The beta-binomial likelihood as a product of one factor per reply (Polya's urn).
        for count in range(correct):
            logs += np.log(probability * concentration + count)
        for count in range(wrong):
            logs += np.log((1 - probability) * concentration + count)
        for count in range(correct + wrong):
            logs -= np.log(concentration + count)
        return np.asarray(logs)

    def silence_log_likelihood(self, n_silent: float, n_naming: float) -> Array32:
        """Return the log-likelihood that so many wrong replies name no option, and so many name a wrong one.

        A model that sees nothing may still name an option, with a probability g. It is then correct with probability
        g * chance. So g (1 - chance) / (1 - g * chance) of its wrong replies name an option.

        Args:
            n_silent: Number of wrong replies that name no option.
            n_naming: Number of wrong replies that name one.

        Returns:
            The log-likelihood for all combinations of width, lapse rate, guess rate and form of the rise, shape (K,). It
            only depends on the guess rate, which is g * chance.
        """
        naming_probability = np.minimum(self.guesses / self.chance, 1 - 1e-3)
        wrong_and_naming = naming_probability * (1 - self.chance)
        wrong = 1 - naming_probability * self.chance
        naming_share = wrong_and_naming / wrong
        logs_by_guess = n_naming * np.log(naming_share) + n_silent * np.log1p(-naming_share)

        # The last two axes of the grid are guess rate and form of the rise.
        logs = np.broadcast_to(logs_by_guess[:, None], self.shape[1:])
        return np.asarray(logs.reshape(-1), dtype=np.float32)


def _rise(distance: Array, width: Array, narrowing: float) -> Array:
    """Return F, the rising part of a curve between 0 and 1, at some distances from the threshold.

    With a narrowing of 0, F is one logistic function that rises from 0.05 to 0.95 within `width`. Otherwise F is the
    mean of two logistic functions, each of the width w = (1 - narrowing) * width. The distance of their centres is such
    that the mean rises from 0.05 to 0.95 within `width`: where the mean is 0.05, the first function is 0.1, which it is
    w ln(9) / (2 ln(19)) below its centre.

    Args:
        distance: Level minus threshold, shape (T, N, 1).
        width: Widths, shape (W,).
        narrowing: A key of `RISES`, in [0, 1).

    Returns:
        F, shape (T, N, W).
    """
    step_width = (1 - narrowing) * width
    if narrowing:
        separation = width - 2 * step_width * np.log(9) / STEEPNESS
    else:
        separation = np.zeros_like(width)

    def logistic(offset: Array) -> Array:
        exponent = np.clip(-STEEPNESS * (distance + offset) / step_width, -60, 60)
        return np.asarray(1 / (1 + np.exp(exponent)))

    first = logistic(separation / 2)
    second = logistic(-separation / 2)
    return np.asarray((first + second) / 2)
