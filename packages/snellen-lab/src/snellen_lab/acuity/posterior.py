"""Posterior distribution of a psychometric function: of how the share of correct replies grows as questions get easier."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from snellen_lab.acuity.parameter_grid import N_BINS, Array, ParameterGrid

OVERDISPERSION = {0.0: 0.8, 0.2: 0.1, 0.4: 0.1}
"""Prior probabilities of psignifit's eta: how much the shares at levels scatter around the curve; 0 is binomial."""
MISFIT_OVERDISPERSION = {0.2: 0.2, 0.4: 0.4, 0.6: 0.4}
"""Prior probabilities of eta if a curve with a single rise does not fit. Curves with two rises are left out then: they
fit a notch above the threshold as if it were the plateau."""
CREDIBILITY = 0.95
MEDIAN_AND_ENDS = (0.5, (1 - CREDIBILITY) / 2, (1 + CREDIBILITY) / 2)
FIT_DRAWS = 999
FITTED_PARAMETERS = 2
"""Parameters that replies usually determine: the threshold and the width."""


class Interval(NamedTuple):
    """A parameter's posterior median with its central credible interval."""

    value: float
    low: float
    high: float


class Fit(NamedTuple):
    """Result of a test of whether a curve fits."""

    p: float
    """p-value of the hypothesis that replies at a level are independent, with the probability of the curve."""
    overdispersion: float
    """Pearson's statistic divided by its degrees of freedom, at least 1."""


