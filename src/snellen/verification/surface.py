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

# --- options that mean the same, and questions that contain their answer ----------------------------------------------


def _options_alike(material: CheckMaterial) -> CheckOutcome:
    questions = [question for question in material.lint.questions if question.options]
    return CheckOutcome(
        [fault for question in questions for fault in _alike(question)], len(questions)
    )


def _alike(question: LintQuestion) -> Iterator[ItemFault]:
    """Yield a fault for each pair of options that mean the same. The wrong option of a pair is to be replaced."""
    for first, second in combinations(range(len(question.options)), 2):
        if not same_answer(question.options[first], question.options[second]):
            continue
        wrong = first if second in question.gold else second
        has_answer = first in question.gold or second in question.gold
        repeated = "the answer" if has_answer else "another option"
        replaceable = "" if wrong in question.gold else question.options[wrong]
        yield ItemFault(
            question.sample_id,
            f"the option {question.options[wrong]!r} says the same as {repeated}",
            replaceable,
        )


def _answer_told(material: CheckMaterial) -> CheckOutcome:
    """Find questions whose own text contains the correct answer and none of the other options."""
    n_checked = 0
    faults: list[ItemFault] = []
    for question in material.lint.questions:
        if not question.gold and not question.texts:
            continue
        n_checked += 1
        answer = _told(question)
        if answer:
            message = f"the question names its answer and none of the other options: {answer!r}"
            faults.append(ItemFault(question.sample_id, message))
    return CheckOutcome(faults, n_checked)


def _told(question: LintQuestion) -> str:
    """Return the answer if the text of the question gives it away, else an empty text.

    A question gives its answer away if it contains the answer but no wrong option. Yes and no are ignored.
    """
    if any(text in YES_NO for text in _right(question)):
        return ""
    question_words = f" {question.question} "
    if question.options:
        mentioned: list[int] = []
        for index, text in enumerate(question.folded):
            if f" {text} " in question_words:
                mentioned.append(index)
        if mentioned and set(mentioned) <= set(question.gold):
            return question.options[mentioned[0]]
        return ""
    for text in question.texts:
        if f" {fold_text(text)} " in question_words:
            return text
    return ""


# --- repetitions -----------------------------------------------------------------------------------------------------

_FILLERS = frozenset(
    "is are was were does do did can what which please shown seen visible depicted displayed here there this that "
    "picture image photo photograph".split()
)
_LOOSE_ENDS = frozenset("in on of".split())


def _repeated(material: CheckMaterial) -> CheckOutcome:
    """Find questions that are asked again about the same image.

    If the answers are the same, the later question is at fault; if the answer of one is a wrong option of the other,
    both are."""
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
    scenes: dict[str, object] = {}
    for sample in material.benchmark.samples():
        images = [material.canonical_images[image.digest] for image in sample.images]
        scenes[sample.id] = (tuple(images), sample.regions, sample.context)
    return scenes


def _gist(question: LintQuestion) -> tuple[str, ...]:
    """Return the words of a question that distinguish it from other questions about the same image, in order.

    Filler words are dropped everywhere, and words such as prepositions at the end.
    """
    words = [word for word in question.question.split() if word not in _FILLERS]
    while words and words[-1] in _LOOSE_ENDS:
        words.pop()
    return tuple(words)


def _right(question: LintQuestion) -> set[str]:
    return {question.folded[place] for place in question.gold} or {
        fold_text(text) for text in question.texts
    }


def _contradict(first: LintQuestion, second: LintQuestion) -> bool:
    """Return whether the correct answer of one question is a wrong option of the same question elsewhere."""
    if first.question != second.question or not (first.gold and second.gold):
        return False
    first_correct = _right(first)
    second_correct = _right(second)
    first_wrong = set(first.folded) - first_correct
    second_wrong = set(second.folded) - second_correct
    return bool(first_correct & second_wrong or second_correct & first_wrong)


# --- cues ------------------------------------------------------------------------------------------------------------

