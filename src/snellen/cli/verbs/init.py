"""`snellen init`"""

from __future__ import annotations

from pathlib import Path

import click

from snellen.catalogue.hooks import Scaffold
from snellen.cli.show import announce, out, show_table
from snellen.registry import find


@click.command()
@click.argument("form")
@click.argument("folder", type=click.Path(path_type=Path))
@click.option(
    "--questions", required=True, type=click.Path(path_type=Path), help="Your questions, a .csv or .tsv: question, "
    "image, A, B, ..., answer (a letter), category; l2-category, hint, source if you like.",
)  # fmt: skip
@click.option("--images", type=click.Path(path_type=Path), help="Folder that image paths are relative to.")
@click.option("--name", default="", help="Name of the benchmark.  [the folder's]")
def command(form: str, folder: Path, questions: Path, images: Path | None, name: str) -> None:
    """Start a benchmark of your own.

    \b
      snellen init mmbench-like mine/ --questions questions.csv --images pictures/

    FORM is defined by a suite. mmbench-like makes FOLDER with two splits, dev and test in the ratio 4 to 6 for each
    ability; the answers of test are in a separate file. Reports how the questions are distributed, and what would
    make their numbers weak.
    """
    scaffold: Scaffold = find("scaffolds", form)
    scaffolded = scaffold(questions, images, folder, name)
    show_table(scaffolded.title, scaffolded.header, scaffolded.rows, as_json=False)
    for note in scaffolded.notes:
        announce(f"  note: {note}")
    out.print(scaffolded.closing, soft_wrap=True)
