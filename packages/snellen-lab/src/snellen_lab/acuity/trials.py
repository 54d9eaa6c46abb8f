"""What a psychometric test is: levels along one physical dimension, and how a question at a level is drawn.

A test is found by its name in the registry's group `acuity_tests`, so another package's is no less than Snellen's own.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal

from msgspec import Struct

from snellen import DataError
from snellen.plugin_api import rng_for
from snellen_lab.acuity.optotypes import WHITE, Canvas, Shape

Easier = Literal["larger", "smaller", "neither"]
"""Which levels are easier; neither where a level is a place and no quantity."""
READ_LETTERS = "HKNORSVZ"
"""The Sloan letters that questions offer. C and D are left out: as replies they would be labels of options."""


class Stimulus(Struct, frozen=True):
    """A question with its pictures. Exactly one option is right."""

    images: tuple[bytes, ...]
    question: str
    options: tuple[str, ...]
    right: int
    """Index of the right option."""
    tags: dict[str, str] = {}
    """What else a reader of results may ask for; must not give the answer away."""


class Trial(Struct, frozen=True):
    """One question to be drawn. All that is left to chance comes from `rng`."""

    level: float
    turn: int
    """Counts the questions of a level in random order, so that each option is right equally often."""
    rng: random.Random
    side: int
    """Width and height of the picture in pixels."""

    def canvas(self, ground: int = WHITE) -> Canvas:
        """An empty picture."""
        return Canvas(self.side, self.side, ground)

    def one_of(self, options: Sequence[str]) -> str:
        """The option that is right this time: each in turn."""
        return options[self.turn % len(options)]

    def letter(self) -> tuple[str, tuple[str, ...]]:
        """A letter and the four that are offered, itself in each place in turn."""
        letter, *others = self.rng.sample(READ_LETTERS, 4)
        others.insert(self.turn % 4, letter)
        return letter, tuple(others)

    def corner(
        self, canvas: Canvas, width: float, height: float | None = None, margin: int = 4
    ) -> tuple[int, int]:
        """Left and top of a thing so large, anywhere in a picture but its margin, on whole pixels.

        Raises DataError where the picture has no room for it.
        """
        thing = (width, width if height is None else height)
        spaces = [
            int(whole - 2 * margin - part)
            for whole, part in zip(canvas.image.size, thing, strict=True)
        ]
        if min(spaces) < 0:
            sides = "x".join(map(str, canvas.image.size))
            raise DataError(
                f"level {self.level:g} needs {max(thing):g} px and a margin, more than a picture of {sides}"
            )
        return margin + self.rng.randint(0, spaces[0]), margin + self.rng.randint(0, spaces[1])


def stimulus(
    canvas: Canvas, question: str, options: Sequence[str], right: str, **tags: str
) -> Stimulus:
    """A question about one picture."""
    return Stimulus((canvas.png(),), question, tuple(options), list(options).index(right), tags)


class AcuityTest(Struct, frozen=True, kw_only=True):
    """A psychometric test: a pool of forced choices at each of its levels."""

    name: str
    title: str
    """What varies, as in "height of a letter"."""
    unit: str
    """Of the levels; empty for a ratio or a number."""
    levels: tuple[float, ...]
    easier: Easier
    draw: Callable[[Trial], Stimulus]
    side: int = 448
    """Width and height of its pictures in pixels, where the level does not say."""
    exemplars: int = 24
    """Questions of each level: a multiple of its number of options keeps these equally often right."""

    signs: Callable[[str], Shape] | None = None
    """The sign that an option names, where a picture shows one. An ideal observer reads by it."""
    height: Callable[[float], float] = float
    """Height of that sign in pixels by level: the level itself where none is given."""
    chart: tuple[str, ...] = ()
    """Options whose signs stand in the lines of a wall chart in this order, where a level is their height."""
    needs: str = ""
    """What a model needs, around a level, for a prescription: `letters of {} px`."""

    def stimuli(self, side: int = 0, exemplars: int = 0) -> Iterator[tuple[str, str, Stimulus]]:
        """Level, name and stimulus of each question, the levels in their order."""
        for level in self.levels:
            for name, stimulus in self.at(level, side, exemplars):
                yield written_level(level), name, stimulus

    def at(self, level: float, side: int = 0, exemplars: int = 0) -> Iterator[tuple[str, Stimulus]]:
        """Name and stimulus of each question of a level."""
        written, turns = written_level(level), list(range(exemplars or self.exemplars))
        rng_for("acuity", self.name, written, "turns").shuffle(turns)
        for number, turn in enumerate(turns):
            trial = Trial(
                level, turn, rng_for("acuity", self.name, written, number), side or self.side
            )
            yield f"{self.name}-{written}-{number:02d}", self.draw(trial)


def acuity_test(
    name: str,
    title: str,
    unit: str,
    levels: Sequence[float],
    easier: Easier = "larger",
    side: int = 448,
    exemplars: int = 24,
    **more: Any,
) -> Callable[[Callable[[Trial], Stimulus]], AcuityTest]:
    """Declares the function below it as a test: it draws one question of a level. Levels are
    taken to ten decimals, as their samples' tags say them. `more` are fields of `AcuityTest`."""

    def declared(draw: Callable[[Trial], Stimulus]) -> AcuityTest:
        return AcuityTest(
            name=name,
            title=title,
            unit=unit,
            levels=tuple(float(written_level(level)) for level in levels),
            easier=easier,
            draw=draw,
            side=side,
            exemplars=exemplars,
            **more,
        )

    return declared


def written_level(level: float) -> str:
    """A level as its samples' tag says it: a plain decimal that reads back as the same number."""
    return f"{level:.10f}".rstrip("0").rstrip(".")
