"""Maps of the visual field: how often a letter was read at each place of an image."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from snellen.plugin_api import ChartDrawing, ChartPanel, DrawingBuilder, percent_text
from snellen_lab.acuity.acuity_run import AcuityRun
from snellen_lab.acuity.labels import short_name
from snellen_lab.acuity.thresholds import FEW, PlaceShare, total_shares

MAP_SIDE = 320.0  # pixels
MARGIN = 10
FAINTEST = 0.04  # opacity of a cell in which nothing was read
OPACITY_RANGE = 0.86


def field_panels(runs: Sequence[AcuityRun]) -> Iterator[ChartPanel]:
    """Yield a map for each model and test of places."""
    for run in runs:
        for name, shares in run.fields.items():
            right, total = total_shares(shares)
            share = percent_text(right / max(total, 1))
            title = f"{run.model}, {short_name(name)}: {share} of {total} read"
            yield ChartPanel(title, _field_map(shares))


def _field_map(shares: Sequence[PlaceShare]) -> ChartDrawing:
    """Draw a grid of places. Blocks of two by two places share a cell if a place has few replies."""
    places_per_row = math.isqrt(max((share.place for share in shares), default=0)) + 1
    fewest_replies = min((share.trials for share in shares), default=0)
    places_per_cell = 1 if fewest_replies >= FEW else 2

    counts: dict[tuple[int, int], tuple[int, int]] = {}
    for share in shares:
        row, column = divmod(share.place, places_per_row)
        cell = (row // places_per_cell, column // places_per_cell)
        right, total = counts.get(cell, (0, 0))
        counts[cell] = (right + share.right, total + share.trials)

    width = MAP_SIDE / places_per_row * places_per_cell
    builder = DrawingBuilder()
    for (row, column), (right, total) in sorted(counts.items()):
        corner = (MARGIN + width * column, MARGIN + width * row)
        builder.rectangle(
            corner,
            width - 1,
            width - 1,
            "heat",
            opacity=FAINTEST + OPACITY_RANGE * right / total,
            series=0,
            tooltip=f"row {row + 1}, column {column + 1}: {right} of {total} read",
        )
    side = int(MAP_SIDE + 2 * MARGIN)
    return builder.drawing("Visual field", height=side, width=side)
