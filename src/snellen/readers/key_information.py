"""Ask for the fields of forms, nutrition labels and receipts: FUNSD, POIE and SROIE (ReForm-Eval
A.3).

These files are read: FUNSD `testing_data/{annotations,images}`; POIE `test.txt` (JSON lines) next
to `image_files`; SROIE one JSON file for each receipt, in `test/entities` with images in
`test/img`, or in `gt_answers` with images in `images`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct

from snellen.common.drafts import (
    Draft,
    Exclusion,
    QuestionDraft,
    has_word,
    read_params,
    without_exclusions,
)
from snellen.errors import DataError
from snellen.formats.json_files import json_lines, read_json
from snellen.formats.locate import base_of, locate_file, locate_or_none

SROIE = {
    "company": "What is the name of the company that issued the receipt?",
    "date": "On which date was the receipt issued?",
    "address": "What is the address of the company that issued the receipt?",
    "total": "What is the total amount of the receipt?",
}
_NUTRIENTS = {
    "CE": "the energy (calories)",
    "TF": "the total fat",
    "CAR": "the carbohydrate",
    "PRO": "the protein",
    "SO": "the sodium",
}
_MEASURES = {
    "PS": "per serving",
    "P1": "per 100 g or 100 ml",
    "D": "as a percentage of the daily value",
    "PP": "per 100 g or 100 ml, as a percentage",
}
POIE = {"SS": "What is the serving size on the label?"} | {
    f"{nutrient}-{measure}": f"What is {what} {how} on the label?"
    for nutrient, what in _NUTRIENTS.items()
    for measure, how in _MEASURES.items()
}
"""The 21 keys of POIE (Kuang et al. 2023) in words."""


class Params(Struct, frozen=True, forbid_unknown_fields=True):
    dataset: Literal["funsd", "poie", "sroie"]


class _Entry(Struct, frozen=True):
    id: int
    text: str
    label: str
    linking: tuple[tuple[int, int], ...]


class _Form(Struct, frozen=True):
    form: tuple[_Entry, ...]


class _Label(Struct, frozen=True):
    file_name: str
    entity_dict: dict[str, str | tuple[str, ...]]


def read(params: dict[str, Any], folder: Path | None) -> Iterator[Draft]:
    """Return a draft for each filled-in entry of the documents, ordered by document name (POIE: in file order)."""
    match read_params(params, Params).dataset:
        case "funsd":
            path = locate_file(folder, "testing_data/annotations")
            return without_exclusions(_funsd_drafts(path), path)
        case "poie":
            path = locate_file(folder, "test.txt")
            return without_exclusions(_poie_drafts(path, folder), path)
        case _:
            path = locate_file(folder, "test/entities", "entities", "gt_answers")
            return without_exclusions(_sroie_drafts(path), path)


def _funsd_drafts(path: Path) -> Iterator[Draft | Exclusion]:
    """Yield a question for each field of a FUNSD form that is filled in.

    A FUNSD file lists the texts of a form, labelled as `question` (the name of a field) or
    `answer`, and links between them. The answer to a field consists of all answers linked with it,
    in order. Raises DataError for a link to a text that does not exist.
    """
    for file in sorted(path.glob("*.json")):
        picture = path.parent / "images" / f"{file.stem}.png"
        entries = {entry.id: entry for entry in read_json(file, _Form).form}
        for entry in entries.values():
            if entry.label != "question":
                continue
            where = f"{file}: form id {entry.id}"
            linked_ids: list[int] = []
            for link in entry.linking:  # the ids of two texts
                linked_ids += [end for end in link if end != entry.id]
            for linked_id in linked_ids:
                if linked_id not in entries:
                    raise DataError(f"{where}: linked with {linked_id}, which is not there")
            linked_entries = [entries[linked_id] for linked_id in linked_ids]
            answers = [linked.text.strip() for linked in linked_entries if linked.label == "answer"]
            value = " ".join(answers).strip()
            if not value:
                yield Exclusion("a field that is not filled in")
            elif not has_word(entry.text):
                yield Exclusion("a field without a name")
            else:
                question = f'What is filled in under "{entry.text.strip()}"?'
                yield _value_question(
                    id_=f"{file.stem}_{entry.id}",
                    question=question,
                    texts=(value,),
                    picture=picture,
                    where=where,
                )


def _poie_drafts(path: Path, folder: Path | None) -> Iterator[Draft | Exclusion]:
    """Yield a question for each field of each of POIE's nutrition labels, such as the amount of
    fat.

    The folder of the first label's image is used for all images.
    """
    base: Path | None = None
    for where, label in json_lines(path, _Label):
        if base is None:
            possible_folders = (path.parent, locate_or_none(folder, "image_files"), folder)
            base = base_of(label.file_name, possible_folders, where)
        for key, value in label.entity_dict.items():
            if key not in POIE:
                raise DataError(f"{where}: unknown key {key!r}; known are {', '.join(POIE)}")
            alternatives = [value] if isinstance(value, str) else value
            texts: list[str] = []
            for alternative in alternatives:
                texts += _accepted_units(alternative)
            yield _value_question(
                id_=f"{Path(label.file_name).stem}_{key}",
                question=POIE[key],
                texts=tuple(texts),
                picture=base / label.file_name,
                where=where,
                key=key,
            )


def _accepted_units(value: str) -> tuple[str, ...]:
    """Return the accepted answers for a value.

    A value in two units is also accepted with one of them alone: `546kJ (130kcal)` gives `("546kJ
    (130kcal)", "546kJ", "130kcal")`.
    """
    value = value.strip()
    accepted = [value]
    in_brackets = re.findall(r"[(（]([^()（）]*)[)）]", value)
    if in_brackets:
        without_brackets = re.sub(r"[(（][^()（）]*[)）]", " ", value)
        accepted.append(" ".join(without_brackets.split()))
        accepted += [part.strip() for part in in_brackets]
    distinct = dict.fromkeys(accepted)
    return tuple(text for text in distinct if text)


def _sroie_drafts(path: Path) -> Iterator[Draft | Exclusion]:
    """Yield a question for each field of each SROIE receipt.

    A file with `(` in its name is a copy of another receipt and is left out.
    """
    image_folders = [locate_or_none(path.parent, name) for name in ("img", "images")]
    image_folders.append(path)
    image_folder: Path | None = None
    for file in sorted(path.glob("*.txt")):
        if "(" in file.stem:
            yield Exclusion("a second copy of a receipt")
            continue
        picture_name = f"{file.stem}.jpg"
        image_folder = image_folder or base_of(picture_name, image_folders, str(file))
        fields: Mapping[str, str] = read_json(file, dict[str, str])
        unknown_keys = fields.keys() - SROIE.keys()
        if unknown_keys:
            raise DataError(
                f"{file}: unknown key {min(unknown_keys)!r}; known are {', '.join(SROIE)}"
            )
        for key, value in fields.items():
            yield _value_question(
                id_=f"{file.stem}_{key}",
                question=SROIE[key],
                texts=(value.strip(),),
                picture=image_folder / picture_name,
                where=f"{file}: {key}",
                key=key,
            )


def _value_question(
    id_: str, question: str, texts: tuple[str, ...], picture: Path, where: str, key: str = ""
) -> Draft | Exclusion:
    """Return an open question about the value of a key in a document, or an exclusion if it has no value.

    Args:
        id_: Id of the question.
        question: Its text.
        texts: Accepted answers. Those without a letter or digit only count if there are no others.
        picture: Image of the document, which also groups the questions.
        where: Place in the source, for error messages.
        key: The key that is asked for. It becomes a tag and the stratum by which a sample may be drawn.
    """
    accepted = tuple(text for text in texts if has_word(text))
    if not accepted:
        # A value without any letter or digit stays in the benchmark, since the published results count it.
        accepted = tuple(text for text in texts if text)
    if not accepted:
        return Exclusion("a field that is not filled in")
    return Draft(
        id=id_,
        rounds=(QuestionDraft(question, texts=accepted),),
        images=(picture,),
        where=where,
        group=picture.stem,
        tags={"key": key} if key else {},
        stratum=key,
    )
