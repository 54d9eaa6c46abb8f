"""The optotypes of eye charts, in their published geometry.

Each optotype fills a square of 5 x 5 units with strokes of one unit:

- The Landolt ring: ISO 8596:2017. Outer diameter 5, stroke 1, a gap of 1 with parallel sides, in eight directions.
- The tumbling E (Snellen 1862, Taylor 1978): three bars of one unit, with spaces of one unit, joined by a fourth.
- The Sloan letters C D H K N O R S V Z (Sloan 1959; standard of NAS-NRC, Adv. Ophthalmol. 41:103, 1980): as wide as
  high, without serifs; C is the Landolt ring, curves are concentric arcs. Slanted strokes are one unit wide across.
"""

from __future__ import annotations

import math

from snellen_lab.acuity.canvas import BLACK, Canvas
from snellen_lab.acuity.rasterising import Contour, Part, Point, Shape

UNITS = 5
"""Width and height of each optotype in units. One that is `px` pixels high has px / 5 pixels per unit."""
MIDDLE = UNITS / 2
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
"""Clockwise from the right, in steps of 45 degrees."""


def _arc(x: float, y: float, radius: float, start: float, stop: float) -> Contour:
    """Return points on an arc around (x, y), about one per degree.

    Args:
        x: Centre, in units to the right.
        y: Centre, in units down.
        radius: Radius in units.
        start: Angle of the first point, clockwise from the right, in degrees.
        stop: Angle of the last point; if it is smaller than `start`, the arc runs counter-clockwise.
    """
    steps = max(math.ceil(abs(stop - start)), 1)
    points = []
    for step in range(steps + 1):
        degrees = start + (stop - start) * step / steps
        angle = math.radians(degrees)
        # Rounded, so that all machines draw the same pixels.
        arc_x = round(x + radius * math.cos(angle), 9)
        arc_y = round(y + radius * math.sin(angle), 9)
        points.append((arc_x, arc_y))
    return tuple(points)


def rectangle(left: float, top: float, right: float, bottom: float) -> Part:
    """Return a filled rectangle."""
    return (((left, top), (right, top), (right, bottom), (left, bottom)),)


def disc(x: float, y: float, radius: float) -> Part:
    """Return a filled circle."""
    return (_arc(x, y, radius, 0, 359),)


def ring(x: float, y: float, outer: float, inner: float) -> Part:
    """Return the area between two circles with these radii."""
    return (_arc(x, y, outer, 0, 359), _arc(x, y, inner, 0, 359))


def _sector(x: float, y: float, start: float, stop: float) -> Part:
    """Return a part of a ring around (x, y), one unit wide, as the round strokes of S are made of.

    `start` and `stop` are angles in degrees, clockwise from the right. The outer radius is 1.5 units, the inner 0.5.
    """
    outer_arc = _arc(x, y, 1.5, start, stop)
    inner_arc = _arc(x, y, 0.5, stop, start)
    return ((*outer_arc, *inner_arc),)


def rotated(shape: Shape, degrees: float) -> Shape:
    """Return a shape turned clockwise around the middle of its square of 5 x 5 units."""
    cosine = round(math.cos(math.radians(degrees)), 12)
    sine = round(math.sin(math.radians(degrees)), 12)

    def rotate_point(point: Point) -> Point:
        """Return a point (x, y) turned around the middle of the square. The y axis points down."""
        right = point[0] - MIDDLE
        down = point[1] - MIDDLE
        rotated_x = MIDDLE + right * cosine - down * sine
        rotated_y = MIDDLE + right * sine + down * cosine
        return round(rotated_x, 9), round(rotated_y, 9)

    rotated_parts = []
    for part in shape:
        contours = [tuple(rotate_point(point) for point in contour) for contour in part]
        rotated_parts.append(tuple(contours))
    return tuple(rotated_parts)


def landolt_c(direction: str = "right") -> Shape:
    """Return the outline of a Landolt ring (a C) whose gap is in one of the eight `DIRECTIONS`."""
    # The sides of the gap are half a unit above and below the middle. They meet the outer circle, of radius 2.5, and the
    # inner one, of radius 1.5, at these angles.
    outer_angle = math.degrees(math.asin(0.5 / 2.5))
    inner_angle = math.degrees(math.asin(0.5 / 1.5))
    outer_arc = _arc(2.5, 2.5, 2.5, outer_angle, 360 - outer_angle)
    inner_arc = _arc(2.5, 2.5, 1.5, 360 - inner_angle, inner_angle)
    outline = (*outer_arc, *inner_arc)
    gap_to_the_right: Shape = ((outline,),)
    return rotated(gap_to_the_right, 45 * DIRECTIONS.index(direction))


def tumbling_e(direction: str = "right") -> Shape:
    """Return the outline of a letter E whose three bars point to the right, bottom, left or top."""
    spine = rectangle(0, 0, 1, 5)
    bars = [rectangle(0, y, 5, y + 1) for y in (0, 2, 4)]
    bars_to_the_right = (spine, *bars)
    return rotated(bars_to_the_right, 45 * DIRECTIONS.index(direction))


def _stroke_foot(run: float, rise: float) -> float:
    """Return how wide a slanted stroke is along the base line, if it is one unit wide across.

    The foot w solves w * rise = sqrt((run - w)^2 + rise^2), which is a quadratic equation.

    Args:
        run: Horizontal extent of the stroke in units, with its foot.
        rise: Vertical extent in units.
    """
    a = rise**2 - 1
    b = 2 * run
    c = -(run**2 + rise**2)
    return (math.sqrt(b * b - 4 * a * c) - b) / (2 * a)


