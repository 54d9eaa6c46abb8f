"""Shapes to pixels: optotypes by their published measures, the rest by formulas and by others' code."""

from __future__ import annotations

import io
import math
import random
from collections.abc import Iterator
from itertools import groupby, pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from snellen_lab.acuity.canvas import Canvas, ColourCanvas
from snellen_lab.acuity.optotypes import (
    DIRECTIONS,
    SLOAN,
    landolt_c,
    put_letter,
    rectangle,
    tumbling_e,
)
from snellen_lab.acuity.rasterising import Mask, Shape, rasterise
from snellen_lab.acuity_suite.colours import ciede2000, lab_of, rgb_of
from snellen_lab.acuity_suite.degraded import BLUR_REACH, blurred, noisy
from snellen_lab.acuity_suite.jpeg_compression import jpeg

LARGE = 100
"""Pixels per unit where geometry is measured: letters of 500 px."""
RING = 4 * math.pi
GAP = 2 * (
    sum(
        sign * (0.25 * math.sqrt(r * r - 0.25) + r * r / 2 * math.asin(0.5 / r))
        for r, sign in ((2.5, 1), (1.5, -1))
    )
)
"""The part of the ring between two parallels one unit apart: the integral of the outer circle less the inner one."""


def area(shape: Shape, scale: float = LARGE) -> float:
    return sum(rasterise(shape, scale).coverage) / 255 / scale**2


def inked(values: bytes) -> list[tuple[float, float]]:
    """Start and length of each inked run, in units; a partly covered pixel at its end counts by its share."""
    found, place = [], 0
    for ink, group in groupby(values, key=bool):
        pixels = list(group)
        if ink:
            after = 1 - pixels[0] / 255 if len(pixels) > 1 else 0.0
            found.append(((place + after) / LARGE, sum(pixels) / 255 / LARGE))
        place += len(pixels)
    return found


def row(mask: Mask, y: float) -> bytes:
    top = int(y * LARGE)
    return mask.coverage[top * mask.width : (top + 1) * mask.width]


def column(mask: Mask, x: float) -> bytes:
    return mask.coverage[int(x * LARGE) :: mask.width]


# --- optotypes ---------------------------------------------------------------------------------------------------


def test_the_landolt_ring_has_the_measures_of_iso_8596() -> None:
    mask = rasterise(landolt_c(), LARGE)
    assert mask.height == 500 and area(landolt_c()) == pytest.approx(RING - GAP, rel=2e-4)
    [(left, stroke)] = inked(row(mask, 2.5))  # nothing on the right: there is the gap
    assert (left, stroke) == (pytest.approx(0, abs=0.02), pytest.approx(1, abs=0.02))
    above, below = inked(column(mask, 4.5))
    assert below[0] - above[0] - above[1] == pytest.approx(
        1, abs=1e-3
    )  # the gap is one stroke wide
    assert inked(column(mask, 4.0))[1][0] - sum(inked(column(mask, 4.0))[0]) == pytest.approx(
        1, abs=1e-3
    )  # throughout
    top, bottom = inked(column(mask, 2.5))
    assert (top[1], bottom[1]) == (pytest.approx(1, abs=0.01), pytest.approx(1, abs=0.01))


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_a_ring_is_open_to_its_direction_alone(direction: str) -> None:
    mask = rasterise(landolt_c(direction), LARGE)
    open_to = []
    for turn, name in enumerate(DIRECTIONS):
        x, y = (2.5 + 2 * f(math.radians(45 * turn)) for f in (math.cos, math.sin))
        if row(mask, y)[int(x * LARGE)] == 0:
            open_to.append(name)
    assert open_to == [direction]
    assert area(landolt_c(direction)) == pytest.approx(RING - GAP, rel=3e-4)


@pytest.mark.parametrize(
    ("direction", "turn"), [("right", 0), ("bottom", 1), ("left", 2), ("top", 3)]
)
def test_the_e_has_five_equal_bars_and_spaces(direction: str, turn: int) -> None:
    mask = rasterise(tumbling_e(direction), LARGE)
    assert area(tumbling_e(direction)) == 17
    back = Image.frombytes("L", (500, 500), mask.coverage).rotate(90 * turn)
    assert back.tobytes() == rasterise(tumbling_e(), LARGE).coverage
    assert inked(column(rasterise(tumbling_e(), LARGE), 4.9)) == [(0, 1), (2, 1), (4, 1)]


