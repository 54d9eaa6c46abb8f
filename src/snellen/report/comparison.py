"""Runs on the same questions: what was left out and why, and each model against the first, question by question."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from snellen.analysis.statistics import estimate_mean
from snellen.reasons import word_reason
from snellen.report.formatting import listed, metric_title
from snellen.report.run_view import MethodRow, RunView, method_rows
from snellen.report.table import Cell, NumberCell, Table

METRICS = ("accuracy", "circular_accuracy")
MOST_SHOWN = 200


def common_question_tables(sheets: Sequence[RunView]) -> list[Table]:
    """Tables of a comparison on common questions; none for runs as they are."""
    if any(sheet.run.left_out is None for sheet in sheets):
        return []
    return [_counts(sheets), *_left_out(sheets), *_differences(sheets)]


def _counts(sheets: Sequence[RunView]) -> Table:
    rows = []
    for sheet in sheets:
        reasons = Counter(word_reason(one.reason, one.detail) for one in sheet.run.left_out or () if one.reason)
        shown = sum(len(one.samples) for one in sheet.run.benchmarks)
        whole = shown + len(sheet.run.left_out or ())
        rows.append((sheet.label, whole, whole - reasons.total(), listed(dict(reasons)), shown))
    header = ("model", "questions", "answered", "not answered", "answered by all")
    note = "All numbers of this report but those of requests are of the questions that all models answered."
    return Table("Common questions", header, tuple(rows), notes=(note,))


def _left_out(sheets: Sequence[RunView]) -> list[Table]:
    found: dict[tuple[str, str], list[str]] = {}
    for sheet in sheets:
        for one in sheet.run.left_out or ():
            found.setdefault((one.benchmark, one.sample_id), []).extend(
                [f"{sheet.label}: {word_reason(one.reason, one.detail)}"] if one.reason else []
            )
    if not found:
        return []
    rows = tuple((benchmark, sample, "; ".join(reasons)) for (benchmark, sample), reasons in found.items())
    notes = (f"The first {MOST_SHOWN} of {len(rows):,}.",) if len(rows) > MOST_SHOWN else ()
    return [Table("Questions left out", ("benchmark", "question", "why"), rows[:MOST_SHOWN], labels=2, notes=notes)]


def _differences(sheets: Sequence[RunView]) -> list[Table]:
    lines = method_rows(sheets)
    rows = [
        row
        for i, first in enumerate(lines)
        if first.sheet is sheets[0]
        for other in lines[i + 1 :]
        if other.method == first.method and other.sheet is not first.sheet
        for metric in METRICS
        for row in _rows(first, other, metric)
    ]
    if not rows:
        return []
    header = ("benchmark", "metric", "models", "difference", "only the first right", "only the second right")
    notes = ("Differences are of scores to the same question, so questions that are hard for all cancel out.",)
    return [Table("Differences on common questions", header, tuple(rows), labels=3, notes=notes)]


def _rows(first: MethodRow, other: MethodRow, metric: str) -> list[tuple[Cell, ...]]:
    rows: list[tuple[Cell, ...]] = []
    for one in first.sheet.run.benchmarks:
        here, there = _values(first, metric, one.spec.name), _values(other, metric, one.spec.name)
        keys = [key for key in here if key in there]
        if not keys:
            continue
        values = [here[key] - there[key] for key in keys]
        difference = estimate_mean(values, [one.samples[key[0]].group for key in keys], bounds=(-1.0, 1.0))
        rows.append(
            (
                one.spec.name,
                metric_title(metric),
                f"{first.sheet.label} - {other.sheet.label}",
                NumberCell("difference", difference),
                sum(value > 0 for value in values),
                sum(value < 0 for value in values),
            )
        )
    return rows


def _values(line: MethodRow, metric: str, benchmark: str) -> dict[tuple[str, int], float]:
    """Scores by question, of the protocol that the tables show."""
    found, scored = line.at(metric, benchmark), line.sheet.benchmark(benchmark)
    if found is None or scored is None:
        return {}
    return {
        (score.sample_id, score.turn): score.value
        for score in scored.scores
        if (score.protocol, score.metric) == (found.protocol, metric) and score.value is not None
    }
