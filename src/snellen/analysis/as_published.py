"""Results as the tables of a suite's paper print them."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from snellen.analysis.capability import ALL, CAPABILITY
from snellen.analysis.pools import pooled_benchmarks
from snellen.analysis.statistics import mean_of_estimates, scaled_estimate
from snellen.metrics.declaration import printed_unit
from snellen.records import Result
from snellen.scoring.scored_run import ScoredRun


def as_printed(run: ScoredRun, rows: Sequence[Result]) -> list[Result]:
    """The rows, marked as published, on the scale that each benchmark's suite prints its unit in.

    A mean over benchmarks is on their scale if they share one, else unscaled.
    """
    everything = (*run.benchmarks, *pooled_benchmarks(run))
    scales = {scored.spec.name: scored.published.scale if scored.published else {} for scored in everything}

    def factor(row: Result) -> float:
        factors = {scale.get(row.unit, 1.0) for name, scale in scales.items() if row.benchmark in (name, ALL)}
        return factors.pop() if len(factors) == 1 else 1.0

    printed = [_printed(replace(row, convention=run.convention), factor(row)) for row in rows]
    if any(scored.published is None or scored.published.overall != "mean of printed" for scored in run.benchmarks):
        return printed
    return [_mean_of_printed(row, printed) for row in printed]


def _mean_of_printed(row: Result, printed: Sequence[Result]) -> Result:
    """An overall capability whose dimensions are on different scales: the mean of their figures all the same."""
    if (row.metric, row.dimension, row.reason) != (CAPABILITY, ALL, "scales differ"):
        return row
    dimensions = [
        other
        for other in printed
        if (other.metric, other.method) == (row.metric, row.method) and other.dimension != ALL
    ]
    if any(dimension.estimate.value is None for dimension in dimensions):
        return row
    estimate = mean_of_estimates([dimension.estimate for dimension in dimensions])
    units = ", ".join(dict.fromkeys(dimension.unit for dimension in dimensions))
    return replace(
        row, estimate=estimate, unit=printed_unit("score", 100), reason=None, detail=f"mean of figures in {units}"
    )


def _printed(row: Result, factor: float) -> Result:
    if factor == 1:
        return row
    return replace(row, estimate=scaled_estimate(row.estimate, factor), unit=printed_unit(row.unit, factor))
