"""Scatter charts: one estimate against another, with a Pareto front or curves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

from msgspec import Struct

from snellen.records import Estimate
from snellen.report.axes import ChartAxis
from snellen.report.drawing import (
    CHART_WIDTH,
    ChartDrawing,
    ChartGroup,
    ChartLine,
    ChartMark,
    ChartPath,
    ChartPoint,
    ChartShape,
    ChartText,
)
from snellen.report.number_text import figure_text

ToPixels = Callable[[float, float], ChartPoint]
"""Function from values to coordinates in the drawing."""


class ScatterPoint(Struct, frozen=True):
    """A point in a scatter chart.

    Examples:
        >>> size = Estimate(7.0, None, None, None, 1)
        >>> ScatterPoint(0, "mine", size, Estimate(0.75, 0.05, 0.64, 0.83, 80)).name
        'mine'
    """

    series: int
    name: str
    x: Estimate
    y: Estimate
    is_hollow: bool = False
    tooltip: str = ""
    """Text that replaces name and numbers."""
    samples: str = ""


def scatter_chart(
    title: str,
    points: Sequence[ScatterPoint],
    x_axis: ChartAxis,
    y_axis: ChartAxis,
    *,
    diagonal: bool = False,
    front: Sequence[ChartPoint] = (),
    curves: Sequence[tuple[int | None, Sequence[ChartPoint]]] = (),
) -> ChartDrawing:
    """Draw points with faint intervals along both axes; the first series is on top.

    Args:
        title: Title for screen readers.
        points: The points.
        x_axis: The horizontal axis.
        y_axis: The vertical axis.
        diagonal: Whether to draw the diagonal of the plot.
        front: Values of a Pareto front from the cheapest on, drawn as steps.
        curves: Lines through values, each with its series; a line of series None is a reference.

    Examples:
        >>> size = Estimate(7.0, None, None, None, 1)
        >>> points = [ScatterPoint(0, "mine", size, Estimate(0.75, 0.05, 0.64, 0.83, 80))]
        >>> scatter_chart("Size", points, ChartAxis("size", "", top=10.0), ChartAxis("accuracy")).title
        'Size'
    """
    left = 52.0
    top = 12.0
    right = CHART_WIDTH - 16.0
    bottom = 400.0 if diagonal else 330.0
    width = right - left
    height = bottom - top

    def to_pixels(x: float, y: float) -> ChartPoint:
        return left + width * x_axis.fraction(x), bottom - height * y_axis.fraction(y)

    shapes: list[ChartShape] = []
    for tick in x_axis.ticks:
        x, _ = to_pixels(tick, y_axis.bottom)
        shapes.append(ChartLine(x, top, x, bottom, "grid"))
        shapes.append(ChartText(x, bottom + 16, x_axis.label(tick), "tick"))
    for tick in y_axis.ticks:
        _, y = to_pixels(x_axis.bottom, tick)
        shapes.append(ChartLine(left, y, right, y, "grid"))
        shapes.append(ChartText(left - 8, y + 4, y_axis.label(tick), "end tick"))
    shapes.append(ChartText((left + right) / 2, bottom + 34, x_axis.title, "axis"))
    shapes.append(ChartText(13, (top + bottom) / 2, y_axis.title, "axis", turn=-90))

    if diagonal:
        start = to_pixels(x_axis.bottom, y_axis.bottom)
        end = to_pixels(x_axis.top, y_axis.top)
        shapes.append(ChartLine(*start, *end, "reference"))
    if front:
        front_points = [to_pixels(x, y) for x, y in front]
        corners = _front_corners(front_points, right)
        shapes.append(ChartPath(corners, "front", is_open=True))
    for series, values in curves:
        style = "reference" if series is None else "curve"
        path = tuple(to_pixels(x, y) for x, y in values)
        curve = ChartPath(path, style, is_open=True)
        shapes.append(ChartGroup((curve,), series))
    shapes += [_scatter_mark(point, to_pixels, x_axis, y_axis) for point in reversed(points)]
    return ChartDrawing(title, CHART_WIDTH, bottom + 42, tuple(shapes))


def _front_corners(front: Sequence[ChartPoint], right: float) -> tuple[ChartPoint, ...]:
    """Return the corners of a Pareto front drawn as steps from the left, up to the right edge of the chart.

    The x of a chart is a cost and the y a score. The line is horizontal between two points, because a score that is
    reached at some cost is also available at a higher cost.
    """
    steps: list[ChartPoint] = []
    for (x, y), (next_x, _) in pairwise(front):
        steps.append((x, y))
        steps.append((next_x, y))
    last_x, last_y = front[-1]
    steps.append((last_x, last_y))
    steps.append((right, last_y))
    return tuple(steps)


def _scatter_mark(
    point: ScatterPoint, to_pixels: ToPixels, x_axis: ChartAxis, y_axis: ChartAxis
) -> ChartGroup:
    """Return the shapes of one point of a scatter chart: a dot, and a line over its interval in each direction.

    Args:
        point: The point. Both of its values may have intervals.
        to_pixels: Function from an x and a y in the units of the axes to a position in the drawing.
        x_axis: The horizontal axis. A line that would extend beyond its ends is cut off there.
        y_axis: The vertical axis, likewise.
    """
    x_value = point.x.value or 0.0
    y_value = point.y.value or 0.0
    x, y = to_pixels(x_value, y_value)
    shapes: list[ChartShape] = []
    if point.x.low is not None and point.x.high is not None:
        left_value = max(point.x.low, x_axis.bottom)
        right_value = min(point.x.high, x_axis.top)
        left, _ = to_pixels(left_value, y_value)
        right, _ = to_pixels(right_value, y_value)
        shapes.append(ChartLine(left, y, right, y, "whisker faint"))
    if point.y.low is not None and point.y.high is not None:
        low_value = max(point.y.low, y_axis.bottom)
        high_value = min(point.y.high, y_axis.top)
        _, lower_end = to_pixels(x_value, low_value)
        _, upper_end = to_pixels(x_value, high_value)
        shapes.append(ChartLine(x, lower_end, x, upper_end, "whisker faint"))
    shapes.append(ChartMark(point.series, x, y, point.is_hollow))

    tooltip = point.tooltip
    if not tooltip:
        x_text = f"{x_axis.title} {figure_text(point.x, x_axis.unit)}"
        y_text = f"{y_axis.title} {figure_text(point.y, y_axis.unit)}"
        tooltip = f"{point.name}: {x_text}, {y_text}"
    return ChartGroup(tuple(shapes), point.series, tooltip, point.samples)
