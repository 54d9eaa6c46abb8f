"""Distractors that a model writes: the prompts, and the usable proposals in a reply."""

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
"""Times that a model is asked for the distractors of a question, until it has written enough."""
_NUMBER_WORDS = (
    "zero",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
)
_ITEM_NUMBER = re.compile(
    r"^\s*(?:[-*•·–]|\(?(?:\d{1,2}|[A-Za-z])[.):]|(?:incorrect )?option\s+\w{1,2}\s*[.):])\s+",
    re.IGNORECASE,
)
"""What begins an item of a list: a bullet, a number or letter ("2."), or "Option 2:"."""
_ITEM_LABEL = re.compile(
    r"^\s*(?:(?:counterfactual|incorrect|additional|wrong) )*(?:rationale|option|answer|choice)s?\s*\w{0,2}\s*:\s*",
    re.IGNORECASE,
)
"""What a model may write before an option: "Answer:", "Counterfactual rationale 2:"."""
_REASONING = re.compile(r"<think(?:ing)?>.*?(?:</think(?:ing)?>|\Z)", re.DOTALL | re.IGNORECASE)


class WriterPrompts(Struct, frozen=True, forbid_unknown_fields=True):
    """Prompts of `distractor_prompts.toml`, and their version."""

    version: str
    reminder: str
    options: str
    rationales: str
    dialogue: str


@cache
def writer_prompts() -> WriterPrompts:
    """Return the prompts that ask a model for distractors."""
    text = files("snellen.reformulation").joinpath("distractor_prompts.toml").read_text("utf-8")
    return msgspec.convert(tomllib.loads(text), WriterPrompts)


def request_text(question: QuestionDraft, count: int, attempt: int = 0) -> str:
    """Return the prompt that asks a model for wrong options (distractors), with a reminder of the format if repeated.

    With the prompt `rationales`, the options are explanations. The answer text of the question is the correct
    explanation, and `spec.rationale` the answer that it explains.

    Args:
        question: The question, with a specification that names a prompt.
        count: Number of distractors.
        attempt: Number of earlier attempts.

    Raises:
        ValueError: No distractors are to be written for the question.
    """
    spec = question.distractors
    if spec is None or not spec.prompt:
        raise ValueError("the question wants no distractors written")
    prompts = writer_prompts()
    template: str = getattr(prompts, spec.prompt).strip("\n")
    gold = question.texts[0]
    number = _NUMBER_WORDS[count] if count < len(_NUMBER_WORDS) else str(count)
    explained_answer = spec.rationale if spec.prompt == "rationales" else gold
    text = template.format(
        number=number,
        figure=count,
        question=spec.question or question.question,
        answer=explained_answer,
        rationale=gold,
    )
    if attempt:
        text += prompts.reminder.format(figure=count)
    return text


def parse_proposals(reply: str) -> list[str]:
    """Return the options in a reply: one per line, a JSON list, or one line separated by semicolons or commas."""
    text = _REASONING.sub("", reply).strip().strip("`")
    items = _json_list(text)
    if items is None:
        items = _listed_lines(text)
    options = [_without_decoration(item) for item in items]
    # What ends in a colon introduces the list.
    return [option for option in options if option and not option.endswith(":")]


def _listed_lines(text: str) -> list[str]:
    """Return the lines that begin like items of a list, if there are several; else all lines, or parts of the only one."""
    lines = [line for line in text.splitlines() if line.strip()]
    items = [line for line in lines if _ITEM_NUMBER.match(line) or _ITEM_LABEL.match(line)]
    if len(items) > 1:
        return items
    if len(lines) == 1:
        return re.split(r"[;,]\s+(?:and |or )?", lines[0])
    return lines


def _json_list(text: str) -> list[str] | None:
    """Return the items of the JSON list in a text; None if there is none."""
    start = text.find("[")
    end = text.rfind("]")
    if start < 0 or end < start:
        return None
    try:
        items = json.loads(text[start : end + 1])
    except ValueError:
        return None
    if not isinstance(items, list):
        return None
    return [str(item) for item in items]


def _without_decoration(line: str) -> str:
    """Return an option without number, label, emphasis and quotes."""
    without_number = _ITEM_NUMBER.sub("", line)
    text = _ITEM_LABEL.sub("", without_number).strip()
    text = text.strip("*").strip()
    return text.strip("\"“”'‘’`").strip()


def usable_proposals(
    reply: str,
    question: QuestionDraft,
    earlier: Sequence[str],
    rejected: dict[str, int],
    is_same: SameAnswer = same_answer,
) -> list[str]:
    """Return the wrong options in a model's reply that can be used besides the `earlier` ones; empty if none can.

    The other options in the reply are counted in `rejected`, by reason; the mapping is changed in place.
    """
    new_options: list[str] = []
    also_right = question.distractors.also_right if question.distractors else ()
    for option in parse_proposals(reply):
        chosen = [*earlier, *new_options]
        reason = rejection_reason(option, question.texts, also_right, chosen, is_same)
        if reason:
            rejected[reason] = rejected.get(reason, 0) + 1
        else:
            new_options.append(option)
    return new_options
