"""When something happens in a clip: Charades-STA (Gao et al., TALL, ICCV 2017)."""

from __future__ import annotations

import re
from collections.abc import Sequence

from snellen.errors import DataError
from snellen.metrics.declaration import Marks, MetricRow, read_rate_metric, share_row

Span = tuple[float, float]
_CLOCK = r"\d{1,2}:\d{2}(?::\d{2})?(?:\.\d+)?"
_TIME = rf"(?<![\w.:])({_CLOCK}|\d+(?:\.\d+)?)(?![\d:])"
_UNIT = r"\s*(?:s|sec|secs|seconds?)?\b"
_SPAN = re.compile(rf"{_TIME}{_UNIT}\s*(?:-|–|—|to|and|until|,)\s*{_TIME}", re.IGNORECASE)
_ANY = re.compile(_TIME)
ACCEPTED = (0.3, 0.5, 0.7)


def _seconds(text: str) -> float:
    """Seconds of `24.3`, `0:24` or `00:00:24`."""
    seconds = 0.0
    for part in text.split(":"):
        seconds = 60 * seconds + float(part)
    return seconds


def read_span(reply: str) -> Span | None:
    """Return the first two times in a reply that are next to each other, or else its only two times; the earlier one first.

    `The event happens in the 24.3 - 30.4 seconds`, `from 0:24 to 0:30`, `starts at 3 s and ends at 7 s`.
    """
    match = _SPAN.search(reply)
    times = [match[1], match[2]] if match is not None else _ANY.findall(reply)
    if len(times) != 2:
        return None
    first, second = (_seconds(time) for time in times)
    return min(first, second), max(first, second)


def shared_length(first: Span, second: Span) -> float:
    """Return the intersection over union of two spans of time, in [0, 1]."""
    first_start, first_end = first
    second_start, second_end = second
    intersection = max(min(first_end, second_end) - max(first_start, second_start), 0.0)
    union = max(first_end, second_end) - min(first_start, second_start)
    return intersection / union if union > 0 else 0.0


def moment_marks(reply: str, references: Sequence[str]) -> Marks:
    """Return how well the span of time in a reply overlaps the reference.

    Args:
        reply: The reply.
        references: The reference texts. The first one has the correct span.

    Returns:
        For each of the thresholds 0.3, 0.5 and 0.7, 1.0 if the overlap (intersection over union) reaches it and
        otherwise 0.0; then the overlap itself. None if the reply does not name exactly two times.

    Raises:
        DataError: The reference does not name two times.
    """
    gold = read_span(references[0])
    if gold is None:
        raise DataError(f"gold {references[0]!r} has no two times")
    span = read_span(reply)
    if span is None:
        return None
    shared = shared_length(span, gold)
    return (*(float(shared >= accepted) for accepted in ACCEPTED), shared)


def _row(name: str, title: str, scale: str = "share") -> MetricRow:
    return share_row(name, title, interval="linearised", scale=scale, unparsed="wrong")


MOMENTS = read_rate_metric(
    "moment",
    "spans of time: share with an overlap of at least 0.3, 0.5 and 0.7, mean overlap, and how many replies have none",
    [
        _row("moment_overlap", "mean overlap of spans (mIoU)", "iou"),
        _row("moment_accuracy_30", "overlap of at least 0.3"),
        _row("moment_accuracy_50", "overlap of at least 0.5"),
        _row("moment_accuracy_70", "overlap of at least 0.7"),
    ],
    moment_marks,
)
