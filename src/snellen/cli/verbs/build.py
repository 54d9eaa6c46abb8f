"""`snellen build` and `snellen reform`: benchmarks from their sources, from your own questions, from annotations."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any

import click
from msgspec.structs import replace

from snellen.benchmark_building import (
    build_entry,
    build_own,
    build_reformed,
    check_table_settings,
    find_annotations,
    find_own,
    save_entry,
)
from snellen.building.benchmark import MANIFEST, Benchmark, BenchmarkManifest
from snellen.building.builder import changed_settings
from snellen.building.reforming import count_types
from snellen.building.spec import (
    BuildSpec,
    EntrySpec,
    ReformSpec,
    TableSpec,
    build_spec,
    check_targets,
    reform_spec,
)
from snellen.catalogue import BenchmarkSpec
from snellen.cli import installed_verbs
from snellen.cli.flags import (
    PATH,
    GroupedCommand,
    field_flags,
    given_fields,
    json_flag,
    limits_flag,
    offline_flag,
)
from snellen.cli.preview import show_preview
from snellen.cli.show import (
    announce,
    announce_next,
    build_progress,
    command_line,
    console,
    error_console,
    print_built,
    show_table,
    show_verification,
)
from snellen.common.answer_forms import ANSWER_FORM_DESCRIPTIONS
from snellen.common.paths import benchmark_folder
from snellen.errors import DataError, StoreError, WrongRowsError
from snellen.models.loading import load_model
from snellen.recognition.columns import Doubt
from snellen.recognition.own_sources import (
    OwnSource,
    check_entry_is_free,
    is_own,
    refuse_doubt,
)
from snellen.runs.finding import open_benchmark, reason_to_rebuild, select_to_build
from snellen.runs.run_folder import read_manifest, runs_in

# --- functions that `build` and `reform` share -------------------------------------------------------------------------


_ROW_FAULT = re.compile(r":\d+: |: (?:record|row|image) \w+:")
"""Part of an error message about one row of a file, which says the number of the row."""
_CANCEL_KEYS = ("q", "\x1b", "\x03", "\x04")


@contextmanager
def suggesting_lenient(lenient: bool) -> Iterator[None]:
    """If the block raises an error about wrong rows in a file, print that `--lenient` skips such rows.

    Args:
        lenient: Whether the user gave the flag, so that nothing is printed.
    """
    try:
        yield
    except WrongRowsError as error:
        is_about_rows = all(_ROW_FAULT.search(fault) for fault in error.faults)
        if is_about_rows and not lenient:
            announce("the rows below cannot be used; --lenient skips and counts them")
        raise


def ask_user(path: Path, doubt: Doubt) -> str:
    """Let the user decide by pressing a key how to read a file that can be read in several ways.

    Args:
        path: The file.
        doubt: What is unclear about the file, and the choices.

    Returns:
        The choice.

    Raises:
        DataError: There is no terminal, or the user cancels. The message names the choices.
    """
    if not (sys.stdin.isatty() and error_console.is_terminal):
        return refuse_doubt(path, doubt)
    choice_by_key = {str(number): choice for number, choice in enumerate(doubt.choices[:9], 1)}
    error_console.print(f"{path.name}: {doubt.why}. Which?")
    for key, choice in choice_by_key.items():
        error_console.print(f"  {key}  {ANSWER_FORM_DESCRIPTIONS.get(choice, choice)}")
    while True:
        pressed = click.getchar()
        if pressed in choice_by_key:
            return choice_by_key[pressed]
        if pressed in _CANCEL_KEYS:
            return refuse_doubt(path, doubt)


class _Build(GroupedCommand):
    usual = ("--to", "--source", "--name", "--images", "--column", "--force", "--help")
    usual_title = "Options that most builds need"
    titles = MappingProxyType(
        {
            EntrySpec: "Benchmarks of the catalogue",
            TableSpec: "Your own questions",
            BuildSpec: "Options, distractors and examples",
        }
    )


@click.command(cls=_Build)
@click.argument("what", nargs=-1, required=True)
@field_flags(EntrySpec, has_negations=False)
@field_flags(TableSpec, has_negations=False)
@field_flags(BuildSpec, has_negations=False)
@limits_flag
@offline_flag
def build_command(what: tuple[str, ...], **flags: Any) -> None:
    """Build a benchmark from its source files, or from your own questions.

    WHAT is a name, glob or suite of the catalogue, or your own questions: a .csv, .tsv, .jsonl, .json, .xlsx or .parquet
    file, a folder, a dataset of the hub, or the .toml file that an earlier build wrote:

    \b
      snellen build eyechart
      snellen build questions.xlsx --images photos/
      snellen build hf://org/name
      snellen build reform-eval --source official/ --writer openai:name@http://host:port/v1
      snellen build mmbench/dev-en --source MMBench_DEV_EN.tsv
      snellen build reform-eval/vqav2 --hub

    Snellen recognises the columns of your table by their names and contents, and prints what it found. If it is not
    sure, it asks. It writes the result to a .toml file next to the table, which the next build follows. Rows with errors
    are listed with their line numbers, and a failed build does not leave any files. See docs/own-data.md, and
    docs/mmbench.md for tables in MMBench's format, in which several rows can form one question.
    """
    fields = given_fields(flags)
    spec = build_spec(fields)
    own_targets = [target for target in what if is_own(target)]
    names = [target for target in what if target not in own_targets]
    if spec.entry.revision and not spec.entry.hub:
        raise DataError("--revision selects a revision of the hub's dataset; add --hub")
    if (spec.to or spec.table.name) and len(what) > 1:
        raise DataError("--to and --name work for one benchmark at a time")
    check_targets(fields, has_tables=bool(own_targets), has_entries=bool(names), as_flags=True)
    for target in own_targets:
        _build_own(target, spec)
    if names:
        _build_entries([entry for name in names for entry in select_to_build(name)], spec)


def _build_own(target: str, spec: BuildSpec) -> None:
    """Build a benchmark from the user's own questions.

    If the columns of a table were recognised, a preview is shown before, and the result is written to an entry file.

    Args:
        target: The path of the questions, such as a table.
        spec: The settings of the build.
    """
    source = find_own(target, spec, decide=ask_user, announce=announce)
    if source.recognition and console.is_terminal:
        show_preview(source)
    if source.recognition:
        check_entry_is_free(source.recognition, source.spec)
    earlier = _earlier_build(source.spec.name, spec.to)
    with build_progress(source.spec.name) as progress, suggesting_lenient(spec.lenient):
        benchmark = build_own(source, spec, progress=progress)
    print_built(benchmark)
    _announce_replaced(earlier, benchmark)
    if source.spec.source.reader == "annotations":
        _print_types(benchmark)
    if source.recognition:
        entry = save_entry(source, spec.to)
        rebuild = ["snellen", "build", str(entry)]
        if spec.to:
            rebuild += ["--to", spec.to]
        announce(
            f"saved to {entry}; if a column was read wrongly, edit that file, then `{shlex.join(rebuild)}`"
        )
    built = str(benchmark.folder if spec.to else benchmark.name)
    pack = command_line("pack", built, "--answers")
    announce_next(
        command_line("run", "MODEL", built), f"{pack} makes one file of it for a colleague"
    )


def _build_entries(entries: Sequence[BenchmarkSpec], spec: BuildSpec) -> None:
    """Build benchmarks of the catalogue. Those that are already built are skipped unless something has changed.

    If one of several cannot be built, its error is printed and the others are still built.

    Args:
        entries: The catalogue entries.
        spec: The settings of the build.

    Raises:
        DataError: At least one benchmark could not be built.
    """
    for entry in entries:
        check_table_settings(entry, spec)
    settings = spec.entry
    if settings.decisions:
        settings = replace(settings, decisions=open_benchmark(settings.decisions).decisions())
    if spec.writer:
        # Loaded once for all benchmarks.
        spec = replace(spec, writer=load_model(spec.writer))

    # A build does not record these settings, so an existing build may have been made with other ones.
    has_unrecorded_settings = bool(
        settings.source
        or settings.revision
        or settings.params
        or settings.decisions
        or spec.writer
        or spec.to
    )
    refused = []
    built: list[str] = []
    for entry in entries:
        is_built = (benchmark_folder(entry.name) / MANIFEST).exists()
        if is_built and not has_unrecorded_settings and not spec.force:
            reason = reason_to_rebuild(entry) or _changed_settings(entry, spec)
            if not reason:
                announce(f"{entry.name} is already built; use --force to rebuild it")
                built.append(entry.name)
                continue
            announce(f"rebuilding {entry.name}: {reason}")
        entry_settings = settings
        if settings.source:
            files = entry.source_in(Path(settings.source))
            entry_settings = replace(settings, source=str(files))
        earlier = _earlier_build(entry.name, spec.to)
        try:
            with build_progress(entry.name) as progress:
                benchmark = build_entry(
                    entry, replace(spec, entry=entry_settings), progress=progress
                )
        except DataError as error:
            if len(entries) == 1:
                raise
            refused.append(entry.name)
            announce(f"{entry.name} is not built: {error}")
            continue
        print_built(benchmark)
        _announce_replaced(earlier, benchmark)
        built.append(str(benchmark.folder if spec.to else benchmark.name))
    if refused:
        raise DataError(
            f"{len(refused)} of {len(entries)} benchmarks were not built; see the reasons above"
        )
    announce_next(command_line("run", "MODEL", *built))


def _earlier_build(name: str, to: str) -> BenchmarkManifest | None:
    """Return the manifest of the build that a new one replaces; None if there is none, or if it is damaged."""
    try:
        return Benchmark(Path(to) if to else benchmark_folder(name)).manifest
    except DataError:
        return None


def _announce_replaced(earlier: BenchmarkManifest | None, benchmark: Benchmark) -> None:
    """Tell the user that a build has other questions than the one that it replaced, and which runs that affects.

    Args:
        earlier: The manifest of the replaced build.
        benchmark: The new build.
    """
    if earlier is None or earlier.questions == benchmark.manifest.questions:
        return
    affected: list[str] = []
    for folder in runs_in(["runs"]):
        try:
            uses = read_manifest(folder).benchmarks
        except StoreError:
            continue
        if any(use.name == benchmark.name and use.version == earlier.version for use in uses):
            affected.append(str(folder))
    runs = f" ({', '.join(affected[:3])}{', ...' if len(affected) > 3 else ''})" if affected else ""
    announce(
        f"  note: this replaces version {earlier.version} with {earlier.counts.questions:,} questions; its runs{runs} keep "
        "their scores, but cannot be scored again. To keep two versions, build one of them with another --name"
    )


def _changed_settings(entry: BenchmarkSpec, spec: BuildSpec) -> str:
    """Return why an existing build does not have the settings that the user asks for now, as a reason to build it
    again.

    Args:
        entry: The catalogue entry of the benchmark.
        spec: The settings that the user gave.

    Returns:
        The reason; empty if the user gave no settings, or the same as before.
    """
    requested = changed_settings(spec.recipe)
    of_build = Benchmark(benchmark_folder(entry.name)).manifest.build_info.recipe
    if not requested or requested == of_build:
        return ""
    if not of_build:
        return "it was built with the settings of its entry"
    names = sorted(requested.keys() | of_build.keys())
    return f"it was built with another value of {', '.join(names)}"


@click.command()
@click.argument("what", type=PATH)
@click.argument("words", nargs=-1, metavar="")
@field_flags(ReformSpec, has_negations=False)
@click.option(
    "--types",
    "is_overview",
    is_flag=True,
    help="Show what each type would produce, with an example, without building.",
)
@json_flag
def reform_command(
    what: Path, words: tuple[str, ...], is_overview: bool, as_json: bool, **flags: Any
) -> None:
    """Make checked questions from annotations.

    WHAT is a folder of images sorted into classes, a file in COCO's format (or that of LVIS), a table whose rows
    describe one image each, a dataset of the hub (hf://org/name), or the .toml file of an earlier call:

    \b
      snellen reform photos/
      snellen reform instances_val2017.json --images val2017/ --ask count,presence
      snellen reform birds.csv --distractors near-text:2,random:1 --per-type 200
      snellen reform birds.toml --seed 1 --to other-draw/

    Annotations that do not allow an unambiguous question are skipped and counted. A question that fails a check gets
    another distractor, or is set aside with the reason. docs/reform.md lists all types of questions and sources of
    distractors, and docs/verifying.md the checks.
    """
    if words:
        types = ",".join(words)
        raise DataError(
            f"reform takes one source; choose types of questions with --ask {types}, and --types shows all"
        )
    spec = reform_spec(given_fields(flags))
    source = find_annotations(what, spec, decide=ask_user, announce=announce)
    if is_overview:
        _show_types(source, as_json)
        return
    if source.recognition and console.is_terminal:
        show_preview(source)
    if source.recognition:
        check_entry_is_free(source.recognition, source.spec)
    earlier = _earlier_build(source.spec.name, spec.to)
    with build_progress(source.spec.name) as progress, suggesting_lenient(spec.lenient):
        benchmark = build_reformed(source, spec, announce=announce, progress=progress)
    print_built(benchmark)
    _announce_replaced(earlier, benchmark)
    _print_types(benchmark)
    show_verification(benchmark)
    _print_next(benchmark, is_elsewhere=bool(spec.to))


def _print_next(benchmark: Benchmark, *, is_elsewhere: bool) -> None:
    """Print the command that usually follows a build."""
    name = str(benchmark.folder if is_elsewhere else benchmark.name)
    steps = [command_line("run", "MODEL", name)]
    if "audit" in installed_verbs():
        steps.append(f"{command_line('audit', name)} draws questions for people to check")
        steps.append(f"{command_line('report', name)} writes its datasheet")
    announce_next(*steps)


def _show_types(source: OwnSource, as_json: bool) -> None:
    """Print how many questions of each type can be made from annotations. Types without any are last."""
    possible_rows = []
    impossible_rows = []
    for counted in count_types(source.spec, source.folder):
        row = (
            counted.name,
            f"{counted.images:,}",
            f"{counted.questions:,}",
            f"{counted.left_out:,}",
            counted.example or f"needs {counted.needs}",
        )
        if counted.questions:
            possible_rows.append(row)
        else:
            impossible_rows.append(row)
    rows = possible_rows + impossible_rows
    header = ("type", "images", "questions", "left out", "for example")
    show_table(source.spec.title, header, rows, as_json=as_json)


def _print_types(benchmark: Benchmark) -> None:
    """Print how many questions of each type a benchmark made from annotations has."""
    manifest = benchmark.manifest
    count_by_type = manifest.tags.get("type", {})
    counts = ", ".join(f"{name} {count:,}" for name, count in count_by_type.items())
    line = f"  {counts}; drawn from {manifest.build_info.read:,} possible questions"
    if manifest.counts.images > len(_annotated_images(benchmark)):
        line += "; an image with a drawn box, or a part cut out, counts as one more image"
    console.print(line, soft_wrap=True)


def _annotated_images(benchmark: Benchmark) -> set[str]:
    """Return the ids of the annotated images that questions of a reformed benchmark are about."""
    images: set[str] = set()
    for sample in benchmark.samples():
        image, _, _ = sample.id.partition(f"/{sample.tags['type']}")
        images.add(image)
    return images
