"""Tests of a letter behind blur, noise, compression or cover.

Blur, noise and compression are computed by their formulas, with the same result on any machine: libraries differ in
how they round.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from functools import lru_cache
from operator import mul
from statistics import NormalDist

from PIL import Image, ImageChops

from snellen_lab.acuity.canvas import GREY, Canvas
from snellen_lab.acuity.optotypes import SLOAN, UNITS, put_letter
from snellen_lab.acuity.rasterising import Mask, rasterise, rounded_half_up
from snellen_lab.acuity.trials import (
    Stimulus,
    Trial,
    acuity_test,
    stimulus,
)
from snellen_lab.acuity_suite.jpeg_compression import BLOCK, jpeg
from snellen_lab.acuity_suite.signs import WHICH_LETTER

BLUR_REACH = 3.5
"""A blur is cut off at this many standard deviations; 0.05% of it is beyond."""
BLURRED_HEIGHT = 48
"""Height of a blurred letter in pixels."""
SIGMAS = (0.5, 0.7, 1, 1.4, 2, 2.4, 2.8, 3.4, 4, 4.8, 5.6, 6.8, 8, 9.6, 11, 13.5, 16)


@acuity_test(
    "blur", "standard deviation of a Gaussian blur of a letter of 48 px", "px", SIGMAS, "smaller"
)
def blur(trial: Trial) -> Stimulus:
    """Draw a blurred black letter on white, and ask which letter it is.

    The level is the standard deviation of the Gaussian blur in pixels. The blur is cut off at 3.5 standard deviations.
    """
    canvas = trial.canvas()
    letter, options = trial.letter()
    sharp_letter = rasterise(SLOAN[letter], BLURRED_HEIGHT / UNITS)
    blurred_letter, _ = blurred(sharp_letter, trial.level)
    side = BLURRED_HEIGHT + 2 * math.ceil(BLUR_REACH * trial.level)
    canvas.put_mask(blurred_letter, trial.corner(canvas, side))
    return stimulus(canvas, WHICH_LETTER, options, letter)


@lru_cache(maxsize=512)
def blurred(mask: Mask, sigma: float) -> tuple[Mask, int]:
    """Return a mask after a Gaussian blur, and by how many pixels it has grown on each side.

    `sigma` is the standard deviation of the blur in pixels.
    """
    margin = math.ceil(BLUR_REACH * sigma)
    weights = [math.exp(-((offset / sigma) ** 2) / 2) for offset in range(-margin, margin + 1)]
    total = sum(weights)
    kernel = [weight / total for weight in weights]

    # The blur is separable: first each row, then each column.
    blurred_rows = []
    for y in range(mask.height):
        row = mask.coverage[y * mask.width : (y + 1) * mask.width]
        blurred_rows.append(_convolved(row, kernel))
    blurred_columns = [_convolved(column, kernel) for column in zip(*blurred_rows, strict=True)]

    coverage = bytearray()
    for row_of_values in zip(*blurred_columns, strict=True):
        coverage.extend(rounded_half_up(value) for value in row_of_values)
    width = mask.width + 2 * margin
    height = mask.height + 2 * margin
    return Mask(width, height, bytes(coverage)), margin


def _convolved(values: Sequence[float], kernel: list[float]) -> list[float]:
    """Return the convolution with a symmetric kernel, of length len(values) + len(kernel) - 1."""
    n = len(values)
    k = len(kernel)
    convolved = []
    for index in range(n + k - 1):
        first = max(0, index - k + 1)
        window = values[first : index + 1]
        window_kernel = kernel[k - 1 - index + first :]
        convolved.append(sum(map(mul, window, window_kernel)))
    return convolved


RATIOS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 14, 16, 20, 24, 28, 32, 40, 48, 64, 96, 128)
NOISY_HEIGHT = 64
"""Height of a letter in noise, in pixels."""
MAX_NOISE = 32
"""Largest standard deviation of the noise, in grey values: no pixel is cut off at black or white."""
MAX_DIFFERENCE = 64
"""Largest difference of the letter from the ground, in grey values."""


@acuity_test(
    "noise",
    "difference of a letter from the ground by the noise's deviation",
    "",
    [ratio / MAX_NOISE for ratio in RATIOS],
    side=224,
    signs=SLOAN.__getitem__,
    height=lambda _: NOISY_HEIGHT,
)
def noise_ratio(trial: Trial) -> Stimulus:
    """Draw a letter of 64 px in noise, and ask which letter it is.

    The level is the difference of the letter from the ground, divided by the standard deviation of the noise. The
    letter is darker than the ground by 32 grey values times the level, but at most by 64; the noise has the standard
    deviation that gives the level.
    """
    difference = min(round(trial.level * MAX_NOISE), MAX_DIFFERENCE)
    ground = GREY + difference // 2
    canvas = trial.canvas(ground)
    letter, options = trial.letter()
    corner = trial.corner(canvas, NOISY_HEIGHT)
    put_letter(canvas, letter, NOISY_HEIGHT, corner, ground - difference)
    standard_deviation = difference / trial.level
    canvas.image = noisy(canvas.image, standard_deviation, trial.rng)
    return stimulus(canvas, WHICH_LETTER, options, letter)


def noisy(image: Image.Image, standard_deviation: float, rng: random.Random) -> Image.Image:
    """Return a grey image with Gaussian noise that is independent for each pixel.

    Args:
        image: The image, in mode L.
        standard_deviation: Standard deviation of the noise in grey values, at most 44.
        rng: Random generator.
    """
    # A random byte for each pixel picks one of 256 quantiles of the normal distribution. They end at 2.9 standard
    # deviations, and have a standard deviation a little below 1, which is corrected.
    quantiles = [NormalDist().inv_cdf((rank + 0.5) / 256) for rank in range(256)]
    quantile_deviation = math.sqrt(sum(quantile * quantile for quantile in quantiles) / 256)
    noise_by_byte = bytearray()
    for quantile in quantiles:
        noise_by_byte.append(128 + round(standard_deviation * quantile / quantile_deviation))
    random_bytes = rng.randbytes(image.width * image.height)
    noise = Image.frombytes("L", image.size, random_bytes.translate(bytes(noise_by_byte)))
    return ImageChops.add(image, noise, offset=-128)


PALE = 160
COMPRESSED_HEIGHT = 8
"""Height of a letter in a compressed image, in pixels."""
QUALITIES = (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 15, 20, 25, 30, 40, 50, 70, 90)


@acuity_test("jpeg", "JPEG quality of an image with a pale letter of 8 px", "", QUALITIES)
def jpeg_quality(trial: Trial) -> Stimulus:
    """Draw a grey letter (160) of 8 px on white, compress the image, and ask which letter it is.

    The level is the JPEG quality, from 1 to 100 in the scale of libjpeg.
    """
    side = trial.side - trial.side % BLOCK  # a multiple of the blocks that JPEG compresses
    canvas = Canvas(side, side)
    letter, options = trial.letter()
    corner = trial.corner(canvas, COMPRESSED_HEIGHT)
    put_letter(canvas, letter, COMPRESSED_HEIGHT, corner, PALE)
    compressed = jpeg(canvas.image.tobytes(), side, side, int(trial.level))
    canvas.change(compressed)
    return stimulus(canvas, WHICH_LETTER, options, letter)


SHARES = (
    *(0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.65, 0.7, 0.75, 0.8),
    *(0.83, 0.86, 0.88, 0.9, 0.92, 0.94, 0.95, 0.96, 0.97, 0.98, 0.99),
)
CELLS_PER_ROW = 10
CELL_SIDE = 10
"""Width and height in pixels of each cell that may cover the letter."""
COVERED_HEIGHT = CELLS_PER_ROW * CELL_SIDE


@acuity_test("occlusion", "share of the square of a letter that is covered", "", SHARES, "smaller")
def occlusion(trial: Trial) -> Stimulus:
    """Draw a letter of 100 px, cover a part of it with grey, and ask which letter it is.

    The square around the letter has 100 cells. The level is the share of them, drawn at random, that are covered.
    """
    canvas = trial.canvas()
    letter, options = trial.letter()
    left, top = trial.corner(canvas, COVERED_HEIGHT)
    put_letter(canvas, letter, COVERED_HEIGHT, (left, top))
    n_cells = CELLS_PER_ROW * CELLS_PER_ROW
    n_covered = round(trial.level * n_cells)
    for cell in trial.rng.sample(range(n_cells), n_covered):
        row, column = divmod(cell, CELLS_PER_ROW)
        x = left + column * CELL_SIDE
        y = top + row * CELL_SIDE
        canvas.fill(x, y, CELL_SIDE, CELL_SIDE, GREY)
    return stimulus(canvas, WHICH_LETTER, options, letter)
