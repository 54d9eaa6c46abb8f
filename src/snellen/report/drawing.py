"""Drawings of a report and the shapes that they consist of: text, lines, rectangles, marks and groups.

A series has a colour and a shape, so nothing depends on colour alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from msgspec import Struct

CHART_WIDTH = 460
"""Width of most charts, in pixels."""
N_SERIES_COLOURS = 8
"""Number of colours for series; more series begin again with the first."""
SERIES_MARKS = (
    "M-3.6 0a3.6 3.6 0 1 0 7.2 0a3.6 3.6 0 1 0-7.2 0z",  # circle
    "M-3.2-3.2h6.4v6.4h-6.4z",  # square
    "M0-4.2L4 3.2H-4z",  # triangle
    "M0-4.6L4.2 0L0 4.6L-4.2 0z",  # diamond
    "M0 4.2L4-3.2H-4z",  # triangle, upside down
    "M-1.5-4h3v2.5H4v3H1.5V4h-3V1.5H-4v-3h2.5z",  # cross
    "M-4-1.6h8v3.2h-8z",  # bar
)
"""Marks of the series, as paths around the origin."""


ChartPoint = tuple[float, float]
"""A place in a drawing: x to the right and y downwards, in pixels."""


class ChartText(Struct, frozen=True):
    """Text; `turn` is its rotation in degrees. Styles are classes of `charts.css`.

    Examples:
        >>> ChartText(20, 12, "wren").content
        'wren'
    """

    shape: ClassVar[str] = "text"
    x: float
    y: float
    content: str
    style: str = ""
    tooltip: str = ""
    turn: float = 0.0


class ChartLine(Struct, frozen=True):
    """A straight line between two points.

    Examples:
        >>> ChartLine(0, 0, 100, 0, "axis").x2
        100
    """

    shape: ClassVar[str] = "line"
    x1: float
    y1: float
    x2: float
    y2: float
    style: str


class ChartRectangle(Struct, frozen=True):
    """A rectangle; `opacity` overrides that of the style.

    Examples:
        >>> ChartRectangle(0, 0, 100, 20, "bar").width
        100
    """

    shape: ClassVar[str] = "box"
    x: float
    y: float
    width: float
    height: float
    style: str
    opacity: float | None = None
    tooltip: str = ""


class ChartPath(Struct, frozen=True):
    """A closed line through points, or an open one.

    Examples:
        >>> ChartPath(((0, 0), (10, 5), (20, 0)), "curve", is_open=True).points[1]
        (10, 5)
    """

    shape: ClassVar[str] = "outline"
    points: tuple[ChartPoint, ...]
    style: str
    is_open: bool = False


class ChartMark(Struct, frozen=True):
    """A point of a series, in the form of the series.

    Examples:
        >>> ChartMark(0, 40, 12).series
        0
    """

    shape: ClassVar[str] = "mark"
    series: int
    x: float
    y: float
    is_hollow: bool = False


class ChartGroup(Struct, frozen=True):
    """Shapes with one tooltip, in the colour of a series.

    Examples:
        >>> ChartGroup((ChartMark(0, 40, 12),), series=0, tooltip="wren: 3 songs").tooltip
        'wren: 3 songs'
    """

    shape: ClassVar[str] = "group"
    shapes: tuple[ChartShape, ...]
    series: int | None = None
    tooltip: str = ""
    samples: str = ""
    """Query for the samples of the point in the sample browser of a page."""


ChartShape = ChartText | ChartLine | ChartRectangle | ChartPath | ChartMark | ChartGroup
"""What a drawing consists of."""


class ChartDrawing(Struct, frozen=True):
    """A drawing with a title for screen readers; sizes are in pixels.

    Examples:
        >>> drawing = ChartDrawing("Songs", 200, 40, (ChartText(20, 20, "wren"),))
        >>> drawing.width
        200
    """

    title: str
    width: float
    height: float
    shapes: tuple[ChartShape, ...]
    above: float = 0.0
    """Height above the origin."""


class ChartPanel(Struct, frozen=True):
    """A drawing under a heading.

    Examples:
        >>> ChartPanel("Songs", ChartDrawing("Songs", 200, 40, ())).title
        'Songs'
    """

    title: str
    drawing: ChartDrawing


class DrawingBuilder:
    """Shapes of a drawing, added one after the other; later ones are drawn over earlier ones.

    Coordinates are in pixels, x to the right and y downwards. Styles are classes of `charts.css`. A shape with a series
    has its colour; a shape with a tooltip shows it when pointed at.

    Examples:
        >>> builder = DrawingBuilder()
        >>> builder.text(20, 12, "wren")
        >>> builder.mark(0, 60, 8, tooltip="wren: 3 songs")
        >>> builder.drawing("Songs", height=40).width
        460
    """

    default_width: ClassVar[int] = CHART_WIDTH

    def __init__(self) -> None:
        self._shapes: list[ChartShape] = []

    def text(self, x: float, y: float, content: str, style: str = "") -> None:
        """Add a text at a point."""
        self._shapes.append(ChartText(x, y, content, style))

    def line(self, start: ChartPoint, end: ChartPoint, style: str) -> None:
        """Add a straight line between two points."""
        self._shapes.append(ChartLine(*start, *end, style))

    def path(
        self,
        points: Sequence[ChartPoint],
        style: str,
        *,
        is_open: bool = False,
        series: int | None = None,
        tooltip: str = "",
    ) -> None:
        """Add a line through points, which is closed unless `is_open`."""
        self._add(ChartPath(tuple(points), style, is_open), series, tooltip)

    def rectangle(
        self,
        corner: ChartPoint,
        width: float,
        height: float,
        style: str,
        *,
        opacity: float | None = None,
        series: int | None = None,
        tooltip: str = "",
    ) -> None:
        """Add a rectangle with a given upper left corner. `opacity` overrides that of the style."""
        self._add(ChartRectangle(*corner, width, height, style, opacity), series, tooltip)

    def mark(
        self, series: int, x: float, y: float, *, is_hollow: bool = False, tooltip: str = ""
    ) -> None:
        """Add a point of a series, in the colour and form of the series."""
        self._add(ChartMark(series, x, y, is_hollow), series, tooltip)

    def mark_in_interval(
        self, series: int, x: float, y: float, interval: tuple[float, float], *, tooltip: str = ""
    ) -> None:
        """Add a dot with a horizontal line over its interval.

        Args:
            series: The number of the series, which determines the colour.
            x: Position of the dot, in pixels from the left.
            y: Position of the dot, in pixels from the top.
            interval: The x of both ends of the interval, in pixels.
            tooltip: Text that appears when the mouse points at the dot.
        """
        low, high = interval
        whisker = ChartLine(low, y, high, y, "whisker")
        dot = ChartMark(series, x, y)
        self._shapes.append(ChartGroup((whisker, dot), series, tooltip))

    def mark_with_whisker(
        self,
        series: int,
        x: float,
        y: float,
        interval: tuple[float, float] | None,
        *,
        tooltip: str = "",
    ) -> None:
        """Add a dot with a vertical line over its interval, if it has one. The interval is two y in pixels from the top."""
        shapes: list[ChartShape] = []
        if interval is not None:
            low, high = interval
            shapes.append(ChartLine(x, low, x, high, "whisker"))
        shapes.append(ChartMark(series, x, y))
        self._shapes.append(ChartGroup(tuple(shapes), series, tooltip))

    def drawing(
        self, title: str, *, height: float, width: float = CHART_WIDTH, above: float = 0.0
    ) -> ChartDrawing:
        """Return the drawing with the shapes that were added.

        Args:
            title: Title for screen readers.
            height: Height below the origin.
            width: Width.
            above: Height above the origin.
        """
        return ChartDrawing(title, width, height, tuple(self._shapes), above)

    def _add(self, shape: ChartShape, series: int | None, tooltip: str) -> None:
        if series is not None or tooltip:
            shape = ChartGroup((shape,), series, tooltip)
        self._shapes.append(shape)


def series_class(series: int) -> str:
    """Return the CSS class with the colour of a series."""
    return f"s{series % N_SERIES_COLOURS}"
