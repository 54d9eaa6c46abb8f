"""Keeps what a model thinks apart from what it answers, where both come in one text."""

from __future__ import annotations

from msgspec import Struct

THOUGHTS = (
    ("<think>", "</think>"),
    ("<thinking>", "</thinking>"),
    ("<thought>", "</thought>"),
    ("<seed:think>", "</seed:think>"),
    ("[THINK]", "[/THINK]"),
    ("\u25c1think\u25b7", "\u25c1/think\u25b7"),
)
"""What opens and closes a model's thoughts, as chat templates write it; the last is Kimi-VL's."""


class ThoughtfulReply(Struct, frozen=True):
    """A text in two parts."""

    reasoning: str | None
    """None where the model did not think aloud."""
    answer: str


def split_thoughts(text: str, closing: str = "") -> ThoughtfulReply:
    """The thoughts that a reply begins with, and the answer after them, which is empty where they never end.

    `closing` is what ends a thought that the prompt itself opened, as some chat templates do.
    """
    start = text.lstrip()
    for opening, end in THOUGHTS:
        opened = start.startswith(opening)
        if not opened and end != closing:
            continue
        thought, _, answer = (start.removeprefix(opening) if opened else text).partition(end)
        return ThoughtfulReply(thought.strip(), answer.strip())
    return ThoughtfulReply(None, text)
