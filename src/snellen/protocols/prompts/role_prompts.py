"""What models in other roles are told: judges; Questioner and Reasoner. Texts with slots, each under a version."""

from __future__ import annotations

import hashlib
import json
import re
import tomllib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

import msgspec
from msgspec import Struct

from snellen import registry
from snellen.errors import DataError, UnknownNameError
from snellen.extraction.normalisation import find_final_answer

MAX_REPLY_LENGTH = 2000
"""Characters of a reply that a judge is shown; of a longer reply it sees the two ends."""
SLOT = re.compile(r"\{(\w+)\}")
_CUT = " [...] "


class JudgePrompt(Struct, frozen=True, forbid_unknown_fields=True):
    """The words of one version. `labels` is how the first of A, B, C, D are listed, where that is special."""

    text: str
    ask_again: str
    labels: str = ""

    @property
    def quotes(self) -> bool:
        """The reply stands between tags, as a JSON string."""
        return "<words>" in self.text

    @property
    def ends_question(self) -> bool:
        """The prompt supplies the question mark, so the question is filled in without its own."""
        return "{question}?" in self.text

    def fill(self, reply: str, **slots: str) -> str:
        """The text with its slots filled."""
        reply_text = quoted(reply) if self.quotes else shortened(reply)
        return fill_slots(self.text, {**slots, "reply": reply_text})

    def remind(self, **slots: str) -> str:
        return fill_slots(self.ask_again, slots)


def judge_prompt(version: str) -> JudgePrompt:
    """Raises UnknownNameError for a version that does not exist."""
    if version in _own_prompts():
        return _own_prompts()[version]
    if version not in (added := registry.targets("judge_prompts")):
        raise registry.unknown("judge prompt", version, [*_own_prompts(), *added])
    prompt: JudgePrompt = registry.find("judge_prompts", version)
    return prompt


def prompt_versions(kind: str) -> list[str]:
    """All versions of a kind, such as `snellen-correct`, in order."""
    versions = (*_own_prompts(), *registry.targets("judge_prompts"))
    of_kind = [name for name in versions if name.rpartition("-")[0] == kind]
    if not of_kind:
        raise UnknownNameError(f"there is no judge prompt {kind}-1")
    return of_kind


def load_judge_prompts(package: str) -> dict[str, JudgePrompt]:
    """The prompts of the file `judge_prompts.toml` in a package, by version."""
    content = tomllib.loads(files(package).joinpath("judge_prompts.toml").read_text("utf-8"))
    return msgspec.convert(content, dict[str, JudgePrompt])


@cache
def _own_prompts() -> dict[str, JudgePrompt]:
    return load_judge_prompts("snellen.protocols.prompts")


def fill_slots(text: str, slots: Mapping[str, str]) -> str:
    """The text with its slots filled, all in one go: braces in what fills them stay as they are."""
    return SLOT.sub(lambda slot: slots[slot[1]], text)


def shortened(reply: str) -> str:
    """A reply without its reasoning; only its two ends if it is longer than `MAX_REPLY_LENGTH`."""
    part = find_final_answer(reply)
    words = reply[part.start : part.end].strip()
    if len(words) <= MAX_REPLY_LENGTH:
        return words
    half = (MAX_REPLY_LENGTH - len(_CUT)) // 2
    return words[:half] + _CUT + words[-half:]


def quoted(reply: str) -> str:
    """The shortened reply as a JSON string without angle brackets, so that it cannot close its tag."""
    encoded = json.dumps(shortened(reply), ensure_ascii=False)
    return encoded.replace("<", "\\u003c").replace(">", "\\u003e")


# --- reasoning over several rounds ------------------------------------------------------------------------------------


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


_CASE = frozenset(
    {"question", "answers", "caption", "dialogue", "analysis", "count", "reply", "doubt"}
)
_SLOTS = {("choice", "answers"): _CASE | {"options"}}
"""The slots of texts whose slots are not those of `_CASE`."""


@cache
def _own_reasoning_texts() -> dict[str, Any]:
    return tomllib.loads(
        files("snellen.protocols.prompts").joinpath("reasoning_prompts.toml").read_text("utf-8")
    )


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
        prompts = msgspec.convert(
            _overlaid(_own_reasoning_texts(), _versioned(content)), ReasoningPrompts
        )
    except msgspec.ValidationError as error:
        raise DataError(f"{where}: not the words of a reasoning ({error})") from None
    for table, texts in msgspec.to_builtins(prompts).items():
        for name, text in texts.items() if isinstance(texts, dict) else ():
            slots = _SLOTS.get((table, name), _CASE)
            if wrong := next((slot for slot in SLOT.findall(text) if slot not in slots), None):
                listed = ", ".join(sorted(slots))
                raise DataError(
                    f"{where}: [{table}] {name} has the slot {{{wrong}}}; known: {listed}"
                )
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
    return "\n".join(
        fill_slots(line, slots) for line in text.split("\n") if _says_something(line, slots)
    )


def _says_something(line: str, slots: Mapping[str, str]) -> bool:
    names = SLOT.findall(line)
    return not names or any(slots[name] for name in names)
