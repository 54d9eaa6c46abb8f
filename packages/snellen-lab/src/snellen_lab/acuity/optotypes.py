"""Shapes to pixels, and the signs of eye charts in their published geometry.

A pixel's grey is the share of it that a shape covers: exact along a row, in tenths down a column. Tenths, so that a
stroke of a fifth of a letter is exact for every height in whole or half pixels. The same trial gives the same bytes on
any machine.

Signs stand in a square of 5 x 5 units with strokes of one unit:

- The Landolt ring: ISO 8596:2017. Outer diameter 5, stroke 1, a gap of 1 with parallel sides, in eight directions.
- The tumbling E (Snellen 1862, Taylor 1978): three bars of one unit, with spaces of one unit, joined by a fourth.
- The Sloan letters C D H K N O R S V Z (Sloan 1959; standard of NAS-NRC, Adv. Ophthalmol. 41:103, 1980): as wide as
  high, without serifs; C is the Landolt ring, curves are concentric arcs. Slanted strokes are one unit wide across.
"""

from __future__ import annotations

import math
from functools import lru_cache
from itertools import accumulate, pairwise

from msgspec import Struct
from PIL import Image

from snellen.plugin_api import encode_png

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
        [[(x * scale + right, y * scale + down) for x, y in contour] for contour in contours]
        for contours in shape
    ]
    points = [point for contours in parts for contour in contours for point in contour]
    width, height = (math.ceil(max(point[axis] for point in points) - 1e-9) for axis in (0, 1))
    crossings = [_crossings(contours, height) for contours in parts]
    rows = []
    for y in range(height):
        slopes = [0.0] * (width + 2)
        for subrow in range(y * SUBROWS, (y + 1) * SUBROWS):
            for start, end in _spans([part[subrow] for part in crossings if subrow in part]):
                _add(slopes, max(start, 0.0), 1.0)
                _add(slopes, max(end, 0.0), -1.0)
        rows.append(
            bytes(rounded_half_up(share * 255 / SUBROWS) for share in accumulate(slopes[:width]))
        )
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
                crossings.setdefault(subrow, []).append(
                    x0 + ((subrow + 0.5) / SUBROWS - y0) / (y1 - y0) * (x1 - x0)
                )
    return crossings


def _spans(parts: list[list[float]]) -> list[tuple[float, float]]:
    """The union of what each part encloses on one line, from left to right."""
    ordered = [sorted(crossings) for crossings in parts]
    spans = sorted(span for row in ordered for span in zip(row[::2], row[1::2], strict=True))
    union: list[tuple[float, float]] = []
    for start, end in spans:
        if union and start <= union[-1][1]:
            union[-1] = (union[-1][0], max(end, union[-1][1]))
        else:
            union.append((start, end))
    return union


class Canvas:
    """A grey picture to put shapes on: values 0 (black) to 255 (white)."""

    def __init__(self, width: int, height: int, ground: int = WHITE) -> None:
        self.image = Image.new("L", (width, height), ground)

    def put(self, shape: Shape, scale: float, at: Point, ink: int = BLACK) -> None:
        """A shape, its origin at a point of the picture, `scale` pixels per unit."""
        x, y = math.floor(at[0]), math.floor(at[1])
        self.put_mask(
            rasterise(shape, scale, round(at[0] - x, 9), round(at[1] - y, 9)), (x, y), ink
        )

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

    def rectangle(
        self, left: int, top: int, width: int, height: int, colour: tuple[int, int, int]
    ) -> None:
        """A rectangle of whole pixels."""
        if colour not in self.palette:
            self.palette.append(colour)
        self.image.paste(self.palette.index(colour), (left, top, left + width, top + height))

    def png(self) -> bytes:
        """The picture's file: the same pixels give the same bytes anywhere."""
        return encode_png(*self.image.size, self.image.tobytes(), self.palette)


UNITS = 5
"""Width and height of each sign; a sign `px` high is drawn with px / 5 pixels per unit."""
DIRECTIONS = (
    "right",
    "bottom right",
    "bottom",
    "bottom left",
    "left",
    "top left",
    "top",
    "top right",
)
"""Clockwise from the right, each 45 degrees on."""


def _arc(x: float, y: float, radius: float, start: float, stop: float) -> Contour:
    """Points of an arc, one for each degree, clockwise as y runs down."""
    steps = max(math.ceil(abs(stop - start)), 1)
    angles = (math.radians(start + (stop - start) * step / steps) for step in range(steps + 1))
    return tuple(
        (round(x + radius * math.cos(a), 9), round(y + radius * math.sin(a), 9)) for a in angles
    )


def rectangle(left: float, top: float, right: float, bottom: float) -> Part:
    """A filled rectangle."""
    return (((left, top), (right, top), (right, bottom), (left, bottom)),)


def disc(x: float, y: float, radius: float) -> Part:
    """A filled circle."""
    return (_arc(x, y, radius, 0, 359),)


def ring(x: float, y: float, outer: float, inner: float) -> Part:
    """What lies between two circles."""
    return (_arc(x, y, outer, 0, 359), _arc(x, y, inner, 0, 359))


def _sector(x: float, y: float, start: float, stop: float) -> Part:
    """A part of the ring that rounds the strokes of S: outer radius 1.5, inner 0.5."""
    return ((*_arc(x, y, 1.5, start, stop), *_arc(x, y, 0.5, stop, start)),)


