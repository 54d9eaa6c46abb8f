"""`snellen demo`"""

from __future__ import annotations

from pathlib import Path

import click

from snellen.api import Results
from snellen.cli.show import out, show_results
from snellen.cli.verbs.run import Exam, run_exam

STUDENTS = ("snellen:tiny", "snellen:tiny-xs")
INSTRUMENTS = ("snellen:uniform", "snellen:always-a", "snellen:oracle")
GENERATION = ("instability", "circular")


@click.command()
@click.option("--runs", default="runs/demo", help="Folder of the demo's runs.  [runs/demo]")
@click.option("--limit", default=24, type=click.IntRange(1), help="Samples a benchmark.  [24]")
@click.option("--level", default="easy", type=click.Choice(["easy", "medium", "hard", "all"]), help="How hard.  [easy]")
@click.option("--json", "as_json", is_flag=True, help="Print all results, one JSON object a line.")
def command(runs: str, limit: int, level: str, as_json: bool) -> None:
    """Evaluate two small trained models and three instruments on the embedded eye chart.

    No network, no key, no GPU. The models answer every question five times in other words and orders,
    once per rotation of its options, and by the likelihood of each option; the instruments show what
    chance, a fixed mark and perfect knowledge look like.
    """
    results = []
    for models, protocols in ((STUDENTS, (*GENERATION, "likelihood?m=5")), (INSTRUMENTS, GENERATION)):
        for model in models:
            exam = Exam(
                models=(model,),
                benchmarks=("eyechart",),
                protocols=protocols,
                where="" if level == "all" else f"level == '{level}'",
                limit=limit,
                runs=runs,
                name=model.partition(":")[2],
            )
            results += [done.results for done in run_exam(exam)]
    together = Results([run for one in results for run in one.runs])
    show_results(together, as_json)
    out.print(f"report: {together.report(Path(runs) / 'report.html')}", highlight=False, soft_wrap=True)
