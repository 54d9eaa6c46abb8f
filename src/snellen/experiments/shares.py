"""Run a share of a spec, in one of several processes that may be on different machines."""

from __future__ import annotations

from contextlib import ExitStack

from msgspec.structs import replace

from snellen.errors import DataError
from snellen.experiments.execution import (
    LazyRoleModels,
    check_models,
    noting_folder,
    plan_scored_run,
)
from snellen.experiments.outcome_checks import check_spent
from snellen.runs.driving import load_evaluated
from snellen.runs.finding import Announce, announce_nothing
from snellen.runs.locks import locked_share
from snellen.runs.resuming import choose_folder
from snellen.runs.run_progress import ProgressListener, ignore_progress, progress_of
from snellen.runs.runner import RunOutcome, run_plan
from snellen.runs.spec import ExecutionSpec, RunSpec, share_of_run


def run_share(
    spec: RunSpec,
    share: str,
    *,
    progress: ProgressListener = ignore_progress,
    announce: Announce = announce_nothing,
) -> list[RunOutcome]:
    """Run each model on one share of the images, without scoring.

    The other shares can be run on other machines, if all machines see the same folder of runs.

    Args:
        spec: The settings of the runs.
        share: `K/N`, the K-th of N shares, counted from 1.
        progress: Receives the state of each run.
        announce: Receives lines for the user.

    Returns:
        For each model, what was done.

    Raises:
        DataError: The text is not a share, or a setting needs the whole run in one process.
        SnellenError: As `evaluate_spec`.
    """
    number, shares = share_of_run(share)
    _check_can_be_shared(spec.execution)
    roles = dict(spec.question.roles)
    check_models(spec, spec.question.models, roles)
    role_models = LazyRoleModels(roles)

    outcomes = []
    for index, model in enumerate(spec.question.models):
        # Plan the complete run first, so that all shares have the same plan. Then restrict it to this share.
        plan = plan_scored_run(spec.for_model(index, model), announce)
        plan = replace(plan, spec=plan.spec.with_execution(workers=shares), worker=number - 1)
        loaded = load_evaluated(model, role_models.models, role_models.roles)
        plan = choose_folder(plan, loaded, role_models.roles, announce)
        with noting_folder(plan), ExitStack() as locks:
            if shares > 1:  # the runner itself locks the folder of a complete run
                locks.enter_context(locked_share(plan.folder, shares))
            update = progress_of(plan, progress, of_worker=True)
            outcomes.append(run_plan(loaded, plan, update, role_models.roles))

    for outcome in outcomes:
        for finding in outcome.findings:  # only the first share writes them into the manifest
            announce(f"share {share}: {finding}")
        check_spent(outcome)
    return outcomes


def _check_can_be_shared(execution: ExecutionSpec) -> None:
    """Raise DataError for a setting that needs the whole run in one process."""
    if execution.until:
        conflicting = "until"
    elif execution.ray:
        conflicting = "ray"
    elif execution.workers > 1:
        conflicting = "workers"
    else:
        return
    raise DataError(f"share: this process runs only a part of a larger run; remove {conflicting}")
