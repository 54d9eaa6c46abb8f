"""Signs that are read: how small, how crowded, in how long a line, where in the picture, in what picture.

For models that do not read there are shapes in place of letters, as on the chart of Lea symbols (Hyvärinen 1980).
"""

from __future__ import annotations

import math
from random import Random

from snellen_lab.acuity.optotypes import (
    DIRECTIONS,
    SLOAN,
    UNITS,
    Canvas,
    Shape,
    disc,
    landolt_c,
    put_letter,
    rectangle,
    tumbling_e,
)
from snellen_lab.acuity.trials import (
    READ_LETTERS,
    Stimulus,
    Trial,
    acuity_test,
    stimulus,
)

SIZES = (
    2.5,
    3,
    3.5,
    4,
    5,
    6,
    7,
    8,
    10,
    12,
    14,
    16,
    20,
    24,
    28,
    32,
    40,
    48,
    56,
    64,
    80,
    96,
    128,
    160,
)
"""Four in each doubling, in whole or half pixels."""
SIDES = DIRECTIONS[::2]
WHICH_LETTER = "Which letter is in the picture?"


@acuity_test(
    "letter-size",
    "height of a Sloan letter",
    "px",
    SIZES,
    signs=SLOAN.__getitem__,
    chart=tuple(READ_LETTERS),
    needs="letters of {} px",
)
def letter_size(trial: Trial) -> Stimulus:
    """One letter, black on white, anywhere in the picture."""
    return _letter(trial, trial.canvas(), trial.level)


def _letter(trial: Trial, canvas: Canvas, height: float) -> Stimulus:
    letter, options = trial.letter()
    put_letter(canvas, letter, height, trial.corner(canvas, height))
    return stimulus(canvas, WHICH_LETTER, options, letter)


@acuity_test("landolt-size", "diameter of a Landolt ring", "px", SIZES, signs=landolt_c)
def landolt_size(trial: Trial) -> Stimulus:
    """A ring whose gap, a fifth of its diameter, is on one of four sides."""
    canvas, side = trial.canvas(), trial.one_of(SIDES)
    canvas.put(landolt_c(side), trial.level / UNITS, trial.corner(canvas, trial.level))
    return stimulus(canvas, "On which side is the gap of the ring?", SIDES, side)


@acuity_test("tumbling-e-size", "height of a tumbling E", "px", SIZES, signs=tumbling_e)
def tumbling_e_size(trial: Trial) -> Stimulus:
    """Three bars, a fifth of the sign each, that point to one of four sides."""
    canvas, side = trial.canvas(), trial.one_of(SIDES)
    canvas.put(tumbling_e(side), trial.level / UNITS, trial.corner(canvas, trial.level))
    return stimulus(canvas, "To which side do the three bars of the sign point?", SIDES, side)


CROWDED = 20
"""Height of crowded letters in pixels: each distance is a whole number of them."""
DISTANCES = (
    1,
    1.05,
    1.1,
    1.15,
    1.2,
    1.25,
    1.3,
    1.4,
    1.5,
    1.6,
    1.8,
    2,
    2.2,
    2.5,
    2.8,
    3.2,
    3.6,
    4,
    5,
    6,
)


@acuity_test(
    "crowding",
    "distance of flanking letters, middle to middle",
    "letter heights",
    DISTANCES,
    needs="letters {} letter heights apart",
)
def crowding(trial: Trial) -> Stimulus:
    """A letter of 20 px between four others; the wrong options are three of these. At 1 they touch."""
    canvas, (letter, options) = trial.canvas(), trial.letter()
    flankers = [other for other in options if other != letter]
    flankers.append(trial.rng.choice([other for other in READ_LETTERS if other not in options]))
    trial.rng.shuffle(flankers)
    away = round(trial.level * CROWDED)
    left, top = (corner + away for corner in trial.corner(canvas, CROWDED + 2 * away))
    put_letter(canvas, letter, CROWDED, (left, top))
    for flanker, (x, y) in zip(
        flankers, ((-away, 0), (away, 0), (0, -away), (0, away)), strict=True
    ):
        put_letter(canvas, flanker, CROWDED, (left + x, top + y))
    return stimulus(
        canvas, "Five letters form a cross. Which letter is in the middle?", options, letter
    )


