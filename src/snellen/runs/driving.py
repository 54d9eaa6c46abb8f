"""All items of a run, by the driver that its models need; models are loaded once, however many roles they have."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

from snellen.models.base import AsyncModel, Model
from snellen.models.loading import load_model
from snellen.records import EVALUATED
from snellen.runs.drivers import NO_BUDGET, ProgressCallback, RunBudget, WorkItem, drive
from snellen.runs.run_store import RunStore

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
    """The model of each role, from model strings or objects. Raises what `load_model` raises."""
    loaded: dict[int | str, Model | AsyncModel] = {}
    for model in models.values():
        if _identity(model) not in loaded:
            loaded[_identity(model)] = load_model(model)
    return {role: loaded[_identity(model)] for role, model in models.items()}


def load_evaluated(model: Any, models: Mapping[str, Any], roles: Roles) -> Model | AsyncModel:
    """The evaluated model: that of a role where it is the same one, else loaded now. `models` are those of `roles`."""
    for role, role_model in models.items():
        if _identity(role_model) == _identity(model):
            return roles[role]
    return load_model(model)


def _identity(model: Any) -> int | str:
    return model if isinstance(model, str) else id(model)
