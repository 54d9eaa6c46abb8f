"""The average rank, which compares models over dimensions measured in different units (ReForm-Eval, Table 1)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from decimal import ROUND_HALF_UP, Decimal
from itertools import groupby
from statistics import StatisticsError, correlation, fmean

from snellen.analysis.capability import CAPABILITY
from snellen.analysis.headline import ALL
from snellen.analysis.statistics import z
from snellen.metrics.declaration import Metric, metric_row, unit_multiplier
from snellen.records import METHODS, Better, Estimate, Method, Result

AVERAGE_RANK = "average_rank"
AVERAGE_RANK_METRIC = Metric(
    what="mean over dimensions of a model's rank among the models compared, 1 being best (arXiv 2310.02569, Table 1)",
    rows=(metric_row(AVERAGE_RANK, unit="rank", low=1.0, better="lower", interval="none"),),
)
DIGITS = 2
"""Decimals of a dimension's value times 100, as the paper prints and ranks it."""


def competition_ranks(
    values: Sequence[float] | Sequence[Decimal], better: Better = "higher"
) -> list[int]:
    """Competition ranks, 1 for the best; equal values share the better rank, and the next is skipped (1, 2, 2, 4)."""
    sign = -1 if better == "lower" else 1
    return [1 + sum(sign * rival > sign * value for rival in values) for value in values]


def average_rank_rows(tables: Sequence[Sequence[Result]]) -> Iterator[Result]:
    """The average rank of each run by each method, among the runs with that method; `tables` holds each run's rows."""
    for method in METHODS:
        compared = [
            capabilities for table in tables if (capabilities := _capabilities(table, method))
        ]
        if len(compared) < 2:
            continue
        ranked, partial = ranked_dimensions(compared), _what_is_not_ranked(compared)
        for capabilities, estimate in zip(compared, average_ranks(compared), strict=True):
            first = next(iter(capabilities.values()))
            yield Result(
                first.model,
                ALL,
                method,
                method,
                AVERAGE_RANK,
                estimate or Estimate(None, None, None, None, 0),
                ALL,
                unit="rank",
                better="lower",
                reason=None if estimate else "not measured alike",
                over="dimensions",
                members=", ".join(ranked),
                partial=partial,
            )


def _capabilities(table: Sequence[Result], method: Method) -> dict[str, Result]:
    return {
        row.dimension: row
        for row in table
        if (row.metric, row.method, row.slice) == (CAPABILITY, method, "") and row.dimension != ALL
    }


def average_ranks(models: Sequence[Mapping[str, Result]]) -> list[Estimate | None]:
    """For each model, the mean of its ranks over the dimensions in which all models are measured alike.

    Each of `models` maps dimensions to that model's capability. All None if there is no such dimension, or only one
    model.
    """
    common = ranked_dimensions(models)
    if len(models) < 2 or not common:
        return [None] * len(models)
    ranks = [
        competition_ranks(
            [_printed(capabilities[name]) for capabilities in models], models[0][name].better
        )
        for name in common
    ]
    counts = [sum(capabilities[name].estimate.n for name in common) for capabilities in models]
    return [
        Estimate(fmean(model_ranks), None, None, None, n)
        for model_ranks, n in zip(zip(*ranks, strict=True), counts, strict=True)
    ]


def mean_ranks(models: Sequence[Mapping[str, Result]]) -> list[float | None]:
    """Return the mean over benchmarks of each model's rank, for models whose benchmarks have no common scale.

    Args:
        models: For each model the headline of each benchmark, by its name.

    Returns:
        None for each model if there is only one, or no benchmark that all of them have in the same metric.
    """
    common: list[str] = []
    for name, first in (models[0] if models else {}).items():
        rows = [headlines.get(name) for headlines in models]
        if all(row is not None and row.metric == first.metric for row in rows):
            common.append(name)
    if len(models) < 2 or not common:
        return [None] * len(models)

    totals = [0.0] * len(models)
    for name in common:
        rows = [headlines[name] for headlines in models]
        values = [row.estimate.value or 0.0 for row in rows]
        for place, rank in enumerate(fractional_ranks_from_best(values, rows[0].better)):
            totals[place] += rank
    return [total / len(common) for total in totals]


