"""Reads, checks and scores one upload in a process of its own: `python -m snellen_server.leaderboard.scoring_process`.

The task comes as JSON on stdin, the outcome goes as JSON to stdout. The process has limits of memory and time, so that
whatever a file holds, the server goes on.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec
from msgspec import Struct

from snellen.plugin_api import (
    Benchmark,
    DataError,
    ImportedPredictions,
    PlacedRow,
    Result,
    ScoredBenchmark,
    ScoredRun,
    declared,
    exchanges_of,
    headlines_of,
    results_of,
    score_run,
    write_imported_run,
)
from snellen_server.leaderboard.checking import (
    UploadFault,
    UploadFindings,
    UploadLimits,
    check_upload,
    protocol_of,
    read_upload,
)


class ScoringTask(Struct, frozen=True, kw_only=True):
    """One upload, and what it is scored by."""

    folder: str
    """Holds the file; what is made of it lies below."""
    file: str
    benchmarks: tuple[str, ...]
    """Absolute folders."""
    presentations: int
    breakdown: tuple[str, ...]
    smallest_group: int
    limits: UploadLimits
    memory_bytes: int


@dataclass(frozen=True, kw_only=True)
class MeasuredNumber:
    """What was measured on which questions."""

    benchmark: str
    metric: str
    slice: str
    value: float
    n: int
    unit: str
    better: str


@dataclass(frozen=True, kw_only=True)
class ExactNumber(MeasuredNumber):
    """A number as it is: it never leaves the two processes."""

    units: int
    """Pictures, or dialogues, that the questions are about."""
    least: float
    """The bounds that the metric declares."""
    greatest: float


class ScoringOutcome(Struct, frozen=True, kw_only=True):
    """What came of an upload."""

    refused: str = ""
    """Why it was not scored; empty when it was."""
    faults: tuple[UploadFault, ...] = ()
    notes: tuple[UploadFault, ...] = ()
    """What the submitter should know of how the file was read, be it scored or not."""
    rows: int = 0
    contents: Mapping[str, str] = {}
    """Benchmark -> a digest of its build and of what its predictions were read as, whatever the file looks like."""
    numbers: tuple[ExactNumber, ...] = ()


def score_upload(task: ScoringTask) -> ScoringOutcome:
    """Read, check and score. What is wrong with the file is an outcome; what is wrong here is raised."""
    benchmarks = [Benchmark(Path(folder)) for folder in task.benchmarks]
    findings = UploadFindings()
    try:
        rows = read_upload(Path(task.file), task.limits, findings)
        checked = check_upload(rows, benchmarks, task.presentations, findings)
        notes = findings.all()
        if checked.faults:
            refusal = "it does not fit the questions"
            return ScoringOutcome(
                refused=refusal, faults=checked.faults, notes=notes, rows=len(rows)
            )
        labels = {
            name: protocol_of(predictions, task.presentations)
            for name, predictions in checked.rows.items()
        }
    except DataError as error:
        return ScoringOutcome(refused=str(error), notes=findings.all())
    contents: dict[str, str] = {}
    numbers: list[ExactNumber] = []
    for benchmark in benchmarks:
        scored = _scored(
            benchmark, checked.rows[benchmark.name], labels[benchmark.name], Path(task.file)
        )
        contents[benchmark.name] = hashlib.sha256(
            benchmark.manifest.version.encode() + _content(scored)
        ).hexdigest()
        numbers += _numbers(scored, benchmark, task)
    return ScoringOutcome(notes=notes, rows=len(rows), contents=contents, numbers=tuple(numbers))


def _scored(benchmark: Benchmark, rows: Sequence[PlacedRow], label: str, file: Path) -> ScoredRun:
    samples = {sample.id: sample for sample in benchmark.samples()}
    folder = Path("runs") / benchmark.name
    predictions = ImportedPredictions(file, "submission", label, ())
    write_imported_run(folder, benchmark, predictions, exchanges_of(rows, samples, label))
    return score_run(folder)


def _content(scored: ScoredRun) -> bytes:
    """All that a metric may see, in a fixed order: options by their number, texts and scores as they are.

    Some metric tells capitals apart, or ranks options that are not the first. The same noise around two exact numbers
    would give their difference away.
    """
    readings = sorted(
        (p.benchmark, p.sample_id, p.turn, p.variant.test, p.choice, p.text, p.scores)
        for benchmark in scored.benchmarks
        for p in benchmark.predictions
        if p.choice is not None or p.text is not None or p.scores
    )
    return msgspec.json.encode(readings)


def _numbers(scored: ScoredRun, benchmark: Benchmark, task: ScoringTask) -> Iterator[ExactNumber]:
    """The headline of a benchmark, and of those parts of it that are large enough and leave enough."""
    [scored_benchmark] = scored.benchmarks
    rows = results_of(scored)
    [metric, *_] = [
        name for name in headlines_of(scored_benchmark) if any(row.metric == name for row in rows)
    ]
    parts = _parts(benchmark, scored_benchmark, task)
    for row in rows:
        if (
            row.metric == metric
            and row.benchmark == benchmark.name
            and (not row.slice or row.slice in parts)
        ):
            yield _exact(row)


def _parts(benchmark: Benchmark, scored: ScoredBenchmark, task: ScoringTask) -> set[str]:
    """`tag=value` of the samples' own tags. Those of answers, which scoring adds, are never among them."""
    counts: Counter[str] = Counter()
    for sample in benchmark.samples():
        for name in task.breakdown:
            if name in sample.tags:
                counts[f"{name}={sample.tags[name]}"] += len(sample.rounds)
    total = sum(len(sample.rounds) for sample in scored.samples.values())
    smallest = task.smallest_group
    return {
        part for part, count in counts.items() if count >= smallest and total - count >= smallest
    }


def _exact(row: Result) -> ExactNumber:
    metric, estimate = declared(row.metric), row.estimate
    if metric.low is None or metric.high is None or estimate.value is None:
        raise RuntimeError(
            f"{row.metric} of {row.benchmark} has no value between bounds, so no noise is enough"
        )
    return ExactNumber(
        benchmark=row.benchmark,
        metric=row.metric,
        slice=row.slice,
        value=estimate.value,
        n=estimate.n,
        units=estimate.groups or estimate.n,
        least=metric.low,
        greatest=metric.high,
        unit=row.unit,
        better=row.better,
    )


def _limit_memory(count: int) -> None:
    if sys.platform != "win32":
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (count, count))


def carry_out_task() -> None:
    """The process's whole life."""
    task = msgspec.json.decode(sys.stdin.buffer.read(), type=ScoringTask)
    os.chdir(task.folder)  # so that no message names a folder of the server
    _limit_memory(task.memory_bytes)
    try:
        outcome = score_upload(task)
    except MemoryError:
        outcome = ScoringOutcome(refused="it takes more memory than a submission may")
    sys.stdout.buffer.write(msgspec.json.encode(outcome))


if __name__ == "__main__":
    carry_out_task()
