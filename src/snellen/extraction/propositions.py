"""How a sentence of a reply relates to a claim: it says the same, or the contrary, or something else.

A claim is what a yes-no question asks ("Is there a dog?") or an option that is a sentence. Its contrary is said by a
denial, an opposite ("closed" of "open") or another number. What is left of what is a matter of `relations`.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import NamedTuple

from snellen.common.late import late_pattern
from snellen.extraction.cue_words import cue_classes, exclusives, opposites
from snellen.extraction.tokens import Token, tokenise


class StatedRelation(NamedTuple):
    """How a sentence relates to a claim."""

    covered: float
    """The share of the claim's words that the sentence has, or has the opposite of."""
    same: bool
    """Whether it says the same, and not the contrary, as far as its words tell."""
    extra: int
    """Words of the sentence that the claim does not have."""


_SMALL = frozenset(
    "is are was were be been being am do doe does did has have had can could will would may might must shall should there it he she"
    " they his her its their this that these those the a an of in on at to and or so yes no not image picture photo photograph scene video shown"
    " show depict shows here please answer question following statement description caption sentence option given"
    " i see we you any some visible present seen isn't aren't doesn't n't n t true false correct right wrong if whether"
    " it's there's also indeed judge decide whether ? . , ! : ; \" ' ( ) \n - one".split(" ")
)
_MOST_WORDS = 40
_CONVERSES = (
    ("lend", "borrow"), ("give hand", "receive get take"), ("sell", "buy purchase"), ("inside", "contain around"),
    ("teach", "learn"), ("boss", "report"), ("follow chase behind", "lead ahead front"), ("own", "belong"),
    ("top above over on", "under underneath below beneath"), ("beat defeat", "lose"), ("father mother parent", "son daughter child"),
    ("fuller full", "emptier empty"), ("locked lock", "unlocked unlock open"), ("más", "menos"), ("encima", "debajo"),
    ("links", "rechts"), ("izquierda", "derecha"), ("delante", "detrás"), ("gauche", "droite"), ("devant", "derrière"),
    ("sopra", "sotto"), ("davanti", "dietro"), ("esquerda", "direita"), ("voor", "achter"), ("boven", "onder"),
    ("слева", "справа"), ("над", "под"), ("kiri", "kanan"), ("فوق", "تحت"), ("vor", "hinter"), ("auf über", "unter"),
)  # fmt: skip
"""Words for the two sides of a relation: who lends has a borrower."""
_SYMMETRIC = frozenset(
    "next beside near close connect same equal identical alike with together meet share between touch parallel adjacent opposite"
    " hand marry married play differ different similar far dance wrestle hug each another".split()
)


@lru_cache(maxsize=256)
def claim_words(text: str) -> tuple[str, ...]:
    """The words of a claim in order, without the small ones."""
    return tuple(content_words(tokenise(text[-600:])))[:_MOST_WORDS]


def content_words(tokens: Sequence[Token]) -> list[str]:
    """The stems of a text's words in order, without the small ones."""
    return [word_stem(token.form) for token in tokens if not is_small_word(token.form)]


def is_small_word(form: str) -> bool:
    """Whether a word says nothing of a claim by itself: "the", "is", "image"; or is a sign."""
    return form in _SMALL or not (form[0].isalnum() or form[0] == "#")


_CLAIM = late_pattern(
    r"(?<!\w)[\"']([^\"'\n]{10,200})[\"'](?!\w)|\b(?:statement|true or false|right or wrong|correct or not)\b[^:\n]{0,40}:\s*([^\n]+)",
    re.IGNORECASE,
)


def claim_text(question: str) -> str:
    """The claim that a yes-no question asks to judge: a statement it quotes or announces, or its last sentence."""
    match = _CLAIM.search(question)
    if match is None:
        return last_question(question)
    return match[1] or match[2]


