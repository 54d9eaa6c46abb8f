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
"""Shares of replies that are wrong however easy the question is."""
SILENT_LAPSES = (*LAPSES, 0.4, 0.6)
"""Lapses if some replies named no option: a text reader may find nothing in half of the images, however easy."""
FREQUENT_LAPSES = 0.03
"""Density that is added to (1 - lapse)^19 for every lapse rate: one model in six has any rate up to 0.35."""
SILENT_FREQUENT_LAPSES = 0.01
"""The same density if some replies named no option."""
RISES = {0.0: 0.6, 0.75: 0.4}
"""Prior probabilities of the forms of a curve. 0 is a single rise; s > 0 is two rises, each narrower by a share of s
than the width."""
GUESSES = {0.7: 0.05, 1.0: 0.9, 1.3: 0.05}
"""Prior probabilities of the guess rate, in units of chance. Options are rotated, so that a model that always names one
is right by chance or nearly so, whatever it prefers."""
SILENT_GUESSES = {0.02: 0.1, 0.35: 0.04, 0.7: 0.08, 1.0: 0.7, 1.3: 0.08}
"""The same if some replies named no option: a text reader does not guess, and other models do not always."""
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
        """Prior probabilities, shape (T, K), which sum to 1."""
        weights = np.ones(())
        for values in self._priors:
            weights = np.multiply.outer(weights, values / values.sum())
        return np.asarray(weights.reshape(len(self.thresholds), -1))

    @cached_property
    def right(self) -> Array32:
        """Probabilities of a correct reply, shape (T, N, K)."""
        distance = self.levels[:, None] - self.thresholds[:, None, None]
        rises = [_rise(distance, self.widths, narrowing) for narrowing in RISES]
        # The axes are threshold, level, width, lapse, guess and rise.
        rise = np.stack(rises, axis=-1, dtype=np.float32)[:, :, :, None, None, :]
        guess = self.guesses[:, None].astype(np.float32)
        lapse = self.lapses[:, None, None].astype(np.float32)
        right = guess + (1 - guess - lapse) * rise
        flat = right.reshape(len(self.thresholds), len(self.levels), -1)
        return np.asarray(flat, dtype=np.float32)

    @cached_property
    def bins(self) -> tuple[npt.NDArray[np.int16], Array]:
        """Bin of each probability of a correct reply, shape (N, T * K), and the edges of the bins in [0, 1]."""
        right = self.right.swapaxes(0, 1).reshape(len(self.levels), -1)
        edges = np.histogram_bin_edges(right, N_BINS, (0, 1))
        indexes = [np.searchsorted(edges, row, side="right") - 1 for row in right]
        return np.clip(indexes, 0, N_BINS - 1).astype(np.int16), edges

    def log_likelihood(self, level_index: int, right: float, wrong: float) -> Array32:
        """Return the log-likelihood of this many right and wrong replies at a level, shape (T, K)."""
        probability = self.right[:, level_index]
        right_logs = np.float32(right) * np.log(probability)
        wrong_logs = np.float32(wrong) * np.log1p(-probability)
        return np.asarray(right_logs + wrong_logs)

    def overdispersed_log_likelihood(
        self, level_index: int, right: int, wrong: int, eta: float
    ) -> Array32:
        """Return `log_likelihood` of a beta-binomial distribution, whose parameters sum to 1 / eta^2 - 1.

        The share of right replies at a level is drawn from a beta distribution around the curve (Schütt et al. 2016,
        eq. 4), so that many replies at one level say less than as many at several levels.
        """
        probability = self.right[:, level_index]
        total = np.float32(1 / eta**2 - 1)
        logs = np.zeros_like(probability)
        for count in range(right):
            logs += np.log(probability * total + count)
        for count in range(wrong):
            logs += np.log((1 - probability) * total + count)
        for count in range(right + wrong):
            logs -= np.log(total + count)
        return np.asarray(logs)

    def silence_log_likelihood(self, n_silent: float, n_naming: float) -> Array32:
        """Return the log-likelihood, shape (K,), that `n_silent` wrong replies name no option and `n_naming` ones do.

        A model that sees nothing and names an option with probability g is right with probability g * chance. Of its
        wrong replies, a share of g (1 - chance) / (1 - g chance) names an option.
        """
        naming = np.minimum(self.guesses / self.chance, 1 - 1e-3)
        named_share = naming * (1 - self.chance) / (1 - naming * self.chance)
        logs = n_naming * np.log(named_share) + n_silent * np.log1p(-named_share)
        logs_by_guess = np.broadcast_to(logs[:, None], self.shape[1:])
        return np.asarray(logs_by_guess.reshape(-1), dtype=np.float32)


def _rise(distance: Array, width: Array, narrowing: float) -> Array:
    """Return F at a distance from the threshold: a logistic function, or the mean of two.

    Two logistic functions of width w have centres that are apart by as much as lets their mean rise from 0.05 to 0.95
    within the whole width: where the mean is 0.05, the first function is 0.1, at a distance of w ln(9) / (2 ln(19))
    below its centre.
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
