"""Keep-alive HTTP/1.1 connections to one server, with little overhead per request."""

from __future__ import annotations

import asyncio
import ipaddress
import os
import socket
import ssl
from collections.abc import Callable, Iterable, Mapping
from typing import Any
from urllib.parse import unquote, urlsplit
from urllib.request import getproxies, proxy_bypass

import httpcore
from msgspec import Struct

from snellen.errors import ModelError

CONNECT_TIMEOUT = 15.0
LATE = 1.0
"""Seconds that closing waits for connections whose opening was cancelled."""
MOST_BYTES = 16 << 20
KEEP_ALIVE = 30.0
"""Seconds that an idle connection is kept. One that the server closed is detected when it is taken."""
PROBES = {"TCP_KEEPIDLE": 15, "TCP_KEEPALIVE": 15, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 3}
"""When a machine that says nothing is asked whether it is there: after 15 s, then every 5 s, three times. Its system
answers, however long the server takes for its reply. Linux and macOS have different names for the first."""
_KEEPALIVE = [
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    *((socket.IPPROTO_TCP, getattr(socket, name), n) for name, n in PROBES.items() if hasattr(socket, name)),
]


class TooLongError(Exception):
    """A reply has more bytes than it may have."""


class HttpReply(Struct, frozen=True):
    """A whole reply as it came."""

    status: int
    headers: dict[str, str]
    """Names in lower case."""
    body: bytes


class _Sockets(httpcore.AsyncNetworkBackend):
    """Opens sockets for httpcore, and loses none of them.

    anyio leaks a connection that is cancelled in the same loop iteration in which it opens, so a cancelled
    one is allowed to finish and is then closed.
    """

    def __init__(self) -> None:
        self._inner = httpcore.AnyIOBackend()
        self._late: set[asyncio.Task[httpcore.AsyncNetworkStream]] = set()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        options = [*_KEEPALIVE, *(socket_options or ())]
        opening = asyncio.create_task(self._inner.connect_tcp(host, port, timeout, local_address, options))
        try:
            return await asyncio.shield(opening)
        except asyncio.CancelledError:
            self._late.add(opening)
            raise

    async def close(self) -> None:
        """Close connections that were cancelled while opening, without waiting for an unreachable server."""
        late, self._late = self._late, set()
        if not late:
            return
        opened, waiting = await asyncio.wait(late, timeout=LATE)
        for task in waiting:
            task.cancel()
        for task in opened:
            if not task.cancelled() and task.exception() is None:
                await task.result().aclose()


class Connections:
    """Connections of httpcore, the transport below httpx, in a stack of idle ones.

    httpcore's own pool (and thus httpx) examines all connections for each request, which with 64 of them
    costs 10 ms of CPU per request; taking the most recently used connection costs 0.3 ms
    (bench/http_client.py). The caller limits the number of concurrent requests.
    """

    def __init__(self, url: str, headers: dict[str, str], most_bytes: int = MOST_BYTES) -> None:
        """`url` is the base that paths are added to; a reply may have `most_bytes`.

        Raises ModelError for a proxy that is not HTTP.
        """
        self._most_bytes = most_bytes
        self._url = httpcore.URL(url)
        self._headers = [(b"host", _host(self._url)), *((n.encode(), v.encode()) for n, v in headers.items())]
        self._sockets = _Sockets()
        self._source = _source(url, self._sockets)
        self._idle: list[httpcore.AsyncConnectionInterface] = []
        self._loop: asyncio.AbstractEventLoop | None = None

    async def send(
        self,
        method: str,
        path: str,
        body: bytes = b"",
        headers: Mapping[str, str] | None = None,
        watch: Callable[[bytes], None] | None = None,
    ) -> HttpReply:
        """Send one request, with `headers` of its own, and read the whole reply.

        `watch` is given each part of its body as it comes. Raises httpcore's exceptions, and TooLongError when it has
        read as much as it may of a reply and there is more. Only connecting has its own time limit.
        """
        connection = await self._take()
        request = httpcore.Request(
            method,
            httpcore.URL(
                scheme=self._url.scheme,
                host=self._url.host,
                port=self._url.port,
                target=self._url.target.rstrip(b"/") + path.encode(),
            ),
            headers=[
                *self._headers,
                (b"content-length", str(len(body)).encode()),
                *((name.encode(), value.encode()) for name, value in (headers or {}).items()),
            ],
            content=body,
            extensions={"timeout": {"connect": CONNECT_TIMEOUT}},
        )
        try:
            response = await connection.handle_async_request(request)
            try:
                content = await self._read(response, watch)
            finally:
                await response.aclose()
        except BaseException:
            # httpcore closes a failed connection, except one cancelled before the first byte is sent.
            await connection.aclose()
            raise
        if connection.is_available():
            self._idle.append(connection)
        headers = {name.lower().decode("latin-1"): value.decode("latin-1") for name, value in response.headers}
        return HttpReply(response.status, headers, content)

    async def _read(self, response: httpcore.Response, watch: Callable[[bytes], None] | None) -> bytes:
        content = bytearray()
        async for part in response.aiter_stream():
            content += part
            if watch:
                watch(part)
            if len(content) > self._most_bytes:
                raise TooLongError
        return bytes(content)

    async def close(self) -> None:
        """Close the idle connections; a later request opens new ones."""
        idle, self._idle = self._idle, []
        for connection in idle:
            await connection.aclose()
        await self._sockets.close()
        # A socket closes some loop iterations after the call, also after a request cancelled midway.
        for _ in range(4):
            await asyncio.sleep(0)

    async def _take(self) -> httpcore.AsyncConnectionInterface:
        """An idle connection that is still open, or a new one (which connects on first use)."""
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            # Connections of an event loop that has ended can be neither used nor closed.
            self._idle, self._loop = [], loop
        while self._idle:
            connection = self._idle.pop()
            if connection.is_available() and not connection.has_expired():
                return connection
            await connection.aclose()
        return self._source.create_connection(self._url.origin)


