"""Results as the tables of a suite's paper print them."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from snellen.analysis.capability import ALL
from snellen.analysis.pools import pooled_benchmarks
from snellen.analysis.statistics import scaled_estimate
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

    return [_printed(replace(row, convention=run.convention), factor(row)) for row in rows]


def _printed(row: Result, factor: float) -> Result:
    if factor == 1:
        return row
    return replace(row, estimate=scaled_estimate(row.estimate, factor), unit=printed_unit(row.unit, factor))
