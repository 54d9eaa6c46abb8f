"""Readers of files of LVLM-eHub that cannot be described by a mapping of columns.

Embodied tasks: images of simulators, each with a task for a robot that the model is to plan in words. There is no
correct answer (LVLM-eHub, Figures A.5 to A.7).

Each simulator has a folder with `val_dataset.json` (a list of `image_path` and `question`), the images, and
sometimes `prefix_prompt.txt`, a prompt into which each question is inserted. Without that file, the prompt is the
parameter `prompt` of the catalogue entry, if it has one. A question that already contains the prompt stays as it
is.

VCR, choosing the answer to a question: numbers of objects in the texts become words (LVLM-eHub, appendix B.4 and
A.3).

Reads `val.jsonl`, and `vcr1images/` with an image and a JSON file of boxes for each scene. The number of an object
is replaced by its class. Persons are distinguished by their position: `the person on the left`.
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
"""Is replaced by the question in a prompt. A prompt without it is followed by the question."""


def read_embodied(params: dict[str, Any], folder: Path | None) -> Iterator[Draft]:
    """Yield the questions that a mapping describes, each inserted into the prompt for a robot's tasks.

    The prompt is read from the file `prefix_prompt.txt` next to the records. If there is no such file, it is the parameter
    `prompt`, and without that, the question alone.

    Args:
        params: The parameters of the mapping, perhaps with `prompt`, a text with `{INSERT HERE}` for the question.
        folder: The folder with the files of the benchmark.
    """
    prompt_file = locate_file(folder, RECORDS).with_name(PREFIX)
    mapping = {name: value for name, value in params.items() if name != "prompt"}
    if prompt_file.exists():
        prompt = _read_prompt(prompt_file)
    else:
        prompt = params.get("prompt", MARKER).strip()
    for draft in read_mapped(mapping, folder):
        rounds = [
            replace(question, question=_insert_question(prompt, question.question))
            for question in draft.rounds
        ]
        yield replace(draft, rounds=tuple(rounds))


def _read_prompt(path: Path) -> str:
    """Return the prompt in a file, into which each question is inserted. Raises DataError if it cannot be read or is
    empty.
    """
    try:
        text = read_text(path).strip()
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: cannot read the words around each question ({error})") from None
    if not text:
        raise DataError(
            f"{path}: the file is empty; write {MARKER} where questions are to be asked as they are"
        )
    return text


def _insert_question(prompt: str, question: str) -> str:
    """Return the prompt with a question in place of its marker `{INSERT HERE}`, or at the end if it has no marker.

    A question that already contains the text of the prompt is returned unchanged.
    """
    words_around = [words.strip() for words in prompt.split(MARKER) if words.strip()]
    has_words_already = words_around and all(words in question for words in words_around)
    if has_words_already:
        return question
    if MARKER in prompt:
        return prompt.replace(MARKER, question)
    return f"{prompt} {question}"


PERSON = "person"
Tokens = tuple[str | tuple[int, ...], ...]
"""The words of a text. A tuple of numbers stands for the objects of the image that have these numbers."""
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
    """Yield the questions of a split of VCR in the order of the file.

    If the published list of questions exists (the parameter `only`), only those on it are read. Raises DataError
    for a text that refers to an object that does not exist, or to a person without a box.
    """
    chosen = read_params(params, Params)
    path = locate_file(folder, f"{chosen.split}.jsonl")
    listing = locate_or_none(folder, chosen.only)
    ids = _read_listed_ids(listing) if listing else None
    pictures = locate_file(folder, "vcr1images")
    return without_exclusions(_vcr_drafts(path, pictures, ids), path)


def _read_listed_ids(path: Path) -> frozenset[str]:
    """Return the ids of a file with a list, `- val-18723` on each line."""
    with open_text(path) as file:
        return frozenset(
            line.strip().removeprefix("-").strip() for line in DelimitedLines(file, path)
        )


def _vcr_drafts(
    path: Path, pictures: Path, ids: frozenset[str] | None
) -> Iterator[Draft | Exclusion]:
    """Yield the questions of VCR.

    Where a text of VCR refers to an object of the image, it has the object's number (a tag). The number is replaced
    by a name: `[1]` becomes `the person on the left`. If two options are equal after that, the question is left
    out.

    Args:
        path: The file of questions.
        pictures: The folder of the images.
        ids: Ids of the questions to read; None for all.
    """
    for where, item in json_lines(path, _Question):
        if ids is not None and item.annot_id not in ids:
            continue
        names = _name_tagged_objects(item, pictures, where)
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
                QuestionDraft(
                    question=caption_text(item.question, names),
                    options=options,
                    gold=(item.answer_label,),
                ),
            ),
            images=(pictures / item.img_fn,),
            where=where,
            group=item.img_fn,
        )


def _name_tagged_objects(item: _Question, pictures: Path, where: str) -> dict[int, str]:
    """Return a name for each object that is tagged in the question or in an option.

    An object is called by its category, `dog`, and a person by the position in the image: `the person on the left`.
    Raises DataError for a tag without an object.
    """
    tags: dict[int, None] = {}
    for tokens in (item.question, *item.answer_choices):
        for token in tokens:
            if isinstance(token, tuple):  # a token is a word, or the tags of several objects
                tags |= dict.fromkeys(token)
    for tag in tags:
        if not 0 <= tag < len(item.objects):
            raise DataError(f"{where}: the tag {tag} but objects are 0-{len(item.objects) - 1}")

    names = {tag: item.objects[tag] for tag in tags}
    persons = sorted(tag for tag in tags if item.objects[tag] == PERSON)
    if persons:
        person_names = _name_tagged_persons(persons, item, pictures, where)
        names |= dict(zip(persons, person_names, strict=True))
    return names


def _name_tagged_persons(
    persons: Sequence[int], item: _Question, pictures: Path, where: str
) -> list[str]:
    """Return names of the tagged persons by the positions of their boxes. Raises DataError if a person has no box."""
    path = pictures / item.metadata_fn
    scene = read_json(path, _Scene)
    if persons[-1] >= len(scene.boxes) or any(len(scene.boxes[person]) < 4 for person in persons):
        raise DataError(
            f"{where}: {path.name} has no box of each person; it has {len(scene.boxes)} boxes"
        )
    centres = []
    for person in persons:
        left, _, right, *_ = scene.boxes[person]
        centres.append((left + right) / 2)
    return name_persons_by_position(centres, scene.width)


def name_persons_by_position(centres: Sequence[float], width: float) -> list[str]:
    """Return a name for each person by the horizontal position: on the left, in the middle or on the right.

    Two or three persons are named by their order from left to right. Others are named by the third of the image
    that they are in, and all but the first in a third are `another person`.

    Args:
        centres: Horizontal centre of each person's box, in pixels.
        width: Width of the image in pixels.
    """
    names: list[str]
    if len(centres) in (2, 3):
        positions = (_LEFT, _RIGHT) if len(centres) == 2 else (_LEFT, _MIDDLE, _RIGHT)
        from_left_to_right = sorted(range(len(centres)), key=lambda person: centres[person])
        names = [""] * len(centres)
        for person, position in zip(from_left_to_right, positions, strict=True):
            names[person] = f"the person {position}"
        return names

    names = []
    counts: Counter[str] = Counter()
    for centre in centres:
        if centre < width / 3:
            third = _LEFT
        elif centre > 2 * width / 3:
            third = _RIGHT
        else:
            third = _MIDDLE
        article = "another" if counts[third] else "the"
        names.append(f"{article} person {third}")
        counts[third] += 1
    return names


def caption_text(tokens: Tokens, names: dict[int, str]) -> str:
    """Return the words of a text with names in place of the numbers of objects.

    For example, `("Why", "is", (0, 1), "sad", "?")` becomes `Why is dog and cat sad?`. There is no space before a
    comma, full stop or question mark.

    Args:
        tokens: Words, and tuples of the numbers of objects.
        names: The name of each object by its number.
    """
    words = []
    for token in tokens:
        if isinstance(token, str):
            words.append(token)
        else:
            words.append(" and ".join(names[tag] for tag in token))
    return re.sub(r" +([,.?])", r"\1", " ".join(words))