def check_url(name: str, url: str) -> None:
    """Raise ModelError, naming the model, for a URL whose host or port cannot be one."""
    try:
        target = urlsplit(url)
        port = target.port
    except ValueError as error:
        raise ModelError(f"{name}: {url} has no usable address ({error}); write http://HOST:PORT/v1") from None
    host = target.hostname or ""
    if not host or port == 0 or not host.isprintable() or set(host) & set(' \\"<>^`{|}'):
        raise ModelError(f"{name}: {url} has no usable address ({host!r}); write http://HOST:PORT/v1")


def _host(url: httpcore.URL) -> bytes:
    usual = {b"http": 80, b"https": 443}[url.scheme]
    host = b"[%b]" % url.host if b":" in url.host else url.host
    return host if url.port in (None, usual) else b"%b:%d" % (host, url.port)


def _source(url: str, sockets: _Sockets) -> httpcore.AsyncConnectionPool:
    """What opens connections: directly, or through the proxy that the environment names for `url`."""
    target = urlsplit(url)
    # One context for all: reading the certificates takes 20 ms.
    tls = _tls_context() if target.scheme == "https" else None
    proxy = getproxies().get(target.scheme) or getproxies().get("all")
    host = target.hostname or ""
    if not proxy or _is_loopback(host) or proxy_bypass(host):
        return httpcore.AsyncConnectionPool(ssl_context=tls, keepalive_expiry=KEEP_ALIVE, network_backend=sockets)
    proxy_url = urlsplit(proxy if "://" in proxy else f"http://{proxy}")
    if proxy_url.scheme not in ("http", "https"):
        raise ModelError(
            f"{url}: the environment names the proxy {proxy_url.scheme}://{proxy_url.hostname}, but only http proxies "
            f"are supported; set NO_PROXY={host} to connect directly"
        )
    auth = (unquote(proxy_url.username), unquote(proxy_url.password or "")) if proxy_url.username else None
    address = (
        f"{proxy_url.scheme}://{proxy_url.hostname}:{proxy_url.port or (443 if proxy_url.scheme == 'https' else 80)}"
    )
    return httpcore.AsyncHTTPProxy(
        address, proxy_auth=auth, ssl_context=tls, keepalive_expiry=KEEP_ALIVE, network_backend=sockets
    )


def _tls_context() -> ssl.SSLContext:
    if os.environ.get("SSL_CERT_FILE") or os.environ.get("SSL_CERT_DIR"):
        return ssl.create_default_context()
    return httpcore.default_ssl_context()


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
