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
"""Function that takes an image and returns what the model receives: one array, or one for each tile of the image. An
array has the shape (height, width) or (channels, height, width)."""
PERFECT_LEVELS = 3
"""Number of consecutive levels without an error after which easier levels are not tried."""
MAX_EXEMPLARS = 12
"""Largest number of images of a level that are read."""
MIN_NOTICEABLE_CONTRAST = 0.02
"""A pixel is part of a template if its contrast is above this share of the largest contrast."""


def shrinking_to(side: int) -> Processor:
    """Return a processor that makes images grey and shrinks them until their longer side has at most `side` pixels."""

    def process(image: Image.Image) -> list[Array]:
        """Return a list with one array: the grey values of the shrunk image, shape (height, width)."""
        scale = min(side / max(image.size), 1.0)
        width = max(round(image.width * scale), 1)
        height = max(round(image.height * scale), 1)
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
        """Return the index of the option whose shape, at its best position, explains most of the image.

        Args:
            stimulus: A question; its last image shows the shape of one of its options.
            height: Height of the shape in pixels.
        """
        with Image.open(io.BytesIO(stimulus.images[-1])) as opened:
            image = opened.convert("RGB")
        tiles = self._contrast(image)
        best_matches = []
        for option in stimulus.options:
            best_match = 0.0
            for template in self._templates(option, height, image.size):
                for tile in tiles:
                    best_match = max(best_match, _best_match(tile, template))
            best_matches.append(best_match)
        return int(np.argmax(best_matches))

    def _templates(self, option: str, height: float, size: tuple[int, int]) -> list[Array]:
        """Return how the shape of an option looks after the model's processor, once for each tile that shows it.

        Args:
            option: The option.
            height: Height of its shape in pixels, before the processor.
            size: Width and height of the whole image.
        """
        key = (option, height, size)
        if key not in self._template_cache:
            width_of_image, height_of_image = size
            canvas = Canvas(width_of_image, height_of_image)
            corner = (width_of_image // 4, height_of_image // 4)
            canvas.put(self._signs(option), height / UNITS, corner)
            self._template_cache[key] = self._contrast(canvas.image.convert("RGB"))
        return self._template_cache[key]

    def _contrast(self, image: Image.Image) -> list[Array]:
        """Process an image, subtract an empty image, and crop the result to the pixels that differ.

        Returns:
            An array of shape (height, width) for each tile that differs from that of an empty image.
        """
        ground = tuple(int(value) for value in ImageStat.Stat(image).median)
        empty_image = Image.new("RGB", image.size, ground)
        tiles = _grey_tiles(self._process(image))
        empty_tiles = _grey_tiles(self._process(empty_image))
        contrasts = []
        for tile, empty_tile in zip(tiles, empty_tiles, strict=True):
            contrast = _cropped(tile - empty_tile)
            if contrast.size:
                contrasts.append(contrast)
        return contrasts


def _grey_tiles(arrays: Sequence[Any]) -> list[Array]:
    """Return arrays as grey images of shape (height, width); the channels of (channels, height, width) are averaged."""
    tiles = []
    for array in arrays:
        tile = np.asarray(array, float)
        if tile.ndim == 3:
            tile = tile.mean(axis=0)
        tiles.append(tile)
    return tiles


def _cropped(contrast: Array) -> Array:
    """Crop an image to the rectangle with all pixels of noticeable contrast (`MIN_NOTICEABLE_CONTRAST`).

    Args:
        contrast: Difference of an image from its ground, shape (height, width); 0 where it shows nothing.

    Returns:
        The cropped image; shape (0, 0) if no pixel has a contrast.
    """
    size = np.abs(contrast)
    is_noticeable = size > MIN_NOTICEABLE_CONTRAST * max(float(size.max()), 1e-9)
    rows = np.flatnonzero(is_noticeable.any(axis=1))
    columns = np.flatnonzero(is_noticeable.any(axis=0))
    if not len(rows):
        return contrast[:0, :0]
    top = rows[0]
    bottom = rows[-1] + 1
    left = columns[0]
    right = columns[-1] + 1
    return contrast[top:bottom, left:right]


def _best_match(tile: Array, template: Array) -> float:
    """Return how well a template fits an image at its best position.

    This is the largest cross-correlation over all positions in whole pixels, divided by the norm of the template. Its
    square is the sum of squares in the image that the template explains.

    Args:
        tile: The image, shape (height, width).
        template: The template, of any size.
    """
    # All positions at once: a correlation is a product in the Fourier transform. Both are padded with zeros, so that
    # the template does not wrap around the edges of the image.
    tile_height, tile_width = tile.shape
    template_height, template_width = template.shape
    padded = [tile_height + template_height - 1, tile_width + template_width - 1]
    tile_spectrum = np.fft.rfft2(tile, padded)
    template_spectrum = np.fft.rfft2(template[::-1, ::-1], padded)
    correlation = np.fft.irfft2(tile_spectrum * template_spectrum, padded)
    template_norm = np.sqrt((template**2).sum())
    return float(correlation.max() / template_norm)
