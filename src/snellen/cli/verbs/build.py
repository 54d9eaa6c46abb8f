"""`snellen build`"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
from msgspec.structs import replace

from snellen.api import build, build_table
from snellen.benchmark import MANIFEST
from snellen.building.recipe import DistractorSource, Recipe
from snellen.catalogue import BenchmarkSpec, select
from snellen.catalogue.forms import recognised_form, table_forms, titles_of_forms
from snellen.catalogue.hooks import params_with
from snellen.cli.flags import flags_on_line, offline_flag
from snellen.cli.show import announce, build_progress, print_built
from snellen.errors import DataError, UnknownNameError
from snellen.models.base import load_model
from snellen.paths import benchmark_folder
from snellen.readers.own_table import SUFFIXES
from snellen.reformulation.sampling import Sampling


@click.command()
@click.argument("what", nargs=-1, required=True)
@click.option(
    "--source", type=click.Path(path_type=Path), help="Folder with the official files a benchmark is built from."
)
@click.option(
    "--hub", is_flag=True, help="Build from the dataset on the Hugging Face hub (or its local cache, or --source)."
)
@click.option("--revision", default="", help="Branch, tag or commit of the hub's dataset.  [the entry's, or main]")
@click.option("--name", default="", help="Name of a benchmark made from your own file (default: the file's name).")
@click.option("--images", type=click.Path(path_type=Path), help="Folder that image paths in your file are relative to.")
@click.option("--to", type=click.Path(path_type=Path), help="Folder to make (default: under $SNELLEN_HOME/benchmarks).")
@click.option("--dimension", default="", help="Capability dimension of your own benchmark: CG, FG, STP, VGR, ...")
@click.option(
    "--metric", "metrics", multiple=True, help="Metric for open questions of your own benchmark; repeat for more."
)
@click.option(
    "--answers", type=click.Path(path_type=Path), help="File with the answers that a table of a suite's form hides."
)
@click.option("--lenient", is_flag=True, help="Leave out wrong questions of such a table, counted by kind.")
@click.option("--no-pictures", is_flag=True, help="It is meant that no question of your own file has a picture.")
@click.option("--hidden-answers", is_flag=True, help="It is meant that no question of your own file has an answer.")
@click.option("--writer", default="", help="Model that writes distractors, where the paper had a model write them.")
@click.option(
    "--distractors",
    type=click.Choice(["written", "pool"]),
    default="written",
    help="Where those come from: written by the model, or other answers of the source.  [written]",
)
@click.option("--options", type=click.IntRange(2), help="Options of questions whose distractors are made.  [4]")
@click.option(
    "--ratio", type=click.FloatRange(0, 1, min_open=True), help="Share to sample; 1 builds all.  [the entry's]"
)
@click.option("--seed", type=int, default=0, help="Seed of sampling, distractors and examples.  [0]")
@click.option(
    "--examples",
    default="",
    metavar="N|CONDITION",
    help="Questions to set apart, to be shown with their answers before others: how many, which, or `all`.  [none]",
)
@click.option(
    "--param",
    "params",
    multiple=True,
    metavar="NAME=VALUE",
    help="A choice or a parameter of the entry's source (docs/datasets.md, Choices); repeat for more.",
)
@click.option("--force", is_flag=True, help="Build again what is built already.")
@offline_flag
def command(
    what: tuple[str, ...], source: Path | None, hub: bool, revision: str, name: str, images: Path | None,
    to: Path | None, dimension: str, metrics: tuple[str, ...], answers: Path | None, lenient: bool,
    no_pictures: bool, hidden_answers: bool, writer: str, params: tuple[str, ...], force: bool, **recipe_options: Any,
) -> None:  # fmt: skip
    """Make benchmarks.

    WHAT is a name, glob or suite of the catalogue, or your own questions as .jsonl, .json, .tsv or .csv:

    \b
      snellen build eyechart
      snellen build questions.tsv --name mine --images pictures/
      snellen build reform-eval --source official/ --writer openai:name@http://host:port/v1
      snellen build mmbench/dev-en --source MMBench_DEV_EN.tsv
      snellen build reform-eval/vqav2 --hub

    A row of your own file has a question, options A, B, ... (or a list in JSONL), an answer (letter,
    text or index) and an image (path or base64). Wrong rows are all named with their lines, and nothing
    half-built is left behind. See docs/own-data.md, and docs/mmbench.md for tables in MMBench's form,
    whose circular copies become one question.
    """
    files = [Path(target) for target in what if Path(target).suffix in SUFFIXES]
    if revision and not hub:
        raise DataError("--revision is of the hub's dataset; name --hub too")
    if (to or name) and len(what) > 1:
        raise DataError("--to and --name are for one benchmark at a time")
    _check_flags(tables=bool(files), catalogued=len(files) < len(what))
    recipe = _recipe(**recipe_options)
    for file in files:
        if form := recognised_form(file):
            announce(f"{file} is read in {form.title}{', ' * bool(form.notice)}{form.notice}")
        with build_progress(name or file.stem) as progress:
            benchmark = build_table(
                file, name=name, images=images, to=to, dimension=dimension, metrics=metrics, answers=answers,
                lenient=lenient, no_pictures=no_pictures, hidden_answers=hidden_answers, examples=recipe.examples,
                progress=progress,
            )  # fmt: skip
        print_built(benchmark)
    catalogued = [spec for target in what if Path(target).suffix not in SUFFIXES for spec in _select(target)]
    settings = dict(_setting(param) for param in params)
    specs = [_asked(spec, answers, lenient) for spec in catalogued]
    distractor_writer = load_model(writer) if writer else None
    refused = []
    for spec in specs:
        if not force and source is None and to is None and (benchmark_folder(spec.name) / MANIFEST).exists():
            announce(f"{spec.name} is built already; --force builds it again")
            continue
        try:
            with build_progress(spec.name) as progress:
                source_files = spec.source_in(source) if source else None
                benchmark = build(
                    spec, source=source_files, hub=hub, revision=revision, to=to, params=settings, recipe=recipe,
                    writer=distractor_writer, progress=progress,
                )  # fmt: skip
        except DataError as error:
            if len(specs) == 1:
                raise
            refused.append(spec.name)
            announce(f"{spec.name} is not built: {error}")
            continue
        print_built(benchmark)
    if refused:
        raise DataError(f"{len(refused)} of {len(specs)} benchmarks were not built; the lines above say why")


_OF_CATALOGUE = ("source", "hub", "revision", "writer", "distractors", "options", "ratio", "params")
_OF_TABLES = ("images", "dimension", "metrics", "no_pictures", "hidden_answers", "name")


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
        raise DataError(f"{spec.name} is not of {titles_of_forms()}, for which --answers and --lenient are")
    return replace(
        spec, source=replace(spec.source, params=params_with(spec.source.params, answers=answers, lenient=lenient))
    )


def _select(target: str) -> tuple[BenchmarkSpec, ...]:
    """The benchmarks that a name of the catalogue means. Raises DataError for a file that is not a table of them."""
    try:
        return select(target)
    except UnknownNameError:
        if not Path(target).is_file():
            raise
        raise DataError(
            f"{target}: questions are read from {', '.join(SUFFIXES)}; save a spreadsheet as .csv in UTF-8"
        ) from None


def _setting(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise DataError(f"--param {text}: write it as NAME=VALUE")
    return name, value


def _recipe(
    distractors: DistractorSource, options: int | None, ratio: float | None, seed: int, examples: str
) -> Recipe:
    sample = None
    if ratio is not None:
        sample = Sampling() if ratio == 1 else Sampling("balanced", ratio=ratio)
    return Recipe(sample, options, distractors, seed, examples)
