"""What a metric receives in addition to questions, and what it returns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from snellen.metrics.question_counts import QuestionCounts
from snellen.records import Score

if TYPE_CHECKING:
    from snellen.catalogue import BenchmarkSpec
    from snellen.scoring.judges import JudgeEnsemble
    from snellen.scoring.run_ratings import RunRatings


class ScoringContext(Struct, frozen=True):
    """The benchmark and the run whose questions a metric scores.

    Examples:
        >>> from snellen.plugin_api import entries
        >>> context = ScoringContext("accuracy", entries()["eyechart/colour"])
        >>> context.benchmark.name
        'eyechart/colour'
    """

    metric: str
    """Name that the metric is registered under."""
    benchmark: BenchmarkSpec
    judges: JudgeEnsemble | None = None
    """None if the run is scored without a judge."""
    ratings: RunRatings | None = None
    """None if people did not rate the run."""


class MetricScores(Struct, frozen=True):
    """The scores of questions in a metric. A metric that is computed from sums also has its counts on each question.

    Examples:
        >>> MetricScores(scores=()).counts
        ()
    """

    scores: Iterable[Score]
    """In order of row, or of question. Read once."""
    counts: Sequence[QuestionCounts] = ()
