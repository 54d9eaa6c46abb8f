"""The web application of `snellen view`, for this machine alone."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from contextlib import suppress

import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware

from snellen.errors import SnellenError
from snellen.viewing.local_pages import LocalPages
from snellen.viewing.serving import SecurityHeaders

HOSTS = ["127.0.0.1", "localhost"]
"""Names under which it answers: a page elsewhere whose name is made to lead here is turned away."""


def make_application(pages: LocalPages, *, hosts: Sequence[str] = HOSTS) -> Starlette:
    """The application of pages. It indexes what is new while it serves."""
    application = Starlette(
        routes=pages.routes(),
        middleware=[Middleware(TrustedHostMiddleware, allowed_hosts=list(hosts)), Middleware(SecurityHeaders)],
        exception_handlers={HTTPException: pages.not_there, SnellenError: pages.not_there},
    )
    application.router.redirect_slashes = False
    return application


def make_server(pages: LocalPages) -> uvicorn.Server:
    """A server of the pages that has not started; `should_exit` stops it."""
    settings = uvicorn.Config(make_application(pages), log_level="warning", server_header=False, lifespan="off")
    return uvicorn.Server(settings)


def serve_pages(pages: LocalPages, listener: socket.socket) -> None:
    """Serve until Ctrl-C."""
    pages.library.refresh_in_background()
    with suppress(KeyboardInterrupt):
        make_server(pages).run(sockets=[listener])
