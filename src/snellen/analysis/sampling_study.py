"""How far a part of a benchmark tells what the whole would (ReForm-Eval E.1, Tables 29 and 30).

For each ratio, parts of a benchmark are drawn again and again, and every model's score on the part is set
against its score on the whole.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from statistics import StatisticsError, correlation, fmean, variance

from msgspec import Struct

from snellen.analysis.capability import ALL, text_headline
from snellen.errors import DataError
from snellen.metrics.corpus import CorpusCountMetric, Counts, corpus_count_metric
from snellen.metrics.declaration import SHARE, declared
from snellen.records import Method
from snellen.reformulation.sampling import Rule, Sampling, draw_sample
from snellen.runs.journal import read_exchanges
from snellen.scoring.resampling import stratum_of
from snellen.scoring.scored_run import ScoredBenchmark, ScoredRun

RATIOS = (0.01, 0.02, 0.1, 0.2)
"""Those of the paper's tables."""


class SamplingPlan(Struct, frozen=True):
    """What is drawn, and how often."""

    ratios: tuple[float, ...] = RATIOS
    draws: int = 10
    rule: Rule = "balanced"
    by: str = ""
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
    """In each part; of a mean, in all."""
    models: int
    draws: int
    rho: float | None
    """Pearson's correlation of the models' scores on part and whole, mean over draws; None below two models."""
    rank_rho: float | None
    """Spearman's."""
    deviation: float | None
    """Mean absolute deviation of a model's score on the part from that on the whole, in points."""
    variance: float | None
    """Variance of a model's score over the draws (n - 1), mean over models, in squared points."""
    time: float | None
    """Share of the models' time that the part takes; of their requests where no times were noted."""
    unscored: int = 0
    """Questions of the whole that a model has no value for, over all models."""


class _Model(Struct, frozen=True):
    """One run on one benchmark under one protocol: what was counted by sample, in the benchmark's order."""

    counts: list[Counts]
    """Of a mean the sum of its values and their number; empty where nothing is known."""
    of: Callable[[Counts], float | None]
    """The score that follows from summed counts."""
    seconds: list[float]
    unscored: int

    def score(self, places: Iterable[int]) -> float | None:
        known = [counts for place in places if (counts := self.counts[place])]
        return self.of(tuple(map(sum, zip(*known, strict=True)))) if known else None


Series = tuple[str, str, Method, str]
"""Benchmark, protocol, method, metric."""
Times = dict[tuple[str, str], dict[str, float]]
"""Benchmark and protocol -> sample -> seconds."""


def sampling_study(runs: Sequence[ScoredRun], plan: SamplingPlan) -> list[SampleStability]:
    """Stability by benchmark, protocol and ratio, and its mean over benchmarks.

    All runs of a benchmark must have asked the same samples of the same version. Parts are drawn by
    `Sampling(plan.rule, ratio)`, seeded by benchmark, ratio, draw and plan.seed: the same for all models.
    Raises DataError for runs that do not fit together, or that have no value of the metric.
    """
    if plan.draws < 2:
        raise DataError(f"a variance needs two draws or more, not {plan.draws}")
    wholes = _wholes(runs)
    timed = [(run, _times(run)) for run in runs]
    rows = []
    for name, (first, *_) in wholes.items():
        strata = [stratum_of(sample, first.answers, plan.by) for sample in first.samples.values()]
        parts = {ratio: list(_parts(strata, name, ratio, plan)) for ratio in plan.ratios}
        for series, models in _series(timed, name, plan.metric).items():
            rows += [_stability(series, models, ratio, drawn) for ratio, drawn in parts.items()]
    if not rows:
        raise DataError(f"no run has a value of {plan.metric or 'its headline metric'} on any benchmark")
    return [*rows, *_means(rows)]


def _parts(strata: Sequence[str], name: str, ratio: float, plan: SamplingPlan) -> Iterator[list[int]]:
    for draw in range(plan.draws):
        yield draw_sample(strata, Sampling(plan.rule, ratio=ratio), name, f"study {ratio} {draw}", plan.seed)


def _wholes(runs: Sequence[ScoredRun]) -> dict[str, list[ScoredBenchmark]]:
    """The benchmarks of the runs by name. Raises DataError when two runs asked different samples of one."""
    found: dict[str, list[ScoredBenchmark]] = defaultdict(list)
    asked: dict[str, tuple[ScoredRun, str]] = {}
    for run in runs:
        for use, scored in zip(run.manifest.benchmarks, run.benchmarks, strict=True):
            other, version = asked.setdefault(use.name, (run, use.version))
            if version != use.version or (
                found[use.name] and found[use.name][0].samples.keys() != scored.samples.keys()
            ):
                raise DataError(
                    f"{other.folder} and {run.folder} asked different samples of {use.name}; run both on the same "
                    "version, with the same --where and --limit"
                )
            found[use.name].append(scored)
    return found


def _series(runs: Sequence[tuple[ScoredRun, Times]], name: str, metric: str) -> dict[Series, list[_Model]]:
    series: dict[Series, list[_Model]] = defaultdict(list)
    for run, times in runs:
        for scored in (one for one in run.benchmarks if one.spec.name == name):
            headline = text_headline(scored.spec)
            for (protocol, method, row), parts in _counted(scored).items():
                if row in ((metric,) if metric else ("accuracy", headline)) and any(part.counts for part in parts):
                    model = _model(scored, parts, times.get((name, protocol), {}))
                    series[name, protocol, method, row].append(model)
    return series


