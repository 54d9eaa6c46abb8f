"""ReForm-Eval's rule for reading a reply, faults included (section 3.3.1).

ReForm-Eval's scorers of open questions, defect for defect, to reproduce its numbers.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from snellen.extraction.reading import ExtractedChoice, NamedExtractor, labels_alone, no_choice, published_rule
from snellen.metrics.declaration import reply_metric
from snellen.metrics.normalise import contains_words, legacy_ocr_normalise

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


def ocr_match(reply: str, references: Sequence[str]) -> float:
    """ReForm-Eval, OCR: 1 if the references, joined by blanks, stand in the reply between word boundaries.

    Called word-level accuracy in the paper (section 3.3.2), but the whole answer is looked for. Both
    sides lose all but ASCII letters and digits: a gold without any matches every reply that has a word.
    """
    return float(contains_words(legacy_ocr_normalise(reply), legacy_ocr_normalise(" ".join(references))))


OCR_MATCH = reply_metric(
    ocr_match,
    name="legacy_ocr_match",
    unit="share",
    title="legacy OCR match",
    limit="where several answers are accepted a reply has to hold all of them, and a gold without a letter or digit "
    "matches no reply without one",
)
