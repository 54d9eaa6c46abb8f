"""Statistic of studies: paired differences between cells."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from itertools import combinations
from typing import NamedTuple

from snellen.plugin_api import (
    Cell,
    NumberCell,
    Table,
)
from snellen_lab.studies.cells import BASELINE
from snellen_lab.studies.series import (
    Question,
    StudyNumbers,
    StudyPart,
    StudyRow,
    StudySeries,
    part_of,
    study_row,
)

MAX_CELLS_IN_PAIRS = 6
"""Number of cells up to which all pairs are compared. With more, each cell is compared with the mean of all."""
MEAN_OF_CELLS = "mean of the cells"
HEADER = ("model", "benchmark", "metric", "cell", "minus", "difference [95%] n")
NOTES = (
    "Each interval covers the true value in 95 of 100 studies; among many intervals, some exclude 0 by chance.",
)


class _Comparison(NamedTuple):
    """Two cells to compare, with their values by question."""

    first: str
    second: str
    first_values: Mapping[Question, float]
    second_values: Mapping[Question, float]


def differences_part(numbers: StudyNumbers) -> StudyPart:
    """Return the differences between the cells of each series."""
    rows: list[StudyRow] = []
    table_rows: list[tuple[Cell, ...]] = []
    for series in numbers.of_benchmarks():
        if not series.groups:
            continue
        for comparison in _comparisons(series):
            difference = series.difference(comparison.first_values, comparison.second_values)
            if difference.value is None:
                continue
            row = study_row(
                series,
                "pairs",
                "difference",
                difference,
                cell=comparison.first,
                against=comparison.second,
            )
            rows.append(row)
            table_rows.append(
                (
                    series.model,
                    series.benchmark,
                    series.row.heading,
                    comparison.first,
                    comparison.second,
                    NumberCell.of_difference(series.unit, difference),
                )
            )
    return part_of(
        rows, Table("Differences of cells", HEADER, tuple(table_rows), label_columns=5, notes=NOTES)
    )


def _comparisons(series: StudySeries) -> Iterator[_Comparison]:
    """Yield each cell with the baseline, then all pairs of cells, or each of many cells with their mean.

    With a baseline, many cells are not compared with their mean.
    """
    cells = series.cells
    baseline = series.baseline
    if baseline and baseline.values:
        for cell in cells:
            yield _Comparison(cell.label, BASELINE, cell.values, baseline.values)

    if len(cells) <= MAX_CELLS_IN_PAIRS:
        for first, second in combinations(cells, 2):
            yield _Comparison(first.label, second.label, first.values, second.values)
    elif not baseline:
        mean_values = {}
        for question in series.common:
            total = math.fsum(cell.values[question] for cell in cells)
            mean_values[question] = total / len(cells)
        for cell in cells:
            yield _Comparison(cell.label, MEAN_OF_CELLS, cell.values, mean_values)
