"""Ideal reader: the threshold that a model's input allows.

The reader matches templates against the pixels that are left after an image has been resized for the model. It knows
the shapes and their size, but not their position, which it tries in whole pixels. A model that reads as well as this
reader has lost nothing of its input.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from PIL import Image, ImageStat

from snellen_lab.acuity.canvas import Canvas
from snellen_lab.acuity.optotypes import UNITS
from snellen_lab.acuity.parameter_grid import Array
from snellen_lab.acuity.rasterising import Shape
from snellen_lab.acuity.thresholds import Ideal, LevelScale, threshold_of
from snellen_lab.acuity.trials import AcuityTest, Stimulus

Processor = Callable[[Image.Image], Sequence[Any]]
"""Function from an image to the arrays that a model receives, of shape (height, width) or (channels, height, width):
one array, or one for each tile."""
PERFECT_LEVELS = 3
"""Consecutive levels without an error after which easier levels need not be read."""
MAX_EXEMPLARS = 12
"""Images of a level that are read at most."""
FAINT = 0.02
"""Share of the largest contrast below which a pixel is not part of a template."""


def shrinking_to(side: int) -> Processor:
    """Return a processor that reduces images until neither side is longer than this."""

    def process(image: Image.Image) -> list[Array]:
        """Shrink an image to at most `side` pixels and return it as an array of grey values."""
        scale = min(side / max(image.size), 1.0)
        width, height = (max(round(length * scale), 1) for length in image.size)
        resized = image.convert("L").resize((width, height), Image.Resampling.LANCZOS)
        return [np.asarray(resized, float)]

    return process


def ideal_threshold(test: AcuityTest, process: Processor, side: int = 0) -> Ideal | None:
    """Return the threshold of the ideal reader.

    Args:
        test: The psychometric test.
        process: The model's image processor.
        side: Width and height of the images in pixels; 0 for those of the test.

    Returns:
        The threshold, or None if the test declares no shapes or if the processor's tiles are not known.
    """
    if test.signs is None or not process(Image.new("RGB", (test.side, test.side))):
        return None

    reader = TemplateReader(test.signs, process)
    replies: list[tuple[float, bool]] = []
    n_options = 1
    n_perfect = 0
    for level in LevelScale.of(test).levels:
        height = test.height(level)
        is_perfect = True
        for _, stimulus in test.at(level, side, min(test.exemplars, MAX_EXEMPLARS)):
            is_right = reader.read(stimulus, height) == stimulus.right
            replies.append((level, is_right))
            is_perfect = is_perfect and is_right
            n_options = len(stimulus.options)
        n_perfect = n_perfect + 1 if is_perfect else 0
        if n_perfect == PERFECT_LEVELS:
            break

    threshold = threshold_of(test, "", "", replies, 1 / n_options)
    if threshold.value is not None:
        return Ideal(threshold.value, "threshold")
    if threshold.verdict == "sees all":
        return Ideal(threshold.hardest, threshold.verdict)
    return Ideal(threshold.easiest, threshold.verdict)


class TemplateReader:
    """Reader that compares an image with the shape of each option, after `process` has been applied to both."""

    def __init__(self, signs: Callable[[str], Shape], process: Processor) -> None:
        self._signs = signs
        self._process = process
        self._template_cache: dict[tuple[str, float, tuple[int, int]], list[Array]] = {}

    def read(self, stimulus: Stimulus, height: float) -> int:
        """Return the index of the option whose shape, at its best position, explains most of the last image."""
        with Image.open(io.BytesIO(stimulus.images[-1])) as opened:
            image = opened.convert("RGB")
        tiles = self._contrast(image)
        best_matches = []
        for option in stimulus.options:
            best_match = 0.0
            templates = self._templates(option, height, image.size)
            if tiles and templates:
                best_match = max(
                    _best_match(tile, template) for tile in tiles for template in templates
                )
            best_matches.append(best_match)
        return int(np.argmax(best_matches))

    def _templates(self, option: str, height: float, size: tuple[int, int]) -> list[Array]:
        """Return the processed shape of an option on an empty image, once for each tile that shows it."""
        key = (option, height, size)
        if key not in self._template_cache:
            canvas = Canvas(*size)
            canvas.put(self._signs(option), height / UNITS, (size[0] // 4, size[1] // 4))
            self._template_cache[key] = self._contrast(canvas.image.convert("RGB"))
        return self._template_cache[key]

    def _contrast(self, image: Image.Image) -> list[Array]:
        """Return the difference of each tile to that of an empty image, cropped to the part that differs."""
        ground = tuple(int(value) for value in ImageStat.Stat(image).median)
        blank = Image.new("RGB", image.size, ground)
        tiles = _grey_tiles(self._process(image))
        blank_tiles = _grey_tiles(self._process(blank))
        contrasts = []
        for tile, blank_tile in zip(tiles, blank_tiles, strict=True):
            contrast = _cropped(tile - blank_tile)
            if contrast.size:
                contrasts.append(contrast)
        return contrasts


def _grey_tiles(arrays: Sequence[Any]) -> list[Array]:
    """Return tiles of an image as grey values, the mean of their channels."""
    tiles = []
    for array in arrays:
        tile = np.asarray(array, float)
        if tile.ndim == 3:
            tile = tile.mean(axis=0)
        tiles.append(tile)
    return tiles


def _cropped(contrast: Array) -> Array:
    """Return the part of an image that differs from the ground; an empty array if no pixel does."""
    size = np.abs(contrast)
    is_ink = size > FAINT * max(float(size.max()), 1e-9)
    rows = np.flatnonzero(is_ink.any(axis=1))
    columns = np.flatnonzero(is_ink.any(axis=0))
    if not len(rows):
        return contrast[:0, :0]
    return contrast[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]


def _best_match(tile: Array, template: Array) -> float:
    """Return the root of the largest sum of squares that a template explains, over all positions in whole pixels.

    The cross-correlation at all positions is computed by Fourier transform.
    """
    height = tile.shape[0] + template.shape[0] - 1
    width = tile.shape[1] + template.shape[1] - 1
    tile_spectrum = np.fft.rfft2(tile, [height, width])
    template_spectrum = np.fft.rfft2(template[::-1, ::-1], [height, width])
    correlation = np.fft.irfft2(tile_spectrum * template_spectrum, [height, width])
    return float(correlation.max() / np.sqrt((template**2).sum()))
