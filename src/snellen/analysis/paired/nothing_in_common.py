"""Why runs cannot be compared, by what they do not share: a benchmark, a protocol, or a metric."""

from __future__ import annotations

from collections.abc import Sequence

from snellen.analysis.aggregate import aggregate_run
from snellen.callers import setting
from snellen.records import Result
from snellen.scoring.scored_run import ScoredRun, run_labels


def nothing_in_common(runs: Sequence[ScoredRun]) -> str:
    """Return why no number of these runs can be compared, with what to do, as a sentence."""
    labels = run_labels(runs)
    rows_by_run = []
    for run in runs:
        rows_by_run.append([row for row in aggregate_run(run) if row.benchmark != "*"])

    benchmarks = [_distinct(rows, "benchmark") for rows in rows_by_run]
    shared_benchmarks = _shared(benchmarks)
    if not shared_benchmarks:
        return f"these runs have no benchmark in common: {_name_each(labels, benchmarks)}; run the models on the same benchmarks"

    comparable_rows_by_run = []
    for rows in rows_by_run:
        comparable_rows_by_run.append([row for row in rows if row.benchmark in shared_benchmarks])
    protocols = [_distinct(rows, "protocol") for rows in comparable_rows_by_run]
    names = ", ".join(sorted(shared_benchmarks))
    if not _shared(protocols):
        suggestion = setting("protocols", protocols[0][0])
        return (
            f"these runs asked {names} under different protocols: {_name_each(labels, protocols)}; run both under the same "
            f"one ({suggestion})"
        )
    metrics = [_distinct(rows, "metric") for rows in comparable_rows_by_run]
    return (
        f"these runs have no benchmark, protocol and metric in common: {names} is scored by {_name_each(labels, metrics)}; "
        "score all of them by the same rules"
    )


def _distinct(rows: Sequence[Result], field: str) -> list[str]:
    return list(dict.fromkeys(getattr(row, field) for row in rows))


def _shared(values: Sequence[Sequence[str]]) -> set[str]:
    return set.intersection(*map(set, values))


def _name_each(labels: Sequence[str], values: Sequence[Sequence[str]]) -> str:
    """List what each run has, such as `vanilla in snellen:tiny, circular in snellen:tiny-xs`.

    Args:
        labels: The label of each run.
        values: For each run, the names of its benchmarks, protocols or metrics. Only the first three are listed.
    """
    phrases = []
    for label, names in zip(labels, values, strict=True):
        listed = ", ".join(names[:3]) or "nothing"
        more = " ..." if len(names) > 3 else ""
        phrases.append(f"{listed}{more} in {label}")
    return "; ".join(phrases)
