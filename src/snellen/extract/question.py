"""What a question offers, prepared once: its marks, and its option texts as token sequences."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cached_property, lru_cache
from typing import NamedTuple

from msgspec import Struct

from snellen.extract import phrases
from snellen.extract.plain import plain

CJK = "\u3005-\u3007\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
_TOKEN = re.compile(
    r"(?P<number>(?<![\w).])-?\.?\d+(?:[.,:/-]\d+)*|\d+(?:[.,:/-]\d+)*)"
    rf"|(?P<cjk>[{CJK}])"
    rf"|(?P<word>(?:(?![{CJK}])[^\W\d_])+(?:'(?:(?![{CJK}])[^\W\d_])+)*(?:\+\+|\#(?!\w))?)"
    r"|(?P<newline>\n)"
    r"|(?P<sign>[^\s])"
)
_THOUSANDS = re.compile(r"-?\d{1,3}(?:,\d{3})+(?:\.\d+)?")
_ZEROS = re.compile(r"(-?\d+)\.0+")
_ARTICLES = frozenset({"a", "an", "the"})


class Token(NamedTuple):
    kind: str
    """number, cjk (one character), word, newline or sign (one character)."""
    text: str
    """Case-folded; numbers without thousands separators and without .0"""
    start: int
    end: int


def tokens(text: str) -> list[Token]:
    """All tokens of a plain text but white space."""
    found = []
    for match in _TOKEN.finditer(text):
        kind = match.lastgroup or "sign"
        word = match[0]
        found.append(Token(kind, _number(word) if kind == "number" else word.casefold(), match.start(), match.end()))
    return found


def _number(digits: str) -> str:
    if digits.startswith((".", "-.")):
        digits = digits.replace(".", "0.", 1)
    if "," in digits and _THOUSANDS.fullmatch(digits):
        digits = digits.replace(",", "")
    whole = _ZEROS.fullmatch(digits)
    return whole[1] if whole else digits


def means(token: Token) -> bool:
    """Whether the token can tell one option from another: words, numbers, and signs such as %, $, +, arrows."""
    return token.kind in ("word", "number", "cjk") or (token.kind == "sign" and token.text in phrases.MEANINGFUL)


class Phrase(Struct, frozen=True):
    """A sequence of tokens that names one option, or several that share it."""

    words: tuple[str, ...]
    places: tuple[int, ...]
    alias: bool = False
    """Not the option's own text but an equal of it: a number word, a plural, a number without its unit."""


class Question(Struct, frozen=True, dict=True):
    """Marks and option texts, ready to be looked for; each preparation is made when first needed."""

    options: tuple[str, ...]
    marks: tuple[str, ...]

    @cached_property
    def exact(self) -> dict[str, int]:
        """Mark as shown -> place."""
        return _marks(self.marks[: self.count])[0]

    @cached_property
    def folded(self) -> dict[str, int]:
        """Mark in either case -> place, where that is not in doubt."""
        return _marks(self.marks[: self.count])[1]

    @cached_property
    def words(self) -> tuple[tuple[str, ...], ...]:
        """Each option's words."""
        return tuple(_option_words(option) for option in self.options)

    @cached_property
    def phrases(self) -> dict[str, tuple[Phrase, ...]]:
        """First word -> phrases that begin with it, longest first."""
        return _index(self.words)

    @cached_property
    def texts(self) -> tuple[str, ...]:
        """Each option's words joined by blanks, for replies that were cut off."""
        return tuple(" ".join(sequence) for sequence in self.words)

    @cached_property
    def bare(self) -> dict[str, tuple[int, ...]]:
        """Options without a word in them ("...", "?"): the raw text -> places; only a reply of just that names them."""
        return _bare(self.options, self.words)

    @cached_property
    def short(self) -> dict[str, int]:
        """Lower-case option text -> place, where the text of a short reply may be compared as it is."""
        return _short(self.options, self.words, self.exact, self.folded)

    @cached_property
    def numeric(self) -> bool:
        """Some option begins with a number, so that a bare number may be a mark or an answer."""
        return any(w and w[0].lstrip("-")[:1].isdigit() for w in self.words)

    @cached_property
    def nested(self) -> frozenset[int]:
        """Places whose text has another option's text inside it."""
        return frozenset(
            i
            for i, long in enumerate(self.words)
            for j, short in enumerate(self.words)
            if i != j and len(short) < len(long) and _inside(short, long)
        )

    @cached_property
    def endings(self) -> frozenset[str]:
        """One-word texts that end another option's text: "left" beside "top left"."""
        longer = [w for w in self.words if len(w) > 1]
        return frozenset(w[0] for w in self.words if len(w) == 1 and any(o[-1] == w[0] for o in longer))

    @cached_property
    def beginnings(self) -> frozenset[str]:
        longer = [w for w in self.words if len(w) > 1]
        return frozenset(w[0] for w in self.words if len(w) == 1 and any(o[0] == w[0] for o in longer))

    @cached_property
    def adjectival(self) -> bool:
        """Several options are adjectives, so that orange is a colour here and no fruit."""
        return sum(len(w) == 1 and _adjective(w[0]) for w in self.words) > 1

    @property
    def count(self) -> int:
        return len(self.options)

    def mark(self, text: str) -> int | None:
        place = self.exact.get(text)
        return self.folded.get(text.casefold()) if place is None else place