TEXT, PITCH = 12, 14
"""Height of letters in a line of text, and from one to the next, in pixels."""


@acuity_test("line-length", "letters in a line of text", "", range(3, 49, 3), "smaller", side=896)
def line_length(trial: Trial) -> Stimulus:
    """Words of three letters of 12 px in one line; wrong options differ from a word of it by one letter."""
    canvas, rng = trial.canvas(), trial.rng
    words: list[str] = []
    while len(words) < trial.level / 3:
        words += {"".join(rng.choices(READ_LETTERS, k=3))} - set(words)
    word = rng.choice(words)
    options = rng.sample([near for near in _neighbours(word) if near not in words], 3)
    options.insert(trial.turn % 4, word)
    line = " ".join(words)
    left, top = trial.corner(canvas, len(line) * PITCH, TEXT)
    for place, letter in enumerate(line):
        if letter != " ":
            put_letter(canvas, letter, TEXT, (left + place * PITCH, top))
    return stimulus(canvas, "Which of these words is in the line of text?", options, word)


def _neighbours(word: str) -> list[str]:
    return [
        word[:place] + letter + word[place + 1 :]
        for place in range(len(word))
        for letter in READ_LETTERS
        if letter != word[place]
    ]


GRID, SEEN = 12, 12
"""Places in a row and a column, and the height of the letter in pixels."""


