"""How LVLM-eHub read its Questioner and Reasoner, faults included: case counts, and one line is one sub-question."""

from __future__ import annotations

import re
import string
from collections.abc import Sequence

from snellen.extraction.reading import NamedExtractor
from snellen.protocols.reasoning_parsing import ReadConclusion, ReasoningParser

_SUB_QUESTION = re.compile(r"^\s*Sub-question \d+:\s*")
_ANSWER = "Answer:"
_ANALYSIS = "Analysis:"
_DOUBT = "We are not sure"


def legacy_sub_questions(reply: str) -> list[str]:
    """Each line that is not empty, without `Sub-question 1:`; several on one line stay one."""
    return [question for line in reply.splitlines() if (question := _SUB_QUESTION.sub("", line).strip())]


def legacy_conclusion(
    reply: str, options: Sequence[str], labels: Sequence[str], extractor: NamedExtractor, *, last: bool
) -> ReadConclusion | None:
    """What follows the last `Answer:`: the doubt in the paper's words, an option's text, or the first whole number."""
    del extractor, last
    before, marker, words = reply.rpartition(_ANSWER)
    if not marker:
        return None
    analysis = before.rpartition(_ANALYSIS)[2].strip()
    stripped = words.strip(string.punctuation + string.whitespace)
    if _DOUBT in stripped:
        return ReadConclusion(analysis, stripped, doubt=True)
    if not options:
        return ReadConclusion(analysis, stripped) if stripped else None
    if stripped in options:
        return ReadConclusion(analysis, labels[list(options).index(stripped)])
    number = re.search(r"\d+", stripped)
    return ReadConclusion(analysis, number[0]) if number and number[0] in labels else None


LEGACY_PARSER = ReasoningParser(legacy_sub_questions, legacy_conclusion)
