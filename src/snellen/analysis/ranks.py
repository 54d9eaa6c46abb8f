"""The average rank, which compares models over dimensions measured in different units (ReForm-Eval, Table 1)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from decimal import ROUND_HALF_UP, Decimal
from itertools import groupby
from statistics import fmean

from snellen.analysis.capability import CAPABILITY
from snellen.analysis.headline import OVERALL
from snellen.metrics.declaration import Metric, metric_row, unit_multiplier
from snellen.records import METHODS, Better, Estimate, Method, Result

AVERAGE_RANK = "average_rank"
AVERAGE_RANK_METRIC = Metric(
    description="mean over dimensions of a model's rank among the models compared, 1 being best (arXiv 2310.02569, Table 1)",
    rows=(metric_row(AVERAGE_RANK, unit="rank", low=1.0, better="lower", interval="none"),),
)
DIGITS = 2
"""Decimals of a dimension's value times 100, as the paper prints and ranks it."""


def competition_ranks(
    values: Sequence[float] | Sequence[Decimal], better: Better = "higher"
) -> list[int]:
    """Return competition ranks, 1 for the best; equal values share the better rank, and the next is skipped (1, 2, 2, 4).

    Examples:
        >>> competition_ranks([0.9, 0.5, 0.9])
        [1, 3, 1]
    """
    sign = -1 if better == "lower" else 1
    return [1 + sum(sign * rival > sign * value for rival in values) for value in values]


def average_rank_rows(tables: Sequence[Sequence[Result]]) -> Iterator[Result]:
    """Yield the average rank of each run by each method, among the runs with that method.

    `tables` has the result rows of each run.
    """
    for method in METHODS:
        compared = [
            capabilities for table in tables if (capabilities := _capabilities(table, method))
        ]
        if len(compared) < 2:
            continue
        ranked = ranked_dimensions(compared)
        partial = _what_is_not_ranked(compared)
        for capabilities, estimate in zip(compared, average_ranks(compared), strict=True):
            model = next(iter(capabilities.values())).model
            yield Result(
                model,
                OVERALL,
                method,
                method,
                AVERAGE_RANK,
                estimate or Estimate(None, None, None, None, 0),
                OVERALL,
                unit="rank",
                better="lower",
                reason=None if estimate else "not measured alike",
                over="dimensions",
                members=", ".join(ranked),
                partial=partial,
            )


def _capabilities(table: Sequence[Result], method: Method) -> dict[str, Result]:
    """Return the row of each dimension by one method, without the one over all dimensions."""
    return {
        row.dimension: row
        for row in table
        if (row.metric, row.method, row.slice) == (CAPABILITY, method, "")
        and row.dimension != OVERALL
    }


def average_ranks(models: Sequence[Mapping[str, Result]]) -> list[Estimate | None]:
    """Return, for each model, the mean of its ranks over the dimensions in which all models are comparable.

    Args:
        models: For each model, its capability by dimension.

    Returns:
        None for each model if there is only one model, or no such dimension.
    """
    common_dimensions = ranked_dimensions(models)
    if len(models) < 2 or not common_dimensions:
        return [None] * len(models)

    ranks_by_dimension = []
    for dimension in common_dimensions:
        values = [_printed(capabilities[dimension]) for capabilities in models]
        ranks_by_dimension.append(competition_ranks(values, models[0][dimension].better))

    averages: list[Estimate | None] = []
    for model_index, capabilities in enumerate(models):
        model_ranks = [ranks[model_index] for ranks in ranks_by_dimension]
        n_questions = sum(capabilities[name].estimate.n for name in common_dimensions)
        averages.append(Estimate(fmean(model_ranks), None, None, None, n_questions))
    return averages


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
        for index, rank in enumerate(fractional_ranks_from_best(values, rows[0].better)):
            totals[index] += rank
    return [total / len(common) for total in totals]


def fractional_ranks_from_best(values: Sequence[float], better: Better) -> list[float]:
    """Return ranks from 1 for the best; equal values share their mean rank."""
    oriented = list(values) if better == "lower" else [-value for value in values]
    return fractional_ranks(oriented)


def ranked_dimensions(models: Sequence[Mapping[str, Result]]) -> list[str]:
    """Return the dimensions in which all models have a value in the same unit on the same benchmarks."""
    return [
        name
        for name in (models[0] if models else ())
        if all(_comparable(capabilities.get(name), models[0][name]) for capabilities in models)
    ]


def _what_is_not_ranked(models: Sequence[Mapping[str, Result]]) -> str:
    """Describe the dimensions that are not ranked, and the ranked ones with different numbers of questions."""
    dimensions: dict[str, None] = {}
    for capabilities in models:
        dimensions.update(dict.fromkeys(capabilities))
    ranked = ranked_dimensions(models)
    not_ranked = [name for name in dimensions if name not in ranked]
    uneven = []
    for name in ranked:
        question_counts = {capabilities[name].estimate.n for capabilities in models}
        if len(question_counts) > 1:
            uneven.append(name)

    clauses: list[str] = []
    if not_ranked:
        clauses.append(
            f"{len(ranked)} of {len(dimensions)} dimensions: in {', '.join(not_ranked)} the models were not measured alike"
        )
    if uneven:
        clauses.append(f"in {', '.join(uneven)} they have values of different numbers of questions")
    return "; ".join(clauses)


def _printed(result: Result) -> Decimal:
    """Return the value times 100, rounded half up as in the paper, after removing floating-point error."""
    value = 100 / unit_multiplier(result.unit) * (result.estimate.value or 0.0)
    return rounded(Decimal(repr(round(value, 9))), DIGITS)


def _comparable(result: Result | None, first: Result) -> bool:
    """Return whether a result has a value with the same unit, direction and benchmarks as the first one."""
    if result is None or result.estimate.value is None:
        return False
    has_same_unit = (result.unit, result.better) == (first.unit, first.better)
    return has_same_unit and result.members == first.members


# --- ranks with ties ------------------------------------------------------------------------------------------------


def fractional_ranks(values: Sequence[float]) -> list[float]:
    """Return ranks from 1; equal values share their mean rank.

    Examples:
        >>> fractional_ranks([0.5, 0.9, 0.9])
        [1.0, 2.5, 2.5]
    """
    order = sorted(range(len(values)), key=values.__getitem__)
    ranked = [0.0] * len(values)
    n_ranked = 0
    for _, group in groupby(order, key=values.__getitem__):
        tied = list(group)
        for index in tied:
            ranked[index] = n_ranked + (len(tied) + 1) / 2
        n_ranked += len(tied)
    return ranked


def rounded(value: Decimal, digits: int) -> Decimal:
    """Round half up to a number of decimals, as papers do."""
    return value.quantize(Decimal(1).scaleb(-digits), ROUND_HALF_UP)
