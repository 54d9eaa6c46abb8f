"""Build benchmarks: of the catalogue, from questions of the user, or from annotations.

Python and the command line share these functions. Questions of the user are built in two steps, so that the command line
can show between them what was recognised: `find_own` or `find_annotations`, then `build_own` or `build_reformed`.
"""

from __future__ import annotations

import hashlib
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any

import msgspec
from msgspec.structs import replace

from snellen.building.benchmark import Benchmark
from snellen.building.builder import Progress, build_benchmark
from snellen.building.recipe import BuildInputs, Decisions, Recipe
from snellen.building.reforming import reform_source, with_questions
from snellen.building.replaced_builds import ROWS_IN_MEMORY
from snellen.building.source_state import keep_own_entry
from snellen.building.spec import BuildSpec, ReformSpec, build_spec
from snellen.callers import for_caller, setting, settings_of
from snellen.catalogue import (
    BenchmarkSpec,
    dimension_titles,
    entries,
    suite_members,
)
from snellen.catalogue.entries import with_params
from snellen.catalogue.forms import recognised_form, table_forms, titles_of_forms
from snellen.catalogue.places import HubSource
from snellen.catalogue.suites import params_with
from snellen.common.faults import refuse_code_in_benchmark
from snellen.common.foreign import read_file
from snellen.common.paths import check_benchmark_name, shell_word
from snellen.errors import DataError, ModelError
from snellen.experiments.loaded_benchmark import (
    BenchmarkQuestion,
    LoadedBenchmark,
    selected_questions,
)
from snellen.metrics.declaration import MetricInput, find_metric
from snellen.models.loading import load_model
from snellen.recognition.own_sources import (
    ENDING,
    IN_MEMORY,
    Decide,
    OwnSource,
    entry_of,
    images_beside,
    own_source,
    recognised_spec,
    refuse_doubt,
    telling_of_rows,
    write_entry,
    write_rows,
)
from snellen.recognition.recognising import Recognition, TableSettings
from snellen.reformulation.distractor_sources import ImageEmbedder
from snellen.registry import code_name, is_code, unknown_name
from snellen.runs.distractor_writer import ModelDistractorWriter
from snellen.runs.finding import Announce, announce_nothing, open_benchmark
from snellen.scoring.resampling import build_selection
from snellen.scoring.run_scoring import check_metrics
from snellen.verification.verify import Solvers, verify

INPUTS_OF_OPEN_QUESTIONS: frozenset[MetricInput] = frozenset({"reply", "corpus", "counts", "judge"})
"""A metric that is computed over one of these inputs has a value for open questions only."""

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
        raise DataError(
            f"{setting('revision')} selects a revision of the hub's dataset; add {setting('hub', True)}"
        )
    entry = _with_table_settings(entry, spec)
    decisions: Decisions = settings.decisions or {}
    if isinstance(decisions, (str, Path)):
        decisions = open_benchmark(str(decisions)).decisions()
    return _build_fetched(entry, spec, recipe=spec.recipe, decisions=decisions, progress=progress)


def check_table_settings(entry: BenchmarkSpec, spec: BuildSpec) -> None:
    """Raise DataError if `answers` or `lenient` is given for a benchmark that has no use for it.

    Both settings apply only to tables in the format of a suite, such as MMBench's.
    """
    if not (spec.answers or spec.lenient):
        return
    if entry.source.reader in {form.reader for form in table_forms()}:
        return
    flags = []
    if spec.answers:
        flags.append(setting("answers"))
    if spec.lenient:
        flags.append(setting("lenient", True))
    given = " and ".join(flags)
    target = for_caller("`snellen build FILE`", "your own files")
    raise DataError(
        f"{given}: for {target} and {titles_of_forms()}, but {entry.name} has an entry; correct its "
        f"rows, or remove {given}"
    )


