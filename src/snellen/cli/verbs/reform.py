"""`snellen reform`"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from snellen.api import reform, reformed_target
from snellen.benchmark import Benchmark
from snellen.building.reforming import count_types
from snellen.cli.flags import json_flag
from snellen.cli.show import announce, build_progress, out, print_built, show_table


@click.command()
@click.argument("what", type=click.Path(path_type=Path))
@click.option("--ask", metavar="TYPE,TYPE", help="Types of questions: class, count, presence ...  [all that fit]")
@click.option("--types", is_flag=True, help="Show what each type would give, with an example; build nothing.")
@click.option("--pictures", type=click.Path(path_type=Path), help="Folder with the pictures that a file names.")
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
@click.option("--force", is_flag=True, help="Write the TOML file anew where one says otherwise.")
@json_flag
def command(what: Path, ask: str | None, types: bool, as_json: bool, **settings: Any) -> None:
    """Make closed questions from annotations.

    WHAT is a folder of pictures by class, a file in COCO's form (LVIS too), a table with a picture and what is said of
    it in each row, or the TOML file of an earlier call:

    \b
      snellen reform photos/
      snellen reform instances_val2017.json --pictures val2017/ --ask count,presence
      snellen reform birds.csv --distractors near-text:2,random:1 --per-type 200
      snellen reform birds.toml --seed 1 --to other-draw/

    What cannot be asked without doubt is left out and counted. docs/reform.md has all types and sources.
    """
    settings["ask"] = [name.strip() for name in (ask or "").split(",") if name.strip()]
    if types:
        of_entry = {
            name: value for name, value in settings.items() if name not in ("to", "force", "writer", "embeddings")
        }
        _show_types(reformed_target(what, **of_entry), as_json)
        return
    with build_progress(settings["name"] or what.stem) as progress:
        benchmark = reform(what, announce=announce, progress=progress, **settings)
    print_built(benchmark)
    _print_types(benchmark)
    out.print(f"next: snellen audit {benchmark.name if settings['to'] is None else benchmark.folder}", soft_wrap=True)


def _show_types(reformed: Any, as_json: bool) -> None:
    rows = [
        (
            counted.name,
            f"{counted.pictures:,}",
            f"{counted.questions:,}",
            f"{counted.left_out:,}",
            counted.example or f"needs {counted.needs}",
        )
        for counted in sorted(count_types(reformed), key=lambda counted: not counted.questions)
    ]
    header = ("type", "pictures", "questions", "left out", "for example")
    show_table(reformed.spec.title, header, rows, as_json=as_json)


def _print_types(benchmark: Benchmark) -> None:
    manifest = benchmark.manifest
    types = manifest.tags.get("type", {})
    drawn = ", ".join(f"{name} {number:,}" for name, number in types.items())
    out.print(f"  {drawn}; drawn of {manifest.made.read:,} that can be asked", soft_wrap=True)
