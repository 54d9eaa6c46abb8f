"""Clicks on a screen: OSWorld-G, whose targets are boxes and polygons, and which asks for things that are not there.

Source: Xie et al., Scaling Computer-Use Grounding via User Interface Decomposition and Synthesis (arXiv:2505.13227).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from snellen.common.decoding import stored_size
from snellen.common.drafts import Draft, ImageSpec, LazyFrames, image_bytes, read_params
from snellen.errors import DataError
from snellen.metrics.boxes import read_point
from snellen.metrics.declaration import Marks, read_rate_metric, share_row
from snellen.readers.mapped import read_hub_rows

Coordinates = Literal["1 or pixels", "1000", "1", "pixels"]
Point = tuple[float, float]
_TARGET = re.compile(r"(box|polygon) ([-\d. ]+?)(?: of ([\d.]+) ([\d.]+))?|refusal")
NOT_THERE = "[-1, -1]"
"""The reply that says that the target is not on the screen."""
_EITHER = (
    "Identify the UI target for the instruction and output exactly one click point as [x, y]. You may use either "
    "normalized coordinates in [0, 1] or absolute pixel coordinates. If the target does not exist, output [-1, -1].\n"
    "Instruction: {instruction}"
)
"""The words of lmms-eval (75571cfe, lmms_eval/tasks/osworld_g/utils.py)."""
_ASKED = {
    "1000": "where the image's left and top are 0 and its right and bottom 1000",
    "1": "where the image's left and top are 0 and its right and bottom 1",
    "pixels": "in pixels of the image, which is {width} wide and {height} high",
}


class ClickParams(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How replies are to name a point."""

    coordinates: Coordinates = "1 or pixels"
    """In either of two coordinates, in lmms-eval's words; or, in Snellen's words, along either side from 0 to 1000 or to
    1, or in pixels of the image as it is stored."""


def read(params: dict[str, Any], folder: Path | None) -> Iterator[Draft]:
    """Yield drafts that ask for a click. In the mapping, the options are the numbers of a target, and the hidden
    tag `form` tells whether it is a box, a polygon or a refusal. Raises DataError."""
    mapping = dict(params)
    form = read_params(mapping.pop("clicks", {}), ClickParams)
    for draft in read_hub_rows(mapping, folder):
        yield _reword_with_target(draft, form)


def _reword_with_target(draft: Draft, form: ClickParams) -> Draft:
    """Return a draft that asks for a point to click, in the declared coordinates, with a correct reply and the
    target as references."""
    file = draft.images[0]
    if isinstance(file, (ImageSpec, LazyFrames)):
        raise DataError(f"{draft.where}: a target in a crop of an image or in a clip")
    width, height, _ = stored_size(image_bytes(file, draft.where), draft.where)
    (question,) = draft.rounds
    numbers = [float(text) for text in question.options]
    kind = draft.answer_tags.get("form", "")
    texts = _make_references(kind, numbers, (width, height), form.coordinates, draft.where)

    if form.coordinates == "1 or pixels":
        text = _EITHER.format(instruction=question.question)
    else:
        named = _ASKED[form.coordinates].format(width=width, height=height)
        text = (
            f"Which place on this screen does the command refer to: {question.question}\n"
            f"Answer with one point to click alone, as [x, y], {named}; "
            f"with {NOT_THERE} if what is asked for is not on the screen."
        )
    asked = replace(question, question=text, options=(), gold=(), texts=texts)
    return replace(draft, rounds=(asked,))


def _make_references(
    kind: str, numbers: list[float], size: tuple[int, int], coordinates: Coordinates, where: str
) -> tuple[str, str]:
    """Return the two reference texts of a question that asks for a click: a correct reply, and the target.

    For example `[20, 30]` and `box 10 20 30 40`. Both are in the coordinates that replies are asked to use. Where a
    reply may use either of two coordinates, they are in pixels, and the size of the image follows: `of 1920 1080`.

    Args:
        kind: `bbox`, `polygon`, or `refusal` if what the question asks for is not on the screen.
        numbers: For a box: left, top, width and height. For a polygon: x and y of each corner. Both in pixels.
        size: Width and height of the image in pixels.
        coordinates: The coordinates of replies: `pixels`, the length that each side of the image counts as, such as
            `1000`, or `1 or pixels`.
        where: File and row, for messages.

    Raises:
        DataError: The numbers are not a target of this kind.
    """
    if kind == "refusal":
        return NOT_THERE, "refusal"
    n_numbers = len(numbers)
    is_polygon = kind == "polygon" and n_numbers % 2 == 0 and n_numbers >= 4
    if kind == "bbox" and n_numbers == 4:
        left, top, box_width, box_height = numbers
        numbers = [left, top, left + box_width, top + box_height]
    elif not is_polygon:
        raise DataError(
            f"{where}: {numbers} with box_type {kind!r} is neither a box of left, top, width and height, a polygon "
            "nor a refusal"
        )
    # A polygon of four numbers is two opposite corners.
    is_box = n_numbers == 4
    scales = (1.0, 1.0)
    width, height = size
    if coordinates in ("1", "1000"):
        side = float(coordinates)
        scales = (side / width, side / height)
    # The numbers are x and y in turns.
    scaled = [number * scales[index % 2] for index, number in enumerate(numbers)]
    shape = "box" if is_box else "polygon"
    target = f"{shape} {' '.join(map(_format_decimal, scaled))}"
    x, y = _inner_point(target, where)
    if coordinates == "1 or pixels":
        target += f" of {width} {height}"
    return f"[{_format_decimal(x)}, {_format_decimal(y)}]", target


