"""Who plays which role in a run: models loaded once, however many roles they have."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from snellen.models.base import AsyncModel, Model, load_model
from snellen.runs.driving import Roles


def load_roles(models: Mapping[str, Any]) -> dict[str, Model | AsyncModel]:
    """The model of each role, from model strings or objects. Raises what `load_model` raises."""
    loaded: dict[int | str, Model | AsyncModel] = {}
    for model in models.values():
        if _identity(model) not in loaded:
            loaded[_identity(model)] = load_model(model)
    return {role: loaded[_identity(model)] for role, model in models.items()}


def load_evaluated(model: Any, models: Mapping[str, Any], roles: Roles) -> Model | AsyncModel:
    """The evaluated model: that of a role where it is the same one, else loaded now. `models` are those of `roles`."""
    for role, other in models.items():
        if _identity(other) == _identity(model):
            return roles[role]
    return load_model(model)


def _identity(model: Any) -> int | str:
    return model if isinstance(model, str) else id(model)
