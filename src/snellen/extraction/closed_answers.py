"""Yes, no and numbers in replies to open questions that have one such answer. Pure.

Metrics that compare with a reference use these functions, so that every reply passes the same door as replies to questions
with options: thoughts, turn tokens, frames and markup are gone before anything is compared.
"""

from __future__ import annotations

from typing import Literal

from snellen.common.late import late_pattern
from snellen.extraction.asked_reply import question_of
from snellen.extraction.cue_words import refusal_count
from snellen.extraction.normalisation import find_final_answer, normalise_reply
from snellen.extraction.standard import read_choice
from snellen.extraction.tokens import tokenise

YesNo = Literal["yes", "no"]
YES_NO: tuple[YesNo, YesNo] = ("yes", "no")
LETTERS = tuple("ABCDEFGHIJ")


def answer_text(reply: str) -> str:
    """Return the answer in a reply, without thoughts, turn tokens, frames, markup and LaTeX."""
    part = find_final_answer(reply)
    return normalise_reply(reply[part.start : part.end]).text.strip()


def says_yes_or_no(reply: str) -> YesNo | None:
    """Return what a reply says to its yes-no question, or None if that is neither.

    Examples:
        >>> says_yes_or_no(AskedReply("There are three pens.", "Are there two pens?"))
        'no'
    """
    choice = read_choice(str(reply), YES_NO, (), question=question_of(reply)).choice
    return None if choice is None else YES_NO[choice]


def letter_in(reply: str) -> str | None:
    """Return the letter of the option that a reply means, where the options are in the image alone; None for none."""
    choice = read_choice(
        str(reply), tuple(f"option {letter}" for letter in LETTERS), LETTERS
    ).choice
    return None if choice is None else LETTERS[choice]


_ANNOUNCED = late_pattern(
    r"(?:^|\b)(?:final |correct |my |short )?answer\b(?: is| would be)?\s*[:=]?\s*([^\n]{1,80}?)(?=\.(?:\s|$)|\n|$)",
)
_EXPLAINS = late_pattern(
    r"\A([^\n]{1,60})\n\s*\n?(?:explanation|reason|reasoning|rationale|because)\b"
)


def stated_answer(reply: str) -> str:
    """Return the words that a reply announces as its answer ("Answer: 8"), or all of its answer text."""
    text = answer_text(reply)
    lowered = text.casefold()
    announced = list(_ANNOUNCED.finditer(lowered))
    if announced:
        return text[slice(*announced[-1].span(1))].strip()
    explained = _EXPLAINS.match(lowered)
    return text[: explained.end(1)].strip() if explained else text


def number_forms(text: str) -> tuple[str, ...]:
    """Return the numbers of a text in figures, however they are written: "minus seven" is `-7`."""
    return tuple(token.form[1:] for token in tokenise(text) if token.form[0] == "#")


def declines(reply: str) -> bool:
    """Whether a reply says that it gives no answer, and announces none."""
    text = answer_text(reply)
    return refusal_count(text) > 0 and stated_answer(reply) == text
