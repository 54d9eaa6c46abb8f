"""Crop images and draw boxes on them, as their questions show them (ReForm-Eval A.2, A.3)."""

from __future__ import annotations

import io
from collections.abc import Iterator
from math import isfinite
from typing import Any

from snellen.common.decoding import decode_image
from snellen.common.drafts import Colour, ImageFile, ImageSpec, image_bytes
from snellen.errors import DataError
from snellen.records import Box

Corners = tuple[int, int, int, int]
"""Left, top, right and bottom pixel, inclusive."""

RED: Colour = (255, 0, 0)
PALETTE: tuple[Colour, ...] = (
    RED,
    (0, 128, 0),  # green
    (0, 0, 255),  # blue
    (255, 215, 0),  # gold
    (255, 0, 255),
    (0, 255, 255),
    (255, 128, 0),
    (128, 0, 128),
)
"""Colours of several boxes, in order. The first four are the paper's, the others Snellen's own; then they repeat."""


def render_image(image: ImageSpec, content: bytes, where: str) -> bytes:
    """Crop an image and draw outlines on it.

    Coordinates are truncated to whole pixels and clipped. Outlines are relative to the cropped image. Coordinates
    refer to the pixel grid of the file, whatever its EXIF orientation is, as in ReForm-Eval's code (Pillow, not
    turned); the result is then set upright.

    Args:
        image: The crop and the outlines.
        content: The image file.
        where: Named in errors.

    Returns:
        A PNG file, or `content` itself if nothing is cropped or drawn.

    Raises:
        DataError: The bytes are not an image, or a box has no area inside it.
    """
    if image.crop is None and not image.outlines:
        return content
    from PIL import ImageDraw

    decoded = decode_image(content, where)
    rendered = decoded.stored_image
    if image.crop is not None:
        rendered = _crop(rendered, image.crop, where)
    pen = ImageDraw.Draw(rendered)
    for outline in image.outlines:
        corners = _corners(outline.box, rendered.size, where)
        for bar in _frame(corners, outline.width):
            pen.rectangle(bar, fill=outline.colour)

    file = io.BytesIO()
    decoded.turned(rendered).save(file, "PNG")
    return file.getvalue()


def image_content(image: ImageFile | ImageSpec, where: str) -> bytes:
    """Return the file of an image as its question shows it. Raises DataError, naming `where`."""
    spec = image if isinstance(image, ImageSpec) else ImageSpec(image)
    return render_image(spec, image_bytes(spec.file, where), where)


def _crop(image: Any, box: Box, where: str) -> Any:
    """Return the part of an image inside a box, at least one pixel wide and high.

    Args:
        image: A Pillow image.
        box: Left, top, width and height in pixels.
        where: What gives the box, for messages.

    Raises:
        DataError: No part of the box is inside the image.
    """
    left, top, _, _ = _corners(box, image.size, where)
    x, y, width, height = box
    # Pillow's `right` and `bottom` are the first column and row outside the crop.
    right = min(int(x + width), image.width)
    bottom = min(int(y + height), image.height)
    return image.crop((left, top, max(right, left + 1), max(bottom, top + 1)))


def _corners(box: Box, size: tuple[int, int], where: str) -> Corners:
    """Return the left, top, right and bottom pixel of a box, limited to the pixels of an image.

    Args:
        box: Left, top, width and height in pixels.
        size: Width and height of the image.
        where: What gives the box, for messages.

    Raises:
        DataError: No part of the box is inside the image.
    """
    x, y, width, height = box
    image_width, image_height = size
    is_finite = all(isfinite(number) for number in box)
    has_area = width > 0 and height > 0
    overlaps_columns = x + width > 0 and x < image_width
    overlaps_rows = y + height > 0 and y < image_height
    if not (is_finite and has_area and overlaps_columns and overlaps_rows):
        raise DataError(
            f"{where}: the box {list(box)} has no area inside the image of {image_width} x {image_height} pixels"
        )
    left = max(int(x), 0)
    top = max(int(y), 0)
    right = min(int(x + width), image_width - 1)
    bottom = min(int(y + height), image_height - 1)
    return left, top, right, bottom


def _frame(corners: Corners, width: int) -> Iterator[Corners]:
    """Yield the four bars of a frame inside a box: top, bottom, left and right.

    Pillow's own frame outgrows a box that is thinner than its lines.
    """
    left, top, right, bottom = corners
    top_inner = min(top + width - 1, bottom)
    bottom_inner = max(bottom - width + 1, top)
    left_inner = min(left + width - 1, right)
    right_inner = max(right - width + 1, left)
    yield left, top, right, top_inner
    yield left, bottom_inner, right, bottom
    yield left, top, left_inner, bottom
    yield right_inner, top, right, bottom


def from_corners(x1: float, y1: float, x2: float, y2: float) -> Box:
    """Return the box (x, y, width, height) with two opposite corners, in any order."""
    left = min(x1, x2)
    top = min(y1, y2)
    return left, top, abs(x2 - x1), abs(y2 - y1)
