"""Tables of the drift between versions of a benchmark."""

from __future__ import annotations

from snellen.analysis.paired.drift import Drift
from snellen.report.table import DASH, NumberCell, Table


def drift_table(drift: Drift) -> Table:
    """A row for each model and one for their mean, and whether their order held."""
    rows = tuple(
        (
            line.model,
            NumberCell(drift.unit, line.before),
            NumberCell(drift.unit, line.after),
            NumberCell(drift.unit, line.difference),
            DASH if line.p is None else f"{line.p:.2g}",
        )
        for line in drift.models
    )
    order = drift.order
    notes = [
        f"{drift.metric} under {drift.protocol}. The versions have no picture in common, so the difference is unpaired."
    ]
    if order.p is not None:
        notes.append(
            f"Order of models: {order.swapped:,} of {order.pairs:,} pairs swapped"
            + (f", Kendall's tau {order.tau:.2f}" if order.tau is not None else "")
            + f"; p = {order.p:.2g} if all models moved alike (chi-square {order.statistic:.2f}, "
            f"{order.freedom} degrees of freedom)."
        )
    header = ("model", drift.before, drift.after, "drift", "p")
    return Table(f"Drift from {drift.before} to {drift.after}", header, rows, notes=tuple(notes))
