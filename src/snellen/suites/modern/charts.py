"""ChartQAPro's score: years exactly, other numbers to within 5%, texts by ANLS, lists item by item.

Source: Masry et al., ChartQAPro (ACL 2025, arXiv:2504.05506); vis-nlp/ChartQAPro (4b422c6), evaluate_predictions.py.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Sequence

from snellen.metrics.declaration import share_row
from snellen.metrics.ocr import anls
from snellen.metrics.questions import AskedQuestion
from snellen.records import Prediction
from snellen.suites.modern.metrics import ShareByRule

YEARS = "years"
"""The tag of an answer that says of each of its items whether it is a year: a JSON list of YES and NO."""
TOLERANCE = 0.05  # share of the ground truth
_LONGEST_LIST = 2000
"""Characters. A longer reply is no list of short answers, and a parser could need much memory for it."""
_BRACKETED = re.compile(r"\s*\[(.*)\]\s*")
_BARE_WORD = re.compile(r"(?<!['\w])\w[\w']*")
"""A word with no single quote before it."""


def chartqapro_score(reply: str, truth: str, years: Sequence[str] = ()) -> float:
    """Return the score of a reply by the rule of ChartQAPro, in [0, 1].

    The reply and the ground truth may be lists: `['12', 'Oslo']`. Items are compared in their order, and the score is
    the mean over the longer list, so that a missing item and one too many count as wrong. An item that is a year has
    to be the same text. Other items are numbers, which may be off by 5% and have a percent sign, or texts, which are
    compared by ANLS.

    Args:
        reply: The reply, as received.
        truth: The ground truth.
        years: Whether each item of the truth is a year, `YES` or `NO`. One flag for a list counts for all its items.

    Examples:
        >>> chartqapro_score("2015", "2016", ["YES"])
        0.0
        >>> chartqapro_score("[10, Oslo]", "['10.2', 'Oslo']", ["NO"])
        0.0
        >>> chartqapro_score("['10', 'Oslo']", "['10.2', 'Oslo']", ["NO"])
        1.0
    """
    truth = _without_full_stop(truth)
    reply = _without_full_stop(reply)
    expected = _truth_items(truth) or [truth]
    given = _items(reply) or [reply]
    flags = list(years)
    if flags and len(flags) < len(expected):
        flags = flags * len(expected)

    scores: list[float] = []
    for place in range(min(len(expected), len(given))):
        is_year = place < len(flags) and flags[place].upper() == "YES"
        if is_year:
            same = expected[place].strip().lower() == given[place].strip().lower()
            scores.append(float(same))
        else:
            scores.append(_item_score(given[place], expected[place]))
    return sum(scores) / max(len(expected), len(given))


def _without_full_stop(text: str) -> str:
    return text.strip(".").strip("\n")


def _items(text: str) -> list[str] | None:
    """Return the items of a text such as `['a', 'b']`, a list in Python's notation; None if the text is no such list."""
    if len(text) > _LONGEST_LIST:
        return None
    try:
        parsed = ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return None
    if not isinstance(parsed, list):
        return None
    return [str(item).strip(" '") for item in parsed]


def _truth_items(truth: str) -> list[str] | None:
    """Return the items of a ground truth that is written as a list, with or without quotes around its items.

    As in the makers' code, quotes are added around each word that has none: `[cat, dog]` has the items `cat` and
    `dog`. Two quirks of that code are kept. An item of several words loses its spaces (`[New York]` gives
    `NewYork`), and words in double quotes get single quotes, too, which stay part of the item.

    Returns:
        The items; None if the text is not a list.
    """
    bracketed = _BRACKETED.fullmatch(truth)
    if bracketed:
        quoted = _BARE_WORD.sub(r"'\g<0>'", bracketed[1])
        items = _items(f"[{quoted}]")
        if items is not None:
            return items
    return _items(truth)


def _item_score(given: str, expected: str) -> float:
    """Return the score of one item of a reply in [0, 1].

    Two numbers give 1 if they differ by at most 5% of the expected one, and otherwise 0. For any other pair of
    texts, the score is ANLS, a similarity by edit distance. A percent sign at the end is ignored.
    """
    given = given.strip().strip("%").strip()
    expected = expected.strip().strip("%").strip()
    number = _number(given)
    target = _number(expected)
    if number is None or target is None:
        return anls(given, [expected])
    if target == 0:
        return float(number == 0)
    return float(abs(number - target) / abs(target) <= TOLERANCE)


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def chartqapro_right(question: AskedQuestion, prediction: Prediction) -> float:
    """Return the score of a reply to a question of ChartQAPro, in [0, 1].

    Which of its expected items are years, and so must match exactly, is stored with the answer. In a conversation
    only the last question is asked, so only its mark is used.
    """
    tags = question.answer.tags if question.answer else {}
    years = json.loads(tags.get(YEARS) or "[]")
    if question.sample.tags.get("kind") == "Conversational":
        # Of a conversation the last question is asked.
        years = years[-1:]
    return chartqapro_score(prediction.text or "", question.reference_answers[0], years)


CHARTQAPRO = ShareByRule(
    description="ChartQAPro: years exactly, numbers to within 5%, texts by ANLS, lists item by item (arXiv 2504.05506)",
    rows=(share_row("chartqapro", "ChartQAPro", interval="linearised", unparsed="wrong"),),
    compute=lambda sums: (sums[0] / sums[1],),
    per_question=("chartqapro",),
    rule=chartqapro_right,
)