LONG, LONGER = 1.5, 5
"""An option is long if it is this many times as long as each other one and has this many letters more; short
likewise."""


class Cue(Struct, frozen=True):
    """A superficial property that singles out at most one option of a question, such as being the longest."""

    name: str
    odd: Callable[[LintQuestion], int | None]
    """Returns the index of the only option with the property; None if there is none."""


def _odd_length(question: LintQuestion, sign: int) -> int | None:
    """Return the index of an option that is much longer (or shorter) than all others; None if there is none.

    Args:
        question: The question.
        sign: 1 for the longest option, -1 for the shortest.
    """
    lengths = [len(option) or 1 for option in question.options]

    def from_extreme(index: int) -> int:
        return -sign * lengths[index]

    extreme, runner_up = sorted(range(len(lengths)), key=from_extreme)[:2]
    shorter = min(lengths[extreme], lengths[runner_up])
    longer = max(lengths[extreme], lengths[runner_up])
    is_odd = longer >= LONG * shorter and longer - shorter >= LONGER
    return extreme if is_odd else None


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
    """Find questions in which a superficial cue singles out the answer, such as being the longest option.

    A cue is reported only if it points to the answer more often than by luck, and only in as many questions as luck
    does not explain.
    """
    questions = [question for question in material.lint.choices if len(question.options) > 1]
    faults: dict[str, ItemFault] = {}
    details: list[str] = []
    for cue in CUES_LOOKED_AT:
        remaining = [question for question in questions if question.sample_id not in faults]
        hits = _told_by(cue, remaining, material.benchmark.name)
        if hits:
            details.append(f"the answer {cue.name} in {len(hits):,} questions more than by luck")
        for question in hits:
            fault = ItemFault(question.sample_id, f"the answer {cue.name}")
            faults[question.sample_id] = fault
    return CheckOutcome(list(faults.values()), len(questions), detail="; ".join(details))


def _told_by(cue: Cue, questions: Sequence[LintQuestion], name: str) -> list[LintQuestion]:
    """Return questions whose answer a superficial cue gives away, such as being the longest option.

    A cue also points to some answers by luck. The result is therefore empty unless the cue points to the answer
    significantly more often than by luck, and has only as many questions as luck does not explain. Those with the most
    conspicuous answer come first; equal ones are in random order, seeded by the benchmark's name.
    """
    n_with_cue = 0
    hits: list[LintQuestion] = []
    chances: list[float] = []
    for question in questions:
        singled_out = cue.odd(question)
        if singled_out is None:
            continue
        n_with_cue += 1
        chances.append(question.chance)
        if singled_out in question.gold:
            hits.append(question)
    if n_with_cue < LEAST or len(hits) <= sum(chances):
        return []
    if hits_p_value(len(hits), chances) >= UNLIKELY:
        return []

    mean_chance = sum(chances) / len(chances)
    n_more_than_luck = beyond_chance(len(hits), n_with_cue - len(hits), mean_chance)

    def conspicuous_first(question: LintQuestion) -> tuple[float, float]:
        return -_plainness(question), rng_for(name, question.id, "cue", 0).random()

    return sorted(hits, key=conspicuous_first)[:n_more_than_luck]


def _plainness(question: LintQuestion) -> float:
    """Return how much the answer stands out by its length: 1 if another option is as long, 2 if it is twice as long.

    It is the ratio, at least 1, to the wrong option with the most similar length.
    """
    answer_length = len(question.options[question.gold[0]]) or 1
    ratios: list[float] = []
    for index, text in enumerate(question.options):
        if index in question.gold:
            continue
        length = len(text) or 1
        ratios.append(max(answer_length, length) / min(answer_length, length))
    return min(ratios, default=1.0)


OPTIONS_ALIKE = QuestionCheck("two options that say the same", _options_alike)
ANSWER_TOLD = QuestionCheck("a question that names its answer", _answer_told)
REPEATED = QuestionCheck("a question asked before, or the same with another answer", _repeated)
CUES = QuestionCheck(
    "an answer that looks unlike the other options, more often than by luck", _cues
)
