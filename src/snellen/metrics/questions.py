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
    """Why a metric gives a question no value.

    Examples:
        >>> Unscored("hidden", "the test split has no answers").reason
        'hidden'
    """

    reason: Reason
    detail: str = ""


Value = float | Unscored
"""The value of a metric on a question, or why it has none."""


class AnswerSequence(Struct, frozen=True, gc=False):
    """How many answers to one question, asked one after the other, are behind a value.

    For example, a verdict over four rotations of the options that the second reply decides needs two answers. If a
    request failed, it is the number of answers that were received before.
    """

    steps: int = 0
    """Number of answers in a row."""
    broken: bool = False
    """Whether the next answer was needed and is missing."""


AT_ONCE = AnswerSequence()
"""For values that do not need several answers in a row."""


def question_label(benchmark: str, sample_id: str, number: int) -> str:
    """Name a question by its benchmark, its sample and, after the first, its round (`number` counts from 0).

    Examples:
        >>> question_label("eyechart/colour", "q7", 0), question_label("visdial", "q7", 2)
        ('eyechart/colour q7', 'visdial q7 round 3')
    """
    return f"{benchmark} {sample_id}{f' round {number + 1}' if number else ''}"


class AskedQuestion(Struct, frozen=True, gc=False):
    """One question under one protocol, with its answer and the predictions of its presentations."""

    protocol: Protocol
    sample: Sample
    number: int
    answer: Answer | None
    predictions: tuple[Prediction, ...]
    before: AnswerSequence = AT_ONCE
    """Answers that were needed before this question: earlier rounds of a dialogue, or steps of a protocol."""
    final: bool = False
    """Whether missing replies will never come, as in a run made by another program. They count as wrong."""
    absent: Unscored | None = None
    """Why replies are missing that are among the predictions as empty texts (see `missing_as_wrong`)."""

    @property
    def declaration(self) -> Declaration:
        return declaration_of(self.protocol)

    @property
    def turn(self) -> Turn:
        return self.sample.rounds[self.number]

    @property
    def label(self) -> str:
        """The name of the question in messages: benchmark, sample and, in a dialogue, the round."""
        return question_label(self.sample.benchmark, self.sample.id, self.number)

    @property
    def answered(self) -> tuple[Prediction, ...]:
        """Presentations that received a reply."""
        return tuple(prediction for prediction in self.predictions if prediction.error is None)

    @property
    def answered_unbiased(self) -> tuple[Prediction, ...]:
        """Answered presentations that count towards the vanilla accuracy.

        A protocol may stop asking a question depending on the replies. Its later presentations then show only a
        selection of the questions, such as those answered correctly so far, and are left out here.
        """
        is_unbiased = self.declaration.is_unbiased
        return tuple(prediction for prediction in self.answered if is_unbiased(prediction.variant))

    @property
    def missing_as_wrong(self) -> AskedQuestion:
        """The question, with an empty prediction for each presentation that will never be answered.

        Metrics count an empty prediction as wrong, so that a model does not score higher if requests fail or rows are
        left out. The question is unchanged if the run may still receive replies, or if nothing is missing.
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
                protocol=self.protocol.label,
                method=self.protocol.method,
                benchmark=self.sample.benchmark,
                sample_id=self.sample.id,
                variant=Variant(test=test, turn=self.number),
                key="",
                reason=absence.reason,
                detail=absence.detail,
            )
            predictions.append(missing)
        return replace(self, predictions=tuple(predictions), absent=absence)

    @property
    def missing_unbiased_as_wrong(self) -> AskedQuestion:
        """Like `missing_as_wrong`, but unchanged if no presentation of `answered_unbiased` is missing."""
        completed = self.missing_as_wrong
        if len(completed.answered_unbiased) > len(self.answered_unbiased):
            return completed
        return self

    @property
    def reference_answers(self) -> tuple[str, ...]:
        """The accepted answers of an open question, or the texts of the correct options."""
        if self.answer is None:
            return ()
        return tuple(self.turn.options[i] for i in self.answer.options) or self.answer.texts

    @property
    def candidates(self) -> tuple[str, ...]:
        """All published answers to an open question, also wrong ones; `reference_answers` if there are none."""
        if self.answer is None:
            return ()
        return self.answer.candidates or self.reference_answers

    def score(
        self,
        metric: str,
        value: Value,
        n_presentations: int = 1,
        row: AnswerSequence | None = None,
        doubt: ReadingDoubt | None = None,
    ) -> Score:
        """Return the score record of a value, or of the reason why there is none.

        A value that is not finite cannot be stored; the record has a reason instead.

        Args:
            metric: Name of the row.
            value: The value or the reason.
            n_presentations: Number of presentations behind the value.
            row: The answers in a row that the value needs; by default those before the question.
            doubt: Possible values under other readings of the replies.
        """
        if not isinstance(value, Unscored) and not math.isfinite(value):
            value = Unscored("metric undefined", f"{value} is not a finite number")
        absence = value if isinstance(value, Unscored) else self.absent
        row = row or self.before
        return Score(
            protocol=self.protocol.label,
            method=self.protocol.method,
            benchmark=self.sample.benchmark,
            sample_id=self.sample.id,
            turn=self.number,
            metric=metric,
            value=None if isinstance(value, Unscored) else value,
            reason=absence.reason if absence else None,
            detail=absence.detail if absence else "",
            n_presentations=n_presentations,
            steps=row.steps,
            broken=row.broken,
            doubt=None if isinstance(value, Unscored) else doubt,
        )


HIDDEN_ANSWER = Unscored("hidden answer")
NOT_ASKED = Unscored("not asked")
NOT_ROTATED = Unscored("not rotated")
UNPARSED = Unscored("unparsed")
_REPORTED_REASONS: frozenset[Reason] = frozenset({"refused", *get_args(NoMostLikelyReason)})
"""Reasons for a missing choice that are reported as they are, and not as `unparsed`."""


def has_baseline(prediction: Prediction) -> bool:
    """Return whether a prediction by likelihood has its baseline, if the protocol uses baselines.

    A baseline is the same request without the image, whose scores are subtracted. If it failed, no option is chosen.
    """
    return prediction.reason != "no baseline"


def why_unanswered(question: AskedQuestion) -> Unscored:
    """Return why a question has no answered presentation: a failed request, a missing baseline, or none sent yet."""
    for prediction in question.predictions:
        if prediction.error:
            return Unscored("request failed", prediction.error.kind)
    if all(map(has_baseline, question.predictions)):
        return NOT_ASKED
    return Unscored("no baseline")


def why_unparsed(predictions: Sequence[Prediction]) -> Unscored:
    """Return why no option could be read in the replies to a question.

    If all these replies have the same reason, and it is a refusal or concerns likelihoods, this reason is returned. In
    all other cases it is `unparsed`.
    """
    reasons = {prediction.reason for prediction in predictions if prediction.choice is None}
    if len(reasons) == 1:
        [reason] = reasons
        if reason is not None and reason in _REPORTED_REASONS:
            return Unscored(reason)
    return UNPARSED
