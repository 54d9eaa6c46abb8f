"""Tables of papers as printed, with runs next to the models in them."""

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
    """Return a table of all tables of papers."""
    rows = []
    for paper in papers:
        for name, table in paper.tables.items():
            table_rows = {tuple(cell.labels.items()) for cell in paper.values(name)}
            n_columns = len(paper.header(name)) - len(table.labels)
            rows.append((paper.suite, name, table.title, len(table_rows), n_columns))
    return Table(
        "Tables of papers",
        ("suite", "table", "what it shows", "rows", "columns"),
        tuple(rows),
        label_columns=3,
    )


def printed_table(paper: Paper, name: str, reported_runs: Sequence[ReportedRun] = ()) -> Table:
    """Return a table as printed. Runs scored as published are above its models, with intervals and ranks."""
    table = paper.table(name)
    header = paper.header(name)
    columns = header[len(table.labels) :]
    printed_rows: dict[tuple[str, ...], dict[str, str]] = defaultdict(dict)
    for cell in paper.values(name):
        printed_rows[tuple(cell.labels.values())][cell.column] = cell.printed
    rows: list[tuple[Cell, ...]] = []
    for labels, printed_cells in printed_rows.items():
        rows.append((*labels, *(printed_cells.get(column, "") for column in columns)))

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
    """Return the rows of runs below the printed rows of a table, and notes on them.

    Each run has three rows for each kind of row: values, intervals and ranks.
    """
    rows: list[tuple[Cell, ...]] = []
    columns_by_note: dict[str, list[str]] = defaultdict(list)
    label_columns = paper.tables[name].labels
    model_rows = [
        model_row for reported_run in reported_runs for model_row in reported_run.method_rows
    ]
    for model_row in model_rows:
        derived = _derived_comparisons(paper, model_row)
        for row_kind in _row_kinds(paper, name):
            comparisons: dict[str, PrintedComparison | None] = {}
            for column, cells in row_kind.cells_by_column.items():
                comparison = compare_with_printed(paper, model_row, cells)
                if comparison is None:
                    comparison = derived.get(_cell_of_run(model_row, cells[0]).place)
                comparisons[column] = comparison
            found_comparisons = [
                comparison for comparison in comparisons.values() if comparison is not None
            ]
            if not found_comparisons:
                continue

            if any(comparison.estimate.value is not None for comparison in found_comparisons):
                in_order = [comparisons.get(column) for column in columns]
                label = model_row.reported_run.label
                for run_label, text_of in (
                    (label, _value_text),
                    (f"{label} (95% interval)", _interval_text),
                    (f"{label} (rank)", _rank_text),
                ):
                    labels = [row_kind.labels.get(column, run_label) for column in label_columns]
                    rows.append((*labels, *map(text_of, in_order)))
            for column, comparison in comparisons.items():
                note = NOT_SHARED if comparison is None else comparison.note
                if note:
                    columns_by_note[f"{model_row.label}: {note}"].append(column)

    notes = []
    for note, note_columns in columns_by_note.items():
        notes.append(f"{note} ({', '.join(dict.fromkeys(note_columns))}).")
    return rows, notes


def _value_text(comparison: PrintedComparison | None) -> str:
    if comparison is None:
        return DASH
    return comparison.text or value_text(comparison.estimate, comparison.unit)


def _interval_text(comparison: PrintedComparison | None) -> str:
    if comparison is None or comparison.text or comparison.estimate.value is None:
        return DASH
    return interval_text(comparison.estimate, comparison.unit)


def _rank_text(comparison: PrintedComparison | None) -> str:
    return DASH if comparison is None else comparison.rank


def _derived_comparisons(paper: Paper, model_row: ModelMethodRow) -> dict[str, PrintedComparison]:
    """Return figures that follow from a run's other numbers, by their places (`28: MODEL: Complete Rank`)."""
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
    known_places = {cell.place for cell in run_cells}
    # Figures follow from figures, so that new ones are derived until there are none.
    while run_cells:
        new_cells = []
        for cell in derived_figures(paper, run_cells):
            if cell.place not in known_places:
                new_cells.append(cell)
        if not new_cells:
            break
        for cell in new_cells:
            run_cells.append(cell)
            known_places.add(cell.place)
            estimate = Estimate(float(cell.printed), None, None, None, 0)
            comparisons[cell.place] = PrintedComparison(
                cell.unit, estimate, DASH, DERIVED_NOTE, cell.printed
            )
    return comparisons


def _cell_of_run(model_row: ModelMethodRow, cell: PrintedValue) -> PrintedValue:
    """Return a printed cell with the run's model in place of the paper's."""
    return replace(cell, labels={**cell.labels, MODEL: model_row.label})


class _RowKind(NamedTuple):
    """Rows of a table that differ in the model only."""

    labels: dict[str, str]
    """Their common labels."""
    cells_by_column: dict[str, list[PrintedValue]]
    """The cells of all models."""


def _row_kinds(paper: Paper, name: str) -> list[_RowKind]:
    """Return the kinds of rows of a printed table, with the printed numbers of each by column.

    Rows that differ only in their model are of one kind: a run gets a row of each kind.
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


def beside_papers(reported_runs: Sequence[ReportedRun]) -> list[Table]:
    """Return the printed columns that runs share, with the runs' numbers and ranks. Only for runs scored as published."""
    published_runs = [
        reported_run for reported_run in reported_runs if reported_run.run.convention != "standard"
    ]
    run_suites = set()
    run_benchmarks = set()
    for reported_run in published_runs:
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
    beside_papers,
    after="talks",
)


def _comparison_table(
    paper: Paper, name: str, reported_runs: Sequence[ReportedRun]
) -> Table | None:
    """Return the columns of a table that runs share; None if they share none."""
    rows: list[tuple[Cell, ...]] = []
    for row_kind in _row_kinds(paper, name):
        for column, cells in row_kind.cells_by_column.items():
            comparisons = [
                _first_comparison(paper, reported_run, cells) for reported_run in reported_runs
            ]
            if not any(comparisons):
                continue
            row: list[Cell] = [", ".join((*row_kind.labels.values(), column))]
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
    """Return the comparison of the first protocol of a run that has these printed numbers; None if none has."""
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
    """Return the best, the median and the lowest printed value."""
    cell = cells[0]
    values = [cell.value for cell in cells if cell.value is not None]
    values.sort(reverse=better_of(cell) == "higher")
    return (
        decimal_text(float(values[0]), cell.digits),
        decimal_text(float(median(values)), cell.digits),
        decimal_text(float(values[-1]), cell.digits),
    )
