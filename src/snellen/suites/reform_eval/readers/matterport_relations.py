"""Spatial relations from boxes and depth: what a picture of Matterport3D shows clearly (ReForm-Eval A.5).

The paper says that relations come from boxes and depth, not by which rule. The rule here, with A and B two
things whose names are the only ones of their kind in view, whose whole boxes are in the picture, and which
the depth image shows in the middle of their boxes:

- A is left of B when A's box ends where B's begins or before, they share at least half the height of the
  lower one, and their depths differ by at most 1 m; right mirrors it.
- A is above B when A's box ends at least 0.1 m above B's, they share at least half the width of the narrower
  one, and their depths differ by at most 0.5 m; under mirrors it.
- A is close to the observer within 0.5 to 1.5 m of depth, and far from 4 m on.

A relation in between is nobody's gold. Wrong options are relations that cannot hold as well: `WRONG_RELATIONS`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import permutations, product
from typing import Literal

from msgspec import Struct

from snellen.suites.reform_eval.readers.matterport_house import HouseImage, HouseObject

Relation = Literal["left", "right", "above", "under", "on top of", "next to", "far", "close"]
Depth = Callable[[int, int], float]
"""Metres at a pixel (from the top left), 0 where nothing was measured."""

WRONG_RELATIONS: dict[Relation, tuple[Relation, ...]] = {
    "left": ("right", "above", "under", "on top of"),
    "right": ("left", "above", "under", "on top of"),
    "above": ("left", "right", "under", "on top of"),
    "under": ("left", "right", "above", "on top of"),
    "on top of": ("left", "right", "under", "next to"),
    "next to": ("above", "under", "on top of", "far"),
    "far": ("above", "under", "on top of", "next to", "close"),
    "close": ("above", "under", "on top of", "far"),
}
"""By relation those that do not hold when it does. What may hold besides (above, on top of) is no option."""

BESIDE, ALIGNED = 1.0, 0.5
"""Metres of depth by which things side by side, or one above the other, may differ."""
ABOVE_GAP = 0.1
"""Metres between a thing and what it is above, so that it does not lie on it."""
CLOSE, FAR = (0.5, 1.5), 4.0
DEPTH_TOLERANCE = 0.1
"""Metres by which the measured depth may miss a thing's box."""
MIN_BOX_SIDE = 24
"""Pixels that both sides of a thing's box must have."""
_NEAREST = 0.1
_VAGUE_KINDS = {"void", "wall", "floor", "ceiling", "misc", "unlabeled"}
_VAGUE_NAMES = {"-", "object", "unknown", "remove", "decoration", "structure"}


class View(Struct, frozen=True):
    """A thing as a picture shows it: its box in pixels from the top left, and its depth in metres."""

    name: str
    left: float
    top: float
    right: float
    bottom: float
    depth: float


class Fact(Struct, frozen=True):
    """A relation that holds; of `object` an empty name is the observer."""

    relation: Relation
    subject: str
    object: str = ""


def visible_objects(image: HouseImage, things: Sequence[HouseObject], depth: Depth) -> list[View]:
    """The things that can be asked about."""
    seen = [(thing, box) for thing in things if (box := project(thing, image)) is not None]
    named = Counter(thing.name for thing, box in seen if _touches(box, image.size))
    views = []
    for thing, (left, top, right, bottom, near, far) in seen:
        whole = left >= 0 and top >= 0 and right <= image.size[0] - 1 and bottom <= image.size[1] - 1
        large = min(right - left, bottom - top) >= MIN_BOX_SIDE
        if not (whole and large) or named[thing.name] > 1 or _is_vague(thing):
            continue
        measured = depth(int((left + right) / 2), int((top + bottom) / 2))
        if near - DEPTH_TOLERANCE <= measured <= far + DEPTH_TOLERANCE:
            views.append(View(thing.name, left, top, right, bottom, measured))
    return views


def project(thing: HouseObject, image: HouseImage) -> tuple[float, float, float, float, float, float] | None:
    """Left, top, right and bottom of a thing's box in pixels, its least and its greatest depth in metres.

    None for a thing that is behind the camera in part, or touches it.
    """
    columns, rows, depths = [], [], []
    for corner in _corners(thing):
        x, y, z = _moved(corner, image.extrinsics)
        if -z < _NEAREST:
            return None
        columns.append(image.centre[0] + image.focal[0] * x / -z)
        rows.append(image.size[1] - (image.centre[1] + image.focal[1] * y / -z))
        depths.append(-z)
    return min(columns), min(rows), max(columns), max(rows), min(depths), max(depths)


def spatial_facts(views: Sequence[View], focal: float) -> Iterator[Fact]:
    """Every relation that holds between two of the views, or between one and the observer."""
    for first, second in permutations(views, 2):
        if _is_left(first, second):
            yield Fact("left", first.name, second.name)
            yield Fact("right", second.name, first.name)
        if _is_above(first, second, focal):
            yield Fact("above", first.name, second.name)
            yield Fact("under", second.name, first.name)
    for view in views:
        if CLOSE[0] <= view.depth <= CLOSE[1]:
            yield Fact("close", view.name)
        elif view.depth >= FAR:
            yield Fact("far", view.name)


def _is_left(first: View, second: View) -> bool:
    shared = min(first.bottom, second.bottom) - max(first.top, second.top)
    level = shared >= min(first.bottom - first.top, second.bottom - second.top) / 2
    return first.right <= second.left and level and abs(first.depth - second.depth) <= BESIDE


def _is_above(first: View, second: View, focal: float) -> bool:
    shared = min(first.right, second.right) - max(first.left, second.left)
    over = shared >= min(first.right - first.left, second.right - second.left) / 2
    gap = (second.top - first.bottom) * min(first.depth, second.depth) / focal
    return gap >= ABOVE_GAP and over and abs(first.depth - second.depth) <= ALIGNED


def _is_vague(thing: HouseObject) -> bool:
    return thing.kind in _VAGUE_KINDS or thing.name in _VAGUE_NAMES or "/" in thing.name


def _touches(box: tuple[float, float, float, float, float, float], size: tuple[int, int]) -> bool:
    left, top, right, bottom, _, _ = box
    return left < size[0] and top < size[1] and right > 0 and bottom > 0


def _corners(thing: HouseObject) -> Iterator[tuple[float, float, float]]:
    (ax, ay, az), (bx, by, bz) = thing.axes
    axes = (*thing.axes, (ay * bz - az * by, az * bx - ax * bz, ax * by - ay * bx))
    for signs in product((-1, 1), repeat=3):
        steps = [(sign * radius, axis) for sign, radius, axis in zip(signs, thing.radii, axes, strict=True)]
        x, y, z = (thing.centre[i] + sum(step * axis[i] for step, axis in steps) for i in range(3))
        yield x, y, z


def _moved(point: tuple[float, float, float], matrix: tuple[float, ...]) -> tuple[float, float, float]:
    x, y, z = (
        matrix[4 * row] * point[0]
        + matrix[4 * row + 1] * point[1]
        + matrix[4 * row + 2] * point[2]
        + matrix[4 * row + 3]
        for row in range(3)
    )
    return x, y, z
