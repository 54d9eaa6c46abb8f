"""Options that are orders of the same things, replies that rank the options, and options with a share each."""

from __future__ import annotations

import re
from functools import lru_cache

from snellen.extraction import patterns
from snellen.extraction.exact_texts import exact_option
from snellen.extraction.normalisation import normalise_reply
from snellen.extraction.option_index import OptionIndex
from snellen.extraction.option_mentions import Skeleton
from snellen.formats.late_patterns import late_pattern

_SPLIT = late_pattern(r"\s*(?:,?\s*\b(?:and then|then|and)\b|->|[,;→>]|(?<=\w)\s?-\s?(?=\w))\s*")
_FEWEST = 3


def _elements(option: str) -> tuple[str, ...]:
    text = normalise_reply(option[:400]).text.lower().strip(" .")
    return tuple(part for part in (part.strip(" .") for part in _SPLIT.split(text)) if part)


@lru_cache(maxsize=4096)
def _orders(options: tuple[str, ...]) -> tuple[tuple[str, ...], ...]:
    """The order that each option is; none where they are not orders of the same three things or more."""
    orders = tuple(_elements(option) for option in options)
    things = {frozenset(order) for order in orders}
    same = len(things) == 1 and len(set(orders)) == len(orders)
    return orders if same and all(len(set(order)) == len(order) >= _FEWEST for order in orders) else ()


_SENTENCE = late_pattern(r"[.!?](?:\s|$)|\n")
_OTHERWISE = late_pattern(
    r"\b(?:not|never|reverse\w*|backwards?|before|after|follow\w*|preced\w*|or|last to first|if)\b|n't\b"
)


def ordered_option(text: str, options: tuple[str, ...]) -> int | None:
    """The one order in which every sentence that names all of the things names them."""
    orders = _orders(options)
    if not orders:
        return None
    said: set[tuple[str, ...]] = set()
    thing = re.compile(rf"(?<!\w)(?:{'|'.join(re.escape(t) for t in sorted(orders[0], key=len, reverse=True))})(?!\w)")
    for sentence in _SENTENCE.split(text[-_LOOKED_AT:].lower()):
        named = tuple(thing.findall(sentence))
        if len(named) == len(orders[0]) and set(named) == set(orders[0]):
            if _OTHERWISE.search(sentence):
                return None
            said.add(named)
    places = [place for place, order in enumerate(orders) if order in said]
    return places[0] if len(said) == len(places) == 1 else None


_LOOKED_AT = 4_000
_LEAST = late_pattern(r"\b(?:least|smallest|lowest|fewest|shortest|last|worst|slowest|youngest|weakest|cheapest|not)\b")


def ranked_first(text: str, question: str, index: OptionIndex) -> int | None:
    """The first of a ranking of all options: "C > B > D > A"."""
    ranks = text[:_LOOKED_AT].split(">")
    if len(ranks) != index.count or index.count < _FEWEST or _LEAST.search(question.lower()):
        return None
    shown = [rank.rpartition(":")[2].strip(" \n.()[]\"'") for rank in ranks]
    places = [index.label(rank) if index.label(rank) is not None else exact_option(rank, index) for rank in shown]
    return places[0] if None not in places and len(set(places)) == index.count else None


_BEHIND = late_pattern(rf"(?P<x>{patterns.LABEL})(?: [:=-])? (?P<share>\d[\d.]* %|[01]\.\d+)")
_BEFORE = late_pattern(rf"(?P<share>\d[\d.]* %)(?: (?:for|on|that it's|:|-|likely))? (?P<x>{patterns.LABEL})")
_MORE_THAN_HALF = 50.0


def likeliest_option(skeleton: Skeleton, question: str) -> int | None:
    """The option that is given more than half of what is shared out: "A: 3 %, B: 7 %, C: 90 %"."""
    if ("%" not in skeleton.words and " 0." not in skeleton.text) or _LEAST.search(question.lower()):
        return None
    for form in (_BEHIND, _BEFORE):
        shares: dict[int, float] = {}
        found = list(form.finditer(skeleton.text))
        for match in found:
            shares[skeleton.at[match.start("x")].places[0]] = _share(match["share"])
        others = {m.places[0] for m in skeleton.at.values()} - set(shares)
        if len(shares) == len(found) > 1 and not others and sum(shares.values()) <= _WHOLE:
            best = max(shares, key=lambda place: shares[place])
            return best if shares[best] > _MORE_THAN_HALF else None
    return None


def _share(shown: str) -> float:
    """A share in per cent."""
    return float(shown.removesuffix(" %").rstrip(".")) * (1 if shown.endswith("%") else 100)


_WHOLE = 101.0
