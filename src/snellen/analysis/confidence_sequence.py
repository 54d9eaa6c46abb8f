"""Confidence sequences by betting, for the mean of a benchmark whose images are evaluated in a random order.

A confidence sequence is an interval after each image. All of these intervals contain the mean of the whole benchmark at
once with probability 95%, so a run may be stopped whenever its interval is narrow enough.

Waudby-Smith and Ramdas (2023), "Estimating means of bounded random variables by betting", JRSS-B 86(1): sections 4
(hedged capital) and 5 (sampling without replacement). An image is drawn with all its questions, so these may depend on
each other in any way. With its number of questions n_g and the sum of their values t_g in [0, n_g], the mean over all
questions is the m at which sum_g (t_g - m n_g) = 0 over all P images: a ratio, so images may have different sizes.

Who bets against m that the mean is greater has the capital

    K_t(m) = prod_{i <= t} (1 + lambda_i D_i(m)),   D_i(m) = Z_i + (Z_1 + ... + Z_{i-1}) / (P - i + 1),
    Z_i = t_i - m n_i

At the true m, D_i has mean zero given what was drawn before, so the capital is a martingale and exceeds 2 / alpha,
ever, with probability alpha / 2 at most (Ville). It decreases in m, so the m that are not ruled out begin at one bound.
The bet on a smaller mean is the same with 1 - value. The bounds also use what is certain: the value of each question
that was not evaluated is between 0 and 1.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from msgspec import Struct

ALPHA = 0.05
MAX_LOSS_SHARE = 0.75
"""Greatest share of the capital that a bet may lose."""
BOUND_PRECISION = 1e-6
"""Distance of a computed bound from the exact one."""
PRIOR_VARIANCE = 0.25
"""Assumed variance of a value before the first draw: the greatest that a value in [0, 1] can have."""


class DrawnImage(Struct, frozen=True):
    """Values of the questions of one image, each in [0, 1]. Unknown values are between two bounds."""

    size: int
    """Questions that have a value, or may still have one."""
    least: float
    """Least possible sum of the values."""
    greatest: float
    """Greatest possible sum of the values."""


class PopulationCounts(Struct, frozen=True):
    """Facts about all images of a benchmark that are known before the first is drawn."""

    images: int
    questions: int
    largest: int
    """Greatest number of questions of one image."""


def sequence_interval(
    draws: Sequence[DrawnImage], population: PopulationCounts, aims: Sequence[float]
) -> tuple[float, float]:
    """Return an interval of the mean score over a whole benchmark, after only some of its images were evaluated.

    The interval stays valid even if it is computed after every image and the run stops as soon as it is narrow enough.

    Args:
        draws: The evaluated images, in the random order in which they were drawn.
        population: The number of images and of questions of the whole benchmark.
        aims: Distances from the mean, in [0, 1]. The method is tuned to exclude wrong means at these distances soonest.

    Returns:
        Lower and upper end in [0, 1]. They are 0 and 1 without any image, and both are the mean itself if all images
        were drawn and all values are available.

    Examples:
        >>> draws = [DrawnImage(1, 1.0, 1.0)] * 40
        >>> low, high = sequence_interval(draws, PopulationCounts(100, 100, 1), [0.1])
        >>> round(low, 2), high
        (0.91, 1.0)
    """
    n_drawn = sum(draw.size for draw in draws)
    if not n_drawn:
        return 0.0, 1.0
    least = sum(draw.least for draw in draws)
    greatest = sum(draw.greatest for draw in draws)

    # What is certain: all questions that are not drawn have the value 0, or all have the value 1.
    n_total = n_drawn
    if len(draws) < population.images:
        n_total += max(0, population.questions - n_drawn)
    floor = least / n_total
    ceiling = (greatest + n_total - n_drawn) / n_total

    upward = Bets([(draw.size, draw.least) for draw in draws], population, aims)
    downward = Bets([(draw.size, draw.size - draw.greatest) for draw in draws], population, aims)
    low = _least_possible_mean(upward, floor, least / n_drawn)
    high = 1 - _least_possible_mean(downward, 1 - ceiling, 1 - greatest / n_drawn)
    return low, high


class _Step(Struct, frozen=True):
    """One drawn image, and what was known before it was drawn."""

    size: int
    """Questions of the image."""
    total: float
    """Sum of their values."""
    remaining: int
    """Images not drawn before, including this one."""
    previous_questions: float
    """Questions of the images drawn before."""
    previous_total: float
    """Sum of their values."""
    bets: tuple[float, ...]
    """Bet for each aim, before it is limited by `MAX_LOSS_SHARE`."""


class Bets:
    """Bets that the mean is greater than a given one, on images in the order in which they were drawn.

    A bet depends only on the images before. If the given mean is off by an aim a, D_i has the mean a n P / (P - i + 1),
    where n is the mean size of an image. The best bet is this divided by the variance of t_g - m n_g, which is
    estimated with the mean so far.

    Args:
        totals: For each image the number of its questions and the sum of their values.
        population: All images of the benchmark.
        aims: Distances from the mean that bets are made for. The capital is spread evenly over them.
    """

    def __init__(
        self,
        totals: Sequence[tuple[int, float]],
        population: PopulationCounts,
        aims: Sequence[float],
    ) -> None:
        """Choose the stake of each bet, from nothing but the images before it.

        Args:
            totals: For each image, its number of questions and the sum of their values.
            population: The number of images and of questions of the whole benchmark.
            aims: Distances from the true mean. There is one series of bets for each.
        """
        self._steps: list[_Step] = []
        self._largest = population.largest
        self._n_aims = len(aims)
        questions_so_far = 0.0
        total_so_far = 0.0
        squared_deviations = 0.0
        for index, (n_questions, total) in enumerate(totals):
            # Estimates from the images before, and from one image of average size and variance.
            n_images = 1 + index
            average_size = population.questions / population.images
            mean_size = (average_size + questions_so_far) / n_images
            variance = (PRIOR_VARIANCE * mean_size**2 + squared_deviations) / n_images
            remaining = population.images - index
            drift = mean_size * population.images / remaining
            bets = tuple(aim * drift / variance for aim in aims)
            step = _Step(
                size=n_questions,
                total=total,
                remaining=remaining,
                previous_questions=questions_so_far,
                previous_total=total_so_far,
                bets=bets,
            )
            self._steps.append(step)

            questions_so_far += n_questions
            total_so_far += total
            expected_total = n_questions * (total_so_far + 0.5) / (questions_so_far + 1)
            squared_deviations += (total - expected_total) ** 2

    def log_capital(self, mean: float) -> float:
        """Return the logarithm of the gambler's final capital, if each bet was against this mean. The initial capital is 1.

        A large capital is evidence that the true mean is not `mean`.
        """
        final_logs: list[float] = []
        for logs in self._logs_by_aim(mean):
            final_logs = logs
        return _log_of_mean(final_logs) if final_logs else 0.0

    def path(self, mean: float) -> Iterator[float]:
        """Yield the log of the capital against a mean after each image."""
        for logs in self._logs_by_aim(mean):
            yield _log_of_mean(logs)

    def _logs_by_aim(self, mean: float) -> Iterator[list[float]]:
        """Yield, after each image, the logarithm of the capital of each series of bets: log K_t(m), one for each aim.

        The formulas are in the docstring of the module. The caller must not keep the list, because the same list object
        is updated and yielded after each image.

        Args:
            mean: The mean m that the bets are against.
        """
        log_capitals = [0.0] * self._n_aims
        for step in self._steps:
            # (Z_1 + ... + Z_{i-1}) / (P - i + 1) and D_i(m)
            carried_deviation = (
                step.previous_total - mean * step.previous_questions
            ) / step.remaining
            deviation = step.total - mean * step.size + carried_deviation
            # The largest image with only wrong replies gives the least possible deviation.
            worst_loss = mean * self._largest - carried_deviation
            largest_bet = MAX_LOSS_SHARE / worst_loss if worst_loss > 0 else math.inf
            for index, bet in enumerate(step.bets):
                log_capitals[index] += math.log1p(min(bet, largest_bet) * deviation)
            yield log_capitals


def _log_of_mean(logs: Sequence[float]) -> float:
    """Return the log of the mean of numbers that are given by their logs."""
    # The largest log is subtracted before exp() and added afterwards, so that exp() does not overflow.
    largest = max(logs)
    total = math.fsum(math.exp(log - largest) for log in logs)
    return largest + math.log(total / len(logs))


def _least_possible_mean(bets: Bets, floor: float, mean: float) -> float:
    """Return the least mean that the bets have not ruled out, found by bisection.

    A mean is ruled out if the capital of the bets against it is at least 2 / alpha.

    Args:
        bets: Bets that the mean is greater.
        floor: The least mean that is possible at all.
        mean: The mean of the draws, which is never ruled out.
    """
    threshold = math.log(2 / ALPHA)
    if mean <= floor or bets.log_capital(floor) < threshold:
        return floor
    ruled_out = floor
    possible = mean
    while possible - ruled_out > BOUND_PRECISION:
        middle = (ruled_out + possible) / 2
        if bets.log_capital(middle) >= threshold:
            ruled_out = middle
        else:
            possible = middle
    return ruled_out
