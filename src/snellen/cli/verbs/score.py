"""`snellen score`"""

from __future__ import annotations

from pathlib import Path

import click

from snellen.api import Results, score
from snellen.cli.show import show_results


@click.command()
@click.argument("runs", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "--extractor", default="standard", help="Rules that read replies: standard, strict, legacy:...  [standard]"
)
@click.option("--rule", default="sum", help="How a continuation's log-likelihood is reduced: sum, mean, byte.  [sum]")
@click.option("--json", "as_json", is_flag=True, help="Print all results, one JSON object a line.")
def command(runs: tuple[Path, ...], extractor: str, rule: str, as_json: bool) -> None:
    """Read and score RUNS again, without asking the model.

    Replies are read by the extractor named, likelihoods reduced by the rule named; the journal is never
    changed. predictions.jsonl, scores.jsonl and results.json are written anew.
    """
    scored = [score(run, extractor=extractor, rule=rule) for run in runs]
    show_results(Results([run for one in scored for run in one.runs]), as_json)
