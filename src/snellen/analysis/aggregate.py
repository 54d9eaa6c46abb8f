"""Aggregate scores into results per benchmark, slice, dimension and run."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from snellen.analysis.benchmark_rows import benchmark_rows
from snellen.analysis.capability import capability_rows
from snellen.analysis.corrections import corrected_rows
from snellen.analysis.coverage import describe_left_out, describe_missing, member_names
from snellen.analysis.headline import HEADLINE, OVERALL, aggregation_unit, bounded_mean
from snellen.analysis.pools import pooled_benchmarks
from snellen.analysis.question_means import mean_over_questions
from snellen.analysis.ranks import average_rank_rows
from snellen.metrics.declaration import ChoiceMetric, declared_row, metric_of, printed_unit
from snellen.records import Convention, Method, Result
from snellen.scoring.choice_metrics import LEGACY_INSTABILITY
from snellen.scoring.scored_run import ScoredRun, run_labels

METRICS_ONLY_AS_PUBLISHED = LEGACY_INSTABILITY.names
"""Rows that only tables of a run scored as published have."""


def aggregate_run(run: ScoredRun) -> list[Result]:
    """Compute the result table of a run.

    A row of the table is one number, such as the accuracy on a benchmark. There are rows for each benchmark, for
    slices of its questions (by tag or by prompt template), for each ability dimension, for each pool of benchmarks
    that a suite scores as one, and for the run as a whole.

    Examples:
        >>> results = sn.evaluate("snellen:oracle", "eyechart/colour", limit=4, report=False)
        >>> row = aggregate_run(results.runs[0])[0]
        >>> row.benchmark, row.metric, row.estimate.value
        ('eyechart/colour', 'accuracy', 1.0)
    """
    if run.stored_rows is not None:
        return _with_headline(run, run.stored_rows)

    model = run.manifest.model
    rows: list[Result] = []
    for scored in run.benchmarks:
        rows.extend(benchmark_rows(model, scored))
    # Both kinds of summary are computed from the rows of benchmarks alone.
    mean_rows = list(_mean_rows(run, rows))
    summary_rows = list(capability_rows(run, rows))
    rows.extend(mean_rows)
    rows.extend(summary_rows)
    for pool in pooled_benchmarks(run):
        rows.extend(benchmark_rows(model, pool))

    rows = corrected_rows(run, rows)
    if run.convention != "standard":
        return _as_printed(run, rows)
    return [row for row in rows if row.metric not in METRICS_ONLY_AS_PUBLISHED]


def _with_headline(run: ScoredRun, stored_rows: Sequence[Result]) -> list[Result]:
    """Return the stored result rows of a run, and add the row of its headline number if it is missing.

    Older versions of Snellen stored results without it.
    """
    has_headline = any(row.metric == HEADLINE for row in stored_rows)
    if has_headline:
        return list(stored_rows)
    rows = list(stored_rows)
    for row in capability_rows(run, stored_rows):
        if row.metric == HEADLINE:
            rows.append(row)
    return rows


def results_of_all(runs: Sequence[ScoredRun]) -> list[Result]:
    """Return the result tables of several runs in one list, and the average rank of each run.

    The `model` of each row is the label of its run, which tells runs of the same model apart.
    """
    rows: list[Result] = []
    tables_by_convention: dict[Convention, list[list[Result]]] = defaultdict(list)
    for run, label in zip(runs, run_labels(runs), strict=True):
        table = [replace(row, model=label) for row in aggregate_run(run)]
        rows.extend(table)
        tables_by_convention[run.convention].append(table)

    # Ranks are meaningful only among runs scored by the same rules.
    for tables in tables_by_convention.values():
        rows.extend(average_rank_rows(tables))
    return rows


def _mean_rows(run: ScoredRun, rows: Sequence[Result]) -> Iterator[Result]:
    """Yield the mean of each metric over the benchmarks of each ability dimension, and over all benchmarks.

    Only metrics that declare a scale have a mean. Each question has equal weight if the suites of all benchmarks in the
    mean declare that and the metric is a mean over questions; otherwise each benchmark has.

    Args:
        run: The scored run.
        rows: The result rows of its benchmarks. Rows of slices are ignored.
    """
    specs = {scored.spec.name: scored.spec for scored in run.benchmarks}
    groups: dict[tuple[str, Method, str, str], list[Result]] = defaultdict(list)
    for row in rows:
        if row.slice or not declared_row(row.metric).scale:
            continue
        key = (row.protocol, row.method, row.metric)
        if row.dimension:
            groups[*key, row.dimension].append(row)
        groups[*key, OVERALL].append(row)

    for (protocol, method, metric, dimension), members in groups.items():
        declaration = declared_row(metric)
        mean = None
        averaged_over = "benchmarks"
        if aggregation_unit(specs[row.benchmark] for row in members) == "questions":
            mean = mean_over_questions(run, members)
        if mean is not None:
            averaged_over = "questions"
        else:
            mean = bounded_mean([row.estimate for row in members], declaration)

        names_with_value: list[str] = []
        names_without_value: set[str] = set()
        for row in members:
            if row.estimate.value is not None:
                names_with_value.append(row.benchmark)
            else:
                names_without_value.add(row.benchmark)
        names_without_value.difference_update(names_with_value)
        if isinstance(metric_of(metric), ChoiceMetric):
            scope = "" if dimension == OVERALL else dimension
            partial = describe_missing(
                run, names_with_value, mean, with_options=True, dimension=scope
            )
        else:
            partial = describe_left_out(names_without_value)

        reason = None
        if mean.value is None:
            reasons = [row.reason for row in members if row.reason]
            reason = reasons[0] if reasons else None
        suites = {row.suite for row in members}
        yield Result(
            model=run.manifest.model,
            benchmark=OVERALL,
            protocol=protocol,
            method=method,
            metric=metric,
            estimate=mean,
            dimension=dimension,
            suite=suites.pop() if len(suites) == 1 else "",
            slice="",
            unit=declaration.unit,
            better=declaration.better,
            reason=reason,
            over=averaged_over,
            members=member_names(run, names_with_value),
            partial=partial,
        )


def _as_printed(run: ScoredRun, rows: Sequence[Result]) -> list[Result]:
    """Convert result rows to the units in which the papers of the benchmark suites print their numbers.

    For example, a share of 0.5 becomes 50 if the paper prints percentages. A mean over benchmarks is converted only if
    all of them use the same factor. Each row is also marked with the scoring convention of the run.
    """
    scales_by_benchmark: dict[str, dict[str, float]] = {}
    for scored in (*run.benchmarks, *pooled_benchmarks(run)):
        scale = dict(scored.published.scale) if scored.published else {}
        scales_by_benchmark[scored.spec.name] = scale

    printed: list[Result] = []
    for row in rows:
        row = replace(row, convention=run.convention)
        factors: set[float] = set()
        for name, scale in scales_by_benchmark.items():
            if row.benchmark in (name, OVERALL):
                factors.add(scale.get(row.unit, 1.0))
        factor = factors.pop() if len(factors) == 1 else 1.0
        if factor != 1.0:
            estimate = row.estimate.scaled(factor)
            row = replace(row, estimate=estimate, unit=printed_unit(row.unit, factor))
        printed.append(row)
    return printed
