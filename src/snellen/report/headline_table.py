"""The first table of every form of a report: the headline of each benchmark by model, and the mean last.

The second table has what says something about these numbers: unparsed replies, lost requests, stability.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from snellen.analysis.headline import ALL, headlines_of
from snellen.analysis.ranks import mean_ranks
from snellen.metrics.declaration import SHARE, as_read, declared
from snellen.records import Estimate, Result
from snellen.report.reply_notes import grader_notes, unread_notes
from snellen.report.run_view import (
    OVER,
    HeadlineEstimate,
    ModelMethodRow,
    RunView,
    benchmarks_of,
    each_choice_benchmark,
    method_rows,
)
from snellen.report.table import (
    DASH,
    AbsentCell,
    Cell,
    NumberCell,
    Table,
    decimal_text,
    metric_title,
    percent,
)

MOST_NOTES = 3
"""Footnotes below the first table; a report and `--details` have all others."""
LONGEST_TITLE = 20
LABELS = ("benchmark", "metric", "guessing")
SIDE_METRICS = (
    "circular_accuracy",
    "instability",
    "hit_rate",
    "unparsed_rate",
    "unsure_rate",
    "pass_at_k",
    "majority_vote",
)
"""The rows of the second table, if they say something."""


def headline_table(views: Sequence[RunView], *, values_alone: bool = False) -> Table:
    """Return the headline of each benchmark, a column for each model and method, and the mean in the last row.

    With `values_alone` only the mean has its interval, so that more models fit side by side.
    """
    lines = method_rows(views)
    rows: list[tuple[Cell, ...]] = []
    for name in benchmarks_of(views):
        cells = [_benchmark_cell(line, name) for line in lines]
        if values_alone:
            cells = [_value_alone(cell) for cell in cells]
        metrics = dict.fromkeys(_metric_of(line, name) for line in lines)
        levels = [line.chances.get(name) for line in lines if name in line.headlines]
        rows.append((name, " or ".join(filter(None, metrics)), _chance_cell(levels), *cells))
    if len(rows) > 1:
        rows.append(_mean_row(lines))
    return Table(
        title="Result",
        header=(*LABELS, *_column_names(lines)),
        rows=tuple(rows),
        label_columns=len(LABELS),
        notes=tuple(_notes(lines)),
        most_notes=MOST_NOTES,
    )


def headline_by_model(views: Sequence[RunView]) -> Table:
    """Return the same numbers with a row for each model and method, for more models than fit side by side."""
    table = headline_table(views)
    names = [str(row[0]) for row in table.rows]
    is_mean_last = len(names) > 1
    order = [len(names) - 1, *range(len(names) - 1)] if is_mean_last else [0]
    rows: list[tuple[Cell, ...]] = []
    for column, name in enumerate(table.header[len(LABELS) :], len(LABELS)):
        cells = [table.rows[place][column] for place in order]
        rows.append((name, cells[0], *map(_value_alone, cells[1:])))
    header = ("model", *(names[place] for place in order))
    return Table(table.title, header, tuple(rows), notes=table.notes, most_notes=MOST_NOTES)


def _value_alone(cell: Cell) -> Cell:
    if not isinstance(cell, NumberCell):
        return cell
    value = cell.estimate.value or 0.0
    return percent(value) if cell.unit == SHARE else decimal_text(value, 3)


def _column_names(lines: Sequence[ModelMethodRow]) -> list[str]:
    """Return the label of each model, with the method if the runs have several."""
    methods = {line.method for line in lines}
    return [line.label if len(methods) > 1 else line.view.label for line in lines]


def _metric_of(line: ModelMethodRow, benchmark: str) -> str:
    row = line.headlines.get(benchmark)
    return short_title(row.metric) if row else ""


def short_title(metric: str) -> str:
    """Return the title of a metric, or its name in words if the title is a sentence."""
    title = metric_title(metric)
    return title if len(title) <= LONGEST_TITLE else metric.replace("_", " ")


def _chance_cell(levels: Sequence[float | None]) -> str:
    """Return the level of guessing, or the range of levels if the models were asked different questions."""
    known = sorted({percent(level) for level in levels if level is not None})
    if not known or None in levels:
        return DASH
    return known[0] if len(known) == 1 else f"{known[0]} to {known[-1]}"


def _benchmark_cell(line: ModelMethodRow, benchmark: str) -> Cell:
    row = line.headlines.get(benchmark)
    if row is not None:
        return NumberCell(row.unit, row.estimate, _as_read(line, row))
    return AbsentCell(_why_absent(line, benchmark))


def _why_absent(line: ModelMethodRow, benchmark: str) -> str:
    """Return why a model has no headline of a benchmark by this method."""
    scored = line.view.benchmark(benchmark)
    if scored is None:
        return "not part of the run"
    for metric in headlines_of(scored):
        number = line.lookup(metric, benchmark)
        if number is not None:
            return why_without_value(line, number, metric, benchmark)
    return "not measured by the protocols of this run"


def why_without_value(
    line: ModelMethodRow, number: HeadlineEstimate, metric: str, benchmark: str = ""
) -> str:
    """Return why an estimate has no value."""
    estimate = number.estimate
    if number.reason:
        return number.reason
    if estimate.n and declared(metric).undefined:
        return declared(metric).undefined
    if estimate.unanswered and not estimate.unscored:
        seen = "answered; see the errors" if estimate.errors else "asked to the end"
        return f"no question was {seen}"
    scored = [each for each in line.view.run.benchmarks if benchmark in ("", each.spec.name)]
    if not any(each.answers for each in scored):
        return "the answers are hidden"
    return "no answer could be scored; see the counts"


# --- the last row ----------------------------------------------------------------------------------------------------


def _mean_row(lines: Sequence[ModelMethodRow]) -> tuple[Cell, ...]:
    """Return the row of the mean; if benchmarks have no common scale, the mean rank of each model."""
    numbers = [line.headline for line in lines]
    if not any(number and number.estimate.value is not None for number in numbers):
        return ("mean rank", "", "", *_rank_cells(lines))
    over = dict.fromkeys(number.over for number in numbers if number and number.over)
    label = " or ".join(OVER[each] for each in over)
    most = max(len(line.headlines) for line in lines)
    cells = [_mean_cell(line, most) for line in lines]
    return (label, "", _chance_cell([line.chance for line in lines if line.headlines]), *cells)


def _mean_cell(line: ModelMethodRow, most: int) -> Cell:
    number = line.headline
    if number is None:
        return AbsentCell("no benchmark has a value")
    if number.estimate.value is None:
        return AbsentCell(f"{number.detail} have no common scale")
    count = len(line.headlines)
    note = f"of {count} of {most} benchmarks" if count < most else ""
    return NumberCell(number.unit, number.estimate, _as_read(line, number), note)


def _as_read(line: ModelMethodRow, row: Result) -> tuple[tuple[str, Estimate], ...]:
    """Return the number as read, with its label, if labels of replies have corrected it."""
    read = as_read(declared(row.metric))
    dimension = row.dimension if row.benchmark == ALL else ""
    key = (row.protocol, read.name, row.benchmark, dimension, "")
    number = line.view.results_by_key.get(key)
    return ((read.label, number.estimate),) if number else ()


def _rank_cells(lines: Sequence[ModelMethodRow]) -> list[Cell]:
    """Return the mean rank of each model among those of its method, over the benchmarks that all of them have."""
    by_method: dict[str, list[ModelMethodRow]] = defaultdict(list)
    for line in lines:
        by_method[line.method].append(line)
    cells: dict[str, Cell] = {}
    for members in by_method.values():
        ranks = mean_ranks([line.headlines for line in members])
        for line, rank in zip(members, ranks, strict=True):
            if rank is None:
                cells[line.label] = AbsentCell("no common scale; one model alone has no rank")
            else:
                cells[line.label] = decimal_text(rank, 2)
    return [cells[line.label] for line in lines]


# --- notes -----------------------------------------------------------------------------------------------------------


def _notes(lines: Sequence[ModelMethodRow]) -> list[str]:
    """Return what changes the meaning of the table: odd replies, other questions, and other rules."""
    shown = list({line.view.label: line.view for line in lines}.values())
    notes = [*grader_notes(shown), *unread_notes(shown)]
    by_method: dict[str, set[str]] = defaultdict(set)
    for line in lines:
        if line.headline is not None:
            by_method[line.method].add(line.headline.members)
    for method, members in by_method.items():
        if len(members) > 1:
            notes.append(
                f"By {method} the models were not asked the same questions: their means do not compare."
            )
    views = {line.view.label: line.view for line in lines}
    for view in views.values():
        if view.run.convention != "standard":
            extractors = " and ".join(view.run.extractors)
            notes.append(f"{view.label}: as published; replies are read by {extractors}.")
    return notes


# --- the second table ------------------------------------------------------------------------------------------------


def side_table(views: Sequence[RunView]) -> Table | None:
    """Return what says something about the headlines, a row for each model and method; None if nothing does.

    A column is left out if it has no value, or if it is at the end that says nothing: no unparsed reply, every reply
    in the form that was asked for.
    """
    lines = method_rows(views)
    columns: dict[str, list[Cell]] = {}
    for metric in SIDE_METRICS:
        numbers = [line.overall(metric) for line in lines]
        if any(number is not None and _is_telling(metric, number.estimate) for number in numbers):
            columns[metric_title(metric)] = [
                _side_cell(line, number) for line, number in zip(lines, numbers, strict=True)
            ]
    for title, counts in _lost_questions(lines).items():
        if any(counts):
            columns[title] = list(counts)
    if not columns:
        return None

    names = _column_names(lines)
    rows = tuple(zip(names, *columns.values(), strict=True))
    notes: list[str] = []
    scopes = {_option_count(view) for view in views}
    if any(metric_title(metric) in columns for metric in SIDE_METRICS) and scopes != {""}:
        notes.append(f"Over benchmarks with options: {', '.join(sorted(scopes - {''}))}.")
    return Table("Replies and stability", ("model", *columns), rows, notes=tuple(notes))


def _is_telling(metric: str, estimate: Estimate) -> bool:
    if estimate.value is None:
        return False
    if metric in ("unparsed_rate", "unsure_rate"):
        return estimate.value > 0
    if metric == "hit_rate":
        return estimate.value < 1
    return True


def _side_cell(line: ModelMethodRow, number: HeadlineEstimate | None) -> Cell:
    if number is None or number.estimate.value is None:
        return DASH
    accuracy = line.overall("accuracy")
    is_of_fewer = accuracy is not None and accuracy.members != number.members
    note = f"of {number.members} alone" if is_of_fewer else ""
    return NumberCell(number.unit, number.estimate, note=note)


def _lost_questions(lines: Sequence[ModelMethodRow]) -> dict[str, list[int]]:
    """Return how many requests failed, and how many questions of the headlines have no value for which reason."""
    counts: dict[str, list[int]] = {
        "requests failed": [],
        "no reply": [],
        "not asked": [],
        "no ground truth": [],
    }
    for line in lines:
        estimates = [row.estimate for row in line.headlines.values()]
        is_first = line.view.method_rows[0].method == line.method
        counts["requests failed"].append(line.view.run.failed if is_first else 0)
        counts["no reply"].append(sum(each.errors + each.absent for each in estimates))
        counts["not asked"].append(sum(each.not_asked for each in estimates))
        counts["no ground truth"].append(sum(each.unscored for each in estimates))
    return counts


def _option_count(view: RunView) -> str:
    every = len(view.run.benchmarks)
    with_options = len(list(each_choice_benchmark(view)))
    return "" if with_options == every else f"{with_options} of {every}"