class _Part(Struct, frozen=True):
    """What was counted on one question, for one row of results."""

    sample_id: str
    counts: Counts
    of: Callable[[Counts], float | None]


def _counted(scored: ScoredBenchmark) -> dict[tuple[str, Method, str], list[_Part]]:
    """By protocol, method and row: of metrics that are means their values, of the others what they pool."""
    found: dict[tuple[str, Method, str], list[_Part]] = defaultdict(list)
    for tally in scored.tallies:
        pooled = corpus_count_metric(tally.metric)
        for place, row in enumerate(pooled.names):
            of = partial(_pooled_row, pooled, place)
            found[tally.protocol, tally.method, row].append(_Part(tally.sample_id, tally.counts, of))
    whole = set(found)
    for score in scored.scores:
        if (where := (score.protocol, score.method, score.metric)) not in whole:
            counts = () if score.value is None else (score.value, 1.0)
            found[where].append(_Part(score.sample_id, counts, _mean_of))
    return found


def _mean_of(sums: Counts) -> float:
    return sums[0] / sums[1]


def _pooled_row(pooled: CorpusCountMetric, place: int, sums: Counts) -> float | None:
    return pooled.of(sums)[place]


def _model(scored: ScoredBenchmark, parts: Sequence[_Part], seconds: dict[str, float]) -> _Model:
    by_sample: dict[str, list[Counts]] = defaultdict(list)
    for part in parts:
        if part.counts:
            by_sample[part.sample_id].append(part.counts)
    counts: list[Counts] = [tuple(map(sum, zip(*by_sample[name], strict=True))) for name in scored.samples]
    lost = sum(not part.counts for part in parts)
    return _Model(counts, parts[0].of, [seconds.get(name, 0.0) for name in scored.samples], lost)


def _times(run: ScoredRun) -> Times:
    """Seconds by sample, answers taken over from other presentations included; where a run noted no times, requests."""
    taken: Times = defaultdict(lambda: defaultdict(float))
    asked: Times = defaultdict(lambda: defaultdict(float))
    for exchange in read_exchanges(run.folder):
        request = exchange.request
        taken[request.benchmark, exchange.protocol][request.sample_id] += exchange.response.seconds or 0.0
        asked[request.benchmark, exchange.protocol][request.sample_id] += 1.0
    return {where: taken[where] if any(taken[where].values()) else asked[where] for where in asked}


def _stability(
    series: Series, models: Sequence[_Model], ratio: float, drawn: Sequence[Sequence[int]]
) -> SampleStability:
    *_, metric = series
    unit = 100 if declared(metric).unit == SHARE else 1
    everything = range(len(models[0].counts))
    whole = [_scaled(model.score(everything), unit) or 0.0 for model in models]
    by_draw = [[_scaled(model.score(places), unit) for model in models] for places in drawn]
    pairs = [_known(scores, whole) for scores in by_draw]
    by_model = [[score for score in scores if score is not None] for scores in zip(*by_draw, strict=True)]
    return SampleStability(
        *series,
        ratio,
        len(drawn[0]),
        len(models),
        len(drawn),
        _mean(_pearson(part, full) for part, full in pairs),
        _mean(_pearson(_ranks(part), _ranks(full)) for part, full in pairs),
        _mean(abs(a - b) for part, full in pairs for a, b in zip(part, full, strict=True)),
        _mean(variance(scores) for scores in by_model if len(scores) > 1),
        _mean(_share(model.seconds, places) for model in models for places in drawn),
        sum(model.unscored for model in models),
    )


def _scaled(score: float | None, unit: int) -> float | None:
    return None if score is None else unit * score


def _known(scores: Sequence[float | None], whole: Sequence[float]) -> tuple[list[float], list[float]]:
    """Scores on part and whole of the models that have both; in a small part all of a model's may be unparsed."""
    known = [(part, full) for part, full in zip(scores, whole, strict=True) if part is not None]
    return [part for part, _ in known], [full for _, full in known]


def _share(seconds: Sequence[float], places: Iterable[int]) -> float | None:
    total = math.fsum(seconds)
    return math.fsum(seconds[place] for place in places) / total if total else None


def _pearson(one: Sequence[float], other: Sequence[float]) -> float | None:
    """None below two models, or when all have one score."""
    try:
        return correlation(one, other)
    except StatisticsError:
        return None


def _ranks(scores: Sequence[float]) -> list[float]:
    """Ranks from 1; equal scores share the mean of theirs."""
    return [sum(other < score for other in scores) + (scores.count(score) + 1) / 2 for score in scores]


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return fmean(known) if known else None


def _means(rows: Sequence[SampleStability]) -> Iterator[SampleStability]:
    """Each quantity's unweighted mean over benchmarks, by protocol, metric and ratio."""
    groups: dict[tuple[str, Method, str, float], list[SampleStability]] = defaultdict(list)
    for row in rows:
        groups[row.protocol, row.method, row.metric, row.ratio].append(row)
    for (protocol, method, metric, ratio), parts in groups.items():
        yield SampleStability(
            ALL, protocol, method, metric, ratio,
            samples=sum(part.samples for part in parts),
            models=min(part.models for part in parts),
            draws=parts[0].draws,
            rho=_mean(part.rho for part in parts),
            rank_rho=_mean(part.rank_rho for part in parts),
            deviation=_mean(part.deviation for part in parts),
            variance=_mean(part.variance for part in parts),
            time=_mean(part.time for part in parts),
            unscored=sum(part.unscored for part in parts),
        )  # fmt: skip
