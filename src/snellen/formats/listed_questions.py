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
    """Split a text that lists options by letters into its question and its options.

    The options must be on separate lines after the question, with the letters A, B, C and so on in this order, and differ
    from each other. Only instructions may follow, such as `Answer with the letter.` They are dropped, because each
    protocol adds its own. A line with a question mark is not an instruction, because it may be the question.

    Returns:
        The question and the options; None if the text does not have this form.

    Examples:
        >>> split_listed("Which animal?\\nA. cat\\nB. dog\\nAnswer with the letter.")
        ListedQuestion(question='Which animal?', options=('cat', 'dog'))
        >>> split_listed("Is plan A. or plan B. better?") is None
        True
        >>> split_listed("A plan.\\nA. kitchen\\nB. bath\\nWhich option is bigger?") is None
        True
    """
    lines_before: list[str] = []
    options: list[str] = []
    lines_after: list[str] = []
    for line in text.splitlines():
        option = _OPTION.match(line)
        if option is not None:
            letter = option[1] or option[2]
            is_next = letter == LETTERS[len(options) % 26]
            if is_next and not lines_after:
                options.append(option[3])
                continue
            if options:
                return None  # a letter twice, or out of order
        if not options:
            lines_before.append(line)
        elif line.strip():
            lines_after.append(line)

    # A heading such as "Options:" is not a part of the question.
    while lines_before:
        last_line = lines_before[-1]
        if last_line.strip() and not _HEADING.match(last_line):
            break
        lines_before.pop()
    question = "\n".join(lines_before).strip()
    if not question:
        return None
    are_different = len(set(options)) == len(options)
    if not are_different or not 2 <= len(options) <= len(LETTERS):
        return None
    for line in lines_after:
        is_instruction = _INSTRUCTION.search(line) and not _ASKS.search(line)
        if not is_instruction:
            return None
    return ListedQuestion(question, tuple(options))
