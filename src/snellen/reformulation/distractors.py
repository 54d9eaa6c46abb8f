"""Making a question multiple choice: distractors from tiers of candidates, filtered, fixed at build time."""

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
"""How many candidates were rejected, by reason."""
ENOUGH = 200
"""Candidates of a tier to look at before it counts as exhausted."""


def to_multiple_choice(
    question: QuestionDraft, count: int, rng: random.Random, rejected: Rejected, where: str
) -> QuestionDraft:
    """The question with `count` options, the gold among them in a position drawn by `rng`.

    The gold is the first of its answer texts. Distractors come from its tiers, nearest first and at random
    within a tier, then from its fillers. A candidate that means the same as an accepted answer or an earlier
    option is rejected and counted. A yes/no question gets the opposite answer, unless it has fillers. Raises
    DataError, naming `where`, when there are too few candidates.
    """
    spec = question.distractors
    if spec is None:
        return question
    if not question.texts:
        raise DataError(f"{where}: no answer to make options for; a split with hidden answers needs its own options")
    gold = question.texts[0]
    yes_or_no = opposite_yes_no(gold)
    if yes_or_no is not None and not spec.fillers:
        return _settled(question, [gold, yes_or_no], rng)
    chosen: list[str] = []
    for candidate in chain(candidates_in(spec.tiers, rng), spec.fillers):
        if len(chosen) == count - 1:
            break
        if candidate == gold:
            continue  # a pool of answers contains the gold itself
        reason = rejection_reason(candidate, question.texts, spec.also_right, chosen)
        if reason:
            rejected[reason] += 1
        else:
            chosen.append(candidate)
    if len(chosen) < count - 1 and not spec.allow_fewer:
        raise DataError(
            f"{where}: {count - 1} distractors are wanted for {gold!r}, the source has {len(chosen)} that fit; "
            "ask for fewer options"
        )
    if not chosen:
        raise DataError(f"{where}: no distractor for {gold!r} in the source")
    return _settled(question, [gold, *chosen], rng)


def candidates_in(tiers: Iterable[Sequence[str]], rng: random.Random) -> Iterator[str]:
    """Candidates one by one, nearest tier first, at random within a tier."""
    for tier in tiers:
        # Most questions need only a few candidates of a large tier, so it is drawn from rather than shuffled.
        drawn_places: set[int] = set()
        while len(drawn_places) < min(len(tier), ENOUGH):
            place = rng.randrange(len(tier))
            if place not in drawn_places:
                drawn_places.add(place)
                yield tier[place]


SameAnswer = Callable[[str, str], bool]
"""Whether two answers mean the same."""


def rejection_reason(
    candidate: str,
    accepted: Sequence[str],
    avoid: Sequence[str],
    chosen: Sequence[str],
    is_same: SameAnswer = same_answer,
) -> str:
    """Why a candidate cannot be a distractor; empty when it can."""
    if not candidate.strip():
        return "empty"
    if is_same(candidate, accepted[0]):
        return "says the same as the answer"
    if any(is_same(candidate, text) for text in (*accepted[1:], *avoid)):
        return "accepted by an annotator"
    if any(is_same(candidate, text) for text in chosen):
        return "says the same as another option"
    return ""


def _settled(question: QuestionDraft, options: list[str], rng: random.Random) -> QuestionDraft:
    gold = options[0]
    shuffled = rng.sample(options, len(options))
    return replace(question, options=tuple(shuffled), gold=(shuffled.index(gold),), texts=(), distractors=None)
