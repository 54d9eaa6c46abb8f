"""RefCOCO: which expression refers to the object in the box? (ReForm-Eval A.2)

Reads `refs(unc).p` (a pickle, of which nothing is run) or the same list as `refs(unc).json`, with
`instances.json` beside it, and COCO's folder `train2014`. Every expression of the split is a question.

Distractors are expressions for objects of other categories of the same super-category, then of any other
(people have a super-category of their own). An expression that somebody also used for an object of the
gold's category ("left one") may be right, and is left out of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from snellen.common.drafts import DistractorSpec, Draft, Outline, PictureSpec, QuestionDraft, read_params
from snellen.errors import DataError
from snellen.formats.json_files import list_items, read_json
from snellen.formats.locate import locate
from snellen.formats.pickles import load_pickle
from snellen.readers.coco_instances import CocoAnnotation, CocoObjects, read_instances
from snellen.records import Region
from snellen.reformulation.answer_equality import fold_answer
from snellen.suites.reform_eval import wording
from snellen.suites.reform_eval.readers.coco import locate_pictures

BOX_WIDTH = 2
"""Pixels of the box's line."""


class Params(Struct, frozen=True, forbid_unknown_fields=True):
    split: str = "val"


class ReferringExpression(Struct, frozen=True):
    sent_id: int
    sent: str


class ReferredObject(Struct, frozen=True):
    """An object that is referred to, and how."""

    ref_id: int
    ann_id: int
    image_id: int
    category_id: int
    split: str
    sentences: tuple[ReferringExpression, ...]


def read(params: dict[str, Any], folder: Path | None) -> Iterator[Draft]:
    """A draft per expression, in the order of the file."""
    chosen = read_params(params, Params)
    path = locate(folder, *(f"{within}refs(unc).{kind}" for within in ("refcoco/", "") for kind in ("p", "json")))
    objects = read_instances(path.with_name("instances.json"), locate_pictures(folder, "train2014"))
    annotations = {annotation.id: annotation for annotated in objects.by_image.values() for _, annotation in annotated}
    refs = [(where, ref) for where, ref in _refs(path) if ref.split == chosen.split]
    for where, ref in refs:
        _check(ref, objects, annotations, where)
    pools = _Pools(objects, [ref for _, ref in refs])
    for where, ref in refs:
        for number, sentence in enumerate(ref.sentences):
            yield _draft(objects, annotations[ref.ann_id], ref, sentence, pools, f"{where}.sentences[{number}]")


def _refs(path: Path) -> Iterator[tuple[str, ReferredObject]]:
    if path.suffix == ".json":
        yield from list_items(path, "refs", read_json(path, list[msgspec.Raw]), ReferredObject)
        return
    content = load_pickle(path)
    if not isinstance(content, list):
        raise DataError(f"{path}: holds no list of references; is it RefCOCO's file?")
    for number, item in enumerate(content):
        where = f"{path}: refs[{number}]"
        try:
            yield where, msgspec.convert(item, ReferredObject)
        except msgspec.ValidationError as error:
            raise DataError(f"{where}: {error}") from None


def _check(ref: ReferredObject, objects: CocoObjects, annotations: dict[int, CocoAnnotation], where: str) -> None:
    annotation = annotations.get(ref.ann_id)
    if annotation is None:
        raise DataError(f"{where}: there is no annotation {ref.ann_id} in instances.json")
    if (annotation.image_id, annotation.category_id) != (ref.image_id, ref.category_id):
        raise DataError(f"{where}: the annotation {ref.ann_id} is of another picture or category in instances.json")
    if not ref.sentences:
        raise DataError(f"{where}: there is no expression")


class _Pools:
    """By category the expressions that refer to something else."""

    def __init__(self, objects: CocoObjects, refs: list[ReferredObject]) -> None:
        self._objects = objects
        self._expressions: dict[int, dict[str, str]] = {}
        for ref in refs:
            for sentence in ref.sentences:
                self._expressions.setdefault(ref.category_id, {}).setdefault(fold_answer(sentence.sent), sentence.sent)
        self._tiers: dict[int, tuple[tuple[str, ...], ...]] = {}

    def tiers(self, category: int) -> tuple[tuple[str, ...], ...]:
        """Expressions for other categories of the same super-category, then for all others."""
        if category not in self._tiers:
            group = self._objects.categories[category].supercategory
            alike = [c for c in self._expressions if self._objects.categories[c].supercategory == group]
            self._tiers[category] = (
                self._other_texts(category, alike),
                self._other_texts(category, list(self._expressions)),
            )
        return self._tiers[category]

    def _other_texts(self, category: int, categories: list[int]) -> tuple[str, ...]:
        own_texts = self._expressions[category]
        return tuple(
            text
            for c in categories
            if c != category
            for folded, text in self._expressions[c].items()
            if folded not in own_texts
        )


def _draft(
    objects: CocoObjects,
    annotation: CocoAnnotation,
    ref: ReferredObject,
    sentence: ReferringExpression,
    pools: _Pools,
    where: str,
) -> Draft:
    category = objects.categories[ref.category_id]
    further = tuple(expression.sent for expression in ref.sentences if expression.sent != sentence.sent)
    distractors = DistractorSpec(tiers=pools.tiers(category.id))
    return Draft(
        id=str(sentence.sent_id),
        rounds=(QuestionDraft(wording.EXPRESSION_QUESTION, texts=(sentence.sent, *further), distractors=distractors),),
        images=(PictureSpec(objects.images[ref.image_id], outlines=(Outline(annotation.bbox, width=BOX_WIDTH),)),),
        where=where,
        regions=(Region(annotation.bbox),),
        group=str(ref.image_id),
        answer_tags={"category": category.name, "supercategory": category.supercategory},
        stratum=category.name,
    )
