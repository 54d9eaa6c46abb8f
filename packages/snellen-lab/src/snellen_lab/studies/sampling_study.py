"""Study of how well scores on a sample of a benchmark predict those on the full benchmark.

ReForm-Eval, appendix E.1, Tables 29 and 30.

For each ratio, samples are drawn repeatedly, and every model's score on the sample is compared with its score on the
full benchmark.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from statistics import fmean, variance
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from snellen import DataError
from snellen.plugin_api import (
    OVERALL,
    SHARE,
    Method,
    Sampling,
    SamplingRule,
    ScoredBenchmark,
    ScoredRun,
    SummedMetric,
    declared_row,
    find_metric,
    first_text_metric,
    fractional_ranks,
    read_exchanges,
    stratum_of,
)
from snellen_lab.rank_correlation import pearson

RATIOS = (0.01, 0.02, 0.1, 0.2)
"""The ratios in the paper's tables."""


class SamplingPlan(Struct, frozen=True):
    """Ratios, rule and number of the samples to draw."""

    ratios: tuple[float, ...] = RATIOS
    draws: int = 10
    rule: SamplingRule = "balanced"
    stratify_by: str = ""
    """Tag by which samples are balanced; the answer if empty."""
    seed: int = 0
    metric: str = ""
    """Metric to study; the benchmark's headline metric if empty."""


class SampleStability(Struct, frozen=True, omit_defaults=True):
    """How well samples of one size predict the scores on a benchmark, or on all (`*`, the mean).

    Shares are in percent, as in the paper.
    """

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
    """`SampleComparison.rho`."""
    rank_rho: float | None
    deviation: float | None
    """In points."""
    variance: float | None
    """In squared points."""
    time: float | None
    """Share of the models' time that the sample takes; of their requests if no times were recorded."""
    unscored: int = 0
    """Questions of the full benchmark without a value, summed over all models."""


class SampleComparison(NamedTuple):
    """How scores on samples compare with those on the full benchmark."""

    rho: float | None
    """Pearson's correlation over models of sample and full scores, mean over draws; None for fewer than two models."""
    rank_rho: float | None
    """Spearman's rank correlation of the same."""
    deviation: float | None
    """Mean absolute deviation of a model's score on the sample from its full score."""
    variance: float | None
    """Variance of a model's score over the draws (divisor n - 1), mean over models."""


Counts = tuple[float, ...]
"""Numbers that a metric counts on a sample; those of several samples are added."""
Compute = Callable[[Counts], float | None]
"""Function from summed counts to a score."""
SeriesKey = tuple[str, str, Method, str]
"""Benchmark, protocol, method, metric."""
SampleSeconds = Mapping[str, float]
Times = Mapping[tuple[str, str], SampleSeconds]
"""Seconds of each sample, by benchmark and protocol."""


class _ModelCounts(Struct, frozen=True):
    """What a metric counted on each sample of a benchmark.

    The score on any part of the benchmark can be computed from these counts.
    """

    counts: list[Counts]
    """Counts of each sample in the benchmark's order; empty for a sample without a value."""
    compute: Compute
    seconds: list[float]
    unscored: int

    def score(self, indexes: Iterable[int]) -> float | None:
        """Return the score on the samples with these indexes; None if none of them has a value."""
        counts = [self.counts[index] for index in indexes if self.counts[index]]
        if not counts:
            return None
        return self.compute(_summed(counts))


def _summed(counts: Sequence[Counts]) -> Counts:
    """Add up counts element by element: [(1, 2), (3, 4)] becomes (4, 6)."""
    return tuple(sum(column) for column in zip(*counts, strict=True))


def sampling_study(runs: Sequence[ScoredRun], plan: SamplingPlan) -> list[SampleStability]:
    """Compare samples with the full benchmark, by benchmark, protocol and ratio, and in the mean over benchmarks.

    All runs of a benchmark must have the same samples of the same version. Samples are drawn by
    `Sampling(plan.rule, ratio)`, seeded by benchmark, ratio, draw and plan.seed: the same for all models.

    Raises:
        DataError: Runs cannot be compared, or no run has a value of the metric.
    """
    if plan.draws < 2:
        raise DataError(f"a variance needs two draws or more, not {plan.draws}")
    benchmarks = _benchmarks_by_name(runs)
    times = [_times(run) for run in runs]
    rows: list[SampleStability] = []
    for name, scored_benchmarks in benchmarks.items():
        first = scored_benchmarks[0]
        strata = [
            stratum_of(sample, first.answers, plan.stratify_by) for sample in first.samples.values()
        ]
        draws_by_ratio: dict[float, list[list[int]]] = {}
        for ratio in plan.ratios:
            draws_by_ratio[ratio] = []
            for draw in range(plan.draws):
                sampling = Sampling(plan.rule, ratio=ratio)
                purpose = f"study {ratio} {draw}"
                sample = sampling.draw(strata, name, purpose, plan.seed)
                draws_by_ratio[ratio].append(sample)
        for key, models in _models_by_series(runs, times, name, plan.metric).items():
            for ratio, draws in draws_by_ratio.items():
                rows.append(_stability(key, models, ratio, draws))
    if not rows:
        raise DataError(
            f"no run has a value of {plan.metric or 'its headline metric'} on any benchmark"
        )
    return [*rows, *_benchmark_means(rows)]


