"""Answers of MMLongBench-Doc by their format: Str, Int, Float, List or None (Ma et al., NeurIPS 2024, arXiv:2407.01523)."""

from __future__ import annotations

import math
import re
from typing import Any

from snellen.formats.listed_cells import python_literal
from snellen.metrics.declaration import share_row
from snellen.metrics.ocr import edit_distance
from snellen.metrics.questions import AskedQuestion
from snellen.records import Prediction
from snellen.suites.modern.metrics import ShareByRule

LEAST_LIKENESS = 0.5
"""A text counts for nothing unless it is more like the answer than this."""
RELATIVE_TOLERANCE = 0.01
DEFAULT_DECIMALS = 3
FEWEST_DECIMALS = 2
_EXACT_FORMS = tuple(
    re.compile(form)
    for form in (
        r"\d+([-\s]\d+)?",  # a telephone number
        r"\d{4}[-\s]\d{2}[-\s]\d{2}",  # a date
        r"\d{4}[-\s]\d{2}",  # a month
        r"[a-zA-Z0-9._%+-]+@[a-zA-Z0-9.-]+\.[a-zA-Z]{2,}",  # an e-mail address
    )
)


def bare_text(answer: Any) -> str:
    """Return an answer in lower case, without parts in brackets, one quotation mark on either side, `$` and `%`."""
    text = str(answer).lower().strip()
    text = re.sub(r"\s*\([^)]*\)", "", text).strip()
    text = re.sub(r"^['\"]|['\"]$", "", text).strip()
    return text.lstrip("$").strip().rstrip("%").strip()


def must_be_exact(text: str) -> bool:
    """Return whether an answer must be given exactly, because a similar text would be wrong.

    That is so for addresses, file names, times, pages, dates and numbers.
    """
    is_file = text.endswith((".py", "ipynb"))
    is_time = "a.m." in text or "p.m." in text
    if "https://" in text or is_file or is_time or text.startswith("page"):
        return True
    return any(form.fullmatch(text) for form in _EXACT_FORMS)


def likeness(answer: str, reply: str) -> float:
    """Return the similarity of two texts in [0, 1]: 1 - (edit distance / length of the longer text).

    A similarity of one half or less counts as 0. Two empty texts have the similarity 1.
    """
    longer = max(len(answer), len(reply))
    if longer == 0:
        return 1.0
    value = 1.0 - edit_distance(answer, reply) / longer
    return value if value > LEAST_LIKENESS else 0.0


def same_number(answer: float, reply: float) -> bool:
    """Return whether a number in a reply counts as the correct number.

    It does if it differs by at most 1%, or is equal after rounding. It may also be 100 times as large or small,
    because a share may be given in percent.
    """
    for wanted in (answer / 100, answer, answer * 100):
        if math.isclose(wanted, reply, rel_tol=RELATIVE_TOLERANCE):
            return True
        decimals = max(min(_decimals(reply), _decimals(wanted)), FEWEST_DECIMALS)
        if round(reply, decimals) == round(wanted, decimals):
            return True
    return False


def _decimals(number: float) -> int:
    _, point, digits = str(number).rpartition(".")
    return len(digits) if point else DEFAULT_DECIMALS


def document_score(answer: str, reply: str, answer_format: str) -> float:
    """Return the score of a reply in [0, 1], by a rule that depends on the format of the correct answer.

    The dataset has four answers with the format `Int` that are not whole numbers, such as "21%" and "yes". As in
    the makers' code, no reply to these is right.

    Args:
        answer: The correct answer.
        reply: The reply, or the answer that was extracted from it.
        answer_format: `Str`, `Int`, `Float` or `List`; `None` for a question that the document does not answer.

    Examples:
        >>> document_score("['White', '10%']", '["10%", "white"]', "List")
        1.0
    """
    if answer_format == "Int":
        whole_number = _whole_number(answer)
        return float(whole_number is not None and whole_number == _whole_number(reply))
    if answer_format == "Float":
        try:
            return float(same_number(float(bare_text(answer)), float(bare_text(reply))))
        except ValueError:
            return 0.0
    if answer_format == "List":
        return _list_score(_values(answer), _values(reply))
    return _text_score(bare_text(answer), bare_text(reply))


def _text_score(answer: str, reply: str) -> float:
    return float(answer == reply) if must_be_exact(answer) else likeness(answer, reply)


def _whole_number(reply: str) -> int | None:
    try:
        return int(float(reply))
    except (ValueError, OverflowError):
        return None


def _values(text: str) -> list[str]:
    """Return the values of a list as bare texts, in order; those of a text that is no list are the text itself."""
    values: Any = python_literal(text) if text.startswith("[") else None
    if not isinstance(values, list):
        values = [text]
    return sorted(map(bare_text, values))


def _list_score(answers: list[str], replies: list[str]) -> float:
    """Return the lowest score of a value. Lists of numbers or addresses have to be equal."""
    if len(answers) != len(replies):
        return 0.0
    if not answers:
        return 1.0
    try:
        float(answers[0])
        is_exact = True
    except ValueError:
        is_exact = must_be_exact(answers[0])
    if is_exact:
        return float("-".join(answers) == "-".join(replies))
    return min(likeness(*pair) for pair in zip(answers, replies, strict=True))


def document_right(question: AskedQuestion, prediction: Prediction) -> float:
    """The score of a reply by the format of its answer, which is a tag of the question."""
    reply = (prediction.text or "").strip()
    return document_score(
        question.reference_answers[0], reply, question.sample.tags.get("format", "Str")
    )


MMLONGBENCH_DOC = ShareByRule(
    description="MMLongBench-Doc: whole number, number, text or list, compared as its format demands (arXiv 2407.01523)",
    rows=(
        share_row("mmlongbench_doc", "MMLongBench-Doc", interval="linearised", unparsed="wrong"),
    ),
    compute=lambda sums: (sums[0] / sums[1],),
    per_question=("mmlongbench_doc",),
    rule=document_right,
)
