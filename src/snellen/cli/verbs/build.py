"""`snellen build` and `snellen reform`: benchmarks from their sources, from your own questions, from annotations."""

from __future__ import annotations

import re
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
)
from snellen.building.benchmark import MANIFEST, Benchmark
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
from snellen.catalogue import BenchmarkSpec, select
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
    build_progress,
    err,
    out,
    print_built,
    show_table,
    show_verification,
)
from snellen.common.answer_forms import FORM_WORDS
from snellen.common.paths import as_word, benchmark_folder
from snellen.errors import DataError, WrongRowsError
from snellen.models.loading import load_model
from snellen.recognition.columns import Doubt
from snellen.recognition.own_sources import OwnSource, is_own, refuse_doubt, write_entry
from snellen.runs.finding import open_benchmark, outdated

# --- what both have in common: columns said by flags, and doubts that are asked ---------------------------------------


_OF_A_ROW = re.compile(r":\d+: |: (?:record|row|image) \w+:")


@contextmanager
def naming_leniency(lenient: bool) -> Iterator[None]:
    """Say how a file with wrong rows is built all the same."""
    try:
        yield
    except WrongRowsError as error:
        if not lenient and all(map(_OF_A_ROW.search, error.faults)):
            announce(
                "rows that cannot be used are named below; --lenient leaves them out and counts them"
            )
        raise


def ask_user(path: Path, doubt: Doubt) -> str:
    """Have a user decide with one key. Raises DataError with the choices where nobody can be asked."""
    if not (sys.stdin.isatty() and err.is_terminal):
        return refuse_doubt(path, doubt)
    err.print(f"{path.name}: {doubt.why}. Which?")
    for number, choice in enumerate(doubt.choices[:9], 1):
        err.print(f"  {number}  {FORM_WORDS.get(choice, choice)}")
    while (key := click.getchar()) not in map(str, range(1, len(doubt.choices[:9]) + 1)):
        if key in ("q", "\x1b", "\x03", "\x04"):
            return refuse_doubt(path, doubt)
    return doubt.choices[int(key) - 1]


class _Build(GroupedCommand):
    usual = ("--to", "--source", "--name", "--images", "--column", "--help")
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
@click.option("--force", is_flag=True, help="Rebuild benchmarks that are already built.")
@limits_flag
@offline_flag
def build_command(what: tuple[str, ...], force: bool, **flags: Any) -> None:
    """Make benchmarks.

    WHAT is a name, glob or suite of the catalogue, or your own questions: .csv, .tsv, .jsonl, .json, .xlsx, .parquet,
    a folder, a dataset of the hub, or the entry (.toml) that an earlier build wrote:

    \b
      snellen build eyechart
      snellen build questions.xlsx --images pictures/
      snellen build hf://org/name
      snellen build reform-eval --source official/ --writer openai:name@http://host:port/v1
      snellen build mmbench/dev-en --source MMBench_DEV_EN.tsv
      snellen build reform-eval/vqav2 --hub

    Snellen recognises the columns of your own table by their names and content, and says what it found. It asks where it
    is unsure, and writes the result next to the table for the next build. All wrong rows are named with their lines, and a
    failed build leaves nothing behind. See docs/own-data.md, and docs/mmbench.md for tables in MMBench's form, whose
    circular copies become one question.
    """
    fields = given_fields(flags)
    spec = build_spec(fields)
    own = [target for target in what if is_own(target)]
    names = [target for target in what if target not in own]
    if spec.entry.revision and not spec.entry.hub:
        raise DataError("--revision is of the hub's dataset; name --hub too")
    if (spec.to or spec.table.name) and len(what) > 1:
        raise DataError("--to and --name are for one benchmark at a time")
    check_targets(fields, has_tables=bool(own), has_entries=bool(names), as_flags=True)
    for target in own:
        _build_own(target, spec)
    if names:
        _build_entries([entry for name in names for entry in select(name)], spec, force=force)


