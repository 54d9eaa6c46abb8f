"""The report as Markdown."""

from __future__ import annotations

import re
from collections.abc import Sequence

from snellen.formats.shown_text import short_name
from snellen.report.findings import findings
from snellen.report.paired_tables import compare_views, standard_comparison
from snellen.report.report_section import ReportSection
from snellen.report.report_tables import report_tables
from snellen.report.run_view import RunView
from snellen.report.table import Cell, Table, cell_text, superscript


def markdown_report(views: Sequence[RunView], further: Sequence[ReportSection] = ()) -> str:
    """All tables of a report."""
    comparisons = compare_views(views)
    sentences = findings(views, standard_comparison(comparisons))
    lines = ["# Snellen report", "", *(f"- {escape(sentence)}" for sentence in sentences), ""]
    for title, tables in report_tables(views, comparisons, further).items():
        if tables:
            lines += [f"## {title}", "", *markdown_tables(tables, 3)]
    return "\n".join(lines)


def markdown_tables(tables: Sequence[Table], level: int) -> list[str]:
    """Lines of tables, each under a heading of that level."""
    return [
        line
        for table in tables
        for line in (f"{'#' * level} {escape(table.title)}", "", *_table(table), "")
    ]


def _table(table: Table) -> list[str]:
    notes = table.footnotes()
    lines = [
        _line([escape(name) for name in table.header]),
        "|" + "|".join(_rule(table, i) for i in range(len(table.header))) + "|",
    ]
    lines += [_line([_text(cell, notes) for cell in row]) for row in table.rows]
    for note in (*table.all_notes, *(f"{superscript(i)} {note}" for note, i in notes.items())):
        lines += ["", escape(note)]
    return lines


def _rule(table: Table, column: int) -> str:
    return " ---: " if table.has_numbers(column) else " --- "


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _text(cell: Cell, notes: dict[str, int]) -> str:
    text = cell_text(cell, notes)
    return escape(text) if isinstance(cell, str) else text


def escape(text: str) -> str:
    """Text that Markdown shows literally, on one line of a table."""
    one_line = " ".join(short_name(text).split())
    marked = re.sub(r"([\\`*<>|\[\]~])", r"\\\1", one_line)
    # An underscore within a word is not emphasis.
    return re.sub(r"(?<!\w)_|_(?!\w)", r"\\_", marked)
