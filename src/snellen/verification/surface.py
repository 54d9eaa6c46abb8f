"""Checks of what stands in a question: options that say the same, an answer that is told, repetitions, cues."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from itertools import combinations

from msgspec import Struct

from snellen.common.seeds import rng_for
from snellen.reformulation.answer_equality import YES_NO, same_answer
from snellen.verification.looks import LEAST, SURFACE_FEATURES, UNLIKELY, hits_p_value
from snellen.verification.questions import LintQuestion, fold_text
from snellen.verification.verify import (
    CheckMaterial,
    CheckOutcome,
    ItemFault,
    QuestionCheck,
    beyond_chance,
)

# --- options that say the same, and answers that are told ------------------------------------------------------------


def _options_alike(material: CheckMaterial) -> CheckOutcome:
    questions = [question for question in material.lint.questions if question.options]
    return CheckOutcome(
        [fault for question in questions for fault in _alike(question)], len(questions)
    )


def _alike(question: LintQuestion) -> Iterator[ItemFault]:
    for first, second in combinations(range(len(question.options)), 2):
        if same_answer(question.options[first], question.options[second]):
            wrong = first if second in question.gold else second
            whose = "the answer" if {first, second} & set(question.gold) else "another option"
            yield ItemFault(
                question.sample_id,
                f"the option {question.options[wrong]!r} says the same as {whose}",
                "" if wrong in question.gold else question.options[wrong],
            )


def _answer_told(material: CheckMaterial) -> CheckOutcome:
    questions = [
        question for question in material.lint.questions if question.gold or question.texts
    ]
    telling = [(question, text) for question in questions if (text := _told(question))]
    reason = "the question names its answer and none of the other options: "
    return CheckOutcome(
        [ItemFault(question.sample_id, reason + repr(text)) for question, text in telling],
        len(questions),
    )


def _told(question: LintQuestion) -> str:
    """Return the answer if the question contains it and no distractor; else an empty text, as for yes and no."""
    words = f" {question.question} "
    mentions = [place for place, text in enumerate(question.folded) if f" {text} " in words]
    if any(text in YES_NO for text in _right(question)):
        return ""
    if question.options:
        return (
            question.options[mentions[0]]
            if mentions and set(mentions) <= set(question.gold)
            else ""
        )
    return next((text for text in question.texts if f" {fold_text(text)} " in words), "")


# --- repetitions -----------------------------------------------------------------------------------------------------

_FILLERS = frozenset(
    "is are was were does do did can what which please shown seen visible depicted displayed here there this that "
    "picture image photo photograph".split()
)
_LOOSE_ENDS = frozenset("in on of".split())


def _repeated(material: CheckMaterial) -> CheckOutcome:
    """The same question about the same image again: the later one is at fault where the answers are the same, both
    where the answer of one is a wrong option of the other."""
    by_question: dict[object, list[LintQuestion]] = defaultdict(list)
    scenes = _scenes(material)
    questions = material.lint.questions
    for question in questions:
        by_question[
            scenes[question.sample_id],
            question.sample_id != question.id and question.scene,
            _gist(question),
        ].append(question)
    faults: list[ItemFault] = []
    for group in by_question.values():
        for earlier, later in combinations(group, 2):
            if _contradict(earlier, later):
                reason = (
                    "asks the same about the same image, and offers the other's answer as wrong: "
                )
                faults += [
                    ItemFault(earlier.sample_id, reason + later.id),
                    ItemFault(later.sample_id, reason + earlier.id),
                ]
            elif _right(earlier) & _right(later) or not (_right(earlier) or _right(later)):
                faults.append(
                    ItemFault(
                        later.sample_id, f"repeats {earlier.id}: the same about the same image"
                    )
                )
    return CheckOutcome(
        list({(fault.sample_id): fault for fault in reversed(faults)}.values())[::-1],
        len(questions),
    )


def _scenes(material: CheckMaterial) -> dict[str, object]:
    """Return for each sample what samples of one scene share: images that look the same, regions and context."""
    return {
        sample.id: (
            tuple(material.canonical_images[image.digest] for image in sample.images),
            sample.regions,
            sample.context,
        )
        for sample in material.benchmark.samples()
    }


def _gist(question: LintQuestion) -> tuple[str, ...]:
    """Return the words that tell a question from another about the same image, in order."""
    words = [word for word in question.question.split() if word not in _FILLERS]
    while words and words[-1] in _LOOSE_ENDS:
        words.pop()
    return tuple(words)


def _right(question: LintQuestion) -> set[str]:
    return {question.folded[place] for place in question.gold} or {
        fold_text(text) for text in question.texts
    }


def _contradict(first: LintQuestion, second: LintQuestion) -> bool:
    if first.question != second.question or not (first.gold and second.gold):
        return False
    return any(
        _right(a) & (set(b.folded) - _right(b)) for a, b in ((first, second), (second, first))
    )


# --- cues ------------------------------------------------------------------------------------------------------------

LONG, LONGER = 1.5, 5
"""An option is long if it is this many times as long as each other one and has this many letters more; short
likewise."""


class Cue(Struct, frozen=True):
    """Something that at most one option of a question has."""

    name: str
    odd: Callable[[LintQuestion], int | None]
    """The place of the option that has it alone, if any."""


def _odd_length(question: LintQuestion, sign: int) -> int | None:
    sizes = [len(option) or 1 for option in question.options]
    odd, next_one = sorted(range(len(sizes)), key=lambda place: -sign * sizes[place])[:2]
    less, more = sorted((sizes[odd], sizes[next_one]))
    return odd if more >= LONG * less and more - less >= LONGER else None


def _odd_look(flags: list[bool], unlike: bool) -> int | None:
    return flags.index(unlike) if flags.count(unlike) == 1 and (unlike or len(flags) > 2) else None


CUES_LOOKED_AT = (
    Cue("is much longer than the others", lambda question: _odd_length(question, 1)),
    Cue("is much shorter than the others", lambda question: _odd_length(question, -1)),
    *(
        Cue(
            f"alone {look.has if unlike else look.lacks}",
            lambda question, look=look, unlike=unlike: _odd_look(look.flags(question), unlike),
        )
        for look in SURFACE_FEATURES
        for unlike in (True, False)
    ),
)


def _cues(material: CheckMaterial) -> CheckOutcome:
    """Questions whose answer alone has what tells it, as many as luck does not explain, the plainest first."""
    questions = [question for question in material.lint.choices if len(question.options) > 1]
    faults: dict[str, ItemFault] = {}
    details = []
    for cue in CUES_LOOKED_AT:
        remaining = [question for question in questions if question.sample_id not in faults]
        hits = _told_by(cue, remaining, material.benchmark.name)
        if hits:
            details.append(f"the answer {cue.name} in {len(hits):,} questions more than by luck")
        faults |= {
            question.sample_id: ItemFault(question.sample_id, f"the answer {cue.name}")
            for question in hits
        }
    return CheckOutcome(list(faults.values()), len(questions), detail="; ".join(details))


def _told_by(cue: Cue, questions: Sequence[LintQuestion], name: str) -> list[LintQuestion]:
    odd = [(question, place) for question in questions if (place := cue.odd(question)) is not None]
    hits = [question for question, place in odd if place in question.gold]
    chances = [question.chance for question, _ in odd]
    if (
        len(odd) < LEAST
        or len(hits) <= sum(chances)
        or hits_p_value(len(hits), chances) >= UNLIKELY
    ):
        return []
    excess = beyond_chance(len(hits), len(odd) - len(hits), sum(chances) / len(chances))
    return sorted(
        hits,
        key=lambda question: (-_plainness(question), rng_for(name, question.id, "cue", 0).random()),
    )[:excess]


def _plainness(question: LintQuestion) -> float:
    """Return the ratio of the answer's length to that of the option nearest to it in length."""
    gold = len(question.options[question.gold[0]]) or 1
    others = [
        len(text) or 1 for place, text in enumerate(question.options) if place not in question.gold
    ]
    return min((max(gold, size) / min(gold, size) for size in others), default=1.0)


OPTIONS_ALIKE = QuestionCheck("two options that say the same", _options_alike)
ANSWER_TOLD = QuestionCheck("a question that names its answer", _answer_told)
REPEATED = QuestionCheck("a question asked before, or the same with another answer", _repeated)
CUES = QuestionCheck(
    "an answer that looks unlike the other options, more often than by luck", _cues
)
