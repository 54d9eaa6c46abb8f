"""Radar charts: one axis per share, one polygon per series."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from snellen.report.axes import PlotPoint, label_width
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


def radar_chart(
    title: str,
    axes: Sequence[str],
    polygons: Sequence[tuple[int, Sequence[PlotPoint | None]]],
    chance: Sequence[float | None],
) -> ChartDrawing:
    """Draw a radar chart of shares: axes from a common centre, and a polygon for each model with one corner on each axis.

    The rim is a share of 1, and greater values are drawn there.

    Args:
        title: Title for screen readers.
        axes: Names of the axes, such as ability dimensions.
        polygons: For each model, the number of its series, which decides its colour, and its point on each axis; None
            if it has no value there.
        chance: Chance level of each axis, drawn as a dotted polygon; None if an axis has none.

    Examples:
        >>> from snellen.plugin_api import Estimate
        >>> points = [PlotPoint(0, "mine", Estimate(0.75, 0.05, 0.64, 0.83, 80))] * 3
        >>> radar_chart("Accuracy", ["animals", "birds", "cars"], [(0, points)], [0.25, 0.25, None]).title
        'Accuracy'
    """
    # Many names need a longer rim, so that those of neighbours do not overlap.
    zoom = 1.0 if len(axes) <= 12 else 1.35
    height = zoom * 390.0
    radius = zoom * 128.0
    name_lines = [line for name in axes for line in _lines_of(name)]
    room_for_names = 2 * (1.1 * radius + label_width(name_lines))
    width = max(zoom * CHART_WIDTH, room_for_names)
    centre = (width / 2, zoom * 192.0)

    def to_pixels(axis: int, share: float) -> ChartPoint:
        """Return the position of a value on an axis, in pixels.

        Args:
            axis: The index of the axis. Axis 0 points up, and the others follow clockwise.
            share: The distance from the centre, as a share of the radius.
        """
        upwards = -math.pi / 2
        angle = 2 * math.pi * axis / len(axes) + upwards
        x = centre[0] + radius * share * math.cos(angle)
        y = centre[1] + radius * share * math.sin(angle)
        return x, y

    shapes: list[ChartShape] = []
    for share in (0.25, 0.5, 0.75, 1.0):
        ring = tuple(to_pixels(axis, share) for axis in range(len(axes)))
        shapes.append(ChartPath(ring, "ring"))
    for axis, name in enumerate(axes):
        shapes.append(ChartLine(*centre, *to_pixels(axis, 1.0), "ring"))
        shapes += _axis_name(name, *to_pixels(axis, 1.1), centre)
    for share in (0.5, 1.0):
        y = centre[1] - radius * share + 12
        shapes.append(ChartText(centre[0] + 4, y, f"{100 * share:.0f}%", "tick start"))

    chance_corners: list[ChartPoint | None] = []
    for axis, level in enumerate(chance):
        chance_corners.append(None if level is None else to_pixels(axis, level))
    shapes += _outline("reference", chance_corners)

    for series, points in polygons:
        corners: list[ChartPoint | None] = []
        marks: list[ChartShape] = []
        for axis, point in enumerate(points):
            if point is None or point.estimate.value is None:
                corners.append(None)
                continue
            corner = to_pixels(axis, min(point.estimate.value, 1.0))
            corners.append(corner)
            marks.append(ChartGroup((ChartMark(series, *corner),), tooltip=point.tooltip))
        shapes.append(ChartGroup((*_outline("polygon", corners), *marks), series))
    return ChartDrawing(title, width, height, tuple(shapes))


def _outline(style: str, corners: Sequence[ChartPoint | None]) -> list[ChartShape]:
    """Return the outline of a model in a radar chart: a polygon with one corner on each axis.

    Args:
        style: The CSS class of the shapes.
        corners: The corner on each axis in order, or None if the model has no value there. Without all corners there is
            no closed polygon, and only the sides between neighbouring corners are drawn.
    """
    existing = tuple(corner for corner in corners if corner is not None)
    if len(existing) == len(corners):
        return [ChartPath(existing, style)]

    next_corners = [*corners[1:], corners[0]]
    sides: list[ChartShape] = []
    for start, end in zip(corners, next_corners, strict=True):
        if start is not None and end is not None:
            sides.append(ChartLine(*start, *end, style))
    return sides


def _lines_of(name: str) -> list[str]:
    """Return the name of an axis in two lines if it has several words, joined by spaces or as in `image_style`."""
    name_words = re.findall(r"[^ _]+[ _]?", name)
    if len(name_words) < 2:
        return [name]
    half = (len(name_words) + 1) // 2
    return ["".join(name_words[:half]).rstrip(), "".join(name_words[half:])]


def _axis_name(name: str, x: float, y: float, centre: ChartPoint) -> list[ChartText]:
    """Return the name of an axis as text next to the rim of the chart, in two lines if it has several words.

    Args:
        name: The name.
        x: Where the axis meets the rim, in pixels from the left.
        y: Where the axis meets the rim, in pixels from the top.
        centre: The centre of the chart.
    """
    if x > centre[0] + 8:
        side = "start"
    elif x < centre[0] - 8:
        side = "end"
    else:
        side = "middle"

    lines = _lines_of(name)
    # The text ends at the rim if the axis points up, begins there if it points down, and is centred if it is at the side.
    extra_lines = len(lines) - 1
    line_height = 13.0
    if side != "middle" or y == centre[1]:
        rise = line_height / 2 * extra_lines
    elif y < centre[1]:
        rise = line_height * extra_lines + 7
    else:
        rise = -7.0
    texts: list[ChartText] = []
    for index, line in enumerate(lines):
        baseline = y + 4 - rise + line_height * index
        texts.append(ChartText(x, baseline, line, f"name {side}"))
    return texts
