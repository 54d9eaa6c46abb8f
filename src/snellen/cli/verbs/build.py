"""`snellen build` and `snellen reform`: benchmarks from their sources, from your own questions, from annotations."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
from msgspec.structs import replace

from snellen.api import (
    build,
    build_own,
    build_reformed,
    check_own_name,
    makes_options,
    table_of_form,
)
from snellen.building.benchmark import MANIFEST, Benchmark
from snellen.building.recipe import Recipe
from snellen.building.reforming import ReformSettings, count_types, reform_source, with_questions
from snellen.catalogue import BenchmarkSpec, select
from snellen.catalogue.forms import recognised_form, table_forms, titles_of_forms
from snellen.catalogue.suites import params_with
from snellen.cli.flags import (
    PATH,
    Number,
    WholeNumber,
    column_flags,
    flags_on_line,
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
from snellen.common.answer_forms import FORM_WORDS, FORMS
from snellen.common.paths import as_word, benchmark_folder
from snellen.errors import DataError, WrongRowsError
from snellen.models.loading import load_model
from snellen.recognition.columns import Doubt
from snellen.recognition.own_sources import (
    ENDING,
    OwnSource,
    is_own,
    own_source,
    refuse_doubt,
    write_entry,
)
from snellen.recognition.recognising import TableSettings
from snellen.reformulation.sampling import Sampling
from snellen.runs.finding import open_benchmark, outdated
from snellen.verification.verify import Solvers, Votes

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


@click.command()
@click.argument("what", nargs=-1, required=True)
@click.option("--source", type=PATH, help="Folder with the official files of a benchmark.")
@click.option(
    "--hub",
    is_flag=True,
    help="Build from the dataset on the Hugging Face hub (or its local cache, or --source).",
)
@click.option(
    "--revision",
    default="",
    help="Branch, tag or commit of the hub's dataset.  [the entry's, or main]",
)
@click.option(
    "--name",
    default="",
    help="Name of a benchmark made from your own file (default: the file's name).",
)
@click.option("--images", type=PATH, help="Folder that image paths in your file are relative to.")
@click.option("--to", type=PATH, help="Output folder (default: under $SNELLEN_HOME/benchmarks).")
@click.option(
    "--dimension",
    default="",
    help="Capability dimension of your own benchmark: CG, FG, STP, VGR, ...",
)
@click.option(
    "--metric",
    "metrics",
    multiple=True,
    help="Metric for open questions of your own benchmark. Repeat for more.",
)
@click.option(
    "--answers",
    type=PATH,
    help="File with the answers that are hidden in a table of a suite's format.",
)
@click.option(
    "--lenient",
    is_flag=True,
    help="Skip rows of your own file that cannot be used, and count them.",
)
@click.option(
    "--no-pictures",
    is_flag=True,
    help="Declare that no question in your file has an image.",
)
@click.option(
    "--hidden-answers",
    is_flag=True,
    help="Declare that no question in your file has an answer.",
)
@click.option(
    "--fetch-pictures", is_flag=True, help="Download images that your own file gives as URLs."
)
@click.option(
    "--column",
    "columns",
    multiple=True,
    metavar="ROLE=COLUMN",
    help="ROLE=COLUMN of your own table, where ROLE is question, picture, options, answer, id, "
    "context, group or tag. Repeat for more.",
)
@click.option(
    "--answer-is",
    type=click.Choice(FORMS),
    help="How answers in your own table name options: by letter, text, or number from 0 or "
    "from 1.  [recognised]",
)
@click.option(
    "--writer",
    default="",
    help="Model that writes distractors where the paper used a model.",
)
@click.option(
    "--distractors",
    default="",
    metavar="SOURCES",
    help="Where distractors come from: pool, random, wordnet, near-text, near-picture, near-meaning, written, or "
    "several (near-text:2,random:1).  [the entry's]",
)
@click.option(
    "--options", type=WholeNumber(2), help="Options per question with generated distractors.  [4]"
)
@click.option(
    "--ratio",
    type=Number(0, 1, min_open=True),
    help="Sampling ratio; 1 builds all.  [the entry's]",
)
@click.option(
    "--seed", type=int, default=0, help="Random seed for sampling, distractors and examples.  [0]"
)
@click.option(
    "--examples",
    default="",
    metavar="N|CONDITION",
    help="Questions to reserve as few-shot examples: a number, a condition, or `all`.  [none]",
)
@click.option(
    "--param",
    "params",
    multiple=True,
    metavar="NAME=VALUE",
    help="Choice or parameter of the entry's source (docs/datasets.md, Choices). Repeat for more.",
)
@click.option(
    "--decisions",
    metavar="BENCHMARK",
    help="Avoid the distractors, and set aside the questions, that were decided against when this "
    "benchmark was verified.",
)
@click.option("--force", is_flag=True, help="Rebuild benchmarks that are already built.")
@limits_flag
@offline_flag
def build_command(
    what: tuple[str, ...],
    source: Path | None,
    hub: bool,
    revision: str,
    name: str,
    images: Path | None,
    to: Path | None,
    dimension: str,
    metrics: tuple[str, ...],
    answers: Path | None,
    lenient: bool,
    no_pictures: bool,
    hidden_answers: bool,
    fetch_pictures: bool,
    columns: tuple[str, ...],
    answer_is: str | None,
    writer: str,
    params: tuple[str, ...],
    decisions: str | None,
    force: bool,
    **recipe_options: Any,
) -> None:
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

    Which column of your own table holds what is recognised by names and content, said, asked where it is unsure,
    and written beside the table, for the next build. Wrong rows are all named with their lines, and nothing half-built
    is left behind. See docs/own-data.md, and docs/mmbench.md for tables in MMBench's form, whose circular copies
    become one question.
    """
    own = [target for target in what if is_own(target)]
    if revision and not hub:
        raise DataError("--revision is of the hub's dataset; name --hub too")
    if (to or name) and len(what) > 1:
        raise DataError("--to and --name are for one benchmark at a time")
    _check_flags(tables=bool(own), catalogued=len(own) < len(what))
    if name:
        check_own_name(name, to)
    flags = column_flags(columns)
    recipe = _recipe(**recipe_options)
    for target in own:
        makes = makes_options(recipe, writer or None)
        settings = TableSettings(
            flags,
            answer_is or "",
            str(images or ""),
            no_pictures,
            hidden_answers,
            fetch_pictures,
            makes,
        )
        own_table = _own_source(target, settings, name, answers, lenient)
        facts = {
            "dimension": dimension or own_table.spec.dimension,
            "metrics": metrics or own_table.spec.metrics,
        }
        own_table = replace(
            own_table, spec=replace(own_table.spec, name=name or own_table.spec.name, **facts)
        )
        if own_table.recognition and out.is_terminal:
            show_preview(own_table)
        with build_progress(own_table.spec.name) as progress, naming_leniency(lenient):
            benchmark = build_own(
                own_table,
                to=to,
                recipe=recipe,
                writer=writer or None,
                progress=progress,
                lenient=lenient,
            )
        print_built(benchmark)
        if own_table.recognition:
            entry = write_entry(own_table.recognition, own_table.spec)
            announce(f"written to {entry}; change it there, or say --column picture=NAME")
    catalogued = [spec for target in what if target not in own for spec in select(target)]
    source_params = dict(_setting(param) for param in params)
    specs = [_asked(spec, answers, lenient) for spec in catalogued]
    distractor_writer = load_model(writer) if writer else None
    decided = open_benchmark(decisions).decisions() if decisions else {}
    refused = []
    for spec in specs:
        if (
            not force
            and source is None
            and to is None
            and (benchmark_folder(spec.name) / MANIFEST).exists()
        ):
            if not (reason := outdated(spec)):
                announce(f"{spec.name} is built already; --force builds it again")
                continue
            announce(f"building {spec.name} again: {reason}")
        try:
            with build_progress(spec.name) as progress:
                source_files = spec.source_in(source) if source else None
                benchmark = build(
                    spec,
                    source=source_files,
                    hub=hub,
                    revision=revision,
                    to=to,
                    params=source_params,
                    recipe=recipe,
                    writer=distractor_writer,
                    decisions=decided,
                    progress=progress,
                )
        except DataError as error:
            if len(specs) == 1:
                raise
            refused.append(spec.name)
            announce(f"{spec.name} is not built: {error}")
            continue
        print_built(benchmark)
    if refused:
        raise DataError(
            f"{len(refused)} of {len(specs)} benchmarks were not built; the lines above say why"
        )


