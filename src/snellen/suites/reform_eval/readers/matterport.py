"""Matterport3D: how do two objects lie to each other, and how far is one? (ReForm-Eval A.5)

Of each house it reads `house_segmentations/<house>.house` and images of `undistorted_color_images` with
their `undistorted_depth_images`. What follows from boxes and depth is worked out in `matterport_relations`.
Of each panorama one level image is looked at, drawn by name, and asked about once for each relation that
it shows, about things drawn by name.

`on top of` and `next to` were annotated by hand for the paper, and published with its questions only. Who
has such annotations puts them as `annotated.jsonl` or `annotated.csv` into the folder: `image` (a path from
there), `subject`, `relation`, and `object` (nothing for far and close). Without them the two relations are
left out, which a note says.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby, permutations, product
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import replace

from snellen.callers import source_setting
from snellen.common.decoding import opened_image
from snellen.common.drafts import DistractorSpec, Draft, QuestionDraft, image_bytes, read_params
from snellen.common.foreign import TABLE_BYTES, read_file
from snellen.common.seeds import rng_for
from snellen.errors import DataError
from snellen.formats.delimited import table_rows
from snellen.formats.json_files import json_lines
from snellen.formats.locate import locate_or_none

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
"""By relation those that do not hold when it does. What may hold besides (above, on top of) is not an option."""

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
    """A thing as an image shows it: its box in pixels from the top left, and its depth in metres."""

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


def visible_objects(image: HouseImage, objects: Sequence[HouseObject], depth: Depth) -> list[View]:
    """The things that can be asked about."""
    boxed = [
        (house_object, box)
        for house_object in objects
        if (box := project(house_object, image)) is not None
    ]
    counts = Counter(house_object.name for house_object, box in boxed if _touches(box, image.size))
    views = []
    for house_object, (left, top, right, bottom, near, far) in boxed:
        whole = (
            left >= 0 and top >= 0 and right <= image.size[0] - 1 and bottom <= image.size[1] - 1
        )
        large = min(right - left, bottom - top) >= MIN_BOX_SIDE
        if not (whole and large) or counts[house_object.name] > 1 or _is_vague(house_object):
            continue
        measured = depth(int((left + right) / 2), int((top + bottom) / 2))
        if near - DEPTH_TOLERANCE <= measured <= far + DEPTH_TOLERANCE:
            views.append(View(house_object.name, left, top, right, bottom, measured))
    return views


def project(
    house_object: HouseObject, image: HouseImage
) -> tuple[float, float, float, float, float, float] | None:
    """Left, top, right and bottom of a thing's box in pixels, its least and its greatest depth in metres.

    None for a thing that is behind the camera in part, or touches it.
    """
    columns, rows, depths = list[float](), list[float](), list[float]()
    for corner in _corners(house_object):
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


def _is_vague(house_object: HouseObject) -> bool:
    return (
        house_object.kind in _VAGUE_KINDS
        or house_object.name in _VAGUE_NAMES
        or "/" in house_object.name
    )


def _touches(box: tuple[float, float, float, float, float, float], size: tuple[int, int]) -> bool:
    left, top, right, bottom, _, _ = box
    return left < size[0] and top < size[1] and right > 0 and bottom > 0


def _corners(house_object: HouseObject) -> Iterator[tuple[float, float, float]]:
    (ax, ay, az), (bx, by, bz) = house_object.axes
    axes = (*house_object.axes, (ay * bz - az * by, az * bx - ax * bz, ax * by - ay * bx))
    for signs in product((-1, 1), repeat=3):
        steps = [
            (sign * radius, axis)
            for sign, radius, axis in zip(signs, house_object.radii, axes, strict=True)
        ]
        x, y, z = (
            house_object.centre[i] + sum(step * axis[i] for step, axis in steps) for i in range(3)
        )
        yield x, y, z


def _moved(
    point: tuple[float, float, float], matrix: tuple[float, ...]
) -> tuple[float, float, float]:
    x, y, z = (
        matrix[4 * row] * point[0]
        + matrix[4 * row + 1] * point[1]
        + matrix[4 * row + 2] * point[2]
        + matrix[4 * row + 3]
        for row in range(3)
    )
    return x, y, z


LEVEL_CAMERA = 1
"""Index of the camera that looks straight ahead, of the three on the tripod."""
UNITS_PER_METRE = 4000
"""Steps of a depth image in a metre."""
NO_ANNOTATIONS = (
    "no annotated.jsonl or annotated.csv: the relations `on top of` and `next to` are left out"
)


class Params(Struct, frozen=True, forbid_unknown_fields=True):
    pass


class SpatialAnnotation(Struct, frozen=True):
    image: str
    subject: str
    relation: Relation
    object: str = ""


def read(params: dict[str, Any], folder: Path | None) -> Iterator[Draft]:
    """A draft per relation that an image shows, then one per annotation."""
    read_params(params, Params)
    if folder is None:
        raise DataError(
            f"no folder with the official files; name it with {source_setting()} (it holds Matterport3D's scans)"
        )
    houses = sorted(folder.rglob("house_segmentations/*.house"))
    annotated = locate_or_none(folder, "annotated.jsonl", "annotated.csv")
    if not houses and annotated is None:
        raise DataError(
            f"{folder}: no house_segmentations/*.house below it; is this the folder of Matterport3D?"
        )
    notes = () if annotated else (NO_ANNOTATIONS,)
    for path in houses:
        for draft in _of_house(read_house(path)):
            yield replace(draft, notes=notes) if notes else draft
            notes = ()
    if annotated:
        yield from _annotated(annotated)


def _of_house(house: House) -> Iterator[Draft]:
    scan = house.path.parent.parent
    level = sorted(
        (image for image in house.images if image.camera == LEVEL_CAMERA),
        key=lambda image: image.panorama,
    )
    for panorama, images in groupby(level, key=lambda image: image.panorama):
        objects = house.objects.get(house.regions.get(panorama, -1), [])
        if not objects:
            continue
        image = rng_for("matterport", house.name, panorama, "yaw").choice(list(images))
        name = f"{image.name}_{{}}{image.camera}_{image.yaw}"
        depth = _depth(scan / "undistorted_depth_images" / f"{name.format('d')}.png", image)
        picture = scan / "undistorted_color_images" / f"{name.format('i')}.jpg"
        by_relation: dict[Relation, list[Fact]] = {}
        for fact in spatial_facts(visible_objects(image, objects, depth), image.focal[1]):
            by_relation.setdefault(fact.relation, []).append(fact)
        for relation, candidates in by_relation.items():
            fact = rng_for("matterport", house.name, picture.stem, relation).choice(candidates)
            yield _draft(f"{house.name}:{picture.stem}:{relation}", fact, picture, image.where)


def _depth(path: Path, image: HouseImage) -> Depth:
    """Depth by pixel of a depth image, which is opened when the first is asked for."""
    loaded: list[Any] = []

    def depth(column: int, row: int) -> float:
        if not loaded:
            with opened_image(image_bytes(path, image.where), f"{image.where}: {path}") as opened:
                loaded.append(opened.copy())
            if loaded[0].size != image.size or not loaded[0].mode.startswith("I"):
                raise DataError(
                    f"{image.where}: {path} is no 16-bit depth image of {image.size} pixels"
                )
        return float(loaded[0].getpixel((column, row))) / UNITS_PER_METRE

    return depth


def _annotated(path: Path) -> Iterator[Draft]:
    rows = (
        json_lines(path, SpatialAnnotation)
        if path.suffix == ".jsonl"
        else table_rows(path, SpatialAnnotation)
    )
    for where, row in rows:
        fact = Fact(row.relation, row.subject.strip(), row.object.strip())
        if not fact.subject or bool(fact.object) == (row.relation in ("far", "close")):
            expected = (
                "a subject alone" if row.relation in ("far", "close") else "a subject and an object"
            )
            raise DataError(f"{where}: the relation {row.relation!r} is of {expected}")
        yield _draft(
            f"{row.image}:{fact.subject}:{fact.object}", fact, path.parent / row.image, where
        )


def _draft(name: str, fact: Fact, picture: Path, where: str) -> Draft:
    subject, reference = (
        f"the {fact.subject}",
        f"the {fact.object}" if fact.object else "you, the observer",
    )
    return Draft(
        id=name,
        rounds=(
            QuestionDraft(
                f"Where is {subject} with respect to {reference}?",
                texts=(fact.relation,),
                distractors=DistractorSpec(tiers=(WRONG_RELATIONS[fact.relation],)),
                rewordings=(
                    f"What is the spatial relation of {subject} to {reference}?",
                    f"Which word says how {subject} lies to {reference}?",
                ),
            ),
        ),
        images=(picture,),
        where=where,
        group=picture.stem,
        answer_tags={"relation": fact.relation},
        stratum=fact.relation,
    )


# --- Matterport3D's `.house` files ------------------------------------------------------------------------------------
# A line is a record, its first letter says of what (`data_organization.md` of the Matterport3D repository).


Point = tuple[float, float, float]

_FIELDS = {"P": 13, "I": 41, "C": 11, "O": 24}
"""Fields of the lines that are read. A portal begins with P as a panorama does, and has 15."""


class HouseImage(Struct, frozen=True):
    """An image and its camera, which looks along its own negative z axis with y upwards."""

    where: str
    panorama: int
    name: str
    camera: int
    yaw: int
    extrinsics: tuple[float, ...]
    """4 x 4, row by row: from the house to the camera, in metres."""
    focal: tuple[float, float]
    """In pixels."""
    centre: tuple[float, float]
    """Pixel on the optical axis, counted from the bottom left."""
    size: tuple[int, int]


class HouseObject(Struct, frozen=True):
    """An object in its oriented box: half its sides along three axes."""

    region: int
    name: str
    kind: str
    """One of Matterport3D's 40 categories."""
    centre: Point
    axes: tuple[Point, Point]
    radii: Point


