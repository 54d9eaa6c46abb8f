"""Build benchmarks: of the catalogue, from questions of the user, or from annotations.

Python and the command line share these functions. Questions of the user are built in two steps, so that the command line
can show between them what was recognised: `find_own` or `find_annotations`, then `build_own` or `build_reformed`.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any

from msgspec.structs import replace

from snellen.building.benchmark import Benchmark
from snellen.building.builder import Progress, build_benchmark
from snellen.building.recipe import Decisions, Recipe
from snellen.building.reforming import reform_source, with_questions
from snellen.building.spec import BuildSpec, ReformSpec
from snellen.catalogue import (
    BenchmarkSpec,
    SourceSpec,
    dimension_titles,
    entries,
    suite_members,
)
from snellen.catalogue.entries import with_params
from snellen.catalogue.forms import recognised_form, table_forms, titles_of_forms
from snellen.catalogue.places import HubPlace
from snellen.catalogue.suites import params_with
from snellen.common.paths import check_benchmark_name
from snellen.errors import DataError, ModelError
from snellen.models.loading import load_model
from snellen.recognition.own_sources import (
    ENDING,
    Decide,
    OwnSource,
    entry_of,
    own_source,
    refuse_doubt,
    telling_of_rows,
    write_entry,
    write_rows,
)
from snellen.recognition.recognising import TableSettings
from snellen.reformulation.distractors import PictureEmbedder
from snellen.registry import unknown
from snellen.runs.distractor_writer import ModelDistractorWriter
from snellen.runs.finding import Announce, open_benchmark, silent
from snellen.scoring.run_scoring import check_metrics
from snellen.verification.verify import Solvers, verify

# --- benchmarks of the catalogue ---------------------------------------------------------------------------------------


def build_entry(
    entry: BenchmarkSpec, spec: BuildSpec, *, progress: Progress | None = None
) -> Benchmark:
    """Build one benchmark of the catalogue, from files of the user or from downloaded ones.

    Raises:
        DataError: The files cannot be fetched, a row is wrong, or a setting does not apply.
        ModelError: The writer of distractors does not reply. What it wrote is kept.
    """
    settings = spec.entry
    if settings.revision and not settings.hub:
        raise DataError("--revision is of the hub's dataset; name --hub too")
    entry = _with_table_settings(entry, spec)
    decisions: Decisions = settings.decisions or {}
    if isinstance(decisions, (str, Path)):
        decisions = open_benchmark(str(decisions)).decisions()
    return _build_fetched(entry, spec, recipe=spec.recipe, decisions=decisions, progress=progress)


def check_table_settings(entry: BenchmarkSpec, spec: BuildSpec) -> None:
    """Raise DataError for `answers` or `lenient` if the entry is not of a table in a suite's form."""
    if not (spec.answers or spec.lenient):
        return
    if entry.source.reader in {form.reader for form in table_forms()}:
        return
    flags = []
    if spec.answers:
        flags.append("--answers")
    if spec.lenient:
        flags.append("--lenient")
    given = " and ".join(flags)
    raise DataError(
        f"{given}: for `snellen build FILE` and {titles_of_forms()}, but {entry.name} has an entry; correct its "
        f"rows, or leave {given} out"
    )


def _with_table_settings(entry: BenchmarkSpec, spec: BuildSpec) -> BenchmarkSpec:
    """Return an entry with `answers` and `lenient`, which only readers of tables in a suite's form take."""
    check_table_settings(entry, spec)
    if not (spec.answers or spec.lenient):
        return entry
    answers = Path(spec.answers) if spec.answers else None
    params = params_with(entry.source.params, answers=answers, lenient=spec.lenient)
    return replace(entry, source=replace(entry.source, params=params))


def _build_fetched(
    entry: BenchmarkSpec,
    spec: BuildSpec,
    *,
    recipe: Recipe,
    decisions: Decisions = MappingProxyType({}),
    progress: Progress | None,
) -> Benchmark:
    """Build an entry from the user's files, from its places, or from what comes with Snellen."""
    settings = spec.entry
    folder = Path(settings.source) if settings.source else None
    origin = ""
    if settings.hub or not entry.source.embedded:
        from snellen.fetching.sources import source_to_build

        entry, folder, origin = source_to_build(
            entry, folder, settings.revision, hub=settings.hub, settings=settings.params
        )
    else:
        entry = with_params(entry, settings.params)
    with _distractor_writer(spec.writer) as writer:
        return build_benchmark(
            entry,
            source=folder,
            to=Path(spec.to) if spec.to else None,
            recipe=recipe,
            writer=writer,
            progress=progress,
            origin=origin,
            decisions=decisions,
        )


