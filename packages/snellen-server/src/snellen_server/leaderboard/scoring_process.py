"""Read, check and score one upload in a process of its own.

The server starts `python -m snellen_server.leaderboard.scoring_process`, and sends the task as JSON
to its standard input. The outcome is written as JSON to standard output. Memory and time of the
process are limited, so that no file, whatever it contains, can stop the server.
"""

from __future__ import annotations

import hashlib
import os
import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from msgspec import Struct

from snellen import DataError
from snellen.plugin_api import (
    Benchmark,
    PlacedRow,
    Result,
    ScoredBenchmark,
    ScoredRun,
    aggregate_run,
    declared_row,
    headline_metrics,
    metric_of,
    score_run,
    write_predictions,
)
from snellen_server.leaderboard.checking import (
    UploadFault,
    UploadFindings,
    UploadLimits,
    check_upload,
    protocol_of,
    read_upload,
)

PUBLISHED_MEAN = "published_mean"
_WORDS_AND_SIGNS = re.compile(r"""\w+|[^\w\s.,;:!?'"`*()]""")


class ScoringTask(Struct, frozen=True, kw_only=True):
    """An uploaded file, the benchmarks by which it is scored, and the limits."""

    folder: str
    """The folder that contains the file. The run that is made from it is stored below."""
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
    """The value of a metric on a benchmark, or on a part (`slice`) of its questions."""

    benchmark: str
    metric: str
    slice: str
    value: float
    n: int
    unit: str
    better: str


@dataclass(frozen=True, kw_only=True)
class ExactNumber(MeasuredNumber):
    """A result before noise is added. It must never be published."""

    units: int
    """Images, or dialogues, that the questions are about."""
    least: float
    """The bounds that the metric declares."""
    greatest: float
    heaviest: float = 1.0
    """How much one answer can change the value at most, in multiples of 1 / n of the metric's range. It is more than 1 if
    a few questions have a large share of a mean."""


class ScoringOutcome(Struct, frozen=True, kw_only=True):
    """The result of scoring an upload: its exact numbers, or why it was refused."""

    refused: str = ""
    """Why the upload was not scored; empty if it was."""
    faults: tuple[UploadFault, ...] = ()
    notes: tuple[UploadFault, ...] = ()
    """What the submitter should know about how the file was read, whether or not it was scored."""
    rows: int = 0
    contents: Mapping[str, str] = {}
    """For each benchmark, a digest of its build and of how the predictions were read. It does not depend on the format
    of the file."""
    readings: Mapping[str, bytes] = {}
    """For each benchmark, a short digest of how each prediction was read, in the order of the questions."""
    numbers: tuple[ExactNumber, ...] = ()


def score_upload(task: ScoringTask) -> ScoringOutcome:
    """Read an uploaded file, check it against the benchmarks, and score it.

    If the file is at fault, the outcome says why it was refused. Only errors that are not the
    file's fault are raised.
    """
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
        protocols = {
            name: protocol_of(predictions, task.presentations)
            for name, predictions in checked.rows.items()
        }
    except DataError as error:
        return ScoringOutcome(refused=str(error), notes=findings.all())
    contents: dict[str, str] = {}
    readings: dict[str, bytes] = {}
    numbers: list[ExactNumber] = []
    for benchmark in benchmarks:
        name = benchmark.name
        scored = _scored(benchmark, checked.rows[name], protocols[name], Path(task.file))
        build_and_input = benchmark.manifest.version.encode() + _headline_input(scored)
        contents[name] = hashlib.sha256(build_and_input).hexdigest()
        readings[name] = _digests_of_readings(scored)
        numbers += _exact_numbers(scored, benchmark, task)
    return ScoringOutcome(
        notes=notes, rows=len(rows), contents=contents, readings=readings, numbers=tuple(numbers)
    )


