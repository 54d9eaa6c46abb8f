"""`snellen export`"""

from __future__ import annotations

from pathlib import Path

import click

from snellen.api import Results
from snellen.cli.show import out
from snellen.scoring.kept_scoring import load_scoring


@click.command()
@click.argument("runs", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--as", "form", default="samples", show_default=True, help="The form: `snellen list exporters`.")
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), help="The file or folder to write.  [by run and form, here]"
)
@click.option("--scoring", help="Which scoring of a run: a folder under its `scores`.  [the standard one]")
@click.option("--pictures", is_flag=True, help="Write pictures too, where the form has a place for them.")
@click.option("--answers", is_flag=True, help="With golds, in forms that are made to be published.")
def command(
    runs: tuple[Path, ...], form: str, output: Path | None, scoring: str | None, pictures: bool, answers: bool
) -> None:
    """Write scored RUNS for other tools, or as one table.

    \b
      snellen export runs/x -o samples.parquet
      snellen export runs/x --as inspect -o logs

    Nothing is asked or scored: a run is written as `snellen score` left it. docs/exports.md shows all forms.
    """
    results = Results([load_scoring(run, scoring) for run in runs])
    for path in results.export(form, output, pictures=pictures, answers=answers):
        out.print(str(path), soft_wrap=True)
