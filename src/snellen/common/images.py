"""Content-addressed images: checked once when added, stored once, never modified.

A picture as a question shows it is cropped, or has regions drawn on it (ReForm-Eval A.2, A.3). A degraded picture is
identified by its source and by a text that names what was done to it: `blur=2,jpeg=30`.
"""

from __future__ import annotations

import hashlib
import io
import os
import re
import struct
import warnings
from array import array
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Any, Protocol

from msgspec import Struct

from snellen.common.drafts import Colour, ImageFile, PictureSpec, picture_bytes
from snellen.common.foreign import IMAGE_BYTES, LimitError, raised, read_file
from snellen.errors import BuildLimitError, DataError, UnknownNameError
from snellen.records import Box, ImageRef


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
    import numpy as np
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
    return picture.resize(
        (width, height), Image.Resampling.BOX if dose < 1 else Image.Resampling.BICUBIC
    )


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
    return ", ".join(
        DEGRADATIONS[name].title.format(f"{doses[name]:g}")
        for name in DEGRADATIONS
        if name in doses
    )


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


MAX_PIXELS = 100_000_000
"""Larger images are refused as decompression bombs; $SNELLEN_LIMITS and $SNELLEN_MAX_PIXELS change the limit."""

BUILD_PIXELS = 1_000_000_000_000
"""Most pixels of all images that one build opens; 40 times those of the training part of VQA v2."""

_opened_pixels: ContextVar[PixelCount | None] = ContextVar("_opened_pixels", default=None)


class PixelCount:
    """The pixels of all images that a build opens, of which there may be `BUILD_PIXELS`."""

    def __init__(self) -> None:
        self._limit = int(raised(BUILD_PIXELS))
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


PLAIN_TYPES = frozenset({"image/png", "image/jpeg", "image/webp", "image/gif"})
PLAIN_MODES = frozenset({"1", "L", "P", "RGB"})
"""Pictures that every program decodes to the same pixels, if they are neither turned, moving nor transparent."""
TURNS = {
    2: "FLIP_LEFT_RIGHT",
    3: "ROTATE_180",
    4: "FLIP_TOP_BOTTOM",
    5: "TRANSPOSE",
    6: "ROTATE_270",
    7: "TRANSVERSE",
    8: "ROTATE_90",
}
"""What sets a picture upright, by its EXIF orientation."""
ORIENTATION = 0x0112
_JPEG_SCAN, _JPEG_FRAMES = 0xDA, frozenset({0xC0, 0xC1, 0xC2})
_JPEG_USUAL = frozenset({0xC4, 0xDB, 0xDD, 0xE0, 0xEE, 0xFE})
"""Segments that neither turn a picture nor add to it: DHT, DQT, DRI, JFIF, Adobe, comment (ITU-T T.81, table B.1)."""
FIRST_FRAME = "of a picture with several frames the first is shown"


class Images(Protocol):
    """Gives a model the bytes of the images that a request refers to."""

    def read(self, image: ImageRef) -> bytes: ...


def inspect_image(content: bytes, where: str) -> ImageRef:
    """The reference for `content`, after decoding it completely.

    Raises DataError, naming `where`, for bytes that are not a picture, are truncated, are in an
    unsupported format, or would decode to more than MAX_PIXELS.
    """
    with opened_image(content, where) as picture:
        width, height = picture.size
        media_type = MEDIA_TYPES[picture.format]
        # A JPEG is unpacked to an eighth of its size: all of its data are read, which is what shows damage.
        picture.draft(None, (1, 1))
        picture.load()
    return ImageRef(hashlib.sha256(content).hexdigest(), media_type, width, height)


def stored_size(content: bytes, where: str) -> tuple[int, int, bool]:
    """Width and height of a picture as it is stored, and whether it is upright so; the beginning of its file will do.

    Raises DataError, naming `where`, for bytes that are not a picture.
    """
    with opened_image(content, where) as picture:
        width, height = picture.size
        return width, height, not _may_be_turned(picture, content) or _orientation(picture) == 1


_OTHER_KINDS = {
    rb".{4}ftyp(?:hei|mif1|msf1)": "a HEIC file",
    rb".{4}ftyp": "a video, or a picture in a form of videos",
    rb"%PDF": "a PDF file",
    rb"\s*(?:<\?xml[^>]*>\s*)?(?:<!--.*?-->\s*)?<svg": "an SVG drawing",
    rb"\s*<(?:!doctype html|html|head)": "a web page, perhaps of a failed download",
    rb"version https://git-lfs": "a pointer of Git LFS; `git lfs pull` fetches the file",
}
"""How files begin that are none of the pictures that can be read, in words."""


