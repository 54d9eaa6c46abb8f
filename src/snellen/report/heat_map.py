"""A table of numbers as tinted cells."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from snellen.records import Estimate
from snellen.report.formatting import decimal_text, figure_text
from snellen.report.markup import esc
from snellen.report.svg import WIDTH, shorten, svg_document, svg_text

LEAST, MOST = 0.06, 0.62
"""Opacity of the least and the greatest cell."""
Grid = Mapping[tuple[str, str], Estimate]
"""By row and column."""


def heat_map(title: str, rows: Sequence[str], columns: Sequence[str], grid: Grid, unit: str, digits: int) -> str:
    """Each cell with its number; the tint runs from the least to the greatest of all. Columns' names stand slanted."""
    left = min(max((len(shorten(row)) for row in rows), default=4), 26) * 7.0 + 16
    top, high = 16.0 + 5.0 * max((len(shorten(name, 14)) for name in columns), default=4), 24.0
    wide = (WIDTH - left - 22) / max(len(columns), 1)
    values = [estimate.value for estimate in grid.values() if estimate.value is not None]
    low, span = min(values, default=0.0), max(values, default=1.0) - min(values, default=0.0)
    elements = [
        f'<text transform="translate({left + wide * (j + 0.45):.1f} {top - 6:.1f}) rotate(-40)">'
        f"<title>{esc(name)}</title>{esc(shorten(name, 14))}</text>"
        for j, name in enumerate(columns)
    ]
    for i, row in enumerate(rows):
        y = top + high * i
        elements.append(svg_text(left - 8, y + 16, shorten(row), "end", row))
        for j, name in enumerate(columns):
            estimate = grid.get((row, name))
            if estimate is None or estimate.value is None:
                continue
            text = decimal_text(estimate.value, digits)
            tint = LEAST + (MOST - LEAST) * ((estimate.value - low) / span if span else 0.5)
            x, number = (
                left + wide * j,
                svg_text(left + wide * (j + 0.5) - 1, y + 16, text, "middle"),
            )
            elements.append(
                f'<g class="s0"><title>{esc(f"{row}, {name}: {figure_text(estimate, unit)}")}</title>'
                f'<rect class="heat" fill-opacity="{tint:.2f}" x="{x:.1f}" y="{y:.1f}" width="{wide - 2:.1f}" '
                f'height="{high - 2:.1f}"/>{number}</g>'
            )
    return svg_document(title, top + high * len(rows) + 8, elements)
