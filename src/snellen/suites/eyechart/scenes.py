"""Random scenes of shapes, words and places, and the images of them.

A scene is composed from a random generator, so that the same seed gives the same scene. It is painted with Pillow into
an image with a palette, in whole pixels, without smoothing or fonts, so that the image is the same on every machine.
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
"""Smallest of the four consecutive numbers that a counting question may offer, by level. Each of the four is equally
likely to be the number of shapes in the scene, so the offered numbers reveal nothing about the answer."""


class Shape(Struct, frozen=True):
    """A shape in the image: one of `SHAPE_KINDS` in one of `SHAPE_COLOURS`."""

    kind: str
    colour: str
    x: int
    """Position of its centre, in pixels from the left."""
    y: int
    """Position of its centre, in pixels from the top."""
    radius: int
    """Half its width and height, in pixels."""


class Scene(Struct, frozen=True):
    """All that an image shows: shapes, a word, or a landscape with or without shapes in front of it."""

    shapes: tuple[Shape, ...] = ()
    word: str = ""
    word_at: tuple[int, int] = (0, 0)
    """Left and top of the word, in pixels."""
    word_scale: int = 0
    """Side of one dot of the 5 x 7 letters, in pixels."""
    word_colour: str = "black"
    place: str = ""
    """The landscape: one of `PLACES`; "" for a plain ground."""
    shift: tuple[int, int] = (0, 0)
    """How far the landmark of a landscape is moved to the right, and its horizon down, in pixels."""
    specks: tuple[tuple[int, int, str], ...] = ()
    """Grey dots that make an image harder to read: left, top and colour of each."""
    backdrop: str = "paper"
    """The light of a landscape: `day` or `dusk`."""


Family = Literal["single", "pair", "crowd", "group", "odd", "word", "place"]
"""Families of scenes; the functions in `_COMPOSERS` say what each shows."""

_CELLS_PER_ROW = 4
_CELL = CANVAS // _CELLS_PER_ROW
"""Width and height in pixels of a cell of the grid that shapes are placed on."""


def compose(family: Family, level: Level, rng: random.Random) -> Scene:
    """Return a random scene of a family. The harder the level, the smaller its shapes and the more grey dots it has."""
    scene = _COMPOSERS[family](level, rng)
    if level == "easy":
        return scene
    n_specks = 12 if level == "medium" else 40
    return _with_specks(scene, n_specks, rng)


def _with_specks(scene: Scene, count: int, rng: random.Random) -> Scene:
    """Return a scene with small grey dots at random positions."""
    specks = []
    for _ in range(count):
        x = rng.randrange(CANVAS)
        y = rng.randrange(CANVAS)
        colour = rng.choice(("speck", "dark speck"))
        specks.append((x, y, colour))
    return replace(scene, specks=tuple(specks))


def _radius(level: Level, rng: random.Random) -> int:
    """Return a random radius for a single shape, in pixels: the harder the level, the smaller."""
    # All three are drawn at every level; the numbers drawn later, and so the versions of the suite, depend on that.
    radius_by_level = {
        "easy": rng.randint(40, 60),
        "medium": rng.randint(24, 36),
        "hard": rng.randint(9, 15),
    }
    return radius_by_level[level]


def _single(level: Level, rng: random.Random) -> Scene:
    """Compose a scene with one shape, which is clearly in one of the four quadrants of the image."""
    radius = _radius(level, rng)
    kind = rng.choice(SHAPE_KINDS)
    colour = rng.choice(SHAPE_COLOURS)
    x = _off_middle(radius, rng)
    y = _off_middle(radius, rng)
    return Scene((Shape(kind, colour, x, y, radius),))


def _off_middle(radius: int, rng: random.Random) -> int:
    """Return a random x or y for a shape, on either side of the middle of the image and clear of it."""
    half = CANVAS // 2
    smallest = min(radius + 2, half // 2)
    largest = max(half - radius // 2 - 8, half // 2)
    in_first_half = rng.randint(smallest, largest)
    if rng.random() < 0.5:
        return in_first_half
    return CANVAS - in_first_half


def _pair(level: Level, rng: random.Random) -> Scene:
    """Compose a scene with two shapes of different kind, colour and size, one clearly next to or above the other.

    The harder the level, the smaller the shapes and the less they differ in size.
    """
    kinds = rng.sample(SHAPE_KINDS, 2)
    colours = rng.sample(SHAPE_COLOURS, 2)
    # All three are drawn at every level; the numbers drawn later, and so the versions of the suite, depend on that.
    large_by_level = {
        "easy": rng.randint(46, 54),
        "medium": rng.randint(34, 40),
        "hard": rng.randint(20, 24),
    }
    large = large_by_level[level]
    small = {"easy": large // 2, "medium": large * 7 // 10, "hard": large * 17 // 20}[level]
    radii = [large, small]
    rng.shuffle(radii)

    # Next to each other; with the coordinates exchanged, above each other.
    deviation = {"easy": 10, "medium": 24, "hard": 36}[level]
    first = (64 + rng.randint(-8, 8), 128 + rng.randint(-deviation, deviation))
    second = (192 + rng.randint(-8, 8), 128 + rng.randint(-deviation, deviation))
    if rng.random() < 0.5:
        first = (first[1], first[0])
        second = (second[1], second[0])
    if rng.random() < 0.5:
        first, second = second, first

    shapes = []
    for kind, colour, (x, y), radius in zip(kinds, colours, (first, second), radii, strict=True):
        shapes.append(Shape(kind, colour, x, y, radius))
    return Scene(tuple(shapes))


def _on_grid(
    rng: random.Random, count: int, smallest: int, largest: int
) -> list[tuple[int, int, int]]:
    """Return the positions and sizes of shapes that do not overlap, each in another cell of a 4 x 4 grid.

    Args:
        rng: Random generator.
        count: Number of shapes.
        smallest: Smallest radius in pixels.
        largest: Largest radius in pixels.

    Returns:
        For each shape, the x and y of its centre and its radius.
    """
    cells = rng.sample(range(_CELLS_PER_ROW * _CELLS_PER_ROW), count)
    places = []
    for cell in cells:
        row, column = divmod(cell, _CELLS_PER_ROW)
        radius = rng.randint(smallest, largest)
        slack = max(
            _CELL // 2 - radius - 1, 0
        )  # how far the shape may be off the middle of its cell
        x = column * _CELL + _CELL // 2 + rng.randint(-slack, slack)
        y = row * _CELL + _CELL // 2 + rng.randint(-slack, slack)
        places.append((x, y, radius))
    return places


def _crowd(level: Level, rng: random.Random) -> Scene:
    """Compose a scene with two to six shapes, all of different kinds and colours."""
    count = {"easy": 2, "medium": 4, "hard": 6}[level]
    smallest, largest = {"easy": (26, 30), "medium": (20, 26), "hard": (10, 14)}[level]
    places = _on_grid(rng, count, smallest, largest)
    kinds = rng.sample(SHAPE_KINDS, count)
    colours = rng.sample(SHAPE_COLOURS, count)
    shapes = []
    for kind, colour, (x, y, radius) in zip(kinds, colours, places, strict=True):
        shapes.append(Shape(kind, colour, x, y, radius))
    return Scene(tuple(shapes))


def _group(level: Level, rng: random.Random) -> Scene:
    """Compose a scene with some shapes of one kind and colour, which a question asks to count.

    These come first in `shapes`. At harder levels, shapes of other kinds are among them.
    """
    count = rng.choice(FIRST_COUNTS[level]) + rng.randrange(4)
    n_others = {"easy": 0, "medium": 2, "hard": 6}[level]
    smallest, largest = {"easy": (24, 28), "medium": (18, 24), "hard": (9, 14)}[level]
    places = _on_grid(rng, count + n_others, smallest, largest)
    counted_kind, *other_kinds = rng.sample(SHAPE_KINDS, 3)
    counted_colour = rng.choice(SHAPE_COLOURS)
    shapes = []
    for index, (x, y, radius) in enumerate(places):
        kind = counted_kind
        colour = counted_colour
        if index >= count:
            kind = rng.choice(other_kinds)
            colour = rng.choice(SHAPE_COLOURS)
        shapes.append(Shape(kind, colour, x, y, radius))
    return Scene(tuple(shapes))


def _odd(level: Level, rng: random.Random) -> Scene:
    """Compose a scene with several shapes of one kind and a single one of another kind, which comes first in `shapes`.

    The single one also has another colour, except at the hard level.
    """
    count = {"easy": 3, "medium": 5, "hard": 9}[level]
    smallest, largest = {"easy": (26, 30), "medium": (20, 26), "hard": (10, 14)}[level]
    places = _on_grid(rng, count, smallest, largest)
    common_kind, single_kind = rng.sample(SHAPE_KINDS, 2)
    if level == "hard":
        single_colour = common_colour = rng.choice(SHAPE_COLOURS)
    else:
        single_colour, common_colour = rng.sample(SHAPE_COLOURS, 2)
    single_place, *common_places = places
    shapes = [Shape(single_kind, single_colour, *single_place)]
    for x, y, radius in common_places:
        shapes.append(Shape(common_kind, common_colour, x, y, radius))
    return Scene(tuple(shapes))


def _word(level: Level, rng: random.Random) -> Scene:
    """Compose a scene with a word: large, black and near the middle, or at harder levels smaller, coloured and anywhere."""
    word = rng.choice(WORDS[level])
    scale = {"easy": 12, "medium": 7, "hard": 3}[level]
    # A letter has 5 x 7 dots, and there is one dot between two letters.
    width = (6 * len(word) - 1) * scale
    height = 7 * scale
    deviation = 6 if level == "easy" else CANVAS
    left = _near_middle(CANVAS - width, deviation, rng)
    top = _near_middle(CANVAS - height, deviation, rng)
    colour = "black" if level == "easy" else rng.choice(SHAPE_COLOURS)
    return Scene(word=word, word_at=(left, top), word_scale=scale, word_colour=colour)


def _near_middle(free: int, deviation: int, rng: random.Random) -> int:
    """Return a random position for the left (or top) of an object, at most `deviation` pixels from where it is centred.

    `free` is the size of the image minus that of the object, in pixels. Four pixels at the edges stay free if possible.
    """
    smallest = max(free // 2 - deviation, 4)
    largest = min(free // 2 + deviation, free - 4)
    return rng.randint(smallest, max(smallest, largest))


def _place(level: Level, rng: random.Random) -> Scene:
    """Compose a scene with a landscape. At harder levels it has shapes in front of it, and may be darker."""
    shapes = []
    if level != "easy":
        count, smallest, largest = (3, 18, 26) if level == "medium" else (7, 22, 30)
        for x, y, radius in _on_grid(rng, count, smallest, largest):
            kind = rng.choice(SHAPE_KINDS)
            colour = rng.choice(SHAPE_COLOURS)
            shapes.append(Shape(kind, colour, x, y, radius))
    backdrop = "day"
    if level == "hard" and rng.random() < 0.7:
        backdrop = "dusk"
    place = rng.choice(PLACES)
    shift_right = rng.randint(0, 60)
    shift_down = rng.randint(0, 40)
    return Scene(tuple(shapes), place=place, shift=(shift_right, shift_down), backdrop=backdrop)


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
_INDEX = {name: index for index, name in enumerate(SCENE_PALETTE)}
"""Index of each colour in the palette of an image."""

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

_CORNERS: dict[str, tuple[tuple[int, int], ...]] = {
    "triangle": ((0, -100), (100, 80), (-100, 80)),
    "diamond": ((0, -100), (70, 0), (0, 100), (-70, 0)),
    "star": (
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
    ),
}
"""Corners of shapes relative to their centre, in hundredths of the radius."""


def paint(scene: Scene) -> Image.Image:
    """Return the image of a scene: 256 x 256 pixels, in palette mode."""
    image = Image.new("P", (CANVAS, CANVAS), _INDEX["paper"])
    image.putpalette(b"".join(bytes(colour) for colour in SCENE_PALETTE.values()))
    pen = ImageDraw.Draw(image)
    if scene.place:
        _draw_landscape(pen, scene)
    for x, y, colour in scene.specks:
        pen.rectangle((x, y, x + 2, y + 2), fill=_INDEX[colour])
    for shape in scene.shapes:
        _draw_shape(pen, shape)
    for position, letter in enumerate(scene.word):
        _draw_letter(pen, letter, scene, position)
    return image


def to_png(picture: Image.Image) -> bytes:
    """Return the file of an image made by `paint`; the same pixels give the same bytes anywhere."""
    return encode_png(
        picture.width, picture.height, picture.tobytes(), tuple(SCENE_PALETTE.values())
    )


def _draw_shape(pen: ImageDraw.ImageDraw, shape: Shape) -> None:
    """Draw a shape."""
    x = shape.x
    y = shape.y
    radius = shape.radius
    fill = _INDEX[shape.colour]
    if shape.kind == "circle":
        # Row by row in integers, because Pillow's ellipse has changed between versions. `half` is half the width of the
        # rows at a distance of `dy` from the centre.
        half = radius
        for dy in range(radius + 1):
            while half * half + dy * dy > radius * radius:
                half -= 1
            pen.line((x - half, y - dy, x + half, y - dy), fill=fill)
            pen.line((x - half, y + dy, x + half, y + dy), fill=fill)
    elif shape.kind == "square":
        half = radius * 9 // 10
        pen.rectangle((x - half, y - half, x + half, y + half), fill=fill)
    elif shape.kind == "cross":
        half_bar = radius * 3 // 10
        pen.rectangle((x - radius, y - half_bar, x + radius, y + half_bar), fill=fill)
        pen.rectangle((x - half_bar, y - radius, x + half_bar, y + radius), fill=fill)
    else:
        corners = []
        for dx, dy in _CORNERS[shape.kind]:
            corners.append((x + dx * radius // 100, y + dy * radius // 100))
        pen.polygon(corners, fill=fill)


def _draw_letter(pen: ImageDraw.ImageDraw, letter: str, scene: Scene, position: int) -> None:
    """Draw one letter of the scene's word as a pattern of 5 x 7 square dots; `position` is its index in the word."""
    scale = scene.word_scale
    fill = _INDEX[scene.word_colour]
    word_left, top = scene.word_at
    left = word_left + position * 6 * scale
    for row, dots in enumerate(_LETTERS[letter]):
        for column in range(5):
            has_dot = dots >> (4 - column) & 1  # the leftmost dot is the highest of five bits
            if has_dot:
                x = left + column * scale
                y = top + row * scale
                pen.rectangle((x, y, x + scale - 1, y + scale - 1), fill=fill)


