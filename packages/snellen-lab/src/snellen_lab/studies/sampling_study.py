"""How well scores on a sample of a benchmark predict those on the full benchmark (ReForm-Eval E.1, Tables 29 and 30).

For each ratio, samples of a benchmark are drawn repeatedly, and every model's score on the sample is compared
with its score on the full benchmark.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from statistics import fmean, variance

from msgspec import Struct

from snellen import DataError
from snellen.plugin_api import (
    ALL,
    SHARE,
    Counts,
    Method,
    RowKey,
    Sampling,
    SamplingRule,
    ScoredBenchmark,
    ScoredRun,
    SummedMetric,
    declared,
    draw_sample,
    first_text_metric,
    fractional_ranks,
    pearson,
    read_exchanges,
    stratum_of,
    summed_metric,
)

RATIOS = (0.01, 0.02, 0.1, 0.2)
"""The ratios in the paper's tables."""


class SamplingPlan(Struct, frozen=True):
    """What to draw, and how often."""

    ratios: tuple[float, ...] = RATIOS
    draws: int = 10
    rule: SamplingRule = "balanced"
    stratify_by: str = ""
    """The tag to balance by; the answer when empty."""
    seed: int = 0
    metric: str = ""
    """The benchmark's headline metric when empty."""


class SampleStability(Struct, frozen=True, omit_defaults=True):
    """One ratio of one benchmark, or the mean over benchmarks (`*`). Shares are in percent, as in the paper."""

    benchmark: str
    protocol: str
    method: Method
    metric: str
    ratio: float
    samples: int
    """Samples per draw; for a mean over benchmarks, their sum."""
    models: int
    draws: int
    rho: float | None
    """Pearson's correlation over models of sample and full scores, mean over draws; None below two models."""
    rank_rho: float | None
    """Spearman's rank correlation of the same."""
    deviation: float | None
    """Mean absolute deviation of a model's score on the sample from its full score, in points."""
    variance: float | None
    """Variance of a model's score over the draws (n - 1), mean over models, in squared points."""
    time: float | None
    """Share of the models' time that the sample takes; of their requests where no times were recorded."""
    unscored: int = 0
    """Questions of the full benchmark without a value, summed over all models."""


class _Model(Struct, frozen=True):
    """One run on one benchmark under one protocol: the counts of each sample, in the benchmark's order."""

    counts: list[Counts]
    """For a mean, the sum of the values and their number; empty for a sample without a value."""
    compute: Callable[[Counts], float | None]
    """The score that follows from summed counts."""
    seconds: list[float]
    unscored: int

    def score(self, places: Iterable[int]) -> float | None:
        counted = [counts for place in places if (counts := self.counts[place])]
        return self.compute(tuple(map(sum, zip(*counted, strict=True)))) if counted else None


Series = tuple[str, str, Method, str]
"""Benchmark, protocol, method, metric."""
Times = dict[tuple[str, str], dict[str, float]]
"""Benchmark and protocol -> sample -> seconds."""


def sampling_study(runs: Sequence[ScoredRun], plan: SamplingPlan) -> list[SampleStability]:
    """Stability by benchmark, protocol and ratio, and its mean over benchmarks.

    All runs of a benchmark must have asked the same samples of the same version. Samples are drawn by
    `Sampling(plan.rule, ratio)`, seeded by benchmark, ratio, draw and plan.seed: the same for all models.
    Raises DataError for runs that cannot be compared, or that have no value of the metric.
    """
    if plan.draws < 2:
        raise DataError(f"a variance needs two draws or more, not {plan.draws}")
    benchmarks = _benchmarks_by_name(runs)
    timed = [(run, _times(run)) for run in runs]
    rows: list[SampleStability] = []
    for name, (first, *_) in benchmarks.items():
        strata = [
            stratum_of(sample, first.answers, plan.stratify_by) for sample in first.samples.values()
        ]
        subsets = {ratio: list(_draws(strata, name, ratio, plan)) for ratio in plan.ratios}
        for series, models in _series(timed, name, plan.metric).items():
            rows += [_stability(series, models, ratio, draws) for ratio, draws in subsets.items()]
    if not rows:
        raise DataError(
            f"no run has a value of {plan.metric or 'its headline metric'} on any benchmark"
        )
    return [*rows, *_means(rows)]


