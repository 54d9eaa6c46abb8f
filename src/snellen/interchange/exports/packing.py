"""Runs as one file to be sent: what they asked, what was answered and how that was scored; no gold unless asked for.

Golds stand in the answers, in reports and in what judges were asked; all of these stay behind together. A reply that
was scored as right tells the gold of its question all the same.
"""

from __future__ import annotations

import tempfile
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec import Struct

from snellen import registry
from snellen.common.images import ImageStore
from snellen.errors import DataError, StoreError
from snellen.runs.own_questions import (
    RunPictures,
    keep_questions,
    questions_folder,
    reopen_benchmark,
)
from snellen.runs.run_folder import RUN_MANIFEST, BenchmarkUse, journals, read_manifest
from snellen.scoring.answers import answers_file, has_answers
from snellen.scoring.kept_scoring import SCORING_FILES, scoring_folder, scoring_names

WITH_GOLD = ("report.html", "judge-*/*", "scores/*/report.html")


class PackedRuns(Struct, frozen=True):
    """What was packed."""

    path: Path
    files: int
    pictures: int
    answers: tuple[str, ...]
    """The benchmarks whose answers are in it."""
    left_out: tuple[str, ...]
    """What stayed behind, since it holds golds: `answers`, and paths below the folders of runs."""


def pack_runs(
    runs: Sequence[Path], path: Path, *, pictures: bool = False, answers: bool = False
) -> PackedRuns:
    """Write runs into a zip file, each in a folder of its own: its journals, all its scorings, its questions.

    With `pictures` those of the questions too; with `answers` their golds, the reports and the judges' exchanges, by
    which it can be scored again elsewhere. Unpacked, each is a run like any other.

    Raises StoreError for a folder that is not a run or a file that cannot be written, DataError for pictures or answers
    that are asked for and not at hand, and for runs whose folders have the same name.
    """
    names = [run.resolve().name for run in runs]
    if twice := [name for name in names if names.count(name) > 1]:
        raise DataError(f"two of these runs are called {twice[0]}; pack them into different files")
    packed: dict[str, Path] = {}
    golds: list[str] = []
    left_out: list[str] = [] if answers else ["answers"]
    n_pictures = 0
    with tempfile.TemporaryDirectory() as staging:
        for run, name in zip(runs, names, strict=True):
            manifest = read_manifest(run)
            with_gold = {
                f"{name}/{file.relative_to(run).as_posix()}": file for file in _gold_files(run)
            }
            packed |= {f"{name}/{file.relative_to(run).as_posix()}": file for file in _records(run)}
            packed |= with_gold if answers else {}
            left_out += [] if answers else with_gold
            for use in manifest.benchmarks:
                folder = questions_folder(Path(staging) / name, use.name)
                n_pictures += _write_questions(use, run, folder, pictures=pictures)
                if answers and (file := _answers(use, run)):
                    packed[(folder.relative_to(staging) / file.name).as_posix()] = file
                    golds.append(use.name)
        packed |= {
            file.relative_to(staging).as_posix(): file
            for file in Path(staging).rglob("*")
            if file.is_file()
        }
        _write_zip(path, packed)
    return PackedRuns(path, len(packed), n_pictures, tuple(dict.fromkeys(golds)), tuple(left_out))


def _gold_files(run: Path) -> list[Path]:
    return sorted(file for pattern in WITH_GOLD for file in run.glob(pattern))


def _records(run: Path) -> Iterator[Path]:
    """Yield the files of a run that disclose ground truth only where a reply was scored as correct.

    Besides what was sent, received and scored, these are the files registered in the group `packed_files`, such as an
    audit or labels by people.
    """
    yield run / RUN_MANIFEST
    yield from journals(run)
    for file_name in registry.loadable("packed_files").values():
        if (run / file_name).exists():
            yield run / file_name
    for name in scoring_names(run):
        for part in SCORING_FILES:
            file = scoring_folder(run, name) / part
            if file.exists():
                yield file


def _write_questions(use: BenchmarkUse, run: Path, folder: Path, *, pictures: bool) -> int:
    """The questions as asked, with their pictures if wanted, and how many pictures those are."""
    benchmark, selection = reopen_benchmark(use, run), use.selection
    keep_questions(benchmark, selection, folder)
    if not pictures:
        return 0
    store, source = ImageStore(folder / "images"), RunPictures(use, run)
    images = {
        image.digest: image for sample in benchmark.samples(selection) for image in sample.images
    }
    for digest, image in images.items():
        store.path(digest).parent.mkdir(parents=True, exist_ok=True)
        store.path(digest).write_bytes(source.read(image))
    return len(images)


def _answers(use: BenchmarkUse, run: Path) -> Path | None:
    """The file of answers; None where they are hidden."""
    folder = reopen_benchmark(use, run).folder
    if not has_answers(folder):
        raise DataError(
            f"the answers of {use.name} are not here; build it again, or pack the run without --answers"
        )
    return answers_file(folder)


def _write_zip(path: Path, files: dict[str, Path]) -> None:
    part = path.with_name(path.name + ".part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED) as archive:
            for place, file in sorted(files.items()):
                archive.write(file, place)
        part.replace(path)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise StoreError(f"{path} cannot be written ({error.strerror or error})") from None
