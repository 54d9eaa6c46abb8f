"""Runs, or a benchmark, as one file to be sent.

A run is packed with what it asked, what was answered and how that was scored; no gold unless asked for.

Golds stand in the answers, in reports and in what judges were asked; all of these stay behind together. A reply that
was scored as right tells the gold of its question all the same.
"""

from __future__ import annotations

import hashlib
import tempfile
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path, PurePosixPath

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from snellen import registry
from snellen.building.benchmark import EXAMPLES, MANIFEST, SAMPLES, Benchmark
from snellen.callers import for_caller, setting
from snellen.common.foreign import open_file
from snellen.common.images import ImageStore
from snellen.common.paths import slug
from snellen.errors import DataError, SnellenError, StoreError
from snellen.formats.packed_files import ANSWERS_PREFIX, read_packed
from snellen.formats.record_files import ENDING
from snellen.interchange.signing import BLOCK, check_key, sign_folders
from snellen.records import ImageRef
from snellen.runs.own_questions import (
    RunImages,
    questions_folder,
    reopen_benchmark,
    save_questions,
)
from snellen.runs.run_folder import RUN_MANIFEST, BenchmarkUse, journals, read_manifest
from snellen.scoring.answers import answers_file, has_answers
from snellen.scoring.kept_scoring import SCORING_FILES, scoring_folder, scoring_names

WITH_GOLD = ("report.html", "judge-*/*", "scores/*/report.html")


class PackedRuns(Struct, frozen=True):
    """What was packed."""

    path: Path
    files: int
    images: int
    answers: tuple[str, ...]
    """The benchmarks whose answers are in it."""
    left_out: tuple[str, ...]
    """What stayed behind, since it holds golds: `answers`, and paths below the folders of runs."""


def pack_runs(
    runs: Sequence[Path],
    path: Path,
    *,
    images: bool = False,
    answers: bool = False,
    sign: Path | None = None,
    may_replace: bool = True,
) -> PackedRuns:
    """Write runs into a zip file, each in a folder of its own: its journals, all its scorings, its questions.

    Unpacked, each is a run like any other.

    Args:
        runs: The folders of the runs.
        path: The file to write.
        images: Whether the images of the questions go with them.
        answers: Whether the ground truths go with them, and also reports and the exchanges of judges, which contain
            ground truths. With them, a run can be scored again elsewhere.
        sign: File of an SSH key with which each run is signed (`snellen.interchange.signing`).
        may_replace: Whether an earlier file may be replaced that has something else, or answers that this one lacks.

    Raises:
        StoreError: A folder is not a run, or the file cannot be written.
        DataError: Images or answers are wanted and missing, two runs have folders of the same name, the key cannot
            be used, or an earlier file may not be replaced.

    Examples:
        >>> results = sn.evaluate("snellen:oracle", "eyechart/colour", limit=4, report=False)
        >>> folder = results.runs[0].folder
        >>> packed = pack_runs([folder], Path("runs.zip"))
        >>> Path("runs.zip").exists()
        True
    """
    if sign is not None:
        check_key(sign)
    runs_by_name: dict[str, Path] = {}
    for run in runs:
        name = run.resolve().name
        if name in runs_by_name:
            raise DataError(f"two of these runs are called {name}; pack them into different files")
        runs_by_name[name] = run

    packed: dict[str, Path] = {}
    """The files to pack, by their path in the archive."""
    with_answers: dict[str, None] = {}
    """Names of benchmarks whose answers are packed."""
    left_out: list[str] = []
    n_images = 0
    with tempfile.TemporaryDirectory() as staging:
        for name, run in runs_by_name.items():
            manifest = read_manifest(run)
            for file in _records(run):
                packed[f"{name}/{file.relative_to(run).as_posix()}"] = file

            has_answers_here = any(_are_answers_here(use, run) for use in manifest.benchmarks)
            if has_answers_here and not answers and "answers" not in left_out:
                left_out.insert(0, "answers")
            for file in _files_with_answers(run):
                inner_path = f"{name}/{file.relative_to(run).as_posix()}"
                if answers:
                    packed[inner_path] = file
                else:
                    left_out.append(inner_path)

            for use in manifest.benchmarks:
                folder = questions_folder(Path(staging) / name, use.name)
                n_images += _write_questions(use, run, folder, images=images)
                answer_file = _answers(use, run) if answers else None
                if answer_file:
                    inner_folder = folder.relative_to(staging)
                    packed[(inner_folder / answer_file.name).as_posix()] = answer_file
                    with_answers[use.name] = None
        for file in Path(staging).rglob("*"):
            if file.is_file():
                packed[file.relative_to(staging).as_posix()] = file
        _write_zip(path, packed, sign, may_replace=may_replace)
    return PackedRuns(path, len(packed), n_images, tuple(with_answers), tuple(left_out))


