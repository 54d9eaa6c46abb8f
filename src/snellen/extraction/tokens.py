"""Words, numbers and signs of a normalised text, each in the one form in which it is compared."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

from snellen.common.late import late_pattern
from snellen.extraction.cue_words import number_words, words_of


class Token(NamedTuple):
    """One word, number or sign of a text."""

    form: str
    """How it is compared: in lower case and the singular; numbers as `#3`, however they are written."""
    start: int
    end: int
    raw: str


_DENSE = "\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af"
_SIGNS_OF_VOWELS = "\u0300-\u036f\u064b-\u0652\u0900-\u0dff\u0e00-\u0eff"
_TOKEN = late_pattern(
    r"(?:(?<![\w.)\]])-)?\d+(?:,\d{3})*(?:[.:/,^]\d+)*(?:√\d+|π)?|√\d+|π"
    rf"|[{_DENSE}]"
    rf"|(?:[^\W\d_{_DENSE}]|[{_SIGNS_OF_VOWELS}])+(?:'[^\W\d_{_DENSE}]+)*"
    r"|\n|[^\s\w]|_"
)
_THOUSANDS = late_pattern(r"-?\d{1,3}(?:,\d{3})+(?:\.\d+)?")
_DECIMAL = late_pattern(r"-?\d+[.,]\d+")


def tokenise(text: str) -> list[Token]:
    """The tokens of a text, in time linear in its length. A Chinese, Japanese or Korean character is one by itself."""
    tokens: list[Token] = []
    for match in _TOKEN.finditer(text):
        raw = match[0]
        tokens.append(Token(compared_form(raw), match.start(), match.end(), raw))
    return _with_numbers_in_words(tokens)


_TENS = {
    "twenty": 20, "thirty": 30, "forty": 40, "fifty": 50, "sixty": 60, "seventy": 70, "eighty": 80, "ninety": 90,
}  # fmt: skip
_SCALES = {"hundred": 100, "thousand": 1000, "million": 10**6, "billion": 10**9}
_SIGNS = frozenset(("minus", "negative"))


def _with_numbers_in_words(tokens: list[Token]) -> list[Token]:
    """The tokens, with an English number of several words as one: "seven hundred", "minus two", "twenty-five"."""
    merged: list[Token] = []
    index = 0
    while index < len(tokens):
        last = index
        value = None
        negative = tokens[index].form in _SIGNS and index + 1 < len(tokens)
        start = index + 1 if negative else index
        if negative or tokens[index].raw.casefold() in _TENS or _counts_scale(tokens, index):
            value, last = _number_in_words(tokens, start)
        if value is None:
            merged.append(tokens[index])
            index += 1
            continue
        sign = "-" if negative else ""
        raw = " ".join(token.raw for token in tokens[index : last + 1])
        merged.append(Token(f"#{sign}{value}", tokens[index].start, tokens[last].end, raw))
        index = last + 1
    return merged


def _counts_scale(tokens: list[Token], index: int) -> bool:
    """Whether a number or "a" is just before "hundred", "thousand" and the like."""
    following = tokens[index + 1].form if index + 1 < len(tokens) else ""
    return following in _SCALES and (tokens[index].form[0] == "#" or tokens[index].form == "a")


def _number_in_words(tokens: list[Token], start: int) -> tuple[str | None, int]:
    """The number whose words begin at `start`, with the index of its last word; None if none does."""
    total = 0
    current: int | None = None
    last = start
    index = start
    while index < len(tokens):
        form = tokens[index].form
        word = tokens[index].raw.casefold()
        if form in _SCALES and current is not None:
            if _SCALES[form] == 100:
                current *= 100
            else:
                total += current * _SCALES[form]
                current = 0
        elif word in _TENS and (current is None or current % 100 == 0):
            current = (current or 0) + _TENS[word]
        elif form[0] == "#" and form[1:].isdigit() and _continues(current, int(form[1:])):
            current = (current or 0) + int(form[1:])
        elif form == "a" and current is None:
            current = 1
        elif form in ("-", "and") and index > start and _goes_on(tokens, index, current):
            index += 1
            continue
        elif form[0] == "#" and index == start and form[1].isdigit():
            return form[1:], start
        else:
            break
        last = index
        index += 1
    return (None, start) if current is None else (str(total + current), last)


def _continues(current: int | None, value: int) -> bool:
    """Whether a number goes on with a smaller one: "twenty" with "five", "two hundred" with "twelve"."""
    if current is None:
        return True
    return value > 0 and (
        (current % 100 == 0 and value < 100) or (current % 10 == 0 and value < 10)
    )


def _goes_on(tokens: list[Token], index: int, current: int | None) -> bool:
    form = tokens[index + 1].form if index + 1 < len(tokens) else "."
    if index + 1 < len(tokens) and tokens[index + 1].raw.casefold() in _TENS:
        return bool(current) and current % 100 == 0
    if form[0] != "#" or not form[1:].isdigit() or tokens[index + 1].raw.isdigit():
        return False
    value = int(form[1:])
    if tokens[index].form == "-":
        return bool(current) and current % 10 == 0 and 0 < value < 10
    return bool(current) and current % 100 == 0 and 0 < value < 100


@lru_cache(maxsize=32768)
def compared_form(raw: str) -> str:
    """The form in which a word or number is compared."""
    word = raw.casefold()
    if word in _OTHER_FORMS:
        return _OTHER_FORMS[word]
    if word[0].isdigit() or (word[0] == "-" and len(word) > 1):
        return "#" + _plain_number(word)
    value = number_words().get(word)
    if value is not None:
        return f"#{value}"
    if word.isascii():
        return _singular(word)
    if "\u0600" <= word[0] <= "\u06ff":
        return re.sub("^(?:[وفبكل])?ال(?=..)", "", word)
    return word


def _plain_number(text: str) -> str:
    if _THOUSANDS.fullmatch(text):
        text = text.replace(",", "")
    if _DECIMAL.fullmatch(text):
        text = text.replace(",", ".").rstrip("0").rstrip(".")
    return text.lstrip("0") or "0" if text.isdigit() else text


_OTHER_FORMS = {
    "men": "man", "women": "woman", "children": "child", "people": "person", "mice": "mouse", "geese": "goose",
    "feet": "foot", "teeth": "tooth", "leaves": "leaf", "knives": "knife", "wolves": "wolf", "shelves": "shelf",
    "左": "left", "右": "right", "grey": "gray", "colour": "color", "centre": "center", "metre": "meter",
}  # fmt: skip


def _singular(word: str) -> str:
    if len(word) < 4 or not word.endswith("s") or word.endswith(("ss", "us", "is", "'s")):
        return word.removesuffix("'s") if len(word) > 4 else word
    if word.endswith("ies") and len(word) > 4:
        return word[:-3] + "y"
    if word.endswith(("xes", "zes", "ches", "shes", "sses")):
        return word[:-2]
    return word[:-1]


def is_article(form: str) -> bool:
    return form in words_of("articles")


def shared_prefix(one: str, another: str) -> int:
    """How many characters two words have in common from their beginnings on."""
    length = 0
    for first, second in zip(one, another, strict=False):
        if first != second:
            break
        length += 1
    return length
