"""Pictures that show the same although their bytes differ: saved again, in another format or size."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from itertools import product

from msgspec import Struct

from snellen.common.images import Images, decode_picture
from snellen.records import ImageRef

GREY_SIDE, COLOUR_SIDE = 32, 8
"""Pixels of the two reductions that are compared. Compression keeps brightness better than colours."""
GREY_LEVELS, COLOUR_LEVELS, QUARTER_LEVELS = 16, 24, 4
"""Of 256, by how much a pixel of them may differ, and the brightness of a quarter of the picture. An object that covers
a thousandth of the picture makes more of a difference."""
PROPORTIONS = 0.05


class Reduction(Struct, frozen=True):
    """What is compared of a picture."""

    proportion: float
    quarters: bytes
    """The brightness of each."""
    colours: bytes
    greys: bytes


def alike_pictures(images: Images, pictures: Sequence[ImageRef]) -> dict[str, str]:
    """For each picture, by digest, the first one that shows the same: colours and brightnesses of all its parts are
    nearly equal, and so are the proportions."""
    first: dict[str, str] = {}
    seen: dict[tuple[int, ...], list[tuple[str, Reduction]]] = defaultdict(list)
    for picture in pictures:
        own = _reduction(images, picture)
        # Whose quarters differ by no more than QUARTER_LEVELS is in the same cell of this width, or in one beside it.
        cell = tuple(level // (QUARTER_LEVELS + 1) for level in own.quarters)
        near = (seen.get(other, ()) for other in product(*((place, place - 1, place + 1) for place in cell)))
        same = (digest for group in near for digest, other in group if _shows_the_same(own, other))
        first[picture.digest] = first.get(next(same, ""), picture.digest)
        seen[cell].append((picture.digest, own))
    return first


def _shows_the_same(one: Reduction, other: Reduction) -> bool:
    return (
        _near(one.quarters, other.quarters, QUARTER_LEVELS)
        and abs(one.proportion / other.proportion - 1) <= PROPORTIONS
        and _near(one.colours, other.colours, COLOUR_LEVELS)
        and _near(one.greys, other.greys, GREY_LEVELS)
    )


def _near(one: bytes, other: bytes, levels: int) -> bool:
    return all(abs(a - b) <= levels for a, b in zip(one, other, strict=True))


def _reduction(images: Images, picture: ImageRef) -> Reduction:
    from PIL import Image

    whole = decode_picture(images.read(picture), f"image {picture.digest[:12]}").upright
    box = Image.Resampling.BOX
    small = whole.resize((GREY_SIDE, GREY_SIDE), box)
    colours, greys = small.resize((COLOUR_SIDE, COLOUR_SIDE), box), small.convert("L")
    quarters = greys.resize((2, 2), box).tobytes()
    return Reduction(whole.width / whole.height, quarters, colours.tobytes(), greys.tobytes())