def _kind_of(content: bytes) -> str:
    matching = (
        words
        for sign, words in _OTHER_KINDS.items()
        if re.match(sign, content[:1000], re.DOTALL | re.IGNORECASE)
    )
    return next(matching, "it begins like none that is known")


@contextmanager
def opened_image(content: bytes, where: str) -> Iterator[Any]:
    """The picture in `content`, not decoded yet. What cannot be read, there or in the body, is a DataError."""
    from PIL import Image, UnidentifiedImageError

    limit = _max_pixels()
    if Image.MAX_IMAGE_PIXELS is not None and limit > 2 * Image.MAX_IMAGE_PIXELS:
        # Beyond twice its own limit Pillow refuses what the user has allowed here.
        Image.MAX_IMAGE_PIXELS = limit
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
                    raise DataError(
                        f"{where}: image format {kind} is not supported; convert it to PNG or JPEG"
                    )
                if (count := _opened_pixels.get()) is not None:
                    count.add(width * height, where)
                yield picture
    except Image.DecompressionBombError as error:
        raise DataError(
            f"{where}: the image is a decompression bomb ({error}); remove it"
        ) from None
    except UnidentifiedImageError:
        raise DataError(
            f"{where}: not a readable image ({_kind_of(content)}); convert it to PNG or JPEG"
        ) from None
    except (OSError, SyntaxError, ValueError, EOFError) as error:
        raise DataError(f"{where}: not a readable image ({error}); replace the file") from None


def _max_pixels() -> int:
    chosen = os.environ.get("SNELLEN_MAX_PIXELS", "")
    if chosen and not chosen.isdecimal():
        raise DataError(
            f"SNELLEN_MAX_PIXELS={chosen!r} is not a number of pixels; give digits only"
        )
    return int(chosen or raised(MAX_PIXELS))


