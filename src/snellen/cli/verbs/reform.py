"""`snellen reform`"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from snellen.api import build_reformed, refresh
from snellen.building.benchmark import Benchmark
from snellen.building.reforming import ReformSettings, count_types, reform_source
from snellen.cli.flags import flags_on_line, json_flag
from snellen.cli.own_flags import ask_user, column_flags, naming_leniency
from snellen.cli.preview import show_preview
from snellen.cli.show import announce, build_progress, out, print_built, show_table, show_verification
from snellen.common.paths import as_word
from snellen.errors import DataError
from snellen.recognition.own_sources import OwnSource, TableSettings
from snellen.verification.declaration import Solvers, Votes

OF_REFRESH = ("refreshed", "source", "count", "writer")


@click.command()
@click.argument("what", required=False, type=click.Path(path_type=Path))
@click.option("--ask", metavar="TYPE,TYPE", help="Types of questions: class, count, presence ...  [all that fit]")
@click.option("--types", is_flag=True, help="Show what each type would give, with an example; build nothing.")
@click.option("--images", type=click.Path(path_type=Path), help="Folder with the pictures that a file names.")
@click.option(
    "--column", "columns", multiple=True, metavar="ROLE=COLUMN",
    help="What a column of a table holds: picture, label, caption, objects, questions, answer, texts, fields, "
    "attributes, relations, id; repeat.",
)  # fmt: skip
@click.option("--options", type=click.IntRange(2), help="Options of each question.  [4]")
@click.option(
    "--distractors", default="", metavar="SOURCES",
    help="pool, random, wordnet, near-text, near-picture, near-meaning, written, or several: near-text:2,random:1.  "
    "[pool]",
)  # fmt: skip
@click.option("--writer", help="Model that writes distractors (--distractors written).")
@click.option("--embeddings", default="", metavar="CLIP", help="clip: model that tells which pictures are alike.")
@click.option("--per-type", type=click.IntRange(0), help="Questions of each type, over its answers; 0 for all.  [500]")
@click.option("--count", type=click.IntRange(1), help="Questions in total, as many of each type.")
@click.option("--seed", type=int, default=0, help="Another seed draws other questions and distractors.  [0]")
@click.option("--name", default="", help="Name of the benchmark.  [the file's or folder's]")
@click.option("--title", default="", help="Its title.")
@click.option("--licence", default="", help="The licence of pictures and annotations.")
@click.option("--to", type=click.Path(path_type=Path), help="Folder to make (default: under $SNELLEN_HOME/benchmarks).")
@click.option("--jury", multiple=True, metavar="MODEL", help="Have models vote on each option; repeat for more.")
@click.option("--blind", multiple=True, metavar="MODEL", help="Set apart what models solve without picture; repeat.")
@click.option("--votes", type=click.Choice(["majority", "all"]), default="majority", help="Of the jury.  [majority]")
@click.option("--runs", default="runs", help="Folder of their runs.  [runs]")
@click.option("--lenient", is_flag=True, help="Leave out rows that cannot be used, and count them.")
@click.option("--force", is_flag=True, help="Write the TOML file anew where one says otherwise.")
@click.option(
    "--refresh", "refreshed", metavar="BENCHMARK",
    help="Draw its next version from pictures that no version has shown; --count, --source, --writer go with it.",
)  # fmt: skip
@click.option("--source", type=click.Path(path_type=Path), help="With --refresh: the folder that it was built from.")
@json_flag
def command(
    what: Path | None, types: bool, images: Path | None, columns: tuple[str, ...], ask: str | None, name: str,
    to: Path | None, writer: str | None, embeddings: str, jury: tuple[str, ...], blind: tuple[str, ...], votes: Votes,
    runs: str, lenient: bool, force: bool, refreshed: str | None, source: Path | None, as_json: bool, **settings: Any,
) -> None:  # fmt: skip
    """Make checked questions from annotations.

    WHAT is a folder of pictures by class, a file in COCO's form (LVIS too), a table with a picture and what is said of
    it in each row, a dataset of the hub (hf://org/name), or the TOML file of an earlier call:

    \b
      snellen reform photos/
      snellen reform instances_val2017.json --images val2017/ --ask count,presence
      snellen reform birds.csv --distractors near-text:2,random:1 --per-type 200
      snellen reform birds.toml --seed 1 --to other-draw/
      snellen reform --refresh birds

    What cannot be asked without doubt is left out and counted; what fails a check gets another distractor or is set
    apart with the reason. docs/reform.md has all types and sources, docs/verifying.md the checks.
    """
    if refreshed or what is None:
        _refresh(refreshed, source, settings["count"], writer)
        return
    if source:
        raise DataError("--source goes with --refresh; leave it out")
    asked = ReformSettings(ask=tuple(kind.strip() for kind in (ask or "").split(",") if kind.strip()), **settings)
    table = TableSettings(column_flags(columns), images=str(images or ""))
    own, line = reform_source(what, asked, table, name=name, decide=ask_user, force=force)
    if own.recognition is None and what.suffix != ".toml":
        announce(f"{what}: as {own.entry} says")
    for taken in (*own.recognition.lines(), f"  {line}") if own.recognition else ():
        announce(taken)
    if types:
        _show_types(own, as_json)
        return
    if own.recognition and out.is_terminal:
        show_preview(own)
    with build_progress(own.spec.name) as progress, naming_leniency(lenient):
        benchmark = build_reformed(
            own, asked, to=to, writer=writer, embeddings=embeddings, lenient=lenient, announce=announce,
            progress=progress,
            solvers=Solvers(jury, blind, votes, runs=runs, announce=announce),
        )  # fmt: skip
    print_built(benchmark)
    _print_types(benchmark)
    show_verification(benchmark)
    _print_next(benchmark, to)


def _refresh(name: str | None, source: Path | None, count: int | None, writer: str | None) -> None:
    """Build the next version of a benchmark, and say how much is left for the one after it."""
    if name is None:
        raise DataError("name what the questions are made of: a folder, a file in COCO's form, a table, or a TOML file")
    if useless := flags_on_line(but=OF_REFRESH):
        raise DataError(f"{', '.join(useless)}: --refresh does as its benchmark was built; leave it out")
    with build_progress(name) as progress:
        benchmark = refresh(name, source=source, count=count, writer=writer, progress=progress)
    print_built(benchmark)
    show_verification(benchmark)
    made = benchmark.manifest.made
    announce(f"  new to {', '.join(version.name for version in made.earlier)}; {made.left:,} questions are left unused")
    before, now = as_word(made.earlier[-1].name), as_word(benchmark.name)
    out.print(f"next: snellen compare --drift RUNS_ON_{before} RUNS_ON_{now}", soft_wrap=True)


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
        for counted in sorted(count_types(own.spec, own.folder), key=lambda counted: not counted.questions)
    ]
    header = ("type", "pictures", "questions", "left out", "for example")
    show_table(own.spec.title, header, rows, as_json=as_json)


def _print_types(benchmark: Benchmark) -> None:
    manifest = benchmark.manifest
    types = manifest.tags.get("type", {})
    drawn = ", ".join(f"{name} {number:,}" for name, number in types.items())
    out.print(f"  {drawn}; drawn of {manifest.made.read:,} that can be asked", soft_wrap=True)
