"""The table everybody looks at first: one row for a model under a method."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from snellen.metrics.declaration import declared
from snellen.records import Estimate, Method, Result
from snellen.report.formatting import metric_title, percent
from snellen.report.run_view import (
    MethodRow,
    MetricEstimates,
    RunView,
    each_choice_benchmark,
    mean_chance,
    method_rows,
    run_views,
)
from snellen.report.table import AbsentCell, NumberCell, Table
from snellen.scoring.scored_run import ScoredRun

COLUMNS = ("accuracy", "circular_accuracy", "instability", "hit_rate", "unparsed_rate")
"""The rows that every model is first looked at by."""


class SummaryRow(Struct, frozen=True):
    """Means over all choice benchmarks, each counting alike."""

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
    """Questions of the accuracy column that never got an answer."""


def summary_rows(runs: Sequence[ScoredRun], rows: Sequence[Result]) -> list[SummaryRow]:
    """One row a model and method, in order of the runs."""
    return [_row(line) for line in method_rows(run_views(runs, rows))]


def summary(sheets: Sequence[RunView]) -> Table:
    """The summary as a table, with what guessing gives and where the numbers come from."""
    rows = [_row(line) for line in method_rows(sheets)]
    return Table(
        title="Summary",
        header=("model", "method", *(metric_title(name) for name in COLUMNS), "unscored", "errors"),
        rows=tuple(
            (
                row.model,
                row.method,
                row.accuracy,
                row.circular_accuracy,
                row.instability,
                row.hit_rate,
                row.unparsed,
                row.unscored,
                row.errors,
            )
            for row in rows
        ),
        labels=2,
        notes=(
            "value [95% interval] n questions; means over benchmarks, each counting alike; instability in nats.",
            *_convention_notes(sheets),
            *_bound_notes(rows),
            *_chance_notes(sheets),
            *_source_notes(sheets),
            *_grader_notes(sheets),
        ),
    )


def _row(line: MethodRow) -> SummaryRow:
    found = line.overall("accuracy")
    accuracy, circular, instability, hits, unparsed = (
        summary_number(line, name, line.overall(name)) for name in COLUMNS
    )
    return SummaryRow(
        model=line.sheet.label,
        method=line.method,
        accuracy=accuracy,
        circular_accuracy=circular,
        instability=instability,
        hit_rate=hits,
        unparsed=unparsed,
        unscored=found.estimate.unscored if found else 0,
        errors=found.estimate.errors if found else 0,
    )


def summary_number(
    line: MethodRow, metric: str, found: MetricEstimates | None, benchmark: str = ""
) -> NumberCell | AbsentCell:
    """A cell for what was found (of one benchmark, if it is named), or for why there is nothing."""
    if found is None:
        return AbsentCell(why_absent(line, metric))
    if found.estimate.value is None:
        return AbsentCell(found.reason or _why_unscored(line, found.estimate, benchmark))
    return NumberCell(found.unit, found.estimate, found.beside)


def why_absent(line: MethodRow, metric: str) -> str:
    """Why a metric of choices does not apply to a line."""
    if not any(True for _ in each_choice_benchmark(line.sheet)):
        return "no questions with options in this run"
    reasons = declared(metric).absent
    return reasons.get(line.method) or reasons.get("") or "not measured by the protocols of this run"


def _why_unscored(line: MethodRow, estimate: Estimate, benchmark: str) -> str:
    if estimate.errors and not estimate.unscored:
        return "no question was answered; see the errors"
    scored = [one for one in line.sheet.run.benchmarks if benchmark in ("", one.spec.name)]
    if not any(one.answers for one in scored):
        return "the answers are hidden"
    return "no answer could be scored; see the counts"


def _convention_notes(sheets: Sequence[RunView]) -> list[str]:
    """By what rules numbers as published were made."""
    told = []
    for sheet in sheets:
        if sheet.run.convention == "as-published":
            instead = "".join(f"; {metric_title(row)} is {metric_title(other)}" for row, other in sheet.instead.items())
            told.append(f"As published: replies are read by {' and '.join(sheet.run.extractors)}{instead}.")
    return list(dict.fromkeys(told))


def _bound_notes(rows: Sequence[SummaryRow]) -> list[str]:
    cells = [cell for row in rows for cell in (row.accuracy, row.circular_accuracy)]
    if not any(isinstance(cell, NumberCell) and cell.beside for cell in cells):
        return []
    return [
        "Unparsed replies count as not right; beside it, of those parsed, and at most, were they right: what the model "
        "meant lies between the first and the last."
    ]


def _chance_notes(sheets: Sequence[RunView]) -> list[str]:
    levels = {
        sheet.label: percent(level) for sheet in sheets if (level := mean_chance(sheet.run.benchmarks)) is not None
    }
    if not levels:
        return []
    what = "Guessing (mean of 1 / number of options) gives"
    if len(set(levels.values())) == 1:
        return [f"{what} {next(iter(levels.values()))} accuracy."]
    return [f"{what} an accuracy of " + ", ".join(f"{level} ({label})" for label, level in levels.items()) + "."]


def _grader_notes(sheets: Sequence[RunView]) -> list[str]:
    """Who of the models spoke to whoever grades, how often, and an example."""
    told = []
    for sheet in sheets:
        speaking = [p for one in sheet.run.benchmarks for p in one.predictions if p.addresses_grader]
        if speaking:
            first = speaking[0]
            replies = f"{len(speaking):,} {'reply speaks' if len(speaking) == 1 else 'replies speak'}"
            told.append(
                f"{replies} to the grader ({sheet.label}; {first.sample_id}: {first.addresses_grader!r}); read as any "
                "other."
            )
    return told


def _source_notes(sheets: Sequence[RunView]) -> list[str]:
    """Which protocol each column comes from; one sentence when it is the same for all lines of a method."""
    said: dict[str, None] = {}
    for line in method_rows(sheets):
        texts = [
            f"{metric_title(metric)} from {found.protocol}"
            for metric in ("accuracy", "circular_accuracy")
            if (found := line.overall(metric))
        ]
        if texts:
            said[f"By {line.method}: {' and '.join(texts)}."] = None
    return list(said)
