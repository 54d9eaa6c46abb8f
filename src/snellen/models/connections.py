"""HTTP connections to one server of a model, which stay open between requests.

The exchange itself is done by aiohttp. This module adds limits (on the bytes of unsent requests, on
the length of a reply, and on the time to connect), checks that a request is valid HTTP, and
describes each fault in one line.
"""

from __future__ import annotations

import asyncio
import os
import re
import socket
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import ExitStack, asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import certifi
from aiohttp.abc import AbstractStreamWriter
from msgspec import Struct
from yarl import URL

from snellen.errors import ModelError
from snellen.fetching.user_callbacks import user_callbacks
from snellen.models.byte_budget import ByteBudget
from snellen.models.proxies import proxy_for

CONNECT_TIMEOUT = 15.0
"""Seconds in which a connection has to be open, TLS and a proxy's tunnel included."""
SLOW_TO_CONNECT = 2.5
"""Seconds without a connection to a server that never had one, after which that is said."""
KEEP_ALIVE = 30.0
"""Seconds that an idle connection is kept."""
SECOND_ADDRESS = 0.25
"""Seconds after which a host's next address is tried beside the first (Happy Eyeballs, RFC 8305)."""
MOST_BYTES = 16 << 20
"""The longest body of a reply."""
MOST_HEAD_BYTES = 1 << 16
"""The longest line in the head of a reply."""
WRITTEN_AT_ONCE = 1 << 18
"""Bytes given to the transport at once, which copies what the system does not take."""
PROBES = {"TCP_KEEPIDLE": 15, "TCP_KEEPALIVE": 15, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 3}
"""When a machine that says nothing is asked whether it is there: after 15 s, then every 5 s, three times. Its system
answers, however long the server takes for its reply. Linux and macOS have different names for the first."""
_OWN_HEADERS = ("accept", "accept-encoding", "content-type", "user-agent")
"""Headers that aiohttp would add by itself."""
_PATH = re.compile(r"[!-~]*")
_LINE_BREAK = re.compile(r"[\r\n\0]")


class TransportError(Exception):
    """The exchange failed below HTTP: no connection, one that broke off, or a reply that is not HTTP."""


class ConnectTimeoutError(TransportError):
    """A connection, or TLS on it, could not be opened in time."""


class TooLongError(Exception):
    """A reply is longer than allowed."""


class HttpReply(Struct, frozen=True):
    """A whole reply as it came.

    Examples:
        >>> reply = HttpReply(429, {"retry-after": "3"}, b'{"error": "too many requests"}')
        >>> reply.status, reply.headers["retry-after"]
        (429, '3')
    """

    status: int
    headers: dict[str, str]
    """Headers by name in lower case. If a name occurs several times, the last value is kept."""
    body: bytes


class HttpRequest(Struct, frozen=True):
    """A request to one of a model's servers."""

    method: str
    path: str
    """Appended to the base of the server's addresses."""
    body: bytes = b""
    headers: Mapping[str, str] = {}
    """Headers of this request alone. Those that every request has are added when it is sent."""
    from_root: bool = False
    """Whether `path` replaces the path of the server's address instead of being appended to it.

    For example, with the address `http://host/v1` and the path `/tokenize`, the request goes to
    `http://host/tokenize` if this is true, and otherwise to `http://host/v1/tokenize`.
    """


Compose = Callable[[], Awaitable[HttpRequest]]
"""Builds a request. It is called for each attempt, when there is memory for the request (`ByteBudget`).

`Connections.send` raises the errors that it raises.
"""


class _Body(aiohttp.Payload):
    """The body of a request, which is written in parts, as fast as the server reads it."""

    def __init__(self, content: bytes, written: Callable[[], None]) -> None:
        """Prepare to write `content`. `written` is called when all of it was written to the connection."""
        super().__init__(content)
        self._size = len(content)
        self._written = written

    def decode(self, encoding: str = "utf-8", errors: str = "strict") -> str:
        return bytes(self._value).decode(encoding, errors)

    async def write(self, writer: AbstractStreamWriter) -> None:
        content = memoryview(self._value)
        for start in range(0, len(content), WRITTEN_AT_ONCE):
            await writer.write(content[start : start + WRITTEN_AT_ONCE])
        self._value = b""  # the request is kept until its reply has come, which may take minutes
        self._written()


