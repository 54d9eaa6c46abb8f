"""Choice of the levels at which a psychometric test asks its next questions."""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np

from snellen_lab.acuity.parameter_grid import Array
from snellen_lab.acuity.posterior import Posterior, binomial_cdf

MAX_BATCH = 6
"""Questions of the first batch of a test, and of later ones once the threshold is roughly known."""
CHECK_EVERY = 12
"""One question in so many checks an easier level, which shows lapses and curves that do not rise."""
FOLLOW_EVERY = 4
"""One question in so many goes back to a level with surprising replies, if there is one."""
SURPRISE = 0.1
"""Probability of so few right replies at a level below which they are surprising."""
ESTABLISHED = 1e-4
"""The same probability below which a level needs no more questions: that it is read badly is established."""
SURE = 0.975
"""Probability that the threshold is beyond the levels above which a test stops."""


def batch_size(n_asked: int) -> int:
    """Return how many questions to ask at once: few while each reply still changes which level is best."""
    if not n_asked:
        return MAX_BATCH
    return min((n_asked + 2) // 4, MAX_BATCH)


def next_levels(
    posterior: Posterior, remaining: Sequence[int], count: int, rng: random.Random
) -> list[int]:
    """Return the indexes of the levels of the next `count` questions.

    The first questions are spread evenly over all levels, so that any two models share some questions. Later, each
    question goes to the most informative level if those before it are answered as expected. Some questions go to
    easier levels, as checks.

    Args:
        posterior: The posterior after all replies so far.
        remaining: Unused questions of each level, shape (N,).
        count: Number of questions. Fewer are returned if the levels have fewer.
        rng: Chooses among equally good levels for a check.
    """
    n_asked = round(float(posterior.total.sum()))
    if not n_asked:
        return [(2 * index + 1) * len(remaining) // (2 * count) for index in range(count)]

    free = list(remaining)
    levels: list[int] = []
    for number in range(n_asked + 1, n_asked + 1 + min(count, sum(free))):
        level = most_informative_level(posterior, free)
        easier = [index for index in range(level + 1, len(free)) if free[index]]
        surprising = None
        if easier and number % FOLLOW_EVERY == 0:
            surprising = _most_surprising_level(posterior, easier)
        if surprising is not None:
            level = surprising
        elif easier and number % CHECK_EVERY == 0:
            level = min(easier, key=lambda index: (posterior.total[index], rng.random()))
        levels.append(level)
        free[level] -= 1
        posterior = posterior.after(level)
    return levels


def most_informative_level(posterior: Posterior, remaining: Sequence[int]) -> int:
    """Return the level whose reply is expected to leave the least entropy of the threshold.

    The other parameters are integrated out (Kontsevich and Tyler 1999; Prins 2013). Only levels with remaining
    questions are considered.
    """
    candidates = np.flatnonzero(np.asarray(remaining))
    right = posterior.right_and_threshold[candidates]
    wrong = posterior.weights.sum(axis=1) - right
    expected_entropy = _weighted_entropy(right) + _weighted_entropy(wrong)
    return int(candidates[np.argmin(expected_entropy)])


def _weighted_entropy(joint: Array) -> Array:
    """Return, for each row of joint probabilities, its sum times the entropy of its normalised distribution."""
    totals = joint.sum(axis=1, keepdims=True)
    shares = np.maximum(joint / totals, 1e-300)
    return np.asarray(-(totals * shares * np.log(shares)).sum(axis=1))


def _most_surprising_level(posterior: Posterior, level_indexes: Sequence[int]) -> int | None:
    """Return the level with the most surprising lack of right replies, or None.

    Levels at which the lack is established are left out.
    """
    expected = posterior.mean_right
    least_probability = SURPRISE
    surprising = None
    for index in level_indexes:
        right = round(posterior.right[index])
        total = round(posterior.total[index])
        probability = binomial_cdf(right, total, expected[index])
        if ESTABLISHED < probability < least_probability:
            least_probability = probability
            surprising = index
    return surprising


def is_known(posterior: Posterior, width: float) -> bool:
    """Return whether a test needs no more questions.

    Args:
        posterior: The posterior after all replies so far.
        width: Width of the threshold's interval that is narrow enough, in units of x.

    Returns:
        True if the interval is narrow enough, or if the threshold is beyond the levels with a probability above `SURE`.
    """
    if posterior.total.sum() < 2 * MAX_BATCH:
        return False
    interval = posterior.threshold
    if interval.high - interval.low <= width:
        return True
    levels = posterior.grid.levels
    is_beyond = max(posterior.probability_above(levels[-1]), posterior.probability_below(levels[0]))
    return is_beyond > SURE