def fractional_ranks_from_best(values: Sequence[float], better: Better) -> list[float]:
    """Return ranks from 1 for the best; equal values share their mean rank."""
    oriented = list(values) if better == "lower" else [-value for value in values]
    return fractional_ranks(oriented)


def ranked_dimensions(models: Sequence[Mapping[str, Result]]) -> list[str]:
    """The dimensions for which all models have a value in one unit, of the same questions of the same benchmarks."""
    return [
        name
        for name in (models[0] if models else ())
        if all(_comparable(capabilities.get(name), models[0][name]) for capabilities in models)
    ]


def _what_is_not_ranked(models: Sequence[Mapping[str, Result]]) -> str:
    """Dimensions that do not enter the ranks, and those in which models lack values of different questions."""
    everything = dict.fromkeys(name for capabilities in models for name in capabilities)
    ranked = ranked_dimensions(models)
    left_out = [name for name in everything if name not in ranked]
    uneven = [
        name
        for name in ranked
        if len({capabilities[name].estimate.n for capabilities in models}) > 1
    ]
    words = [
        f"{len(ranked)} of {len(everything)} dimensions: in {', '.join(left_out)} the models were not measured alike"
        if left_out
        else "",
        f"in {', '.join(uneven)} they have values of different numbers of questions"
        if uneven
        else "",
    ]
    return "; ".join(filter(None, words))


def _printed(result: Result) -> Decimal:
    """The value times 100, as the paper prints it: rounded half up. Float error is taken off first."""
    value = 100 / unit_multiplier(result.unit) * (result.estimate.value or 0.0)
    return rounded(Decimal(repr(round(value, 9))), DIGITS)


def _comparable(result: Result | None, first: Result) -> bool:
    return (
        result is not None
        and result.estimate.value is not None
        and (result.unit, result.better, result.members)
        == (first.unit, first.better, first.members)
    )


# --- rank correlation ------------------------------------------------------------------------------------------------


def fractional_ranks(values: Sequence[float]) -> list[float]:
    """Ranks from 1; equal values share their mean rank."""
    order = sorted(range(len(values)), key=values.__getitem__)
    ranked = [0.0] * len(values)
    begun = 0
    for _, tied in groupby(order, key=values.__getitem__):
        places = list(tied)
        for place in places:
            ranked[place] = begun + (len(places) + 1) / 2
        begun += len(places)
    return ranked


def pearson(x: Sequence[float], y: Sequence[float]) -> float | None:
    """None for fewer than two values, or where all of one side are the same."""
    try:
        return correlation(x, y)
    except StatisticsError:
        return None


def spearman(x: Sequence[float], y: Sequence[float], groups: int) -> Estimate:
    """Spearman's rank correlation with a 95% interval.

    The interval is Fisher's, with the variance (1 + r^2 / 2) / (G - 3) of ranks (Bonett and Wright 2000, equation 4),
    where G is the number of independent groups (pictures). There is none with fewer than five groups, or for a
    correlation of one. No value where all of one side are the same.
    """
    n = len(x)
    rho = pearson(fractional_ranks(x), fractional_ranks(y))
    if rho is None or groups < 5 or abs(rho) >= 1 - 1e-12:
        return Estimate(rho, None, None, None, n, groups=groups)
    error = math.sqrt((1 + rho * rho / 2) / (groups - 3))
    middle = math.atanh(rho)
    low, high = math.tanh(middle - z() * error), math.tanh(middle + z() * error)
    return Estimate(rho, error * (1 - rho * rho), low, high, n, groups=groups)


def rounded(value: Decimal, digits: int) -> Decimal:
    """Half up, as papers round."""
    return value.quantize(Decimal(1).scaleb(-digits), ROUND_HALF_UP)
