"""Apply the corrections of a list of errata to the answers of a benchmark."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from snellen.catalogue.errata import Correction, Errata
from snellen.records import Answer, Sample
from snellen.scoring.answers import Key

Outcome = Literal["corrected", "right already", "another answer"]
"""Outcome of a correction: the answer was replaced, was already the new one, or is neither the old nor the new one."""


class AppliedCorrection(Struct, frozen=True):
    """A correction of a wrong answer, and whether it replaced the answer of a built benchmark."""

    correction: Correction
    outcome: Outcome


class CorrectedAnswers(Mapping[Key, Answer]):
    """The answers of a benchmark, in which some answers are replaced by corrected ones. The original is not changed."""

    def __init__(self, answers: Mapping[Key, Answer], corrected: Mapping[Key, Answer]) -> None:
        self._answers = answers
        self._corrected = corrected

    def __getitem__(self, key: Key) -> Answer:
        corrected = self._corrected.get(key)
        return self._answers[key] if corrected is None else corrected

    def __iter__(self) -> Iterator[Key]:
        return iter(self._answers)

    def __len__(self) -> int:
        return len(self._answers)


def corrected_answers(
    errata: Errata | None, samples: Iterable[Sample], answers: Mapping[Key, Answer]
) -> tuple[Mapping[Key, Answer], tuple[AppliedCorrection, ...]]:
    """Replace the answers that a list of errata corrects, for questions with one round.

    An answer stays unchanged if it is not the old answer in the list. Corrections of other samples are ignored.

    Args:
        errata: The list of the benchmark, if there is one.
        samples: The questions.
        answers: Their answers.

    Returns:
        The answers, and the outcome of each correction whose question is among the samples.
    """
    if errata is None:
        return answers, ()
    corrected_ids = {correction.question for correction in errata.corrections}
    sample_by_id = {sample.id: sample for sample in samples if sample.id in corrected_ids}
    corrected: dict[Key, Answer] = {}
    applied: list[AppliedCorrection] = []
    for correction in errata.corrections:
        key = (correction.question, 0)
        sample = sample_by_id.get(correction.question)
        if sample is None or key not in answers:
            continue
        answer = answers[key]
        new_answer = _with_new_answer(correction, sample, answer)
        outcome: Outcome
        if new_answer is not None:
            outcome = "corrected"
            corrected[key] = new_answer
        elif _is_only_answer(correction.new, sample, answer):
            outcome = "right already"
        else:
            outcome = "another answer"
        applied.append(AppliedCorrection(correction, outcome))
    return CorrectedAnswers(answers, corrected), tuple(applied)


def _with_new_answer(correction: Correction, sample: Sample, answer: Answer) -> Answer | None:
    """Apply a correction from a list of errata to the answer of a sample.

    Returns:
        The corrected answer. None if the correction does not fit: it names another old answer, or its new answer is not
        exactly one of the options.
    """
    if not _is_only_answer(correction.old, sample, answer):
        return None
    if not sample.options:
        return replace(answer, texts=(correction.new,))
    matches: list[int] = []
    for index, option in enumerate(sample.options):
        if _equal_texts(option, correction.new):
            matches.append(index)
    if len(matches) != 1:
        return None
    return replace(answer, options=(matches[0],))


def _is_only_answer(text: str, sample: Sample, answer: Answer) -> bool:
    """Return whether a text is the only correct option, or the first answer of an open question."""
    if sample.options:
        return len(answer.options) == 1 and _equal_texts(sample.options[answer.options[0]], text)
    return bool(answer.texts) and _equal_texts(answer.texts[0], text)


def _equal_texts(first: str, second: str) -> bool:
    """Compare two texts without case, surrounding blanks and final full stops."""
    return first.strip().rstrip(".").casefold() == second.strip().rstrip(".").casefold()
