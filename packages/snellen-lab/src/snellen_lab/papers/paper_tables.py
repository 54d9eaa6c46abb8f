"""Show the printed tables of papers, with the scores of runs next to those of the papers' models."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from statistics import median
from typing import NamedTuple

from msgspec.structs import replace

from snellen.plugin_api import (
    AbsentCell,
    Cell,
    Estimate,
    ModelMethodRow,
    NumberCell,
    ReportedRun,
    ReportSection,
    Table,
    decimal_text,
    interval_text,
    suite_facts,
    value_text,
)
from snellen_lab.cell_texts import DASH
from snellen_lab.papers.paper_check import derived_figures
from snellen_lab.papers.printed_comparison import (
    NOT_SHARED,
    PrintedComparison,
    better_of,
    compare_with_printed,
)
from snellen_lab.papers.printed_tables import (
    MODEL,
    Paper,
    PrintedValue,
    papers,
)

DERIVED_NOTE = "computed from the run's other figures as the paper's are from theirs"
RANK_NOTE = (
    "Best, median and lowest are those of the paper's models. A rank is among these and the run's, with the ranks that "
    "the ends of its interval would have."
)


def paper_list(papers: Sequence[Paper]) -> Table:
    """Return an overview of the tables of papers: what each shows, and its numbers of rows and columns."""
    rows = []
    for paper in papers:
        for name, table in paper.tables.items():
            distinct_labels = {tuple(cell.labels.items()) for cell in paper.values(name)}
            n_rows = len(distinct_labels)
            n_columns = len(paper.header(name)) - len(table.labels)
            rows.append((paper.suite, name, table.title, n_rows, n_columns))
    return Table(
        "Tables of papers",
        ("suite", "table", "what it shows", "rows", "columns"),
        tuple(rows),
        label_columns=3,
    )


def printed_table(paper: Paper, name: str, reported_runs: Sequence[ReportedRun] = ()) -> Table:
    """Return a table of a paper as it is printed, with rows of runs above those of its models.

    Args:
        paper: The paper.
        name: The name of the table.
        reported_runs: The runs. Only those that are scored as published have rows, with intervals and ranks.

    Raises:
        UnknownNameError: The paper has no such table.
    """
    table = paper.table(name)
    header = paper.header(name)
    columns = header[len(table.labels) :]
    printed_by_labels: dict[tuple[str, ...], dict[str, str]] = defaultdict(dict)
    for cell in paper.values(name):
        labels = tuple(cell.labels.values())
        printed_by_labels[labels][cell.column] = cell.printed
    rows: list[tuple[Cell, ...]] = []
    for labels, printed_by_column in printed_by_labels.items():
        printed_values = [printed_by_column.get(column, "") for column in columns]
        rows.append((*labels, *printed_values))

    run_rows, run_notes = _run_rows(paper, name, columns, reported_runs)
    facts = suite_facts()[paper.suite]
    notes = [f"{table.caption}."]
    units = dict.fromkeys(cell.unit for cell in paper.values(name) if cell.unit)
    if units:
        notes.append(f"In {', '.join(units)}.")
    notes.append(facts.citation)
    return Table(
        f"{facts.title}, Table {name}: {table.title}",
        header,
        (*run_rows, *rows),
        len(table.labels),
        (*notes, *run_notes),
    )


def _run_rows(
    paper: Paper, name: str, columns: Sequence[str], reported_runs: Sequence[ReportedRun]
) -> tuple[list[tuple[Cell, ...]], list[str]]:
    """Return the rows of runs for a printed table, and notes on them.

    The rows of a table may differ in more than the model, for example in the method. Each run then has rows for each of
    these kinds of rows: one with its values, one with their intervals, and one with its ranks among the printed models.

    Args:
        paper: The paper.
        name: The name of the table.
        columns: The headings of its columns of values.
        reported_runs: The runs.
    """
    rows: list[tuple[Cell, ...]] = []
    columns_by_note: dict[str, list[str]] = defaultdict(list)
    label_columns = paper.tables[name].labels
    model_rows: list[ModelMethodRow] = []
    for reported_run in reported_runs:
        model_rows.extend(reported_run.method_rows)
    for model_row in model_rows:
        derived_comparisons = _derived_comparisons(paper, model_row)
        for row_kind in _row_kinds(paper, name):
            comparisons: dict[str, PrintedComparison | None] = {}
            for column, cells in row_kind.cells_by_column.items():
                comparison = compare_with_printed(paper, model_row, cells)
                if comparison is None:
                    run_cell = _cell_of_run(model_row, cells[0])
                    comparison = derived_comparisons.get(run_cell.location)
                comparisons[column] = comparison
            available = [
                comparison for comparison in comparisons.values() if comparison is not None
            ]
            if not available:
                continue

            if any(comparison.estimate.value is not None for comparison in available):
                label = model_row.reported_run.label
                comparisons_in_order = [comparisons.get(column) for column in columns]
                text_of_comparison = {
                    label: _value_text,
                    f"{label} (95% interval)": _interval_text,
                    f"{label} (rank)": _rank_text,
                }
                for run_label, cell_text in text_of_comparison.items():
                    labels = [row_kind.labels.get(column, run_label) for column in label_columns]
                    texts = [cell_text(comparison) for comparison in comparisons_in_order]
                    rows.append((*labels, *texts))
            for column, comparison in comparisons.items():
                note = NOT_SHARED if comparison is None else comparison.note
                if note:
                    columns_by_note[f"{model_row.label}: {note}"].append(column)

    notes = []
    for note, note_columns in columns_by_note.items():
        distinct_columns = dict.fromkeys(note_columns)
        notes.append(f"{note} ({', '.join(distinct_columns)}).")
    return rows, notes


def _value_text(comparison: PrintedComparison | None) -> str:
    """Return the value of a run for a cell of a table; a dash if there is none."""
    if comparison is None:
        return DASH
    return comparison.text or value_text(comparison.estimate, comparison.unit)


def _interval_text(comparison: PrintedComparison | None) -> str:
    """Return the interval of a run's value for a cell of a table; a dash if there is none."""
    if comparison is None or comparison.text or comparison.estimate.value is None:
        return DASH
    return interval_text(comparison.estimate, comparison.unit)


