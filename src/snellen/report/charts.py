"""Charts: points with intervals, a radar, a scatter, bars, a heat map; and the shapes that they are made of.

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
    """Words; `turn` is in degrees, around their place. Styles are classes of `charts.css`."""

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
    """A rectangle; `opacity` of its fill where it is not the style's."""

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
    """On a page: which samples stand behind it, as a query of the browser of samples."""


Shape = Text | Line | Rectangle | PathLine | Mark | Group
"""What a drawing consists of."""


class ChartDrawing(Struct, frozen=True):
    """A picture with a name for screen readers; sizes in pixels."""

    title: str
    width: float
    height: float
    shapes: tuple[Shape, ...]
    above: float = 0.0
    """Room above the origin."""


class ChartPanel(Struct, frozen=True):
    """A drawing under a heading."""

    title: str
    drawing: ChartDrawing


# --- charts ----------------------------------------------------------------------------------------------------------


ToPixels = Callable[[float, float], Point]
"""From values to coordinates in the picture."""

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
"""The forms of series, as paths around their place."""


class PlotPoint(Struct, frozen=True):
    """One estimate of one series."""

    series: int
    name: str
    estimate: Estimate
    unit: str = SHARE
    samples: str = ""
    """Which samples stand behind it, as a query of the browser of samples."""

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
    """The text in place of name and numbers, where these do not say all."""
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
        return [i * step for i in range(first, math.floor(self.top / step + 1e-9) + 1)]

    def label(self, value: float) -> str:
        return f"{100 * value:.0f}%" if self.unit == SHARE else f"{value + 0.0:.3g}"

    def fraction(self, value: float) -> float:
        """Position of a value between the bottom, 0, and the top, 1."""
        return (value - self.bottom) / (self.top - self.bottom)


ACCURACY = Axis("accuracy")


def axis_of(row: MetricRow, estimates: Sequence[Estimate], unit: str = "") -> Axis:
    """An axis for a metric: over its declared bounds, else as far as the estimates and their intervals reach.

    Its title names the unit, and says where lower is better.
    """
    ends = [end for e in estimates for end in (e.low, e.value, e.high) if end is not None]
    unit = unit or row.unit
    low, high = min([0.0, *ends]), max([0.0, *ends])
    bottom, top = low, high * 1.04
    if row.low is not None and row.high is not None:
        bottom, top = (unit_multiplier(unit) * bound for bound in (min(row.low, 0.0), row.high))
    return Axis(
        row.heading, unit, max(top, bottom + 1e-6) if top > bottom else bottom + 1.0, bottom
    )


def series_class(series: int) -> str:
    return f"s{series % COLOURS}"


def label_width(labels: Iterable[str]) -> float:
    """The room that labels on the left need, in pixels."""
    return min(max(map(len, labels), default=4), LETTERS) * 7.0 + 16


def interval_chart(
    title: str, groups: Sequence[IntervalRow], axis: Axis = ACCURACY, *, has_values: bool = False
) -> ChartDrawing:
    """Groups from top to bottom, with one lane per point for its value and interval.

    With `has_values` the values stand on the right as well, in lanes that have room for them.
    """
    lane, gap, above, below = 15.0 if has_values else 9.5, 9.0, 6.0, 36.0
    margin, right = label_width(group.label for group in groups), 66.0 if has_values else 14.0
    plot = CHART_WIDTH - margin - right
    background: list[Shape] = []
    y = above
    foreground: list[Shape] = []
    for i, group in enumerate(groups):
        height = max(len(group.points), 1) * lane + gap
        if i % 2 == 0:
            background.append(Rectangle(0, y, CHART_WIDTH, height, "band"))
        name = group.tooltip or group.label
        label = shorten_inside(group.label, LETTERS)
        foreground.append(Text(margin - 10, y + height / 2 + 4, label, "end", name))
        if group.reference is not None:
            x = margin + plot * axis.fraction(group.reference)
            foreground.append(Line(x, y + 1, x, y + height - 1, "reference"))
        for j, point in enumerate(group.points):
            middle = y + gap / 2 + (j + 0.5) * lane
            foreground += _interval(point, middle, margin, plot, axis)
            if has_values:
                foreground.append(
                    Text(
                        CHART_WIDTH - 6,
                        middle + 4,
                        value_text(point.estimate, point.unit),
                        "end value",
                    )
                )
        y += height
    for tick in axis.ticks:
        x = margin + plot * axis.fraction(tick)
        background.append(Line(x, above, x, y, "grid"))
        foreground.append(Text(x, y + 15, axis.label(tick), "tick"))
    foreground.append(Text(margin + plot / 2, y + 31, axis.title, "axis"))
    return ChartDrawing(title, CHART_WIDTH, y + below, (*background, *foreground))


