"""A table, independent of whether a terminal, Markdown or HTML shows it."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from snellen.records import Estimate
from snellen.report.formatting import DASH, figure_text, superscript


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
