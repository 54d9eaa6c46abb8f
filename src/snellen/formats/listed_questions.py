"""Options that are listed in the text of a question, as chat-format data sets write them."""

from __future__ import annotations

import re

from msgspec import Struct

from snellen.formats.delimited import LETTERS

_OPTION = re.compile(r"^\s*(?:\(([A-Z])\)|([A-Z])[.):])\s*(\S.*?)\s*$")
"""`A. a cat`, `A) a cat`, `A: a cat` or `(A) a cat`, on a line of its own."""
_HEADING = re.compile(r"^\s*(?:options|choices|answer choices|candidates)\s*:?\s*$", re.IGNORECASE)
_INSTRUCTION = re.compile(r"\b(?:answer|letter|option|choice|choose|select|pick)", re.IGNORECASE)
_ASKS = re.compile(r"[?？]")


class ListedQuestion(Struct, frozen=True):
    """A question without the options in its text, and these options."""

    question: str
    options: tuple[str, ...]


def split_listed(text: str) -> ListedQuestion | None:
    """Return the question and the options of a text that lists options by letters; None if it is not clear that it does.

    The options stand on a line each, in the order of the alphabet from A, after the question. Only an instruction may
    follow, such as `Answer with the letter.`, which is left out with the options: each protocol words its own. A line
    with a question mark is no instruction, but may be what is asked.

    Examples:
        >>> split_listed("Which animal?\\nA. cat\\nB. dog\\nAnswer with the letter.")
        ListedQuestion(question='Which animal?', options=('cat', 'dog'))
        >>> split_listed("Is plan A. or plan B. better?") is None
        True
        >>> split_listed("A plan.\\nA. kitchen\\nB. bath\\nWhich option is bigger?") is None
        True
    """
    before: list[str] = []
    options: list[str] = []
    after: list[str] = []
    for line in text.splitlines():
        option = _OPTION.match(line)
        if option is not None:
            letter = option[1] or option[2]
            is_next = letter == LETTERS[len(options) % 26]
            if is_next and not after:
                options.append(option[3])
                continue
            if options:
                return None  # a letter twice, or out of order
        if not options:
            before.append(line)
        elif line.strip():
            after.append(line)

    # A heading such as "Options:" is not a part of the question.
    while before and (not before[-1].strip() or _HEADING.match(before[-1])):
        before.pop()
    question = "\n".join(before).strip()
    if not question:
        return None
    are_different = len(set(options)) == len(options)
    if not are_different or not 2 <= len(options) <= len(LETTERS):
        return None
    for line in after:
        is_instruction = _INSTRUCTION.search(line) and not _ASKS.search(line)
        if not is_instruction:
            return None
    return ListedQuestion(question, tuple(options))
