"""The web application: middleware around all pages, error responses, and background jobs.

Errors are shown as pages to browsers and as JSON to programs.
"""

from __future__ import annotations

import gc
import re
import socket
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from http import HTTPStatus
from http.cookies import CookieError, SimpleCookie
from types import FrameType
from typing import Any

import uvicorn
from fastapi import APIRouter, Depends, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from fastapi.routing import APIRoute
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException as StarletteHTTPException
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import ClientDisconnect
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from snellen import DataError, SnellenError, __version__
from snellen.plugin_api import SecurityHeaders, http_protocol
from snellen_server.hosting.callers import SAFE, SignInError, cookie, guard
from snellen_server.hosting.credentials import new_id
from snellen_server.hosting.database import (
    BusyError,
    ConflictError,
    MissingError,
    UnavailableError,
)
from snellen_server.hosting.limits import (
    LOOPBACK,
    client_address,
    is_within,
    network_of,
    parse_networks,
    retry_words,
)
from snellen_server.hosting.monitoring import LOGGER
from snellen_server.hosting.services import EVERY_REQUEST, Services

_VISITOR_ID = re.compile("[0-9a-f]{24}")
_METHODS = frozenset(("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"))
FORWARDED = ("x-forwarded-for", "forwarded", "x-real-ip")