OPEN_PARTS = (SAMPLES, EXAMPLES)
"""Files of a benchmark that tell nothing of the answers to its questions. Few-shot examples are never asked."""


class PackedBenchmark(Struct, frozen=True):
    """What was packed."""

    path: Path
    folder: str
    """The folder that unpacking makes."""
    images: int
    has_answers: bool


def pack_benchmark(
    benchmark: Benchmark,
    path: Path,
    *,
    answers: bool = False,
    sign: Path | None = None,
    may_replace: bool = True,
) -> PackedBenchmark:
    """Write a built benchmark into a zip file that is a built benchmark again where it is unpacked.

    Args:
        benchmark: The benchmark.
        path: The file to write.
        answers: Whether the answers go with it, and all files that tell something of them. Without them it can be run
            elsewhere, and the runs are scored where the answers are.
        sign: File of an SSH key with which the benchmark is signed.
        may_replace: Whether an earlier file may be replaced that has something else, or answers that this one lacks.

    Raises:
        DataError: The answers are asked for and hidden, the key cannot be used, or an earlier file may not be replaced.
        StoreError: The file cannot be written.
    """
    if sign is not None:
        check_key(sign)
    if answers and answers_file(benchmark.folder) is None:
        raise DataError(f"the answers of {benchmark.name} are hidden; pack it without them")
    inner_folder = slug(benchmark.name)
    manifest = benchmark.manifest
    # The path of the source is about this machine alone.
    build_info = replace(manifest.build_info, origin=Path(manifest.build_info.origin).name)
    manifest = replace(manifest, build_info=build_info)
    if not answers:
        open_files = {name: digest for name, digest in manifest.files.items() if name in OPEN_PARTS}
        counts = replace(manifest.counts, answers=0)
        manifest = replace(manifest, counts=counts, files=open_files, answer_tags=())
    packed: dict[str, Path] = {}
    for file in sorted(benchmark.folder.glob(f"*{ENDING}")):
        if answers or file.name in OPEN_PARTS:
            packed[f"{inner_folder}/{file.name}"] = file
    images = benchmark.folder / "images"
    n_images = 0
    for file in sorted(images.rglob("*")):
        if file.is_file():
            n_images += 1
            packed[f"{inner_folder}/images/{file.relative_to(images).as_posix()}"] = file
    with tempfile.TemporaryDirectory() as staging:
        manifest_file = Path(staging) / MANIFEST
        manifest_file.write_bytes(msgspec.json.format(msgspec.json.encode(manifest), indent=2))
        packed[f"{inner_folder}/{MANIFEST}"] = manifest_file
        _write_zip(path, packed, sign, may_replace=may_replace)
    return PackedBenchmark(path, inner_folder, n_images, answers)


def _files_with_answers(run: Path) -> list[Path]:
    """Return the files of a run that contain ground truths: reports, and the exchanges of judges."""
    files: set[Path] = set()
    for pattern in WITH_GOLD:
        files.update(run.glob(pattern))
    return sorted(files)


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


