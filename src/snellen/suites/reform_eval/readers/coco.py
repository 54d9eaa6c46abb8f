"""MSCOCO's object annotations as questions about what is there, in a box, and missing (ReForm-Eval A.2).

Reads `instances_val2017.json` and the folder `val2017` as the COCO site distributes them; other sources
read COCO's objects and captions by the functions here.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import Struct

from snellen.common.drafts import DistractorSpec, Draft, Outline, PictureSpec, QuestionDraft, read_params
from snellen.common.seeds import rng_for
from snellen.errors import DataError
from snellen.formats.json_files import list_items, read_json
from snellen.formats.locate import locate
from snellen.readers.coco_instances import CocoAnnotation, CocoImage, CocoObjects, read_instances
from snellen.records import Region
from snellen.reformulation.regions import PALETTE

MOS_SIDE = 50
"""Pixels that both sides of a box must have to take part in missing object selection (A.2)."""
MOS_BOXES = 4
"""At most so many boxes are drawn, so that the colours of the paper suffice."""


class Params(Struct, frozen=True, forbid_unknown_fields=True):
    task: Literal["mci", "goi", "mos"]
    split: str = "val2017"


class CocoCaption(Struct, frozen=True):
    id: int
    image_id: int
    caption: str


class _Captions(Struct, frozen=True):
    images: list[msgspec.Raw]
    annotations: list[msgspec.Raw]


def locate_pictures(folder: Path | None, split: str) -> Path:
    """The folder of a split's pictures, in the layouts of the COCO site and of REFER's interface."""
    return locate(folder, split, f"images/{split}", f"images/mscoco/images/{split}")


def read_objects(folder: Path | None, split: str) -> CocoObjects:
    """The annotations of a split with their pictures. Raises DataError for a file that does not fit together."""
    path = locate(folder, f"annotations/instances_{split}.json", f"instances_{split}.json")
    return read_instances(path, locate_pictures(folder, split))


def read_captions(folder: Path | None, split: str) -> dict[int, list[tuple[str, CocoCaption]]]:
    """The captions of a split by picture, each with its place. Raises DataError for an empty or a stray one."""
    path = locate(folder, f"annotations/captions_{split}.json", f"captions_{split}.json")
    content = read_json(path, _Captions)
    captions: dict[int, list[tuple[str, CocoCaption]]] = {
        image.id: [] for _, image in list_items(path, "images", content.images, CocoImage)
    }
    for where, caption in list_items(path, "annotations", content.annotations, CocoCaption):
        if caption.image_id not in captions:
            raise DataError(f"{where}: there is no image {caption.image_id}")
        if not caption.caption.strip():
            raise DataError(f"{where}: the caption is empty")
        captions[caption.image_id].append((where, caption))
    return captions


def read(params: dict[str, Any], folder: Path | None) -> Iterator[Draft]:
    """A draft per object (mci, goi) or per picture (mos), by the order of the annotations."""
    chosen = read_params(params, Params)
    objects = read_objects(folder, chosen.split)
    if chosen.task == "mos":
        yield from _missing(objects)
        return
    for image in objects.by_image:
        for where, annotation in objects.by_image[image]:
            if not annotation.iscrowd:
                yield _present(objects, annotation, where, boxed=chosen.task == "goi")


def _present(objects: CocoObjects, annotation: CocoAnnotation, where: str, *, boxed: bool) -> Draft:
    """Which object is in the picture (mci), or in the box (goi)?

    Distractors: classes of the same super-category, then any; under goi first what else the picture shows.
    Under mci a class that the picture shows would be right too.
    """
    gold = objects.categories[annotation.category_id]
    present = objects.present(annotation.image_id)
    other_names = tuple(objects.name(category) for category in sorted(present - {gold.id}))
    alike, every = objects.names(of=gold.supercategory), objects.names()
    if boxed:
        distractors = DistractorSpec(tiers=(other_names, alike, every))
        question = "Which object is inside the red box?"
    else:
        distractors = DistractorSpec(tiers=(alike, every), also_right=other_names)
        question = "Which of these objects does the picture show?"
    file = objects.images[annotation.image_id]
    return Draft(
        id=str(annotation.id),
        rounds=(QuestionDraft(question, texts=(gold.name,), distractors=distractors),),
        images=(PictureSpec(file, outlines=(Outline(annotation.bbox, width=3),)) if boxed else file,),
        where=where,
        regions=(Region(annotation.bbox),) if boxed else (),
        group=str(annotation.image_id),
        answer_tags={"supercategory": gold.supercategory},
        stratum=gold.supercategory,
    )


def _missing(objects: CocoObjects) -> Iterator[Draft]:
    """Which object is in none of the boxes? Negatives are what the boxes hold; the gold is in none of them.

    A picture counts when no two of its large objects are of one class: the rule that comes nearest to the paper's 2,479
    pictures and to what its models reach by chance (docs/evidence/reform-eval.md).
    """
    for image, annotated in objects.by_image.items():
        large = [(where, a) for where, a in annotated if not a.iscrowd and min(a.bbox[2], a.bbox[3]) >= MOS_SIDE]
        if not large or len({a.category_id for _, a in large}) < len(large):
            continue
        rng = rng_for("mscoco-mos", image, "boxes")
        chosen = rng.sample(large, min(len(large), MOS_BOXES))
        boxed = frozenset(a.category_id for _, a in chosen)
        present = objects.present(image)
        golds = sorted(present - boxed) or sorted(set(objects.categories) - present)
        if not golds:
            continue
        gold = objects.categories[rng.choice(golds)]
        tier = tuple(objects.name(category) for category in sorted(boxed))
        boxes = tuple(a.bbox for _, a in chosen)
        outlines = tuple(Outline(box, PALETTE[place % len(PALETTE)], 3) for place, box in enumerate(boxes))
        yield Draft(
            id=str(image),
            rounds=(
                QuestionDraft(
                    "Which of these objects is inside none of the boxes?",
                    texts=(gold.name,),
                    distractors=DistractorSpec(tiers=(tier,), allow_fewer=True),
                ),
            ),
            images=(PictureSpec(objects.images[image], outlines=outlines),),
            where=chosen[0][0],
            regions=tuple(Region(box) for box in boxes),
            group=str(image),
            answer_tags={"supercategory": gold.supercategory},
            stratum=gold.supercategory,
        )