def _with_table_settings(entry: BenchmarkSpec, spec: BuildSpec) -> BenchmarkSpec:
    """Return a catalogue entry with the settings `answers` and `lenient` added, if they are given.

    Raises DataError if the benchmark is not made from a table in the format of a suite, to which alone they apply.
    """
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
    """Build a benchmark of the catalogue, or of an entry of the user that names where its files are.

    The files are those of Snellen if the entry has embedded ones and the hub is not asked for. Otherwise they are the
    user's own (`source`), or they are downloaded.
    """
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
            inputs=BuildInputs(writer=writer, origin=origin, decisions=decisions),
            progress=progress,
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
    """Write rows that are in memory to a temporary file, and yield its path with the settings to build it.

    Error messages of the block name rows by their numbers, not by lines of the file, which the user does not know.

    Args:
        rows: A list of dicts, a data frame or a `datasets.Dataset`.
        spec: The settings. Image paths are relative to the current folder unless they name another one. Without a
            name, the benchmark is named after its content, so that other rows make another benchmark.
    """
    name = spec.table.name or Path(spec.to).name
    images = spec.table.images or str(Path.cwd())
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"{name or 'questions'}.jsonl"
        write_rows(rows, path)
        if not name:
            name = f"questions-{_digest_of_rows(path, spec)}"
        table = replace(spec.table, name=spec.table.name or name, images=images)
        with telling_of_rows(Path(folder)):
            yield path, replace(spec, table=table)


def _digest_of_rows(path: Path, spec: BuildSpec) -> str:
    """Return eight hexadecimal digits of rows and of what the user says about their columns."""
    content = read_file(path)
    if spec.table.columns:
        content += msgspec.json.encode(spec.table.columns, order="sorted")
    return hashlib.sha256(content).hexdigest()[:8]


def find_own(
    target: str | Path,
    spec: BuildSpec,
    *,
    decide: Decide = refuse_doubt,
    announce: Announce = announce_nothing,
) -> OwnSource:
    """Find out what a file or folder of the user's own questions contains, or read the entry (.toml) that says so.

    Args:
        target: A file, a folder, `FOLDER:SPLIT`, `hf://org/name`, or an entry (.toml).
        spec: The settings.
        decide: Function that chooses between two ways of reading a table if both are possible.
        announce: Function that receives lines that tell the user what was found.

    Raises:
        DataError: The target cannot be read, or a setting does not apply to it.
        UnknownNameError: A dimension or metric does not exist.
    """
    table = spec.table
    if table.dimension and table.dimension not in dimension_titles():
        raise unknown_name("dimension", table.dimension, dimension_titles())
    for metric in map(code_name, table.metrics):
        if is_code(metric):
            raise DataError(f"{setting('metrics', metric)}: {refuse_code_in_benchmark(metric)}")
    check_metrics(table.metrics)
    if table.name:
        check_own_name(table.name, spec.to)

    path = Path(target)
    source = None
    if path.is_file() and path.suffix != ENDING:
        source = _find_table_of_form(path, spec, announce)
    elif spec.answers:
        raise DataError(f"{target}: a separate file of answers works only with {titles_of_forms()}")
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
    _check_metrics_apply(own, table.metrics)
    return replace(source, spec=own)


def _table_settings(spec: BuildSpec) -> TableSettings:
    """Return the settings from which the columns of a table are recognised."""
    table = spec.table
    return TableSettings(
        columns={role: list(names) for role, names in table.columns.items()},
        answer_is=table.answer_is or "",
        images=table.images,
        no_images=table.no_images,
        hidden_answers=table.hidden_answers,
        fetch_images=table.fetch_images,
        make_options=spec.makes_options,
        keep_open=bool(_metrics_of_open(table.metrics)) and not spec.makes_options,
    )


def _metrics_of_open(names: Sequence[str]) -> list[str]:
    """Return those of the metrics that have a value for open questions only, such as `exact_match` and `judged_correct`."""
    return [name for name in names if find_metric(name).computed_over in INPUTS_OF_OPEN_QUESTIONS]


def _check_metrics_apply(spec: BenchmarkSpec, names: Sequence[str]) -> None:
    """Raise DataError for a metric of open questions where the questions of a table have options."""
    unusable = _metrics_of_open(names)
    is_choice = spec.source.reader == "table" and spec.formulation == "choice"
    if is_choice and unusable:
        raise DataError(
            f"{setting('metrics', unusable[0])}: {unusable[0]} is for open questions, and those of {spec.title} have "
            "options; leave it out (accuracy is always reported)"
        )


