"""Store images by the digest of their content: checked once when added, stored once, never modified."""

from __future__ import annotations

import hashlib
import io
from base64 import b64decode
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from snellen.common.decoding import decode_image, inspect_image
from snellen.common.degradation import degrade
from snellen.common.foreign import IMAGE_BYTES, read_file
from snellen.errors import DataError
from snellen.records import ImageRef

BLANK_PNG = b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAOAAAADgAQMAAAAg4/iiAAAAA1BMVEWAgICQdD0xAAAA"
    "HUlEQVR42u3BMQEAAADCoPVPbQZ/oAAAAAAAAHgMGWAAAQrTbh4AAAAASUVORK5CYII="
)
"""224 x 224 pixels of mid-grey, for requests without an image to models that require one."""
BLANK = ImageRef(hashlib.sha256(BLANK_PNG).hexdigest(), "image/png", 224, 224)


class Images(Protocol):
    """Source of the images that a request refers to.

    Examples:
        >>> class Stored:
        ...     def read(self, image):
        ...         return Path(image.digest).read_bytes()
    """

    def read(self, image: ImageRef) -> bytes:
        """Return the bytes of an image. Raises DataError if they are not available."""
        ...


class ImageStore:
    """Folder of images named by digest: `ab/abcdef...`.

    Examples:
        >>> Image.new("RGB", (8, 4)).save("drawing.png")
        >>> store = ImageStore(Path("images"))
        >>> image = store.put(Path("drawing.png").read_bytes(), "drawing.png")
        >>> store.read(image) == Path("drawing.png").read_bytes()
        True
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self._made: set[Path] = set()

    def path(self, digest: str) -> Path:
        """Return the path that the image with this digest has, or would have."""
        return self.root / digest[:2] / digest

    def put(self, content: bytes, where: str) -> ImageRef:
        """Check and store an image; identical bytes are stored once.

        Args:
            content: The image file.
            where: Named in errors.

        Raises:
            DataError: The bytes are not an image that can be decoded.
        """
        image = inspect_image(content, where)
        path = self.path(image.digest)
        if path.exists():
            return image
        if path.parent not in self._made:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._made.add(path.parent)
        path.write_bytes(content)
        return image

    def read(self, image: ImageRef) -> bytes:
        """Return the bytes of an image. A degraded image is made from its source. BLANK is always available.

        Raises:
            DataError: The file is missing or has changed.
        """
        if image.source is not None:
            return self._read_degraded(image, image.source)
        path = self.path(image.digest)
        try:
            content = read_file(path, IMAGE_BYTES)
        except FileNotFoundError:
            if image == BLANK:
                return BLANK_PNG
            raise DataError(
                f"image {image.digest[:12]} is missing from {self.root}; build the benchmark again"
            ) from None
        except OSError as error:
            raise DataError(
                f"{path} cannot be read ({error.strerror}); build the benchmark again"
            ) from None
        if hashlib.sha256(content).hexdigest() != image.digest:
            raise DataError(
                f"the image {path} has changed since it was stored; build the benchmark again"
            )
        return content

    def _read_degraded(self, image: ImageRef, source: ImageRef) -> bytes:
        """Degrade an image, and return it as a PNG file.

        Args:
            image: The reference to the degraded image, which says how it is degraded.
            source: The reference to the original image, which is stored here.
        """
        original = decode_image(self.read(source), f"image {source.digest[:12]}")
        degraded = degrade(image, original.upright)
        file = io.BytesIO()
        degraded.save(file, "PNG", compress_level=1)
        return file.getvalue()


class JoinedImages:
    """Images of several stores, read from the first that has them."""

    def __init__(self, stores: Sequence[Images]) -> None:
        self._stores = stores

    def read(self, image: ImageRef) -> bytes:
        """Return the bytes of an image. Raises the DataError of the first store if no store has it."""
        faults = []
        for store in self._stores:
            try:
                return store.read(image)
            except DataError as error:
                faults.append(error)
        raise faults[0]
