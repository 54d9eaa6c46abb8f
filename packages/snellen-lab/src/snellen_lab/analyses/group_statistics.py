"""Statistics over groups of models: means, ranks, differences, quartiles, correlations (group `analysis_statistics`)."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from statistics import quantiles
from typing import get_args

from msgspec import Struct
from msgspec.structs import replace

from snellen.plugin_api import Estimate, Method, competition_ranks, student_t
from snellen_lab.analyses.observations import Observation
from snellen_lab.rank_correlation import spearman

POOLED = "all values"
RANK = "rank"
DIGITS = {"%": 1, RANK: 2}
"""Decimals of figures by unit, unless they are the usual ones."""
MIN_MODELS = 3
"""Number of models below which a mean has no interval."""


class Member(Struct, frozen=True):
    """A value of a model, with the groups that the model is in, such as ("7B", "Vicuna")."""

    observation: Observation
    groups: tuple[str, ...]
    """One group of each grouping. Empty for a model without a group, which only counts as a rival in ranks."""
    x: float | None = None
    """The number on the model's card by which the first grouping sorts models, such as its size; None if it has none."""


class AnalysisRow(Struct, frozen=True, kw_only=True):
    """One number of an analysis: a statistic of a quantity over the models of a group."""

    groups: tuple[str, ...]
    method: str
    quantity: str
    statistic: str
    unit: str
    estimate: Estimate
    """Its interval treats the models of the group as a sample of such models."""
    models: int
    slack: float = 0.0
    """How far the number may be off because the printed values are rounded."""


class AnalysisStatistic(Struct, frozen=True):
    """A statistic over grouped values."""

    title: str
    compute: Callable[[Sequence[Member]], Iterable[AnalysisRow]]


def mean_over_models(values: Sequence[float]) -> Estimate:
    """Return the mean of a value over models, with Student's 95% interval; no interval for fewer than three models."""
    n = len(values)
    mean = math.fsum(values) / n
    if n < MIN_MODELS:
        return Estimate(mean, None, None, None, n)
    sum_of_squares = math.fsum((value - mean) ** 2 for value in values)
    standard_error = math.sqrt(sum_of_squares / (n - 1) / n)
    margin = student_t(n - 1) * standard_error
    return Estimate(mean, standard_error, mean - margin, mean + margin, n)


CellKey = tuple[tuple[str, ...], str, str, str]
"""Groups, method, quantity, unit."""


def _by_cell(members: Iterable[Member]) -> dict[CellKey, list[Member]]:
    """Sort values by group, method, quantity and unit. Models without a group are left out."""
    cells: dict[CellKey, list[Member]] = defaultdict(list)
    for member in members:
        if member.groups:
            observation = member.observation
            key = (member.groups, observation.method, observation.quantity, observation.unit)
            cells[key].append(member)
    return cells


def _estimated_rows(
    members: Iterable[Member],
    statistic: str,
    estimate: Callable[[Sequence[float]], Estimate] = mean_over_models,
) -> Iterator[AnalysisRow]:
    """Yield a row for each combination of group, method, quantity and unit.

    Args:
        members: The values of models.
        statistic: Name of the statistic.
        estimate: Function from the values of a group to the number.
    """
    for (groups, method, quantity, unit), cell_members in _by_cell(members).items():
        observations = [member.observation for member in cell_members]
        yield AnalysisRow(
            groups=groups,
            method=method,
            quantity=quantity,
            statistic=statistic,
            unit=unit,
            estimate=estimate([observation.value for observation in observations]),
            models=len({observation.model for observation in observations}),
            slack=max(observation.slack for observation in observations),
        )


def _mean(members: Sequence[Member]) -> Iterator[AnalysisRow]:
    """Yield the mean over models of each quantity, for each group."""
    return _estimated_rows(members, "mean")


def ranked(members: Sequence[Member]) -> Iterator[Member]:
    """Yield each value replaced by the model's rank, 1 for the best.

    Models are ranked by the same quantity and the same method. Equal values share the best of their
    ranks (1, 2, 2, 4).
    """
    rivals_by_quantity: dict[tuple[str, str], list[Member]] = defaultdict(list)
    for member in members:
        observation = member.observation
        rivals_by_quantity[observation.method, observation.quantity].append(member)
    for rivals in rivals_by_quantity.values():
        values = [member.observation.value for member in rivals]
        better = rivals[0].observation.better
        ranks = competition_ranks(values, better)
        for member, rank in zip(rivals, ranks, strict=True):
            observation = replace(member.observation, value=float(rank), unit=RANK, slack=0.0)
            yield replace(member, observation=observation)


