"""Tables as LaTeX for a paper that uses booktabs: each a float with its notes below."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from snellen.formats.shown_text import short_name
from snellen.formats.whole_files import write_atomically
from snellen.records import Result
from snellen.report.headline_table import headline_table
from snellen.report.number_text import DASH
from snellen.report.page_table import Figure, PageCell, PageTable, page_table
from snellen.report.report_section import ReportSection
from snellen.report.report_tables import report_tables
from snellen.report.reported_runs import ReportedRun, prepare_reported_runs
from snellen.report.table import Table
from snellen.scoring.scored_run import ScoredRun

PACKAGES_COMMENT = "% Needs \\usepackage{booktabs} and \\usepackage{adjustbox}.\n"
LATEX_COMMANDS = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "$": r"\$",
    "&": r"\&",
    "#": r"\#",
    "_": r"\_",
    "%": r"\%",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    "`": r"\textasciigrave{}",
    "-": "-{}",
    DASH: "---",
    "→": r"$\rightarrow$",
    "≥": r"$\geq$",
    "≤": r"$\leq$",
    "×": r"$\times$",
    "−": "$-$",
}
"""Characters that LaTeX does not print as they are, with their commands."""
_ESCAPED_BACKTICKS = re.compile(r"\\textasciigrave\{\}(.+?)\\textasciigrave\{\}")


def latex_report(
    reported_runs: Sequence[ReportedRun], further: Sequence[ReportSection] = ()
) -> str:
    """Return all tables of a report as LaTeX. Each table is a float, which LaTeX may move.

    Args:
        reported_runs: The runs.
        further: Additional sections that only this report has.
    """
    tables_by_section = report_tables(reported_runs, further=further)
    floats: list[str] = []
    for tables in tables_by_section.values():
        for table in tables:
            floats.append(latex_table(table))
    return PACKAGES_COMMENT + "\n" + "\n".join(floats)


def headline_latex(runs: Sequence[ScoredRun], rows: Sequence[Result]) -> str:
    """Return the table of headline numbers as a float, with a comment that names the packages."""
    return PACKAGES_COMMENT + latex_table(headline_table(prepare_reported_runs(runs, rows)))


def write_latex_tables(
    runs: Sequence[ScoredRun], rows: Sequence[Result], folder: Path
) -> list[Path]:
    """Write each table of a report as a file `NAME.tex`, to be read with \\input, and return the files.

    Tables of the same title are `NAME.tex`, `NAME-part-2.tex` and so on.

    Raises:
        StoreError: A file cannot be written.
    """
    paths: list[Path] = []
    for tables in report_tables(prepare_reported_runs(runs, rows)).values():
        for table in tables:
            stem = table_label(table)
            n_before = 0
            for path in paths:
                if path.stem == stem or path.stem.startswith(f"{stem}-part-"):
                    n_before += 1
            name = f"{stem}-part-{n_before + 1}.tex" if n_before else f"{stem}.tex"
            content = PACKAGES_COMMENT + latex_table(table)
            write_atomically(folder / name, content.encode("utf-8", "replace"))
            paths.append(folder / name)
    return paths


def table_label(table: Table) -> str:
    """Return the name of a table in file names and references: `accuracy-by-benchmark`."""
    return re.sub(r"[^a-z0-9]+", "-", table.title.lower()).strip("-") or "table"


def latex_table(table: Table) -> str:
    """Return a float with a table and its notes. The interval of a number is printed after it, small."""
    prepared = page_table(table)
    alignment = "l" * table.label_columns
    for column in range(table.label_columns, len(table.header)):
        alignment += "r" if table.has_numbers(column) else "l"
    lines = [
        r"\begin{table}",
        r"\centering",
        rf"\caption{{{latex_text(prepared.title)}}}",
        rf"\label{{tab:{table_label(table)}}}",
        r"\begin{adjustbox}{max width=\textwidth}",
        rf"\begin{{tabular}}{{{alignment}}}",
        r"\toprule",
        *_head_lines(prepared, table.label_columns),
        r"\midrule",
        *_body_lines(prepared),
        r"\bottomrule",
        r"\end{tabular}",
        r"\end{adjustbox}",
        *_note_lines(prepared),
        r"\end{table}",
    ]
    return "\n".join(lines) + "\n"


def _head_lines(prepared: PageTable, n_labels: int) -> list[str]:
    """Return the headings of a table as lines of LaTeX.

    If columns share prefixes, the prefixes are in a line above the headings, with rules in between.

    Args:
        prepared: The table.
        n_labels: The number of label columns on the left.
    """
    if len(prepared.head) == 1:
        [headings] = prepared.head
        return [_table_line([latex_text(cell.text) for cell in headings])]
    above, below = prepared.head
    labels = [latex_text(cell.text) for cell in above[:n_labels]]
    prefixes: list[str] = []
    rules: list[str] = []
    first_column = n_labels + 1
    for cell in above[n_labels:]:
        prefixes.append(rf"\multicolumn{{{cell.columns}}}{{c}}{{{latex_text(cell.text)}}}")
        last_column = first_column + cell.columns - 1
        rules.append(rf"\cmidrule(lr){{{first_column}-{last_column}}}")
        first_column = last_column + 1
    headings = [latex_text(cell.text) for cell in below]
    return [
        _table_line([*[""] * n_labels, *prefixes]),
        " ".join(rules),
        _table_line([*labels, *headings]),
    ]


def _body_lines(prepared: PageTable) -> list[str]:
    """Return the rows of a table as LaTeX, one line per row. A cell that spans several rows is only in the first of them."""
    widths = [sum(cell.columns for cell in row) for row in prepared.rows]
    n_columns = max(widths, default=0)
    lines: list[str] = []
    for row in prepared.rows:
        n_missing_cells = n_columns - len(row)
        texts = [""] * n_missing_cells
        texts += [_cell_text(cell) for cell in row]
        lines.append(_table_line(texts))
    return lines


def _cell_text(cell: PageCell) -> str:
    """Return a cell as LaTeX, with the number of its note."""
    if cell.figures:
        text = "; ".join(_figure_text(figure) for figure in cell.figures)
    elif cell.is_absent:
        text = "---"
    else:
        text = latex_text(cell.text)
    if cell.note is None:
        return text
    return rf"{text}\textsuperscript{{{cell.note}}}"


def _figure_text(figure: Figure) -> str:
    """Return a number as LaTeX, with its label before it and its interval and n in small print after it."""
    label = f"{latex_text(figure.label)} " if figure.label else ""
    value = latex_text(figure.value)
    interval = latex_text(figure.interval)
    count = latex_text(figure.count)
    return rf"{label}{value} {{\scriptsize {interval} {count}}}"


def _note_lines(prepared: PageTable) -> list[str]:
    """Return the notes and footnotes of a table as one line of LaTeX; an empty list if it has none."""
    notes = [latex_note(note) for note in prepared.notes]
    for number, note in prepared.footnotes:
        notes.append(rf"\textsuperscript{{{number}}}~{latex_note(note)}")
    if not notes:
        return []
    return [r"\par\smallskip\footnotesize " + r"\\ ".join(notes)]


def _table_line(cells: Sequence[str]) -> str:
    """Return cells as a line of a LaTeX table."""
    texts: list[str] = []
    for cell in cells:
        # A bracket after the end of a line would be read as its argument.
        texts.append(f"{{{cell}}}" if cell.startswith("[") else cell)
    return " & ".join(texts) + r" \\"


def latex_text(text: str) -> str:
    """Escape a text so that LaTeX prints it literally, on one line.

    Examples:
        >>> latex_text("5% of a_b")
        '5\\\\% of a\\\\_b'
    """
    one_line = " ".join(short_name(text).split())

    def escape(match: re.Match[str]) -> str:
        character = match[0]
        return LATEX_COMMANDS.get(character, character)

    # A hyphen is escaped only before another hyphen, because LaTeX prints two as a dash.
    return re.sub(r"-(?=-)|[^-]", escape, one_line)


def latex_note(text: str) -> str:
    """Return a sentence for LaTeX, with what is between two backticks, such as a command, in typewriter."""
    return _ESCAPED_BACKTICKS.sub(r"\\texttt{\1}", latex_text(text))
