"""Pictures that show the same although their bytes differ: saved again, in another format or size."""

from __future__ import annotations

from collections.abc import Sequence

from snellen.images import Images, decode_picture
from snellen.records import ImageRef

SIDE = 32
"""Pixels of the reduction that is compared."""
MOST = 20
"""Levels, of 256, by which any pixel of two reductions may differ. Compression changes a mean over many pixels by less,
and an object that covers one pixel of the reduction by more."""


def alike_pictures(images: Images, pictures: Sequence[ImageRef]) -> dict[str, str]:
    """For each picture, by digest, the first one that shows the same: each of 32 x 32 mean colours is nearly equal, and
    so are the proportions.

    Pictures are compared with those of nearly the same mean colour alone, in the order of its brightness.
    """
    reductions = [(picture.width / picture.height, *_reduction(images, picture)) for picture in pictures]
    order = sorted(range(len(pictures)), key=lambda place: (sum(reductions[place][1]), place))
    first = list(range(len(pictures)))
    for rank, place in enumerate(order):
        shape, mean, pixels = reductions[place]
        for other in order[rank + 1 :]:
            other_shape, other_mean, other_pixels = reductions[other]
            if sum(other_mean) - sum(mean) > MOST:
                break
            if _near(mean, other_mean) and abs(shape / other_shape - 1) < 0.05 and _near(pixels, other_pixels):
                low, high = sorted((_root(first, place), _root(first, other)))
                first[high] = low
    return {picture.digest: pictures[_root(first, place)].digest for place, picture in enumerate(pictures)}


def _root(first: Sequence[int], place: int) -> int:
    while first[place] != place:
        place = first[place]
    return place


def _near(one: bytes, other: bytes) -> bool:
    return all(abs(a - b) <= MOST for a, b in zip(one, other, strict=True))


def _reduction(images: Images, picture: ImageRef) -> tuple[bytes, bytes]:
    """The mean colour, and that of each of 32 x 32 parts."""
    from PIL import Image

    whole = decode_picture(images.read(picture), f"image {picture.digest[:12]}").upright
    small = whole.resize((SIDE, SIDE), Image.Resampling.BOX)
    return small.resize((1, 1), Image.Resampling.BOX).tobytes(), small.tobytes()
