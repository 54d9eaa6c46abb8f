"""Score open questions: a value for each row of a metric, the mean over the presentations of a question."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from numbers import Real
from typing import TYPE_CHECKING

from snellen.errors import DataError, HookError, MissingExtraError, SnellenError
from snellen.extraction.asked_reply import AskedReply
from snellen.metrics.questions import (
    HIDDEN_ANSWER,
    AskedQuestion,
    Unscored,
    Value,
    why_unanswered,
)
from snellen.reasons import NEVER_ANSWERED
from snellen.records import Prediction, Score

if TYPE_CHECKING:
    from snellen.metrics.declaration import CorpusMetric, MetricRow, ReplyMetric

MeasureQuestions = Callable[[Sequence[AskedQuestion]], Mapping[str, Sequence[Value]]]
"""Function of questions with a reply and an answer that returns, for each row, a value per question."""


def open_questions(questions: Sequence[AskedQuestion]) -> list[AskedQuestion]:
    """Return the questions without options."""
    return [question for question in questions if not question.turn.options]


def score_open_questions(
    questions: Sequence[AskedQuestion], rows: Sequence[MetricRow], measure: MeasureQuestions
) -> Iterator[Score]:
    """Yield the scores of open questions, row by row.

    Args:
        questions: The questions, with or without replies and answers.
        rows: The rows of the metric.
        measure: Computes the values. Called once, and only if a question has both a reply and an answer.

    Raises:
        DataError: A value is outside the declared bounds of its row.
    """
    measurable = [
        question for question in questions if question.answered and question.answer is not None
    ]
    values_by_row = measure(measurable) if measurable else {}
    for row in rows:
        values = iter(values_by_row.get(row.name, ()))
        for question in questions:
            if question.answer is None:
                absence = HIDDEN_ANSWER if question.answered else why_unanswered(question)
                yield question.score(row.name, absence)
            elif not question.answered:
                yield _score_unanswered(question, row)
            # A measure may leave a row out, which then has no scores.
            elif row.name in values_by_row:
                value = next(values)
                if not isinstance(value, Unscored):
                    value = row.check(value, question.label)
                yield question.score(row.name, value, len(question.answered))


def _score_unanswered(question: AskedQuestion, row: MetricRow) -> Score:
    """Return the score of an open question without a reply.

    If the reply will never be received and the row has a lower bound, the question counts with the worst value, which
    is the lower bound. There is none if lower is better. In all other cases the score has the reason in place of a
    value.
    """
    absence = why_unanswered(question)
    if not question.final or row.low is None:
        return question.score(row.name, absence)
    worst = row.low if row.better == "higher" else absence
    return question.missing_as_wrong.score(row.name, worst)


# --- one reply at a time -----------------------------------------------------------------------------------------


def reply_values(questions: Sequence[AskedQuestion], metric: ReplyMetric) -> list[Value]:
    """Return the mean value of a metric over the presentations of each question.

    Raises:
        HookError: The metric raised an exception or returned something other than a number.
    """
    values: list[Value] = []
    for question in questions:
        try:
            values.append(_mean_over_replies(question, metric))
        except DataError as error:  # the metric cannot use a reference
            values.append(Unscored("metric undefined", str(error)))
        except SnellenError:
            raise
        except Exception as error:  # foreign code may raise anything
            raise HookError(f"the metric {metric.names[0]}, on {question.label}", error) from error
    return values


def _mean_over_replies(question: AskedQuestion, metric: ReplyMetric) -> float:
    """Return the mean value of the replies to a question."""
    references = question.reference_answers
    if metric.references == "candidates":
        references = question.candidates
    values: list[float] = []
    for prediction in question.answered:
        values.append(_reply_value(prediction, question.turn.question, references, metric))
    return _mean(values)


def _reply_value(
    prediction: Prediction, question_text: str, references: Sequence[str], metric: ReplyMetric
) -> float:
    """Return the value of a metric for one reply. Raises TypeError if the metric returns no number."""
    # A lenient rule may accept an empty text, so a reply that was never received has the worst value.
    row = metric.rows[0]
    worst = row.low if row.better == "higher" else row.high
    if prediction.reason in NEVER_ANSWERED and worst is not None:
        return worst
    reply = AskedReply(prediction.text or "", question_text, prediction.verdict)
    value = metric.measure(reply, references)
    if hasattr(value, "item"):  # a number or truth value of numpy or torch
        value = value.item()
    if not isinstance(value, Real):
        raise TypeError(f"{value!r} is not a number")
    return float(value)


# --- all replies at once -----------------------------------------------------------------------------------------


def corpus_values(questions: Sequence[AskedQuestion], metric: CorpusMetric) -> list[Value]:
    """Return the mean value of a metric over the presentations of each question.

    Each presentation is a corpus of its own: a caption is never compared with its own variants.
    """
    values_by_question: list[list[float]] = [[] for _ in questions]
    presentations = max(len(question.answered) for question in questions)
    try:
        for presentation in range(presentations):
            indexes = [
                index
                for index, question in enumerate(questions)
                if presentation < len(question.answered)
            ]
            replies = [questions[index].answered[presentation].text or "" for index in indexes]
            references = [questions[index].reference_answers for index in indexes]
            corpus = metric.measure(replies, references)
            mean = _mean(corpus.per_caption)
            if not math.isclose(corpus.value, mean, rel_tol=1e-6, abs_tol=1e-9):
                raise DataError(
                    f"{metric.names[0]} is not a mean over captions; declare it as a CorpusCountMetric"
                )
            for index, value in zip(indexes, corpus.per_caption, strict=True):
                values_by_question[index].append(value)
    except (MissingExtraError, DataError) as error:
        return [Unscored("metric undefined", str(error))] * len(questions)
    return [_mean(values) for values in values_by_question]


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
