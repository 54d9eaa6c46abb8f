"""Keeps what a model thinks apart from what it answers, where both come in one text.

Every text that a model wrote goes through `split_thoughts`: replies of servers and of local models when they come, and
whatever prediction files, workers and models of others left in a reply when it is read.
"""

from __future__ import annotations

import re

from msgspec import Struct

THOUGHTS = (
    ("<think>", "</think>"),
    ("<thinking>", "</thinking>"),
    ("<thought>", "</thought>"),
    ("<thoughts>", "</thoughts>"),
    ("<reasoning>", "</reasoning>"),
    ("<reflection>", "</reflection>"),
    ("<scratchpad>", "</scratchpad>"),
    ("<analysis>", "</analysis>"),
    ("<mm:think>", "</mm:think>"),
    ("<seed:think>", "</seed:think>"),
    ("[THINK]", "[/THINK]"),
    ("\u25c1think\u25b7", "\u25c1/think\u25b7"),
    ("<|START_THINKING|>", "<|END_THINKING|>"),
    ("<|channel>thought", "<channel|>"),
    ("<|channel|>analysis<|message|>", "<|channel|>final<|message|>"),
)
"""What opens and closes a model's thoughts, as chat templates and prompts write it.

The sixth to the eighth are habits of prompts. Behind them are those of MiniMax's, Seed's, Mistral's, Kimi-VL's,
Cohere's, Gemma 4's and gpt-oss's models.
"""
_CLOSING_OF = {opening.lower(): closing for opening, closing in THOUGHTS}
_MARK = re.compile("|".join(re.escape(mark) for pair in THOUGHTS for mark in pair), re.IGNORECASE)
OPENED = re.compile("|".join(re.escape(mark) for mark, _ in THOUGHTS), re.IGNORECASE)
CLOSED = re.compile("|".join(re.escape(mark) for _, mark in THOUGHTS), re.IGNORECASE)


class ThoughtfulReply(Struct, frozen=True):
    """A text in two parts."""

    reasoning: str | None
    """None where the model did not think aloud."""
    answer: str
    is_unfinished: bool = False
    """Whether the last thought never ends."""


def split_thoughts(text: str, closing: str = "") -> ThoughtfulReply:
    """The thoughts in a reply, and the answer: what follows the last of them, or else what stands around them.

    A thought that is closed and never opened begins with the text, since some chat templates open it in the prompt.
    One that is never closed takes the rest of the text, so that a reply which begins with it has an empty answer.

    Args:
        text: A reply, whole or as far as it has come.
        closing: What ends a thought that the prompt is known to have opened; empty if it opened none.

    Examples:
        >>> split_thoughts("<think>It barks.</think> A dog.").answer
        'A dog.'
    """
    thoughts: list[str] = []
    spoken: list[str] = []
    awaited = closing.lower()  # what closes the thought that is open
    start = 0
    for mark in _MARK.finditer(text):
        spelled = mark[0].lower()
        opened = _CLOSING_OF.get(spelled)
        if opened is not None and not awaited:
            spoken.append(text[start : mark.start()])
            awaited, start = opened.lower(), mark.end()
        elif opened is None and awaited == spelled:
            thoughts.append(text[start : mark.start()])
            awaited, start = "", mark.end()
        elif opened is None and not awaited:
            thoughts.append("".join([*spoken, text[start : mark.start()]]))
            spoken.clear()
            start = mark.end()

    rest = text[start:]
    if awaited:
        thoughts.append(rest)
        rest = ""
    if not thoughts:
        return ThoughtfulReply(None, text)
    reasoning = "\n\n".join(thought.strip() for thought in thoughts).strip()
    answer = rest.strip() or "".join(spoken).strip()
    return ThoughtfulReply(reasoning, answer, is_unfinished=bool(awaited))
