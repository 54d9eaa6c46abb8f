"""What a feature of the server (such as the arena or the leaderboard) declares about itself.

A feature is one frozen record of the class `Feature`, named by an entry point of the group
`snellen_server.features`.
"""

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
    """Register an object under a name in this process, in addition to those of installed packages."""
    _REGISTERED[group][name] = extension


def names(group: Group) -> list[str]:
    """Return the names that are registered in a group, in alphabetical order."""
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
    """A link at the top of every page."""

    title: str
    address: str
    shown_to: Literal["everybody", "accounts", "admins"] = "everybody"


@dataclass(frozen=True)
class Job:
    """Work that the server repeats in the background.

    If several processes serve one database, only one of them runs the job at a time. It runs every
    `every_seconds` seconds, and at once after `services.jobs.wake(name)`. An exception is logged
    and counted, and the job runs again at its next time. A server that stops waits for the job to
    end, so a long job must check `services.stopping`.
    """

    name: str
    every_seconds: float
    run: Callable[[Services], Awaitable[None]]


@dataclass(frozen=True)
class Collector:
    """A metric for Prometheus, which code reaches as `services.metrics[name]`.

    Its labels must have few different values, and none that identifies a person.
    """

    name: str
    help: str
    kind: Literal["counter", "gauge", "histogram"] = "counter"
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)


@dataclass(frozen=True)
class HealthCheck:
    """One check of `/readyz`. It returns None if all is well, otherwise what is missing.

    Everybody can read that text, so it must not contain paths or other secrets.
    """

    name: str
    check: Callable[[Services], Awaitable[str | None]]


@dataclass(frozen=True)
class PersonalData:
    """A table with data about people, and how these are exported, erased and deleted with age.

    The rows of a person are found by `account_column` (the account's id), `visitor_column` (the
    visitor's id) or `actor_column` (`account:ID` or `visitor:ID`). An export contains all columns
    except `hidden` ones. An erasure deletes the rows, or, if `on_erasure` has values, writes these
    into the rows and keeps the rest for statistics. Rows whose `time_column` is more than
    `keep_days` days ago are deleted regularly.
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
    """A part of the server: its pages and addresses, with everything that they need."""

    name: str
    title: str
    router: APIRouter
    """Its addresses. Those for programs are below /api/v1 and in the OpenAPI document; pages are not in it."""
    package: str
    """The package that contains its folders `templates` and `static`, if it has them."""
    migrations: str | None = None
    """The package of its Alembic revisions: a branch of their own that depends on the server's own revisions."""
    tables: tuple[Table, ...] = ()
    settings: type[Struct] | None = None
    """The settings in `[feature.NAME]`; `services.settings(name)` is the record."""
    navigation: tuple[NavigationEntry, ...] = ()
    jobs: tuple[Job, ...] = ()
    metrics: tuple[Collector, ...] = ()
    health_checks: tuple[HealthCheck, ...] = ()
    limits: tuple[RateLimit, ...] = ()
    scopes: Mapping[str, str] = field(default_factory=dict)
    """The scopes of API keys that it checks, each with a description of what it allows."""
    body_bytes: Callable[[Configuration], Mapping[str, int]] = lambda configuration: {}
    """Paths that accept larger request bodies than others: the beginning of the path, and the limit in bytes."""
    personal: tuple[PersonalData, ...] = ()
    home: Callable[[Services], Awaitable[Mapping[str, Any]]] | None = None
    """Returns the values of its template `home.html`, which is its part of the home page."""
    hold: Callable[[Services], AbstractAsyncContextManager[Any]] | None = None
    """A context manager for what stays open while the server runs, such as models. It is entered before jobs start and
    left after they have ended. Its value is `services.held[name]`."""
    template_values: Mapping[str, Any] = field(default_factory=dict)
    """Functions and values that its templates use in addition to those of every template."""


def installed_features() -> tuple[Feature, ...]:
    """Return all installed features, also those that this server does not show.

    The database has the tables of all of them.
    """
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
"""The features that every server has."""
