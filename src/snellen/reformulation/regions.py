"""Pictures as a question shows them: cropped, or with regions drawn on them (ReForm-Eval A.2, A.3)."""

from __future__ import annotations

import io
from collections.abc import Iterator
from math import isfinite

from snellen.common.drafts import Colour, PictureSpec
from snellen.common.images import decode_picture
from snellen.errors import DataError
from snellen.records import Box

Corners = tuple[int, int, int, int]
RED: Colour = (255, 0, 0)
PALETTE: tuple[Colour, ...] = (
    RED, (0, 128, 0), (0, 0, 255), (255, 215, 0), (255, 0, 255), (0, 255, 255), (255, 128, 0), (128, 0, 128),
)  # fmt: skip
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


def _corners(box: Box, size: tuple[int, int], where: str) -> Corners:
    """Left, top, right and bottom pixel of a box, inclusive."""
    x, y, width, height = box
    inside = width > 0 and height > 0 and x + width > 0 and x < size[0] and y + height > 0 and y < size[1]
    if not (inside and all(map(isfinite, box))):
        raise DataError(f"{where}: the box {list(box)} has no area inside the picture of {size[0]} x {size[1]} pixels")
    return max(int(x), 0), max(int(y), 0), min(int(x + width), size[0] - 1), min(int(y + height), size[1] - 1)


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
