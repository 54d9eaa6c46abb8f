"""Predictions that another toolkit made, written as a run: from there they are scored like any other.

Its form says how a file is read (the registry's group `prediction_forms`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path

from msgspec import Struct

from snellen import __version__
from snellen.building.benchmark import ALL, Benchmark
from snellen.common.paths import slug
from snellen.errors import StoreError
from snellen.formats.delimited import open_text
from snellen.formats.whole_files import write_atomically
from snellen.records import Exchange
from snellen.runs.journal_lines import write_line
from snellen.runs.locks import locked_run
from snellen.runs.own_questions import keep_questions, questions_folder
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
    """Where the run of a file of predictions lies unless the user says so: under `runs`, by what is in the files.

    `answers` is a file, the name or folder of a built benchmark, or empty; `form` is how the file is read.
    """
    of_answers = (
        unpacked_digest(Path(answers)) if answers and Path(answers).is_file() else answers.encode()
    )
    digest = hashlib.sha256(unpacked_digest(path) + of_answers + form.encode())
    return Path("runs") / f"{slug(path.stem)[:60]}-{digest.hexdigest()[:8]}"


def unpacked_digest(path: Path) -> bytes:
    """SHA-256 of a file's content, unpacked where it is packed."""
    with open_text(path) as file:
        return hashlib.sha256(file.read()).digest()


def check_import(folder: Path, path: Path, benchmark: Benchmark | None = None) -> None:
    """Raise StoreError when the folder holds a run of another file, or of other questions where they are known."""
    if not (folder / RUN_MANIFEST).exists() and not holds_answers(folder):
        return
    earlier, manifest = read_manifest(folder), benchmark.manifest if benchmark else None
    [use, *further] = earlier.benchmarks
    fits = manifest is None or use.fits(manifest.version, manifest.questions)
    if further or earlier.fingerprint != _fingerprint(path) or not fits:
        raise StoreError(f"{folder} holds another run; choose another folder with --to")


class ImportedPredictions(Struct, frozen=True):
    """What a file of predictions says."""

    file: Path
    model: str
    protocol: str
    """The label of the protocol that all exchanges belong to."""
    notes: tuple[str, ...]
    """What in the file did not fit."""


def write_imported_run(
    folder: Path,
    benchmark: Benchmark,
    predictions: ImportedPredictions,
    exchanges: Iterable[Exchange],
) -> None:
    """Write what a file of predictions says of a benchmark as a run."""
    manifest, labels = benchmark.manifest, (predictions.protocol,)
    use = BenchmarkUse(
        benchmark.name,
        manifest.version,
        str(benchmark.folder.resolve()),
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
        asked=(),
        software={"snellen": __version__},
        hardware={},
        started=datetime.now(UTC).isoformat(timespec="seconds"),
        notes=(
            "made elsewhere: prompts and decoding are not known, rows are shown as the file has them",
            *predictions.notes,
        ),
    )
    lines = bytearray()
    for exchange in exchanges:
        lines += write_line(exchange, run.authors)
    with locked_run(folder):
        write_atomically(folder / "journal-0.jsonl", bytes(lines))
        keep_questions(benchmark, ALL, questions_folder(folder, benchmark.name))
        write_manifest(folder, run)


def _stem(path: Path) -> str:
    return path.with_suffix("").stem if path.suffix == ".gz" else path.stem


def _fingerprint(path: Path) -> dict[str, str]:
    return {"predictions": path.name, "sha256": unpacked_digest(path).hex()}
