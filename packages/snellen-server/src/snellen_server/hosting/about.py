"""The feature `about`: the front page, the version, health checks, and metrics for Prometheus."""

from __future__ import annotations

import asyncio
import os
import shutil
from pathlib import Path
from tempfile import TemporaryFile
from typing import Annotated

from fastapi import APIRouter, Depends, HTTPException, Request
from fastapi.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from pydantic import BaseModel
from sqlalchemy import Connection, delete, insert
from sqlalchemy.exc import SQLAlchemyError

from snellen import SnellenError, __version__
from snellen_server.hosting.callers import ServicesDep, caller_of, services_of
from snellen_server.hosting.credentials import new_id
from snellen_server.hosting.database import heads, revisions_of
from snellen_server.hosting.features import (
    Feature,
    HealthCheck,
    NavigationEntry,
    migration_packages,
)
from snellen_server.hosting.limits import is_within, parse_networks
from snellen_server.hosting.services import Services
from snellen_server.hosting.tables import job_lease, utc_now

router = APIRouter()


class ShownFeature(BaseModel):
    """A part of this server."""

    name: str
    title: str


class AboutServer(BaseModel):
    """What this server is."""

    version: str
    features: list[ShownFeature]


class Readiness(BaseModel):
    """The answer of `/readyz`: whether the server can work, and the reason for each failed check."""

    ready: bool
    missing: dict[str, str]


@router.get("/", include_in_schema=False)
async def front_page(request: Request, services: ServicesDep) -> HTMLResponse:
    """Show the front page, with a part for each feature that has one."""
    parts = []
    for feature in services.features:
        if feature.home:
            values = await feature.home(services)
            parts.append(
                (feature, services.pages.part(request, f"{feature.name}/home.html", values))
            )
    return services.pages.render(
        request, "about/front.html", {"parts": parts, "version": __version__}
    )


@router.get("/api/v1/about", tags=["about"])
async def about_server(services: ServicesDep) -> AboutServer:
    """Return the version of Snellen and the features of this server."""
    features = [
        ShownFeature(name=feature.name, title=feature.title) for feature in services.features
    ]
    return AboutServer(version=__version__, features=features)


@router.get("/healthz", response_class=PlainTextResponse, tags=["operations"])
async def alive() -> str:
    """Return "ok", which shows that the server process runs and answers."""
    return "ok"


@router.get(
    "/readyz", tags=["operations"], response_model=Readiness, responses={503: {"model": Readiness}}
)
async def ready(services: ServicesDep) -> JSONResponse:
    """Return whether database, schema and all features work and the server is not about to stop.

    The status is 200, or 503 with the reason for each check that fails.
    """
    missing = {}
    for feature in services.features:
        for check in feature.health_checks:
            if fault := await check.check(services):
                missing[check.name] = fault
    if services.stopping.is_set():
        missing["server"] = "the server is about to stop"
    return JSONResponse({"ready": not missing, "missing": missing}, 503 if missing else 200)


async def _may_measure(request: Request) -> None:
    """Refuse (403) all requests for metrics except from administrators and allowed networks.

    Allowed are this machine and the networks in the setting `metrics_networks`.
    """
    networks = parse_networks(
        services_of(request).configuration.metrics_networks, "metrics_networks"
    )
    state = request.state
    if not (state.is_local or is_within(state.address, networks) or caller_of(request).is_admin):
        raise HTTPException(403, "only administrators and this machine may do this")


@router.get("/metrics", include_in_schema=False)
async def prometheus(services: ServicesDep, _: Annotated[None, Depends(_may_measure)]) -> Response:
    return Response(generate_latest(services.registry), media_type=CONTENT_TYPE_LATEST)


@router.get("/assets/{feature}/{name}", include_in_schema=False)
async def asset(feature: str, name: str, services: ServicesDep) -> Response:
    """Send a script, style sheet or picture of a feature; browsers may keep it forever."""
    asset_file = services.pages.assets.get(f"{feature}/{name}")
    if asset_file is None:
        raise HTTPException(404, "there is no file with this name")
    cache_headers = {"cache-control": "public, max-age=31536000, immutable"}
    return Response(asset_file.content, media_type=asset_file.media_type, headers=cache_headers)


CHECK_SECONDS = 5
"""A part that takes longer to say whether it is well is not."""
MIN_FREE_BYTES = 64 * 1024 * 1024
"""Bytes of the disk of the server's folder that must be free."""


async def _database_fault(services: Services) -> str | None:
    """Say what is wrong with the database; None if it can be read and written and has the current schema."""
    try:
        async with asyncio.timeout(CHECK_SECONDS):
            carried_out = await services.database.read(revisions_of)
            await services.database.write(_write_nothing)
    except (SQLAlchemyError, SnellenError, TimeoutError):
        return "the database does not answer, or cannot write"
    expected = heads(migration_packages())
    return (
        None
        if set(expected) <= set(carried_out)
        else "the database does not have the schema of this version"
    )


def _write_nothing(connection: Connection) -> None:
    """Write a row and delete it again, which raises an error if the database is read-only."""
    trial = {"job": "readiness", "holder": new_id(), "until": utc_now()}
    connection.execute(insert(job_lease).values(trial))
    connection.execute(delete(job_lease).where(job_lease.c.holder == trial["holder"]))


async def _folder_fault(services: Services) -> str | None:
    return await asyncio.to_thread(folder_fault, services.configuration.folder)


def folder_fault(folder: Path, least_free: int = MIN_FREE_BYTES) -> str | None:
    """Return why a server cannot store files in its folder, without the path; None if it can."""
    try:
        with TemporaryFile(dir=folder) as file:
            file.write(bytes(4096))
            file.flush()
            os.fsync(file.fileno())
        free = shutil.disk_usage(folder).free
    except OSError as error:
        return f"its folder cannot be written ({error.strerror})"
    if free < least_free:
        return f"the disk of its folder is full: {free >> 20} MiB are free, of {least_free >> 20} that it needs"
    return None


FEATURE = Feature(
    name="about",
    title="About this server",
    router=router,
    package="snellen_server.hosting",
    navigation=(NavigationEntry("Home", "/"),),
    health_checks=(HealthCheck("database", _database_fault), HealthCheck("folder", _folder_fault)),
)
