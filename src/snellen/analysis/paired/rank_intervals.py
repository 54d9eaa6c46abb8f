"""Ranks with intervals: how far a ranking would change if other images had been drawn."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from msgspec import Struct

from snellen.analysis.group_spread import sum_by_group
from snellen.analysis.headline import OVERALL, benchmark_weights
from snellen.analysis.paired.differences import QuestionMeasures, RankInterval
from snellen.common.seeds import rng_for

Array = np.ndarray[Any, np.dtype[np.float64]]

UNITS = 1000
"""Most groups that are drawn one by one. Of more, random lots of groups are drawn, which leaves the standard error
of a bootstrap as it is, but for 1 / sqrt(2 * 1000) of itself."""
CHUNK = 1000
"""Resamples at a time."""
TAIL = 2.5
_POISSON = np.cumsum([math.exp(-1) / math.factorial(k) for k in range(10)])
_DRAWN = np.searchsorted(_POISSON, (np.arange(2**16) + 0.5) / 2**16).astype(np.float32)
"""Poisson numbers of mean 1, one for each 16-bit number."""


class _Resampled(Struct, frozen=True):
    """One benchmark: the runs' values, and their values in each resample."""

    measures: Sequence[QuestionMeasures]
    values: Array
    """runs."""
    resamples: Array
    """resamples x runs."""
    n: int
    groups: int


def rank_intervals(
    labels: Sequence[str],
    benchmarks: Sequence[Sequence[QuestionMeasures]],
    better: Mapping[tuple[str, str], Sequence[tuple[str, str]]],
    resamples: int,
    seed: int,
) -> list[RankInterval]:
    """Ranks of several runs on each benchmark, in each dimension, and on average over the dimensions.

    `benchmarks` holds, for each benchmark, what all runs measured by the same metric and method, and `better`, by
    benchmark (or `*`) and dimension, which run is shown to be better than which other one: these tests leave each run
    some places, which are its interval, so that no rank says more than a difference does. How often a run is best, and
    the interval of the average rank, come from resamples. Each image is drawn
    a Poisson number of times, one on average (Hanley and MacGibbon 2006), the same for all runs; a value changes by the
    sum of its questions' deviations, so that the total drawn need not be fixed.
    """
    resampled_benchmarks = [
        resampled for measures in benchmarks if (resampled := _resample(measures, resamples, seed))
    ]
    ranked = [
        interval
        for resampled in resampled_benchmarks
        for interval in _intervals(
            labels,
            _ranks(resampled.values[None], _sign(resampled)),
            _ranks(resampled.resamples, _sign(resampled)),
            resampled,
            resampled.measures[0].scored.spec.name,
            better=better,
        )
    ]
    dimensions = _dimensions(resampled_benchmarks)
    by_dimension = [(name, members, *_mean_ranks(members)) for name, members in dimensions.items()]
    for name, members, points, draws in by_dimension:
        ranked += _intervals(labels, points, draws, _joined(members), OVERALL, name, better)
    if len(dimensions) > 1:
        points, draws = (
            np.mean(arrays, axis=0)
            for arrays in zip(*(ranks[2:] for ranks in by_dimension), strict=True)
        )
        everything = _joined(
            [resampled for members in dimensions.values() for resampled in members]
        )
        ranked += _intervals(labels, points, draws, everything, OVERALL, OVERALL)
    return ranked


def _resample(measures: Sequence[QuestionMeasures], resamples: int, seed: int) -> _Resampled | None:
    """The values of one benchmark in each resample; None where one of the runs has no value."""
    keys, groups = measures[0].questions(
        frozenset.intersection(*(measure.keys for measure in measures))
    )
    spreads = [spread for measure in measures if (spread := measure.spread_over(keys))]
    if len(spreads) < len(measures):
        return None
    sums = [sum_by_group(deviations, groups) for _, deviations in spreads]
    shifts = np.array([[column[group] for column in sums] for group in sums[0]])
    spec = measures[0].scored.spec
    rng = np.random.default_rng(rng_for(spec.name, "rank intervals", str(seed)).getrandbits(64))
    if len(shifts) > UNITS:
        lots = rng.permutation(len(shifts)) % UNITS
        merged = np.zeros((UNITS, len(measures)))
        np.add.at(merged, lots, shifts)
        shifts = merged
    values = np.array([value for value, _ in spreads])
    draws = np.empty((resamples, len(measures)))
    for start in range(0, resamples, CHUNK):
        rows = min(CHUNK, resamples - start)
        times = _DRAWN[rng.integers(0, len(_DRAWN), (rows, len(shifts)), dtype=np.uint16)]
        draws[start : start + rows] = values + times @ shifts.astype(np.float32)
    return _Resampled(measures, values, draws, len(keys), len(sums[0]))