def last_question(question: str) -> str:
    """The last sentence of a question that ends in a question mark, or all of it."""
    mark = question.rfind("?")
    if mark < 0:
        return question
    start = max(question.rfind(sign, 0, mark) for sign in ".?!\n:")
    return question[start + 1 : mark + 1]


_IRREGULAR = {
    "fed": "feed", "worn": "wear", "wore": "wear", "thrown": "throw", "threw": "throw", "sold": "sell", "given": "give",
    "gave": "give", "held": "hold", "led": "lead", "bitten": "bite", "caught": "catch", "taught": "teach", "drawn": "draw",
    "written": "write", "driven": "drive", "ridden": "ride", "rode": "ride", "seen": "see", "eaten": "eat", "ate": "eat",
    "taken": "take", "overtaken": "overtake", "overtook": "overtake", "shown": "show", "told": "tell", "brought": "bring", "bought": "buy", "lent": "lend", "sent": "send",
    "kept": "keep", "fought": "fight", "beaten": "beat", "hidden": "hide", "paid": "pay", "built": "build", "shot": "shoot",
    "lost": "lose", "won": "win", "struck": "strike", "stood": "stand", "sat": "sit", "hung": "hang", "ran": "run",
    "received": "receive", "chosen": "choose", "broken": "break", "stolen": "steal", "swept": "sweep", "met": "meet",
}  # fmt: skip


@lru_cache(maxsize=16384)
def word_stem(form: str) -> str:
    """The part of a word that its forms have in common: "chas" of "chasing" and "chased"."""
    form = _IRREGULAR.get(form, form)
    if form.isascii() and len(form) > 3:
        for ending in ("ing", "ed", "er", "es", "e"):
            if form.endswith(ending) and len(form) - len(ending) > 2:
                stem = form[: -len(ending)]
                if stem[-1] == "i":
                    return stem[:-1] + "y"  # "carried", "happier"
                return stem[:-1] if len(stem) > 3 and stem[-1] == stem[-2] else stem
    return form if form.isascii() else form[:5]


@lru_cache(maxsize=1)
def _opposite_stems() -> dict[str, frozenset[str]]:
    table: dict[str, frozenset[str]] = {}
    pairs = [(word, " ".join(contrary)) for word, contrary in opposites().items()]
    for group in exclusives():
        pairs += [(word, " ".join(group - {word})) for word in group]
    for words, others in (*pairs, *_CONVERSES, *((others, words) for words, others in _CONVERSES)):
        stems = frozenset(map(word_stem, others.split()))
        for word in words.split():
            table[word_stem(word)] = table.get(word_stem(word), frozenset()) | stems
    return table


def relate(sentence: Sequence[Token], claim: tuple[str, ...]) -> StatedRelation | None:
    """Relate a sentence to the words of a claim; None if they share no word."""
    words = content_words(sentence)[:_MOST_WORDS]
    if not words or not claim:
        return None
    said = set(words)
    claimed = set(claim)
    shared = said & claimed
    contrary = 0
    numbers = {word for word in claimed if word[0] == "#"}
    other_numbers = {word for word in said - claimed if word[0] == "#"}
    is_within = _is_within_bound(claim, numbers, other_numbers)
    for word in claimed - shared:
        if is_within is not None and word in _bounds():
            continue
        if _opposite_stems().get(word, frozenset()) & (said - claimed):
            contrary += 1
    if is_within is not None:
        contrary += not is_within
    elif numbers and not numbers & said and other_numbers:
        contrary += 1
    if not shared:
        return None

    denials = sum("negation" in cue_classes().get(token.form, ()) for token in sentence)
    return StatedRelation(
        (len(shared) + min(contrary, len(claimed - shared))) / len(claimed),
        (contrary + denials) % 2 == 0,
        len(said - claimed),
    )


