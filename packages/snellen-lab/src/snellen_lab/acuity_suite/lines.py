"""Tests of gaps, offsets, angles and distances, drawn to a fraction of a pixel."""

from __future__ import annotations

import math

from snellen_lab.acuity.optotypes import disc, rectangle
from snellen_lab.acuity.rasterising import Shape
from snellen_lab.acuity.trials import (
    Stimulus,
    Trial,
    acuity_test,
    stimulus,
)

LINE_WIDTH = 4  # pixels
GAPS = (0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.7, 1, 1.4, 2, 3, 4, 6, 8, 12, 16, 24, 32)
HORIZONTAL_LENGTH = 160
LINE_DISTANCE = 80


@acuity_test("gap", "gap in one of two lines", "px", GAPS)
def gap(trial: Trial) -> Stimulus:
    """Draw two horizontal lines of 160 x 4 px, 80 px apart, one of them broken, and ask which one is.

    The level is the width of the gap in pixels. A gap of less than a pixel is drawn as paler pixels.
    """
    canvas = trial.canvas()
    options = ("the upper one", "the lower one")
    broken = trial.one_of(options)
    left, top = trial.corner(canvas, HORIZONTAL_LENGTH, LINE_DISTANCE + LINE_WIDTH)
    for index, option in enumerate(options):
        line: Shape = (rectangle(0, 0, HORIZONTAL_LENGTH, LINE_WIDTH),)
        if option == broken:
            start = trial.rng.randrange(40, 88)
            end = start + trial.level
            line = (
                rectangle(0, 0, start, LINE_WIDTH),
                rectangle(end, 0, HORIZONTAL_LENGTH, LINE_WIDTH),
            )
        canvas.put(line, 1, (left, top + index * LINE_DISTANCE))
    return stimulus(canvas, "One of the two lines has a gap. Which one?", options, broken)


@acuity_test("vernier", "offset of two lines end to end", "px", GAPS)
def vernier(trial: Trial) -> Stimulus:
    """Draw two vertical lines of 80 x 4 px, one above the other, and ask to which side the upper one is moved.

    The level is how far it is moved, in pixels. The ends of the lines are 4 px apart.
    """
    canvas = trial.canvas()
    options = ("left", "right")
    side = trial.one_of(options)
    offset = trial.level if side == "right" else -trial.level
    left, top = trial.corner(canvas, LINE_WIDTH + 64, 164)
    line: Shape = (rectangle(0, 0, LINE_WIDTH, 80),)
    lower_corner = (left + 32, top + 84)
    upper_corner = (left + 32 + offset, top)
    canvas.put(line, 1, lower_corner)
    canvas.put(line, 1, upper_corner)
    question = "Is the upper line to the left or to the right of the lower line?"
    return stimulus(canvas, question, options, side)


ANGLES = (0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.7, 1, 1.4, 2, 2.8, 4, 5.6, 8, 11, 16, 22, 30, 45)
TILTED_LENGTH = 200


@acuity_test("angle", "tilt of a line from the vertical", "degrees", ANGLES)
def angle(trial: Trial) -> Stimulus:
    """Draw a line of 200 x 4 px that leans to one side, and ask to which.

    The level is the angle between the line and the vertical, in degrees.
    """
    canvas = trial.canvas()
    options = ("left", "right")
    side = trial.one_of(options)
    tilt = math.radians(trial.level if side == "right" else -trial.level)
    half_width = LINE_WIDTH / 2
    half_length = TILTED_LENGTH / 2
    middle = half_length + LINE_WIDTH
    corners = []
    # The corners of an upright line, as steps across it (to the right) and along it (up), are rotated by the tilt.
    for across, along in ((-1, 1), (1, 1), (1, -1), (-1, -1)):
        x = middle + across * half_width * math.cos(tilt) + along * half_length * math.sin(tilt)
        y = middle + across * half_width * math.sin(tilt) - along * half_length * math.cos(tilt)
        corners.append((round(x, 9), round(y, 9)))
    line: Shape = ((tuple(corners),),)
    canvas.put(line, 1, trial.corner(canvas, 2 * middle))
    question = "Does the top of the line lean to the left or to the right?"
    return stimulus(canvas, question, options, side)


DISTANCES = (1.01, 1.02, 1.03, 1.04, 1.05, 1.07, 1.1, 1.14, 1.2, 1.3, 1.4, 1.5, 1.7, 2, 2.5, 3, 4)
# Each shape is in the middle of a field of 20 x 20.
CIRCLE: Shape = (disc(10, 10, 7),)
SQUARE: Shape = (rectangle(4, 4, 16, 16),)
CROSS: Shape = (rectangle(1, 9, 19, 11), rectangle(9, 1, 11, 19))
FARTHEST = 180
"""Largest distance of a shape from the cross in pixels."""


@acuity_test(
    "distance", "distance from a mark of the further thing by that of the nearer", "", DISTANCES
)
def distance(trial: Trial) -> Stimulus:
    """Draw a circle and a square around a cross, and ask which of the two is nearer to the cross.

    The level is the larger distance divided by the smaller one. Seen from the cross, the two are at least 60 degrees
    apart.
    """
    canvas = trial.canvas()
    rng = trial.rng
    options = ("the circle", "the square")
    nearer = trial.one_of(options)
    larger_distance = rng.uniform(120, FARTHEST)
    corner_left, corner_top = trial.corner(canvas, 2 * FARTHEST + 20)
    cross_left = corner_left + FARTHEST
    cross_top = corner_top + FARTHEST
    first_direction = rng.uniform(0, 360)
    second_direction = first_direction + rng.uniform(60, 300)
    canvas.put(CROSS, 1, (cross_left, cross_top))
    circle_option, square_option = options
    for option, shape, degrees in (
        (circle_option, CIRCLE, first_direction),
        (square_option, SQUARE, second_direction),
    ):
        length = larger_distance / trial.level if option == nearer else larger_distance
        x = round(length * math.cos(math.radians(degrees)), 6)
        y = round(length * math.sin(math.radians(degrees)), 6)
        canvas.put(shape, 1, (cross_left + x, cross_top + y))
    question = "Which is nearer to the cross, the circle or the square?"
    return stimulus(canvas, question, options, nearer)
