"""`snellen build`"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from snellen.api import build, build_table
from snellen.benchmark import MANIFEST, Benchmark
from snellen.build import Progress
from snellen.catalogue import select
from snellen.cli.show import announce, err, out
from snellen.errors import DataError
from snellen.home import benchmark_folder
from snellen.sources.table import SUFFIXES


@click.command()
@click.argument("what", nargs=-1, required=True)
@click.option(
    "--source", type=click.Path(path_type=Path), help="Folder with the official files a benchmark is built from."
)
@click.option("--name", default="", help="Name of a benchmark made from your own file (default: the file's name).")
@click.option("--images", type=click.Path(path_type=Path), help="Folder that image paths in your file are relative to.")
@click.option("--to", type=click.Path(path_type=Path), help="Folder to make (default: under $SNELLEN_HOME/benchmarks).")
@click.option("--dimension", default="", help="Capability dimension of your own benchmark: CG, FG, STP, VGR, ...")
@click.option(
    "--metric", "metrics", multiple=True, help="Metric for open questions of your own benchmark; repeat for more."
)
@click.option("--force", is_flag=True, help="Build again what is built already.")
def command(
    what: tuple[str, ...], source: Path | None, name: str, images: Path | None, to: Path | None,
    dimension: str, metrics: tuple[str, ...], force: bool,
) -> None:  # fmt: skip
    """Make benchmarks.

    WHAT is a name, glob or suite of the catalogue, or your own questions as .jsonl, .tsv or .csv:

    \b
      snellen build eyechart
      snellen build questions.tsv --name mine --images pictures/

    A row of your own file has a question, options A, B, ... (or a list in JSONL), an answer (letter,
    text or index) and an image (path or base64). A wrong row is refused with its line; nothing
    half-built is left behind. docs/own-data.md has the details.
    """
    files = [Path(one) for one in what if Path(one).suffix in SUFFIXES]
    if (to or name) and len(what) > 1:
        raise DataError("--to and --name are for one benchmark at a time")
    for file in files:
        with _counting(name or file.stem) as progress:
            made = build_table(
                file, name=name, images=images, to=to, dimension=dimension, metrics=metrics, progress=progress
            )
        _tell(made)
    for spec in [spec for one in what if Path(one).suffix not in SUFFIXES for spec in select(one)]:
        if not force and source is None and to is None and (benchmark_folder(spec.name) / MANIFEST).exists():
            announce(f"{spec.name} is built already; --force builds it again")
            continue
        with _counting(spec.name) as progress:
            made = build(spec, source=source, to=to, progress=progress)
        _tell(made)


@contextmanager
def _counting(name: str) -> Iterator[Progress]:
    """A line on the terminal that counts the questions built."""
    with err.status(f"building {name}") as status:
        yield lambda count: status.update(f"building {name}: {count:,} questions") if count % 100 == 0 else None


def _tell(made: Benchmark) -> None:
    counts = made.manifest.counts
    hidden = "" if counts.answers else ", answers hidden"
    out.print(
        f"built {made.name} version {made.manifest.version}: {counts.questions:,} questions, "
        f"{counts.images:,} images{hidden}\n  {made.folder}",
        highlight=False,
        soft_wrap=True,
    )
    for warning in made.manifest.warnings:
        announce(f"  note: {warning}")