class ImageStore:
    """A folder of images named by digest: `ab/abcdef...`."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._made: set[Path] = set()

    def path(self, digest: str) -> Path:
        return self.root / digest[:2] / digest

    def put(self, content: bytes, where: str) -> ImageRef:
        """Check and store `content`; identical bytes are stored once. Raises DataError."""
        image = inspect_image(content, where)
        path = self.path(image.digest)
        if not path.exists():
            if path.parent not in self._made:
                path.parent.mkdir(parents=True, exist_ok=True)
                self._made.add(path.parent)
            path.write_bytes(content)
        return image

    def read(self, image: ImageRef) -> bytes:
        """The stored bytes, or those made of them. Raises DataError when they are missing or have changed; BLANK is
        always available."""
        if image.source is not None:
            picture = decode_picture(
                self.read(image.source), f"image {image.source.digest[:12]}"
            ).upright
            file = io.BytesIO()
            degraded(image, picture).save(file, "PNG", compress_level=1)
            return file.getvalue()
        try:
            content = read_file(self.path(image.digest), IMAGE_BYTES)
        except FileNotFoundError:
            if image == BLANK:
                return BLANK_PNG
            raise DataError(
                f"image {image.digest[:12]} is missing from {self.root}; build the benchmark again"
            ) from None
        except OSError as error:
            raise DataError(
                f"{self.path(image.digest)} cannot be read ({error.strerror}); build the benchmark again"
            ) from None
        if hashlib.sha256(content).hexdigest() != image.digest:
            raise DataError(
                f"{self.path(image.digest)} is not the picture that was stored: its content has changed; build the "
                "benchmark again"
            )
        return content


class JoinedImages:
    """The pictures of several stores: the first that has one gives it."""

    def __init__(self, stores: Sequence[Images]) -> None:
        self._stores = stores

    def read(self, image: ImageRef) -> bytes:
        """The bytes. Raises DataError where no store has them."""
        faults = []
        for store in self._stores:
            try:
                return store.read(image)
            except DataError as error:
                faults.append(error)
        raise faults[0]


@dataclass(frozen=True)
class DecodedPicture:
    """A picture in 8-bit RGB, in the pixel grid of its file."""

    stored: Any
    """The Pillow picture before it is turned; boxes of annotations refer to it."""
    orientation: int
    """As EXIF has it: 1 is upright."""
    notes: tuple[str, ...]
    """What a reader of the results should know of the conversion."""

    @property
    def upright(self) -> Any:
        return self.turned(self.stored)

    def turned(self, part: Any) -> Any:
        """`part`, cut out of `stored`, set upright."""
        from PIL import Image

        turn = TURNS.get(self.orientation)
        return part.transpose(Image.Transpose[turn]) if turn else part


def decode_picture(content: bytes, where: str) -> DecodedPicture:
    """The picture that a model is shown: 8-bit RGB, transparency over white, the first frame of several.

    16-bit grey is scaled by depth. Raises DataError, naming `where`, for what is not a usable picture.
    """
    with opened_image(content, where) as picture:
        frames = (FIRST_FRAME,) if _moves(picture) else ()
        picture.load()
        rgb, notes = _to_rgb(picture, where)
        return DecodedPicture(rgb, _orientation(picture), (*frames, *notes))


def to_plain_file(
    image: ImageRef, content: bytes, media_types: frozenset[str] = PLAIN_TYPES
) -> tuple[str, bytes]:
    """Media type and bytes for a program that decodes by itself: as stored, or a PNG of what a local model is shown.

    `media_types` are the media types that the program takes.

    Bytes that are not a picture here are left as they are, for that program to judge. Raises DataError for a picture
    that no local model could be shown.
    """
    where = f"image {image.digest[:12]}"
    try:
        plain = image.media_type in media_types and _is_plain(image, content, where)
    except DataError:
        plain = True
    if plain:
        return image.media_type, content
    file = io.BytesIO()
    decode_picture(content, where).upright.save(file, "PNG")
    return "image/png", file.getvalue()


def _is_plain(image: ImageRef, content: bytes, where: str) -> bool:
    """Whether every program decodes the picture to the same pixels."""
    if image.media_type == "image/jpeg" and _is_usual_jpeg(content):
        return True
    with opened_image(content, where) as picture:
        plain = image.media_type in PLAIN_TYPES and picture.mode in PLAIN_MODES
        plain = plain and not picture.has_transparency_data and not _moves(picture)
        return plain and (not _may_be_turned(picture, content) or _orientation(picture) == 1)


def _is_usual_jpeg(content: bytes) -> bool:
    """Whether the segments of a JPEG before its pixels say that it is plain, so that Pillow need not open it.

    False where one of them may say otherwise: EXIF and XMP (a turned picture), MPF (several), four colours, 12 bits.
    """
    place, is_plain = 2, False
    while content[place : place + 1] == b"\xff" and len(content) >= place + 10:
        marker, size = content[place + 1], int.from_bytes(content[place + 2 : place + 4])
        if marker == _JPEG_SCAN:
            return is_plain
        if marker in _JPEG_FRAMES:
            is_plain = content[place + 4] == 8 and content[place + 9] in (
                1,
                3,
            )  # bits a sample, colours
        elif marker not in _JPEG_USUAL:
            return False
        place += 2 + size
    return False


def _moves(picture: Any) -> bool:
    """Whether there are several frames. An MPO's are views of one scene, or a thumbnail."""
    return picture.format != "MPO" and getattr(picture, "n_frames", 1) > 1


def _may_be_turned(picture: Any, content: bytes) -> bool:
    """False for a PNG that names no orientation, which Pillow would have to decode to find that out."""
    return picture.format != "PNG" or any(
        name in content for name in (b"eXIf", b"iTXt", b"Raw profile type")
    )


def _orientation(picture: Any) -> int:
    """The EXIF orientation; 1 where there is none or EXIF is damaged, which does not make the picture unusable."""
    try:
        orientation = picture.getexif().get(ORIENTATION, 1)
    except (OSError, SyntaxError, ValueError, KeyError, TypeError, EOFError, struct.error):
        return 1
    return orientation if orientation in TURNS else 1


def _to_rgb(picture: Any, where: str) -> tuple[Any, tuple[str, ...]]:
    """In RGB, with notes."""
    from PIL import Image

    if picture.mode[0] in "IF":
        grey, notes = _to_grey(picture, where)
        return grey.convert("RGB"), notes
    if picture.has_transparency_data:
        layer = picture.convert("RGBA")
        return Image.alpha_composite(Image.new("RGBA", layer.size, "white"), layer).convert(
            "RGB"
        ), ()
    return picture.convert("RGB"), ()


