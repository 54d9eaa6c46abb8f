"""How the makers of today's benchmarks read replies, faults included, for their published numbers."""

from __future__ import annotations

import re
from collections.abc import Sequence

from snellen.extraction.reading import (
    ExtractedChoice,
    NamedExtractor,
    labels_alone,
    no_choice,
    published_rule,
)
from snellen.metrics.ocr import edit_distance

_LETTER = re.compile(r"\(([A-Za-z])\)")


def mathvista_choice(reply: str, options: Sequence[str], labels: Sequence[str]) -> ExtractedChoice:
    """MathVista's rule for answers that its judge extracted (evaluation/calculate_score.py of lupantech/MathVista).

    The first letter in parentheses, or a letter alone, names an option. Any other text stands for the option that is
    nearest by edit distance, so that "No answer" names one, too.
    """
    if not options:
        return no_choice("no match")
    text = reply.strip()
    in_parentheses = _LETTER.search(text)
    if in_parentheses:
        text = in_parentheses[1].upper()
    letters = list(labels[: len(options)])
    if text in letters:
        place = letters.index(text)
        return ExtractedChoice(place, "label", "certain")
    distances = [edit_distance(text, option) for option in options]
    return ExtractedChoice(distances.index(min(distances)), "own rule", "certain")


MATHVISTA = NamedExtractor("mathvista", published_rule(mathvista_choice), labels_alone)
