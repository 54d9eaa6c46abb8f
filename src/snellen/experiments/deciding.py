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


def _sequential_flag() -> str:
    return for_caller("--sequential", "decide")


class DecidedComparison(Struct, frozen=True):
    """The differences between two models on each benchmark, and their runs, which a later comparison can continue."""

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

    A benchmark is decided when the confidence interval of the difference excludes 0, or lies within
    ±`equivalent`. The interval is anytime-valid: it may be looked at after each round. A benchmark
    that is not decided before is run completely.

    Args:
        spec: The settings of both runs.
        models: Two model strings or objects.
        metric: The metric that decides, which is a mean of bounded values; by default the headline
            metric of each benchmark.
        equivalent: The largest difference that does not matter, in percentage points for a share.
            With 0, every difference matters.
        progress: Receives the state of each run.
        announce: Receives lines for the user.

    Raises:
        SnellenError: The settings, a model or the metric cannot be used.
    """
    if len(models) != 2:
        raise DataError(
            f"{_sequential_flag()} compares two models, but {len(models)} are given: MODEL_A MODEL_B BENCHMARK..."
        )
    until = spec.execution.until
    if until:
        raise DataError(f"{_sequential_flag()} has its own stopping rule; remove until = {until!r}")
    roles = dict(spec.question.roles)
    named_spec = check_models(spec, models, roles)
    check_judging(spec.scoring, spec.judge)
    first, second = _plan_both_runs(
        named_spec, models, LazyRoleModels(roles), metric, progress, announce
    )
    margins = {}
    for name, part in first.parts.items():
        rule_metric = part.rule.partition(" ")[0]
        margins[name] = _equivalence_margin(rule_metric, equivalent)

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


def _plan_both_runs(
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

    Raises:
        DataError: If both models are the same one.
    """
    first_model, second_model = models
    first_name, second_name = named_spec.question.models
    first_plan = plan_scored_run(named_spec.for_model(0, first_name), announce)
    first_model, first_plan = in_own_folder(first_model, first_plan, role_models, announce)
    # Both models have the same benchmarks, so announcements about the second plan would repeat the first ones.
    second_plan = plan_scored_run(named_spec.for_model(1, second_name), announce_nothing)
    second_model, second_plan = in_own_folder(second_model, second_plan, role_models, announce)

    # Two different models can have the same model string and thus the same automatic folder.
    is_shared_folder = second_plan.folder == first_plan.folder
    may_be_renamed = second_plan.has_automatic_name and not isinstance(first_model, str)
    if (
        is_shared_folder
        and may_be_renamed
        and identity_of(first_model) != identity_of(second_model)
    ):
        second_plan = with_name_by_fingerprint(second_plan, second_model, role_models.roles)
    if second_plan.folder == first_plan.folder:
        raise DataError(
            f"{_sequential_flag()}: both models are {first_name}; give two different models"
        )

    return [
        RunRounds(
            first_plan, _undecided_parts(first_plan, metric), first_model, role_models, progress
        ),
        RunRounds(
            second_plan, _undecided_parts(second_plan, metric), second_model, role_models, progress
        ),
    ]


def _undecided_parts(plan: RunPlan, metric: str) -> dict[str, RandomPart]:
    """Return, for each benchmark of a run, the part of it that was evaluated so far, which is empty.

    The part grows by random images until it is decided which model is better.

    Args:
        plan: The run.
        metric: The metric that decides; if empty, the headline metric of each benchmark.
    """
    rules = {}
    for use in plan.benchmarks:
        deciding_metric = metric or headline_metric(use.benchmark.spec)
        rules[use.benchmark.name] = decision_rule(deciding_metric)
    parts: dict[str, RandomPart] = {}
    for name, part in empty_parts(plan, rules).items():
        parts[name] = replace(part, awaits_verdict=True)
    return parts


def _equivalence_margin(metric: str, equivalent: float) -> float:
    """Return the difference up to which two models count as equivalent, in the unit of the metric.

    0.0 if the user gave none, so that every difference matters.
    """
    row = bounded_row(metric, _sequential_flag())
    if not equivalent:
        return 0.0
    return margin_in_unit(row, equivalent, setting("equivalent", equivalent))
