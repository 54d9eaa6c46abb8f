"""Charts (intervals, scatter, radar, heat map) and the shapes that they consist of.

A series has a colour and a shape, so nothing depends on colour alone. Each point carries its numbers in
its tooltip.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import ClassVar

from msgspec import Struct

from snellen.metrics.declaration import SHARE, MetricRow, unit_multiplier
from snellen.records import Estimate
from snellen.report.table import (
    LETTERS,
    decimal_text,
    figure_text,
    shorten,
    shorten_inside,
    value_text,
)

Point = tuple[float, float]
"""A place in a drawing: x to the right and y downwards, in pixels."""


class Text(Struct, frozen=True):
    """Text; `turn` is its rotation in degrees. Styles are classes of `charts.css`."""

    shape: ClassVar[str] = "text"
    x: float
    y: float
    content: str
    style: str = ""
    tooltip: str = ""
    turn: float = 0.0


class Line(Struct, frozen=True):
    """A straight line between two points."""

    shape: ClassVar[str] = "line"
    x1: float
    y1: float
    x2: float
    y2: float
    style: str


class Rectangle(Struct, frozen=True):
    """A rectangle; `opacity` overrides that of the style."""

    shape: ClassVar[str] = "box"
    x: float
    y: float
    width: float
    height: float
    style: str
    opacity: float | None = None
    tooltip: str = ""


class PathLine(Struct, frozen=True):
    """A closed line through points, or an open one."""

    shape: ClassVar[str] = "outline"
    points: tuple[Point, ...]
    style: str
    is_open: bool = False


class Mark(Struct, frozen=True):
    """A point of a series, in the form of the series."""

    shape: ClassVar[str] = "mark"
    series: int
    x: float
    y: float
    is_hollow: bool = False


class Group(Struct, frozen=True):
    """Shapes with one tooltip, in the colour of a series."""

    shape: ClassVar[str] = "group"
    shapes: tuple[Shape, ...]
    series: int | None = None
    tooltip: str = ""
    samples: str = ""
    """Query for the samples of the point in the sample browser of a page."""


Shape = Text | Line | Rectangle | PathLine | Mark | Group
"""What a drawing consists of."""


class ChartDrawing(Struct, frozen=True):
    """A drawing with a title for screen readers; sizes are in pixels."""

    title: str
    width: float
    height: float
    shapes: tuple[Shape, ...]
    above: float = 0.0
    """Height above the origin."""


class ChartPanel(Struct, frozen=True):
    """A drawing under a heading."""

    title: str
    drawing: ChartDrawing


# --- charts ----------------------------------------------------------------------------------------------------------


ToPixels = Callable[[float, float], Point]
"""Function from values to coordinates in the drawing."""

CHART_WIDTH = 460
"""Width of most charts, in pixels."""
COLOURS = 8
MARKS = (
    "M-3.6 0a3.6 3.6 0 1 0 7.2 0a3.6 3.6 0 1 0-7.2 0z",  # circle
    "M-3.2-3.2h6.4v6.4h-6.4z",  # square
    "M0-4.2L4 3.2H-4z",  # triangle
    "M0-4.6L4.2 0L0 4.6L-4.2 0z",  # diamond
    "M0 4.2L4-3.2H-4z",  # triangle, upside down
    "M-1.5-4h3v2.5H4v3H1.5V4h-3V1.5H-4v-3h2.5z",  # cross
    "M-4-1.6h8v3.2h-8z",  # bar
)
"""Marks of the series, as paths around the origin."""


class PlotPoint(Struct, frozen=True):
    """One estimate of one series."""

    series: int
    name: str
    estimate: Estimate
    unit: str = SHARE
    samples: str = ""
    """Query for the samples of the point in the sample browser."""

    @property
    def tooltip(self) -> str:
        return f"{self.name}: {figure_text(self.estimate, self.unit)}"


class IntervalRow(Struct, frozen=True):
    """A row of an interval chart; `reference` is drawn as a line across it."""

    label: str
    points: tuple[PlotPoint, ...]
    reference: float | None = None
    tooltip: str = ""


class ScatterPoint(Struct, frozen=True):
    """A point in a scatter chart."""

    series: int
    name: str
    x: Estimate
    y: Estimate
    is_hollow: bool = False
    tooltip: str = ""
    """Text that replaces name and numbers."""
    samples: str = ""


class Axis(Struct, frozen=True):
    """An axis of a chart: its title, its unit and its ends."""

    title: str
    unit: str = SHARE
    top: float = 1.0
    """The largest value."""
    bottom: float = 0.0
    """The smallest."""

    @property
    def ticks(self) -> list[float]:
        span = self.top - self.bottom
        step = _step(span)
        first = math.ceil(self.bottom / step - 1e-9)
        last = math.floor(self.top / step + 1e-9)
        return [index * step for index in range(first, last + 1)]

    def label(self, value: float) -> str:
        return f"{100 * value:.0f}%" if self.unit == SHARE else f"{value + 0.0:.3g}"

    def fraction(self, value: float) -> float:
        """Return the position of a value: 0 at the bottom, 1 at the top."""
        return (value - self.bottom) / (self.top - self.bottom)


ACCURACY = Axis("accuracy")


def axis_of(row: MetricRow, estimates: Sequence[Estimate], unit: str = "") -> Axis:
    """Make the axis of a metric, over its declared bounds or else over the estimates and their intervals.

    Its title names the unit, and says if lower is better.

    Args:
        row: The metric row.
        estimates: The estimates that the chart shows.
        unit: Their unit, if another than the row's.
    """
    unit = unit or row.unit
    if row.low is not None and row.high is not None:
        multiplier = unit_multiplier(unit)
        bottom = multiplier * min(row.low, 0.0)
        top = multiplier * row.high
    else:
        ends = [0.0]
        for estimate in estimates:
            ends += [
                end for end in (estimate.low, estimate.value, estimate.high) if end is not None
            ]
        bottom = min(ends)
        top = max(ends) * 1.04
    top = max(top, bottom + 1e-6) if top > bottom else bottom + 1.0
    return Axis(row.heading, unit, top, bottom)


def series_class(series: int) -> str:
    return f"s{series % COLOURS}"


def label_width(labels: Iterable[str]) -> float:
    """Return the width of labels at the left, in pixels."""
    longest = max(map(len, labels), default=4)
    return min(longest, LETTERS) * 7.0 + 16


def interval_chart(
    title: str, groups: Sequence[IntervalRow], axis: Axis = ACCURACY, *, has_values: bool = False
) -> ChartDrawing:
    """Draw groups from top to bottom, with one lane for the value and interval of each point.

    Args:
        title: Title for screen readers.
        groups: The groups.
        axis: The horizontal axis.
        has_values: Whether values are also printed at the right, in higher lanes.
    """
    lane_height = 15.0 if has_values else 9.5
    gap = 9.0  # between groups
    top_margin = 6.0
    bottom_margin = 36.0
    left = label_width(group.label for group in groups)
    right_margin = 66.0 if has_values else 14.0
    width = CHART_WIDTH - left - right_margin

    background: list[Shape] = []
    foreground: list[Shape] = []
    y = top_margin
    for index, group in enumerate(groups):
        height = max(len(group.points), 1) * lane_height + gap
        if index % 2 == 0:
            background.append(Rectangle(0, y, CHART_WIDTH, height, "band"))
        label = shorten_inside(group.label, LETTERS)
        tooltip = group.tooltip or group.label
        foreground.append(Text(left - 10, y + height / 2 + 4, label, "end", tooltip))
        if group.reference is not None:
            x = left + width * axis.fraction(group.reference)
            foreground.append(Line(x, y + 1, x, y + height - 1, "reference"))
        for lane, point in enumerate(group.points):
            middle = y + gap / 2 + (lane + 0.5) * lane_height
            if point.estimate.value is not None:
                foreground.append(_interval(point, point.estimate.value, middle, left, width, axis))
            if has_values:
                value = value_text(point.estimate, point.unit)
                foreground.append(Text(CHART_WIDTH - 6, middle + 4, value, "end value"))
        y += height

    for tick in axis.ticks:
        x = left + width * axis.fraction(tick)
        background.append(Line(x, top_margin, x, y, "grid"))
        foreground.append(Text(x, y + 15, axis.label(tick), "tick"))
    foreground.append(Text(left + width / 2, y + 31, axis.title, "axis"))
    return ChartDrawing(title, CHART_WIDTH, y + bottom_margin, (*background, *foreground))


def _interval(
    point: PlotPoint, value: float, y: float, left: float, width: float, axis: Axis
) -> Group:
    low = value if point.estimate.low is None else point.estimate.low
    high = value if point.estimate.high is None else point.estimate.high
    x_low = left + width * axis.fraction(low)
    x_high = left + width * axis.fraction(high)
    whisker = Line(x_low, y, x_high, y, "whisker")
    # A transparent bar makes the tooltip easy to hit.
    hover_area = Rectangle(left, y - 4.5, width + 14, 9, "hit")
    dot = Mark(point.series, left + width * axis.fraction(value), y)
    return Group((hover_area, whisker, dot), point.series, point.tooltip, point.samples)


def scatter_chart(
    title: str,
    points: Sequence[ScatterPoint],
    x_axis: Axis,
    y_axis: Axis,
    *,
    diagonal: bool = False,
    front: Sequence[Point] = (),
    curves: Sequence[tuple[int | None, Sequence[Point]]] = (),
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
    """
    left = 52.0
    top = 12.0
    right = CHART_WIDTH - 16.0
    bottom = 400.0 if diagonal else 330.0
    width = right - left
    height = bottom - top

    def to_pixels(x: float, y: float) -> Point:
        return left + width * x_axis.fraction(x), bottom - height * y_axis.fraction(y)

    shapes: list[Shape] = []
    for tick in x_axis.ticks:
        x, _ = to_pixels(tick, y_axis.bottom)
        shapes.append(Line(x, top, x, bottom, "grid"))
        shapes.append(Text(x, bottom + 16, x_axis.label(tick), "tick"))
    for tick in y_axis.ticks:
        _, y = to_pixels(x_axis.bottom, tick)
        shapes.append(Line(left, y, right, y, "grid"))
        shapes.append(Text(left - 8, y + 4, y_axis.label(tick), "end tick"))
    shapes.append(Text((left + right) / 2, bottom + 34, x_axis.title, "axis"))
    shapes.append(Text(13, (top + bottom) / 2, y_axis.title, "axis", turn=-90))

    if diagonal:
        start = to_pixels(x_axis.bottom, y_axis.bottom)
        end = to_pixels(x_axis.top, y_axis.top)
        shapes.append(Line(*start, *end, "reference"))
    if front:
        corners = _steps([to_pixels(*point) for point in front], right)
        shapes.append(PathLine(corners, "front", is_open=True))
    for series, values in curves:
        style = "reference" if series is None else "curve"
        curve = PathLine(tuple(to_pixels(*value) for value in values), style, is_open=True)
        shapes.append(Group((curve,), series))
    shapes += [_scatter_mark(point, to_pixels, x_axis, y_axis) for point in reversed(points)]
    return ChartDrawing(title, CHART_WIDTH, bottom + 42, tuple(shapes))


