"""What a question offers, prepared once: its labels, and its option texts as token sequences."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cached_property, lru_cache
from typing import NamedTuple
from unicodedata import normalize

from msgspec import Struct

from snellen.common.late import late_pattern
from snellen.extraction import languages, phrases
from snellen.extraction.normalisation import normalise_reply

ELISIONS = r"[ldcnjstLDCNJST]|[Qq]u|[Uu]n|[Dd]ell|[Aa]ll|[Nn]ell|[Ss]ull|[Dd]all|[Jj]usqu|[Ll]orsqu|[Pp]uisqu|[Qq]uest"
"""What stands before the apostrophe of a French or Italian elision."""
_ELISION_BEFORE = late_pattern(rf"(?<![^\W\d_])(?:{ELISIONS})\Z", re.IGNORECASE)


def is_cjk(piece: str) -> bool:
    """One character of a script that has no blanks between words."""
    return len(piece) == 1 and "\u3005" <= piece <= "\ufaff" and not "\uac00" <= piece <= "\uf8ff"


def runs_on(character: str) -> bool:
    """A letter or digit of a script that has blanks between words: no boundary beside it.

    Hangul writes particles against a word, so a change between it and another script is a boundary.
    """
    return (
        bool(character)
        and character.isalnum()
        and not is_cjk(character)
        and not is_hangul(character)
    )


def is_hangul(character: str) -> bool:
    return "\uac00" <= character <= "\ud7a3"


def free_left(text: str, start: int) -> bool:
    """No letter, digit or hyphenated word stands against it."""
    near, far = text[start - 1 : start], text[max(0, start - 2) : max(0, start - 1)]
    return not (
        runs_on(near)
        or (near in ("-", "_") and runs_on(far))
        or (near == "'" and _inside_word(text, start))
    )


def _inside_word(text: str, start: int) -> bool:
    """Whether an apostrophe stands inside a word, and is not that of an elision (l'orange)."""
    before = text[max(0, start - 7) : start - 1]
    return runs_on(before[-1:]) and _ELISION_BEFORE.search(before) is None


def free_right(text: str, end: int) -> bool:
    near, far = text[end : end + 1], text[end + 1 : end + 2]
    return not (runs_on(near) or (near in ("-", "'", "_", "(") and runs_on(far)))


# --- equals of options ------------------------------------------------------------------------------------------------

Words = tuple[str, ...]


def aliases(words: Words, every: Sequence[Words]) -> list[Words]:
    """Other ways to say the words of one option, of the words of all options."""
    return [
        *_unaccented(words),
        *_numbers(words),
        *_times(words),
        *_other_forms(words, every),
    ]


def _unaccented(words: Words) -> Iterator[Words]:
    """ "Emily Bronte" of "Emily Brontë"."""
    plain = tuple(
        "".join(c for c in normalize("NFD", word) if not "\u0300" <= c <= "\u036f")
        for word in words
    )
    if plain != words and all(word.isascii() for word in plain):
        yield plain


def _numbers(words: Words) -> Iterator[Words]:
    if words[0] in phrases.NUMBER_WORDS:
        yield (phrases.NUMBER_WORDS[words[0]], *words[1:])
    yield from ((form, *words[1:]) for form in _NUMBER_FORMS.get(words[0], ()))
    if words[0].endswith(".5") and words[0][:-2] in phrases.NUMBER_WORDS:
        yield (phrases.NUMBER_WORDS[words[0][:-2]], "and", "a", "half")
    if words[0] in _DIGITS:
        yield (_DIGITS[words[0]], *words[1:])
    yield from _FRACTION_WORDS.get(words, ())
    if words[0].startswith("-") and words[0][1:] in phrases.NUMBER_WORDS:
        yield from (
            (sign, phrases.NUMBER_WORDS[words[0][1:]], *words[1:]) for sign in ("minus", "negative")
        )


_TIME = late_pattern(r"(\d{1,2})(?::|:?h:)(\d\d)")


def _times(words: Words) -> Iterator[Words]:
    """ "Half past three" of 3:30."""
    time = _TIME.match(":".join(words[:3]))
    if time is None or int(time[1]) > 24:
        return
    hour = int(time[1]) % 12
    for numbers, forms in languages.HOURS:
        for form in forms.get(time[2], "").split():
            words_of_time = form.replace("H", numbers[hour or 12]).replace("N", numbers[hour + 1])
            yield tuple(words_of_time.split("_"))


def _other_forms(words: Words, every: Sequence[Words]) -> Iterator[Words]:
    """Without an article, in the singular or plural, and without a unit or a currency's sign that every option has."""
    if len(words) > 1 and words[0] in languages.ARTICLES and _articled(every):
        yield words[1:]
    last = words[-1]
    if last.isalpha() and last.isascii() and len(last) > 2 and last not in phrases.UNCOUNTABLE:
        yield from ((*words[:-1], form) for form in _other_number(last))
    unit = words[1:]
    if unit and words[0][-1].isdigit() and all(w[1:] == unit and w[0][-1].isdigit() for w in every):
        yield words[:1]
    if words[0] in phrases.CURRENCIES and len(words) > 1 and all(w[0] == words[0] for w in every):
        yield words[1:]


def _articled(every: Sequence[Words]) -> bool:
    """Whether options begin with articles: one that is nothing else, or two."""
    firsts = [words[0] for words in every if len(words) > 1]
    return (
        any(word in languages.SURE_ARTICLES for word in firsts)
        or sum(w in languages.ARTICLES for w in firsts) > 1
    )


_IRREGULAR = dict(pair.split("-") for pair in languages.PHRASES["irregular_plurals"].split())
_IRREGULAR |= {plural: single for single, plural in _IRREGULAR.items()}


def _other_number(noun: str) -> list[str]:
    if noun in _IRREGULAR:
        return [_IRREGULAR[noun]]
    if noun.endswith("s"):
        return (
            [noun[:-1]]
            if not noun.endswith(("ss", "us", "is"))
            else [noun + "es"]
            if noun.endswith("ss")
            else []
        )
    return [noun + ("es" if noun.endswith(("x", "ch", "sh")) else "s")]


def _number_forms() -> dict[str, Words]:
    forms: dict[str, list[str]] = {}
    for words in languages.NUMBERS:
        for value, word in enumerate(words.split()):
            if word != "-":
                forms.setdefault(str(value), []).append(word)
    return {digits: tuple(dict.fromkeys(words)) for digits, words in forms.items()}


def _fraction_words() -> dict[Words, tuple[Words, ...]]:
    """3/5 -> three fifths, for the fractions that have names."""
    parts = dict(enumerate(phrases.ORDINALS, start=1)) | {2: "half", 3: "third", 4: "quarter"}
    words_of: dict[Words, tuple[Words, ...]] = {}
    for below, part in list(parts.items())[1:]:
        for above in range(1, below):
            counts = (phrases.NUMBER_WORDS[str(above)],) + (("a", "an") if above == 1 else ())
            nouns = {part, phrases.ORDINALS[3]} if below == 4 else {part}
            forms = [
                (count, noun if above == 1 else f"{noun}s")
                for count in counts
                for noun in sorted(nouns)
            ]
            words_of[f"{above}/{below}",] = tuple(forms)
    words_of["1/2",] += (("half",),)
    words_of |= {("12",): (("dozen",),), ("24",): (("two", "dozen"),)}
    return words_of | {
        (f"{share}", "%"): words_of[fraction,]
        for share, fraction in ((50, "1/2"), (25, "1/4"), (75, "3/4"))
    }


_NUMBER_FORMS = _number_forms()
_DIGITS = {
    word: digits
    for digits, forms in _NUMBER_FORMS.items()
    for word in forms
    if (len(word) > 2 or is_cjk(word))
    and sum(word in others for others in _NUMBER_FORMS.values()) == 1
}
_FRACTION_WORDS = _fraction_words()


def digits(word: str) -> str:
    """A whole number in digits, of digits or of a number word in any language; nothing of another word."""
    number = _DIGITS.get(word) or phrases.NUMBER_WORDS.get(word, "")
    return word if word.isascii() and word.isdigit() else number if number.isdigit() else ""


# --- the index of a question ------------------------------------------------------------------------------------------

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
    stream = []
    plain = text.isascii() and ("'" not in text or _ELIDED.search(text) is None)
    for match in (_ASCII_TOKEN if plain else _TOKEN).finditer(text):
        kind = match.lastgroup or "sign"
        word = match[0]
        folded = (
            _number(word)
            if kind == "number"
            else word.casefold()
            if len(word) == 1
            else word.casefold().rstrip(".")
        )
        if kind == "word" and not folded.isascii():
            folded = _UNVOWELLED.sub("", folded).replace("ё", "е")
        stream.append(Token(kind, folded, match.start(), match.end()))
    return stream


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
    return token.kind in ("word", "number", "cjk") or (
        token.kind == "sign" and token.text in phrases.MEANINGFUL
    )


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
    def endings(self) -> frozenset[str]:
        """One-word texts that end another option's text: "left" beside "top left"."""
        longer = [w for w in self.words if len(w) > 1]
        return frozenset(
            w[0] for w in self.words if len(w) == 1 and any(o[-1] == w[0] for o in longer)
        )

    @cached_property
    def beginnings(self) -> frozenset[str]:
        longer = [w for w in self.words if len(w) > 1]
        return frozenset(
            w[0] for w in self.words if len(w) == 1 and any(o[0] == w[0] for o in longer)
        )

    @cached_property
    def adjectival(self) -> bool:
        """Several options are adjectives, so that orange is a colour here and no fruit."""
        return sum(len(w) == 1 and _adjective(w[0]) for w in self.words) > 1

    @cached_property
    def vocabulary(self) -> tuple[str, ...]:
        """All words of the options but numbers."""
        return tuple(
            dict.fromkeys(
                w for sequence in self.words for w in sequence if w[0].isalpha() and len(w) <= 40
            )
        )[:400]

    @cached_property
    def stems(self) -> frozenset[str]:
        """First letters of the vocabulary."""
        return frozenset(word[0] for word in self.vocabulary)

    @cached_property
    def votes(self) -> Counter[str]:
        """Which languages other than English the options' words speak for."""
        return languages.votes_of(self.vocabulary)

    @cached_property
    def letters_in_texts(self) -> frozenset[str]:
        """Marks that are words of longer options of another place: the D of "vitamin D", which is option C."""
        return frozenset(
            mark
            for mark, place in self.folded.items()
            if mark.isalpha()
            and any(
                mark in w for rival, w in enumerate(self.words) if rival != place and len(w) > 1
            )
            and (
                mark not in ("a", "i")
                or any(f" {mark.upper()}" in option[:LONGEST_OPTION] for option in self.options)
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
        counted = Counter(
            ending for first in firsts for ending in ("ing", "s", "ed") if first.endswith(ending)
        )
        return frozenset(
            ending for ending, count in counted.items() if count >= max(3, len(firsts) - 1)
        )

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


@lru_cache(maxsize=4096)
def _option_words(option: str) -> tuple[str, ...]:
    text = normalise_reply(option[:LONGEST_OPTION]).text.strip()
    if len(text) > 2 and text[0] == text[-1] == "$":  # a formula, and no sum of money
        text = text[1:-1]
    stream = tokens(text)
    words = tuple(token.text for token in stream if means(token))[:MOST_WORDS]
    return words[1:] if len(words) > 1 and words[0] in _ARTICLES else words


@lru_cache(maxsize=1024)
def _labels(labels: tuple[str, ...]) -> tuple[dict[str, int], dict[str, int]]:
    exact: dict[str, int] = {}
    folded: dict[str, int] = {}
    for place, label in enumerate(labels):
        stream = tokens(normalise_reply(label).text)
        core = [t for t in stream if t.kind in ("word", "number", "cjk")]
        if len(core) != 1:
            continue
        text = normalise_reply(label).text[core[0].start : core[0].end]
        exact.setdefault(text, place)
        folded.setdefault(text.casefold(), place)
    return exact, folded


def _index(words: Sequence[tuple[str, ...]]) -> dict[str, tuple[OptionPhrase, ...]]:
    """Phrases by first word, longest first, own texts before aliases."""
    own: dict[tuple[str, ...], list[int]] = {}
    for place, sequence in enumerate(words):
        if sequence:
            own.setdefault(sequence, []).append(place)
    equals: dict[tuple[str, ...], set[int]] = {}
    for sequence, places in own.items():
        for alias in aliases(sequence, list(own)):
            if alias and alias not in own:
                equals.setdefault(alias, set()).update(places)
    phrases_of: dict[str, list[OptionPhrase]] = {}
    for sequence, places in own.items():
        phrases_of.setdefault(sequence[0], []).append(OptionPhrase(sequence, tuple(places)))
    for sequence, several in equals.items():
        if len(several) == 1:
            phrases_of.setdefault(sequence[0], []).append(
                OptionPhrase(sequence, tuple(several), alias=True)
            )
    return {
        first: tuple(sorted(some, key=lambda p: -len(p.words)))
        for first, some in phrases_of.items()
    }


def _bare(options: Sequence[str], words: Sequence[tuple[str, ...]]) -> dict[str, tuple[int, ...]]:
    places_of: dict[str, tuple[int, ...]] = {}
    for place, (option, sequence) in enumerate(zip(options, words, strict=True)):
        if not sequence and option.strip():
            places_of[option.strip()] = (*places_of.get(option.strip(), ()), place)
    return places_of


_PLAIN_TEXT = late_pattern(r"[A-Za-z0-9]+(?: [A-Za-z0-9]+)*")


def _short(
    options: Sequence[str],
    words: Sequence[tuple[str, ...]],
    exact: dict[str, int],
    folded: dict[str, int],
) -> dict[str, int]:
    """Texts that the fast path may compare: plain words, one place each, no label and no word for a label."""
    places_of: dict[str, int] = {}
    for place, option in enumerate(options):
        text = option.lower()
        if (
            not _PLAIN_TEXT.fullmatch(option)
            or text in exact
            or text in folded
            or sum(w == words[place] for w in words) > 1
        ):
            continue
        places_of[text] = place
    return places_of
