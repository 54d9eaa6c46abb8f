"""Ranks with intervals: how far a ranking would change if other images had been drawn."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from msgspec import Struct

from snellen.analysis.group_spread import sum_by_group
from snellen.analysis.headline import OVERALL, benchmark_weights
from snellen.analysis.paired.differences import QuestionMeasures, RankInterval
from snellen.common.seeds import rng_for

Array = np.ndarray[Any, np.dtype[np.float64]]

MAX_RESAMPLED_GROUPS = 1000
"""Most groups that are drawn one by one. Of more, random lots of groups are drawn, which leaves the standard error
of a bootstrap as it is, but for 1 / sqrt(2 * 1000) of itself."""
RESAMPLES_PER_CHUNK = 1000
"""Resamples at a time."""
TAIL_PERCENT = 2.5
_POISSON_CUMULATIVE = np.cumsum([math.exp(-1) / math.factorial(k) for k in range(10)])
_POISSON_NUMBERS = np.searchsorted(_POISSON_CUMULATIVE, (np.arange(2**16) + 0.5) / 2**16).astype(
    np.float32
)
"""Poisson numbers of mean 1, one for each 16-bit number."""


class _Resampled(Struct, frozen=True):
    """One benchmark: the runs' values, and their values in each resample."""

    measures: Sequence[QuestionMeasures]
    values: Array
    """The observed value of each run, of shape (runs,)."""
    resamples: Array
    """The value of each run in each resample, of shape (resamples, runs)."""
    n: int
    """Number of questions."""
    groups: int
    """Number of image groups."""


def rank_intervals(
    labels: Sequence[str],
    benchmarks: Sequence[Sequence[QuestionMeasures]],
    significant_pairs: Mapping[tuple[str, str], Sequence[tuple[str, str]]],
    resamples: int,
    seed: int,
) -> list[RankInterval]:
    """Rank several runs on each benchmark, in each dimension, and on average over the dimensions.

    The interval of a rank is what the tests of differences leave open, so that no rank says more than a difference
    does. How often a run is best, and the interval of the average rank, come from resamples: each image is drawn a
    Poisson number of times, one on average (Hanley and MacGibbon 2006), the same for all runs. A value changes by the
    sum of the deviations of its questions, so the total number of draws need not be fixed.

    Args:
        labels: Labels of the runs.
        benchmarks: For each benchmark, what all runs measured by the same metric and method.
        significant_pairs: By benchmark (or `*`) and dimension, pairs of labels: the first run is significantly better
            than the second.
        resamples: Number of resamples.
        seed: Seed of the draws.
    """
    resampled_benchmarks: list[_Resampled] = []
    for measures in benchmarks:
        resampled = _resample(measures, resamples, seed)
        if resampled is not None:
            resampled_benchmarks.append(resampled)

    intervals: list[RankInterval] = []
    for resampled in resampled_benchmarks:
        sign = _sign_of_better(resampled)
        point_ranks = _ranks(resampled.values[None], sign)
        resampled_ranks = _ranks(resampled.resamples, sign)
        name = resampled.measures[0].scored.spec.name
        intervals += _intervals(
            labels,
            point_ranks,
            resampled_ranks,
            resampled,
            benchmark=name,
            significant_pairs=significant_pairs,
        )

    benchmarks_by_dimension = _group_by_dimension(resampled_benchmarks)
    point_ranks_by_dimension: list[Array] = []
    resampled_ranks_by_dimension: list[Array] = []
    for dimension, members in benchmarks_by_dimension.items():
        point_ranks, resampled_ranks = _mean_ranks(members)
        point_ranks_by_dimension.append(point_ranks)
        resampled_ranks_by_dimension.append(resampled_ranks)
        intervals += _intervals(
            labels,
            point_ranks,
            resampled_ranks,
            _with_summed_counts(members),
            benchmark=OVERALL,
            dimension=dimension,
            significant_pairs=significant_pairs,
        )
    if len(benchmarks_by_dimension) > 1:
        all_members = [
            resampled for members in benchmarks_by_dimension.values() for resampled in members
        ]
        intervals += _intervals(
            labels,
            np.mean(point_ranks_by_dimension, axis=0),
            np.mean(resampled_ranks_by_dimension, axis=0),
            _with_summed_counts(all_members),
            benchmark=OVERALL,
            dimension=OVERALL,
        )
    return intervals


