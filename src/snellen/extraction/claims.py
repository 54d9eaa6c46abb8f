"""Claims about two things in a relation, such as "The dog chases the cat": what options and yes-no questions say."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from snellen.common.late import late_pattern
from snellen.extraction.cue_words import cue_classes
from snellen.extraction.propositions import claim_text, last_question
from snellen.extraction.relation_words import (
    AGENT_WORDS,
    DEGREES,
    PREPOSITIONS_OF_PLACE,
    SIDES,
    THAN,
    denies,
    describes_thing,
    direction,
    first_index,
    is_small,
    stem_of,
    thing_stems,
    word_forms,
)
from snellen.extraction.tokens import tokenise
from snellen.extraction.word_stems import relating_word

FEWEST_WORDS = 3
"""Words of the shortest claim that relates two things: "dog chasing cat". "Red car" and "car is red" say the same."""
LONGEST_QUESTION = 300
"""Characters at the end of a question in which its relation is looked for."""
TIE_WORDS = frozenset("same equal equally identical exactly".split())
_LONGEST_THING = 4
"""Words of the longest option that names a thing."""


class Claim(NamedTuple):
    """A statement that relates one thing to another, such as "The red car is faster than the green one"."""

    words: tuple[str, ...]
    """Stems of all words in order, without small words and denials."""
    left: frozenset[str]
    """Stems of words that only the first thing has, such as "red". Empty, like `word` and `right`, if the claim has no
    plain relation."""
    word: str
    """Stem of the word that relates the two things, such as that of "faster"."""
    right: frozenset[str]
    """Stems of words that only the second thing has, such as "green"."""
    has_agent: bool = False
    """Whether the claim has the "by" of a passive."""
    is_comparison: bool = False
    is_denied: bool = False


ASKS_FOR_PRESENCE = late_pattern(
    r"^\W*(?:(?:is|are|was|were) there|(?:do|can) you see|does (?:the|this) (?:image|picture|photo|scene) (?:show|contain|have))\b",
    re.IGNORECASE,
)
"""Beginning of a question that asks if a thing is present, which is not a relation of two things."""
_ASKS_POSITION = late_pattern(
    r"\b(?:where|in (?:which|what) direction|what is the position) (?:is|are|of|does|do|stands?|lies?)\b(.+?)"
    r"\b(?:in relation to|relative to|compared (?:to|with)|with respect to|from)\b(.+)",
    re.IGNORECASE,
)
"""A question for the position of a thing (group 1) relative to another (group 2)."""
_COMPARED_DEGREE = late_pattern(
    r"\b(?:who|which|what|whose|does|is)\b.{0,60}?\b(more \w+|less \w+|fewer \w+|left|right|top|bottom|first|last"
    r"|(?!other|under|over|never|either|after|her|number|water|weather|matter|layer|answer|whether|corner|paper|letter"
    r"|center|player|runner|flower|driver|power|ladder|poster|order|computer|river|tower|cover)[a-z]{3,}er)\b"
)
"""The degree by which a question compares things: "Which is longer?"."""
_IN_THE_IMAGE = late_pattern(
    r"\b(?:in|on|of) (?:the|this) (?:image|picture|photo(?:graph)?|scene|video|chart|figure|drawing|map)\b",
    re.IGNORECASE,
)


@lru_cache(maxsize=256)
def claim_of_yes_no_question(question: str) -> Claim | None:
    """Return the claim that a yes-no question asks about, or None if it does not relate two things."""
    text = claim_text(question)[-LONGEST_QUESTION:]
    asks_for_presence = ASKS_FOR_PRESENCE.search(text) is not None
    if asks_for_presence and " than " not in text:
        return None
    claim = read_claim(text)
    if not claim.word and len(claim.words) < FEWEST_WORDS:
        return None
    return claim


@lru_cache(maxsize=256)
def claims_of_options(question: str, options: tuple[str, ...]) -> tuple[Claim, ...]:
    """Return the claim that each option makes about the same two things, or no claims if the options do not do so.

    A last option for a tie ("They are equal") has no claim.

    Example:
        >>> [claim.word for claim in claims_of_options("Which is true?", ("The dog bites the man", "The man bites the dog"))]
        ['bit', 'bit']
    """
    if not 2 <= len(options) <= 4:
        return ()
    claims = tuple(read_claim(option) for option in options)
    are_sentences = len(claims[0].words) >= FEWEST_WORDS
    if are_sentences and (have_same_words(claims) or _relate_same_things(claims)):
        return claims
    asked_sentence = last_question(question)[-LONGEST_QUESTION:]
    return _claims_of_things(asked_sentence, options) or _claims_of_sides(asked_sentence, options)


def have_same_words(claims: Sequence[Claim]) -> bool:
    """Return whether several claims have the same words in any order, so that words do not tell which is meant."""
    word_sets = {tuple(sorted(claim.words)) for claim in claims}
    return len(claims) > 1 and len(word_sets) == 1


def _relate_same_things(claims: Sequence[Claim]) -> bool:
    """Return whether all claims are about the same things in one relation or its opposite."""
    things = claims[0].left | claims[0].right
    for claim in claims:
        if claim.left | claim.right != things:
            return False
        if not claim.word or direction(claim.word, claims[0].word) == 0:
            return False
    return True


def _claims_of_things(question: str, options: tuple[str, ...]) -> tuple[Claim, ...]:
    """Return the claims of options that name things: "Which is longer, the eel or the snake?"."""
    degrees = set(_COMPARED_DEGREE.findall(question.casefold()))
    if len(degrees) != 1 or _ASKS_POSITION.search(question) is not None:
        return ()
    if len(options) > 3:
        return ()
    if len(options) == 3 and TIE_WORDS.isdisjoint(word_forms(tokenise(options[2]))):
        return ()
    first, second = options[:2]
    for option in (first, second):
        if len(read_claim(option).words) > _LONGEST_THING:
            return ()

    degree = degrees.pop()
    first_claim = read_claim(f"{first} is {degree} than {second}")
    second_claim = read_claim(f"{second} is {degree} than {first}")
    if not first_claim.word or not second_claim.word:
        return ()
    return first_claim, second_claim


def _claims_of_sides(question: str, options: tuple[str, ...]) -> tuple[Claim, ...]:
    """Return the claims of options that are sides: "Is the lamp above or below the desk?"."""
    claims: list[Claim] = []
    position = _ASKS_POSITION.search(question)
    if position is not None:  # "Where is the lamp in relation to the desk?"
        thing = position[1]
        reference = position[2].strip(" ?")
        claims = [read_claim(f"{thing} is {option} {reference}") for option in options]
    else:
        question_claim = read_claim(question)
        question_relations = {relating_word(form) for form in word_forms(tokenise(question))}
        for option in options:
            relations: set[str] = set()
            for token in tokenise(option):
                relation = relating_word(token.normalised)
                is_side = direction(token.normalised, question_claim.word) != 0
                if is_side and relation in question_relations:
                    relations.add(relation)
            relation = relations.pop() if len(relations) == 1 else ""
            claims.append(question_claim._replace(word=relation, words=()))

    relations_in_order = [claim.word for claim in claims if claim.word]
    for relation in relations_in_order[1:]:
        if direction(relation, relations_in_order[0]) < 0:
            return tuple(claims)
    return ()  # without two opposite sides


def read_claim(text: str) -> Claim:
    """Read the two things of a claim and their relation.

    Example:
        >>> claim = read_claim("The red car is faster than the green one")
        >>> sorted(claim.left), claim.word, sorted(claim.right)
        (['car', 'red'], 'fast', ['green'])
    """
    forms = word_forms(tokenise(_IN_THE_IMAGE.sub(" ", text)))
    words = tuple(stem_of(word) for word in forms if not is_small(word) and not denies(word))
    unrelated = Claim(words=words, left=frozenset(), word="", right=frozenset())
    index = _relation_index(forms)
    if index is None:
        return unrelated

    relation = relating_word(forms[index])
    left = thing_stems(forms[:index], relation)
    right = thing_stems(forms[index + 1 :], relation)
    than_index = first_index(forms, THAN, index + 1)
    is_comparison = than_index is not None
    if than_index is not None:
        if not left:  # "more apples than oranges"
            left = thing_stems(forms[index + 1 : than_index], relation)
        right = thing_stems(forms[than_index + 1 :], relation)

    has_agent = not AGENT_WORDS.isdisjoint(forms)
    is_passive = has_agent and not is_comparison and not forms[index].endswith("ing")
    left_only = left - right
    right_only = right - left
    if is_passive:  # the agent is behind the relation
        left_only, right_only = right_only, left_only
    if not left_only or not right_only:
        return unrelated

    return Claim(
        words=words,
        left=left_only,
        word=relation,
        right=right_only,
        has_agent=has_agent,
        is_comparison=is_comparison,
        is_denied=any(denies(word) for word in forms),
    )


def _relation_index(forms: list[str]) -> int | None:
    """Return the index of the word that relates two things, or None if there is no plain one."""
    # A comparison: "longer than", "more apples than".
    than_index = first_index(forms, THAN, start=1)
    if than_index is not None:
        return _degree_index(forms, than_index)

    # A passive: "chased by".
    for index in range(2, len(forms)):
        if forms[index] in AGENT_WORDS and not forms[index - 1].endswith("ing"):
            return index - 1

    # A word with things on both sides: a side ("left"), an action ("chasing") or a place ("on"), in this order.
    inner: list[int] = []
    for index in range(1, len(forms) - 1):
        has_things_around = thing_stems(forms[:index], "") and thing_stems(forms[index + 1 :], "")
        if has_things_around and not describes_thing(forms, index):
            inner.append(index)
    for index in inner:
        if forms[index] in SIDES:
            return index
    for index in inner:
        word = forms[index]
        is_gerund = word.endswith("ing") and len(word) > len("thing")
        if is_gerund and word != "being":
            return index
    for index in inner:
        if forms[index] in PREPOSITIONS_OF_PLACE:
            return index

    # "Is the hydrant yellow?" relates nothing; "dog bites man" has its relation in the middle of three words.
    begins_with_copula = bool(forms) and "copula" in cue_classes().get(forms[0], ())
    if begins_with_copula:
        return None
    content: list[int] = []
    for index, word in enumerate(forms):
        is_number = word[0] == "#"
        if thing_stems([word], "") and not is_number:
            content.append(index)
    if len(content) == FEWEST_WORDS and content[1] in inner:
        return content[1]
    return None


def _degree_index(forms: list[str], than_index: int) -> int:
    """Return the index of the degree before "than": of "more", else of "longer", else of the word just before."""
    before = range(than_index - 1, max(-1, than_index - 5), -1)
    for index in before:
        if forms[index] in DEGREES:
            return index
    for index in before:
        if forms[index].endswith("er"):
            return index
    return than_index - 1
