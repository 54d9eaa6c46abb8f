"""What a model's input allows: a reader by templates on the pixels that are left once the picture has been resized.

It knows the signs and their size, not where they stand, and compares in whole pixels of what it is given. So a model
that reads as well as this one has lost nothing that its input had.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from PIL import Image, ImageStat

from snellen_lab.acuity.optotypes import UNITS, Canvas, Shape
from snellen_lab.acuity.posterior import Array
from snellen_lab.acuity.thresholds import Ideal, LevelScale, threshold_of
from snellen_lab.acuity.trials import AcuityTest, Stimulus

Processor = Callable[[Image.Image], Sequence[Any]]
"""From a picture to the arrays (height x width, or channels x height x width) that a model is given of it: one, or one
for each tile."""
ENOUGH = 3
"""Levels in a row that are read without a fault, after which easier ones are taken as read."""
SHOWN = 12
"""Most pictures of a level that are read."""
FAINT = 0.02
"""Share of a template's greatest value below which a pixel is left out of it."""


def shrinking_to(side: int) -> Processor:
    """What is left where pictures are reduced until neither side is longer than this."""

    def process(picture: Image.Image) -> list[Array]:
        scale = min(side / max(picture.size), 1.0)
        width, height = (max(round(length * scale), 1) for length in picture.size)
        return [
            np.asarray(
                picture.convert("L").resize((width, height), Image.Resampling.LANCZOS), float
            )
        ]

    return process


def ideal_threshold(test: AcuityTest, process: Processor, side: int = 0) -> Ideal | None:
    """The threshold of the reader in pictures of this side, the test's own if 0. None for a test that declares no
    signs, or a processor whose tiles are not known."""
    if test.signs is None or not process(Image.new("RGB", (test.side, test.side))):
        return None
    reader, answers, in_a_row, options = (
        TemplateReader(test.signs, process),
        list[tuple[float, bool]](),
        0,
        1,
    )
    for level in LevelScale.of(test).levels:
        stimuli = [stimulus for _, stimulus in test.at(level, side, min(test.exemplars, SHOWN))]
        right = [
            reader.read(stimulus, test.height(level)) == stimulus.right for stimulus in stimuli
        ]
        answers += [(level, is_right) for is_right in right]
        options, in_a_row = len(stimuli[0].options), in_a_row + 1 if all(right) else 0
        if in_a_row == ENOUGH:
            break
    threshold = threshold_of(test, "", "", answers, 1 / options)
    if threshold.value is not None:
        return Ideal(threshold.value, "threshold")
    return Ideal(
        threshold.hardest if threshold.verdict == "sees all" else threshold.easiest,
        threshold.verdict,
    )


class TemplateReader:
    """Reads a sign by comparing the picture with each option's, as `process` leaves them."""

    def __init__(self, signs: Callable[[str], Shape], process: Processor) -> None:
        self._signs, self._process = signs, process
        self._templates: dict[tuple[str, float, tuple[int, int]], list[Array]] = {}

    def read(self, stimulus: Stimulus, height: float) -> int:
        """The option whose sign, somewhere on whole pixels, explains most of the last picture."""
        with Image.open(io.BytesIO(stimulus.images[-1])) as opened:
            picture = opened.convert("RGB")
        tiles = self._ink(picture)
        explained = [
            max(
                (
                    _best_match(tile, template)
                    for tile in tiles
                    for template in self._of(option, height, picture.size)
                ),
                default=0.0,
            )
            for option in stimulus.options
        ]
        return int(np.argmax(explained))

    def _of(self, option: str, height: float, size: tuple[int, int]) -> list[Array]:
        """What is left of a sign alone, in each tile where it is seen."""
        key = option, height, size
        if key not in self._templates:
            canvas = Canvas(*size)
            canvas.put(self._signs(option), height / UNITS, (size[0] // 4, size[1] // 4))
            self._templates[key] = self._ink(canvas.image.convert("RGB"))
        return self._templates[key]

    def _ink(self, picture: Image.Image) -> list[Array]:
        """By how much each tile differs from one of an empty picture, cropped to where it does."""
        blank = Image.new(
            "RGB", picture.size, tuple(int(value) for value in ImageStat.Stat(picture).median)
        )
        pairs = zip(_grey(self._process(picture)), _grey(self._process(blank)), strict=True)
        return [part for tile, ground in pairs if (part := _cropped(tile - ground)).size]


def _grey(arrays: Sequence[Any]) -> list[Array]:
    tiles = (np.asarray(array, float) for array in arrays)
    return [tile.mean(axis=0) if tile.ndim == 3 else tile for tile in tiles]


def _cropped(away: Array) -> Array:
    """The part of a picture that is not ground; nothing where all is."""
    ink = np.abs(away) > FAINT * max(float(np.abs(away).max()), 1e-9)
    rows, columns = np.flatnonzero(ink.any(axis=1)), np.flatnonzero(ink.any(axis=0))
    return away[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1] if len(rows) else away[:0, :0]


def _best_match(tile: Array, template: Array) -> float:
    """The root of the most that a template explains of a picture, over all places in whole pixels."""
    shape = [a + b - 1 for a, b in zip(tile.shape, template.shape, strict=True)]
    spectrum = np.fft.rfft2(tile, shape) * np.fft.rfft2(template[::-1, ::-1], shape)
    return float(np.fft.irfft2(spectrum, shape).max() / np.sqrt((template**2).sum()))