class Posterior:
    """Posterior probabilities of the curves in a `ParameterGrid`, given the replies at each level.

    The order of replies does not matter. In the shapes of arrays, T counts thresholds, N levels, and K all combinations
    of the other parameters.
    """

    def __init__(
        self,
        grid: ParameterGrid,
        correct: npt.ArrayLike,
        total: npt.ArrayLike,
        weights: Array | None = None,
        silent: int = 0,
        overdispersion: Mapping[float, float] | None = None,
    ) -> None:
        """Compute the posterior from replies.

        Args:
            grid: The curves that are considered, with their prior probabilities.
            correct: Number of correct replies at each level, shape (N,).
            total: Number of replies at each level, shape (N,).
            weights: Numbers in proportion to the posterior, shape (T, K), if they have been computed already.
            silent: Number of wrong replies that named no option.
            overdispersion: Prior probabilities of eta in `ParameterGrid.overdispersed_log_likelihood`; by default,
                replies at a level are independent.
        """
        self.grid = grid
        self.correct = np.asarray(correct, dtype=float)
        self.total = np.asarray(total, dtype=float)
        if weights is None:
            likelihood = self._likelihood(silent, overdispersion or {0.0: 1.0})
            weights = grid.prior * likelihood
        self.weights: Array = weights / weights.sum()
        """Posterior probabilities, shape (T, K)."""

    def _likelihood(self, silent: int, overdispersion: Mapping[float, float]) -> Array:
        """Return numbers in proportion to the likelihood of the replies on each curve, shape (T, K).

        Args:
            silent: Number of wrong replies that named no option.
            overdispersion: Prior probabilities of eta, over which the likelihood is averaged.
        """
        logs_by_eta = []
        for eta, probability in overdispersion.items():
            logs_by_eta.append(self._log_likelihood(eta) + math.log(probability))
        # The largest logarithm is subtracted, so that exp() does not underflow everywhere.
        largest = max(float(logs.max()) for logs in logs_by_eta)
        likelihood = np.asarray(sum(np.exp(logs - largest) for logs in logs_by_eta))
        if silent:
            wrong = float((self.total - self.correct).sum())
            logs_of_silence = self.grid.silence_log_likelihood(silent, wrong - silent)
            likelihood = likelihood * np.exp(logs_of_silence - logs_of_silence.max())
        return likelihood

    def _log_likelihood(self, eta: float) -> Array:
        """Return the log-likelihood of the replies on each curve, shape (T, K).

        Args:
            eta: How much shares scatter around the curve (`ParameterGrid.overdispersed_log_likelihood`); 0 if replies are
                independent.
        """
        logs = np.zeros_like(self.grid.prior)
        for level_index in np.flatnonzero(self.total).tolist():
            correct = self.correct[level_index]
            wrong = self.total[level_index] - correct
            if eta:
                logs += self.grid.overdispersed_log_likelihood(
                    level_index, round(correct), round(wrong), eta
                )
            else:
                logs += self.grid.log_likelihood(level_index, correct, wrong)
        return logs

    def with_single_rise(self) -> Posterior:
        """Return the posterior under the condition that the curve rises once, without a plateau."""
        weights = self.weights.reshape(self.grid.shape).copy()
        weights[..., 1:] = 0  # the last axis is the form of the rise; index 0 is a single rise
        return Posterior(self.grid, self.correct, self.total, weights.reshape(self.weights.shape))

    def _interval(self, axis: int, values: Array) -> Interval:
        """Return the median and the central 95% interval of a parameter, interpolated between the points of the grid.

        Args:
            axis: Axis of the parameter in the grid.
            values: Values of the parameter along this axis.
        """
        weights = self.weights.reshape(self.grid.shape)
        other_axes = tuple(other for other in range(weights.ndim) if other != axis)
        probabilities = weights.sum(axis=other_axes)
        cumulative = [0.0, *np.cumsum(probabilities)]
        # A value stands for the part of the axis that is nearer to it than to the other values.
        midpoints = (values[1:] + values[:-1]) / 2
        edges = np.concatenate([[values[0]], midpoints, [values[-1]]])
        median_and_ends = np.interp(MEDIAN_AND_ENDS, cumulative, edges).tolist()
        return Interval(*median_and_ends)

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

    def probability_above(self, x: float) -> float:
        """Return the probability that the threshold is greater than x."""
        return float(self.weights[self.grid.thresholds > x].sum())

    def probability_below(self, x: float) -> float:
        """Return the probability that the threshold is less than x."""
        return float(self.weights[self.grid.thresholds < x].sum())

    @cached_property
    def joint_correct_and_threshold(self) -> Array:
        """Joint probability of a correct reply at level n and of threshold t, shape (N, T)."""
        # For each threshold, (N, K) probabilities times the (K, 1) weights of the curves with that threshold.
        weights_of_curves = self.weights[..., None].astype(np.float32)
        sums = np.matmul(self.grid.correct_probability, weights_of_curves)
        return np.asarray(sums[..., 0].T, dtype=float)

    @property
    def mean_correct_probability(self) -> Array:
        """Mean probability of a correct reply at each level, shape (N,)."""
        return np.asarray(self.joint_correct_and_threshold.sum(axis=1))

    def fit(self, draws: int = FIT_DRAWS) -> Fit:
        """Test whether the shares of correct replies scatter around the curve as those of independent replies do.

        The statistic is Pearson's, sum_i (r_i - n_i p_i)^2 / (n_i p_i (1 - p_i)) over levels, for r_i correct replies of
        n_i and the probability p_i of the curve. Its distribution is simulated with the same number of replies at each
        level, so that the test is valid for few replies, too.

        Args:
            draws: Number of simulations.
        """
        has_replies = self.total > 0
        total = self.total[has_replies]
        expected = np.clip(self.mean_correct_probability[has_replies], 1e-3, 1 - 1e-3)

        variance = (
            total * expected * (1 - expected)
        )  # of the number of correct replies at each level

        def pearson(correct: Array) -> Array:
            squared_deviations = (correct - total * expected) ** 2
            return np.asarray((squared_deviations / variance).sum(axis=-1))

        observed = float(pearson(self.correct[has_replies]))
        rng = np.random.default_rng(0)
        simulated_correct = rng.binomial(total.astype(int), expected, (draws, len(total)))
        simulated = pearson(simulated_correct.astype(float))
        n_as_extreme = int((simulated >= observed).sum())
        p = (1 + n_as_extreme) / (draws + 1)
        degrees_of_freedom = max(1, len(total) - FITTED_PARAMETERS)
        return Fit(p, max(1.0, observed / degrees_of_freedom))

    def curve(self) -> Array:
        """Return the curve at each level: the mean probability of a correct reply and the ends of its 95% interval.

        Returns:
            Shape (N, 3). The ends are exact to a thousandth, because probabilities are sorted into bins.
        """
        bins, edges = self.grid.bins
        weights = self.weights.reshape(-1)
        ends = []
        for bins_of_level in bins:
            probabilities = np.bincount(bins_of_level, weights, N_BINS)
            cumulative = [0.0, *np.cumsum(probabilities)]
            ends.append(np.interp(MEDIAN_AND_ENDS[1:], cumulative, edges))
        return np.column_stack([self.mean_correct_probability, ends])

    def after(self, level_index: int) -> Posterior:
        """Return the posterior after one more reply at a level, before the reply is known.

        It counts as correct by the probability of a correct reply, and as wrong by the rest.
        """
        probability = float(self.mean_correct_probability[level_index])
        correct = self.correct.copy()
        total = self.total.copy()
        correct[level_index] += probability
        total[level_index] += 1
        logs = self.grid.log_likelihood(level_index, probability, 1 - probability)
        return Posterior(self.grid, correct, total, self.weights * np.exp(logs))


def binomial_cdf(successes: int, trials: int, probability: float) -> float:
    """Return the probability of at most this many successes in independent trials."""
    probabilities = []
    for count in range(successes + 1):
        arrangements = math.comb(trials, count)
        failures = trials - count
        probabilities.append(arrangements * probability**count * (1 - probability) ** failures)
    return math.fsum(probabilities)
