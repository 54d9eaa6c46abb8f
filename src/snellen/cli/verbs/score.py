"""`snellen score`"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from snellen.api import Results
from snellen.catalogue.forms import prediction_form
from snellen.catalogue.hooks import PredictionForm
from snellen.cli.flags import json_flag, judge_of, scoring_flags, scoring_of, subset_flags
from snellen.cli.show import announce, show_results
from snellen.errors import DataError
from snellen.evaluation import score_folders
from snellen.runs.journal import read_manifest


@click.command()
@click.argument("runs", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "--answers", default="", help="For a file of predictions: the questions and answers, a table or a benchmark's name."
)
@click.option("--format", "form", default="", help="For such a file: a suite's form.  [the one that fits it]")
@click.option("--to", type=click.Path(path_type=Path), help="For such a file: the run's folder.  [under runs]")
@click.option("--model", default="", help="For such a file: the model's name.  [the file's]")
@subset_flags
@scoring_flags
@json_flag
def command(
    runs: tuple[Path, ...],
    answers: str,
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
      snellen score model_MMBench_DEV_EN.xlsx --answers MMBench_DEV_EN.tsv

    Replies are read by the extractor named, then by what --semantic and --judge bring; likelihoods are reduced
    by the rule named. The journal is never changed. predictions.jsonl, scores.jsonl and results.json are written
    anew; a judge's verdicts are kept in the run's folder and not asked for twice. docs/judging.md says more.

    A file of predictions (.xlsx, .tsv, .csv, .json, .jsonl with the columns index and prediction) becomes a run, which
    report, agree and the judges take like any other; docs/mmbench.md says more.
    """
    files = [run for run in runs if run.is_file()]
    if (to or model) and len(files) != 1:
        raise DataError("--to and --model are for one file of predictions at a time")
    if answers and len(files) < len(runs):
        raise DataError(
            "--answers is for files of predictions; a run is scored by its benchmark's: build that one again with "
            "`snellen build ... --answers`, its questions stay the same"
        )
    if files and not answers:
        raise DataError(f"{files[0]} is a file of predictions: name the questions and answers with --answers")
    folders = [
        _taken(run, prediction_form(form, run, answers), answers, to, model) if run in files else run for run in runs
    ]
    results = Results(score_folders(folders, scoring_of(flags), judge_of(flags), announce))
    show_results(results.only(where=where, common_answered=common_answered), as_json)


def _taken(file: Path, form: PredictionForm, answers: str, to: Path | None, model: str) -> Path:
    folder = form.read(file, answers, to, model)
    announce(f"{file} is the run {folder}")
    for note in read_manifest(folder).notes:
        announce(f"  note: {note}")
    return folder
