"""What is installed, by name: entry points of the groups `snellen_server.features` and `snellen_server.moderators`,
this package's own among them; and what a process registers for itself."""

from __future__ import annotations

from typing import Any, Literal

from snellen.plugin_api import UnknownNameError, entry_points_of, load_target

Group = Literal["features", "moderators"]
_PREFIX = "snellen_server."
_REGISTERED: dict[Group, dict[str, Any]] = {"features": {}, "moderators": {}}


def register(group: Group, name: str, extension: Any) -> None:
    """Make `name` mean `extension` in this process."""
    _REGISTERED[group][name] = extension


def names(group: Group) -> list[str]:
    """All names of a group, in the order of the alphabet."""
    return sorted(_targets(group))


def find(group: Group, name: str) -> Any:
    """What a name means, imported now. Raises UnknownNameError."""
    target = _targets(group).get(name)
    if target is None:
        raise UnknownNameError(f"unknown {group[:-1]} {name!r}; known: {', '.join(names(group))}")
    return load_target(target) if isinstance(target, str) else target


def _targets(group: Group) -> dict[str, Any]:
    return {**entry_points_of(_PREFIX).get(f"{_PREFIX}{group}", {}), **_REGISTERED[group]}
