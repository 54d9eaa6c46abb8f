"""Turn cells into texts, and simplify texts and names so that equal ones can be recognised."""

from __future__ import annotations

import re
from typing import Any

import msgspec

_WORD = re.compile(r"[^\W_]+")
_SEPARATORS = re.compile(r"[-_\s]+")


def as_text(value: Any) -> str:
    """Return a value as text: numbers and booleans as JSON writes them, and dates and decimals without quotes."""
    if isinstance(value, str):
        return value
    text = msgspec.json.encode(value).decode()
    return str(msgspec.json.decode(text)) if text.startswith('"') else text


LONGEST_NUMBER = 18
"""Digits: a longer one is no index, id or count. Python refuses to convert thousands of digits."""


def whole_number(text: str) -> int | None:
    """Return the integer that a text of digits means; None for other texts, and for more than 18 digits.

    Examples:
        >>> whole_number("1000005"), whole_number("7 dogs"), whole_number("1" * 5000)
        (1000005, None, None)
    """
    return int(text) if len(text) <= LONGEST_NUMBER and text.isdecimal() else None


def folded_name(name: str) -> str:
    """Return the name of a column in small letters, with `_` for spaces and dashes: `image_id` for `Image-ID`."""
    return _SEPARATORS.sub("_", name.strip().casefold())


def folded_words(text: str) -> list[str]:
    """Return the words of a text in small letters. An underscore separates words, too, as in names of classes.

    Examples:
        >>> folded_words("Acadian_Flycatcher (bird)")
        ['acadian', 'flycatcher', 'bird']
    """
    return _WORD.findall(text.casefold())


def folded(text: str) -> str:
    """Return a text in small letters, with single spaces and without a final full stop: `a dog` for `A dog.`.

    Toolkits for evaluation make such changes to answers, so these do not make two texts different.
    """
    return " ".join(text.split()).casefold().rstrip(".?!").rstrip()


_WITHOUT_BLANKS = re.compile(r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff]")
"""Characters of scripts that put no blanks between words: Thai, Lao, Burmese, Khmer, Japanese and Chinese."""


def word_count(text: str) -> int:
    """Return the number of words in a text.

    In scripts without spaces between words, such as Chinese, two characters count as a word.

    Examples:
        >>> word_count("a red bus"), word_count("一辆红色的大巴车"), word_count("")
        (3, 4, 0)
    """
    n_characters = len(_WITHOUT_BLANKS.findall(text))
    in_other_scripts = _WITHOUT_BLANKS.sub(" ", text)
    n_words = 0
    for word in in_other_scripts.split():
        if any(character.isalnum() for character in word):
            n_words += 1
    return n_words + (n_characters + 1) // 2