def _benchmarks_by_name(runs: Sequence[ScoredRun]) -> dict[str, list[ScoredBenchmark]]:
    """Return the scored benchmarks by name. Raises DataError if two runs have different samples of one."""
    benchmarks: dict[str, list[ScoredBenchmark]] = defaultdict(list)
    first_runs: dict[str, tuple[ScoredRun, str]] = {}
    for run in runs:
        for use, scored in zip(run.manifest.benchmarks, run.benchmarks, strict=True):
            first_run, version = first_runs.setdefault(use.name, (run, use.version))
            earlier = benchmarks[use.name]
            has_other_samples = bool(earlier) and earlier[0].samples.keys() != scored.samples.keys()
            if version != use.version or has_other_samples:
                raise DataError(
                    f"{first_run.folder} and {run.folder} asked different samples of {use.name}; run both on the same "
                    "version, with the same questions (`where`, `limit`)"
                )
            earlier.append(scored)
    return benchmarks


def _times(run: ScoredRun) -> Times:
    """Return the seconds that the requests of each sample took, by benchmark and protocol.

    A reply that was reused from another presentation counts with the time that it took there. If a
    run recorded no times, each request counts as one second.
    """
    seconds: dict[tuple[str, str], dict[str, float]] = defaultdict(lambda: defaultdict(float))
    requests: dict[tuple[str, str], dict[str, float]] = defaultdict(lambda: defaultdict(float))
    for exchange in read_exchanges(run.folder):
        key = (exchange.request.benchmark, exchange.protocol)
        sample = exchange.request.sample_id
        seconds[key][sample] += exchange.response.seconds or 0.0
        requests[key][sample] += 1.0

    times = {}
    for key, requests_of_samples in requests.items():
        has_times = any(seconds[key].values())
        times[key] = seconds[key] if has_times else requests_of_samples
    return times


def _models_by_series(
    runs: Sequence[ScoredRun], times: Sequence[Times], name: str, metric: str
) -> dict[SeriesKey, list[_ModelCounts]]:
    """Return the counts of each run on a benchmark, by benchmark, protocol, method and metric.

    Args:
        runs: The runs, one per model.
        times: For each run, the seconds of each sample.
        name: The benchmark.
        metric: The metric; if empty, accuracy and the benchmark's first metric of texts.
    """
    models_by_series: dict[SeriesKey, list[_ModelCounts]] = defaultdict(list)
    for run, run_times in zip(runs, times, strict=True):
        for scored in run.benchmarks:
            if scored.spec.name != name:
                continue
            metrics = (metric,) if metric else ("accuracy", first_text_metric(scored.spec))
            for (protocol, method, row), compute, questions in _question_counts(scored):
                has_values = any(counts for _, counts in questions)
                if row not in metrics or not has_values:
                    continue
                seconds = run_times.get((name, protocol), {})
                model_counts = _model_counts(scored, compute, questions, seconds)
                models_by_series[name, protocol, method, row].append(model_counts)
    return models_by_series


RowKey = tuple[str, Method, str]
"""Protocol, method and metric."""
QuestionCount = tuple[str, Counts]
"""The sample of a question, and its counts for a metric."""


def _question_counts(
    scored: ScoredBenchmark,
) -> Iterator[tuple[RowKey, Compute, list[QuestionCount]]]:
    """Yield the counts of all questions by protocol, method and metric, and the function from sums to the score.

    The counts of a metric that is a mean are each value with a count of 1.
    """
    tallied: dict[RowKey, list[QuestionCount]] = defaultdict(list)
    for tally in scored.tallies:
        tallied[tally.protocol, tally.method, tally.metric].append((tally.sample_id, tally.counts))

    summed_rows: set[RowKey] = set()
    for (protocol, method, metric), questions in tallied.items():
        summed = find_metric(metric)
        if not isinstance(summed, SummedMetric):
            raise TypeError(f"{metric} has counts, but is not computed from their sums")
        for index, row in enumerate(summed.names):
            key = (protocol, method, row)
            summed_rows.add(key)
            yield key, partial(_summed_score, summed, index), questions

    for key, scores in scored.score_rows.items():
        if key in summed_rows:
            continue
        questions = []
        for score in scores:
            counts: Counts = () if score.value is None else (score.value, 1.0)
            questions.append((score.sample_id, counts))
        yield key, _mean_score, questions


def _summed_score(metric: SummedMetric, index: int, sums: Counts) -> float | None:
    """Return one of the scores that a metric computes from summed counts: that of its row `index`."""
    return metric.compute(sums)[index]


