"""Runs on the same questions: what was left out and why, and each model compared with the first by question."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from snellen.analysis.statistics import estimate_mean
from snellen.reasons import word_reason
from snellen.report.formatting import counts_text, metric_title
from snellen.report.run_view import ModelMethodRow, RunView, method_rows
from snellen.report.table import Cell, NumberCell, Table

METRICS = ("accuracy", "circular_accuracy")
MAX_LISTED = 200


def common_question_tables(views: Sequence[RunView]) -> list[Table]:
    """Tables of a comparison on common questions; none if the runs were not narrowed to these."""
    if any(view.run.left_out is None for view in views):
        return []
    return [_counts(views), *_left_out(views), *_differences(views)]


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


def _differences(views: Sequence[RunView]) -> list[Table]:
    lines = method_rows(views)
    rows = [
        row
        for i, baseline in enumerate(lines)
        if baseline.view is views[0]
        for rival in lines[i + 1 :]
        if rival.method == baseline.method and rival.view is not baseline.view
        for metric in METRICS
        for row in _rows(baseline, rival, metric)
    ]
    if not rows:
        return []
    header = ("benchmark", "metric", "models", "difference", "only the first right", "only the second right")
    notes = ("Differences are between scores on the same question, so questions that are hard for all cancel out.",)
    return [Table("Differences on common questions", header, tuple(rows), label_columns=3, notes=notes)]


def _rows(baseline: ModelMethodRow, rival: ModelMethodRow, metric: str) -> list[tuple[Cell, ...]]:
    rows: list[tuple[Cell, ...]] = []
    for scored in baseline.view.run.benchmarks:
        baseline_values, rival_values = (
            _values(baseline, metric, scored.spec.name),
            _values(rival, metric, scored.spec.name),
        )
        keys = [key for key in baseline_values if key in rival_values]
        if not keys:
            continue
        values = [baseline_values[key] - rival_values[key] for key in keys]
        difference = estimate_mean(values, [scored.samples[key[0]].group for key in keys], bounds=(-1.0, 1.0))
        rows.append(
            (
                scored.spec.name,
                metric_title(metric),
                f"{baseline.view.label} - {rival.view.label}",
                NumberCell("difference", difference),
                sum(value > 0 for value in values),
                sum(value < 0 for value in values),
            )
        )
    return rows


def _values(line: ModelMethodRow, metric: str, benchmark: str) -> dict[tuple[str, int], float]:
    """Scores by question, under the protocol that the tables show."""
    number, scored = line.lookup(metric, benchmark), line.view.benchmark(benchmark)
    if number is None or scored is None:
        return {}
    return {
        (score.sample_id, score.turn): score.value
        for score in scored.scores
        if (score.protocol, score.metric) == (number.protocol, metric) and score.value is not None
    }
