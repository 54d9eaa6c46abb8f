"""Readers of LVLM-eHub's files that no mapping describes.

Images of simulators with a task each, to be planned in words: no gold (LVLM-eHub, Figures A.5 to A.7).

A folder per simulator: `val_dataset.json` (a list of `image_path` and `question`), its images, and perhaps
`prefix_prompt.txt`, the words around each question. Without that file they are the entry's `prompt`, if it has one,
except around a question that already holds them.

VCR, question to answer: tags of objects become words (LVLM-eHub, appendix B.4 and A.3).

Reads `val.jsonl` and `vcr1images/` with an image and a JSON file of boxes for each of its scenes. A tag is replaced
by the object's class; persons are told apart by where they are: `the person on the left`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from snellen.common.drafts import Draft, Exclusion, QuestionDraft, read_params, without_exclusions
from snellen.common.foreign import read_text
from snellen.errors import DataError
from snellen.formats.delimited import DelimitedLines, open_text
from snellen.formats.json_files import json_lines, read_json
from snellen.formats.locate import locate_file, locate_or_none
from snellen.readers.mapped import read as read_mapped

RECORDS = "val_dataset.json"
PREFIX = "prefix_prompt.txt"
MARKER = "{INSERT HERE}"
"""Where the question stands in the words around it; without it, it follows them."""


def read_embodied(params: dict[str, Any], folder: Path | None) -> Iterator[Draft]:
    """The drafts of the mapping in `params`, each question in the words around it."""
    path = locate_file(folder, RECORDS).with_name(PREFIX)
    mapping = {name: value for name, value in params.items() if name != "prompt"}
    prompt = _prefix(path) if path.exists() else params.get("prompt", MARKER).strip()
    for draft in read_mapped(mapping, folder):
        yield replace(
            draft,
            rounds=tuple(
                replace(question, question=_within(prompt, question.question))
                for question in draft.rounds
            ),
        )


def _prefix(path: Path) -> str:
    try:
        text = read_text(path).strip()
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: cannot read the words around each question ({error})") from None
    if not text:
        raise DataError(
            f"{path}: the file is empty; write {MARKER} where questions are to be asked as they are"
        )
    return text


def _within(prompt: str, question: str) -> str:
    around = [words.strip() for words in prompt.split(MARKER) if words.strip()]
    if around and all(words in question for words in around):
        return question
    return prompt.replace(MARKER, question) if MARKER in prompt else f"{prompt} {question}"


PERSON = "person"
Tokens = tuple[str | tuple[int, ...], ...]
"""Words, and tags: numbers of objects."""
_LEFT, _MIDDLE, _RIGHT = "on the left", "in the middle", "on the right"


class Params(Struct, frozen=True, forbid_unknown_fields=True):
    split: str = "val"
    only: str = "vcr_val_random500_annoid.yaml"
    """A list of the questions to read, `- val-18723` on each line; all are read where it is not there."""


class _Question(Struct, frozen=True):
    annot_id: str
    img_fn: str
    metadata_fn: str
    objects: tuple[str, ...]
    question: Tokens
    answer_choices: tuple[Tokens, ...]
    answer_label: int


class _Scene(Struct, frozen=True):
    boxes: tuple[tuple[float, ...], ...]
    """Left, top, right, bottom and a confidence, in pixels."""
    width: float


def read_vcr(params: dict[str, Any], folder: Path | None) -> Iterator[Draft]:
    """A draft per question, in file order. Raises DataError for a tag without an object and an object without a box."""
    chosen = read_params(params, Params)
    path = locate_file(folder, f"{chosen.split}.jsonl")
    listing = locate_or_none(folder, chosen.only)
    ids = _listed(listing) if listing else None
    return without_exclusions(_drafts(path, locate_file(folder, "vcr1images"), ids), path)


def _listed(path: Path) -> frozenset[str]:
    with open_text(path) as file:
        return frozenset(
            line.strip().removeprefix("-").strip() for line in DelimitedLines(file, path)
        )


def _drafts(path: Path, pictures: Path, ids: frozenset[str] | None) -> Iterator[Draft | Exclusion]:
    for where, item in json_lines(path, _Question):
        if ids is not None and item.annot_id not in ids:
            continue
        names = _names(item, pictures, where)
        options = tuple(caption_text(tokens, names) for tokens in item.answer_choices)
        if len(set(options)) < len(options):
            yield Exclusion("two options are the same once tags are words")
            continue
        if not 0 <= item.answer_label < len(options):
            raise DataError(
                f"{where}: answer_label {item.answer_label} but answer_choices are 0-{len(options) - 1}"
            )
        yield Draft(
            id=item.annot_id,
            rounds=(
                QuestionDraft(caption_text(item.question, names), options, (item.answer_label,)),
            ),
            images=(pictures / item.img_fn,),
            where=where,
            group=item.img_fn,
        )


def _names(item: _Question, pictures: Path, where: str) -> dict[int, str]:
    """What each object is called that the question or an option speaks of."""
    every = (item.question, *item.answer_choices)
    tags = dict.fromkeys(
        tag for tokens in every for token in tokens if isinstance(token, tuple) for tag in token
    )
    if strange := [tag for tag in tags if not 0 <= tag < len(item.objects)]:
        raise DataError(f"{where}: the tag {strange[0]} but objects are 0-{len(item.objects) - 1}")
    persons = sorted(tag for tag in tags if item.objects[tag] == PERSON)
    names = {tag: item.objects[tag] for tag in tags}
    if persons:
        names |= dict(zip(persons, _places(persons, item, pictures, where), strict=True))
    return names


def _places(persons: Sequence[int], item: _Question, pictures: Path, where: str) -> list[str]:
    path = pictures / item.metadata_fn
    scene = read_json(path, _Scene)
    if persons[-1] >= len(scene.boxes) or any(len(scene.boxes[person]) < 4 for person in persons):
        raise DataError(
            f"{where}: {path.name} has no box of each person; it has {len(scene.boxes)} boxes"
        )
    return person_names(
        [(scene.boxes[person][0] + scene.boxes[person][2]) / 2 for person in persons], scene.width
    )


def person_names(centres: Sequence[float], width: float) -> list[str]:
    """What persons are called by the middles of their boxes: two or three by their order, others by thirds, in pixels.

    Of several in one third, all but the first are `another person`.
    """
    if len(centres) in (2, 3):
        places = (_LEFT, _RIGHT) if len(centres) == 2 else (_LEFT, _MIDDLE, _RIGHT)
        order = sorted(range(len(centres)), key=lambda number: centres[number])
        ranks = {number: place for place, number in zip(places, order, strict=True)}
        return [f"the person {ranks[number]}" for number in range(len(centres))]
    names: list[str] = []
    counts: Counter[str] = Counter()
    for centre in centres:
        third = _LEFT if centre < width / 3 else _RIGHT if centre > 2 * width / 3 else _MIDDLE
        names.append(f"{'another' if counts[third] else 'the'} person {third}")
        counts[third] += 1
    return names


def caption_text(tokens: Tokens, names: dict[int, str]) -> str:
    """The tokens as a text: tags by name, blanks between words, none before a comma, full stop or question mark."""
    words = (
        token if isinstance(token, str) else " and ".join(names[tag] for tag in token)
        for token in tokens
    )
    return re.sub(r" +([,.?])", r"\1", " ".join(words))
