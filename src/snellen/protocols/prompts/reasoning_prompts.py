"""What Questioner and Reasoner are told in reasoning over several rounds: texts with slots, under a version."""

from __future__ import annotations

import hashlib
import tomllib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

import msgspec
from msgspec import Struct

from snellen import registry
from snellen.errors import DataError
from snellen.protocols.prompts.judge_prompts import SLOT, fill_slots


class QuestionerPrompt(Struct, frozen=True, forbid_unknown_fields=True):
    """How sub-questions are asked for."""

    system: str
    first: str
    """In the first round."""
    more: str
    """In later rounds."""
    again: str


class ReasonerPrompt(Struct, frozen=True, forbid_unknown_fields=True):
    """How the answer is asked for."""

    system: str
    """Allows doubt."""
    last: str
    """The same where doubt is no longer allowed."""
    case: str
    again: str


class AnswerForm(Struct, frozen=True, forbid_unknown_fields=True):
    """What an answer is."""

    answers: str
    """The possible answers, as they are shown; empty where there are none to show."""
    reply: str
    """What the last line holds."""


class ReasoningPrompts(Struct, frozen=True, forbid_unknown_fields=True):
    """All words of one version. An empty `system` is left out."""

    version: str
    """Stands in the journal beside each request; that of a file which names none is a digest."""
    doubt: str
    """What the Reasoner says when it is in doubt."""
    questioner: QuestionerPrompt
    reasoner: ReasonerPrompt
    choice: AnswerForm
    open: AnswerForm


_CASE = frozenset({"question", "answers", "caption", "dialogue", "analysis", "count", "reply", "doubt"})
_SLOTS = {("choice", "answers"): _CASE | {"options"}}
"""The slots of texts whose slots are not those of `_CASE`."""


@cache
def default_reasoning_prompts() -> ReasoningPrompts:
    return parse_reasoning_prompts(_own_content(), "reasoning_prompts.toml")


@cache
def _own_content() -> dict[str, Any]:
    return tomllib.loads(files("snellen.protocols.prompts").joinpath("reasoning_prompts.toml").read_text("utf-8"))


def named_reasoning_prompts(name: str) -> ReasoningPrompts:
    """Those of the registry's group `reasoning_prompts`. Raises UnknownNameError."""
    prompts: ReasoningPrompts = registry.find("reasoning_prompts", name)
    return prompts


def load_reasoning_prompts(package: str) -> ReasoningPrompts:
    """The prompts of the file `reasoning_prompts.toml` in a package; what it lacks is Snellen's."""
    content = tomllib.loads(files(package).joinpath("reasoning_prompts.toml").read_text("utf-8"))
    return parse_reasoning_prompts(content, f"{package}: reasoning_prompts.toml")


def parse_reasoning_prompts(content: Mapping[str, Any], where: str) -> ReasoningPrompts:
    """Texts of a file laid over Snellen's own. Raises DataError for a text or a slot that does not exist."""
    try:
        prompts = msgspec.convert(_overlaid(_own_content(), _versioned(content)), ReasoningPrompts)
    except msgspec.ValidationError as error:
        raise DataError(f"{where}: not the words of a reasoning ({error})") from None
    for table, texts in msgspec.to_builtins(prompts).items():
        for name, text in texts.items() if isinstance(texts, dict) else ():
            slots = _SLOTS.get((table, name), _CASE)
            if wrong := next((slot for slot in SLOT.findall(text) if slot not in slots), None):
                listed = ", ".join(sorted(slots))
                raise DataError(f"{where}: [{table}] {name} has the slot {{{wrong}}}; known: {listed}")
    return prompts


def _versioned(content: Mapping[str, Any]) -> Mapping[str, Any]:
    if not content or "version" in content:
        return content
    encoded = msgspec.json.encode(content, order="deterministic")
    return {"version": f"own-{hashlib.sha256(encoded).hexdigest()[:8]}", **content}


def _overlaid(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """A file's texts over those below, table by table."""
    tables = {
        name: {**below[name], **value}
        for name, value in above.items()
        if isinstance(value, Mapping) and isinstance(below.get(name), Mapping)
    }
    return {**below, **above, **tables}


def fill_case(text: str, slots: Mapping[str, str]) -> str:
    """A text with its slots filled, without the lines whose slots are all empty."""
    return "\n".join(fill_slots(line, slots) for line in text.split("\n") if _says_something(line, slots))


def _says_something(line: str, slots: Mapping[str, str]) -> bool:
    names = SLOT.findall(line)
    return not names or any(slots[name] for name in names)
