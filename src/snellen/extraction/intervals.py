"""Options that are ranges of numbers, for replies that give a number: "47" of "26-50"."""

from __future__ import annotations

import re
from collections.abc import Iterator
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

from snellen.extraction import phrases
from snellen.extraction.inflections import english_stem
from snellen.extraction.normalisation import normalise_reply
from snellen.formats.late_patterns import late_pattern


class Interval(NamedTuple):
    """All numbers from `low` to `high`; an open end excludes its bound, None is no bound."""

    low: Fraction | None
    high: Fraction | None
    open_ends: bool = False

    def holds(self, value: Fraction) -> bool:
        if self.open_ends:
            return (self.low is None or value > self.low) and (self.high is None or value < self.high)
        return (self.low is None or value >= self.low) and (self.high is None or value <= self.high)


_DIGITS = r"\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?"
_WORDS = "|".join(word for word in phrases.NUMBER_WORDS if word.isalpha())
_NUMBER = rf"(?:{_DIGITS}|\b(?:{_WORDS})\b)"
_SIGN = r"[$€£]?\s?"
_UNIT = r"(?:\s?(?:%|°\s?[cf]?|[a-z]+))?"
_BETWEEN = rf"{_SIGN}(?P<low>{_NUMBER}){_UNIT}\s?(?:-|to|through|and)\s?{_SIGN}(?P<high>{_NUMBER})"
_RANGE = late_pattern(
    rf"(?:\bbetween |\bfrom )?(?<![\d.,/-])(?<!\d )(?<!- ){_SIGN}(?P<low>{_NUMBER}){_UNIT}\s?(?:-|\bto\b"
    rf"|\bthrough\b)\s?"
    rf"{_SIGN}(?P<high>{_NUMBER})(?![\d/-])|\bbetween {_BETWEEN.replace('low', 'low2').replace('high', 'high2')}"
)
_BELOW = late_pattern(
    rf"(?:(?P<open>(?:fewer|less|lower|smaller|younger|shorter) than|under|below|before|<)|(?:up to|at most"
    rf"|no more than"
    rf"|not more than|≤|maximum)) {_SIGN}(?P<n>{_NUMBER})"
    rf"|{_SIGN}(?P<m>{_NUMBER}){_UNIT} (?:or|and) (?:fewer|less|under|younger|below|lower|earlier)"
)
_ABOVE = late_pattern(
    rf"(?:(?P<open>(?:more|greater|higher|larger|older|longer) than|over|above|after|>)|(?:at least|no less than|≥|from"
    rf"|minimum)) {_SIGN}(?P<n>{_NUMBER})"
    rf"|{_SIGN}(?P<m>{_NUMBER})(?:\s?\+|{_UNIT} (?:or|and) (?:more|over|older|above|up|higher|greater|later))"
)
_DECADE = late_pattern(r"(?:the )?(?P<n>\d{3}0)'?s")
_OTHER_WORDS = late_pattern(r"[a-z]{3,}")


def _value(shown: str) -> Fraction:
    return Fraction(phrases.NUMBER_WORDS.get(shown, shown) if shown.isalpha() else shown.replace(",", ""))


def _interval(option: str) -> Interval | None:
    """What range an option is, where it is one and little else."""
    text = normalise_reply(option[:80]).text.lower().strip(" .")
    text = re.sub(r"([<>≤≥])\s*", r"\1 ", text)
    match = _DECADE.fullmatch(text)
    if match:
        return Interval(_value(match["n"]), _value(match["n"]) + 9)
    match = _RANGE.search(text)
    if match and _alone(text, match):
        low, high = _value(match["low"] or match["low2"]), _value(match["high"] or match["high2"])
        return Interval(low, high) if low < high else None
    match = _BELOW.search(text)
    if match and _alone(text, match):
        return Interval(None, _value(match["n"] or match["m"]), open_ends=match["open"] is not None)
    match = _ABOVE.search(text)
    if match and _alone(text, match):
        return Interval(_value(match["n"] or match["m"]), None, open_ends=match["open"] is not None)
    return None


def _alone(text: str, match: re.Match[str]) -> bool:
    rest = text[: match.start()] + " " + text[match.end() :]
    return not any(sign.isdigit() for sign in rest) and len(_OTHER_WORDS.findall(rest)) <= _MOST_OTHER_WORDS


_MOST_OTHER_WORDS = 3


