"""Options that say where something is by a preposition: "Under it" of "The cat is beneath the sofa"."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

from snellen.extraction import languages
from snellen.extraction.question_words import stems
from snellen.formats.late_patterns import late_pattern

_RELATIONS = {
    name: late_pattern(rf"(?<![\w-])(?:{'|'.join(forms)})(?![\w-])") for name, forms in languages.RELATIONS.items()
}
_WORD = late_pattern(r"[a-z]+(?:'[a-z]+)?")
_SMALL = frozenset(
    "it its it's the a an to of is are on in at and him her them this that his their side directly right just".split()
)
_DENIES = late_pattern(r"\b(?:not|no|never|or|if|either|neither|rather|than|would|could|might)\b|n't\b|\?")
_LONGEST = 200
_LONGEST_QUESTION = 2_000


def _named(text: str) -> dict[str, tuple[int, int]]:
    """The relations that a text names; of two that overlap the longer."""
    found = sorted(
        ((m.start(), m.end(), name) for name, pattern in _RELATIONS.items() for m in pattern.finditer(text)),
        key=lambda one: (one[0], -one[1]),
    )
    named: dict[str, tuple[int, int]] = {}
    last = 0
    for start, end, name in found:
        if start >= last:
            named.setdefault(name, (start, end))
            last = end
    return named


class _Relations(NamedTuple):
    """What options say of where one thing is: relation -> place, and the things before and behind it."""

    places: dict[str, int]
    before: frozenset[str]
    behind: frozenset[str]


@lru_cache(maxsize=4096)
def _of_options(options: tuple[str, ...]) -> _Relations | None:
    """The options as relations, where all but one are one between the same things, and no two the same."""
    places: dict[str, int] = {}
    things = set()
    for place, option in enumerate(options):
        text = option[:_LONGEST].lower()
        named = _named(text)
        if len(named) != 1:
            continue
        [(name, (start, end))] = named.items()
        if name in places:
            return None
        places[name] = place
        things.add((_things(text[:start]), _things(text[end:])))
    if len(things) != 1 or len(places) < max(2, len(options) - 1):
        return None
    [(before, behind)] = things
    return _Relations(places, before, behind) if len(before) <= 1 and len(behind) <= 1 else None


def _things(text: str) -> frozenset[str]:
    return frozenset(word for word in _WORD.findall(text) if word not in _SMALL)


_IN_THE_PICTURE = late_pattern(
    r"\b(?:in|on|from|at|of) (?:the|this) (?:image|picture|photo|photograph|scene|background|foreground|diagram"
    r"|figure|drawing)"
)


def related_option(text: str, question: str, options: tuple[str, ...]) -> int | None:
    """The one option whose relation a short reply of one sentence names, in whatever words, of what is asked about."""
    relations = _of_options(options)
    text = _IN_THE_PICTURE.sub(" ", text.lower().strip()).strip(" .!,")
    if relations is None or len(text) > _LONGEST or _DENIES.search(text) or re.search(r"[.!?;\n]", text):
        return None
    named = [(span, relations.places[name]) for name, span in _named(text).items() if name in relations.places]
    if len(named) != 1:
        return None
    [((start, end), place)] = named
    before, behind = _things(text[:start]), _things(text[end:])
    if relations.before:
        return place if relations.before <= before and relations.behind <= behind else None
    if before & relations.behind:
        return None
    asked = [stem for word in _WORD.findall(question[:_LONGEST_QUESTION].lower()) for stem in stems(word)]
    subject = stems(text[:start])
    return place if not subject or not asked or asked[0] in subject else None