@acuity_test(
    "place", "place in the picture", "", range(GRID * GRID), "neither", side=672, exemplars=4
)
def place(trial: Trial) -> Stimulus:
    """A letter of 12 px, its middle anywhere in one of 144 cells, counted row by row; the tag `place` says where."""
    canvas, (letter, options) = trial.canvas(), trial.letter()
    cells = (int(trial.level) % GRID, int(trial.level) // GRID)
    x, y = (_within(cell, trial.side, trial.rng) for cell in cells)
    put_letter(canvas, letter, SEEN, (x - SEEN // 2, y - SEEN // 2))
    return stimulus(canvas, WHICH_LETTER, options, letter, place=f"{x},{y}")


def _within(cell: int, side: int, rng: Random) -> int:
    """A coordinate in a cell, from which the letter does not leave the picture."""
    drawn = rng.randrange(cell * side // GRID, (cell + 1) * side // GRID)
    return min(max(drawn, SEEN // 2), side - SEEN // 2)


@acuity_test(
    "second-picture",
    "height of a letter in the second picture",
    "px",
    SIZES,
    signs=SLOAN.__getitem__,
)
def second_picture(trial: Trial) -> Stimulus:
    """A letter in each of two pictures, equally high; that of the first is among the wrong options."""
    first, second, (letter, options) = trial.canvas(), trial.canvas(), trial.letter()
    other = trial.rng.choice([option for option in options if option != letter])
    for canvas, shown in ((first, other), (second, letter)):
        put_letter(canvas, shown, trial.level, trial.corner(canvas, trial.level))
    question = "There are two pictures. Which letter is in the second one?"
    return Stimulus((first.png(), second.png()), question, options, options.index(letter))


WHOLE = (96, 128, 160, 192, 224, 256, 320, 384, 448, 512, 640, 768, 896, 1024, 1280, 1536, 2048)


OF_WHOLE = 24
"""Height of a letter in pixels where the picture varies."""


@acuity_test(
    "picture-size",
    "side of a picture with a letter of 24 px",
    "px",
    WHOLE,
    "smaller",
    exemplars=8,
    signs=SLOAN.__getitem__,
    height=lambda _: OF_WHOLE,
)
def picture_size(trial: Trial) -> Stimulus:
    """The larger the picture, the more of the letter is lost where a model resizes it."""
    return _letter(trial, Canvas(int(trial.level), int(trial.level)), OF_WHOLE)


RESOLUTIONS = (
    32,
    40,
    48,
    56,
    64,
    80,
    96,
    112,
    128,
    160,
    192,
    224,
    256,
    320,
    384,
    448,
    512,
    640,
    768,
)


PART = 16
"""The side of the picture by the height of its letter."""


@acuity_test(
    "resolution",
    "side of a picture with a letter of a sixteenth of it",
    "px",
    RESOLUTIONS,
    signs=SLOAN.__getitem__,
    height=lambda side: side / PART,
)
def resolution(trial: Trial) -> Stimulus:
    """The same view in fewer or more pixels."""
    return _letter(trial, Canvas(int(trial.level), int(trial.level)), trial.level / PART)


RATIOS = (1, 1.25, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10, 12, 16, 20, 25, 32)


@acuity_test(
    "aspect",
    "width of the picture by its height",
    "",
    RATIOS,
    "smaller",
    signs=SLOAN.__getitem__,
    height=lambda _: OF_WHOLE,
)
def aspect(trial: Trial) -> Stimulus:
    """A letter of 24 px in a wider and lower picture, its area within 4% of a square one's."""
    height = 4 * round(trial.side / math.sqrt(trial.level) / 4)
    return _letter(trial, Canvas(round(height * trial.level), height), OF_WHOLE)


def _polygon(*corners: tuple[float, float]) -> Shape:
    return ((corners,),)


def _star() -> Shape:
    """Ten corners, every second at 0.38 of the radius, as in a regular pentagram."""
    radii = (UNITS / 2, UNITS / 2 * 0.382)
    angles = (math.radians(36 * step - 90) for step in range(10))
    corners = ((radii[step % 2], angle) for step, angle in enumerate(angles))
    return _polygon(
        *((round(2.5 + r * math.cos(a), 9), round(2.5 + r * math.sin(a), 9)) for r, a in corners)
    )


SHAPES: dict[str, Shape] = {
    "circle": (disc(2.5, 2.5, 2.5),),
    "square": (rectangle(0.25, 0.25, 4.75, 4.75),),
    "triangle": _polygon((2.5, 0), (5, 4.5), (0, 4.5)),
    "diamond": _polygon((2.5, 0), (4.25, 2.5), (2.5, 5), (0.75, 2.5)),
    "cross": (rectangle(0, 1.75, 5, 3.25), rectangle(1.75, 0, 3.25, 5)),
    "star": _star(),
}
"""In a square of 5 x 5 units, of the proportions of the `eyechart`."""
PAPER, INK = 236, 20
"""Grey values of the `eyechart`'s ground and of its black."""
SHAPE_SIZES = (4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28, 32, 40, 48, 56, 64, 80, 96, 128)
WHICH_SHAPE = "What shape is in the picture?"


@acuity_test(
    "shape-size",
    "height of a shape",
    "px",
    SHAPE_SIZES,
    side=256,
    signs=SHAPES.__getitem__,
    chart=tuple(SHAPES),
    needs="shapes of {} px",
)
def shape_size(trial: Trial) -> Stimulus:
    """A circle, square, triangle, diamond, cross or star, dark on light, anywhere in the picture."""
    return _shape(trial, trial.level, INK)


LARGE = 96
"""Height of a shape in pixels where its contrast varies."""
CONTRASTS = tuple(
    step / PAPER for step in (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 160, 192, 216)
)


@acuity_test(
    "shape-contrast",
    "Weber contrast of a shape of 96 px",
    "",
    CONTRASTS,
    side=256,
    signs=SHAPES.__getitem__,
    height=lambda _: LARGE,
    needs="shapes of a contrast of {}",
)
def shape_contrast(trial: Trial) -> Stimulus:
    """(ground - shape) / ground in pixel values, the ground being 236: each level is a whole grey value."""
    return _shape(trial, LARGE, round(PAPER * (1 - trial.level)))


def _shape(trial: Trial, height: float, ink: int) -> Stimulus:
    shape, *others = trial.rng.sample(sorted(SHAPES), 4)
    others.insert(trial.turn % 4, shape)
    canvas = trial.canvas(PAPER)
    canvas.put(SHAPES[shape], height / UNITS, trial.corner(canvas, height), ink)
    return stimulus(canvas, WHICH_SHAPE, others, shape)
