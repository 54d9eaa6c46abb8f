"""What a chart is made of: shapes at places, which a template draws (`templates/drawing.html`)."""

from __future__ import annotations

from typing import ClassVar

from msgspec import Struct

Point = tuple[float, float]


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
    shape: ClassVar[str] = "line"
    x1: float
    y1: float
    x2: float
    y2: float
    style: str


class Box(Struct, frozen=True):
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


Shape = Text | Line | Box | PathLine | Mark | Group


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
