"""From a reply as received to plain text: one alphabet, no markup, no reasoning, offsets kept.

Everything here is linear in the length of the reply.
"""

from __future__ import annotations

import re
import unicodedata

from msgspec import Struct

from snellen.common.late import late_pattern
from snellen.extraction.thoughts import CLOSED, OPENED
from snellen.formats.quantities import plain_latex


class NormalisedReply(Struct, frozen=True):
    """Text without markup. `starts[i]` is where its character i began in the reply; None means at i."""

    text: str
    starts: tuple[int, ...] | None = None

    def span(self, start: int, end: int) -> tuple[int, int]:
        """The stretch of the reply, as received, that `text[start:end]` came from."""
        if self.starts is None:
            return start, end
        return self.starts[start], self.starts[end]


class FinalAnswer(Struct, frozen=True):
    """The part of a plain text that is the answer: [start, end), and what was found on the way."""

    start: int
    end: int
    framed: bool = False
    """The model itself framed this part as its answer (an answer tag, a box)."""
    unfinished: bool = False
    """A reasoning block was opened and never closed."""


# Length-preserving: a character becomes one character, so offsets stay true.
_ONE_TO_ONE = {
    **dict.fromkeys(
        map(
            ord,
            "*`\t\r\x0b\x0c\xa0\u200b\u200c\u200d\u200e\u200f\u2060\ufeff\xad\ufffd\ufe0f\u20e3",
        ),
        " ",
    ),
    **dict.fromkeys(map(ord, "“”„«»「」『』\u201f"), '"'),
    **dict.fromkeys(map(ord, "‘’‛′´"), "'"),
    **dict.fromkeys(map(ord, "‐‑‒–—―−"), "-"),
    **dict.fromkeys(map(ord, "。｡।॥"), "\n"),
    **dict.fromkeys(map(ord, "؟"), "?"),
    **dict.fromkeys(map(ord, "،"), ","),
    **dict.fromkeys(map(ord, "、"), ","),
    **dict.fromkeys(map(ord, "\u2028\u2029\x85"), "\n"),
}
_SUPERSCRIPTS = {sign: f"^{digit}" for digit, sign in enumerate("⁰¹²³⁴⁵⁶⁷⁸⁹")} | {"⁄": "/"}
_ASCII_BLANKS = str.maketrans("*`\t\r\x0b\x0c", "      ")
_FORMATTING = late_pattern(
    r"</?s>|</?(?:em|strong|p|br|hr|span|center|code|pre|mark|eos|bos|unk|pad|end_of_turn|end_of_utterance)\s?/?>"
    r"|<\|[A-Za-z_]{1,30}\|>"
    r"|\\(?:text|textbf|textrm|textit|mathrm|mathbf|mathsf|mathbb|bf|rm|displaystyle|left|right|quad)(?![A-Za-z])"
    r"|\\[,;!()\[\]]",
    re.IGNORECASE,
)
_ARROW = late_pattern(r"(?<![<\w-])[-=]>(?![>=])")
_PAIRED = late_pattern(r"<([biu])>([^<>\n]{0,200})</\1>", re.IGNORECASE)
_EDGE_UNDERSCORES = late_pattern(r"(?<![^\W_])_+|_+(?![^\W_])")


def normalise_reply(reply: str) -> NormalisedReply:
    """NFKC (full-width letters, brackets, circled digits), straight quotes and dashes, markup blanked."""
    if reply.isascii():
        return NormalisedReply(_unmarked(reply.translate(_ASCII_BLANKS)))
    text, starts = _compatible(reply)
    return NormalisedReply(_unmarked(text.translate(_ONE_TO_ONE)), starts)


def _unmarked(text: str) -> str:
    text = plain_latex(text)
    if ">" in text:
        text = _ARROW.sub(" →", text)
    if "<" in text or "\\" in text:
        text = _PAIRED.sub(r"   \2    ", _FORMATTING.sub(_blank, text))
    if "_" in text:
        text = _EDGE_UNDERSCORES.sub(_blank, text)
    return text


def _blank(match: re.Match[str]) -> str:
    return " " * len(match[0])


def _compatible(reply: str) -> tuple[str, tuple[int, ...] | None]:
    """NFKC of each character with its combining marks, and where each result came from."""
    # Translating first keeps characters whose compatibility form is longer or starts with a blank.
    reply = reply.translate(_ONE_TO_ONE)
    if unicodedata.is_normalized("NFKC", reply):
        return reply, None
    pieces: list[str] = []
    starts: list[int] = []
    begin = 0
    for at in range(1, len(reply) + 1):
        if at < len(reply) and unicodedata.combining(reply[at]):
            continue
        piece = unicodedata.normalize(
            "NFKC", _SUPERSCRIPTS.get(reply[begin:at], reply[begin:at])
        ).replace("⁄", "/")
        pieces.append(piece)
        starts.extend([begin] * len(piece))
        begin = at
    starts.append(len(reply))
    return "".join(pieces), tuple(starts)


