"""Exact numbers become published ones, so that single answers cannot be probed.

A number is shown in steps of at least a thousandth of the metric's range, and of what `answers_per_step` answers make.
Which of the two nearest steps it falls on is drawn, with the odds by which the rounded number is right on the mean. The
draw follows from the server's key and from what the predictions were read as: the same predictions always get the same
number, and others, be it in one answer, a draw of their own. So a number that changes does not say that the one answer
did it, which it would with fixed borders for whoever has found one (cf. Blum and Hardt, "The Ladder", ICML 2015).

The interval is shown as the number plus and minus so many steps, drawn likewise, and always holds the exact interval.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from msgspec import Struct

from snellen.server.leaderboard.scoring_process import ExactNumber

FINEST = 0.001
"""Of the range of a metric: 0.1 points of a share in percent."""

Draw = Callable[[str], float]
"""A number in [0, 1) for a purpose, always the same for one upload."""


class PublishedNumber(Struct, frozen=True, kw_only=True):
    """What is kept and shown."""

    benchmark: str
    metric: str
    slice: str
    value: float
    low: float
    high: float
    n: int
    step: float
    unit: str
    better: str


def publish_number(exact: ExactNumber, answers_per_step: int, draw: Draw) -> PublishedNumber:
    """The number that may be seen."""
    span = exact.greatest - exact.least
    step = span * min(max(FINEST, answers_per_step / max(exact.n, 1)), 1.0)
    place = f"{exact.benchmark}\0{exact.metric}\0{exact.slice}"
    value = exact.least + step * math.floor((exact.value - exact.least) / step + draw(f"value\0{place}"))
    value = min(value, exact.greatest)
    half = max(exact.high - exact.value, exact.value - exact.low)
    # One step more for the draw of the width, and one for that of the value.
    width = step * (math.floor(half / step + draw(f"width\0{place}")) + 2)
    return PublishedNumber(
        benchmark=exact.benchmark,
        metric=exact.metric,
        slice=exact.slice,
        value=value,
        low=max(value - width, exact.least),
        high=min(value + width, exact.greatest),
        n=exact.n,
        step=step,
        unit=exact.unit,
        better=exact.better,
    )