@lru_cache(maxsize=4096)
def question(options: tuple[str, ...], marks: tuple[str, ...]) -> Question:
    """The question of these options and marks; the same ones are prepared once."""
    return Question(options, marks)


def _adjective(word: str) -> bool:
    return word in phrases.ADJECTIVES or word.endswith(phrases.ADJECTIVE_ENDINGS)


def _option_words(option: str) -> tuple[str, ...]:
    words = tuple(token.text for token in tokens(plain(option).text) if means(token))
    return words[1:] if len(words) > 1 and words[0] in _ARTICLES else words


def _inside(short: tuple[str, ...], long: tuple[str, ...]) -> bool:
    return bool(short) and any(long[k : k + len(short)] == short for k in range(len(long) - len(short) + 1))


@lru_cache(maxsize=1024)
def _marks(marks: tuple[str, ...]) -> tuple[dict[str, int], dict[str, int]]:
    exact: dict[str, int] = {}
    folded: dict[str, int] = {}
    for place, shown in enumerate(marks):
        found = tokens(plain(shown).text)
        core = [t for t in found if t.kind in ("word", "number", "cjk")]
        if len(core) != 1:
            continue
        text = plain(shown).text[core[0].start : core[0].end]
        exact.setdefault(text, place)
        folded.setdefault(text.casefold(), place)
    return exact, folded


def _index(words: Sequence[tuple[str, ...]]) -> dict[str, tuple[Phrase, ...]]:
    """Phrases by first word, longest first, own texts before aliases."""
    own: dict[tuple[str, ...], list[int]] = {}
    for place, sequence in enumerate(words):
        if sequence:
            own.setdefault(sequence, []).append(place)
    other: dict[tuple[str, ...], set[int]] = {}
    for sequence, places in own.items():
        for alias in _aliases(sequence, list(own)):
            if alias and alias not in own:
                other.setdefault(alias, set()).update(places)
    found: dict[str, list[Phrase]] = {}
    for sequence, places in own.items():
        found.setdefault(sequence[0], []).append(Phrase(sequence, tuple(places)))
    for sequence, several in other.items():
        if len(several) == 1:
            found.setdefault(sequence[0], []).append(Phrase(sequence, tuple(several), alias=True))
    return {first: tuple(sorted(some, key=lambda p: -len(p.words))) for first, some in found.items()}


def _aliases(words: tuple[str, ...], every: Sequence[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """Equals of an option's text: 2/two, cat/cats, and 5 for "5 cm" where every option has the unit."""
    found: list[tuple[str, ...]] = []
    if len(words) == 1 and words[0] in phrases.NUMBER_WORDS:
        found.append((phrases.NUMBER_WORDS[words[0]],))
    last = words[-1]
    if last.isalpha() and last.isascii() and len(last) > 2 and last not in phrases.UNCOUNTABLE:
        found.extend((*words[:-1], form) for form in _other_number(last))
    unit = words[1:]
    if unit and words[0][-1].isdigit() and all(w[1:] == unit and w[0][-1].isdigit() for w in every):
        found.append(words[:1])
    return found


def _other_number(noun: str) -> list[str]:
    if noun.endswith("s"):
        return [noun[:-1]] if not noun.endswith(("ss", "us", "is")) else [noun + "es"] if noun.endswith("ss") else []
    return [noun + ("es" if noun.endswith(("x", "ch", "sh")) else "s")]


def _bare(options: Sequence[str], words: Sequence[tuple[str, ...]]) -> dict[str, tuple[int, ...]]:
    found: dict[str, tuple[int, ...]] = {}
    for place, (option, sequence) in enumerate(zip(options, words, strict=True)):
        if not sequence and option.strip():
            found[option.strip()] = (*found.get(option.strip(), ()), place)
    return found


_PLAIN_TEXT = re.compile(r"[A-Za-z0-9]+(?: [A-Za-z0-9]+)*")


def _short(
    options: Sequence[str], words: Sequence[tuple[str, ...]], exact: dict[str, int], folded: dict[str, int]
) -> dict[str, int]:
    """Texts that the fast path may compare: plain words, one place each, no mark and no word for a mark."""
    found: dict[str, int] = {}
    for place, option in enumerate(options):
        text = option.lower()
        if (
            not _PLAIN_TEXT.fullmatch(option)
            or text in exact
            or text in folded
            or sum(w == words[place] for w in words) > 1
        ):
            continue
        found[text] = place
    return found
