"""Many things at once: how many, one among many, one of another colour; and a ring in a faint grey."""

from __future__ import annotations

import math
from collections.abc import Iterator
from random import Random

from snellen.psychometrics.stimuli.canvas import ColourCanvas, Shape
from snellen.psychometrics.stimuli.colour import RGB, ciede2000, lab_of, rgb_of
from snellen.psychometrics.stimuli.optotypes import DIRECTIONS, UNITS, disc, landolt_c, tumbling_e
from snellen.psychometrics.stimuli.trials import Stimulus, Trial, acuity_test, stimulus

SIDES = DIRECTIONS[::2]
GROUND = 200
"""Grey value of the ground of the test of contrast."""
CONTRASTS = tuple(
    step / GROUND for step in (1, 2, 3, 4, 5, 6, 8, 10, 12, 14, 16, 20, 24, 28, 32, 40, 48, 64, 80, 100, 128, 160)
)


RING = 120
"""Diameter of a ring in pixels."""


@acuity_test(
    "contrast", "Weber contrast of a Landolt ring of 120 px", "", CONTRASTS,
    signs=landolt_c, height=lambda _: RING, needs="a contrast of {}",
)  # fmt: skip
def contrast(trial: Trial) -> Stimulus:
    """(ground - ring) / ground in pixel values, the ground being 200: each level is a whole grey value."""
    canvas, side = trial.canvas(GROUND), trial.one_of(SIDES)
    ink = round(GROUND * (1 - trial.level))
    canvas.put(landolt_c(side), RING / UNITS, trial.corner(canvas, RING), ink)
    return stimulus(canvas, "On which side is the gap of the ring?", SIDES, side)


CELL = 32
"""Width and height of what one thing among many has for itself, in pixels."""


def _cells(trial: Trial, count: int, extent: int) -> Iterator[tuple[int, int]]:
    """Corners of things so large in different cells of a grid, each anywhere in its cell."""
    across = trial.side // CELL
    for cell in trial.rng.sample(range(across * across), count):
        column, row = cell % across, cell // across
        slack = CELL - extent - 2
        yield column * CELL + 1 + trial.rng.randint(0, slack), row * CELL + 1 + trial.rng.randint(0, slack)


NUMBERS = (2.5, 3.5, 4.5, 5.5, 6.5, 7.5, 8.5, 9.5, 10.5, 12.5, 14.5, 16.5, 18.5, 20.5, 24.5, 28.5, 32.5, 40.5)
DOT: Shape = (disc(8, 8, 8),)


@acuity_test("numerosity", "number of dots, middle of the four offered", "", NUMBERS, "smaller")
def numerosity(trial: Trial) -> Stimulus:
    """Dots 16 px wide. The options are four numbers in a row, each as often right: 12.5 stands for 11 to 14."""
    canvas = trial.canvas()
    options = [str(int(trial.level - 1.5) + more) for more in range(4)]
    number = trial.one_of(options)
    for corner in _cells(trial, int(number), 16):
        canvas.put(DOT, 1, corner)
    return stimulus(canvas, "How many dots are in the picture?", options, number)


DISTRACTORS = (2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32, 40, 48, 64, 80, 96, 128, 160)


@acuity_test("search", "signs among which one may point another way", "", DISTRACTORS, "smaller")
def search(trial: Trial) -> Stimulus:
    """So many tumbling Es of 20 px that point one way, and one more, which points another way half of the time."""
    canvas, options = trial.canvas(), ("yes", "no")
    answer = trial.one_of(options)
    common, other = trial.rng.sample(SIDES, 2)
    signs = [common] * int(trial.level) + [other if answer == "yes" else common]
    for side, corner in zip(signs, _cells(trial, len(signs), 20), strict=True):
        canvas.put(tumbling_e(side), 4, corner)
    return stimulus(canvas, "Does one of the signs point another way than all others?", options, answer)


DIFFERENCES = (0.5, 0.6, 0.8, 1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10, 12, 15, 20, 25, 30)
CORNERS = ("top left", "top right", "bottom left", "bottom right")
PATCH, SPACE = 160, 24


@acuity_test(
    "colour-difference", "difference of one of four patches from the others", "CIEDE2000", DIFFERENCES,
    needs="colours {} CIEDE2000 apart",
)  # fmt: skip
def colour_difference(trial: Trial) -> Stimulus:
    """Patches of 160 px of the same lightness but for rounding; the tag `difference` has the exact one."""
    canvas = ColourCanvas(trial.side, trial.side, (128, 128, 128))
    odd = trial.one_of(CORNERS)
    common, other = _colours(trial.level, trial.rng)
    left, top = trial.corner(trial.canvas(), 2 * PATCH + SPACE)
    for place, name in enumerate(CORNERS):
        x, y = left + place % 2 * (PATCH + SPACE), top + place // 2 * (PATCH + SPACE)
        canvas.rectangle(x, y, PATCH, PATCH, other if name == odd else common)
    question = "Three of the four patches have the same colour. Which one has another colour?"
    exact = f"{ciede2000(lab_of(common), lab_of(other)):.3f}"
    return Stimulus((canvas.png(),), question, CORNERS, CORNERS.index(odd), {"difference": exact})


def _colours(difference: float, rng: Random) -> tuple[RGB, RGB]:
    """Two colours of 8 bits, as far apart as that within 1 %."""
    while True:
        lightness, direction = rng.uniform(45, 75), rng.uniform(0, math.tau)
        base = rgb_of((lightness, rng.uniform(-40, 40), rng.uniform(-40, 40)))
        if base is None:
            continue
        lab, away = lab_of(base), difference
        for _ in range(4):  # the step in CIELAB that gives the difference: nearly proportional
            other = (lab[0], lab[1] + away * math.cos(direction), lab[2] + away * math.sin(direction))
            away *= difference / ciede2000(lab, other)
        shown = rgb_of((lab[0], lab[1] + away * math.cos(direction), lab[2] + away * math.sin(direction)))
        if shown and abs(ciede2000(lab, lab_of(shown)) / difference - 1) < 0.01:
            return base, shown
