"""Find the part of a reply that is its answer.

A reply can begin with reasoning (`<think>...</think>`), frame its answer in a tag (`<answer>B</answer>`) or a box
(`\\boxed{B}`), and continue with a turn of a user that the model made up ("Human: ..."). The answer is what remains. All
functions take time linear in the length of the reply.
"""

from __future__ import annotations

import re

from msgspec import Struct

from snellen.common.late import late_pattern
from snellen.extraction.thoughts import CLOSED, OPENED


class FinalAnswer(Struct, frozen=True):
    """The part `reply[start:end]` of a reply, which is its answer."""

    start: int
    end: int
    framed: bool = False
    """Whether the model framed it as its answer, by a tag or a box."""
    unfinished: bool = False
    """Whether the model began to reason and did not come to an end."""


_FRAME_TAGS = (
    "answer|ans|final|final_answer|finalanswer|choice|option|conclusion|result|response|output"
)
_OPENING_TAG = late_pattern(rf"<({_FRAME_TAGS})>", re.IGNORECASE)
_CLOSING_TAG = late_pattern(rf"</(?:{_FRAME_TAGS})>", re.IGNORECASE)
_OPENING_BOX = late_pattern(r"\\(?:boxed|fbox)\s?\{|<\|begin_of_box\|>")
_MAX_BOX_CHARACTERS = 400
"""Characters of a box after which it ends without a closing brace."""
_SHORT_BOX = late_pattern(r"\\boxed\s?\{([^{}]{0,80})\}")
_LONG_WORD = late_pattern(r"[^\W\d_]{2,}")
_MOST_WORDS_BEHIND = 4
"""Words behind the last box of several different ones, if that box is the answer and not the result of a step."""
_EXAMPLE = late_pattern(
    r"\b(?:for (?:instance|example)|such as|e\. ?g\.|in (?:the|this) form(?:at)?(?: of)?)(?:[\s:,\"'`]|$)",
    re.IGNORECASE,
)
"""Words before an example of an answer: "in the form <answer>X</answer>"."""
_EXAMPLE_REACH = 40
"""Characters before a frame in which such words are looked for."""
_WORD_CHARACTER = late_pattern(r"[^\W_]")
_TEMPLATE = late_pattern(r"(?:\s|</?s>|\[/?INST\]|<\|[A-Za-z_]{1,30}\|>){1,40}")
"""Marks of a chat template that can be before a reply."""
_NEXT_TURN = late_pattern(
    r"\n\s{0,8}(?:(?:#{2,4} ?)?(?:human|user|question|q|instruction|image) ?:|#{2,4} ?(?:human|user|instruction)\b)"
    r"|#{2,4} ?(?:human|user|instruction) ?:|<\|im_start\|>|\[INST\]",
    re.IGNORECASE,
)
"""Beginning of the next turn of a conversation."""


def find_final_answer(reply: str) -> FinalAnswer:
    """Find the answer in a reply: behind the reasoning, in the last tag or box, and before the next turn.

    Example:
        >>> reply = "<think>It barks.</think> It is <answer>a dog</answer>"
        >>> answer = find_final_answer(reply)
        >>> reply[answer.start : answer.end], answer.framed
        ('a dog', True)
    """
    start = 0
    end = len(reply)
    unfinished = False
    may_have_tags = any(sign in reply for sign in "<◁[")
    if may_have_tags:
        for closed in CLOSED.finditer(reply):
            start = closed.end()
        opened = OPENED.search(reply, start)
        framed = _last_tag(reply, start, end)
        if framed is not None:
            return framed
        if opened is not None:
            end = opened.start()
            unfinished = True
    boxed = _last_box(reply, start, end)
    if boxed is not None:
        return boxed

    template = _TEMPLATE.match(reply, start, end)
    if template is not None:
        start = template.end()
    next_turn = _NEXT_TURN.search(reply, start, end)
    if next_turn is not None and _WORD_CHARACTER.search(reply, start, next_turn.start()):
        end = next_turn.start()
    return FinalAnswer(start, end, unfinished=unfinished)


def _last_tag(reply: str, start: int, end: int) -> FinalAnswer | None:
    """Find the content of the last answer tag in `reply[start:end]`, or of the box in it."""
    opening = _last_match(_OPENING_TAG, reply, start, end)
    if opening is None:
        return None
    closing = _CLOSING_TAG.search(reply, opening.end(), end)
    content_end = closing.start() if closing is not None else end
    boxed = _last_box(reply, opening.end(), content_end)
    return boxed or FinalAnswer(opening.end(), content_end, framed=True)


def _last_box(reply: str, start: int, end: int) -> FinalAnswer | None:
    """Find the content of the last box in `reply[start:end]`, unless boxes hold the results of steps."""
    opening = _last_match(_OPENING_BOX, reply, start, end)
    if opening is None or _boxes_steps(reply, start, end):
        return None
    content_start = opening.end()
    if opening[0] == "<|begin_of_box|>":
        content_end = reply.find("<|end_of_box|>", content_start, end)
        if content_end < 0:
            content_end = end
        return FinalAnswer(content_start, content_end, framed=True)

    n_open_braces = 1
    reach = min(end, content_start + _MAX_BOX_CHARACTERS)
    for index in range(content_start, reach):
        if reply[index] == "{":
            n_open_braces += 1
        elif reply[index] == "}":
            n_open_braces -= 1
        if n_open_braces == 0:
            return FinalAnswer(content_start, index, framed=True)
    return FinalAnswer(content_start, reach, framed=True)


def _boxes_steps(reply: str, start: int, end: int) -> bool:
    """Return whether `reply[start:end]` has boxes with different contents, and words follow the last of them."""
    boxes = list(_SHORT_BOX.finditer(reply, start, end))
    contents = {"".join(box[1].split()) for box in boxes}
    if len(contents) < 2:
        return False
    words_behind = _LONG_WORD.findall(reply, boxes[-1].end(), end)
    return len(words_behind) > _MOST_WORDS_BEHIND


def _last_match(pattern: re.Pattern[str], reply: str, start: int, end: int) -> re.Match[str] | None:
    """Return the last match in `reply[start:end]` that is not an example, as in "in the form <answer>X</answer>"."""
    last = None
    for match in pattern.finditer(reply, start, end):
        reach = max(start, match.start() - _EXAMPLE_REACH)
        is_example = _EXAMPLE.search(reply, reach, match.start()) is not None
        if not is_example:
            last = match
    return last
