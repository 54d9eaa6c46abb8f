"""Pictures that show the same although their bytes differ: saved again, in another format or size."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from snellen.images import Images, decode_picture
from snellen.records import ImageRef

GREY_SIDE, COLOUR_SIDE = 32, 8
"""Pixels of the two reductions that are compared. Compression keeps brightness better than colours."""
GREY_LEVELS, COLOUR_LEVELS = 16, 24
"""Of 256, by how much a pixel of them may differ. An object that covers a thousandth of the picture makes more of a
difference."""
PROPORTIONS = 0.05


class Reduction(Struct, frozen=True):
    """What is compared of a picture."""

    proportion: float
    mean: bytes
    colours: bytes
    greys: bytes

    @property
    def brightness(self) -> int:
        """The sum of the mean colour's levels."""
        return sum(self.mean)


def alike_pictures(images: Images, pictures: Sequence[ImageRef]) -> dict[str, str]:
    """For each picture, by digest, the first one that shows the same: mean colours and brightnesses of all its parts
    are nearly equal, and so are the proportions.

    Pictures are compared with those of nearly the same brightness alone.
    """
    reductions = [_reduction(images, picture) for picture in pictures]
    order = sorted(range(len(pictures)), key=lambda place: (reductions[place].brightness, place))
    first = list(range(len(pictures)))
    for rank, place in enumerate(order):
        own = reductions[place]
        for other in order[rank + 1 :]:
            if reductions[other].brightness - own.brightness > COLOUR_LEVELS:
                break
            if _shows_the_same(own, reductions[other]):
                low, high = sorted((_root(first, place), _root(first, other)))
                first[high] = low
    return {picture.digest: pictures[_root(first, place)].digest for place, picture in enumerate(pictures)}


def _shows_the_same(one: Reduction, other: Reduction) -> bool:
    return (
        _near(one.mean, other.mean, COLOUR_LEVELS)
        and abs(one.proportion / other.proportion - 1) <= PROPORTIONS
        and _near(one.colours, other.colours, COLOUR_LEVELS)
        and _near(one.greys, other.greys, GREY_LEVELS)
    )


def _root(first: Sequence[int], place: int) -> int:
    while first[place] != place:
        place = first[place]
    return place


def _near(one: bytes, other: bytes, levels: int) -> bool:
    return all(abs(a - b) <= levels for a, b in zip(one, other, strict=True))


def _reduction(images: Images, picture: ImageRef) -> Reduction:
    from PIL import Image

    whole = decode_picture(images.read(picture), f"image {picture.digest[:12]}").upright
    box = Image.Resampling.BOX
    small = whole.resize((GREY_SIDE, GREY_SIDE), box)
    colours = small.resize((COLOUR_SIDE, COLOUR_SIDE), box)
    mean = colours.resize((1, 1), box)
    return Reduction(whole.width / whole.height, mean.tobytes(), colours.tobytes(), small.convert("L").tobytes())
