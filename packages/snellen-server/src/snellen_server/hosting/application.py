"""The application: middleware around the features' addresses, errors as pages or JSON, jobs beside them."""

from __future__ import annotations

import gc
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from http import HTTPStatus
from types import FrameType
from typing import Any

import uvicorn
from fastapi import APIRouter, Depends, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException as StarletteHTTPException
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.responses import RedirectResponse, Response

from snellen import __version__
from snellen.plugin_api import DataError, SecurityHeaders, SnellenError
from snellen_server.hosting.callers import SAFE, SignInError, guard
from snellen_server.hosting.database import BusyError
from snellen_server.hosting.logs import LOGGER
from snellen_server.hosting.middleware import Bounded, Identified, Mended, Observed, fault_body
from snellen_server.hosting.services import Services

API = "/api/"
ONLY_ENCRYPTED = {"strict-transport-security": "max-age=31536000"}


def make_hosting(services: Services) -> FastAPI:
    """The application of a server; it takes the services over and closes the database when it ends."""
    configuration = services.configuration
    larger = {path: most for feature in services.features for path, most in feature.body_bytes(configuration).items()}
    application = FastAPI(
        title="Snellen",
        version=__version__,
        description="An eye chart for vision-language models. Send an API key as `Authorization: Bearer snl_...`.",
        docs_url=None,  # its pages load scripts from elsewhere
        redoc_url=None,
        redirect_slashes=False,
        lifespan=_lifespan,
        dependencies=[Depends(guard)],
        middleware=[
            Middleware(Observed, services),
            Middleware(SecurityHeaders, ONLY_ENCRYPTED if configuration.is_secure else {}),
            Middleware(TrustedHostMiddleware, allowed_hosts=list(configuration.all_hosts), www_redirect=False),
            Middleware(Identified, services),
            Middleware(Bounded, configuration.request_bytes, larger),
            Middleware(Mended, _failed),
        ],
        exception_handlers={
            StarletteHTTPException: _refused,
            RequestValidationError: _not_valid,
            SnellenError: _not_done,
        },
        responses={
            code: {"description": words, "content": {"application/json": {"schema": FAULT}}}
            for code, words in FAULTS.items()
        },
    )
    application.state.services = services
    for feature in services.features:
        _check_guarded(feature.router)
        application.include_router(feature.router)
    return application


FAULTS = {
    400: "Not understood",
    401: "No valid API key or session",
    403: "Not allowed",
    404: "Not here",
    413: "Too large",
    422: "Not valid",
    429: "Too often",
}
FAULT = {
    "type": "object",
    "properties": {
        "error": {
            "type": "object",
            "properties": {"status": {"type": "integer"}, "message": {"type": "string"}},
            "required": ["status", "message"],
        }
    },
    "required": ["error"],
}


@asynccontextmanager
async def _lifespan(application: FastAPI) -> AsyncIterator[None]:
    services: Services = application.state.services
    async with AsyncExitStack() as exit_stack:
        for feature in services.features:
            if feature.hold:
                services.held[feature.name] = await exit_stack.enter_async_context(feature.hold(services))
        services.jobs.start(services)
        LOGGER.info("started", extra={"facts": {"features": [feature.name for feature in services.features]}})
        yield
        services.stopping.set()
        await services.jobs.stop(services)
    services.database.close()
    LOGGER.info("stopped")


def _check_guarded(router: APIRouter) -> None:
    """Raise TypeError for an address that may change things without the guard: a plain Starlette route, a mount."""
    for route in router.routes:
        if isinstance(inner := getattr(route, "original_router", None), APIRouter):
            _check_guarded(inner)
        elif not isinstance(route, APIRoute):
            path = getattr(route, "path", route)
            raise TypeError(f"{path} is not an address of an APIRouter's get, post ...: nothing checks its callers")


# --- errors ------------------------------------------------------------------------------------------------------


def _answer(request: Request, status: int, message: str, headers: Any = None) -> Response:
    services: Services = request.app.state.services
    if request.url.path.startswith(API) or "text/html" not in request.headers.get("accept", ""):
        return JSONResponse(fault_body(status, message), status, headers)
    values = {"code": status, "phrase": HTTPStatus(status).phrase, "detail": message}
    return services.pages.render(request, "house/fault.html", values, status, headers)


async def _refused(request: Request, error: StarletteHTTPException) -> Response:
    wants_page = "text/html" in request.headers.get("accept", "") and not request.url.path.startswith(API)
    if isinstance(error, SignInError) and wants_page and request.method in SAFE:
        return RedirectResponse(error.address, 303)
    return _answer(request, error.status_code, error.detail, error.headers)


async def _not_valid(request: Request, error: RequestValidationError) -> Response:
    faults = [
        f"{'.'.join(str(part) for part in fault['loc'][1:]) or 'body'}: {fault['msg']}" for fault in error.errors()
    ]
    return _answer(request, 422, "; ".join(faults))


async def _not_done(request: Request, error: Exception) -> Response:
    """The message of a SnellenError is meant for the caller."""
    if isinstance(error, BusyError):
        return _answer(request, 503, str(error), {"retry-after": "1"})
    if isinstance(error, DataError):
        return _answer(request, 422, str(error))
    return _failed(request, error)


def _failed(request: Request, error: Exception) -> Response:
    LOGGER.error(
        "failed", exc_info=error, extra={"facts": {"route": getattr(request.scope.get("route"), "path", "none")}}
    )
    return _answer(request, 500, "something went wrong here; it is in the server's log")


# --- running on a socket ---------------------------------------------------------------------------------------------


class HostingServer(uvicorn.Server):
    """A server that tells streams and jobs of the stop before it waits for them."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._has_process = False
        super().__init__(
            uvicorn.Config(
                make_hosting(services),
                lifespan="on",
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=False,  # which proxies are believed is for `trusted_proxies` to say
                timeout_graceful_shutdown=services.configuration.grace_seconds,
                timeout_keep_alive=20,
                h11_max_incomplete_event_size=64 * 1024,
            )
        )

    def run(self, sockets: list[socket.socket] | None = None) -> None:
        self._has_process = True
        super().run(sockets)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self._has_process:
            # Else a collection of garbage looks through all that models and libraries brought, and every request waits.
            gc.collect()
            gc.freeze()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self._services.stopping.set()
        super().handle_exit(sig, frame)
