"""ReMI's score: answers of 13 tasks about several images, each compared as its task asks (Kazemi et al., arXiv:2406.09175)."""

from __future__ import annotations

import msgspec

from snellen.formats.json_files import JSON_FAULTS
from snellen.metrics.declaration import share_row
from snellen.metrics.questions import AskedQuestion
from snellen.records import Prediction
from snellen.suites.modern.metrics import ShareByRule

MARKED_OBJECTS = "RefCoco"
GEOMETRY = ("GeomShape", "GeomCost")
CLOCKS = "Clocks"
FUNCTIONS = ("f", "g", "h")
GEOMETRY_SLACK = 0.03  # share of the label
NUMBER_SLACK = 0.01  # share of the label
CLOCK_SLACK = 10.0  # minutes


class _Explained(msgspec.Struct):
    """The reply that the makers ask for."""

    answer: msgspec.Raw


def remi_answer(reply: str) -> str | None:
    """Return the answer in a reply to a question of ReMI, in lower case and up to a percent sign.

    The prompt asks for a JSON object with the field `answer`. If the reply has no braces, the whole reply is the
    answer; the makers of the benchmark count such a reply as wrong.

    Args:
        reply: The reply.

    Returns:
        The answer; None if the reply has braces, but no such object.

    Examples:
        >>> remi_answer('{"explanation": "Two and three.", "answer": 5}')
        '5'
        >>> remi_answer("25% of them")
        '25'
    """
    start, end = reply.find("{"), reply.rfind("}")
    if start < 0 and end < 0:
        return _before_percent(reply)
    # LaTeX in the explanation would make the JSON invalid.
    text = reply[max(start, 0) : end + 1].replace('\\"', "").replace("\\", "")
    try:
        written = msgspec.json.decode(text, type=_Explained).answer
        answer = msgspec.json.decode(written)
    except JSON_FAULTS:
        return None
    return _before_percent(str(answer))


def _before_percent(text: str) -> str:
    return text.lower().split("%")[0].strip()


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _is_close(answer: str, label: str, slack: float) -> bool:
    """Return whether a number differs from the correct one by at most a share of it, such as 0.05 for 5%.

    False if one of the texts is not a number.
    """
    number = _number(answer)
    correct_number = _number(label)
    if number is None or correct_number is None:
        return False
    return (1 - slack) * correct_number <= number <= (1 + slack) * correct_number


def _equals_label(answer: str, label: str) -> bool:
    """Return whether an answer equals the label, up to blanks, brackets, `(x)` after a function's name, or one percent."""
    if answer == label:
        return True
    number, wanted = _number(answer), _number(label)
    if number is not None and number == wanted:
        return True
    if label in FUNCTIONS and answer == f"{label}(x)":
        return True
    if f"({answer})" == label or f"({label})" == answer:
        return True
    if answer.replace(" ", "") == label or label.replace(" ", "") == answer:
        return True
    return _is_close(answer, label, NUMBER_SLACK)


def remi_right(question: AskedQuestion, prediction: Prediction) -> float:
    """Return 1 if the answer in a reply is right by the rule of its task."""
    answer = remi_answer(prediction.text or "")
    if answer is None:
        return 0.0
    labels = [_before_percent(gold.replace("\\", "")) for gold in question.reference_answers]
    task = question.sample.tags.get("task", "")
    if task == MARKED_OBJECTS:
        return float(answer in labels)
    return float(any(_is_right(task, answer, label) for label in labels))


def _is_right(task: str, answer: str, label: str) -> bool:
    """Return whether an answer agrees with one accepted label by the rule of a task."""
    if task in GEOMETRY:
        return _is_close(answer, label, GEOMETRY_SLACK)
    if task == CLOCKS:
        number, correct_number = _number(answer), _number(label)
        if number is None or correct_number is None:
            return False
        return abs(number - correct_number) <= CLOCK_SLACK
    return _equals_label(answer, label)


REMI = ShareByRule(
    description="ReMI: the answer in the reply is right by the rule of its task (arXiv 2406.09175)",
    rows=(share_row("remi", "ReMI", interval="linearised", unparsed="wrong"),),
    compute=lambda sums: (sums[0] / sums[1],),
    per_question=("remi",),
    rule=remi_right,
)
