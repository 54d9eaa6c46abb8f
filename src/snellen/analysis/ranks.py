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
PRINTED_DECIMALS = 2
"""Decimals of a dimension's value times 100, as the paper prints and ranks it."""


def competition_ranks(
    values: Sequence[float] | Sequence[Decimal], better: Better = "higher"
) -> list[int]:
    """Return the rank of each value, 1 for the best. Equal values share the better rank, and the next rank is skipped.

    Args:
        values: The values to rank.
        better: Whether the `higher` or the `lower` value is the better one.

    Examples:
        >>> competition_ranks([0.9, 0.5, 0.9])
        [1, 3, 1]
    """
    ranks: list[int] = []
    for value in values:
        if better == "lower":
            n_better = sum(other < value for other in values)
        else:
            n_better = sum(other > value for other in values)
        ranks.append(1 + n_better)
    return ranks


def average_rank_rows(tables: Sequence[Sequence[Result]]) -> Iterator[Result]:
    """Yield the average rank of each run over ability dimensions, among the runs by the same method.

    The method is generation or likelihood. Nothing is yielded for a method that fewer than two runs used.

    Args:
        tables: The result rows of each run.
    """
    for method in METHODS:
        compared: list[dict[str, Result]] = []
        for table in tables:
            capabilities = _capabilities(table, method)
            if capabilities:
                compared.append(capabilities)
        if len(compared) < 2:
            continue
        ranked = ranked_dimensions(compared)
        partial = _what_is_not_ranked(compared)
        for capabilities, estimate in zip(compared, average_ranks(compared), strict=True):
            model = next(iter(capabilities.values())).model
            yield Result(
                model=model,
                benchmark=OVERALL,
                protocol=method,
                method=method,
                metric=AVERAGE_RANK,
                estimate=estimate or Estimate(value=None, stderr=None, low=None, high=None, n=0),
                dimension=OVERALL,
                unit="rank",
                better="lower",
                reason=None if estimate else "not measured alike",
                over="dimensions",
                members=", ".join(ranked),
                partial=partial,
            )


def _capabilities(table: Sequence[Result], method: Method) -> dict[str, Result]:
    """Return the result row of each ability dimension by one method, without the row over all dimensions.

    The method is generation or likelihood. The result is by the name of the dimension.
    """
    capabilities: dict[str, Result] = {}
    for row in table:
        is_capability = row.metric == CAPABILITY and row.method == method
        is_of_one_dimension = row.dimension != OVERALL
        if is_capability and is_of_one_dimension and not row.slice:
            capabilities[row.dimension] = row
    return capabilities


def average_ranks(models: Sequence[Mapping[str, Result]]) -> list[Estimate | None]:
    """Return the average rank of each model over ability dimensions, with ranks from 1 for the best model.

    Only dimensions in which all models can be compared are used.

    Args:
        models: For each model, its result in each dimension, by the name of the dimension.

    Returns:
        One estimate for each model. None for each model if there is only one model, or no such dimension.
    """
    common_dimensions = ranked_dimensions(models)
    if len(models) < 2 or not common_dimensions:
        return [None] * len(models)

    ranks_by_dimension = []
    for dimension in common_dimensions:
        values = [_printed_value(capabilities[dimension]) for capabilities in models]
        ranks_by_dimension.append(competition_ranks(values, models[0][dimension].better))

    averages: list[Estimate | None] = []
    for model_index, capabilities in enumerate(models):
        model_ranks = [ranks[model_index] for ranks in ranks_by_dimension]
        n_questions = sum(capabilities[name].estimate.n for name in common_dimensions)
        averages.append(
            Estimate(value=fmean(model_ranks), stderr=None, low=None, high=None, n=n_questions)
        )
    return averages


