"""Sentences about something else than the question: the opposite, another person, another thing, a part of a count."""

from __future__ import annotations

import re
from functools import lru_cache

from snellen.extraction import languages, patterns, phrases
from snellen.extraction.assertion_filters import mentioned, sentences
from snellen.extraction.foreign_patterns import words_pattern
from snellen.extraction.negative_questions import LONGEST_QUESTION, asks_for_what_is_not
from snellen.extraction.option_mentions import Skeleton
from snellen.extraction.question_words import NAMELESS, question_stems, stems
from snellen.formats.late_patterns import late_pattern

_OPPOSITES = (
    (
        "largest biggest highest tallest greatest longest most larger bigger higher taller greater longer more",
        "smallest lowest shortest least fewest smaller lower shorter less fewer",
    ),
    ("oldest older", "youngest younger newest newer"),
    ("hottest warmest hotter warmer", "coldest coolest colder cooler"),
    ("fastest quickest faster quicker", "slowest slower"),
    ("heaviest heavier", "lightest lighter"),
    ("nearest closest nearer closer", "farthest furthest farther further"),
    ("brightest brighter", "darkest darker"),
    ("cheapest cheaper", "dearest priciest"),
    ("best better", "worst worse"),
    ("strongest stronger", "weakest weaker"),
    ("first", "last"),
    ("north northern northernmost", "south southern southernmost"),
    ("east eastern easternmost", "west western westernmost"),
    (
        "won win wins winner winning gewinnt gewann gewonnen gagne gagné gana ganó ganado vince vinto vence venceu "
        "ganha ganhou wint wygrał wygrywa",
        "lost lose loses loser losing verliert verlor verloren perd perdu pierde perdió perdido perde perso perdeu "
        "verliest przegrał przegrywa",
    ),
    ("increase increased increases rising rose", "decrease decreased decreases falling fell"),
    (
        "man men boy boys mann männer junge homme hombre homem uomo hombres niño menino ragazzo garçon jongen "
        "mężczyzna chłopiec мужчина мальчик father husband",
        "woman women girl girls frau frauen mädchen femme mujer mulher donna niña menina ragazza fille vrouw meisje "
        "kobieta dziewczynka женщина девочка mother wife",
    ),
)
_SIDES = tuple((frozenset(one.split()), frozenset(other.split())) for one, other in _OPPOSITES)
_WORD = late_pattern(r"[^\W\d_]+")


def says_of_another(skeleton: Skeleton, question: str) -> bool:
    """Whether what is said of options is no answer to the question, by any of the signs below."""
    return bool(question) and (
        opposite_of_asked(skeleton, question)
        or of_another_thing(skeleton, question)
        or counts_in_parts(skeleton, question)
    )


def said_of_others_too(skeleton: Skeleton) -> bool:
    """Whether a reply goes on to say the same of another: "the cat sleeps, as does the dog"."""
    return _AS_DOES.search(skeleton.text) is not None


_AS_DOES = late_pattern(
    r"\b(?:so|as|neither|nor) (?:do|does|did|is|are|was|were|has|have|can) (?:the|a|an|both|its|his|her)\b"
)


def opposite_of_asked(skeleton: Skeleton, question: str) -> bool:
    """Whether all sentences that name an option have the contrary of a word of the question, and not that word."""
    asked = frozenset(_WORD.findall(question[:LONGEST_QUESTION].lower()))
    opposed = [
        (one, other) for pair in _SIDES for one, other in (pair, pair[::-1]) if asked & one and not asked & other
    ]
    if not opposed or asks_for_what_is_not(question):
        return False
    naming = [(start, end) for start, end, _ in sentences(skeleton) if mentioned(skeleton, start, end)]
    return bool(naming) and all(
        any(
            words & other and not words & one
            for one, other in opposed
            for words in [frozenset(_WORD.findall(_part(skeleton, start, end, of_people=(one, other) in _PEOPLE)))]
        )
        for start, end in naming
    )


def _part(skeleton: Skeleton, start: int, end: int, *, of_people: bool) -> str:
    """A sentence; of people only up to the last option: "second, right behind the girl" is said of no girl."""
    return skeleton.text[start : mentioned(skeleton, start, end)[-1] if of_people else end]


_PEOPLE = (_SIDES[-1], _SIDES[-1][::-1])


@lru_cache(maxsize=256)
def _is(spoken: tuple[str, ...]) -> re.Pattern[str]:
    """A clause that says what a thing is, in some languages and English: "the house is red"."""
    copulas = {word for lang in spoken for word in languages.COPULA.get(lang, "").split()}
    return re.compile(
        r"(?:^|(?<=[.,;!?\n] ))(?:(?:and|but|so) )?(?P<subject>(?:[^\W\d_]+ ){1,4}?)"
        rf"{words_pattern(copulas | {'is', 'are', 'was', 'were'})}(?: (?:a|an|the))? "
        rf"(?P<x>[{patterns.MENTIONS}])(?= [.,;!?\n]| (?:and|but|while|und|et|y|e|en|i|и|aber|mais|pero)\b|$)"
    )


def of_another_thing(skeleton: Skeleton, question: str) -> bool:
    """Whether an option is only what another thing is, and what was asked about is spoken of apart from it.

    "The house is red and the car stands beside it" of "Which color is the car?".
    """
    wanted, is_something = question_stems(question), _is(skeleton.spoken)
    found = [
        match for match in is_something.finditer(skeleton.text) if skeleton.text[match.start("x")] <= phrases.CONFLICT
    ]
    if not wanted or not found or {match.start("x") for match in found} != set(mentioned(skeleton)):
        return False
    if any(
        stems(match[0]) & wanted or not stems(match["subject"]) or NAMELESS.search(match["subject"]) for match in found
    ):
        return False
    return _OF_ONE_THING.match(question.lower()) is not None or bool(
        stems(is_something.sub(" ", skeleton.text)) & wanted
    )


_OF_ONE_THING = late_pattern(
    r"(?:where|what (?:colou?r|shape|size)|how (?!many\b|much\b)\w+) (?:is|are|was|were) (?:the|his|her|their) "
)


_HOW_MANY = late_pattern(
    r"how many|what (?:is the )?number of|wie ?viele?|combien|cuánt[ao]s|quant[aoie]s?|hoeveel|ile|сколько|berapa|kaç"
)
_COUNTED = late_pattern(
    r"\b(?:\d+|" + "|".join(word for word in phrases.NUMBER_WORDS if word.isalpha()) + r")\b(?! of\b)"
)


def counts_in_parts(skeleton: Skeleton, question: str) -> bool:
    """Whether a reply to "how many" counts more than once: "two on the left and two on the right"."""
    if _HOW_MANY.match(question.lower()) is None:
        return False
    offsets = mentioned(skeleton)
    parts = any(len(mentioned(skeleton, start, end)) > 1 for start, end, _ in sentences(skeleton))
    return parts or (bool(offsets) and (_COUNTED.search(skeleton.text) or _BOUND.search(skeleton.text)) is not None)


_BOUND = late_pattern(rf"\b(?:at least|at most|up to|more than|fewer than|less than|over|under) [{patterns.MENTIONS}]")