def _steps(front: Sequence[Point], right: float) -> tuple[Point, ...]:
    """Return the points with the corners between them, up to the right edge: a score also holds at a greater cost."""
    steps: list[Point] = []
    for (x, y), (next_x, _) in pairwise(front):
        steps.append((x, y))
        steps.append((next_x, y))
    last_x, last_y = front[-1]
    steps.append((last_x, last_y))
    steps.append((right, last_y))
    return tuple(steps)


def _scatter_mark(point: ScatterPoint, to_pixels: ToPixels, x_axis: Axis, y_axis: Axis) -> Group:
    x_value = point.x.value or 0.0
    y_value = point.y.value or 0.0
    x, y = to_pixels(x_value, y_value)
    shapes: list[Shape] = []
    if point.x.low is not None and point.x.high is not None:
        x_low, _ = to_pixels(max(point.x.low, x_axis.bottom), y_value)
        x_high, _ = to_pixels(min(point.x.high, x_axis.top), y_value)
        shapes.append(Line(x_low, y, x_high, y, "whisker faint"))
    if point.y.low is not None and point.y.high is not None:
        _, y_low = to_pixels(x_value, max(point.y.low, y_axis.bottom))
        _, y_high = to_pixels(x_value, min(point.y.high, y_axis.top))
        shapes.append(Line(x, y_low, x, y_high, "whisker faint"))
    shapes.append(Mark(point.series, x, y, point.is_hollow))

    x_text = f"{x_axis.title} {figure_text(point.x, x_axis.unit)}"
    y_text = f"{y_axis.title} {figure_text(point.y, y_axis.unit)}"
    tooltip = point.tooltip or f"{point.name}: {x_text}, {y_text}"
    return Group(tuple(shapes), point.series, tooltip, point.samples)