def _find_table_of_form(path: Path, spec: BuildSpec, announce: Announce) -> OwnSource | None:
    """Return the source of a table if it is in the format of a suite, such as MMBench's; None for any other table.

    A table whose columns the user names, or whose entry (.toml) names another reader, is read like any other table.

    Raises:
        DataError: A setting applies only to ordinary tables and this one is not, or the other way round.
    """
    table = spec.table
    form = None if table.columns else recognised_form(path)
    written = entry_of(path, table.name)
    if written is not None and form is not None and written.spec.source.reader != form.reader:
        form = None  # the entry next to the file says that it is read like any other table
    if form is None:
        if spec.answers:
            raise DataError(
                f"{path}: a separate file of answers works only with {titles_of_forms()}"
            )
        return None
    if table.no_images or table.hidden_answers:
        settings = f"{setting('no_images', True)} or {setting('hidden_answers', True)}"
        raise DataError(
            f"{path} is in the format {form.title}, which does not need {settings}; remove them"
        )
    if spec.makes_options or table.fetch_images or table.answer_is:
        noun = for_caller("flags", "keywords")
        raise DataError(
            f"{path} is in the format {form.title}, which has its own options; remove the {noun} of other formats"
        )
    if written is not None and not (table.images or spec.answers):
        source = OwnSource(written.spec, Path(written.where).parent, Path(written.where).name)
        _announce_recognised(path, source, announce)
        return source

    notice = f", {form.notice}" if form.notice else ""
    announce(f"{path} is read as {form.title}{notice}")
    params: dict[str, Any] = dict(written.spec.source.params) if written else {}
    params["files"] = [path.name]
    if table.images:
        params["images"] = images_beside(path, table.images)
    if spec.answers:
        params["answers"] = str(Path(spec.answers).resolve())
    recognition = Recognition(
        path=path, kind="questions", form=form.title, reader=form.reader, params=params
    )
    entry = recognised_spec(recognition, table.name, written.spec if written else None)
    return OwnSource(entry, path.parent, recognition=recognition)


def _announce_recognised(target: str | Path, source: OwnSource, announce: Announce) -> None:
    """Tell the user how a source was read: by its entry (.toml), or as its columns and files were recognised."""
    if source.entry and Path(target).suffix != ENDING:
        announce(f"{target}: as {source.entry} says")
    if source.recognition is None:
        return
    for line in source.recognition.lines():
        announce(line)
    if source.recognition.kind == "annotations":
        announce(
            "  questions of all suitable types are generated; use "
            f"{for_caller('`snellen reform`', 'sn.reform')} to choose types and to check the questions"
        )


def build_own(
    source: OwnSource, spec: BuildSpec, *, origin: str = "", progress: Progress | None = None
) -> Benchmark:
    """Build the user's own questions from what `find_own` returned.

    Args:
        source: The result of `find_own`.
        spec: The settings.
        origin: Text that says where the questions come from. By default the path of the file or folder.
        progress: Called with the number of questions built so far.

    Raises:
        DataError: A row is wrong, or the name belongs to a benchmark of the catalogue or to a build of another
            source.
        ModelError: The model that writes wrong options does not reply. What it wrote before is kept.
    """
    entry = source.spec
    check_own_name(entry.name, spec.to)
    recipe = replace(spec.recipe, lenient=spec.lenient)
    if spec.lenient and entry.source.reader in {form.reader for form in table_forms()}:
        # A reader of tables in a suite's form skips wrong rows itself.
        params = params_with(entry.source.params, answers=None, lenient=True)
        entry = replace(entry, source=replace(entry.source, params=params))
        recipe = replace(recipe, lenient=False)
    if entry.source.places and source.entry:
        benchmark = _build_fetched(entry, spec, recipe=recipe, progress=progress)
        _keep_entry_read(source, spec.to)
        return benchmark

    revisions = [place.revision for place in entry.source.places if isinstance(place, HubSource)]
    if revisions:
        origin = f"{entry.title}@{revisions[0][:7]}"
    with _distractor_writer(spec.writer) as writer:
        benchmark = build_benchmark(
            entry,
            source=source.folder,
            to=Path(spec.to) if spec.to else None,
            recipe=recipe,
            inputs=BuildInputs(
                writer=writer, origin=origin or source.origin, may_replace=spec.force
            ),
            progress=progress,
        )
    _keep_entry_read(source, spec.to)
    return benchmark