_FRAME_TAGS = (
    "answer|ans|final|final_answer|finalanswer|choice|option|conclusion|result|response|output"
)
_FRAME_OPENS = late_pattern(rf"<({_FRAME_TAGS})>", re.IGNORECASE)
_FRAME_CLOSES = late_pattern(rf"</(?:{_FRAME_TAGS})>", re.IGNORECASE)
_BOX = late_pattern(r"\\(?:boxed|fbox)\s?\{|<\|begin_of_box\|>")
_BOX_REACH = 400
_BOXED = late_pattern(r"\\boxed\s?\{([^{}]{0,80})\}")
_WORDS = late_pattern(r"[^\W\d_]{2,}")
_WORDS_BEHIND_A_BOX = 4
EXAMPLE = late_pattern(
    r"\b(?:for (?:instance|example)|such as|e\. ?g\.|in (?:the|this) form(?:at)?(?: of)?)(?:[\s:,\"'`]|$)",
    re.IGNORECASE,
)
"""What stands before an example of an answer: "in the form <answer>X</answer>"."""
_NEAR = 40
_WORD = late_pattern(r"[^\W_]")
_TEMPLATE = late_pattern(r"(?:\s|</?s>|\[/?INST\]|<\|[A-Za-z_]{1,30}\|>){1,40}")
"""What of a chat template may stand before a reply."""
_NEXT_TURN = late_pattern(
    r"\n\s{0,8}(?:(?:#{2,4} ?)?(?:human|user|question|q|instruction|image) ?:|#{2,4} ?(?:human|user|instruction)\b)"
    r"|#{2,4} ?(?:human|user|instruction) ?:|<\|im_start\|>|\[INST\]",
    re.IGNORECASE,
)


def find_final_answer(reply: str) -> FinalAnswer:
    """Where in `reply` the answer stands: after the reasoning, in the last frame, before the next turn."""
    start, end, unfinished = 0, len(reply), False
    if any(sign in reply for sign in "<◁["):
        for closed in CLOSED.finditer(reply):
            start = closed.end()
        opened = OPENED.search(reply, start)
        frame = _last_frame(reply, start, end)
        if frame is not None:
            return frame
        if opened is not None:
            end, unfinished = opened.start(), True
    boxed = _last_box(reply, start, end)
    if boxed is not None:
        return boxed
    template = _TEMPLATE.match(reply, start, end)
    start = template.end() if template else start
    turn = _NEXT_TURN.search(reply, start, end)
    if turn is not None and _WORD.search(reply, start, turn.start()):
        end = turn.start()
    return FinalAnswer(start, end, unfinished=unfinished)


_CHOICES_IN_BRACKETS = late_pattern(
    r"\b(?:answer|choice|option)s?\s{0,3}(\([^()\n]{0,60}?(?:\bor\b|[/,|])[^()\n]{0,60}\))(?=\s{0,3}(?:(?:is|was|are|be|would|should)\b|[:=]))",
    re.IGNORECASE,
)
"""The choices that a prompt lists in brackets, where a reply repeats them: "The answer (Yes or No) is"."""


def without_listed_choices(text: str) -> str:
    """Blank out choices in brackets between "answer" and "is". The length of the text stays the same.

    Examples:
        >>> without_listed_choices("The answer (Yes or No) is No.")
        'The answer             is No.'
    """
    for match in _CHOICES_IN_BRACKETS.finditer(text):
        start, end = match.span(1)
        text = text[:start] + " " * (end - start) + text[end:]
    return text


def is_example(text: str, at: int, start: int = 0) -> bool:
    """Whether words just before a place in a text, from `start` on, call what stands there an example."""
    return EXAMPLE.search(text, max(start, at - _NEAR), at) is not None


def _last(pattern: re.Pattern[str], reply: str, start: int, end: int) -> re.Match[str] | None:
    """The last match that is not an example: "in the form <answer>X</answer>, for instance"."""
    last = None
    for match in pattern.finditer(reply, start, end):
        if not is_example(reply, match.start(), start):
            last = match
    return last


def _last_frame(reply: str, start: int, end: int) -> FinalAnswer | None:
    opens = _last(_FRAME_OPENS, reply, start, end)
    if opens is None:
        return None
    closes = _FRAME_CLOSES.search(reply, opens.end(), end)
    begin, stop = opens.end(), closes.start() if closes else end
    return _last_box(reply, begin, stop) or FinalAnswer(begin, stop, framed=True)


def _of_several(reply: str, start: int, end: int) -> bool:
    """Whether boxes hold several things, and words follow the last: results of steps."""
    boxes = list(_BOXED.finditer(reply, start, end))
    different = len({"".join(box[1].split()) for box in boxes}) > 1
    return different and len(_WORDS.findall(reply, boxes[-1].end(), end)) > _WORDS_BEHIND_A_BOX


def _last_box(reply: str, start: int, end: int) -> FinalAnswer | None:
    box = _last(_BOX, reply, start, end)
    if box is None or _of_several(reply, start, end):
        return None
    begin = box.end()
    if box[0].endswith("|>"):
        stop = reply.find("<|end_of_box|>", begin, end)
        return FinalAnswer(begin, end if stop < 0 else stop, framed=True)
    depth = 1
    for at in range(begin, min(end, begin + _BOX_REACH)):
        depth += (reply[at] == "{") - (reply[at] == "}")
        if depth == 0:
            return FinalAnswer(begin, at, framed=True)
    return FinalAnswer(begin, min(end, begin + _BOX_REACH), framed=True)
