"""Shapes to pixels. A pixel's grey is the share of it that a shape covers: exact along a row, in tenths down a column.

Tenths, so that a stroke of a fifth of a letter is exact for every height in whole or half pixels.
"""

from __future__ import annotations

import math
from functools import lru_cache
from itertools import accumulate, pairwise

from msgspec import Struct
from PIL import Image

from snellen.formats.png import encode_png

Point = tuple[float, float]
Contour = tuple[Point, ...]
Part = tuple[Contour, ...]
"""Contours filled by the even-odd rule: what an odd number of them encloses."""
Shape = tuple[Part, ...]
"""The union of its parts. x runs to the right, y down."""
SUBROWS = 10
WHITE, BLACK, GREY = 255, 0, 128
_GREYS = tuple((value, value, value) for value in range(256))


class Mask(Struct, frozen=True):
    """How much of each pixel is covered, 0 to 255, row by row."""

    width: int
    height: int
    coverage: bytes


@lru_cache(maxsize=256)
def rasterise(shape: Shape, scale: float, right: float = 0.0, down: float = 0.0) -> Mask:
    """A shape enlarged to `scale` pixels per unit, then moved; what lies left of or above the origin is cut off."""
    parts = [
        [[(x * scale + right, y * scale + down) for x, y in contour] for contour in contours] for contours in shape
    ]
    points = [point for contours in parts for contour in contours for point in contour]
    width, height = (math.ceil(max(point[axis] for point in points) - 1e-9) for axis in (0, 1))
    crossings = [_crossings(contours, height) for contours in parts]
    rows = []
    for y in range(height):
        slopes = [0.0] * (width + 2)
        for subrow in range(y * SUBROWS, (y + 1) * SUBROWS):
            for left, end in _spans([part[subrow] for part in crossings if subrow in part]):
                _add(slopes, max(left, 0.0), 1.0)
                _add(slopes, max(end, 0.0), -1.0)
        rows.append(bytes(rounded_half_up(share * 255 / SUBROWS) for share in accumulate(slopes[:width])))
    return Mask(width, height, b"".join(rows))


def rounded_half_up(value: float) -> int:
    """The nearest whole number, halves upwards, whatever the last bits say: sums differ in them between Pythons."""
    return math.floor(value + 0.5 + 1e-7)


def _add(slopes: list[float], x: float, sign: float) -> None:
    """Note that all to the right of `x` is covered (or, with -1, no longer is): sums from the left give coverage."""
    pixel = int(x)
    beyond = x - pixel
    slopes[pixel] += sign * (1 - beyond)
    slopes[pixel + 1] += sign * beyond


def _crossings(contours: list[list[Point]], height: int) -> dict[int, list[float]]:
    """Where the contours cross the middle of each subrow."""
    crossings: dict[int, list[float]] = {}
    for contour in contours:
        for (x0, y0), (x1, y1) in pairwise([*contour, contour[0]]):
            if y0 > y1:
                x0, y0, x1, y1 = x1, y1, x0, y0
            first, last = (math.ceil(y * SUBROWS - 0.5 - 1e-9) for y in (y0, y1))
            for subrow in range(max(first, 0), min(last, height * SUBROWS)):
                crossings.setdefault(subrow, []).append(x0 + ((subrow + 0.5) / SUBROWS - y0) / (y1 - y0) * (x1 - x0))
    return crossings


def _spans(parts: list[list[float]]) -> list[tuple[float, float]]:
    """The union of what each part encloses on one line, from left to right."""
    ordered = [sorted(crossings) for crossings in parts]
    spans = sorted(span for row in ordered for span in zip(row[::2], row[1::2], strict=True))
    union: list[tuple[float, float]] = []
    for left, end in spans:
        if union and left <= union[-1][1]:
            union[-1] = (union[-1][0], max(end, union[-1][1]))
        else:
            union.append((left, end))
    return union


class Canvas:
    """A grey picture to put shapes on: values 0 (black) to 255 (white)."""

    def __init__(self, width: int, height: int, ground: int = WHITE) -> None:
        self.image = Image.new("L", (width, height), ground)

    def put(self, shape: Shape, scale: float, at: Point, ink: int = BLACK) -> None:
        """A shape, its origin at a point of the picture, `scale` pixels per unit."""
        x, y = math.floor(at[0]), math.floor(at[1])
        self.put_mask(rasterise(shape, scale, round(at[0] - x, 9), round(at[1] - y, 9)), (x, y), ink)

    def put_mask(self, mask: Mask, at: tuple[int, int], ink: int = BLACK) -> None:
        """Ink where a mask covers."""
        self.image.paste(ink, at, Image.frombytes("L", (mask.width, mask.height), mask.coverage))

    def fill(self, left: int, top: int, width: int, height: int, ink: int) -> None:
        """A rectangle of whole pixels."""
        self.image.paste(ink, (left, top, left + width, top + height))

    def change(self, pixels: bytes) -> None:
        """Other pixels in place of these, row by row."""
        self.image = Image.frombytes("L", self.image.size, pixels)

    def png(self) -> bytes:
        """The picture's file: the same pixels give the same bytes anywhere."""
        return encode_png(*self.image.size, self.image.tobytes(), _GREYS)


class ColourCanvas:
    """A picture of rectangles, each in a colour of its own."""

    def __init__(self, width: int, height: int, ground: tuple[int, int, int]) -> None:
        self.image, self.palette = Image.new("P", (width, height)), [ground]

    def rectangle(self, left: int, top: int, width: int, height: int, colour: tuple[int, int, int]) -> None:
        """A rectangle of whole pixels."""
        if colour not in self.palette:
            self.palette.append(colour)
        self.image.paste(self.palette.index(colour), (left, top, left + width, top + height))

    def png(self) -> bytes:
        """The picture's file: the same pixels give the same bytes anywhere."""
        return encode_png(*self.image.size, self.image.tobytes(), self.palette)
