"""What judges are asked: forms with slots, each under the version that is stored with its verdicts."""

from __future__ import annotations

import json
import re
import tomllib
from functools import cache
from importlib.resources import files

import msgspec
from msgspec import Struct

from snellen.errors import UnknownNameError
from snellen.extract.plain import said
from snellen.registry import unknown

LONGEST = 2000
"""Letters of a reply that a judge is shown; of a longer one its two ends."""
_SLOT = re.compile(r"\{(\w+)\}")
_CUT = " [...] "


class Form(Struct, frozen=True, forbid_unknown_fields=True):
    """The words of one version. `marks` is how the first of A, B, C, D are listed, where that is special."""

    text: str
    ask_again: str
    marks: str = ""

    @property
    def quotes(self) -> bool:
        """The reply stands between tags, as a JSON string."""
        return "<words>" in self.text

    def fill(self, reply: str, **slots: str) -> str:
        """The text with its slots filled, all in one go: braces in what fills them stay as they are."""
        shown = quoted(reply) if self.quotes else shortened(reply)
        return _fill(self.text, {**slots, "reply": shown})

    def remind(self, **slots: str) -> str:
        return _fill(self.ask_again, slots)


def form(version: str) -> Form:
    """Raises UnknownNameError for a version that does not exist."""
    if version not in _forms():
        raise unknown("judge prompt", version, _forms())
    return _forms()[version]


def versions(kind: str) -> list[str]:
    """All versions of a kind, such as `snellen-correct`, in order."""
    found = [name for name in _forms() if name.rpartition("-")[0] == kind]
    if not found:
        raise UnknownNameError(f"there is no judge prompt {kind}-1")
    return found


@cache
def _forms() -> dict[str, Form]:
    content = tomllib.loads(files("snellen.prompts").joinpath("judging.toml").read_text("utf-8"))
    return msgspec.convert(content, dict[str, Form])


def _fill(text: str, slots: dict[str, str]) -> str:
    return _SLOT.sub(lambda slot: slots[slot[1]], text)


def shortened(reply: str) -> str:
    """What a reply says after its reasoning, its ends only where it is longer than a judge should read."""
    part = said(reply)
    words = reply[part.start : part.end].strip()
    if len(words) <= LONGEST:
        return words
    half = (LONGEST - len(_CUT)) // 2
    return words[:half] + _CUT + words[-half:]


def quoted(reply: str) -> str:
    """The same as a JSON string without angle brackets, so that nothing in it can close its place."""
    written = json.dumps(shortened(reply), ensure_ascii=False)
    return written.replace("<", "\\u003c").replace(">", "\\u003e")