class _Session:
    """A session of aiohttp, with the number of requests that use it now."""

    def __init__(self, session: aiohttp.ClientSession) -> None:
        self.aiohttp = session
        self.loop = asyncio.get_running_loop()
        self.users = 0
        self._end = _closed_with_loop(session)

    async def begin(self) -> None:
        """Make sure that the session is closed when its event loop ends, even if nobody calls `close`.

        The code that runs the event loop may belong to the user, and knows nothing of this session.
        """
        await anext(self._end)

    async def close(self) -> None:
        await self._end.aclose()
        await _events_so_far()  # a socket closes some turns of the event loop after the call


async def _closed_with_loop(session: aiohttp.ClientSession) -> AsyncGenerator[None]:
    """Close a session when this generator is closed.

    An event loop closes all generators that it has started when it ends. Starting this one is
    therefore enough to close the session with the loop.
    """
    try:
        yield
    finally:
        await session.close()


class Connections:
    """Connections to one server. The caller limits the number of concurrent requests."""

    def __init__(
        self,
        url: str,
        headers: Mapping[str, str],
        most_bytes: int = MOST_BYTES,
        budget: ByteBudget | None = None,
    ) -> None:
        """Prepare connections to a server. None is opened yet.

        Args:
            url: The address of the server. The paths of requests are appended to it.
            headers: HTTP headers of every request.
            most_bytes: Maximum length of a reply in bytes.
            budget: Limits the bytes of requests that are not sent yet. Several connections may
                share one.

        Raises:
            ModelError: The environment names a proxy that is not an HTTP proxy, or the host cannot
                be a domain name.
        """
        address = urlsplit(url)
        _check_host(url, address.hostname or "")
        self._url = url
        self._root = f"{address.scheme}://{address.netloc}"
        self._base = self._root + address.path.rstrip("/")
        self._headers = dict(headers)
        self._most_bytes = most_bytes
        self._budget = budget or ByteBudget()
        self._proxy = proxy_for(url)
        if self._proxy and address.scheme == "http":
            # The proxy reads the request itself; for TLS it is told in the request for a tunnel.
            self._headers |= self._proxy.headers
        self._tls: ssl.SSLContext | bool = True
        if address.scheme == "https" or (self._proxy and self._proxy.url.startswith("https:")):
            self._tls = _tls_context()
        self._session: _Session | None = None
        self._was_connected = False
        self._slow_timer: asyncio.TimerHandle | None = None
        self.is_reached = False
        """Whether a connection was ever opened, whatever became of the request on it."""

    async def send(
        self, compose: Compose, watch: Callable[[bytes], None] | None = None
    ) -> HttpReply:
        """Send one request, and return the reply when all of it has arrived.

        The request is built only when there is memory for it (`ByteBudget`), and its memory counts
        as free again as soon as the server has received it. The time limit here is only for
        connecting. The caller has to limit the time until the reply.

        Args:
            compose: Builds the request.
            watch: Called with each part of the reply's body as it arrives, for example to show a
                reply that is being written.

        Raises:
            ConnectTimeoutError: No connection was opened in time.
            TooLongError: The reply is longer than allowed.
            TransportError: The exchange failed in another way below HTTP, or the request is not
                valid HTTP.
        """
        async with self._lent_session() as session:
            await self._budget.room()
            request = await compose()
            with ExitStack() as in_hand:
                in_hand.enter_context(self._budget.holding(len(request.body)))
                await _events_so_far()
                exchange = self._request(session, request, in_hand.close)
                del request
                try:
                    async with exchange as reply:
                        headers = {name.lower(): value for name, value in reply.headers.items()}
                        _check_transfer_encoding(headers)
                        content = await self._read(reply, watch)
                        return HttpReply(reply.status, headers, content)
                except aiohttp.ConnectionTimeoutError:
                    raise ConnectTimeoutError(
                        f"no connection within {CONNECT_TIMEOUT:g} s"
                    ) from None
                except (aiohttp.ClientError, OSError, UnicodeError) as error:
                    raise TransportError(_explained(error)) from None

    async def close(self) -> None:
        """Close the connections. Those in use are closed when their requests have ended.

        A request that is sent later opens new connections.
        """
        session, self._session = self._session, None
        if session and not session.users:
            await session.close()

    # --- one exchange ---------------------------------------------------------------------------------------------

    def _request(self, session: _Session, request: HttpRequest, written: Callable[[], None]) -> Any:
        """Return an asynchronous context manager that sends a request and yields the reply.

        Raises TransportError if the path or a header contains characters that a server would
        misread, such as a line break.
        """
        base = self._root if request.from_root else self._base
        _check_request(request, base.removeprefix(self._root))
        return session.aiohttp.request(
            request.method,
            URL(base + request.path, encoded=True),
            data=_Body(request.body, written),
            # Not the session's: those are sent to a proxy, too, when it is to open a tunnel.
            headers={**self._headers, **request.headers},
            allow_redirects=False,
            proxy=self._proxy.url if self._proxy else None,
            proxy_headers=self._proxy.headers if self._proxy else None,
        )

    async def _read(
        self, reply: aiohttp.ClientResponse, watch: Callable[[bytes], None] | None
    ) -> bytes:
        """Return the body of a reply, and call `watch` with each part of it. Raises TooLongError."""
        content = bytearray()
        while not reply.content.at_eof():
            part, _ = await reply.content.readchunk()
            content.extend(part)
            if watch:
                watch(part)
            if len(content) > self._most_bytes:
                reply.close()
                raise TooLongError
        return bytes(content)

    # --- the session ----------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def _lent_session(self) -> AsyncIterator[_Session]:
        """Yield the session of the running event loop, and count it as in use inside the block.

        If `close` is called during the block, the session is closed when its last request has
        ended.
        """
        session = self._session
        if session is None or session.loop is not asyncio.get_running_loop():
            session = self._session = _Session(self._new_session())
            await session.begin()
        session.users += 1
        try:
            yield session
        finally:
            session.users -= 1
            if session is not self._session and not session.users:
                await session.close()

    def _new_session(self) -> aiohttp.ClientSession:
        """Return a session for HTTP requests that stores no cookies, decompresses nothing and adds no headers."""
        connecting = aiohttp.TraceConfig()
        connecting.on_connection_create_start.append(self._say_when_slow)
        connecting.on_connection_create_end.append(self._connected)
        connecting.on_request_exception.append(self._not_connected)
        connector = aiohttp.TCPConnector(
            limit=0,
            ssl=self._tls,
            resolver=aiohttp.ThreadedResolver(),
            keepalive_timeout=KEEP_ALIVE,
            happy_eyeballs_delay=SECOND_ADDRESS,
            socket_factory=_probed_socket,
        )
        return aiohttp.ClientSession(
            connector=connector,
            skip_auto_headers=_OWN_HEADERS,
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            timeout=aiohttp.ClientTimeout(connect=CONNECT_TIMEOUT),
            max_line_size=MOST_HEAD_BYTES,
            max_field_size=MOST_HEAD_BYTES,
            trace_configs=[connecting],
        )

    async def _say_when_slow(self, *_: object) -> None:
        """When the first connection is being opened, start a timer that tells the user if it takes long."""
        if not self._was_connected and self._slow_timer is None:
            loop = asyncio.get_running_loop()
            self._slow_timer = loop.call_later(SLOW_TO_CONNECT, self._say_slow)

    async def _connected(self, *_: object) -> None:
        self._was_connected = True
        self.is_reached = True
        self._cancel_slow_timer()

    async def _not_connected(self, *_: object) -> None:
        """Stop the timer for slow connections: a connection that was refused is not slow."""
        self._cancel_slow_timer()

    def _cancel_slow_timer(self) -> None:
        if self._slow_timer is not None:
            self._slow_timer.cancel()
            self._slow_timer = None

    def _say_slow(self) -> None:
        if not self._was_connected:
            self._was_connected = True
            user_callbacks().say(
                f"{self._url}: no connection after {SLOW_TO_CONNECT:g} s; waiting for up to {CONNECT_TIMEOUT:g} s"
            )