def test_sloan_letters_are_as_wide_as_high_with_the_areas_of_their_strokes() -> None:
    for letter, shape in SLOAN.items():
        mask = rasterise(shape, LARGE)
        assert mask.height == 500 and (mask.width == 500 or letter == "C"), letter
    closed_forms = {
        "C": RING - GAP,
        "D": 25 - 2 * (4 - math.pi) - (9 - 2 * (1 - math.pi / 4)),
        "H": 13,
        "O": RING,
        "S": 6 + 3 * math.pi,
    }
    assert {letter: area(SLOAN[letter]) for letter in closed_forms} == pytest.approx(
        closed_forms, rel=4e-4
    )
    # Areas of the glyphs of the font Sloan (D. Pelli 1988, after Sloan's specification), in strokes squared.
    published = {
        "C": 11.58, "D": 14.71, "H": 13.00, "K": 12.86, "N": 14.62, "O": 12.59, "R": 15.34, "S": 15.38, "V": 9.94,
        "Z": 14.62,
    }  # fmt: skip
    assert {letter: area(shape) for letter, shape in SLOAN.items()} == pytest.approx(
        published, rel=0.025
    )


@pytest.mark.parametrize(
    ("letter", "upper", "lower", "nth"),
    [
        ("N", 2.4, 2.6, 1),
        ("V", 0.5, 2, 0),
        ("V", 0.5, 2, 1),
        ("K", 3.5, 4.5, 1),
        ("K", 0.3, 0.9, 1),
        ("R", 3.5, 4.5, 1),
    ],
)
def test_slanted_strokes_are_one_unit_wide_across(
    letter: str, upper: float, lower: float, nth: int
) -> None:
    mask = rasterise(SLOAN[letter], LARGE)
    (x0, width), (x1, same) = (inked(row(mask, y))[nth] for y in (upper, lower))
    assert width == pytest.approx(same, abs=0.02)
    lean = (x1 - x0) / (lower - upper)
    assert width / math.hypot(1, lean) == pytest.approx(1, abs=0.015)


def test_upright_and_level_strokes_are_one_unit_wide() -> None:
    masks = {letter: rasterise(shape, LARGE) for letter, shape in SLOAN.items()}
    assert inked(row(masks["H"], 1)) == [(0, 1), (4, 1)] and inked(column(masks["H"], 2.5)) == [
        (2, 1)
    ]
    assert inked(column(masks["D"], 2)) == [(0, 1), (4, 1)] and inked(row(masks["D"], 2.5)) == [
        (0, 1),
        (4, 1),
    ]
    assert (
        inked(column(masks["S"], 2.5))
        == [*inked(column(masks["R"], 2)), (4, 1)]
        == [(0, 1), (2, 1), (4, 1)]
    )
    assert inked(column(masks["Z"], 0.2))[0] == (0, 1) and inked(row(masks["K"], 4.9))[0] == (0, 1)
    assert inked(row(masks["N"], 4.9))[0] == (0, 1)


@pytest.mark.parametrize("height", [2.5, 3.5, 5, 6, 7, 24, 33])
def test_a_letter_of_any_height_covers_its_share_of_the_square(height: float) -> None:
    for letter, shape in {**SLOAN, "E": tumbling_e()}.items():
        mask = rasterise(shape, height / 5)
        assert mask.height == math.ceil(height)
        rounding = mask.width * mask.height / 255 / 4
        exact = area(shape) * (height / 5) ** 2
        assert sum(mask.coverage) / 255 == pytest.approx(exact, rel=0.004, abs=rounding), letter


# --- coverage ----------------------------------------------------------------------------------------------------


@given(
    st.floats(0, 9),
    st.floats(0.01, 9),
    st.integers(0, 90),
    st.integers(1, 90),
)
def test_coverage_of_a_rectangle_is_exact(left: float, width: float, top: int, height: int) -> None:
    mask = rasterise((rectangle(left, top / 10, left + width, (top + height) / 10),), 1)
    for y in range(mask.height):
        for x in range(mask.width):
            across = min(x + 1, left + width) - max(x, left)
            along = min(y + 1, (top + height) / 10) - max(y, top / 10)
            exact = max(across, 0) * max(along, 0) * 255
            assert abs(mask.coverage[y * mask.width + x] - exact) <= 0.5 + 1e-6


