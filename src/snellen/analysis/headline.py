"""The headline of a benchmark, and what counts alike in the mean of several.

Every number that stands for a benchmark, and every number that stands for a run, is found by this module: the first
sentence of a report, its first table, its charts, comparisons, exports and the leaderboard.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from snellen.analysis.combined_estimates import mean_of_estimates
from snellen.catalogue import BenchmarkSpec, aggregation_of
from snellen.metrics.declaration import (
    DEFAULT_TEXT_METRICS,
    Metric,
    MetricRow,
    declared_row,
    find_metric,
    metric_of,
)
from snellen.protocols.base import labelled_declaration
from snellen.reasons import Reason
from snellen.records import Estimate, MeanOver, Method, Result
from snellen.scoring.grouped import OVERALL_ACCURACY
from snellen.scoring.published_means import (
    PUBLISHED_MEAN,
    QUESTION_SCORE,
    headline_rule,
    published_chance,
)
from snellen.scoring.scored_run import ScoredBenchmark, ScoredRun

HEADLINE = "headline"
"""Name of the row with the number of a run."""
HEADLINE_METRIC = Metric(
    description="the one number of a run: the mean of the headlines of its benchmarks, if these share a scale",
    rows=(MetricRow(name=HEADLINE),),
)
"""Its unit and direction are those of the metrics it averages; each result states them."""
WORD_OVERLAP = "rouge_l"
"""The row of long texts, which only a judge can compare: it counts the words in common."""
JUDGED = "judged_correct"
OVERALL = "*"
"""The benchmark or dimension of a row that is a mean over all of them."""


# --- one benchmark ---------------------------------------------------------------------------------------------------


def headline_metric(spec: BenchmarkSpec) -> str:
    """Return the headline row of a benchmark whose entry names none and whose questions are all of one kind.

    Examples:
        >>> from snellen.plugin_api import entries
        >>> headline_metric(entries()["eyechart/colour"])
        'accuracy'
    """
    return "accuracy" if spec.formulation != "text" else first_text_metric(spec)


def headline_metrics(scored: ScoredBenchmark) -> list[str]:
    """Return the rows that can stand for a benchmark, the best one first.

    1. The published mean that the entry declares (`mean_over`, `mean_of`).
    2. The row that the entry names (`headline`).
    3. If some questions have options and others are open: the mean over both kinds.
    4. What a judge says of open questions, if a judged metric was asked for.
    5. Accuracy, or the first metric of open questions.

    A run scored as published has the rows of its suite's paper in their place.

    Examples:
        >>> results = sn.evaluate("snellen:oracle", "eyechart/colour", limit=4, report=False)
        >>> headline_metrics(results.runs[0].benchmarks[0])
        ['question_score', 'accuracy']
    """
    spec = scored.spec
    rules = scored.published
    if rules is not None and not rules.by_entry:
        published = rules.headline if spec.formulation == "choice" else ""
        declared_row = rules.instead.get(spec.headline, spec.headline)
        names = [declared_row, published or headline_metric(spec)]
    else:
        names = [PUBLISHED_MEAN] if spec.mean_over or spec.mean_of else []
        names += [spec.headline, QUESTION_SCORE]
        names += _requested_judged_rows(scored)
        if headline_metric(spec) == WORD_OVERLAP:
            names.append(JUDGED)
        names.append(headline_metric(spec))
    return [name for name in dict.fromkeys(names) if name]


def _requested_judged_rows(scored: ScoredBenchmark) -> list[str]:
    """Return the rows of judged metrics that a scoring of open questions was asked for, besides those of the entry."""
    spec = scored.spec
    if spec.formulation != "text":
        return []
    names_of_entry = {row for name in spec.metrics for row in find_metric(name).names}
    requested: dict[str, None] = {}
    for _, _, row in scored.score_rows:
        metric = metric_of(row)
        is_judged = metric is not None and metric.computed_over == "judge"
        if metric is not None and is_judged and row in metric.names and row not in names_of_entry:
            requested[metric.names[0]] = None
    return list(requested)


def leading_headline(scored: ScoredBenchmark) -> str:
    """Return the first row of `headline_metrics` that the benchmark was scored by."""
    measured = {metric for _, _, metric in scored.score_rows}
    for tally in scored.tallies:
        measured.update(find_metric(tally.metric).names)
    names = headline_metrics(scored)
    return next((name for name in names if name in measured), names[-1])


def headline_chance(scored: ScoredBenchmark, metric: str) -> float | None:
    """Return what guessing scores in a headline row; None if no question has options, or if the row has no such level.

    Guessing is never right on an open question, unless it is answered with yes or no.
    """
    if metric == "pope_accuracy":
        return 0.5
    if scored.chance_accuracy is None:
        return None
    if metric == "accuracy":
        return scored.chance_accuracy
    if metric in (QUESTION_SCORE, OVERALL_ACCURACY.names[0]):
        questions = sum(len(sample.rounds) for sample in scored.samples.values())
        return scored.chance_accuracy * scored.n_with_options / questions
    if metric == PUBLISHED_MEAN:
        rule = headline_rule(scored.spec, scored.samples.values())
        return published_chance(rule, scored.samples.values())
    return None


def first_text_metric(spec: BenchmarkSpec) -> str:
    """Return the first row of the metrics of a benchmark's open questions.

    Examples:
        >>> from snellen.plugin_api import entries
        >>> first_text_metric(entries()["eyechart/colour"])
        'exact_match'
    """
    return find_metric((spec.metrics or DEFAULT_TEXT_METRICS)[0]).names[0]


def protocol_preference(protocol: str) -> tuple[bool, int, bool, str]:
    """Return a sort key of protocols: the one whose number is the model's headline comes first.

    That is one that shows the images, uses no other model, and whose accuracy rests on the most presentations of a
    question; of equals, the one without circular passes.

    Examples:
        >>> protocol_preference("vanilla") < protocol_preference("blind")
        True
    """
    declaration = labelled_declaration(protocol)
    return (
        not declaration.stands_for_model or bool(declaration.roles),
        -declaration.n_unbiased,
        declaration.circular,
        protocol,
    )


def headline_rows(run: ScoredRun, rows: Sequence[Result]) -> dict[Method, list[Result]]:
    """Return the rows that stand for the benchmarks of a run, one for each benchmark with a value, by method.

    Examples:
        >>> from snellen.plugin_api import aggregate_run, score_run
        >>> results = sn.evaluate("snellen:oracle", "eyechart/colour", limit=4, report=False)
        >>> run = score_run(results.runs[0].folder, sn.ScoringSpec())
        >>> [row.metric for row in headline_rows(run, aggregate_run(run))["generation"]]
        ['accuracy']
    """
    headlines = {scored.spec.name: headline_metrics(scored) for scored in run.benchmarks}
    candidates = [
        row for row in rows if row.metric in headlines.get(row.benchmark, ()) and not row.slice
    ]

    def preference(row: Result) -> tuple[int, tuple[bool, int, bool, str]]:
        return headlines[row.benchmark].index(row.metric), protocol_preference(row.protocol)

    best: dict[tuple[Method, str], Result] = {}
    for row in sorted(candidates, key=preference):
        if row.estimate.value is not None:
            best.setdefault((row.method, row.benchmark), row)

    by_method: dict[Method, list[Result]] = defaultdict(list)
    methods: dict[Method, None] = dict.fromkeys(row.method for row in rows)
    for method in methods:
        for scored in run.benchmarks:
            row = best.get((method, scored.spec.name))
            if row is not None:
                by_method[method].append(row)
    return dict(by_method)


# --- several benchmarks ----------------------------------------------------------------------------------------------


def aggregation_unit(specs: Iterable[BenchmarkSpec]) -> MeanOver:
    """Return what has equal weight in a mean: what all suites concerned declare, or else benchmarks."""
    rules = {aggregation_of(spec) for spec in specs}
    units: set[MeanOver] = {"questions" if rule.counts_questions else rule.over for rule in rules}
    return units.pop() if len(units) == 1 else "benchmarks"


def benchmark_weights(
    specs: Sequence[BenchmarkSpec], metrics: Sequence[str], sizes: Sequence[int]
) -> list[float]:
    """Return the weight of each benchmark in a mean over them; the weights add up to 1.

    Args:
        specs: The benchmarks.
        metrics: The row that stands for each benchmark.
        sizes: The number of questions of each benchmark.
    """
    unit = aggregation_unit(specs)
    if unit == "questions" and len(set(metrics)) == 1 and sum(sizes):
        return [size / sum(sizes) for size in sizes]
    if unit == "dimensions":
        n_by_dimension: dict[str, int] = defaultdict(int)
        for spec in specs:
            n_by_dimension[spec.dimension] += 1
        return [1 / (len(n_by_dimension) * n_by_dimension[spec.dimension]) for spec in specs]
    return [1 / len(specs)] * len(specs)


def why_no_mean(rows: Sequence[Result]) -> Reason | None:
    """Return why numbers have no mean, or None if they have one. A single number is its own mean."""
    if len(rows) == 1:
        return None
    metrics = [declared_row(row.metric) for row in rows]
    if len({(metric.scale, metric.better) for metric in metrics}) > 1:
        return "scales differ"
    return None if metrics[0].scale else "no scale"


def bounded_mean(estimates: Sequence[Estimate], metric: MetricRow) -> Estimate:
    """Return the unweighted mean of estimates on one scale, its interval cut to the metric's bounds."""
    mean = mean_of_estimates(estimates)
    return replace(mean, low=metric.bounded(mean.low), high=metric.bounded(mean.high))