def _scored(benchmark: Benchmark, rows: Sequence[PlacedRow], label: str, file: Path) -> ScoredRun:
    """Store the uploaded predictions as a run of Snellen, and score it like any other run."""
    folder = Path("runs") / benchmark.name
    write_predictions(folder, benchmark, rows, model="submission", protocol=label, file=file)
    return score_run(folder)


def _headline_input(scored: ScoredRun) -> bytes:
    """Return everything in a submission that its headline metric depends on, as JSON in a fixed order.

    Its digest seeds the noise that is added to the score. Submissions with the same digest get the same noise, so it must
    differ wherever the exact score may differ: equal noise around two exact scores would reveal their difference.
    Therefore texts are kept as they are, with capitals, since some metrics distinguish them.

    A prediction counts by the option that was chosen, otherwise by its text. If it has scores of options, their ranks are
    added where no option was chosen or where the metric is computed over ranks.
    """
    [scored_benchmark] = scored.benchmarks
    uses_ranks = _uses_ranks(scored)
    readings = []
    for prediction in scored_benchmark.predictions:
        has_choice = prediction.choice is not None
        if not has_choice and prediction.text is None and not prediction.scores:
            continue
        ranks = None
        if prediction.scores and (uses_ranks or not has_choice):
            ranks = _ranks(prediction.scores)
        question = (prediction.benchmark, prediction.sample_id, prediction.turn)
        text = None if has_choice else prediction.text
        readings.append((*question, prediction.variant.test, prediction.choice, text, ranks))
    return msgspec.json.encode(sorted(readings, key=msgspec.json.encode))


def _uses_ranks(scored: ScoredRun) -> bool:
    """Return whether the headline metric depends on the ranks of options."""
    [scored_benchmark] = scored.benchmarks
    metrics = [metric_of(name) for name in headline_metrics(scored_benchmark)]
    return any(metric is not None and metric.computed_over == "ranks" for metric in metrics)


def _ranks(scores: Sequence[float]) -> list[int]:
    """Return the rank of each score, 0 for the highest; equal scores have equal ranks: [.5, .2, .5] gives [0, 1, 0]."""
    levels = sorted(set(scores), reverse=True)
    return [levels.index(score) for score in scores]


def _digests_of_readings(scored: ScoredRun) -> bytes:
    """Return four bytes of a digest for each prediction, of what scoring reads in it, in a fixed order of questions.

    What is read is the chosen option, or otherwise the words of the reply, or otherwise the order of all options by their
    scores. Texts are compared without case, spaces and punctuation, but with signs, since -5 is another answer than 5. If the
    headline metric depends on ranks, the reading is the order of all options.
    """
    [scored_benchmark] = scored.benchmarks
    uses_ranks = _uses_ranks(scored)
    digests = {}
    for prediction in scored_benchmark.predictions:
        words = _WORDS_AND_SIGNS.findall((prediction.text or "").casefold())
        reading: Any
        if prediction.scores and uses_ranks:
            reading = _ranks(prediction.scores)
        elif prediction.choice is not None:
            reading = prediction.choice
        elif words:
            reading = words
        else:
            reading = _ranks(prediction.scores or ())
        presentation = msgspec.json.encode(
            (prediction.benchmark, prediction.sample_id, prediction.turn, prediction.variant.test)
        )
        digest = hashlib.sha256(msgspec.json.encode(reading)).digest()
        digests[presentation] = digest[:4]
    return b"".join(digests[presentation] for presentation in sorted(digests))


def _exact_numbers(
    scored: ScoredRun, benchmark: Benchmark, task: ScoringTask
) -> Iterator[ExactNumber]:
    """Yield the main result of a benchmark: for all its questions, and for each part of them that may be published.

    A part is left out if it, or the rest of the questions, is so small that its result would reveal single answers
    (`_publishable_parts`).
    """
    [scored_benchmark] = scored.benchmarks
    rows = aggregate_run(scored)
    computed_metrics = {row.metric for row in rows}
    # The first of the benchmark's headline metrics that this kind of predictions allows.
    main_metric = next(
        name for name in headline_metrics(scored_benchmark) if name in computed_metrics
    )
    parts = _publishable_parts(benchmark, scored_benchmark, task)
    for row in rows:
        is_main_result = row.metric == main_metric and row.benchmark == benchmark.name
        if is_main_result and (not row.slice or row.slice in parts):
            yield _exact_number(row, _largest_influence(row, scored_benchmark))


