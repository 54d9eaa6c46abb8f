"""What a question offers, prepared once: its labels, and its option texts as token sequences."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import cached_property, lru_cache
from typing import NamedTuple

from msgspec import Struct

from snellen.common.late import late_pattern
from snellen.extraction import languages, phrases
from snellen.extraction.normalisation import normalise_reply
from snellen.extraction.option_aliases import aliases
from snellen.extraction.quantity_mentions import DateOptions, QuantityOptions, date_options, quantity_options
from snellen.extraction.word_boundaries import ELISIONS

CJK = "\u3005-\u3007\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
_HANGUL = "\uac00-\ud7a3\u1100-\u11ff\u3131-\u318e"
# Vowel signs and other marks that stand on a letter: Latin, Hebrew, Arabic, the scripts of India and Thai.
_ON_LETTER = (
    "\u0300-\u036f\u0591-\u05c7\u0610-\u061a\u064b-\u065f\u0670\u06d6-\u06dc\u0900-\u0903\u093a-\u094f\u0951-\u0957"
    "\u0962\u0963\u0981-\u0983\u09bc-\u09cd\u0a01-\u0a4d\u0a81-\u0acd\u0b01-\u0bcd\u0c00-\u0ccd\u0d00-\u0dff\u0e31\u0e34-\u0e3a"
    "\u0e47-\u0e4e"
)
_LETTER = rf"(?:(?![{CJK}{_HANGUL}])[^\W\d_][{_ON_LETTER}]*)"
_TOKEN = late_pattern(
    r"(?P<number>(?<![\w).])-?\.?\d+(?:[.,:/-]\d+)*|\d+(?:[.,:/-]\d+)*)"
    rf"|(?P<cjk>[{CJK}])"
    rf"|(?P<word>(?:[A-Z]\.){{2,}}(?![A-Za-z])|[{_HANGUL}]+|(?:{ELISIONS})(?='{_LETTER}{{2}})|[A-HJ-Z](?='{_LETTER}{{2}})|"
    rf"{_LETTER}+(?:'{_LETTER}+)*(?:\+\+|\#(?!\w))?)"
    r"|(?P<newline>\n)"
    r"|(?P<sign>[^\s])"
)
_ASCII_TOKEN = late_pattern(
    r"(?P<number>(?<![\w).])-?\.?\d+(?:[.,:/-]\d+)*|\d+(?:[.,:/-]\d+)*)"
    r"|(?P<word>(?:[A-Z]\.){2,}(?![A-Za-z])|[A-Za-z]+(?:'[A-Za-z]+)*(?:\+\+|\#(?!\w))?)"
    r"|(?P<newline>\n)"
    r"|(?P<sign>[^\s])"
)
_ELIDED = late_pattern(rf"\b(?:{ELISIONS}|[A-HJ-Z])'[A-Za-z]{{2}}")
_THOUSANDS = late_pattern(r"-?\d{1,3}(?:,\d{3})+(?:\.\d+)?")
_ZEROS = late_pattern(r"(-?\d+)\.0+")
_ARTICLES = frozenset({"a", "an", "the"})


class Token(NamedTuple):
    kind: str
    """number, cjk (one character), word, newline or sign (one character)."""
    text: str
    """Case-folded; numbers without thousands separators and without .0"""
    start: int
    end: int
    inflected: bool = False
    """A form of the word that it is taken for."""


def tokens(text: str) -> list[Token]:
    """All tokens of a plain text but white space."""
    found = []
    plain = text.isascii() and ("'" not in text or _ELIDED.search(text) is None)
    for match in (_ASCII_TOKEN if plain else _TOKEN).finditer(text):
        kind = match.lastgroup or "sign"
        word = match[0]
        shown = (
            _number(word) if kind == "number" else word.casefold() if len(word) == 1 else word.casefold().rstrip(".")
        )
        if kind == "word" and not shown.isascii():
            shown = _UNVOWELLED.sub("", shown).replace("ё", "е")
        found.append(Token(kind, shown, match.start(), match.end()))
    return found


_UNVOWELLED = late_pattern("[\u064b-\u065f\u0670\u0640]")  # Arabic writes them or not


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


class OptionPhrase(Struct, frozen=True):
    """A sequence of tokens that names one option, or several that share it."""

    words: tuple[str, ...]
    places: tuple[int, ...]
    alias: bool = False
    """Not the option's own text but an equal of it: a number word, a plural, a number without its unit."""


