"""Open and decode images from elsewhere, within limits: all image files pass through this module."""

from __future__ import annotations

import hashlib
import io
import os
import re
import struct
import warnings
from array import array
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from math import isfinite
from typing import Any

from snellen.common.foreign import LimitError, effective_limit
from snellen.errors import BuildLimitError, DataError
from snellen.records import ImageRef

# --- limits ----------------------------------------------------------------------------------------------------------

MAX_PIXELS = 100_000_000
"""Larger images are rejected as decompression bombs; $SNELLEN_LIMITS and $SNELLEN_MAX_PIXELS change the limit."""
BUILD_PIXELS = 1_000_000_000_000
"""Most pixels of all images that one build opens; 40 times those of the training part of VQA v2."""

_opened_pixels: ContextVar[PixelCount | None] = ContextVar("_opened_pixels", default=None)


class PixelCount:
    """Count of the pixels of all images that a build opens, limited to `BUILD_PIXELS`."""

    def __init__(self) -> None:
        self._limit = int(effective_limit(BUILD_PIXELS))
        self._pixels = 0

    def add(self, pixels: int, where: str) -> None:
        """Count an image before it is decoded. Raises BuildLimitError if there are too many pixels."""
        self._pixels += pixels
        if self._pixels > self._limit:
            error = LimitError(f"the images of this build have more than {self._limit:,} pixels")
            raise BuildLimitError(f"{where}: {error.strerror}")


@contextmanager
def limited_pixels() -> Iterator[None]:
    """Limit the pixels of all images that are opened in the body; opening more raises BuildLimitError."""
    token = _opened_pixels.set(PixelCount())
    try:
        yield
    finally:
        _opened_pixels.reset(token)


def _max_pixels() -> int:
    """Return the greatest number of pixels of an image: $SNELLEN_MAX_PIXELS, or the default limit."""
    chosen = os.environ.get("SNELLEN_MAX_PIXELS", "")
    if not chosen:
        return int(effective_limit(MAX_PIXELS))
    if not chosen.isdecimal():
        raise DataError(
            f"SNELLEN_MAX_PIXELS={chosen!r} is not a number of pixels; give digits only"
        )
    return int(chosen)


# --- opening ---------------------------------------------------------------------------------------------------------

MEDIA_TYPES = {
    "PNG": "image/png",
    "JPEG": "image/jpeg",
    "MPO": "image/jpeg",
    "WEBP": "image/webp",
    "GIF": "image/gif",
    "BMP": "image/bmp",
    "TIFF": "image/tiff",
}
"""Supported formats, by Pillow's name."""

_OTHER_FORMATS = {
    rb".{4}ftyp(?:hei|mif1|msf1)": "a HEIC file",
    rb".{4}ftyp": "a video, or an image in a video format",
    rb"%PDF": "a PDF file",
    rb"\s*(?:<\?xml[^>]*>\s*)?(?:<!--.*?-->\s*)?<svg": "an SVG drawing",
    rb"\s*<(?:!doctype html|html|head)": "a web page, perhaps of a failed download",
    rb"version https://git-lfs": "a pointer of Git LFS; `git lfs pull` fetches the file",
}
"""Descriptions of files that are not images, by a pattern of how they begin."""


