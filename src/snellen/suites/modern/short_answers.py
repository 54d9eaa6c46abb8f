"""Metrics for short answers whose form the question asks for: VLMs Are Blind, VLMs Are Biased, ZeroBench and DynaMath.

VLMs Are Blind (Rahmanzadehgervi et al., ACCV 2024, arXiv:2407.06581) asks for an answer in braces. VLMs Are Biased
(Vo et al., arXiv:2505.23941) compares the answer with the truth and with what a model expects to see. ZeroBench
(Roberts et al., arXiv:2502.09696) asks for reasoning and the final answer in braces.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence

from snellen.metrics.declaration import reply_metric, share_row
from snellen.metrics.questions import AskedQuestion
from snellen.metrics.vqa import typed_match
from snellen.records import Prediction
from snellen.suites.modern.metrics import ShareByRule

GRIDS = "counting grid"
TOUCHING = "touching circles"
LETTER = "circled letter"
_WORDS_AND_MARKS = re.compile(r"\w+|[^\w\s]")
_NUMBER = re.compile(r"\{?(\d+)\}?")
_ONE_LETTER = re.compile(r"\{?([a-z])\}?")
_BRACED = re.compile(r"\{(.*?)\}")
_ROWS_AND_COLUMNS = (
    re.compile(r"\{(\d+)\}\s*\{(\d+)\}"),
    re.compile(r"\((\d+)\s*,\s*(\d+)\)"),
    re.compile(r"rows=\{(\d+)\}\scolumns=\{(\d+)\}"),
)


def blind_answer(reply: str, task: str) -> str | None:
    """Return the answer in a reply to a question of VLMs Are Blind, in lower case.

    Args:
        reply: The reply.
        task: The task. For touching circles, the whole reply must be `yes` or `no`. For grids, rows and columns are
            returned as `4,5`. For the circled letter, the first single letter is returned, and for any other task
            the first number.

    Returns:
        The answer; None if the reply has none of this form.
    """
    reply, task = reply.strip().lower(), task.lower()
    if task == TOUCHING:
        return reply if reply in ("yes", "no") else None
    if task == LETTER:
        match = _ONE_LETTER.search(reply)
        return match[1] if match else None
    if task.startswith(GRIDS):
        for pattern in _ROWS_AND_COLUMNS:
            match = pattern.search(reply)
            if match:
                return f"{match[1]},{match[2]}"
        return None
    match = _NUMBER.search(reply)
    return match[1] if match else None


def blind_right(question: AskedQuestion, prediction: Prediction) -> float:
    """Return 1 if the reply, or the answer found in it, is the ground truth, and otherwise 0. Case is ignored."""
    reply = (prediction.text or "").strip().lower()
    truth = question.reference_answers[0].strip().lower()
    if reply == truth:
        return 1.0
    return float(blind_answer(reply, question.sample.tags.get("task", "")) == truth)


@reply_metric(
    unit="share",
    title="ZeroBench",
    interval="mean",
    limit="an answer that is not in braces is not read",
)
def zerobench(reply: str, references: Sequence[str]) -> float:
    """1 if the last text in braces of a reply holds the ground truth, in lower case, else 0.

    A reply without braces is wrong, so that the prompt has to ask for them. This is the rule of VLMEvalKit (e8e78f05,
    vlmeval/dataset/image_vqa.py, ZEROBench); the makers' own code was not read.
    """
    in_braces = _BRACED.findall(reply.lower())
    if not in_braces:
        return 0.0
    return float(references[0].strip().lower() in in_braces[-1])


@reply_metric(unit="share", title="WebSRC F1")
def websrc_f1(reply: str, references: Sequence[str]) -> float:
    """F1 of the words and punctuation marks of a reply against those of the answer, in [0, 1] (lmms-eval's WebSRC).

    How often a word occurs does not count.
    """
    reply_parts = set(_WORDS_AND_MARKS.findall(reply.lower()))
    answer_parts = set(_WORDS_AND_MARKS.findall(references[0].lower()))
    n_common = len(reply_parts & answer_parts)
    if not n_common:
        return 0.0
    return 2 * n_common / (len(reply_parts) + len(answer_parts))


def _bare(text: str) -> str:
    return text.strip().lower().strip("{}").strip()


def _equal_or_same_digits(reply: str, answer: str) -> bool:
    """Return whether two answers are equal, or have the same digits in the same order."""
    if reply == answer:
        return True
    reply_digits = "".join(filter(str.isdigit, reply))
    answer_digits = "".join(filter(str.isdigit, answer))
    return bool(reply_digits and answer_digits) and reply_digits == answer_digits


def biased_right(question: AskedQuestion, prediction: Prediction) -> float:
    """1 if the reply, without braces, is the ground truth, or has its digits."""
    return float(
        _equal_or_same_digits(_bare(prediction.text or ""), _bare(question.reference_answers[0]))
    )


BLIND = ShareByRule(
    description="VLMs Are Blind: the answer in the form that the task asks for is the ground truth (arXiv 2407.06581)",
    rows=(share_row("vlmsareblind", "VLMs Are Blind", interval="linearised", unparsed="wrong"),),
    compute=lambda sums: (sums[0] / sums[1],),
    per_question=("vlmsareblind",),
    rule=blind_right,
)
BIASED = ShareByRule(
    description="VLMs Are Biased: the reply is the ground truth or has its digits (arXiv 2505.23941)",
    rows=(
        share_row("vlms_are_biased", "VLMs Are Biased", interval="linearised", unparsed="wrong"),
    ),
    compute=lambda sums: (sums[0] / sums[1],),
    per_question=("vlms_are_biased",),
    rule=biased_right,
)


# --- DynaMath --------------------------------------------------------------------------------------------------------

DYNAMATH_SLACK = 0.001


def dynamath_kind(gold: str) -> str:
    """Return the kind of a ground truth of DynaMath: `float`, `multiple choice` (a letter) or `text`.

    Examples:
        >>> dynamath_kind("1.5"), dynamath_kind("B"), dynamath_kind("even")
        ('float', 'multiple choice', 'text')
    """
    if _float_or_none(gold) is not None:
        return "float"
    return "multiple choice" if re.fullmatch(r"\s*[A-Z]\s*", gold) else "text"


def dynamath_short_answer(reply: str) -> str | None:
    """Return the `short answer` in the JSON object that DynaMath's prompt asks for; None if the reply has none.

    Backslashes of formulas may stand alone, and text may stand around the object.

    Examples:
        >>> dynamath_short_answer('{"solution": "Half of 3.", "short answer": 1.5}')
        '1.5'
    """
    start = reply.find("{")
    end = reply.rfind("}") + 1
    text = reply[start:end] if start >= 0 else ""
    for candidate in (text, text.replace("\\", "")):
        try:
            fields = json.loads(candidate, strict=False)
        except (json.JSONDecodeError, RecursionError):
            continue
        if isinstance(fields, dict) and "short answer" in fields:
            return str(fields["short answer"])
        return None
    return None


@reply_metric(unit="share", title="DynaMath", interval="mean")
def dynamath(reply: str, references: Sequence[str]) -> float:
    """1 if the short answer in a reply agrees with the ground truth by DynaMath's rule (arXiv 2411.00836).

    A number may differ by 0.001, and `2π` is a number. A letter is the short answer or among its first three signs. A
    text occurs in the short answer. Source: evaluation/gpt4o/gpt_4o_json_eval.py of DynaMath/DynaMath (598c3c3). A reply
    without such JSON, which the makers count as wrong, is compared as `typed_match` compares it.
    """
    gold = references[0]
    answer = dynamath_short_answer(reply)
    if answer is None:
        return typed_match(reply, references)
    match dynamath_kind(gold):
        case "float":
            number = _dynamath_number(answer)
            return float(number is not None and abs(number - float(gold)) <= DYNAMATH_SLACK)
        case "multiple choice":
            return float(gold in answer[:3] if len(answer) > 1 else gold == answer)
        case _:
            return float(gold in answer)


def _dynamath_number(answer: str) -> float | None:
    """Return the number at the beginning of an answer: `1.5 cm` is 1.5, and `2π` is twice pi."""
    first_word = answer.split(" ")[0]
    before_pi, pi, _ = first_word.partition("π")
    number = _float_or_none(before_pi)
    return number * math.pi if number is not None and pi else number


def _float_or_none(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