def _draw_landscape(pen: ImageDraw.ImageDraw, scene: Scene) -> None:
    """Draw the sky, the ground and the landmark of the scene's place."""
    dx, dy = scene.shift
    horizon = 120 + dy
    if scene.backdrop == "dusk":
        sky = "dusk"
    elif scene.place == "night sky":
        sky = "night"
    else:
        sky = "sky"

    def block(left: int, top: int, right: int, bottom: int, colour: str) -> None:
        pen.rectangle((left, top, right, bottom), fill=_INDEX[colour])

    def disc(x: int, y: int, radius: int, colour: str) -> None:
        _draw_shape(pen, Shape("circle", colour, x, y, radius))

    block(0, 0, 255, 255, sky)
    if scene.place == "beach":
        block(0, horizon, 255, horizon + 45, "sea")
        block(0, horizon + 46, 255, 255, "sand")
        disc(50 + dx, 45, 24, "yellow")  # the sun
    elif scene.place == "meadow":
        block(0, horizon, 255, 255, "grass")
        block(70 + dx, horizon - 40, 84 + dx, horizon + 20, "trunk")
        disc(77 + dx, horizon - 50, 34, "leaf")
    elif scene.place == "desert":
        block(0, horizon + 20, 255, 255, "dune")
        for number in range(3):
            x = 30 + dx + number * 85
            _draw_shape(pen, Shape("triangle", "dune", x, horizon - 4 + 6 * number, 46))
        disc(200 - dx, 40, 26, "orange")  # the sun
    elif scene.place == "city":
        street = horizon + 60
        block(0, street, 255, 255, "street")
        for number, height in enumerate((70, 110, 50, 90, 60)):
            left = 6 + number * 50
            roof = street - height - dx
            block(left, roof, left + 40, street, "wall")
            for window_top in range(roof + 6, street - 10, 18):
                block(left + 8, window_top, left + 14, window_top + 8, "window")
                block(left + 26, window_top, left + 32, window_top + 8, "window")
    elif scene.place == "night sky":
        disc(70 + dx, 70 + dy, 30, "moon")
        for number in range(14):  # stars
            x = (number * 97 + dx * 7) % 250
            y = (number * 61 + dy * 11) % 250
            block(x, y, x + 3, y + 3, "moon")
    else:
        block(0, horizon, 255, 255, "snow")
        for number, radius in enumerate((30, 22, 14)):  # a snowman
            colour = "cloud" if number == 0 else "snow"
            disc(100 + dx, horizon + 50 - number * 38, radius, colour)
        block(96 + dx, horizon - 30, 100 + dx, horizon - 26, "black")
