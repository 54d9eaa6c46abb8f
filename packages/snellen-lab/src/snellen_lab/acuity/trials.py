"""Psychometric tests: levels along one physical dimension, and a function that draws a question at a level.

A test is registered by its name in the group `acuity_tests`, by Snellen or by another package.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal

from msgspec import Struct

from snellen import DataError
from snellen.plugin_api import rng_for
from snellen_lab.acuity.canvas import WHITE, Canvas
from snellen_lab.acuity.rasterising import Shape

Easier = Literal["larger", "smaller", "neither"]
"""Which levels are easier; `neither` if a level is a place and not a quantity."""
READ_LETTERS = "HKNORSVZ"
"""The Sloan letters that questions offer. C and D are left out: as replies they would be labels of options."""


class Stimulus(Struct, frozen=True):
    """A question with its images and options. Exactly one option is correct."""

    images: tuple[bytes, ...]
    question: str
    options: tuple[str, ...]
    right: int
    """Index of the correct option."""
    tags: dict[str, str] = {}
    """Tags of the sample, for slices of results. They must not reveal the answer."""


class Trial(Struct, frozen=True):
    """What the drawing function of a test is given to draw one question. All random choices must come from `rng`."""

    level: float
    """How hard the question is, in the unit of the test: for example the height of a letter in pixels."""
    turn: int
    """Number of the question within its level, in random order. It decides which option is correct, so that each option
    is correct equally often."""
    rng: random.Random
    side: int
    """Width and height of the image in pixels."""

    def canvas(self, ground: int = WHITE) -> Canvas:
        """Return an empty image."""
        return Canvas(self.side, self.side, ground)

    def one_of(self, options: Sequence[str]) -> str:
        """Return the option that is the correct answer of this question. Over the questions of a level, each has its turn."""
        return options[self.turn % len(options)]

    def letter(self) -> tuple[str, tuple[str, ...]]:
        """Return a random letter as the correct answer, and four letters as options.

        Over the questions of a level, the correct letter is the first, second, third and fourth option equally often.
        """
        letter, *others = self.rng.sample(READ_LETTERS, 4)
        others.insert(self.turn % 4, letter)
        return letter, tuple(others)

    def corner(
        self, canvas: Canvas, width: float, height: float | None = None, margin: int = 4
    ) -> tuple[int, int]:
        """Return a random position for an object, entirely within the image.

        Args:
            canvas: The image.
            width: Width of the object in pixels.
            height: Height of the object in pixels; by default its width.
            margin: Smallest distance to the edges of the image in pixels.

        Returns:
            The left and the top of the object, in whole pixels.

        Raises:
            DataError: If the image has no room for the object.
        """
        if height is None:
            height = width
        image_width, image_height = canvas.image.size
        free_width = int(image_width - 2 * margin - width)
        free_height = int(image_height - 2 * margin - height)
        if min(free_width, free_height) < 0:
            raise DataError(
                f"level {self.level:g} needs {max(width, height):g} px and a margin, more than fits an image of "
                f"{image_width}x{image_height}"
            )
        left = margin + self.rng.randint(0, free_width)
        top = margin + self.rng.randint(0, free_height)
        return left, top


def stimulus(
    canvas: Canvas, question: str, options: Sequence[str], right: str, **tags: str
) -> Stimulus:
    """Return a multiple-choice question about the image that is drawn on a canvas.

    Args:
        canvas: The image.
        question: Text of the question.
        options: The options in the order in which they are shown.
        right: The correct one of them.
        tags: Properties of the question to be stored with it, by name.
    """
    right_index = list(options).index(right)
    return Stimulus((canvas.png(),), question, tuple(options), right_index, tags)


class AcuityTest(Struct, frozen=True, kw_only=True):
    """A psychometric test: a pool of forced choices at each of its levels."""

    name: str
    title: str
    """The dimension that varies, as in "height of a letter"."""
    unit: str
    """Unit of the levels; empty for a ratio or a count."""
    levels: tuple[float, ...]
    easier: Easier
    draw: Callable[[Trial], Stimulus]
    side: int = 448
    """Width and height of the images in pixels, unless the level is that size."""
    exemplars: int = 24
    """Questions of each level. A multiple of the number of options makes each option right equally often."""

    signs: Callable[[str], Shape] | None = None
    """Shape that an option names, if images show one. An ideal observer reads by it."""
    height: Callable[[float], float] = float
    """Height of that shape in pixels by level; by default the level itself."""
    chart: tuple[str, ...] = ()
    """Options whose shapes make the lines of a wall chart, in this order, if a level is their height."""
    needs: str = ""
    """Text around a level for a prescription, as in `letters of {} px`."""

    def stimuli(self, side: int = 0, exemplars: int = 0) -> Iterator[tuple[str, str, Stimulus]]:
        """Draw all questions of the test, level by level.

        Args:
            side: Width and height of the images in pixels; 0 for those of the test.
            exemplars: Number of questions of each level; 0 for that of the test.

        Yields:
            The level as text, the id of the question, and the question with its images.
        """
        for level in self.levels:
            for name, stimulus in self.at(level, side, exemplars):
                yield written_level(level), name, stimulus

    def at(self, level: float, side: int = 0, exemplars: int = 0) -> Iterator[tuple[str, Stimulus]]:
        """Draw the questions of one level. Each is drawn from a random seed of its own, which its id determines.

        Args:
            level: One of the levels of the test.
            side: Width and height of the images in pixels; 0 for those of the test.
            exemplars: Number of questions; 0 for that of the test.

        Yields:
            The id of the question, such as `letter-size-12-03`, and the question with its images.
        """
        level_text = written_level(level)
        # A turn decides which option is correct. In random order, neighbouring questions tell nothing about each other.
        turns = list(range(exemplars or self.exemplars))
        rng_for("acuity", self.name, level_text, "turns").shuffle(turns)
        for number, turn in enumerate(turns):
            rng = rng_for("acuity", self.name, level_text, number)
            trial = Trial(level, turn, rng, side or self.side)
            yield f"{self.name}-{level_text}-{number:02d}", self.draw(trial)


def acuity_test(
    name: str,
    title: str,
    unit: str,
    levels: Sequence[float],
    easier: Easier = "larger",
    side: int = 448,
    exemplars: int = 24,
    **other_fields: Any,
) -> Callable[[Callable[[Trial], Stimulus]], AcuityTest]:
    """Declare the decorated function, which draws a question of a level, as a test.

    Levels are rounded to ten decimals, as in the tags of samples. `other_fields` are fields of `AcuityTest`.
    """

    def declare(draw: Callable[[Trial], Stimulus]) -> AcuityTest:
        """Return the test that a function draws."""
        return AcuityTest(
            name=name,
            title=title,
            unit=unit,
            levels=tuple(float(written_level(level)) for level in levels),
            easier=easier,
            draw=draw,
            side=side,
            exemplars=exemplars,
            **other_fields,
        )

    return declare


def written_level(level: float) -> str:
    """Return a level as a plain decimal, which reads back as the same number. It is the tag of its samples."""
    return f"{level:.10f}".rstrip("0").rstrip(".")
