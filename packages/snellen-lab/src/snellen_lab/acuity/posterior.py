"""Posterior distribution of a psychometric function, given replies at some levels."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from snellen_lab.acuity.parameter_grid import N_BINS, Array, ParameterGrid

OVERDISPERSION = {0.0: 0.8, 0.2: 0.1, 0.4: 0.1}
"""Prior probabilities of psignifit's eta, by which shares at levels scatter about the curve; 0 is binomial."""
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
    """Posterior over a `ParameterGrid`, given the right and total replies at each level.

    The order of replies does not matter. In the shapes of arrays, T counts thresholds, N levels, and K all combinations
    of the other parameters.
    """

    def __init__(
        self,
        grid: ParameterGrid,
        right: npt.ArrayLike,
        total: npt.ArrayLike,
        weights: Array | None = None,
        silent: int = 0,
        overdispersion: Mapping[float, float] | None = None,
    ) -> None:
        """Weigh the grid by replies.

        Args:
            grid: The psychometric functions that are considered.
            right: Correct replies at each level, shape (N,).
            total: Replies at each level, shape (N,).
            weights: Numbers in proportion to the posterior, shape (T, K), if they are known already.
            silent: Wrong replies that named no option.
            overdispersion: Prior probabilities of eta in `ParameterGrid.overdispersed_log_likelihood`; by default,
                replies at a level are independent.
        """
        self.grid = grid
        self.right = np.asarray(right, dtype=float)
        self.total = np.asarray(total, dtype=float)
        if weights is None:
            weights = grid.prior * self._likelihood(silent, overdispersion or {0.0: 1.0})
        self.weights: Array = weights / weights.sum()
        """Posterior probabilities, shape (T, K)."""

    def _likelihood(self, silent: int, overdispersion: Mapping[float, float]) -> Array:
        """Return numbers in proportion to the likelihood of the replies, shape (T, K)."""
        logs_by_eta = []
        for eta, probability in overdispersion.items():
            logs_by_eta.append(self._log_likelihood(eta) + math.log(probability))
        largest = max(float(logs.max()) for logs in logs_by_eta)
        likelihood = np.asarray(sum(np.exp(logs - largest) for logs in logs_by_eta))
        if silent:
            wrong = float((self.total - self.right).sum())
            logs = self.grid.silence_log_likelihood(silent, wrong - silent)
            likelihood = likelihood * np.exp(logs - logs.max())
        return likelihood

    def _log_likelihood(self, eta: float) -> Array:
        """Return the log-likelihood of the replies if shares scatter by `eta`, shape (T, K)."""
        logs = np.zeros_like(self.grid.prior)
        for level_index in np.flatnonzero(self.total).tolist():
            right = self.right[level_index]
            wrong = self.total[level_index] - right
            if eta:
                logs += self.grid.overdispersed_log_likelihood(
                    level_index, round(right), round(wrong), eta
                )
            else:
                logs += self.grid.log_likelihood(level_index, right, wrong)
        return logs

    def with_single_rise(self) -> Posterior:
        """Return the posterior of the curves that rise once."""
        weights = self.weights.reshape(self.grid.shape).copy()
        weights[..., 1:] = 0
        return Posterior(self.grid, self.right, self.total, weights.reshape(self.weights.shape))

    def _interval(self, axis: int, values: Array) -> Interval:
        """Return the median and the central interval of a parameter, interpolated between the points of the grid.

        Args:
            axis: Axis of the parameter in the grid.
            values: Values of the parameter along this axis.
        """
        weights = self.weights.reshape(self.grid.shape)
        other_axes = tuple(set(range(weights.ndim)) - {axis})
        marginal_weights = weights.sum(axis=other_axes)
        cumulative = [0.0, *np.cumsum(marginal_weights)]
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
    def right_and_threshold(self) -> Array:
        """Joint probability of a correct reply at each level and of each threshold, shape (N, T)."""
        sums = np.matmul(self.grid.right, self.weights[..., None].astype(np.float32))
        return np.asarray(sums[..., 0].T, dtype=float)

    @property
    def mean_right(self) -> Array:
        """Mean probability of a correct reply at each level, shape (N,)."""
        return np.asarray(self.right_and_threshold.sum(axis=1))

    def fit(self, draws: int = FIT_DRAWS) -> Fit:
        """Test whether replies scatter about the curve as independent ones do.

        The statistic is Pearson's, sum_i (r_i - n_i p_i)^2 / (n_i p_i (1 - p_i)) over levels. Its distribution is
        simulated with the same number of replies at each level, so that the test holds for few replies, too.
        """
        has_replies = self.total > 0
        total = self.total[has_replies]
        expected = np.clip(self.mean_right[has_replies], 1e-3, 1 - 1e-3)

        def pearson(right: Array) -> Array:
            deviation = (right - total * expected) ** 2 / (total * expected * (1 - expected))
            return np.asarray(deviation.sum(axis=-1))

        observed = float(pearson(self.right[has_replies]))
        rng = np.random.default_rng(0)
        simulated_right = rng.binomial(total.astype(int), expected, (draws, len(total)))
        simulated = pearson(simulated_right.astype(float))
        n_as_extreme = int((simulated >= observed).sum())
        p = (1 + n_as_extreme) / (draws + 1)
        degrees_of_freedom = max(1, len(total) - FITTED_PARAMETERS)
        return Fit(p, max(1.0, observed / degrees_of_freedom))

    def curve(self) -> Array:
        """Return the mean and the credible interval of the probability at each level, shape (N, 3).

        The ends of the interval are exact to a thousandth.
        """
        bins, edges = self.grid.bins
        weights = self.weights.reshape(-1)
        ends = []
        for level_bins in bins:
            cumulative = np.cumsum(np.bincount(level_bins, weights, N_BINS))
            ends.append(np.interp(MEDIAN_AND_ENDS[1:], [0.0, *cumulative], edges))
        return np.column_stack([self.mean_right, ends])

    def after(self, level_index: int) -> Posterior:
        """Return the posterior as it is expected to be after one more reply at a level."""
        probability = float(self.mean_right[level_index])
        right = self.right.copy()
        total = self.total.copy()
        right[level_index] += probability
        total[level_index] += 1
        logs = self.grid.log_likelihood(level_index, probability, 1 - probability)
        return Posterior(self.grid, right, total, self.weights * np.exp(logs))


def binomial_cdf(right: int, total: int, probability: float) -> float:
    """Return the probability of at most `right` successes in `total` trials."""
    return math.fsum(
        math.comb(total, count) * probability**count * (1 - probability) ** (total - count)
        for count in range(right + 1)
    )
