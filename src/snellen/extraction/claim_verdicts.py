"""What a sentence says of a claim about two things: the same, the contrary, or nothing that is plain.

Plain sentences have the words of the claim in their order, or one thing, the relation or its opposite, and the other
thing. Every other sentence about these things is `unclear`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

from snellen.extraction.claims import FEWEST_WORDS, TIE_WORDS, Claim
from snellen.extraction.cue_words import cue_classes
from snellen.extraction.relation_words import (
    AGENT_WORDS,
    ARTICLES_WITH_CASE,
    IMAGE_WORDS,
    PREPOSITIONS_OF_PLACE,
    SIDE_STEMS,
    SIDES,
    THAN,
    denies,
    describes_thing,
    direction,
    first_index,
    stem_of,
    thing_stems,
    word_forms,
)
from snellen.extraction.tokens import Token
from snellen.extraction.word_stems import is_small_word, is_symmetric, word_stem

Verdict = Literal["same", "contrary", "unclear"]

_TURNING = frozenset(
    "reverse reversed opposite inverse versa way swapped contrary integendeel contraire contrario gegenteil"
    " deny denied ruled only rather instead anything whom neither nobody nothing compared who vice ?".split()
)
"""Words that may turn a sentence around: "The opposite is true: ..."."""
_HARMLESS_STEMS = frozenset(
    word_stem(word)
    for word in (
        "place locate position situate stand sit lie hang park look appear side slightly clearly directly much little bit"
        " just far visibly come go drive run cross reach line have"
    ).split()
)
"""Stems of words that a plain sentence may have besides those of the question."""
_PREPOSITIONS = frozenset(
    "through around with near along across from behind up down into onto after before towards toward outside inside by under"
    " over beside next while because since who which and".split()
)
"""Words that begin what a sentence adds behind the things that it relates."""
_CLAUSE_ENDS = frozenset("while whereas but so because since which".split())
_LEAD_TOKENS = 9
"""Tokens of the longest lead that is left out: "Looking at the image, ..."."""
_LEAST_SHARE = 0.8
"""Least share of a claim's words in a sentence that has them in another order."""


class _ComparedSentence(NamedTuple):
    """A sentence, with what decides whether it confirms a claim about two things."""

    forms: list[str]
    relation_indexes: list[int]
    """Indices of the words for the relation of the claim, or for its opposite."""
    n_denials: int
    is_turned: bool
    """Whether it has a word that may reverse its meaning."""
    foreign: set[str]
    """Stems of words that neither the claim nor the question has."""


def judge_claim(
    sentence: Sequence[Token], claim: Claim, question_words: frozenset[str] = frozenset()
) -> Verdict | None:
    """Return whether a sentence says the same as a claim: "same", "contrary" or "unclear".

    The result is None if the sentence is not about the things in the claim.

    Args:
        sentence: Tokens of the sentence.
        claim: What an option, or a yes-no question, says.
        question_words: Stems of all words of the question.
    """
    forms = _relating_part(word_forms(sentence), claim)
    if not claim.word:
        return "unclear" if _is_rearranged(forms, claim) else None

    stems = thing_stems(forms, claim.word) | IMAGE_WORDS.intersection(forms)
    has_left = not claim.left.isdisjoint(stems)
    has_right = not claim.right.isdisjoint(stems)
    claimed_numbers = {word for word in claim.words if word[0] == "#"}
    if not has_left and not has_right:
        return None
    if not claimed_numbers <= stems:
        return None

    compared = _compare(forms, stems, claim, question_words)
    if has_left and has_right:
        return _judge_by_two_things(compared, claim)
    return _judge_by_one_thing(compared, claim, names_right=has_right)


