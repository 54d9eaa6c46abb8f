"""Cue words: words that tell what a reply does with an option, in 17 languages.

Cue words have *classes*. "not" is a `negation` and "wrong" is of the class `wrong`; both deny an option next to them.
"is" is a `copula`, "answer" announces an answer, "wait" is a `correction`. A word can have several classes. All words
are in `cue_words.toml`, where `_` joins the words of a phrase: `second_thought`.

*Dense* words are Chinese, Japanese or Korean. They have no blanks around them and are searched for within a text.
"""

from __future__ import annotations

import re
import tomllib
from functools import cache
from importlib.resources import files
from typing import Any

from snellen.common.late import late_pattern

_CLASSES = (
    "negation", "wrong", "contrast", "correction", "conclusion", "tentative", "supposition", "answer", "option",
    "correct", "choose", "final", "hedge", "alternative", "comparison", "others", "speech", "ignorance", "copula",
)  # fmt: skip
"""Classes of cue words, the most telling ones first."""


@cache
def _table() -> dict[str, Any]:
    """Return the content of `cue_words.toml`."""
    text = files("snellen.extraction").joinpath("cue_words.toml").read_text("utf-8")
    return tomllib.loads(text)


@cache
def cue_classes() -> dict[str, tuple[str, ...]]:
    """Return the classes of each cue word that is a single word, such as `("negation",)` for "not"."""
    classes: dict[str, list[str]] = {}
    for name in _CLASSES:
        for phrase in _table()[name].split():
            is_single_word = "_" not in phrase
            if is_single_word:
                classes.setdefault(phrase, []).append(name)
    return {word: tuple(names) for word, names in classes.items()}


def has_cue(word: str, *classes: str) -> bool:
    """Return whether a word has one of some classes.

    Args:
        word: The word in its compared form (`Token.normalised`).
        classes: Names of classes, such as `negation`.

    Examples:
        >>> has_cue("not", "negation", "wrong"), has_cue("cat", "negation", "wrong")
        (True, False)
    """
    classes_of_word = cue_classes().get(word, ())
    return any(name in classes_of_word for name in classes)


@cache
def words_of(name: str) -> frozenset[str]:
    """Return the single words of a class or another list of the table, such as `yes` or `articles`."""
    return frozenset(word for word in _table()[name].split() if "_" not in word)


@cache
def dense_words(name: str) -> tuple[str, ...]:
    """Return the Chinese, Japanese and Korean words of a class. They are searched for within a text."""
    return tuple(word for word in words_of(name) if word[0] >= "\u3040")


@cache
def phrases_of(name: str) -> re.Pattern[str]:
    """Return a pattern that finds the phrases of a class, such as "on second thought" for `correction`.

    If several phrases match at one place, the longest one does.
    """
    # A class lists words and phrases; phrases have underscores for blanks.
    phrases: list[str] = []
    for entry in _table()[name].split():
        if "_" in entry:
            phrases.append(re.escape(entry.replace("_", " ")))
    phrases.sort(key=len, reverse=True)
    return re.compile(rf"\b(?:{'|'.join(phrases)})\b")


@cache
def number_words() -> dict[str, int]:
    """Return the value of each number word: 3 for "three" and "drei".

    A number word that means something else in another language is left out of the table.
    """
    values: dict[str, int] = {}
    for language in _table()["numbers"]:
        for value, word in enumerate(language.split()):
            if word != "-":
                values.setdefault(word, value)
    return values


@cache
def opposites() -> dict[str, frozenset[str]]:
    """Return, for each word with opposites, the words that deny it: `{"closed", "shut"}` for "open"."""
    opposite_words: dict[str, set[str]] = {}
    for first_side, second_side in _table()["opposites"]:
        first_words = first_side.split()
        second_words = second_side.split()
        for word in first_words:
            opposite_words.setdefault(word, set()).update(second_words)
        for word in second_words:
            opposite_words.setdefault(word, set()).update(first_words)
    return {word: frozenset(others) for word, others in opposite_words.items()}


@cache
def exclusives() -> tuple[frozenset[str], ...]:
    """Return groups of words that exclude one another, such as the colours: a thing that is red is not green."""
    return tuple(frozenset(words.split()) for words in _table()["exclusives"])


_KNOWING_VERBS = (
    "determin|answer|assist|help|identif|see|view|provid|tell|say|know|process|analy|access|comply|make|give|choose|decide|"
    "confirm|infer|judge|respond|select|open|read|interpret|recogni|pick|conclude"
)
"""Verbs that a refusal denies: "I cannot determine"."""
_ENGLISH_REFUSAL = late_pattern(
    rf"\b(?:sorry|apologi[sz]e|unable to|(?:can(?:not| not|'t)|could(?: not|n't)) (?:\w+ly )?(?:be )?(?:\w+ly )?(?:{_KNOWING_VERBS})\w*|"
    rf"(?:not possible|impossible|difficult|hard|challenging) to (?:\w+ly )?(?:{_KNOWING_VERBS})\w*|"
    r"not (?:able|enough|sufficient|provided|clear enough|known|available)|unknown|unclear|insufficient|"
    r"as an ai|don't know|do not know|not sure|please provide|would need|more (?:information|context)|"
    r"without (?:more|further|additional)|no (?:way to|image|answer|information|mention)|"
    r"does(?:n't| not) (?:provide|contain enough|give|show enough)|none of the (?:above|options|given|provided))\b",
    re.IGNORECASE,
)


@cache
def _other_refusal() -> re.Pattern[str]:
    """Return the pattern for refusals in other languages than English."""
    return re.compile("|".join(_table()["refused"]), re.IGNORECASE)


def refusal_count(text: str) -> int:
    """Return how many phrases of a text say that it gives no answer: 1 for "I cannot determine the colour"."""
    return len(_ENGLISH_REFUSAL.findall(text)) + len(_other_refusal().findall(text))
