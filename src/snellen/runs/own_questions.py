"""A run's own copy of its questions, for reading the run elsewhere or after a benchmark was rebuilt.

    questions/<benchmark>/benchmark.json     the benchmark's manifest: entry, version, digests of all its files
    questions/<benchmark>/samples.jsonl.gz   the samples of the run, with the digests of their images

The copy is a built benchmark without answers. It has images only if `snellen pack` added them.
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
from snellen.building.older_builds import record_file
from snellen.common.images import ImageStore, JoinedImages
from snellen.common.paths import benchmark_folder, check_benchmark_name
from snellen.errors import DataError, StoreError
from snellen.formats.record_files import RecordWriter
from snellen.formats.whole_files import write_atomically
from snellen.records import ImageRef
from snellen.runs.run_folder import BenchmarkUse

QUESTIONS = "questions"
ASKED = "asked"
"""Key in the manifest of a copy, among the build settings, for the part of the benchmark that was copied."""


def questions_folder(run: Path, benchmark: str) -> Path:
    """Return the folder for the questions of a benchmark. Raises DataError for a name that leads out of the run."""
    check_benchmark_name(benchmark, f"{run}: ")
    return run / QUESTIONS / benchmark


def save_questions(benchmark: Benchmark, selection: Selection, folder: Path) -> None:
    """Write the selected samples of a benchmark into a folder, unless they are there. Raises StoreError."""
    choice: dict[str, Any] = {"where": selection.where, "limit": selection.limit}
    if selection.part is not None:
        choice["part"] = msgspec.to_builtins(selection.part)
    with suppress(DataError):
        earlier = Benchmark(folder).manifest
        if (
            earlier.version == benchmark.manifest.version
            and earlier.build_info.recipe.get(ASKED) == choice
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
            f"{folder}: cannot save the questions ({error.strerror or error})"
        ) from None
    manifest = benchmark.manifest
    changed = replace(
        manifest,
        counts=counts,
        build_info=replace(
            manifest.build_info, recipe={**manifest.build_info.recipe, ASKED: choice}
        ),
        files={**manifest.files, SAMPLES: file_digest(folder / SAMPLES)},
    )
    write_atomically(folder / MANIFEST, msgspec.json.format(msgspec.json.encode(changed), indent=1))


def _write_samples(benchmark: Benchmark, selection: Selection, path: Path) -> BenchmarkCounts:
    """Write the selected samples of a benchmark to a file, and return how many there are.

    If all samples are selected, the file of the benchmark is copied.
    """
    counts = benchmark.manifest.counts
    samples_file = benchmark.part(SAMPLES)
    is_complete = selection == ALL and not counts.examples
    if is_complete and samples_file and samples_file.name == SAMPLES:
        shutil.copyfile(samples_file, path)
        return counts

    n_samples = 0
    n_questions = 0
    images: set[str] = set()
    with RecordWriter(path) as writer:
        for sample in benchmark.samples(selection):
            writer.write(sample)
            n_samples += 1
            n_questions += len(sample.rounds)
            images.update(image.digest for image in sample.images)
    return replace(counts, samples=n_samples, questions=n_questions, images=len(images))


def reopen_benchmark(use: BenchmarkUse, run: Path) -> Benchmark:
    """Return the benchmark of a run, from its original folder, this machine's build, or the run's own questions.

    The most complete copy is preferred: a colleague may have run one that was packed without some of its files. Only
    the first two have all images, unless the run was packed with them.

    Raises:
        DataError: None of them exists with the questions of the run.
    """
    fault = ""
    copies: list[Benchmark] = []
    for folder in _places(use, run):
        try:
            benchmark = Benchmark(folder)
        except DataError as error:
            fault = fault or str(error)
            continue
        if use.matches_build(benchmark.manifest.version, benchmark.manifest.questions):
            copies.append(benchmark)
            continue
        fault = fault or (
            f"{folder} is version {benchmark.manifest.version} of {use.name}, but the run used {use.version}; "
            "build that version again to score it"
        )
    if not copies:
        raise DataError(fault)
    return max(copies, key=_record_file_count)  # of equal ones, the first


def _record_file_count(benchmark: Benchmark) -> int:
    """Return how many of the files of records that a build lists are in its folder."""
    names = benchmark.manifest.files
    return sum(record_file(benchmark.folder, name).exists() for name in names)


def _places(use: BenchmarkUse, run: Path) -> Iterator[Path]:
    """Yield the folders that may contain the benchmark of a run, in order of preference.

    These are the folder that the run used, the usual folder of the benchmark, and the copy of its questions in the run.
    """
    yield Path(use.folder)
    for folder in (benchmark_folder(use.name), questions_folder(run, use.name)):
        if os.access(folder / MANIFEST, os.R_OK):
            yield folder


class RunImages(JoinedImages):
    """The images of one benchmark of a run and of its few-shot examples, from any folder that still has them.

    Examples:
        >>> from snellen.plugin_api import read_manifest
        >>> results = sn.evaluate("snellen:oracle", "eyechart/colour", limit=4, report=False)
        >>> folder = results.runs[0].folder
        >>> [use] = read_manifest(folder).benchmarks
        >>> image = next(sn.load_benchmark("eyechart/colour").benchmark.samples()).images[0]
        >>> len(RunImages(use, folder).read(image)) > 0
        True
    """

    def __init__(self, use: BenchmarkUse, run: Path) -> None:
        """Open the images of a benchmark and of its solved examples, from all folders that may have them."""
        folders = list(_places(use, run))
        if use.examples_from:
            folders.append(Path(use.examples_from))
        self._folders = [ImageStore(folder / "images") for folder in folders]
        super().__init__(self._folders)

    def path(self, image: ImageRef) -> Path | None:
        """Return the file of an image, whose name has no suffix.

        Returns:
            None if no folder has it, or if it is a degraded image, which is not stored.
        """
        for folder in self._folders:
            path = folder.path(image.digest)
            if path.exists():
                return path
        return None
