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
WORD_OVERLAP_METRIC = "rouge_l"
"""The row of long texts, which only a judge can compare: it counts the words in common."""
JUDGED_METRIC = "judged_correct"
OVERALL = "*"
"""The benchmark or dimension of a row that is a mean over all of them."""


# --- one benchmark ---------------------------------------------------------------------------------------------------


def headline_metric(spec: BenchmarkSpec) -> str:
    """Return the row that is the headline (the one number) of a benchmark whose entry names none.

    All its questions must be of one kind. For questions with options it is `accuracy`, for open questions the first
    text metric.

    Examples:
        >>> from snellen.plugin_api import entries
        >>> headline_metric(entries()["eyechart/colour"])
        'accuracy'
    """
    return "accuracy" if spec.formulation != "text" else first_text_metric(spec)


def headline_metrics(scored: ScoredBenchmark) -> list[str]:
    """Return the metrics that can serve as the one number of a benchmark, the preferred one first.

    The order of preference is:

    1. The metrics of open questions that the user asked for, without those that a judge model computes.
    2. The published mean that the benchmark's catalogue entry declares (`mean_over`, `mean_of`).
    3. The metric that the entry names (`headline`).
    4. If some questions have options and others are open: the mean over both kinds.
    5. A metric that a judge model computes on open questions, if the user asked for one.
    6. Accuracy, or the first metric of open questions.

    If the run is scored as published, the metrics of the suite's paper replace these.

    Examples:
        >>> results = sn.evaluate("snellen:oracle", "eyechart/colour", limit=4, report=False)
        >>> headline_metrics(results.runs[0].benchmarks[0])
        ['question_score', 'accuracy']
    """
    spec = scored.spec
    rules = scored.published
    names: list[str] = []
    if rules is not None and not rules.by_entry:
        published_headline = rules.headline if spec.formulation == "choice" else ""
        names.append(rules.instead.get(spec.headline, spec.headline))
        names.append(published_headline or headline_metric(spec))
    else:
        names.extend(_requested_rows(scored))
        if spec.mean_over or spec.mean_of:
            names.append(PUBLISHED_MEAN)
        names.append(spec.headline)
        names.append(QUESTION_SCORE)
        names.extend(_requested_judged_rows(scored))
        if headline_metric(spec) == WORD_OVERLAP_METRIC:
            names.append(JUDGED_METRIC)
        names.append(headline_metric(spec))

    without_duplicates = dict.fromkeys(names)
    return [name for name in without_duplicates if name]


def _requested_rows(scored: ScoredBenchmark) -> list[str]:
    """Return the first row of each metric of open questions that the user asked for and that was computed by a rule."""
    if scored.spec.formulation != "text":
        return []
    computed = {name for _, _, name in scored.score_rows}
    if scored.requested_metrics:
        for tally in scored.tallies:
            computed.update(find_metric(tally.metric).names)

    requested: list[str] = []
    for name in scored.requested_metrics:
        metric = find_metric(name)
        if metric.computed_over != "judge" and metric.names[0] in computed:
            requested.append(metric.names[0])
    return requested


def _requested_judged_rows(scored: ScoredBenchmark) -> list[str]:
    """Return the metrics of open questions that a judge model computed because the user asked for them.

    Metrics that the benchmark's own catalogue entry lists are left out. A judged metric that yields several numbers is
    represented by the first of them.
    """
    spec = scored.spec
    if spec.formulation != "text":
        return []
    names_of_entry: set[str] = set()
    for name in spec.metrics:
        names_of_entry.update(find_metric(name).names)

    requested: dict[str, None] = {}
    for _, _, name in scored.score_rows:
        metric = metric_of(name)
        if metric is None or metric.computed_over != "judge":
            continue
        if name in metric.names and name not in names_of_entry:
            requested[metric.names[0]] = None
    return list(requested)


def leading_headline(scored: ScoredBenchmark) -> str:
    """Return the preferred metric of a benchmark (see `headline_metrics`) among those that were computed."""
    computed = {metric for _, _, metric in scored.score_rows}
    for tally in scored.tallies:
        computed.update(find_metric(tally.metric).names)
    preferred = headline_metrics(scored)
    for name in preferred:
        if name in computed:
            return name
    return preferred[-1]


