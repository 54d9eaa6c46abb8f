"""ReForm-Eval's rule for reading a reply, faults included (section 3.3.1)."""

from __future__ import annotations

import re
from collections.abc import Sequence

from snellen.extraction.reading import ExtractedChoice, NamedExtractor, labels_alone, no_choice, published_rule

_LABEL = re.compile(r"\(([1-9A-Za-z])\)")


def reform_eval_first_label(reply: str, options: Sequence[str], labels: Sequence[str]) -> ExtractedChoice:
    """The first single character in parentheses, read in its own alphabet: (A), (a) and (1) are the first option.

    The labels and texts shown are not consulted; a label beyond the options is a hit of the format, and wrong.
    """
    match = _LABEL.search(reply)
    if match is None:
        return no_choice("no match" if reply.strip() else "empty")
    character = match[1]
    place = int(character) - 1 if character.isdigit() else ord(character.upper()) - ord("A")
    if place >= len(options):
        return ExtractedChoice(
            None, None, "none", "a label beyond the options", match.span(1), follows_format=True, reason="no match"
        )
    return ExtractedChoice(place, "label", "certain", "", match.span(1), follows_format=True)


def _single_characters(labels: Sequence[str]) -> str:
    long = any(len(label) > 1 for label in labels)
    return "finds labels of one character alone, and some shown were longer" if long else labels_alone(labels)


FIRST_LABEL = NamedExtractor(
    "reform-eval-first-label", published_rule(reform_eval_first_label), "reform-eval", _single_characters
)
