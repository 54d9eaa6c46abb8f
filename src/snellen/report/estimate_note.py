"""What to know before a number and its interval are trusted, in the notes below tables."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from snellen.records import Estimate

FEW_GROUPS = 10
FEW_GROUPS_NOTE = f"fewer than {FEW_GROUPS} pictures or dialogues, which say little of how much others would differ"
LIKE_OTHERS = "Numbers take questions that were not asked, or not answered, to be like the others."
"""What stands once below a table with such a number."""


def estimate_note(estimate: Estimate, shown: Callable[[float], str]) -> str:
    """What to know of a number; empty when nothing. `shown` writes a value in its unit."""
    return "; ".join(_notes(estimate, shown))


def _notes(estimate: Estimate, shown: Callable[[float], str]) -> Iterator[str]:
    if estimate.value is not None and estimate.groups:
        if estimate.low is None or estimate.high is None:
            yield (
                "no interval: one picture or dialogue alone, two for a number that is no mean, or no two different "
                "values of a metric without bounds"
            )
        elif estimate.groups < FEW_GROUPS:
            yield FEW_GROUPS_NOTE
    if estimate.absent:
        yield f"{estimate.absent:,} of {estimate.n:,} questions without an answer count as not right"
    if estimate.value is None:
        return
    if estimate.not_asked:
        yield f"{estimate.not_asked:,} of {estimate.questions:,} questions were not asked as far as this number needs"
    if estimate.errors:
        yield f"{estimate.errors:,} of {estimate.questions:,} questions were not answered in full, as requests failed"
    if estimate.unanswered and estimate.least is not None and estimate.most is not None:
        yield f"at worst it is from {shown(estimate.least)} to {shown(estimate.most)}"