def _to_grey(picture: Any, where: str) -> tuple[Any, tuple[str, ...]]:
    """8-bit grey of a picture with 16 or 32 bits a pixel; Pillow's own conversion cuts off all above 255.

    16 bits are scaled by depth. 32 bits, integers or floats, have no agreed range: 0 to 1 (floats) and 0 to 255
    are taken as such, and others are stretched from their smallest to their largest value.
    """
    if picture.mode.startswith("I;16") or (picture.mode == "I" and picture.format == "PNG"):
        return _scaled(picture.convert("I"), 0, 65535), ()
    if picture.mode == "F" and not all(map(isfinite, array("f", picture.tobytes()))):
        raise DataError(
            f"{where}: the image holds values that are not numbers; convert it to 8 bits"
        )
    low, high = picture.getextrema()
    if picture.mode == "F" and low >= 0 and high <= 1:
        low, high = 0, 1
    elif low >= 0 and high <= 255:
        low, high = 0, 255
    note = f"a picture of 32 bits a pixel is shown from {low:g} (black) to {high:g} (white)"
    return _scaled(picture, low, high), (note,)


def _scaled(picture: Any, low: float, high: float) -> Any:
    """8-bit grey with `low` as black and `high` as white, to the nearest level."""
    factor = 255 / (high - low) if high > low else 0.0
    # Pillow takes a linear function of 32-bit pixels only in the form `pixel * number + number`.
    return picture.point(lambda pixel: pixel * factor + (0.5 - low * factor)).convert("L")


def data_uri(media_type: str, content: bytes) -> str:
    return f"data:{media_type};base64,{b64encode(content).decode()}"


Corners = tuple[int, int, int, int]
RED: Colour = (255, 0, 0)
PALETTE: tuple[Colour, ...] = (
    RED,
    (0, 128, 0),
    (0, 0, 255),
    (255, 215, 0),
    (255, 0, 255),
    (0, 255, 255),
    (255, 128, 0),
    (128, 0, 128),
)
"""Colours of several boxes, in order: red, green, blue, gold, then Snellen's own; further boxes start over."""


def render_picture(picture: PictureSpec, content: bytes, where: str) -> bytes:
    """The image file of `picture` as shown; `content` unchanged when nothing is cropped or drawn.

    Coordinates are truncated to whole pixels and clipped; outlines are relative to the cropped picture. They count in
    the file's own pixel grid, whatever EXIF says of its orientation, as in ReForm-Eval's code (Pillow, not turned);
    the result is then set upright. Raises DataError, naming `where`, for bytes that are not a picture and for a box
    without area inside it.
    """
    if picture.crop is None and not picture.outlines:
        return content
    from PIL import ImageDraw

    decoded = decode_picture(content, where)
    image = decoded.stored
    if picture.crop is not None:
        left, top, _, _ = _corners(picture.crop, image.size, where)
        x, y, width, height = picture.crop
        # A crop excludes the pixel of its far corner, and is at least one pixel wide.
        right, bottom = (
            max(min(int(x + width), image.width), left + 1),
            max(min(int(y + height), image.height), top + 1),
        )
        image = image.crop((left, top, right, bottom))
    pen = ImageDraw.Draw(image)
    for outline in picture.outlines:
        for bar in _frame(_corners(outline.box, image.size, where), outline.width):
            pen.rectangle(bar, fill=outline.colour)
    out = io.BytesIO()
    decoded.turned(image).save(out, "PNG")
    return out.getvalue()


def picture_content(image: ImageFile | PictureSpec, where: str) -> bytes:
    """A picture as its question shows it. Raises DataError, naming the place."""
    picture = image if isinstance(image, PictureSpec) else PictureSpec(image)
    return render_picture(picture, picture_bytes(picture.file, where), where)


def _corners(box: Box, size: tuple[int, int], where: str) -> Corners:
    """Left, top, right and bottom pixel of a box, inclusive."""
    x, y, width, height = box
    inside = (
        width > 0
        and height > 0
        and x + width > 0
        and x < size[0]
        and y + height > 0
        and y < size[1]
    )
    if not (inside and all(map(isfinite, box))):
        raise DataError(
            f"{where}: the box {list(box)} has no area inside the picture of {size[0]} x {size[1]} pixels"
        )
    return (
        max(int(x), 0),
        max(int(y), 0),
        min(int(x + width), size[0] - 1),
        min(int(y + height), size[1] - 1),
    )


def _frame(corners: Corners, width: int) -> Iterator[Corners]:
    """The four bars of a frame, inside the box. Pillow's own frame outgrows a box thinner than its lines."""
    left, top, right, bottom = corners
    yield left, top, right, min(top + width - 1, bottom)
    yield left, max(bottom - width + 1, top), right, bottom
    yield left, top, min(left + width - 1, right), bottom
    yield max(right - width + 1, left), top, right, bottom


def from_corners(x1: float, y1: float, x2: float, y2: float) -> Box:
    """A box from any two opposite corners."""
    return min(x1, x2), min(y1, y2), abs(x2 - x1), abs(y2 - y1)
