"""Counts of a metric on each question, kept until they are summed over a benchmark."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from snellen.errors import DataError, MissingExtraError
from snellen.extraction.asked_reply import AskedReply
from snellen.metrics.questions import HIDDEN_ANSWER, AskedQuestion, Unscored, why_unanswered
from snellen.reasons import NEVER_ANSWERED, Reason
from snellen.records import Method, Prediction, Score

if TYPE_CHECKING:
    from snellen.metrics.declaration import CorpusCountMetric, SummedMetric

Counts = tuple[float, ...]
"""Numbers that a metric counts on one question; those of several questions are added."""


class QuestionCounts(Struct, frozen=True, gc=False, omit_defaults=True):
    """The counts of one metric on one question. The metric is computed from their sums over all questions.

    If there are no counts, `counts` is empty and `reason` says why.

    Examples:
        >>> counts = QuestionCounts("vanilla", "generation", "animals", "q1", 0, "f1", counts=(1.0, 0.0, 1.0))
        >>> counts.counts
        (1.0, 0.0, 1.0)
    """

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
        """Whether there are no counts because no reply was received."""
        return not self.counts and self.reason in NEVER_ANSWERED

    @property
    def never_asked(self) -> bool:
        """Whether there are no counts because the run is unfinished, which is not an error."""
        return not self.counts and self.reason == "not asked"

    @property
    def absent(self) -> bool:
        """Whether a reply that will never be received was counted as an empty reply."""
        return bool(self.counts) and self.reason in NEVER_ANSWERED


def tally_of(question: AskedQuestion, metric: str, counts: Counts | Unscored) -> QuestionCounts:
    """Return the record of what a metric counted on a question, or of the reason why it counted nothing."""
    if isinstance(counts, Unscored):
        absence: Unscored | None = counts
        counts = ()
    else:
        absence = question.absent
    return QuestionCounts(
        protocol=question.protocol.label,
        method=question.protocol.method,
        benchmark=question.sample.benchmark,
        sample_id=question.sample.id,
        turn=question.number,
        metric=metric,
        counts=counts,
        reason=absence.reason if absence else None,
        detail=absence.detail if absence else "",
    )


def count_questions(
    questions: Sequence[AskedQuestion], name: str, metric: CorpusCountMetric
) -> list[QuestionCounts]:
    """Count each question that a metric applies to.

    A question with several presentations has the mean of their counts.

    Args:
        questions: The questions.
        name: The name that the metric is registered under.
        metric: The metric.
    """
    applicable = [
        question
        for question in questions
        if not question.turn.options or metric.applies(question.turn.options)
    ]
    countable = [question for question in applicable if _why_not_countable(question) is None]
    remaining_counts = iter(_counts_of_questions(countable, metric))
    tallies: list[QuestionCounts] = []
    for question in applicable:
        absence = _why_not_countable(question)
        counts = next(remaining_counts) if absence is None else absence
        tallies.append(tally_of(question, name, counts))
    return tallies


def _why_not_countable(question: AskedQuestion) -> Unscored | None:
    """Return why no metric can count anything on a question, whatever its replies say; None if there is no such reason.

    The reason is that no reply was received, or that the correct answer is not available.
    """
    if not question.answered_unbiased:
        return why_unanswered(question)
    if question.answer is None:
        return HIDDEN_ANSWER
    return None


def _counts_of_questions(
    questions: Sequence[AskedQuestion], metric: CorpusCountMetric
) -> list[Counts | Unscored]:
    """Return the counts of each question, averaged over its presentations, or the reason why it has none.

    The presentations of a question are requests with other templates or orders of options. The first presentations of
    all questions are counted as one corpus, the second ones as another, and so on, so that a caption is never compared
    with its own variants.
    """
    counts_by_question: list[list[Counts | str]] = [[] for _ in questions]
    n_presentations = max((len(question.answered_unbiased) for question in questions), default=0)
    try:
        for presentation in range(n_presentations):
            answered_indexes: list[int] = []
            replies: list[AskedReply] = []
            references: list[Sequence[str]] = []
            for index, question in enumerate(questions):
                if presentation >= len(question.answered_unbiased):
                    continue
                text = _reply_text(question, question.answered_unbiased[presentation])
                answered_indexes.append(index)
                replies.append(AskedReply(text, question.turn.question))
                references.append(question.reference_answers)
            counts_of_replies = metric.count(replies, references)
            for index, counts in zip(answered_indexes, counts_of_replies, strict=True):
                counts_by_question[index].append(counts)
    except (MissingExtraError, DataError) as error:
        return [Unscored("metric undefined", str(error))] * len(questions)
    return [_mean_counts(counts) for counts in counts_by_question]


def _reply_text(question: AskedQuestion, prediction: Prediction) -> str:
    """Return the reply, or the text of the chosen option; empty if no option was extracted."""
    if not question.turn.options:
        return prediction.text or ""
    if prediction.choice is None:
        return ""
    return question.turn.options[prediction.choice]


def _mean_counts(counts_by_presentation: Sequence[Counts | str]) -> Counts | Unscored:
    """Return the mean counts of a question over its presentations, or the first reason why one has none."""
    usable: list[Counts] = []
    for counts in counts_by_presentation:
        if isinstance(counts, str):  # why the metric cannot use a reference
            return Unscored("metric undefined", counts)
        usable.append(counts)
    return tuple(math.fsum(column) / len(usable) for column in zip(*usable, strict=True))


def question_scores(tallies: Sequence[QuestionCounts], metric: SummedMetric) -> Iterator[Score]:
    """Yield the scores of each question in the rows that make sense for a single question."""
    for tally in tallies:
        values: dict[str, float | None] = {}
        if tally.counts:
            values = dict(zip(metric.names, metric.compute(tally.counts), strict=True))
        for row in metric.per_question:
            value = values.get(row)
            reason = tally.reason
            detail = tally.detail
            if value is None and (reason is None or tally.absent):
                # There are counts, but one question alone gives no value, as a ratio over zero.
                reason = "metric undefined"
                detail = "for a single question"
            yield Score(
                protocol=tally.protocol,
                method=tally.method,
                benchmark=tally.benchmark,
                sample_id=tally.sample_id,
                turn=tally.turn,
                metric=row,
                value=value,
                reason=reason,
                detail=detail,
            )
