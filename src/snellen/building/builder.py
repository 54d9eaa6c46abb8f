"""Build a benchmark from its source: questions and answers in separate files, each image stored once."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from snellen.building.benchmark import (
    DECISIONS,
    EXAMPLES,
    HISTORY,
    INDISTINGUISHABLE,
    MANIFEST,
    ORIGINS,
    PICTURES,
    SAMPLES,
    SET_APART,
    Benchmark,
    BenchmarkManifest,
    BuildInfo,
    file_digest,
    first_samples,
)
from snellen.building.checking import DraftChecker, Question
from snellen.building.examples import ExampleDrawer
from snellen.building.older_builds import FORMAT
from snellen.building.recipe import (
    BuildInputs,
    BuildStats,
    Drafts,
    Recipe,
    reformulate,
)
from snellen.building.replaced_builds import OWN_FILES, check_replacement
from snellen.building.skipped_rows import SoundRows
from snellen.building.source_state import keep_state, source_state
from snellen.building.staging import staging_folder
from snellen.catalogue import BenchmarkSpec, entry_file, entry_folder
from snellen.common.decoding import limited_pixels
from snellen.common.drafts import PARAMS, Draft
from snellen.common.images import ImageStore
from snellen.common.paths import benchmark_folder, check_benchmark_name
from snellen.errors import DataError, HookError
from snellen.formats.record_files import ENDING, RecordWriter, Stored, sort_by_group
from snellen.readers.calling import find_reader
from snellen.records import (
    Formulation,
    History,
    IndistinguishableQuestion,
    SourceImages,
    SourceRows,
)

# How a manifest names the origin of files that were not downloaded.
BESIDE_ENTRY = "files beside its entry"
WITH_SNELLEN = "Snellen itself"
ANSWERS = "answers.jsonl.gz"
DEFAULT = Recipe()
NO_INPUTS = BuildInputs()

Progress = Callable[[int], object]
"""Called with the number of questions built so far."""


def build_benchmark(
    spec: BenchmarkSpec,
    *,
    source: Path | None = None,
    to: Path | None = None,
    recipe: Recipe = DEFAULT,
    inputs: BuildInputs = NO_INPUTS,
    progress: Progress | None = None,
) -> Benchmark:
    """Build a benchmark from its source, replacing an earlier build of it.

    The folder appears completely or not at all: after an error, an earlier build is as it was. The same source and
    settings give the same files.

    Args:
        spec: The benchmark.
        source: Folder with the user's files. By default the folder of the entry, if it contains the files.
        to: Folder to create. By default under $SNELLEN_HOME.
        recipe: Settings that override those of the entry.
        inputs: The writer of distractors, decisions about questions, a limit of samples, and the like.
        progress: Called with the number of questions built so far.

    Raises:
        DataError: A row is wrong (the message names file and line), the source does not fit the entry, or the build may
            not replace the earlier one.

    Examples:
        >>> from snellen.plugin_api import entries, open_benchmark
        >>> spec = entries()["eyechart/colour"]
        >>> built = build_benchmark(spec, to=Path("colour"))
        >>> built.count() == open_benchmark("eyechart/colour").count()
        True
    """
    check_benchmark_name(spec.name)
    reader = find_reader(spec.source.reader)
    target = to or benchmark_folder(spec.name)
    _check_target(target)
    with staging_folder(target) as folder, _naming_entry(spec):
        files = source or entry_folder(spec)
        state = source_state(spec, source)
        read_source: Drafts = partial(reader, spec.source.params, files)
        usable_rows = SoundRows(read_source) if recipe.lenient else None
        stats = BuildStats()
        drafts = reformulate(
            spec,
            usable_rows or read_source,
            recipe,
            inputs.writer,
            stats,
            inputs.embedder,
            inputs.decisions,
        )
        if inputs.limit is not None:
            drafts = _first_by_hash(list(drafts), inputs.limit)
        examples = ExampleDrawer(recipe.examples, spec, recipe.seed)

        _write_records(inputs.decisions.values(), folder / DECISIONS)
        manifest = _write_questions(
            spec, drafts, examples, folder, progress, is_part=inputs.limit is not None
        )
        if entry_folder(spec) and not recipe.distractors:
            _check_formulation(spec, manifest.spec.formulation)

        warnings = [*manifest.warnings, *stats.notes]
        if usable_rows:
            warnings.extend(usable_rows.note())
        build_info = BuildInfo(
            read=stats.read,
            complete=stats.complete,
            recipe=changed_settings(recipe),
            writer=inputs.writer.name if inputs.writer else "",
            rejected=stats.rejected,
            chance=stats.chance,
            limit=inputs.limit or 0,
            origin=inputs.origin or _origin_of_files(source, entry_folder(spec)),
        )
        manifest = replace(manifest, warnings=tuple(warnings), build_info=build_info)
        if not inputs.may_replace:
            check_replacement(target, manifest)
        content = msgspec.json.format(msgspec.json.encode(manifest), indent=2)
        (folder / MANIFEST).write_bytes(content)
    if target == benchmark_folder(spec.name):
        keep_state(spec.name, state)
    return Benchmark(target)


def _origin_of_files(source: Path | None, folder_of_entry: Path | None) -> str:
    """Return how a manifest names the origin of files that were not downloaded.

    Args:
        source: The user's folder with the files; None if the user named none.
        folder_of_entry: The folder of the entry, if it contains the files.
    """
    if source:
        return OWN_FILES
    if folder_of_entry:
        return BESIDE_ENTRY
    return WITH_SNELLEN


def _check_target(target: Path) -> None:
    """Raise DataError if a path is a file, or a folder that has files but no benchmark, which a build must not replace."""
    if target.exists() and not target.is_dir():
        raise DataError(f"{target} is a file; choose another folder")
    # The folder may be missing for a moment while another build replaces it. If a parent of it is a
    # file, `staging_folder` reports this.
    with suppress(FileNotFoundError, NotADirectoryError):
        if any(target.iterdir()) and not (target / MANIFEST).exists():
            raise DataError(f"{target} exists and is not a benchmark; choose another folder")


@contextmanager
def _naming_entry(spec: BenchmarkSpec) -> Iterator[None]:
    """Add the name of the entry's file to errors about its parameters that are raised inside the
    block.
    """
    try:
        yield
    except DataError as error:
        if str(error).startswith(PARAMS):
            raise DataError(f"{entry_file(spec) or spec.name}: {error}") from None
        raise
    except HookError as error:
        raise HookError(f"{entry_file(spec) or spec.name}: {error}") from error


def _check_formulation(spec: BenchmarkSpec, built: Formulation) -> None:
    """Raise DataError if the formulation in an entry is not that of most of its questions.

    The formulation says how questions are asked: `choice` (with options), `text` (open) or
    `dialogue`.
    """
    if built == spec.formulation:
        return
    forms = {"choice": "have options", "text": "have no options", "dialogue": "come in rounds"}
    raise DataError(
        f"{entry_file(spec)}: formulation = {spec.formulation!r}, but most of its questions {forms[built]}; set "
        f"it to {built!r}, or correct the options in the entry"
    )


def _first_by_hash(drafts: Sequence[Draft], limit: int) -> Iterator[Draft]:
    """Yield only the samples that a run with a limit evaluates, so that no other images are read.

    Args:
        drafts: All samples. The notes of all of them are given to the first one that is yielded, so
            that none is lost.
        limit: The number of samples.
    """
    chosen = set(first_samples([draft.id for draft in drafts], limit))
    notes: list[str] = []
    for draft in drafts:
        notes.extend(draft.notes)
    for draft in drafts:
        if draft.id in chosen:
            yield replace(draft, notes=tuple(notes))
            notes = []


def changed_settings(recipe: Recipe) -> dict[str, Any]:
    """Return the settings of a build that differ from their defaults, by name; an empty dictionary
    if none does.
    """
    changed = {}
    for name, value in msgspec.to_builtins(recipe).items():
        if value != getattr(DEFAULT, name):
            changed[name] = value
    return changed


def _write_questions(
    spec: BenchmarkSpec,
    drafts: Iterable[Draft],
    examples: ExampleDrawer,
    folder: Path,
    progress: Progress | None,
    *,
    is_part: bool,
) -> BenchmarkManifest:
    """Write the questions, answers and images of a benchmark, and return its manifest.

    Args:
        spec: The benchmark.
        drafts: Its samples as the reader made them, with all distractors.
        examples: Sets few-shot examples apart, which are in a file of their own.
        folder: The folder to write to.
        progress: Called with the number of samples written so far.
        is_part: Whether only some samples are built, so that the published counts do not apply.

    Returns:
        The manifest. It has two digests, in the order of the drafts: that of the version covers questions, answers and
        examples, and the other one the questions alone.
    """
    checker = DraftChecker(spec, ImageStore(folder / "images"))
    version_digest = hashlib.sha256()
    questions_digest = hashlib.sha256()
    # Bad questions are set apart before examples are drawn, so that no example is one of them.
    good_questions = checker.without_set_apart(_split_drafts(drafts, checker))
    evaluated_questions = examples.without_examples(good_questions)
    with (
        limited_pixels(),
        RecordWriter(folder / SAMPLES) as samples,
        RecordWriter(folder / ANSWERS) as answers,
        RecordWriter(folder / HISTORY) as histories,
        RecordWriter(folder / ORIGINS) as origins,
        RecordWriter(folder / PICTURES) as images,
    ):
        for draft, sample, sample_answers in evaluated_questions:
            samples.write(sample)
            for answer in sample_answers:
                answers.write(answer)
            images.write(SourceImages(sample.id, checker.names(draft)))
            if draft.replies:
                histories.write(History(sample.id, draft.replies))
            if draft.rows:
                origins.write(SourceRows(sample.id, draft.rows, draft.cells))

            content = (sample, sample_answers, draft.replies)
            version_digest.update(msgspec.json.encode(content, order="deterministic"))
            without_answers = (sample, draft.replies)
            questions_digest.update(msgspec.json.encode(without_answers, order="deterministic"))
            checker.count(sample, sample_answers, draft)
            if progress:
                progress(checker.samples)
    if not checker.histories:
        (folder / HISTORY).unlink()
    if not checker.origins:
        (folder / ORIGINS).unlink()

    _write_records(checker.set_apart, folder / SET_APART)
    example_records = list(examples.examples())
    _write_records(example_records, folder / EXAMPLES)
    for example in example_records:
        version_digest.update(msgspec.json.encode(example, order="deterministic"))
        checker.count_example(example)
    sort_by_group(folder / SAMPLES)
    n_indistinguishable = _write_indistinguishable(
        checker.indistinguishable(), folder / INDISTINGUISHABLE
    )
    record_files = sorted(folder.glob(f"*{ENDING}"))
    return BenchmarkManifest(
        format=FORMAT,
        spec=replace(spec, formulation=checker.formulation()),
        version=version_digest.hexdigest()[:16],
        counts=checker.counts(),
        warnings=checker.warnings(is_part),
        tags=checker.tag_counts(),
        questions=questions_digest.hexdigest()[:16],
        indistinguishable=n_indistinguishable,
        files={path.name: file_digest(path) for path in record_files},
        answer_tags=checker.answer_tags(),
    )


def _split_drafts(drafts: Iterable[Draft], checker: DraftChecker) -> Iterator[Question]:
    """Split each draft into what a model is shown (the sample) and the correct answers, and yield all three.

    Nothing is yielded after the first draft with a fault. The others are still checked, and WrongRowsError names all
    faults at the end.
    """
    for draft in checker.sound(drafts):
        sample, answers = checker.split(draft)
        yield draft, sample, answers


def _write_records(records: Collection[Stored], path: Path) -> None:
    """Write records to a file. If there are no records, no file is written."""
    if not records:
        return
    with RecordWriter(path) as rows:
        for record in records:
            rows.write(record)


def _write_indistinguishable(questions: Iterable[IndistinguishableQuestion], path: Path) -> int:
    """Write questions to a file, and return their number.

    If there are no questions, no file is left.
    """
    count = 0
    with RecordWriter(path) as rows:
        for question in questions:
            rows.write(question)
            count += 1
    if not count:
        path.unlink()
    return count
