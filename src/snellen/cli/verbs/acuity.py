"""`snellen acuity` and `snellen demo`: how well does a model see?"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click

from snellen.cli.flags import (
    PATH,
    Number,
    WholeNumber,
    field_flags,
    flags_given,
    json_flag,
    offline_flag,
)
from snellen.cli.show import announce, out, print_tables, run_progress, show_results
from snellen.errors import MissingExtraError
from snellen.formats.whole_files import write_atomically
from snellen.psychometrics import BUDGET, WIDTH
from snellen.registry import find
from snellen.runs.spec import ExecutionSpec, QuestionSpec, RunSpec, run_spec

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
    type=WholeNumber(LEAST),
    help=f"Maximum questions per model.  [{BUDGET} for each test]",
)
@click.option(
    "--width",
    type=Number(0, min_open=True),
    default=WIDTH,
    help=f"Stop a test when its interval is narrower than this many octaves.  [{WIDTH:g}]",
)
@click.option(
    "--input-side",
    type=WholeNumber(8),
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
    """Measure how small, faint or crowded a thing may be for MODELS to see it.

    \b
      snellen acuity snellen:tiny
      snellen acuity hf:org/name openai:name@http://host:port/v1 --test letter-size --test contrast
      snellen acuity openai:name@http://host:port/v1 --budget 300 --dry-run

    Each test draws pictures along one dimension and asks where an answer tells most, as at an optician's; the result is
    a threshold with a 95% interval, or a bound where the tests' levels do not hold it. The same command goes on with
    what is not answered yet. See docs/acuity.md.
    """
    from snellen.experiments.outcome_checks import check_budget
    from snellen.formats.whole_files import write_atomically
    from snellen.psychometrics.measuring import acuity_forecasts, measure_acuity
    from snellen.report.acuity import acuity_page, acuity_records, acuity_tables, prescription_line

    for test in tests:
        if "/" not in test:
            find("acuity_tests", test)
    benchmarks = [test if "/" in test else f"acuity/{test}" for test in tests] or ["acuity"]
    spec = run_spec(
        {**flags_given(flags), "models": models, "benchmarks": benchmarks, "report": False}
    )
    if dry_run:
        for line in acuity_forecasts(spec, budget, announce):
            out.print(line, soft_wrap=True)
        return
    with run_progress() as progress:
        runs = measure_acuity(
            spec,
            budget=budget,
            width=width,
            input_side=input_side,
            progress=progress,
            announce=announce,
        )
    if as_json:
        for record in acuity_records(runs):
            out.out(record)
    else:
        print_tables(acuity_tables(runs))
        for run in runs:
            out.print(prescription_line(run), soft_wrap=not out.is_terminal, highlight=False)
    target = card or runs[0].folder / CARD
    write_atomically(target, acuity_page(runs).encode())
    announce(f"card: {target}")
    for run in runs:
        if run.outcome is not None:
            check_budget(run.outcome, spec.execution.error_budget)


DEMO_MODELS = ("snellen:tiny", "snellen:tiny-xs")
DEMO_INSTRUMENTS = ("snellen:uniform", "snellen:always-a", "snellen:oracle")
PACKAGES = ("torch", "transformers")
GENERATION = ("instability", "circular")
ACUITY_TESTS = ("acuity/shape-size", "acuity/shape-contrast")
DEMO_LIMIT = 24
LEFT_OUT_OF_DEMO = "eyechart/caption"
"""CIDEr is not a share of right answers: with it, the models of the demo would have no number over all benchmarks."""


@click.command()
@click.option("--runs", default="runs/demo", help="Folder for the demo's runs.  [runs/demo]")
@click.option(
    "--limit",
    default=DEMO_LIMIT,
    type=WholeNumber(1),
    help=f"Samples per benchmark.  [{DEMO_LIMIT}]",
)
@click.option(
    "--level",
    default="easy",
    type=click.Choice(["easy", "medium", "hard", "all"]),
    help="Difficulty.  [easy]",
)
@json_flag
def demo_command(runs: str, limit: int, level: str, as_json: bool) -> None:
    """Evaluate two small trained models and three instruments on the embedded eye chart.

    No network, no key, no GPU. The models answer every question five times in other words and orders,
    once per rotation of its options, and by the likelihood of each option; the instruments show what
    chance, a fixed label and perfect knowledge look like. An acuity card says how small and how faint
    the models' questions may be.
    """
    from snellen.catalogue import select
    from snellen.experiments.evaluation import FinishedRun, evaluate_spec
    from snellen.experiments.results import Results

    benchmarks = [spec.name for spec in select("eyechart") if spec.name != LEFT_OUT_OF_DEMO]
    for package in PACKAGES:
        if find_spec(package) is None:  # said before the benchmarks are built
            raise MissingExtraError(package, "hf", "snellen demo")
    finished: list[FinishedRun] = []
    with run_progress() as progress:
        for models, protocols in (
            (DEMO_MODELS, (*GENERATION, "likelihood?m=5")),
            (DEMO_INSTRUMENTS, GENERATION),
        ):
            for model in models:
                question = QuestionSpec(
                    models=(model,),
                    benchmarks=tuple(benchmarks),
                    protocols=protocols,
                    where="" if level == "all" else f"level == '{level}'",
                    limit=limit,
                )
                execution = ExecutionSpec(runs=runs, name=model.partition(":")[2], report=False)
                spec = RunSpec(question=question, execution=execution)
                finished += evaluate_spec(spec, progress=progress, announce=announce)
    results = Results([run.scored for run in finished])
    show_results(results, as_json)
    out.print(f"report: {results.report(Path(runs) / 'report.html')}", soft_wrap=True)
    out.print(f"acuity card: {_acuity_card(Path(runs), limit)}", soft_wrap=True)


def _acuity_card(runs: Path, limit: int) -> Path:
    """How small and how faint shapes may be for the trained models to see them: their card. Where a sample of each
    benchmark is asked that is smaller than the demo's, so is that of each test."""
    from snellen.psychometrics.measuring import measure_acuity
    from snellen.report.acuity import acuity_page, prescription_line

    question = QuestionSpec(models=DEMO_MODELS, benchmarks=ACUITY_TESTS, method="likelihood")
    execution = ExecutionSpec(runs=str(runs / "acuity"), report=False)
    with run_progress() as progress:
        measured = measure_acuity(
            RunSpec(question=question, execution=execution),
            budget=max(limit, LEAST) * len(ACUITY_TESTS) if limit < DEMO_LIMIT else None,
            progress=progress,
            announce=announce,
        )
    for run in measured:
        announce(prescription_line(run))
    card = runs / "acuity.html"
    write_atomically(card, acuity_page(measured).encode())
    return card
