"""Gaps, offsets, angles and distances: places to a fraction of a pixel."""

from __future__ import annotations

import math

from snellen_lab.acuity.optotypes import Shape, disc, rectangle
from snellen_lab.acuity.trials import (
    Stimulus,
    Trial,
    acuity_test,
    stimulus,
)

WIDTH = 4
"""Of each line, in pixels."""
GAPS = (0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.7, 1, 1.4, 2, 3, 4, 6, 8, 12, 16, 24, 32)


@acuity_test("gap", "gap in one of two lines", "px", GAPS)
def gap(trial: Trial) -> Stimulus:
    """Two level lines of 160 x 4 px, 80 px apart; one of them is broken. Below 1 px its gap is paler pixels."""
    canvas, options = trial.canvas(), ("the upper one", "the lower one")
    broken = trial.one_of(options)
    left, top = trial.corner(canvas, 160, 80 + WIDTH)
    for y, name in zip((top, top + 80), options, strict=True):
        parts: Shape = (rectangle(0, 0, 160, WIDTH),)
        if name == broken:
            start = trial.rng.randrange(40, 88)
            parts = (rectangle(0, 0, start, WIDTH), rectangle(start + trial.level, 0, 160, WIDTH))
        canvas.put(parts, 1, (left, y))
    return stimulus(canvas, "One of the two lines has a gap. Which one?", options, broken)


@acuity_test("vernier", "offset of two lines end to end", "px", GAPS)
def vernier(trial: Trial) -> Stimulus:
    """Two upright lines of 80 x 4 px with 4 px between their ends; the upper one is moved to the left or right."""
    canvas, options = trial.canvas(), ("left", "right")
    side = trial.one_of(options)
    left, top = trial.corner(canvas, WIDTH + 64, 164)
    line: Shape = (rectangle(0, 0, WIDTH, 80),)
    canvas.put(line, 1, (left + 32, top + 84))
    canvas.put(line, 1, (left + 32 + (trial.level if side == "right" else -trial.level), top))
    question = "Is the upper line to the left or to the right of the lower line?"
    return stimulus(canvas, question, options, side)


ANGLES = (0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.7, 1, 1.4, 2, 2.8, 4, 5.6, 8, 11, 16, 22, 30, 45)
LENGTH = 200


@acuity_test("angle", "tilt of a line from the vertical", "degrees", ANGLES)
def angle(trial: Trial) -> Stimulus:
    """A line of 200 x 4 px that leans to the left or right."""
    canvas, options = trial.canvas(), ("left", "right")
    side = trial.one_of(options)
    tilt = math.radians(trial.level if side == "right" else -trial.level)
    across, along, middle = WIDTH / 2, LENGTH / 2, LENGTH / 2 + WIDTH
    line = tuple(
        (
            round(middle + a * across * math.cos(tilt) + b * along * math.sin(tilt), 9),
            round(middle + a * across * math.sin(tilt) - b * along * math.cos(tilt), 9),
        )
        for a, b in ((-1, 1), (1, 1), (1, -1), (-1, -1))
    )
    canvas.put(((line,),), 1, trial.corner(canvas, 2 * middle))
    return stimulus(
        canvas, "Does the top of the line lean to the left or to the right?", options, side
    )


DISTANCES = (1.01, 1.02, 1.03, 1.04, 1.05, 1.07, 1.1, 1.14, 1.2, 1.3, 1.4, 1.5, 1.7, 2, 2.5, 3, 4)
CIRCLE: Shape = (disc(10, 10, 7),)
SQUARE: Shape = (rectangle(4, 4, 16, 16),)
CROSS: Shape = (rectangle(1, 9, 19, 11), rectangle(9, 1, 11, 19))
"""Each about the middle of a field of 20 x 20."""


@acuity_test(
    "distance", "distance from a mark of the further thing by that of the nearer", "", DISTANCES
)
def distance(trial: Trial) -> Stimulus:
    """A circle and a square about a cross, in directions at least 60 degrees apart."""
    canvas, rng, options = trial.canvas(), trial.rng, ("the circle", "the square")
    nearer = trial.one_of(options)
    far = rng.uniform(120, 180)
    left, top = (corner + 180 for corner in trial.corner(canvas, 2 * 180 + 20))
    direction = rng.uniform(0, 360)
    directions = (direction, direction + rng.uniform(60, 300))
    canvas.put(CROSS, 1, (left, top))
    for name, shape, degrees in zip(options, (CIRCLE, SQUARE), directions, strict=True):
        away = far / trial.level if name == nearer else far
        x, y = (round(away * turn(math.radians(degrees)), 6) for turn in (math.cos, math.sin))
        canvas.put(shape, 1, (left + x, top + y))
    return stimulus(
        canvas, "Which is nearer to the cross, the circle or the square?", options, nearer
    )