def _ranks(values: Array, sign: int) -> Array:
    """Competition ranks in each row, as in `snellen.analysis.ranks`."""
    signed = np.round(sign * values, 9)
    ranks: Array = 1.0 + (signed[:, None, :] > signed[:, :, None]).sum(axis=2)
    return ranks


def _sign(benchmark: _Resampled) -> int:
    return -1 if benchmark.measures[0].row.better == "lower" else 1


def _dimensions(resampled: Sequence[_Resampled]) -> dict[str, list[_Resampled]]:
    """The benchmarks of each dimension whose metrics may be averaged."""
    by_dimension: dict[str, list[_Resampled]] = defaultdict(list)
    for benchmark in resampled:
        by_dimension[benchmark.measures[0].scored.spec.dimension].append(benchmark)
    return {
        name: members for name, members in by_dimension.items() if name and _share_scale(members)
    }


def _share_scale(members: Sequence[_Resampled]) -> bool:
    rows = [benchmark.measures[0].row for benchmark in members]
    return len(rows) == 1 or (
        len({(row.scale, row.better) for row in rows}) == 1 and bool(rows[0].scale)
    )


def _mean_ranks(members: Sequence[_Resampled]) -> tuple[Array, Array]:
    """Ranks by the mean over the benchmarks of a dimension, whose questions count alike if their suites say so."""
    sign = _sign(members[0])
    weights = benchmark_weights(
        [benchmark.measures[0].scored.spec for benchmark in members],
        [benchmark.measures[0].metric for benchmark in members],
        [benchmark.n for benchmark in members],
    )
    means = np.average([benchmark.values for benchmark in members], axis=0, weights=weights)
    draws = np.average([benchmark.resamples for benchmark in members], axis=0, weights=weights)
    return _ranks(means[None], sign), _ranks(draws, sign)


def _joined(members: Sequence[_Resampled]) -> _Resampled:
    """Return the first benchmark with the numbers of questions and images of all."""
    first = members[0]
    return _Resampled(
        first.measures,
        first.values,
        first.resamples,
        sum(benchmark.n for benchmark in members),
        sum(benchmark.groups for benchmark in members),
    )


def _intervals(
    labels: Sequence[str],
    point: Array,
    draws: Array,
    of: _Resampled,
    benchmark: str,
    dimension: str = "",
    better: Mapping[tuple[str, str], Sequence[tuple[str, str]]] | None = None,
) -> list[RankInterval]:
    """Return the rank of each run with its bounds.

    The bounds follow from the significant differences in `better`, as pairs (winner, loser). Without `better`, as for an
    average rank, they are percentiles of the resampled ranks.
    """
    best = (draws <= draws.min(axis=1, keepdims=True)).mean(axis=0)
    first, is_known = of.measures[0], of.groups > 1
    dimension = dimension or first.scored.spec.dimension
    if better is None:
        low, high = np.percentile(draws, [TAIL, 100 - TAIL], axis=0, method="inverted_cdf")
    else:
        significant = better.get((benchmark, dimension), ())
        n_better = [sum(loser == label for _, loser in significant) for label in labels]
        n_worse = [sum(winner == label for winner, _ in significant) for label in labels]
        low = 1 + np.array(n_better)
        high = len(labels) - np.array(n_worse)
    return [
        RankInterval(
            label,
            benchmark,
            dimension,
            first.method,
            first.metric,
            float(point[0, i]),
            float(low[i]) if is_known else None,
            float(high[i]) if is_known else None,
            float(best[i]) if is_known else None,
            of.n,
        )
        for i, label in enumerate(labels)
    ]