def _keep_entry_read(source: OwnSource, to: str) -> None:
    """Remember the TOML file that a benchmark was built from, so that runs can say when it has changed."""
    if source.entry and not to:
        keep_own_entry(source.spec.name, source.folder / source.entry)


def save_entry(source: OwnSource, to: str = "") -> Path:
    """Write what was found out about a source to a TOML file (an entry), and return its path.

    The next build reads this file instead of guessing again, so the user can correct it.

    Args:
        source: The source that was built, which was recognised just now.
        to: The folder that the user chose for the build; empty for the default. In the default folder, the path of
            the file is remembered, so that runs can say if it has changed since the build.

    Raises:
        DataError: The file cannot be written.
    """
    assert source.recognition is not None  # noqa: S101
    path = write_entry(source.recognition, source.spec)
    if not to:
        keep_own_entry(source.spec.name, path)
    return path


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
        f"{name} is already a {kind} in the catalogue, and your benchmark would hide it; choose another name "
        f"({setting('name')})"
    )


# --- annotations -------------------------------------------------------------------------------------------------------


def find_annotations(
    target: str | Path,
    spec: ReformSpec,
    *,
    decide: Decide = refuse_doubt,
    announce: Announce = announce_nothing,
) -> OwnSource:
    """Find out what annotations a file or folder contains, and which types of questions can be made from them.

    The arguments are those of `find_own`.

    Raises:
        DataError: The target cannot be read, no type of question fits it, or an earlier entry (.toml) contradicts a
            setting.
        UnknownNameError: A type of question or a source of wrong options does not exist.
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
    announce: Announce = announce_nothing,
    progress: Progress | None = None,
) -> Benchmark:
    """Build the questions of `find_annotations` that pass all checks, and write the entry (.toml) if there was none.

    A question that fails because of a wrong option gets another one, at most three times. One that still fails is left
    out.

    Raises:
        DataError: A row is wrong, or the name belongs to a benchmark of the catalogue or to a build of another
            source.
        ModelError: A model does not reply, or the model for `embeddings` cannot embed images.
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
        """Build the benchmark in a folder, with what the checks have decided about its questions so far."""
        with _distractor_writer(spec.writer) as writer:
            return build_benchmark(
                entry,
                source=source.folder,
                to=folder,
                recipe=recipe,
                inputs=BuildInputs(
                    writer=writer, embedder=embedder, decisions=decisions, origin=source.origin
                ),
                progress=progress,
            )

    solvers = Solvers(spec.jury, spec.blind, spec.votes, runs=spec.runs, announce=announce)
    to = Path(spec.to) if spec.to else None
    benchmark = verify(build_version, entry.name, solvers, to=to, may_replace=spec.force)
    if source.recognition:
        saved = save_entry(source, spec.to)
        again = _call_of_entry("reform", saved, spec.to)
        announce(f"saved to {saved}; to change a question, edit that file, then {again}")
    else:
        _keep_entry_read(source, spec.to)
    return benchmark


def _call_of_entry(verb: str, entry: Path, to: str) -> str:
    """Return the call that builds a benchmark again from its TOML file.

    It is `snellen reform mine.toml --to built` for a caller on the command line, and `sn.reform('mine.toml',
    to='built')` for one in Python.

    Args:
        verb: The name of the command and of the function.
        entry: The TOML file.
        to: The folder that the user chose for the build; empty for the default.
    """
    command = f"snellen {verb} {shell_word(entry)}"
    arguments = repr(str(entry))
    if to:
        command += f" --to {shell_word(to)}"
        arguments += f", to={str(to)!r}"
    return for_caller(f"`{command}`", f"sn.{verb}({arguments})")


def _image_embedder(model: str) -> ImageEmbedder:
    """Return a function that turns images into vectors of length 1, by a model such as `clip:...`.

    Raises ModelError if the model cannot embed images.
    """
    opened = load_model(model)
    if not hasattr(opened, "embed_images"):
        raise ModelError(f"{model} cannot embed images; use a clip: model")
    embedder: ImageEmbedder = opened.embed_images
    return embedder


