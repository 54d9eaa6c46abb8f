"""Ratings by people as a metric.

ratings.json    mean ratings of the replies of a run, next to its journals
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import ClassVar

import msgspec
from msgspec import Struct

from snellen.common.foreign import TABLE_BYTES, read_file
from snellen.errors import StoreError
from snellen.formats.whole_files import write_atomically
from snellen.metrics.declaration import Metric, MetricInput
from snellen.metrics.open_questions import open_questions
from snellen.metrics.questions import AskedQuestion, Unscored, why_unanswered
from snellen.metrics.scoring_context import MetricScores, ScoringContext
from snellen.records import Score

RATINGS = "ratings.json"


class RunRatings(Struct, frozen=True):
    """The mean ratings that people gave to the replies of a run in a study.

    Examples:
        >>> RunRatings("motion", raters=3, means={"q1": {"accuracy": 4.5}}).raters
        3
    """

    study: str
    raters: int
    means: dict[str, dict[str, float]]
    """By `question_label`, then by dimension and overall mean of the study; high is good."""

    def write(self, run: Path) -> None:
        """Write the ratings into the folder of a run. They apply when it is next scored.

        Examples:
            >>> RunRatings("motion", raters=3, means={"q1": {"accuracy": 4.5}}).write(Path("."))
            >>> Path("ratings.json").exists()
            True
        """
        write_atomically(run / RATINGS, msgspec.json.encode(self))


class RatedMetric(Metric, frozen=True, kw_only=True):
    """Ratings of replies in a study, with a row for each of its overall means and dimensions."""

    computed_over: ClassVar[MetricInput] = "ratings"
    study: str
    columns: tuple[str, ...]
    """Name of each row in the study."""

    def score(self, questions: Sequence[AskedQuestion], context: ScoringContext) -> MetricScores:
        """Score the open questions by the ratings that people gave to their replies in this metric's study."""
        means: dict[str, dict[str, float]] = {}
        if context.ratings is not None and context.ratings.study == self.study:
            means = context.ratings.means
        return MetricScores(self._scores(open_questions(questions), means))

    def _scores(
        self, questions: Sequence[AskedQuestion], means: dict[str, dict[str, float]]
    ) -> Iterator[Score]:
        """Yield the mean rating of each question in each dimension of the study, or the reason why it has none.

        Args:
            questions: The questions.
            means: The mean ratings, by question and then by dimension.
        """
        not_rated = Unscored("not rated", f"snellen rate form --study {self.study}")
        for row, column in zip(self.rows, self.columns, strict=True):
            for question in questions:
                ratings = means.get(question.label, {})
                if not question.answered:
                    yield question.score(row.name, why_unanswered(question))
                elif column in ratings:
                    rating = row.check(ratings[column], question.label)
                    yield question.score(row.name, rating)
                else:
                    yield question.score(row.name, not_rated)


def read_run_ratings(run: Path) -> RunRatings | None:
    """Read the ratings of a run, or return None if there are none.

    Raises:
        StoreError: The file is damaged.
    """
    path = run / RATINGS
    try:
        return msgspec.json.decode(read_file(path, TABLE_BYTES), type=RunRatings)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.DecodeError) as error:
        raise StoreError(
            f"{path}: not the ratings of a run ({error}); `snellen rate give` writes them again"
        ) from None