def _mean_rank(members: Sequence[Member]) -> Iterator[AnalysisRow]:
    """Yield the mean rank of the models of each group, for each quantity."""
    return _estimated_rows(ranked(members), "mean rank")


def gaps(members: Sequence[Member]) -> Iterator[Member]:
    """Yield for each model and quantity the value by likelihood minus the value by generation.

    Models without one of the two are left out.
    """
    by_model: dict[tuple[str, str], dict[str, Member]] = defaultdict(dict)
    for member in members:
        observation = member.observation
        by_model[observation.model, observation.quantity][observation.method] = member
    generation_method, likelihood_method = get_args(Method)
    for by_method in by_model.values():
        if len(by_method) < len(get_args(Method)):
            continue
        generation = by_method[generation_method].observation
        likelihood = by_method[likelihood_method].observation
        gap = replace(
            likelihood,
            value=likelihood.value - generation.value,
            slack=likelihood.slack + generation.slack,
        )
        yield replace(by_method[likelihood_method], observation=gap)


def _gap(members: Sequence[Member]) -> Iterator[AnalysisRow]:
    """Yield the mean difference between likelihood and generation, for each group and quantity."""
    for row in _estimated_rows(gaps(members), "likelihood - generation"):
        yield replace(row, method="")


def _median_and_quartiles(values: Sequence[float]) -> Estimate:
    """Return the median with the quartiles as its ends, which are not a confidence interval."""
    if len(values) > 1:
        low, median, high = quantiles(values, n=4, method="inclusive")
    else:
        low = median = high = values[0]
    return Estimate(median, None, low, high, len(values))


def _quartiles(members: Sequence[Member]) -> Iterator[AnalysisRow]:
    """Yield the median and the quartiles over the models of each group, for each quantity."""
    return _estimated_rows(members, "median [quartiles]", _median_and_quartiles)


def _correlation(members: Sequence[Member]) -> Iterator[AnalysisRow]:
    """Yield Spearman's correlation of the models' mean values with their number in the first grouping.

    There is a row for each combination of the other groups.
    """
    strata = []
    for member in members:
        if member.groups and member.x is not None:
            strata.append(replace(member, groups=("all", *member.groups[1:])))
    for (groups, method, quantity, _), cell_members in _by_cell(strata).items():
        x_by_model: dict[str, float] = {}
        values_by_model: dict[str, list[float]] = defaultdict(list)
        for member in cell_members:
            model = member.observation.model
            if member.x is not None:
                x_by_model[model] = member.x
            values_by_model[model].append(member.observation.value)
        means = []
        for model in x_by_model:
            values = values_by_model[model]
            means.append(math.fsum(values) / len(values))
        n = len(x_by_model)
        correlation = spearman(list(x_by_model.values()), means, n)
        yield AnalysisRow(
            groups=groups,
            method=method,
            quantity=quantity,
            statistic="rank correlation",
            unit="1",
            estimate=replace(correlation, n=n),
            models=n,
        )


MEAN = AnalysisStatistic("Mean over models", _mean)
MEAN_RANK = AnalysisStatistic("Mean rank", _mean_rank)
GAP = AnalysisStatistic("Likelihood minus generation", _gap)
QUARTILES = AnalysisStatistic("Median and quartiles", _quartiles)
CORRELATION = AnalysisStatistic("Rank correlation", _correlation)


def pooled(members: Iterable[Member]) -> list[Member]:
    """Return the values under a common name in place of their quantities, so that all are pooled."""
    pooled_members = []
    for member in members:
        observation = replace(member.observation, quantity=POOLED)
        pooled_members.append(replace(member, observation=observation))
    return pooled_members


def arrange_by_quantity(
    rows: Iterable[AnalysisRow],
) -> Mapping[tuple[tuple[str, ...], str, str], dict[str, AnalysisRow]]:
    """Arrange numbers as the rows of a table that has a column for each quantity.

    Args:
        rows: The numbers.

    Returns:
        For each row of the table (groups, method and statistic), its numbers by quantity.
    """
    lines: dict[tuple[tuple[str, ...], str, str], dict[str, AnalysisRow]] = defaultdict(dict)
    for row in rows:
        line = lines[row.groups, row.method, row.statistic]
        line[row.quantity] = row
    return lines
