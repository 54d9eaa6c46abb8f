"""`snellen sample`: parts of benchmarks, and how well they predict full scores."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import click

from snellen import DataError, score
from snellen.plugin_api import (
    FloatParameter,
    IntegerParameter,
    Sampling,
    SamplingRule,
    ScoredRun,
    Table,
    announce,
    console,
    draw_subset,
    find_benchmarks,
    json_flag,
    matching_specs,
    percent_text,
    print_records,
    print_tables,
)
from snellen_lab.cell_texts import decimal_or_dash, percent_or_dash
from snellen_lab.cli.flags import PATH
from snellen_lab.studies.sampling_study import RATIOS, SampleStability, SamplingPlan, sampling_study

STUDY_HEADER = (
    "benchmark",
    "protocol",
    "metric",
    "ratio",
    "samples",
    "models",
    "rho",
    "rank rho",
    "deviation",
    "variance",
    "time",
)
RULES = ("balanced", "random", "equal", "equidistant")


@click.command()
@click.argument("what", nargs=-1, required=True)
@click.option(
    "--study",
    "studied",
    is_flag=True,
    help="Treat the arguments as runs, and measure how well samples predict full scores.",
)
@click.option(
    "--ratios",
    default=",".join(map(str, RATIOS)),
    help="Sampling ratios to study.  [0.01,0.02,0.1,0.2]",
)
@click.option(
    "--draws", default=10, type=IntegerParameter(2), help="Samples drawn per ratio.  [10]"
)
@click.option("--metric", default="", help="Metric to study.  [accuracy, or the benchmark's own]")
@click.option(
    "--rule",
    default="balanced",
    type=click.Choice(RULES),
    help="How samples are drawn.  [balanced]",
)
@click.option(
    "--ratio",
    type=FloatParameter(0, min_open=True),
    help="Share of the samples to draw (balanced, random).",
)
@click.option("--count", type=int, help="Number of samples to draw (balanced, random, equal).")
@click.option("--each", type=int, help="Samples per stratum (equal).")
@click.option("--step", type=int, help="Take every STEP-th sample after shuffling (equidistant).")
@click.option("--by", default="", help="Tag to balance by.  [the answer]")
@click.option("--seed", default=0, help="Random seed of the draws.  [0]")
@click.option(
    "--name", default="", help="Name of the new benchmark.  [the old name, and what was drawn]"
)
@click.option("--to", type=PATH, help="Output folder.  [under $SNELLEN_HOME/benchmarks]")
@json_flag
def sample_command(
    what: tuple[str, ...],
    studied: bool,
    ratios: str,
    draws: int,
    metric: str,
    rule: str,
    ratio: float | None,
    count: int | None,
    each: int | None,
    step: int | None,
    by: str,
    seed: int,
    name: str,
    to: Path | None,
    as_json: bool,
) -> None:
    """Draw a sample of a built benchmark, or measure how well samples predict full scores.

    \b
      snellen sample mscoco-count --ratio 0.1
      snellen sample runs/a runs/b runs/c --study --ratios 0.02,0.1,0.5

    The sample is a new benchmark that you run and score like any other. With --study, the command compares the scores
    of models on samples with their scores on the complete benchmark (ReForm-Eval, Tables 29 and 30). See
    docs/sampling.md.
    """
    if studied:
        plan = SamplingPlan(_ratios(ratios), draws, cast(SamplingRule, rule), by, seed, metric)
        scored_runs: list[ScoredRun] = []
        for folder in what:
            scored_runs.extend(score(folder).runs)
        rows = sampling_study(scored_runs, plan)
        if as_json:
            print_records(rows)
        else:
            print_tables([_stability_table(rows)])
        return

    sampling = _sampling(rule, {"ratio": ratio, "count": count, "each": each, "step": step})
    benchmark_names: set[str] = set()
    for pattern in what:
        benchmark_names.update(spec.name for spec in matching_specs(pattern))
    if len(benchmark_names) > 1:
        raise DataError(
            f"{', '.join(what)} matches {len(benchmark_names)} benchmarks; draw from each separately"
        )
    [use] = find_benchmarks(what, announce=announce)
    full_benchmark = use.benchmark
    subset = draw_subset(full_benchmark, sampling, name=name, by=by, seed=seed, to=to)

    n_drawn = subset.manifest.counts.samples
    n_samples = full_benchmark.manifest.counts.samples
    console.print(
        f"drew {n_drawn:,} of {n_samples:,} samples of {full_benchmark.name}: "
        f"{subset.name} version {subset.manifest.version}\n  {subset.folder}",
        soft_wrap=True,
    )
    if subset.manifest.build_info.chance is not None:
        console.print(f"  {_chances(*subset.manifest.build_info.chance)}")


def _chances(lowest_chance: float, highest_chance: float) -> str:
    """Return a sentence on the probability with which each sample was drawn."""
    if lowest_chance == highest_chance:
        return f"each sample had a chance of {percent_text(lowest_chance)}"
    return f"samples had chances of {percent_text(lowest_chance)} to {percent_text(highest_chance)}, by their strata"


def _ratios(text: str) -> tuple[float, ...]:
    """Parse the ratios of `--ratios`, such as `0.02,0.1,0.5`."""
    try:
        ratios = tuple(float(ratio_text) for ratio_text in text.split(","))
    except ValueError:
        raise DataError(
            f"--ratios {text!r} are not numbers; write, for example, 0.01,0.1"
        ) from None
    for ratio in ratios:
        _sampling("balanced", {"ratio": ratio})
    return ratios


def _sampling(rule: str, amounts: dict[str, Any]) -> Sampling:
    """Return the sampling of these flags; `amounts` are the values of --ratio, --count, --each and --step."""
    try:
        return Sampling(cast(SamplingRule, rule), **amounts)
    except ValueError as error:
        raise DataError(f"{error}; set the size with --ratio, --count, --each or --step") from None


def _stability_table(rows: Sequence[SampleStability]) -> Table:
    """Return the table of how well scores on samples agree with scores on the complete benchmark."""
    title = f"samples compared with the full benchmark, {rows[0].draws} draws each; `*` is the mean over benchmarks"
    table_rows = []
    for row in rows:
        cells = (
            row.benchmark,
            row.protocol,
            row.metric,
            f"{100 * row.ratio:g}%",
            f"{row.samples:,}",
            str(row.models),
            decimal_or_dash(row.rho, 4),
            decimal_or_dash(row.rank_rho, 4),
            decimal_or_dash(row.deviation, 2),
            decimal_or_dash(row.variance, 2),
            percent_or_dash(row.time),
        )
        table_rows.append(cells)
    return Table(title, STUDY_HEADER, tuple(table_rows), label_columns=3)