@contextmanager
def opened_image(content: bytes, where: str) -> Iterator[Any]:
    """Open an image with Pillow, without decoding it yet.

    Args:
        content: The image file.
        where: Named in errors.

    Raises:
        DataError: The image cannot be opened, has too many pixels or an unsupported format, or decoding it in the body
            of the `with` statement fails.
        BuildLimitError: The images of a build have too many pixels in total.

    Examples:
        >>> file = io.BytesIO()
        >>> Image.new("RGB", (8, 4)).save(file, "PNG")
        >>> with opened_image(file.getvalue(), "the drawing") as image:
        ...     print(image.size)
        (8, 4)
    """
    from PIL import Image, UnidentifiedImageError

    max_pixels = _max_pixels()
    if Image.MAX_IMAGE_PIXELS is not None and max_pixels > 2 * Image.MAX_IMAGE_PIXELS:
        # Pillow rejects images above twice its own limit, which the user may have allowed here.
        Image.MAX_IMAGE_PIXELS = max_pixels
    if not content:
        raise DataError(f"{where}: the image file is empty; replace it")
    try:
        with warnings.catch_warnings():
            # Pillow warns about oddities that either break decoding, which raises below, or do not matter.
            warnings.simplefilter("ignore")
            with Image.open(io.BytesIO(content)) as image:
                _check_opened(image, max_pixels, where)
                yield image
    except Image.DecompressionBombError as error:
        raise DataError(
            f"{where}: the image is a decompression bomb ({error}); remove it"
        ) from None
    except UnidentifiedImageError:
        raise DataError(
            f"{where}: not a readable image ({_describe_format(content)}); convert it to PNG or JPEG"
        ) from None
    except (OSError, SyntaxError, ValueError, EOFError) as error:
        raise DataError(f"{where}: not a readable image ({error}); replace the file") from None


def _check_opened(image: Any, max_pixels: int, where: str) -> None:
    """Raise DataError, naming `where`, for an image with too many pixels or in an unsupported format."""
    width, height = image.size
    if width * height > max_pixels:
        raise DataError(
            f"{where}: the image has {width} x {height} pixels, above the limit of {max_pixels}; shrink it, or "
            "raise SNELLEN_MAX_PIXELS if you trust it"
        )
    image_format = image.format or "unknown"
    if image_format not in MEDIA_TYPES:
        raise DataError(
            f"{where}: image format {image_format} is not supported; convert it to PNG or JPEG"
        )
    pixel_count = _opened_pixels.get()
    if pixel_count is not None:
        pixel_count.add(width * height, where)


def _describe_format(content: bytes) -> str:
    """Describe a file that is not an image, by its beginning: `a PDF file`."""
    for pattern, description in _OTHER_FORMATS.items():
        if re.match(pattern, content[:1000], re.DOTALL | re.IGNORECASE):
            return description
    return "it is not in a supported format"


def inspect_image(content: bytes, where: str) -> ImageRef:
    """Return the reference to an image, after decoding it completely.

    Args:
        content: The image file.
        where: Named in errors.

    Raises:
        DataError: The bytes are not an image, are truncated, have an unsupported format, or would decode to more than
            `MAX_PIXELS`.
    """
    with opened_image(content, where) as image:
        width, height = image.size
        media_type = MEDIA_TYPES[image.format]
        # Decoding a JPEG to an eighth of its size is faster, and still reads all of its data, which reveals damage.
        image.draft(None, (1, 1))
        image.load()
    return ImageRef(hashlib.sha256(content).hexdigest(), media_type, width, height)


def stored_size(content: bytes, where: str) -> tuple[int, int, bool]:
    """Return the width and height of an image in its file, and whether it is upright there.

    Args:
        content: The image file, or its beginning.
        where: Named in errors.

    Raises:
        DataError: The bytes are not an image.
    """
    with opened_image(content, where) as image:
        width, height = image.size
        return width, height, _is_upright(image, content)


# --- decoding --------------------------------------------------------------------------------------------------------

ORIENTATION = 0x0112
"""EXIF tag of the orientation."""
TURNS = {
    2: "FLIP_LEFT_RIGHT",
    3: "ROTATE_180",
    4: "FLIP_TOP_BOTTOM",
    5: "TRANSPOSE",
    6: "ROTATE_270",
    7: "TRANSVERSE",
    8: "ROTATE_90",
}
"""Pillow's operation that sets an image upright, by EXIF orientation."""
FIRST_FRAME = "only the first frame of a multi-frame image is used"


@dataclass(frozen=True)
class DecodedImage:
    """An image in 8-bit RGB, in the pixel grid of its file."""

    stored_image: Any
    """The Pillow image before it is turned; boxes of annotations refer to it."""
    orientation: int
    """EXIF orientation; 1 is upright."""
    notes: tuple[str, ...]
    """Notes on the conversion for readers of the results."""

    @property
    def upright(self) -> Any:
        """The Pillow image, set upright."""
        return self.turned(self.stored_image)

    def turned(self, part: Any) -> Any:
        """Return an image that was cropped from `stored_image`, turned upright."""
        from PIL import Image

        turn = TURNS.get(self.orientation)
        if turn is None:
            return part
        return part.transpose(Image.Transpose[turn])