def _own_source(
    target: str, settings: TableSettings, name: str, answers: Path | None, lenient: bool
) -> OwnSource:
    """What a user gave, and a few lines that say how it is read."""
    path = Path(target)
    is_file = path.is_file() and path.suffix != ENDING
    if is_file and (source := table_of_form(path, settings, answers, lenient)):
        form = recognised_form(path)
        announce(
            f"{path} is read in {form.title}{', ' * bool(form.notice)}{form.notice}" if form else ""
        )
        return source
    if answers and not is_file:
        raise DataError(f"{target}: answers apart are for files of {titles_of_forms()}")
    source = with_questions(own_source(target, settings, name, ask_user))
    if source.entry and path.suffix != ENDING:
        announce(f"{target}: as {source.entry} says")
    for line in source.recognition.lines() if source.recognition else ():
        announce(line)
    if source.recognition and source.recognition.kind == "annotations":
        announce(
            "  questions of all types that fit are made of them; `snellen reform` has choices, and checks them"
        )
    return source


_OF_CATALOGUE = ("source", "hub", "revision", "ratio", "params", "decisions")
_OF_TABLES = (
    "images", "dimension", "metrics", "no_pictures", "hidden_answers", "name", "fetch_pictures", "columns", "answer_is"
)  # fmt: skip


