"""The images: a bird in its colour, drawn when it is needed, so that the package ships none."""

from __future__ import annotations

import io

from PIL import Image, ImageDraw

from snellen.plugin_api import rng_for

COLOURS = {
    "red": (210, 40, 40),
    "blue": (40, 70, 210),
    "green": (40, 150, 60),
    "yellow": (240, 210, 40),
}
SIDE = 96
PIXELS = SIDE * SIDE


def draw_bird(name: str, colour: str) -> bytes:
    """A PNG of 96 x 96 pixels: body, head and beak on white; where it sits depends on its name alone."""
    rng = rng_for("snellen-birds", name, "place")
    left, top = rng.randrange(24), rng.randrange(24)
    picture = Image.new("RGB", (SIDE, SIDE), "white")
    pencil = ImageDraw.Draw(picture)
    pencil.ellipse((left, top + 18, left + 46, top + 52), COLOURS[colour])
    pencil.ellipse((left + 34, top + 4, left + 58, top + 28), COLOURS[colour])
    pencil.polygon(((left + 56, top + 12), (left + 68, top + 16), (left + 56, top + 20)), "black")
    file = io.BytesIO()
    picture.save(file, "PNG")
    return file.getvalue()
