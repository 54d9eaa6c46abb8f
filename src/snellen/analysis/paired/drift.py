"""How models' numbers move between two versions of a benchmark that share no picture, and whether their order holds."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import combinations, pairwise
from typing import Any

import numpy as np
from msgspec import Struct

from snellen.analysis.lint.golds import chi_square_p_value
from snellen.analysis.paired.comparison import Place, run_measures
from snellen.analysis.paired.differences import QuestionMeasures, shared_protocol
from snellen.analysis.paired.significance import agreeing
from snellen.analysis.statistics import group_spread, interval_of, margins, sum_by_group
from snellen.errors import DataError
from snellen.records import Estimate
from snellen.scoring.scored_run import ScoredRun

Array = np.ndarray[Any, np.dtype[np.float64]]
ALL_MODELS = "mean of the models"


class ModelDrift(Struct, frozen=True):
    """One model's number on both versions; the mean of all models moves as the versions' difficulty does."""

    model: str
    before: Estimate
    after: Estimate
    difference: Estimate
    """After less before, of different questions: unpaired, with pictures as the independent units."""
    p: float | None


class OrderTest(Struct, frozen=True):
    """Whether models stand to each other as before."""

    pairs: int
    swapped: int
    """Pairs of models of which the other one is better now."""
    tau: float | None
    """Kendall's rank correlation of the models on both versions; None for ties throughout."""
    statistic: float
    freedom: int
    p: float | None
    """Of the hypothesis that all models moved alike, by Wald's test; None for a single model."""


class Drift(Struct, frozen=True):
    """What changed between two versions."""

    before: str
    after: str
    metric: str
    protocol: str
    unit: str
    models: tuple[ModelDrift, ...]
    """The last one is the mean over models, where there are several."""
    order: OrderTest


def drifts(runs: Sequence[ScoredRun], metric: str = "") -> list[Drift]:
    """The drift between each version and the next: `mine`, `mine-2`, `mine-3`; others in the order of the runs.

    Models are told apart by name, and each has one run on each version. Raises DataError where a model lacks a version,
    or has two runs on one, or versions share pictures.
    """
    names = sorted(
        dict.fromkeys(scored.spec.name for run in runs for scored in run.benchmarks),
        key=_version_number,
    )
    if len(names) < 2:
        raise DataError("drift is between versions of a benchmark; name runs on two of them")
    by_version: dict[str, dict[str, ScoredRun]] = defaultdict(dict)
    for run in runs:
        for scored in run.benchmarks:
            first = by_version[scored.spec.name].setdefault(run.manifest.model, run)
            if first is not run:
                raise DataError(
                    f"{first.folder} and {run.folder} are both of {run.manifest.model} on {scored.spec.name}"
                )
    models = list(dict.fromkeys(run.manifest.model for run in runs))
    for name in names:
        if lacking := [model for model in models if model not in by_version[name]]:
            raise DataError(
                f"{lacking[0]} has no run on {name}; run it there, or leave its other runs out"
            )
    return [
        _drift(models, *(_of_version(name, by_version[name], models, metric) for name in pair))
        for pair in pairwise(names)
    ]


def _version_number(name: str) -> int:
    """The 2 of `mine-2`; 1 for a name without a number."""
    number = name.rpartition("-")[2]
    return int(number) if number.isdecimal() and "-" in name else 1


def _of_version(
    name: str, runs: Mapping[str, ScoredRun], models: Sequence[str], metric: str
) -> Mapping[Place, Mapping[str, tuple[QuestionMeasures, ...]]]:
    """What all models measured on a version, by place and protocol."""
    tables = [run_measures(runs[model], metric) for model in models]
    places = [
        place for place in tables[0] if place[0] == name and all(place in table for table in tables)
    ]
    return {
        place: {
            protocol: measures
            for protocol in tables[0][place]
            if (
                measures := tuple(
                    table[place][protocol] for table in tables if protocol in table[place]
                )
            )
            and len(measures) == len(models)
        }
        for place in places
    }


def _drift(
    models: Sequence[str],
    before: Mapping[Place, Mapping[str, tuple[QuestionMeasures, ...]]],
    after: Mapping[Place, Mapping[str, tuple[QuestionMeasures, ...]]],
) -> Drift:
    pairs = [(old, new) for old in before for new in after if old[1] == new[1]]
    for old, new in pairs:
        protocol = shared_protocol([before[old], after[new]])
        if protocol is None:
            continue
        first, second = before[old][protocol], after[new][protocol]
        if len({measures.metric for measures in (*first, *second)}) == 1:
            return _measured(models, old[0], new[0], first, second)
    raise DataError(
        "the runs have no protocol and metric in common on both versions; run the models alike on both"
    )


