"""Distractors written by a model: the prompts, and which proposals in a reply are usable. Pure."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Sequence
from functools import cache
from importlib.resources import files

import msgspec
from msgspec import Struct

from snellen.common.drafts import QuestionDraft
from snellen.reformulation.answer_equality import same_answer
from snellen.reformulation.distractors import SameAnswer, rejection_reason

ATTEMPTS = 3
_NUMBERS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
_LEAD = re.compile(
    r"^\s*(?:[-*•·–]|\(?(?:\d{1,2}|[A-Za-z])[.):]|(?:incorrect )?option\s+\w{1,2}\s*[.):])\s+",
    re.IGNORECASE,
)
_LABEL = re.compile(
    r"^\s*(?:(?:counterfactual|incorrect|additional|wrong) )*(?:rationale|option|answer|choice)s?\s*\w{0,2}\s*:\s*",
    re.IGNORECASE,
)
_THOUGHT = re.compile(r"<think(?:ing)?>.*?(?:</think(?:ing)?>|\Z)", re.DOTALL | re.IGNORECASE)


class WriterPrompts(Struct, frozen=True, forbid_unknown_fields=True):
    version: str
    reminder: str
    options: str
    rationales: str
    dialogue: str


@cache
def writer_prompts() -> WriterPrompts:
    text = files("snellen.reformulation").joinpath("distractor_prompts.toml").read_text("utf-8")
    return msgspec.convert(tomllib.loads(text), WriterPrompts)


def request_text(question: QuestionDraft, count: int, attempt: int = 0) -> str:
    """The prompt for `count` distractors; from the second attempt on with a reminder of the format.

    Under the prompt `rationales` the gold is the rationale, and `spec.rationale` the answer that it explains.
    """
    spec, prompts = question.distractors, writer_prompts()
    kind = spec.prompt if spec else ""
    if spec is None or not kind:
        raise ValueError("the question wants no distractors written")
    gold = question.texts[0]
    text = (
        getattr(prompts, kind)
        .strip("\n")
        .format(
            number=_NUMBERS[count] if count < len(_NUMBERS) else str(count),
            figure=count,
            question=spec.question or question.question,
            answer=spec.rationale if kind == "rationales" else gold,
            rationale=gold,
        )
    )
    return str(text) + (prompts.reminder.format(figure=count) * bool(attempt))


def parse_proposals(reply: str) -> list[str]:
    """The options listed in a reply: one per line, a JSON list, or one line separated by semicolons or commas."""
    text = _THOUGHT.sub("", reply).strip().strip("`")
    listed = _json_list(text)
    if listed is None:
        lines = [line for line in text.splitlines() if line.strip()]
        marked = [line for line in lines if _LEAD.match(line) or _LABEL.match(line)]
        listed = marked if len(marked) > 1 else lines
        if len(listed) == 1:
            listed = re.split(r"[;,]\s+(?:and |or )?", listed[0])
    return [option for line in listed if (option := _bare(line)) and not option.endswith(":")]


def _json_list(text: str) -> list[str] | None:
    start, end = text.find("["), text.rfind("]")
    if start < 0 or end < start:
        return None
    try:
        listed = json.loads(text[start : end + 1])
    except ValueError:
        return None
    return [str(item) for item in listed] if isinstance(listed, list) else None


def _bare(line: str) -> str:
    """The option without number, label, emphasis and quotes."""
    text = _LABEL.sub("", _LEAD.sub("", line))
    return text.strip().strip("*").strip().strip("\"“”'‘’`").strip()


def usable_proposals(
    reply: str,
    question: QuestionDraft,
    earlier: Sequence[str],
    rejected: dict[str, int],
    is_same: SameAnswer = same_answer,
) -> list[str]:
    """The proposals in a reply that fit beside the gold and the `earlier` ones; `rejected` counts the others."""
    chosen = list(earlier)
    avoid = question.distractors.also_right if question.distractors else ()
    for option in parse_proposals(reply):
        if reason := rejection_reason(option, question.texts, avoid, chosen, is_same):
            rejected[reason] = rejected.get(reason, 0) + 1
        else:
            chosen.append(option)
    return chosen[len(earlier) :]
