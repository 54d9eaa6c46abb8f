"""VSR: which spatial relation holds between the two objects? (ReForm-Eval A.5)

Reads `splits/random/test.jsonl` of Visual Spatial Reasoning and its pictures: a folder `images` or COCO's
`train2017` and `val2017`. Of the pairs, those whose caption is true are the questions: 1,181 of 1,074
pictures, as many as Table 6 counts pictures (its 1,811 samples are another benchmark's). Options are the
caption, and the caption with other relations of the split, each as likely as it is frequent there: else the
gold would be known by being the common one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct

from snellen.common.drafts import DistractorSpec, Draft, QuestionDraft, read_params
from snellen.errors import DataError
from snellen.formats.json_files import json_lines
from snellen.formats.locate import base_of, locate, locate_or_none

WORDINGS = (
    "Which sentence says correctly where the objects are?",
    "Which of these statements about positions is true of the picture?",
    "How do the two objects lie to each other?",
    "Which relation between the objects does the picture show?",
)
_BESIDE = "beside, next to, near, close to, by, adjacent to, alongside, along, with, at the side of"
_TOUCHING = "touching, against, attached to, connected to"
COMPATIBLE_RELATIONS = tuple(
    frozenset(relations.split(", "))
    for relations in (
        f"{_BESIDE}, {_TOUCHING}, at the left side of, left of",
        f"{_BESIDE}, {_TOUCHING}, at the right side of, right of",
        f"{_TOUCHING}, above, over, on top of, on",
        f"{_TOUCHING}, below, under, beneath, down from",
        f"{_TOUCHING}, on, in, inside, within, into, enclosed by, in the middle of, part of, surrounding, contains",
        "contains, consists of, has as a part, surrounding, around",
        f"{_BESIDE}, behind, at the back of, beyond",
        f"{_BESIDE}, in front of, ahead of",
        "far from, far away from, away from, detached from, outside, out of, off, beyond, facing away from",
        "across from, across, opposite to, facing, toward",
        "at, by, near, close to, at the edge of, on",
    )
)
"""Relations that may hold at once; one of them is not a distractor for another."""


class Params(Struct, frozen=True, forbid_unknown_fields=True):
    split: str = "test"


class VsrPair(Struct, frozen=True):
    image: str
    image_link: str
    caption: str
    label: Literal[0, 1]
    relation: str


class SpatialCaption(Struct, frozen=True):
    """A caption taken apart: `The cat`, `is` (or nothing), the relation, `the mat`."""

    subject: str
    verb: str
    relation: str
    object: str

    def saying(self, relation: str, verb: str) -> str:
        """The caption with another relation, which takes a verb or is one."""
        return " ".join(filter(None, (self.subject, verb, relation, self.object))) + "."


def read(params: dict[str, Any], folder: Path | None) -> Iterator[Draft]:
    """A draft per true caption, in the order of the file."""
    chosen = read_params(params, Params)
    path = locate(folder, *(f"{within}random/{chosen.split}.jsonl" for within in ("data/splits/", "splits/", "")))
    bases = [locate_or_none(folder, name) for name in ("images", "trainval2017", "train2017", "val2017")]
    if not any(bases):
        raise DataError(f"{folder}: the pictures are missing: images, trainval2017, or train2017 and val2017")
    pairs = list(json_lines(path, VsrPair))
    verbs = {pair.relation: _parsed_caption(pair, where).verb for where, pair in pairs}
    frequent = [pair.relation for _, pair in pairs]
    for where, pair in pairs:
        if pair.label:
            caption = _parsed_caption(pair, where)
            sentences = {relation: caption.saying(relation, verb) for relation, verb in verbs.items()}
            distractors = DistractorSpec(
                tiers=([sentences[relation] for relation in frequent],), also_right=_alike(pair.relation, sentences)
            )
            question = QuestionDraft(
                WORDINGS[0], texts=(sentences[pair.relation],), distractors=distractors, rewordings=WORDINGS[1:]
            )
            yield _draft(pair, question, base_of(pair.image, bases, where) / pair.image, where)


def _parsed_caption(pair: VsrPair, where: str) -> SpatialCaption:
    match = re.fullmatch(rf"(.+?) (?:(is|are) )?{re.escape(pair.relation)} (.+?)\.?", pair.caption.strip())
    if match is None:
        raise DataError(f"{where}: the relation {pair.relation!r} is not in the caption {pair.caption!r}")
    return SpatialCaption(match[1], match[2] or "", pair.relation, match[3])


def _alike(relation: str, sentences: dict[str, str]) -> tuple[str, ...]:
    """The sentences of `said` that may be true besides the one with this relation."""
    alike = {candidate for group in COMPATIBLE_RELATIONS if relation in group for candidate in group} - {relation}
    return tuple(sentence for candidate, sentence in sentences.items() if candidate in alike)


def _draft(pair: VsrPair, question: QuestionDraft, picture: Path, where: str) -> Draft:
    return Draft(
        id=f"{pair.image}:{pair.caption}",
        rounds=(question,),
        images=(picture,),
        where=where,
        group=pair.image,
        tags={"relation": pair.relation},
        stratum=pair.relation,
    )
