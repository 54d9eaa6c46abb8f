"""Marks from 1 to 5 as MMBench gives them to open answers (appendix A)."""

from __future__ import annotations

from snellen.metrics.declaration import share
from snellen.protocols.judged_marking import MARKS
from snellen.protocols.verdict import Verdict
from snellen.scoring.judges.marking import JudgedMetric, mean_mark, unmarked_reason, valid_marks
from snellen.scoring.questions import Unscored

GOOD = 4
"""The mark from which a reply counts as good in `mark_4_or_more`."""


def mark_prompt(golds: tuple[str, ...]) -> str:
    """The printed prompt for one gold, or for a list of them."""
    return "mmbench-mark-1" if len(set(golds)) == 1 else "mmbench-mark-list-1"


def _mark_rows(verdicts: list[list[Verdict]]) -> dict[str, float] | Unscored:
    """The mean mark, the share at each mark, and the share of good ones, over all valid marks of a question."""
    marks = valid_marks(verdicts)
    if not marks:
        return unmarked_reason(verdicts)
    count = len(marks)
    shares = {f"mark_{mark}": marks.count(mark) / count for mark in range(MARKS[0], MARKS[1] + 1)}
    good = sum(mark >= GOOD for mark in marks) / count
    return {"mark": sum(marks) / count, "mark_4_or_more": good, **shares}


MARK_METRIC = JudgedMetric(
    what="mean mark from 1 to 5 by a judge (MMBench, appendix A), the share at each mark and of 4 or more",
    rows=(
        mean_mark("mark", "mean mark"),
        share("mark_4_or_more", "marks of 4 or more"),
        *(
            share(f"mark_{mark}", f"marks of {mark}", better="neither", scale="")
            for mark in range(MARKS[0], MARKS[1] + 1)
        ),
    ),
    versions=lambda golds: [mark_prompt(golds)],
    reduce=_mark_rows,
)