def radar_chart(
    title: str,
    axes: Sequence[str],
    polygons: Sequence[tuple[int, Sequence[PlotPoint | None]]],
    chance: Sequence[float | None],
) -> ChartDrawing:
    """Draw one axis per share and one polygon per series. Values are cut at the rim, which is 1.

    Args:
        title: Title for screen readers.
        axes: Names of the axes.
        polygons: Series, each with a point per axis or None.
        chance: Chance level of each axis or None, drawn as a dotted polygon.
    """
    # Many names need a longer rim, so that those of neighbours do not overlap.
    zoom = 1.0 if len(axes) <= 12 else 1.35
    width = zoom * CHART_WIDTH
    height = zoom * 390.0
    centre = (zoom * CHART_WIDTH / 2, zoom * 192.0)
    radius = zoom * 128.0

    def to_pixels(axis: int, share: float) -> Point:
        angle = 2 * math.pi * axis / len(axes) - math.pi / 2
        x = centre[0] + radius * share * math.cos(angle)
        y = centre[1] + radius * share * math.sin(angle)
        return x, y

    shapes: list[Shape] = []
    for share in (0.25, 0.5, 0.75, 1.0):
        ring = tuple(to_pixels(axis, share) for axis in range(len(axes)))
        shapes.append(PathLine(ring, "ring"))
    for axis, name in enumerate(axes):
        shapes.append(Line(*centre, *to_pixels(axis, 1.0), "ring"))
        shapes += _axis_name(name, *to_pixels(axis, 1.1), centre)
    for share in (0.5, 1.0):
        y = centre[1] - radius * share + 12
        shapes.append(Text(centre[0] + 4, y, f"{100 * share:.0f}%", "tick start"))

    corners: list[Point | None] = []
    for axis, level in enumerate(chance):
        corners.append(None if level is None else to_pixels(axis, level))
    shapes += _outline("reference", corners)

    for series, points in polygons:
        corners = []
        marks: list[Shape] = []
        for axis, point in enumerate(points):
            if point is None or point.estimate.value is None:
                corners.append(None)
                continue
            corner = to_pixels(axis, min(point.estimate.value, 1.0))
            corners.append(corner)
            marks.append(Group((Mark(series, *corner),), tooltip=point.tooltip))
        shapes.append(Group((*_outline("polygon", corners), *marks), series))
    return ChartDrawing(title, width, height, tuple(shapes))


