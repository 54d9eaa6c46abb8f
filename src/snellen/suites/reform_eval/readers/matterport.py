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

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from itertools import permutations, product
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
"""For each relation, the relations that cannot be true at the same time. They are its wrong options.

A relation that may also be true, such as `on top of` beside `above`, is left out."""

BESIDE, ALIGNED = 1.0, 0.5
"""How much the depths of two objects may differ, in metres: of objects side by side, and of one above the other."""
ABOVE_GAP = 0.1
"""The least gap between an object and another one below it, in metres; with less it may lie on the other one."""
CLOSE_METRES = (0.5, 1.5)
FAR_METRES = 4.0
DEPTH_TOLERANCE = 0.1
"""How far the measured depth may be outside of the range of depths of an object's box, in metres."""
MIN_BOX_SIDE = 24
"""The least width and height of an object's box in the image, in pixels."""
_MIN_DEPTH_METRES = 0.1
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
    """Return the objects of an image that can be asked about.

    Such an object is entirely in the image, large enough, the only one of its name there, has a telling name, and
    is not hidden: the depth measured at its centre fits its box.
    """
    boxed = []
    name_counts: Counter[str] = Counter()
    for house_object in objects:
        box = project_box(house_object, image)
        if box is None:
            continue
        boxed.append((house_object, box))
        if _overlaps_image(box, image.size):
            name_counts[house_object.name] += 1

    width, height = image.size
    views = []
    for house_object, (left, top, right, bottom, near, far) in boxed:
        is_whole = left >= 0 and top >= 0 and right <= width - 1 and bottom <= height - 1
        is_large = min(right - left, bottom - top) >= MIN_BOX_SIDE
        if not (is_whole and is_large):
            continue
        if name_counts[house_object.name] > 1 or _is_vague(house_object):
            continue
        # A smaller depth than the box's means that something else is in front of the object.
        measured = depth(int((left + right) / 2), int((top + bottom) / 2))
        if near - DEPTH_TOLERANCE <= measured <= far + DEPTH_TOLERANCE:
            views.append(
                View(
                    name=house_object.name,
                    left=left,
                    top=top,
                    right=right,
                    bottom=bottom,
                    depth=measured,
                )
            )
    return views


def project_box(
    house_object: HouseObject, image: HouseImage
) -> tuple[float, float, float, float, float, float] | None:
    """Return where an image shows an object: the box around it, and its distance from the camera.

    Returns:
        Left, top, right and bottom in pixels, then the least and the greatest depth in metres. The box may extend
        beyond the image. None if any corner of the object is behind the camera, or too close to it.
    """
    columns: list[float] = []
    rows: list[float] = []
    depths: list[float] = []
    centre_x, centre_y = image.centre
    focal_x, focal_y = image.focal
    _, height = image.size
    for corner in _box_corners(house_object):
        x, y, z = _transform_point(corner, image.extrinsics)
        # The camera looks along its negative z axis, and its y axis points upwards.
        if -z < _MIN_DEPTH_METRES:
            return None
        columns.append(centre_x + focal_x * x / -z)
        rows.append(height - (centre_y + focal_y * y / -z))
        depths.append(-z)
    return min(columns), min(rows), max(columns), max(rows), min(depths), max(depths)


def spatial_facts(views: Sequence[View], focal: float) -> Iterator[Fact]:
    """Yield each relation between two visible objects, such as "the chair is left of the table".

    Each of left/right and above/under is yielded in both directions. Relations of a single object to the observer
    (close, far) follow.

    Args:
        views: The visible objects.
        focal: The vertical focal length of the camera in pixels.
    """
    for first, second in permutations(views, 2):
        if _is_left(first, second):
            yield Fact(relation="left", subject=first.name, object=second.name)
            yield Fact(relation="right", subject=second.name, object=first.name)
        if _is_above(first, second, focal):
            yield Fact(relation="above", subject=first.name, object=second.name)
            yield Fact(relation="under", subject=second.name, object=first.name)
    min_close, max_close = CLOSE_METRES
    for view in views:
        if min_close <= view.depth <= max_close:
            yield Fact(relation="close", subject=view.name)
        elif view.depth >= FAR_METRES:
            yield Fact(relation="far", subject=view.name)


