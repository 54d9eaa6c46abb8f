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
    """A question with its images. Exactly one option is right."""

    images: tuple[bytes, ...]
    question: str
    options: tuple[str, ...]
    right: int
    """Index of the right option."""
    tags: dict[str, str] = {}
    """Tags of the sample, for slices of results. They must not give the answer away."""


class Trial(Struct, frozen=True):
    """A question to be drawn. All random choices come from `rng`."""

    level: float
    turn: int
    """Number of the question in a random order of its level, so that each option is right equally often."""
    rng: random.Random
    side: int
    """Width and height of the image in pixels."""

    def canvas(self, ground: int = WHITE) -> Canvas:
        """Return an empty image."""
        return Canvas(self.side, self.side, ground)

    def one_of(self, options: Sequence[str]) -> str:
        """Return the right option of this question: each option in turn."""
        return options[self.turn % len(options)]

    def letter(self) -> tuple[str, tuple[str, ...]]:
        """Return a letter and four options, among which the letter is at each position in turn."""
        letter, *others = self.rng.sample(READ_LETTERS, 4)
        others.insert(self.turn % 4, letter)
        return letter, tuple(others)

    def corner(
        self, canvas: Canvas, width: float, height: float | None = None, margin: int = 4
    ) -> tuple[int, int]:
        """Return the left and top of an object of this size, at random within the margins and on whole pixels.

        Raises DataError if the image has no room for it.
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
    """Return a question about one image."""
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
        """Yield the written level, name and stimulus of each question, in the order of levels."""
        for level in self.levels:
            for name, stimulus in self.at(level, side, exemplars):
                yield written_level(level), name, stimulus

    def at(self, level: float, side: int = 0, exemplars: int = 0) -> Iterator[tuple[str, Stimulus]]:
        """Yield the name and stimulus of each question of a level."""
        written = written_level(level)
        turns = list(range(exemplars or self.exemplars))
        rng_for("acuity", self.name, written, "turns").shuffle(turns)
        for number, turn in enumerate(turns):
            rng = rng_for("acuity", self.name, written, number)
            trial = Trial(level, turn, rng, side or self.side)
            yield f"{self.name}-{written}-{number:02d}", self.draw(trial)


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
