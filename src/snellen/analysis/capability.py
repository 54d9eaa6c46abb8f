"""One number for a dimension: the mean of its benchmarks' headline metrics on one scale (ReForm-Eval, Table 1).

Accuracies are never averaged with CIDErs: where the declared scales differ there is no mean, and the result says so.
What compares models over all dimensions then is the average rank (`snellen.analysis.ranks`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from snellen.analysis.statistics import mean_of
from snellen.catalogue import BenchmarkSpec
from snellen.metrics.declaration import Metric, MetricRow, declared
from snellen.protocols.base import labelled_declaration
from snellen.reasons import Reason
from snellen.records import Estimate, Method, Result
from snellen.scoring.scored_run import ScoredBenchmark, ScoredRun
from snellen.scoring.text_scoring import DEFAULT_TEXT_METRICS, rows_of

CAPABILITY = "capability"
CAPABILITY_METRIC = Metric(
    what="one number for a dimension: the mean of its benchmarks' headline metrics, where these share a scale",
    rows=(MetricRow(name=CAPABILITY),),
)
"""Its unit and direction are those of the metrics that it is a mean of: each result names them."""
ALL = "*"
"""Benchmark or dimension of a row that is a mean over them."""


def headline_metric(spec: BenchmarkSpec) -> str:
    """The metric that stands for a benchmark: accuracy where there are options, else the first of its own."""
    return "accuracy" if spec.formulation != "text" else text_headline(spec)


def _headline(scored: ScoredBenchmark) -> str:
    """The same, or what its suite's paper prints when it was scored as published."""
    published = scored.published.headline if scored.published and scored.spec.formulation == "choice" else ""
    return published or headline_metric(scored.spec)


def text_headline(spec: BenchmarkSpec) -> str:
    """The first metric of a benchmark's open questions."""
    return rows_of((spec.metrics or DEFAULT_TEXT_METRICS)[0])[0]


def protocol_preference(protocol: str) -> tuple[bool, int, bool, str]:
    """Sorts protocols: the one whose number stands for a model comes first.

    It shows the pictures and rests its accuracy on most presentations of a question; of two alike the one that asks
    nothing besides comes first.
    """
    declared = labelled_declaration(protocol)
    return not declared.sees_images, -declared.n_unbiased, declared.circular, protocol


class _Part(Struct, frozen=True):
    """A number that goes into a mean, and what its metric declares."""

    estimate: Estimate
    metric: MetricRow


def capability_rows(run: ScoredRun, rows: Sequence[Result]) -> Iterator[Result]:
    """Means over the benchmarks of a dimension, and over the dimensions, by method; benchmarks count alike.

    The overall value is the mean of the dimensions' (ReForm-Eval, section 4.2). Each benchmark is taken by its
    preferred protocol, so the rows' protocol is the method itself.
    """
    headlines = {one.spec.name: _headline(one) for one in run.benchmarks if one.spec.dimension}
    found: dict[Method, dict[str, Result]] = defaultdict(dict)
    for row in sorted(rows, key=lambda row: protocol_preference(row.protocol)):
        if row.metric == headlines.get(row.benchmark) and not row.slice and row.estimate.value is not None:
            found[row.method].setdefault(row.benchmark, row)
    for method, chosen in found.items():
        parts: dict[str, list[_Part]] = defaultdict(list)
        for row in chosen.values():
            parts[row.dimension].append(_Part(row.estimate, declared(row.metric)))
        for dimension, some in parts.items():
            yield _mean(run.manifest.model, method, dimension, some)
        means = [_Part(_mean_estimate(some), some[0].metric) for some in parts.values() if not _why_no_mean(some)]
        everything = [part for some in parts.values() for part in some]
        overall = means if not _why_no_mean(everything) else everything
        yield _mean(run.manifest.model, method, ALL, overall)


def _mean(model: str, method: Method, dimension: str, parts: Sequence[_Part]) -> Result:
    reason = _why_no_mean(parts)
    metric = MetricRow(name=CAPABILITY) if reason else parts[0].metric
    return Result(
        model, ALL, method, method, CAPABILITY, _no_mean(parts) if reason else _mean_estimate(parts), dimension,
        unit=metric.unit, better=metric.better, reason=reason, detail=_named(parts) if reason else "",
    )  # fmt: skip


def _why_no_mean(parts: Sequence[_Part]) -> Reason | None:
    """Why these numbers have no mean; None when they have. A single number is its own mean."""
    if len(parts) == 1:
        return None
    if len({(part.metric.scale, part.metric.better) for part in parts}) > 1:
        return "scales differ"
    return None if parts[0].metric.scale else "no scale"


def _named(parts: Sequence[_Part]) -> str:
    return ", ".join(dict.fromkeys(part.metric.words for part in parts))


def _no_mean(parts: Sequence[_Part]) -> Estimate:
    estimates = [part.estimate for part in parts]
    n, unscored, errors = (sum(getattr(one, count) for one in estimates) for count in ("n", "unscored", "errors"))
    return Estimate(None, None, None, None, n, unscored, errors)


def _mean_estimate(parts: Sequence[_Part]) -> Estimate:
    return scaled_mean([part.estimate for part in parts], parts[0].metric)


def scaled_mean(estimates: Sequence[Estimate], metric: MetricRow) -> Estimate:
    """The unweighted mean of estimates of one scale, with an interval within its bounds."""
    mean = mean_of(estimates)
    return replace(mean, low=metric.bounded(mean.low), high=metric.bounded(mean.high))