def decode_image(content: bytes, where: str) -> DecodedImage:
    """Decode an image as a model sees it: 8-bit RGB, transparency over white, the first frame of several.

    16-bit grey is scaled by depth.

    Args:
        content: The image file.
        where: Named in errors.

    Raises:
        DataError: The bytes are not a usable image.

    Examples:
        >>> import io
        >>> from PIL import Image
        >>> file = io.BytesIO()
        >>> Image.new("L", (30, 20)).save(file, "png")
        >>> decode_image(file.getvalue(), "grey.png").upright.size
        (30, 20)
    """
    with opened_image(content, where) as image:
        frame_notes = (FIRST_FRAME,) if _has_frames(image) else ()
        image.load()
        rgb, conversion_notes = _to_rgb(image, where)
        return DecodedImage(rgb, _orientation(image), (*frame_notes, *conversion_notes))


def _has_frames(image: Any) -> bool:
    """Return whether there are several frames. Those of an MPO are views of one scene, or a thumbnail."""
    return image.format != "MPO" and getattr(image, "n_frames", 1) > 1


def _is_upright(image: Any, content: bytes) -> bool:
    """Return whether an image is stored upright, so that it need not be turned.

    Args:
        image: The image, opened with Pillow.
        content: Its file.
    """
    # To find the orientation of a PNG, Pillow decodes it. A PNG without these chunks has no orientation.
    chunk_names = (b"eXIf", b"iTXt", b"Raw profile type")
    if image.format == "PNG" and not any(name in content for name in chunk_names):
        return True
    return _orientation(image) == 1


def _orientation(image: Any) -> int:
    """Return the EXIF orientation, or 1 if there is none or EXIF is damaged, which does not make an image unusable."""
    try:
        orientation = image.getexif().get(ORIENTATION, 1)
    except (OSError, SyntaxError, ValueError, KeyError, TypeError, EOFError, struct.error):
        return 1
    return orientation if orientation in TURNS else 1


def _to_rgb(image: Any, where: str) -> tuple[Any, tuple[str, ...]]:
    """Return an image in RGB, with notes on the conversion."""
    from PIL import Image

    if image.mode[0] in "IF":
        grey, notes = _to_grey(image, where)
        return grey.convert("RGB"), notes
    if image.has_transparency_data:
        layer = image.convert("RGBA")
        white = Image.new("RGBA", layer.size, "white")
        return Image.alpha_composite(white, layer).convert("RGB"), ()
    return image.convert("RGB"), ()


def _to_grey(image: Any, where: str) -> tuple[Any, tuple[str, ...]]:
    """Convert an image with 16 or 32 bits per pixel to 8-bit grey; Pillow's own conversion clips all above 255.

    16 bits are scaled by depth. 32 bits, integers or floats, have no agreed range: 0 to 1 (floats) and 0 to 255 are
    taken as such, and other ranges are stretched from their smallest to their largest value. Returns the grey image, and
    notes on the conversion.
    """
    has_floats = image.mode == "F"
    has_16_bits = image.mode.startswith("I;16") or (image.mode == "I" and image.format == "PNG")
    if has_16_bits:
        return _stretch_levels(image.convert("I"), 0, 65535), ()
    if has_floats:
        values = array("f", image.tobytes())
        if not all(isfinite(value) for value in values):
            raise DataError(
                f"{where}: the image contains values that are not numbers; convert it to 8 bits"
            )
    low, high = image.getextrema()
    if has_floats and low >= 0 and high <= 1:
        low = 0
        high = 1
    elif low >= 0 and high <= 255:
        low = 0
        high = 255
    note = f"an image of 32 bits per pixel is shown from {low:g} (black) to {high:g} (white)"
    return _stretch_levels(image, low, high), (note,)


