"""Many things at once: how many, one among many, one of another colour; and a ring in a faint grey.

Differences between colours are those that people see: CIELAB under D65, and CIEDE2000 (G. Sharma, W. Wu, E. N. Dalal:
The CIEDE2000 color-difference formula: implementation notes, supplementary test data, and mathematical observations,
Color Research and Application 30, 2005).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from random import Random

from snellen_lab.acuity.optotypes import (
    DIRECTIONS,
    UNITS,
    ColourCanvas,
    Shape,
    disc,
    landolt_c,
    tumbling_e,
)
from snellen_lab.acuity.trials import (
    Stimulus,
    Trial,
    acuity_test,
    stimulus,
)

Lab = tuple[float, float, float]
RGB = tuple[int, int, int]
_TO_XYZ = ((0.4124, 0.3576, 0.1805), (0.2126, 0.7152, 0.0722), (0.0193, 0.1192, 0.9505))
"""IEC 61966-2-1, of linear sRGB."""
_FROM_XYZ = ((3.2406, -1.5372, -0.4986), (-0.9689, 1.8758, 0.0415), (0.0557, -0.2040, 1.0570))
_WHITE = (0.9505, 1.0, 1.089)
"""What the first matrix makes of white."""


def lab_of(colour: RGB) -> Lab:
    """An sRGB colour of 8 bits as L*, a*, b*."""
    linear = [
        v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4
        for v in (value / 255 for value in colour)
    ]
    x, y, z = (
        _root(sum(m * v for m, v in zip(row, linear, strict=True)) / white)
        for row, white in zip(_TO_XYZ, _WHITE, strict=True)
    )
    return 116 * y - 16, 500 * (x - y), 200 * (y - z)


def _root(ratio: float) -> float:
    return ratio ** (1 / 3) if ratio > (6 / 29) ** 3 else ratio / (3 * (6 / 29) ** 2) + 4 / 29


def rgb_of(lab: Lab) -> RGB | None:
    """The nearest sRGB colour of 8 bits; None where the screen has none."""
    y = (lab[0] + 16) / 116
    xyz = [
        white * (f**3 if f > 6 / 29 else 3 * (6 / 29) ** 2 * (f - 4 / 29))
        for f, white in zip((y + lab[1] / 500, y, y - lab[2] / 200), _WHITE, strict=True)
    ]
    linear = [sum(m * v for m, v in zip(row, xyz, strict=True)) for row in _FROM_XYZ]
    if not all(0 <= value <= 1 for value in linear):
        return None
    red, green, blue = (
        round(255 * (12.92 * v if v <= 0.0031308 else 1.055 * v ** (1 / 2.4) - 0.055))
        for v in linear
    )
    return red, green, blue


def ciede2000(first: Lab, second: Lab) -> float:
    """The difference of two colours, about 1 where an eye just sees it (Sharma et al. 2005, equations 2 to 22)."""
    mean_chroma = (math.hypot(*first[1:]) + math.hypot(*second[1:])) / 2
    stretch = 1 + 0.5 * (1 - math.sqrt(mean_chroma**7 / (mean_chroma**7 + 25**7)))
    (l1, c1, h1), (l2, c2, h2) = (_polar(lab, stretch) for lab in (first, second))
    turn = 0.0 if c1 * c2 == 0 else (h2 - h1 + 180) % 360 - 180 if abs(h2 - h1) != 180 else h2 - h1
    lightness, chroma = (l1 + l2) / 2, (c1 + c2) / 2
    hue = h1 + h2 if c1 * c2 == 0 else _mean_hue(h1, h2)
    t = (
        1
        - 0.17 * _cos(hue - 30)
        + 0.24 * _cos(2 * hue)
        + 0.32 * _cos(3 * hue + 6)
        - 0.20 * _cos(4 * hue - 63)
    )
    away = (lightness - 50) ** 2
    dl = (l2 - l1) / (1 + 0.015 * away / math.sqrt(20 + away))
    dc = (c2 - c1) / (1 + 0.045 * chroma)
    dh = 2 * math.sqrt(c1 * c2) * math.sin(math.radians(turn / 2)) / (1 + 0.015 * chroma * t)
    spread = 30 * math.exp(-(((hue - 275) / 25) ** 2))
    rotation = -math.sin(math.radians(2 * spread)) * 2 * math.sqrt(chroma**7 / (chroma**7 + 25**7))
    return math.sqrt(dl * dl + dc * dc + dh * dh + rotation * dc * dh)


def _polar(lab: Lab, stretch: float) -> tuple[float, float, float]:
    """Lightness, chroma and hue in degrees, with a* stretched near grey."""
    a = stretch * lab[1]
    return lab[0], math.hypot(a, lab[2]), math.degrees(math.atan2(lab[2], a)) % 360


def _mean_hue(h1: float, h2: float) -> float:
    if abs(h1 - h2) <= 180:
        return (h1 + h2) / 2
    return (h1 + h2 + 360) / 2 if h1 + h2 < 360 else (h1 + h2 - 360) / 2


def _cos(degrees: float) -> float:
    return math.cos(math.radians(degrees))


SIDES = DIRECTIONS[::2]
GROUND = 200
"""Grey value of the ground of the test of contrast."""
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
        yield (
            column * CELL + 1 + trial.rng.randint(0, slack),
            row * CELL + 1 + trial.rng.randint(0, slack),
        )


NUMBERS = (
    2.5,
    3.5,
    4.5,
    5.5,
    6.5,
    7.5,
    8.5,
    9.5,
    10.5,
    12.5,
    14.5,
    16.5,
    18.5,
    20.5,
    24.5,
    28.5,
    32.5,
    40.5,
)
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
    return stimulus(
        canvas, "Does one of the signs point another way than all others?", options, answer
    )


DIFFERENCES = (0.5, 0.6, 0.8, 1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10, 12, 15, 20, 25, 30)
CORNERS = ("top left", "top right", "bottom left", "bottom right")
PATCH, SPACE = 160, 24


@acuity_test(
    "colour-difference",
    "difference of one of four patches from the others",
    "CIEDE2000",
    DIFFERENCES,
    needs="colours {} CIEDE2000 apart",
)
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
    """Two colours of 8 bits, as far apart as that within 1%."""
    while True:
        lightness, direction = rng.uniform(45, 75), rng.uniform(0, math.tau)
        base = rgb_of((lightness, rng.uniform(-40, 40), rng.uniform(-40, 40)))
        if base is None:
            continue
        lab, away = lab_of(base), difference
        for _ in range(4):  # the step in CIELAB that gives the difference: nearly proportional
            other = (
                lab[0],
                lab[1] + away * math.cos(direction),
                lab[2] + away * math.sin(direction),
            )
            away *= difference / ciede2000(lab, other)
        shown = rgb_of(
            (lab[0], lab[1] + away * math.cos(direction), lab[2] + away * math.sin(direction))
        )
        if shown and abs(ciede2000(lab, lab_of(shown)) / difference - 1) < 0.01:
            return base, shown