def _outline(style: str, corners: Sequence[Point | None]) -> list[Shape]:
    """Return a closed outline; if a corner is missing, only the sides between neighbours that exist."""
    existing = tuple(corner for corner in corners if corner is not None)
    if len(existing) == len(corners):
        return [PathLine(existing, style)]
    sides: list[Shape] = []
    for start, end in zip(corners, [*corners[1:], corners[0]], strict=True):
        if start is not None and end is not None:
            sides.append(Line(*start, *end, style))
    return sides


def _axis_name(name: str, x: float, y: float, centre: Point) -> list[Text]:
    if x > centre[0] + 8:
        side = "start"
    elif x < centre[0] - 8:
        side = "end"
    else:
        side = "middle"

    words = name.split(" ")
    lines = [name]
    if len(words) > 1:
        half = (len(words) + 1) // 2
        lines = [" ".join(words[:half]), " ".join(words[half:])]

    # The text ends at the rim if it is above, begins there if it is below, and is centred if it is at the side.
    direction = 0.0
    if side == "middle":
        direction = (y - centre[1]) / abs(centre[1] - y or 1)
    rise = 6.5 * (len(lines) - 1) * (1 - direction) - 7 * direction
    return [
        Text(x, y + 4 - rise + 13 * index, line, f"name {side}") for index, line in enumerate(lines)
    ]


