"""The words of replies, by language and by what they do. Data for the rules; the words stand in `words/*.toml`.

Phrases have `_` for blanks. Chinese and Japanese words are found inside a run of characters, all others as words.
"""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Iterable
from functools import lru_cache
from importlib.resources import files
from typing import Any

Words = dict[str, str]
"""Language -> words, separated by blanks."""

_TABLES: dict[str, dict[str, Any]] = {
    file.name.removesuffix(".toml"): tomllib.loads(file.read_text(encoding="utf-8"))
    for file in sorted(
        files("snellen.extraction").joinpath("words").iterdir(), key=lambda file: file.name
    )
    if file.name.endswith(".toml")
}
"""Of each language its tables; `any` is what holds in several, `dense` Chinese and Japanese."""


def _words(name: str) -> Words:
    return {language: tables[name] for language, tables in _TABLES.items() if name in tables}


def union(*tables: Words) -> frozenset[str]:
    """The words of all languages."""
    return frozenset(word for table in tables for words in table.values() for word in words.split())


MARKERS = _words("markers")
"""What English text does not hold: one of these and the rules of the other languages are tried."""
ANSWER, OPTION, CORRECT, CHOOSE = (
    _words("answer"),
    _words("option"),
    _words("correct"),
    _words("choose"),
)
FINAL = _words("final")
FILL = _words("fill")
"""What stands between the words of a verdict: copulas, articles, pronouns, adverbs."""
COPULA = _words("copula")
WRONG, NEGATION = _words("wrong"), _words("negation")
NEGATION_BEHIND = _words("negation_behind")
"""Negations that stand behind the words they deny."""
CONTRAST = _words("contrast")
CORRECTION = _words("correction")
"""At the beginning of a clause: what was said before it is taken back."""
CONCLUSION = _words("conclusion")
THAN, MORE = _words("than"), _words("more")
"""What stands before that which something is compared with, and before the measure."""
TENTATIVE = _words("tentative")
"""A clause with one of these reports a guess that was not kept."""
HYPOTHESIS = _words("hypothesis")
"""What a supposition begins with."""
SUPPOSED = _words("supposed")

_ANY, _DENSE, _ENGLISH, _KOREAN = _TABLES["any"], _TABLES["dense"], _TABLES["en"], _TABLES["ko"]
DENIED_BEHIND_DENSE: str = _DENSE["denied_behind"]
DENIED_BEFORE_DENSE: str = _DENSE["denied_before"]
CORRECTION_DENSE: str = _DENSE["correction"]
CONCLUSION_DENSE: str = _DENSE["conclusion"]
TENTATIVE_DENSE: str = _DENSE["tentative"]
HYPOTHESIS_DENSE: str = _DENSE["hypothesis"]
MEASURES = frozenset(_DENSE["measures"])
"""Chinese and Japanese words between a number and what is counted."""
DENIED_BEHIND_KOREAN: str = _KOREAN["denied_behind"]
REFUSED = "|".join(_ANY["refused"])
"""Of a language each: what says that the reply gives no answer."""
NUMBERS: tuple[str, ...] = tuple(
    words for tables in _TABLES.values() for words in tables.get("numbers", ())
)
"""The number words of each language in order from zero; `-` where the word means something else too."""
HOURS: tuple[tuple[tuple[str, ...], dict[str, str]], ...] = tuple(
    (tuple((tables.get("numbers") or [tables["phrases"]["counted"]])[0].split()), tables["clock"])
    for tables in _TABLES.values()
    if "clock" in tables
)
"""Of a language each: its number words, and how it says the minutes of an hour (H) before the next one (N)."""
YES, NO = (frozenset(_ANY[word].split()) for word in ("yes", "no"))
ARTICLES, SURE_ARTICLES = (frozenset(_ANY[word].split()) for word in ("articles", "sure_articles"))
KOREAN_PARTICLES = "|".join(_KOREAN["particles"])
TURKISH_ENDINGS = "|".join(_TABLES["tr"]["endings"])
ENDINGS: tuple[str, str] = (_ANY["endings_latin"], _ANY["endings_cyrillic"])
"""Endings of words that decline, each a replacement for another: Latin letters, then Cyrillic."""
ENGLISH_ENDINGS: str = _ENGLISH["endings"]
OPPOSITES: tuple[tuple[frozenset[str], frozenset[str]], ...] = tuple(
    (frozenset(word.split()), frozenset(contrary.split()))
    for word, contrary in _ENGLISH["opposites"]
)
"""Words of which the one denies the other."""


ENGLISH = frozenset(_ENGLISH["speaking"].split())
EITHER = frozenset(_ENGLISH["ambiguous"].split())
"""Words of English and of another language too say nothing about the language."""
MARKS: dict[str, str] = _ENGLISH["marks"]
"""What English words around a mention do: kind -> words."""
DENSE_MARKS: dict[str, str] = _DENSE["marks"]
PHRASES: dict[str, str] = _ENGLISH["phrases"]
PATTERNS: dict[str, str] = _ENGLISH["patterns"]
_SPEAKING = (
    *(MARKERS, NEGATION, NEGATION_BEHIND, ANSWER, OPTION, CORRECT, WRONG, CHOOSE),
    *(CONTRAST, CORRECTION, CONCLUSION, HYPOTHESIS),
)


def _of_language(language: str) -> frozenset[str]:
    every = " ".join(
        [table.get(language, "") for table in _SPEAKING] + _TABLES[language].get("numbers", [])[:1]
    )
    words = frozenset(word for word in every.split() if "_" not in word) - ENGLISH - EITHER
    return frozenset(word for word in words if len(word) > 1 or word in "éèàyłw")


_BY_LANGUAGE = {language: _of_language(language) for language in MARKERS}
_LETTERS = _words("letters")
SCRIPTS = {
    language: tuple(tables["script"]) for language, tables in _TABLES.items() if "script" in tables
}


@lru_cache(maxsize=16384)
def _votes(word: str) -> tuple[str, ...]:
    """The languages that a word speaks for; "en" for English."""
    first = word[0]
    if not first.isascii():
        by_script = [language for language, (low, high) in SCRIPTS.items() if low <= first <= high]
        if by_script:
            return tuple(by_script)
    languages = [language for language, words in _BY_LANGUAGE.items() if word in words]
    if not word.isascii():
        languages += [
            language
            for language, letters in _LETTERS.items()
            if any(sign in letters for sign in word)
        ]
    return (*languages, "en") if word in ENGLISH else tuple(languages)


SPEAKING = frozenset[str]().union(*_BY_LANGUAGE.values())
"""Words that speak for a language other than English."""


def votes_of(words: Iterable[str]) -> Counter[str]:
    """How many words speak for each language other than English."""
    counted = Counter(language for word in words for language in _votes(word))
    counted.pop("en", 0)
    return counted


def guess(words: Iterable[str], options: Counter[str]) -> tuple[str, ...]:
    """The languages other than English that a reply may be in; none for English. The options' words vote too."""
    counted = Counter(language for word in words for language in _votes(word))
    english = counted.pop("en", 0)
    counted.update(options)
    most = max(counted.values(), default=0)
    return (
        tuple(sorted(language for language, votes in counted.items() if votes == most))
        if most > english
        else ()
    )
