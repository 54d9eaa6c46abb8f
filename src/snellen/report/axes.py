"""Axes of charts: their title, unit, ends and ticks, and the points that charts show along them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from msgspec import Struct

from snellen.metrics.declaration import SHARE, MetricRow, unit_multiplier
from snellen.records import Estimate
from snellen.report.number_text import MAX_LABEL_LETTERS, figure_text


class ChartAxis(Struct, frozen=True):
    """An axis of a chart: its title, its unit and its ends.

    Examples:
        >>> ChartAxis("accuracy", "share", top=0.8).title
        'accuracy'
    """

    title: str
    unit: str = SHARE
    top: float = 1.0
    """The largest value."""
    bottom: float = 0.0
    """The smallest."""

    @staticmethod
    def of_metric(row: MetricRow, estimates: Sequence[Estimate], unit: str = "") -> ChartAxis:
        """Make the axis of a metric.

        If the metric declares bounds, such as 0 and 1 for accuracy, the axis is from the lower bound, or from 0 if that
        is lower, to the upper bound. Otherwise it contains 0 and all estimates with their intervals, and is 4% longer
        at the top. The title names the unit, and says if lower is better.

        Args:
            row: The metric row.
            estimates: The estimates that the chart shows.
            unit: Their unit, if another than the row's.

        Examples:
            >>> from snellen.plugin_api import declared_row
            >>> ChartAxis.of_metric(declared_row("accuracy"), [Estimate(0.3, 0.05, 0.2, 0.4, 80)]).unit
            'share'
        """
        unit = unit or row.unit
        if row.low is not None and row.high is not None:
            multiplier = unit_multiplier(unit)
            bottom = multiplier * min(row.low, 0.0)
            top = multiplier * row.high
        else:
            values = [0.0]
            for estimate in estimates:
                ends = (estimate.low, estimate.value, estimate.high)
                values.extend(value for value in ends if value is not None)
            bottom = min(values)
            top = max(values) * 1.04

        if top <= bottom:
            top = bottom + 1.0
        top = max(top, bottom + 1e-6)  # a span of zero would have no scale
        return ChartAxis(row.heading, unit, top, bottom)

    @property
    def ticks(self) -> list[float]:
        """Values at which the axis has a label: about five multiples of a round number, from bottom to top.

        An axis from 0 to 1 has the ticks 0, 0.25, 0.5, 0.75 and 1, an axis from 0 to 5 has 0, 1, 2, 3, 4 and 5.
        """
        step = _tick_step(self.top - self.bottom)
        rounding = 1e-9  # an end that is a multiple of the step has a tick in spite of rounding
        first = math.ceil(self.bottom / step - rounding)
        last = math.floor(self.top / step + rounding)
        return [multiple * step for multiple in range(first, last + 1)]

    def label(self, value: float) -> str:
        """Return the text of a tick, such as `25%`, `0.5` or `1,500`."""
        if self.unit == SHARE:
            return f"{100 * value:.0f}%"
        if abs(value) >= 1000:
            return f"{value:,.0f}"
        return f"{value + 0.0:.3g}"  # adding zero turns -0.0 into 0.0

    def fraction(self, value: float) -> float:
        """Return the position of a value: 0 at the bottom, 1 at the top."""
        return (value - self.bottom) / (self.top - self.bottom)


ACCURACY_AXIS = ChartAxis("accuracy")
"""The axis of shares of correct replies, 0 to 1."""


class PlotPoint(Struct, frozen=True):
    """One estimate of one series.

    Examples:
        >>> PlotPoint(0, "mine", Estimate(0.75, 0.05, 0.64, 0.83, 80), "share").name
        'mine'
    """

    series: int
    name: str
    estimate: Estimate
    unit: str = SHARE
    samples: str = ""
    """Query for the samples of the point in the sample browser."""

    @property
    def tooltip(self) -> str:
        return f"{self.name}: {figure_text(self.estimate, self.unit)}"


def label_width(labels: Iterable[str]) -> float:
    """Return how many pixels labels need at the left of a chart. Labels are cut to `MAX_LABEL_LETTERS` letters."""
    longest = max(map(len, labels), default=4)
    shown_letters = min(longest, MAX_LABEL_LETTERS)
    return shown_letters * 7.0 + 16  # 7 pixels for each letter, and the gap to the axis


def _tick_step(span: float) -> float:
    """Return the distance between ticks: 1, 2, 2.5 or 5 times a power of ten, a quarter for a span of 1."""
    if span == 1.0:
        return 0.25
    least_step = span / 5
    magnitude = 10.0 ** math.floor(math.log10(least_step))
    for factor in (1, 2, 2.5, 5):
        if magnitude * factor >= least_step:
            return magnitude * factor
    return magnitude * 10