def _step(top: float) -> float:
    if top == 1.0:
        return 0.25
    rough = top / 5
    magnitude = 10.0 ** math.floor(math.log10(rough))
    steps = [magnitude * factor for factor in (1, 2, 2.5, 5, 10)]
    return next(step for step in steps if step >= rough)


MIN_OPACITY = 0.06
MAX_OPACITY = 0.62
MIN_CELL_WIDTH = 34.0
CELL_HEIGHT = 24.0
MAX_HEADING = 20
"""Greatest number of characters in the heading of a column."""
Grid = Mapping[tuple[str, str], Estimate]
"""Estimates by row and column."""


class Scale(Struct, frozen=True):
    """Number format of a heat map: multiplied by `factor`, with this many digits."""

    unit: str
    digits: int
    factor: float = 1.0
    ends: tuple[float, float] | None = None
    """Values of the faintest and the strongest tint; if None, the least and the greatest of all."""


def heat_map(
    title: str, rows: Sequence[str], columns: Sequence[str], grid: Grid, scale: Scale
) -> ChartDrawing:
    """Draw a grid of cells with their numbers, tinted by a scale, under slanted names of columns."""
    left = label_width(rows)
    headings = [shorten_inside(name, MAX_HEADING) for name in columns]
    longest = max(map(len, headings), default=4)
    top = 16.0 + 4.2 * longest
    right_margin = 8.0 + 3.6 * longest
    cell_width = max((CHART_WIDTH - left - right_margin) / max(len(columns), 1), MIN_CELL_WIDTH)

    shapes: list[Shape] = []
    for index, (name, heading) in enumerate(zip(columns, headings, strict=True)):
        x = left + cell_width * (index + 0.45)
        shapes.append(Text(x, top - 6, heading, "start", name, turn=-40))

    values = [estimate.value for estimate in grid.values() if estimate.value is not None]
    low, high = scale.ends or (min(values, default=0.0), max(values, default=1.0))
    for row_index, row in enumerate(rows):
        y = top + CELL_HEIGHT * row_index
        shapes.append(Text(left - 8, y + 16, shorten(row), "end", row))
        for column_index, column in enumerate(columns):
            estimate = grid.get((row, column))
            if estimate is None or estimate.value is None:
                continue
            tint = (estimate.value - low) / (high - low) if high > low else 0.5
            opacity = MIN_OPACITY + (MAX_OPACITY - MIN_OPACITY) * tint
            x = left + cell_width * column_index
            box = Rectangle(x, y, cell_width - 2, CELL_HEIGHT - 2, "heat", opacity)
            middle = left + cell_width * (column_index + 0.5) - 1
            digits = decimal_text(scale.factor * estimate.value, scale.digits)
            number = Text(middle, y + 16, digits)
            tooltip = f"{row}, {column}: {figure_text(estimate, scale.unit)}"
            shapes.append(Group((box, number), 0, tooltip))
    width = left + cell_width * len(columns) + right_margin
    height = top + CELL_HEIGHT * len(rows) + 8
    return ChartDrawing(title, width, height, tuple(shapes))