@pytest.mark.parametrize("letter", SLOAN)
def test_coverage_agrees_with_many_points_in_each_pixel(letter: str) -> None:
    """The plain twin: 16 x 16 points a pixel, each inside or not by the even-odd rule of each part."""
    np = pytest.importorskip("numpy")
    mask, fine = rasterise(SLOAN[letter], 23 / 5), 16
    down, across = (
        (np.arange(size * fine) + 0.5) / fine / 4.6 for size in (mask.height, mask.width)
    )
    x, y = np.meshgrid(across, down)
    shares = (
        inside(SLOAN[letter], x, y).reshape(mask.height, fine, mask.width, fine).mean(axis=(1, 3))
    )
    coverage = np.frombuffer(mask.coverage, np.uint8).reshape(mask.height, mask.width) / 255
    assert np.abs(coverage - shares).max() < 0.07


def inside(shape: Shape, x: Any, y: Any) -> Any:
    union = x < -1
    for part in shape:
        is_odd = x < -1
        for contour in part:
            for (x0, y0), (x1, y1) in pairwise([*contour, contour[0]]):
                if y0 != y1:
                    is_odd ^= ((y0 > y) != (y1 > y)) & (x < x0 + (y - y0) / (y1 - y0) * (x1 - x0))
        union |= is_odd
    return union


def test_shapes_move_by_fractions_of_a_pixel() -> None:
    canvas = Canvas(10, 4, 255)
    canvas.put((rectangle(0, 0, 2, 2),), 1, (3.25, 1), 0)
    assert list(canvas.image.crop((2, 1, 7, 2)).tobytes()) == [255, 64, 0, 191, 255]


def test_pictures_come_back_from_their_files() -> None:
    canvas = Canvas(40, 30, 200)
    put_letter(canvas, "K", 20, (5, 5), 30)
    with Image.open(io.BytesIO(canvas.png())) as picture:
        assert picture.convert("L").tobytes() == canvas.image.tobytes()
    colours = ColourCanvas(8, 4, (1, 2, 3))
    colours.rectangle(2, 1, 3, 2, (9, 8, 7))
    with Image.open(io.BytesIO(colours.png())) as picture:
        pixels = picture.convert("RGB")
        assert (pixels.getpixel((0, 0)), pixels.getpixel((2, 1)), pixels.getpixel((5, 1))) == (
            (1, 2, 3),
            (9, 8, 7),
            (1, 2, 3),
        )


# --- degradations ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sigma", [0.5, 2.0, 7.5])
def test_blur_is_that_of_scipy(sigma: float) -> None:
    ndimage = pytest.importorskip("scipy.ndimage")
    numpy = pytest.importorskip("numpy")
    mask = rasterise(SLOAN["R"], 4)
    spread, margin = blurred(mask, sigma)
    assert margin == math.ceil(BLUR_REACH * sigma) and spread.width == mask.width + 2 * margin
    sharp = (
        numpy.frombuffer(mask.coverage, numpy.uint8).reshape(mask.height, mask.width).astype(float)
    )
    wide = numpy.pad(sharp, margin)
    theirs = ndimage.gaussian_filter(wide, sigma, radius=margin, mode="constant")
    ours = numpy.frombuffer(spread.coverage, numpy.uint8).reshape(spread.height, spread.width)
    assert numpy.abs(ours - theirs).max() <= 0.5 + 1e-6


def test_noise_has_its_standard_deviation_and_no_structure() -> None:
    for sd in (4.0, 16.0, 32.0):
        ground = Image.new("L", (200, 200), 128)
        values = [value - 128 for value in noisy(ground, sd, random.Random(1)).tobytes()]
        assert sum(values) / len(values) == pytest.approx(0, abs=4 * sd / 200)
        assert math.sqrt(sum(v * v for v in values) / len(values)) == pytest.approx(sd, rel=0.02)
        beside = sum(a * b for a, b in pairwise(values)) / len(values) / sd**2
        assert abs(beside) < 0.02
        assert (
            noisy(ground, sd, random.Random(1)).tobytes()
            == noisy(ground, sd, random.Random(1)).tobytes()
        )


