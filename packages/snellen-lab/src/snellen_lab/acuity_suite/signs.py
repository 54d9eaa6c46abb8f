"""Tests of reading: how small, how crowded, in how long a line, where in the image, and in which image.

For models that cannot read, there are shapes in place of letters, as on the chart of Lea symbols (Hyvärinen 1980).
"""

from __future__ import annotations

import math
from random import Random

from snellen_lab.acuity.canvas import Canvas
from snellen_lab.acuity.optotypes import (
    DIRECTIONS,
    SLOAN,
    UNITS,
    disc,
    landolt_c,
    put_letter,
    rectangle,
    tumbling_e,
)
from snellen_lab.acuity.rasterising import Shape
from snellen_lab.acuity.trials import (
    READ_LETTERS,
    Stimulus,
    Trial,
    acuity_test,
    stimulus,
)

SIZES = (
    *(2.5, 3, 3.5, 4, 5, 6, 7, 8, 10, 12, 14, 16),
    *(20, 24, 28, 32, 40, 48, 56, 64, 80, 96, 128, 160),
)
"""Four per octave, in whole or half pixels."""
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
    """Draw a black letter at a random position on white, and ask which letter it is. The level is its height in pixels."""
    return _which_letter(trial, trial.canvas(), trial.level)


def _which_letter(trial: Trial, canvas: Canvas, height: float) -> Stimulus:
    """Draw a random letter at a random position on a canvas, and ask which of four letters it is.

    Args:
        trial: The source of random choices.
        canvas: The empty image.
        height: Height of the letter in pixels.
    """
    letter, options = trial.letter()
    put_letter(canvas, letter, height, trial.corner(canvas, height))
    return stimulus(canvas, WHICH_LETTER, options, letter)


@acuity_test("landolt-size", "diameter of a Landolt ring", "px", SIZES, signs=landolt_c)
def landolt_size(trial: Trial) -> Stimulus:
    """Draw a Landolt ring (a C), and ask on which of four sides its gap is. The level is its diameter in pixels."""
    canvas = trial.canvas()
    side = trial.one_of(SIDES)
    diameter = trial.level
    canvas.put(landolt_c(side), diameter / UNITS, trial.corner(canvas, diameter))
    return stimulus(canvas, "On which side is the gap of the ring?", SIDES, side)


@acuity_test("tumbling-e-size", "height of a tumbling E", "px", SIZES, signs=tumbling_e)
def tumbling_e_size(trial: Trial) -> Stimulus:
    """Draw an E turned to one of four sides, and ask to which its bars point. The level is its height in pixels."""
    canvas = trial.canvas()
    side = trial.one_of(SIDES)
    height = trial.level
    canvas.put(tumbling_e(side), height / UNITS, trial.corner(canvas, height))
    return stimulus(canvas, "To which side do the three bars of the sign point?", SIDES, side)


CROWDED = 20
"""Height of crowded letters in pixels. Each distance between them is a whole number of pixels."""
DISTANCES = (
    *(1, 1.05, 1.1, 1.15, 1.2, 1.25, 1.3, 1.4, 1.5, 1.6),
    *(1.8, 2, 2.2, 2.5, 2.8, 3.2, 3.6, 4, 5, 6),
)


@acuity_test(
    "crowding",
    "distance of flanking letters, middle to middle",
    "letter heights",
    DISTANCES,
    needs="letters {} letter heights apart",
)
def crowding(trial: Trial) -> Stimulus:
    """Draw five letters of 20 px in a cross, and ask for the one in the middle; the wrong options are around it.

    The level is the distance between the middles of neighbouring letters, in letter heights. At 1 they touch.
    """
    canvas = trial.canvas()
    letter, options = trial.letter()
    # Around it are the three wrong options, and a fourth letter that is not an option.
    flankers = [option for option in options if option != letter]
    letters_not_offered = [candidate for candidate in READ_LETTERS if candidate not in options]
    flankers.append(trial.rng.choice(letters_not_offered))
    trial.rng.shuffle(flankers)
    distance = round(trial.level * CROWDED)
    cross_left, cross_top = trial.corner(canvas, CROWDED + 2 * distance)
    middle_left = cross_left + distance
    middle_top = cross_top + distance
    put_letter(canvas, letter, CROWDED, (middle_left, middle_top))
    offsets = ((-distance, 0), (distance, 0), (0, -distance), (0, distance))
    for flanker, (right, down) in zip(flankers, offsets, strict=True):
        put_letter(canvas, flanker, CROWDED, (middle_left + right, middle_top + down))
    question = "Five letters form a cross. Which letter is in the middle?"
    return stimulus(canvas, question, options, letter)