def _rank_text(comparison: PrintedComparison | None) -> str:
    """Return the rank of a run's value among the printed ones for a cell of a table; a dash if there is none."""
    return DASH if comparison is None else comparison.rank


def _derived_comparisons(paper: Paper, model_row: ModelMethodRow) -> dict[str, PrintedComparison]:
    """Compute the values of a run that follow from its other values, such as means and average ranks.

    Args:
        paper: The paper, which declares how its values follow from others.
        model_row: The results of the run.

    Returns:
        The values by the location of their cell (`28: MODEL: Complete Rank`).
    """
    run_cells: list[PrintedValue] = []
    for name in paper.tables:
        for row_kind in _row_kinds(paper, name):
            for cells in row_kind.cells_by_column.values():
                comparison = compare_with_printed(paper, model_row, cells)
                if comparison is not None and comparison.estimate.value is not None:
                    cell = _cell_of_run(model_row, cells[0])
                    printed = decimal_text(comparison.estimate.value, cell.digits)
                    run_cells.append(replace(cell, printed=printed))

    comparisons: dict[str, PrintedComparison] = {}
    known_locations = {cell.location for cell in run_cells}
    # A derived value may be the source of another one, so values are derived until there is no new one.
    while run_cells:
        new_cells = []
        for cell in derived_figures(paper, run_cells):
            if cell.location not in known_locations:
                new_cells.append(cell)
        if not new_cells:
            break
        for cell in new_cells:
            run_cells.append(cell)
            known_locations.add(cell.location)
            estimate = Estimate(float(cell.printed), None, None, None, 0)
            comparisons[cell.location] = PrintedComparison(
                cell.unit, estimate, DASH, DERIVED_NOTE, cell.printed
            )
    return comparisons


def _cell_of_run(model_row: ModelMethodRow, cell: PrintedValue) -> PrintedValue:
    """Return a printed cell with the model of a run in place of the paper's model."""
    return replace(cell, labels={**cell.labels, MODEL: model_row.label})


class _RowKind(NamedTuple):
    """The rows of a table that differ only in their model."""

    labels: dict[str, str]
    """Their labels other than the model, by the label's column."""
    cells_by_column: dict[str, list[PrintedValue]]
    """The cells of all models, by column."""


