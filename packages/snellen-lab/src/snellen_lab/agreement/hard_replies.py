"""Labelled replies that use other words than the options, to test judge models and embeddings."""

from __future__ import annotations

from importlib.resources import files

import msgspec
from msgspec import Struct


class HardReply(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """A reply, and the index of the option that it means."""

    id: str
    question: str
    options: tuple[str, ...]
    reply: str
    expected: int | None

    @property
    def group(self) -> str:
        """Return a name that is the same for all replies to one question."""
        return self.id[:-1]

    @property
    def is_held_out(self) -> bool:
        """Return whether the reply is in the half that is used to measure judges."""
        return int(self.group[-3:]) % 2 == 0


def hard_replies(*, held_out: bool | None = None) -> tuple[HardReply, ...]:
    """Return labelled replies that are hard to read.

    Args:
        held_out: True for the half on which judges are measured, False for the other half, None for both.
    """
    text = files("snellen_lab.agreement").joinpath("hard_replies.jsonl").read_text("utf-8")
    replies = []
    for line in text.splitlines():
        reply = msgspec.json.decode(line, type=HardReply)
        if held_out is None or reply.is_held_out == held_out:
            replies.append(reply)
    return tuple(replies)
