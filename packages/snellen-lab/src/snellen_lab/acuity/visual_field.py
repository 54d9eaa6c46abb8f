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
MIN_OPACITY = 0.04  # opacity of a cell in which nothing was read
OPACITY_RANGE = 0.86


def field_panels(runs: Sequence[AcuityRun]) -> Iterator[ChartPanel]:
    """Yield a map for each model and each test in which letters are at different places of an image."""
    for run in runs:
        for benchmark, shares in run.fields.items():
            n_correct, n_replies = total_shares(shares)
            share = percent_text(n_correct / max(n_replies, 1))
            title = f"{run.model}, {short_name(benchmark)}: {share} of {n_replies} read"
            yield ChartPanel(title, _field_map(shares))


def _field_map(shares: Sequence[PlaceShare]) -> ChartDrawing:
    """Draw a map of how often a letter was read at each place of an image: the more often, the darker the cell.

    If a place has few replies, each cell of the map is a block of two by two places.
    """
    last_place = max((share.place for share in shares), default=0)
    places_per_row = math.isqrt(last_place) + 1
    fewest_replies = min((share.trials for share in shares), default=0)
    places_per_side = 1 if fewest_replies >= FEW else 2  # of a cell

    counts_by_cell: dict[tuple[int, int], tuple[int, int]] = {}
    for share in shares:
        row, column = divmod(share.place, places_per_row)
        cell = (row // places_per_side, column // places_per_side)
        n_correct, n_replies = counts_by_cell.get(cell, (0, 0))
        counts_by_cell[cell] = (n_correct + share.right, n_replies + share.trials)

    width = MAP_SIDE / places_per_row * places_per_side
    builder = DrawingBuilder()
    for (row, column), (n_correct, n_replies) in sorted(counts_by_cell.items()):
        corner = (MARGIN + width * column, MARGIN + width * row)
        builder.rectangle(
            corner,
            width - 1,
            width - 1,
            "heat",
            opacity=MIN_OPACITY + OPACITY_RANGE * n_correct / n_replies,
            series=0,
            tooltip=f"row {row + 1}, column {column + 1}: {n_correct} of {n_replies} read",
        )
    side = int(MAP_SIDE + 2 * MARGIN)
    return builder.drawing("Visual field", height=side, width=side)
