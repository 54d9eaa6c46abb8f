"""When two texts of different files are the same, and which options a prompt lists."""

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


def places_of(shown_options: Sequence[str], options: Sequence[str]) -> tuple[int, ...] | None:
    """For each option shown, its index among `options`; None when one is none of them, or two are the same one.

    Texts are compared as they are, and folded where that finds nothing and folding leaves all options different.
    """
    exact = {option.strip(): place for place, option in enumerate(options)}
    loose = {folded(option): place for place, option in enumerate(options)}
    if len(loose) < len(options):
        loose = {}
    places = [exact.get(text.strip(), loose.get(folded(text))) for text in shown_options]
    known_places = tuple(place for place in places if place is not None)
    return known_places if len(known_places) == len(shown_options) == len(set(known_places)) else None


# --- options that a prompt lists -------------------------------------------------------------------------------------


_LISTED = re.compile(r"^\s*\(?([A-Z])[.):]\s+(\S.*?)\s*$", re.MULTILINE)


def listed_options(prompt: str) -> tuple[str, ...]:
    """The last list of two lines or more that are lettered from A on; empty when there is none."""
    last: tuple[str, ...] = ()
    current: list[str] = []
    for match in _LISTED.finditer(prompt):
        if match[1] == "A":
            current = []
        elif ord(match[1]) - ord("A") != len(current):
            current = []
            continue
        current.append(match[2])
        if len(current) >= 2:
            last = tuple(current)
    return last


def gold_places(target: str, options: tuple[str, ...]) -> tuple[int, ...]:
    """The place that a target names by its letter or its text; empty when it names none."""
    text = target.strip().strip("().").strip()
    if len(text) == 1 and "A" <= text.upper() <= "Z" and ord(text.upper()) - ord("A") < len(options):
        return (ord(text.upper()) - ord("A"),)
    same_places = [
        place for place, option in enumerate(options) if option.strip().casefold() == target.strip().casefold()
    ]
    return (same_places[0],) if len(same_places) == 1 else ()
