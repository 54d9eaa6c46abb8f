"""`snellen score`"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from snellen.cli.flags import json_flag, judge_from_flags, scoring_flags, scoring_from_flags, subset_flags
from snellen.cli.show import announce, show_results
from snellen.errors import DataError
from snellen.experiments.evaluation import score_folders
from snellen.experiments.results import Results
from snellen.interchange.predictions.taking import import_run
from snellen.runs.journal import read_manifest


@click.command()
@click.argument("runs", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "--benchmark",
    "benchmark",
    default="",
    help="For a file of predictions: what was asked, a built benchmark or a table with answers.  [the file's own]",
)
@click.option("--as", "form", default="", help="For such a file: its form.  [the one that fits it]")
@click.option("--to", type=click.Path(path_type=Path), help="For such a file: the run's folder.  [under runs]")
@click.option("--model", default="", help="For such a file: the model's name.  [the file's]")
@subset_flags
@scoring_flags
@json_flag
def command(
    runs: tuple[Path, ...],
    benchmark: str,
    form: str,
    to: Path | None,
    model: str,
    where: str,
    common_answered: bool,
    as_json: bool,
    **flags: Any,
) -> None:
    """Read and score RUNS again, without asking the model; or files of predictions that another toolkit made.

    \b
      snellen score runs/x --extractor strict
      snellen score runs/x --judge hf:org/name --judge-price 0.15,0.6
      snellen score runs/x --metric mark --judge openai:name@http://host:port/v1
      snellen score model_MMBench_DEV_EN.xlsx --benchmark MMBench_DEV_EN.tsv
      snellen score VQA_SingleChoice_generation_x_y.json --benchmark reform-eval/vqav2
      snellen score 20260101_samples_pope.jsonl

    Replies are read by the chosen extractor, then by --semantic and --judge; likelihoods are reduced by the chosen
    rule. The journal is never changed. Scores by other flags than the standard ones are kept under the run's `scores`,
    and none overwrites another; a judge's verdicts are kept in the run's folder and not asked for twice. See
    docs/judging.md.

    A file of predictions becomes a run, which report, agree and the judges accept like any other. Its form (--as) is
    recognised by its content: tables of VLMEvalKit, samples of lmms-eval, logs of Inspect, and those of suites. With
    --benchmark each row is joined to its question and checked; without, the file's own options and references count.
    docs/predictions.md shows all.
    """
    files = [run for run in runs if run.is_file()]
    if (to or model) and len(files) != 1:
        raise DataError("--to and --model are for one file of predictions at a time")
    if (benchmark or form) and len(files) < len(runs):
        raise DataError(
            "--benchmark and --as are for files of predictions; a run is scored by its benchmark's: build "
            "that one again with `snellen build ... --answers`, its questions stay the same"
        )
    folders = [_taken(run, benchmark, form, to, model) if run in files else run for run in runs]
    results = Results(score_folders(folders, scoring_from_flags(flags), judge_from_flags(flags), announce))
    for run in results.runs:
        if run.kept_in not in (None, run.folder):
            announce(f"kept in {run.kept_in}, beside the run's other scores")
    show_results(results.only(where=where, common_answered=common_answered), as_json)


def _taken(file: Path, benchmark: str, form: str, to: Path | None, model: str) -> Path:
    folder = import_run(file, benchmark, form, to, model)
    announce(f"{file} is the run {folder}")
    for note in read_manifest(folder).notes:
        announce(f"  note: {note}")
    return folder