@lru_cache(maxsize=4096)
def _intervals(options: tuple[str, ...]) -> tuple[Interval | None, ...]:
    """The ranges that options are; none where fewer than two are, or more than one is no range."""
    if not any(sign.isdigit() for option in options for sign in option[:80]):
        return ()
    found = tuple(_interval(option) for option in options)
    some = [interval for interval in found if interval is not None]
    return found if len(some) >= max(2, len(options) - 1) and len(set(some)) == len(some) else ()


_HOW_MANY = late_pattern(r"\bhow many ([a-z]{3,})")
_NONE_OF_THEM = late_pattern(r"\b(?:no|zero|not any|n't any|not see any|not a single)(?: [a-z]+){0,2}? ([a-z]{3,})\b")


def none_of_them(text: str, question: str, options: tuple[str, ...]) -> int | None:
    """The option that says that there is none, where a reply to "how many" says so: "There are no commas"."""
    asked = _HOW_MANY.search(question[:2000].lower())
    zeros = [place for place, option in enumerate(options) if option.strip(" .").lower() in ("0", "none", "zero")]
    found = _NONE_OF_THEM.search(text.lower()) if len(text) < _SHORT else None
    if asked is None or found is None or len(zeros) != 1 or _DENIES_NONE.search(text.lower()):
        return None
    return zeros[0] if english_stem(found[1]) == english_stem(asked[1]) else None


_DENIES_NONE = late_pattern(r"\d|\b(?:if|but|or|more|fewer|less|other|doubt|way|idea)\b|\?")
_SHORT = 200
_ANY_NUMBER = late_pattern(rf"(?<![\w.,:/-])(?<!\w )?(?:{_DIGITS}|(?:{_WORDS}))(?![\w:/])(?!,\d)(?!\.\d)")
_DENIES = late_pattern(r"\b(?:not|no|never|if|would|could|might|except|without|or)\b|n't\b|\?")
_SENTENCE = late_pattern(r"(?<=[.!?])\s+|\n")
_NEXT = late_pattern(r"\s?(?P<sign>[%°$€£])?\s?(?P<word>[a-z]+)?")
_TOTAL = late_pattern(
    rf"(?:total(?: of| is|:)?|altogether|in all|sum(?: of| is)?|=|makes|so|therefore|thus) (?:is |are "
    rf"|there are |it's )?"
    rf"(?:{_SIGN})(?P<x>{_NUMBER})|(?P<y>{_NUMBER})(?: [a-z]+)? (?:in total|altogether|in all|overall)"
)
_LONGEST = 600
_YEARS = frozenset("years year old minutes hours days degrees percent points units".split())


def interval_option(text: str, question: str, options: tuple[str, ...]) -> int | None:
    """The one range that holds the number a reply gives of what is asked for, or that the reply names."""
    ranges = _intervals(options)
    text = text.lower()
    if not ranges or len(text) > _LONGEST:
        return None
    named = {
        Interval(_value(match["low"] or match["low2"]), _value(match["high"] or match["high2"]))
        for match in _RANGE.finditer(text)
    }
    if len(named) == 1 and not _DENIES.search(text):
        [said] = named
        places = [place for place, interval in enumerate(ranges) if interval == said]
        return places[0] if len(places) == 1 else None
    if named:
        return None
    values = set(_numbers(text, question))
    places = [p for p, interval in enumerate(ranges) if interval and values and all(map(interval.holds, values))]
    return places[0] if len(places) == 1 else None


def _numbers(text: str, question: str) -> Iterator[Fraction]:
    """The numbers that are said of what is asked for; one that is denied, or of something else, spoils all."""
    totals = list(_TOTAL.finditer(text))
    if totals:
        yield _value(totals[-1]["x"] or totals[-1]["y"])
        return
    asked = frozenset(english_stem(word) for word in re.findall(r"[a-z]{3,}", question[:2000].lower()))
    for sentence in _SENTENCE.split(text):
        for match in _ANY_NUMBER.finditer(sentence):
            if match[0] in ("one", "a") and not sentence.strip(" .").endswith(match[0]):
                continue
            behind = _NEXT.match(sentence, match.end())
            word = behind["word"] if behind and not behind["sign"] else None
            small = phrases.PREPOSITIONS | phrases.AUXILIARIES | phrases.FOLLOWERS | _YEARS
            if _DENIES.search(sentence) or (word and word not in small and english_stem(word) not in asked):
                yield from (Fraction(-1), Fraction(10**12))
                return
            yield _value(match[0])
