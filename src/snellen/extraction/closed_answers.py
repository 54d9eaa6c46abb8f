"""Read yes, no, letters and numbers from replies to open questions.

Metrics that compare replies with references use these functions. They remove reasoning, turn tokens, frames and markup
in the same way as for questions with options.
"""

from __future__ import annotations

import re

from snellen.common.late import late_pattern
from snellen.extraction.asked_reply import question_of
from snellen.extraction.cue_words import refusal_count
from snellen.extraction.final_answer import find_final_answer
from snellen.extraction.normalisation import normalise_reply
from snellen.extraction.propositions import last_question
from snellen.extraction.standard import read_choice
from snellen.extraction.tokens import tokenise
from snellen.extraction.yes_no import YES_NO, YesNo

LETTERS = tuple("ABCDEFGHIJ")


def answer_text(reply: str) -> str:
    """Return the answer in a reply, without reasoning, turn tokens, frames, markup and LaTeX.

    Example:
        >>> answer_text("<think>Two cups.</think> **Two**")
        'Two'
    """
    part = find_final_answer(reply)
    return normalise_reply(reply[part.start : part.end]).text.strip()


def says_yes_or_no(reply: str) -> YesNo | None:
    """Return whether a reply says yes or no to its question; None if it says neither.

    An `AskedReply` knows its question, which is then read with it.

    Examples:
        >>> from snellen.extraction.asked_reply import AskedReply
        >>> says_yes_or_no(AskedReply("There are three pens.", "Are there two pens?"))
        'no'
    """
    reading = read_choice(str(reply), YES_NO, (), question=question_of(reply))
    return None if reading.choice is None else YES_NO[reading.choice]


_IN_THE_IMAGE = late_pattern(
    r"\b(?:in|on|of) (?:the|this) (?:image|picture|photo(?:graph)?|scene|video|chart|figure|drawing|map|scan)\b",
    re.IGNORECASE,
)
_MOST_OFFERED_WORDS = 4
"""Words of the longest answer that counts as offered by a question."""
_ALTERNATIVE = late_pattern(r",?\s+or\s+", re.IGNORECASE)
_ITEM_SIGNS = late_pattern(r"[,:;]\s*")


def offered_answers(question: str) -> tuple[str, ...]:
    """Return the answers that a question offers; none if it offers no choice of a few words.

    Examples:
        >>> offered_answers("Which is bigger in this image, liver, spleen or kidney?")
        ('liver', 'spleen', 'kidney')
        >>> offered_answers("Is the tumor hyperdense or hypodense?")
        ('hyperdense', 'hypodense')
        >>> offered_answers("Is it raining?")
        ()
    """
    question_text = _IN_THE_IMAGE.sub(" ", last_question(question)).strip(" ?\n")
    first_part, *alternatives = _ALTERNATIVE.split(question_text)
    if not alternatives:
        return ()
    n_words = len(alternatives[-1].split())
    if not 0 < n_words <= _MOST_OFFERED_WORDS:
        return ()
    # The first part begins with the question itself: "Which is bigger, liver, spleen".
    _, *first_answers = _ITEM_SIGNS.split(first_part)
    if not first_answers:  # "Is the car red or blue?": as many words before "or" as behind it
        first_answers = [" ".join(first_part.split()[-n_words:])]
    offered = []
    for answer in (*first_answers, *alternatives):
        if not 0 < len(answer.split()) <= _MOST_OFFERED_WORDS:
            return ()
        offered.append(answer.strip())
    return tuple(offered)


def letter_in(reply: str) -> str | None:
    """Return the letter from A to J that a reply chooses; None if it chooses none.

    This is for questions whose options are only in the image, so their texts are not known.
    """
    unknown_texts = tuple(f"option {letter}" for letter in LETTERS)
    reading = read_choice(str(reply), unknown_texts, LETTERS)
    return None if reading.choice is None else LETTERS[reading.choice]


_ANNOUNCED_ANSWER = late_pattern(
    r"(?:^|\b)(?:final |correct |my |short )?answer\b(?: is| would be)?\s*[:=]?\s*([^\n]{1,80}?)(?=\.(?:\s|$)|\n|$)",
)
"""An answer (group 1) behind "the answer is" or the like."""
_PLAINLY_ANNOUNCED = late_pattern(r"\banswer\b\W{0,3}(?: is| would be|\s*[:=])")
"""What says that an announcement is one, and not the verb: "not needed to answer the question" is none."""
_EXPLAINED_ANSWER = late_pattern(
    r"\A([^\n]{1,60})\n\s*\n?(?:explanation|reason|reasoning|rationale|because)\b"
)
"""An answer in the first line (group 1), before an explanation."""


def stated_answer(reply: str) -> str:
    """Return the words that a reply announces as its answer, or its complete answer text if it announces none.

    Examples:
        >>> stated_answer("I count the rows. Answer: 8")
        '8'
        >>> stated_answer("8\\n\\nExplanation: two rows of four")
        '8'
    """
    text = answer_text(reply)
    lowered = text.casefold()
    announced = list(_ANNOUNCED_ANSWER.finditer(lowered))
    plainly_announced = [match for match in announced if _PLAINLY_ANNOUNCED.search(match[0])]
    if announced:
        last = plainly_announced[-1] if plainly_announced else announced[-1]
        start, end = last.span(1)
        return text[start:end].strip()
    explained = _EXPLAINED_ANSWER.match(lowered)
    if explained is not None:
        return text[: explained.end(1)].strip()
    return text


_RESULT = late_pattern(r"[=≈]")


def worked_result(reply: str) -> str:
    """Return the result of a calculation over several lines.

    It is the text after the last equals sign in the last line with a number. A reply in which fewer than two lines have
    numbers, or without an equals sign, is returned as it is.

    Examples:
        >>> worked_result("**Step 1:** 3 + 6 = 9\\n\\nTotal = 9 + 20 = **29 liters**")
        ' **29 liters**'
        >>> worked_result("2 dogs and 3 cats")
        '2 dogs and 3 cats'
    """
    lines = [line for line in reply.splitlines() if number_forms(line)]
    if len(lines) < 2 or not _RESULT.search(reply):
        return reply
    last_line = lines[-1]
    result = _RESULT.split(last_line)[-1]
    return result if number_forms(result) else last_line


def number_forms(text: str) -> tuple[str, ...]:
    """Return the numbers of a text in digits.

    Example:
        >>> number_forms("minus seven of 3,000")
        ('-7', '3000')
    """
    return tuple(token.normalised[1:] for token in tokenise(text) if token.normalised[0] == "#")


def declines(reply: str) -> bool:
    """Return whether a reply says that it gives no answer ("I cannot determine that") and announces none."""
    text = answer_text(reply)
    return refusal_count(text) > 0 and stated_answer(reply) == text