def _draws(
    strata: Sequence[str], name: str, ratio: float, plan: SamplingPlan
) -> Iterator[list[int]]:
    for draw in range(plan.draws):
        yield draw_sample(
            strata, Sampling(plan.rule, ratio=ratio), name, f"study {ratio} {draw}", plan.seed
        )


def _benchmarks_by_name(runs: Sequence[ScoredRun]) -> dict[str, list[ScoredBenchmark]]:
    """The benchmarks of the runs by name. Raises DataError when two runs asked different samples of one."""
    benchmarks: dict[str, list[ScoredBenchmark]] = defaultdict(list)
    first_runs: dict[str, tuple[ScoredRun, str]] = {}
    for run in runs:
        for use, scored in zip(run.manifest.benchmarks, run.benchmarks, strict=True):
            first_run, version = first_runs.setdefault(use.name, (run, use.version))
            if version != use.version or (
                benchmarks[use.name]
                and benchmarks[use.name][0].samples.keys() != scored.samples.keys()
            ):
                raise DataError(
                    f"{first_run.folder} and {run.folder} asked different samples of {use.name}; run both on the same "
                    "version, with the same --where and --limit"
                )
            benchmarks[use.name].append(scored)
    return benchmarks


def _series(
    runs: Sequence[tuple[ScoredRun, Times]], name: str, metric: str
) -> dict[Series, list[_Model]]:
    series: dict[Series, list[_Model]] = defaultdict(list)
    for run, times in runs:
        for scored in (benchmark for benchmark in run.benchmarks if benchmark.spec.name == name):
            rows = (metric,) if metric else ("accuracy", first_text_metric(scored.spec))
            for (protocol, method, row), compute, questions in _counted(scored):
                if row in rows and any(counts for _, counts in questions):
                    model = _model(scored, compute, questions, times.get((name, protocol), {}))
                    series[name, protocol, method, row].append(model)
    return series


Compute = Callable[[Counts], float | None]
CountedQuestion = tuple[str, Counts]
"""Its sample, and its counts for one row of results."""


def _counted(scored: ScoredBenchmark) -> Iterator[tuple[RowKey, Compute, list[CountedQuestion]]]:
    """By protocol, method and row: pooled counts, and for metrics that are means each value with a count of 1."""
    tallied: dict[RowKey, list[CountedQuestion]] = defaultdict(list)
    for tally in scored.tallies:
        tallied[tally.protocol, tally.method, tally.metric].append((tally.sample_id, tally.counts))
    pooled_rows: set[RowKey] = set()
    for (protocol, method, metric), questions in tallied.items():
        pooled = summed_metric(metric)
        for place, row in enumerate(pooled.names):
            pooled_rows.add((protocol, method, row))
            yield (protocol, method, row), partial(_pooled_row, pooled, place), questions
    for key, scores in scored.score_rows.items():
        if key not in pooled_rows:
            yield (
                key,
                _mean_of,
                [(s.sample_id, () if s.value is None else (s.value, 1.0)) for s in scores],
            )


def _mean_of(sums: Counts) -> float:
    return sums[0] / sums[1]


def _pooled_row(pooled: SummedMetric, place: int, sums: Counts) -> float | None:
    return pooled.compute(sums)[place]


def _model(
    scored: ScoredBenchmark,
    compute: Compute,
    questions: Sequence[CountedQuestion],
    seconds: dict[str, float],
) -> _Model:
    by_sample: dict[str, list[Counts]] = defaultdict(list)
    for sample_id, counts in questions:
        if counts:
            by_sample[sample_id].append(counts)
    sums: list[Counts] = [
        tuple(map(sum, zip(*by_sample[name], strict=True))) for name in scored.samples
    ]
    unscored = sum(not counts for _, counts in questions)
    return _Model(sums, compute, [seconds.get(name, 0.0) for name in scored.samples], unscored)


