"""Heat maps: a grid of numbers in tinted cells."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from snellen.records import Estimate
from snellen.report.axes import label_width
from snellen.report.drawing import (
    CHART_WIDTH,
    ChartDrawing,
    ChartGroup,
    ChartRectangle,
    ChartShape,
    ChartText,
)
from snellen.report.number_text import decimal_text, figure_text, shorten, shorten_inside

MIN_OPACITY = 0.06
MAX_OPACITY = 0.62
MIN_CELL_WIDTH = 34.0
CELL_HEIGHT = 24.0
MAX_HEADING_LETTERS = 20
"""Greatest number of characters in the heading of a column."""
Grid = Mapping[tuple[str, str], Estimate]
"""Estimates by row and column."""


def heat_map(
    title: str,
    rows: Sequence[str],
    columns: Sequence[str],
    grid: Grid,
    unit: str,
    *,
    digits: int,
    factor: float = 1.0,
    ends: tuple[float, float] | None = None,
) -> ChartDrawing:
    """Draw a grid of cells with their numbers, tinted by a scale, under slanted names of columns.

    Args:
        title: Title for screen readers.
        rows: Names of the rows.
        columns: Names of the columns.
        grid: Estimates by row and column; cells without a value remain empty.
        unit: Unit of the estimates, for tooltips.
        digits: Digits of the numbers after the decimal point.
        factor: What the numbers in the cells are multiplied by, such as 100 for percent.
        ends: Values of the faintest and the strongest tint; by default the smallest and the largest estimate.


    Examples:
        >>> grid = {("mine", "animals"): Estimate(0.75, 0.05, 0.64, 0.83, 80)}
        >>> heat_map("Accuracy", ["mine"], ["animals"], grid, "share", digits=1, factor=100).title
        'Accuracy'
    """
    left = label_width(rows)
    headings = [shorten_inside(name, MAX_HEADING_LETTERS) for name in columns]
    longest = max(map(len, headings), default=4)
    top = 16.0 + 4.2 * longest
    right_margin = 8.0 + 3.6 * longest
    cell_width = max((CHART_WIDTH - left - right_margin) / max(len(columns), 1), MIN_CELL_WIDTH)

    shapes: list[ChartShape] = []
    for index, (name, heading) in enumerate(zip(columns, headings, strict=True)):
        x = left + cell_width * (index + 0.45)
        shapes.append(ChartText(x, top - 6, heading, "start", name, turn=-40))

    values = [estimate.value for estimate in grid.values() if estimate.value is not None]
    if ends is not None:
        low, high = ends
    else:
        low = min(values, default=0.0)
        high = max(values, default=1.0)
    for row_index, row in enumerate(rows):
        y = top + CELL_HEIGHT * row_index
        shapes.append(ChartText(left - 8, y + 16, shorten(row), "end", row))
        for column_index, column in enumerate(columns):
            estimate = grid.get((row, column))
            if estimate is None or estimate.value is None:
                continue
            tint = 0.5
            if high > low:
                tint = (estimate.value - low) / (high - low)
            opacity = MIN_OPACITY + (MAX_OPACITY - MIN_OPACITY) * tint
            x = left + cell_width * column_index
            box = ChartRectangle(x, y, cell_width - 2, CELL_HEIGHT - 2, "heat", opacity)
            middle = left + cell_width * (column_index + 0.5) - 1
            number = decimal_text(factor * estimate.value, digits)
            tooltip = f"{row}, {column}: {figure_text(estimate, unit)}"
            shapes.append(ChartGroup((box, ChartText(middle, y + 16, number)), 0, tooltip))
    width = left + cell_width * len(columns) + right_margin
    height = top + CELL_HEIGHT * len(rows) + 8
    return ChartDrawing(title, width, height, tuple(shapes))