class OptionIndex(Struct, frozen=True, dict=True):
    """Labels and option texts, ready to be looked for; each preparation is made when first needed."""

    options: tuple[str, ...]
    labels: tuple[str, ...]

    @cached_property
    def exact(self) -> dict[str, int]:
        """Label as shown -> place."""
        return _labels(self.labels[: self.count])[0]

    @cached_property
    def folded(self) -> dict[str, int]:
        """Label in either case -> place, where that is not in doubt."""
        return _labels(self.labels[: self.count])[1]

    @cached_property
    def words(self) -> tuple[tuple[str, ...], ...]:
        """Each option's words."""
        return tuple(_option_words(option) for option in self.options)

    @cached_property
    def phrases(self) -> dict[str, tuple[OptionPhrase, ...]]:
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
        """Some option begins with a number, so that a bare number may be a label or an answer."""
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

    @cached_property
    def vocabulary(self) -> tuple[str, ...]:
        """All words of the options but numbers."""
        return tuple(dict.fromkeys(w for sequence in self.words for w in sequence if w[0].isalpha() and len(w) <= 40))[
            :400
        ]

    @cached_property
    def stems(self) -> frozenset[str]:
        """First letters of the vocabulary."""
        return frozenset(word[0] for word in self.vocabulary)

    @cached_property
    def twins(self) -> tuple[tuple[int, ...], ...]:
        """Places of options that differ only in case or signs."""
        groups: dict[tuple[str, ...], list[int]] = {}
        for place, sequence in enumerate(self.words):
            if sequence:
                groups.setdefault(sequence, []).append(place)
        several = (tuple(group) for group in groups.values() if len(group) > 1)
        return tuple(group for group in several if len({self.options[place] for place in group}) == len(group))

    @cached_property
    def quantities(self) -> QuantityOptions | None:
        """What the options are as quantities, where they are such."""
        return quantity_options(self.options)

    @cached_property
    def numbered(self) -> bool:
        """The marks are numbers."""
        return any(mark.isdigit() for mark in self.exact)

    @cached_property
    def votes(self) -> Counter[str]:
        """Which languages other than English the options' words speak for."""
        return languages.votes_of(self.vocabulary)

    @cached_property
    def dates(self) -> DateOptions | None:
        """What the options are as dates, where they are such."""
        return date_options(self.options)

    @cached_property
    def letters_in_texts(self) -> frozenset[str]:
        """Marks that are words of longer options of another place: the D of "vitamin D", which is option C."""
        return frozenset(
            mark
            for mark, place in self.folded.items()
            if mark.isalpha()
            and any(mark in w for other, w in enumerate(self.words) if other != place and len(w) > 1)
            and (
                mark not in ("a", "i") or any(f" {mark.upper()}" in option[:LONGEST_OPTION] for option in self.options)
            )
        )

    @cached_property
    def labelled_like(self) -> bool:
        """Every option is one letter or number, as a mark is."""
        return all(len(sequence) == 1 and len(sequence[0]) <= 2 for sequence in self.words)

    @cached_property
    def verb_endings(self) -> frozenset[str]:
        """The ending that the first words of most options share, as verbs of one form do: "ing", "s"."""
        firsts = [sequence[0] for sequence in self.words if sequence and sequence[0].isascii()]
        counted = Counter(ending for first in firsts for ending in ("ing", "s", "ed") if first.endswith(ending))
        return frozenset(ending for ending, count in counted.items() if count >= max(3, len(firsts) - 1))

    @cached_property
    def summing_up(self) -> frozenset[int]:
        """Places of "all of the above" and its like, which stand for the others."""
        heads = (("all", "of"), ("all", "the"), ("all", "these"), ("both", "of"))
        return frozenset(place for place, words in enumerate(self.words) if words[:2] in heads and len(words) <= 5)

    @property
    def count(self) -> int:
        return len(self.options)

    def label(self, text: str) -> int | None:
        place = self.exact.get(text)
        return self.folded.get(text.casefold()) if place is None else place


