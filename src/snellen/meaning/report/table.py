"""A table as terminal, Markdown and HTML all show it."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from snellen.meaning.report.words import DASH, figure_text, raised
from snellen.records import Estimate


class Number(Struct, frozen=True):
    """An estimate in a cell; the strict one stands beside it when something was unread."""

    metric: str
    estimate: Estimate
    strict: Estimate | None = None
    note: str = ""

    @property
    def text(self) -> str:
        strict = f"; strict {figure_text(self.strict, self.metric)}" if self.strict else ""
        return figure_text(self.estimate, self.metric) + strict


class Absent(Struct, frozen=True):
    """No number, and the reason for the footnote."""

    note: str


Cell = str | int | Number | Absent


class Table(Struct, frozen=True):
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
                if isinstance(cell, (Number, Absent)) and cell.note:
                    yield cell.note


def cell_text(cell: Cell, footnotes: dict[str, int]) -> str:
    """The cell on one line."""
    if isinstance(cell, str):
        return cell
    if isinstance(cell, int):
        return f"{cell:,}"
    text = cell.text if isinstance(cell, Number) else DASH
    return text + (raised(footnotes[cell.note]) if cell.note else "")