def _format_decimal(number: float) -> str:
    """Return a number as a decimal with at least six significant digits.

    It never has an exponent, such as `1e-05`, because the patterns that find points in replies do not match one.
    """
    return np.format_float_positional(number, precision=6, unique=False, fractional=False, trim="-")


def _parse_target(target: str) -> tuple[str, list[Point]]:
    """Parse the target of a click: "box 10 20 30 40" gives `("box", [(10, 20), (30, 40)])`.

    Returns:
        The kind (`box`, `polygon` or `refusal`), and the corners as (x, y).

    Raises:
        DataError: The text is not a target.
    """
    match = _TARGET.fullmatch(target)
    if match is None:
        raise DataError(f"gold {target!r} is no target of a click")
    kind = match[1] or "refusal"
    numbers = [float(text) for text in (match[2] or "").split()]
    xs = numbers[::2]
    ys = numbers[1::2]
    return kind, list(zip(xs, ys, strict=True))


def _inner_point(target: str, where: str) -> Point:
    """Return a point inside a target, as an example of a correct click.

    For a box it is the centre. The centre of a polygon may be outside of it; so a horizontal line is drawn through
    the polygon, and the point is the middle of the longest piece of the line that is inside. Several heights are
    tried.

    Raises:
        DataError: The polygon has no area.
    """
    kind, corners = _parse_target(target)
    xs = [x for x, _ in corners]
    ys = [y for _, y in corners]
    if kind == "box":
        return sum(xs) / 2, sum(ys) / 2
    for share in (0.5, 0.4, 0.6, 0.3, 0.7, 0.2, 0.8):
        y = min(ys) + share * (max(ys) - min(ys))
        crossings = sorted(_crossings_at(corners, y))
        pieces = list(zip(crossings[::2], crossings[1::2], strict=False))
        if not pieces:
            continue
        start, end = max(pieces, key=lambda piece: piece[1] - piece[0])
        if end > start:
            return (start + end) / 2, y
    raise DataError(f"{where}: the polygon {corners} has no inside")


def _crossings_at(corners: Sequence[Point], y: float) -> Iterator[float]:
    """Yield where the edges of a polygon cross the horizontal line at y."""
    previous = corners[-1]
    for corner in corners:
        corner_x, corner_y = corner
        previous_x, previous_y = previous
        if (corner_y > y) != (previous_y > y):
            slope = (previous_x - corner_x) / (previous_y - corner_y)
            yield corner_x + slope * (y - corner_y)
        previous = corner


def click_marks(reply: str, references: Sequence[str]) -> Marks:
    """Return whether the point in a reply is inside the target.

    Points on the edge of a box count as inside. If what the question asks for is not on the screen, a point with
    two negative coordinates is correct.

    Args:
        reply: The reply.
        references: The reference texts, of which the last is the target, such as "box 10 20 30 40".

    Returns:
        `(1.0,)` if it is inside, `(0.0,)` if not; None if the reply has no point.

    Raises:
        DataError: The reference is not a target.
    """
    kind, corners = _parse_target(references[-1])
    point = read_point(reply)
    if point is None:
        return None
    x, y = _in_pixels(point, references[-1])
    if kind == "refusal":
        return (float(x < 0 and y < 0),)
    if kind == "box":
        xs = [corner_x for corner_x, _ in corners]
        ys = [corner_y for _, corner_y in corners]
        is_inside = min(xs) <= x <= max(xs) and min(ys) <= y <= max(ys)
        return (float(is_inside),)
    # A point is inside a polygon if a line from it to the right crosses an odd number of edges.
    n_crossings = sum(x < crossing for crossing in _crossings_at(corners, y))
    return (float(n_crossings % 2),)


def _in_pixels(point: Point, target: str) -> Point:
    """Return a point between 0 and 1 in pixels if the target has the size of the image, and any other point as it is."""
    match = _TARGET.fullmatch(target)
    x, y = point
    if match is None or match[3] is None or not (0 <= x <= 1 and 0 <= y <= 1):
        return point
    return x * float(match[3]), y * float(match[4])


CLICKS = read_rate_metric(
    "click",
    "clicks: share in the target, or that say that there is none, and how many replies have no point",
    [share_row("click_accuracy", interval="linearised", unparsed="wrong")],
    click_marks,
)
