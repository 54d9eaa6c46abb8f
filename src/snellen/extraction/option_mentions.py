"""Where a text mentions options, and the text's skeleton: its words with a placeholder for each mention."""

from __future__ import annotations

import re
from itertools import dropwhile
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from snellen.common.late import late_pattern
from snellen.extraction import languages, phrases
from snellen.extraction.inflections import resolved
from snellen.extraction.languages import SPEAKING, guess
from snellen.extraction.option_index import OptionIndex, Token, is_cjk, runs_on, tokens
from snellen.extraction.option_texts import TextMatch, text_at
from snellen.extraction.phrases import BARE, BOTH, CONFLICT, DOUBTFUL, STRONG, TEXT

OPENING = "([{<【〔〈《"
CLOSING = ")]}>】〕〉》"
GLUED = late_pattern(r"(?:option|choice|answer)([A-Z])", re.IGNORECASE)
# Signs that make a letter beside them part of something else: C++, 20 °C, x_a, @b.
_BINDS = ("+", "#", "@", "°", "^", "_", "%", "=")


_OPENS = frozenset('$\\{"')
_ANNOUNCES = frozenset(
    word.rpartition("_")[2]
    for word in languages.union(languages.ANSWER, languages.OPTION)
    if not word.isascii()
)
"""Nouns of other languages than English behind which A is not an article: "đáp án A nhé"."""
_TURKISH = late_pattern(
    r"'(?:d[ıiuü]r|t[ıiuü]r|n[ıiuü]n|y[ıiuüea]|d[ae]n?(?![a-z])|[ıiuüea](?![a-z]))"
)
_LOOKALIKES = str.maketrans("АВСЕНΑΒΕΗавсе", "ABCEHABEHabce")


