"""Questions of OCRBench v2 from the rows of its dataset."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from snellen.common.drafts import Draft
from snellen.errors import DataError
from snellen.readers.mapped import read_hub_rows
from snellen.suites.modern.ocrbench_v2.fields import FIELDS, correct_fields

ABILITIES = {
    "text recognition": "text recognition",
    "fine-grained text recognition": "text recognition",
    "full-page OCR": "text recognition",
    "text grounding": "text detection",
    "VQA with position": "text detection",
    "text spotting": "text spotting",
    "key information extraction": "relationship extraction",
    "key information mapping": "relationship extraction",
    "handwritten answer extraction": "relationship extraction",
    "document parsing": "element parsing",
    "chart parsing": "element parsing",
    "table parsing": "element parsing",
    "formula recognition": "element parsing",
    "math QA": "mathematical calculation",
    "text counting": "mathematical calculation",
    "document classification": "visual text understanding",
    "cognition VQA": "visual text understanding",
    "diagram QA": "visual text understanding",
    "reasoning VQA": "knowledge reasoning",
    "science QA": "knowledge reasoning",
    "APP agent": "knowledge reasoning",
    "ASCII art classification": "knowledge reasoning",
    "text translation": "knowledge reasoning",
}
"""The ability that each type of question tests, without the language behind the type (get_score.py)."""


def ability(texts: list[str]) -> list[str]:
    """Return the abilities that types of question of OCRBench v2 test: `cognition VQA en` gives `visual text
    understanding`. A type that is not known stays as it is."""
    abilities: list[str] = []
    for text in texts:
        without_language = text.removesuffix(" en").removesuffix(" cn")
        abilities.append(ABILITIES.get(without_language, text))
    return abilities


def read(params: dict[str, Any], folder: Path | None) -> Iterator[Draft]:
    """Yield the questions of the dataset, with boxes among their accepted answers.

    Args:
        params: The mapping of the entry. Its answer is the JSON list of the answers of a row. Its hidden tags `bbox`,
            `bbox_list` and `content` have the boxes and texts of a row, which these answers then contain.
        folder: The folder with the official files.

    Raises:
        DataError: A row does not have the boxes that its type of question needs.
    """
    for draft in read_hub_rows(params, folder):
        [drawn] = draft.rounds
        hidden = {name: json.loads(text) for name, text in draft.answer_tags.items()}
        answers = json.loads(drawn.texts[0])
        texts = accepted_answers(draft.tags.get("category", ""), answers, hidden, draft.where)
        yield replace(draft, rounds=(replace(drawn, texts=tuple(texts)),), answer_tags={})


def accepted_answers(
    category: str, answers: Sequence[str], boxes: Mapping[str, Any], where: str
) -> list[str]:
    """Return the accepted answers of a row in the form that its type of question is scored by.

    - Text grounding has the four numbers of a box as its answers: `[1, 2, 3, 4]`.
    - VQA with position: each answer with the box of the row, `{"answer": "Exit", "bbox": [1, 2, 3, 4]}`.
    - Text spotting: all texts of the image, each with the box around it, `[[1, 2, 3, 4, "Exit"], ...]`.
    - Named fields: a correct reply, and behind it all accepted values as the row has them.
    - Other types: the answers without those that are empty.

    Args:
        category: The type of question with its language, such as `text grounding en`.
        answers: The answers of the row.
        boxes: What the row has under `bbox`, `bbox_list` and `content`.
        where: File and row, for messages.

    Raises:
        DataError: The row does not have the boxes that its type needs.
    """
    kind, _, _ = category.rpartition(" ")
    if kind == "text grounding":
        return [json.dumps(_box(answers, where))]
    if kind == "VQA with position":
        box = _box(boxes.get("bbox", []), where)
        return [
            json.dumps({"answer": answer, "bbox": box}, ensure_ascii=False) for answer in answers
        ]
    if kind == "text spotting":
        polygons = [json.loads(text) for text in boxes.get("bbox_list", [])]
        # As the makers do, texts without a box are left out.
        pairs = zip(polygons, boxes.get("content", []), strict=False)
        spotted = [[*_enclosing_box(polygon), text] for polygon, text in pairs]
        if not spotted:
            raise DataError(f"{where}: bbox_list or content is empty; it needs texts and boxes")
        return [json.dumps(spotted, ensure_ascii=False)]
    if kind in FIELDS:
        return [correct_fields(answers[0]), answers[0]]
    return [answer for answer in answers if answer.strip()]


def _box(numbers: Sequence[str], where: str) -> list[int]:
    """Return four numbers in texts as a box. Raises DataError if there are fewer or more."""
    try:
        left, top, right, bottom = (int(float(number)) for number in numbers)
    except ValueError:
        raise DataError(f"{where}: {list(numbers)} is not a box of four whole numbers") from None
    return [left, top, right, bottom]


def _enclosing_box(corners: Sequence[int]) -> list[int]:
    """Return left, top, right and bottom of a polygon, whose corners are x and y in turns."""
    xs = corners[0::2]
    ys = corners[1::2]
    return [min(xs), min(ys), max(xs), max(ys)]