async def _events_so_far() -> None:
    """Let the event loop handle the events that have already occurred.

    For example, it then learns that the server has closed an idle connection, so that this
    connection is not used.
    """
    for _ in range(4):
        await asyncio.sleep(0)


def _probed_socket(address: tuple[Any, ...]) -> socket.socket:
    """Return a socket on which the system regularly checks whether the other end still exists (TCP keepalive)."""
    family, kind, protocol, *_ = address
    opened = socket.socket(family, kind, protocol)
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in PROBES.items():
        if hasattr(socket, name):
            opened.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
    return opened


def _tls_context() -> ssl.SSLContext:
    """Return a TLS context with the authorities of SSL_CERT_FILE and SSL_CERT_DIR, or of the system and of certifi."""
    context = ssl.create_default_context()
    names_authorities = os.environ.get("SSL_CERT_FILE") or os.environ.get("SSL_CERT_DIR")
    if not names_authorities:
        context.load_verify_locations(certifi.where())
    context.set_alpn_protocols(["http/1.1"])
    return context


# --- checks and words -------------------------------------------------------------------------------------------------


def check_url(name: str, url: str) -> None:
    """Raise ModelError if the host or the port of a URL is invalid. The message begins with the name of the model."""
    try:
        target = urlsplit(url)
        port = target.port
    except ValueError as error:
        raise ModelError(
            f"{name}: {url} is not a valid address ({error}); write http://HOST:PORT/v1"
        ) from None
    host = target.hostname or ""
    if not host or port == 0 or not host.isprintable() or set(host) & set(' \\"<>^`{|}'):
        raise ModelError(
            f"{name}: {url} is not a valid address ({host!r}); write http://HOST:PORT/v1"
        )