# --- benchmarks as users give them to `evaluate` ------------------------------------------------------------------------


_NAME_WITH_SLICE = re.compile(r"(.+)\[:(\d+)\]")
"""A name and a number of first questions, such as `eyechart/shape[:10]`. The package `datasets` allows that form."""


def as_list(benchmarks: Any) -> list[Any]:
    """Return the benchmarks that a user gave as a list. A single benchmark becomes a list with one item.

    A list of dicts is the rows of a single benchmark, and a list of questions from `load_benchmark` is a part of
    one.

    Raises:
        DataError: A list has questions of several benchmarks.
    """
    if isinstance(benchmarks, (list, tuple)):
        is_questions = bool(benchmarks) and isinstance(benchmarks[0], BenchmarkQuestion)
        if is_questions:
            return [selected_questions(benchmarks)]
    if isinstance(benchmarks, (list, tuple, set, frozenset)):
        is_rows = bool(benchmarks) and all(isinstance(each, Mapping) for each in benchmarks)
        return [benchmarks] if is_rows else list(benchmarks)
    if isinstance(benchmarks, Iterator):
        return as_list(list(benchmarks))
    return [benchmarks]


def benchmark_pattern(
    benchmark: Any,
    announce: Announce = announce_nothing,
    columns: Mapping[str, Any] = MappingProxyType({}),
) -> str:
    """Return a text that names a benchmark for a run: its name, a glob, a suite or a folder.

    A file of questions, or rows in memory, are built first; then it is the folder of the build.

    Args:
        benchmark: A name, glob, suite or folder; a file of questions; rows in memory; a built benchmark; or a
            loaded one, of which some questions may be selected.
        announce: Function that receives lines that tell the user what was found in a file.
        columns: Columns of a file or of rows by role, as `sn.build` takes them.

    Raises:
        DataError: A row is wrong, the file is in no known format, or `columns` is given for a benchmark that is
            built.
    """
    pattern = _built_pattern(benchmark)
    if pattern and columns:
        raise DataError(
            f"columns: {pattern} is a benchmark, whose columns are known; columns=... is for your own rows and files"
        )
    if pattern:
        return pattern
    spec = build_spec({"columns": columns} if columns else {})
    if isinstance(benchmark, (str, Path)):
        with settings_of("sn.build", f"snellen build {shell_word(str(benchmark))}"):
            built = build_own(find_own(benchmark, spec, announce=announce), spec)
        return str(built.folder)

    with settings_of("sn.build"), rows_as_file(benchmark, spec) as (path, rows_spec):

        def announce_rows(line: str) -> None:
            announce(line.replace(path.name, IN_MEMORY))

        source = find_own(path, rows_spec, announce=announce_rows)
        return str(build_own(source, rows_spec, origin=ROWS_IN_MEMORY).folder)


def _built_pattern(benchmark: Any) -> str:
    """Return the name, glob or folder of a benchmark that need not be built; empty for a file or rows, which must be."""
    if isinstance(benchmark, LoadedBenchmark):
        chosen = benchmark.sample_ids
        benchmark = benchmark.benchmark
        if chosen is not None:
            benchmark = build_selection(benchmark, chosen)
    if isinstance(benchmark, Benchmark):
        return str(benchmark.folder)
    if isinstance(benchmark, BenchmarkSpec):
        return benchmark.name
    if not isinstance(benchmark, (str, Path)):
        return ""
    path = Path(benchmark)
    name_with_slice = _NAME_WITH_SLICE.fullmatch(str(benchmark))
    if name_with_slice and not path.exists():
        name, n_questions = name_with_slice.groups()
        raise DataError(
            f"{benchmark}: a name has no parts; add limit={n_questions}, or give sn.load_benchmark({name!r})"
            f"[:{n_questions}]"
        )
    # A file without a suffix has no known form, so one that is called like a suite does not hide it.
    is_file = bool(path.suffix) and path.is_file()
    must_be_built = is_file or str(benchmark).startswith("hf://")
    return "" if must_be_built else str(benchmark)
