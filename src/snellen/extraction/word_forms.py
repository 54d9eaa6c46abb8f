"""A reply that names no option, with the words that are another form of an option's words put as the option has them.

"Happy" of happiness, "the U.S." of United States, "strawman" of straw man, "Congradulations".
"""

from __future__ import annotations

import re
from functools import lru_cache

from snellen.extraction import languages
from snellen.extraction.option_index import OptionIndex
from snellen.formats.late_patterns import late_pattern

_WORD = late_pattern(r"(?<![\w'])(?:[A-Z]\.){2,5}|(?<![\w'])[A-Za-z]+(?:-[A-Za-z]+)?(?:'s)?(?![\w])")
_SUFFIXES = sorted(
    "iness ness fulness ful fully ily ly ed ing ion ment ic ical y e er ry s es".split(), key=len, reverse=True
)
_FAMILY = 4
"""Letters that two words of a family share at least, behind which both end in a suffix."""
_SHORTEST_MISSPELT = 7
_SMALL = frozenset("of the and for in on de la le du des y und der die".split())
_LONGEST = 2_000


def with_own_words(text: str, index: OptionIndex) -> str | None:
    """The text with other forms of options' words replaced; None where there are none, or two options share one."""
    if len(text) > _LONGEST or not text.isascii():
        return None
    spread = _spread(text, index)
    changed = spread != text
    text = spread

    def own(match: re.Match[str]) -> str:
        nonlocal changed
        place = _place(match[0], tuple(index.words))
        if place is None:
            return match[0]
        changed = True
        return " ".join(index.words[place])

    respelt = _with_synonyms(_WORD.sub(own, text), index)
    return respelt if changed or respelt != text else None


def _with_synonyms(text: str, index: OptionIndex) -> str:
    """The text with words that mean what a word of one option means replaced by that."""
    for meaning, pattern in _MEANINGS:
        if pattern.search(text) is None:
            continue
        there = [(place, word) for place, words in enumerate(index.words) for word in words if word in meaning]
        if len({place for place, _ in there}) == 1:
            text = pattern.sub(there[0][1], text)
    return text


_MEANINGS = tuple(
    (meaning, late_pattern(rf"\b(?:{'|'.join(sorted(meaning, key=len, reverse=True))})\b", re.IGNORECASE))
    for meaning in languages.SYNONYMS
)


def _spread(text: str, index: OptionIndex) -> str:
    """ "Paths 1, 2 and 3" as "path 1, path 2 and path 3", where options are "path 1" and so on."""
    nouns = {words[0] for words in index.words if len(words) == 2}
    if len(nouns) != 1 or any(len(words) == 2 and words[0] not in nouns for words in index.words):
        return text
    [noun] = nouns
    items = "|".join(sorted({re.escape(words[1]) for words in index.words if len(words) == 2}, key=len, reverse=True))
    listed = re.compile(
        rf"\b{re.escape(noun)}(?:e?s)? ((?:{items})(?:(?:,|,? (?:and|or|&)) (?:{items}))+)\b", re.IGNORECASE
    )
    each = re.compile(rf"(?<!\w)(?:{items})(?!\w)", re.IGNORECASE)
    return listed.sub(lambda found: each.sub(lambda item: f"{noun} {item[0]}", found[1]), text)


@lru_cache(maxsize=16384)
def _place(shown: str, every: tuple[tuple[str, ...], ...]) -> int | None:
    """The one option that a word is another form of."""
    if shown.isupper() and 1 < len(shown.replace(".", "")) <= _MOST_INITIALS:
        letters = shown.replace(".", "").lower()
        places = [
            place
            for place, words in enumerate(every)
            if len(words) > 1 and "".join(word[0] for word in words if word not in _SMALL) == letters
        ]
        return places[0] if len(places) == 1 else None
    word = shown.lower()
    if word.endswith("'s"):
        owners = [place for place, words in enumerate(every) if words == (word[:-2],)]
        return owners[0] if len(owners) == 1 else None
    for same in (_joined, _family, _misspelt):
        places = [place for place, words in enumerate(every) if same(word, words)]
        if places:
            return places[0] if len(places) == 1 else None
    return None


_MOST_INITIALS = 5


def _joined(word: str, words: tuple[str, ...]) -> bool:
    """ "strawman", "straw-man" of "straw man"."""
    if len(words) == 1:
        return word.replace("-", "") == words[0]
    return len(words) == 2 and word.replace("-", "") == "".join(words)


def _family(word: str, words: tuple[str, ...]) -> bool:
    """ "happy" of "happiness": the same root with two endings."""
    if len(words) != 1 or not words[0].isascii() or not words[0].isalpha():
        return False
    return word != words[0] and not _roots(word).isdisjoint(_roots(words[0]))


@lru_cache(maxsize=16384)
def _roots(word: str) -> frozenset[str]:
    roots = {word} if len(word) >= _FAMILY - 1 else set()
    roots |= {word.removesuffix(ending) for ending in _SUFFIXES if word.endswith(ending)}
    roots = {re.sub(r"(.)\1$", r"\1", root) for root in roots}
    return frozenset(re.sub(r"([bdgkpt])er$", r"\1r", root) for root in roots if len(root) >= _FAMILY - 1)


def _misspelt(word: str, words: tuple[str, ...]) -> bool:
    """One letter too many, too few, other, or two that have changed places."""
    if len(words) != 1 or min(len(word), len(words[0])) < _SHORTEST_MISSPELT or word[0] != words[0][0]:
        return False
    own = words[0]
    if abs(len(word) - len(own)) > 1 or word == own:
        return False
    start = next(
        (i for i, (one, other) in enumerate(zip(word, own, strict=False)) if one != other), min(len(word), len(own))
    )
    one, other = word[start:], own[start:]
    return (
        one[1:] == other[1:]
        or one[1:] == other
        or one == other[1:]
        or (one[:2] == other[1::-1] and one[2:] == other[2:])
    )
