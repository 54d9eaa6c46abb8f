"""`snellen reproduce`"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import click

from snellen.catalogue.recipes import VENDOR
from snellen.cli.flags import (
    GroupedCommand,
    field_flags,
    flags_given,
    json_flag,
    offline_flag,
    scoring_flags,
    yes_flag,
)
from snellen.cli.show import announce, announce_next, command_line, run_progress, show_table
from snellen.errors import DataError
from snellen.experiments.vendor_recipes import Reproduced
from snellen.runs.run_folder import RUN_MANIFEST, read_manifest
from snellen.runs.spec import ExecutionSpec, QuestionSpec, RunSpec, run_spec

HEADER = (
    "benchmark",
    "on the card",
    "printed",
    "measured",
    "95% interval",
    "n",
    "agrees",
    "what differs",
)


class _Reproduce(GroupedCommand):
    usual = (
        "--recipe",
        "--limit",
        "--runs",
        "--workers",
        "--judge",
        "--offline",
        "--json",
        "--help",
    )


@click.command(cls=_Reproduce)
@click.argument("model")
@click.argument("benchmarks", nargs=-1)
@click.option(
    "--recipe",
    metavar="NAME|FILE",
    default=VENDOR,
    show_default="the model's family",
    help="The recipe: its name, or the path of a TOML file.",
)
@field_flags(QuestionSpec, but=("models", "benchmarks"))
@field_flags(ExecutionSpec)
@yes_flag
@offline_flag
@scoring_flags
@json_flag
def reproduce_command(
    model: str, benchmarks: tuple[str, ...], recipe: str, as_json: bool, **flags: Any
) -> None:
    """Run what the card of MODEL prints, by its vendor's recipe, and compare the numbers.

    \b
      snellen reproduce hf:Qwen/Qwen2.5-VL-7B-Instruct
      snellen reproduce hf:Qwen/Qwen2.5-VL-7B-Instruct mmmu mmstar --limit 300
      snellen reproduce openai:mine@http://localhost:8000/v1 --recipe mine.toml

    A number agrees if the printed one is within the 95% interval of the measured one. If it does not agree, the last
    column lists the settings that differ or are not known (docs/recipes.md).
    """
    from snellen.experiments.evaluation import FinishedRun, evaluate_spec
    from snellen.experiments.outcome_checks import check_absent, check_budget
    from snellen.experiments.vendor_recipes import compare_with_card

    if (Path(model) / RUN_MANIFEST).is_file():
        evaluated_model = read_manifest(Path(model)).model
        again = command_line("reproduce", evaluated_model, *benchmarks)
        raise DataError(f"{model} is a run, and this command runs a model: {again}")
    fields = flags_given(flags)
    spec = run_spec({**fields, "models": (model,), "benchmarks": benchmarks})

    all_finished: list[FinishedRun] = []

    def evaluated(part: RunSpec) -> list[FinishedRun]:
        with run_progress() as progress:
            finished = evaluate_spec(part, progress=progress, announce=announce)
        all_finished.extend(finished)
        return finished

    compared = compare_with_card(spec, evaluated, recipe, partial(announce))
    rows = [_cells(reproduced) for reproduced in compared]
    show_table("The numbers of the card, and those measured", HEADER, rows, as_json)
    if all_finished and not as_json:
        view = command_line("view", *(run.scored.folder for run in all_finished))
        announce_next(f"{view} shows every question and reply")
    # After the table, which is worth having without the benchmarks that could not be fetched.
    for run in all_finished:
        check_budget(run.outcome, spec.execution.error_budget)
    check_absent({number.benchmark: number.fault for number in compared if number.fault})


def _cells(reproduced: Reproduced) -> tuple[str, ...]:
    """Return a table row that compares a printed number with the measured one."""
    agreement = ""
    if reproduced.agrees is not None:
        agreement = "yes" if reproduced.agrees else "no"
    interval = ""
    if reproduced.low is not None:
        interval = f"[{reproduced.low:.1f}, {reproduced.high:.1f}]"
    measured = ""
    if reproduced.measured is not None:
        measured = f"{reproduced.measured:.1f}"
    differences = ""
    if not reproduced.agrees:
        differences = "; ".join(reproduced.differs)
    return (
        reproduced.benchmark,
        reproduced.printed_as,
        f"{reproduced.printed:g}",
        measured,
        interval,
        str(reproduced.questions),
        agreement,
        differences,
    )