TEXT_HEIGHT = 12
"""Height of letters in a line of text, in pixels."""
TEXT_PITCH = 14
"""Pixels from one letter in a line of text to the next."""


@acuity_test("line-length", "letters in a line of text", "", range(3, 49, 3), "smaller", side=896)
def line_length(trial: Trial) -> Stimulus:
    """Draw a line of words of three letters of 12 px, and ask which of four words is in it.

    The level is the number of letters. The wrong options differ from the correct word in one letter.
    """
    canvas = trial.canvas()
    rng = trial.rng
    words: list[str] = []
    while len(words) < trial.level / 3:
        new_word = "".join(rng.choices(READ_LETTERS, k=3))
        if new_word not in words:
            words.append(new_word)
    word = rng.choice(words)
    wrong_words = [similar for similar in _similar_words(word) if similar not in words]
    options = rng.sample(wrong_words, 3)
    options.insert(trial.turn % 4, word)

    line = " ".join(words)
    left, top = trial.corner(canvas, len(line) * TEXT_PITCH, TEXT_HEIGHT)
    for index, letter in enumerate(line):
        if letter != " ":
            put_letter(canvas, letter, TEXT_HEIGHT, (left + index * TEXT_PITCH, top))
    return stimulus(canvas, "Which of these words is in the line of text?", options, word)


def _similar_words(word: str) -> list[str]:
    """Return the words that differ from a word by one letter."""
    similar = []
    for index, original in enumerate(word):
        for letter in READ_LETTERS:
            if letter != original:
                similar.append(word[:index] + letter + word[index + 1 :])
    return similar


PLACES_PER_ROW = 12
PLACED_HEIGHT = 12
"""Height in pixels of the letter at a place."""


@acuity_test(
    "place", "place in the picture", "", range(PLACES_PER_ROW**2), "neither", side=672, exemplars=4
)
def place(trial: Trial) -> Stimulus:
    """Draw a letter of 12 px at a place in the image, and ask which letter it is.

    The image has 12 x 12 cells. The level is the cell of the letter's middle, counted row by row from 0. The tag
    `place` has the exact position in pixels.
    """
    canvas = trial.canvas()
    letter, options = trial.letter()
    row, column = divmod(int(trial.level), PLACES_PER_ROW)
    x = _middle_in_cell(column, trial.side, trial.rng)
    y = _middle_in_cell(row, trial.side, trial.rng)
    half = PLACED_HEIGHT // 2
    put_letter(canvas, letter, PLACED_HEIGHT, (x - half, y - half))
    return stimulus(canvas, WHICH_LETTER, options, letter, place=f"{x},{y}")


def _middle_in_cell(cell: int, side: int, rng: Random) -> int:
    """Return a random coordinate in a cell for the middle of a letter, so that the letter is within the image.

    Args:
        cell: Index of the row, or column, of cells, from 0 to 11.
        side: Width and height of the image in pixels.
        rng: Random generator.
    """
    start = cell * side // PLACES_PER_ROW
    end = (cell + 1) * side // PLACES_PER_ROW
    half = PLACED_HEIGHT // 2
    coordinate = rng.randrange(start, end)
    return min(max(coordinate, half), side - half)


@acuity_test(
    "second-picture",
    "height of a letter in the second image",
    "px",
    SIZES,
    signs=SLOAN.__getitem__,
)
def second_picture(trial: Trial) -> Stimulus:
    """Draw two images with a letter each, and ask for the letter in the second.

    The level is the height of both letters in pixels. The letter of the first image is among the wrong options.
    """
    first = trial.canvas()
    second = trial.canvas()
    letter, options = trial.letter()
    wrong_options = [option for option in options if option != letter]
    first_letter = trial.rng.choice(wrong_options)
    height = trial.level
    put_letter(first, first_letter, height, trial.corner(first, height))
    put_letter(second, letter, height, trial.corner(second, height))
    question = "There are two pictures. Which letter is in the second one?"
    return Stimulus((first.png(), second.png()), question, options, options.index(letter))


IMAGE_SIDES = (
    96,
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
    896,
    1024,
    1280,
    1536,
    2048,
)
LETTER_HEIGHT = 24
"""Height in pixels of the letter in images of different sizes."""


