"""Choice of the levels at which a psychometric test asks its next questions."""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np

from snellen_lab.acuity.parameter_grid import Array
from snellen_lab.acuity.posterior import Posterior, binomial_cdf

MAX_BATCH = 6
"""Number of questions in the first batch of a test, and in later batches once the threshold is roughly known."""
CHECK_EVERY = 12
"""Every twelfth question is at an easier level, to find lapses and curves that do not rise."""
FOLLOW_EVERY = 4
"""Every fourth question returns to a level with surprisingly few correct replies, if there is one."""
MAX_SURPRISING_PROBABILITY = 0.1
"""Correct replies are surprisingly few if the curve gives as few or fewer a probability below this."""
ESTABLISHED_PROBABILITY = 1e-4
"""Below this probability, the level is certainly read badly and needs no more questions."""
MIN_PROBABILITY_BEYOND_LEVELS = 0.975
"""A test stops if the threshold is beyond its levels with a probability above this."""


def batch_size(n_asked: int) -> int:
    """Return how many questions to ask before the next level is chosen, after `n_asked` questions.

    These are few at first, as long as each reply still changes much which level is best.
    """
    if not n_asked:
        return MAX_BATCH
    return min((n_asked + 2) // 4, MAX_BATCH)


def next_levels(
    posterior: Posterior, remaining: Sequence[int], count: int, rng: random.Random
) -> list[int]:
    """Return the indices of the levels of the next questions of a test.

    The first questions are spread evenly over all levels, so that any two models share some questions. Later, each
    question is at the most informative level, assuming expected replies to the questions before it. Some questions are
    at easier levels, as checks.

    Args:
        posterior: The posterior after all replies so far.
        remaining: Number of unused questions of each level, shape (N,).
        count: Number of questions to choose. Fewer are chosen if the levels have fewer.
        rng: Chooses among equally good levels for a check.
    """
    n_asked = round(float(posterior.total.sum()))
    if not n_asked:
        # The middles of `count` equal parts of the scale.
        return [(2 * index + 1) * len(remaining) // (2 * count) for index in range(count)]

    unused = list(remaining)
    n_chosen = min(count, sum(unused))
    levels: list[int] = []
    for number in range(n_asked + 1, n_asked + 1 + n_chosen):
        level = most_informative_level(posterior, unused)
        easier = [index for index in range(level + 1, len(unused)) if unused[index]]
        surprising = None
        if easier and number % FOLLOW_EVERY == 0:
            surprising = _most_surprising_level(posterior, easier)
        if surprising is not None:
            level = surprising
        elif easier and number % CHECK_EVERY == 0:
            level = _least_checked_level(posterior, easier, rng)
        levels.append(level)
        unused[level] -= 1
        posterior = posterior.after(level)
    return levels


def _least_checked_level(
    posterior: Posterior, candidates: Sequence[int], rng: random.Random
) -> int:
    """Return the level with the fewest replies so far; one of them at random if several have as few."""

    def replies_then_random(index: int) -> tuple[float, float]:
        return float(posterior.total[index]), rng.random()

    return min(candidates, key=replies_then_random)


def most_informative_level(posterior: Posterior, remaining: Sequence[int]) -> int:
    """Return the index of the level whose reply is expected to leave the least entropy of the threshold.

    The other parameters are integrated out (Kontsevich and Tyler 1999; Prins 2013).

    Args:
        posterior: The posterior after all replies so far.
        remaining: Number of unused questions of each level; levels without any are not chosen.
    """
    candidates = np.flatnonzero(np.asarray(remaining))
    # Joint probabilities of each threshold with a correct and with a wrong reply; (candidates, T).
    with_correct = posterior.joint_correct_and_threshold[candidates]
    with_wrong = posterior.weights.sum(axis=1) - with_correct
    expected_entropy = _weighted_entropy(with_correct) + _weighted_entropy(with_wrong)
    return int(candidates[np.argmin(expected_entropy)])


def _weighted_entropy(joint: Array) -> Array:
    """Return, for each row of joint probabilities, its sum times the entropy of its normalised distribution."""
    totals = joint.sum(axis=1, keepdims=True)
    shares = np.maximum(joint / totals, 1e-300)
    return np.asarray(-(totals * shares * np.log(shares)).sum(axis=1))


def _most_surprising_level(posterior: Posterior, level_indexes: Sequence[int]) -> int | None:
    """Return the level with surprisingly few correct replies, so that more questions show whether it is read badly.

    A level is surprising if the curve gives its number of correct replies, or fewer, a probability below
    `MAX_SURPRISING_PROBABILITY`. A level with a probability below `ESTABLISHED_PROBABILITY` is certainly read badly, and
    needs no more questions.

    Args:
        posterior: The posterior after all replies so far.
        level_indexes: Indices of the levels to choose from.

    Returns:
        The index of the level with the smallest probability; None if no level is surprising.
    """
    expected = posterior.mean_correct_probability
    least_probability = MAX_SURPRISING_PROBABILITY
    surprising = None
    for index in level_indexes:
        correct = round(posterior.correct[index])
        total = round(posterior.total[index])
        probability = binomial_cdf(correct, total, expected[index])
        if ESTABLISHED_PROBABILITY < probability < least_probability:
            least_probability = probability
            surprising = index
    return surprising


def is_known(posterior: Posterior, width: float) -> bool:
    """Return whether a test needs no more questions.

    Args:
        posterior: The posterior after all replies so far.
        width: Width of the threshold's interval that is narrow enough, in units of x.

    Returns:
        True if the interval is narrow enough, or if the threshold is beyond the levels with a probability above `MIN_PROBABILITY_BEYOND_LEVELS`.
    """
    if posterior.total.sum() < 2 * MAX_BATCH:
        return False
    interval = posterior.threshold
    if interval.high - interval.low <= width:
        return True
    levels = posterior.grid.levels
    is_beyond = max(posterior.probability_above(levels[-1]), posterior.probability_below(levels[0]))
    return is_beyond > MIN_PROBABILITY_BEYOND_LEVELS
