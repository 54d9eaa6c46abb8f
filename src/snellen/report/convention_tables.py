"""Tables of runs that were scored as published: each headline by Snellen's rules and by those of its suite."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from snellen.analysis.aggregate import aggregate_run
from snellen.analysis.headline import headline_metrics, protocol_preference
from snellen.metrics.declaration import declared_row
from snellen.records import Method, Result
from snellen.report.number_text import DASH, metric_title
from snellen.report.reported_runs import ReportedRun
from snellen.report.table import Cell, Column, NumberCell, Table, tabulate
from snellen.scoring.scored_run import ScoredBenchmark, ScoredRun


class _Headline(NamedTuple):
    """A benchmark's headline by one convention: the title of its metric, and its number."""

    metric: str
    number: Cell


class _ConventionRow(NamedTuple):
    benchmark: str
    method: Method
    standard: _Headline
    published: _Headline


def convention_tables(reported_runs: Sequence[ReportedRun]) -> list[Table]:
    """Return a table for each run that was scored as published, with a row per benchmark and method."""
    tables: list[Table] = []
    for reported_run in reported_runs:
        if reported_run.run.counterpart is not None:
            tables += _run_tables(reported_run, reported_run.run.counterpart)
    return tables


def _run_tables(reported_run: ReportedRun, standard_run: ScoredRun) -> list[Table]:
    """Return a table that compares the headline scores of a run under the paper's scoring rules and under the standard ones.

    Args:
        reported_run: The run, scored as in the paper.
        standard_run: The same run, scored by the standard rules.

    Returns:
        One table; none if no benchmark of the run has rules of a paper.
    """
    columns: list[Column[_ConventionRow]] = [
        Column("benchmark", lambda row: row.benchmark, is_label=True),
        Column("method", lambda row: row.method, is_label=True),
        Column("standard metric", lambda row: row.standard.metric),
        Column("standard", lambda row: row.standard.number),
        Column("published metric", lambda row: row.published.metric),
        Column("as published", lambda row: row.published.number),
    ]
    standard_rows = aggregate_run(standard_run)
    rows: list[_ConventionRow] = []
    published_metrics: dict[str, None] = {}
    for by_standard, as_published in zip(
        standard_run.benchmarks, reported_run.run.benchmarks, strict=True
    ):
        has_rules_of_paper = bool(as_published.published)
        if not has_rules_of_paper:
            continue
        name = as_published.spec.name
        *_, metric_of_paper = headline_metrics(as_published)
        published_metrics[metric_of_paper] = None
        methods = dict.fromkeys(row.method for row in reported_run.rows if row.benchmark == name)
        for method in methods:
            row = _ConventionRow(
                benchmark=name,
                method=method,
                standard=_headline(by_standard, standard_rows, method),
                published=_headline(as_published, reported_run.rows, method),
            )
            rows.append(row)
    if not rows:
        return []

    notes = ["The headline score of each benchmark under both conventions, from the same replies."]
    for metric in published_metrics:
        limit = declared_row(metric).limit
        if limit:
            notes.append(f"{metric_title(metric)}: {limit}.")
    return [tabulate(f"Standard and as published: {reported_run.label}", columns, rows, notes)]


def _headline(scored: ScoredBenchmark, rows: Sequence[Result], method: Method) -> _Headline:
    """Select the headline number of a benchmark by one method.

    The first headline metric that has a result is used, under the preferred protocol. Without a result the number is a
    dash.
    """
    metrics = headline_metrics(scored)
    candidates: list[Result] = []
    for row in rows:
        is_whole_benchmark = row.benchmark == scored.spec.name and not row.slice
        if is_whole_benchmark and row.method == method and row.metric in metrics:
            candidates.append(row)
    if not candidates:
        return _Headline(metric_title(metrics[-1]), DASH)
    headline = min(
        candidates, key=lambda row: (metrics.index(row.metric), protocol_preference(row.protocol))
    )
    return _Headline(metric_title(headline.metric), NumberCell(headline.unit, headline.estimate))
