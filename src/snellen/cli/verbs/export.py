"""`snellen export`"""

from __future__ import annotations

from pathlib import Path

import click

from snellen.api import export_benchmark
from snellen.building.benchmark import MANIFEST
from snellen.cli.show import out
from snellen.errors import DataError
from snellen.experiments.results import Results
from snellen.interchange.exports.declaration import Exporter
from snellen.interchange.exports.pushing import check_pushing, push_dataset
from snellen.registry import find
from snellen.scoring.kept_scoring import load_scoring


@click.command()
@click.argument("runs", nargs=-1, required=True)
@click.option("--as", "form", help="The form: `snellen list exporters`.  [samples; with --track none]")
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), help="The file or folder to write.  [by run and form, here]"
)
@click.option("--scoring", help="Which scoring of a run: a folder under its `scores`.  [the standard one]")
@click.option("--pictures", is_flag=True, help="Write pictures too, where the form has a place for them.")
@click.option("--answers", is_flag=True, help="With golds, in forms that are made to be published.")
@click.option(
    "--track", "trackers", multiple=True, metavar="TRACKER:PLACE",
    help="Log to an experiment tracker: mlflow:URI, wandb:PROJECT, trackio:PROJECT; repeat for more.",
)  # fmt: skip
@click.option("--push", metavar="OWNER/NAME", help="Push a dataset that was written to this repository of the hub.")
@click.option("--private", is_flag=True, help="Let nobody else see a repository that is made by --push.")
def command(
    runs: tuple[str, ...], form: str | None, output: Path | None, scoring: str | None, pictures: bool, answers: bool,
    trackers: tuple[str, ...], push: str | None, private: bool,
) -> None:  # fmt: skip
    """Write scored RUNS for other tools, or as one table; or a built benchmark as a dataset.

    \b
      snellen export runs/x -o samples.parquet
      snellen export runs/x --as inspect -o logs
      snellen export runs/x --track mlflow:sqlite:///mlflow.db
      snellen export eyechart/shape --as dataset --push NAME/shapes --private

    Nothing is asked or scored: a run is written as `snellen score` left it. docs/exports.md shows all forms.
    """
    if private and not push:
        raise DataError("--private is of a repository that --push makes; name it too")
    form_name = form or "samples"
    exporter: Exporter = find("exporters", form_name)
    if push:
        if not exporter.for_hub:
            raise DataError(f"--push is for datasets of the hub, not for {form_name}; write them with --as dataset")
        check_pushing()
    files: list[Path] = []
    if len(runs) == 1 and _is_benchmark(runs[0], exporter):
        if trackers:
            raise DataError(f"{runs[0]} is a benchmark, and --track logs runs")
        files = export_benchmark(runs[0], form_name, output, answers=answers)
    else:
        results = Results([load_scoring(Path(run), scoring) for run in runs])
        for target in trackers:
            for line in results.track(target):
                out.print(line, soft_wrap=True, markup=False)
        if form or output or not trackers:
            files = results.export(form_name, output, pictures=pictures, answers=answers)
    for path in files:
        out.print(str(path), soft_wrap=True)
    if push:
        folder = files[-1].parent  # that of the card
        out.print(push_dataset(folder, push, private=private), soft_wrap=True)


def _is_benchmark(name: str, exporter: Exporter) -> bool:
    """Whether a name is that of a built benchmark, and not of the folder of a run."""
    return (Path(name) / MANIFEST).exists() or (exporter.write_benchmark is not None and not Path(name).exists())