def _interval(point: PlotPoint, y: float, margin: float, plot: float, axis: Axis) -> list[Shape]:
    e = point.estimate
    if e.value is None:
        return []
    low, high = (e.value if e.low is None else e.low), (e.value if e.high is None else e.high)
    whisker = Line(
        margin + plot * axis.fraction(low), y, margin + plot * axis.fraction(high), y, "whisker"
    )
    # A transparent bar makes the tooltip easy to hit.
    hover_area = Rectangle(margin, y - 4.5, plot + 14, 9, "hit")
    dot = Mark(point.series, margin + plot * axis.fraction(e.value), y)
    return [Group((hover_area, whisker, dot), point.series, point.tooltip, point.samples)]


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
    """Points with faint intervals along both axes; the first series lies on top.

    `front` are values from the cheapest on, drawn as the steps of a Pareto front. `curves` are lines through values,
    each of a series; one of None is a reference.
    """
    left, top, right, bottom = 52.0, 12.0, CHART_WIDTH - 16.0, 400.0 if diagonal else 330.0
    wide, tall = right - left, bottom - top

    def at(x: float, y: float) -> Point:
        return left + wide * x_axis.fraction(x), bottom - tall * y_axis.fraction(y)

    shapes: list[Shape] = []
    for tick in x_axis.ticks:
        x, _ = at(tick, y_axis.bottom)
        shapes += [
            Line(x, top, x, bottom, "grid"),
            Text(x, bottom + 16, x_axis.label(tick), "tick"),
        ]
    for tick in y_axis.ticks:
        _, y = at(x_axis.bottom, tick)
        shapes += [
            Line(left, y, right, y, "grid"),
            Text(left - 8, y + 4, y_axis.label(tick), "end tick"),
        ]
    shapes.append(Text((left + right) / 2, bottom + 34, x_axis.title, "axis"))
    shapes.append(Text(13, (top + bottom) / 2, y_axis.title, "axis", turn=-90))
    if diagonal:
        ends = at(x_axis.bottom, y_axis.bottom), at(x_axis.top, y_axis.top)
        shapes.append(Line(*ends[0], *ends[1], "reference"))
    if front:
        shapes.append(
            PathLine(_steps([at(*point) for point in front], right), "front", is_open=True)
        )
    for series, values in curves:
        style = "reference" if series is None else "curve"
        shapes.append(
            Group((PathLine(tuple(at(*value) for value in values), style, is_open=True),), series)
        )
    shapes += [_point(point, at, x_axis, y_axis) for point in reversed(points)]
    return ChartDrawing(title, CHART_WIDTH, bottom + 42, tuple(shapes))


def _steps(places: Sequence[Point], right: float) -> tuple[Point, ...]:
    """The points and the corners between them, on to the right edge: a score also holds at any greater cost."""
    corners = [corner for (_, y), (x, _) in pairwise(places) for corner in ((x, y),)]
    steps = [
        step
        for pair in zip(places, [*corners, (right, places[-1][1])], strict=True)
        for step in pair
    ]
    return tuple(steps)


def _point(point: ScatterPoint, at: ToPixels, x_axis: Axis, y_axis: Axis) -> Group:
    vx, vy = point.x.value or 0.0, point.y.value or 0.0
    x, y = at(vx, vy)
    shapes: list[Shape] = []
    if point.x.low is not None and point.x.high is not None:
        (x1, _), (x2, _) = (
            at(max(point.x.low, x_axis.bottom), vy),
            at(min(point.x.high, x_axis.top), vy),
        )
        shapes.append(Line(x1, y, x2, y, "whisker faint"))
    if point.y.low is not None and point.y.high is not None:
        (_, y1), (_, y2) = (
            at(vx, max(point.y.low, y_axis.bottom)),
            at(vx, min(point.y.high, y_axis.top)),
        )
        shapes.append(Line(x, y1, x, y2, "whisker faint"))
    tooltip = point.tooltip or (
        f"{point.name}: {x_axis.title} {figure_text(point.x, x_axis.unit)}, "
        f"{y_axis.title} {figure_text(point.y, y_axis.unit)}"
    )
    return Group(
        (*shapes, Mark(point.series, x, y, point.is_hollow)), point.series, tooltip, point.samples
    )