def _resample(measures: Sequence[QuestionMeasures], resamples: int, seed: int) -> _Resampled | None:
    """Compute the values that several runs would have on a benchmark if other images had been drawn (a bootstrap).

    In each resample, every group of questions (an image) counts a random number of times, the same number for all runs.

    Args:
        measures: The values of each run on the benchmark, in the same metric.
        resamples: Number of resamples.
        seed: Seed of the draws.

    Returns:
        The value of each run in each resample; None if one of the runs has no value.
    """
    common_keys = frozenset.intersection(*(measure.keys for measure in measures))
    keys, groups = measures[0].questions(common_keys)
    values: list[float] = []
    deviations_by_group: list[dict[Any, float]] = []  # of each run
    for measure in measures:
        spread = measure.spread_over(keys)
        if not spread:
            return None
        value, deviations = spread
        values.append(value)
        deviations_by_group.append(sum_by_group(deviations, groups))
    group_names = list(deviations_by_group[0])
    # Shape (groups, runs): how much a run's value changes if the group counts once more.
    shifts = np.zeros((len(group_names), len(measures)))
    for run_index, deviation_of_group in enumerate(deviations_by_group):
        for group_index, group in enumerate(group_names):
            shifts[group_index, run_index] = deviation_of_group[group]

    spec = measures[0].scored.spec
    rng = np.random.default_rng(rng_for(spec.name, "rank intervals", str(seed)).getrandbits(64))
    if len(shifts) > MAX_RESAMPLED_GROUPS:
        # So many groups are put into `MAX_RESAMPLED_GROUPS` random bundles of equal size, which are resampled in their place.
        bundles = rng.permutation(len(shifts)) % MAX_RESAMPLED_GROUPS
        bundled_shifts = np.zeros((MAX_RESAMPLED_GROUPS, len(measures)))
        np.add.at(bundled_shifts, bundles, shifts)
        shifts = bundled_shifts

    draws = np.empty((resamples, len(measures)))  # the value of each run in each resample
    for start in range(0, resamples, RESAMPLES_PER_CHUNK):
        n_rows = min(RESAMPLES_PER_CHUNK, resamples - start)
        random_indexes = rng.integers(
            0, len(_POISSON_NUMBERS), (n_rows, len(shifts)), dtype=np.uint16
        )
        # Poisson numbers of mean 1, shape (n_rows, groups).
        times_drawn = _POISSON_NUMBERS[random_indexes]
        changes = times_drawn @ shifts.astype(np.float32)  # shape (n_rows, runs)
        draws[start : start + n_rows] = np.array(values) + changes
    return _Resampled(
        measures=measures,
        values=np.array(values),
        resamples=draws,
        n=len(keys),
        groups=len(group_names),
    )


def _ranks(values: Array, sign: int) -> Array:
    """Return the ranks of the runs in each row: 1 plus the number of runs that are better.

    Args:
        values: The value of each run, of shape (resamples, runs).
        sign: 1 if a higher value is better, -1 if a lower one is.

    Returns:
        Ranks of the same shape, 1 for the best. Equal values have the same rank.
    """
    comparable = np.round(sign * values, 9)
    # Shape (resamples, runs, runs).
    is_other_better = comparable[:, None, :] > comparable[:, :, None]
    ranks: Array = 1.0 + is_other_better.sum(axis=2)
    return ranks


def _sign_of_better(benchmark: _Resampled) -> int:
    """Return the factor that makes higher values better: -1 if a lower value of the metric is better, otherwise 1."""
    return -1 if benchmark.measures[0].row.better == "lower" else 1


def _group_by_dimension(resampled: Sequence[_Resampled]) -> dict[str, list[_Resampled]]:
    """Group benchmarks by ability dimension, without the dimensions whose metrics have no meaningful mean."""
    by_dimension: dict[str, list[_Resampled]] = defaultdict(list)
    for benchmark in resampled:
        dimension = benchmark.measures[0].scored.spec.dimension
        if dimension:
            by_dimension[dimension].append(benchmark)
    return {name: members for name, members in by_dimension.items() if _have_common_scale(members)}


