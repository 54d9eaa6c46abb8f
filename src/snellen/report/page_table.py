"""Tables as an HTML page and LaTeX show them: cells with their spans, folded rows and numbered footnotes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from snellen.records import Estimate
from snellen.report.number_text import figure_parts
from snellen.report.table import Cell, NumberCell, Table, footnote_of

ROWS_BEFORE_FOLD = 10
"""Rows of a long table that are shown before the reader unfolds the others."""
WIDE_TABLE_COLUMNS = 7
"""Least number of columns of numbers in which an interval may take two lines, so that seven models fit side by side."""


class Figure(Struct, frozen=True):
    """A value, its interval and its n as texts, with a label if it is next to another."""

    value: str
    interval: str
    count: str
    label: str = ""


class PageCell(Struct, frozen=True):
    """A cell of a page.

    On a page, the labels of a row with several labels are in columns of their own (`is_separate_label`), and once more all
    together in the first column (`merged_labels`). A wide screen shows the former, a narrow screen the latter.
    """

    text: str = ""
    figures: tuple[Figure, ...] = ()
    is_absent: bool = False
    note: int | None = None
    """Number of its footnote."""
    scope: Literal["", "col", "colgroup", "row", "rowgroup"] = ""
    """What it labels, as in HTML; empty if it labels nothing."""
    rows: int = 1
    """Number of rows that it spans."""
    columns: int = 1
    """Number of columns that it spans."""
    is_number: bool = False
    hint: str = ""
    samples: str = ""
    is_separate_label: bool = False
    merged_labels: tuple[PageCell, ...] = ()


PageRows = tuple[tuple[PageCell, ...], ...]


class PageTable(Struct, frozen=True):
    """Rows of cells under one row of headings, or two if neighbouring columns share a prefix."""

    title: str
    head: PageRows
    rows: PageRows
    folded: PageRows
    """Further rows of a long table, which the reader can unfold."""
    notes: tuple[str, ...]
    footnotes: tuple[tuple[int, str], ...]
    is_wide: bool


def figure_of(estimate: Estimate, unit: str, label: str = "") -> Figure:
    """Return the texts of an estimate."""
    value, interval, count = figure_parts(estimate, unit)
    return Figure(value, interval, count, label)


def page_table(table: Table, *, on_page: bool = False) -> PageTable:
    """Return the cells of a table in the form that HTML templates show.

    Args:
        table: The table.
        on_page: Whether the table is on a page. If so, the end of a long table is hidden until the reader unfolds
            it, and several label columns are also merged to one for narrow screens.
    """
    n_rows = len(table.rows)
    n_open = n_rows
    if on_page and n_rows > ROWS_BEFORE_FOLD + 3:  # up to three more rows are not worth folding
        n_open = ROWS_BEFORE_FOLD
    footnotes = table.footnotes()
    rows = tuple(_row_cells(table, index, footnotes, n_open) for index in range(n_rows))
    head = _head_rows(table)
    if on_page and table.label_columns > 1:
        rows = tuple(_with_merged_label_cell(table, index, row) for index, row in enumerate(rows))
        head = _head_with_merged_label_cell(table, head)
    return PageTable(
        title=table.title,
        head=head,
        rows=rows[:n_open],
        folded=rows[n_open:],
        notes=table.all_notes,
        footnotes=tuple((number, note) for note, number in footnotes.items()),
        is_wide=len(table.header) - table.label_columns >= WIDE_TABLE_COLUMNS,
    )


def _head_rows(table: Table) -> PageRows:
    """Return the heading rows of a table: one row or two.

    There are two if neighbouring columns share the beginning of their headings, such as `A, accuracy` and `A, n`.
    The first row then has `A` over both columns, and the second row `accuracy` and `n`.
    """
    labels = table.header[: table.label_columns]
    headings = table.header[table.label_columns :]
    label_rows = 2 if table.spans else 1
    top: list[PageCell] = []
    for name in labels:
        hint = table.hints.get(name, "")
        top.append(PageCell(name, scope="col", rows=label_rows, hint=hint))

    if not table.spans:
        for index, name in enumerate(headings, table.label_columns):
            is_number = table.has_numbers(index)
            hint = table.hints.get(name, "")
            top.append(PageCell(name, scope="col", is_number=is_number, hint=hint))
        return (tuple(top),)

    below: list[PageCell] = []
    for prefix, count in table.spans:
        top.append(PageCell(prefix, scope="colgroup", columns=count))
        start = len(below)
        for name in headings[start : start + count]:
            heading_end = name.removeprefix(f"{prefix}, ")
            below.append(PageCell(heading_end, scope="col", is_number=True))
    return tuple(top), tuple(below)


def _row_cells(
    table: Table, index: int, footnotes: dict[str, int], fold: int
) -> tuple[PageCell, ...]:
    """Return the cells of one row of a table for an HTML page.

    If several rows have the same first label, the first of these rows has a cell that spans all of them, and the
    other rows have no first cell.

    Args:
        table: The table.
        index: The index of the row.
        footnotes: The number of each footnote, by its text.
        fold: The index of the first row that is hidden until the reader unfolds the table. A spanning cell ends
            there.
    """
    row = table.rows[index]
    begins_group = index in (0, fold) or table.rows[index - 1][0] != row[0]
    cells: list[PageCell] = []
    for column, cell in enumerate(row):
        text, figures = _text_and_figures(cell)
        page_cell = PageCell(
            text,
            figures,
            is_absent=not text and not figures and not isinstance(cell, str),
            note=footnotes.get(footnote_of(cell)),
        )
        is_label = column < table.label_columns
        is_shared_label = column == 0 and table.label_columns > 1
        if not is_label:
            cells.append(replace(page_cell, is_number=table.has_numbers(column)))
            continue
        samples = table.samples.get(text, "")
        if not is_shared_label:
            cells.append(replace(page_cell, scope="row", samples=samples))
        elif begins_group:
            n_rows = _group_length(table, index, fold)
            cells.append(replace(page_cell, scope="rowgroup", rows=n_rows, samples=samples))
    return tuple(cells)


def _group_length(table: Table, index: int, fold: int) -> int:
    """Return how many rows from `index` on have the same first label.

    Only rows on the same side of the fold (the border between the visible and the hidden rows) are counted.
    """
    label = table.rows[index][0]
    end = fold if index < fold else len(table.rows)
    length = 0
    for row in table.rows[index:end]:
        if row[0] != label:
            break
        length += 1
    return length


def _with_merged_label_cell(
    table: Table, index: int, cells: tuple[PageCell, ...]
) -> tuple[PageCell, ...]:
    """Put a cell that contains all labels of a row before the cells of the row.

    A wide screen shows the separate label cells, and a narrow screen shows the merged one.

    Args:
        table: The table.
        index: The index of the row in the table.
        cells: The cells of the row. Its first label may be missing, because a cell of an earlier row spans this row.
    """
    first_text, _ = _text_and_figures(table.rows[index][0])
    first_label = PageCell(first_text, samples=table.samples.get(first_text, ""))
    label_cells = [cell for cell in cells if cell.scope]
    n_other_labels = table.label_columns - 1
    other_labels = label_cells[-n_other_labels:]
    merged_cell = PageCell(scope="row", merged_labels=(first_label, *other_labels))
    return (merged_cell, *_mark_as_separate_labels(cells))


def _head_with_merged_label_cell(table: Table, head: PageRows) -> PageRows:
    """Put a heading for the merged label cells (see `_with_merged_label_cell`) before the first row of headings.

    Narrow screens show this heading in place of the separate headings of the label columns.
    """
    first_row, *other_rows = head
    labels = first_row[: table.label_columns]
    headings = first_row[table.label_columns :]
    text = ", ".join(label.text for label in labels)
    merged_heading = PageCell(text, scope="col", rows=first_row[0].rows, merged_labels=labels)
    new_first_row = (merged_heading, *_mark_as_separate_labels(labels), *headings)
    return (new_first_row, *other_rows)


def _mark_as_separate_labels(cells: Sequence[PageCell]) -> list[PageCell]:
    """Mark the labels among cells as those that a wide screen shows."""
    return [replace(cell, is_separate_label=True) if cell.scope else cell for cell in cells]


def _text_and_figures(cell: Cell) -> tuple[str, tuple[Figure, ...]]:
    """Return what a table cell shows.

    Returns:
        A text, or numbers with their intervals. The other one is empty, and both are empty for a cell without a value.
    """
    if isinstance(cell, str):
        return cell, ()
    if isinstance(cell, int):
        return f"{cell:,}", ()
    if not isinstance(cell, NumberCell):
        return "", ()
    figures = [figure_of(cell.estimate, cell.unit)]
    for label, estimate in cell.secondary:
        figures.append(figure_of(estimate, cell.unit, label))
    return "", tuple(figures)
