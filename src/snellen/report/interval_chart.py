"""Interval charts: rows of estimates with their 95% intervals along one axis."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from snellen.report.axes import ACCURACY_AXIS, ChartAxis, PlotPoint, label_width
from snellen.report.drawing import (
    CHART_WIDTH,
    ChartDrawing,
    ChartGroup,
    ChartLine,
    ChartMark,
    ChartRectangle,
    ChartShape,
    ChartText,
)
from snellen.report.number_text import MAX_LABEL_LETTERS, shorten_inside, value_text


class IntervalRow(Struct, frozen=True):
    """A row of an interval chart; `reference` is drawn as a line across it.

    Examples:
        >>> from snellen.plugin_api import Estimate
        >>> point = PlotPoint(0, "mine", Estimate(0.75, 0.05, 0.64, 0.83, 80), "share")
        >>> IntervalRow("animals", (point,), reference=0.25).reference
        0.25
    """

    label: str
    points: tuple[PlotPoint, ...]
    reference: float | None = None
    tooltip: str = ""


def interval_chart(
    title: str,
    groups: Sequence[IntervalRow],
    axis: ChartAxis = ACCURACY_AXIS,
    *,
    has_values: bool = False,
) -> ChartDrawing:
    """Draw groups from top to bottom, with one lane for the value and interval of each point.

    Args:
        title: Title for screen readers.
        groups: The groups.
        axis: The horizontal axis.
        has_values: Whether values are also printed at the right, in higher lanes.

    Examples:
        >>> from snellen.plugin_api import Estimate
        >>> point = PlotPoint(0, "mine", Estimate(0.75, 0.05, 0.64, 0.83, 80), "share")
        >>> interval_chart("Accuracy", [IntervalRow("animals", (point,))]).title
        'Accuracy'
    """
    lane_height = 15.0 if has_values else 9.5
    gap = 9.0  # between groups
    top_margin = 6.0
    bottom_margin = 36.0
    left = label_width(group.label for group in groups)
    right_margin = 66.0 if has_values else 14.0
    width = CHART_WIDTH - left - right_margin

    background: list[ChartShape] = []
    foreground: list[ChartShape] = []
    y = top_margin
    for index, group in enumerate(groups):
        height = max(len(group.points), 1) * lane_height + gap
        if index % 2 == 0:
            background.append(ChartRectangle(0, y, CHART_WIDTH, height, "band"))
        label = shorten_inside(group.label, MAX_LABEL_LETTERS)
        tooltip = group.tooltip or group.label
        foreground.append(ChartText(left - 10, y + height / 2 + 4, label, "end", tooltip))
        if group.reference is not None:
            x = left + width * axis.fraction(group.reference)
            foreground.append(ChartLine(x, y + 1, x, y + height - 1, "reference"))
        for lane, point in enumerate(group.points):
            middle = y + gap / 2 + (lane + 0.5) * lane_height
            if point.estimate.value is not None:
                interval = _interval_shapes(point, point.estimate.value, middle, left, width, axis)
                foreground.append(interval)
            if has_values:
                value = value_text(point.estimate, point.unit)
                foreground.append(ChartText(CHART_WIDTH - 6, middle + 4, value, "end value"))
        y += height

    for tick in axis.ticks:
        x = left + width * axis.fraction(tick)
        background.append(ChartLine(x, top_margin, x, y, "grid"))
        foreground.append(ChartText(x, y + 15, axis.label(tick), "tick"))
    foreground.append(ChartText(left + width / 2, y + 31, axis.title, "axis"))
    return ChartDrawing(title, CHART_WIDTH, y + bottom_margin, (*background, *foreground))


def _interval_shapes(
    point: PlotPoint, value: float, y: float, left: float, width: float, axis: ChartAxis
) -> ChartGroup:
    """Return the shapes of one estimate in a chart: a dot at its value, and a horizontal line over its interval.

    Args:
        point: The estimate with its series and tooltip.
        value: Its value.
        y: Its height in the chart, in pixels from the top.
        left: The left end of the axis, in pixels.
        width: The length of the axis, in pixels.
        axis: The axis.
    """

    def to_pixels(axis_value: float) -> float:
        return left + width * axis.fraction(axis_value)

    estimate = point.estimate
    x_low = to_pixels(value if estimate.low is None else estimate.low)
    x_high = to_pixels(value if estimate.high is None else estimate.high)
    whisker = ChartLine(x_low, y, x_high, y, "whisker")
    # A transparent bar makes the tooltip easy to hit.
    hover_area = ChartRectangle(left, y - 4.5, width + 14, 9, "hit")
    dot = ChartMark(point.series, to_pixels(value), y)
    return ChartGroup((hover_area, whisker, dot), point.series, point.tooltip, point.samples)