def rotated(shape: Shape, degrees: float) -> Shape:
    """A sign turned clockwise about the middle of its square."""
    cosine, sine = (
        round(value, 12)
        for value in (math.cos(math.radians(degrees)), math.sin(math.radians(degrees)))
    )
    middle = UNITS / 2

    def turned(contour: Contour) -> Contour:
        return tuple(
            (
                round(middle + (x - middle) * cosine - (y - middle) * sine, 9),
                round(middle + (x - middle) * sine + (y - middle) * cosine, 9),
            )
            for x, y in contour
        )

    return tuple(tuple(turned(contour) for contour in part) for part in shape)


def landolt_c(direction: str = "right") -> Shape:
    """The ring with its gap to one of the eight directions."""
    outer, inner = (math.degrees(math.asin(0.5 / radius)) for radius in (2.5, 1.5))
    ring = (*_arc(2.5, 2.5, 2.5, outer, 360 - outer), *_arc(2.5, 2.5, 1.5, 360 - inner, inner))
    return rotated(((ring,),), 45 * DIRECTIONS.index(direction))


def tumbling_e(direction: str = "right") -> Shape:
    """The E with its bars to the right, bottom, left or top."""
    bars = tuple(rectangle(0, y, 5, y + 1) for y in (0, 2, 4))
    return rotated((rectangle(0, 0, 1, 5), *bars), 45 * DIRECTIONS.index(direction))


def _stroke_foot(run: float, rise: float) -> float:
    """How wide a stroke one unit across is along the base line, if it leans `run - width` over a height of `rise`.

    width * rise = sqrt((run - width)^2 + rise^2), solved for the width.
    """
    a, b, c = rise**2 - 1, 2 * run, -(run**2 + rise**2)
    return (math.sqrt(b * b - 4 * a * c) - b) / (2 * a)


def _letter_d() -> Shape:
    outer = ((0.0, 0.0), *_arc(3, 2, 2, -90, 0), *_arc(3, 3, 2, 0, 90), (0.0, 5.0))
    inner = ((1.0, 1.0), *_arc(3, 2, 1, -90, 0), *_arc(3, 3, 1, 0, 90), (1.0, 4.0))
    return ((outer, inner),)


def _letter_k() -> Shape:
    """The arm falls by 3 on 4 from the upper right corner to the bar; the leg runs from its middle to the corner."""
    foot = _stroke_foot(3, 2.75)
    arm = ((5.0, 0.0), (1.0, 3.0), (1.0, 1.75), (10 / 3, 0.0))
    lean = (3 - foot) / 2.75
    # The right edge goes up from the corner until it meets the arm's lower edge, y = 0.75 (5 - x).
    height = 3.75 * lean / (1 + 0.75 * lean)
    leg = ((2.0, 2.25), (5 - lean * (5 - height), height), (5.0, 5.0), (5 - foot, 5.0))
    return (rectangle(0, 0, 1, 5), (arm,), (leg,))


def _letter_n() -> Shape:
    """The slanted stroke touches both inner corners: its slope m solves (5 - 3 m)^2 = 1 + m^2."""
    slope = (30 - math.sqrt(30**2 - 4 * 8 * 24)) / 16
    slant = ((0.0, 0.0), (1.0, 0.0), (4.0, 3 * slope), (5.0, 5.0), (4.0, 5.0), (1.0, 5 - 3 * slope))
    return (rectangle(0, 0, 1, 5), rectangle(4, 0, 5, 5), (slant,))


def _letter_r() -> Shape:
    foot = _stroke_foot(2, 2)
    lean = (2 - foot) / 2
    bowl = ((0.0, 0.0), *_arc(3.5, 1.5, 1.5, -90, 90), (0.0, 3.0))
    hole = ((1.0, 1.0), *_arc(3.5, 1.5, 0.5, -90, 90), (1.0, 2.0))
    leg = ((5 - foot, 5.0), (5 - foot - 2.5 * lean, 2.5), (5 - 2.5 * lean, 2.5), (5.0, 5.0))
    return (rectangle(0, 0, 1, 5), (bowl, hole), (leg,))


def _letter_s() -> Shape:
    bars = tuple(rectangle(1.5, y, 3.5, y + 1) for y in (0, 2, 4))
    upper = (_sector(1.5, 1.5, 90, 270), _sector(3.5, 1.5, -90, 0))
    lower = (_sector(3.5, 3.5, -90, 90), _sector(1.5, 3.5, 90, 180))
    return (*bars, *upper, *lower)


def _letter_v() -> Shape:
    """Both strokes run from a corner to a foot one unit wide."""
    top = math.hypot(2, 5) / 5
    crotch = 5 * (2.5 - top) / 2
    return (
        (
            (
                (0.0, 0.0),
                (top, 0.0),
                (2.5, crotch),
                (5 - top, 0.0),
                (5.0, 0.0),
                (3.0, 5.0),
                (2.0, 5.0),
            ),
        ),
    )


SLOAN: dict[str, Shape] = {
    "C": landolt_c(),
    "D": _letter_d(),
    "H": (rectangle(0, 0, 1, 5), rectangle(4, 0, 5, 5), rectangle(1, 2, 4, 3)),
    "K": _letter_k(),
    "N": _letter_n(),
    "O": (ring(2.5, 2.5, 2.5, 1.5),),
    "R": _letter_r(),
    "S": _letter_s(),
    "V": _letter_v(),
    "Z": rotated(_letter_n(), 90),
}


def put_letter(canvas: Canvas, letter: str, height: float, at: Point, ink: int = BLACK) -> None:
    """A Sloan letter so many pixels high, its upper left corner at a point of the picture."""
    canvas.put(SLOAN[letter], height / UNITS, at, ink)
