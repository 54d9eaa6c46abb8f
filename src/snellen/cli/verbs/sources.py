"""`snellen fetch`, `import` and `verify`: the files that benchmarks are made of."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from snellen.building.builder import build_benchmark
from snellen.building.recipe import BuildInputs
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
from snellen.cli.show import (
    announce,
    announce_next,
    build_progress,
    command_line,
    console,
    error_console,
    print_built,
    show_table,
)
from snellen.errors import DataError, NoSourceError
from snellen.registry import find_registered


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
    """Download the source files of benchmarks, or remove them.

    NAMES are names, globs or suites of the catalogue. Files that are already on this machine are checked and not
    downloaded again. `snellen run` and `snellen build` download what they need by themselves. --remove deletes
    downloaded files, but not the benchmarks that were built from them.

    \b
      snellen fetch mmbench
      snellen fetch reform-eval/vqav2 --to usb-stick/
      snellen build reform-eval/vqav2 --source usb-stick/
      snellen fetch --remove mmbench
    """
    from snellen.fetching.sources import announce_fetch, copy_source, fetch_source, is_fetchable

    if bool(names) == everything:
        raise DataError(
            "name the benchmarks to fetch, or use --all; `snellen list benchmarks` shows all"
        )
    if remove and to:
        raise DataError("--remove deletes files and --to copies them; use only one of them")
    chosen: list[BenchmarkSpec] = []
    if everything:
        chosen.extend(entries().values())
    for name in names:
        chosen.extend(select(name))
    by_name = {spec.name: spec for spec in chosen}
    specs = [spec for spec in by_name.values() if not spec.source.embedded]
    if not specs:
        console.print(
            f"{', '.join(names)}: nothing to download, it comes with Snellen", soft_wrap=True
        )
        announce_next(command_line("run", "MODEL", *names))
        return
    if remove:
        _remove(specs)
        return
    if everything:
        specs = [spec for spec in specs if is_fetchable(spec)]
    if len(specs) > 1:
        announce_fetch(specs)
    refused = 0
    fetched = []
    for spec in specs:
        try:
            source = fetch_source(spec)
        except NoSourceError as error:
            if len(specs) == 1:
                raise
            announce(str(error))
            refused += 1
            continue
        folder = copy_source(source, to) if to else source.folder
        console.print(f"{spec.name}: {folder}", soft_wrap=True)
        fetched.append(spec.name)
    if refused:
        raise DataError(
            f"{refused} of {len(specs)} benchmarks were not fetched; see the reasons above"
        )
    if to and fetched:
        announce_next(command_line("build", *fetched, "--source", to))
    elif fetched:
        announce_next(command_line("run", "MODEL", *names))


def _remove(specs: Sequence[BenchmarkSpec]) -> None:
    """Remove the fetched data of some benchmarks, except what others also need, and print what was freed."""
    from snellen.common.foreign import format_bytes
    from snellen.fetching.inventory import remove_data

    removal = remove_data(specs)
    for data in removal.removed:
        console.print(f"removed {data.name} ({format_bytes(data.size)})", soft_wrap=True)
    for data, other_benchmarks in removal.stayed:
        console.print(
            f"{data.name} ({format_bytes(data.size)}) was not removed, because {', '.join(other_benchmarks)} also "
            "needs it",
            soft_wrap=True,
        )
    console.print(
        f"{format_bytes(removal.freed)} freed" if removal.removed else "nothing was removed"
    )


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
    """Build benchmarks from data that was published in another format.

    \b
      snellen import reform-eval ReForm-Eval-Data/
      snellen import reform-eval ReForm-Eval-Data/ vsr clevr
      snellen import reform-eval --hub

    WHAT names the data: reform-eval, or the data of another suite. FOLDER contains the files; benchmarks whose files are
    missing are skipped. BENCHMARKS are short names of benchmarks; the default is all. `snellen run MODEL reform-eval
    --templates data` uses the instructions in the files.
    """
    from snellen.fetching.hub import fetch_dataset
    from snellen.fetching.sources import hub_name

    importer: Importer = find_registered("importers", what)
    origin = importer.title
    if hub:
        benchmarks = (str(folder), *benchmarks) if folder else benchmarks
        if not importer.dataset:
            raise DataError(
                f"no hub dataset is known for {importer.title}; give the folder with its files"
            )
        folder, commit = fetch_dataset((importer.dataset,), importer.patterns(benchmarks), revision)
        announce(f"{importer.dataset} at commit {commit}")
        origin = f"{importer.title}, {hub_name(importer.dataset, commit)}"
    if folder is None:
        raise DataError(
            f"give the folder with the files of {importer.title}, or fetch them with --hub"
        )
    refused = 0
    built: list[str] = []
    for spec in importer.benchmarks(folder, benchmarks, images):
        try:
            with build_progress(spec.name) as progress:
                benchmark = build_benchmark(
                    spec, source=folder, inputs=BuildInputs(origin=origin), progress=progress
                )
        except DataError as error:
            announce(f"{spec.name} is not built: {error}")
            refused += 1
            continue
        print_built(benchmark)
        built.append(benchmark.name)
    if refused:
        raise DataError(f"{refused} benchmarks were not built; see the reasons above")
    announce_next(command_line("run", "MODEL", *built))


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
    """Compare official files with the tables in the paper of a benchmark.

    \b
      snellen verify reform-eval --source official/

    The command does not build anything, but checks the questions and images as a build would. It compares the numbers
    of questions and images, and what published accuracies imply about the answers and the numbers of options. --source
    contains one folder per benchmark (see docs/reform-eval.md), or the files themselves. Each difference is shown with
    its reason, if one is known.
    """
    specs: dict[str, BenchmarkSpec] = {}
    for name in what:
        for spec in select(name):
            specs[spec.name] = spec
    rows: list[tuple[str, ...]] = []
    differing = 0
    for spec in specs.values():
        with error_console.status(f"counting {spec.name}"):
            try:
                counted = count_source(spec, spec.source_in(source))
            except DataError as error:
                no_counts = [""] * 7
                first_line = str(error).splitlines()[0]
                rows.append((spec.name, *no_counts, "not read", first_line))
                differing += 1
                continue
        row = _row(spec, counted)
        if row[-2] != AS_PUBLISHED:
            differing += 1
        rows.append(row)
    show_table("against the paper's tables", COUNTS_HEADER, rows, as_json)
    if not as_json:
        console.print(f"{len(rows) - differing} of {len(rows)} as in the paper")
    if strict and differing:
        raise SystemExit(1)


def _row(spec: BenchmarkSpec, counted: SourceCounts) -> tuple[str, ...]:
    """Return a table row that compares the counts of a benchmark's source with the published ones."""
    state = AS_PUBLISHED
    if counted.refused:
        state = "refused"
    elif count_differences(spec, counted):
        state = "differs"
    shares = []
    for share in implied_shares(spec, counted):
        shares.append(f"{share.what} {share.here:.1%} ({share.implied:.1%})")
    reasons = []
    if counted.refused:
        reasons.append(f"the build rejects it: {counted.refused}")
    reasons += difference_reasons(spec, counted)
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
        "; ".join(reasons),
    )


def _count(number: int | None) -> str:
    """Return a number for a table; a question mark if it is not known."""
    return "?" if number is None else f"{number:,}"
