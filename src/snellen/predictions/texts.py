"""When two texts of different files are the same."""

from __future__ import annotations

import re
from collections.abc import Sequence

_FRAME = re.compile(r"^question: |(?<=\S) answer:$")


def folded(text: str) -> str:
    """A text without what toolkits change: blanks, capitals, and a final full stop or question mark."""
    return " ".join(text.split()).casefold().rstrip(".?").rstrip()


def folded_question(text: str) -> str:
    """A folded question without the frame of some prompts: `Question: ... Answer:`."""
    return folded(_FRAME.sub("", folded(text)))


def places_of(shown: Sequence[str], options: Sequence[str]) -> tuple[int, ...] | None:
    """For each option shown, its index among `options`; None when one is none of them, or two are the same one.

    Texts are compared as they are, and folded where that finds nothing and folding leaves all options different.
    """
    exact = {option.strip(): place for place, option in enumerate(options)}
    loose = {folded(option): place for place, option in enumerate(options)}
    if len(loose) < len(options):
        loose = {}
    places = [exact.get(text.strip(), loose.get(folded(text))) for text in shown]
    found = tuple(place for place in places if place is not None)
    return found if len(found) == len(shown) == len(set(found)) else None