def _compare(
    forms: list[str], stems: frozenset[str], claim: Claim, question_words: frozenset[str]
) -> _ComparedSentence:
    """Find in a sentence what decides whether it confirms a claim.

    These are the words for the relation in the claim or its opposite ("longer", "shorter"), the number of denials,
    words that may reverse the meaning of the sentence, and words that neither the claim nor the question has.
    """
    claimed_things = claim.left | claim.right
    relation_indexes: list[int] = []
    n_denials = 0
    is_turned = False
    for index, form in enumerate(forms):
        is_relation = direction(form, claim.word) != 0 and stem_of(form) not in claimed_things
        if is_relation and not describes_thing(forms, index):
            relation_indexes.append(index)
        if denies(form):
            n_denials += 1
        if form in _TURNING or "wrong" in cue_classes().get(form, ()):
            is_turned = True

    foreign: set[str] = set()
    for stem in stems - question_words - set(claim.words) - _HARMLESS_STEMS:
        is_number = stem[0] == "#"
        is_adverb = stem.endswith("ly")
        if not is_number and not is_adverb:
            foreign.add(stem)
    return _ComparedSentence(
        forms=forms,
        relation_indexes=relation_indexes,
        n_denials=n_denials,
        is_turned=is_turned,
        foreign=foreign,
    )


def _judge_by_one_thing(
    sentence: _ComparedSentence, claim: Claim, *, names_right: bool
) -> Verdict | None:
    """Judge a claim by a sentence that names only one of its two things: "The library is the older one".

    None if the sentence neither compares things nor relates this thing to another one.
    """
    relations = sentence.relation_indexes
    is_plain = (
        claim.is_comparison
        and len(relations) == 1
        and not sentence.foreign
        and sentence.n_denials == 0
        and not sentence.is_turned
        and THAN.isdisjoint(sentence.forms)
    )
    if not is_plain:
        has_comparative = any(form.endswith("er") for form in sentence.forms)
        compares = claim.is_comparison and has_comparative
        relates_other_thing = bool(relations) and bool(sentence.foreign)
        return "unclear" if compares or relates_other_thing else None

    is_opposite = direction(sentence.forms[relations[0]], claim.word) < 0
    is_contrary = names_right != is_opposite
    return _verdict(is_contrary, claim)


def _judge_by_two_things(sentence: _ComparedSentence, claim: Claim) -> Verdict | None:
    """Judge a claim by a sentence that names both of its things.

    What counts is the order of the things, and whether the sentence has the relation of the claim or its opposite.
    """
    forms = sentence.forms
    n_denials = sentence.n_denials
    if sentence.is_turned or n_denials > 1:
        return "unclear"
    has_agent = not AGENT_WORDS.isdisjoint(forms)
    if claim.words and has_agent == claim.has_agent and _has_in_order(forms, claim):
        return _verdict(n_denials == 1, claim)
    if claim.is_comparison and not TIE_WORDS.isdisjoint(forms):
        return "unclear" if n_denials else _verdict(True, claim)

    relations = sentence.relation_indexes
    if not relations and not claim.is_comparison and claim.word not in SIDE_STEMS:
        # It says something else of the two things, or the same in other words.
        for form in forms:
            if form.endswith("ing") and stem_of(form) in sentence.foreign:
                return "unclear"
        return None if _names_left_first(forms, claim) else "unclear"

    if len(relations) != 1 or sentence.foreign:
        return "unclear"
    for form in forms:
        is_cyrillic_or_beyond = form[0] >= "\u0400"
        if form in ARTICLES_WITH_CASE or is_cyrillic_or_beyond:
            return "unclear"  # the first thing need not be the subject in these languages
    return _judge_by_order(forms, relations[0], n_denials, claim)


