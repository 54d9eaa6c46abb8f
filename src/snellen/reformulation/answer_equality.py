"""Whether two answers mean the same, so that no distractor is also correct (ReForm-Eval E.2, Table 31)."""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

from msgspec import Struct

_DIGITS_OF_WORDS = {
    "zero": "0",
    "one": "1",
    "two": "2",
    "three": "3",
    "four": "4",
    "five": "5",
    "six": "6",
    "seven": "7",
    "eight": "8",
    "nine": "9",
    "ten": "10",
}
_ARTICLES = frozenset({"a", "an", "the"})
_PLURAL_ENDINGS = (
    ("s", ""),
    ("es", ""),
    ("ies", "y"),
    ("ves", "f"),
    ("ves", "fe"),
    ("men", "man"),
)
"""Endings of plurals, each with the ending of the singular."""
_SINGULAR_ENDINGS = ("ss", "us", "is")
"""Endings of words that look like plurals and are not."""
_IRREGULAR_PLURALS = {
    "men": "man",
    "people": "person",
    "children": "child",
    "feet": "foot",
    "teeth": "tooth",
    "mice": "mouse",
    "geese": "goose",
}
YES_NO = {"yes": "no", "no": "yes"}
_YES_OR_NO = re.compile(r"([\W_]*)(yes|no)([\W_]*)", re.IGNORECASE)


@lru_cache(maxsize=1 << 16)
def fold_answer(text: str) -> str:
    """Return the words of an answer for comparison: in lower case, without articles and punctuation, numbers as digits.

    "The two dogs." gives "2 dogs". A text of only articles keeps them, and a text without words keeps its signs.
    """
    lower_case = unicodedata.normalize("NFKC", text).casefold()
    words = re.findall(r"[^\W_]+", lower_case)
    if not words:
        return lower_case.strip()
    content_words = [_DIGITS_OF_WORDS.get(word, word) for word in words if word not in _ARTICLES]
    return " ".join(content_words or words)


def same_answer(first: str, second: str) -> bool:
    """Return whether two short answers mean the same: `dog` and `the Dogs.`, `black and white` and `white and black`.

    Plurals equal their singulars, as far as endings tell. Synonyms are not recognised.
    """
    first_forms = _forms(first)
    second_forms = _forms(second)
    if first_forms.sorted_words == second_forms.sorted_words:
        return True
    if first_forms.folded in second_forms.singulars:
        return True
    return second_forms.folded in first_forms.singulars


class _AnswerForms(Struct, frozen=True):
    """The forms of an answer that are compared."""

    folded: str
    sorted_words: tuple[str, ...]
    singulars: frozenset[str]


@lru_cache(maxsize=1 << 15)
def _forms(text: str) -> _AnswerForms:
    """Return the forms of an answer by which it is compared with others."""
    folded = fold_answer(text)
    words = sorted(folded.split())
    return _AnswerForms(
        folded=folded, sorted_words=tuple(words), singulars=frozenset(_singulars(folded))
    )


def _singulars(text: str) -> list[str]:
    """Return possible singulars of a text, by its last word.

    Some are not words, which is harmless: no answer equals them.
    """
    noun_start = text.rfind(" ") + 1
    beginning = text[:noun_start]
    noun = text[noun_start:]
    singulars = []
    if noun in _IRREGULAR_PLURALS:
        singulars.append(beginning + _IRREGULAR_PLURALS[noun])
    if noun.endswith(_SINGULAR_ENDINGS):
        return singulars
    for plural_ending, singular_ending in _PLURAL_ENDINGS:
        stem = noun.removesuffix(plural_ending)
        if stem != noun and len(stem) > 1:
            singulars.append(beginning + stem + singular_ending)
    return singulars


def opposite_yes_no(answer: str) -> str | None:
    """Return `no` for yes and `yes` for no, in the case of the answer and with its punctuation.

    None for any other answer.
    """
    match = _YES_OR_NO.fullmatch(answer)
    if match is None:
        return None
    before, word, after = match.groups()
    opposite = YES_NO[word.casefold()]
    if word.isupper():
        opposite = opposite.upper()
    elif word[0].isupper():
        opposite = opposite.capitalize()
    return before + opposite + after
