"""Words of a relation between two things: its direction, its opposites and the things around it."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from snellen.extraction.cue_words import cue_classes
from snellen.extraction.tokens import Token, is_article
from snellen.extraction.word_stems import is_small_word, opposites_of, relating_word, word_stem

SIDES = frozenset(
    "left right north south east west above over below under underneath beneath behind front inside outside top before after ahead"
    " links rechts über unter vor hinter izquierda derecha encima debajo delante detrás gauche droite devant derrière"
    " sotto sopra davanti dietro esquerda direita voor achter boven onder слева справа над под kiri kanan فوق تحت"
    " 左 右 上 下 前 后 後".split()
)
SIDE_STEMS = frozenset(relating_word(side) for side in SIDES)
PREPOSITIONS_OF_PLACE = frozenset("on in out at around beside contain".split())
THAN = frozenset("than als que чем".split())
DEGREES = frozenset("mor more less fewer más menos plus moins mais mehr weniger".split())
AGENT_WORDS = frozenset("by von vom par por przez".split())
"""Prepositions before the agent of a passive: "chased by the dog"."""
IMAGE_WORDS = frozenset("picture image photo photograph".split())
"""Small words elsewhere, but things of a relation if there is no other: "in the top of the image"."""
ARTICLES_WITH_CASE = frozenset("den dem".split())
"""German articles that mark an object, which may be in front of its verb."""

_NEVER_THINGS = DEGREES | THAN | AGENT_WORDS | PREPOSITIONS_OF_PLACE | {"as", "so"}


def word_forms(tokens: Sequence[Token]) -> list[str]:
    """Return the compared forms of words. "one" remains a word, as in "the left one", instead of the number 1."""
    forms: list[str] = []
    for token in tokens:
        is_one = token.raw.casefold() == "one"
        forms.append("one" if is_one else token.normalised)
    return forms


def stem_of(word: str) -> str:
    """Return the stem of a word.

    Words of other scripts and words with accents keep their endings, because these can mark who does what: "девочка"
    is a subject, "девочку" an object.
    """
    return word_stem(word) if word.isascii() else word


def thing_stems(forms: Sequence[str], relation: str) -> frozenset[str]:
    """Return the stems of the words for things, or the words for images if there is no other thing.

    Args:
        forms: Words of a sentence or of a part of it.
        relation: The word that relates the things. It and its opposites are not things.
    """
    stems: set[str] = set()
    for word in forms:
        if direction(word, relation) != 0:
            continue
        is_function_word = is_small(word) or word in _NEVER_THINGS or denies(word)
        # "right" is in a class of small words, because it also means "correct".
        if word == "right" or not is_function_word:
            stems.add(stem_of(word))
    if stems:
        return frozenset(stems)
    return IMAGE_WORDS.intersection(forms)


def is_small(word: str) -> bool:
    """Return whether a word tells nothing about a relation: an article, a form of "to be", a sign."""
    if word in SIDES or word in PREPOSITIONS_OF_PLACE:
        return False
    if is_small_word(word):
        return True
    if is_article(word) and word not in ARTICLES_WITH_CASE:
        return True
    return "copula" in cue_classes().get(word, ())


def denies(word: str) -> bool:
    """Return whether a word is a negation in any of the languages."""
    return "negation" in cue_classes().get(word, ())


def direction(word: str, relation: str) -> int:
    """Compare a word with the stem of a relation.

    Returns:
        1 if the word means the same relation, -1 if it means the opposite, 0 if it means neither.
    """
    stem = relating_word(word)
    if stem == relation:
        return 1
    opposites = opposites_of(relation)
    if stem in opposites:
        return -1
    # Two words with a common opposite mean the same: "beneath" and "under" are both opposites of "above".
    for opposite in opposites:
        if stem in opposites_of(opposite):
            return 1
    return 0


def describes_thing(forms: Sequence[str], index: int) -> bool:
    """Return whether the word at an index describes the thing behind it: "the left candle", "the top shelf"."""
    if forms[index] not in ("left", "right", "top", "front"):
        return False
    following = list(forms[index + 1 : index + 2])
    return following != ["side"] and bool(thing_stems(following, ""))


def first_index(forms: Sequence[str], words: Collection[str], start: int = 0) -> int | None:
    """Return the index of the first word of a sentence that is one of `words`, from `start` on."""
    for index in range(start, len(forms)):
        if forms[index] in words:
            return index
    return None
