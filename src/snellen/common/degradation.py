"""Degrade images by a dose, for questions that measure how a model copes with damage.

A degraded image is identified by its source and by text that names what was done to it, such as `blur=2,jpeg=30`.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct

from snellen.errors import DataError, UnknownNameError
from snellen.records import ImageRef


class Degradation(Struct, frozen=True):
    """A kind of damage and the doses that it takes."""

    title: str
    """Description for readers, with `{}` for the dose."""
    apply: Callable[[Any, float, str], Any]
    """Function of an RGB image, a dose and a seed that returns the degraded image."""
    none: float
    """The dose that changes nothing."""
    low: float
    """Smallest dose."""
    high: float
    """Largest dose."""
    resized: Callable[[int, float], int] = lambda side, dose: side
    """Function of a side in pixels and a dose that returns the side of the degraded image."""


def _blur(image: Any, dose: float, seed: str) -> Any:
    from PIL import ImageFilter

    return image.filter(ImageFilter.GaussianBlur(dose))


def _noise(image: Any, dose: float, seed: str) -> Any:
    """Add normal noise with a standard deviation of `dose` levels, the same for the same seed."""
    import numpy as np
    from PIL import Image

    digest = hashlib.sha256(seed.encode()).hexdigest()
    rng = np.random.default_rng(int(digest[:16], 16))
    pixels = np.asarray(image, dtype=np.float32)
    noise = rng.normal(0, dose, pixels.shape).astype(np.float32)
    noisy = (pixels + noise).round().clip(0, 255)
    return Image.fromarray(noisy.astype(np.uint8))


def _jpeg(image: Any, dose: float, seed: str) -> Any:
    """Compress an image as JPEG with the quality `dose`, from 1 to 100, and decode it again."""
    from PIL import Image

    file = io.BytesIO()
    image.save(file, "JPEG", quality=round(dose))
    return Image.open(file).convert("RGB")


def _scale(image: Any, dose: float, seed: str) -> Any:
    """Return an image whose sides are `dose` times as long."""
    from PIL import Image

    width = _scaled_side(image.width, dose)
    height = _scaled_side(image.height, dose)
    shrinks = dose < 1
    resampling = Image.Resampling.BOX if shrinks else Image.Resampling.BICUBIC
    return image.resize((width, height), resampling)


def _scaled_side(side: int, dose: float) -> int:
    return max(round(side * dose), 1)


def _rotate(image: Any, dose: float, seed: str) -> Any:
    from PIL import Image

    return image.rotate(dose, Image.Resampling.BICUBIC, fillcolor=(128, 128, 128))


def _crop(image: Any, dose: float, seed: str) -> Any:
    """Return the middle of an image, without a share `dose` of its width and height."""
    width = _cropped_side(image.width, dose)
    height = _cropped_side(image.height, dose)
    left = (image.width - width) // 2
    top = (image.height - height) // 2
    return image.crop((left, top, left + width, top + height))


def _cropped_side(side: int, dose: float) -> int:
    return max(round(side * (1 - dose)), 1)


def _grey(image: Any, dose: float, seed: str) -> Any:
    from PIL import Image

    grey = image.convert("L").convert("RGB")
    return Image.blend(image, grey, dose)


def _gamma(image: Any, dose: float, seed: str) -> Any:
    """Raise the brightness of each pixel, between 0 and 1, to the power of `dose`."""
    levels: list[int] = []
    for level in range(256):
        brightness = level / 255
        levels.append(round(255 * brightness**dose))
    return image.point(levels * 3)


def _contrast(image: Any, dose: float, seed: str) -> Any:
    """Multiply the distance of each pixel from mid-grey by `dose`."""
    levels: list[int] = []
    for level in range(256):
        levels.append(round(128 + (level - 128) * dose))
    return image.point(levels * 3)


DEGRADATIONS: Mapping[str, Degradation] = {
    "rotate": Degradation("turned by {} degrees to the left", _rotate, 0, -180, 180),
    "crop": Degradation("without the outer {} of either side", _crop, 0, 0, 0.95, _cropped_side),
    "scale": Degradation("scaled to {} of its sides", _scale, 1, 0.01, 4, _scaled_side),
    "grey": Degradation("its colours faded by {}", _grey, 0, 0, 1),
    "gamma": Degradation("gamma {}", _gamma, 1, 0.1, 10),
    "contrast": Degradation("contrast times {}", _contrast, 1, 0, 1),
    "blur": Degradation("blurred (Gaussian, sigma {} px)", _blur, 0, 0, 200),
    "noise": Degradation("with noise (sd {} of 255)", _noise, 0, 0, 255),
    "jpeg": Degradation("as JPEG of quality {}", _jpeg, 100, 1, 100),
}
"""Kinds of damage by name, in the order in which they are applied."""


def check_doses(doses: Mapping[str, float]) -> None:
    """Raise UnknownNameError if the strength of a degradation is outside its bounds.

    Args:
        doses: Strengths by the name of a degradation, such as `{"blur": 2.0}`.
    """
    for name, dose in doses.items():
        degradation = DEGRADATIONS[name]
        is_within_bounds = degradation.low <= dose <= degradation.high
        if not is_within_bounds:
            bounds = f"{degradation.low:g} and {degradation.high:g}"
            raise UnknownNameError(f"{name}={dose:g} is not between {bounds}")


def describe_doses(doses: Mapping[str, float]) -> str:
    """Describe doses for a reader: `blurred (Gaussian, sigma 2 px)`."""
    descriptions = []
    for name, dose in _in_order(doses).items():
        descriptions.append(DEGRADATIONS[name].title.format(f"{dose:g}"))
    return ", ".join(descriptions)


def degraded_ref(image: ImageRef, doses: Mapping[str, float]) -> ImageRef:
    """Return the reference to a degraded copy of an image, which is made when it is needed.

    Its digest depends on the digest of the image and on the strengths, so equal copies have equal digests.

    Args:
        image: The image.
        doses: Strengths by the name of a degradation, such as `{"blur": 2.0}`.
    """
    terms = []
    width = image.width
    height = image.height
    for name, dose in _in_order(doses).items():
        terms.append(f"{name}={dose:g}")
        width = DEGRADATIONS[name].resized(width, dose)
        height = DEGRADATIONS[name].resized(height, dose)
    shown_as = ",".join(terms)
    digest = hashlib.sha256(f"{image.digest} {shown_as}".encode()).hexdigest()
    return ImageRef(digest, "image/png", width, height, image, shown_as, image.time)


def _in_order(doses: Mapping[str, float]) -> dict[str, float]:
    """Return doses by kind of damage, in the order in which they are applied."""
    ordered = {}
    for name in DEGRADATIONS:
        if name in doses:
            ordered[name] = doses[name]
    return ordered


def degrade(image: ImageRef, source: Any) -> Any:
    """Apply the doses of a reference to the RGB image of its source.

    Raises:
        DataError: The reference names a kind of damage that this version does not have.
    """
    degraded = source
    for term in image.shown_as.split(","):
        name, _, dose = term.partition("=")
        if name not in DEGRADATIONS:
            raise DataError(
                f"image {image.digest[:12]}: degraded by {term!r}, which this version of Snellen does not "
                "support; update Snellen"
            )
        degraded = DEGRADATIONS[name].apply(degraded, float(dose), image.digest)
    return degraded
