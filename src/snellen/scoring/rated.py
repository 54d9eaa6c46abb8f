"""Ratings by people as scores: what `snellen rate give` wrote beside a run's journals.

ratings.json    of each rated reply the means over raters
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import ClassVar

import msgspec
from msgspec import Struct

from snellen.errors import StoreError
from snellen.metrics.declaration import Metric, MetricInput
from snellen.records import Score
from snellen.scoring.questions import AskedQuestion, Unscored, why_unanswered

RATINGS = "ratings.json"


class RunRatings(Struct, frozen=True):
    """What people gave the replies of a run."""

    study: str
    raters: int
    means: dict[str, dict[str, float]]
    """By `rated_question`, then by dimension and overall of the study; high is good."""


class RatedMetric(Metric, frozen=True, kw_only=True):
    """What people gave replies in a study: a row for each of its overall means and dimensions."""

    computed_over: ClassVar[MetricInput] = "ratings"
    study: str
    columns: tuple[str, ...]
    """What the study calls each row."""


def rated_question(benchmark: str, sample_id: str, turn: int) -> str:
    """The name of a question among those that are rated."""
    return f"{benchmark} {sample_id}{f' round {turn + 1}' if turn else ''}"


def read_run_ratings(run: Path) -> RunRatings | None:
    """The ratings of a run; None where it was given none. Raises StoreError for a damaged file."""
    path = run / RATINGS
    try:
        return msgspec.json.decode(path.read_bytes(), type=RunRatings)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.DecodeError) as error:
        raise StoreError(f"{path}: not the ratings of a run ({error}); `snellen rate give` writes them again") from None


def score_ratings(
    questions: Sequence[AskedQuestion], metric: RatedMetric, ratings: RunRatings | None
) -> Iterator[Score]:
    """The scores of open questions in a study; none of a question whose reply nobody rated."""
    means = ratings.means if ratings and ratings.study == metric.study else {}
    for row, column in zip(metric.rows, metric.columns, strict=True):
        for question in questions:
            rated = means.get(rated_question(question.sample.benchmark, question.sample.id, question.number), {})
            if not question.came:
                yield question.score(row.name, why_unanswered(question))
            elif column in rated:
                yield question.score(row.name, row.check(rated[column]))
            else:
                yield question.score(row.name, Unscored("not rated", f"snellen rate form --study {metric.study}"))
