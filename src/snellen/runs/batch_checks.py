"""Reject settings that a run whose requests are submitted in batches does not support."""

from __future__ import annotations

from collections.abc import Mapping

from snellen.callers import for_caller
from snellen.errors import DataError
from snellen.models.base import sends_batches
from snellen.runs.batch_ledger import check_no_open_batches
from snellen.runs.plan import RunPlan

MIXED_REPLIES_NOTE = (
    "replies of {models} may come from a batch endpoint (their notes say which): the requests are those that are sent "
    "directly, so both kinds of reply may be in one run"
)


def check_batches(models: Mapping[str, object], plan: RunPlan) -> tuple[str, ...]:
    """Check whether a plan can be carried out in batches.

    Args:
        models: The models by role.
        plan: The plan of the run.

    Returns:
        Notes for the manifest of the run, which say which replies may come from a batch; empty if no model submits
        batches.

    Raises:
        DataError: A setting of the plan needs replies before all requests were sent, which batches do not give.
        StoreError: Requests of open batches would be sent again, and paid twice.
    """
    batched = {role: sends_batches(model) for role, model in models.items()}
    check_no_open_batches(plan.folder, batched)
    if not any(batched.values()):
        return ()
    execution = plan.execution
    if execution.workers > 1 or execution.ray:
        raise DataError(
            "batches are submitted by one process; remove workers, share and ray, or batch=true"
        )
    if execution.max_cost is not None:
        forecast = for_caller(
            "use --dry-run --price", "on the command line, use `snellen run --dry-run`"
        )
        raise DataError(
            f"max_cost cannot stop a batch that was submitted; {forecast} to see what it costs, and "
            "max_requests or limit to make it smaller"
        )
    if execution.max_time is not None:
        not_waiting = for_caller("--no-wait (wait=False)", "wait=False")
        raise DataError(
            f"max_time does not stop a batch; use {not_waiting} to end without its replies"
        )
    if any(use.selection.part is not None for use in plan.benchmarks):
        raise DataError(
            "questions that depend on earlier replies (until, adaptive tests, sequential comparisons) would need a batch "
            "for every few of them; remove batch=true, or ask all questions"
        )
    names: dict[str, None] = {}
    for role, model in models.items():
        if batched[role]:
            names[str(getattr(model, "name", ""))] = None
    return (MIXED_REPLIES_NOTE.format(models=" and ".join(names)),)
