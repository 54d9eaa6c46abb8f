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
SELECTION = "asked"
"""Key in the manifest of a copy, among the build settings, for the selection of samples that was copied."""


def questions_folder(run: Path, benchmark: str) -> Path:
    """Return the folder in a run for the questions of a benchmark.

    Raises:
        DataError: The name of the benchmark would lead out of the run's folder, such as `../x`.
    """
    check_benchmark_name(benchmark, f"{run}: ")
    return run / QUESTIONS / benchmark


def save_questions(benchmark: Benchmark, selection: Selection, folder: Path) -> None:
    """Write the selected samples of a benchmark, and its manifest, into a folder, unless they are there already.

    Args:
        benchmark: The benchmark.
        selection: Which of its samples to write.
        folder: The folder for them, in the folder of a run.

    Raises:
        StoreError: The folder cannot be written.
    """
    selection_table: dict[str, Any] = {"where": selection.where, "limit": selection.limit}
    if selection.part is not None:
        selection_table["part"] = msgspec.to_builtins(selection.part)
    manifest = benchmark.manifest
    with suppress(DataError):
        saved = Benchmark(folder).manifest
        has_same_version = saved.version == manifest.version
        if has_same_version and saved.build_info.recipe.get(SELECTION) == selection_table:
            return

    unfinished_file = folder / f"{SAMPLES}.part"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        counts = _write_samples(benchmark, selection, unfinished_file)
        unfinished_file.replace(folder / SAMPLES)
    except OSError as error:
        unfinished_file.unlink(missing_ok=True)
        raise StoreError(
            f"{folder}: cannot save the questions ({error.strerror or error})"
        ) from None
    recipe = {**manifest.build_info.recipe, SELECTION: selection_table}
    manifest_of_copy = replace(
        manifest,
        counts=counts,
        build_info=replace(manifest.build_info, recipe=recipe),
        files={**manifest.files, SAMPLES: file_digest(folder / SAMPLES)},
    )
    content = msgspec.json.format(msgspec.json.encode(manifest_of_copy), indent=1)
    write_atomically(folder / MANIFEST, content)


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

    Args:
        use: The benchmark, as the manifest of the run describes it.
        run: The folder of the run.

    Raises:
        DataError: None of them exists with the questions of the run.
    """
    first_fault = ""
    copies: list[Benchmark] = []
    for folder in _candidate_folders(use, run):
        try:
            benchmark = Benchmark(folder)
        except DataError as error:
            first_fault = first_fault or str(error)
            continue
        manifest = benchmark.manifest
        if use.matches_build(manifest.version, manifest.questions):
            copies.append(benchmark)
        elif not first_fault:
            first_fault = (
                f"{folder} is version {manifest.version} of {use.name}, but the run used {use.version}; build that "
                "version again to score it"
            )
    if not copies:
        raise DataError(first_fault)
    return max(copies, key=_count_record_files)  # the first of several with the same count


def _count_record_files(benchmark: Benchmark) -> int:
    """Return how many of the files that the manifest of a build lists are in its folder."""
    count = 0
    for name in benchmark.manifest.files:
        if record_file(benchmark.folder, name).exists():
            count += 1
    return count


def _candidate_folders(use: BenchmarkUse, run: Path) -> Iterator[Path]:
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
        folders = list(_candidate_folders(use, run))
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
