"""All items of a run, by the driver that its models need."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType

from snellen.models.base import AsyncModel, Model
from snellen.records import EVALUATED
from snellen.runs.budget import NO_BUDGET, RunBudget
from snellen.runs.drivers import ProgressCallback, WorkItem, drive
from snellen.runs.journal import RunStore

Roles = Mapping[str, Model | AsyncModel]
"""The models of a run besides the evaluated one, by role."""
NO_ROLES: Roles = MappingProxyType({})


def drive_model(
    model: Model | AsyncModel,
    items: Iterator[WorkItem],
    store: RunStore,
    *,
    roles: Roles = NO_ROLES,
    window: int = 0,
    budget: RunBudget = NO_BUDGET,
    progress: ProgressCallback = lambda update: None,
) -> None:
    """Run all items with either kind of model, and with those that play the other roles, or as many as a budget allows.

    Raises ModelError when a model is unusable; what was answered before is stored.
    """
    served = {role: one for role, one in roles.items() if isinstance(one, AsyncModel)}
    if not isinstance(model, AsyncModel) and not served:
        local = {role: one for role, one in roles.items() if not isinstance(one, AsyncModel)}
        drive(model, items, store, roles=local, window=window, budget=budget, progress=progress)
        return
    # A twentieth of a short command goes into loading asyncio.
    from snellen.runs.async_driver import drive_async
    from snellen.runs.batched_model import in_batches
    from snellen.runs.event_loop import run_async

    if isinstance(model, AsyncModel) and len(served) == len(roles):
        run_async(drive_async(model, items, store, roles=served, budget=budget, progress=progress))
        return
    with in_batches({EVALUATED: model, **roles}) as models:
        evaluated = models.pop(EVALUATED)
        drive(evaluated, items, store, roles=models, window=window, budget=budget, progress=progress)
