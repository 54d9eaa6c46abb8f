"""Scores of open questions: metrics of replies, of the whole corpus, of judges, and ratings by people.

ratings.json    of each rated reply the means over raters, beside a run's journals
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from numbers import Real
from pathlib import Path
from typing import ClassVar

import msgspec
from msgspec import Struct

from snellen.common.foreign import TABLE_BYTES, read_file
from snellen.errors import DataError, HookError, MissingExtraError, SnellenError, StoreError
from snellen.extraction.asked_reply import AskedReply
from snellen.formats.whole_files import write_atomically
from snellen.metrics.declaration import CorpusMetric, Metric, MetricInput, ReplyMetric, find_metric
from snellen.reasons import NEVER_ANSWERED
from snellen.records import Prediction, Score
from snellen.scoring.judged_metrics import JudgedMetric
from snellen.scoring.judges import JudgeEnsemble
from snellen.scoring.questions import HIDDEN_ANSWER, AskedQuestion, Unscored, Value, why_unanswered

DEFAULT_TEXT_METRICS = ("exact_match", "word_accuracy")
"""The metrics of open questions of a benchmark that names none."""
TextMetric = ReplyMetric | CorpusMetric | JudgedMetric


def score_texts(
    questions: Sequence[AskedQuestion], metric: TextMetric, panel: JudgeEnsemble | None = None
) -> Iterator[Score]:
    """One metric of open questions; with several presentations a question's value is their mean.

    A judged metric gives several rows (the mean mark, the share at each mark), and none is scored without a
    panel. Raises DataError for a value out of the metric's declared bounds, and what the panel raises.
    """
    if not isinstance(metric, JudgedMetric):  # nobody is asked about answers that never came
        questions = [question.counted for question in questions]
    ready = [q for q in questions if q.came and q.answer is not None]
    measured = _measure(ready, metric, panel) if ready else {}
    for row in metric.rows:
        values = iter(measured.get(row.name, ()))
        for question in questions:
            if (
                question.answer is not None
                and not question.came
                and question.final
                and row.low is not None
            ):
                yield question.counted.score(
                    row.name, row.low if row.better == "higher" else why_unanswered(question)
                )
            elif not question.came or question.answer is None:
                yield question.score(
                    row.name, HIDDEN_ANSWER if question.came else why_unanswered(question)
                )
            elif row.name in measured:
                value = next(values)
                checked = value if isinstance(value, Unscored) else row.check(value, question.place)
                yield question.score(row.name, checked, len(question.came))


def metric_row_names(metric: str) -> tuple[str, ...]:
    """Names of the rows of a metric, its headline first. Raises UnknownNameError."""
    return find_metric(metric).names


def _measure(
    ready: Sequence[AskedQuestion], metric: TextMetric, panel: JudgeEnsemble | None
) -> dict[str, list[Value]]:
    if isinstance(metric, CorpusMetric):
        return {metric.names[0]: _corpus_values(ready, metric)}
    if isinstance(metric, ReplyMetric):
        return {metric.names[0]: _values(ready, metric)}
    if panel is None:
        return {
            name: [Unscored("no judge", "score with --judge MODEL")] * len(ready)
            for name in metric.names
        }
    return metric.measure(ready, panel)


def _values(questions: Sequence[AskedQuestion], metric: ReplyMetric) -> list[Value]:
    def value(question: AskedQuestion) -> Value:
        try:
            references = getattr(question, metric.references)
            return _mean(
                [
                    _value(metric, prediction, references, question.turn.question)
                    for prediction in question.came
                ]
            )
        except DataError as error:  # a gold that this metric cannot use: unscored, and said so
            return Unscored("metric undefined", str(error))
        except SnellenError:
            raise
        except Exception as error:  # a metric of others: anything may be raised
            raise HookError(f"the metric {metric.names[0]}, on {question.place}", error) from error

    return [value(question) for question in questions]


def _value(
    metric: ReplyMetric, prediction: Prediction, references: Sequence[str], asked: str
) -> float:
    """Of an answer that never came the worst value: a lenient rule may find that a text that says nothing is right."""
    row = metric.rows[0]
    worst = row.low if row.better == "higher" else row.high
    if prediction.reason in NEVER_ANSWERED and worst is not None:
        return worst
    value = metric.measure(AskedReply(prediction.text or "", asked), references)
    if not isinstance(value, Real):
        raise TypeError(f"{value!r} is not a number")
    return float(value)


def _corpus_values(questions: Sequence[AskedQuestion], metric: CorpusMetric) -> list[Value]:
    try:
        return list(_corpus_means(questions, metric))
    except (MissingExtraError, DataError) as error:
        return [Unscored("metric undefined", str(error))] * len(questions)


def _corpus_means(questions: Sequence[AskedQuestion], metric: CorpusMetric) -> list[float]:
    """Each presentation is a corpus of its own: a caption is never compared with its own variants."""
    values: list[list[float]] = [[] for _ in questions]
    for test in range(max(len(q.came) for q in questions)):
        places = [i for i, q in enumerate(questions) if test < len(q.came)]
        replies = [questions[i].came[test].text or "" for i in places]
        corpus = metric.measure(replies, [questions[i].golds for i in places])
        if not math.isclose(corpus.value, _mean(corpus.per_caption), rel_tol=1e-6, abs_tol=1e-9):
            raise DataError(
                f"{metric.names[0]} is not a mean over captions; declare it as a CorpusCountMetric"
            )
        for i, value in zip(places, corpus.per_caption, strict=True):
            values[i].append(value)
    return [_mean(of_question) for of_question in values]


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


# --- ratings by people: what `snellen rate give` wrote beside a run's journals ----------------------------------------


RATINGS = "ratings.json"


class RunRatings(Struct, frozen=True):
    """What people gave the replies of a run."""

    study: str
    raters: int
    means: dict[str, dict[str, float]]
    """By `question_place`, then by dimension and overall of the study; high is good."""


class RatedMetric(Metric, frozen=True, kw_only=True):
    """What people gave replies in a study: a row for each of its overall means and dimensions."""

    computed_over: ClassVar[MetricInput] = "ratings"
    study: str
    columns: tuple[str, ...]
    """What the study calls each row."""


def read_run_ratings(run: Path) -> RunRatings | None:
    """The ratings of a run; None where it was given none. Raises StoreError for a damaged file."""
    path = run / RATINGS
    try:
        return msgspec.json.decode(read_file(path, TABLE_BYTES), type=RunRatings)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.DecodeError) as error:
        raise StoreError(
            f"{path}: not the ratings of a run ({error}); `snellen rate give` writes them again"
        ) from None


def write_run_ratings(run: Path, ratings: RunRatings) -> None:
    """Write what people gave the replies of a run into its folder; they count when it is scored the next time."""
    write_atomically(run / RATINGS, msgspec.json.encode(ratings))


def score_ratings(
    questions: Sequence[AskedQuestion], metric: RatedMetric, ratings: RunRatings | None
) -> Iterator[Score]:
    """The scores of open questions in a study; none of a question whose reply nobody rated."""
    means = ratings.means if ratings and ratings.study == metric.study else {}
    for row, column in zip(metric.rows, metric.columns, strict=True):
        for question in questions:
            rated = means.get(question.place, {})
            if not question.came:
                yield question.score(row.name, why_unanswered(question))
            elif column in rated:
                yield question.score(row.name, row.check(rated[column], question.place))
            else:
                yield question.score(
                    row.name, Unscored("not rated", f"snellen rate form --study {metric.study}")
                )
