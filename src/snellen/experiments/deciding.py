"""Run two models on the same images, in a random order, until it is decided which is better on each benchmark."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from snellen.analysis.headline import headline_metric
from snellen.analysis.sequential import SequentialDifference, sequential_differences
from snellen.analysis.stopping_rules import bounded_row, decision_rule, margin_in_unit
from snellen.building.benchmark import RandomPart
from snellen.callers import for_caller, setting
from snellen.errors import DataError
from snellen.experiments.execution import (
    LazyRoleModels,
    check_models,
    in_own_folder,
    plan_scored_run,
)
from snellen.experiments.run_rounds import RunRounds, run_round
from snellen.experiments.scored_folders import check_judging
from snellen.models.identity import identity_of
from snellen.runs.finding import Announce, announce_nothing
from snellen.runs.plan import RunPlan
from snellen.runs.resuming import with_name_by_fingerprint
from snellen.runs.rounds import empty_parts
from snellen.runs.run_progress import ProgressListener, ignore_progress
from snellen.runs.runner import RunOutcome
from snellen.runs.spec import RunSpec
from snellen.scoring.scored_run import ScoredRun


def _sequential() -> str:
    return for_caller("--sequential", "decide")


class DecidedComparison(Struct, frozen=True):
    """The decided differences of two models, and their runs, which a later comparison resumes."""

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
    announce: Announce = announce_nothing,
) -> DecidedComparison:
    """Run two models on the same images until each benchmark is decided.

    A benchmark is decided when the anytime-valid interval of the difference excludes 0, or is within ±`equivalent`.
    Otherwise all of it is run.

    Args:
        spec: The spec of both runs.
        models: Two model strings or objects.
        metric: A mean of bounded values; by default the headline metric of each benchmark.
        equivalent: The largest difference that does not matter, in percentage points for a share. With 0, every
            difference matters.
        progress: Receives the state of each run.
        announce: Receives lines for the user.

    Raises:
        SnellenError: The spec, a model or the metric does not fit.
    """
    if len(models) != 2:
        raise DataError(
            f"{_sequential()} compares two models, but {len(models)} are given: MODEL_A MODEL_B BENCHMARK..."
        )
    until = spec.execution.until
    if until:
        raise DataError(f"{_sequential()} has its own stopping rule; remove until = {until!r}")
    roles = dict(spec.question.roles)
    named_spec = check_models(spec, models, roles)
    check_judging(spec.scoring, spec.judge)
    first, second = _start(named_spec, models, LazyRoleModels(roles), metric, progress, announce)
    margins = {}
    for name, part in first.parts.items():
        rule_metric = part.rule.partition(" ")[0]
        margins[name] = _margin(rule_metric, equivalent)

    open_benchmarks = list(first.parts)
    while True:
        first_scored = run_round(first, open_benchmarks, announce)
        second_scored = run_round(second, open_benchmarks, announce)
        differences = sequential_differences(first_scored, second_scored, margins)
        compared = {difference.benchmark for difference in differences}
        not_compared = first.parts.keys() - compared
        if not_compared:
            raise DataError(
                f"{min(not_compared)}: the two runs do not share a protocol with this metric; choose another "
                "metric"
            )

        undecided = {
            difference.benchmark for difference in differences if difference.verdict == "undecided"
        }
        open_benchmarks = [name for name in first.unfinished if name in undecided]
        closed = first.parts.keys() - set(open_benchmarks)
        first.settle(closed)
        second.settle(closed)
        if not open_benchmarks:
            break

    # The manifests have changed, so the runs are scored as they are now.
    runs = (first.score(announce), second.score(announce))
    decided = tuple(
        replace(difference, part=first.parts[difference.benchmark]) for difference in differences
    )
    return DecidedComparison(decided, runs, (first.outcome, second.outcome))


def _start(
    named_spec: RunSpec,
    models: Sequence[Any],
    role_models: LazyRoleModels,
    metric: str,
    progress: ProgressListener,
    announce: Announce,
) -> list[RunRounds[RandomPart]]:
    """Plan the runs of two models that are to be compared, each in a folder of its own. No request is sent yet.

    Args:
        named_spec: The settings of both runs.
        models: The two models, strings or objects.
        role_models: Models in other roles, such as a judge.
        metric: The metric in which they are compared; if empty, the preferred metric of each benchmark.
        progress: Receives the state of each run.
        announce: Receives lines for the user.
    """
    rounds: list[RunRounds[RandomPart]] = []
    loaded_models: list[Any] = []
    for index, model in enumerate(models):
        model_spec = named_spec.for_model(index, named_spec.question.models[index])
        # Both models have the same benchmarks, so what is announced of the second one repeats the first.
        plan = plan_scored_run(model_spec, announce if index == 0 else announce_nothing)
        loaded, plan = in_own_folder(model, plan, role_models, announce)
        loaded_models.append(loaded)
        if index == 1 and plan.folder == rounds[0].plan.folder:
            plan = _in_separate_folder(plan, loaded_models, role_models)
        rules = {}
        for use in plan.benchmarks:
            rules[use.benchmark.name] = decision_rule(metric or headline_metric(use.benchmark.spec))
        parts: dict[str, RandomPart] = {}
        for name, part in empty_parts(plan, rules).items():
            parts[name] = replace(part, awaits_verdict=True)
        rounds.append(RunRounds(plan, parts, loaded, role_models, progress))
    if rounds[0].plan.folder == rounds[1].plan.folder:
        raise DataError(
            f"{_sequential()}: both models are {named_spec.question.models[0]}; give two different models"
        )
    return rounds


def _in_separate_folder(
    plan: RunPlan, loaded_models: Sequence[Any], role_models: LazyRoleModels
) -> RunPlan:
    """Give the second of two models with the same model string a folder of its own, if the models differ."""
    first, second = loaded_models
    if isinstance(first, str) or not plan.has_automatic_name:
        return plan
    if identity_of(first) == identity_of(second):
        return plan
    return with_name_by_fingerprint(plan, second, role_models.roles)


def _margin(metric: str, equivalent: float) -> float:
    """Return the difference up to which two models count as equivalent, in the unit of the metric; 0 by default."""
    row = bounded_row(metric, _sequential())
    if not equivalent:
        return 0.0
    return margin_in_unit(row, equivalent, setting("equivalent", equivalent))
