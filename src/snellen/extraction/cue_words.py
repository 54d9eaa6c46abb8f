"""Words that tell what a reply does with an option, in 17 languages; the words are in `cue_words.toml`."""

from __future__ import annotations

import re
import tomllib
from functools import cache
from importlib.resources import files
from typing import Any

from snellen.common.late import late_pattern


@cache
def _table() -> dict[str, Any]:
    text = files("snellen.extraction").joinpath("cue_words.toml").read_text("utf-8")
    return tomllib.loads(text)


_CLASSES = (
    "negation", "wrong", "contrast", "correction", "conclusion", "tentative", "supposition", "answer", "option",
    "correct", "choose", "final", "hedge", "alternative", "comparison", "others", "speech", "ignorance", "copula",
)  # fmt: skip
"""What words do, from the most telling on; a word that does several things has all of them."""


@cache
def cue_classes() -> dict[str, tuple[str, ...]]:
    """Each single word -> what it does. A phrase is known by its last word if that has three letters at least."""
    classes: dict[str, list[str]] = {}
    for name in _CLASSES:
        for phrase in _table()[name].split():
            if "_" in phrase:
                continue
            classes.setdefault(phrase, []).append(name)
    return {word: tuple(names) for word, names in classes.items()}


@cache
def words_of(name: str) -> frozenset[str]:
    """The words of one class that are single words."""
    return frozenset(word for word in _table()[name].split() if "_" not in word)


@cache
def dense_words(name: str) -> tuple[str, ...]:
    """The Chinese, Japanese and Korean words of a class, which are found inside a run of characters."""
    return tuple(word for word in words_of(name) if word[0] >= "\u3040")


@cache
def phrases_of(name: str) -> re.Pattern[str]:
    """A pattern for the phrases of several words of a class."""
    phrases = [phrase.replace("_", " ") for phrase in _table()[name].split() if "_" in phrase]
    ordered: list[str] = sorted((re.escape(phrase) for phrase in phrases), key=len, reverse=True)
    return re.compile(rf"\b(?:{'|'.join(ordered)})\b")


@cache
def number_words() -> dict[str, int]:
    """Each number word -> its value. A word with another meaning in some language is left out there."""
    values: dict[str, int] = {}
    for language in _table()["numbers"]:
        for value, word in enumerate(language.split()):
            if word != "-":
                values.setdefault(word, value)
    return values


@cache
def opposites() -> dict[str, frozenset[str]]:
    """Each word -> the words that deny it: "open" -> "closed", "shut"."""
    contrary: dict[str, frozenset[str]] = {}
    for words, others in _table()["opposites"]:
        for one, another in ((words, others), (others, words)):
            for word in one.split():
                contrary[word] = contrary.get(word, frozenset()) | frozenset(another.split())
    return contrary


@cache
def exclusives() -> tuple[frozenset[str], ...]:
    """Groups of words of which only one is true of a thing: colours, shapes, materials."""
    return tuple(frozenset(words.split()) for words in _table()["exclusives"])


@cache
def _refusals() -> re.Pattern[str]:
    return re.compile("|".join(_table()["refused"]), re.IGNORECASE)


_DECIDE = (
    "determin|answer|assist|help|identif|see|view|provid|tell|say|know|process|analy|access|comply|make|give|choose|decide|"
    "confirm|infer|judge|respond|select|open|read|interpret|recogni|pick|conclude"
)
_REFUSAL = late_pattern(
    rf"\b(?:sorry|apologi[sz]e|unable to|(?:can(?:not| not|'t)|could(?: not|n't)) (?:\w+ly )?(?:be )?(?:\w+ly )?(?:{_DECIDE})\w*|"
    rf"(?:not possible|impossible|difficult|hard|challenging) to (?:\w+ly )?(?:{_DECIDE})\w*|"
    r"not (?:able|enough|sufficient|provided|clear enough|known|available)|unknown|unclear|insufficient|"
    r"as an ai|don't know|do not know|not sure|please provide|would need|more (?:information|context)|"
    r"without (?:more|further|additional)|no (?:way to|image|answer|information|mention)|"
    r"does(?:n't| not) (?:provide|contain enough|give|show enough)|none of the (?:above|options|given|provided))\b",
    re.IGNORECASE,
)


def refusal_count(text: str) -> int:
    """How many phrases of a text say that it gives no answer."""
    return len(_REFUSAL.findall(text)) + len(_refusals().findall(text))
