"""HTML from untrusted text."""

from __future__ import annotations

import html
from itertools import takewhile

from snellen.formats.shown_text import strip_controls
from snellen.records import Estimate
from snellen.report.formatting import DASH, figure_parts
from snellen.report.table import Cell, NumberCell, Table, footnote_of


def esc(text: object) -> str:
    """Text escaped for element content and quoted attributes."""
    return html.escape(strip_controls(str(text)), quote=True)


def html_figure(estimate: Estimate, unit: str) -> str:
    """A value with its interval and n, in spans for the stylesheet."""
    value, interval, count = figure_parts(estimate, unit)
    return f'<b>{value}</b> <span class="ci">{interval}</span> <span class="n">{count}</span>'


def html_table(content: Table, kind: str = "") -> str:
    """A table that scrolls sideways on its own, with its notes."""
    notes = content.footnotes()
    body = "\n".join(_row(content, i, notes) for i in range(len(content.rows)))
    label = esc(content.title)
    return (
        f'<div class="scroll" role="region" aria-label="{label}" tabindex="0"><table class="{kind}">'
        f"<caption>{label}</caption><thead>{_head(content)}</thead>\n<tbody>\n{body}\n</tbody></table></div>"
        f"{_notes(content, notes)}"
    )


def _head(content: Table) -> str:
    """One header row, or two where neighbouring columns share a prefix."""
    rowspan = ' rowspan="2"' if content.spans else ""
    names = [
        f'<th scope="col"{_side(content, i)}{rowspan}>{esc(content.header[i])}</th>'
        for i in range(content.label_columns)
    ]
    names_after_labels = content.header[content.label_columns :]
    if not content.spans:
        names += [
            f'<th scope="col"{_side(content, content.label_columns + i)}>{esc(name)}</th>'
            for i, name in enumerate(names_after_labels)
        ]
        return f"<tr>{''.join(names)}</tr>"
    names += [f'<th scope="colgroup" class="span" colspan="{count}">{esc(name)}</th>' for name, count in content.spans]
    prefixes = [f"{name}, " for name, count in content.spans for _ in range(count)]
    below = [
        f'<th scope="col" class="num">{esc(name.removeprefix(prefix))}</th>'
        for name, prefix in zip(names_after_labels, prefixes, strict=True)
    ]
    return f"<tr>{''.join(names)}</tr><tr>{''.join(below)}</tr>"


def _side(content: Table, column: int) -> str:
    figures = any(not isinstance(row[column], str) for row in content.rows)
    return ' class="num"' if figures and column >= content.label_columns else ""


def _row(content: Table, number: int, notes: dict[str, int]) -> str:
    row = content.rows[number]
    cells = []
    for i, cell in enumerate(row):
        inner = _cell(cell, notes)
        if i >= content.label_columns:
            cells.append(f"<td{_side(content, i)}>{inner}</td>")
        elif i or content.label_columns == 1:
            cells.append(f'<th scope="row">{inner}</th>')
        elif number == 0 or content.rows[number - 1][0] != cell:
            cells.append(f'<th scope="rowgroup" rowspan="{_run_length(content, number)}">{inner}</th>')
    return f"<tr>{''.join(cells)}</tr>"


def _run_length(content: Table, number: int) -> int:
    """Number of rows from `number` on that begin with the same label."""
    label = content.rows[number][0]
    return sum(1 for _ in takewhile(lambda row: row[0] == label, content.rows[number:]))


def _cell(cell: Cell, notes: dict[str, int]) -> str:
    if isinstance(cell, str):
        return esc(cell)
    if isinstance(cell, int):
        return f"{cell:,}"
    mark = f"<sup>{notes[note]}</sup>" if (note := footnote_of(cell)) else ""
    if not isinstance(cell, NumberCell):
        return f'<span class="none">{DASH}</span>{mark}'
    beside = "".join(
        f'<span class="bound">{name} {html_figure(estimate, cell.unit)}</span>' for name, estimate in cell.secondary
    )
    return html_figure(cell.estimate, cell.unit) + mark + beside


def _notes(content: Table, notes: dict[str, int]) -> str:
    lines = [esc(note) for note in content.notes] + [f"<sup>{i}</sup> {esc(note)}" for note, i in notes.items()]
    return f'<p class="notes">{"<br>".join(lines)}</p>' if lines else ""


def disclosure(title: str, inner: str, *, is_open: bool = False) -> str:
    return f"<details{' open' if is_open else ''}><summary>{esc(title)}</summary>\n{inner}</details>"
