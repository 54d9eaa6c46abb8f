"""Exact numbers become published ones, so that single answers cannot be probed.

A number gets noise from a Laplace distribution whose scale is what `noise_answers` answers make, and is then rounded.
Whether one answer is right changes the odds of whatever is published by a factor of at most exp(1 / noise_answers),
wherever the number lies (Dwork, McSherry, Nissim and Smith, "Calibrating noise to sensitivity in private data
analysis", TCC 2006). Mere rounding would not do: whoever has found one of its borders sees single answers cross it.

The noise of a benchmark's numbers is computed from the server's key, the board, the build, and what the metric sees of
that benchmark's predictions: the options chosen, the texts, or for a metric of ranks the order of the scores. So on one
board the same predictions always get the same number, whichever file contains them and whatever it predicts for other
benchmarks. Predictions that differ in a single answer get other noise.

The interval follows from the published number alone: Wilson's, over as many units as there are images, widened on
either side by what noise and rounding may have added. Of n questions and noise of a answers that is

    widening(n) = a ln(20) / n + max(0.001, a / 2n) / 2        of the metric's range

Of all means with given bounds that of zeros and ones varies most (Bhatia and Davis 2000), so the interval is wide
enough for any metric that is a mean over questions. A number that noise widens by more than a board allows says more of
the noise than of the model, and has no rank.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from snellen.plugin_api import wilson
from snellen_server.leaderboard.scoring_process import ExactNumber, MeasuredNumber

SMALLEST_ROUNDING_STEP = 0.001
"""The finest rounding, as a share of a metric's range: 0.1 points of a share in percent."""
DIGITS = 6
NOISE_QUANTILE = math.log(20)
"""Multiple of the scale within which 95% of Laplace noise is."""

Draw = Callable[[str], float]
"""Function that returns a random number in (0, 1) for a purpose, always the same one for the same predictions."""


@dataclass(frozen=True, kw_only=True)
class PublishedNumber(MeasuredNumber):
    """A published number, with noise in it, and an interval around it."""

    low: float
    high: float
    noise: float
    """The scale of the noise that is in the value."""
    noise_answers: float = 0.0
    """The same in n-ths of the range, which are answers where all weigh alike; 0 in numbers of an earlier version, which
    had that of the board."""


def widening(answers: int, noise_answers: float) -> float:
    """Return how far noise and rounding widen an interval to either side, as a share of the metric's range.

    Args:
        answers: Number of questions that the result is a mean over.
        noise_answers: Scale of the noise, as the number of answers that change the result by as much.
    """
    scale = _scale(answers, noise_answers)
    return NOISE_QUANTILE * scale + _step(scale) / 2


def questions_needed(noise_answers: float, widest: float) -> int:
    """Return the smallest number of questions for which `widening` is at most `widest`.

    Args:
        noise_answers: Scale of the noise, as the number of answers that change the result by as much.
        widest: Largest widening to either side, as a share of the metric's range.
    """
    # `widening` with a rounding step of half the noise scale, and with the finest step; the larger of the two applies.
    by_noise = (NOISE_QUANTILE + 1 / 4) / widest
    by_finest_step = NOISE_QUANTILE / (widest - SMALLEST_ROUNDING_STEP / 2)
    return math.ceil(noise_answers * max(by_noise, by_finest_step) - 1e-9)


def release_number(exact: ExactNumber, noise_answers: float, draw: Draw) -> PublishedNumber:
    """Return the published form of an exact result: with Laplace noise, rounded, and with a widened interval.

    Args:
        exact: The exact result.
        noise_answers: Scale of the noise, as the number of answers that change the result by as much. Each of them
            counts as much as the most influential answer (`exact.heaviest`).
        draw: The random number that the noise is computed from.
    """
    noise_answers *= exact.heaviest
    span = exact.greatest - exact.least
    scale = _scale(exact.n, noise_answers)
    step = _step(scale)
    uniform = draw(f"{exact.benchmark}\0{exact.metric}\0{exact.slice}")
    noisy_share = (exact.value - exact.least) / span + laplace(uniform, scale)
    share = min(max(step * round(noisy_share / step), 0.0), 1.0)
    low, high = wilson(share, max(exact.units, 1))
    margin = widening(exact.n, noise_answers)

    def in_metric_range(share: float) -> float:
        return round(exact.least + span * share, DIGITS)

    return PublishedNumber(
        benchmark=exact.benchmark,
        metric=exact.metric,
        slice=exact.slice,
        value=in_metric_range(share),
        low=in_metric_range(max(low - margin, 0.0)),
        high=in_metric_range(min(high + margin, 1.0)),
        n=exact.n,
        noise=span * scale,
        noise_answers=noise_answers,
        unit=exact.unit,
        better=exact.better,
    )


def _scale(answers: int, noise_answers: float) -> float:
    """Return the scale of the noise as a share of the metric's range, at most 1."""
    return min(noise_answers / max(answers, 1), 1.0)


def _step(scale: float) -> float:
    """Return the step to whose multiples a number is rounded, as a share of the metric's range."""
    return max(SMALLEST_ROUNDING_STEP, scale / 2)


def laplace(uniform: float, scale: float) -> float:
    """Return the `uniform` quantile of a Laplace distribution with mean 0; `uniform` is in (0, 1).

    Example:
        >>> laplace(0.5, 1.0) == 0, round(laplace(0.75, 1.0), 4)
        (True, 0.6931)
    """
    centred = uniform - 0.5
    return -math.copysign(scale, centred) * math.log1p(-2 * abs(centred))
