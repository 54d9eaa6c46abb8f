"""Images to draw stimuli on, saved with the same bytes on any machine."""

from __future__ import annotations

import math

from PIL import Image

from snellen.plugin_api import encode_png
from snellen_lab.acuity.rasterising import Mask, Point, Shape, rasterise

WHITE = 255
BLACK = 0
GREY = 128
Colour = tuple[int, int, int]
_GREY_PALETTE = tuple((value, value, value) for value in range(256))


class Canvas:
    """A grey image to draw shapes on, with values from 0 (black) to 255 (white)."""

    def __init__(self, width: int, height: int, ground: int = WHITE) -> None:
        self.image = Image.new("L", (width, height), ground)

    def put(self, shape: Shape, scale: float, origin: Point, ink: int = BLACK) -> None:
        """Draw a shape on the image.

        Args:
            shape: Outlines in units of the shape, from its own upper left corner.
            scale: Pixels per unit.
            origin: Position of that corner in the image in pixels; fractions of a pixel are kept.
            ink: Grey value of the shape.
        """
        x, y = origin
        whole_x = math.floor(x)
        whole_y = math.floor(y)
        mask = rasterise(shape, scale, round(x - whole_x, 9), round(y - whole_y, 9))
        self.put_mask(mask, (whole_x, whole_y), ink)

    def put_mask(self, mask: Mask, corner: tuple[int, int], ink: int = BLACK) -> None:
        """Paint with a grey value, at each pixel as strongly as the mask covers it.

        Args:
            mask: Coverage of each pixel.
            corner: Left and top of the mask in the image.
            ink: Grey value.
        """
        coverage = Image.frombytes("L", (mask.width, mask.height), mask.coverage)
        self.image.paste(ink, corner, coverage)

    def fill(self, left: int, top: int, width: int, height: int, ink: int) -> None:
        """Fill a rectangle of whole pixels."""
        self.image.paste(ink, (left, top, left + width, top + height))

    def change(self, pixels: bytes) -> None:
        """Replace all pixels, given row by row."""
        self.image = Image.frombytes("L", self.image.size, pixels)

    def png(self) -> bytes:
        """Return the image as a PNG file. The same pixels give the same bytes on any machine."""
        return encode_png(*self.image.size, self.image.tobytes(), _GREY_PALETTE)


class ColourCanvas:
    """A coloured image to draw rectangles on; its palette has the colours drawn so far, first the ground."""

    def __init__(self, width: int, height: int, ground: Colour) -> None:
        self.image = Image.new("P", (width, height))
        self.palette = [ground]

    def rectangle(self, left: int, top: int, width: int, height: int, colour: Colour) -> None:
        """Fill a rectangle of whole pixels."""
        if colour not in self.palette:
            self.palette.append(colour)
        index = self.palette.index(colour)
        self.image.paste(index, (left, top, left + width, top + height))

    def png(self) -> bytes:
        """Return the image as a PNG file. The same pixels give the same bytes on any machine."""
        return encode_png(*self.image.size, self.image.tobytes(), self.palette)
