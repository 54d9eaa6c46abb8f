"""`snellen acuity`: how well does a model see?"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from snellen.plugin_api import (
    ExecutionSpec,
    FloatParameter,
    IntegerParameter,
    QuestionSpec,
    announce,
    console,
    field_flags,
    find_registered,
    flags_given,
    json_flag,
    offline_flag,
    print_tables,
    run_progress,
    run_spec,
    write_atomically,
)
from snellen_lab.acuity import BUDGET, WIDTH
from snellen_lab.cli.flags import PATH

CARD = "acuity.html"
LEAST = 6
"""Fewest questions that a budget may be."""
_QUESTION = ("method", "templates", "temperature", "max_new_tokens")
_EXECUTION = (
    "name",
    "runs",
    "workers",
    "error_budget",
    "price",
    "max_cost",
    "max_requests",
    "max_time",
    "cache",
)


@click.command()
@click.argument("models", nargs=-1, required=True)
@click.option(
    "--test",
    "tests",
    multiple=True,
    metavar="NAME",
    help="Test to run, such as letter-size. Repeat for more.  [all]",
)
@click.option(
    "--budget",
    type=IntegerParameter(LEAST),
    help=f"Maximum questions per model.  [{BUDGET} for each test]",
)
@click.option(
    "--width",
    type=FloatParameter(0, min_open=True),
    default=WIDTH,
    help=f"Stop a test when its interval is narrower than this many octaves.  [{WIDTH:g}]",
)
@click.option(
    "--input-side",
    type=IntegerParameter(8),
    metavar="PX",
    help="For models behind an API: the longer side to which the API scales images down, to "
    "compute what the model can see.",
)
@click.option(
    "--card", type=PATH, help=f"File for the page with the acuity card.  [{CARD} in the run]"
)
@click.option(
    "--dry-run",
    is_flag=True,
    help="Estimate requests, tokens and images without calling the model.",
)
@field_flags(QuestionSpec, _QUESTION)
@field_flags(ExecutionSpec, _EXECUTION)
@offline_flag
@json_flag
def acuity_command(
    models: tuple[str, ...],
    tests: tuple[str, ...],
    budget: int | None,
    width: float,
    input_side: int | None,
    card: Path | None,
    dry_run: bool,
    as_json: bool,
    **flags: Any,
) -> None:
    """Measure how small, faint or crowded an object can be before MODELS no longer see it.

    \b
      snellen acuity snellen:tiny
      snellen acuity hf:org/name openai:name@http://host:port/v1 --test letter-size --test contrast
      snellen acuity openai:name@http://host:port/v1 --budget 300 --dry-run

    Each test draws images that become harder in one respect, such as size or contrast. Like an optician, it continues
    with the image that tells most about the model. The result is a threshold with a 95% interval, or a bound if the
    threshold is outside the range of the test. Repeat the command to resume. See docs/acuity.md.
    """
    from snellen.plugin_api import check_budget
    from snellen_lab.acuity.card import acuity_page
    from snellen_lab.acuity.measuring import acuity_forecasts, measure_spec
    from snellen_lab.acuity.prescription import prescription_line
    from snellen_lab.acuity.report import acuity_records, acuity_tables

    for test in tests:
        if "/" not in test:
            find_registered("acuity_tests", test)
    benchmarks = [test if "/" in test else f"acuity/{test}" for test in tests] or ["acuity"]
    spec = run_spec(
        {**flags_given(flags), "models": models, "benchmarks": benchmarks, "report": False}
    )
    if dry_run:
        for line in acuity_forecasts(spec, budget, announce):
            console.print(line, soft_wrap=True)
        return
    with run_progress() as progress:
        runs = measure_spec(
            spec,
            budget=budget,
            width=width,
            input_side=input_side,
            progress=progress,
            announce=announce,
        )
    if as_json:
        for record in acuity_records(runs):
            console.out(record)
    else:
        print_tables(acuity_tables(runs))
        for run in runs:
            console.print(
                prescription_line(run), soft_wrap=not console.is_terminal, highlight=False
            )
    target = card or runs[0].folder / CARD
    write_atomically(target, acuity_page(runs).encode())
    announce(f"card: {target}")
    for run in runs:
        if run.outcome is not None:
            check_budget(run.outcome, spec.execution.error_budget)
