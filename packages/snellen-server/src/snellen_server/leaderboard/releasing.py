"""Exact numbers become published ones, so that single answers cannot be probed.

A number gets noise from a Laplace distribution whose scale is what `noise_answers` answers make, and is then rounded.
Whether one answer is right changes the odds of whatever is published by a factor of at most exp(1 / noise_answers),
wherever the number lies (Dwork, McSherry, Nissim and Smith, "Calibrating noise to sensitivity in private data
analysis", TCC 2006). Mere rounding would not do: whoever has found one of its borders sees single answers cross it.

The noise of a benchmark's numbers follows from the server's key, the board, the build, and what the metric sees of that
benchmark's predictions: the options chosen, or texts, or for a metric of ranks the order of the scores. So on one board the same predictions always get the same number, in whatever file they are
sent and whatever is predicted of other benchmarks beside them; others, be it in one answer, get noise of their own.

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

FINEST = 0.001
"""Of the range of a metric: 0.1 points of a share in percent."""
DIGITS = 6
NOISE_QUANTILE = math.log(20)
"""Scales within which 95 of 100 draws of Laplace noise lie."""

Draw = Callable[[str], float]
"""A number in (0, 1) for a purpose, always the same for one upload."""


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
    """Return by how much noise and rounding widen an interval on either side, as a share of the metric's range."""
    scale = _scale(answers, noise_answers)
    return NOISE_QUANTILE * scale + _step(scale) / 2


def questions_needed(noise_answers: float, widest: float) -> int:
    """Return the fewest questions of which `widening` is at most `widest`."""
    return math.ceil(
        noise_answers
        * max((NOISE_QUANTILE + 1 / 4) / widest, NOISE_QUANTILE / (widest - FINEST / 2))
        - 1e-9
    )


def release_number(exact: ExactNumber, noise_answers: float, draw: Draw) -> PublishedNumber:
    """Return the number that may be seen, with the noise of `noise_answers` answers, each as heavy as the heaviest.

    Its noise is of as many answers as are asked for, each as heavy as the heaviest.
    """
    noise_answers *= exact.heaviest
    span, scale = exact.greatest - exact.least, _scale(exact.n, noise_answers)
    step = _step(scale)
    noisy = (exact.value - exact.least) / span + laplace(
        draw(f"{exact.benchmark}\0{exact.metric}\0{exact.slice}"), scale
    )
    share = min(max(step * round(noisy / step), 0.0), 1.0)
    low, high = wilson(share, max(exact.units, 1))
    wider = widening(exact.n, noise_answers)

    def scaled(value: float) -> float:
        return round(exact.least + span * value, DIGITS)

    return PublishedNumber(
        benchmark=exact.benchmark,
        metric=exact.metric,
        slice=exact.slice,
        value=scaled(share),
        low=scaled(max(low - wider, 0.0)),
        high=scaled(min(high + wider, 1.0)),
        n=exact.n,
        noise=span * scale,
        noise_answers=noise_answers,
        unit=exact.unit,
        better=exact.better,
    )


def _scale(answers: int, noise_answers: float) -> float:
    return min(noise_answers / max(answers, 1), 1.0)


def _step(scale: float) -> float:
    """Return the step to whose multiples a number is rounded."""
    return max(FINEST, scale / 2)


def laplace(uniform: float, scale: float) -> float:
    """Return the value of a Laplace distribution around 0 below which a share of `uniform` lies."""
    centred = uniform - 0.5
    return -math.copysign(scale, centred) * math.log1p(-2 * abs(centred))
