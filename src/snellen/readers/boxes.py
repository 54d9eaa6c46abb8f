"""Read questions that ask where something is.

The answer is a box, in the coordinates that the question asks for. The records are read as by the
reader `hub-rows`, whose `answer` is a template of the box's four numbers.
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
    """Return drafts whose correct answer is a box, in the coordinates that replies use and the question names.
    Raises DataError."""
    mapping = dict(params)
    boxes = read_params(mapping.pop("boxes", {}), BoxParams)
    return (_reword_with_box(draft, boxes) for draft in read_hub_rows(mapping, folder))


def _reword_with_box(draft: Draft, boxes: BoxParams) -> Draft:
    """Return a draft that asks for a box or a point, with the correct box as its accepted text.

    Args:
        draft: The draft. Its accepted texts give the box as four numbers.
        boxes: How the four numbers and the coordinates in replies are meant. A sentence about the latter is added to
            the question.

    Raises:
        DataError: There are not four numbers, or they are not a box in the declared form.
    """
    (question,) = draft.rounds
    numbers: list[float] = []
    for text in question.texts:
        numbers += [float(number) for number in _NUMBER.findall(text)]
    if len(numbers) != 4:
        raise DataError(f"{draft.where}: {' '.join(question.texts)!r} is not a box of four numbers")
    if boxes.corners:
        left, top, right, bottom = numbers
    else:
        left, top, width, height = numbers
        right = left + width
        bottom = top + height
    has_negative_size = right < left or bottom < top
    exceeds_image = boxes.source == "1" and max(right, bottom) > 1.01
    if has_negative_size or exceeds_image:
        raise DataError(
            f"{draft.where}: {numbers} is not a box in the form that boxes declares (corners, source)"
        )
    x_scale, y_scale = _coordinate_scales(draft, boxes)
    corners = (left * x_scale, top * y_scale, right * x_scale, bottom * y_scale)
    correct_box = f"[{', '.join(_format_number(number) for number in corners)}]"
    reply_form = f"{_REPLIES[boxes.ask]}, {_coordinates_in_words(draft, boxes)}."
    reworded = replace(
        question, question=f"{question.question}\n{reply_form}", texts=(correct_box,)
    )
    return replace(draft, rounds=(reworded,))


def _format_number(number: float) -> str:
    """Write a number with at most five decimals and no trailing zeros."""
    return f"{number:.5f}".rstrip("0").rstrip(".")


def _coordinate_scales(draft: Draft, boxes: BoxParams) -> tuple[float, float]:
    """Return the factors that convert x and y of the source's box to the coordinates in which the model replies.

    Coordinates are pixels, or numbers from 0 to a side that stands for the whole width and height, such as 1 or 1000.

    Args:
        draft: The question, whose image is opened only if the factors depend on its size.
        boxes: The coordinates of the source and of the replies.
    """
    if boxes.source == boxes.coordinates:
        return 1.0, 1.0
    if boxes.source == "pixels":
        width, height = _image_size(draft)
        side = float(boxes.coordinates)
        return side / width, side / height
    # The source has shares of the width and height, from 0 to 1.
    if boxes.coordinates == "pixels":
        width, height = _image_size(draft)
        return width, height
    side = float(boxes.coordinates)
    return side, side


def _coordinates_in_words(draft: Draft, boxes: BoxParams) -> str:
    """Return the part of a question that tells in which coordinates the reply must be."""
    if boxes.coordinates == "pixels":
        width, height = _image_size(draft)
        return f"in pixels of the image, which is {width} wide and {height} high"
    return f"where the image's left and top are 0 and its right and bottom {boxes.coordinates}"


def _image_size(draft: Draft) -> tuple[int, int]:
    """Return width and height of the draft's image, read from the beginning of the file. Raises DataError for a
    crop or a clip, whose size differs from the file's."""
    file: ImageFile | ImageSpec | LazyFrames = draft.images[0]
    if isinstance(file, (ImageSpec, LazyFrames)):
        raise DataError(
            f"{draft.where}: a box in a crop of an image or in a clip; leave out the crop"
        )
    width, height, _ = stored_size(image_bytes(file, draft.where), draft.where)
    return width, height
