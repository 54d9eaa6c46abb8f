"""OCRBench v2: the types of questions that are scored without other programs, by the rule of each.

Source: Fu et al. (arXiv:2501.00321); Yuliang-Liu/MultimodalOCR (794c36d), OCRBench_v2/eval_scripts/eval.py,
vqa_metric.py and TEDS_metric.py.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Sequence
from typing import Any

from snellen.metrics.declaration import share_row
from snellen.metrics.ocr import edit_distance
from snellen.metrics.questions import AskedQuestion
from snellen.records import Prediction
from snellen.suites.modern.metrics import ShareByRule

HANDWRITTEN = "handwritten answer extraction cn"
"""OCRBench v2's type of question about letters of options in a filled-in answer sheet."""
FORMULA = "formula recognition"
COUNTING = "text counting"
FIELDS = ("key information extraction", "key information mapping")
"""Types of question that ask for the values of named fields."""
_TEXT_TAG = re.compile(r"\\text\{([^{}]*)\}")
_FENCE = re.compile(r"```(?:python|json)?\n(.*?)\n```", re.DOTALL | re.IGNORECASE)
_FIELD = re.compile(r"""([\w\s]++)["']?\s*[:=]\s*["']?([^\n,"'{}]+)""")
"""A field and its value in a reply that is no dictionary: `total: 12`."""


def ocrbench_v2_right(question: AskedQuestion, prediction: Prediction) -> float:
    """Return the score of a reply to a question of OCRBench v2, in [0, 1]: its best over the accepted answers.

    - Handwriting: one of the possible readings of the first answer must occur in the reply.
    - A formula must occur in the reply; blanks do not count.
    - A count must occur in the reply or, by `regression`, its distance counts (`_count_score`).
    - Named fields: the share of them whose value is right (`field_score`).
    - Multiple choice: the letters of the reply must be the answer.
    - Otherwise: a short answer must occur in the reply, a long one must have a small edit distance (`_text_score`).
    """
    tags = question.sample.tags
    category = tags.get("category", "")
    golds = question.reference_answers
    reply = prediction.text or ""
    form = tags.get("form")
    if category == HANDWRITTEN:
        return float(any(written in reply for written in _letters_written(golds[0])))
    if category.startswith(FORMULA):
        return _formula_score(reply, golds, in_chinese=category.endswith("cn"))
    if category.startswith(COUNTING):
        return max(_count_score(reply, gold, form or "") for gold in golds)
    if category.startswith(FIELDS):
        return field_score(reply, golds[0])
    if form == "multiple choice":
        letters = "".join(filter(str.isalpha, reply))
        return float(letters == golds[0])
    keeps_case = form == "case sensitive"
    # Chinese questions whose case counts are compared as English ones.
    is_chinese = category.endswith("cn") and not keeps_case

    def plain(text: str) -> str:
        text = text.strip().replace("\n", " ")
        if not keeps_case:
            text = text.lower()
        return text.replace(" ", "") if is_chinese else text

    return max(_text_score(plain(reply), plain(gold), is_chinese) for gold in golds)


def _formula_score(reply: str, golds: Sequence[str], *, in_chinese: bool) -> float:
    """Return 1 if one of the correct formulas occurs in the reply, and otherwise 0. Spaces are ignored.

    For Chinese questions, `\\text{}` around words is ignored, too.
    """

    def plain(formula: str) -> str:
        if in_chinese:
            formula = _TEXT_TAG.sub(r"\1", formula)
        return formula.strip().replace("\n", " ").replace(" ", "")

    return float(any(plain(gold) in plain(reply) for gold in golds))


def _count_score(reply: str, gold: str, form: str) -> float:
    """Return the score of a reply to a question such as "How often does the word occur?", in [0, 1].

    Args:
        reply: The reply.
        gold: The correct number.
        form: With `regression`, the first whole number n in the reply scores 1 - |n - correct| / correct, or 0 if
            that is at most 0.5. With any other form, the reply scores 1 if the correct number occurs in it as a
            text.
    """
    answer = gold.lower().strip().replace("\n", " ")
    if form != "regression":
        return float(answer in reply)
    first_number = re.search(r"\d+", reply)
    if first_number is None:
        return 0.0
    target = int(answer)
    count = int(first_number[0])
    if target == 0:  # which the official code divides by
        return float(count == 0)
    closeness = 1 - abs(count - target) / target
    return closeness if closeness > 0.5 else 0.0