class LabelContext:
    """A token that may be a label, with what stands around it."""

    def __init__(self, text: str, stream: list[Token], at: int, question: OptionIndex) -> None:
        self.text, self.stream, self.at, self.question = text, stream, at, question
        self.token = stream[at]
        spelling = text[self.token.start : self.token.end]
        place = self._label(spelling) if self.token.kind in ("word", "number", "cjk") else None
        glued = GLUED.fullmatch(spelling) if place is None else None
        self.shown = glued[1] if glued else spelling
        """As it stands in the text."""
        self.place = question.exact.get(glued[1]) if glued else place
        """The place that it would be the label of, or None."""
        self.start = self.token.end - len(self.shown)
        self.kind = None if self.place is None else STRONG if glued else self._kind()
        """STRONG or BARE, or None where the token is part of something else."""
        self.soft = self.kind == BARE and (self.shown.islower() or self.token.kind != "word")
        """A bare digit or small letter."""

    def _label(self, spelling: str) -> int | None:
        """The place of a mark; of a Cyrillic or Greek letter that looks like one, where nothing else was said."""
        place = self.question.label(spelling)
        if place is None and len(spelling) == 1 and not spelling.isascii() and self.alone():
            return self.question.label(spelling.translate(_LOOKALIKES))
        return place

    @property
    def before(self) -> Token | None:
        return self.stream[self.at - 1] if self.at else None

    @property
    def previous(self) -> str:
        """The word before it; of "Mr. B" it is mr."""
        if self.before is None:
            return ""
        abbreviated = (
            self.before.text == "."
            and self.at > 1
            and self.stream[self.at - 2].text in phrases.ABBREVIATIONS
        )
        return self.stream[self.at - 2].text if abbreviated else self.before.text

    def alone(self) -> bool:
        """Nothing but this token and punctuation was said."""
        return len(self.stream) < 8 and all(
            t is self.token or t.kind in ("sign", "newline") for t in self.stream
        )

    def names_another_thing(self) -> bool:
        """Whether a noun before it, of options that are letters or numbers themselves, says what it is: "type A"."""
        introduced = (
            phrases.BEFORE_BARE | phrases.LABEL_NOUNS | phrases.ANSWER_NOUNS | phrases.OPENERS
        )
        before = self.previous
        return (
            self.question.labelled_like
            and len(before) > 2
            and before.isalpha()
            and before not in introduced
        )

    def spelt_in_texts(self) -> bool:
        """Whether a letter stands in the options' own texts ("vitamin D") and nothing says that it is a mark."""
        if self.token.text not in self.question.letters_in_texts or self.alone():
            return False
        return not any(
            token.text in phrases.ANSWER_NOUNS
            for token in self.stream[max(0, self.at - 4) : self.at]
        )

    def _kind(self) -> str | None:
        opening, closing = self._beside(-1), self._beside(1)
        if not self._bounded_left() or not self._bounded_right():
            return None
        last = self.at + 1 == len(self.stream)
        bracketed = (
            opening != ""
            and opening in OPENING
            and (last or (closing != "" and closing in CLOSING))
        )
        quoted = opening == closing and opening in ("'", '"')
        if bracketed or quoted or self._delimited(closing):
            return STRONG
        word = self._is_word()
        if self.previous in phrases.LABEL_NOUNS and (self.shown == "A" or not word):
            return STRONG
        return None if word else BARE

    def _beside(self, step: int) -> str:
        """The nearest character but blanks, within three; empty at the text's ends."""
        at = self.token.start - 1 if step < 0 else self.token.end
        for _ in range(4):
            if not 0 <= at < len(self.text):
                return ""
            if self.text[at] != " ":
                return self.text[at]
            at += step
        return ""

    def _touching(self, at: int) -> str:
        return self.text[at] if 0 <= at < len(self.text) else ""

    def _bounded_left(self) -> bool:
        near, far = self._touching(self.token.start - 1), self._touching(self.token.start - 2)
        if runs_on(near) or near in _BINDS[:-1]:
            return False
        if not runs_on(far):
            return True
        if near in ("-", "/", "&"):
            noun = near == "-" and self.stream[self.at - 2].text in phrases.LABEL_NOUNS | {
                "answer",
                "ans",
            }
            return noun or self._is_label(self.at - 2)
        if near == ".":
            return len(self.stream[self.at - 2].text) > 1  # not the D of U.S.D.
        return not (near == "'" or (near != "" and near in OPENING))

    def _bounded_right(self) -> bool:
        near, far = self._touching(self.token.end), self._touching(self.token.end + 1)
        if runs_on(near) or near in _BINDS:
            return False
        if not runs_on(far) or near not in ("'", "-", "/", "&", "."):
            return True
        if near == "'":
            return _TURKISH.match(self.text, self.token.end) is not None
        if self.at + 2 >= len(self.stream):
            return False
        if self._is_label(self.at + 2) and near != ".":
            return True
        own = text_at(self.text, self.stream, self.at + 2, self.question)
        if near != "/" and own is not None and self.place in own.phrase.places:
            return True
        return near == "." and len(self.stream[self.at + 2].text) > 1

    def _is_label(self, at: int) -> bool:
        if not 0 <= at < len(self.stream):
            return False
        token = self.stream[at]
        return self.question.label(self.text[token.start : token.end]) is not None

    def _delimited(self, right: str) -> bool:
        """ "B)", and "B." or "B:" with more behind it, where a sentence begins."""
        before = self.before
        begins = (
            before is None
            or before.kind == "newline"
            or self.previous in (".", "!", "?", ":", ";", ",", "-")
        )
        if not begins or not right:
            return False
        if before is None and right == "(" and self.shown not in ("A", "I", "a", "i"):
            return True
        return right in ")]" or (right in ".:" and self.at + 2 < len(self.stream))

    def _is_word(self) -> bool:
        """The article a, the pronoun I."""
        behind = (
            token for token in self.stream[self.at + 1 : self.at + 4] if token.text not in _OPENS
        )
        after = next(behind, None)
        if self.shown not in ("a", "A", "i", "I") or after is None:
            return False
        if after.kind == "number":
            return self.shown == "a"  # "il y a 4 chats"
        if after.kind != "word" or (self.shown == "A" and self.previous in _ANNOUNCES):
            return False
        if self._is_label(self.at + 1) and self.text[after.start].isupper():
            return (
                self.shown.islower() and self.shown not in self.question.exact
            )  # "é a C", where A is a mark
        return after.text not in (phrases.AFTER_A if self.shown in "aA" else phrases.AFTER_I)


# --- mentions and the skeleton ----------------------------------------------------------------------------------------


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
    words: tuple[str, ...] = ()
    """The tokens of the whole reply, whatever has been set aside, without line breaks."""


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
    stream = list(dropwhile(lambda token: token.kind == "newline", tokens(text.rstrip())))
    words = tuple([token.text for token in stream if token.kind != "newline"])
    votes = question.votes
    plain = not votes and text.isascii() and SPEAKING.isdisjoint(words)
    spoken = () if plain else guess([token.text for token in stream if token.kind == "word"], votes)
    if spoken or question.verb_endings:
        stream = resolved(stream, question, spoken)
    for item in _merged(text, _mentions(text, stream, question, foreign=bool(spoken), topic=topic)):
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
    return Skeleton("".join(pieces), at, list(at), spoken, words)