def _judge_by_order(forms: list[str], relation_index: int, n_denials: int, claim: Claim) -> Verdict:
    """Judge a claim by which of its things is before the relation, and which is behind it.

    Args:
        forms: Words of a sentence that has both things of the claim.
        relation_index: Where the sentence has the relation of the claim, or its opposite.
        n_denials: Number of denials, 0 or 1.
        claim: The claim.
    """
    relation = forms[relation_index]
    before = thing_stems(forms[:relation_index], claim.word)
    behind = thing_stems(forms[relation_index + 1 :], claim.word)
    than_index = first_index(forms, THAN)
    if than_index is not None and than_index > relation_index:
        if before.isdisjoint(claim.left | claim.right):  # "fewer tables than chairs"
            before = thing_stems(forms[relation_index:than_index], claim.word)
        behind = thing_stems(forms[than_index:], claim.word)

    keeps_order = not claim.left.isdisjoint(before) and not claim.right.isdisjoint(behind)
    is_swapped = not claim.left.isdisjoint(behind) and not claim.right.isdisjoint(before)
    if keeps_order == is_swapped:
        return "unclear"

    if not claim.is_comparison:
        has_agent = not AGENT_WORDS.isdisjoint(forms[relation_index + 1 :])
        is_symmetric_claim = any(is_symmetric(word) for word in claim.words)
        if is_swapped and is_symmetric_claim:
            is_swapped = False  # "The cup is next to the jug"
        elif has_agent:
            if relation in SIDES or relation in PREPOSITIONS_OF_PLACE:
                return "unclear"
            is_passive = not relation.endswith("ing")
            if is_passive:
                is_swapped = not is_swapped

    is_opposite = direction(relation, claim.word) < 0
    is_after_as = relation_index > 0 and forms[relation_index - 1] == "as"
    if is_after_as and n_denials == 0:
        return _verdict(True, claim)  # "as tall as" is not "taller"
    if is_after_as:
        is_opposite = not is_opposite  # "not as tall as" is "shorter"
    elif n_denials == 1:
        if is_swapped or is_opposite:
            return "unclear"  # neither is taller, perhaps
        is_opposite = True
    is_contrary = is_swapped != is_opposite
    return _verdict(is_contrary, claim)


def _relating_part(forms: list[str], claim: Claim) -> list[str]:
    """Return a sentence without its lead ("Looking at the image,") and without what follows the things of a claim."""
    things = claim.left | claim.right
    if "," in forms[:_LEAD_TOKENS]:
        comma = forms.index(",")
        lead_stems = {stem_of(word) for word in forms[:comma]}
        if things.isdisjoint(lead_stems):
            forms = forms[comma + 1 :]

    for index in range(1, len(forms)):
        begins_clause = forms[index - 1] == "," and forms[index] in ("not", "and", "who")
        if begins_clause or forms[index] in _CLAUSE_ENDS:
            forms = forms[:index]
            break

    end = len(forms)
    for index, word in enumerate(forms):
        if stem_of(word) in things:
            end = index + 1
    if end < len(forms) and forms[end] in _PREPOSITIONS:
        return forms[:end]
    return forms


def _names_left_first(forms: list[str], claim: Claim) -> bool:
    """Return whether a sentence names the first thing of a claim, and not before it the second one."""
    for word in forms:
        if stem_of(word) in claim.right:
            return False
        if stem_of(word) in claim.left:
            return True
    return False


def _has_in_order(forms: Sequence[str], claim: Claim) -> bool:
    """Return whether a sentence has all words of a claim in their order, and no other word describes the last one."""
    missing = list(claim.words)
    last_index = -1
    for index, word in enumerate(forms):
        if missing and stem_of(word) == missing[0]:
            missing.pop(0)
            last_index = index
        elif word in (",", "and") and len(missing) < len(claim.words):
            break
    if missing:
        return False
    following = forms[last_index + 1] if last_index + 1 < len(forms) else "."
    return is_small_word(following) or following in _PREPOSITIONS


def _is_rearranged(forms: Sequence[str], claim: Claim) -> bool:
    """Return whether a sentence says about the same words as a claim something that may differ from the claim.

    That is so if the sentence has most words of the claim in another order, or if one of the two is in the passive
    voice. Of the claim "The dog bites the man", "The man bites the dog" is a rearrangement, and so is "The man is
    bitten by the dog".

    Args:
        forms: The words of the sentence, as they are written.
        claim: The claim, with the stems of its words.
    """
    sentence_stems = [stem_of(form) for form in forms]
    claim_stems = list(dict.fromkeys(claim.words))
    shared_stems = [stem for stem in claim_stems if stem in sentence_stems]
    least_shared = max(FEWEST_WORDS, _LEAST_SHARE * len(claim_stems))
    if len(shared_stems) < least_shared:
        return False

    in_order_of_sentence = sorted(shared_stems, key=sentence_stems.index)
    if in_order_of_sentence != shared_stems:
        return True
    sentence_has_agent = not AGENT_WORDS.isdisjoint(forms)  # "by", as in "bitten by the dog"
    return sentence_has_agent != claim.has_agent


def _verdict(is_contrary: bool, claim: Claim) -> Verdict:
    """Return the verdict on a claim; the contrary of a denied claim is the same as the claim."""
    return "contrary" if is_contrary != claim.is_denied else "same"
