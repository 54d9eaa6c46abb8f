"""`snellen demo`: two small models on the embedded eye chart."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path
from shutil import which

import click

from snellen.cli import declared_verb, import_target, installed_verbs
from snellen.cli.flags import IntegerParameter, json_flag
from snellen.cli.show import announce, console, run_progress, show_results
from snellen.common.paths import shell_word
from snellen.errors import MissingExtraError
from snellen.installation import LAB, sibling_install_line
from snellen.runs.spec import ExecutionSpec, QuestionSpec, RunSpec

DEMO_MODELS = ("snellen:tiny", "snellen:tiny-xs")
DEMO_INSTRUMENTS = ("snellen:uniform", "snellen:always-a", "snellen:oracle")
PACKAGES = ("torch", "transformers")
GENERATION = ("instability", "circular")
ACUITY_TESTS = ("shape-size", "shape-contrast")
LEAST_QUESTIONS = 6  # of an acuity test
DEMO_LIMIT = 24
LEFT_OUT_OF_DEMO = "eyechart/caption"
"""CIDEr is not a share of correct answers. With this benchmark, the models would have no mean over all benchmarks."""


@click.command()
@click.option("--runs", default="runs/demo", help="Folder for the demo's runs.  [runs/demo]")
@click.option(
    "--limit",
    default=DEMO_LIMIT,
    type=IntegerParameter(1),
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
    """Evaluate two small trained models and three reference models on the built-in eye chart.

    The demo needs no network, key or GPU. The models answer every question five times with other wordings and orders of
    options, once per rotation of the options, and by the likelihood of each option. The reference models show what
    guessing, always choosing the same label and perfect knowledge look like. If snellen-lab is installed, the demo also
    measures how small and how faint the objects in the images can be.
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
    console.print(f"report: {results.report(Path(runs) / 'report.html')}", soft_wrap=True)
    if "acuity" in installed_verbs():
        console.print(f"acuity card: {_acuity_card(Path(runs), limit, as_json)}", soft_wrap=True)
    else:
        announce(f"no acuity card: it is part of another package: {sibling_install_line(LAB)}")
    program = shell_word(_program())
    announce(
        f"next: `{program} view {shell_word(runs)}` shows every question and reply; "
        f"`{program} run MODEL eyechart` evaluates your model, `{program} build FILE` makes a benchmark of your questions"
    )


def _program() -> str:
    """Return the command by which the user can call Snellen, for messages that say what to type next.

    It is `snellen` in most cases. `make demo` runs a script of an environment that is not on the search path, and
    then the command is the path of the script.
    """
    program = sys.argv[0]
    is_script = Path(program).name == "snellen"
    if is_script and which("snellen") is None:
        return program
    return "snellen"


def _acuity_card(runs: Path, limit: int, as_json: bool) -> Path:
    """Run `snellen acuity` on the demo's trained models, which measures how small and how faint a shape they can still
    see.

    If the user asked for fewer questions than the demo's default, the measurement sends fewer requests, too.

    Args:
        runs: The folder of the demo's runs. The runs of this measurement are stored in its subfolder `acuity`.
        limit: Questions per benchmark, as the user chose.
        as_json: Whether results are printed as JSON.

    Returns:
        The path of the card, an HTML page with the results.
    """
    card = runs / "acuity.html"
    arguments = [*DEMO_MODELS, "--method", "likelihood", "--runs", str(runs / "acuity")]
    for test in ACUITY_TESTS:
        arguments += ["--test", test]
    if limit < DEMO_LIMIT:
        arguments += ["--budget", str(max(limit, LEAST_QUESTIONS) * len(ACUITY_TESTS))]
    arguments += ["--card", str(card)]
    if as_json:
        arguments.append("--json")
    command: click.Command = import_target(declared_verb(installed_verbs()["acuity"]).command)
    command.main(arguments, prog_name="snellen acuity", standalone_mode=False)
    return card
