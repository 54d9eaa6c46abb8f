"""Questions that ask where something is: the answer is a box, in the coordinates that replies are to use.

The records are those of `hub-rows`, whose `answer` is a template of the box's four numbers.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import replace

from snellen.common.decoding import stored_size
from snellen.common.drafts import (
    Draft,
    ImageFile,
    ImageSpec,
    LazyFrames,
    image_bytes,
    read_params,
)
from snellen.errors import DataError
from snellen.readers.mapped import read_hub_rows

Coordinates = Literal["1", "100", "1000", "pixels"]
_NUMBER = re.compile(r"[-+]?\d*\.?\d+(?:e[-+]?\d+)?", re.IGNORECASE)
_REPLIES = {
    "box": "Answer with its box alone, as [left, top, right, bottom]",
    "point": "Answer with one point on it alone, as [x, y]",
}


class BoxParams(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How the source gives boxes, and how replies are to give them."""

    corners: bool = True
    """Whether the source gives left, top, right, bottom; else left, top, width, height."""
    source: Literal["1", "pixels"] = "pixels"
    """The source's coordinates: from 0 to 1 or in pixels."""
    coordinates: Coordinates = "1000"
    """Those of replies: from 0 to 1, 100 or 1000 along either side, or in pixels of the image as it is stored."""
    ask: Literal["box", "point"] = "box"
    """What a reply is to be."""


def read(params: dict[str, Any], folder: Path | None) -> Iterator[Draft]:
    """Drafts whose gold is a box in the coordinates of replies, which the question names. Raises DataError."""
    mapping = dict(params)
    boxes = read_params(mapping.pop("boxes", {}), BoxParams)
    return (_with_box(draft, boxes) for draft in read_hub_rows(mapping, folder))


def _with_box(draft: Draft, boxes: BoxParams) -> Draft:
    (question,) = draft.rounds
    numbers = [float(number) for text in question.texts for number in _NUMBER.findall(text)]
    if len(numbers) != 4:
        raise DataError(f"{draft.where}: {' '.join(question.texts)!r} is not a box of four numbers")
    left, top, right, bottom = numbers if boxes.corners else (*numbers[:2], *_far_corner(numbers))
    if right < left or bottom < top or (boxes.source == "1" and max(right, bottom) > 1.01):
        raise DataError(
            f"{draft.where}: {numbers} is not a box in the form that boxes declares (corners, source)"
        )
    wide, high = _scale(draft, boxes)
    gold = f"[{', '.join(map(_plain, (left * wide, top * high, right * wide, bottom * high)))}]"
    text = f"{question.question}\n{_REPLIES[boxes.ask]}, {_named(draft, boxes)}."
    return replace(draft, rounds=(replace(question, question=text, texts=(gold,)),))


def _plain(number: float) -> str:
    return f"{number:.5f}".rstrip("0").rstrip(".")


def _far_corner(numbers: list[float]) -> tuple[float, float]:
    left, top, width, height = numbers
    return left + width, top + height


def _scale(draft: Draft, boxes: BoxParams) -> tuple[float, float]:
    """What the source's numbers are multiplied by, along either side."""
    if boxes.source == boxes.coordinates:
        return 1.0, 1.0
    width, height = (1, 1) if "pixels" not in (boxes.source, boxes.coordinates) else _size(draft)
    if boxes.coordinates == "pixels":
        return width, height
    side = float(boxes.coordinates)
    return side / width, side / height


def _named(draft: Draft, boxes: BoxParams) -> str:
    if boxes.coordinates == "pixels":
        width, height = _size(draft)
        return f"in pixels of the image, which is {width} wide and {height} high"
    return f"where the image's left and top are 0 and its right and bottom {boxes.coordinates}"


def _size(draft: Draft) -> tuple[int, int]:
    """Width and height of the image, from its head alone."""
    file: ImageFile | ImageSpec | LazyFrames = draft.images[0]
    if isinstance(file, (ImageSpec, LazyFrames)):
        raise DataError(
            f"{draft.where}: a box in a crop of an image or in a clip; leave out the crop"
        )
    width, height, _ = stored_size(image_bytes(file, draft.where), draft.where)
    return width, height