def _build_own(target: str, spec: BuildSpec) -> None:
    """Build questions of the user, after a preview, and write what was recognised to an entry."""
    source = find_own(target, spec, decide=ask_user, announce=announce)
    if source.recognition and out.is_terminal:
        show_preview(source)
    with build_progress(source.spec.name) as progress, naming_leniency(spec.lenient):
        benchmark = build_own(source, spec, progress=progress)
    print_built(benchmark)
    if source.recognition:
        entry = write_entry(source.recognition, source.spec)
        announce(f"written to {entry}; change it there, or say --column picture=NAME")


def _build_entries(entries: Sequence[BenchmarkSpec], spec: BuildSpec, *, force: bool) -> None:
    """Build benchmarks of the catalogue. Of several, those that cannot be built are named at the end."""
    for entry in entries:
        check_table_settings(entry, spec)
    settings = spec.entry
    if settings.decisions:
        settings = replace(settings, decisions=open_benchmark(settings.decisions).decisions())
    if spec.writer:
        # Loaded once for all benchmarks.
        spec = replace(spec, writer=load_model(spec.writer))

    is_default_build = not (force or settings.source or spec.to)
    refused = []
    for entry in entries:
        if is_default_build and (benchmark_folder(entry.name) / MANIFEST).exists():
            reason = outdated(entry)
            if not reason:
                announce(f"{entry.name} is built already; --force builds it again")
                continue
            announce(f"building {entry.name} again: {reason}")
        entry_settings = settings
        if settings.source:
            files = entry.source_in(Path(settings.source))
            entry_settings = replace(settings, source=str(files))
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
    if refused:
        raise DataError(
            f"{len(refused)} of {len(entries)} benchmarks were not built; the lines above say why"
        )


@click.command()
@click.argument("what", type=PATH)
@field_flags(ReformSpec, has_negations=False)
@click.option(
    "--types",
    "is_overview",
    is_flag=True,
    help="Show what each type would produce, with an example, without building.",
)
@json_flag
def reform_command(what: Path, is_overview: bool, as_json: bool, **flags: Any) -> None:
    """Make checked questions from annotations.

    WHAT is a folder of pictures by class, a file in COCO's form (LVIS too), a table with a picture and what is said of
    it in each row, a dataset of the hub (hf://org/name), or the TOML file of an earlier call:

    \b
      snellen reform photos/
      snellen reform instances_val2017.json --images val2017/ --ask count,presence
      snellen reform birds.csv --distractors near-text:2,random:1 --per-type 200
      snellen reform birds.toml --seed 1 --to other-draw/

    What cannot be asked without doubt is left out and counted; what fails a check gets another distractor or is set
    apart with the reason. docs/reform.md has all types and sources, docs/verifying.md the checks.
    """
    spec = reform_spec(given_fields(flags))
    source = find_annotations(what, spec, decide=ask_user, announce=announce)
    if is_overview:
        _show_types(source, as_json)
        return
    if source.recognition and out.is_terminal:
        show_preview(source)
    with build_progress(source.spec.name) as progress, naming_leniency(spec.lenient):
        benchmark = build_reformed(source, spec, announce=announce, progress=progress)
    print_built(benchmark)
    _print_types(benchmark)
    show_verification(benchmark)
    _print_next(benchmark, is_elsewhere=bool(spec.to))


def _print_next(benchmark: Benchmark, *, is_elsewhere: bool) -> None:
    name = benchmark.folder if is_elsewhere else as_word(benchmark.name)
    out.print(f"next: snellen audit {name}, then snellen report {name}", soft_wrap=True)


def _show_types(own: OwnSource, as_json: bool) -> None:
    rows = [
        (
            counted.name,
            f"{counted.pictures:,}",
            f"{counted.questions:,}",
            f"{counted.left_out:,}",
            counted.example or f"needs {counted.needs}",
        )
        for counted in sorted(
            count_types(own.spec, own.folder), key=lambda counted: not counted.questions
        )
    ]
    header = ("type", "pictures", "questions", "left out", "for example")
    show_table(own.spec.title, header, rows, as_json=as_json)


def _print_types(benchmark: Benchmark) -> None:
    manifest = benchmark.manifest
    types = manifest.tags.get("type", {})
    drawn = ", ".join(f"{name} {number:,}" for name, number in types.items())
    out.print(f"  {drawn}; drawn of {manifest.made.read:,} that can be asked", soft_wrap=True)
