"""The verdict on a reply that a file of predictions brings along."""

from __future__ import annotations

from collections.abc import Sequence

from snellen.errors import DataError
from snellen.extraction.asked_reply import verdict_of
from snellen.metrics.declaration import ReplyMetric, share_row
from snellen.metrics.questions import AskedQuestion, Unscored, why_unanswered
from snellen.metrics.scoring_context import MetricScores, ScoringContext
from snellen.reasons import NEVER_ANSWERED
from snellen.records import Score

NO_VERDICT = "the file of predictions has no verdict on this reply"


def recorded_verdict(reply: str, references: Sequence[str]) -> float:
    """Return how right the file of predictions says that a reply is, from 0 to 1.

    The references do not matter. Raises DataError if the file does not say.

    Examples:
        >>> from snellen.extraction.asked_reply import AskedReply
        >>> recorded_verdict(AskedReply("A long answer.", "Why?", verdict=0.5), ["Another."])
        0.5
    """
    del references
    verdict = verdict_of(reply)
    if verdict is None:
        raise DataError(NO_VERDICT)
    return verdict


class RecordedVerdict(ReplyMetric, frozen=True, kw_only=True):
    """A metric whose values are in the file of predictions, which says of each reply how right it is, from 0 to 1.

    It is defined for all questions: with or without options, and also if the correct answer is not known.
    """

    def score(self, questions: Sequence[AskedQuestion], context: ScoringContext) -> MetricScores:
        """Score each question by the mean verdict on its replies; a reply that will never be received is not right."""
        scores = [self._score(question.missing_as_wrong) for question in questions]
        return MetricScores(scores)

    def _score(self, question: AskedQuestion) -> Score:
        [row] = self.rows
        if not question.answered:
            return question.score(row.name, why_unanswered(question))
        verdicts: list[float] = []
        for prediction in question.answered:
            is_never_answered = prediction.reason in NEVER_ANSWERED
            verdict = 0.0 if is_never_answered else prediction.verdict
            if verdict is None:
                return question.score(row.name, Unscored("metric undefined", NO_VERDICT))
            verdicts.append(verdict)
        mean = sum(verdicts) / len(verdicts)
        return question.score(row.name, row.check(mean, question.label), len(verdicts))


RECORDED_VERDICT = RecordedVerdict(
    description="how right the file of predictions says that a reply is, as its own judge or rule marked it",
    rows=(
        share_row(
            "recorded_verdict", title="the file's own verdicts", undefined="the file has no verdict"
        ),
    ),
    measure=recorded_verdict,
)
