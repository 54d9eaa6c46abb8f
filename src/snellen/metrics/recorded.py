"""The verdict on a reply that a file of predictions brings along."""

from __future__ import annotations

from collections.abc import Sequence

from snellen.errors import DataError
from snellen.extraction.asked_reply import verdict_of
from snellen.metrics.declaration import ReplyMetric, share_row


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
        raise DataError("the file of predictions has no verdict on this reply")
    return verdict


RECORDED_VERDICT = ReplyMetric(
    description="how right the file of predictions says that a reply is, as its own judge or rule marked it",
    rows=(
        share_row(
            "recorded_verdict", title="the file's own verdicts", undefined="the file has no verdict"
        ),
    ),
    measure=recorded_verdict,
)