@pytest.mark.parametrize("quality", [3, 10, 40, 75, 95])
def test_jpeg_is_that_of_libjpeg_but_for_its_rounding(quality: int) -> None:
    canvas = Canvas(64, 48, 255)
    put_letter(canvas, "S", 20, (13, 9), 0)
    file = io.BytesIO()
    canvas.image.save(file, "JPEG", quality=quality)
    with Image.open(file) as picture:
        theirs = picture.tobytes()
    ours = jpeg(canvas.image.tobytes(), 64, 48, quality)
    differences = [abs(a - b) for a, b in zip(ours, theirs, strict=True)]
    assert sum(differences) / len(differences) < 0.2
    # libjpeg counts in whole numbers, so that a coefficient near a half may fall to the other side in a block.
    blocks = {
        (place // 64 // 8, place % 64 // 8) for place, value in enumerate(differences) if value > 3
    }
    assert len(blocks) <= 2


# --- colours -----------------------------------------------------------------------------------------------------

SHARMA = """
50 2.6772 -79.7751 50 0 -82.7485 2.0425
50 3.1571 -77.2803 50 0 -82.7485 2.8615
50 2.8361 -74.0200 50 0 -82.7485 3.4412
50 -1.3802 -84.2814 50 0 -82.7485 1.0000
50 -1.1848 -84.8006 50 0 -82.7485 1.0000
50 -0.9009 -85.5211 50 0 -82.7485 1.0000
50 0 0 50 -1 2 2.3669
50 -1 2 50 0 0 2.3669
50 2.4900 -0.0010 50 -2.4900 0.0009 7.1792
50 2.4900 -0.0010 50 -2.4900 0.0010 7.1792
50 2.4900 -0.0010 50 -2.4900 0.0011 7.2195
50 2.4900 -0.0010 50 -2.4900 0.0012 7.2195
50 -0.0010 2.4900 50 0.0009 -2.4900 4.8045
50 -0.0010 2.4900 50 0.0011 -2.4900 4.7461
50 2.5 0 50 0 -2.5 4.3065
50 2.5 0 73 25 -18 27.1492
50 2.5 0 61 -5 29 22.8977
50 2.5 0 56 -27 -3 31.9030
50 2.5 0 58 24 15 19.4535
50 2.5 0 50 3.1736 0.5854 1.0000
50 2.5 0 50 3.2972 0 1.0000
50 2.5 0 50 1.8634 0.5757 1.0000
50 2.5 0 50 3.2592 0.3350 1.0000
60.2574 -34.0099 36.2677 60.4626 -34.1751 39.4387 1.2644
63.0109 -31.0961 -5.8663 62.8187 -29.7946 -4.0864 1.2630
61.2901 3.7196 -5.3901 61.4292 2.2480 -4.9620 1.8731
35.0831 -44.1164 3.7933 35.0232 -40.0716 1.5901 1.8645
22.7233 20.0904 -46.6940 23.0331 14.9730 -42.5619 2.0373
36.4612 47.8580 18.3852 36.2715 50.5065 21.2231 1.4146
90.8027 -2.0831 1.4410 91.1528 -1.6435 0.0447 1.4441
90.9257 -0.5406 -0.9208 88.6381 -0.8985 -0.7239 1.5381
6.7747 -0.2908 -2.4247 5.8714 -0.0985 -2.2286 0.6377
2.0776 0.0795 -1.1350 0.9033 -0.0636 -0.5514 0.9082
"""
"""Sharma, Wu and Dalal 2005, table 1: two colours and their difference."""


def pairs() -> Iterator[list[float]]:
    return ([float(word) for word in line.split()] for line in SHARMA.strip().splitlines())


def test_differences_of_colours_are_those_of_sharma_wu_and_dalal() -> None:
    for l1, a1, b1, l2, a2, b2, expected in pairs():
        first, second = (l1, a1, b1), (l2, a2, b2)
        assert round(ciede2000(first, second), 4) == pytest.approx(expected, abs=1.1e-4), (
            first,
            second,
        )
        assert ciede2000(second, first) == pytest.approx(ciede2000(first, second), abs=1e-9)


def test_srgb_is_cielab_and_back() -> None:
    # B. Lindbloom's calculator, sRGB under D65.
    known = {
        (255, 0, 0): (53.24, 80.09, 67.20),
        (0, 0, 255): (32.30, 79.20, -107.86),
        (255, 255, 255): (100, 0, 0),
    }
    for colour, lab in known.items():
        assert lab_of(colour) == pytest.approx(lab, abs=0.06)
    generator = random.Random(3)
    for _ in range(500):
        red, green, blue = (generator.randrange(2, 254) for _ in range(3))
        assert rgb_of(lab_of((red, green, blue))) == (red, green, blue)
    assert rgb_of((50, 120, -120)) is None
