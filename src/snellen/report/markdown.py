"""A report as Markdown."""

from __future__ import annotations

import re
from collections.abc import Sequence

from snellen.formats.shown_text import short_name
from snellen.report.findings import findings
from snellen.report.number_text import superscript
from snellen.report.paired_tables import compare_reported_runs, standard_comparison
from snellen.report.report_section import ReportSection
from snellen.report.report_tables import report_tables
from snellen.report.reported_runs import ReportedRun
from snellen.report.table import Cell, Table, cell_text


def markdown_report(
    reported_runs: Sequence[ReportedRun], further: Sequence[ReportSection] = ()
) -> str:
    """Return the findings and all tables of a report.

    Args:
        reported_runs: The runs.
        further: Sections of this report alone.
    """
    comparisons = compare_reported_runs(reported_runs)
    lines = ["# Snellen report", ""]
    for sentence in findings(reported_runs, standard_comparison(comparisons)):
        lines.append(f"- {escape_markdown(sentence)}")
    lines.append("")
    for title, tables in report_tables(reported_runs, comparisons, further).items():
        if tables:
            lines += [f"## {title}", "", *markdown_tables(tables, 3)]
    return "\n".join(lines)


def markdown_tables(tables: Sequence[Table], level: int) -> list[str]:
    """Return tables as lines of Markdown, each table under a heading.

    Args:
        tables: The tables.
        level: The level of the headings, such as 2 for `##`.

    Examples:
        >>> print("\\n".join(markdown_tables([Table("Songs", ("bird", "songs"), (("wren", 3),))], 2)).rstrip())
        ## Songs
        <BLANKLINE>
        | bird | songs |
        | --- | ---: |
        | wren | 3 |
    """
    lines: list[str] = []
    for table in tables:
        heading = f"{'#' * level} {escape_markdown(table.title)}"
        lines += [heading, "", *_table_lines(table), ""]
    return lines


def _table_lines(table: Table) -> list[str]:
    """Return a table as lines of Markdown, with its notes and footnotes below."""
    footnotes = table.footnotes()
    headings = [escape_markdown(heading) for heading in table.header]
    alignments: list[str] = []
    for column in range(len(table.header)):
        alignments.append(" ---: " if table.has_numbers(column) else " --- ")
    lines = [_row_line(headings), f"|{'|'.join(alignments)}|"]
    for row in table.rows:
        lines.append(_row_line([_cell_text(cell, footnotes) for cell in row]))
    for note in table.all_notes:
        lines += ["", escape_markdown(note)]
    for note, number in footnotes.items():
        lines += ["", escape_markdown(f"{superscript(number)} {note}")]
    return lines


def _row_line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _cell_text(cell: Cell, footnotes: dict[str, int]) -> str:
    text = cell_text(cell, footnotes)
    return escape_markdown(text) if isinstance(cell, str) else text


def escape_markdown(text: str) -> str:
    """Escape a text so that Markdown shows it literally, on one line.

    Examples:
        >>> escape_markdown("a*b | c")
        'a\\\\*b \\\\| c'
    """
    one_line = " ".join(short_name(text).split())
    escaped = re.sub(r"([\\`*<>|\[\]~])", r"\\\1", one_line)
    # An underscore within a word is not emphasis, so only the others are escaped.
    return re.sub(r"(?<!\w)_|_(?!\w)", r"\\_", escaped)