class House(Struct, frozen=True):
    path: Path
    regions: dict[int, int]
    """By panorama the region it stands in."""
    images: list[HouseImage]
    objects: dict[int, list[HouseObject]]
    """By region."""

    @property
    def name(self) -> str:
        return self.path.stem


def read_house(path: Path) -> House:
    """The house of a file. Raises DataError naming file and line."""
    house = House(path, {}, [], {})
    categories: dict[int, tuple[str, str]] = {}
    for where, fields in _lines(path):
        try:
            match fields[0]:
                case "P":
                    house.regions[int(fields[2])] = int(fields[3])
                case "I":
                    house.images.append(_image(where, fields))
                case "C":
                    categories[int(fields[1])] = fields[3].replace("#", " "), fields[5]
                case "O" if int(fields[3]) >= 0:
                    house_object = _house_object(fields, *categories[int(fields[3])])
                    house.objects.setdefault(house_object.region, []).append(house_object)
        except ValueError as error:
            raise DataError(f"{where}: {error}") from None
        except KeyError as error:
            raise DataError(f"{where}: there is no category {error}") from None
    return house


def _lines(path: Path) -> Iterator[tuple[str, list[str]]]:
    """The lines that are read, split into fields."""
    try:
        lines = read_file(path, TABLE_BYTES).decode("utf-8", "replace").splitlines()
    except OSError as error:
        raise DataError(f"{path}: cannot read the file ({error.strerror})") from None
    if not lines or not lines[0].startswith("ASCII"):
        raise DataError(f"{path}:1: no .house file, which begins with ASCII")
    for number, line in enumerate(lines, 1):
        fields = line.split()
        expected = _FIELDS.get(fields[0]) if fields else None
        if expected is None or (fields[0] == "P" and len(fields) == 15):
            continue
        if len(fields) != expected:
            raise DataError(
                f"{path}:{number}: {len(fields)} fields, a line of {fields[0]} has {expected}"
            )
        yield f"{path}:{number}", fields


def _image(where: str, fields: list[str]) -> HouseImage:
    numbers = [float(field) for field in fields[6:31]]
    intrinsics = numbers[16:]
    return HouseImage(
        where=where,
        panorama=int(fields[2]),
        name=fields[3],
        camera=int(fields[4]),
        yaw=int(fields[5]),
        extrinsics=tuple(numbers[:16]),
        focal=(intrinsics[0], intrinsics[4]),
        centre=(intrinsics[2], intrinsics[5]),
        size=(int(fields[31]), int(fields[32])),
    )


def _house_object(fields: list[str], name: str, kind: str) -> HouseObject:
    x = [float(field) for field in fields[4:16]]
    return HouseObject(
        region=int(fields[2]),
        name=name,
        kind=kind,
        centre=(x[0], x[1], x[2]),
        axes=((x[3], x[4], x[5]), (x[6], x[7], x[8])),
        radii=(x[9], x[10], x[11]),
    )
