"""Tests of scenes: how many objects, one among many, one of another colour, and a ring in a faint grey."""

from __future__ import annotations

import math
from collections.abc import Iterator
from random import Random

from snellen_lab.acuity.canvas import ColourCanvas
from snellen_lab.acuity.optotypes import DIRECTIONS, UNITS, disc, landolt_c, tumbling_e
from snellen_lab.acuity.rasterising import Shape
from snellen_lab.acuity.trials import (
    Stimulus,
    Trial,
    acuity_test,
    stimulus,
)
from snellen_lab.acuity_suite.colours import RGB, ciede2000, lab_of, rgb_of

SIDES = DIRECTIONS[::2]
GROUND = 200
"""Grey value of the ground in the test of contrast."""
CONTRASTS = tuple(
    step / GROUND
    for step in (1, 2, 3, 4, 5, 6, 8, 10, 12, 14, 16, 20, 24, 28, 32, 40, 48, 64, 80, 100, 128, 160)
)
RING = 120
"""Diameter of a ring in pixels."""


@acuity_test(
    "contrast",
    "Weber contrast of a Landolt ring of 120 px",
    "",
    CONTRASTS,
    signs=landolt_c,
    height=lambda _: RING,
    needs="a contrast of {}",
)
def contrast(trial: Trial) -> Stimulus:
    """Draw a Landolt ring (a C) of 120 px, and ask on which of four sides its gap is.

    The level is the contrast (ground - ring) / ground in grey values. The ground is 200, and each level makes the grey
    value of the ring an integer.
    """
    canvas = trial.canvas(GROUND)
    side = trial.one_of(SIDES)
    ink = round(GROUND * (1 - trial.level))
    canvas.put(landolt_c(side), RING / UNITS, trial.corner(canvas, RING), ink)
    return stimulus(canvas, "On which side is the gap of the ring?", SIDES, side)


CELL = 32
"""Width and height in pixels of the cell of one object among many."""


def _random_corners(trial: Trial, count: int, object_side: int) -> Iterator[tuple[int, int]]:
    """Yield positions for objects that do not overlap: each is in a cell of a grid of its own.

    Args:
        trial: The size of the image, and the source of random choices.
        count: Number of objects.
        object_side: Width and height of an object in pixels.

    Yields:
        The left and the top of an object in pixels, at random within its cell.
    """
    cells_per_row = trial.side // CELL
    free_pixels = CELL - object_side - 2
    cells = trial.rng.sample(range(cells_per_row * cells_per_row), count)
    for cell in cells:
        row, column = divmod(cell, cells_per_row)
        x = column * CELL + 1 + trial.rng.randint(0, free_pixels)
        y = row * CELL + 1 + trial.rng.randint(0, free_pixels)
        yield x, y


NUMBERS = (
    *(2.5, 3.5, 4.5, 5.5, 6.5, 7.5, 8.5, 9.5, 10.5),
    *(12.5, 14.5, 16.5, 18.5, 20.5, 24.5, 28.5, 32.5, 40.5),
)
DOT_WIDTH = 16  # pixels
DOT: Shape = (disc(8, 8, 8),)


@acuity_test("numerosity", "number of dots, middle of the four offered", "", NUMBERS, "smaller")
def numerosity(trial: Trial) -> Stimulus:
    """Draw dots of 16 px, and ask how many there are.

    The options are four consecutive numbers, each correct equally often. The level is their mean: 12.5 means 11 to 14.
    """
    canvas = trial.canvas()
    smallest = int(trial.level - 1.5)
    options = [str(smallest + step) for step in range(4)]
    number = trial.one_of(options)
    for corner in _random_corners(trial, int(number), DOT_WIDTH):
        canvas.put(DOT, 1, corner)
    return stimulus(canvas, "How many dots are in the picture?", options, number)


SIGN_WIDTH = 20  # pixels
DISTRACTORS = (2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32, 40, 48, 64, 80, 96, 128, 160)


@acuity_test("search", "signs among which one may point another way", "", DISTRACTORS, "smaller")
def search(trial: Trial) -> Stimulus:
    """Draw signs (a rotated E of 20 px), and ask whether one of them points another way than all others.

    The level is the number of signs that point the same way. One more sign points another way in half of the questions.
    """
    canvas = trial.canvas()
    options = ("yes", "no")
    answer = trial.one_of(options)
    common_side, other_side = trial.rng.sample(SIDES, 2)
    sides_of_signs = [common_side] * int(trial.level)
    sides_of_signs.append(other_side if answer == "yes" else common_side)
    corners = _random_corners(trial, len(sides_of_signs), SIGN_WIDTH)
    for side, corner in zip(sides_of_signs, corners, strict=True):
        canvas.put(tumbling_e(side), SIGN_WIDTH / UNITS, corner)
    question = "Does one of the signs point another way than all others?"
    return stimulus(canvas, question, options, answer)


DIFFERENCES = (0.5, 0.6, 0.8, 1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10, 12, 15, 20, 25, 30)
CORNERS = ("top left", "top right", "bottom left", "bottom right")
PATCH = 160  # pixels
SPACE = 24  # between patches


@acuity_test(
    "colour-difference",
    "difference of one of four patches from the others",
    "CIEDE2000",
    DIFFERENCES,
    needs="colours {} CIEDE2000 apart",
)
def colour_difference(trial: Trial) -> Stimulus:
    """Draw four coloured squares of 160 px, and ask which one has another colour than the others.

    The level is the CIEDE2000 difference of the two colours, which are equally light up to rounding. The tag
    `difference` has the exact difference.
    """
    canvas = ColourCanvas(trial.side, trial.side, (128, 128, 128))
    odd_corner = trial.one_of(CORNERS)
    common_colour, odd_colour = _colour_pair(trial.level, trial.rng)
    left, top = trial.corner(trial.canvas(), 2 * PATCH + SPACE)
    for index, name in enumerate(CORNERS):
        row, column = divmod(index, 2)
        x = left + column * (PATCH + SPACE)
        y = top + row * (PATCH + SPACE)
        colour = odd_colour if name == odd_corner else common_colour
        canvas.rectangle(x, y, PATCH, PATCH, colour)
    question = "Three of the four patches have the same colour. Which one has another colour?"
    difference = ciede2000(lab_of(common_colour), lab_of(odd_colour))
    tags = {"difference": f"{difference:.3f}"}
    return Stimulus((canvas.png(),), question, CORNERS, CORNERS.index(odd_corner), tags)


def _colour_pair(difference: float, rng: Random) -> tuple[RGB, RGB]:
    """Return two colours of 8 bits whose CIEDE2000 difference is this one within 1%.

    Both have about the same lightness. Colours are drawn until a pair within sRGB is found.
    """
    while True:
        lightness = rng.uniform(45, 75)
        direction = rng.uniform(0, math.tau)
        first = rgb_of((lightness, rng.uniform(-40, 40), rng.uniform(-40, 40)))
        if first is None:
            continue

        # The difference is nearly proportional to the distance in CIELAB, so that a few steps find the distance.
        first_lab = lab_of(first)
        first_lightness, a, b = first_lab
        distance = difference
        for _ in range(4):
            second_lab = (
                first_lightness,
                a + distance * math.cos(direction),
                b + distance * math.sin(direction),
            )
            distance *= difference / ciede2000(first_lab, second_lab)
        second = rgb_of(
            (
                first_lightness,
                a + distance * math.cos(direction),
                b + distance * math.sin(direction),
            )
        )
        if second is None:
            continue
        rounded_difference = ciede2000(first_lab, lab_of(second))
        if abs(rounded_difference / difference - 1) < 0.01:
            return first, second
