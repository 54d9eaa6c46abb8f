"""Boxes of texts in replies to questions of OCRBench v2, in coordinates from 0 to 1000."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from snellen.metrics.boxes import Corners, iou
from snellen.suites.modern.ocrbench_v2.fields import (
    fields_of_reply,
    parse_gold,
    parse_python_literal,
)
from snellen.suites.modern.ocrbench_v2.short_texts import text_score

_BOX = re.compile(r"[(\[]\s*(\d+)\s*,\s*(\d+)\s*,\s*(\d+)\s*,\s*(\d+)\s*[)\]]")
_BRACKETS = re.compile(r"[\[(]\s*([^\[\]()]*?)\s*[\])]")
_QUOTED = re.compile(r"\s*\"(.*)\"\s*")
_SIDE = 1000
IGNORED = "###"
"""The text of a box that cannot be read. It is not asked for, and what a reply finds there does not count."""
_MARKS = "!?.:,*\"()·[]/'"
"""Signs at the ends of a word that a reply may leave out (ICDAR)."""


class SpottedText(Struct, frozen=True):
    """A text and its box."""

    box: Corners
    text: str


# --- one box ----------------------------------------------------------------------------------------------------------


def grounding_score(reply: str, gold: str) -> float:
    """Return the intersection over union of the last box in a reply and the correct box, in [0, 1].

    Args:
        reply: The reply. A box is four whole numbers from 0 to 1000 in brackets.
        gold: The correct box: `[1, 2, 3, 4]`.

    Examples:
        >>> grounding_score("The text is at (0, 0, 10, 10).", "[0, 0, 10, 20]")
        0.5
    """
    boxes = []
    for match in _BOX.findall(reply):
        box = _corners(match)
        if box is not None and _is_in_image(box):
            boxes.append(box)
    return _overlap(boxes[-1], parse_gold(gold)) if boxes else 0.0


def position_score(reply: str, golds: Sequence[str]) -> float:
    """Return half the score of the answer plus half the overlap of its box, in [0, 1].

    Args:
        reply: A dictionary with the fields `answer` and `bbox`, in the notation of JSON or Python, or its fields by
            themselves.
        golds: The accepted answers, each as JSON: `{"answer": "Exit", "bbox": [1, 2, 3, 4]}`. All have the same box.

    Examples:
        >>> position_score('{"answer": "exit", "bbox": [0, 0, 10, 10]}', ['{"answer": "Exit", "bbox": [0, 0, 10, 20]}'])
        0.75
    """
    fields = fields_of_reply(reply)
    accepted = [parse_gold(gold) for gold in golds]
    score = 0.0
    if "answer" in fields:
        texts = [answer["answer"] for answer in accepted]
        score += text_score(fields["answer"], texts) / 2
    if "bbox" in fields:
        score += _overlap(parse_python_literal(fields["bbox"]), accepted[0]["bbox"]) / 2
    return score


def _overlap(given: Any, gold: Sequence[int]) -> float:
    """Return the intersection over union of what a reply gives as a box and the correct box; 0 if it is not a box."""
    box = _corners(given)
    gold_box = _corners(gold)
    if box is None or gold_box is None:
        return 0.0
    return iou(box, gold_box)


def _corners(numbers: Any) -> Corners | None:
    """Return the first four numbers of a sequence as whole numbers; None if there are fewer, or one is no number."""
    try:
        left, top, right, bottom, *_ = [int(number) for number in numbers]
    except (TypeError, ValueError, OverflowError):
        return None
    return left, top, right, bottom


def _is_in_image(box: Corners) -> bool:
    return all(0 <= coordinate <= _SIDE for coordinate in box)


# --- all texts of an image --------------------------------------------------------------------------------------------


def spotting_score(reply: str, gold: str) -> float:
    """Return the F1 of the texts that a reply finds with their boxes, in [0, 1] (ICDAR 2015, task 4.4, end to end).

    Each text takes the first free box of the reply whose intersection over union is above 0.5; it is found if the
    reply also gives the text, in upper or lower case, with or without a mark at its ends. Texts that cannot be read do
    not count, nor do boxes of which more than half is on one.

    Args:
        reply: A list such as `[(x1, y1, x2, y2, text), ...]`. Boxes beyond 0 to 1000 or without an area are left out.
        gold: The correct texts as JSON: `[[x1, y1, x2, y2, "text"], ...]`.

    Examples:
        >>> spotting_score('[(0, 0, 10, 10, "open"), (50, 0, 60, 10, "sale")]', '[[0, 0, 10, 11, "OPEN!"]]')
        0.6666666666666666
    """
    wanted = [
        SpottedText((left, top, right, bottom), _unquoted(text))
        for left, top, right, bottom, text in parse_gold(gold)
    ]
    readable = [spotted for spotted in wanted if spotted.text != IGNORED]
    unreadable = [spotted.box for spotted in wanted if spotted.text == IGNORED]
    counted = []
    for spotted in read_spotted_texts(reply):
        if not any(_share_within(spotted.box, box) > 0.5 for box in unreadable):
            counted.append(spotted)

    n_found = 0
    free = list(counted)
    for spotted in readable:
        match = next((other for other in free if iou(spotted.box, other.box) > 0.5), None)
        if match is not None:
            free.remove(match)
            n_found += _is_same_word(match.text, spotted.text)
    return 2 * n_found / (len(readable) + len(counted)) if n_found else 0.0


def read_spotted_texts(reply: str) -> list[SpottedText]:
    """Return the texts with boxes in a reply, each once; boxes beyond the image or without an area are left out.

    Examples:
        >>> read_spotted_texts("Here: (1, 2, 30, 40, Exit), (1, 2, 3)")
        [SpottedText(box=(1, 2, 30, 40), text='Exit')]
    """
    content = parse_python_literal(reply)
    if content is None:
        items: list[Any] = [item.split(",", 4) for item in _BRACKETS.findall(reply)]
    elif isinstance(content, (list, tuple)):
        items = [item for item in content if isinstance(item, (list, tuple))]
    else:
        items = []
    found: dict[SpottedText, None] = {}
    for item in items:
        box = _corners([str(number).strip() for number in item[:4]])
        if len(item) < 5 or box is None or not _is_in_image(box):
            continue
        left, top, right, bottom = box
        text = str(item[4]).replace("\n", "").strip().strip('"').strip("'")
        if left < right and top < bottom:
            found[SpottedText(box, text)] = None
    return [SpottedText(spotted.box, _unquoted(spotted.text)) for spotted in found]


def _unquoted(text: str) -> str:
    """Return a text without the quotation marks around it, as ICDAR's files of texts are read."""
    text = text.replace("\r", "")
    quoted = _QUOTED.fullmatch(text)
    return quoted[1].replace("\\\\", "\\").replace('\\"', '"') if quoted else text


def _share_within(box: Corners, other: Corners) -> float:
    """Return the share of the area of a box that another box covers."""
    width = min(box[2], other[2]) - max(box[0], other[0])
    height = min(box[3], other[3]) - max(box[1], other[1])
    area = (box[2] - box[0]) * (box[3] - box[1])
    return max(width, 0) * max(height, 0) / area


def _is_same_word(reply: str, gold: str) -> bool:
    """Return whether two words are the same, but for their case and one mark at either end of the correct one."""
    reply = reply.upper()
    gold = gold.upper()
    accepted = {gold}
    if gold[:1] in _MARKS:
        accepted.add(gold[1:])
    if gold[-1:] in _MARKS:
        accepted.add(gold[:-1])
        if gold[:1] in _MARKS:
            accepted.add(gold[1:-1])
    return reply in accepted
