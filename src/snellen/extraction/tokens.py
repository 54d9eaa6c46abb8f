"""Split a normalised text into tokens: words, numbers and signs.

Each token has a *normalised form*, in which it is compared with other tokens, so that different spellings count as the same word:

| text | normalised |
|---|---|
| "Cats" | `cat` (lower case, singular) |
| "3,000", "3000.0", "three thousand" | `#3000` (numbers begin with `#`) |
| "colour" | `color` |

*Dense* scripts (Chinese, Japanese, Korean) have no blanks between words; each of their characters is a token.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from snellen.common.late import late_pattern
from snellen.extraction.cue_words import number_words, words_of


class Token(NamedTuple):
    """A word, number or sign of a text."""

    normalised: str
    """The word in the form in which it is compared with others: `cat` for "Cats", `#3` for "three"."""
    start: int
    """Index of its first character in the text."""
    end: int
    """Index behind its last character."""
    raw: str
    """Characters of the text."""


_DENSE = "\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af"
"""Characters of Japanese, Chinese and Korean."""
_VOWEL_SIGNS = "\u0300-\u036f\u064b-\u0652\u0900-\u0dff\u0e00-\u0eff"
"""Marks that are part of a word but not letters: accents, and vowels of Arabic, Indic scripts and Thai."""
_TOKEN = late_pattern(
    r"(?:(?<![\w.)\]])-)?\d+(?:,\d{3})*(?:[.:/,^]\d+)*(?:√\d+|π)?|√\d+|π"  # -3,000.5, 12:30, 2√3
    rf"|[{_DENSE}]"
    rf"|(?:[^\W\d_{_DENSE}]|[{_VOWEL_SIGNS}])+(?:'[^\W\d_{_DENSE}]+)*"  # words, also "isn't"
    r"|\n|[^\s\w]|_"
)
_THOUSANDS = late_pattern(r"-?\d{1,3}(?:,\d{3})+(?:\.\d+)?")
_DECIMAL = late_pattern(r"-?\d+[.,]\d+")


def tokenise(text: str) -> list[Token]:
    """Split a text into tokens, in time linear in its length.

    Example:
        >>> [token.normalised for token in tokenise("Twenty-five cats, isn't it?")]
        ['#25', 'cat', ',', "isn't", 'it', '?']
    """
    tokens: list[Token] = []
    for match in _TOKEN.finditer(text):
        raw = match[0]
        tokens.append(Token(compared_form(raw), match.start(), match.end(), raw))
    return _merge_spelled_numbers(tokens)


def normalised_at(tokens: Sequence[Token], index: int) -> str:
    """Return the normalised token at an index; a line break before the first and behind the last token."""
    return tokens[index].normalised if 0 <= index < len(tokens) else "\n"


# --- numbers in words -------------------------------------------------------------------------------------------------

_TENS = {
    "twenty": 20, "thirty": 30, "forty": 40, "fifty": 50, "sixty": 60, "seventy": 70, "eighty": 80, "ninety": 90,
}  # fmt: skip
_SCALES = {"hundred": 100, "thousand": 1000, "million": 10**6, "billion": 10**9}
_MINUS = frozenset(("minus", "negative"))


def _merge_spelled_numbers(tokens: list[Token]) -> list[Token]:
    """Merge the words of each English number into one token: "seven hundred", "minus two", "twenty-five"."""
    merged: list[Token] = []
    index = 0
    while index < len(tokens):
        token = tokens[index]
        is_negative = token.normalised in _MINUS and index + 1 < len(tokens)
        is_count = token.normalised[0] == "#" or token.normalised == "a"
        # "two hundred", "a thousand"
        counts_scale = is_count and normalised_at(tokens, index + 1) in _SCALES

        value = None
        last = index
        if is_negative:
            value, last = _read_number(tokens, index + 1)
        elif token.raw.casefold() in _TENS or counts_scale:
            value, last = _read_number(tokens, index)
        if value is None:
            merged.append(token)
            index += 1
            continue
        sign = "-" if is_negative else ""
        raw = " ".join(part.raw for part in tokens[index : last + 1])
        merged.append(Token(f"#{sign}{value}", token.start, tokens[last].end, raw))
        index = last + 1
    return merged


def _read_number(tokens: list[Token], start: int) -> tuple[str | None, int]:
    """Read the number in words that begins at a token: "two hundred and five" is "205".

    Returns:
        The digits of the number and the index of its last token; None and `start` if no number begins there.
    """
    total = 0  # thousands and more that are complete
    current: int | None = None  # the rest below a thousand; None before the first word
    last = start
    index = start
    while index < len(tokens):
        form = tokens[index].normalised
        word = tokens[index].raw.casefold()
        if form in _SCALES and current is not None:
            if _SCALES[form] == 100:
                current *= 100
            else:
                total += current * _SCALES[form]
                current = 0
        elif word in _TENS and (current is None or current % 100 == 0):
            current = (current or 0) + _TENS[word]
        elif form[0] == "#" and form[1:].isdigit() and _can_add(current, int(form[1:])):
            current = (current or 0) + int(form[1:])
        elif form == "a" and current is None:
            current = 1  # "a hundred"
        elif form in ("-", "and") and index > start and _is_link(tokens, index, current):
            index += 1
            continue
        elif form[0] == "#" and index == start and form[1].isdigit():
            return form[1:], start  # a decimal number: "minus 2.5"
        else:
            break
        last = index
        index += 1
    if current is None:
        return None, start
    return str(total + current), last


def _can_add(current: int | None, value: int) -> bool:
    """Return whether the next word of a number can have a value: 5 after "twenty", 12 after "two hundred".

    Args:
        current: Value of the words so far; None before the first word.
        value: Value of the next word.
    """
    if current is None:
        return True
    follows_hundreds = current % 100 == 0 and value < 100
    follows_tens = current % 10 == 0 and value < 10
    return value > 0 and (follows_hundreds or follows_tens)


def _is_link(tokens: list[Token], index: int, current: int | None) -> bool:
    """Return whether "-" or "and" links two words of a number: "twenty-five", "two hundred and five".

    Args:
        tokens: Tokens of the text.
        index: Index of the "-" or "and".
        current: Value of the words before it.
    """
    if not current or index + 1 >= len(tokens):
        return False
    following = tokens[index + 1]
    follows_hundreds = current % 100 == 0
    if following.raw.casefold() in _TENS:
        return follows_hundreds
    digits = following.normalised[1:]
    is_number_word = (
        following.normalised[0] == "#" and digits.isdigit() and not following.raw.isdigit()
    )
    if not is_number_word:
        return False
    value = int(digits)
    if tokens[index].normalised == "-":
        return current % 10 == 0 and 0 < value < 10
    return follows_hundreds and 0 < value < 100


# --- forms of words ---------------------------------------------------------------------------------------------------

_OTHER_FORMS = {
    "men": "man", "women": "woman", "children": "child", "people": "person", "mice": "mouse", "geese": "goose",
    "feet": "foot", "teeth": "tooth", "leaves": "leaf", "knives": "knife", "wolves": "wolf", "shelves": "shelf",
    "左": "left", "右": "right", "grey": "gray", "colour": "color", "centre": "center", "metre": "meter",
}  # fmt: skip


@lru_cache(maxsize=32768)
def compared_form(raw: str) -> str:
    """Return the form in which a word, number or sign is compared with others.

    Examples:
        >>> compared_form("Cats"), compared_form("3,000.50"), compared_form("three"), compared_form("colour")
        ('cat', '#3000.5', '#3', 'color')
    """
    word = raw.casefold()
    if word in _OTHER_FORMS:
        return _OTHER_FORMS[word]
    is_number = word[0].isdigit() or (word[0] == "-" and len(word) > 1)
    if is_number:
        return "#" + _plain_number(word)
    value = number_words().get(word)
    if value is not None:
        return f"#{value}"
    if word.isascii():
        return _singular(word)
    is_arabic = "\u0600" <= word[0] <= "\u06ff"
    if is_arabic:
        return re.sub("^(?:[وفبكل])?ال(?=..)", "", word)  # without the article
    return word


def _plain_number(number: str) -> str:
    """Return a number without separators and zeros that do not count: "3,000.50" is "3000.5", "007" is "7"."""
    if _THOUSANDS.fullmatch(number):
        number = number.replace(",", "")
    if _DECIMAL.fullmatch(number):
        number = number.replace(",", ".").rstrip("0").rstrip(".")
    if number.isdigit():
        return number.lstrip("0") or "0"
    return number


def _singular(word: str) -> str:
    """Return an English word in lower case without the ending of a plural or genitive: "boxes" is "box"."""
    if word.endswith("'s"):
        return word.removesuffix("'s") if len(word) > 4 else word
    if len(word) < 4 or not word.endswith("s") or word.endswith(("ss", "us", "is")):
        return word  # "grass", "bus", "this"
    if word.endswith("ies") and len(word) > 4:
        return word[:-3] + "y"
    if word.endswith(("xes", "zes", "ches", "shes", "sses")):
        return word[:-2]
    return word[:-1]


def is_article(word: str) -> bool:
    """Return whether a word is an article in one of the languages: "the", "ein", "la"."""
    return word in words_of("articles")


def shared_prefix(first: str, second: str) -> int:
    """Return the number of characters that two words have in common at their beginnings: 4 for "jumps" and "jumping"."""
    length = 0
    for first_character, second_character in zip(first, second, strict=False):
        if first_character != second_character:
            break
        length += 1
    return length