def _have_common_scale(members: Sequence[_Resampled]) -> bool:
    """Return whether a mean over some benchmarks has a meaning.

    It has if their metrics have the same scale and direction (whether higher or lower is better). A single benchmark
    needs neither.
    """
    rows = [benchmark.measures[0].row for benchmark in members]
    if len(rows) == 1:
        return True
    scales = {(row.scale, row.better) for row in rows}
    return len(scales) == 1 and bool(rows[0].scale)


def _mean_ranks(members: Sequence[_Resampled]) -> tuple[Array, Array]:
    """Rank runs by their mean over the benchmarks of an ability dimension.

    The suites declare whether questions or benchmarks have equal weight in the mean.

    Args:
        members: For each benchmark, the observed value of each run and its values in the resamples.

    Returns:
        The ranks by the observed means, of shape (1, runs), and those in each resample, of shape (resamples, runs).
    """
    sign = _sign_of_better(members[0])
    specs = [benchmark.measures[0].scored.spec for benchmark in members]
    metrics = [benchmark.measures[0].metric for benchmark in members]
    sizes = [benchmark.n for benchmark in members]
    weights = benchmark_weights(specs, metrics, sizes)
    observed = [benchmark.values for benchmark in members]
    resampled = [benchmark.resamples for benchmark in members]
    observed_means = np.average(observed, axis=0, weights=weights)
    resampled_means = np.average(resampled, axis=0, weights=weights)
    return _ranks(observed_means[None], sign), _ranks(resampled_means, sign)


def _with_summed_counts(members: Sequence[_Resampled]) -> _Resampled:
    """Return the record of the first benchmark with the numbers of questions and images of all benchmarks added up."""
    first = members[0]
    return _Resampled(
        measures=first.measures,
        values=first.values,
        resamples=first.resamples,
        n=sum(benchmark.n for benchmark in members),
        groups=sum(benchmark.groups for benchmark in members),
    )


def _intervals(
    labels: Sequence[str],
    point: Array,
    draws: Array,
    resampled: _Resampled,
    *,
    benchmark: str,
    dimension: str = "",
    significant_pairs: Mapping[tuple[str, str], Sequence[tuple[str, str]]] | None = None,
) -> list[RankInterval]:
    """Return the rank of each run with its bounds and with the share of resamples in which it is first.

    Args:
        labels: The label of each run.
        point: The observed ranks, of shape (1, runs).
        draws: The ranks in each resample, of shape (resamples, runs).
        resampled: The values behind the ranks.
        benchmark: The name of the benchmark, or `*` for ranks over several.
        dimension: The ability dimension; by default that of the benchmark.
        significant_pairs: By benchmark and dimension, the pairs (better run, worse run) with a significant difference.
            They determine the bounds: a run ranks after those that are better and before those that are worse. Without
            them, as for an average rank, the bounds are percentiles of the resampled ranks.
    """
    first = resampled.measures[0]
    dimension = dimension or first.scored.spec.dimension
    best_rank_of_draw = draws.min(axis=1, keepdims=True)  # shape (resamples, 1)
    shares_first = (draws <= best_rank_of_draw).mean(axis=0)  # shape (runs,)
    if significant_pairs is None:
        lows, highs = np.percentile(
            draws, [TAIL_PERCENT, 100 - TAIL_PERCENT], axis=0, method="inverted_cdf"
        )
    else:
        n_better: Counter[str] = Counter()  # number of runs that are better than each run
        n_worse: Counter[str] = Counter()
        for winner, loser in significant_pairs.get((benchmark, dimension), ()):
            n_better[loser] += 1
            n_worse[winner] += 1
        lows = np.array([1 + n_better[label] for label in labels])
        highs = np.array([len(labels) - n_worse[label] for label in labels])

    has_interval = resampled.groups > 1
    intervals: list[RankInterval] = []
    for index, label in enumerate(labels):
        interval = RankInterval(
            model=label,
            benchmark=benchmark,
            dimension=dimension,
            method=first.method,
            metric=first.metric,
            rank=float(point[0, index]),
            low=float(lows[index]) if has_interval else None,
            high=float(highs[index]) if has_interval else None,
            best=float(shares_first[index]) if has_interval else None,
            n=resampled.n,
        )
        intervals.append(interval)
    return intervals
