"""One question under one protocol, as scoring sees it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import get_args

from msgspec import Struct
from msgspec.structs import replace

from snellen.protocols.base import Declaration, Protocol, declaration_of
from snellen.reasons import NoMostLikelyReason, Reason
from snellen.records import (
    Answer,
    Prediction,
    ReadingDoubt,
    Sample,
    Score,
    Turn,
    Variant,
)


class Unscored(Struct, frozen=True):
    """Why a metric gives a question no value."""

    reason: Reason
    detail: str = ""


Value = float | Unscored
"""What a metric made of a question, or why it could not."""


class AnswersInARow(Struct, frozen=True, gc=False):
    """How many answers came, one after the other, that a value takes; or came before the first that did not."""

    steps: int = 0
    broken: bool = False


AT_ONCE = AnswersInARow()
"""Of a value that takes no more answers than any other."""


def question_place(benchmark: str, sample_id: str, number: int) -> str:
    """Name a question by its benchmark, its sample and, after the first, its round (`number` counts from 0).

    Examples:
        >>> question_place("eyechart/colour", "q7", 0), question_place("visdial", "q7", 2)
        ('eyechart/colour q7', 'visdial q7 round 3')
    """
    return f"{benchmark} {sample_id}{f' round {number + 1}' if number else ''}"


class AskedQuestion(Struct, frozen=True, gc=False):
    """One question under one protocol, with its gold and what was predicted, by presentation."""

    protocol: Protocol
    sample: Sample
    number: int
    answer: Answer | None
    predictions: tuple[Prediction, ...]
    before: AnswersInARow = AT_ONCE
    """Answers that had to come before the question was asked: rounds of a dialogue, steps of a talk."""
    final: bool = False
    """Whether what has not come never will, as in a run made elsewhere: it counts as not right."""
    absent: Unscored | None = None
    """Why answers never came that are among the predictions as replies that say nothing."""

    @property
    def declaration(self) -> Declaration:
        return declaration_of(self.protocol)

    @property
    def turn(self) -> Turn:
        return self.sample.rounds[self.number]

    @property
    def place(self) -> str:
        """The question's name in messages."""
        return question_place(self.sample.benchmark, self.sample.id, self.number)

    @property
    def answered(self) -> tuple[Prediction, ...]:
        """Presentations that received a reply."""
        return tuple(prediction for prediction in self.predictions if prediction.error is None)

    @property
    def answered_unbiased(self) -> tuple[Prediction, ...]:
        """Answered presentations, without those that an early stop selects by outcome."""
        is_unbiased = self.declaration.is_unbiased
        return tuple(prediction for prediction in self.answered if is_unbiased(prediction.variant))

    @property
    def missing_as_wrong(self) -> AskedQuestion:
        """The question, with an empty prediction for each presentation that will never be answered.

        So neither omitted rows nor failed requests raise a score.
        """
        if not self.final:
            return self
        answered = self.answered
        presentations = self.declaration.n_presentations(self.sample)
        if len(answered) >= presentations:
            return self

        absence = why_unanswered(self)
        answered_tests = {prediction.variant.test for prediction in answered}
        predictions = list(answered)
        for test in range(presentations):
            if test in answered_tests:
                continue
            missing = Prediction(
                self.protocol.label,
                self.protocol.method,
                self.sample.benchmark,
                self.sample.id,
                Variant(test=test, turn=self.number),
                "",
                reason=absence.reason,
                detail=absence.detail,
            )
            predictions.append(missing)
        return replace(self, predictions=tuple(predictions), absent=absence)

    @property
    def missing_unbiased_as_wrong(self) -> AskedQuestion:
        """Like `missing_as_wrong`, but unchanged if all unbiased presentations were answered."""
        completed = self.missing_as_wrong
        if len(completed.answered_unbiased) > len(self.answered_unbiased):
            return completed
        return self

    @property
    def golds(self) -> tuple[str, ...]:
        """The reference texts of an open question, the texts of the right options of another."""
        if self.answer is None:
            return ()
        return tuple(self.turn.options[i] for i in self.answer.options) or self.answer.texts

    @property
    def candidates(self) -> tuple[str, ...]:
        """The answers published beside an open question; its reference texts where there are no others."""
        return (self.answer.candidates if self.answer else ()) or self.golds

    def score(
        self,
        metric: str,
        value: Value,
        n_presentations: int = 1,
        row: AnswersInARow | None = None,
        doubt: ReadingDoubt | None = None,
    ) -> Score:
        """The record of a value, or of why there is none; `row` where it takes answers in a row itself.

        A value that is not finite cannot be kept, and counts as absent."""
        if not isinstance(value, Unscored) and not math.isfinite(value):
            value = Unscored("metric undefined", f"{value} is not a finite number")
        absence, row = value if isinstance(value, Unscored) else self.absent, row or self.before
        return Score(
            self.protocol.label,
            self.protocol.method,
            self.sample.benchmark,
            self.sample.id,
            self.number,
            metric,
            None if isinstance(value, Unscored) else value,
            absence.reason if absence else None,
            absence.detail if absence else "",
            n_presentations,
            row.steps,
            row.broken,
            None if isinstance(value, Unscored) else doubt,
        )


HIDDEN_ANSWER = Unscored("hidden answer")
NOT_ASKED = Unscored("not asked")
NOT_ROTATED = Unscored("not rotated")
UNPARSED = Unscored("unparsed")
_TOLD_AS_THEY_ARE: frozenset[Reason] = frozenset({"refused", *get_args(NoMostLikelyReason)})


def has_baseline(prediction: Prediction) -> bool:
    """Without its baseline a likelihood says nothing: that request failed, and no reply was unparsed."""
    return prediction.reason != "no baseline"


def why_unanswered(question: AskedQuestion) -> Unscored:
    """Why no presentation of a question was answered."""
    first = next((p.error for p in question.predictions if p.error), None)
    if first:
        return Unscored("request failed", first.kind)
    return NOT_ASKED if all(map(has_baseline, question.predictions)) else Unscored("no baseline")


def why_unparsed(predictions: Sequence[Prediction]) -> Unscored:
    """Why answered presentations have no choice: the reason of all of them where that is a refusal or one of
    likelihoods, else that they could not be parsed."""
    reasons = {p.reason for p in predictions if p.choice is None}
    common = next(iter(reasons)) if len(reasons) == 1 else None
    return Unscored(common) if common in _TOLD_AS_THEY_ARE and common is not None else UNPARSED
