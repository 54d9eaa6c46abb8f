"""The tables of a report as LaTeX, for a paper that uses the package booktabs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from snellen.formats.shown_text import short_name
from snellen.records import Result
from snellen.report.report_tables import report_tables
from snellen.report.run_view import RunView, run_views
from snellen.report.table import DASH, Figure, ShownCell, ShownTable, Table, shown_table
from snellen.runs.journal import write_atomically
from snellen.scoring.scored_run import ScoredRun

OPENING = "% Needs \\usepackage{booktabs} and \\usepackage{adjustbox}.\n"
SPECIAL = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "$": r"\$", "&": r"\&", "#": r"\#", "_": r"\_", "%": r"\%",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}", ">": r"\textgreater{}",
    "|": r"\textbar{}", "`": r"\textasciigrave{}",
    "-": "-{}", DASH: "---", "→": r"$\rightarrow$", "≥": r"$\geq$", "≤": r"$\leq$", "×": r"$\times$", "−": "$-$",
}  # fmt: skip
_QUOTED = re.compile(r"\\textasciigrave\{\}(.+?)\\textasciigrave\{\}")


def latex_report(views: Sequence[RunView]) -> str:
    """All tables, each as a float of its own."""
    tables = (table for tables in report_tables(views).values() for table in tables)
    return OPENING + "\n" + "\n".join(latex_table(table) for table in tables)


def write_latex_tables(runs: Sequence[ScoredRun], rows: Sequence[Result], folder: Path) -> list[Path]:
    """Write each table as a file `NAME.tex` in `folder`, to be read with \\input, and return the files.

    Raises StoreError when a file cannot be written.
    """
    paths: list[Path] = []
    for tables in report_tables(run_views(runs, rows)).values():
        for table in tables:
            stem = label_of(table)
            parts = sum(path.stem == stem or path.stem.startswith(f"{stem}-part-") for path in paths)
            paths.append(folder / (f"{stem}-part-{parts + 1}.tex" if parts else f"{stem}.tex"))
            write_atomically(paths[-1], (OPENING + latex_table(table)).encode("utf-8", "replace"))
    return paths


def label_of(table: Table) -> str:
    """The table's name in file names and references."""
    return re.sub(r"[^a-z0-9]+", "-", table.title.lower()).strip("-") or "table"


def latex_table(table: Table) -> str:
    """A float with the table, its notes below; an interval stands after its value, small."""
    prepared = shown_table(table)
    columns = "l" * table.label_columns + "".join(
        "r" if table.has_numbers(column) else "l" for column in range(table.label_columns, len(table.header))
    )
    lines = [
        r"\begin{table}",
        r"\centering",
        rf"\caption{{{latex_text(prepared.title)}}}",
        rf"\label{{tab:{label_of(table)}}}",
        r"\begin{adjustbox}{max width=\textwidth}",
        rf"\begin{{tabular}}{{{columns}}}",
        r"\toprule",
        *_head(prepared, table.label_columns),
        r"\midrule",
        *_body(prepared),
        r"\bottomrule",
        r"\end{tabular}",
        r"\end{adjustbox}",
        *_notes(prepared),
        r"\end{table}",
    ]
    return "\n".join(lines) + "\n"


def _head(prepared: ShownTable, labels: int) -> list[str]:
    if len(prepared.head) == 1:
        return [_line([latex_text(cell.text) for cell in prepared.head[0]])]
    above, below = prepared.head
    names = [latex_text(cell.text) for cell in above[:labels]]
    spans = [rf"\multicolumn{{{cell.columns}}}{{c}}{{{latex_text(cell.text)}}}" for cell in above[labels:]]
    rules, column = [], labels + 1
    for cell in above[labels:]:
        rules.append(rf"\cmidrule(lr){{{column}-{column + cell.columns - 1}}}")
        column += cell.columns
    return [
        _line([*[""] * labels, *spans]),
        " ".join(rules),
        _line([*names, *(latex_text(cell.text) for cell in below)]),
    ]


def _body(prepared: ShownTable) -> list[str]:
    lines = []
    width = max((sum(cell.columns for cell in row) for row in prepared.rows), default=0)
    for row in prepared.rows:
        # A cell that spans rows is written in the first of them only.
        cells = [*[""] * (width - len(row)), *(_cell(cell) for cell in row)]
        lines.append(_line(cells))
    return lines


def _cell(cell: ShownCell) -> str:
    text = "---" if cell.is_absent else latex_text(cell.text)
    text = "; ".join(map(_figure, cell.figures)) or text
    return text + (rf"\textsuperscript{{{cell.note}}}" if cell.note is not None else "")


def _figure(figure: Figure) -> str:
    name = f"{latex_text(figure.label)} " if figure.label else ""
    return rf"{name}{latex_text(figure.value)} {{\scriptsize {latex_text(figure.interval)} {latex_text(figure.count)}}}"


def _notes(prepared: ShownTable) -> list[str]:
    notes = [
        *map(latex_note, prepared.notes),
        *(rf"\textsuperscript{{{number}}}~{latex_note(note)}" for number, note in prepared.footnotes),
    ]
    return [r"\par\smallskip\footnotesize " + r"\\ ".join(notes)] if notes else []


def _line(cells: Sequence[str]) -> str:
    # A bracket after the end of a line would be read as its argument.
    return " & ".join("{" + cell + "}" if cell.startswith("[") else cell for cell in cells) + r" \\"


def latex_text(text: str) -> str:
    """Text that LaTeX prints literally, on one line."""
    # Two hyphens would be printed as a dash.
    return re.sub(r"-(?=-)|[^-]", lambda match: SPECIAL.get(match[0], match[0]), " ".join(short_name(text).split()))


def latex_note(text: str) -> str:
    """The same for a sentence; what stands between two backticks, a command or the name of a column, in typewriter."""
    return _QUOTED.sub(r"\\texttt{\1}", latex_text(text))
