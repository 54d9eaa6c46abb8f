"""A letter behind blur, noise, compression or cover.

Blur, noise and JPEG are made by their formulas, the same on any machine: libraries differ in how they round.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from functools import lru_cache
from operator import mul
from statistics import NormalDist

from PIL import Image, ImageChops

from snellen_lab.acuity.optotypes import (
    GREY,
    SLOAN,
    UNITS,
    Canvas,
    Mask,
    put_letter,
    rasterise,
    rounded_half_up,
)
from snellen_lab.acuity.trials import (
    Stimulus,
    Trial,
    acuity_test,
    stimulus,
)
from snellen_lab.acuity_suite.signs import WHICH_LETTER

REACH = 3.5
"""How far a blur reaches, in its standard deviations; what is beyond, 0.05%, is left out."""


@lru_cache(maxsize=512)
def blurred(mask: Mask, sigma: float) -> tuple[Mask, int]:
    """A mask after a Gaussian blur, and by how much it has grown on each side."""
    margin = math.ceil(REACH * sigma)
    weights = [math.exp(-((i / sigma) ** 2) / 2) for i in range(-margin, margin + 1)]
    total = sum(weights)
    kernel = [weight / total for weight in weights]
    rows = [mask.coverage[y * mask.width : (y + 1) * mask.width] for y in range(mask.height)]
    columns = zip(*(_convolved(row, kernel) for row in rows), strict=True)
    blurred_columns = [_convolved(column, kernel) for column in columns]
    coverage = bytes(
        rounded_half_up(value) for row in zip(*blurred_columns, strict=True) for value in row
    )
    return Mask(mask.width + 2 * margin, mask.height + 2 * margin, coverage), margin


def _convolved(values: Sequence[float], kernel: list[float]) -> list[float]:
    """Values spread out by a symmetric kernel; longer by its length less one."""
    n, k = len(values), len(kernel)
    spread = []
    for place in range(n + k - 1):
        first = max(0, place - k + 1)
        spread.append(sum(map(mul, values[first : place + 1], kernel[k - 1 - place + first :])))
    return spread


def noisy(picture: Image.Image, sd: float, rng: random.Random) -> Image.Image:
    """A grey picture with Gaussian noise, independent for each pixel; `sd` in grey values, at most 44.

    A random byte picks one of 256 quantiles: the tails end at 2.9 standard deviations.
    """
    quantiles = [NormalDist().inv_cdf((rank + 0.5) / 256) for rank in range(256)]
    size = math.sqrt(sum(value * value for value in quantiles) / 256)
    steps = bytes(128 + round(sd * value / size) for value in quantiles)
    noise = Image.frombytes(
        "L", picture.size, rng.randbytes(picture.width * picture.height).translate(steps)
    )
    return ImageChops.add(picture, noise, offset=-128)


LUMINANCE = (
    16, 11, 10, 16, 24, 40, 51, 61, 12, 12, 14, 19, 26, 58, 60, 55, 14, 13, 16, 24, 40, 57, 69, 56,
    14, 17, 22, 29, 51, 87, 80, 62, 18, 22, 37, 56, 68, 109, 103, 77, 24, 35, 55, 64, 81, 104, 113, 92,
    49, 64, 78, 87, 103, 121, 120, 101, 72, 92, 95, 98, 112, 100, 103, 99,
)  # fmt: skip
"""ITU-T T.81, table K.1."""
_COSINES = tuple(
    tuple(
        round((math.sqrt(1 / 8) if u == 0 else 0.5) * math.cos((2 * x + 1) * u * math.pi / 16), 15)
        for x in range(8)
    )
    for u in range(8)
)
"""The discrete cosine transform of eight values: a row for each frequency."""


def jpeg(pixels: bytes, width: int, height: int, quality: int) -> bytes:
    """Grey pixels as they come back from a JPEG file of a quality, 1 to 100, in the scale of libjpeg.

    Width and height are multiples of 8.
    """
    scale = 5000 // quality if quality < 50 else 200 - 2 * quality
    table = tuple(min(max((step * scale + 50) // 100, 1), 255) for step in LUMINANCE)
    back = bytearray()
    for top in range(0, height, 8):
        rows = [pixels[(top + y) * width : (top + y + 1) * width] for y in range(8)]
        if rows == [rows[0][:1] * width] * 8:  # most of a picture is ground
            back += _jpeg_block(rows[0][:8] * 8, table)[:1] * (8 * width)
            continue
        blocks = [
            _jpeg_block(b"".join(row[x : x + 8] for row in rows), table) for x in range(0, width, 8)
        ]
        for y in range(0, 64, 8):
            back += b"".join(block[y : y + 8] for block in blocks)
    return bytes(back)


@lru_cache(maxsize=4096)
def _jpeg_block(block: bytes, table: tuple[int, ...]) -> bytes:
    rows = [[value - 128 for value in block[8 * y : 8 * y + 8]] for y in range(8)]
    frequencies = _product(_product(_COSINES, rows), _TRANSPOSED)
    kept = [
        [
            rounded_half_up(value / step) * step
            for value, step in zip(row, table[8 * v : 8 * v + 8], strict=True)
        ]
        for v, row in enumerate(frequencies)
    ]
    values = _product(_product(_TRANSPOSED, kept), _COSINES)
    return bytes(min(max(rounded_half_up(value + 128), 0), 255) for row in values for value in row)


def _product(
    left: Sequence[Sequence[float]], right: Sequence[Sequence[float]]
) -> list[list[float]]:
    columns = list(zip(*right, strict=True))
    return [[sum(map(mul, row, column)) for column in columns] for row in left]


_TRANSPOSED = tuple(zip(*_COSINES, strict=True))


SIGMAS = (0.5, 0.7, 1, 1.4, 2, 2.4, 2.8, 3.4, 4, 4.8, 5.6, 6.8, 8, 9.6, 11, 13.5, 16)


@acuity_test(
    "blur", "standard deviation of a Gaussian blur of a letter of 48 px", "px", SIGMAS, "smaller"
)
def blur(trial: Trial) -> Stimulus:
    """Black on white before the blur, which is cut off at 3.5 standard deviations."""
    canvas, (letter, options) = trial.canvas(), trial.letter()
    mask, _ = blurred(rasterise(SLOAN[letter], 48 / UNITS), trial.level)
    canvas.put_mask(mask, trial.corner(canvas, 48 + 2 * math.ceil(REACH * trial.level)))
    return stimulus(canvas, WHICH_LETTER, options, letter)


RATIOS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 14, 16, 20, 24, 28, 32, 40, 48, 64, 96, 128)
IN_NOISE = 64
"""Height of a letter in noise, in pixels."""
NOISE = 32
"""Largest standard deviation of the noise, in grey values: no pixel is cut off at black or white."""


@acuity_test(
    "noise",
    "difference of a letter from the ground by the noise's deviation",
    "",
    [r / NOISE for r in RATIOS],
    side=224,
    signs=SLOAN.__getitem__,
    height=lambda _: IN_NOISE,
)
def noise_ratio(trial: Trial) -> Stimulus:
    """A letter of 64 px, darker than the ground by level x 32, at most 64 grey values; noise on every pixel."""
    difference = min(round(trial.level * NOISE), 64)
    canvas, (letter, options) = trial.canvas(GREY + difference // 2), trial.letter()
    put_letter(
        canvas,
        letter,
        IN_NOISE,
        trial.corner(canvas, IN_NOISE),
        GREY + difference // 2 - difference,
    )
    canvas.image = noisy(canvas.image, difference / trial.level, trial.rng)
    return stimulus(canvas, WHICH_LETTER, options, letter)


PALE = 160
QUALITIES = (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 15, 20, 25, 30, 40, 50, 70, 90)


@acuity_test("jpeg", "JPEG quality of a picture with a pale letter of 8 px", "", QUALITIES)
def jpeg_quality(trial: Trial) -> Stimulus:
    """As libjpeg counts quality; of its losses those of quantisation alone. The letter is of a grey of 160 on white."""
    side = trial.side - trial.side % 8
    canvas, (letter, options) = Canvas(side, side), trial.letter()
    put_letter(canvas, letter, 8, trial.corner(canvas, 8), PALE)
    canvas.change(jpeg(canvas.image.tobytes(), side, side, int(trial.level)))
    return stimulus(canvas, WHICH_LETTER, options, letter)


SHARES = (
    *(0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.65, 0.7, 0.75, 0.8),
    *(0.83, 0.86, 0.88, 0.9, 0.92, 0.94, 0.95, 0.96, 0.97, 0.98, 0.99),
)
COVER = 10
"""Cells in a row and a column of what covers the letter, and their width in pixels."""


@acuity_test("occlusion", "share of the square of a letter that is covered", "", SHARES, "smaller")
def occlusion(trial: Trial) -> Stimulus:
    """A letter of 100 px, of whose square so many hundredths, drawn at random, are painted grey."""
    canvas, (letter, options) = trial.canvas(), trial.letter()
    left, top = trial.corner(canvas, COVER * COVER)
    put_letter(canvas, letter, COVER * COVER, (left, top))
    for cell in trial.rng.sample(range(COVER * COVER), round(trial.level * COVER * COVER)):
        canvas.fill(left + cell % COVER * COVER, top + cell // COVER * COVER, COVER, COVER, GREY)
    return stimulus(canvas, WHICH_LETTER, options, letter)