def headline_chance(scored: ScoredBenchmark, metric: str) -> float | None:
    """Return the expected value of a benchmark's headline metric if a model only guesses.

    Returns:
        The chance level. None if no question has options, or if the level of this metric is not defined. A guess at an
        open question counts as wrong, unless the answer is yes or no.
    """
    if metric == "pope_accuracy":  # half of POPE's questions have the answer yes
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
    """Return a sort key for protocols. The smallest key belongs to the protocol whose accuracy represents the model.

    Protocols that show the unchanged images and use no other model come before all others. Of these, the one whose
    accuracy rests on the most presentations of a question is first. Of equal ones, a protocol without circular passes,
    that is, without questions that are asked again with their options in another order, comes first.

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
    """Select one result row for each benchmark of a run: its headline metric under the preferred protocol.

    Args:
        run: The scored run.
        rows: Its result rows.

    Returns:
        For each method (generation or likelihood), the selected rows in the order of the benchmarks. Benchmarks
        without a value are missing.

    Examples:
        >>> from snellen.plugin_api import aggregate_run, score_run
        >>> results = sn.evaluate("snellen:oracle", "eyechart/colour", limit=4, report=False)
        >>> run = score_run(results.runs[0].folder, sn.ScoringSpec())
        >>> [row.metric for row in headline_rows(run, aggregate_run(run))["generation"]]
        ['accuracy']
    """
    headlines = {scored.spec.name: headline_metrics(scored) for scored in run.benchmarks}

    def preference(row: Result) -> tuple[int, tuple[bool, int, bool, str]]:
        return headlines[row.benchmark].index(row.metric), protocol_preference(row.protocol)

    candidates: list[Result] = []
    for row in rows:
        is_headline = row.metric in headlines.get(row.benchmark, ())
        if is_headline and not row.slice and row.estimate.value is not None:
            candidates.append(row)
    best: dict[tuple[Method, str], Result] = {}
    for row in sorted(candidates, key=preference):
        best.setdefault((row.method, row.benchmark), row)

    rows_by_method: dict[Method, list[Result]] = {}
    for method in dict.fromkeys(row.method for row in rows):
        selected: list[Result] = []
        for scored in run.benchmarks:
            row = best.get((method, scored.spec.name))
            if row is not None:
                selected.append(row)
        if selected:
            rows_by_method[method] = selected
    return rows_by_method


# --- several benchmarks ----------------------------------------------------------------------------------------------


def aggregation_unit(specs: Iterable[BenchmarkSpec]) -> MeanOver:
    """Return what has equal weight in a mean: what all suites concerned declare, or else benchmarks."""
    units: set[MeanOver] = set()
    for spec in specs:
        rule = aggregation_of(spec)
        units.add("questions" if rule.counts_questions else rule.over)
    return units.pop() if len(units) == 1 else "benchmarks"


def benchmark_weights(
    specs: Sequence[BenchmarkSpec], metrics: Sequence[str], sizes: Sequence[int]
) -> list[float]:
    """Return the weight of each benchmark in a mean over several benchmarks. The weights add up to 1.

    The suites of the benchmarks declare what has equal weight: all questions, all ability dimensions, or all
    benchmarks. Weights by questions also need the same metric for all benchmarks.

    Args:
        specs: The benchmarks.
        metrics: The metric of each benchmark that enters the mean.
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
    """Return why numbers of several benchmarks have no meaningful mean, or None if they have one.

    They have none if their metrics have different scales or directions (`scales differ`), or if the metrics declare no
    scale at all (`no scale`). A single number is its own mean.
    """
    if len(rows) == 1:
        return None
    metrics = [declared_row(row.metric) for row in rows]
    kinds = {(metric.scale, metric.better) for metric in metrics}
    if len(kinds) > 1:
        return "scales differ"
    if not metrics[0].scale:
        return "no scale"
    return None


def bounded_mean(estimates: Sequence[Estimate], metric: MetricRow) -> Estimate:
    """Return the unweighted mean of estimates on one scale, its interval cut to the metric's bounds."""
    mean = mean_of_estimates(estimates)
    return replace(mean, low=metric.bounded(mean.low), high=metric.bounded(mean.high))
