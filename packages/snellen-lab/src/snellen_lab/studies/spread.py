"""Statistic of studies: mean and spread of a metric over the cells."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean, stdev

from snellen.plugin_api import (
    Cell,
    Estimate,
    NumberCell,
    Table,
    interval_text,
    score_interval,
    student_t,
    value_text,
)
from snellen_lab.cell_texts import DASH
from snellen_lab.rank_correlation import NORMAL_QUANTILE
from snellen_lab.studies.cell_variance import ITEM, components_of
from snellen_lab.studies.series import (
    StudyNumbers,
    StudyPart,
    StudyRow,
    StudySeries,
    bare,
    part_of,
    study_row,
)
from snellen_lab.studies.variance_components import VarianceComponent

ROUNDING_ERROR = 1e-12
"""Values that differ by less are equal."""

HEADER = (
    "model",
    "benchmark",
    "metric",
    "cells",
    "baseline",
    "mean [95%] n",
    "sd",
    "least",
    "greatest",
    "beyond",
)
NOTES = (
    "sd: standard deviation of the cells' values (divisor: cells - 1).",
    "The interval of the mean generalises to other images, for these cells; the one under `beyond` also to other levels of "
    "what varies (prompts, seeds ... as a sample of many).",
)


def spread_part(numbers: StudyNumbers) -> StudyPart:
    """Return the mean, standard deviation and extremes over the cells of each series."""
    rows: list[StudyRow] = []
    table_rows: list[tuple[Cell, ...]] = []
    for series in numbers.series:
        values = series.levels
        if not values:
            continue
        if series.common:
            mean = series.mean_of_questions()
        else:
            mean = _mean_without_questions(series, values)
        beyond = mean_beyond_cells(series, mean, components_of(series, numbers.grid))
        deviation = stdev(values) if len(values) > 1 else None

        quantities = {
            "mean": mean,
            "mean beyond these cells": beyond,
            "standard deviation": bare(deviation, mean.n),
            "least": bare(min(values), mean.n),
            "greatest": bare(max(values), mean.n),
        }
        for quantity, estimate in quantities.items():
            rows.append(study_row(series, "spread", quantity, estimate))
        baseline = DASH
        if series.baseline:
            estimate = series.baseline.estimate
            rows.append(study_row(series, "spread", "baseline", estimate))
            baseline = value_text(estimate, series.unit)
        table_rows.append(
            (
                series.model,
                series.place,
                series.row.heading,
                len(values),
                baseline,
                NumberCell(series.unit, mean),
                value_text(bare(deviation), series.unit),
                value_text(bare(min(values)), series.unit),
                value_text(bare(max(values)), series.unit),
                DASH if beyond.low is None else interval_text(beyond, series.unit),
            )
        )

    notes = list(NOTES)
    left_out = sum(series.n_incomplete for series in numbers.series)
    if left_out:
        notes.append(f"{left_out:,} questions without a value in some cell are left out.")
    return part_of(
        rows,
        Table("Over the cells", HEADER, tuple(table_rows), label_columns=3, notes=tuple(notes)),
    )


def _mean_without_questions(series: StudySeries, values: Sequence[float]) -> Estimate:
    """Return the mean of cells that are not means over questions. A single cell keeps its own interval."""
    if len(series.cells) == 1:
        return series.cells[0].estimate
    return bare(fmean(values), max(scores.estimate.n for scores in series.cells))


def mean_beyond_cells(
    series: StudySeries, mean: Estimate, components: Sequence[VarianceComponent]
) -> Estimate:
    """Return the mean with an interval for other images and for other levels of the factors.

    The variance over images is increased by that of each source without the questions, divided by its number of levels:
    var(mean) = s^2 + sum sigma^2_S / n_S, with Satterthwaite's degrees of freedom. There is no interval for fewer than
    two levels or image groups.
    """
    sources = [component for component in components if ITEM not in component.factors]
    if mean.value is None or not sources or not mean.stderr or mean.groups < 2:
        return bare(mean.value, mean.n)

    terms = [(mean.stderr**2, mean.groups - 1.0)]
    """Pairs of a variance and its degrees of freedom."""
    for component in sources:
        terms.append((max(0.0, component.variance) / component.levels, float(component.df)))
    variance = math.fsum(term for term, _ in terms)
    df = variance**2 / math.fsum(term**2 / term_df for term, term_df in terms)

    lower_bound, upper_bound = series.bounds
    if not lower_bound + ROUNDING_ERROR < mean.value < upper_bound - ROUNDING_ERROR:
        return bare(mean.value, mean.n)
    # The score interval has the normal quantile: its variance is scaled to have that of Student's distribution.
    scale = (student_t(max(1.0, df)) / NORMAL_QUANTILE) ** 2
    low, high = score_interval(mean.value, variance * scale, series.bounds)
    if mean.low is not None and mean.high is not None:
        low = min(low, mean.low)
        high = max(high, mean.high)
    return Estimate(
        mean.value,
        math.sqrt(variance),
        low,
        high,
        mean.n,
        mean.unscored,
        mean.errors,
        mean.groups,
        not_asked=mean.not_asked,
    )