def field_score(reply: str, gold: str) -> float:
    """Return the share of named fields, such as `total` of a receipt, whose value in a reply is correct, in [0, 1].

    Fields that only the reply has count as wrong, and so do fields that it lacks. Values are compared in lower case
    and without spaces. The answer may accept several values for a field.

    Args:
        reply: A dictionary in the notation of JSON or Python, possibly in a code block, or lines such as `total:
            12`.
        gold: The answer: a dictionary in either notation. Each value is a text or a list of accepted texts.

    Examples:
        >>> field_score('{"total": "12.00", "tax": "1"}', "{'total': ['12.00', '$12.00'], 'tax': '2'}")
        0.5
    """
    expected = _fields_of_answer(gold)
    given = _fields_of_reply(reply)
    names = expected.keys() | given.keys()
    n_right = 0
    n_fields = 0
    for name in names:
        accepted = expected.get(name, [])
        value = given.get(name)
        if value is None and accepted == [None]:
            continue
        n_fields += 1
        if value is not None:
            plain_values = [_plain_value(text) for text in accepted if text is not None]
            n_right += _plain_value(value) in plain_values
    return n_right / n_fields if n_fields else 0.0


def _plain_value(value: object) -> str:
    return str(value).lower().strip().replace("\n", " ").replace(" ", "")


def _fields_of_answer(gold: str) -> dict[str, list[Any]]:
    """Return the accepted values of each field of an answer; an empty dict if the answer is not a dictionary."""
    parsed = _literal(gold.strip('"'))
    if isinstance(parsed, str):
        parsed = _literal(parsed)
    if not isinstance(parsed, dict):
        return {}
    return {
        str(name): values if isinstance(values, list) else [values]
        for name, values in parsed.items()
    }


def _fields_of_reply(reply: str) -> dict[str, str]:
    """Return the fields that a reply names, with their values as texts; an empty dict if it names none."""
    fenced = _FENCE.search(reply)
    content = fenced[1] if fenced else reply.strip()
    parsed = _literal(content)
    if parsed is None:
        return {name.strip(): value.strip() for name, value in _FIELD.findall(content)}
    if not isinstance(parsed, dict) or not all(isinstance(name, str) for name in parsed):
        return {}
    return {name.strip(): str(value).strip() for name, value in parsed.items()}


def _literal(text: str) -> Any:
    """Parse a text as JSON, or else as a literal of Python, such as `{'a': 1}`; None if it is neither."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        pass
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return None


def _letters_written(letters: str) -> list[str]:
    """Return the ways in which a reply may write several option letters: `AC`, `A, C`, `A和C`."""
    between = ("", ".", ". ", ",", ", ", "、", ";", "; ", " ", "和")
    return [separator.join(letters) for separator in between]


def _text_score(reply: str, reference: str, chinese: bool) -> float:
    """Return how well a reply gives a text, in [0, 1], as the script of OCRBench v2 computes it.

    A short text must occur in the reply: 1 or 0. Short means fewer than 5 words, or in Chinese fewer than 4 parts
    between commas. For a longer text, the score is 1 - (edit distance / length of the longer text), or 0 if that is
    below 0.5.

    Args:
        reply: The reply.
        reference: The correct text.
        chinese: Whether the question is Chinese.
    """
    if chinese:
        is_short = len(reference.split(",")) < 4
    else:
        is_short = len(reference.split()) < 5
    if is_short:
        return float(reference in reply)
    longer_length = max(len(reply), len(reference))
    similarity = 1 - edit_distance(reply, reference) / longer_length
    return similarity if similarity >= 0.5 else 0.0


OCRBENCH_V2_TEXT = ShareByRule(
    description="OCRBench v2: the score of each type of question by its rule (arXiv 2501.00321)",
    rows=(share_row("ocrbench_v2_text", "OCRBench v2", interval="linearised", unparsed="wrong"),),
    compute=lambda sums: (sums[0] / sums[1],),
    per_question=("ocrbench_v2_text",),
    rule=ocrbench_v2_right,
)