def _unsaid(token: Token, last: str) -> bool:
    if token.kind == "newline":
        return last in ("", "\n", ":", "is", "answer")
    return token.text in _UNSAID or (token.text == "." and last in phrases.ABBREVIATIONS)


def _mentions(
    text: str, stream: list[Token], question: OptionIndex, *, foreign: bool, topic: frozenset[str]
) -> list[Item]:
    """Tokens, with those that make up a mention replaced by it; of nested texts the longest wins."""
    items: list[Item] = []
    at = 0
    while at < len(stream):
        token = stream[at]
        if token.kind == "number" and at and stream[at - 1].text in (*phrases.COUNTED_THINGS, "^"):
            items.append(token)  # step 3; m/s^2
            at += 1
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
        glance = LabelContext(text, stream, at, question)
        match = (
            None
            if glance.kind == STRONG
            else text_at(text, stream, at, question, foreign=foreign, topic=topic)
        )
        item = _mention(glance, match)
        items.append(item or stream[at])
        at = match.after if match and item else at + 1
    return items


def _mention(glance: LabelContext, match: TextMatch | None) -> Mention | None:
    """The mention that a token makes as a label, as (the first word of) a text, or as both."""
    if match is None:
        numeric = glance.soft and glance.token.kind == "number" and glance.question.numeric
        if glance.kind is None or glance.place is None or (numeric and not glance.alone()):
            return None
        if glance.kind == BARE and glance.spelt_in_texts():
            return Mention(DOUBTFUL, (glance.place,), glance.start, glance.token.end)
        other_case = glance.shown not in glance.question.exact
        start, end = glance.start, glance.token.end
        return Mention(
            glance.kind,
            (glance.place,),
            start,
            end,
            glance.soft,
            False,
            other_case,
            glance.previous,
        )
    end = glance.stream[match.after - 1].end
    start = glance.token.start
    places = match.phrase.places
    after = glance.stream[match.after] if match.after < len(glance.stream) else None
    counted = glance.token.kind == "number" and after is not None and after.kind == "word"
    if (
        glance.kind is not None
        and glance.place is not None
        and match.after == glance.at + 1
        and not counted
    ):
        if places == (glance.place,):
            kind = TEXT if glance.kind == BARE and glance.shown.isupper() else glance.kind
            return Mention(kind, places, start, end, glance.soft)
        if glance.kind == BARE and glance.names_another_thing():
            return Mention(
                TEXT, places, start, end, previous=glance.previous
            )  # "blood type A", "floor 3"
        return Mention(CONFLICT, tuple(sorted({glance.place, *places})), start, end, opposed=True)
    kind = DOUBTFUL if match.doubtful else TEXT
    return Mention(kind, places, start, end, alias=match.phrase.alias, previous=glance.previous)


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
    return next(
        (i for i in range(at + 1, min(at + 8, len(items))) if isinstance(items[i], Mention)), 0
    )


def _label_then_text(text: str, items: list[Item], label: Mention, index: int) -> Mention | None:
    text_mention = items[index]
    if not isinstance(text_mention, Mention) or not (
        text_mention.kind == TEXT or text_mention.opposed
    ):
        return None
    if not _GAP.fullmatch(text, label.end, text_mention.start):
        return None
    if label.places[0] in text_mention.places and (
        text_mention.kind == TEXT or label.kind == STRONG
    ):
        return replace(label, kind=BOTH, end=text_mention.end, soft=False)
    if text_mention.kind == TEXT and _closes(items, index + 1):
        places = tuple(sorted({*label.places, *text_mention.places}))
        return replace(label, kind=CONFLICT, places=places, end=text_mention.end, soft=False)
    return None


def _text_then_label(
    text: str, items: list[Item], text_mention: Mention, index: int
) -> Mention | None:
    label = items[index]
    if not isinstance(label, Mention) or label.kind != STRONG:
        return None
    if not _OPENS_BRACKET.fullmatch(text, text_mention.end, label.start):
        return None
    behind = _next_mention(items, index)
    if behind and _label_then_text(text, items, label, behind) is not None:
        return None  # "cat (B) dog": the label belongs to what follows
    agree = label.places[0] in text_mention.places
    places = label.places if agree else tuple(sorted({*text_mention.places, *label.places}))
    return Mention(
        BOTH if agree else CONFLICT,
        places,
        text_mention.start,
        label.end,
        other_case=label.other_case,
    )


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
