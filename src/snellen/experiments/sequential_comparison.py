"""Two models asked the same pictures, in a random order, until it is decided which is better on each benchmark."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from snellen.analysis.capability import headline_metric
from snellen.analysis.sequential.decision import SequentialDifference, sequential_differences
from snellen.analysis.sequential.rule import bounded_row, decision_rule, margin_in_unit
from snellen.catalogue import BenchmarkSpec
from snellen.errors import DataError
from snellen.experiments.evaluation import Cast, Rounds, ask_more, check_judging, check_models, silent
from snellen.runs.finding import Announce
from snellen.runs.plan import ProgressListener, ignore_progress, plan_run
from snellen.runs.runner import RunOutcome, no_parts
from snellen.runs.spec import RunSpec
from snellen.scoring.scored_run import ScoredRun

FLAG = "--sequential"


class DecidedComparison(Struct, frozen=True):
    """What was decided, and the two runs, whose folders a later run of the same goes on with."""

    differences: tuple[SequentialDifference, ...]
    runs: tuple[ScoredRun, ScoredRun]
    outcomes: tuple[RunOutcome, RunOutcome]


def decide_between(
    spec: RunSpec,
    models: Sequence[Any],
    *,
    metric: str = "",
    equivalent: float = 0.0,
    progress: ProgressListener = ignore_progress,
    announce: Announce = silent,
) -> DecidedComparison:
    """Ask two models what a spec says, picture by picture, until each benchmark is decided by a metric.

    `metric` is a mean of bounded values, by default each benchmark's headline; `equivalent` the greatest difference
    that does not matter, in percentage points for a share, or 0. A benchmark is decided when the anytime-valid interval
    of the difference leaves out 0, or lies within what does not matter; else all of it is asked. Raises SnellenError.
    """
    if len(models) != 2:
        raise DataError(f"{FLAG} compares two models, not {len(models)}: MODEL_A MODEL_B BENCHMARK...")
    if until := spec.execution.until:
        raise DataError(f"{FLAG} stops when it is decided who is better; leave until = {until!r} out")
    roles = dict(spec.question.roles)
    named_spec, cast = check_models(spec, models, roles), Cast(roles)
    check_judging(spec.scoring, spec.judge)
    rounds = []
    for number, model in enumerate(models):
        model_spec = named_spec.for_model(number, named_spec.question.models[number])
        plan = plan_run(model_spec, announce if not number else silent)
        rules = {use.benchmark.name: decision_rule(_metric(use.benchmark.spec, metric)) for use in plan.benchmarks}
        rounds.append(Rounds(plan, no_parts(plan, rules), model, cast, progress))
    if rounds[0].plan.folder == rounds[1].plan.folder:
        raise DataError(f"{FLAG}: both models are {named_spec.question.models[0]}; name two that differ")
    first, second = rounds
    margins = {name: _margin(part.rule.partition(" ")[0], equivalent) for name, part in first.parts.items()}
    open_benchmarks = list(first.parts)
    while True:
        runs = ask_more(first, open_benchmarks, announce), ask_more(second, open_benchmarks, announce)
        differences = sequential_differences(*runs, margins)
        if without := first.parts.keys() - {difference.benchmark for difference in differences}:
            raise DataError(f"{min(without)}: the two runs have no protocol with the metric in common; name another")
        undecided = {difference.benchmark for difference in differences if difference.verdict == "undecided"}
        open_benchmarks = [name for name in first.unfinished if name in undecided]
        if not open_benchmarks:
            return DecidedComparison(tuple(differences), runs, (first.outcome, second.outcome))


def _metric(spec: BenchmarkSpec, metric: str) -> str:
    return metric or headline_metric(spec)


def _margin(metric: str, equivalent: float) -> float:
    row = bounded_row(metric, FLAG)
    return margin_in_unit(row, equivalent, f"--equivalent {equivalent:g}") if equivalent else 0.0
