"""A table of every report on this suite: accuracy by the colour of the bird."""

from __future__ import annotations

from collections.abc import Sequence

from snellen.plugin_api import NumberCell, ReportedRun, SuiteTables, Table


def colour_tables(reported_runs: Sequence[ReportedRun]) -> list[Table]:
    """One row for each model and protocol, one column a colour; no table where no bird was asked about."""
    cells = {
        ((reported_run.label, row.protocol), row.slice.removeprefix("colour=")): NumberCell(
            row.unit, row.estimate
        )
        for reported_run in reported_runs
        for row in reported_run.rows
        if (row.benchmark, row.metric) == ("birds/colours", "accuracy")
        and row.slice.startswith("colour=")
    }
    colours = tuple(dict.fromkeys(colour for _, colour in cells))
    rows = tuple(
        (*who, *(cells.get((who, colour), "") for colour in colours))
        for who in dict.fromkeys(who for who, _ in cells)
    )
    return (
        [Table("Accuracy by colour", ("model", "protocol", *colours), rows, label_columns=2)]
        if rows
        else []
    )


COLOUR_TABLES = SuiteTables("colours", colour_tables)