def plain_verdict(sentence: Sequence[Token], claim: tuple[str, ...]) -> bool | None:
    """Whether a sentence confirms a claim by its number or its colour; None if it says nothing so plain.

    "There are three pens" denies "two pens" and confirms "at least two pens"; "The door is green" denies "the door is
    red". Sentences with a denial, or with several numbers or colours, are left to the weights.
    """
    is_denied = any("negation" in cue_classes().get(token.form, ()) for token in sentence)
    if is_denied or any(token.form == "?" for token in sentence):
        return None
    said = set(content_words(sentence)[:_MOST_WORDS])
    claimed = set(claim)
    shared = {word for word in said & claimed if word[0] != "#"}
    if not shared:
        return None
    stated_numbers = {word for word in said if word[0] == "#"}
    claimed_numbers = {word for word in claimed if word[0] == "#"}
    if claimed_numbers:
        if len(claimed_numbers) != 1 or len(stated_numbers) != 1:
            return None
        is_within = _is_within_bound(claim, claimed_numbers, stated_numbers)
        return claimed_numbers == stated_numbers if is_within is None else is_within
    for group in _exclusive_stems():
        stated = said & group
        if len(claimed & group) == 1 and len(stated) == 1:
            if stated != claimed & group:
                return False
            return True if claimed <= said else None
    return None


@lru_cache(maxsize=1)
def _exclusive_stems() -> tuple[frozenset[str], ...]:
    return tuple(frozenset(map(word_stem, group)) for group in exclusives())


@lru_cache(maxsize=1)
def _bounds() -> dict[str, Callable[[float, float], bool]]:
    """Words before a number that make it a bound, as stems: "at least four"."""
    words: dict[str, Callable[[float, float], bool]] = {
        "least": operator.ge,
        "most": operator.le,
        "more": operator.gt,
        "greater": operator.gt,
        "exceed": operator.gt,
        "over": operator.gt,
        "above": operator.gt,
        "fewer": operator.lt,
        "less": operator.lt,
        "smaller": operator.lt,
        "under": operator.lt,
        "below": operator.lt,
    }
    return {word_stem(word): compare for word, compare in words.items()}


def _is_within_bound(claim: tuple[str, ...], claimed: set[str], stated: set[str]) -> bool | None:
    """Whether a stated number is within the bound of a claim: "at least four" and "five". None if there is no bound."""
    bounds = []
    for index, word in enumerate(claim):
        if word in _bounds() and claimed.intersection(claim[index + 1 : index + 3]):
            bounds.append(_bounds()[word])
    if len(bounds) != 1 or len(claimed) != 1 or len(stated) != 1:
        return None
    try:
        bound = float(next(iter(claimed))[1:])
        value = float(next(iter(stated))[1:])
    except ValueError:  # a fraction or a root
        return None
    return bounds[0](value, bound)


def relating_word(form: str) -> str:
    """The stem of a word that relates two things. Words that mean the same relation have one: "within" and "in"."""
    stem = word_stem(_SAME_RELATION.get(form, form))
    is_doubled = len(stem) > _SHORTEST_DOUBLED and stem[-1] == stem[-2]
    return stem[:-1] if is_doubled else stem  # "tall" as "taller"


_SHORTEST_DOUBLED = 3


_SAME_RELATION = {
    "more": "greater", "within": "inside", "in": "inside", "contained": "inside", "out": "outside", "first": "before", "earlier": "before",
    "last": "after", "later": "after", "following": "after", "farther": "further", "nearer": "closer",
    "exceed": "greater", "outnumber": "greater", "surpass": "greater",
}  # fmt: skip


def opposites_of(word: str) -> frozenset[str]:
    """The stems of the other side of a relation: "left" of "right", "borrow" of "lend"."""
    return _opposite_stems().get(word, frozenset())


def is_symmetric(word: str) -> bool:
    """Whether a relation holds both ways: "next to"."""
    return word in _symmetric_stems()


@lru_cache(maxsize=1)
def _symmetric_stems() -> frozenset[str]:
    return frozenset(map(word_stem, _SYMMETRIC))
