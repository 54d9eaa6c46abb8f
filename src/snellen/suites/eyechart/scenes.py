"""What an image shows: shapes, words and places, composed from a named generator.

Scenes are painted with Pillow into an indexed image: integer coordinates, no smoothing, no fonts.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace
from PIL import Image, ImageDraw

from snellen.formats.png import encode_png

Level = Literal["easy", "medium", "hard"]
LEVELS: tuple[Level, ...] = ("easy", "medium", "hard")
CANVAS = 256
"""Width and height of every image in pixels."""

SHAPE_KINDS = ("circle", "square", "triangle", "star", "cross", "diamond")
SHAPE_COLOURS = ("red", "green", "blue", "yellow", "purple", "orange", "black", "pink")
PLACES = ("beach", "meadow", "desert", "city", "night sky", "snow field")
WORDS: dict[Level, Sequence[str]] = {
    "easy": (
        "CAT DOG SUN CUP BUS HAT KEY PEN MAP BOX TEA EGG ICE JAM OWL FOX ANT BEE COW PIG NUT OIL RED ZOO VAN WEB "
        "YAK LIP ARM EAR"
    ).split(),
    "medium": (
        "BREAD CHAIR DREAM EARTH FLUTE GRAPE HOUSE JUICE KNIFE LEMON MOUSE NIGHT OCEAN PIANO QUEEN RIVER STONE TIGER "
        "UNCLE VOICE WHALE ZEBRA"
    ).split(),
    "hard": (
        "ALPHABET BALANCED CALENDAR DIAGONAL ELEPHANT FOUNTAIN GEOMETRY HOSPITAL IMAGINED JUNCTION KEYBOARD LANGUAGE "
        "MOUNTAIN NOTEBOOK OPTICIAN PLATFORM QUESTION RAINFALL SANDWICH TRIANGLE UMBRELLA VERTICAL WORKSHOP"
    ).split(),
}

FIRST_COUNTS: dict[Level, tuple[int, ...]] = {"easy": (1,), "medium": (2, 3), "hard": (4, 5, 6)}
"""Where the four neighbouring numbers may begin that a counting question offers. A scene has as many things as one of
them says, all being equally likely; so the offered numbers tell nothing of the answer."""


class Shape(Struct, frozen=True):
    """A shape on the canvas: centre and half its extent, in pixels."""

    kind: str
    colour: str
    x: int
    y: int
    radius: int


class Scene(Struct, frozen=True):
    shapes: tuple[Shape, ...] = ()
    word: str = ""
    word_at: tuple[int, int] = (0, 0)
    word_scale: int = 0
    """Side of one dot of the 5 x 7 letters, in pixels."""
    word_colour: str = "black"
    place: str = ""
    shift: tuple[int, int] = (0, 0)
    """How far the landmark and the horizon of a place are moved, in pixels."""
    specks: tuple[tuple[int, int, str], ...] = ()
    """Grey dots that make an image harder to read."""
    backdrop: str = "paper"


Family = Literal["single", "pair", "crowd", "group", "odd", "word", "place"]

_CELLS = 4
_CELL = CANVAS // _CELLS


def compose(family: Family, level: Level, rng: random.Random) -> Scene:
    """Return a scene of the family: what is in it, where, and how hard it is to see."""
    scene = _COMPOSERS[family](level, rng)
    return scene if level == "easy" else _clutter(scene, 12 if level == "medium" else 40, rng)


def _clutter(scene: Scene, count: int, rng: random.Random) -> Scene:
    specks = tuple(
        (rng.randrange(CANVAS), rng.randrange(CANVAS), rng.choice(("speck", "dark speck")))
        for _ in range(count)
    )
    return replace(scene, specks=specks)


def _radius(level: Level, rng: random.Random) -> int:
    return {"easy": rng.randint(40, 60), "medium": rng.randint(24, 36), "hard": rng.randint(9, 15)}[
        level
    ]


def _single(level: Level, rng: random.Random) -> Scene:
    """Compose one shape in one quadrant, clear of the middle lines."""
    radius = _radius(level, rng)
    return Scene(
        (
            Shape(
                rng.choice(SHAPE_KINDS),
                rng.choice(SHAPE_COLOURS),
                *_in_quadrant(radius, rng),
                radius,
            ),
        )
    )


def _in_quadrant(radius: int, rng: random.Random) -> tuple[int, int]:
    half = CANVAS // 2

    def along() -> int:
        low, high = min(radius + 2, half // 2), max(half - radius // 2 - 8, half // 2)
        near = rng.randint(low, high)
        return near if rng.random() < 0.5 else CANVAS - near

    return along(), along()


def _pair(level: Level, rng: random.Random) -> Scene:
    """Compose two shapes of different kind, colour and size, clearly beside or above each other."""
    kinds, colours = rng.sample(SHAPE_KINDS, 2), rng.sample(SHAPE_COLOURS, 2)
    big = {"easy": rng.randint(46, 54), "medium": rng.randint(34, 40), "hard": rng.randint(20, 24)}[
        level
    ]
    small = {"easy": big // 2, "medium": big * 7 // 10, "hard": big * 17 // 20}[level]
    radii = [big, small]
    rng.shuffle(radii)
    slip = {"easy": 10, "medium": 24, "hard": 36}[level]
    first = (64 + rng.randint(-8, 8), 128 + rng.randint(-slip, slip))
    second = (192 + rng.randint(-8, 8), 128 + rng.randint(-slip, slip))
    if rng.random() < 0.5:
        first, second = first[::-1], second[::-1]
    if rng.random() < 0.5:
        first, second = second, first
    return Scene(
        tuple(
            Shape(kind, colour, *place, radius)
            for kind, colour, place, radius in zip(
                kinds, colours, (first, second), radii, strict=True
            )
        )
    )


def _on_grid(rng: random.Random, count: int, low: int, high: int) -> list[tuple[int, int, int]]:
    """Centres and radii of `count` shapes in different cells of a 4 x 4 grid."""
    cells = rng.sample(range(_CELLS * _CELLS), count)
    placed = []
    for cell in cells:
        radius = rng.randint(low, high)
        slack = max(_CELL // 2 - radius - 1, 0)
        placed.append(
            (
                cell % _CELLS * _CELL + _CELL // 2 + rng.randint(-slack, slack),
                cell // _CELLS * _CELL + _CELL // 2 + rng.randint(-slack, slack),
                radius,
            )
        )
    return placed


def _crowd(level: Level, rng: random.Random) -> Scene:
    """Several shapes, no two of one kind, each of its own colour."""
    count = {"easy": 2, "medium": 4, "hard": 6}[level]
    low, high = {"easy": (26, 30), "medium": (20, 26), "hard": (10, 14)}[level]
    places = _on_grid(rng, count, low, high)
    kinds, colours = rng.sample(SHAPE_KINDS, count), rng.sample(SHAPE_COLOURS, count)
    return Scene(
        tuple(
            Shape(kind, colour, *place)
            for kind, colour, place in zip(kinds, colours, places, strict=True)
        )
    )


def _group(level: Level, rng: random.Random) -> Scene:
    """Some shapes of one kind and colour to be counted; harder ones have others among them."""
    count = rng.choice(FIRST_COUNTS[level]) + rng.randrange(4)
    decoys = {"easy": 0, "medium": 2, "hard": 6}[level]
    low, high = {"easy": (24, 28), "medium": (18, 24), "hard": (9, 14)}[level]
    places = _on_grid(rng, count + decoys, low, high)
    kind, *rest = rng.sample(SHAPE_KINDS, 3)
    colour = rng.choice(SHAPE_COLOURS)
    return Scene(
        tuple(
            Shape(kind, colour, *place)
            if i < count
            else Shape(rng.choice(rest), rng.choice(SHAPE_COLOURS), *place)
            for i, place in enumerate(places)
        )
    )


def _odd(level: Level, rng: random.Random) -> Scene:
    """Several shapes of one kind and a single one of another, all of one colour when hard."""
    count = {"easy": 3, "medium": 5, "hard": 9}[level]
    low, high = {"easy": (26, 30), "medium": (20, 26), "hard": (10, 14)}[level]
    places = _on_grid(rng, count, low, high)
    common, single = rng.sample(SHAPE_KINDS, 2)
    colours = [rng.choice(SHAPE_COLOURS)] * 2 if level == "hard" else rng.sample(SHAPE_COLOURS, 2)
    return Scene(
        tuple(
            Shape(single if i == 0 else common, colours[0] if i == 0 else colours[1], *place)
            for i, place in enumerate(places)
        )
    )


def _word(level: Level, rng: random.Random) -> Scene:
    word = rng.choice(WORDS[level])
    scale = {"easy": 12, "medium": 7, "hard": 3}[level]
    width, height = (6 * len(word) - 1) * scale, 7 * scale
    slip = 6 if level == "easy" else CANVAS
    at = (
        _near_middle(CANVAS - width, slip, rng),
        _near_middle(CANVAS - height, slip, rng),
    )
    colour = "black" if level == "easy" else rng.choice(SHAPE_COLOURS)
    return Scene(word=word, word_at=at, word_scale=scale, word_colour=colour)


def _near_middle(room: int, slip: int, rng: random.Random) -> int:
    low, high = max(room // 2 - slip, 4), min(room // 2 + slip, room - 4)
    return rng.randint(low, max(low, high))


def _place(level: Level, rng: random.Random) -> Scene:
    """Compose a small landscape; a harder one is darker and has shapes in front of it."""
    shapes: tuple[Shape, ...] = ()
    if level != "easy":
        count, low, high = (3, 18, 26) if level == "medium" else (7, 22, 30)
        shapes = tuple(
            Shape(rng.choice(SHAPE_KINDS), rng.choice(SHAPE_COLOURS), *place)
            for place in _on_grid(rng, count, low, high)
        )
    backdrop = "dusk" if level == "hard" and rng.random() < 0.7 else "day"
    return Scene(
        shapes,
        place=rng.choice(PLACES),
        shift=(rng.randint(0, 60), rng.randint(0, 40)),
        backdrop=backdrop,
    )


_COMPOSERS = {
    "single": _single,
    "pair": _pair,
    "crowd": _crowd,
    "group": _group,
    "odd": _odd,
    "word": _word,
    "place": _place,
}


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

_STAR = (
    (0, -100),
    (24, -33),
    (95, -31),
    (38, 12),
    (59, 81),
    (0, 40),
    (-59, 81),
    (-38, 12),
    (-95, -31),
    (-24, -33),
)
"""Corners of a five-pointed star in hundredths of its radius."""


def paint(scene: Scene) -> Image.Image:
    """Return the scene as a 256 x 256 image in palette mode."""
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
    """Return the file of an image made by `paint`; the same pixels give the same bytes anywhere."""
    return encode_png(
        picture.width, picture.height, picture.tobytes(), tuple(SCENE_PALETTE.values())
    )


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
