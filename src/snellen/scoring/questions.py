"""One question under one protocol, as scoring sees it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import get_args

from msgspec import Struct
from msgspec.structs import replace

from snellen.errors import DataError, MissingExtraError
from snellen.extraction.asked_reply import AskedReply
from snellen.metrics.declaration import CorpusCountMetric, Counts, summed_metric
from snellen.protocols.base import Declaration, Protocol, declaration_of
from snellen.reasons import NEVER_ANSWERED, NoMostLikelyReason, Reason
from snellen.records import (
    Answer,
    Method,
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

    Example:
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
    def came(self) -> tuple[Prediction, ...]:
        """The presentations that were answered at all."""
        return tuple(p for p in self.predictions if p.error is None)

    @property
    def unbiased(self) -> tuple[Prediction, ...]:
        """The same without those that the protocol declares biased, such as rotations that an early stop leaves out."""
        is_unbiased = self.declaration.is_unbiased
        return tuple(p for p in self.predictions if p.error is None and is_unbiased(p.variant))

    @property
    def counted(self) -> AskedQuestion:
        """The question as it counts for what is right: with each answer that never will come as one that says nothing.

        So nobody gains by leaving out rows that are wrong, or by requests that fail.
        """
        if not self.final:
            return self
        came, promised = self.came, self.declaration.n_presentations(self.sample)
        if len(came) >= promised:
            return self
        absence, tests = why_unanswered(self), {p.variant.test for p in came}
        absent = (
            Prediction(
                self.protocol.label,
                self.protocol.method,
                self.sample.benchmark,
                self.sample.id,
                Variant(test=test, turn=self.number),
                "",
                reason=absence.reason,
                detail=absence.detail,
            )
            for test in range(promised)
            if test not in tests
        )
        return replace(self, predictions=(*came, *absent), absent=absence)

    @property
    def counted_unbiased(self) -> AskedQuestion:
        """The same for what only the unbiased presentations tell: unchanged where these were all answered."""
        counted = self.counted
        return (
            counted if counted is not self and len(counted.unbiased) > len(self.unbiased) else self
        )

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


# --- metrics of the whole: what they count on each question, kept until it is summed ----------------------------------


class QuestionCounts(Struct, frozen=True, gc=False, omit_defaults=True):
    """What one metric counted on one question, or why nothing could be."""

    protocol: str
    method: Method
    benchmark: str
    sample_id: str
    turn: int
    metric: str
    counts: Counts = ()
    reason: Reason | None = None
    detail: str = ""

    @property
    def never_answered(self) -> bool:
        """Whether nothing was counted because no answer came."""
        return not self.counts and self.reason in NEVER_ANSWERED

    @property
    def never_asked(self) -> bool:
        """Whether that is because the run has not come so far, which is no error."""
        return not self.counts and self.reason == "not asked"

    @property
    def absent(self) -> bool:
        """Whether an answer that never came, and never will, was counted as a reply that says nothing."""
        return bool(self.counts) and self.reason in NEVER_ANSWERED


def count_questions(
    questions: Sequence[AskedQuestion], metric: str, pooled: CorpusCountMetric
) -> list[QuestionCounts]:
    """One a question that the metric applies to; asked several times, a question counts the mean of its counts."""
    fitting = [q for q in questions if not q.turn.options or pooled.applies(q.turn.options)]
    counted = iter(_counts_of(pooled, [q for q in fitting if _why_not_counted(q) is None]))
    return [
        tally_of(question, metric, _why_not_counted(question) or next(counted))
        for question in fitting
    ]


def _why_not_counted(question: AskedQuestion) -> Unscored | None:
    """Why a question cannot be counted whatever was replied."""
    if not question.unbiased:
        return why_unanswered(question)
    return None if question.answer is not None else HIDDEN_ANSWER


def _counts_of(
    pooled: CorpusCountMetric, questions: Sequence[AskedQuestion]
) -> list[Counts | Unscored]:
    """Each presentation is a corpus of its own: a caption is never compared with its own variants."""
    counts_of: list[list[Counts | str]] = [[] for _ in questions]
    try:
        for test in range(max((len(q.unbiased) for q in questions), default=0)):
            places = [i for i, q in enumerate(questions) if test < len(q.unbiased)]
            replies = [
                AskedReply(
                    _reply_of(questions[i], questions[i].unbiased[test]), questions[i].turn.question
                )
                for i in places
            ]
            counted = pooled.count(replies, [questions[i].golds for i in places])
            for i, counts in zip(places, counted, strict=True):
                counts_of[i].append(counts)
    except (MissingExtraError, DataError) as error:
        return [Unscored("metric undefined", str(error))] * len(questions)
    return [_mean_of_counts(presentations) for presentations in counts_of]


def _reply_of(question: AskedQuestion, prediction: Prediction) -> str:
    """The reply as it came, or the text of the option that was chosen; nothing for one that could not be read."""
    if question.turn.options:
        return "" if prediction.choice is None else question.turn.options[prediction.choice]
    return prediction.text or ""


def _mean_of_counts(counts: Sequence[Counts | str]) -> Counts | Unscored:
    usable = []
    for counted in counts:
        if isinstance(counted, str):  # what a metric says of a gold that it cannot use
            return Unscored("metric undefined", counted)
        usable.append(counted)
    return tuple(math.fsum(column) / len(usable) for column in zip(*usable, strict=True))


def tally_of(question: AskedQuestion, metric: str, counted: Counts | Unscored) -> QuestionCounts:
    """What a metric counted on a question, or why it counted nothing."""
    absence = counted if isinstance(counted, Unscored) else question.absent
    protocol = question.protocol
    return QuestionCounts(
        protocol.label,
        protocol.method,
        question.sample.benchmark,
        question.sample.id,
        question.number,
        metric,
        () if isinstance(counted, Unscored) else counted,
        absence.reason if absence else None,
        absence.detail if absence else "",
    )


def own_scores(tallied: Sequence[QuestionCounts]) -> Iterator[Score]:
    """The rows that say something of a single question, for each question."""
    for tally in tallied:
        pooled = summed_metric(tally.metric)
        values = (
            dict(zip(pooled.names, pooled.compute(tally.counts), strict=True))
            if tally.counts
            else {}
        )
        for row in pooled.per_question:
            value = values.get(row)
            reason, detail = tally.reason, tally.detail
            if value is None and (reason is None or tally.absent):
                reason, detail = "metric undefined", "for a single question"
            yield Score(
                tally.protocol,
                tally.method,
                tally.benchmark,
                tally.sample_id,
                tally.turn,
                row,
                value,
                reason,
                detail,
            )
