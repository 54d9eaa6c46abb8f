"""`snellen acuity`"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from snellen.cli.flags import field_flags, flags_given, json_flag, offline_flag
from snellen.cli.show import announce, out, run_progress
from snellen.psychometrics import BUDGET, WIDTH
from snellen.registry import find
from snellen.runs.spec import ExecutionSpec, QuestionSpec, run_spec

CARD = "acuity.html"
_QUESTION = ("method", "templates", "temperature", "max_new_tokens")
_EXECUTION = ("name", "runs", "workers", "error_budget", "price", "max_cost", "max_requests", "max_time", "cache")


@click.command()
@click.argument("models", nargs=-1, required=True)
@click.option(
    "--test", "tests", multiple=True, metavar="NAME", help="A test, such as letter-size; repeat for more.  [all]"
)
@click.option(
    "--budget", type=click.IntRange(6), help=f"Most questions to each model in all.  [{BUDGET} for each test]"
)
@click.option(
    "--width", type=click.FloatRange(0, min_open=True), default=WIDTH,
    help=f"Width of an interval, in octaves, below which a test asks no more.  [{WIDTH:g}]",
)  # fmt: skip
@click.option(
    "--input-side", type=click.IntRange(8), metavar="PX",
    help="Of models behind an API: the longer side to which it reduces pictures, to say what that leaves.",
)  # fmt: skip
@click.option(
    "--card", type=click.Path(path_type=Path), help=f"Where the page with the card goes.  [{CARD} in the run]"
)
@click.option("--dry-run", is_flag=True, help="Ask nothing: say how many requests, tokens and pictures it would be.")
@field_flags(QuestionSpec, _QUESTION)
@field_flags(ExecutionSpec, _EXECUTION)
@offline_flag
@json_flag
def command(
    models: tuple[str, ...], tests: tuple[str, ...], budget: int | None, width: float, input_side: int | None,
    card: Path | None, dry_run: bool, as_json: bool, **flags: Any,
) -> None:  # fmt: skip
    """Measure how small, faint or crowded a thing may be for MODELS to see it.

    \b
      snellen acuity snellen:tiny
      snellen acuity hf:org/name openai:name@http://host:port/v1 --test letter-size --test contrast
      snellen acuity openai:name@http://host:port/v1 --budget 300 --dry-run

    Each test draws pictures along one dimension and asks where an answer tells most, as at an optician's; the result is
    a threshold with a 95 % interval, or a bound where the tests' levels do not hold it. The same command goes on with
    what is not answered yet. See docs/acuity.md.
    """
    from snellen.experiments.evaluation import check_budget
    from snellen.psychometrics.measuring import acuity_forecasts, measure_acuity
    from snellen.report.acuity_card import acuity_page, prescription
    from snellen.report.acuity_tables import acuity_records, acuity_tables
    from snellen.report.terminal import plain_table
    from snellen.runs.journal import write_atomically

    for test in tests:
        if "/" not in test:
            find("acuity_tests", test)
    benchmarks = [test if "/" in test else f"acuity/{test}" for test in tests] or ["acuity"]
    spec = run_spec({**flags_given(flags), "models": models, "benchmarks": benchmarks, "report": False})
    if dry_run:
        for line in acuity_forecasts(spec, budget, announce):
            out.print(line, soft_wrap=True)
        return
    with run_progress() as progress:
        runs = measure_acuity(
            spec, budget=budget, width=width, input_side=input_side, progress=progress, announce=announce
        )
    if as_json:
        for record in acuity_records(runs):
            out.out(record)
    else:
        for table in acuity_tables(runs):
            out.print(plain_table(table))
        for run in runs:
            out.print(f"{run.model}: {prescription(run)}", soft_wrap=True, highlight=False)
    target = card or runs[0].folder / CARD
    write_atomically(target, acuity_page(runs).encode())
    announce(f"card: {target}")
    for run in runs:
        if run.outcome is not None:
            check_budget(run.outcome, spec.execution.error_budget)