def _stretch_levels(image: Any, low: float, high: float) -> Any:
    """Return 8-bit grey with `low` as black and `high` as white, rounded to the nearest level."""
    factor = 255 / (high - low) if high > low else 0.0
    offset = 0.5 - low * factor
    # Pillow takes a linear function of 32-bit pixels only in the form `pixel * number + number`.
    stretched = image.point(lambda pixel: pixel * factor + offset)
    return stretched.convert("L")


# --- files for other programs ----------------------------------------------------------------------------------------

PLAIN_TYPES = frozenset({"image/png", "image/jpeg", "image/webp", "image/gif"})
PLAIN_MODES = frozenset({"1", "L", "P", "RGB"})
"""Modes that every program decodes to the same pixels, unless the image is turned, animated or transparent."""

# Markers of ITU-T T.81, table B.1.
_JPEG_SCAN = 0xDA
_JPEG_FRAMES = frozenset({0xC0, 0xC1, 0xC2})
_JPEG_USUAL = frozenset({0xC4, 0xDB, 0xDD, 0xE0, 0xEE, 0xFE})
"""Segments that neither turn an image nor add to it: DHT, DQT, DRI, JFIF, Adobe, comment."""


def to_plain_file(
    image: ImageRef, content: bytes, media_types: frozenset[str] = PLAIN_TYPES
) -> tuple[str, bytes]:
    """Return an image as a file that every program decodes to the pixels that a local model sees.

    Bytes that Snellen cannot open as an image stay as they are, for the other program to judge.

    Args:
        image: The reference to the image.
        content: Its file.
        media_types: Media types that the program takes.

    Returns:
        Media type and bytes: the file as stored, or a PNG.

    Raises:
        DataError: The image can be opened but not decoded.

    Examples:
        >>> file = io.BytesIO()
        >>> Image.new("RGB", (8, 4)).save(file, "PNG")
        >>> content = file.getvalue()
        >>> media_type, same = to_plain_file(inspect_image(content, "the drawing"), content)
        >>> media_type, same == content
        ('image/png', True)
    """
    where = f"image {image.digest[:12]}"
    try:
        is_plain = image.media_type in media_types and _is_plain(image, content, where)
    except DataError:
        is_plain = True
    if is_plain:
        return image.media_type, content
    file = io.BytesIO()
    decode_image(content, where).upright.save(file, "PNG")
    return "image/png", file.getvalue()


def _is_plain(image: ImageRef, content: bytes, where: str) -> bool:
    """Return whether every program decodes the image to the same pixels."""
    if image.media_type == "image/jpeg" and _is_usual_jpeg(content):
        return True
    with opened_image(content, where) as opened:
        if image.media_type not in PLAIN_TYPES or opened.mode not in PLAIN_MODES:
            return False
        if opened.has_transparency_data or _has_frames(opened):
            return False
        return _is_upright(opened, content)


def _is_usual_jpeg(content: bytes) -> bool:
    """Return whether the segments of a JPEG before its pixels show that it is plain, so that Pillow need not open it.

    False if a segment may show otherwise: EXIF and XMP (orientation), MPF (several images), four colours, 12 bits.
    """
    position = 2
    is_plain = False
    while content[position : position + 1] == b"\xff" and len(content) >= position + 10:
        marker = content[position + 1]
        if marker == _JPEG_SCAN:
            return is_plain
        if marker in _JPEG_FRAMES:
            bits_per_sample = content[position + 4]
            colours = content[position + 9]
            is_plain = bits_per_sample == 8 and colours in (1, 3)
        elif marker not in _JPEG_USUAL:
            return False
        size = int.from_bytes(content[position + 2 : position + 4])
        position += 2 + size
    return False


def data_uri(media_type: str, content: bytes) -> str:
    """Return bytes as a base64 `data:` URI.

    Examples:
        >>> data_uri("image/png", b"...")
        'data:image/png;base64,Li4u'
    """
    return f"data:{media_type};base64,{b64encode(content).decode()}"
