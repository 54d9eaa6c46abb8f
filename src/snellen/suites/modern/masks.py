"""Points in a region of an image: RefSpatial-Bench, Where2Place and RoboSpatial-Home.

The dataset gives the region as a mask, a second image of a row. The reader writes it beside the answer as runs of
pixels, so that scoring needs no image. Sources: RoboRefer (arXiv:2506.04308), RoboPoint (arXiv:2406.10721) and
RoboSpatial (arXiv:2411.16537).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from snellen.common.decoding import opened_image
from snellen.common.drafts import Draft, ImageSpec, LazyFrames, image_bytes, read_params
from snellen.errors import DataError
from snellen.metrics.declaration import Marks, read_rate_metric, share_row
from snellen.readers.mapped import read_hub_rows

Coordinates = Literal["1", "1000", "pixels"]
Point = tuple[float, float]
_MASK = re.compile(r"mask (\d+)x(\d+) in (1|1000|pixels): ([\d ]+)")
_NUMBER = r"(?<![\w.])[-+]?(?:\d+(?:\.\d+)?|\.\d+)(?![\w%]|\.\d)"
_PAIR = re.compile(rf"[(\[]\s*({_NUMBER})\s*,\s*({_NUMBER})\s*[)\]]")
_HALF = 127.5
_ASKED = {
    "1": "between 0 and 1, from left to right and from top to bottom",
    "1000": "between 0 and 1000, from left to right and from top to bottom",
    "pixels": "in pixels from the left and from the top",
}


class MaskParams(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How replies are to name points."""

    coordinates: Coordinates = "1"
    """Along either side from 0 to 1 or to 1000, or in pixels of the image as it is stored."""
    closing: str = ""
    """A regular expression of what the dataset's question says of the form of a reply, which is taken out."""
    reply_form: str = ""
    """The makers' words for the form of a reply with coordinates from 0 to 1, which then follow the question."""


def read(params: dict[str, Any], folder: Path | None) -> Iterator[Draft]:
    """Yield drafts with the first image of a row. The second image, a mask of the correct region, becomes the
    reference. Raises DataError."""
    mapping = dict(params)
    form = read_params(mapping.pop("mask", {}), MaskParams)
    for draft in read_hub_rows(mapping, folder):
        yield _reword_with_mask(draft, form)


def _reword_with_mask(draft: Draft, form: MaskParams) -> Draft:
    """Return a draft that asks for points in the region that its second image marks.

    Its accepted texts are a point in the region, and the mask as a text of run lengths, so that scoring needs no
    image. Raises DataError if there is no mask, or it is empty.
    """
    if len(draft.images) != 2:
        raise DataError(f"{draft.where}: an image and its mask are needed, not {len(draft.images)}")
    picture, mask_file = draft.images
    if isinstance(mask_file, (ImageSpec, LazyFrames)):
        raise DataError(f"{draft.where}: the mask is a crop or a clip; give it as an image")

    # Some masks have values between black and white at their edges.
    with opened_image(image_bytes(mask_file, draft.where), draft.where) as opened:
        mask = np.asarray(opened.convert("L"), dtype=np.uint8) > _HALF
    if not mask.any():
        raise DataError(f"{draft.where}: the mask is empty")

    height, width = mask.shape
    inside = _point_as_reply(_inner_point(mask), width, height, form.coordinates)
    reference = f"mask {width}x{height} in {form.coordinates}: {_encode_runs(mask)}"
    (question,) = draft.rounds
    text = question.question
    if form.closing:
        text = re.sub(form.closing, "", text).strip()
    if form.reply_form and form.coordinates == "1":
        text = f"{text} {form.reply_form}"
    else:
        text = (
            f"{text}\nAnswer with a list of points alone, as [(x, y)], whose coordinates are "
            f"{_ASKED[form.coordinates]}."
        )
    asked = replace(question, question=text, texts=(inside, reference))
    return replace(draft, images=(picture,), rounds=(asked,))