@lru_cache(maxsize=4096)
def index_options(options: tuple[str, ...], labels: tuple[str, ...]) -> OptionIndex:
    """The question of these options and labels; the same ones are prepared once."""
    return OptionIndex(options, labels)


def _adjective(word: str) -> bool:
    return word in phrases.ADJECTIVES or word.endswith(phrases.ADJECTIVE_ENDINGS)


LONGEST_OPTION = 4_000
"""Characters of an option's text that are looked at."""
MOST_WORDS = 120
"""Words of an option's text that are looked for."""


def _option_words(option: str) -> tuple[str, ...]:
    found = tokens(normalise_reply(option[:LONGEST_OPTION]).text)
    words = tuple(token.text for token in found if means(token))[:MOST_WORDS]
    return words[1:] if len(words) > 1 and words[0] in _ARTICLES else words


def _inside(short: tuple[str, ...], long: tuple[str, ...]) -> bool:
    return bool(short) and any(long[k : k + len(short)] == short for k in range(len(long) - len(short) + 1))


@lru_cache(maxsize=1024)
def _labels(labels: tuple[str, ...]) -> tuple[dict[str, int], dict[str, int]]:
    exact: dict[str, int] = {}
    folded: dict[str, int] = {}
    for place, shown in enumerate(labels):
        found = tokens(normalise_reply(shown).text)
        core = [t for t in found if t.kind in ("word", "number", "cjk")]
        if len(core) != 1:
            continue
        text = normalise_reply(shown).text[core[0].start : core[0].end]
        exact.setdefault(text, place)
        folded.setdefault(text.casefold(), place)
    return exact, folded


def _index(words: Sequence[tuple[str, ...]]) -> dict[str, tuple[OptionPhrase, ...]]:
    """Phrases by first word, longest first, own texts before aliases."""
    own: dict[tuple[str, ...], list[int]] = {}
    for place, sequence in enumerate(words):
        if sequence:
            own.setdefault(sequence, []).append(place)
    other: dict[tuple[str, ...], set[int]] = {}
    for sequence, places in own.items():
        for alias in aliases(sequence, list(own)):
            if alias and alias not in own:
                other.setdefault(alias, set()).update(places)
    found: dict[str, list[OptionPhrase]] = {}
    for sequence, places in own.items():
        found.setdefault(sequence[0], []).append(OptionPhrase(sequence, tuple(places)))
    for sequence, several in other.items():
        if len(several) == 1:
            found.setdefault(sequence[0], []).append(OptionPhrase(sequence, tuple(several), alias=True))
    return {first: tuple(sorted(some, key=lambda p: -len(p.words))) for first, some in found.items()}


def _bare(options: Sequence[str], words: Sequence[tuple[str, ...]]) -> dict[str, tuple[int, ...]]:
    found: dict[str, tuple[int, ...]] = {}
    for place, (option, sequence) in enumerate(zip(options, words, strict=True)):
        if not sequence and option.strip():
            found[option.strip()] = (*found.get(option.strip(), ()), place)
    return found


_PLAIN_TEXT = late_pattern(r"[A-Za-z0-9]+(?: [A-Za-z0-9]+)*")


def _short(
    options: Sequence[str], words: Sequence[tuple[str, ...]], exact: dict[str, int], folded: dict[str, int]
) -> dict[str, int]:
    """Texts that the fast path may compare: plain words, one place each, no label and no word for a label."""
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
