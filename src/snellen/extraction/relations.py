"""Options that say where something is by a preposition: "Under it" of "The cat is beneath the sofa"."""

from __future__ import annotations

import re
from functools import lru_cache

from snellen.extraction import languages
from snellen.extraction.question_words import stems

_RELATIONS = {
    name: re.compile(rf"(?<![\w-])(?:{'|'.join(forms)})(?![\w-])") for name, forms in languages.RELATIONS.items()
}
_WORD = re.compile(r"[a-z]+(?:'[a-z]+)?")
_SMALL = frozenset(
    "it its it's the a an to of is are on in at and him her them this that his their side directly right just".split()
)
_DENIES = re.compile(r"\b(?:not|no|never|or|if|either|neither|rather|than|would|could|might)\b|n't\b|\?")
_LONGEST = 200


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


@lru_cache(maxsize=4096)
def _of_options(options: tuple[str, ...]) -> dict[str, int]:
    """Relation -> place, where every option is one relation to a thing that all share, and no two the same."""
    relations: dict[str, int] = {}
    contents = []
    for place, option in enumerate(options):
        text = option[:_LONGEST].lower()
        named = _named(text)
        if len(named) != 1:
            return {}
        [(name, (start, end))] = named.items()
        if name in relations:
            return {}
        relations[name] = place
        rest = text[:start] + " " + text[end:]
        contents.append(frozenset(word for word in _WORD.findall(rest) if word not in _SMALL))
    return relations if len(set(contents)) == 1 and len(contents[0]) <= 1 else {}


_IN_THE_PICTURE = re.compile(
    r"\b(?:in|on|from|at|of) (?:the|this) (?:image|picture|photo|photograph|scene|background|foreground|diagram|figure|drawing)"
)


def related_option(text: str, question: str, options: tuple[str, ...]) -> int | None:
    """The one option whose relation a short reply of one sentence names, in whatever words, of what is asked about."""
    relations = _of_options(options)
    text = _IN_THE_PICTURE.sub(" ", text.lower().strip()).strip(" .!,")
    if not relations or len(text) > _LONGEST or _DENIES.search(text) or re.search(r"[.!?;\n]", text):
        return None
    named = [(start, relations[name]) for name, (start, _) in _named(text).items() if name in relations]
    if len(named) != 1:
        return None
    [(start, place)] = named
    asked = [stem for word in _WORD.findall(question[:2000].lower()) for stem in stems(word)]
    before = stems(text[:start])
    return None if start and not before.isdisjoint(asked) and asked[0] not in before else place
