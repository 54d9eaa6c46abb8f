"""Store predictions that another toolkit made as a run, so that they can be scored like any other run.

The registry group `prediction_forms` has the readers of their file formats.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path

from msgspec import Struct

from snellen import __version__
from snellen.building.benchmark import ALL, Benchmark
from snellen.callers import setting
from snellen.common.paths import slug
from snellen.errors import StoreError
from snellen.formats.delimited import open_text
from snellen.formats.whole_files import write_atomically
from snellen.records import Exchange
from snellen.runs.journal_lines import write_line
from snellen.runs.locks import locked_run
from snellen.runs.own_questions import questions_folder, save_questions
from snellen.runs.run_folder import (
    RUN_FORMAT,
    RUN_MANIFEST,
    BenchmarkUse,
    RunManifest,
    holds_answers,
    read_manifest,
    write_manifest,
)


def imported_run_folder(path: Path, answers: str, form: str = "") -> Path:
    """Return the default folder for predictions that are imported as a run.

    Its name contains the name of the file and a digest of the content of all files, so the same files have the same
    folder.

    Args:
        path: The file of predictions.
        answers: A file with correct answers, the name or folder of a built benchmark, or empty.
        form: Name of the file format; empty if it is recognised.
    """
    if answers and Path(answers).is_file():
        answers_identity = unpacked_digest(Path(answers))
    else:
        answers_identity = answers.encode()
    content = unpacked_digest(path) + answers_identity + form.encode()
    digest = hashlib.sha256(content).hexdigest()
    return Path("runs") / f"{slug(path.stem)[:60]}-{digest[:8]}"


def unpacked_digest(path: Path) -> bytes:
    """Return the SHA-256 of a file's content. A compressed file is decompressed before."""
    with open_text(path) as file:
        return hashlib.sha256(file.read()).digest()


def check_import(folder: Path, path: Path, benchmark: Benchmark | None = None) -> None:
    """Check that a folder is empty or has an earlier import of the same predictions.

    Args:
        folder: The folder of the run.
        path: The file of predictions.
        benchmark: The benchmark that they are for, if it is known.

    Raises:
        StoreError: The folder has a run from another file, or on other questions.
    """
    if not (folder / RUN_MANIFEST).exists() and not holds_answers(folder):
        return
    earlier = read_manifest(folder)
    [use, *further] = earlier.benchmarks
    has_same_questions = True
    if benchmark is not None:
        manifest = benchmark.manifest
        has_same_questions = use.matches_build(manifest.version, manifest.questions)
    is_same_file = earlier.fingerprint == _fingerprint(path)
    if further or not is_same_file or not has_same_questions:
        raise StoreError(
            f"{folder} contains another run; choose another folder with {setting('to')}"
        )


def earlier_model_name(folder: Path, path: Path) -> str:
    """Return the name of the model in an earlier import of a file of predictions.

    It is empty if there is no earlier import, or if its model has only the name of the file.
    """
    if not (folder / RUN_MANIFEST).exists():
        return ""
    model = read_manifest(folder).model
    return "" if model == _stem(path) else model


class ImportedPredictions(Struct, frozen=True):
    """What is known of the predictions in a file, without the replies themselves."""

    file: Path
    model: str
    """Name of the model; empty if the file does not name it."""
    protocol: str
    """Label of the protocol under which all replies are stored."""
    notes: tuple[str, ...]
    """Notes for readers of the scores, such as parts of the file that did not match the benchmark."""


def write_imported_run(
    folder: Path,
    benchmark: Benchmark,
    predictions: ImportedPredictions,
    exchanges: Iterable[Exchange],
) -> None:
    """Store the predictions of a file for a benchmark as a run.

    Args:
        folder: The folder of the run.
        benchmark: The benchmark, which is already built.
        predictions: What the file says about the model and its replies.
        exchanges: The questions and replies of the file.

    Raises:
        StoreError: Another command uses the folder, or it cannot be written.
    """
    manifest = benchmark.manifest
    labels = (predictions.protocol,)
    use = BenchmarkUse(
        name=benchmark.name,
        version=manifest.version,
        folder=str(benchmark.folder.resolve()),
        protocols=labels,
        questions=manifest.questions,
    )
    run = RunManifest(
        format=RUN_FORMAT,
        model=predictions.model or _stem(predictions.file),
        fingerprint=_fingerprint(predictions.file),
        benchmarks=(use,),
        protocols=labels,
        templates="unknown",
        question_specs=(),
        software={"snellen": __version__},
        hardware={},
        started=datetime.now(UTC).isoformat(timespec="seconds"),
        notes=(
            "imported: prompts and decoding are unknown, and rows are shown as in the file",
            *predictions.notes,
        ),
    )
    lines = bytearray()
    for exchange in exchanges:
        lines += write_line(exchange, run.authors)
    with locked_run(folder):
        write_atomically(folder / "journal-0.jsonl", bytes(lines))
        save_questions(benchmark, ALL, questions_folder(folder, benchmark.name))
        write_manifest(folder, run)


def _stem(path: Path) -> str:
    """Return the name of a file without its suffix: `replies` for `replies.jsonl` and for `replies.jsonl.gz`."""
    if path.suffix == ".gz":
        path = path.with_suffix("")
    return path.stem


def _fingerprint(path: Path) -> dict[str, str]:
    """Return what identifies a file of predictions, in place of the fingerprint of a model."""
    return {"predictions": path.name, "sha256": unpacked_digest(path).hex()}
