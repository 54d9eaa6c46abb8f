"""`snellen demo`"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import click

from snellen.cli.flags import json_flag
from snellen.cli.show import announce, out, run_progress, show_results
from snellen.errors import MissingExtraError
from snellen.experiments.evaluation import evaluate_spec
from snellen.experiments.results import Results
from snellen.runs.journal import write_atomically
from snellen.runs.spec import ExecutionSpec, QuestionSpec, RunSpec

DEMO_MODELS = ("snellen:tiny", "snellen:tiny-xs")
DEMO_INSTRUMENTS = ("snellen:uniform", "snellen:always-a", "snellen:oracle")
PACKAGES = ("torch", "transformers")
GENERATION = ("instability", "circular")
ACUITY_TESTS = ("acuity/shape-size", "acuity/shape-contrast")


@click.command()
@click.option("--runs", default="runs/demo", help="Folder of the demo's runs.  [runs/demo]")
@click.option("--limit", default=24, type=click.IntRange(1), help="Samples per benchmark.  [24]")
@click.option("--level", default="easy", type=click.Choice(["easy", "medium", "hard", "all"]), help="How hard.  [easy]")
@json_flag
def command(runs: str, limit: int, level: str, as_json: bool) -> None:
    """Evaluate two small trained models and three instruments on the embedded eye chart.

    No network, no key, no GPU. The models answer every question five times in other words and orders,
    once per rotation of its options, and by the likelihood of each option; the instruments show what
    chance, a fixed label and perfect knowledge look like. An acuity card says how small and how faint
    the models' questions may be.
    """
    for package in PACKAGES:
        if find_spec(package) is None:  # said before the benchmarks are built
            raise MissingExtraError(package, "hf", "snellen demo")
    finished = []
    with run_progress() as progress:
        for models, protocols in ((DEMO_MODELS, (*GENERATION, "likelihood?m=5")), (DEMO_INSTRUMENTS, GENERATION)):
            for model in models:
                question = QuestionSpec(
                    models=(model,),
                    benchmarks=("eyechart",),
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
    out.print(f"acuity card: {_acuity_card(Path(runs))}", soft_wrap=True)


def _acuity_card(runs: Path) -> Path:
    """How small and how faint shapes may be for the trained models to see them: their card."""
    from snellen.psychometrics.measuring import measure_acuity
    from snellen.report.acuity_card import acuity_page, prescription

    question = QuestionSpec(models=DEMO_MODELS, benchmarks=ACUITY_TESTS, method="likelihood")
    execution = ExecutionSpec(runs=str(runs / "acuity"), report=False)
    with run_progress() as progress:
        measured = measure_acuity(RunSpec(question=question, execution=execution), progress=progress, announce=announce)
    for run in measured:
        announce(f"{run.model}: {prescription(run)}")
    card = runs / "acuity.html"
    write_atomically(card, acuity_page(measured).encode())
    return card
