"""Tables of a comparison on common questions: how many there are, and which were left out."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from snellen.reasons import word_reason
from snellen.report.number_text import counts_text
from snellen.report.reported_runs import ReportedRun
from snellen.report.table import Column, Table, tabulate

MAX_LISTED_QUESTIONS = 200
"""Greatest number of questions that are listed."""


class _QuestionCounts(NamedTuple):
    model: str
    questions: int
    reasons: Counter[str]
    """Why questions have no answer."""
    common: int


class _LeftOutQuestionRow(NamedTuple):
    benchmark: str
    question: str
    reasons: list[str]


def common_question_tables(reported_runs: Sequence[ReportedRun]) -> list[Table]:
    """Return tables about the questions that all models answered; none if the runs were not restricted to these."""
    if any(reported_run.run.left_out_questions is None for reported_run in reported_runs):
        return []
    return [_count_table(reported_runs), *_left_out_question_tables(reported_runs)]


def _count_table(reported_runs: Sequence[ReportedRun]) -> Table:
    """Return a table with a row for each model: how many questions it answered, and how many of them all models answered."""
    columns: list[Column[_QuestionCounts]] = [
        Column("model", lambda row: row.model, is_label=True),
        Column("questions", lambda row: row.questions),
        Column("answered", lambda row: row.questions - row.reasons.total()),
        Column("not answered", lambda row: counts_text(dict(row.reasons))),
        Column("answered by all", lambda row: row.common),
    ]
    rows: list[_QuestionCounts] = []
    for reported_run in reported_runs:
        left_out_questions = reported_run.run.left_out_questions or ()
        reasons: Counter[str] = Counter()
        for question in left_out_questions:
            if question.reason:
                reasons[word_reason(question.reason, question.detail)] += 1
        common = sum(len(scored.samples) for scored in reported_run.run.benchmarks)
        rows.append(
            _QuestionCounts(
                model=reported_run.label,
                questions=common + len(left_out_questions),
                reasons=reasons,
                common=common,
            )
        )
    note = "All values in this report, except request counts, are over the questions that all models answered."
    return tabulate("Common questions", columns, rows, [note])


def _left_out_question_tables(reported_runs: Sequence[ReportedRun]) -> list[Table]:
    """Return a table of the questions that some model did not answer, with the reason for each such model.

    Returns:
        One table; none if all models answered all questions.
    """
    reasons_by_question: dict[tuple[str, str], list[str]] = defaultdict(list)
    for reported_run in reported_runs:
        for question in reported_run.run.left_out_questions or ():
            reasons = reasons_by_question[question.benchmark, question.sample_id]
            if question.reason:
                reason = word_reason(question.reason, question.detail)
                reasons.append(f"{reported_run.label}: {reason}")
    if not reasons_by_question:
        return []

    columns: list[Column[_LeftOutQuestionRow]] = [
        Column("benchmark", lambda row: row.benchmark, is_label=True),
        Column("question", lambda row: row.question, is_label=True),
        Column("why", lambda row: "; ".join(row.reasons)),
    ]
    rows = [
        _LeftOutQuestionRow(benchmark, sample_id, reasons)
        for (benchmark, sample_id), reasons in reasons_by_question.items()
    ]
    notes: list[str] = []
    if len(rows) > MAX_LISTED_QUESTIONS:
        notes.append(f"The first {MAX_LISTED_QUESTIONS} of {len(rows):,}.")
    return [tabulate("Questions left out", columns, rows[:MAX_LISTED_QUESTIONS], notes)]