def _mean_score(sums: Counts) -> float:
    """Return the mean from the sum of values and their number."""
    total, count = sums
    return total / count


def _model_counts(
    scored: ScoredBenchmark,
    compute: Compute,
    questions: Sequence[QuestionCount],
    seconds: SampleSeconds,
) -> _ModelCounts:
    """Sum the counts of the questions of each sample."""
    counts_by_sample: dict[str, list[Counts]] = defaultdict(list)
    unscored = 0
    for sample_id, counts in questions:
        if counts:
            counts_by_sample[sample_id].append(counts)
        else:
            unscored += 1
    return _ModelCounts(
        counts=[_summed(counts_by_sample[name]) for name in scored.samples],
        compute=compute,
        seconds=[seconds.get(name, 0.0) for name in scored.samples],
        unscored=unscored,
    )


def _stability(
    key: SeriesKey, models: Sequence[_ModelCounts], ratio: float, draws: Sequence[Sequence[int]]
) -> SampleStability:
    """Compare the models' scores on random samples of one size with those on the whole benchmark."""
    benchmark, protocol, method, metric = key
    scale = 100 if declared_row(metric).unit == SHARE else 1
    all_samples = range(len(models[0].counts))
    full_scores = [_scaled(model.score(all_samples), scale) or 0.0 for model in models]
    scores_by_draw = []
    for indexes in draws:
        scores_by_draw.append([_scaled(model.score(indexes), scale) for model in models])

    time_shares = []
    for model in models:
        for indexes in draws:
            time_shares.append(_share(model.seconds, indexes))

    comparison = compare_samples(scores_by_draw, full_scores)
    return SampleStability(
        benchmark=benchmark,
        protocol=protocol,
        method=method,
        metric=metric,
        ratio=ratio,
        samples=len(draws[0]),
        models=len(models),
        draws=len(draws),
        rho=comparison.rho,
        rank_rho=comparison.rank_rho,
        deviation=comparison.deviation,
        variance=comparison.variance,
        time=_mean(time_shares),
        unscored=sum(model.unscored for model in models),
    )


def _scaled(score: float | None, scale: int) -> float | None:
    """Multiply a score; None stays None."""
    return None if score is None else scale * score


def _share(seconds: Sequence[float], indexes: Iterable[int]) -> float | None:
    """Return the share of the total time that the requests of some samples took.

    None is returned if the total time is 0.
    """
    total = math.fsum(seconds)
    if not total:
        return None
    return math.fsum(seconds[index] for index in indexes) / total


def compare_samples(
    scores_by_draw: Sequence[Sequence[float | None]], full_scores: Sequence[float | None]
) -> SampleComparison:
    """Compare the scores of models on samples with those on the full benchmark.

    Args:
        scores_by_draw: For each draw, the score of each model on the sample; None if it has none.
        full_scores: The score of each model on the full benchmark; None if it has none.
    """
    correlations = []
    rank_correlations = []
    deviations = []
    for scores in scores_by_draw:
        sample_scores = []
        matching_full_scores = []
        for score, full_score in zip(scores, full_scores, strict=True):
            if score is not None and full_score is not None:
                sample_scores.append(score)
                matching_full_scores.append(full_score)
                deviations.append(abs(score - full_score))
        correlations.append(pearson(sample_scores, matching_full_scores))
        sample_ranks = fractional_ranks(sample_scores)
        full_ranks = fractional_ranks(matching_full_scores)
        rank_correlations.append(pearson(sample_ranks, full_ranks))

    variances = []
    for model_scores in zip(*scores_by_draw, strict=True):
        values = [score for score in model_scores if score is not None]
        if len(values) > 1:
            variances.append(variance(values))
    return SampleComparison(
        rho=_mean(correlations),
        rank_rho=_mean(rank_correlations),
        deviation=_mean(deviations),
        variance=_mean(variances),
    )


def _mean(values: Iterable[float | None]) -> float | None:
    """Return the mean of the values that are not None; None if there are none."""
    present = [value for value in values if value is not None]
    return fmean(present) if present else None


def _benchmark_means(rows: Sequence[SampleStability]) -> Iterator[SampleStability]:
    """Yield the mean of each number over benchmarks, for each protocol, method, metric and ratio."""
    groups: dict[tuple[str, Method, str, float], list[SampleStability]] = defaultdict(list)
    for row in rows:
        groups[row.protocol, row.method, row.metric, row.ratio].append(row)
    for members in groups.values():
        first = members[0]
        yield replace(
            first,
            benchmark=OVERALL,
            samples=sum(member.samples for member in members),
            models=min(member.models for member in members),
            rho=_mean(member.rho for member in members),
            rank_rho=_mean(member.rank_rho for member in members),
            deviation=_mean(member.deviation for member in members),
            variance=_mean(member.variance for member in members),
            time=_mean(member.time for member in members),
            unscored=sum(member.unscored for member in members),
        )
