"""Matterport3D's `.house` files: the pictures of a house with their cameras, and its objects with their boxes.

A line is a record, its first letter says of what (`data_organization.md` of the Matterport3D repository).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from snellen.errors import DataError

Point = tuple[float, float, float]

_FIELDS = {"P": 13, "I": 41, "C": 11, "O": 24}
"""Fields of the lines that are read. A portal begins with P as a panorama does, and has 15."""


class HouseImage(Struct, frozen=True):
    """A picture and its camera, which looks along its own negative z axis with y upwards."""

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
    things: dict[int, list[HouseObject]]
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
                    thing = _thing(fields, *categories[int(fields[3])])
                    house.things.setdefault(thing.region, []).append(thing)
        except ValueError as error:
            raise DataError(f"{where}: {error}") from None
        except KeyError as error:
            raise DataError(f"{where}: there is no category {error}") from None
    return house


def _lines(path: Path) -> Iterator[tuple[str, list[str]]]:
    """The lines that are read, split into fields."""
    try:
        lines = path.read_text("utf-8", "replace").splitlines()
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
            raise DataError(f"{path}:{number}: {len(fields)} fields, a line of {fields[0]} has {expected}")
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


def _thing(fields: list[str], name: str, kind: str) -> HouseObject:
    x = [float(field) for field in fields[4:16]]
    return HouseObject(
        region=int(fields[2]),
        name=name,
        kind=kind,
        centre=(x[0], x[1], x[2]),
        axes=((x[3], x[4], x[5]), (x[6], x[7], x[8])),
        radii=(x[9], x[10], x[11]),
    )
