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


def read(params: dict[str, Any], folder: Path | None) -> Iterator[Draft]:
    """Drafts whose second image is a mask, which becomes their reference. Raises DataError."""
    mapping = dict(params)
    form = read_params(mapping.pop("mask", {}), MaskParams)
    for draft in read_hub_rows(mapping, folder):
        yield _with_region(draft, form)


def _with_region(draft: Draft, form: MaskParams) -> Draft:
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
    inside = _written(_inner_point(mask), width, height, form.coordinates)
    reference = f"mask {width}x{height} in {form.coordinates}: {_runs(mask)}"
    (question,) = draft.rounds
    text = (
        re.sub(form.closing, "", question.question).strip() if form.closing else question.question
    )
    text = (
        f"{text}\nAnswer with a list of points alone, as [(x, y)], whose coordinates are "
        f"{_ASKED[form.coordinates]}."
    )
    asked = replace(question, question=text, texts=(inside, reference))
    return replace(draft, images=(picture,), rounds=(asked,))


def _inner_point(mask: np.ndarray) -> tuple[int, int]:
    """Column and row of a pixel of the region: the middle of its longest run."""
    best = (0, 0, 0)
    for row, line in enumerate(mask):
        edges = np.flatnonzero(np.diff(np.concatenate(([0], line.astype(np.int8), [0]))))
        for start, end in zip(edges[::2], edges[1::2], strict=True):
            best = max(best, (int(end - start), row, int(start)))
    length, row, start = best
    return start + length // 2, row


def _written(pixel: tuple[int, int], width: int, height: int, coordinates: Coordinates) -> str:
    """A pixel's centre as a reply names it."""
    column, row = pixel
    if coordinates == "pixels":
        return f"[({column}, {row})]"
    side = float(coordinates)
    digits = 5 if side == 1 else 2
    x = round(side * (column + 0.5) / width, digits)
    y = round(side * (row + 0.5) / height, digits)
    return f"[({x}, {y})]"


def _runs(mask: np.ndarray) -> str:
    """The lengths of runs of equal pixels, row by row, of which the first are outside."""
    flat = mask.ravel().astype(np.int8)
    edges = np.flatnonzero(np.diff(flat)) + 1
    places = [0, *edges.tolist(), flat.size]
    lengths = [after - before for before, after in pairwise(places)]
    if flat[0]:
        lengths.insert(0, 0)
    return " ".join(map(str, lengths))


def _region(references: Sequence[str]) -> tuple[np.ndarray, str]:
    """The mask, and the coordinates of replies. Raises DataError for references without one."""
    for reference in references:
        match = _MASK.fullmatch(reference)
        if match is None:
            continue
        width, height = int(match[1]), int(match[2])
        lengths = [int(length) for length in match[4].split()]
        values = np.arange(len(lengths)) % 2 == 1
        return np.repeat(values, lengths).reshape(height, width), match[3]
    raise DataError(f"gold {' / '.join(references)[:80]!r} has no mask")


def read_points(reply: str) -> list[Point]:
    """All pairs of numbers in round or square brackets: `[(0.1, 0.2), (0.3, 0.4)]`, `"point_2d": [10, 20]`."""
    return [(float(x), float(y)) for x, y in _PAIR.findall(reply)]


def mask_marks(reply: str, references: Sequence[str]) -> Marks:
    """Of the points in a reply the share in the region, and whether any of them is; None without a point.

    A point outside of the image is outside of the region. A coordinate is cut to its pixel, as RoboRefer does it.
    """
    mask, coordinates = _region(references)
    points = read_points(reply)
    if not points:
        return None
    height, width = mask.shape
    side = 1.0 if coordinates == "pixels" else float(coordinates)
    scale = (1.0, 1.0) if coordinates == "pixels" else (width / side, height / side)
    hits = 0
    for x, y in points:
        # -0.5 is cut to pixel 0, too.
        column, row = x * scale[0], y * scale[1]
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
