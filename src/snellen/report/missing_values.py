"""Sentences that say why a requested metric has no value.

A metric has no value on a benchmark if it does not apply to the questions (ROUGE-L needs questions without options),
if it is undefined for all of them, or if each question lacks something, such as a box in its ground truth.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from snellen.callers import setting
from snellen.metrics.declaration import declared_row, find_metric
from snellen.records import Result
from snellen.registry import is_code
from snellen.report.number_text import metric_title
from snellen.scoring.scored_run import ScoredBenchmark, ScoredRun

MAX_NAMED_METRICS = 4
"""Metrics that a sentence names."""


def missing_values(runs: Iterable[ScoredRun], rows: Sequence[Result]) -> list[str]:
    """Return a sentence for each metric that has no value on a benchmark, such as `CIDEr has no value for mine: ...`.

    Args:
        runs: The runs. Metrics are those of each benchmark and those requested for the run.
        rows: All results of the runs.
    """
    sentences: dict[str, None] = {}
    for run in runs:
        for scored in run.benchmarks:
            for metric in dict.fromkeys((*scored.spec.metrics, *run.scoring.metrics)):
                sentence = _missing_value_sentence(scored, metric, rows)
                if sentence:
                    sentences[sentence] = None
    return list(sentences)


def _missing_value_sentence(scored: ScoredBenchmark, metric: str, rows: Sequence[Result]) -> str:
    """Return why a metric has no value on a benchmark; empty if it has one, or if the reason is unknown."""
    row_names = find_metric(metric).names
    has_rows = False
    has_questions = False
    for row in rows:
        if row.metric not in row_names or row.benchmark != scored.spec.name or row.slice:
            continue
        if row.estimate.value is not None:
            return ""
        has_rows = True
        if row.estimate.n:
            has_questions = True

    declaration = declared_row(row_names[0])
    opening = f"{metric_title(row_names[0])} has no value for {scored.spec.name}"
    if not has_rows:
        if scored.spec.formulation != "choice":
            return f"{opening}, whose questions have no options."
        if is_code(metric):
            judging = setting("judge", metric)
            return (
                f"{opening}, whose questions have options; if it judges replies, write {judging}."
            )
        return f"{opening}, whose questions have options{_metrics_with_values(scored, rows)}."

    reason = ""
    if has_questions:
        reason = declaration.undefined
    if not reason:
        reason = _most_common_detail(scored, (metric, *row_names))
    return f"{opening}: {reason}." if reason else ""


def _metrics_with_values(scored: ScoredBenchmark, rows: Sequence[Result]) -> str:
    """Return which metrics have a value on a benchmark, as the end of a sentence; empty if none has."""
    names: list[str] = []
    for row in rows:
        has_value = row.estimate.value is not None
        if row.benchmark == scored.spec.name and not row.slice and has_value:
            names.append(row.metric)
    shown = list(dict.fromkeys(names))[:MAX_NAMED_METRICS]
    return f"; metrics with a value are {', '.join(shown)}" if shown else ""


def _most_common_detail(scored: ScoredBenchmark, metrics: Sequence[str]) -> str:
    """Return what most questions lack for these metrics, such as `the ground truth has no box`; empty if unknown."""
    details: Counter[str] = Counter()
    for tally in scored.tallies:
        if tally.metric in metrics and tally.detail:
            details[tally.detail] += 1
    for (_, _, metric), scores in scored.score_rows.items():
        if metric not in metrics:
            continue
        for score in scores:
            if score.value is None and score.detail:
                details[score.detail] += 1
    if not details:
        return ""
    [(most_common, _)] = details.most_common(1)
    return most_common
