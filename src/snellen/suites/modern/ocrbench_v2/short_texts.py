"""Short answers, formulas, counts and letters in replies to questions of OCRBench v2."""

from __future__ import annotations

import re
from collections.abc import Sequence

from snellen.metrics.ocr import edit_distance

_TEXT_TAG = re.compile(r"\\text\{([^{}]*)\}")
_SHORT_WORDS = 5
"""A text with fewer words is short."""
_SHORT_PARTS = 4
"""A Chinese text with fewer parts between commas is short."""


def text_score(
    reply: str, golds: Sequence[str], *, in_chinese: bool = False, keeps_case: bool = False
) -> float:
    """Return how well a reply gives one of several texts, in [0, 1].

    A short text must occur in the reply: 1 or 0. Short means fewer than 5 words, or in Chinese fewer than 4 parts
    between commas. For a longer text, the score is 1 - (edit distance / length of the longer text), or 0 if that is
    below 0.5.

    Args:
        reply: The reply.
        golds: The accepted texts.
        in_chinese: Whether the question is Chinese. Then spaces are ignored.
        keeps_case: Whether upper and lower case differ.

    Examples:
        >>> text_score("It says Open.", ["open", "shop"])
        1.0
    """

    def plain(text: str) -> str:
        text = text.strip().replace("\n", " ")
        if not keeps_case:
            text = text.lower()
        return text.replace(" ", "") if in_chinese else text

    return max(_score_of_text(plain(reply), plain(gold), in_chinese) for gold in golds)


def _score_of_text(reply: str, reference: str, in_chinese: bool) -> float:
    if in_chinese:
        is_short = len(reference.split(",")) < _SHORT_PARTS
    else:
        is_short = len(reference.split()) < _SHORT_WORDS
    if is_short:
        return float(reference in reply)
    longer_length = max(len(reply), len(reference))
    similarity = 1 - edit_distance(reply, reference) / longer_length
    return similarity if similarity >= 0.5 else 0.0


def formula_score(reply: str, golds: Sequence[str], *, in_chinese: bool = False) -> float:
    """Return 1 if one of the correct formulas occurs in the reply, and otherwise 0. Spaces are ignored.

    For Chinese questions, `\\text{}` around words is ignored, too.

    Examples:
        >>> formula_score("$x^{2}$", ["x ^ { 2 }"])
        1.0
    """

    def plain(formula: str) -> str:
        if in_chinese:
            formula = _TEXT_TAG.sub(r"\1", formula)
        return formula.strip().replace("\n", " ").replace(" ", "")

    return float(any(plain(gold) in plain(reply) for gold in golds))


def count_score(reply: str, gold: str, form: str) -> float:
    """Return the score of a reply to a question such as "How often does the word occur?", in [0, 1].

    Args:
        reply: The reply.
        gold: The correct number.
        form: With `regression`, the first whole number n in the reply scores 1 - |n - correct| / correct, or 0 if
            that is at most 0.5. With any other form, the reply scores 1 if the correct number occurs in it as a
            text.

    Examples:
        >>> count_score("There are 5.", "4", "regression")
        0.75
    """
    answer = gold.lower().strip().replace("\n", " ")
    if form != "regression":
        return float(answer in reply)
    first_number = re.search(r"\d+", reply)
    if first_number is None:
        return 0.0
    target = int(answer)
    count = float(first_number[0])  # infinite for a digit that is repeated without end
    if target == 0:  # which the official code divides by
        return float(count == 0)
    closeness = 1 - abs(count - target) / target
    return closeness if closeness > 0.5 else 0.0


def choice_score(reply: str, gold: str) -> float:
    """Return 1 if the letters in a reply are the correct option, and otherwise 0: `(B).` is B, `It is B` is not.

    Examples:
        >>> choice_score("(B).", "B"), choice_score("It is B", "B")
        (1.0, 0.0)
    """
    letters = "".join(filter(str.isalpha, reply))
    return float(letters == gold)


def written_letters_score(reply: str, gold: str) -> float:
    """Return 1 if option letters written by hand occur in the reply in one of ten forms: `AC`, `A, C`, `A和C`; else 0.

    Examples:
        >>> written_letters_score("A、C", "AC"), written_letters_score("C, A", "AC")
        (1.0, 0.0)
    """
    between = ("", ".", ". ", ",", ", ", "、", ";", "; ", " ", "和")
    return float(any(separator.join(gold) in reply for separator in between))
