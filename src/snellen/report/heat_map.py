"""A table of numbers as tinted cells."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

from snellen.records import Estimate
from snellen.report.charts import WIDTH, label_width
from snellen.report.drawing import Box, ChartDrawing, Group, Shape, Text
from snellen.report.table import decimal_text, figure_text, shorten, shorten_inside

LEAST, MOST = 0.06, 0.62
"""Opacity of the least and the greatest cell."""
NARROWEST, TALL, HEADING = 34.0, 24.0, 20
"""Least width and height of a cell in pixels, and the longest heading of a column in characters."""
Grid = Mapping[tuple[str, str], Estimate]
"""By row and column."""


class Scale(Struct, frozen=True):
    """How the numbers of a heat map are written: times `factor`, with this many digits."""

    unit: str
    digits: int
    factor: float = 1.0
    ends: tuple[float, float] | None = None
    """The values of the faintest and the strongest tint; the least and the greatest of all where not given."""


def heat_map(title: str, rows: Sequence[str], columns: Sequence[str], grid: Grid, scale: Scale) -> ChartDrawing:
    """Each cell with its number, its tint by the scale. Columns' names stand slanted."""
    margin = label_width(rows)
    longest = max((len(shorten_inside(name, HEADING)) for name in columns), default=4)
    top, right = 16.0 + 4.2 * longest, 8.0 + 3.6 * longest
    wide = max((WIDTH - margin - right) / max(len(columns), 1), NARROWEST)
    shapes: list[Shape] = [
        Text(margin + wide * (j + 0.45), top - 6, shorten_inside(name, HEADING), "start", name, turn=-40)
        for j, name in enumerate(columns)
    ]
    values = [estimate.value for estimate in grid.values() if estimate.value is not None]
    low, high = scale.ends or (min(values, default=0.0), max(values, default=1.0))
    for i, row in enumerate(rows):
        y = top + TALL * i
        shapes.append(Text(margin - 8, y + 16, shorten(row), "end", row))
        for j, name in enumerate(columns):
            estimate = grid.get((row, name))
            if estimate is None or estimate.value is None:
                continue
            share = (estimate.value - low) / (high - low) if high > low else 0.5
            box = Box(margin + wide * j, y, wide - 2, TALL - 2, "heat", LEAST + (MOST - LEAST) * share)
            number = Text(
                margin + wide * (j + 0.5) - 1, y + 16, decimal_text(scale.factor * estimate.value, scale.digits)
            )
            shapes.append(Group((box, number), 0, f"{row}, {name}: {figure_text(estimate, scale.unit)}"))
    return ChartDrawing(title, margin + wide * len(columns) + right, top + TALL * len(rows) + 8, tuple(shapes))
