"""Make a question multiple choice: draw distractors from tiers of candidates, and reject those that are correct.

A reader gives each question that needs options its candidates in tiers, the nearest first. A source of distractors
(`distractor_sources`) may order them in another way before. Whatever the source, an answer that is also correct is never
a distractor.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain

from msgspec.structs import replace

from snellen.common.drafts import QuestionDraft
from snellen.errors import DataError
from snellen.reformulation.answer_equality import opposite_yes_no, same_answer

Rejected = Counter[str]
"""Number of rejected candidates, by reason."""
SameAnswer = Callable[[str, str], bool]
"""Function that says whether two answers mean the same."""
MAX_CANDIDATES = 200
"""Candidates of a tier to look at before it counts as exhausted."""


def to_multiple_choice(
    question: QuestionDraft, count: int, rng: random.Random, rejected: Rejected, where: str
) -> QuestionDraft:
    """Return a question with options, one of them correct, in an order drawn by `rng`.

    The first of the answer texts becomes the correct option. Distractors come from the tiers, the nearest first and at
    random within a tier, then from the fillers. A candidate that means the same as an accepted answer or an earlier
    option is rejected. A yes/no question gets the opposite answer, unless it has fillers.

    Args:
        question: The question. Without a specification of distractors it is returned as it is.
        count: Number of options.
        rng: Draws candidates and positions.
        rejected: Counts rejected candidates; changed here.
        where: Place of the question, for messages.

    Raises:
        DataError: The question has no answer, or too few candidates.
    """
    spec = question.distractors
    if spec is None:
        return question
    if not question.texts:
        raise DataError(
            f"{where}: no answer to make options for; a split with hidden answers needs its own options"
        )
    gold = question.texts[0]
    opposite = opposite_yes_no(gold)
    if opposite is not None and not spec.fillers:
        return _with_options(question, gold, [opposite], rng)

    n_wanted = count - 1
    distractors: list[str] = []
    for candidate in chain(candidates_in(spec.tiers, rng), spec.fillers):
        if len(distractors) == n_wanted:
            break
        if candidate == gold:
            continue  # A pool of answers contains the correct one itself.
        reason = rejection_reason(candidate, question.texts, spec.also_right, distractors)
        if reason:
            rejected[reason] += 1
        else:
            distractors.append(candidate)
    if len(distractors) < n_wanted and not spec.allow_fewer:
        raise DataError(
            f"{where}: {n_wanted} distractors are wanted for {gold!r}, the source has {len(distractors)} that fit; "
            "ask for fewer options"
        )
    if not distractors:
        raise DataError(f"{where}: no distractor for {gold!r} in the source")
    return _with_options(question, gold, distractors, rng)


def _with_options(
    question: QuestionDraft, gold: str, distractors: Sequence[str], rng: random.Random
) -> QuestionDraft:
    """Return the question as multiple choice, its gold answer shuffled among the distractors."""
    options = [gold, *distractors]
    shuffled = rng.sample(options, len(options))
    return replace(
        question,
        options=tuple(shuffled),
        gold=(shuffled.index(gold),),
        texts=(),
        distractors=None,
    )


def candidates_in(tiers: Iterable[Sequence[str]], rng: random.Random) -> Iterator[str]:
    """Yield candidates, the nearest tier first, at random within a tier; at most MAX_CANDIDATES of each tier."""
    for tier in tiers:
        # Most questions need only a few candidates of a large tier, so it is drawn from rather than shuffled.
        n_candidates = min(len(tier), MAX_CANDIDATES)
        drawn_indices: set[int] = set()
        while len(drawn_indices) < n_candidates:
            index = rng.randrange(len(tier))
            if index not in drawn_indices:
                drawn_indices.add(index)
                yield tier[index]


def rejection_reason(
    candidate: str,
    accepted: Sequence[str],
    avoid: Sequence[str],
    chosen: Sequence[str],
    is_same: SameAnswer = same_answer,
) -> str:
    """Return why a candidate cannot be a distractor; empty if it can.

    Args:
        candidate: The candidate.
        accepted: Accepted answers, the correct option first.
        avoid: Other correct answers.
        chosen: The distractors that the question already has.
        is_same: Whether two answers mean the same.
    """
    if not candidate.strip():
        return "empty"
    if is_same(candidate, accepted[0]):
        return "says the same as the answer"
    if any(is_same(candidate, text) for text in (*accepted[1:], *avoid)):
        return "says the same as another right answer"
    if any(is_same(candidate, text) for text in chosen):
        return "says the same as another option"
    return ""