@acuity_test(
    "picture-size",
    "side of an image with a letter of 24 px",
    "px",
    IMAGE_SIDES,
    "smaller",
    exemplars=8,
    signs=SLOAN.__getitem__,
    height=lambda _: LETTER_HEIGHT,
)
def picture_size(trial: Trial) -> Stimulus:
    """Draw a letter of 24 px in an image, and ask which letter it is. The level is the side of the image in pixels.

    A model that shrinks large images has fewer pixels of the letter.
    """
    side = int(trial.level)
    return _which_letter(trial, Canvas(side, side), LETTER_HEIGHT)


RESOLUTIONS = (
    *(32, 40, 48, 56, 64, 80, 96, 112, 128, 160),
    *(192, 224, 256, 320, 384, 448, 512, 640, 768),
)

SIDE_PER_HEIGHT = 16
"""Ratio of the side of the image to the height of its letter."""


@acuity_test(
    "resolution",
    "side of an image with a letter of a sixteenth of it",
    "px",
    RESOLUTIONS,
    signs=SLOAN.__getitem__,
    height=lambda side: side / SIDE_PER_HEIGHT,
)
def resolution(trial: Trial) -> Stimulus:
    """Draw a letter that is a sixteenth as high as the image, and ask which letter it is.

    The level is the side of the image in pixels, so that all levels show the same view at another resolution.
    """
    side = int(trial.level)
    return _which_letter(trial, Canvas(side, side), trial.level / SIDE_PER_HEIGHT)


RATIOS = (1, 1.25, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10, 12, 16, 20, 25, 32)


@acuity_test(
    "aspect",
    "width of the image by its height",
    "",
    RATIOS,
    "smaller",
    signs=SLOAN.__getitem__,
    height=lambda _: LETTER_HEIGHT,
)
def aspect(trial: Trial) -> Stimulus:
    """Draw a letter of 24 px in a wide image, and ask which letter it is.

    The level is the width of the image divided by its height. The area is about the same at all levels (within 4%).
    """
    height = 4 * round(trial.side / math.sqrt(trial.level) / 4)
    width = round(height * trial.level)
    return _which_letter(trial, Canvas(width, height), LETTER_HEIGHT)


def _polygon(*corners: tuple[float, float]) -> Shape:
    """Return a filled polygon with these corners, as pairs (x, y)."""
    return ((corners,),)


def _star() -> Shape:
    """Return a star of ten corners, every second one at 0.38 of the radius, as in a regular pentagram."""
    outer_radius = UNITS / 2
    inner_radius = UNITS / 2 * 0.382
    corners = []
    for step in range(10):
        radius = outer_radius if step % 2 == 0 else inner_radius
        angle = math.radians(36 * step - 90)
        x = round(2.5 + radius * math.cos(angle), 9)
        y = round(2.5 + radius * math.sin(angle), 9)
        corners.append((x, y))
    return _polygon(*corners)


SHAPES: dict[str, Shape] = {
    "circle": (disc(2.5, 2.5, 2.5),),
    "square": (rectangle(0.25, 0.25, 4.75, 4.75),),
    "triangle": _polygon((2.5, 0), (5, 4.5), (0, 4.5)),
    "diamond": _polygon((2.5, 0), (4.25, 2.5), (2.5, 5), (0.75, 2.5)),
    "cross": (rectangle(0, 1.75, 5, 3.25), rectangle(1.75, 0, 3.25, 5)),
    "star": _star(),
}
"""In a square of 5 x 5 units, with the proportions of the suite `eyechart`."""
# Grey values of the ground and of black in the suite `eyechart`.
PAPER = 236
INK = 20
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
    """Draw a dark shape, such as a star, on light grey, and ask which shape it is. The level is its height in pixels."""
    return _which_shape(trial, trial.level, INK)


LARGE = 96
"""Height in pixels of a shape whose contrast varies."""
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
    """Draw a shape of 96 px, and ask which shape it is.

    The level is the contrast (ground - shape) / ground in grey values. The ground is 236, and each level makes the grey
    value of the shape an integer.
    """
    ink = round(PAPER * (1 - trial.level))
    return _which_shape(trial, LARGE, ink)


def _which_shape(trial: Trial, height: float, ink: int) -> Stimulus:
    """Draw a random shape at a random position on light grey, and ask which of four shapes it is.

    Args:
        trial: The source of random choices.
        height: Height of the shape in pixels.
        ink: Grey value of the shape, from 0 (black) to 255.
    """
    shape, *options = trial.rng.sample(sorted(SHAPES), 4)
    options.insert(trial.turn % 4, shape)
    canvas = trial.canvas(PAPER)
    canvas.put(SHAPES[shape], height / UNITS, trial.corner(canvas, height), ink)
    return stimulus(canvas, WHICH_SHAPE, options, shape)
