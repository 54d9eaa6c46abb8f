"""Stems of words, and which words mean the same or the opposite.

The *stem* of a word is the part that its forms have in common: "chas" for "chase", "chased" and "chasing". Texts are
compared by the stems of their *content words*. Small words ("the", "is", "image") and signs are not content words.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from snellen.extraction.cue_words import exclusives, opposites
from snellen.extraction.tokens import Token

_SMALL_WORDS = frozenset(
    "is are was were be been being am do doe does did has have had can could will would may might must shall should there it he she"
    " they his her its their this that these those the a an of in on at to and or so yes no not image picture photo photograph scene video shown"
    " show depict shows here please answer question following statement description caption sentence option given"
    " i see we you any some visible present seen isn't aren't doesn't n't n t true false correct right wrong if whether"
    " it's there's also indeed judge decide whether ? . , ! : ; \" ' ( ) \n - one".split(" ")
)
"""Words that say nothing about a claim by themselves."""
_IRREGULAR = {
    "fed": "feed", "worn": "wear", "wore": "wear", "thrown": "throw", "threw": "throw", "sold": "sell", "given": "give",
    "gave": "give", "held": "hold", "led": "lead", "bitten": "bite", "caught": "catch", "taught": "teach", "drawn": "draw",
    "written": "write", "driven": "drive", "ridden": "ride", "rode": "ride", "seen": "see", "eaten": "eat", "ate": "eat",
    "taken": "take", "overtaken": "overtake", "overtook": "overtake", "shown": "show", "told": "tell", "brought": "bring", "bought": "buy", "lent": "lend", "sent": "send",
    "kept": "keep", "fought": "fight", "beaten": "beat", "hidden": "hide", "paid": "pay", "built": "build", "shot": "shoot",
    "lost": "lose", "won": "win", "struck": "strike", "stood": "stand", "sat": "sit", "hung": "hang", "ran": "run",
    "received": "receive", "chosen": "choose", "broken": "break", "stolen": "steal", "swept": "sweep", "met": "meet",
}  # fmt: skip
"""Forms of irregular verbs, with the form from which the stem is made."""
_SAME_RELATION = {
    "more": "greater", "within": "inside", "in": "inside", "contained": "inside", "out": "outside", "first": "before", "earlier": "before",
    "last": "after", "later": "after", "following": "after", "farther": "further", "nearer": "closer",
    "exceed": "greater", "outnumber": "greater", "surpass": "greater",
}  # fmt: skip
"""Words that mean the same relation as another word."""
_CONVERSES: tuple[tuple[str, str], ...] = (
    ("lend", "borrow"), ("give hand", "receive get take"), ("sell", "buy purchase"), ("inside", "contain around"),
    ("teach", "learn"), ("boss", "report"), ("follow chase behind", "lead ahead front"), ("own", "belong"),
    ("top above over on", "under underneath below beneath"), ("beat defeat", "lose"), ("father mother parent", "son daughter child"),
    ("fuller full", "emptier empty"), ("locked lock", "unlocked unlock open"), ("más", "menos"), ("encima", "debajo"),
    ("links", "rechts"), ("izquierda", "derecha"), ("delante", "detrás"), ("gauche", "droite"), ("devant", "derrière"),
    ("sopra", "sotto"), ("davanti", "dietro"), ("esquerda", "direita"), ("voor", "achter"), ("boven", "onder"),
    ("слева", "справа"), ("над", "под"), ("kiri", "kanan"), ("فوق", "تحت"), ("vor", "hinter"), ("auf über", "unter"),
)  # fmt: skip
"""Words for the two sides of a relation: if A lends something to B, then B borrows it from A."""
_SYMMETRIC = frozenset(
    "next beside near close connect same equal identical alike with together meet share between touch parallel adjacent opposite"
    " hand marry married play differ different similar far dance wrestle hug each another".split()
)
"""Words of relations that hold both ways: if A is next to B, then B is next to A."""


def is_small_word(word: str) -> bool:
    """Return whether a word says nothing about a claim by itself ("the", "is", "image"), or is a sign.

    Args:
        word: The word in its compared form (`Token.normalised`).
    """
    is_word_or_number = word[0].isalnum() or word[0] == "#"
    return word in _SMALL_WORDS or not is_word_or_number


def content_words(tokens: Sequence[Token]) -> list[str]:
    """Return the stems of the content words of a text, in order.

    Example:
        >>> from snellen.extraction.tokens import tokenise
        >>> content_words(tokenise("There are two dogs chasing the cat."))
        ['#2', 'dog', 'chas', 'cat']
    """
    return [word_stem(token.normalised) for token in tokens if not is_small_word(token.normalised)]


@lru_cache(maxsize=16384)
def word_stem(word: str) -> str:
    """Return the part of a word that its forms have in common.

    Words of other scripts are cut to five characters.

    Examples:
        >>> word_stem("chasing"), word_stem("chased"), word_stem("carried"), word_stem("taken"), word_stem("bigger")
        ('chas', 'chas', 'carry', 'tak', 'big')
    """
    word = _IRREGULAR.get(word, word)
    if not word.isascii():
        return word[:5]
    if len(word) <= 3:
        return word
    for ending in ("ing", "ed", "er", "es", "e"):
        stem = word.removesuffix(ending)
        if stem == word or len(stem) <= 2:
            continue
        if stem[-1] == "i":
            return stem[:-1] + "y"  # "carried", "happier"
        is_doubled = len(stem) > 3 and stem[-1] == stem[-2]
        return stem[:-1] if is_doubled else stem  # "running", "bigger"
    return word


def relating_word(form: str) -> str:
    """Return a stem that is the same for all words for a relation, such as "within" and "inside".

    Examples:
        >>> relating_word("within"), relating_word("inside"), relating_word("tall"), relating_word("taller")
        ('insid', 'insid', 'tal', 'tal')
    """
    usual_word = _SAME_RELATION.get(form, form)
    stem = word_stem(usual_word)
    ends_in_double_letter = len(stem) > 3 and stem[-1] == stem[-2]
    return stem[:-1] if ends_in_double_letter else stem


def opposites_of(stem: str) -> frozenset[str]:
    """Return the stems of the opposites of a word, by its stem: "left" for "right", "borrow" for "lend"."""
    return _opposite_stems().get(stem, frozenset())


@lru_cache(maxsize=1)
def _opposite_stems() -> dict[str, frozenset[str]]:
    """Return the stems of the opposites of each stem that has any.

    They are the opposites of `cue_words.toml`, the other words of a group of which only one is true (red and green),
    and the other side of a relation (lend and borrow).
    """
    # Words, and words that are opposites of each of them.
    pairs: list[tuple[list[str], list[str]]] = []
    for word, contrary_words in opposites().items():
        pairs.append(([word], list(contrary_words)))
    for group in exclusives():
        for word in group:
            pairs.append(([word], list(group - {word})))
    for first_side, second_side in _CONVERSES:
        first_words = first_side.split()
        second_words = second_side.split()
        pairs.append((first_words, second_words))
        pairs.append((second_words, first_words))

    opposite_stems: dict[str, set[str]] = {}
    for words, contrary_words in pairs:
        for word in words:
            stems = opposite_stems.setdefault(word_stem(word), set())
            stems.update(word_stem(contrary) for contrary in contrary_words)
    return {stem: frozenset(stems) for stem, stems in opposite_stems.items()}


@lru_cache(maxsize=1)
def exclusive_stems() -> tuple[frozenset[str], ...]:
    """Return groups of stems that exclude one another, such as those of the colours: a thing that is red is not green."""
    groups: list[frozenset[str]] = []
    for group in exclusives():
        groups.append(frozenset(word_stem(word) for word in group))
    return tuple(groups)


def is_symmetric(stem: str) -> bool:
    """Return whether a relation holds both ways, by the stem of its word: "next"."""
    return stem in _symmetric_stems()


@lru_cache(maxsize=1)
def _symmetric_stems() -> frozenset[str]:
    """Return the stems of the words of relations that hold both ways."""
    return frozenset(word_stem(word) for word in _SYMMETRIC)
