"""Scenes painted with Pillow into an indexed picture: integer coordinates, no smoothing, no fonts."""

from __future__ import annotations

from PIL import Image, ImageDraw

from snellen.formats.png import encode_png
from snellen.suites.eyechart.scenes import CANVAS, Scene, Shape

SCENE_PALETTE: dict[str, tuple[int, int, int]] = {
    "paper": (236, 236, 232),
    "red": (214, 39, 40),
    "green": (44, 150, 44),
    "blue": (31, 80, 200),
    "yellow": (240, 210, 30),
    "purple": (128, 50, 160),
    "orange": (250, 130, 20),
    "black": (20, 20, 20),
    "pink": (245, 150, 190),
    "speck": (170, 170, 170),
    "dark speck": (110, 110, 110),
    "sky": (150, 200, 245),
    "sea": (40, 110, 170),
    "sand": (235, 215, 150),
    "grass": (110, 180, 80),
    "dune": (205, 150, 80),
    "wall": (140, 140, 150),
    "window": (245, 235, 170),
    "street": (80, 80, 85),
    "night": (15, 15, 60),
    "moon": (245, 245, 225),
    "snow": (250, 250, 255),
    "cloud": (225, 235, 245),
    "trunk": (100, 70, 40),
    "leaf": (50, 120, 50),
    "dusk": (120, 100, 140),
}
_INDEX = {name: i for i, name in enumerate(SCENE_PALETTE)}

_LETTERS = {
    letter: tuple(int(row, 2) for row in rows.split())
    for letter, rows in {
        "A": "01110 10001 10001 11111 10001 10001 10001",
        "B": "11110 10001 10001 11110 10001 10001 11110",
        "C": "01111 10000 10000 10000 10000 10000 01111",
        "D": "11110 10001 10001 10001 10001 10001 11110",
        "E": "11111 10000 10000 11110 10000 10000 11111",
        "F": "11111 10000 10000 11110 10000 10000 10000",
        "G": "01111 10000 10000 10011 10001 10001 01111",
        "H": "10001 10001 10001 11111 10001 10001 10001",
        "I": "11111 00100 00100 00100 00100 00100 11111",
        "J": "00111 00010 00010 00010 00010 10010 01100",
        "K": "10001 10010 10100 11000 10100 10010 10001",
        "L": "10000 10000 10000 10000 10000 10000 11111",
        "M": "10001 11011 10101 10101 10001 10001 10001",
        "N": "10001 11001 10101 10101 10011 10001 10001",
        "O": "01110 10001 10001 10001 10001 10001 01110",
        "P": "11110 10001 10001 11110 10000 10000 10000",
        "Q": "01110 10001 10001 10001 10101 10010 01101",
        "R": "11110 10001 10001 11110 10100 10010 10001",
        "S": "01111 10000 10000 01110 00001 00001 11110",
        "T": "11111 00100 00100 00100 00100 00100 00100",
        "U": "10001 10001 10001 10001 10001 10001 01110",
        "V": "10001 10001 10001 10001 10001 01010 00100",
        "W": "10001 10001 10001 10101 10101 11011 10001",
        "X": "10001 10001 01010 00100 01010 10001 10001",
        "Y": "10001 10001 01010 00100 00100 00100 00100",
        "Z": "11111 00001 00010 00100 01000 10000 11111",
    }.items()
}

_STAR = ((0, -100), (24, -33), (95, -31), (38, 12), (59, 81), (0, 40), (-59, 81), (-38, 12), (-95, -31), (-24, -33))
"""Corners of a five-pointed star in hundredths of its radius."""


def paint(scene: Scene) -> Image.Image:
    """The scene as a 256 x 256 picture in palette mode."""
    picture = Image.new("P", (CANVAS, CANVAS), _INDEX["paper"])
    picture.putpalette(b"".join(bytes(colour) for colour in SCENE_PALETTE.values()))
    pen = ImageDraw.Draw(picture)
    if scene.place:
        _landscape(pen, scene)
    for x, y, colour in scene.specks:
        pen.rectangle((x, y, x + 2, y + 2), fill=_INDEX[colour])
    for shape in scene.shapes:
        _shape(pen, shape)
    for i, letter in enumerate(scene.word):
        _letter(pen, letter, scene, i)
    return picture


def to_png(picture: Image.Image) -> bytes:
    """The file of a picture made by `paint`; the same pixels give the same bytes anywhere."""
    return encode_png(picture.width, picture.height, picture.tobytes(), tuple(SCENE_PALETTE.values()))


