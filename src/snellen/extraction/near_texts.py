"""Short replies that are an option in another spelling: "saxaphone", "UK" for "United Kingdom"."""

from __future__ import annotations

import re
from collections.abc import Sequence

from snellen.extraction import patterns, phrases
from snellen.extraction.option_index import OptionIndex, tokens
from snellen.formats.late_patterns import late_pattern

_LONGEST_REPLY = 80
_SHORTEST_MISSPELT = 6
_INITIALS = late_pattern(r"(?<![^\W_])(?:[A-Z]\.?){2,6}(?![^\W_])")
_SMALL_WORDS = frozenset("of the and for in on de la le du des y und der die".split())


def respelt_option(text: str, index: OptionIndex) -> int | None:
    """The one option that a short reply is but for doubled letters and vowels, or by its initials."""
    if len(text) > _LONGEST_REPLY or text.rstrip().endswith("?"):
        return None
    place = _abbreviated(text, index)
    if place is not None:
        return place
    words = " ".join(token.text for token in tokens(text) if token.kind not in ("sign", "newline"))
    said = _sound(patterns.OPENINGS.sub("", words, count=1).split())
    places = [place for place, option in enumerate(index.words) if said and _sound(option) == said]
    return places[0] if len(places) == 1 else None


def _abbreviated(text: str, index: OptionIndex) -> int | None:
    shown = [match[0].replace(".", "").lower() for match in _INITIALS.finditer(text)]
    others = [token for token in tokens(_INITIALS.sub(" ", text)) if token.kind == "word"]
    if len(shown) != 1 or any(
        t.text not in phrases.OPENERS | phrases.DETERMINERS | phrases.AUXILIARIES for t in others
    ):
        return None
    short = [_initials(words) for words in index.words]
    places = [place for place, initials in enumerate(short) if initials == shown[0] and len(index.words[place]) > 1]
    return places[0] if len(places) == 1 else None


def _initials(words: Sequence[str]) -> str:
    return "".join(word[0] for word in words if word not in _SMALL_WORDS)


def _sound(words: Sequence[str]) -> tuple[str, ...]:
    """Words without doubled letters and with one vowel for all; short words and numbers as they are."""
    return tuple(
        re.sub(r"[aeiouy]+", "a", re.sub(r"(.)\1", r"\1", word)) + word[0]
        if len(word) >= _SHORTEST_MISSPELT and word.isascii() and word.isalpha()
        else word
        for word in words
    )
