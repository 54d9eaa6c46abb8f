"""JPEG compression of grey images by its formulas: libraries differ in how they round.

Only the loss by quantisation is simulated. Entropy coding loses nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from operator import mul

from snellen_lab.acuity.rasterising import rounded_half_up

BLOCK = 8
"""Width and height of the blocks that are transformed."""
LUMINANCE = (
    16, 11, 10, 16, 24, 40, 51, 61, 12, 12, 14, 19, 26, 58, 60, 55, 14, 13, 16, 24, 40, 57, 69, 56,
    14, 17, 22, 29, 51, 87, 80, 62, 18, 22, 37, 56, 68, 109, 103, 77, 24, 35, 55, 64, 81, 104, 113, 92,
    49, 64, 78, 87, 103, 121, 120, 101, 72, 92, 95, 98, 112, 100, 103, 99,
)  # fmt: skip
"""Quantisation steps of ITU-T T.81, table K.1, row by row."""
Matrix = Sequence[Sequence[float]]


def _cosine_transform() -> tuple[tuple[float, ...], ...]:
    """Return the matrix of the discrete cosine transform of eight values, with a row for each frequency."""
    rows = []
    for frequency in range(BLOCK):
        factor = math.sqrt(1 / 8) if frequency == 0 else 0.5
        row = []
        for x in range(BLOCK):
            row.append(round(factor * math.cos((2 * x + 1) * frequency * math.pi / 16), 15))
        rows.append(tuple(row))
    return tuple(rows)


_TRANSFORM = _cosine_transform()
_INVERSE = tuple(zip(*_TRANSFORM, strict=True))


def jpeg(pixels: bytes, width: int, height: int, quality: int) -> bytes:
    """Return the pixels of a grey image after it was saved as a JPEG file and read again.

    Args:
        pixels: Grey values, row by row.
        width: Width of the image, a multiple of 8.
        height: Height of the image, a multiple of 8.
        quality: From 1 to 100, in the scale of libjpeg.
    """
    # The formulas by which libjpeg scales the standard quantisation steps.
    scale = 5000 // quality if quality < 50 else 200 - 2 * quality
    steps: list[int] = []
    for standard_step in LUMINANCE:
        scaled_step = (standard_step * scale + 50) // 100
        steps.append(min(max(scaled_step, 1), 255))

    decoded = bytearray()
    for top in range(0, height, BLOCK):
        rows = []
        for y in range(top, top + BLOCK):
            rows.append(pixels[y * width : (y + 1) * width])
        first_pixel = rows[0][:1]
        if all(row == first_pixel * width for row in rows):
            # Most of an image is plain ground, of which one block gives all pixels.
            block = _quantised_block(first_pixel * (BLOCK * BLOCK), tuple(steps))
            decoded += block[:1] * (BLOCK * width)
            continue
        blocks = []
        for start in range(0, width, BLOCK):
            block = b"".join(row[start : start + BLOCK] for row in rows)
            blocks.append(_quantised_block(block, tuple(steps)))
        for start in range(0, BLOCK * BLOCK, BLOCK):
            for block in blocks:
                decoded += block[start : start + BLOCK]
    return bytes(decoded)


@lru_cache(maxsize=4096)
def _quantised_block(block: bytes, steps: tuple[int, ...]) -> bytes:
    """Return a block of 8 x 8 pixels after the loss of JPEG compression.

    The block is transformed, its 64 frequencies are rounded to multiples of `steps`, and it is transformed back.

    Args:
        block: 64 grey values, row by row.
        steps: A step for each frequency, row by row.
    """
    values = []
    for start in range(0, BLOCK * BLOCK, BLOCK):
        values.append([value - 128 for value in block[start : start + BLOCK]])
    frequencies = _product(_product(_TRANSFORM, values), _INVERSE)

    quantised = []
    for index, row in enumerate(frequencies):
        row_steps = steps[BLOCK * index : BLOCK * (index + 1)]
        quantised_row = []
        for frequency, step in zip(row, row_steps, strict=True):
            quantised_row.append(rounded_half_up(frequency / step) * step)
        quantised.append(quantised_row)

    pixels = bytearray()
    for row in _product(_product(_INVERSE, quantised), _TRANSFORM):
        for value in row:
            pixels.append(min(max(rounded_half_up(value + 128), 0), 255))
    return bytes(pixels)


def _product(left: Matrix, right: Matrix) -> list[list[float]]:
    """Return the product of two matrices, each a sequence of rows."""
    columns = list(zip(*right, strict=True))
    product = []
    for row in left:
        product.append([sum(map(mul, row, column)) for column in columns])
    return product
