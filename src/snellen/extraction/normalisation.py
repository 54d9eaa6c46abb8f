"""Normalise a reply: one alphabet, plain quotes and dashes, no markup and no LaTeX.

Offsets into the normalised text can be mapped back to the reply as received, so that a report can show the words that
decided. All functions take time linear in the length of the reply.
"""

from __future__ import annotations

import re
import unicodedata

from msgspec import Struct

from snellen.common.late import late_pattern
from snellen.formats.quantities import plain_latex


class NormalisedReply(Struct, frozen=True):
    """A normalised text and where its characters come from."""

    text: str
    starts: tuple[int, ...] | None = None
    """For each character of `text`, the index of its original in the reply, and last the length of the reply.

    None if every character kept its index.
    """

    def span(self, start: int, end: int) -> tuple[int, int]:
        """Return the range in the original reply that `text[start:end]` comes from."""
        if self.starts is None:
            return start, end
        return self.starts[start], self.starts[end]


def _character_table() -> dict[int, str]:
    """Return the replacements of single characters, by code point, for `str.translate`."""
    blanks = "*`\t\r\x0b\x0c\xa0\u200b\u200c\u200d\u200e\u200f\u2060\ufeff\xad\ufffd\ufe0f\u20e3"
    replacements = (
        (blanks, " "),
        ("“”„«»「」『』\u201f", '"'),
        ("‘’‛′´", "'"),
        ("‐‑‒–—―−", "-"),
        ("。｡।॥\u2028\u2029\x85", "\n"),
        ("؟", "?"),
        ("،、", ","),
    )
    table: dict[int, str] = {}
    for characters, replacement in replacements:
        for character in characters:
            table[ord(character)] = replacement
    return table


# Each character becomes one character, so that offsets remain valid.
_PLAIN_CHARACTERS = _character_table()
_ASCII_BLANKS = str.maketrans("*`\t\r\x0b\x0c", "      ")
_SUPERSCRIPTS = {sign: f"^{digit}" for digit, sign in enumerate("⁰¹²³⁴⁵⁶⁷⁸⁹")} | {"⁄": "/"}
_FORMATTING = late_pattern(
    r"</?s>|</?(?:em|strong|p|br|hr|span|center|code|pre|mark|eos|bos|unk|pad|end_of_turn|end_of_utterance)\s?/?>"
    r"|<\|[A-Za-z_]{1,30}\|>"
    r"|\\(?:text|textbf|textrm|textit|mathrm|mathbf|mathsf|mathbb|bf|rm|displaystyle|left|right|quad)(?![A-Za-z])"
    r"|\\[,;!()\[\]]",
    re.IGNORECASE,
)
"""Tags of HTML and chat templates, and LaTeX commands that only change the looks of a text."""
_ARROW = late_pattern(r"(?<![<\w-])[-=]>(?![>=])")
_PAIRED_TAGS = late_pattern(r"<([biu])>([^<>\n]{0,200})</\1>", re.IGNORECASE)
_EDGE_UNDERSCORES = late_pattern(r"(?<![^\W_])_+|_+(?![^\W_])")


def normalise_reply(reply: str) -> NormalisedReply:
    """Return a reply as plain text: NFKC, straight quotes and dashes, and blanks instead of markup.

    NFKC is the Unicode form in which full-width letters and circled digits are plain ones.

    Examples:
        >>> normalise_reply("**Ｂ** “red”").text
        '  B   "red"'
        >>> normalise_reply("5½").text
        '51/2'
    """
    if reply.isascii():
        return NormalisedReply(_blank_markup(reply.translate(_ASCII_BLANKS)))
    text, starts = _compatible_characters(reply)
    return NormalisedReply(_blank_markup(text), starts)


def _compatible_characters(reply: str) -> tuple[str, tuple[int, ...] | None]:
    """Return a reply in NFKC with plain quotes and dashes, and where its characters come from.

    Returns:
        The text, and for each of its characters the index of its original in the reply, and last the length of the
        reply. The indices are None if every character kept its index.
    """
    # Translating first keeps characters whose compatibility form is longer or starts with a blank.
    reply = reply.translate(_PLAIN_CHARACTERS)
    if unicodedata.is_normalized("NFKC", reply):
        return reply, None
    pieces: list[str] = []
    starts: list[int] = []
    begin = 0  # of a character with its combining marks
    for end in range(1, len(reply) + 1):
        if end < len(reply) and unicodedata.combining(reply[end]):
            continue
        character = reply[begin:end]
        spelled = _SUPERSCRIPTS.get(character, character)
        piece = unicodedata.normalize("NFKC", spelled).replace("⁄", "/")
        pieces.append(piece)
        starts.extend([begin] * len(piece))
        begin = end
    starts.append(len(reply))
    text = "".join(pieces).translate(_PLAIN_CHARACTERS)
    return text, tuple(starts)


def _blank_markup(text: str) -> str:
    """Return a text of the same length, in which blanks replace tags, LaTeX commands and underscores of Markdown."""
    text = plain_latex(text)
    if ">" in text:
        text = _ARROW.sub(" →", text)
    if "<" in text or "\\" in text:
        text = _FORMATTING.sub(_blanks, text)
        text = _PAIRED_TAGS.sub(r"   \2    ", text)  # "<b>dog</b>"
    if "_" in text:
        text = _EDGE_UNDERSCORES.sub(_blanks, text)
    return text


def _blanks(match: re.Match[str]) -> str:
    """Return as many blanks as a match is long."""
    return " " * len(match[0])


_CHOICES_IN_BRACKETS = late_pattern(
    r"\b(?:answer|choice|option)s?\s{0,3}(\([^()\n]{0,60}?(?:\bor\b|[/,|])[^()\n]{0,60}\))(?=\s{0,3}(?:(?:is|was|are|be|would|should)\b|[:=]))",
    re.IGNORECASE,
)
"""Choices that a prompt lists in brackets, if a reply repeats them: "The answer (Yes or No) is"."""


def without_listed_choices(text: str) -> str:
    """Return a text in which blanks replace choices in brackets between "answer" and "is".

    Example:
        >>> without_listed_choices("The answer (Yes or No) is No.")
        'The answer             is No.'
    """
    for match in _CHOICES_IN_BRACKETS.finditer(text):
        start, end = match.span(1)
        text = text[:start] + " " * (end - start) + text[end:]
    return text
