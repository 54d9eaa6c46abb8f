"""Heat maps of several models: their headlines by benchmark and their capability by dimension."""

from __future__ import annotations

from collections.abc import Sequence

from snellen.metrics.declaration import SHARE, unit_multiplier
from snellen.records import METHODS, Estimate
from snellen.report.chart_drawer import FigureRow, dimension_row
from snellen.report.drawing import ChartPanel
from snellen.report.heat_map import heat_map
from snellen.report.matrix_tables import scored_benchmarks
from snellen.report.number_text import metric_title
from snellen.report.reported_runs import ReportedRun, dimensions_of, method_rows

HEAT_NOTE = (
    "One cell per model and row, in percent; a stronger tint is closer to 100%. An empty cell was not measured, "
    "or is not a share."
)


def benchmark_heat_maps(reported_runs: Sequence[ReportedRun]) -> list[ChartPanel]:
    """Draw a heat map of headline numbers: a row for each benchmark and metric, a column for each model.

    Only shares are drawn. It needs at least two models and two rows.
    """
    rows: list[FigureRow] = []
    for name in scored_benchmarks(reported_runs):
        headlines = [row.headlines.get(name) for row in method_rows(reported_runs)]
        metrics = dict.fromkeys(headline.metric for headline in headlines if headline)
        for metric in metrics:
            label = name if metric == "accuracy" else f"{name}, {metric_title(metric)}"
            rows.append(FigureRow(label, metric, name))
    return _heat_map_panels("Headline by benchmark", rows, reported_runs)


def dimension_heat_maps(reported_runs: Sequence[ReportedRun]) -> list[ChartPanel]:
    """Draw the capabilities in dimensions that are shares. Needs at least two models and two dimensions."""
    rows = [dimension_row(name) for name in dimensions_of(reported_runs)]
    return _heat_map_panels("Capability by dimension", rows, reported_runs)


def _heat_map_panels(
    title: str, rows: Sequence[FigureRow], reported_runs: Sequence[ReportedRun]
) -> list[ChartPanel]:
    """Draw a heat map for each method (generation or likelihood). Only shares are drawn.

    Args:
        title: The title.
        rows: What each row shows: a metric on a benchmark or in a dimension.
        reported_runs: The runs; each model has a column.

    Returns:
        The heat maps that have at least two models and two rows with values.
    """
    panels: list[ChartPanel] = []
    for method in METHODS:
        model_rows = [row for row in method_rows(reported_runs) if row.method == method]
        grid: dict[tuple[str, str], Estimate] = {}
        for row in rows:
            for model_row in model_rows:
                number = model_row.lookup(row.metric, row.benchmark, row.dimension)
                if number is None or number.estimate.value is None:
                    continue
                if number.unit.startswith(SHARE):
                    share = number.estimate.scaled(1 / unit_multiplier(number.unit))
                    grid[row.label, model_row.reported_run.label] = share

        filled_rows = {label for label, _ in grid}
        filled_columns = {name for _, name in grid}
        labels = [row.label for row in rows if row.label in filled_rows]
        names = [
            row.reported_run.label for row in model_rows if row.reported_run.label in filled_columns
        ]
        if len(labels) > 1 and len(names) > 1:
            drawing = heat_map(
                f"{title}, {method}",
                labels,
                names,
                grid,
                SHARE,
                digits=0,
                factor=100.0,
                ends=(0.0, 1.0),
            )
            panels.append(ChartPanel(method, drawing))
    return panels
