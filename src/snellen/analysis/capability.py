"""One number for a dimension: the mean of its benchmarks' headline metrics on one scale (ReForm-Eval, Table 1).

Accuracies are never averaged with CIDErs: where the declared scales differ there is no mean, and the result says so.
Models are then compared over all dimensions by their average rank (`snellen.analysis.ranks`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from snellen.analysis.statistics import mean_of_estimates
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
"""Its unit and direction are those of the metrics it averages; each result states them."""
ALL = "*"
"""The benchmark or dimension of a row that is a mean over all of them."""


def headline_metric(spec: BenchmarkSpec) -> str:
    """The metric that stands for a benchmark: accuracy where there are options, else its first text metric."""
    return "accuracy" if spec.formulation != "text" else first_text_metric(spec)


def headlines_of(scored: ScoredBenchmark) -> list[str]:
    """The row that the entry names, then the one above; what the suite's paper prints, if scored as published."""
    spec, rules = scored.spec, scored.published
    published = rules.headline if rules and spec.formulation == "choice" else ""
    own = rules.instead.get(spec.headline, spec.headline) if rules else spec.headline
    return [name for name in (own, published or headline_metric(spec)) if name]


def first_text_metric(spec: BenchmarkSpec) -> str:
    """The first metric of a benchmark's open questions."""
    return rows_of((spec.metrics or DEFAULT_TEXT_METRICS)[0])[0]


def protocol_preference(protocol: str) -> tuple[bool, int, bool, str]:
    """Sort key of protocols: the one whose number stands for a model comes first.

    That is one that shows the pictures, asks no other model, and whose accuracy rests on the most presentations of a
    question; of equals, the one that asks no circular passes.
    """
    declared = labelled_declaration(protocol)
    return not declared.sees_images or bool(declared.roles), -declared.n_unbiased, declared.circular, protocol


class _MeanTerm(Struct, frozen=True):
    """One estimate that goes into a mean, and what its metric declares."""

    estimate: Estimate
    metric: MetricRow


def capability_rows(run: ScoredRun, rows: Sequence[Result]) -> Iterator[Result]:
    """Means over the benchmarks of each dimension, and over the dimensions, by method; benchmarks count equally.

    The overall value is the mean of the dimensions' values (ReForm-Eval, section 4.2). Each benchmark enters with its
    preferred protocol, so these rows name the method in place of a protocol.
    """
    headlines = {scored.spec.name: headlines_of(scored) for scored in run.benchmarks if scored.spec.dimension}
    headline_rows: dict[Method, dict[str, Result]] = defaultdict(dict)
    standing = [row for row in rows if row.metric in headlines.get(row.benchmark, ()) and not row.slice]
    for row in sorted(
        standing, key=lambda row: (headlines[row.benchmark].index(row.metric), protocol_preference(row.protocol))
    ):
        if row.estimate.value is not None:
            headline_rows[row.method].setdefault(row.benchmark, row)
    for method, by_benchmark in headline_rows.items():
        terms_by_dimension: dict[str, list[_MeanTerm]] = defaultdict(list)
        for row in by_benchmark.values():
            terms_by_dimension[row.dimension].append(_MeanTerm(row.estimate, declared(row.metric)))
        for dimension, terms in terms_by_dimension.items():
            yield _mean(run.manifest.model, method, dimension, terms)
        means = [
            _MeanTerm(_mean_estimate(terms), terms[0].metric)
            for terms in terms_by_dimension.values()
            if not _why_no_mean(terms)
        ]
        everything = [term for terms in terms_by_dimension.values() for term in terms]
        overall = means if not _why_no_mean(everything) else everything
        row = _mean(run.manifest.model, method, ALL, overall)
        yield _summed(row, len(means)) if overall is means and _prints_sum(run) else row


def _prints_sum(run: ScoredRun) -> bool:
    """Whether the run is scored as published by suites that all print the sum over dimensions."""
    return all(scored.published is not None and scored.published.overall == "sum" for scored in run.benchmarks)


def _summed(row: Result, dimensions: int) -> Result:
    numbers = (row.estimate.value, row.estimate.stderr, row.estimate.low, row.estimate.high)
    value, stderr, low, high = (None if number is None else dimensions * number for number in numbers)
    summed = replace(row.estimate, value=value, stderr=stderr, low=low, high=high)
    return replace(row, estimate=summed, detail=f"sum over {dimensions} dimensions")


def _mean(model: str, method: Method, dimension: str, terms: Sequence[_MeanTerm]) -> Result:
    reason = _why_no_mean(terms)
    metric = MetricRow(name=CAPABILITY) if reason else terms[0].metric
    return Result(
        model, ALL, method, method, CAPABILITY, _no_mean(terms) if reason else _mean_estimate(terms), dimension,
        unit=metric.unit, better=metric.better, reason=reason, detail=_metric_names(terms) if reason else "",
    )  # fmt: skip


def _why_no_mean(terms: Sequence[_MeanTerm]) -> Reason | None:
    """Why these numbers have no mean, or None if they have one. A single number is its own mean."""
    if len(terms) == 1:
        return None
    if len({(term.metric.scale, term.metric.better) for term in terms}) > 1:
        return "scales differ"
    return None if terms[0].metric.scale else "no scale"


def _metric_names(terms: Sequence[_MeanTerm]) -> str:
    return ", ".join(dict.fromkeys(term.metric.display_name for term in terms))


def _no_mean(terms: Sequence[_MeanTerm]) -> Estimate:
    estimates = [term.estimate for term in terms]
    n, unscored, errors = (
        sum(getattr(estimate, count) for estimate in estimates) for count in ("n", "unscored", "errors")
    )
    return Estimate(None, None, None, None, n, unscored, errors)


def _mean_estimate(terms: Sequence[_MeanTerm]) -> Estimate:
    return bounded_mean([term.estimate for term in terms], terms[0].metric)


def bounded_mean(estimates: Sequence[Estimate], metric: MetricRow) -> Estimate:
    """The unweighted mean of estimates on one scale, its interval cut to the metric's bounds."""
    mean = mean_of_estimates(estimates)
    return replace(mean, low=metric.bounded(mean.low), high=metric.bounded(mean.high))
