"""MSCOCO's captions against pictures: does this one match (itm), which one fits (its)? (ReForm-Eval A.6)

Reads `captions_val2017.json`, `instances_val2017.json` and the folder `val2017` of the COCO site. Every
caption of the split is a question. What does not fit comes from pictures with distinct but similar objects:
of each the caption that is most similar to the right one by the objects it names.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct

from snellen.drafts import DistractorSpec, Draft, QuestionDraft, read_params
from snellen.errors import DataError
from snellen.readers.coco_instances import CocoObjects
from snellen.reformulation.similar_captions import (
    Categories,
    SimilarPictures,
    category_finder,
    coco_words,
    differs_from_all,
    most_similar,
)
from snellen.seeds import rng_for
from snellen.suites.reform_eval import wording
from snellen.suites.reform_eval.readers.coco import CocoCaption, read_captions, read_objects

NEIGHBOURS = 12
"""Similar pictures that offer a caption each; more than the options need, as some captions say the same."""


class Params(Struct, frozen=True, forbid_unknown_fields=True):
    task: Literal["itm", "its"]
    split: str = "val2017"


def read(params: dict[str, Any], folder: Path | None) -> Iterator[Draft]:
    """A draft per caption, in the order of the pictures."""
    chosen = read_params(params, Params)
    objects = read_objects(folder, chosen.split)
    captions = read_captions(folder, chosen.split)
    pairs = _Pairs(objects, captions)
    for image, own in captions.items():
        if own and image not in objects.images:
            raise DataError(f"{own[0][0]}: the image {image} is not among those of instances_{chosen.split}.json")
        for where, caption in own:
            yield (_matching if chosen.task == "itm" else _selection)(pairs, caption, where)


class _Pairs:
    """Pictures with what they show, captions with what they name, and which captions nearly fit a picture."""

    def __init__(self, objects: CocoObjects, captions: dict[int, list[tuple[str, CocoCaption]]]) -> None:
        name = category_finder(objects.names(), coco_words())
        self.pictures = objects.images
        self.own = {image: [caption.caption.strip() for _, caption in texts] for image, texts in captions.items()}
        self._named = {image: [(text, name(text)) for text in texts] for image, texts in self.own.items()}
        self._shown = {
            image: frozenset(map(objects.name, objects.present(image))) for image, texts in self.own.items() if texts
        }
        self._neighbours = SimilarPictures(self._shown)
        self._near: dict[int, list[int]] = {}
        self._name = name

    def nearly_right(self, caption: CocoCaption) -> tuple[str, ...]:
        """A caption of each similar picture, the most similar picture first."""
        image = caption.image_id
        if image not in self._near:
            rng = rng_for("coco-pairs", image, "neighbours")
            self._near[image] = self._neighbours.nearest(image, NEIGHBOURS, rng)
        gold: Categories = self._name(caption.caption)
        objects = self._shown[image]
        return tuple(
            text for neighbour in self._near[image] if (text := most_similar(gold, self._named[neighbour], objects))
        )


def _matching(pairs: _Pairs, caption: CocoCaption, where: str) -> Draft:
    """Yes for the picture's own caption, no for one that nearly fits; half of each."""
    gold = rng_for("coco-pairs", caption.id, "matches").randrange(2)
    text: str | None = caption.caption.strip()
    if gold:
        own = pairs.own[caption.image_id]
        text = next((near for near in pairs.nearly_right(caption) if differs_from_all(near, own)), None)
    if text is None:
        raise DataError(f"{where}: no picture is similar, so no caption nearly fits; is the split whole?")
    question = QuestionDraft(wording.matching_question(text), options=wording.MATCHING_OPTIONS, gold=(gold,))
    return _draft(pairs, caption, where, question, answer_tags={"answer": question.options[gold]})


def _selection(pairs: _Pairs, caption: CocoCaption, where: str) -> Draft:
    tiers = tuple((text,) for text in pairs.nearly_right(caption))
    gold = caption.caption.strip()
    others = tuple(text for text in pairs.own[caption.image_id] if text != gold)
    question = QuestionDraft(wording.TEXT_QUESTION, texts=(gold, *others), distractors=DistractorSpec(tiers=tiers))
    return _draft(pairs, caption, where, question, answer_tags={})


def _draft(
    pairs: _Pairs, caption: CocoCaption, where: str, question: QuestionDraft, answer_tags: dict[str, str]
) -> Draft:
    return Draft(
        id=str(caption.id),
        rounds=(question,),
        images=(pairs.pictures[caption.image_id],),
        where=where,
        group=str(caption.image_id),
        answer_tags=answer_tags,
        stratum=answer_tags.get("answer", ""),
    )
