"""Accuracy, circular accuracy, stability and readability over all questions with options, by model and method."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import astuple

from snellen.metrics.declaration import declared
from snellen.records import Method, Result
from snellen.report.findings import findings
from snellen.report.headline_table import headline_table, side_table, why_without_value
from snellen.report.rendering import part
from snellen.report.reply_notes import grader_notes, unread_notes
from snellen.report.run_view import (
    HeadlineEstimate,
    ModelMethodRow,
    RunView,
    each_choice_benchmark,
    is_of_first_alone,
    mean_chance,
    method_rows,
    run_views,
)
from snellen.report.table import (
    AbsentCell,
    NumberCell,
    Table,
    metric_meaning,
    metric_title,
    percent,
)
from snellen.scoring.scored_run import ScoredRun

COLUMNS = ("accuracy", "circular_accuracy", "instability", "hit_rate", "unparsed_rate")
"""The metric rows of the summary."""
COUNT_HINTS = {
    "method": "generation reads the reply, likelihood compares how likely each option is",
    "unscored": "questions whose answer is not known here",
    "errors": "questions without an answer that the accuracy needs",
    "not asked": "questions that the run has not asked as far as the accuracy needs",
}


class SummaryRow(Struct, frozen=True):
    """Numbers over all benchmarks with options, whose questions count alike where their suites say so."""

    model: str
    method: Method
    accuracy: NumberCell | AbsentCell
    circular_accuracy: NumberCell | AbsentCell
    instability: NumberCell | AbsentCell
    hit_rate: NumberCell | AbsentCell
    unparsed: NumberCell | AbsentCell
    """Share of the replies of the accuracy column that name no option; they count as not right."""
    unscored: int
    """Questions of the accuracy column that have no gold."""
    errors: int
    """Questions of the accuracy column without an answer that it needs."""
    not_asked: int = 0
    """Questions of the accuracy column that a run which was stopped has not come to."""


def summary_rows(runs: Sequence[ScoredRun], rows: Sequence[Result]) -> list[SummaryRow]:
    """One row per model and method, in the order of the runs."""
    return [_row(line) for line in method_rows(run_views(runs, rows))]


def summary(views: Sequence[RunView]) -> Table:
    """Return the table of questions with options, with notes on chance and on where the numbers come from."""
    rows = [_row(line) for line in method_rows(views)]
    counts = ("unscored", "errors", *(("not asked",) if any(row.not_asked for row in rows) else ()))
    header = ("model", "method", *(metric_title(name) for name in COLUMNS), *counts)
    return Table(
        title="Questions with options",
        header=header,
        rows=tuple(astuple(row)[: len(header)] for row in rows),
        label_columns=2,
        hints={
            **{metric_title(name): metric_meaning(name) for name in COLUMNS},
            **{name: hint for name, hint in COUNT_HINTS.items() if name in header},
        },
        notes=(
            f"value [95% interval] n questions; {_how_taken(views)}; instability in nats.",
            *_coverage_notes(views),
            *_convention_notes(views),
            *unread_notes(views),
            *_bound_notes(rows),
            *_chance_notes(views),
            *_source_notes(views),
            *grader_notes(views),
        ),
    )


def _row(line: ModelMethodRow) -> SummaryRow:
    number = line.overall("accuracy")
    accuracy, circular, instability, hits, unparsed = (
        summary_cell(line, name, line.overall(name)) for name in COLUMNS
    )
    return SummaryRow(
        model=line.view.label,
        method=line.method,
        accuracy=accuracy,
        circular_accuracy=circular,
        instability=instability,
        hit_rate=hits,
        unparsed=unparsed,
        unscored=number.estimate.unscored if number else 0,
        errors=number.estimate.errors + number.estimate.absent if number else 0,
        not_asked=number.estimate.not_asked if number else 0,
    )


def summary_cell(
    line: ModelMethodRow, metric: str, number: HeadlineEstimate | None, benchmark: str = ""
) -> NumberCell | AbsentCell:
    """A cell with the number (of one benchmark, if named), or with the reason why there is none."""
    if number is None:
        return AbsentCell(absence_reason(line, metric))
    if number.estimate.value is None:
        return AbsentCell(why_without_value(line, number, metric, benchmark))
    accuracy = None if benchmark else line.overall("accuracy")
    is_of_fewer = accuracy is not None and accuracy.members != number.members != ""
    return NumberCell(
        number.unit,
        number.estimate,
        number.secondary,
        f"of {number.members} alone" if is_of_fewer else "",
    )


def absence_reason(line: ModelMethodRow, metric: str) -> str:
    """Why a choice metric does not apply to a row."""
    if not any(True for _ in each_choice_benchmark(line.view)):
        return "no questions with options in this run"
    reasons = declared(metric).absent_reasons
    return (
        reasons.get(line.method) or reasons.get("") or "not measured by the protocols of this run"
    )


def _how_taken(views: Sequence[RunView]) -> str:
    """What counts alike in the accuracies, as the suites of the runs declare it."""
    words = {
        "benchmarks": "unweighted means over benchmarks",
        "questions": "over all questions, which count alike",
    }
    counted = {number.over for line in method_rows(views) if (number := line.overall("accuracy"))}
    return (
        " or ".join(phrase for over, phrase in words.items() if over in counted)
        or words["benchmarks"]
    )


def _coverage_notes(views: Sequence[RunView]) -> list[str]:
    """What accuracies lack of all that their suites name, and whether they are of the same questions."""
    accuracies = {
        line.label: number for line in method_rows(views) if (number := line.overall("accuracy"))
    }
    by_words: dict[str, list[str]] = defaultdict(list)
    for label, number in accuracies.items():
        if number.partial:
            by_words[number.partial].append(label)
    notes = []
    for words, labels in by_words.items():
        who = "" if len(labels) == len(accuracies) else f" ({'; '.join(labels)})"
        notes.append(f"Partial{who}: {words}.")
    by_method: dict[str, set[str]] = defaultdict(set)
    for line in method_rows(views):
        if number := accuracies.get(line.label):
            by_method[line.method].add(number.members)
    uneven = [method for method, members in by_method.items() if len(members) > 1]
    return [
        *notes,
        *(
            f"By {method} the models were not asked the same questions: these means do not compare."
            for method in uneven
        ),
    ]


def _convention_notes(views: Sequence[RunView]) -> list[str]:
    """Which rules the numbers of runs scored as published follow."""
    notes = []
    for view in views:
        if view.run.convention == "as-published":
            instead = "".join(
                f"; {metric_title(row)} is {metric_title(substitute)}"
                for row, substitute in view.substitutes.items()
            )
            notes.append(
                f"As published: replies are read by {' and '.join(view.run.extractors)}{instead}."
            )
    return list(dict.fromkeys(notes))


def _bound_notes(rows: Sequence[SummaryRow]) -> list[str]:
    cells = [
        cell
        for row in rows
        for cell in (row.accuracy, row.circular_accuracy)
        if isinstance(cell, NumberCell)
    ]
    labels = {label for cell in cells for label, _ in cell.secondary}
    notes = []
    if "of answered" in labels:
        notes.append(
            "Answers that are not in the file, and requests that failed there, count as not right; `of answered` is of "
            "the questions that were answered in full."
        )
    if "after audit" in labels:
        notes.append(
            "`after audit` is corrected for misread replies by labels of a drawn part of them (`snellen audit`)."
        )
    if labels - {"of answered", "after audit"}:
        notes.append(
            "Unparsed replies count as not right. `of parsed` leaves them out, and with them questions without "
            "another reply; `at most` counts them as right. Both are bounds on the effect of unparsed replies, and do "
            "not allow for replies that were misread."
        )
    return notes


def _chance_notes(views: Sequence[RunView]) -> list[str]:
    levels = {
        view.label: percent(level)
        for view in views
        if (level := mean_chance(view.run.benchmarks)) is not None
    }
    if not levels:
        return []
    opening = "Guessing (mean of 1 / number of options) gives"
    if len(set(levels.values())) == 1:
        return [f"{opening} {next(iter(levels.values()))} accuracy."]
    return [
        f"{opening} an accuracy of "
        + ", ".join(f"{level} ({label})" for label, level in levels.items())
        + "."
    ]


def _source_notes(views: Sequence[RunView]) -> list[str]:
    """Which protocol each column comes from: one sentence if it is the same for all rows of a method."""
    sentences: dict[str, None] = {}
    for line in method_rows(views):
        numbers = {metric: number for metric in COLUMNS if (number := line.overall(metric))}
        sources: dict[str, list[str]] = {}
        for metric in ("accuracy", "circular_accuracy"):
            if metric in numbers:
                sources.setdefault(numbers[metric].protocol, []).append(metric_title(metric))
        if sources:
            texts = (
                f"{' and '.join(titles)} from {protocol}" for protocol, titles in sources.items()
            )
            sentences[f"By {line.method}: {' and '.join(texts)}."] = None
        if first := [m for m, number in numbers.items() if is_of_first_alone(m, number.protocol)]:
            names = " and ".join(
                filter(None, (", ".join(map(metric_title, first[:-1])), metric_title(first[-1])))
            )
            sentences[f"Of each question's first presentation alone: {names}."] = None
    return list(sentences)


def html_summary(runs: Sequence[ScoredRun], rows: Sequence[Result]) -> str:
    """Return what was found and the first tables as HTML without style or script, every text escaped."""
    views = run_views(runs, rows)
    render_table = part("parts.html", "table")
    html = part("parts.html", "findings")(findings(views)) + render_table(headline_table(views))
    side = side_table(views)
    return html if side is None else html + render_table(side)
