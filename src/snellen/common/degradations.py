"""What makes a picture worse by a dose: blur, noise, compression and the like.

A degraded picture is identified by its source and by a text that names what was done to it: `blur=2,jpeg=30`.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct

from snellen.errors import DataError, MissingExtraError, UnknownNameError
from snellen.records import ImageRef


class Degradation(Struct, frozen=True):
    """One kind of damage and the doses that it takes."""

    title: str
    """What is shown, with `{}` for the dose."""
    apply: Callable[[Any, float, str], Any]
    """(RGB picture, dose, seed) -> the worse picture."""
    none: float
    """The dose that changes nothing."""
    low: float
    high: float
    resized: Callable[[int, float], int] = lambda side, dose: side
    """(side, dose) -> the side afterwards, in pixels."""


def _blur(picture: Any, dose: float, seed: str) -> Any:
    from PIL import ImageFilter

    return picture.filter(ImageFilter.GaussianBlur(dose))


def _noise(picture: Any, dose: float, seed: str) -> Any:
    try:
        import numpy as np
    except ImportError:
        raise MissingExtraError("numpy", "metrics", "noise on pictures") from None
    from PIL import Image

    rng = np.random.default_rng(int(hashlib.sha256(seed.encode()).hexdigest()[:16], 16))
    pixels = np.asarray(picture, dtype=np.float32)
    noisy = pixels + rng.normal(0, dose, pixels.shape).astype(np.float32)
    return Image.fromarray(noisy.round().clip(0, 255).astype(np.uint8))


def _jpeg(picture: Any, dose: float, seed: str) -> Any:
    from PIL import Image

    file = io.BytesIO()
    picture.save(file, "JPEG", quality=round(dose))
    return Image.open(file).convert("RGB")


def _scale(picture: Any, dose: float, seed: str) -> Any:
    from PIL import Image

    width, height = (_scaled_side(side, dose) for side in picture.size)
    return picture.resize((width, height), Image.Resampling.BOX if dose < 1 else Image.Resampling.BICUBIC)


def _rotate(picture: Any, dose: float, seed: str) -> Any:
    from PIL import Image

    return picture.rotate(dose, Image.Resampling.BICUBIC, fillcolor=(128, 128, 128))


def _crop(picture: Any, dose: float, seed: str) -> Any:
    width, height = (_kept_side(side, dose) for side in picture.size)
    left, top = (picture.width - width) // 2, (picture.height - height) // 2
    return picture.crop((left, top, left + width, top + height))


def _grey(picture: Any, dose: float, seed: str) -> Any:
    from PIL import Image

    return Image.blend(picture, picture.convert("L").convert("RGB"), dose)


def _gamma(picture: Any, dose: float, seed: str) -> Any:
    return picture.point([round(255 * (level / 255) ** dose) for level in range(256)] * 3)


def _contrast(picture: Any, dose: float, seed: str) -> Any:
    return picture.point([round(128 + (level - 128) * dose) for level in range(256)] * 3)


def _scaled_side(side: int, dose: float) -> int:
    return max(round(side * dose), 1)


def _kept_side(side: int, dose: float) -> int:
    return max(round(side * (1 - dose)), 1)


DEGRADATIONS: Mapping[str, Degradation] = {
    "rotate": Degradation("turned by {} degrees to the left", _rotate, 0, -180, 180),
    "crop": Degradation("without the outer {} of either side", _crop, 0, 0, 0.95, _kept_side),
    "scale": Degradation("scaled to {} of its sides", _scale, 1, 0.01, 4, _scaled_side),
    "grey": Degradation("its colours faded by {}", _grey, 0, 0, 1),
    "gamma": Degradation("gamma {}", _gamma, 1, 0.1, 10),
    "contrast": Degradation("contrast times {}", _contrast, 1, 0, 1),
    "blur": Degradation("blurred (Gaussian, sigma {} px)", _blur, 0, 0, 200),
    "noise": Degradation("with noise (sd {} of 255)", _noise, 0, 0, 255),
    "jpeg": Degradation("as JPEG of quality {}", _jpeg, 100, 1, 100),
}
"""By name, in the order in which they are done."""


def check_doses(doses: Mapping[str, float]) -> None:
    """Raise UnknownNameError for a dose that a kind does not take."""
    for name, dose in doses.items():
        kind = DEGRADATIONS[name]
        if not kind.low <= dose <= kind.high:
            raise UnknownNameError(f"{name}={dose:g} is not between {kind.low:g} and {kind.high:g}")


def described(doses: Mapping[str, float]) -> str:
    """In words what doses do to a picture: `blurred (Gaussian, sigma 2 px)`."""
    return ", ".join(DEGRADATIONS[name].title.format(f"{doses[name]:g}") for name in DEGRADATIONS if name in doses)


def degraded_ref(image: ImageRef, doses: Mapping[str, float]) -> ImageRef:
    """The reference to a picture as it is after these doses. Its digest is of the source's and of the doses."""
    ordered = {name: doses[name] for name in DEGRADATIONS if name in doses}
    shown_as = ",".join(f"{name}={dose:g}" for name, dose in ordered.items())
    width, height = image.width, image.height
    for name, dose in ordered.items():
        width, height = (DEGRADATIONS[name].resized(side, dose) for side in (width, height))
    digest = hashlib.sha256(f"{image.digest} {shown_as}".encode()).hexdigest()
    return ImageRef(digest, "image/png", width, height, image, shown_as, image.time)


def degraded(image: ImageRef, picture: Any) -> Any:
    """The RGB picture that a reference means, made of that of its source. Raises DataError."""
    for term in image.shown_as.split(","):
        name, _, dose = term.partition("=")
        if name not in DEGRADATIONS:
            raise DataError(
                f"image {image.digest[:12]}: degraded by {term!r}, which this Snellen does not know; update it"
            )
        picture = DEGRADATIONS[name].apply(picture, float(dose), image.digest)
    return picture