def mean_ranks(models: Sequence[Mapping[str, Result]]) -> list[float | None]:
    """Return the mean rank of each model over benchmarks. It compares models whose benchmarks have no common scale.

    Args:
        models: For each model, its headline result on each benchmark, by the name of the benchmark.

    Returns:
        One mean rank for each model, 1 being the best. None for each model if there is only one model, or no benchmark
        that all models have in the same metric.
    """
    if len(models) < 2:
        return [None] * len(models)
    common_benchmarks: list[str] = []
    for benchmark, first in models[0].items():
        rows = [headlines.get(benchmark) for headlines in models]
        if all(row is not None and row.metric == first.metric for row in rows):
            common_benchmarks.append(benchmark)
    if not common_benchmarks:
        return [None] * len(models)

    rank_sums = [0.0] * len(models)
    for benchmark in common_benchmarks:
        rows = [headlines[benchmark] for headlines in models]
        values = [row.estimate.value or 0.0 for row in rows]
        for index, rank in enumerate(fractional_ranks_from_best(values, rows[0].better)):
            rank_sums[index] += rank
    return [rank_sum / len(common_benchmarks) for rank_sum in rank_sums]


def fractional_ranks_from_best(values: Sequence[float], better: Better) -> list[float]:
    """Return ranks from 1 for the best; equal values share their mean rank."""
    oriented = list(values) if better == "lower" else [-value for value in values]
    return fractional_ranks(oriented)


def ranked_dimensions(models: Sequence[Mapping[str, Result]]) -> list[str]:
    """Return the ability dimensions in which all models have a value, in the same unit and on the same benchmarks.

    Args:
        models: For each model, its result in each dimension, by the name of the dimension.
    """
    if not models:
        return []
    dimensions: list[str] = []
    for dimension, first in models[0].items():
        if all(_is_comparable(capabilities.get(dimension), first) for capabilities in models):
            dimensions.append(dimension)
    return dimensions


def _what_is_not_ranked(models: Sequence[Mapping[str, Result]]) -> str:
    """Describe which ability dimensions an average rank leaves out, and which compare different numbers of questions.

    Args:
        models: For each model, its result in each dimension, by the name of the dimension.

    Returns:
        One or two clauses, separated by a semicolon; empty if there is nothing to say.
    """
    dimensions: dict[str, None] = {}
    for capabilities in models:
        dimensions.update(dict.fromkeys(capabilities))
    ranked = ranked_dimensions(models)
    not_ranked = [name for name in dimensions if name not in ranked]
    uneven: list[str] = []
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


def _printed_value(result: Result) -> Decimal:
    """Return the value times 100, rounded half up as in the paper, after removing floating-point error."""
    value = 100 / unit_multiplier(result.unit) * (result.estimate.value or 0.0)
    return rounded(Decimal(repr(round(value, 9))), PRINTED_DECIMALS)


def _is_comparable(result: Result | None, first: Result) -> bool:
    """Return whether the result of a model can be ranked next to that of the first model.

    It must have a value, and the same unit, direction and benchmarks.
    """
    if result is None or result.estimate.value is None:
        return False
    return (
        result.unit == first.unit
        and result.better == first.better
        and result.members == first.members
    )


# --- ranks with ties ------------------------------------------------------------------------------------------------


def fractional_ranks(values: Sequence[float]) -> list[float]:
    """Return the rank of each value, 1 for the lowest; equal values share the mean of their ranks.

    Examples:
        >>> fractional_ranks([0.5, 0.9, 0.9])
        [1.0, 2.5, 2.5]
    """
    ascending = sorted(range(len(values)), key=values.__getitem__)  # indexes of the values
    ranks = [0.0] * len(values)
    n_ranked = 0
    for _, equal_values in groupby(ascending, key=values.__getitem__):
        tied_indexes = list(equal_values)
        mean_rank = n_ranked + (len(tied_indexes) + 1) / 2
        for index in tied_indexes:
            ranks[index] = mean_rank
        n_ranked += len(tied_indexes)
    return ranks


def rounded(value: Decimal, digits: int) -> Decimal:
    """Round half up to a number of decimals, as papers do."""
    return value.quantize(Decimal(1).scaleb(-digits), ROUND_HALF_UP)
