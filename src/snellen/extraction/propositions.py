"""Compare a sentence of a reply with a claim: does it say the same, the contrary, or something else?

A *claim* is what a yes-no question asks about ("Is there a dog?") or an option that is a sentence. It is given as the
stems of its content words (`snellen.extraction.word_stems`): `("dog", "chas", "cat")` for "A dog is chasing the cat".

A sentence says the contrary of a claim if it has a denial ("not open"), an opposite ("closed" instead of "open") or
another number. Who chases whom is not compared here, but in `snellen.extraction.relations`.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Collection, Sequence
from functools import lru_cache
from typing import NamedTuple

from snellen.common.late import late_pattern
from snellen.extraction.cue_words import has_cue
from snellen.extraction.tokens import Token, tokenise
from snellen.extraction.word_stems import content_words, exclusive_stems, opposites_of, word_stem


class StatedRelation(NamedTuple):
    """How a sentence relates to a claim."""

    covered: float
    """Share of the claim's words that the sentence has, or has the opposite of."""
    agrees: bool
    """Whether the sentence says the same as the claim and not the contrary."""
    extra: int
    """Number of words of the sentence that the claim does not have."""


_MOST_WORDS = 40
"""Content words of a sentence or claim that are compared."""
_MOST_CHARACTERS = 600
"""Characters at the end of a text in which a claim is looked for."""
_CLAIM = late_pattern(
    r"(?<!\w)[\"']([^\"'\n]{10,200})[\"'](?!\w)|\b(?:statement|true or false|right or wrong|correct or not)\b[^:\n]{0,40}:\s*([^\n]+)",
    re.IGNORECASE,
)
"""A claim in quotes (group 1), or behind "statement:" or "true or false:" (group 2)."""


def claim_text(question: str) -> str:
    """Return the claim that a yes-no question is about: a statement that it quotes or announces, or its last sentence.

    Examples:
        >>> claim_text("True or false: the door is open")
        'the door is open'
        >>> claim_text("Look at the image. Is the door open?")
        ' Is the door open?'
    """
    match = _CLAIM.search(question)
    if match is None:
        return last_question(question)
    return match[1] or match[2]


def last_question(question: str) -> str:
    """Return the last sentence of a question that ends in a question mark, or the complete text if none does."""
    mark = question.rfind("?")
    if mark < 0:
        return question
    previous_end = max(question.rfind(sign, 0, mark) for sign in ".?!\n:")
    return question[previous_end + 1 : mark + 1]


@lru_cache(maxsize=256)
def claim_words(text: str) -> tuple[str, ...]:
    """Return the stems of the content words of a claim, in order.

    Example:
        >>> claim_words("Is the dog chasing two cats?")
        ('dog', 'chas', '#2', 'cat')
    """
    tokens = tokenise(text[-_MOST_CHARACTERS:])
    return tuple(content_words(tokens)[:_MOST_WORDS])


def relate(sentence: Sequence[Token], claim: Sequence[str]) -> StatedRelation | None:
    """Compare a sentence with a claim.

    Args:
        sentence: Tokens of the sentence.
        claim: Words of the claim, as `claim_words` returns them.

    Returns:
        The comparison, or None if they have no word in common.

    Example:
        >>> relate(tokenise("The door is closed."), claim_words("Is the door open?"))
        StatedRelation(covered=1.0, agrees=False, extra=1)
    """
    sentence_words = set(content_words(sentence)[:_MOST_WORDS])
    all_claim_words = set(claim)
    shared = sentence_words & all_claim_words
    if not shared:
        return None
    missing = all_claim_words - sentence_words
    added = sentence_words - all_claim_words

    claimed_numbers = _numbers(all_claim_words)
    added_numbers = _numbers(added)
    is_within = _is_within_bound(claim, claimed_numbers, added_numbers)
    n_contrary = 0
    for word in missing:
        is_bound_word = is_within is not None and word in _bounds()
        if not is_bound_word and not opposites_of(word).isdisjoint(added):
            n_contrary += 1
    if is_within is not None:
        has_contrary_number = not is_within
    else:
        has_claimed_number = not claimed_numbers.isdisjoint(sentence_words)
        has_contrary_number = bool(claimed_numbers and added_numbers) and not has_claimed_number
    if has_contrary_number:
        n_contrary += 1

    # Two denials, or a denial of an opposite, agree with the claim: "not closed" means "open".
    n_denials = sum(has_cue(token.normalised, "negation") for token in sentence)
    agrees = (n_contrary + n_denials) % 2 == 0
    n_covered = len(shared) + min(n_contrary, len(missing))
    return StatedRelation(covered=n_covered / len(all_claim_words), agrees=agrees, extra=len(added))


