"""Replies in other words than the options, each with the option that it means: a test of judges and embeddings."""

from __future__ import annotations

from importlib.resources import files

import msgspec
from msgspec import Struct


class HardReply(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """One reply, and the place of the option that it means."""

    id: str
    question: str
    options: tuple[str, ...]
    reply: str
    expected: int | None

    @property
    def group(self) -> str:
        """What the replies to one question share."""
        return self.id[:-1]

    @property
    def held_out(self) -> bool:
        return int(self.group[-3:]) % 2 == 0


def hard_replies(*, held_out: bool | None = None) -> tuple[HardReply, ...]:
    """All of them, or one half."""
    lines = (
        files("snellen.extraction")
        .joinpath("hard_replies.jsonl")
        .read_text(encoding="utf-8")
        .splitlines()
    )
    everything = (msgspec.json.decode(line, type=HardReply) for line in lines)
    return tuple(reply for reply in everything if held_out in (None, reply.held_out))