@contextmanager
def _distractor_writer(model: Any) -> Iterator[ModelDistractorWriter | None]:
    """Open a model, by its string or an object, as the writer of distractors."""
    if model is None:
        yield None
        return
    with ModelDistractorWriter(load_model(model)) as writer:
        yield writer


# --- questions of the user ---------------------------------------------------------------------------------------------


@contextmanager
def rows_as_file(rows: Any, spec: BuildSpec) -> Iterator[tuple[Path, BuildSpec]]:
    """Write rows in memory to a file for the time of the block, and return it with the settings that fit it.

    Errors in the block name rows by their numbers instead of lines of the file.

    Args:
        rows: A list of dicts, a data frame or a `datasets.Dataset`.
        spec: The settings. Image paths are relative to the current folder unless they name another one.

    Raises:
        DataError: The benchmark has no name.
    """
    name = spec.table.name or Path(spec.to).name
    if not name:
        raise DataError("rows in memory have no name; give the benchmark one: name=...")
    images = spec.table.images or str(Path.cwd())
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"{name}.jsonl"
        write_rows(rows, path)
        with telling_of_rows(Path(folder)):
            yield path, replace(spec, table=replace(spec.table, images=images))


def find_own(
    target: str | Path,
    spec: BuildSpec,
    *,
    decide: Decide = refuse_doubt,
    announce: Announce = silent,
) -> OwnSource:
    """Recognise questions of the user, or read the entry that says what they are.

    Args:
        target: A file, a folder, `hf://org/name`, or an entry (.toml).
        spec: The settings.
        decide: Chooses between two readings of a table.
        announce: Receives lines that tell a reader what was recognised.

    Raises:
        DataError: The target cannot be read, or a setting does not apply to it.
        UnknownNameError: A dimension or metric does not exist.
    """
    table = spec.table
    if table.dimension and table.dimension not in dimension_titles():
        raise unknown("dimension", table.dimension, dimension_titles())
    check_metrics(table.metrics)
    if table.name:
        check_own_name(table.name, spec.to)

    path = Path(target)
    source = None
    if path.is_file() and path.suffix != ENDING:
        source = _find_table_of_form(path, spec, announce)
    elif spec.answers:
        raise DataError(f"{target}: answers apart are for files of {titles_of_forms()}")
    if source is None:
        source = with_questions(own_source(target, _table_settings(spec), table.name, decide))
        _announce_recognised(target, source, announce)

    own = source.spec
    own = replace(
        own,
        name=table.name or own.name,
        dimension=table.dimension or own.dimension,
        metrics=table.metrics or own.metrics,
    )
    return replace(source, spec=own)


def _table_settings(spec: BuildSpec) -> TableSettings:
    table = spec.table
    return TableSettings(
        columns={role: list(names) for role, names in table.columns.items()},
        answer_is=table.answer_is or "",
        images=table.images,
        no_pictures=table.no_pictures,
        hidden_answers=table.hidden_answers,
        fetch_pictures=table.fetch_pictures,
        make_options=spec.makes_options,
    )


def _find_table_of_form(path: Path, spec: BuildSpec, announce: Announce) -> OwnSource | None:
    """Return a table that is in the form of a suite; None for any other.

    Raises:
        DataError: A setting does not apply to such a table, or applies only to such a table.
    """
    table = spec.table
    is_described = bool(table.columns) or entry_of(path) is not None
    form = None if is_described else recognised_form(path)
    if form is None:
        if spec.answers:
            raise DataError(f"{path}: answers apart are for files of {titles_of_forms()}")
        return None
    if table.no_pictures or table.hidden_answers:
        raise DataError(
            f"{path} is of {form.title}, which needs no word about missing pictures or answers"
        )
    if spec.makes_options or table.fetch_pictures or table.answer_is:
        raise DataError(
            f"{path} is of {form.title}, which has options of its own; leave the flags for others out"
        )
    notice = f", {form.notice}" if form.notice else ""
    announce(f"{path} is read in {form.title}{notice}")
    params = params_with(
        {"images": table.images, "files": [path.name]},
        answers=Path(spec.answers) if spec.answers else None,
        lenient=spec.lenient,
    )
    entry = BenchmarkSpec(
        name=path.stem,
        title=path.name,
        formulation="choice",
        source=SourceSpec(form.reader, params),
    )
    return OwnSource(entry, path)


