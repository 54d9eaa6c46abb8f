"""Files for a paper: figures without a page around them, the legend inside; tables as LaTeX for booktabs."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from snellen.common.late import import_extra
from snellen.errors import DataError
from snellen.formats.shown_text import short_name
from snellen.formats.whole_files import write_atomically
from snellen.records import Result
from snellen.report.charts import CHART_WIDTH, ChartDrawing, Group, Mark, Shape, Text
from snellen.report.content import ChartBlock
from snellen.report.figures import POINT_AT, report_figures
from snellen.report.rendering import stand_alone
from snellen.report.report_section import ReportSection
from snellen.report.report_tables import report_tables
from snellen.report.run_view import RunView, run_views
from snellen.report.table import DASH, Figure, ShownCell, ShownTable, Table, shown_table
from snellen.scoring.scored_run import ScoredRun

SCALE = 3
"""Pixels of a PNG per unit of the drawing: 300 dots an inch at a column's width of 4.6 inches."""
LETTER, KEY, LINE = 6.2, 26.0, 18.0
"""Room for a letter of the legend, for a mark with the gaps around it, and for a line, in pixels."""


def write_figures(
    runs: Sequence[ScoredRun], rows: Sequence[Result], folder: Path, form: str = "svg"
) -> list[Path]:
    """Write each figure as a file `NAME.svg`, `.png` or `.pdf` in `folder`, and return the files.

    `captions.txt` says what each shows. Raises DataError for another form, MissingExtraError where a PNG or PDF is
    asked for without the library that makes it, StoreError when a file cannot be written.
    """
    convert = FORMS.get(form)
    if convert is None:
        raise DataError(f"figures are one of {', '.join(FORMS)}, not {form!r}")
    paths, captions = list[Path](), list[str]()
    for name, drawing, caption in _figures(report_figures(run_views(runs, rows))):
        paths.append(folder / f"{name}.{form}")
        write_atomically(paths[-1], convert(stand_alone(drawing)))
        captions.append(f"{name}: {drawing.title}. {caption}\n")
    write_atomically(folder / "captions.txt", "".join(captions).encode("utf-8", "replace"))
    return paths


def _figures(figures: dict[str, ChartBlock]) -> Iterator[tuple[str, ChartDrawing, str]]:
    """The name of each file, what it shows and its caption."""
    names: set[str] = set()
    for figure, block in figures.items():
        for panel in block.panels:
            stem = "-".join(
                filter(None, (figure, re.sub(r"[^a-z0-9]+", "-", panel.title.lower()).strip("-")))
            )
            name = next(
                n
                for n in (stem, *(f"{stem}-{i}" for i in range(2, len(block.panels) + 2)))
                if n not in names
            )
            names.add(name)
            yield (
                name,
                with_legend(panel.drawing, block.series),
                block.caption.replace(f" {POINT_AT}", ""),
            )


def with_legend(drawing: ChartDrawing, series: Sequence[str]) -> ChartDrawing:
    """The drawing under the names of its series, in as many lines as they need; as it is for fewer than two."""
    if len(series) < 2:
        return drawing
    places, x, line = list[tuple[float, int]](), 0.0, 0
    for name in series:
        width = KEY + LETTER * len(name)
        if x and x + width > max(drawing.width, CHART_WIDTH):
            x, line = 0.0, line + 1
        places.append((x, line))
        x += width
    above = LINE * (line + 1) + 4
    keys: list[Shape] = []
    for number, (name, (left, row)) in enumerate(zip(series, places, strict=True)):
        y = LINE * (row + 0.5) - above
        keys.append(
            Group((Mark(number, left + 8, y), Text(left + 18, y + 4, name, "start")), number)
        )
    return replace(drawing, shapes=(*drawing.shapes, *keys), above=above)


def _svg(drawing: str) -> bytes:
    return drawing.encode("utf-8", "replace")


def _png(drawing: str) -> bytes:
    picture: bytes = _cairo().svg2png(
        bytestring=_svg(drawing), scale=SCALE, background_color="white"
    )
    return picture


def _pdf(drawing: str) -> bytes:
    document: bytes = _cairo().svg2pdf(bytestring=_svg(drawing))
    return document


def _cairo() -> Any:
    try:
        return import_extra("cairosvg", "figures", "a figure as PNG or PDF")
    except OSError as error:
        raise DataError(
            f"a figure as PNG or PDF needs the library cairo of the system ({error}); SVG does not"
        ) from None


FORMS: dict[str, Callable[[str], bytes]] = {"svg": _svg, "png": _png, "pdf": _pdf}
"""How a figure is written, by the suffix of its file."""


# --- LaTeX -----------------------------------------------------------------------------------------------------------


OPENING = "% Needs \\usepackage{booktabs} and \\usepackage{adjustbox}.\n"
SPECIAL = {
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
_QUOTED = re.compile(r"\\textasciigrave\{\}(.+?)\\textasciigrave\{\}")


def latex_report(views: Sequence[RunView], further: Sequence[ReportSection] = ()) -> str:
    """All tables, each as a float of its own."""
    sections = report_tables(views, further=further)
    tables = (table for tables in sections.values() for table in tables)
    return OPENING + "\n" + "\n".join(latex_table(table) for table in tables)


def write_latex_tables(
    runs: Sequence[ScoredRun], rows: Sequence[Result], folder: Path
) -> list[Path]:
    """Write each table as a file `NAME.tex` in `folder`, to be read with \\input, and return the files.

    Raises StoreError when a file cannot be written.
    """
    paths: list[Path] = []
    for tables in report_tables(run_views(runs, rows)).values():
        for table in tables:
            stem = label_of(table)
            parts = sum(
                path.stem == stem or path.stem.startswith(f"{stem}-part-") for path in paths
            )
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
        "r" if table.has_numbers(column) else "l"
        for column in range(table.label_columns, len(table.header))
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
    spans = [
        rf"\multicolumn{{{cell.columns}}}{{c}}{{{latex_text(cell.text)}}}"
        for cell in above[labels:]
    ]
    rules, column = list[str](), labels + 1
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
        *(
            rf"\textsuperscript{{{number}}}~{latex_note(note)}"
            for number, note in prepared.footnotes
        ),
    ]
    return [r"\par\smallskip\footnotesize " + r"\\ ".join(notes)] if notes else []


def _line(cells: Sequence[str]) -> str:
    # A bracket after the end of a line would be read as its argument.
    return " & ".join("{" + cell + "}" if cell.startswith("[") else cell for cell in cells) + r" \\"


def latex_text(text: str) -> str:
    """Text that LaTeX prints literally, on one line."""
    # Two hyphens would be printed as a dash.
    return re.sub(
        r"-(?=-)|[^-]",
        lambda match: SPECIAL.get(match[0], match[0]),
        " ".join(short_name(text).split()),
    )


def latex_note(text: str) -> str:
    """The same for a sentence; what stands between two backticks, a command or the name of a column, in typewriter."""
    return _QUOTED.sub(r"\\texttt{\1}", latex_text(text))
