"""Why runs cannot be compared, by what they do not share: a benchmark, a protocol, or a metric."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

from snellen.analysis.aggregate import aggregate_run
from snellen.analysis.headline import OVERALL
from snellen.analysis.paired.differences import Comparison
from snellen.callers import for_caller, setting
from snellen.records import Result
from snellen.runs.journal import holds_replies
from snellen.scoring.scored_run import ScoredRun, run_labels


def nothing_in_common(runs: Sequence[ScoredRun]) -> str:
    """Return why no number of these runs can be compared, with what to do, as a sentence."""
    labels = run_labels(runs)
    empty = [str(run.folder) for run in runs if not holds_replies(run.folder)]
    if empty:
        again = for_caller("repeat its `snellen run` command", "repeat its call")
        return f"no request of {', '.join(empty)} received a reply, so there is nothing to compare; {again}"
    rows_by_run = [_rows_of_benchmarks(run) for run in runs]

    benchmarks = [_distinct(rows, "benchmark") for rows in rows_by_run]
    shared_benchmarks = _shared(benchmarks)
    if not shared_benchmarks:
        advice = "run the models on the same benchmarks"
        if all(run.manifest.is_imported for run in runs):
            advice = _advice_on_files([run.manifest.fingerprint["predictions"] for run in runs])
        return f"these runs have no benchmark in common: {_name_each(labels, benchmarks)}; {advice}"

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


def _advice_on_files(files: Sequence[str]) -> str:
    """Return how files of predictions become runs that can be compared."""
    command = f"`{shlex.join(['snellen', 'score', *files])}`"
    together = for_caller(command, "sn.score of the file, with benchmark=, for each of them")
    return f"if their files have the same questions, score them together, which makes them runs of one benchmark: {together}"


def left_out_runs(runs: Sequence[ScoredRun], comparison: Comparison) -> dict[Path, str]:
    """Return the folders of runs that could be compared with none of the others, each with the reason.

    Args:
        runs: The runs of the comparison.
        comparison: The comparison of these runs, in the same order.
    """
    compared: set[str] = set()
    for difference in comparison.rows:
        compared.update((difference.first, difference.second))
    kept: list[ScoredRun] = []
    left_out: list[ScoredRun] = []
    for label, run in zip(comparison.labels, runs, strict=True):
        if label in compared:
            kept.append(run)
        else:
            left_out.append(run)
    return {run.folder: why_left_out(run, kept) for run in left_out}


def why_left_out(run: ScoredRun, others: Sequence[ScoredRun]) -> str:
    """Return why a run cannot be compared with any of the other runs, by what it has and what they have."""
    if not holds_replies(run.folder):
        return "none of its requests received a reply"
    rows = _rows_of_benchmarks(run)
    rows_of_others: list[Result] = []
    for other in others:
        rows_of_others += _rows_of_benchmarks(other)

    benchmarks = _distinct(rows, "benchmark")
    shared = _shared([benchmarks, _distinct(rows_of_others, "benchmark")])
    if not shared:
        theirs = _first_few(_distinct(rows_of_others, "benchmark"))
        return f"it was asked {_first_few(benchmarks)}, the others {theirs}"
    names = _first_few(sorted(shared))
    protocols = _distinct([row for row in rows if row.benchmark in shared], "protocol")
    of_shared = [row for row in rows_of_others if row.benchmark in shared]
    if not _shared([protocols, _distinct(of_shared, "protocol")]):
        theirs = _first_few(_distinct(of_shared, "protocol"))
        return f"it was asked {names} under {_first_few(protocols)}, the others under {theirs}"
    return f"it has no protocol and metric of {names} in common with the others"


def _rows_of_benchmarks(run: ScoredRun) -> list[Result]:
    """Return the result rows of a run without those that are means over benchmarks."""
    return [row for row in aggregate_run(run) if row.benchmark != OVERALL]


def _first_few(names: Sequence[str]) -> str:
    more = " ..." if len(names) > 3 else ""
    return ", ".join(names[:3]) + more


def _distinct(rows: Sequence[Result], field: str) -> list[str]:
    """Return the different values of a field in some results, such as their protocols, in the order of the results."""
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
        phrases.append(f"{_first_few(names) or 'nothing'} in {label}")
    return "; ".join(phrases)