def _is_left(first: View, second: View) -> bool:
    """Return whether the first object is entirely left of the second, and both are about level and equally far away.

    They are level if they share at least half of the height of the smaller one, and equally far away if their
    depths differ by at most `BESIDE` metres.
    """
    shared_height = min(first.bottom, second.bottom) - max(first.top, second.top)
    smaller_height = min(first.bottom - first.top, second.bottom - second.top)
    are_level = shared_height >= smaller_height / 2
    are_equally_deep = abs(first.depth - second.depth) <= BESIDE
    is_left = first.right <= second.left
    return is_left and are_level and are_equally_deep


def _is_above(first: View, second: View, focal: float) -> bool:
    """Return whether the first object is above the second with a gap between them.

    They must share at least half of the width of the narrower one, the gap must be at least `ABOVE_GAP` metres, and
    their depths may differ by at most `ALIGNED` metres.

    Args:
        first: The box of the first object in the image in pixels, and its depth in metres.
        second: The same for the second object.
        focal: Vertical focal length of the camera in pixels.
    """
    shared_width = min(first.right, second.right) - max(first.left, second.left)
    smaller_width = min(first.right - first.left, second.right - second.left)
    are_aligned = shared_width >= smaller_width / 2
    gap_in_pixels = second.top - first.bottom
    gap_in_metres = gap_in_pixels * min(first.depth, second.depth) / focal
    are_equally_deep = abs(first.depth - second.depth) <= ALIGNED
    return gap_in_metres >= ABOVE_GAP and are_aligned and are_equally_deep


def _is_vague(house_object: HouseObject) -> bool:
    """Return whether the name of an object is too vague to ask about it."""
    return (
        house_object.kind in _VAGUE_KINDS
        or house_object.name in _VAGUE_NAMES
        or "/" in house_object.name
    )


def _overlaps_image(
    box: tuple[float, float, float, float, float, float], size: tuple[int, int]
) -> bool:
    """Return whether any part of a box is inside the image.

    Args:
        box: Left, top, right and bottom in pixels. Two further numbers (depths) are ignored.
        size: Width and height of the image in pixels.
    """
    left, top, right, bottom, _, _ = box
    width, height = size
    is_within_width = left < width and right > 0
    is_within_height = top < height and bottom > 0
    return is_within_width and is_within_height


def _box_corners(house_object: HouseObject) -> Iterator[tuple[float, float, float]]:
    """Yield the eight corners (x, y, z) of an object's box, in metres in the house. The box may be rotated.

    The object has two axes of the box as vectors of length 1, and half of its size along three axes. The third axis
    is at right angles to the other two.
    """
    (ax, ay, az), (bx, by, bz) = house_object.axes
    cross_product = (ay * bz - az * by, az * bx - ax * bz, ax * by - ay * bx)
    axes = (*house_object.axes, cross_product)
    for signs in product((-1, 1), repeat=3):
        corner: list[float] = []
        for coordinate in range(3):
            offset = 0.0
            for sign, radius, axis in zip(signs, house_object.radii, axes, strict=True):
                offset += sign * radius * axis[coordinate]
            corner.append(house_object.centre[coordinate] + offset)
        x, y, z = corner
        yield x, y, z


def _transform_point(
    point: tuple[float, float, float], matrix: tuple[float, ...]
) -> tuple[float, float, float]:
    """Convert a point from the coordinates of the house to those of a camera.

    Args:
        point: x, y and z in the house.
        matrix: The transformation of the camera, a 4 x 4 matrix as 16 numbers, row by row.
    """
    transformed = []
    for row in range(3):
        x_factor, y_factor, z_factor, offset = matrix[4 * row : 4 * row + 4]
        x, y, z = point
        transformed.append(x_factor * x + y_factor * y + z_factor * z + offset)
    camera_x, camera_y, camera_z = transformed
    return camera_x, camera_y, camera_z


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
    """Yield a draft for each relation that an image shows, then one for each annotation of a person."""
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
        for draft in _house_drafts(read_house(path)):
            yield replace(draft, notes=notes) if notes else draft
            notes = ()
    if annotated:
        yield from _annotated_drafts(annotated)


