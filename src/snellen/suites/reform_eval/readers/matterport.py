"""Matterport3D: how do two objects lie to each other, and how far is one? (ReForm-Eval A.5)

Of each house it reads `house_segmentations/<house>.house` and pictures of `undistorted_color_images` with
their `undistorted_depth_images`. What follows from boxes and depth is worked out in `matterport_relations`.
Of each panorama one level picture is looked at, drawn by name, and asked about once for each relation that
it shows, about things drawn by name.

`on top of` and `next to` were annotated by hand for the paper, and published with its questions only. Who
has such annotations puts them as `annotated.jsonl` or `annotated.csv` into the folder: `image` (a path from
there), `subject`, `relation`, and `object` (nothing for far and close). Without them the two relations are
left out, which a note says.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from snellen.drafts import DistractorSpec, Draft, QuestionDraft, read_params
from snellen.errors import DataError
from snellen.formats.delimited import table_rows
from snellen.formats.json_files import json_lines
from snellen.formats.locate import locate_or_none
from snellen.seeds import rng_for
from snellen.suites.reform_eval.readers.matterport_house import House, HouseImage, read_house
from snellen.suites.reform_eval.readers.matterport_relations import (
    WRONG_RELATIONS,
    Depth,
    Fact,
    Relation,
    spatial_facts,
    visible_objects,
)

LEVEL_CAMERA = 1
"""Index of the camera that looks straight ahead, of the three on the tripod."""
UNITS_PER_METRE = 4000
"""Steps of a depth image in a metre."""
NO_ANNOTATIONS = "no annotated.jsonl or annotated.csv: the relations `on top of` and `next to` are left out"


class Params(Struct, frozen=True, forbid_unknown_fields=True):
    pass


class SpatialAnnotation(Struct, frozen=True):
    image: str
    subject: str
    relation: Relation
    object: str = ""


def read(params: dict[str, Any], folder: Path | None) -> Iterator[Draft]:
    """A draft per relation that a picture shows, then one per annotation."""
    read_params(params, Params)
    if folder is None:
        raise DataError("no folder with the official files; name it with --source (it holds Matterport3D's scans)")
    houses = sorted(folder.rglob("house_segmentations/*.house"))
    annotated = locate_or_none(folder, "annotated.jsonl", "annotated.csv")
    if not houses and annotated is None:
        raise DataError(f"{folder}: no house_segmentations/*.house below it; is this the folder of Matterport3D?")
    notes = () if annotated else (NO_ANNOTATIONS,)
    for path in houses:
        for draft in _of_house(read_house(path)):
            yield replace(draft, notes=notes) if notes else draft
            notes = ()
    if annotated:
        yield from _annotated(annotated)


def _of_house(house: House) -> Iterator[Draft]:
    scan = house.path.parent.parent
    level = sorted((image for image in house.images if image.camera == LEVEL_CAMERA), key=lambda image: image.panorama)
    for panorama, images in groupby(level, key=lambda image: image.panorama):
        things = house.things.get(house.regions.get(panorama, -1), [])
        if not things:
            continue
        image = rng_for("matterport", house.name, panorama, "yaw").choice(list(images))
        name = f"{image.name}_{{}}{image.camera}_{image.yaw}"
        depth = _depth(scan / "undistorted_depth_images" / f"{name.format('d')}.png", image)
        picture = scan / "undistorted_color_images" / f"{name.format('i')}.jpg"
        by_relation: dict[Relation, list[Fact]] = {}
        for fact in spatial_facts(visible_objects(image, things, depth), image.focal[1]):
            by_relation.setdefault(fact.relation, []).append(fact)
        for relation, candidates in by_relation.items():
            fact = rng_for("matterport", house.name, picture.stem, relation).choice(candidates)
            yield _draft(f"{house.name}:{picture.stem}:{relation}", fact, picture, image.where)


def _depth(path: Path, image: HouseImage) -> Depth:
    """Depth by pixel of a depth image, which is opened when the first is asked for."""
    loaded: list[Any] = []

    def depth(column: int, row: int) -> float:
        from PIL import Image as Pictures

        if not loaded:
            try:
                with Pictures.open(path) as opened:
                    loaded.append(opened.copy())
            except OSError as error:
                reason = error.strerror or "no picture"
                raise DataError(f"{image.where}: cannot read the depth image {path} ({reason})") from None
            if loaded[0].size != image.size or not loaded[0].mode.startswith("I"):
                raise DataError(f"{image.where}: {path} is no 16-bit depth image of {image.size} pixels")
        return float(loaded[0].getpixel((column, row))) / UNITS_PER_METRE

    return depth


def _annotated(path: Path) -> Iterator[Draft]:
    rows = json_lines(path, SpatialAnnotation) if path.suffix == ".jsonl" else table_rows(path, SpatialAnnotation)
    for where, row in rows:
        fact = Fact(row.relation, row.subject.strip(), row.object.strip())
        if not fact.subject or bool(fact.object) == (row.relation in ("far", "close")):
            expected = "a subject alone" if row.relation in ("far", "close") else "a subject and an object"
            raise DataError(f"{where}: the relation {row.relation!r} is of {expected}")
        yield _draft(f"{row.image}:{fact.subject}:{fact.object}", fact, path.parent / row.image, where)


def _draft(name: str, fact: Fact, picture: Path, where: str) -> Draft:
    subject, reference = f"the {fact.subject}", f"the {fact.object}" if fact.object else "you, the observer"
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