def plain_verdict(sentence: Sequence[Token], claim: Sequence[str]) -> bool | None:
    """Return whether a sentence confirms a claim by its number, its colour or the like.

    Args:
        sentence: Tokens of the sentence.
        claim: Words of the claim, as `claim_words` returns them.

    Returns:
        True if the sentence confirms the claim and False if it denies it. None if it is not that plain: it has a denial,
        several numbers or colours, or no other word of the claim.

    Examples:
        >>> three_pens = tokenise("There are three pens.")
        >>> plain_verdict(three_pens, claim_words("Are there two pens?"))
        False
        >>> plain_verdict(three_pens, claim_words("Are there at least two pens?"))
        True
        >>> plain_verdict(tokenise("The door is green."), claim_words("Is the door red?"))
        False
    """
    for token in sentence:
        if token.normalised == "?" or has_cue(token.normalised, "negation"):
            return None
    sentence_words = set(content_words(sentence)[:_MOST_WORDS])
    all_claim_words = set(claim)
    shared = sentence_words & all_claim_words
    if shared == _numbers(shared):
        return None

    claimed_numbers = _numbers(all_claim_words)
    stated_numbers = _numbers(sentence_words)
    if claimed_numbers:
        if len(claimed_numbers) != 1 or len(stated_numbers) != 1:
            return None
        is_within = _is_within_bound(claim, claimed_numbers, stated_numbers)
        return claimed_numbers == stated_numbers if is_within is None else is_within

    for group in exclusive_stems():
        claimed = all_claim_words & group
        stated = sentence_words & group
        if len(claimed) != 1 or len(stated) != 1:
            continue
        if stated != claimed:
            return False
        return True if all_claim_words <= sentence_words else None
    return None


def _numbers(words: Collection[str]) -> set[str]:
    """Return the words that are numbers: `{"#2"}` of `("#2", "pen")`."""
    return {word for word in words if word[0] == "#"}


# --- bounds: "at least four" ------------------------------------------------------------------------------------------


@lru_cache(maxsize=1)
def _bounds() -> dict[str, Callable[[float, float], bool]]:
    """Return the words that turn the number after them into a bound, such as "least" in "at least four", by their stem.

    Each has a comparison: for "least" it is true of (5, 4) and (4, 4), but not of (3, 4).
    """
    comparisons: dict[str, Callable[[float, float], bool]] = {
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
    return {word_stem(word): comparison for word, comparison in comparisons.items()}


def _is_within_bound(
    claim: Sequence[str], claimed_numbers: set[str], stated_numbers: set[str]
) -> bool | None:
    """Return whether a stated number is within the bound of a claim: 5 is within "at least four".

    Args:
        claim: Words of the claim in order, such as `("least", "#4", "dog")`.
        claimed_numbers: Its numbers, such as `{"#4"}`.
        stated_numbers: Numbers of the sentence, such as `{"#5"}`.

    Returns:
        None if the claim has no bound, or if there is not exactly one number on each side.
    """
    bounds: list[Callable[[float, float], bool]] = []
    for index, word in enumerate(claim):
        precedes_number = not claimed_numbers.isdisjoint(claim[index + 1 : index + 3])
        if word in _bounds() and precedes_number:
            bounds.append(_bounds()[word])
    if len(bounds) != 1 or len(claimed_numbers) != 1 or len(stated_numbers) != 1:
        return None
    [claimed_number] = claimed_numbers
    [stated_number] = stated_numbers
    try:
        bound = float(claimed_number.removeprefix("#"))
        value = float(stated_number.removeprefix("#"))
    except ValueError:  # a fraction or a root
        return None
    is_within = bounds[0]
    return is_within(value, bound)