def _house_drafts(house: House) -> Iterator[Draft]:
    """Yield the questions about a house.

    For each position of the camera (panorama), one of the images that look straight ahead is drawn at random. It
    makes one question for each kind of relation that it shows, such as left or above; if it shows the relation
    several times, the objects are drawn, too.
    """
    scan = house.path.parent.parent
    level_images: dict[int, list[HouseImage]] = defaultdict(list)
    for image in house.images:
        if image.camera == LEVEL_CAMERA:
            level_images[image.panorama].append(image)
    for panorama, images in sorted(level_images.items()):
        region = house.regions.get(panorama, -1)
        objects = house.objects.get(region, [])
        if not objects:
            continue
        image = rng_for("matterport", house.name, panorama, "yaw").choice(images)
        direction = f"{image.camera}_{image.yaw}"
        depth_file = scan / "undistorted_depth_images" / f"{image.name}_d{direction}.png"
        depth = _open_depth_image(depth_file, image)
        picture = scan / "undistorted_color_images" / f"{image.name}_i{direction}.jpg"
        _, vertical_focal = image.focal
        facts_by_relation: dict[Relation, list[Fact]] = {}
        for fact in spatial_facts(visible_objects(image, objects, depth), vertical_focal):
            facts_by_relation.setdefault(fact.relation, []).append(fact)
        for relation, facts in facts_by_relation.items():
            fact = rng_for("matterport", house.name, picture.stem, relation).choice(facts)
            name = f"{house.name}:{picture.stem}:{relation}"
            yield _relation_question(name, fact, picture, image.where)


def _open_depth_image(path: Path, image: HouseImage) -> Depth:
    """Return a function from a column and row of an image to the depth there in metres.

    The file with the depths is opened when the function is first called.

    Args:
        path: The file with the depths.
        image: The image that they belong to.
    """
    loaded: list[Any] = []

    def depth(column: int, row: int) -> float:
        """Return the depth in metres at a column and row."""
        if not loaded:
            with opened_image(image_bytes(path, image.where), f"{image.where}: {path}") as opened:
                loaded.append(opened.copy())
            has_integers = loaded[0].mode.startswith("I")
            if loaded[0].size != image.size or not has_integers:
                raise DataError(
                    f"{image.where}: {path} is no 16-bit depth image of {image.size} pixels"
                )
        value = loaded[0].getpixel((column, row))
        return float(value) / UNITS_PER_METRE

    return depth


def _annotated_drafts(path: Path) -> Iterator[Draft]:
    """Yield a question for each relation that a person annotated.

    Raises DataError if the subject is missing, if `far` or `close` (relations to the observer) have an object, or
    if another relation has none.
    """
    rows = (
        json_lines(path, SpatialAnnotation)
        if path.suffix == ".jsonl"
        else table_rows(path, SpatialAnnotation)
    )
    for where, row in rows:
        fact = Fact(row.relation, row.subject.strip(), row.object.strip())
        is_to_observer = row.relation in ("far", "close")
        if not fact.subject or bool(fact.object) == is_to_observer:
            expected = "a subject alone" if is_to_observer else "a subject and an object"
            raise DataError(f"{where}: the relation {row.relation!r} is of {expected}")
        name = f"{row.image}:{fact.subject}:{fact.object}"
        yield _relation_question(name, fact, path.parent / row.image, where)


def _relation_question(name: str, fact: Fact, picture: Path, where: str) -> Draft:
    """Return the question where an object is, with respect to another one or to the observer.

    Wrong options are only relations that cannot be true at the same time as the correct one.

    Args:
        name: Id of the question.
        fact: The object or objects, and their relation.
        picture: The image.
        where: File and line, for error messages.
    """
    subject = f"the {fact.subject}"
    reference = f"the {fact.object}" if fact.object else "you, the observer"
    question = QuestionDraft(
        f"Where is {subject} with respect to {reference}?",
        texts=(fact.relation,),
        distractors=DistractorSpec(tiers=(WRONG_RELATIONS[fact.relation],)),
        rewordings=(
            f"What is the spatial relation of {subject} to {reference}?",
            f"Which word says how {subject} lies to {reference}?",
        ),
    )
    return Draft(
        id=name,
        rounds=(question,),
        images=(picture,),
        where=where,
        group=picture.stem,
        answer_tags={"relation": fact.relation},
        stratum=fact.relation,
    )


