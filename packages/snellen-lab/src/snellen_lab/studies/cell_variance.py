"""Statistic of studies: shares of the variance of scores by source, such as prompts, seeds and questions."""

from __future__ import annotations

import math

from snellen.plugin_api import Cell, Estimate, Table, percent_text, value_text
from snellen_lab.studies.cells import CellGrid
from snellen_lab.studies.series import (
    StudyNumbers,
    StudyPart,
    StudyRow,
    StudySeries,
    bare,
    part_of,
    study_row,
)
from snellen_lab.studies.variance_components import VarianceComponent, variance_components

ITEM = "item"
"""Name of the factor whose levels are the questions."""
HEADER = (
    "model",
    "benchmark",
    "metric",
    "source",
    "share of variance",
    "sd",
    "levels",
    "df",
)
NOTES = (
    "Score of a question in a cell = mean + effects of each factor, of the question (item), of their combinations, and "
    "a residual; variances by the method of moments. A negative variance counts as 0 in the shares.",
    "With few degrees of freedom (df), a variance is imprecise.",
)


def components_of(series: StudySeries, grid: CellGrid) -> list[VarianceComponent]:
    """Return how much each source (factor, question, interaction) contributes to the variance of a series.

    The components need a value of each question in each combination of levels, so there are none if a cell is missing
    or if the metric is not a mean over questions. If a single factor varies, the cells that were run are enough.

    Args:
        series: A metric in all cells.
        grid: The factors of the study with their levels.
    """
    varied = {name: labels for name, labels in grid.factors.items() if len(labels) > 1}
    if not varied or len(series.cells) < 2 or len(series.common) < 2:
        return []
    if len(varied) == 1:
        level_counts = [len(series.cells)]
    else:
        level_counts = [len(labels) for labels in varied.values()]
    is_complete = len(series.cells) == math.prod(level_counts)
    if not is_complete:
        return []
    values = []
    for cell in series.cells:
        values.extend(cell.values[question] for question in series.common)
    return variance_components([*varied, ITEM], [*level_counts, len(series.common)], values)


def variance_part(numbers: StudyNumbers) -> StudyPart:
    """Return the variance components of each series."""
    rows: list[StudyRow] = []
    table_rows: list[tuple[Cell, ...]] = []
    for series in numbers.of_benchmarks():
        n = len(series.common)
        for component in components_of(series, numbers.grid):
            for quantity, value, unit in (
                ("variance", component.variance, f"{series.unit} squared"),
                ("share of variance", component.share, "share"),
            ):
                row = study_row(
                    series,
                    "variance",
                    quantity,
                    bare(value, n),
                    cell=component.source,
                    unit=unit,
                )
                rows.append(row)
            deviation = Estimate(math.sqrt(max(0.0, component.variance)), None, None, None, n)
            table_rows.append(
                (
                    series.model,
                    series.benchmark,
                    series.row.heading,
                    component.source,
                    percent_text(component.share),
                    value_text(deviation, series.unit),
                    component.levels,
                    component.df,
                )
            )
    return part_of(
        rows, Table("Shares of variance", HEADER, tuple(table_rows), label_columns=4, notes=NOTES)
    )