def _write_questions(use: BenchmarkUse, run: Path, folder: Path, *, images: bool) -> int:
    """Write the questions that a run asked of a benchmark, with their images if wanted.

    Returns:
        The number of images.
    """
    benchmark = reopen_benchmark(use, run)
    save_questions(benchmark, use.selection, folder)
    if not images:
        return 0
    image_by_digest: dict[str, ImageRef] = {}
    for sample in benchmark.samples(use.selection):
        for image in sample.images:
            image_by_digest[image.digest] = image
    store = ImageStore(folder / "images")
    source = RunImages(use, run)
    for digest, image in image_by_digest.items():
        path = store.path(digest)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(source.read(image))
    return len(image_by_digest)


def _answers(use: BenchmarkUse, run: Path) -> Path | None:
    """The file of answers; None where they are hidden."""
    folder = reopen_benchmark(use, run).folder
    if not has_answers(folder):
        without = for_caller("--answers", "answers")
        raise DataError(
            f"the answers of {use.name} are not here; build it again, or pack the run without {without}"
        )
    return answers_file(folder)


def _are_answers_here(use: BenchmarkUse, run: Path) -> bool:
    """Return whether this machine has the answers to a benchmark of a run. An author may have kept them."""
    try:
        return has_answers(reopen_benchmark(use, run).folder)
    except SnellenError:
        return False


def _check_replaced(path: Path, inner_paths: Iterable[str]) -> None:
    """Raise DataError if a file would be replaced that has other content than the new one, or more answers.

    Args:
        path: The file.
        inner_paths: Paths in the new archive.
    """
    if not path.exists():
        return
    earlier = read_packed(path)
    write_elsewhere = f"write another file ({for_caller('-o FILE.zip', 'path')})"
    overwrite = f"replace this one ({setting('force', True)})"
    if earlier is None:
        raise DataError(
            f"{path} exists and was not packed by Snellen; {write_elsewhere}, or {overwrite}"
        )
    new_paths = [PurePosixPath(inner_path) for inner_path in inner_paths]
    lost_folders = earlier.folders - {new_path.parts[0] for new_path in new_paths}
    if lost_folders:
        raise DataError(
            f"{path} exists and has {', '.join(sorted(lost_folders))}; {write_elsewhere}, or {overwrite}"
        )
    has_answers = any(new_path.name.startswith(ANSWERS_PREFIX) for new_path in new_paths)
    if earlier.has_answers and not has_answers:
        raise DataError(
            f"{path} has the answers, and this file would not; keep them "
            f"({for_caller('--answers', 'answers=True')}), {write_elsewhere}, or {overwrite}"
        )


def _write_zip(path: Path, files: dict[str, Path], key: Path | None, *, may_replace: bool) -> None:
    """Write files into an archive at these places, and sign each of its folders if there is a key."""
    if not may_replace:
        _check_replaced(path, files)
    part = path.with_name(path.name + ".part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED) as archive:
            digest_by_place = {}
            for place, file in sorted(files.items()):
                digest_by_place[place] = _add_file(archive, place, file)
            if key is not None:
                for place, content in sign_folders(digest_by_place, key).items():
                    archive.writestr(place, content)
        part.replace(path)
    except DataError:
        part.unlink(missing_ok=True)
        raise
    except OSError as error:
        part.unlink(missing_ok=True)
        raise StoreError(f"{path} cannot be written ({error.strerror or error})") from None


def _add_file(archive: zipfile.ZipFile, inner_path: str, file: Path) -> str:
    """Write a file into an archive, and return the digest of what was written: a journal may grow meanwhile."""
    entry = zipfile.ZipInfo.from_file(file, inner_path, strict_timestamps=False)
    entry.compress_type = zipfile.ZIP_DEFLATED
    digest = hashlib.sha256()
    with open_file(file) as source, archive.open(entry, "w", force_zip64=True) as target:
        while block := source.read(BLOCK):
            digest.update(block)
            target.write(block)
    return digest.hexdigest()