# --- Matterport3D's `.house` files ------------------------------------------------------------------------------------
# A line is a record, its first letter says of what (`data_organization.md` of the Matterport3D repository).


Point = tuple[float, float, float]

_FIELD_COUNTS = {"P": 13, "I": 41, "C": 11, "O": 24}
"""Number of fields of each kind of line that is read: panoramas, images, categories, objects."""
_PORTAL_FIELD_COUNT = 15
"""Number of fields of a portal, whose line begins with P like that of a panorama."""


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
    """For each panorama (position of the camera), the region of the house that it is in."""
    images: list[HouseImage]
    objects: dict[int, list[HouseObject]]
    """By region."""

    @property
    def name(self) -> str:
        return self.path.stem


def read_house(path: Path) -> House:
    """Return the content of a `.house` file. Raises DataError naming file and line."""
    house = House(path=path, regions={}, images=[], objects={})
    categories: dict[int, tuple[str, str]] = {}
    for where, fields in _house_lines(path):
        try:
            match fields[0]:
                case "P":
                    house.regions[int(fields[2])] = int(fields[3])
                case "I":
                    house.images.append(_parse_image(where, fields))
                case "C":
                    categories[int(fields[1])] = fields[3].replace("#", " "), fields[5]
                case "O" if int(fields[3]) >= 0:
                    name, kind = categories[int(fields[3])]
                    house_object = _parse_object(fields, name, kind)
                    house.objects.setdefault(house_object.region, []).append(house_object)
        except ValueError as error:
            raise DataError(f"{where}: {error}") from None
        except KeyError as error:
            raise DataError(f"{where}: there is no category {error}") from None
    return house


def _house_lines(path: Path) -> Iterator[tuple[str, list[str]]]:
    """Yield the lines of a `.house` file about panoramas, images, categories and objects, split into fields.

    Each comes with its location for messages. Raises DataError if a line has the wrong number of fields.
    """
    try:
        lines = read_file(path, TABLE_BYTES).decode("utf-8", "replace").splitlines()
    except OSError as error:
        raise DataError(f"{path}: cannot read the file ({error.strerror})") from None
    if not lines or not lines[0].startswith("ASCII"):
        raise DataError(f"{path}:1: no .house file, which begins with ASCII")
    for number, line in enumerate(lines, 1):
        fields = line.split()
        if not fields or fields[0] not in _FIELD_COUNTS:
            continue
        if fields[0] == "P" and len(fields) == _PORTAL_FIELD_COUNT:
            continue
        expected = _FIELD_COUNTS[fields[0]]
        if len(fields) != expected:
            raise DataError(
                f"{path}:{number}: {len(fields)} fields, a line of {fields[0]} has {expected}"
            )
        yield f"{path}:{number}", fields


def _parse_image(where: str, fields: list[str]) -> HouseImage:
    """Return the image of a line: its names, then the camera's pose (4 x 4) and intrinsics (3 x 3), then its size."""
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


def _parse_object(fields: list[str], name: str, kind: str) -> HouseObject:
    """Return the object of a line, with the name and the kind of its category."""
    # Centre, two axes and half sides, three numbers each.
    numbers = [float(field) for field in fields[4:16]]
    centre_x, centre_y, centre_z = numbers[:3]
    first_x, first_y, first_z = numbers[3:6]
    second_x, second_y, second_z = numbers[6:9]
    half_width, half_height, half_depth = numbers[9:]
    return HouseObject(
        region=int(fields[2]),
        name=name,
        kind=kind,
        centre=(centre_x, centre_y, centre_z),
        axes=((first_x, first_y, first_z), (second_x, second_y, second_z)),
        radii=(half_width, half_height, half_depth),
    )
