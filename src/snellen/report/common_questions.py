"""Runs narrowed to the questions that all answered: how many each was asked and answered, what was left out and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from snellen.reasons import word_reason
from snellen.report.formatting import counts_text
from snellen.report.run_view import RunView
from snellen.report.table import Table

MAX_LISTED = 200


def common_question_tables(views: Sequence[RunView]) -> list[Table]:
    """Tables of a comparison on common questions; none if the runs were not narrowed to these."""
    if any(view.run.left_out is None for view in views):
        return []
    return [_counts(views), *_left_out(views)]


def _counts(views: Sequence[RunView]) -> Table:
    rows = []
    for view in views:
        reasons = Counter(
            word_reason(excluded.reason, excluded.detail) for excluded in view.run.left_out or () if excluded.reason
        )
        compared = sum(len(scored.samples) for scored in view.run.benchmarks)
        total = compared + len(view.run.left_out or ())
        rows.append((view.label, total, total - reasons.total(), counts_text(dict(reasons)), compared))
    header = ("model", "questions", "answered", "not answered", "answered by all")
    note = "All numbers in this report except request counts are over the questions that all models answered."
    return Table("Common questions", header, tuple(rows), notes=(note,))


def _left_out(views: Sequence[RunView]) -> list[Table]:
    reasons_by_question: dict[tuple[str, str], list[str]] = {}
    for view in views:
        for excluded in view.run.left_out or ():
            reasons_by_question.setdefault((excluded.benchmark, excluded.sample_id), []).extend(
                [f"{view.label}: {word_reason(excluded.reason, excluded.detail)}"] if excluded.reason else []
            )
    if not reasons_by_question:
        return []
    rows = tuple(
        (benchmark, sample, "; ".join(reasons)) for (benchmark, sample), reasons in reasons_by_question.items()
    )
    notes = (f"The first {MAX_LISTED} of {len(rows):,}.",) if len(rows) > MAX_LISTED else ()
    return [
        Table("Questions left out", ("benchmark", "question", "why"), rows[:MAX_LISTED], label_columns=2, notes=notes)
    ]