def _measured(
    models: Sequence[str],
    before: str,
    after: str,
    first: Sequence[QuestionMeasures],
    second: Sequence[QuestionMeasures],
) -> Drift:
    sides = [_Side(first), _Side(second)]
    if shared := sides[0].groups & sides[1].groups:
        raise DataError(
            f"{before} and {after} share {len(shared):,} pictures; drift is between different ones"
        )
    row = first[0].row
    lines = [
        _model_drift(model, *(side.estimate(np.eye(len(models))[place]) for side in sides))
        for place, model in enumerate(models)
    ]
    if len(models) > 1:
        mean = np.full(len(models), 1 / len(models))
        lines.append(_model_drift(ALL_MODELS, *(side.estimate(mean) for side in sides)))
    return Drift(
        before, after, row.name, first[0].protocol, row.unit, tuple(lines), order_test(*sides)
    )


class _Side:
    """What all models measured on the questions of a version that each has a value for."""

    def __init__(self, measures: Sequence[QuestionMeasures]) -> None:
        keys, groups = measures[0].questions(
            frozenset.intersection(*(measured.keys for measured in measures))
        )
        spreads = [spread for measured in measures if (spread := measured.spread_over(keys))]
        if not keys or len(spreads) < len(measures):
            raise DataError(
                f"{measures[0].scored.spec.name}: no question has a value of all models; run them again"
            )
        self._row, self._of = measures[0].row, groups
        self.values = np.array([value for value, _ in spreads])
        self._deviations = np.array([deviations for _, deviations in spreads])
        self.groups = set(self._of)

    def estimate(self, weights: Array) -> Estimate:
        """A weighted mean over models, with an interval over pictures."""
        value, deviations = float(weights @ self.values), (weights @ self._deviations).tolist()
        spread = group_spread(deviations, self._of)
        low, high = interval_of(value, spread, self._row.bounds)
        return Estimate(value, spread.error, low, high, len(self._of), groups=spread.groups)

    def covariance(self) -> Array:
        """Of the models' values, over pictures."""
        sums = np.array(
            [list(sum_by_group(row.tolist(), self._of).values()) for row in self._deviations]
        )
        count = len(self.groups)
        covariance: Array = count / max(1, count - 1) * sums @ sums.T
        return covariance


def _model_drift(model: str, before: Estimate, after: Estimate) -> ModelDrift:
    """The difference of two independent estimates: its interval by MOVER (Zou and Donner 2008), its p-value by Wald,
    as one test."""
    gap = (after.value or 0.0) - (before.value or 0.0)
    error = math.hypot(before.stderr or 0.0, after.stderr or 0.0)
    groups = min(before.groups, after.groups)
    low = high = None
    if None not in (before.low, before.high, after.low, after.high):
        (down, up), (down_before, up_before) = margins(after), margins(before)
        low, high = gap - math.hypot(down, up_before), gap + math.hypot(up, down_before)
    difference = Estimate(gap, error, low, high, before.n + after.n, groups=groups)
    if not error:
        return ModelDrift(model, before, after, difference, None)
    return ModelDrift(
        model, before, after, *agreeing(difference, math.erfc(abs(gap) / error / math.sqrt(2)))
    )


def order_test(before: _Side, after: _Side) -> OrderTest:
    """Whether differences between models are what they were: Wald's test of k - 1 contrasts with the last model."""
    count = len(before.values)
    pairs = list(combinations(range(count), 2))
    signs = [
        np.sign(before.values[i] - before.values[j]) * np.sign(after.values[i] - after.values[j])
        for i, j in pairs
    ]
    swapped, untied = sum(sign < 0 for sign in signs), sum(sign != 0 for sign in signs)
    tau = (untied - 2 * swapped) / untied if untied else None
    if count < 2:
        return OrderTest(0, 0, None, 0.0, 0, None)
    contrasts = np.hstack([np.eye(count - 1), -np.ones((count - 1, 1))])
    moved = contrasts @ (after.values - before.values)
    covariance = contrasts @ (before.covariance() + after.covariance()) @ contrasts.T
    freedom = int(np.linalg.matrix_rank(covariance))
    statistic = float(moved @ np.linalg.pinv(covariance) @ moved)
    p = chi_square_p_value(statistic, freedom) if freedom else None
    return OrderTest(len(pairs), int(swapped), tau, statistic, freedom, p)
