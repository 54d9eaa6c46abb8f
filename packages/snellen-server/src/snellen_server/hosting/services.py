"""What a running server provides to its features: database, pages, rate limits, background jobs.

Each job runs in a task of its own, and in only one process at a time.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import msgspec
from jinja2 import BaseLoader, PackageLoader, PrefixLoader
from markupsafe import Markup
from msgspec import Struct
from prometheus_client import CollectorRegistry
from sqlalchemy import Connection, delete, insert, or_, update
from sqlalchemy.exc import IntegrityError, OperationalError
from starlette.requests import Request
from starlette.responses import HTMLResponse

from snellen import DataError, StoreError
from snellen.plugin_api import page_style, template_environment
from snellen_server.hosting.configuration import (
    DATABASE,
    KEY_FILE,
    PICTURES,
    Configuration,
    LimitRates,
)
from snellen_server.hosting.contributions import BLOCKED_TEXTS, Moderation, PictureStore
from snellen_server.hosting.credentials import Passwords, Signer, new_id, open_key
from snellen_server.hosting.database import Database, UnavailableError, migrate
from snellen_server.hosting.features import (
    Collector,
    Feature,
    Job,
    NavigationEntry,
    migration_packages,
    shown_features,
)
from snellen_server.hosting.limits import Limiter, Rate, RateLimit, parse_rate
from snellen_server.hosting.monitoring import LOGGER, make_collectors
from snellen_server.hosting.tables import job_lease, utc_now

if TYPE_CHECKING:
    from snellen_server.hosting.callers import Caller

HOUSE = "house"
"""The name for templates and files of the server itself, as in `house/base.html`."""
PACKAGE = "snellen_server.hosting"
TYPES = {
    ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml", ".png": "image/png", ".woff2": "font/woff2",
}  # fmt: skip


@dataclass(frozen=True)
class Asset:
    """A static file of a page, such as a script, held in memory.

    Its address contains a digest of its content, so that browsers fetch a changed file again.
    """

    address: str
    media_type: str
    content: bytes


class Pages:
    """The templates and static files of a server and its features."""

    def __init__(self, features: Sequence[Feature]) -> None:
        """Collect the templates, assets and navigation of the server itself and of its features."""
        packages = {HOUSE: PACKAGE}
        entries: list[NavigationEntry] = []
        template_values: dict[str, Any] = {}
        for feature in features:
            packages[feature.name] = feature.package
            entries.extend(feature.navigation)
            template_values.update(feature.template_values)

        # Links for everybody come first.
        self._entries = sorted(entries, key=lambda entry: entry.shown_to != "everybody")
        self.assets = _assets(packages)
        loaders: dict[str, BaseLoader] = {}
        for name, package in packages.items():
            if _has_folder(package, "templates"):
                loaders[name] = PackageLoader(package)
        self._environment = template_environment(
            PrefixLoader(loaders),
            asset=lambda name: self.assets[name].address,
            **template_values,
        )
        self._environment.filters["minute"] = lambda moment: f"{moment:%Y-%m-%d %H:%M} UTC"

    def render(
        self,
        request: Request,
        template: str,
        values: Mapping[str, Any] | None = None,
        status: int = 200,
        headers: Mapping[str, str] | None = None,
    ) -> HTMLResponse:
        """Return a page from a template.

        All templates can also use `caller`, `navigation`, `path` and, in forms, `csrf_field()`.

        Args:
            request: The request for the page.
            template: Name of the template: `FEATURE/FILE`, or `house/FILE` for those of the server
                itself.
            values: Values for the template.
            status: HTTP status.
            headers: Further HTTP headers.
        """
        # There is no caller yet if the error occurred before `guard` ran.
        caller: Caller | None = getattr(request.state, "caller", None)
        token = caller.csrf_token if caller else ""
        text = self._environment.get_template(template).render(
            {
                "caller": caller,
                "navigation": [entry for entry in self._entries if _is_shown(entry, caller)],
                "path": request.url.path,
                "csrf_token": token,
                "csrf_field": lambda: Markup(
                    '<input type="hidden" name="csrf_token" value="{}">'
                ).format(token),
                **(values or {}),
            }
        )
        return HTMLResponse(text, status, headers=headers)

    def part(self, request: Request, template: str, values: Mapping[str, Any]) -> Markup:
        """Return a template as HTML to be put into a page, such as a part of the front page.

        The template escapes the values, and can also use `caller`.
        """
        caller: Caller | None = getattr(request.state, "caller", None)
        text = self._environment.get_template(template).render({"caller": caller, **values})
        return Markup(text)  # noqa: S704


def _is_shown(entry: NavigationEntry, caller: Caller | None) -> bool:
    """Return whether a link of the navigation is shown to this caller: to all, to accounts or to administrators."""
    if entry.shown_to == "everybody":
        return True
    if caller is None or caller.account is None:
        return False
    return entry.shown_to == "accounts" or caller.account.is_admin


def _assets(packages: Mapping[str, str]) -> dict[str, Asset]:
    """Read the static files of all features, such as scripts and style sheets.

    All files are read when the server starts, so that no request can read a file from elsewhere.

    Args:
        packages: Name of the feature -> its package, which may have a folder `static`.

    Returns:
        The files by `FEATURE/FILE`. The address of a file contains a digest of its content.
    """
    assets = {}

    def add(name: str, media_type: str, content: bytes) -> None:
        digest = hashlib.sha256(content).hexdigest()[:12]
        assets[name] = Asset(f"/assets/{name}?v={digest}", media_type, content)

    add(f"{HOUSE}/report.css", "text/css", page_style().encode())
    for name, package in packages.items():
        if not _has_folder(package, "static"):
            continue
        for file in files(package).joinpath("static").iterdir():
            suffix = file.name.rpartition(".")[2]
            media_type = TYPES.get(f".{suffix}")
            if media_type:
                add(f"{name}/{file.name}", media_type, file.read_bytes())
    return assets


def _has_folder(package: str, folder: str) -> bool:
    return files(package).joinpath(folder).is_dir()


LEASE_SECONDS = 60.0
"""Time after which another process may run the job of a process that died. A long job renews its lease."""


class Jobs:
    """The jobs of a running server."""

    def __init__(self, jobs: Sequence[Job]) -> None:
        """Prepare background jobs without starting them.

        A random id tells this process from others of the same server.
        """
        self._jobs = jobs
        self._holder = new_id()
        self._wakers = {job.name: asyncio.Event() for job in jobs}
        self._tasks: list[asyncio.Task[None]] = []

    def wake(self, name: str) -> None:
        """Run the job with this name at once. Call this from the server's event loop only."""
        self._wakers[name].set()

    def start(self, services: Services) -> None:
        """Start a task for each job."""
        self._tasks = [
            asyncio.create_task(self._repeat(job, services), name=f"job {job.name}")
            for job in self._jobs
        ]

    async def stop(self, services: Services) -> None:
        """Wait until running jobs have ended, and give up this process's leases on all jobs.

        Other processes can then run the jobs. `services.stopping` must be set before, so that jobs
        end.
        """
        for waker in self._wakers.values():
            waker.set()
        await asyncio.gather(*self._tasks)
        try:
            await services.database.write(
                lambda connection: connection.execute(
                    delete(job_lease).where(job_lease.c.holder == self._holder)
                )
            )
        except UnavailableError:
            LOGGER.warning("the database is away; other processes take over the jobs in a minute")

    async def _repeat(self, job: Job, services: Services) -> None:
        """Run a job at intervals, or as soon as it is woken, until the server stops.

        If another process has the job's lease, look again sooner, in case that process ends.
        """
        waker = self._wakers[job.name]
        while not services.stopping.is_set():
            waker.clear()
            is_ours = await self._run_once(job, services)
            with suppress(TimeoutError):
                await asyncio.wait_for(
                    waker.wait(),
                    job.every_seconds if is_ours else min(job.every_seconds, LEASE_SECONDS),
                )

    async def _run_once(self, job: Job, services: Services) -> bool:
        """Run a job unless another process has leased it. Return whether this process ran it.

        A job that fails counts as run; its exception is logged.
        """
        outcome = "done"
        try:
            if not await services.database.write(_take_lease, job.name, self._holder):
                return False
            renewing = asyncio.create_task(self._renew(job, services))
            try:
                await job.run(services)
            finally:
                renewing.cancel()
        except Exception:  # a job that fails must neither end the server nor itself
            LOGGER.exception("job failed", extra={"facts": {"job": job.name}})
            outcome = "failed"
        services.metrics["snellen_job_runs"].labels(job.name, outcome).inc()
        return True

    async def _renew(self, job: Job, services: Services) -> None:
        """Renew the lease of a running job, so that no other process of the server runs it at the same time."""
        while True:
            await asyncio.sleep(LEASE_SECONDS / 3)
            await services.database.write(_take_lease, job.name, self._holder)


