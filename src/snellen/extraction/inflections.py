"""Words of a reply that are forms of an option's words: a case, a gender, a particle, an ending of a verb."""

from __future__ import annotations

from functools import lru_cache

from snellen.common.late import late_pattern
from snellen.extraction import languages
from snellen.extraction.option_index import OptionIndex, Token, is_hangul

_PARTICLES = late_pattern(rf"(?:{languages.KOREAN_PARTICLES})+")
_TURKISH = late_pattern(rf"'?(?:{languages.TURKISH_ENDINGS})(?:{languages.TURKISH_ENDINGS})?")
_ARABIC_BEFORE = late_pattern("^(?:[وف])?(?:[بكل])?(?:ال|ل)?")
_LATIN, _CYRILLIC = (frozenset(["", *endings.split()]) for endings in languages.ENDINGS)
_ENGLISH_ENDINGS = frozenset(["", *languages.ENGLISH_ENDINGS.split()])
_DEVANAGARI = frozenset(["", "ा", "े", "ी", "ो", "ों", "ें", "ियों", "ियाँ", "यों"])
_SHORTEST_STEM = 3
_LONGEST_ENDING = 4


def resolved(stream: list[Token], question: OptionIndex, spoken: tuple[str, ...]) -> list[Token]:
    """The tokens, with each form of an option's word as that word, marked as inflected."""
    vocabulary, beginnings = question.vocabulary, question.stems
    language = "tr" if "tr" in spoken else "any" if spoken else "en"
    resolved: list[Token] = []
    for token in stream:
        if (
            token.kind == "word"
            and token.text not in vocabulary
            and _begins(token.text, beginnings)
        ):
            word = _word_of(token.text, vocabulary, language, question.verb_endings)
            if word is not None:
                particle = is_hangul(token.text[0])
                token = token._replace(text=word, inflected=not particle)
        resolved.append(token)
    return resolved


def _begins(word: str, beginnings: frozenset[str]) -> bool:
    return word[:1] in beginnings or word[0] in "والبكف"


@lru_cache(maxsize=16384)
def _word_of(
    token: str, vocabulary: tuple[str, ...], language: str, verb_endings: frozenset[str]
) -> str | None:
    """The one word of the vocabulary that a token is a form of."""
    forms = {word for word in vocabulary if _is_form(token, word, language, verb_endings)}
    return forms.pop() if len(forms) == 1 else None


def _is_form(token: str, word: str, language: str, verb_endings: frozenset[str]) -> bool:
    if is_hangul(word[0]):
        return token.startswith(word) and _PARTICLES.fullmatch(token[len(word) :]) is not None
    if "\u0600" <= word[0] <= "\u06ff":
        bare = _ARABIC_BEFORE.sub("", token)
        return len(word) > 1 and _ARABIC_BEFORE.sub("", word) in (bare, bare.removesuffix("ا"))
    if "\u0900" <= word[0] <= "\u097f":
        stem = common_beginning(token, word)
        return stem >= 2 and token[stem:] in _DEVANAGARI and word[stem:] in _DEVANAGARI
    if language == "tr":
        return _is_turkish_form(token, word)
    if language == "en":
        return word.isascii() and _is_verb_form(token, word, verb_endings)
    return _declines(token, word, _CYRILLIC if "\u0400" <= word[0] <= "\u04ff" else _LATIN)


def _is_turkish_form(token: str, word: str) -> bool:
    softened = {"k": "ğ", "p": "b", "ç": "c", "t": "d"}
    stems = [
        word,
        *([word[:-1] + softened[word[-1]]] if word[-1] in softened and len(word) > 2 else []),
    ]
    return any(
        token.startswith(stem) and _TURKISH.fullmatch(token[len(stem) :]) is not None
        for stem in stems
    )


def _declines(token: str, word: str, endings: frozenset[str]) -> bool:
    """Both are one stem with endings of declension; long stems bear a lost vowel or an umlaut no better."""
    stem = common_beginning(token, word)
    shortest = _SHORTEST_STEM if len(word) <= _SHORTEST_STEM + 2 else _SHORTEST_STEM + 1
    return any(
        token[cut:] in endings and word[cut:] in endings
        for cut in range(stem, max(shortest, len(word) - _LONGEST_ENDING) - 1, -1)
        if cut >= shortest
    )


def _is_verb_form(token: str, word: str, verb_endings: frozenset[str]) -> bool:
    """Forms of a verb in English, where the options are verbs of one form: sleeps, sleeping."""
    for ending in verb_endings:
        stem = word.removesuffix(ending)
        if stem == word or len(stem) < _SHORTEST_STEM or not token.startswith(stem[:-1]):
            continue
        doubled = stem[:-1] if len(stem) > _SHORTEST_STEM and stem[-1] == stem[-2] else stem
        for base in (stem, doubled, stem.removesuffix("e")):
            if token.startswith(base) and token[len(base) :] in (
                _ENGLISH_ENDINGS | {f"{base[-1]}en"}
            ):
                return True
    return False


_INFLECTED = late_pattern(r"(?:ies|(?<=[sxzh])es|(?<!s)s|ing|ed)$")


@lru_cache(maxsize=16384)
def english_stem(word: str) -> str:
    """A word without the ending of a plural or a verb; short words, and words with signs in them, as they are."""
    if len(word) < 4 or not word.isascii() or not word.isalpha():
        return word
    if len(word) == 4:
        return (
            word[:-1]
            if word.endswith("e") or (word.endswith("s") and word[-2] not in "sui")
            else word
        )
    stem = _INFLECTED.sub("", word)
    if len(stem) < _SHORTEST_STEM or not _VOWEL.search(stem):
        return word
    if (
        stem != word
        and len(stem) > _SHORTEST_STEM
        and stem[-1] == stem[-2]
        and stem[-1] not in "lsz"
    ):
        stem = stem[:-1]
    return stem.removesuffix("e") if len(stem) > _SHORTEST_STEM else stem


_VOWEL = late_pattern("[aeiouy]")


def common_beginning(word: str, form: str) -> int:
    """How many letters two words have in common from their beginnings on."""
    return next(
        (i for i, (a, b) in enumerate(zip(word, form, strict=False)) if a != b),
        min(len(word), len(form)),
    )
