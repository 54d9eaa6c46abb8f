"""Thresholds as tables: a row for each test, a column for each model."""

from __future__ import annotations

from collections.abc import Sequence

from snellen.psychometrics.measuring import AcuityRun
from snellen.psychometrics.thresholds import Threshold
from snellen.report.formatting import DASH, percent
from snellen.report.table import Cell, Table

NOTES = (
    "A threshold is the level at which a model is halfway between guessing and its best, with a 95 % credible interval.",
    "`sees all` and `not even` are bounds: the threshold lies beyond the hardest or the easiest level.",
)


def acuity_tables(runs: Sequence[AcuityRun]) -> list[Table]:
    """Thresholds of all models, then places of the visual field, where they were asked."""
    by_model = [{threshold.benchmark: threshold for threshold in run.thresholds} for run in runs]
    names = list(dict.fromkeys(name for thresholds in by_model for name in thresholds))
    titles = {threshold.benchmark: threshold.title for run in runs for threshold in run.thresholds}
    rows: list[tuple[Cell, ...]] = [
        (name.rpartition("/")[2], titles[name], *(_cell(thresholds.get(name)) for thresholds in by_model))
        for name in names
    ]
    notes = tuple(
        f"{run.model}, {threshold.test}: {note}."
        for run in runs
        for threshold in run.thresholds
        for note in threshold.notes
    )
    header = ("test", "what varies", *(run.model for run in runs))
    tables = [Table("Thresholds", header, tuple(rows), label_columns=2, notes=(*NOTES, *notes))] if rows else []
    fields = tuple(
        (run.model, name.rpartition("/")[2], _worst(run, name))
        for run in runs
        for name in run.fields
        if run.fields[name]
    )
    return tables + ([Table("Places", ("model", "test", "least seen"), fields, label_columns=2)] if fields else [])


def _cell(threshold: Threshold | None) -> str:
    return DASH if threshold is None else f"{threshold.text}, n={threshold.asked}"


def _worst(run: AcuityRun, name: str) -> str:
    """The places where least was seen, and the share over all."""
    shares = run.fields[name]
    seen, asked = sum(share.right for share in shares), sum(share.asked for share in shares)
    least = min(share.right / share.asked for share in shares)
    places = [share.place for share in shares if share.right / share.asked == least]
    more = f" and {len(places) - 4} more" if len(places) > 4 else ""
    return f"{percent(seen / asked)} of {asked} in all; {percent(least)} at {', '.join(places[:4])}{more}"
