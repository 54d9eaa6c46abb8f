"""`snellen score`"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from snellen.cli.flags import reading_flags, score_all
from snellen.cli.show import show_results


@click.command()
@click.argument("runs", nargs=-1, required=True, type=click.Path(path_type=Path))
@reading_flags
@click.option("--json", "as_json", is_flag=True, help="Print all results, one JSON object a line.")
def command(runs: tuple[Path, ...], as_json: bool, **flags: Any) -> None:
    """Read and score RUNS again, without asking the model.

    \b
      snellen score runs/x --extractor strict
      snellen score runs/x --judge hf:org/name --judge-prompt delimited
      snellen score runs/x --metric mark --judge openai:name@http://host:port/v1

    Replies are read by the extractor named, then by what --semantic and --judge bring; likelihoods are reduced
    by the rule named. The journal is never changed. predictions.jsonl, scores.jsonl and results.json are written
    anew; a judge's verdicts are kept in the run's folder and not asked for twice. docs/judging.md says more.
    """
    show_results(score_all(runs, **flags), as_json)
