"""A run's own copy of the questions that it asked, so that it can be read elsewhere and after a benchmark was rebuilt.

    questions/<benchmark>/benchmark.json     the benchmark's manifest: entry, version, digests of all its files
    questions/<benchmark>/samples.jsonl.gz   the samples that were asked, with the digests of their pictures

That is a built benchmark without its answers, and without pictures unless `snellen pack` brought them.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from snellen.building.benchmark import (
    ALL,
    MANIFEST,
    SAMPLES,
    Benchmark,
    BenchmarkCounts,
    Selection,
    file_digest,
)
from snellen.common.images import ImageStore, JoinedImages
from snellen.common.paths import benchmark_folder, check_benchmark_name
from snellen.errors import DataError, StoreError
from snellen.formats.record_files import RecordWriter
from snellen.formats.whole_files import write_atomically
from snellen.runs.run_folder import BenchmarkUse

QUESTIONS = "questions"
ASKED = "asked"
"""What the manifest of a copy notes beside the settings of the build: which part of the benchmark it is."""


def questions_folder(run: Path, benchmark: str) -> Path:
    """Where a run keeps the questions of a benchmark. Raises DataError for a name that leads out of the run."""
    check_benchmark_name(benchmark, f"{run}: ")
    return run / QUESTIONS / benchmark


def keep_questions(benchmark: Benchmark, selection: Selection, folder: Path) -> None:
    """Write the chosen samples of a benchmark into a folder, unless they are there. Raises StoreError."""
    choice: dict[str, Any] = {"where": selection.where, "limit": selection.limit}
    if selection.part is not None:
        choice["part"] = msgspec.to_builtins(selection.part)
    with suppress(DataError):
        earlier = Benchmark(folder).manifest
        if (
            earlier.version == benchmark.manifest.version
            and earlier.made.recipe.get(ASKED) == choice
        ):
            return
    part = folder / f"{SAMPLES}.part"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        counts = _write_samples(benchmark, selection, part)
        part.replace(folder / SAMPLES)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise StoreError(
            f"{folder}: the questions cannot be kept ({error.strerror or error})"
        ) from None
    manifest = benchmark.manifest
    changed = replace(
        manifest,
        counts=counts,
        made=replace(manifest.made, recipe={**manifest.made.recipe, ASKED: choice}),
        files={**manifest.files, SAMPLES: file_digest(folder / SAMPLES)},
    )
    write_atomically(folder / MANIFEST, msgspec.json.format(msgspec.json.encode(changed), indent=1))


def _write_samples(benchmark: Benchmark, selection: Selection, path: Path) -> BenchmarkCounts:
    """Write the chosen samples, and count them; all of them are copied as they were built."""
    counts, whole = benchmark.manifest.counts, benchmark.part(SAMPLES)
    if selection == ALL and not counts.examples and whole and whole.name == SAMPLES:
        shutil.copyfile(whole, path)
        return counts
    samples = questions = 0
    images: set[str] = set()
    with RecordWriter(path) as writer:
        for sample in benchmark.samples(selection):
            writer.write(sample)
            samples, questions = samples + 1, questions + len(sample.rounds)
            images.update(image.digest for image in sample.images)
    return replace(counts, samples=samples, questions=questions, images=len(images))


def reopen_benchmark(use: BenchmarkUse, run: Path) -> Benchmark:
    """The benchmark that a run asked: where it was built, where this machine has built it, or the run's own questions.

    Only the first two have answers and all pictures, unless the run was packed with them. Raises DataError when
    none of them is there and asks what was asked.
    """
    fault = ""
    for folder in _places(use, run):
        try:
            benchmark = Benchmark(folder)
        except DataError as error:
            fault = fault or str(error)
            continue
        if use.fits(benchmark.manifest.version, benchmark.manifest.questions):
            return benchmark
        fault = fault or (
            f"{folder} is version {benchmark.manifest.version} of {use.name}, but the run used {use.version}; "
            "build that version again to score it"
        )
    raise DataError(fault)


def _places(use: BenchmarkUse, run: Path) -> Iterator[Path]:
    yield Path(use.folder)
    for folder in (benchmark_folder(use.name), questions_folder(run, use.name)):
        if os.access(folder / MANIFEST, os.R_OK):
            yield folder


class RunPictures(JoinedImages):
    """The pictures of one benchmark of a run, and of what was shown before it, wherever they still are."""

    def __init__(self, use: BenchmarkUse, run: Path) -> None:
        example_folders = [Path(use.examples_from)] if use.examples_from else []
        super().__init__(
            [ImageStore(folder / "images") for folder in (*_places(use, run), *example_folders)]
        )