def _letter_d() -> Shape:
    """Return the outline of the Sloan letter D: a straight stroke on the left, two quarter rings on the right."""
    outer_top = _arc(3, 2, 2, -90, 0)
    outer_bottom = _arc(3, 3, 2, 0, 90)
    outer = ((0.0, 0.0), *outer_top, *outer_bottom, (0.0, 5.0))
    inner_top = _arc(3, 2, 1, -90, 0)
    inner_bottom = _arc(3, 3, 1, 0, 90)
    inner = ((1.0, 1.0), *inner_top, *inner_bottom, (1.0, 4.0))
    return ((outer, inner),)


def _letter_h() -> Shape:
    """Return the outline of the Sloan letter H: two upright bars and a bar across the middle."""
    left = rectangle(0, 0, 1, 5)
    right = rectangle(4, 0, 5, 5)
    bar = rectangle(1, 2, 4, 3)
    return (left, right, bar)


def _letter_k() -> Shape:
    """Return the outline of the Sloan letter K: a stem, an arm to the upper right and a leg to the lower right.

    The arm falls by 3 units over 4 from the upper right corner. The leg ends in the lower right corner.
    """
    stem = rectangle(0, 0, 1, 5)
    arm = ((5.0, 0.0), (1.0, 3.0), (1.0, 1.75), (10 / 3, 0.0))
    foot = _stroke_foot(3, 2.75)
    lean = (3 - foot) / 2.75
    # The right edge of the leg goes up from the corner until it meets the arm's lower edge, y = 0.75 (5 - x).
    meeting_y = 3.75 * lean / (1 + 0.75 * lean)
    meeting_x = 5 - lean * (5 - meeting_y)
    leg = ((2.0, 2.25), (meeting_x, meeting_y), (5.0, 5.0), (5 - foot, 5.0))
    return (stem, (arm,), (leg,))


def _letter_n() -> Shape:
    """Return the outline of the Sloan letter N: two upright bars, joined by a slanted stroke one unit wide.

    The edges of the slanted stroke touch the corners of both bars, so its slope m solves (5 - 3 m)^2 = 1 + m^2.
    """
    left = rectangle(0, 0, 1, 5)
    right = rectangle(4, 0, 5, 5)
    # The smaller root of 8 m^2 - 30 m + 24 = 0.
    slope = (30 - math.sqrt(30**2 - 4 * 8 * 24)) / 16
    slant = (
        (0.0, 0.0),
        (1.0, 0.0),
        (4.0, 3 * slope),
        (5.0, 5.0),
        (4.0, 5.0),
        (1.0, 5 - 3 * slope),
    )
    return (left, right, (slant,))


def _letter_r() -> Shape:
    """Return the outline of the Sloan letter R: a stem, a round bowl at the top, and a slanted leg."""
    stem = rectangle(0, 0, 1, 5)
    bowl = ((0.0, 0.0), *_arc(3.5, 1.5, 1.5, -90, 90), (0.0, 3.0))
    hole = ((1.0, 1.0), *_arc(3.5, 1.5, 0.5, -90, 90), (1.0, 2.0))
    foot = _stroke_foot(2, 2)
    lean = (2 - foot) / 2
    top_right = 5 - 2.5 * lean
    leg = ((5 - foot, 5.0), (5 - foot - 2.5 * lean, 2.5), (top_right, 2.5), (5.0, 5.0))
    return (stem, (bowl, hole), (leg,))


def _letter_s() -> Shape:
    """Return the outline of the Sloan letter S: three horizontal bars, joined by half and quarter rings."""
    bars = [rectangle(1.5, y, 3.5, y + 1) for y in (0, 2, 4)]
    upper_left_half = _sector(1.5, 1.5, 90, 270)
    upper_right_quarter = _sector(3.5, 1.5, -90, 0)
    lower_right_half = _sector(3.5, 3.5, -90, 90)
    lower_left_quarter = _sector(1.5, 3.5, 90, 180)
    rings = (upper_left_half, upper_right_quarter, lower_right_half, lower_left_quarter)
    return (*bars, *rings)


def _letter_v() -> Shape:
    """Return the outline of the Sloan letter V: two strokes, from the upper corners to a foot one unit wide."""
    top_width = math.hypot(2, 5) / 5
    crotch = 5 * (2.5 - top_width) / 2
    outline = (
        (0.0, 0.0),
        (top_width, 0.0),
        (2.5, crotch),
        (5 - top_width, 0.0),
        (5.0, 0.0),
        (3.0, 5.0),
        (2.0, 5.0),
    )
    return ((outline,),)


SLOAN: dict[str, Shape] = {
    "C": landolt_c(),
    "D": _letter_d(),
    "H": _letter_h(),
    "K": _letter_k(),
    "N": _letter_n(),
    "O": (ring(2.5, 2.5, 2.5, 1.5),),
    "R": _letter_r(),
    "S": _letter_s(),
    "V": _letter_v(),
    "Z": rotated(_letter_n(), 90),
}


def put_letter(canvas: Canvas, letter: str, height: float, corner: Point, ink: int = BLACK) -> None:
    """Draw a Sloan letter of this height in pixels, with its upper left corner at a point of the image."""
    canvas.put(SLOAN[letter], height / UNITS, corner, ink)
