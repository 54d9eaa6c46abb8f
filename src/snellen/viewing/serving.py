"""What every answer carries so that no page elsewhere has power over these, and the socket on loopback."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from types import MappingProxyType

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from snellen.errors import StoreError

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; "
    "frame-src 'self'; "
    "base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",  # with none at all a browser sends forms with the origin "null"
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cache-control": "no-store",
}


class SecurityHeaders:
    """Middleware: every answer has `HEADERS` and `others`, unless it sets one of them itself.

    Examples:
        >>> from starlette.applications import Starlette
        >>> from starlette.middleware import Middleware
        >>> application = Starlette(middleware=[Middleware(SecurityHeaders)])
    """

    def __init__(
        self, app: ASGIApp, more_headers: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        self.app = app
        self._headers = [
            (name.encode(), value.encode()) for name, value in {**HEADERS, **more_headers}.items()
        ]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, with security headers that the response does not set itself."""

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = list(message["headers"])
                own_names = {name for name, _ in headers}
                for name, value in self._headers:
                    if name not in own_names:
                        headers.append((name, value))
                message["headers"] = headers
            await send(message)

        await self.app(scope, receive, with_headers)


LOOPBACK = "127.0.0.1"


def open_listener(port: int, host: str = LOOPBACK) -> socket.socket:
    """Return a listening socket on a port of this machine. Only this machine can connect, unless a host is given.

    The port 0 stands for any free port. Raises StoreError if the port cannot be used.

    Examples:
        >>> with open_listener(0) as listener:
        ...     listener.getsockname()[0]
        '127.0.0.1'
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # Said to be TCP, which asyncio wants to know before it sends small answers at once (TCP_NODELAY).
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        advice = (
            "another port with --port, or 0"
            if host == LOOPBACK
            else "others with --host and --port"
        )
        raise StoreError(
            f"port {port} of {host} cannot be used ({error.strerror}); choose {advice}"
        ) from None
    listener.listen(1024)
    return listener
