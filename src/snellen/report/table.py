"""A table, independent of whether a terminal, Markdown or HTML shows it; and its cells as pages and LaTeX show them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import takewhile
from typing import Literal

from msgspec import Struct

from snellen.records import Estimate
from snellen.report.formatting import DASH, capitalised, figure_parts, figure_text, superscript


class NumberCell(Struct, frozen=True):
    """A cell with an estimate, and secondary estimates beside it if something was unparsed."""

    unit: str
    estimate: Estimate
    secondary: tuple[tuple[str, Estimate], ...] = ()
    """Label and estimate: `of parsed`, over the parsed replies; `at most`, if the unparsed ones were right."""
    note: str = ""

    @property
    def text(self) -> str:
        figures = (f"{label} {figure_text(estimate, self.unit)}" for label, estimate in self.secondary)
        return "; ".join((figure_text(self.estimate, self.unit), *figures))


class AbsentCell(Struct, frozen=True):
    """A cell without a number, and the reason for the footnote."""

    note: str


Cell = str | int | NumberCell | AbsentCell


class Table(Struct, frozen=True):
    """Rows of cells under a header of as many columns."""

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    label_columns: int = 1
    """Number of columns on the left that label the row."""
    notes: tuple[str, ...] = ()
    """Sentences under the table, before the numbered footnotes."""
    spans: tuple[tuple[str, int], ...] = ()
    """Common prefix of neighbouring columns after the labels (`prefix, rest` is the full name), and their number."""
    hints: Mapping[str, str] = {}
    """What columns are, by their heading."""
    samples: Mapping[str, str] = {}
    """On a page: which samples stand behind a row, by its label, as a query of the browser of samples."""

    @property
    def all_notes(self) -> tuple[str, ...]:
        """What the columns are, then the notes."""
        return (*(f"{capitalised(name)}: {hint}." for name, hint in self.hints.items()), *self.notes)

    def has_numbers(self, column: int) -> bool:
        """Whether the column is one of numbers, and no label."""
        return column >= self.label_columns and any(not isinstance(row[column], str) for row in self.rows)

    def footnotes(self) -> dict[str, int]:
        """Footnote -> number, in order of appearance."""
        return {note: i for i, note in enumerate(dict.fromkeys(self._noted()), 1)}

    def _noted(self) -> Iterator[str]:
        for row in self.rows:
            for cell in row:
                if note := footnote_of(cell):
                    yield note


def footnote_of(cell: Cell) -> str:
    """The footnote of a cell, from the cell and its estimate; empty without one."""
    if isinstance(cell, NumberCell):
        return "; ".join(filter(None, (cell.note, cell.estimate.note)))
    return cell.note if isinstance(cell, AbsentCell) else ""


def cell_text(cell: Cell, footnotes: dict[str, int]) -> str:
    """The cell on one line."""
    if isinstance(cell, str):
        return cell
    if isinstance(cell, int):
        return f"{cell:,}"
    text = cell.text if isinstance(cell, NumberCell) else DASH
    return text + (superscript(footnotes[note]) if (note := footnote_of(cell)) else "")


# --- tables as cells of a page ---------------------------------------------------------------------------------------


FOLDED = 10
"""Rows that stand in the open; three more are not worth folding."""
WIDE = 7
"""Columns of numbers from which on an interval may take two lines, so that seven models fit side by side."""


class Figure(Struct, frozen=True):
    """A value, its interval and its n as texts; `label` where it is beside another."""

    value: str
    interval: str
    count: str
    label: str = ""


class ShownCell(Struct, frozen=True):
    """A cell; `scope` is empty where it labels nothing."""

    text: str = ""
    figures: tuple[Figure, ...] = ()
    is_absent: bool = False
    note: int | None = None
    scope: Literal["", "col", "colgroup", "row", "rowgroup"] = ""
    rows: int = 1
    columns: int = 1
    is_number: bool = False
    hint: str = ""
    samples: str = ""


class ShownTable(Struct, frozen=True):
    """Rows of cells under one row of headings, or two where neighbouring columns share a prefix."""

    title: str
    head: tuple[tuple[ShownCell, ...], ...]
    rows: tuple[tuple[ShownCell, ...], ...]
    folded: tuple[tuple[ShownCell, ...], ...]
    """Further rows of a long table, shown when asked for."""
    notes: tuple[str, ...]
    footnotes: tuple[tuple[int, str], ...]
    is_wide: bool


def figure_of(estimate: Estimate, unit: str, label: str = "") -> Figure:
    return Figure(*figure_parts(estimate, unit), label)


def shown_table(table: Table, *, is_folded: bool = False) -> ShownTable:
    """The cells of a table; if that is `is_folded` and long, its first rows apart from the others."""
    numbers, count = table.footnotes(), len(table.rows)
    shown = FOLDED if is_folded and count > FOLDED + 3 else count
    rows = tuple(_row(table, place, numbers, shown) for place in range(count))
    return ShownTable(
        table.title,
        _head(table),
        rows[:shown],
        rows[shown:],
        table.all_notes,
        tuple((number, note) for note, number in numbers.items()),
        len(table.header) - table.label_columns >= WIDE,
    )


def _head(table: Table) -> tuple[tuple[ShownCell, ...], ...]:
    labels, rest = table.header[: table.label_columns], table.header[table.label_columns :]
    hints = table.hints
    names = [ShownCell(name, scope="col", rows=2 if table.spans else 1, hint=hints.get(name, "")) for name in labels]
    if not table.spans:
        sides = (table.has_numbers(table.label_columns + place) for place in range(len(rest)))
        above = (
            ShownCell(name, scope="col", is_number=side, hint=hints.get(name, ""))
            for name, side in zip(rest, sides, strict=True)
        )
        return ((*names, *above),)
    spans = (ShownCell(name, scope="colgroup", columns=count) for name, count in table.spans)
    prefixes = [f"{name}, " for name, count in table.spans for _ in range(count)]
    below = (
        ShownCell(name.removeprefix(prefix), scope="col", is_number=True)
        for name, prefix in zip(rest, prefixes, strict=True)
    )
    return (*names, *spans), tuple(below)


def _row(table: Table, place: int, numbers: dict[str, int], fold: int) -> tuple[ShownCell, ...]:
    cells = []
    begins = place in (0, fold) or table.rows[place - 1][0] != table.rows[place][0]
    for column, cell in enumerate(table.rows[place]):
        text, figures = _content(cell)
        note = numbers.get(footnote_of(cell))
        is_absent = not text and not figures and not isinstance(cell, str)
        if column >= table.label_columns:
            cells.append(ShownCell(text, figures, is_absent, note, is_number=table.has_numbers(column)))
        elif column or table.label_columns == 1:
            cells.append(ShownCell(text, figures, is_absent, note, "row", samples=table.samples.get(text, "")))
        elif begins:
            rows, samples = _run_length(table, place, fold), table.samples.get(text, "")
            cells.append(ShownCell(text, figures, is_absent, note, "rowgroup", rows, samples=samples))
    return tuple(cells)


def _run_length(table: Table, place: int, fold: int) -> int:
    """Number of rows from `place` on, on this side of the fold, that begin with the same label."""
    label, end = table.rows[place][0], fold if place < fold else len(table.rows)
    return sum(1 for _ in takewhile(lambda row: row[0] == label, table.rows[place:end]))


def _content(cell: Cell) -> tuple[str, tuple[Figure, ...]]:
    if isinstance(cell, str):
        return cell, ()
    if isinstance(cell, int):
        return f"{cell:,}", ()
    if not isinstance(cell, NumberCell):
        return "", ()
    beside = (figure_of(estimate, cell.unit, label) for label, estimate in cell.secondary)
    return "", (figure_of(cell.estimate, cell.unit), *beside)
