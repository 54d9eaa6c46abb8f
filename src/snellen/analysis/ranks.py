"""The average rank, which compares models over dimensions measured in different units (ReForm-Eval, Table 1)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean

from snellen.analysis.capability import ALL, CAPABILITY
from snellen.metrics.declaration import Metric, metric_row, unit_multiplier
from snellen.records import METHODS, Better, Estimate, Method, Result

AVERAGE_RANK = "average_rank"
AVERAGE_RANK_METRIC = Metric(
    what="mean over dimensions of a model's rank among the models compared, 1 being best (arXiv 2310.02569, Table 1)",
    rows=(metric_row(AVERAGE_RANK, unit="rank", low=1.0, better="lower", interval="none"),),
)
DIGITS = 2
"""Decimals of a dimension's value times 100, as the paper prints and ranks it."""


def competition_ranks(values: Sequence[float], better: Better = "higher") -> list[int]:
    """Competition ranks, 1 for the best; equal values share the better rank, and the next is skipped (1, 2, 2, 4)."""
    sign = -1 if better == "lower" else 1
    return [1 + sum(sign * rival > sign * value for rival in values) for value in values]


def average_rank_rows(tables: Sequence[Sequence[Result]]) -> Iterator[Result]:
    """The average rank of each run by each method, among the runs with that method; `tables` holds each run's rows."""
    for method in METHODS:
        compared = [capabilities for table in tables if (capabilities := _capabilities(table, method))]
        for capabilities, estimate in zip(compared, average_ranks(compared), strict=True):
            if estimate:
                model = next(iter(capabilities.values())).model
                yield Result(model, ALL, method, method, AVERAGE_RANK, estimate, ALL, unit="rank", better="lower")


def _capabilities(table: Sequence[Result], method: Method) -> dict[str, Result]:
    return {
        row.dimension: row for row in table if (row.metric, row.method) == (CAPABILITY, method) and row.dimension != ALL
    }


def average_ranks(models: Sequence[Mapping[str, Result]]) -> list[Estimate | None]:
    """For each model, the mean of its ranks over the dimensions for which all models have a value.

    Each of `models` maps dimensions to that model's capability. All None if there is no such dimension, or only one
    model.
    """
    common = (
        [
            name
            for name in models[0]
            if all(_comparable(capabilities.get(name), models[0][name]) for capabilities in models)
        ]
        if models
        else []
    )
    if len(models) < 2 or not common:
        return [None] * len(models)
    ranks = [
        competition_ranks([_printed(capabilities[name]) for capabilities in models], models[0][name].better)
        for name in common
    ]
    counts = [sum(capabilities[name].estimate.n for name in common) for capabilities in models]
    return [
        Estimate(fmean(model_ranks), None, None, None, n)
        for model_ranks, n in zip(zip(*ranks, strict=True), counts, strict=True)
    ]


def _printed(result: Result) -> float:
    return round(100 / unit_multiplier(result.unit) * (result.estimate.value or 0.0), DIGITS)


def _comparable(result: Result | None, first: Result) -> bool:
    return (
        result is not None
        and result.estimate.value is not None
        and (result.unit, result.better) == (first.unit, first.better)
    )