def radar_chart(
    title: str,
    axes: Sequence[str],
    polygons: Sequence[tuple[int, Sequence[PlotPoint | None]]],
    chance: Sequence[float | None],
) -> ChartDrawing:
    """One axis per share, one polygon per series; chance is dotted. Values are cut at the rim, which is 1."""
    count = len(axes)
    # So that neighbouring names of two lines each stand clear of one another.
    zoom = 1.0 if count <= 12 else 1.35
    width, size, middle, radius = (
        zoom * CHART_WIDTH,
        zoom * 390.0,
        (zoom * CHART_WIDTH / 2, zoom * 192.0),
        zoom * 128.0,
    )

    def at(i: int, share: float) -> Point:
        angle = 2 * math.pi * i / count - math.pi / 2
        return middle[0] + radius * share * math.cos(angle), middle[1] + radius * share * math.sin(
            angle
        )

    shapes: list[Shape] = [
        PathLine(tuple(at(i, share) for i in range(count)), "ring")
        for share in (0.25, 0.5, 0.75, 1.0)
    ]
    for i, name in enumerate(axes):
        shapes.append(Line(*middle, *at(i, 1.0), "ring"))
        shapes += _axis_name(name, *at(i, 1.1), middle)
    shapes += [
        Text(middle[0] + 4, middle[1] - radius * s + 12, f"{100 * s:.0f}%", "tick start")
        for s in (0.5, 1.0)
    ]
    shapes += _outline("reference", [None if c is None else at(i, c) for i, c in enumerate(chance)])
    for series, points in polygons:
        places = [
            None if m is None or m.estimate.value is None else at(i, min(m.estimate.value, 1.0))
            for i, m in enumerate(points)
        ]
        marks = [
            Group((Mark(series, *place),), tooltip=point.tooltip)
            for point, place in zip(points, places, strict=True)
            if point and place
        ]
        shapes.append(Group((*_outline("polygon", places), *marks), series))
    return ChartDrawing(title, width, size, tuple(shapes))


def _outline(style: str, places: Sequence[Point | None]) -> list[Shape]:
    """A closed outline; where a point is missing, only the sides between neighbours that exist."""
    present = tuple(place for place in places if place is not None)
    if len(present) == len(places):
        return [PathLine(present, style)]
    sides = zip(places, [*places[1:], places[0]], strict=True)
    return [Line(*a, *b, style) for a, b in sides if a is not None and b is not None]


def _axis_name(name: str, x: float, y: float, middle: Point) -> list[Text]:
    side = "start" if x > middle[0] + 8 else "end" if x < middle[0] - 8 else "middle"
    words = name.split(" ")
    half = (len(words) + 1) // 2
    lines = [" ".join(words[:half]), " ".join(words[half:])] if len(words) > 1 else [name]
    # A name above the rim ends there, one below it begins there, one beside it is centred.
    rise = (y - middle[1]) / abs(middle[1] - y or 1) if side == "middle" else 0
    up = 6.5 * (len(lines) - 1) * (1 - rise) - 7 * rise
    return [
        Text(x, y + 4 - up + 13 * i, words_of_line, f"name {side}")
        for i, words_of_line in enumerate(lines)
    ]


def _step(top: float) -> float:
    if top == 1.0:
        return 0.25
    rough = top / 5
    size = 10.0 ** math.floor(math.log10(rough))
    return next(size * factor for factor in (1, 2, 2.5, 5, 10) if size * factor >= rough)


LEAST, MOST = 0.06, 0.62
"""Opacity of the least and the greatest cell."""
NARROWEST, TALL, HEADING = 34.0, 24.0, 20
"""Least width and height of a cell in pixels, and the longest heading of a column in characters."""
Grid = Mapping[tuple[str, str], Estimate]
"""By row and column."""


class Scale(Struct, frozen=True):
    """How the numbers of a heat map are written: times `factor`, with this many digits."""

    unit: str
    digits: int
    factor: float = 1.0
    ends: tuple[float, float] | None = None
    """The values of the faintest and the strongest tint; the least and the greatest of all where not given."""


def heat_map(
    title: str, rows: Sequence[str], columns: Sequence[str], grid: Grid, scale: Scale
) -> ChartDrawing:
    """Each cell with its number, its tint by the scale. Columns' names stand slanted."""
    margin = label_width(rows)
    longest = max((len(shorten_inside(name, HEADING)) for name in columns), default=4)
    top, right = 16.0 + 4.2 * longest, 8.0 + 3.6 * longest
    wide = max((CHART_WIDTH - margin - right) / max(len(columns), 1), NARROWEST)
    shapes: list[Shape] = [
        Text(
            margin + wide * (j + 0.45),
            top - 6,
            shorten_inside(name, HEADING),
            "start",
            name,
            turn=-40,
        )
        for j, name in enumerate(columns)
    ]
    values = [estimate.value for estimate in grid.values() if estimate.value is not None]
    low, high = scale.ends or (min(values, default=0.0), max(values, default=1.0))
    for i, row in enumerate(rows):
        y = top + TALL * i
        shapes.append(Text(margin - 8, y + 16, shorten(row), "end", row))
        for j, name in enumerate(columns):
            estimate = grid.get((row, name))
            if estimate is None or estimate.value is None:
                continue
            share = (estimate.value - low) / (high - low) if high > low else 0.5
            box = Rectangle(
                margin + wide * j, y, wide - 2, TALL - 2, "heat", LEAST + (MOST - LEAST) * share
            )
            number = Text(
                margin + wide * (j + 0.5) - 1,
                y + 16,
                decimal_text(scale.factor * estimate.value, scale.digits),
            )
            shapes.append(
                Group((box, number), 0, f"{row}, {name}: {figure_text(estimate, scale.unit)}")
            )
    return ChartDrawing(
        title, margin + wide * len(columns) + right, top + TALL * len(rows) + 8, tuple(shapes)
    )
