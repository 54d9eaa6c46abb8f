"""Run all items with the driver that the models need. A model with several roles is loaded once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

from snellen.models.base import AsyncModel, Model, sends_batches
from snellen.models.loading import load_model
from snellen.records import EVALUATED
from snellen.runs.drivers import NO_BUDGET, ProgressCallback, RunBudget, WorkItem, drive
from snellen.runs.run_store import RunStore

Roles = Mapping[str, Model | AsyncModel]
"""The models of a run by role, without the evaluated model."""
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
    waits: bool = True,
) -> None:
    """Run all items with models of any kind, or as many as the budget allows.

    Args:
        model: The evaluated model.
        items: The items to run.
        store: Stores the responses.
        roles: The other models, by role.
        window: Requests to collect for a local model before any is sent; 0 for its batch size.
        budget: Limits the requests to send.
        progress: Receives updates.
        waits: Whether to wait for requests in batches.

    Raises:
        ModelError: A model is unusable. Replies that arrived before are stored.
        PendingBatchesError: Batches have not ended, and `waits` is False.
    """
    if any(map(sends_batches, (model, *roles.values()))):
        from snellen.runs.batch_driver import drive_batches

        drive_batches(
            model, items, store, roles=roles, budget=budget, progress=progress, waits=waits
        )
        return
    served = {
        role: role_model for role, role_model in roles.items() if isinstance(role_model, AsyncModel)
    }
    if not isinstance(model, AsyncModel) and not served:
        local = {
            role: role_model
            for role, role_model in roles.items()
            if not isinstance(role_model, AsyncModel)
        }
        drive(model, items, store, roles=local, window=window, budget=budget, progress=progress)
        return
    # A twentieth of a short command goes into loading asyncio.
    from snellen.runs.async_driver import drive_async, in_batches, run_async

    if isinstance(model, AsyncModel) and len(served) == len(roles):
        run_async(drive_async(model, items, store, roles=served, budget=budget, progress=progress))
        return
    with in_batches({EVALUATED: model, **roles}) as models:
        evaluated = models.pop(EVALUATED)
        drive(
            evaluated, items, store, roles=models, window=window, budget=budget, progress=progress
        )


# --- models by role ---------------------------------------------------------------------------------------------------


def load_roles(models: Mapping[str, Any]) -> dict[str, Model | AsyncModel]:
    """Load the model of each role. Roles with the same model string or object share one loaded model.

    Args:
        models: Model strings or objects by role. The errors of `load_model` are raised.
    """
    loaded: dict[int | str, Model | AsyncModel] = {}
    roles = {}
    for role, model in models.items():
        identity = _identity(model)
        if identity not in loaded:
            loaded[identity] = load_model(model)
        roles[role] = loaded[identity]
    return roles


def load_evaluated(model: Any, models: Mapping[str, Any], roles: Roles) -> Model | AsyncModel:
    """Return the evaluated model. If it is also the model of another role, it is not loaded again.

    Args:
        model: The evaluated model, a model string or an object.
        models: The model strings or objects of the other roles.
        roles: The loaded models of the other roles.
    """
    for role, role_model in models.items():
        if _identity(role_model) == _identity(model):
            return roles[role]
    return load_model(model)


def _identity(model: Any) -> int | str:
    """Return what tells models apart: a model string, or the id of an object."""
    return model if isinstance(model, str) else id(model)
