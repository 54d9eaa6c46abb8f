"""Judge prompts: texts with slots, each under the version that is stored with its verdicts."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files

import msgspec
from msgspec import Struct

from snellen import registry
from snellen.errors import UnknownNameError
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
