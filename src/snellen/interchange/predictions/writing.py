"""Predictions joined to the questions of a built benchmark, written as a run without looking at their file again."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from snellen.building.benchmark import Benchmark
from snellen.interchange.predictions.joining import PlacedRow, exchanges_of
from snellen.runs.imported_predictions import ImportedPredictions, write_imported_run


def write_predictions(
    folder: Path,
    benchmark: Benchmark,
    rows: Iterable[PlacedRow],
    *,
    model: str,
    protocol: str,
    file: Path,
) -> None:
    """Write predictions for a built benchmark as a run, which `score_run` then scores.

    Args:
        folder: Folder of the run.
        benchmark: The benchmark that was evaluated.
        rows: The predictions, each with its question.
        model: Name of the model.
        protocol: Label of the protocol by which the questions were asked.
        file: The file that the predictions were read from. Its content is the model's fingerprint.
    """
    samples = {sample.id: sample for sample in benchmark.samples()}
    predictions = ImportedPredictions(file, model, protocol, notes=())
    write_imported_run(folder, benchmark, predictions, exchanges_of(rows, samples, protocol))