def _take_lease(connection: Connection, name: str, holder: str) -> bool:
    """Lease a job for `LEASE_SECONDS`, or renew the lease. Return whether this holder has it now.

    A lease is a database row that says which process may run the job. It fails if another holder's
    lease has not expired.
    """
    now = utc_now()
    lease = {"holder": holder, "until": now + timedelta(seconds=LEASE_SECONDS)}
    free = or_(job_lease.c.holder == holder, job_lease.c.until < now)
    if connection.execute(
        update(job_lease).where(job_lease.c.job == name, free).values(lease)
    ).rowcount:
        return True
    try:
        with connection.begin_nested():
            connection.execute(insert(job_lease).values(job=name, **lease))
    except IntegrityError:
        return False
    return True


EVERY_REQUEST = RateLimit("every request", "600/minute", "1800/minute")


@dataclass(frozen=True)
class Services:
    """Everything that routes and jobs work with. A running server has one such object."""

    configuration: Configuration
    features: tuple[Feature, ...]
    database: Database
    signer: Signer
    pictures: PictureStore
    moderation: Moderation
    pages: Pages
    passwords: Passwords
    jobs: Jobs
    metrics: Mapping[str, Any]
    """Prometheus collectors by the name of the declared metric."""
    registry: CollectorRegistry
    limiter: Limiter
    rates: Mapping[str, tuple[Rate, Rate]]
    """By the name of each limit, its rate for a visitor and its rate for a network."""
    held: dict[str, Any] = field(default_factory=dict)
    """What features keep open while the server runs, by their names (`Feature.hold`)."""
    stopping: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the server is about to stop: endless streams and long jobs end then."""

    def settings(self, feature: str) -> Any:
        """Return the settings of a feature, as a record of the type that the feature declares."""
        [declared] = [
            candidate.settings for candidate in self.features if candidate.name == feature
        ]
        return _settings_of_feature(self.configuration, feature, declared or Struct)

    def wait_seconds(self, limit: str, visitor: str, network: str) -> float:
        """Return 0.0 if a request is allowed under a rate limit, else the seconds to wait.

        An allowed request is counted; one that must wait is not.

        Args:
            limit: Name of the limit.
            visitor: Id of the visitor, who has a rate of their own.
            network: Network of the visitor, which has another rate.
        """
        by_visitor, by_network = self.rates[limit]
        return self.limiter.wait(
            limit, ((f"visitor {visitor}", by_visitor), (f"network {network}", by_network))
        )

    @property
    def session_cookie(self) -> str:
        return "__Host-snellen_session" if self.configuration.is_secure else "snellen_session"

    @property
    def visitor_cookie(self) -> str:
        return "__Host-snellen_visitor" if self.configuration.is_secure else "snellen_visitor"


def open_database(configuration: Configuration) -> Database:
    """Return the database that a configuration names, migrated to the schema of this version.

    Raises StoreError, DataError.
    """
    return _migrate_and_open(configuration, Database(configuration.url))


def open_services(configuration: Configuration) -> Services:
    """Return all services of a server, given its configuration.

    The server's folder, its key and the database schema are created if they do not exist. Raises
    SnellenError.
    """
    _make_private_folder(configuration)
    features = shown_features(configuration.features)
    limits = [EVERY_REQUEST]
    jobs: list[Job] = []
    metrics: list[Collector] = []
    for feature in features:
        limits.extend(feature.limits)
        jobs.extend(feature.jobs)
        metrics.extend(feature.metrics)
    _check_settings(configuration, features, limits)
    registry, collectors = make_collectors(metrics)

    def measure(writes: int, seconds: float) -> None:
        collectors["snellen_commit_writes"].observe(writes)
        collectors["snellen_commit_seconds"].observe(seconds)

    database = _migrate_and_open(configuration, Database(configuration.url, measure))
    collectors["snellen_writes_waiting"].set_function(lambda: database.waiting)
    return Services(
        configuration=configuration,
        features=features,
        database=database,
        signer=Signer(open_key(configuration.folder / KEY_FILE)),
        pictures=PictureStore(configuration.folder / PICTURES, configuration.image_pixels),
        moderation=Moderation(
            configuration.moderators,
            configuration.moderation_seconds,
            BLOCKED_TEXTS if configuration.blocked_texts is None else configuration.blocked_texts,
            configuration.moderation_model,
        ),
        pages=Pages(features),
        passwords=Passwords(),
        jobs=Jobs(jobs),
        metrics=collectors,
        registry=registry,
        limiter=Limiter(),
        rates={limit.name: _rates_of_limit(limit, configuration) for limit in limits},
    )


def _make_private_folder(configuration: Configuration) -> None:
    """Create the server's folder, and make its database, key and images readable by the owner alone.

    If the folder exists, files in it that others may read lose that permission. SQLite gives the files that it writes
    next to a database the permissions of the database, so an empty database is created first.

    Raises:
        StoreError: The folder cannot be made, or a file in it cannot be changed.
    """
    folder = configuration.folder
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(
            f"{folder} cannot be created ({error.strerror}); choose another folder"
        ) from None

    database = folder / DATABASE
    uses_sqlite = not configuration.database
    try:
        if uses_sqlite:
            os.close(os.open(database, os.O_CREAT | os.O_WRONLY, 0o600))
        for file in (*folder.glob(f"{DATABASE}*"), folder / KEY_FILE):
            permissions_of_others = 0o077
            if file.is_file() and file.stat().st_mode & permissions_of_others:
                file.chmod(0o600)
        (folder / PICTURES).mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise StoreError(
            f"{error.filename or folder} cannot be written ({error.strerror}); choose another folder"
        ) from None


def _check_settings(
    configuration: Configuration, features: Sequence[Feature], limits: Sequence[RateLimit]
) -> None:
    """Check that the configuration only has settings of features and limits that exist.

    The settings of each feature must also have the fields and types that the feature declares.

    Raises:
        DataError: They do not; the message names the section of the file.
    """
    feature_names = [feature.name for feature in features]
    for name in configuration.feature:
        if name not in feature_names:
            raise DataError(
                f"[feature.{name}]: there is no such feature; features: {', '.join(feature_names)}"
            )
    for feature in features:
        _settings_of_feature(configuration, feature.name, feature.settings or Struct)

    limit_names = [limit.name for limit in limits]
    unknown_limits = sorted(set(configuration.limits).difference(limit_names))
    if unknown_limits:
        raise DataError(
            f"[limits]: there is no limit named {unknown_limits[0]!r}; known: {', '.join(limit_names)}"
        )


def _migrate_and_open(configuration: Configuration, database: Database) -> Database:
    """Bring the database to the current schema and return it; raises StoreError if it does not answer."""
    try:
        migrate(database, migration_packages())
    except OperationalError as error:
        database.close()
        reason = str(error.orig).strip().splitlines()[0]
        raise StoreError(
            f"the database does not answer ({reason}); check that it is running, and the address of the database"
        ) from None
    except BaseException:
        database.close()
        raise
    return database


def _rates_of_limit(limit: RateLimit, configuration: Configuration) -> tuple[Rate, Rate]:
    """Return the rates of a limit by visitor and by network, as configured or else by default."""
    configured = configuration.limits.get(limit.name, LimitRates())
    where = f"the limit {limit.name!r}"
    per_visitor = parse_rate(configured.per_visitor or limit.per_visitor, where)
    per_network = parse_rate(configured.per_network or limit.per_network, where)
    return per_visitor, per_network


def _settings_of_feature(configuration: Configuration, feature: str, kind: type[Struct]) -> Any:
    """Return the settings of a feature as its own record `kind`; raises DataError for a wrong one."""
    try:
        return msgspec.convert(configuration.feature.get(feature, {}), kind)
    except msgspec.ValidationError as error:
        raise DataError(f"[feature.{feature}]: {error}") from None