def _row_kinds(paper: Paper, name: str) -> list[_RowKind]:
    """Group the rows of a printed table, so that rows which differ only in their model are in one group.

    Rows without a model, and cells without a number, are left out.
    """
    kinds: dict[tuple[tuple[str, str], ...], _RowKind] = {}
    for cell in paper.values(name):
        if cell.value is None or MODEL not in cell.labels:
            continue
        labels = {label: text for label, text in cell.labels.items() if label != MODEL}
        key = tuple(labels.items())
        if key not in kinds:
            kinds[key] = _RowKind(labels, {})
        kinds[key].cells_by_column.setdefault(cell.column, []).append(cell)
    return list(kinds.values())


def published_model_tables(reported_runs: Sequence[ReportedRun]) -> list[Table]:
    """Return the tables of a report that compare its runs with the models of papers.

    There is one for each printed table with a column for which a run has a value. It has the values and ranks of the
    runs. Only runs that are scored as published are included.
    """
    published_runs = []
    run_suites = set()
    run_benchmarks = set()
    for reported_run in reported_runs:
        if reported_run.run.convention == "standard":
            continue
        published_runs.append(reported_run)
        for scored in reported_run.run.benchmarks:
            run_suites.add(scored.spec.suite)
            run_benchmarks.add(scored.spec.name)
    if not run_suites:
        return []

    tables = []
    for suite, paper in papers().items():
        paper_benchmarks = {subject.benchmark for subject in paper.subjects.values()}
        if suite not in run_suites and paper_benchmarks.isdisjoint(run_benchmarks):
            continue
        for name in paper.tables:
            table = _comparison_table(paper, name, published_runs)
            if table is not None:
                tables.append(table)
    return tables


PAPER_SECTION = ReportSection(
    "papers",
    "Published models",
    "the numbers that papers print, next to these",
    published_model_tables,
    after="talks",
)


def _comparison_table(
    paper: Paper, name: str, reported_runs: Sequence[ReportedRun]
) -> Table | None:
    """Return a table with a row for each column of a printed table for which a run has a value.

    A row has the value and the rank of each run, and the best, median and lowest printed value.

    Args:
        paper: The paper.
        name: The name of the printed table.
        reported_runs: The runs, scored as published.

    Returns:
        The table; None if no run has a value for any column.
    """
    rows: list[tuple[Cell, ...]] = []
    for row_kind in _row_kinds(paper, name):
        for column, cells in row_kind.cells_by_column.items():
            comparisons = []
            for reported_run in reported_runs:
                comparisons.append(_first_comparison(paper, reported_run, cells))
            if not any(comparisons):
                continue
            column_name = ", ".join((*row_kind.labels.values(), column))
            row: list[Cell] = [column_name]
            for comparison in comparisons:
                row.extend(_comparison_cells(comparison))
            row.extend(_printed_spread(cells))
            rows.append(tuple(row))
    if not rows:
        return None
    header = ["printed column"]
    for reported_run in reported_runs:
        header.extend((reported_run.label, "rank"))
    header.extend(("best", "median", "lowest"))
    title = f"{suite_facts()[paper.suite].title}, Table {name}: {paper.tables[name].title}"
    return Table(title, tuple(header), tuple(rows), notes=(RANK_NOTE,))


def _first_comparison(
    paper: Paper, reported_run: ReportedRun, cells: Sequence[PrintedValue]
) -> PrintedComparison | None:
    """Compare a run with printed values, by the first of its evaluation methods that has a value for them.

    Returns:
        The comparison; None if the run has no value for them.
    """
    for model_row in reported_run.method_rows:
        comparison = compare_with_printed(paper, model_row, cells)
        if comparison is not None:
            return comparison
    return None


def _comparison_cells(comparison: PrintedComparison | None) -> tuple[Cell, Cell]:
    """Return the cells of a run's number and of its rank."""
    if comparison is None:
        return AbsentCell(NOT_SHARED), DASH
    if comparison.estimate.value is None:
        return AbsentCell(comparison.note), DASH
    number = NumberCell(comparison.unit, comparison.estimate, note=comparison.note)
    return number, comparison.rank


def _printed_spread(cells: Sequence[PrintedValue]) -> tuple[str, str, str]:
    """Return the best, the median and the worst of the printed values of a column, as text."""
    first_cell = cells[0]
    digits = first_cell.digits
    values = [cell.value for cell in cells if cell.value is not None]
    values.sort(reverse=better_of(first_cell) == "higher")
    best = decimal_text(float(values[0]), digits)
    middle = decimal_text(float(median(values)), digits)
    worst = decimal_text(float(values[-1]), digits)
    return best, middle, worst