def _shape(pen: ImageDraw.ImageDraw, shape: Shape) -> None:
    x, y, r, fill = shape.x, shape.y, shape.radius, _INDEX[shape.colour]
    if shape.kind == "circle":
        # Rows of a disc by integer arithmetic: an ellipse of Pillow's has changed between versions.
        half = r
        for dy in range(r + 1):
            while half * half + dy * dy > r * r:
                half -= 1
            pen.line((x - half, y - dy, x + half, y - dy), fill=fill)
            pen.line((x - half, y + dy, x + half, y + dy), fill=fill)
    elif shape.kind == "square":
        side = r * 9 // 10
        pen.rectangle((x - side, y - side, x + side, y + side), fill=fill)
    elif shape.kind == "cross":
        arm = r * 3 // 10
        pen.rectangle((x - r, y - arm, x + r, y + arm), fill=fill)
        pen.rectangle((x - arm, y - r, x + arm, y + r), fill=fill)
    else:
        corners = {
            "triangle": ((0, -100), (100, 80), (-100, 80)),
            "diamond": ((0, -100), (70, 0), (0, 100), (-70, 0)),
            "star": _STAR,
        }[shape.kind]
        pen.polygon([(x + dx * r // 100, y + dy * r // 100) for dx, dy in corners], fill=fill)


def _letter(pen: ImageDraw.ImageDraw, letter: str, scene: Scene, place: int) -> None:
    scale, fill = scene.word_scale, _INDEX[scene.word_colour]
    left, top = scene.word_at[0] + place * 6 * scale, scene.word_at[1]
    for row, dots in enumerate(_LETTERS[letter]):
        for column in range(5):
            if dots >> (4 - column) & 1:
                x, y = left + column * scale, top + row * scale
                pen.rectangle((x, y, x + scale - 1, y + scale - 1), fill=fill)


def _landscape(pen: ImageDraw.ImageDraw, scene: Scene) -> None:
    """Sky, ground and one landmark."""
    dx, dy = scene.shift
    horizon = 120 + dy
    sky = "dusk" if scene.backdrop == "dusk" else "night" if scene.place == "night sky" else "sky"

    def block(x0: int, y0: int, x1: int, y1: int, colour: str) -> None:
        pen.rectangle((x0, y0, x1, y1), fill=_INDEX[colour])

    def disc(x: int, y: int, radius: int, colour: str) -> None:
        _shape(pen, Shape("circle", colour, x, y, radius))

    block(0, 0, 255, 255, sky)
    if scene.place == "beach":
        block(0, horizon, 255, horizon + 45, "sea")
        block(0, horizon + 46, 255, 255, "sand")
        disc(50 + dx, 45, 24, "yellow")
    elif scene.place == "meadow":
        block(0, horizon, 255, 255, "grass")
        block(70 + dx, horizon - 40, 84 + dx, horizon + 20, "trunk")
        disc(77 + dx, horizon - 50, 34, "leaf")
    elif scene.place == "desert":
        block(0, horizon + 20, 255, 255, "dune")
        for i in range(3):
            middle = 30 + dx + i * 85
            _shape(pen, Shape("triangle", "dune", middle, horizon - 4 + 6 * i, 46))
        disc(200 - dx, 40, 26, "orange")
    elif scene.place == "city":
        block(0, horizon + 60, 255, 255, "street")
        for i, height in enumerate((70, 110, 50, 90, 60)):
            left = 6 + i * 50
            block(left, horizon + 60 - height - dx, left + 40, horizon + 60, "wall")
            for y in range(horizon + 66 - height - dx, horizon + 50, 18):
                block(left + 8, y, left + 14, y + 8, "window")
                block(left + 26, y, left + 32, y + 8, "window")
    elif scene.place == "night sky":
        disc(70 + dx, 70 + dy, 30, "moon")
        for i in range(14):
            x, y = (i * 97 + dx * 7) % 250, (i * 61 + dy * 11) % 250
            block(x, y, x + 3, y + 3, "moon")
    else:
        block(0, horizon, 255, 255, "snow")
        for i, radius in enumerate((30, 22, 14)):
            disc(100 + dx, horizon + 50 - i * 38, radius, "cloud" if i == 0 else "snow")
        block(96 + dx, horizon - 30, 100 + dx, horizon - 26, "black")
