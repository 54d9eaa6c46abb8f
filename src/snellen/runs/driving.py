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
    if any(sends_batches(each) for each in (model, *roles.values())):
        from snellen.runs.batch_driver import drive_batches

        drive_batches(
            model, items, store, roles=roles, budget=budget, progress=progress, waits=waits
        )
        return

    local_roles: dict[str, Model] = {}
    async_roles: dict[str, AsyncModel] = {}
    for role, role_model in roles.items():
        if isinstance(role_model, AsyncModel):
            async_roles[role] = role_model
        else:
            local_roles[role] = role_model
    if not isinstance(model, AsyncModel) and not async_roles:
        drive(
            model, items, store, roles=local_roles, window=window, budget=budget, progress=progress
        )
        return

    # Imported here because loading asyncio takes a twentieth of the time of a short command.
    from snellen.runs.async_driver import drive_async, run_async, synchronous_models

    if isinstance(model, AsyncModel) and not local_roles:
        run_async(
            drive_async(model, items, store, roles=async_roles, budget=budget, progress=progress)
        )
        return
    with synchronous_models({EVALUATED: model, **roles}) as models:
        evaluated = models.pop(EVALUATED)
        drive(
            evaluated, items, store, roles=models, window=window, budget=budget, progress=progress
        )


# --- models by role ---------------------------------------------------------------------------------------------------


def load_roles(models: Mapping[str, Any]) -> dict[str, Model | AsyncModel]:
    """Load the model of each role, and return the loaded models by role.

    Roles with the same model string or object share one loaded model. Raises the errors of `load_model`.

    Args:
        models: Model strings or objects by role.
    """
    loaded_models: dict[int | str, Model | AsyncModel] = {}
    loaded_by_role = {}
    for role, model in models.items():
        identity = _identity(model)
        if identity not in loaded_models:
            loaded_models[identity] = load_model(model)
        loaded_by_role[role] = loaded_models[identity]
    return loaded_by_role


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
    """Return a value that is equal for the same model: the model string, or the `id` of a Python object."""
    return model if isinstance(model, str) else id(model)
