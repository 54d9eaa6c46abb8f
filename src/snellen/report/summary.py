"""The summary of questions with options: accuracy, circular accuracy, stability and parsing, by model and method.

Each number is a mean over benchmarks, taken from one protocol of the run. A `ModelMethodRow` has the numbers of one model by one method.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from snellen.metrics.declaration import declared_row
from snellen.records import Method, Result
from snellen.report.findings import findings
from snellen.report.headline_table import headline_table, side_table, why_without_value
from snellen.report.number_text import metric_meaning, metric_title, percent_text
from snellen.report.rendering import template_macro
from snellen.report.reply_notes import grader_notes, unread_notes
from snellen.report.reported_runs import (
    HeadlineEstimate,
    ModelMethodRow,
    ReportedRun,
    benchmarks_with_options,
    mean_chance,
    method_rows,
    prepare_reported_runs,
    uses_first_presentation_only,
)
from snellen.report.table import AbsentCell, Column, NumberCell, Table, tabulate
from snellen.scoring.scored_run import ScoredRun

SUMMARY_METRICS = ("accuracy", "circular_accuracy", "instability", "hit_rate", "unparsed_rate")
"""Metric rows of the summary, in the order of its columns."""
WEIGHT_DESCRIPTIONS = {
    "benchmarks": "unweighted means over benchmarks",
    "questions": "over all questions, with equal weights",
}
"""Description of means by what has equal weight in them, as suites declare it."""


class SummaryRow(Struct, frozen=True):
    """Numbers of one model and method over all benchmarks with options.

    Benchmarks have equal weight, or their questions if their suites declare that.
    """

    model: str
    method: Method
    accuracy: NumberCell | AbsentCell
    circular_accuracy: NumberCell | AbsentCell
    instability: NumberCell | AbsentCell
    hit_rate: NumberCell | AbsentCell
    unparsed: NumberCell | AbsentCell
    """Share of the replies of the accuracy column from which no option was read; scored as wrong."""
    unscored: int
    """Questions of the accuracy column without ground truth."""
    errors: int
    """Questions of the accuracy column without a reply that it needs."""
    not_asked: int = 0
    """Questions of the accuracy column that an interrupted run has not reached."""


def summary_rows(runs: Sequence[ScoredRun], rows: Sequence[Result]) -> list[SummaryRow]:
    """Return one row per model and method, in the order of the runs."""
    return [_summary_row(model_row) for model_row in method_rows(prepare_reported_runs(runs, rows))]


def summary(reported_runs: Sequence[ReportedRun]) -> Table:
    """Return the table of questions with options, with notes on chance and on the protocol of each number."""
    rows = [_summary_row(model_row) for model_row in method_rows(reported_runs)]
    columns: list[Column[SummaryRow]] = [
        Column("model", lambda row: row.model, is_label=True),
        Column(
            "method",
            lambda row: row.method,
            "generation parses the reply; likelihood compares the probabilities of the options",
            is_label=True,
        ),
        _metric_column("accuracy", lambda row: row.accuracy),
        _metric_column("circular_accuracy", lambda row: row.circular_accuracy),
        _metric_column("instability", lambda row: row.instability),
        _metric_column("hit_rate", lambda row: row.hit_rate),
        _metric_column("unparsed_rate", lambda row: row.unparsed),
        Column("unscored", lambda row: row.unscored, "questions without an available answer"),
        Column(
            "errors", lambda row: row.errors, "questions without a reply that the accuracy requires"
        ),
    ]
    if any(row.not_asked for row in rows):
        columns.append(
            Column(
                "not asked",
                lambda row: row.not_asked,
                "questions that the run has not yet completed for the accuracy",
            )
        )
    notes = [
        f"value [95% interval] n questions; {_weights_text(reported_runs)}; instability in nats.",
        *_coverage_notes(reported_runs),
        *_convention_notes(reported_runs),
        *unread_notes(reported_runs),
        *_bound_notes(rows),
        *_chance_notes(reported_runs),
        *_source_notes(reported_runs),
        *grader_notes(reported_runs),
    ]
    table = tabulate("Questions with options", columns, rows, notes)
    # Notes explain the metrics first, then the other columns.
    hints = {metric_title(metric): metric_meaning(metric) for metric in SUMMARY_METRICS}
    return replace(table, hints={**hints, **table.hints})


def _metric_column(
    metric: str, cell: Callable[[SummaryRow], NumberCell | AbsentCell]
) -> Column[SummaryRow]:
    return Column(metric_title(metric), cell)


def _summary_row(model_row: ModelMethodRow) -> SummaryRow:
    """Return the summary of a model under one method: its main numbers, and the questions that they lack."""
    cells = {
        metric: summary_cell(model_row, metric, model_row.overall(metric))
        for metric in SUMMARY_METRICS
    }
    accuracy = model_row.overall("accuracy")
    estimate = None if accuracy is None else accuracy.estimate
    return SummaryRow(
        model=model_row.reported_run.label,
        method=model_row.method,
        accuracy=cells["accuracy"],
        circular_accuracy=cells["circular_accuracy"],
        instability=cells["instability"],
        hit_rate=cells["hit_rate"],
        unparsed=cells["unparsed_rate"],
        unscored=estimate.unscored if estimate else 0,
        errors=estimate.errors + estimate.absent if estimate else 0,
        not_asked=estimate.not_asked if estimate else 0,
    )


def summary_cell(
    model_row: ModelMethodRow, metric: str, number: HeadlineEstimate | None, benchmark: str = ""
) -> NumberCell | AbsentCell:
    """Return a table cell with a number, or with the reason why it is missing.

    Args:
        model_row: The results of a model by one method.
        metric: The metric.
        number: The number, or None if there is none.
        benchmark: The benchmark of the number; empty for a mean over benchmarks.
    """
    if number is None:
        return AbsentCell(absence_reason(model_row, metric))
    if number.estimate.value is None:
        return AbsentCell(why_without_value(model_row, number, metric, benchmark))
    note = ""
    if not benchmark and number.members:
        accuracy = model_row.overall("accuracy")
        if accuracy is not None and accuracy.members != number.members:
            note = f"of {number.members} only"
    return NumberCell(number.unit, number.estimate, number.secondary, note)


def absence_reason(model_row: ModelMethodRow, metric: str) -> str:
    """Return why the results of a model do not have a metric of multiple-choice questions."""
    has_options = any(True for _ in benchmarks_with_options(model_row.reported_run))
    if not has_options:
        return "no questions with options in this run"
    reasons = declared_row(metric).absent_reasons
    reason = reasons.get(model_row.method) or reasons.get("")
    return reason or "not measured by the protocols of this run"


# --- notes -----------------------------------------------------------------------------------------------------------


def _accuracies(reported_runs: Sequence[ReportedRun]) -> dict[str, HeadlineEstimate]:
    """Return the accuracy over all benchmarks, by the label of the model and method. Those without one are missing."""
    accuracies: dict[str, HeadlineEstimate] = {}
    for model_row in method_rows(reported_runs):
        accuracy = model_row.overall("accuracy")
        if accuracy is not None:
            accuracies[model_row.label] = accuracy
    return accuracies


def _weights_text(reported_runs: Sequence[ReportedRun]) -> str:
    """Return what has equal weight in the accuracies: `unweighted means over benchmarks`."""
    weighted = {accuracy.over for accuracy in _accuracies(reported_runs).values()}
    texts = [text for unit, text in WEIGHT_DESCRIPTIONS.items() if unit in weighted]
    return " or ".join(texts) or WEIGHT_DESCRIPTIONS["benchmarks"]


def _coverage_notes(reported_runs: Sequence[ReportedRun]) -> list[str]:
    """Return notes on the accuracies of a report: which questions they do not cover, and which are not comparable.

    Accuracies of models that answered different questions are not comparable.
    """
    accuracies = _accuracies(reported_runs)
    labels_by_gap: dict[str, list[str]] = defaultdict(list)
    for label, accuracy in accuracies.items():
        if accuracy.partial:
            labels_by_gap[accuracy.partial].append(label)
    notes: list[str] = []
    for gap, labels in labels_by_gap.items():
        concerns_all = len(labels) == len(accuracies)
        label_text = "" if concerns_all else f" ({'; '.join(labels)})"
        notes.append(f"Partial{label_text}: {gap}.")

    members_by_method: dict[str, set[str]] = defaultdict(set)
    for model_row in method_rows(reported_runs):
        accuracy = accuracies.get(model_row.label)
        if accuracy is not None:
            members_by_method[model_row.method].add(accuracy.members)
    for method, members in members_by_method.items():
        if len(members) > 1:
            notes.append(
                f"Under {method}, the models answered different questions, so these means are not comparable."
            )
    return notes


def _convention_notes(reported_runs: Sequence[ReportedRun]) -> list[str]:
    """Return notes on runs that were scored as in a paper: how replies are read, and which metrics replace others."""
    notes: dict[str, None] = {}
    for reported_run in reported_runs:
        if reported_run.run.convention != "as-published":
            continue
        rules = f"replies are parsed with {' and '.join(reported_run.run.extractors)}"
        for row, substitute in reported_run.substitutes.items():
            rules += f"; {metric_title(row)} is {metric_title(substitute)}"
        notes[f"As published: {rules}."] = None
    return list(notes)


def _bound_notes(rows: Sequence[SummaryRow]) -> list[str]:
    """Return what the numbers next to an accuracy mean, such as `of parsed`."""
    labels: set[str] = set()
    for row in rows:
        for cell in (row.accuracy, row.circular_accuracy):
            if isinstance(cell, NumberCell):
                labels.update(label for label, _ in cell.secondary)
    notes: list[str] = []
    if "of answered" in labels:
        notes.append(
            "Replies missing from the file, and requests that failed, are scored as wrong; `of answered` covers "
            "only the completely answered questions."
        )
    if "after audit" in labels:
        notes.append(
            "`after audit` is corrected for misread replies, based on labels of a random sample (`snellen "
            "audit`)."
        )
    if labels - {"of answered", "after audit"}:
        notes.append(
            "Unparsed replies are scored as wrong. `of parsed` leaves them out, and questions without another "
            "reply; `at most` scores them as correct. Both bound the effect of unparsed replies, but do not "
            "account for misread replies."
        )
    return notes


def _chance_notes(reported_runs: Sequence[ReportedRun]) -> list[str]:
    """Return a note with the chance level of accuracy, for each run if the levels differ.

    Returns:
        One note; none if no question has options.
    """
    level_by_run: dict[str, str] = {}
    for reported_run in reported_runs:
        level = mean_chance(reported_run.run.benchmarks)
        if level is not None:
            level_by_run[reported_run.label] = percent_text(level)
    if not level_by_run:
        return []

    opening = "Chance (mean of 1 / number of options) gives"
    levels = set(level_by_run.values())
    if len(levels) == 1:
        return [f"{opening} {levels.pop()} accuracy."]
    listed = ", ".join(f"{level} ({label})" for label, level in level_by_run.items())
    return [f"{opening} an accuracy of {listed}."]


def _source_notes(reported_runs: Sequence[ReportedRun]) -> list[str]:
    """Return notes on which protocol the numbers of each method come from, such as `Under generation: accuracy from vanilla.`"""
    notes: dict[str, None] = {}
    for model_row in method_rows(reported_runs):
        titles_by_protocol: dict[str, list[str]] = defaultdict(list)
        first_only: list[str] = []
        for metric in SUMMARY_METRICS:
            number = model_row.overall(metric)
            if number is None:
                continue
            if metric in ("accuracy", "circular_accuracy"):
                titles_by_protocol[number.protocol].append(metric_title(metric))
            if uses_first_presentation_only(metric, number.protocol):
                first_only.append(metric_title(metric))

        sources = [
            f"{' and '.join(titles)} from {protocol}"
            for protocol, titles in titles_by_protocol.items()
        ]
        if sources:
            notes[f"Under {model_row.method}: {' and '.join(sources)}."] = None
        if first_only:
            listed = first_only[-1]
            if len(first_only) > 1:
                listed = f"{', '.join(first_only[:-1])} and {listed}"
            notes[f"Only the first presentation of each question: {listed}."] = None
    return list(notes)


def html_summary(runs: Sequence[ScoredRun], rows: Sequence[Result]) -> str:
    """Return the findings and the first tables of a report as HTML, for notebooks. It has no style and no script.

    Args:
        runs: The runs.
        rows: Their results.
    """
    reported_runs = prepare_reported_runs(runs, rows)
    render_findings = template_macro("parts.html", "findings")
    render_table = template_macro("parts.html", "table")
    html = render_findings(findings(reported_runs)) + render_table(headline_table(reported_runs))
    side = side_table(reported_runs)
    if side is not None:
        html += render_table(side)
    return html