def _times(run: ScoredRun) -> Times:
    """Seconds per sample, including answers reused from other presentations; requests where a run recorded no times."""
    seconds: Times = defaultdict(lambda: defaultdict(float))
    requests: Times = defaultdict(lambda: defaultdict(float))
    for exchange in read_exchanges(run.folder):
        request = exchange.request
        seconds[request.benchmark, exchange.protocol][request.sample_id] += (
            exchange.response.seconds or 0.0
        )
        requests[request.benchmark, exchange.protocol][request.sample_id] += 1.0
    return {key: seconds[key] if any(seconds[key].values()) else requests[key] for key in requests}


def _stability(
    series: Series, models: Sequence[_Model], ratio: float, draws: Sequence[Sequence[int]]
) -> SampleStability:
    *_, metric = series
    unit = 100 if declared(metric).unit == SHARE else 1
    everything = range(len(models[0].counts))
    full_scores = [_scaled(model.score(everything), unit) or 0.0 for model in models]
    by_draw = [[_scaled(model.score(places), unit) for model in models] for places in draws]
    return SampleStability(
        *series,
        ratio,
        len(draws[0]),
        len(models),
        len(draws),
        *against_whole(by_draw, full_scores),
        _mean(_share(model.seconds, places) for model in models for places in draws),
        sum(model.unscored for model in models),
    )


def against_whole(
    by_draw: Sequence[Sequence[float | None]], full_scores: Sequence[float | None]
) -> tuple[float | None, float | None, float | None, float | None]:
    """`rho`, `rank_rho`, `deviation` and `variance`, as in SampleStability, of scores in each draw and in full."""
    pairs = [_valued_pairs(scores, full_scores) for scores in by_draw]
    by_model = [
        [score for score in scores if score is not None] for scores in zip(*by_draw, strict=True)
    ]
    return (
        _mean(pearson(drawn_scores, in_full) for drawn_scores, in_full in pairs),
        _mean(
            pearson(fractional_ranks(drawn_scores), fractional_ranks(in_full))
            for drawn_scores, in_full in pairs
        ),
        _mean(
            abs(a - b)
            for drawn_scores, in_full in pairs
            for a, b in zip(drawn_scores, in_full, strict=True)
        ),
        _mean(variance(scores) for scores in by_model if len(scores) > 1),
    )


def _scaled(score: float | None, unit: int) -> float | None:
    return None if score is None else unit * score


def _valued_pairs(
    scores: Sequence[float | None], full_scores: Sequence[float | None]
) -> tuple[list[float], list[float]]:
    """Sample and full scores of the models that have both: in a small sample all replies of a model may be unparsed."""
    valued = [
        (drawn_score, full_score)
        for drawn_score, full_score in zip(scores, full_scores, strict=True)
        if drawn_score is not None and full_score is not None
    ]
    return [drawn_score for drawn_score, _ in valued], [full_score for _, full_score in valued]


def _share(seconds: Sequence[float], places: Iterable[int]) -> float | None:
    total = math.fsum(seconds)
    return math.fsum(seconds[place] for place in places) / total if total else None


def _mean(values: Iterable[float | None]) -> float | None:
    valued = [value for value in values if value is not None]
    return fmean(valued) if valued else None


def _means(rows: Sequence[SampleStability]) -> Iterator[SampleStability]:
    """The unweighted mean of each quantity over benchmarks, by protocol, method, metric and ratio."""
    groups: dict[tuple[str, Method, str, float], list[SampleStability]] = defaultdict(list)
    for row in rows:
        groups[row.protocol, row.method, row.metric, row.ratio].append(row)
    for (protocol, method, metric, ratio), members in groups.items():
        yield SampleStability(
            ALL,
            protocol,
            method,
            metric,
            ratio,
            samples=sum(member.samples for member in members),
            models=min(member.models for member in members),
            draws=members[0].draws,
            rho=_mean(member.rho for member in members),
            rank_rho=_mean(member.rank_rho for member in members),
            deviation=_mean(member.deviation for member in members),
            variance=_mean(member.variance for member in members),
            time=_mean(member.time for member in members),
            unscored=sum(member.unscored for member in members),
        )
