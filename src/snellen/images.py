"""Content-addressed images: checked once when added, stored once, never modified."""

from __future__ import annotations

import hashlib
import io
import os
import warnings
from base64 import b64decode
from pathlib import Path
from typing import Protocol

from snellen.errors import DataError
from snellen.records import ImageRef

MAX_PIXELS = 100_000_000
"""Larger pictures are refused as decompression bombs; $SNELLEN_MAX_PIXELS changes the limit."""

MEDIA_TYPES = {
    "PNG": "image/png",
    "JPEG": "image/jpeg",
    "MPO": "image/jpeg",
    "WEBP": "image/webp",
    "GIF": "image/gif",
    "BMP": "image/bmp",
    "TIFF": "image/tiff",
}

BLANK_PNG = b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAOAAAADgAQMAAAAg4/iiAAAAA1BMVEWAgICQdD0xAAAA"
    "HUlEQVR42u3BMQEAAADCoPVPbQZ/oAAAAAAAAHgMGWAAAQrTbh4AAAAASUVORK5CYII="
)
"""224 x 224 pixels of mid-grey: the picture of a request that is meant to show none."""
BLANK = ImageRef(hashlib.sha256(BLANK_PNG).hexdigest(), "image/png", 224, 224)


class Images(Protocol):
    """Gives a model the bytes of the images that a request refers to."""

    def read(self, image: ImageRef) -> bytes: ...


def inspect_image(content: bytes, where: str) -> ImageRef:
    """The reference for `content`, after decoding it completely.

    Raises DataError, naming `where`, for bytes that are not a picture, are truncated, are in an
    unsupported format, or would decode to more than MAX_PIXELS.
    """
    from PIL import Image

    limit = _max_pixels()
    if not content:
        raise DataError(f"{where}: the image file is empty; replace it")
    try:
        with warnings.catch_warnings():
            # Pillow warns about oddities that either break decoding, which raises below, or do not matter.
            warnings.simplefilter("ignore")
            with Image.open(io.BytesIO(content)) as picture:
                width, height = picture.size
                kind = picture.format or "unknown"
                if width * height > limit:
                    raise DataError(
                        f"{where}: the image unpacks to {width} x {height} pixels, over the limit of {limit}; "
                        "shrink it, or raise SNELLEN_MAX_PIXELS if you trust it"
                    )
                if kind not in MEDIA_TYPES:
                    raise DataError(f"{where}: image format {kind} is not supported; convert it to PNG or JPEG")
                picture.load()
    except DataError:
        raise
    except Image.DecompressionBombError as error:
        raise DataError(f"{where}: the image is a decompression bomb ({error}); remove it") from None
    except (OSError, SyntaxError, ValueError, EOFError) as error:
        raise DataError(f"{where}: not a readable image ({error}); replace the file") from None
    return ImageRef(hashlib.sha256(content).hexdigest(), MEDIA_TYPES[kind], width, height)


def _max_pixels() -> int:
    chosen = os.environ.get("SNELLEN_MAX_PIXELS", "")
    if chosen and not chosen.isdecimal():
        raise DataError(f"SNELLEN_MAX_PIXELS={chosen!r} is not a number of pixels; give digits only")
    return int(chosen or MAX_PIXELS)


class ImageStore:
    """A folder of images named by digest: `ab/abcdef...`."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def path(self, digest: str) -> Path:
        return self.root / digest[:2] / digest

    def put(self, content: bytes, where: str) -> ImageRef:
        """Check and store `content`; identical bytes are stored once. Raises DataError."""
        image = inspect_image(content, where)
        path = self.path(image.digest)
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        return image

    def read(self, image: ImageRef) -> bytes:
        """The stored bytes, unchanged. Raises DataError when they are missing; BLANK is always available."""
        try:
            return self.path(image.digest).read_bytes()
        except FileNotFoundError:
            if image == BLANK:
                return BLANK_PNG
            raise DataError(
                f"image {image.digest[:12]} is missing from {self.root}; build the benchmark again"
            ) from None