def _inner_point(mask: np.ndarray) -> tuple[int, int]:
    """Return the column and row of a pixel inside a region: the middle of its longest horizontal run.

    Args:
        mask: Whether each pixel is in the region; shape (height, width).
    """
    longest_run = (0, 0, 0)  # length, row, and column of its start
    for row, line in enumerate(mask):
        # With a 0 at both ends, edges alternate between the start and the end of a run.
        padded = np.concatenate(([0], line.astype(np.int8), [0]))
        edges = np.flatnonzero(np.diff(padded))
        for start, end in zip(edges[::2], edges[1::2], strict=True):
            run = (int(end - start), row, int(start))
            longest_run = max(longest_run, run)
    length, row, start = longest_run
    return start + length // 2, row


def _point_as_reply(
    pixel: tuple[int, int], width: int, height: int, coordinates: Coordinates
) -> str:
    """Return the centre of a pixel, (column, row), as a reply gives it in the coordinates that the question asks
    for."""
    column, row = pixel
    if coordinates == "pixels":
        return f"[({column}, {row})]"
    side = float(coordinates)
    digits = 5 if side == 1 else 2
    x = round(side * (column + 0.5) / width, digits)
    y = round(side * (row + 0.5) / height, digits)
    return f"[({x}, {y})]"


def _encode_runs(mask: np.ndarray) -> str:
    """Return a region as text: the lengths of runs of equal pixels, row by row, separated by blanks.

    The first run is outside the region; it has length 0 if the first pixel is inside.

    Args:
        mask: Whether each pixel is in the region; shape (height, width).
    """
    pixels = mask.ravel().astype(np.int8)
    run_starts = np.flatnonzero(np.diff(pixels)) + 1
    boundaries = [0, *run_starts.tolist(), pixels.size]
    lengths = [end - start for start, end in pairwise(boundaries)]
    if pixels[0]:
        lengths.insert(0, 0)
    return " ".join(str(length) for length in lengths)


def _parse_mask(references: Sequence[str]) -> tuple[np.ndarray, str]:
    """Return the mask from the reference that contains one, and the coordinates of replies: 1, 1000 or pixels.
    Raises DataError if there is none."""
    for reference in references:
        match = _MASK.fullmatch(reference)
        if match is None:
            continue
        width, height, coordinates, runs = match.groups()
        lengths = [int(length) for length in runs.split()]
        is_inside = np.arange(len(lengths)) % 2 == 1
        mask = np.repeat(is_inside, lengths).reshape(int(height), int(width))
        return mask, coordinates
    raise DataError(f"gold {' / '.join(references)[:80]!r} has no mask")


def read_points(reply: str) -> list[Point]:
    """Return all pairs of numbers in round or square brackets in a reply: `[(0.1, 0.2), (0.3, 0.4)]`, `"point_2d":
    [10, 20]`."""
    return [(float(x), float(y)) for x, y in _PAIR.findall(reply)]


def mask_marks(reply: str, references: Sequence[str]) -> Marks:
    """Return which share of a reply's points is in the region, and 1 if any of them is; None if there is no point.

    A point outside the image is outside the region. Coordinates are rounded towards zero to pixels, as RoboRefer
    does.
    """
    mask, coordinates = _parse_mask(references)
    points = read_points(reply)
    if not points:
        return None
    height, width = mask.shape
    if coordinates == "pixels":
        x_scale, y_scale = 1.0, 1.0
    else:
        side = float(coordinates)
        x_scale, y_scale = width / side, height / side
    hits = 0
    for x, y in points:
        # -0.5 is cut to pixel 0, too.
        column = x * x_scale
        row = y * y_scale
        if -1 < column < width and -1 < row < height:
            hits += int(mask[int(row), int(column)])
    return hits / len(points), float(hits > 0)


MASK_POINTS = read_rate_metric(
    "mask_point",
    "points in a region: share of a reply's points in it, whether any is, and how many replies have none",
    [
        share_row("mask_accuracy", "points in the region", interval="linearised", unparsed="wrong"),
        share_row("mask_hit", "any point in the region", interval="linearised", unparsed="wrong"),
    ],
    mask_marks,
)
