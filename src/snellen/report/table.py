"""A table as terminal, Markdown and HTML all show it."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from snellen.records import Estimate
from snellen.report.formatting import DASH, figure_text, superscript


class NumberCell(Struct, frozen=True):
    """An estimate in a cell; when something was unparsed, its secondary numbers stand beside it."""

    unit: str
    estimate: Estimate
    beside: tuple[tuple[str, Estimate], ...] = ()
    """Label and number: `of parsed`, the value over the parsed replies; `at most`, were the unparsed ones right."""
    note: str = ""

    @property
    def text(self) -> str:
        figures = (f"{label} {figure_text(one, self.unit)}" for label, one in self.beside)
        return "; ".join((figure_text(self.estimate, self.unit), *figures))


class AbsentCell(Struct, frozen=True):
    """No number, and the reason for the footnote."""

    note: str


Cell = str | int | NumberCell | AbsentCell


class Table(Struct, frozen=True):
    """Rows of cells under a header of as many columns."""

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    labels: int = 1
    """How many columns from the left say what the row is."""
    notes: tuple[str, ...] = ()
    """Sentences under the table, before the numbered footnotes."""
    spans: tuple[tuple[str, int], ...] = ()
    """What neighbouring columns after the labels have in common (`span, rest` is the whole name), and how many."""

    def footnotes(self) -> dict[str, int]:
        """Footnote -> number, in order of appearance."""
        return {note: i for i, note in enumerate(dict.fromkeys(self._noted()), 1)}

    def _noted(self) -> Iterator[str]:
        for row in self.rows:
            for cell in row:
                if note := note_of(cell):
                    yield note


def note_of(cell: Cell) -> str:
    """What the footnote of a cell says: of the cell, and of its estimate; empty without one."""
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
    return text + (superscript(footnotes[note]) if (note := note_of(cell)) else "")
