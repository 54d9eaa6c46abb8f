"""What the tests of the suite `acuity` have in common: its tests, its images, and a reader by templates."""

from __future__ import annotations

import hashlib
import io
import math
from functools import cache
from typing import Any

from PIL import Image, ImageChops

from snellen import registry
from snellen_lab.acuity.optotypes import DIRECTIONS, SLOAN, landolt_c, tumbling_e
from snellen_lab.acuity.rasterising import Shape, rasterise
from snellen_lab.acuity.trials import AcuityTest, Stimulus
from snellen_lab.acuity_suite.signs import SHAPES

NAMES = tuple(
    name
    for name, target in registry.targets("acuity_tests").items()
    if "snellen_lab.acuity_suite" in str(target)
)


def declared(name: str) -> AcuityTest:
    test = registry.find_registered("acuity_tests", name)
    assert isinstance(test, AcuityTest)
    return test


SMALL_SIDE = {
    "letter-size": 168, "landolt-size": 168, "tumbling-e-size": 168, "second-picture": 168, "contrast": 136,
    "shape-size": 224, "shape-contrast": 176, "crowding": 268, "place": 168, "occlusion": 256,
}  # fmt: skip
"""Sides of images, in pixels, in which there is room for the largest signs of a test."""


@cache
def stimuli(name: str, level: float, exemplars: int = 4, side: int = 0) -> tuple[Stimulus, ...]:
    return tuple(shown for _, shown in declared(name).at(level, side, exemplars))


def picture(shown: Stimulus, number: int = 0) -> Image.Image:
    with Image.open(io.BytesIO(shown.images[number])) as opened:
        return opened.convert("L")


def ink(shown: Stimulus, number: int = 0) -> Image.Image:
    """How far each pixel is from the ground, which is that of the upper left corner."""
    grey = picture(shown, number)
    return ImageChops.difference(grey, Image.new("L", grey.size, grey.getpixel((0, 0))))  # type: ignore[arg-type]


def digest(name: str) -> str:
    """Of questions and images at the ends and in the middle of the levels."""
    levels = declared(name).levels
    content = hashlib.sha256()
    for level in (levels[0], levels[len(levels) // 2], levels[-1]):
        for shown in stimuli(name, level):
            content.update(
                repr(
                    (shown.question, shown.options, shown.right, sorted(shown.tags.items()))
                ).encode()
            )
            for image in shown.images:
                content.update(image)
    return content.hexdigest()[:16]


def shape_of(option: str, ring: bool) -> Shape:
    if option in DIRECTIONS:
        return landolt_c(option) if ring else tumbling_e(option)
    return SLOAN.get(option) or SHAPES[option]


def read_by_templates(
    shown: Stimulus, height: float, *, ring: bool = False, number: int = 0
) -> int:
    """The option whose sign, somewhere on whole pixels, leaves the least of the image unexplained.

    Brute force on pixels: it knows the height and nothing else. Contrast is fitted by least squares.
    """
    import numpy as np
    from scipy.fft import irfft2, rfft2

    grey = np.asarray(picture(shown, number), float)
    waves, side = rfft2(float(np.median(grey)) - grey), math.ceil(height)
    explained = []
    for option in shown.options:
        template, norm = _template(option, ring, height, grey.shape)
        match = irfft2(waves * template, grey.shape)[
            side - 1 :, side - 1 :
        ]  # where it lies within the image
        explained.append(match.max() / norm)
    return int(np.argmax(explained))


@cache
def _template(option: str, ring: bool, height: float, shape: tuple[int, int]) -> tuple[Any, float]:
    """The Fourier transform of a sign, turned by half, in an image of this shape, and its Euclidean length."""
    import numpy as np
    from scipy.fft import rfft2

    mask = rasterise(shape_of(option, ring), height / 5)
    template = np.zeros((math.ceil(height), math.ceil(height)))
    template[: mask.height, : mask.width] = np.frombuffer(mask.coverage, np.uint8).reshape(
        mask.height, mask.width
    )
    return rfft2(template[::-1, ::-1], shape), float(np.sqrt((template**2).sum()))


if __name__ == "__main__":
    import json
    from pathlib import Path

    versions = {name: digest(name) for name in sorted(NAMES)}
    Path(__file__).with_name("acuity_digests.json").write_text(
        json.dumps(versions, indent=2) + "\n"
    )
