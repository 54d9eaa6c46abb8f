"""Separate the reasoning of a model from its answer in one text.

Replies of servers and of local models go through `split_thoughts` when they are received. Replies of prediction files,
workers and models of other packages go through it when they are read.
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
"""Marks that open and close the reasoning of a model, in chat templates and prompts.

The sixth to the eighth are common in prompts. Those behind them are used by MiniMax, Seed, Mistral, Kimi-VL, Cohere,
Gemma 4 and gpt-oss.
"""
_CLOSING_OF = {opening.lower(): closing for opening, closing in THOUGHTS}
OPENED = re.compile("|".join(re.escape(opening) for opening, _ in THOUGHTS), re.IGNORECASE)
"""Matches any mark that opens reasoning."""
CLOSED = re.compile("|".join(re.escape(closing) for _, closing in THOUGHTS), re.IGNORECASE)
"""Matches any mark that closes reasoning."""
_MARK = re.compile(f"{OPENED.pattern}|{CLOSED.pattern}", re.IGNORECASE)


class ThoughtfulReply(Struct, frozen=True):
    """A reply, divided into reasoning and answer."""

    reasoning: str | None
    """None if the reply has no reasoning."""
    answer: str
    is_unfinished: bool = False
    """Whether the last reasoning is not closed."""


def split_thoughts(text: str, closing: str = "") -> ThoughtfulReply:
    """Separate the reasoning in a reply from the answer, which is the text after it or, if there is none, around it.

    Some chat templates open the reasoning in the prompt. A closing mark without an opening one therefore means that the
    reply begins with reasoning. Reasoning without a closing mark extends to the end, so a reply that begins with it has
    an empty answer.

    Args:
        text: A reply, complete or as far as it was received.
        closing: Mark that closes the reasoning, if the prompt opened it; else empty.

    Examples:
        >>> split_thoughts("<think>It barks.</think> A dog.").answer
        'A dog.'
    """
    thoughts: list[str] = []
    spoken: list[str] = []  # what is before and between the thoughts
    awaited = closing.lower()  # mark that closes the open reasoning; empty if none is open
    start = 0
    for mark in _MARK.finditer(text):
        spelled = mark[0].lower()
        before = text[start : mark.start()]
        is_opening = spelled in _CLOSING_OF
        if is_opening and not awaited:
            spoken.append(before)
            awaited = _CLOSING_OF[spelled].lower()
        elif not is_opening and awaited == spelled:
            thoughts.append(before)
            awaited = ""
        elif not is_opening and not awaited:
            thoughts.append("".join([*spoken, before]))
            spoken.clear()
        else:
            continue  # a mark within the open reasoning
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
