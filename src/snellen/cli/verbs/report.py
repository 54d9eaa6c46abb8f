"""`snellen report`"""

from __future__ import annotations

from pathlib import Path

import click

from snellen.api import Results, score
from snellen.cli.show import out


@click.command()
@click.argument("runs", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "-o",
    "--output",
    "outputs",
    multiple=True,
    type=click.Path(path_type=Path),
    help="File to write: .html, .md, .csv or .json; repeat for more.  [report.html]",
)
@click.option("--extractor", default="standard", help="Rules that read replies.  [standard]")
@click.option("--rule", default="sum", help="How log-likelihoods are reduced.  [sum]")
def command(runs: tuple[Path, ...], outputs: tuple[Path, ...], extractor: str, rule: str) -> None:
    """Write the report of one or several RUNS.

    The HTML report is one file that opens offline: tables, charts, and a browser of samples with
    picture, prompt, reply and how it was read.
    """
    scored = [score(run, extractor=extractor, rule=rule) for run in runs]
    results = Results([run for one in scored for run in one.runs])
    for path in outputs or (runs[0] / "report.html" if len(runs) == 1 else Path("report.html"),):
        out.print(str(results.report(path)), highlight=False, soft_wrap=True)