def _check_host(url: str, host: str) -> None:
    """Raise ModelError if a host contains letters that a domain name cannot have."""
    try:
        host.encode("idna")
    except UnicodeError as error:
        if not host.isascii():
            raise ModelError(
                f"{url} is not a valid address ({error}); write http://HOST:PORT/v1"
            ) from None


def _check_request(request: HttpRequest, base_path: str) -> None:
    """Raise TransportError if the path or a header of a request is not valid HTTP, so that a server would misread it."""
    path = base_path + request.path
    if not _PATH.fullmatch(path):
        raise TransportError(f"the address {path!r} contains characters that HTTP does not allow")
    for name, value in request.headers.items():
        if _LINE_BREAK.search(f"{name}{value}"):
            raise TransportError(f"the header {name!r} contains a line break")


def _check_transfer_encoding(headers: Mapping[str, str]) -> None:
    encoding = headers.get("transfer-encoding", "chunked").lower()
    if encoding != "chunked":
        raise TransportError(
            f"the reply has the transfer encoding {encoding!r}, which was not requested"
        )


def _explained(error: Exception) -> str:
    """Return in one line why an exchange failed, for example "the proxy cache:3128 returned 502"."""
    if isinstance(error, aiohttp.ClientHttpProxyError):
        proxy = error.request_info.real_url
        return f"the proxy {proxy.host}:{proxy.port} returned {error.status}"
    if isinstance(error, aiohttp.ServerDisconnectedError | aiohttp.ClientPayloadError):
        return "the server closed the connection before the end of its reply"
    if isinstance(error, aiohttp.ClientResponseError):
        message = " ".join(error.message.split())
        return f"the reply is not valid HTTP ({message[:200]})"
    cause: Exception = error
    if isinstance(error, aiohttp.ClientConnectorError):
        cause = error.os_error
    return getattr(cause, "strerror", None) or str(cause) or type(cause).__name__