class RequestLogging:
    """Middleware that logs and counts each request.

    A log line has the route (such as `/images/{digest}`), the method, the status and the duration.
    It does not contain the query, the network address or the person.
    """

    def __init__(self, app: ASGIApp, services: Services) -> None:
        self.app, self._services = app, services

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on; afterwards log its route, status and duration, and count them for Prometheus."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        started_at, status = time.perf_counter(), 500

        async def send_and_watch(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self.app(scope, receive, send_and_watch)
        except ClientDisconnect:
            status = 499
        finally:
            seconds = time.perf_counter() - started_at
            route = getattr(scope.get("route"), "path", "none")
            method = scope["method"] if scope["method"] in _METHODS else "other"
            self._services.metrics["snellen_requests"].labels(route, method, str(status)).inc()
            self._services.metrics["snellen_request_seconds"].labels(route).observe(seconds)
            facts = {
                "route": route,
                "method": method,
                "status": status,
                "milliseconds": round(seconds * 1000, 1),
            }
            LOGGER.info("request", extra={"facts": facts})


class BodyLimit:
    """Middleware that refuses a request body with more bytes than its path allows (status 413).

    Both the length that the request states and the bytes that arrive are checked. `usual` is the
    limit of most paths; `larger` has other limits, by the beginning of the path.
    """

    def __init__(self, app: ASGIApp, usual: int, larger: Mapping[str, int]) -> None:
        self.app = app
        self._usual = usual
        self._larger = larger

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or answer with 413 if its body is too large."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        path_limits = []
        for path, limit in self._larger.items():
            if scope["path"].startswith(path):
                path_limits.append(limit)
        max_bytes = max(path_limits, default=self._usual)
        stated_length = Headers(scope=scope).get("content-length", "0")
        refusal = _refusal(413, f"this takes at most {max_bytes:,} bytes")
        if not stated_length.isdecimal() or int(stated_length) > max_bytes:
            await refusal(scope, receive, send)
            return
        received_bytes = 0
        has_begun = False
        is_refused = False

        async def receive_and_count() -> Message:
            """Receive a part of the request, and count its bytes. Raises ClientDisconnect if there are too many."""
            nonlocal received_bytes, is_refused
            message = await receive()
            received_bytes += len(message.get("body", b""))
            if received_bytes > max_bytes:
                is_refused = True
                raise ClientDisconnect
            return message

        async def send_unless_refused(message: Message) -> None:
            """Send a part of the response, unless the request was too large."""
            nonlocal has_begun
            # After a refusal, whatever the application answers to the broken-off request is dropped.
            if not is_refused:
                has_begun = True
                await send(message)

        try:
            await self.app(scope, receive_and_count, send_unless_refused)
        except ClientDisconnect:
            if not is_refused:
                raise
        if is_refused and not has_begun:
            await refusal(scope, receive, send)


class Identification:
    """Middleware that finds out who sends a request, and applies the rate limit for all requests.

    It stores these values in `request.state`:

    - `identity`: the name under which a trusted proxy has signed the person in, or ""
    - `visitor`: the random id in the signed cookie of this browser
    - `network`: the network that rate limits count as one visitor
    - `is_local`: whether the request was sent on this machine, and not through a proxy
    - `address`: the network address of the client, which is never stored
    """

    def __init__(self, app: ASGIApp, services: Services) -> None:
        self.app, self._services = app, services
        self._trusted = parse_networks(services.configuration.trusted_proxies, "trusted_proxies")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Store who sends a request in `request.state`, and pass the request on.

        A client above the rate limit is refused (429). A browser without a cookie gets one with the
        first HTML page.
        """
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        peer = (scope.get("client") or ("", 0))[0]
        address = client_address(peer, ",".join(headers.getlist("x-forwarded-for")), self._trusted)
        known_visitor = self._visitor(headers.get("cookie", ""))
        visitor = known_visitor or new_id()
        network = network_of(address)
        is_forwarded = any(name in headers for name in FORWARDED)
        scope.setdefault("state", {}).update(
            identity=self._identity(headers, peer),
            visitor=visitor,
            network=network,
            address=address,
            is_local=is_within(address, LOOPBACK) and not is_forwarded,
        )
        seconds = self._services.wait_seconds(EVERY_REQUEST.name, visitor, network)
        if seconds:
            self._services.metrics["snellen_refusals"].labels(f"limit {EVERY_REQUEST.name}").inc()
            wait = int(seconds) + 1
            refusal = _refusal(
                429, f"too many requests; {retry_words(wait)}", {"retry-after": str(wait)}
            )
            await refusal(scope, receive, send)
            return

        async def with_cookie(message: Message) -> None:
            """Send a part of the response. The first HTML page for a new visitor gets the cookie."""
            if message["type"] == "http.response.start" and known_visitor is None:
                response_headers = MutableHeaders(scope=message)
                if response_headers.get("content-type", "").startswith("text/html"):
                    response_headers.append("set-cookie", self._cookie(visitor))
            await send(message)

        await self.app(scope, receive, with_cookie)

    def _identity(self, headers: Headers, peer: str) -> str:
        """Return the name under which a trusted proxy says that the person has signed in.

        The name is "" if no header for it is configured, or if the request does not come directly
        from a trusted proxy. It is also "" if the header occurs twice: then the proxy has forwarded
        the client's own header, which may be forged.
        """
        name = self._services.configuration.identity_header
        if not name or not is_within(client_address(peer, "", ()), self._trusted):
            return ""
        values = headers.getlist(name)
        return values[0].strip() if len(values) == 1 else ""

    def _visitor(self, cookies: str) -> str | None:
        """Return the visitor id in a `Cookie` header; None unless this server has signed it."""
        try:
            morsel = SimpleCookie(cookies).get(self._services.visitor_cookie)
        except CookieError:
            return None
        visitor, _, signature = morsel.value.partition(".") if morsel else ("", "", "")
        if not _VISITOR_ID.fullmatch(visitor):
            return None
        is_ours = self._services.signer.is_valid("visitor", visitor, signature)
        return visitor if is_ours else None

    def _cookie(self, visitor: str) -> str:
        """Return the `Set-Cookie` header with a visitor's id and its signature."""
        value = f"{visitor}.{self._services.signer.signature('visitor', visitor)}"
        return cookie(
            self._services,
            self._services.visitor_cookie,
            value,
            self._services.configuration.visitor_days,
        )


class ErrorPages:
    """Middleware that turns an unexpected exception into an error response.

    It is inside the middleware that adds security headers, so that the error response gets them
    too.
    """

    def __init__(
        self, app: ASGIApp, make_response: Callable[[Request, Exception], Response]
    ) -> None:
        self.app = app
        self._make_response = make_response

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, and answer with the page for internal errors (500) if that raises.

        The exception is raised again if a part of the response was sent already.
        """
        has_begun = False

        async def send_and_watch(message: Message) -> None:
            nonlocal has_begun
            has_begun = True
            await send(message)

        try:
            await self.app(scope, receive, send_and_watch)
        except ClientDisconnect:
            raise
        except Exception as error:
            # It is logged in full; the client is told only that there was an error.
            if scope["type"] != "http" or has_begun:
                raise
            response = self._make_response(Request(scope), error)
            await response(scope, receive, send)


def fault_body(status: int, message: str) -> dict[str, dict[str, str | int]]:
    """Return the JSON body of an error response: `{"error": {"status": 404, "message": "..."}}`."""
    return {"error": {"status": status, "message": message}}


def _refusal(status: int, message: str, headers: Mapping[str, str] | None = None) -> JSONResponse:
    return JSONResponse(fault_body(status, message), status, headers)


API = "/api/"
ONLY_ENCRYPTED = {"strict-transport-security": "max-age=31536000"}


def make_hosting(services: Services) -> FastAPI:
    """Return the web application of a server. It closes the database when it stops."""
    configuration = services.configuration
    larger: dict[str, int] = {}
    """Maximum bytes of a request, for paths that take larger ones than others."""
    for feature in services.features:
        larger.update(feature.body_bytes(configuration))
    fault_responses: dict[int | str, dict[str, Any]] = {}
    for code, message in FAULTS.items():
        fault_responses[code] = {
            "description": message,
            "content": {"application/json": {"schema": FAULT}},
        }
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
            Middleware(RequestLogging, services),
            Middleware(SecurityHeaders, ONLY_ENCRYPTED if configuration.is_secure else {}),
            Middleware(
                TrustedHostMiddleware,
                allowed_hosts=list(configuration.all_hosts),
                www_redirect=False,
            ),
            Middleware(Identification, services),
            Middleware(BodyLimit, configuration.request_bytes, larger),
            Middleware(ErrorPages, _on_internal_error),
        ],
        exception_handlers={
            StarletteHTTPException: _on_http_error,
            RequestValidationError: _on_invalid_fields,
            SnellenError: _on_snellen_error,
        },
        responses=fault_responses,
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
    503: "Too busy, or without its database",
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
    """Start the features and jobs when the server starts, and stop them when it stops."""
    services: Services = application.state.services
    async with AsyncExitStack() as exit_stack:
        for feature in services.features:
            if feature.hold:
                services.held[feature.name] = await exit_stack.enter_async_context(
                    feature.hold(services)
                )
        services.jobs.start(services)
        configuration = services.configuration
        if configuration.is_secure and not configuration.looks_at_images:
            LOGGER.warning(
                "nobody looks at the images that people send; set moderation_model (docs/server.md)"
            )
        LOGGER.info(
            "started",
            extra={"facts": {"features": [feature.name for feature in services.features]}},
        )
        yield
        services.stopping.set()
        await services.jobs.stop(services)
        await services.moderation.close()
    services.database.close()
    LOGGER.info("stopped")


def _check_guarded(router: APIRouter) -> None:
    """Raise TypeError for a route that could change data without passing the function `guard`.

    `guard` refuses forged requests, but does not run for mounted applications or plain Starlette
    routes.
    """
    for route in router.routes:
        if isinstance(inner := getattr(route, "original_router", None), APIRouter):
            _check_guarded(inner)
        elif not isinstance(route, APIRoute):
            path = getattr(route, "path", route)
            raise TypeError(
                f"{path} is not an address of an APIRouter's get, post ...: nothing checks its callers"
            )


# --- errors ------------------------------------------------------------------------------------------------------


def _error_response(request: Request, status: int, message: str, headers: Any = None) -> Response:
    """Return an error response: a page for browsers, JSON for programs."""
    if not _wants_page(request):
        return JSONResponse(fault_body(status, message), status, headers)
    services: Services = request.app.state.services
    values = {"code": status, "phrase": HTTPStatus(status).phrase, "detail": message}
    return services.pages.render(request, "house/fault.html", values, status, headers)


def _wants_page(request: Request) -> bool:
    """Return whether a request is from a browser that expects a page, and not to the API."""
    accepts_html = "text/html" in request.headers.get("accept", "")
    return accepts_html and not request.url.path.startswith(API)


async def _on_http_error(request: Request, error: StarletteHTTPException) -> Response:
    """Return the response to a refused request; a browser that must sign in first is redirected to the form."""
    if isinstance(error, SignInError) and request.method in SAFE and _wants_page(request):
        return RedirectResponse(error.address, 303)
    return _error_response(request, error.status_code, error.detail, error.headers)


async def _on_invalid_fields(request: Request, error: RequestValidationError) -> Response:
    """Return the response to a request with invalid fields (422), which names each field and what is wrong."""
    messages = []
    for fault in error.errors():
        path = fault["loc"][1:]  # without "body" or "query"
        field = ".".join(str(part) for part in path) or "body"
        messages.append(f"{field}: {fault['msg']}")
    return _error_response(request, 422, "; ".join(messages))


async def _on_snellen_error(request: Request, error: Exception) -> Response:
    """Return the response to a request that ended in a SnellenError, with the error's message."""
    if isinstance(error, BusyError):
        return _error_response(request, 503, str(error), {"retry-after": "1"})
    if isinstance(error, UnavailableError):
        LOGGER.error("database unavailable", extra={"facts": {"error": str(error.__cause__)}})
        return _error_response(request, 503, str(error), {"retry-after": "5"})
    if isinstance(error, MissingError):
        return _error_response(request, 404, str(error))
    if isinstance(error, ConflictError):
        return _error_response(request, 409, str(error))
    if isinstance(error, DataError):
        return _error_response(request, 422, str(error))
    return _on_internal_error(request, error)


def _on_internal_error(request: Request, error: Exception) -> Response:
    """Log an unexpected error, and answer without its details (500)."""
    LOGGER.error(
        "failed",
        exc_info=error,
        extra={"facts": {"route": getattr(request.scope.get("route"), "path", "none")}},
    )
    return _error_response(
        request, 500, "an internal error occurred; details are in the server's log"
    )


# --- running on a socket ---------------------------------------------------------------------------------------------


class HostingServer(uvicorn.Server):
    """The HTTP server. When it is told to stop, it first sets `services.stopping`.

    So endless streams and long jobs can end before the server waits for them.
    """

    def __init__(self, services: Services) -> None:
        """Configure the HTTP server.

        The header with the client's address is only believed on connections from trusted proxies.
        """
        self._services = services
        self._has_process = False
        proxies = parse_networks(services.configuration.trusted_proxies, "trusted_proxies")

        def is_proxy(address: str) -> bool:
            return is_within(client_address(address, "", ()), (*LOOPBACK, *proxies))

        super().__init__(
            uvicorn.Config(
                make_hosting(services),
                http=http_protocol(is_proxy),  # type: ignore[arg-type]
                ws="none",
                lifespan="on",
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=False,  # which proxies are believed is for `trusted_proxies` to say
                timeout_graceful_shutdown=services.configuration.grace_seconds,
                timeout_keep_alive=20,
            )
        )

    def run(self, sockets: list[socket.socket] | None = None) -> None:
        self._has_process = True
        super().run(sockets)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start to listen, and exempt the objects loaded so far from garbage collection."""
        await super().startup(sockets)
        if self._has_process:
            # Otherwise each garbage collection would search all objects of models and libraries, while requests wait.
            gc.collect()
            gc.freeze()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self._services.stopping.set()
        super().handle_exit(sig, frame)
