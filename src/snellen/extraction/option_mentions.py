"""Where a text mentions options, and the text's skeleton: its words with a placeholder for each mention."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import dropwhile
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from snellen.common.late import late_pattern
from snellen.extraction import phrases
from snellen.extraction.inflections import resolved
from snellen.extraction.label_tokens import GLUED, LabelContext
from snellen.extraction.languages import SPEAKING, guess
from snellen.extraction.option_index import OptionIndex, Token, tokens
from snellen.extraction.option_texts import TextMatch, text_at
from snellen.extraction.phrases import BARE, BOTH, CONFLICT, DOUBTFUL, STRONG, TEXT
from snellen.extraction.quantity_mentions import QuantityMatch, date_matches, quantity_matches
from snellen.extraction.word_boundaries import is_cjk


class Mention(Struct, frozen=True):
    """Words that name an option, or several options that share them."""

    kind: str
    """Its placeholder: BARE, STRONG, TEXT, BOTH, CONFLICT or DOUBTFUL."""
    places: tuple[int, ...]
    start: int
    end: int
    soft: bool = False
    """A bare digit or small letter: a label only where the reply says that it is one."""
    alias: bool = False
    other_case: bool = False
    previous: str = ""
    """The word before it."""
    opposed: bool = False
    """CONFLICT because the same letters are one option's label and another's text."""


class Skeleton(NamedTuple):
    """Tokens separated by single blanks (Chinese joined); `at[i]` is the mention whose placeholder is text[i]."""

    text: str
    at: dict[int, Mention]
    offsets: list[int]
    """The keys of `at`, ascending."""
    spoken: tuple[str, ...] = ()
    """The languages other than English that the reply may be in."""
    words: frozenset[str] = frozenset()
    """The tokens of the whole reply, whatever has been set aside."""
    offered: int = 0
    """How many options the question has."""


Item = Token | Mention

_UNSAID = frozenset("\"'()[]{}<>【】〔〕〈〉《》$\\#")
_GAP = late_pattern(r"[^\w\n]{0,6}(?:(?:a|an|the)[^\S\n])?", re.IGNORECASE)
_OPENS_BRACKET = late_pattern(r"[^\S\n]?[(\[][^\S\n]?")
_CLOSES = frozenset(".,;:!?")


def skeleton(text: str, question: OptionIndex, topic: frozenset[str] = frozenset()) -> Skeleton:
    """The skeleton of a plain text; `topic` are stems of what is asked about."""
    pieces: list[str] = []
    at: dict[int, Mention] = {}
    offset = 0
    last = ""
    found = list(dropwhile(lambda token: token.kind == "newline", tokens(text.rstrip())))
    words = frozenset([token.text for token in found])
    votes = question.votes
    plain = not votes and text.isascii() and words.isdisjoint(SPEAKING)
    spoken = () if plain else guess([token.text for token in found if token.kind == "word"], votes)
    if spoken or question.verb_endings:
        found = resolved(found, question, spoken)
    for item in _merged(text, _mentions(text, found, question, foreign=bool(spoken), topic=topic)):
        if isinstance(item, Mention):
            piece = item.kind
        elif _unsaid(item, last):
            continue
        else:
            piece = item.text
        if pieces and not (is_cjk(piece) and is_cjk(last)):
            pieces.append(" ")
            offset += 1
        if isinstance(item, Mention):
            at[offset] = item
        pieces.append(piece)
        offset += len(piece)
        last = piece
    return Skeleton("".join(pieces), at, list(at), spoken, words, question.count)


def _unsaid(token: Token, last: str) -> bool:
    if token.kind == "newline":
        return last in ("", "\n", ":", "is", "answer")
    return token.text in _UNSAID or (token.text == "." and last in phrases.ABBREVIATIONS)


def _mentions(
    text: str, found: list[Token], question: OptionIndex, *, foreign: bool, topic: frozenset[str]
) -> list[Item]:
    """Tokens, with those that make up a mention replaced by it; of nested texts the longest wins."""
    items: list[Item] = []
    at = 0
    counted = _quantities(text, question)
    while at < len(found):
        token = found[at]
        quantity = counted.get(token.start)
        if token.kind == "number" and at and found[at - 1].text in phrases.COUNTED_THINGS:
            items.append(token)  # step 3
            at += 1
            continue
        if quantity is not None and not _is_mark(text, found, at, question):
            named = None if quantity.places else text_at(text, found, at, question, foreign=foreign, topic=topic)
            counted_items, at = _of_quantity(found, at, quantity, named)
            items.extend(counted_items)
            continue
        counted_off = _counted_off(found, at, question) if token.text in _ORDINALS else None
        if counted_off is not None:
            items.append(counted_off)
            at += 2
            continue
        if (
            token.text not in question.folded
            and token.text not in question.phrases
            and (len(token.text) > 1 or token.text.isascii())
            and not GLUED.fullmatch(token.text)
        ):
            items.append(token)
            at += 1
            continue
        glance = LabelContext(text, found, at, question)
        named = None if glance.kind == STRONG else text_at(text, found, at, question, foreign=foreign, topic=topic)
        item = _mention(glance, named)
        items.append(item or found[at])
        at = named.after if named and item else at + 1
    return items


def _of_quantity(
    found: list[Token], at: int, quantity: QuantityMatch, named: TextMatch | None
) -> tuple[Sequence[Item], int]:
    """What stands where a quantity begins, and the index of the token behind it."""
    if named is not None and named.after - at > 1:  # "three fifths"
        end = found[named.after - 1].end
        return [Mention(TEXT, named.phrase.places, found[at].start, end, alias=True)], named.after
    behind = next((i for i in range(at, len(found)) if found[i].start >= quantity.end), len(found))
    behind = max(behind, at + 1)
    if not quantity.places:
        return found[at:behind], behind
    return [Mention(TEXT, quantity.places, quantity.start, quantity.end, alias=quantity.loose)], behind


def _counted_off(found: list[Token], at: int, question: OptionIndex) -> Mention | None:
    """ "The third option", where no option has such a word."""
    if at + 1 >= len(found) or found[at + 1].text not in _COUNTED:
        return None
    place = question.count - 1 if found[at].text == "last" else phrases.ORDINALS.index(found[at].text)
    if place >= question.count or found[at].text in question.vocabulary:
        return None
    return Mention(TEXT, (place,), found[at].start, found[at + 1].end, alias=True)


_ORDINALS = frozenset([*phrases.ORDINALS, "last"])
_COUNTED = frozenset("option choice alternative".split())


def _quantities(text: str, question: OptionIndex) -> dict[int, QuantityMatch]:
    """Where a quantity begins -> what it is, for options that are quantities."""
    if question.quantities is not None:
        return {match.start: match for match in quantity_matches(text, question.quantities)}
    if question.dates is not None:
        return {match.start: match for match in date_matches(text, question.dates)}
    return {}


def _is_mark(text: str, found: list[Token], at: int, question: OptionIndex) -> bool:
    """Whether a number is a mark of the question, and stands as one."""
    if question.label(found[at].text) is None:
        return False
    glance = LabelContext(text, found, at, question)
    return glance.kind == STRONG or glance.alone() or question.numbered


def _mention(glance: LabelContext, named: TextMatch | None) -> Mention | None:
    """The mention that a token makes as a label, as (the first word of) a text, or as both."""
    if named is None:
        numeric = glance.soft and glance.token.kind == "number" and glance.question.numeric
        if glance.kind is None or glance.place is None or (numeric and not glance.alone()):
            return None
        if glance.kind == BARE and glance.spelt_in_texts():
            return Mention(DOUBTFUL, (glance.place,), glance.start, glance.token.end)
        other_case = glance.shown not in glance.question.exact
        start, end = glance.start, glance.token.end
        return Mention(glance.kind, (glance.place,), start, end, glance.soft, False, other_case, glance.previous)
    end = glance.found[named.after - 1].end
    start = glance.token.start
    places = named.phrase.places
    after = glance.found[named.after] if named.after < len(glance.found) else None
    counted = glance.token.kind == "number" and after is not None and after.kind == "word"
    if glance.kind is not None and glance.place is not None and named.after == glance.at + 1 and not counted:
        if places == (glance.place,):
            kind = TEXT if glance.kind == BARE and glance.shown.isupper() else glance.kind
            return Mention(kind, places, start, end, glance.soft)
        if glance.kind == BARE and glance.names_another_thing():
            return Mention(TEXT, places, start, end, previous=glance.previous)  # "blood type A", "floor 3"
        return Mention(CONFLICT, tuple(sorted({glance.place, *places})), start, end, opposed=True)
    kind = DOUBTFUL if named.doubtful else TEXT
    return Mention(kind, places, start, end, alias=named.phrase.alias, previous=glance.previous)


def _merged(text: str, items: list[Item]) -> list[Item]:
    """A label and the option text beside it become one mention: agreeing (BOTH) or contradicting (CONFLICT)."""
    merged: list[Item] = []
    at = 0
    while at < len(items):
        item = items[at]
        if isinstance(item, Mention) and item.kind not in (CONFLICT, DOUBTFUL):
            index = _next_mention(items, at)
            join = _text_then_label if item.kind == TEXT else _label_then_text
            joined = join(text, items, item, index) if index else None
            if joined is not None:
                item, at = joined, index
        merged.append(item)
        at += 1
    return merged


def _next_mention(items: list[Item], at: int) -> int:
    """Index of the mention that follows within a few tokens, or 0."""
    return next((i for i in range(at + 1, min(at + 8, len(items))) if isinstance(items[i], Mention)), 0)


def _label_then_text(text: str, items: list[Item], label: Mention, index: int) -> Mention | None:
    other = items[index]
    if not isinstance(other, Mention) or not (other.kind == TEXT or other.opposed):
        return None
    if not _GAP.fullmatch(text, label.end, other.start):
        return None
    if label.places[0] in other.places and (other.kind == TEXT or label.kind == STRONG):
        return replace(label, kind=BOTH, end=other.end, soft=False)
    if other.kind == TEXT and _closes(items, index + 1):
        places = tuple(sorted({*label.places, *other.places}))
        return replace(label, kind=CONFLICT, places=places, end=other.end, soft=False)
    return None


def _text_then_label(text: str, items: list[Item], said: Mention, index: int) -> Mention | None:
    label = items[index]
    if not isinstance(label, Mention) or label.kind != STRONG:
        return None
    if not _OPENS_BRACKET.fullmatch(text, said.end, label.start):
        return None
    behind = _next_mention(items, index)
    if behind and _label_then_text(text, items, label, behind) is not None:
        return None  # "cat (B) dog": the label belongs to what follows
    agree = label.places[0] in said.places
    places = label.places if agree else tuple(sorted({*said.places, *label.places}))
    return Mention(BOTH if agree else CONFLICT, places, said.start, label.end, other_case=label.other_case)


def _closes(items: list[Item], at: int) -> bool:
    """Whether the sentence, or the clause, ends here."""
    for item in items[at : at + 6]:
        if isinstance(item, Mention):
            return False
        if item.kind == "newline" or item.text in _CLOSES:
            return True
        if item.text not in _UNSAID:
            return False
    return at + 6 >= len(items)
