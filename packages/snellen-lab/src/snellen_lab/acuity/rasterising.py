"""Polygons to pixels, with the same bytes on any machine.

The grey value of a pixel is the share of its area that a shape covers. The share is exact along a row; down a column
it is sampled in ten subrows. Ten, because the stroke of an optotype is a fifth of its height, so that strokes are exact
for every height in whole or half pixels.
"""

from __future__ import annotations

import math
from functools import lru_cache
from itertools import accumulate, pairwise

from msgspec import Struct

Point = tuple[float, float]
"""x runs to the right, y down."""
Contour = tuple[Point, ...]
Part = tuple[Contour, ...]
"""Contours filled by the even-odd rule: a point inside an odd number of them is covered."""
Shape = tuple[Part, ...]
"""The union of its parts."""
SUBROWS = 10
ROUNDING = (
    1e-9  # pixels; keeps a coordinate such as 12.0000000001 from reaching into the next pixel
)


class Mask(Struct, frozen=True):
    """Coverage of each pixel by a shape, row by row, from 0 (none) to 255 (all of it)."""

    width: int
    height: int
    coverage: bytes


@lru_cache(maxsize=256)
def rasterise(shape: Shape, scale: float, right: float = 0.0, down: float = 0.0) -> Mask:
    """Return the pixels that a shape covers.

    Each row of pixels is divided into `SUBROWS` thin rows. In each of them, the shape covers some spans from left to
    right, found where the outlines cross the thin row. The grey of a pixel is the mean of the covered shares of its thin
    rows.

    Args:
        shape: Parts, each with one or several closed contours of points (x, y), in units of the shape.
        scale: Pixels per unit.
        right: Pixels by which the enlarged shape is moved to the right.
        down: Pixels by which it is moved down.

    Returns:
        The mask from the origin to the lower right corner of the shape. What is left of the origin or above it is cut
        off.
    """
    scaled_parts: list[list[list[Point]]] = []
    width = 0
    height = 0
    for part in shape:
        scaled_contours = []
        for contour in part:
            scaled_contour = [(x * scale + right, y * scale + down) for x, y in contour]
            scaled_contours.append(scaled_contour)
            for x, y in scaled_contour:
                width = max(width, math.ceil(x - ROUNDING))
                height = max(height, math.ceil(y - ROUNDING))
        scaled_parts.append(scaled_contours)

    crossings_by_part = [_row_crossings(contours, height) for contours in scaled_parts]
    rows = []
    for y in range(height):
        # Coverage is the running sum of these steps, so that a span costs the same whatever its length.
        steps = [0.0] * (width + 2)
        for subrow in range(y * SUBROWS, (y + 1) * SUBROWS):
            crossings_in_subrow = []
            for crossings_by_subrow in crossings_by_part:
                if subrow in crossings_by_subrow:
                    crossings_in_subrow.append(crossings_by_subrow[subrow])
            for start, end in _covered_spans(crossings_in_subrow):
                _add_step(steps, max(start, 0.0), 1.0)
                _add_step(steps, max(end, 0.0), -1.0)
        coverage = accumulate(steps[:width])
        rows.append(bytes(rounded_half_up(share * 255 / SUBROWS) for share in coverage))
    return Mask(width, height, b"".join(rows))


def rounded_half_up(value: float) -> int:
    """Return the nearest integer, with halves rounded up.

    Sums of floats differ in their last bits between Python versions; the small addend keeps halves together.
    """
    return math.floor(value + 0.5 + 1e-7)


def _add_step(steps: list[float], x: float, height: float) -> None:
    """Let the running sum of `steps` (one number per pixel) rise by `height` at the coordinate x.

    If x is within a pixel, that pixel gets a part of the rise and the next pixel the rest.
    """
    pixel = int(x)
    fraction = x - pixel
    steps[pixel] += height * (1 - fraction)
    steps[pixel + 1] += height * fraction


def _row_crossings(contours: list[list[Point]], height: int) -> dict[int, list[float]]:
    """Find where the outlines of a shape cross each subrow (a tenth of a row of pixels).

    Args:
        contours: Closed outlines, in pixels.
        height: Number of rows of pixels.

    Returns:
        For the index of each subrow that is crossed, the x coordinates of the crossings with its middle.
    """
    crossings: dict[int, list[float]] = {}
    for contour in contours:
        closed = [*contour, contour[0]]
        for start, end in pairwise(closed):
            upper_x, upper_y = start
            lower_x, lower_y = end
            if upper_y > lower_y:  # y points down
                upper_x, upper_y = end
                lower_x, lower_y = start
            first = math.ceil(upper_y * SUBROWS - 0.5 - ROUNDING)
            stop = math.ceil(lower_y * SUBROWS - 0.5 - ROUNDING)
            for subrow in range(max(first, 0), min(stop, height * SUBROWS)):
                middle = (subrow + 0.5) / SUBROWS
                share = (middle - upper_y) / (lower_y - upper_y)
                x = upper_x + share * (lower_x - upper_x)
                crossings.setdefault(subrow, []).append(x)
    return crossings


def _covered_spans(crossings_by_part: list[list[float]]) -> list[tuple[float, float]]:
    """Return the union of the spans that each part covers on a line, from left to right."""
    spans = []
    for crossings in crossings_by_part:
        ordered = sorted(crossings)
        spans.extend(zip(ordered[::2], ordered[1::2], strict=True))

    union: list[tuple[float, float]] = []
    for start, end in sorted(spans):
        if union and start <= union[-1][1]:
            last_start, last_end = union[-1]
            union[-1] = (last_start, max(end, last_end))
        else:
            union.append((start, end))
    return union