def _largest_influence(row: Result, scored: ScoredBenchmark) -> float:
    """Return how much a single answer can change a result at most, in multiples of 1 / n of the metric's range.

    This is 1 for a mean over n questions. A published mean is different: it gives each part of the questions a weight
    of its own, whatever its number of questions (`mean_over`), or is the mean of several numbers that all depend on
    the answer (`mean_of`).

    Args:
        row: The result, over `row.estimate.n` questions.
        scored: The scores that it is computed from. The `counts` of a score of a published mean are three numbers for
            each part: value, questions, and questions times weight.
    """
    counts = [score.counts for score in scored.tallies if score.metric == row.metric]
    if row.metric != PUBLISHED_MEAN or not any(counts):
        return 1.0
    sums = np.array([count for count in counts if count]).sum(axis=0).reshape(-1, 3)
    has_questions = sums[:, 1] > 0
    questions = sums[has_questions, 1]
    weights = sums[has_questions, 2] / questions
    influence_of_answer = weights / weights.sum() / questions  # for an answer in each part
    if scored.spec.mean_of:
        largest = influence_of_answer.sum()
    else:
        largest = influence_of_answer.max()
    return float(row.estimate.n * largest)


def _publishable_parts(
    benchmark: Benchmark, scored: ScoredBenchmark, task: ScoringTask
) -> set[str]:
    """Return the parts of a benchmark, such as "colour=red", that have enough questions inside and outside.

    Both numbers of questions must be at least `task.smallest_group`. Only the tags of samples that `task.breakdown` names
    make parts: tags of answers, which scoring adds, would reveal the answers.
    """
    questions_of_part: Counter[str] = Counter()
    for sample in benchmark.samples():
        for tag in task.breakdown:
            if tag in sample.tags:
                questions_of_part[f"{tag}={sample.tags[tag]}"] += len(sample.rounds)
    all_questions = sum(len(sample.rounds) for sample in scored.samples.values())
    parts = set()
    for part, questions in questions_of_part.items():
        questions_outside = all_questions - questions
        if min(questions, questions_outside) >= task.smallest_group:
            parts.add(part)
    return parts


def _exact_number(row: Result, largest_influence: float) -> ExactNumber:
    """Return a result as it is before noise is added, with what the amount of noise depends on.

    Args:
        row: The result of one metric on one part of the benchmark.
        largest_influence: How much a single answer can change it at most (`_largest_influence`).

    Raises:
        RuntimeError: The metric has no bounds or the result no value, so no amount of noise could hide an answer.
    """
    metric = declared_row(row.metric)
    estimate = row.estimate
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
        heaviest=largest_influence,
        unit=row.unit,
        better=row.better,
    )


def _limit_memory(count: int) -> None:
    """Limit the memory of this process, in bytes; Windows has no such limit."""
    if sys.platform != "win32":
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (count, count))


def carry_out_task() -> None:
    """Score the task that is read from standard input, and write the outcome to standard output."""
    task = msgspec.json.decode(sys.stdin.buffer.read(), type=ScoringTask)
    os.chdir(task.folder)  # so that no message names a folder of the server
    _limit_memory(task.memory_bytes)
    try:
        outcome = score_upload(task)
    except MemoryError:
        outcome = ScoringOutcome(refused="it needs more memory than a submission may use")
    sys.stdout.buffer.write(msgspec.json.encode(outcome))


if __name__ == "__main__":
    carry_out_task()
