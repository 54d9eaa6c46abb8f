"""`snellen fetch`, `import` and `verify`: the files that benchmarks are made of."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from snellen.building.builder import build_benchmark
from snellen.building.source_counts import (
    SourceCounts,
    count_differences,
    count_source,
    difference_reasons,
    implied_shares,
)
from snellen.catalogue import BenchmarkSpec, entries, select
from snellen.catalogue.suites import Importer
from snellen.cli.flags import PATH, json_flag, limits_flag, offline_flag, yes_flag
from snellen.cli.show import announce, build_progress, err, out, print_built, show_table
from snellen.errors import DataError, NoSourceError
from snellen.registry import find


@click.command()
@click.argument("names", nargs=-1)
@click.option(
    "--all",
    "everything",
    is_flag=True,
    help="All benchmarks of the catalogue that can be downloaded.",
)
@click.option(
    "--to",
    type=PATH,
    help="Copy the files to this folder, for example to carry them to another machine.",
)
@click.option(
    "--remove", is_flag=True, help="Remove the source files that no other benchmark uses."
)
@yes_flag
@limits_flag
@offline_flag
def fetch_command(names: tuple[str, ...], everything: bool, to: Path | None, remove: bool) -> None:
    """Fetch the files that benchmarks are built from.

    NAMES are names, globs or suites of the catalogue. What is on this machine already is checked, and not fetched
    again. `snellen run` and `snellen build` fetch what they lack by themselves. --remove takes fetched files away; what
    was built from them stays.

    \b
      snellen fetch mmbench
      snellen fetch reform-eval/vqav2 --to usb-stick/
      snellen build reform-eval/vqav2 --source usb-stick/
      snellen fetch --remove mmbench
    """
    from snellen.fetching.sources import announce_fetch, copy_source, fetch_source, is_fetchable

    if bool(names) == everything:
        raise DataError(
            "name what to fetch, or everything with --all; `snellen list benchmarks` shows all"
        )
    if remove and to:
        raise DataError("--remove takes files away and --to copies them; name one of both")
    chosen = entries().values() if everything else (spec for name in names for spec in select(name))
    specs = [
        spec for spec in {spec.name: spec for spec in chosen}.values() if not spec.source.embedded
    ]
    if remove:
        _remove(specs)
        return
    if everything:
        specs = [spec for spec in specs if is_fetchable(spec)]
    if len(specs) > 1:
        announce_fetch(specs)
    refused = 0
    for spec in specs:
        try:
            source = fetch_source(spec)
        except NoSourceError as error:
            if len(specs) == 1:
                raise
            announce(str(error))
            refused += 1
            continue
        out.print(
            f"{spec.name}: {copy_source(source, to) if to else source.folder}", soft_wrap=True
        )
    if refused:
        raise DataError(
            f"{refused} of {len(specs)} benchmarks were not fetched; the lines above say why"
        )


def _remove(specs: Sequence[BenchmarkSpec]) -> None:
    from snellen.common.foreign import in_bytes
    from snellen.fetching.inventory import remove_data

    removal = remove_data(specs)
    for data in removal.removed:
        out.print(f"removed {data.name} ({in_bytes(data.size)})", soft_wrap=True)
    for data, other_benchmarks in removal.stayed:
        out.print(
            f"{data.name} ({in_bytes(data.size)}) stays: {', '.join(other_benchmarks)} needs it too",
            soft_wrap=True,
        )
    out.print(f"{in_bytes(removal.freed)} freed" if removal.removed else "nothing was removed")


@click.command("import")
@click.argument("what")
@click.argument("folder", required=False, type=PATH)
@click.argument("benchmarks", nargs=-1)
@click.option(
    "--hub",
    is_flag=True,
    help="Download the files from the Hugging Face hub (or use its local cache).",
)
@click.option("--revision", default="", help="Branch, tag or commit of the hub's dataset.  [main]")
@click.option("--images", type=PATH, help="Folder with the images that the raw variant names.")
def import_command(
    what: str,
    folder: Path | None,
    benchmarks: tuple[str, ...],
    hub: bool,
    revision: str,
    images: Path | None,
) -> None:
    """Make benchmarks from data published in another form.

    \b
      snellen import reform-eval ReForm-Eval-Data/
      snellen import reform-eval ReForm-Eval-Data/ vsr clevr
      snellen import reform-eval --hub

    WHAT names the data: reform-eval, or that of another suite. FOLDER holds its files (of ReForm-Eval-Data's 61
    benchmarks, those present are made). BENCHMARKS are short names of benchmarks; the default is all.
    `snellen run MODEL reform-eval --templates data` uses the instructions that the files bring.
    """
    from snellen.fetching.hub import fetch_dataset
    from snellen.fetching.sources import hub_name

    importer: Importer = find("importers", what)
    origin = importer.title
    if hub:
        benchmarks = (str(folder), *benchmarks) if folder else benchmarks
        if not importer.dataset:
            raise DataError(
                f"{importer.title} is not known to be on the hub; name the folder with its files"
            )
        folder, commit = fetch_dataset((importer.dataset,), importer.patterns(benchmarks), revision)
        announce(f"{importer.dataset} at commit {commit}")
        origin = f"{importer.title}, {hub_name(importer.dataset, commit)}"
    if folder is None:
        raise DataError(
            f"name the folder with the files of {importer.title}, or fetch them with --hub"
        )
    refused = 0
    for spec in importer.benchmarks(folder, benchmarks, images):
        try:
            with build_progress(spec.name) as progress:
                benchmark = build_benchmark(spec, source=folder, progress=progress, origin=origin)
        except DataError as error:
            announce(f"{spec.name} is not built: {error}")
            refused += 1
            continue
        print_built(benchmark)
    if refused:
        raise DataError(f"{refused} benchmarks were not built; the lines above say why")


COUNTS_HEADER = (
    "benchmark",
    "samples",
    "paper",
    "images",
    "paper ",
    "evaluated",
    "published",
    "shares",
    "state",
    "why",
)

AS_PUBLISHED = "as published"


@click.command()
@click.argument("what", nargs=-1, required=True)
@click.option(
    "--source",
    required=True,
    type=click.Path(path_type=Path, exists=True),
    help="Folder with the files.",
)
@click.option("--strict", is_flag=True, help="Exit with 1 if a count differs or files are missing.")
@json_flag
def verify_command(what: tuple[str, ...], source: Path, strict: bool, as_json: bool) -> None:
    """Compare what official files contain with the tables of the benchmark's paper.

    \b
      snellen verify reform-eval --source official/

    Nothing is built, but what is evaluated goes through the checks of a build, pictures too. Compared are the numbers
    of questions and pictures, and what published accuracies imply of the answers and of the numbers of options. Each
    benchmark's files lie in a folder of its own below --source (see docs/reform-eval.md), or all in that folder. What
    differs is shown with what is known of the reason; what `build` refuses never counts as published.
    """
    rows: list[tuple[str, ...]] = []
    differing = 0
    for spec in {spec.name: spec for name in what for spec in select(name)}.values():
        with err.status(f"counting {spec.name}"):
            try:
                counted = count_source(spec, spec.source_in(source))
            except DataError as error:
                rows.append((spec.name, *[""] * 7, "not read", str(error).splitlines()[0]))
                differing += 1
                continue
        row = _row(spec, counted)
        differing += row[-2] != AS_PUBLISHED
        rows.append(row)
    show_table("against the paper's tables", COUNTS_HEADER, rows, as_json)
    if not as_json:
        out.print(f"{len(rows) - differing} of {len(rows)} as in the paper")
    if strict and differing:
        raise SystemExit(1)


def _row(spec: BenchmarkSpec, counted: SourceCounts) -> tuple[str, ...]:
    differs = count_differences(spec, counted)
    state = "refused" if counted.refused else "differs" if differs else AS_PUBLISHED
    shares = (
        f"{share.what} {share.here:.1%} ({share.implied:.1%})"
        for share in implied_shares(spec, counted)
    )
    refused = [f"build refuses it: {counted.refused}"] if counted.refused else []
    return (
        spec.name,
        f"{counted.complete:,}",
        _count(spec.complete.samples),
        f"{counted.images:,}",
        _count(spec.complete.images),
        f"{counted.sampled:,}",
        _count(spec.expected.samples),
        ", ".join(shares),
        state,
        "; ".join([*refused, *difference_reasons(spec, counted)]),
    )


def _count(number: int | None) -> str:
    return "?" if number is None else f"{number:,}"