def _check_flags(*, tables: bool, catalogued: bool) -> None:
    """Raise DataError for a flag that would have no effect: one of entries beside a table, or the other way round."""
    for names, applies, of in (
        (
            _OF_CATALOGUE,
            catalogued,
            "benchmarks of the catalogue; a table of your own has its options and rows as they are",
        ),
        (_OF_TABLES, tables, "tables of your own; an entry of the catalogue says this itself"),
    ):
        if not applies and (useless_flags := flags_on_line(only=names)):
            raise DataError(f"{', '.join(useless_flags)}: for {of}; leave it out")


def _asked(spec: BenchmarkSpec, answers: Path | None, lenient: bool) -> BenchmarkSpec:
    if not (answers or lenient):
        return spec
    if spec.source.reader not in {form.reader for form in table_forms()}:
        flags = " and ".join(["--answers"] * bool(answers) + ["--lenient"] * lenient)
        raise DataError(
            f"{flags}: for `snellen build FILE` and {titles_of_forms()}, but {spec.name} has an entry; correct its "
            f"rows, or leave {flags} out"
        )
    return replace(
        spec,
        source=replace(
            spec.source, params=params_with(spec.source.params, answers=answers, lenient=lenient)
        ),
    )


def _setting(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise DataError(f"--param {text}: write it as NAME=VALUE")
    return name, value


def _recipe(
    distractors: str, options: int | None, ratio: float | None, seed: int, examples: str
) -> Recipe:
    sample = None
    if ratio is not None:
        sample = Sampling() if ratio == 1 else Sampling("balanced", ratio=ratio)
    return Recipe(sample, options, distractors, seed, examples)


@click.command()
@click.argument("what", type=PATH)
@click.option(
    "--ask",
    metavar="TYPE,TYPE",
    help="Types of questions: class, count, presence ...  [all that fit]",
)
@click.option(
    "--types",
    is_flag=True,
    help="Show what each type would produce, with an example, without building.",
)
@click.option("--images", type=PATH, help="Folder with the images that the file names.")
@click.option(
    "--column",
    "columns",
    multiple=True,
    metavar="ROLE=COLUMN",
    help="ROLE=COLUMN of a table, where ROLE is picture, label, caption, objects, questions, "
    "answer, texts, fields, attributes, relations or id. Repeat for more.",
)
@click.option("--options", type=WholeNumber(2), help="Options per question.  [4]")
@click.option(
    "--distractors",
    default="",
    metavar="SOURCES",
    help="pool, random, wordnet, near-text, near-picture, near-meaning, written, or several: near-text:2,random:1.  "
    "[pool]",
)
@click.option("--writer", help="Model that writes distractors (for --distractors written).")
@click.option(
    "--embeddings",
    default="",
    metavar="CLIP",
    help="clip: model that finds similar images.",
)
@click.option(
    "--per-type",
    type=WholeNumber(0),
    help="Questions per type, spread over its answers; 0 for all.  [500]",
)
@click.option(
    "--count", type=WholeNumber(1), help="Questions in total, the same number of each type."
)
@click.option("--seed", type=int, default=0, help="Random seed for questions and distractors.  [0]")
@click.option("--name", default="", help="Name of the benchmark.  [the file's or folder's]")
@click.option("--title", default="", help="Title of the benchmark.")
@click.option("--licence", default="", help="Licence of the images and annotations.")
@click.option("--to", type=PATH, help="Output folder (default: under $SNELLEN_HOME/benchmarks).")
@click.option(
    "--jury",
    multiple=True,
    metavar="MODEL",
    help="Model that votes on each option. Repeat for more.",
)
@click.option(
    "--blind",
    multiple=True,
    metavar="MODEL",
    help="Model whose correct answers without image set questions aside. Repeat for more.",
)
@click.option(
    "--votes",
    type=click.Choice(["majority", "all"]),
    default="majority",
    help="How the votes of the jury are counted.  [majority]",
)
@click.option(
    "--runs", default="runs", help="Folder for the runs of the jury and the blind models.  [runs]"
)
@click.option("--lenient", is_flag=True, help="Skip rows that cannot be used, and count them.")
@click.option("--force", is_flag=True, help="Overwrite the TOML file if it differs.")
@json_flag
def reform_command(
    what: Path,
    types: bool,
    images: Path | None,
    columns: tuple[str, ...],
    ask: str | None,
    name: str,
    to: Path | None,
    writer: str | None,
    embeddings: str,
    jury: tuple[str, ...],
    blind: tuple[str, ...],
    votes: Votes,
    runs: str,
    lenient: bool,
    force: bool,
    as_json: bool,
    **settings: Any,
) -> None:
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
    chosen = ReformSettings(
        ask=tuple(kind.strip() for kind in (ask or "").split(",") if kind.strip()), **settings
    )
    table = TableSettings(column_flags(columns), images=str(images or ""))
    own, line = reform_source(what, chosen, table, name=name, decide=ask_user, force=force)
    if own.recognition is None and what.suffix != ".toml":
        announce(f"{what}: as {own.entry} says")
    for note in (*own.recognition.lines(), f"  {line}") if own.recognition else ():
        announce(note)
    if types:
        _show_types(own, as_json)
        return
    if own.recognition and out.is_terminal:
        show_preview(own)
    with build_progress(own.spec.name) as progress, naming_leniency(lenient):
        benchmark = build_reformed(
            own,
            chosen,
            to=to,
            writer=writer,
            embeddings=embeddings,
            lenient=lenient,
            announce=announce,
            progress=progress,
            solvers=Solvers(jury, blind, votes, runs=runs, announce=announce),
        )
    print_built(benchmark)
    _print_types(benchmark)
    show_verification(benchmark)
    _print_next(benchmark, to)


def _print_next(benchmark: Benchmark, to: Path | None) -> None:
    name = benchmark.folder if to else as_word(benchmark.name)
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
