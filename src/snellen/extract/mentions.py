"""Where a text mentions options, and the text's skeleton: its words with a placeholder for each mention."""

from __future__ import annotations

import re
from itertools import dropwhile
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from snellen.extract import phrases
from snellen.extract.marks import GLUED, Glance
from snellen.extract.phrases import BOTH, CONFLICT, DOUBTFUL, IDLE, STRONG, TEXT
from snellen.extract.question import Question, Token, tokens
from snellen.extract.shapes import is_cjk
from snellen.extract.texts import Found, text_at


class Mention(Struct, frozen=True):
    """Words that name an option, or several options that share them."""

    kind: str
    """Its placeholder: BARE, STRONG, TEXT, BOTH, CONFLICT or DOUBTFUL."""
    places: tuple[int, ...]
    start: int
    end: int
    soft: bool = False
    """A bare digit or small letter: a mark only where the reply says that it is one."""
    alias: bool = False
    other_case: bool = False
    previous: str = ""
    """The word before it."""
    opposed: bool = False
    """CONFLICT because the same letters are one option's mark and another's text."""


class Skeleton(NamedTuple):
    """Tokens separated by single blanks (Chinese joined); `at[i]` is the mention whose placeholder is text[i]."""

    text: str
    at: dict[int, Mention]
    offsets: list[int]
    """The keys of `at`, ascending."""


Item = Token | Mention

_UNSAID = frozenset("\"'()[]{}<>【】〔〕〈〉《》$\\#")
_GAP = re.compile(r"[^\w\n]{0,6}(?:(?:a|an|the)[^\S\n])?", re.IGNORECASE)
_OPENS_BRACKET = re.compile(r"[^\S\n]?[(\[][^\S\n]?")
_CLOSES = frozenset(".,;:!?")


def skeleton(text: str, question: Question, strict: bool) -> Skeleton:
    """The skeleton of a plain text. Strict: option texts are seen (they can contradict a mark) but name nothing."""
    pieces: list[str] = []
    at: dict[int, Mention] = {}
    offset = 0
    last = ""
    found = list(dropwhile(lambda token: token.kind == "newline", tokens(text.rstrip())))
    for item in _merged(text, _mentions(text, found, question)):
        if isinstance(item, Mention):
            piece = IDLE if strict and item.kind in (TEXT, DOUBTFUL) else item.kind
        elif _unsaid(item, last):
            continue
        else:
            piece = item.text
        if pieces and not (is_cjk(piece) and is_cjk(last)):
            pieces.append(" ")
            offset += 1
        if isinstance(item, Mention) and piece != IDLE:
            at[offset] = item
        pieces.append(piece)
        offset += len(piece)
        last = piece
    return Skeleton("".join(pieces), at, list(at))


def _unsaid(token: Token, last: str) -> bool:
    if token.kind == "newline":
        return last in ("", "\n", ":", "is", "answer")
    return token.text in _UNSAID or (token.text == "." and last in phrases.ABBREVIATIONS)


def _mentions(text: str, found: list[Token], question: Question) -> list[Item]:
    """Tokens, with those that make up a mention replaced by it; of nested texts the longest wins."""
    items: list[Item] = []
    at = 0
    while at < len(found):
        token = found[at]
        if token.text not in question.folded and token.text not in question.phrases and not GLUED.fullmatch(token.text):
            items.append(token)
            at += 1
            continue
        glance = Glance(text, found, at, question)
        named = None if glance.kind == STRONG else text_at(text, found, at, question)
        item = _mention(glance, named)
        items.append(item or found[at])
        at = named.after if named and item else at + 1
    return items


def _mention(glance: Glance, named: Found | None) -> Mention | None:
    """The mention that a token makes as a mark, as (the first word of) a text, or as both."""
    if named is None:
        numeric = glance.soft and glance.token.kind == "number" and glance.question.numeric
        if glance.kind is None or glance.place is None or (numeric and not glance.alone()):
            return None
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
            return Mention(glance.kind, places, start, end, glance.soft)
        return Mention(CONFLICT, tuple(sorted({glance.place, *places})), start, end, opposed=True)
    kind = DOUBTFUL if named.doubtful else TEXT
    return Mention(kind, places, start, end, alias=named.phrase.alias, previous=glance.previous)


def _merged(text: str, items: list[Item]) -> list[Item]:
    """A mark and the option text beside it become one mention: agreeing (BOTH) or contradicting (CONFLICT)."""
    merged: list[Item] = []
    at = 0
    while at < len(items):
        item = items[at]
        if isinstance(item, Mention) and item.kind not in (CONFLICT, DOUBTFUL):
            index = _next_mention(items, at)
            join = _text_then_mark if item.kind == TEXT else _mark_then_text
            joined = join(text, items, item, index) if index else None
            if joined is not None:
                item, at = joined, index
        merged.append(item)
        at += 1
    return merged


def _next_mention(items: list[Item], at: int) -> int:
    """Index of the mention that follows within a few tokens, or 0."""
    return next((i for i in range(at + 1, min(at + 8, len(items))) if isinstance(items[i], Mention)), 0)


def _mark_then_text(text: str, items: list[Item], mark: Mention, index: int) -> Mention | None:
    other = items[index]
    if not isinstance(other, Mention) or not (other.kind == TEXT or other.opposed):
        return None
    if not _GAP.fullmatch(text, mark.end, other.start):
        return None
    if mark.places[0] in other.places and (other.kind == TEXT or mark.kind == STRONG):
        return replace(mark, kind=BOTH, end=other.end, soft=False)
    if other.kind == TEXT and _closes(items, index + 1):
        places = tuple(sorted({*mark.places, *other.places}))
        return replace(mark, kind=CONFLICT, places=places, end=other.end, soft=False)
    return None


def _text_then_mark(text: str, items: list[Item], said: Mention, index: int) -> Mention | None:
    mark = items[index]
    if not isinstance(mark, Mention) or mark.kind != STRONG:
        return None
    if not _OPENS_BRACKET.fullmatch(text, said.end, mark.start):
        return None
    behind = _next_mention(items, index)
    if behind and _mark_then_text(text, items, mark, behind) is not None:
        return None  # "cat (B) dog": the mark belongs to what follows
    agree = mark.places[0] in said.places
    places = mark.places if agree else tuple(sorted({*said.places, *mark.places}))
    return Mention(BOTH if agree else CONFLICT, places, said.start, mark.end, other_case=mark.other_case)


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
