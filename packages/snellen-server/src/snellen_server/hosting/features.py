"""What a feature of the server declares: one frozen record, an entry point of the group `snellen_server.features`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from fastapi import APIRouter
from msgspec import Struct
from sqlalchemy import Table

from snellen import DataError, UnknownNameError
from snellen.plugin_api import entry_points_of, load_target
from snellen_server.hosting.configuration import Configuration
from snellen_server.hosting.limits import RateLimit

if TYPE_CHECKING:
    from snellen_server.hosting.services import Services

Group = Literal["features", "moderators"]
_PREFIX = "snellen_server."
_REGISTERED: dict[Group, dict[str, Any]] = {"features": {}, "moderators": {}}


def register(group: Group, name: str, extension: Any) -> None:
    """Make `name` mean `extension` in this process."""
    _REGISTERED[group][name] = extension


def names(group: Group) -> list[str]:
    """Return all names of a group, in the order of the alphabet."""
    return sorted(_targets(group))


def find(group: Group, name: str) -> Any:
    """Return the object that is registered in a group under a name, such as the feature `arena`.

    Raises:
        UnknownNameError: If the group has no such name.
    """
    target = _targets(group).get(name)
    if target is None:
        known = ", ".join(names(group))
        raise UnknownNameError(f"unknown {group[:-1]} {name!r}; known: {known}")
    if isinstance(target, str):
        return load_target(target)
    return target


def _targets(group: Group) -> dict[str, Any]:
    return {**entry_points_of(_PREFIX).get(f"{_PREFIX}{group}", {}), **_REGISTERED[group]}


@dataclass(frozen=True)
class NavigationEntry:
    """A link in the head of every page."""

    title: str
    address: str
    shown_to: Literal["everybody", "accounts", "admins"] = "everybody"


@dataclass(frozen=True)
class Job:
    """Work in the background. Of several processes over one database one does it at a time.

    It runs every so many seconds, and at once after `services.jobs.wake(name)`. What it raises is logged and counted,
    and it runs again at its time. When the server stops it is waited for; a long one looks at `services.stopping`.
    """

    name: str
    every_seconds: float
    run: Callable[[Services], Awaitable[None]]


@dataclass(frozen=True)
class Collector:
    """A number for Prometheus; `services.metrics[name]` is the collector. Labels have few values, no person's."""

    name: str
    help: str
    kind: Literal["counter", "gauge", "histogram"] = "counter"
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)


@dataclass(frozen=True)
class HealthCheck:
    """Part of /readyz: None when it is ready, else what is missing, in words that anybody may read."""

    name: str
    check: Callable[[Services], Awaitable[str | None]]


@dataclass(frozen=True)
class PersonalData:
    """A table that holds what a person did, and what becomes of it.

    A person's rows are found by a column with the account's id, with the visitor's, or with an actor (`account:ID`,
    `visitor:ID`). An export shows them but for `hidden` columns. An erasure deletes them, or sets `on_erasure` in them
    and keeps the rest for the statistics. Rows whose `time_column` is more than `keep_days` ago are deleted every day.
    """

    table: Table
    account_column: str | None = None
    visitor_column: str | None = None
    actor_column: str | None = None
    hidden: tuple[str, ...] = ()
    on_erasure: Mapping[str, Any] | None = None
    time_column: str | None = None
    keep_days: Callable[[Configuration], int | None] = lambda configuration: None


@dataclass(frozen=True)
class Feature:
    """A part of the server: pages and addresses with all that belongs to them."""

    name: str
    title: str
    router: APIRouter
    """Its addresses. Those for programs stand below /api/v1 and in the OpenAPI document; pages are left out of it."""
    package: str
    """Where its `templates` and `static` folders lie, if it has them."""
    migrations: str | None = None
    """The package of its Alembic revisions: a branch of its own that depends on the house's."""
    tables: tuple[Table, ...] = ()
    settings: type[Struct] | None = None
    """The settings in `[feature.NAME]`; `services.settings(name)` is the record."""
    navigation: tuple[NavigationEntry, ...] = ()
    jobs: tuple[Job, ...] = ()
    metrics: tuple[Collector, ...] = ()
    health_checks: tuple[HealthCheck, ...] = ()
    limits: tuple[RateLimit, ...] = ()
    scopes: Mapping[str, str] = field(default_factory=dict)
    """Scopes of API keys that it asks for, with what they allow in words."""
    body_bytes: Callable[[Configuration], Mapping[str, int]] = lambda configuration: {}
    """Addresses (beginnings of paths) that take larger bodies than others, with their limit in bytes."""
    personal: tuple[PersonalData, ...] = ()
    home: Callable[[Services], Awaitable[Mapping[str, Any]]] | None = None
    """The values of its template `home.html`, which is its part of the home page."""
    hold: Callable[[Services], AbstractAsyncContextManager[Any]] | None = None
    """What it keeps open while the server runs, such as models: entered before jobs start, and left after they have
    ended. `services.held[name]` is what it gives."""
    template_values: Mapping[str, Any] = field(default_factory=dict)
    """Functions and values that its templates use in addition to those of every template."""


def installed_features() -> tuple[Feature, ...]:
    """Return all features that are installed. Their tables are made whether they are shown or not."""
    return tuple(find("features", name) for name in names("features"))


def migration_packages() -> tuple[str, ...]:
    """Return the packages with the migrations of all features that are installed."""
    return tuple(feature.migrations for feature in installed_features() if feature.migrations)


def shown_features(chosen: Sequence[str]) -> tuple[Feature, ...]:
    """Return the features of a server: those that every server has, then the chosen ones, or all if none is chosen.

    Raises:
        UnknownNameError: A chosen feature does not exist.
        DataError: Two features declare a limit, job or metric of the same name.
    """
    optional = [name for name in chosen or names("features") if name not in ALWAYS]
    features: tuple[Feature, ...] = tuple(find("features", name) for name in (*ALWAYS, *optional))
    for kind in ("limits", "jobs", "metrics"):
        declared: list[str] = []
        for feature in features:
            declared.extend(declaration.name for declaration in getattr(feature, kind))
        duplicates = {name for name in declared if declared.count(name) > 1}
        if duplicates:
            raise DataError(
                f"two features declare {kind} named {', '.join(sorted(duplicates))}; "
                "choose one of them with `features`"
            )
    return features


ALWAYS = ("about", "accounts", "pictures")
"""What every server has: the house's own features."""
