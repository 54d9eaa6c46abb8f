"""Metrics of the whole (`snellen.metrics.corpus`): what they count on each question, kept until it is summed."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from msgspec import Struct

from snellen.errors import DataError, MissingExtraError
from snellen.metrics.summed import CorpusCountMetric, Counts, summed_metric
from snellen.reasons import NEVER_ANSWERED, Reason
from snellen.records import Method, Prediction, Score
from snellen.scoring.questions import HIDDEN_ANSWER, AskedQuestion, Unscored, why_unanswered


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
    def absent(self) -> bool:
        """Whether an answer that never came, and never will, was counted as a reply that says nothing."""
        return bool(self.counts) and self.reason in NEVER_ANSWERED


def count_questions(questions: Sequence[AskedQuestion], metric: str, pooled: CorpusCountMetric) -> list[QuestionCounts]:
    """One a question that the metric applies to; asked several times, a question counts the mean of its counts."""
    fitting = [q for q in questions if not q.turn.options or pooled.applies(q.turn.options)]
    counted = iter(_count(pooled, [q for q in fitting if _reason(q) is None]))
    return [tally_of(question, metric, _reason(question) or next(counted)) for question in fitting]


def _reason(question: AskedQuestion) -> Unscored | None:
    """Why a question cannot be counted whatever was replied."""
    if not question.unbiased:
        return why_unanswered(question)
    return None if question.answer is not None else HIDDEN_ANSWER


def _count(pooled: CorpusCountMetric, questions: Sequence[AskedQuestion]) -> list[Counts | Unscored]:
    """Each presentation is a corpus of its own: a caption is never compared with its own variants."""
    counts_of: list[list[Counts | str]] = [[] for _ in questions]
    try:
        for test in range(max((len(q.unbiased) for q in questions), default=0)):
            places = [i for i, q in enumerate(questions) if test < len(q.unbiased)]
            replies = [_reply(questions[i], questions[i].unbiased[test]) for i in places]
            counted = pooled.count(replies, [questions[i].golds for i in places])
            for i, counts in zip(places, counted, strict=True):
                counts_of[i].append(counts)
    except (MissingExtraError, DataError) as error:
        return [Unscored("metric undefined", str(error))] * len(questions)
    return [_corpus_mean(presentations) for presentations in counts_of]


def _reply(question: AskedQuestion, prediction: Prediction) -> str:
    """The reply as it came, or the text of the option that was chosen; nothing for one that could not be read."""
    if question.turn.options:
        return "" if prediction.choice is None else question.turn.options[prediction.choice]
    return prediction.text or ""


def _corpus_mean(counts: Sequence[Counts | str]) -> Counts | Unscored:
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
        protocol.label, protocol.method, question.sample.benchmark, question.sample.id, question.number, metric,
        () if isinstance(counted, Unscored) else counted, absence.reason if absence else None,
        absence.detail if absence else "",
    )  # fmt: skip


def own_scores(tallied: Sequence[QuestionCounts]) -> Iterator[Score]:
    """The rows that say something of a single question, for each question."""
    for tally in tallied:
        pooled = summed_metric(tally.metric)
        values = dict(zip(pooled.names, pooled.compute(tally.counts), strict=True)) if tally.counts else {}
        for row in pooled.per_question:
            value = values.get(row)
            reason, detail = tally.reason, tally.detail
            if value is None and (reason is None or tally.absent):
                reason, detail = "metric undefined", "for a single question"
            yield Score(
                tally.protocol, tally.method, tally.benchmark, tally.sample_id, tally.turn, row, value, reason, detail
            )