def _announce_recognised(target: str | Path, source: OwnSource, announce: Announce) -> None:
    if source.entry and Path(target).suffix != ENDING:
        announce(f"{target}: as {source.entry} says")
    if source.recognition is None:
        return
    for line in source.recognition.lines():
        announce(line)
    if source.recognition.kind == "annotations":
        announce(
            "  questions of all types that fit are made of them; `snellen reform` has choices, and checks them"
        )


def build_own(source: OwnSource, spec: BuildSpec, *, progress: Progress | None = None) -> Benchmark:
    """Build questions of the user that `find_own` found.

    Raises:
        DataError: A row is wrong, or the name hides one of the catalogue.
        ModelError: The writer of distractors does not reply. What it wrote is kept.
    """
    entry = source.spec
    check_own_name(entry.name, spec.to)
    # A reader of tables in a suite's form skips wrong rows itself.
    is_lenient = spec.lenient and "lenient" not in entry.source.params
    recipe = replace(spec.recipe, lenient=is_lenient)
    if entry.source.places and source.entry:
        return _build_fetched(entry, spec, recipe=recipe, progress=progress)

    revisions = [place.revision for place in entry.source.places if isinstance(place, HubPlace)]
    origin = f"{entry.title}@{revisions[0][:7]}" if revisions else ""
    with _distractor_writer(spec.writer) as writer:
        return build_benchmark(
            entry,
            source=source.folder,
            to=Path(spec.to) if spec.to else None,
            recipe=recipe,
            writer=writer,
            progress=progress,
            origin=origin,
        )


def check_own_name(name: str, to: str | Path | None) -> None:
    """Raise DataError for a name that is not valid, or that would hide one of the catalogue."""
    check_benchmark_name(name)
    if to:
        return
    if name in suite_members():
        kind = "suite"
    elif name in entries():
        kind = "benchmark"
    else:
        return
    raise DataError(
        f"{name} is a {kind} of the catalogue, which your questions would hide; choose another name (--name)"
    )


# --- annotations -------------------------------------------------------------------------------------------------------


def find_annotations(
    target: str | Path,
    spec: ReformSpec,
    *,
    decide: Decide = refuse_doubt,
    announce: Announce = silent,
) -> OwnSource:
    """Recognise annotations and choose the questions that are made of them. The arguments are those of `find_own`.

    Raises:
        DataError: The target cannot be read, no type of question fits it, or an earlier entry says otherwise.
        UnknownNameError: A type of question or a source of distractors does not exist.
    """
    source, summary = reform_source(target, spec, decide=decide)
    if source.recognition is None:
        if Path(target).suffix != ENDING:
            announce(f"{target}: as {source.entry} says")
        return source
    for line in source.recognition.lines():
        announce(line)
    announce(f"  {summary}")
    return source


def build_reformed(
    source: OwnSource,
    spec: ReformSpec,
    *,
    announce: Announce = silent,
    progress: Progress | None = None,
) -> Benchmark:
    """Build the questions of `find_annotations` that pass all checks, and write their entry if there was none.

    Raises:
        DataError: A row is wrong, or the name hides one of the catalogue.
        ModelError: A model does not reply, or `embeddings` does not embed images.
    """
    entry = source.spec
    check_own_name(entry.name, spec.to)
    recipe = Recipe(
        seed=entry.source.params.get("seed", 0), embeddings=spec.embeddings, lenient=spec.lenient
    )
    if source.entry:
        recipe = replace(
            recipe, sample=spec.sampling, options=spec.options, distractors=spec.distractors
        )
    embedder = _image_embedder(spec.embeddings) if spec.embeddings else None

    def build_version(decisions: Decisions, folder: Path) -> Benchmark:
        with _distractor_writer(spec.writer) as writer:
            return build_benchmark(
                entry,
                source=source.folder,
                to=folder,
                recipe=recipe,
                writer=writer,
                embedder=embedder,
                progress=progress,
                decisions=decisions,
            )

    solvers = Solvers(spec.jury, spec.blind, spec.votes, runs=spec.runs, announce=announce)
    to = Path(spec.to) if spec.to else None
    benchmark = verify(build_version, entry.name, solvers, to=to)
    if source.recognition:
        announce(f"written to {write_entry(source.recognition, entry)}; change it there")
    return benchmark


def _image_embedder(model: str) -> PictureEmbedder:
    """Return a function from images to unit vectors, by a `clip:` model. Raises ModelError for another one."""
    opened = load_model(model)
    if not hasattr(opened, "embed_pictures"):
        raise ModelError(f"{model}: embeds no pictures; name a clip: model")
    embedder: PictureEmbedder = opened.embed_pictures
    return embedder
