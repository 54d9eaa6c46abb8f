"""Keep-alive HTTP/1.1 connections to one server, with little overhead per request.

Limits the number of requests in flight, lowered while the server reports a rate limit, and the bytes in hand.
"""

from __future__ import annotations

import asyncio
import ipaddress
import os
import socket
import ssl
import time
from base64 import b64encode
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from urllib.parse import unquote, urlsplit
from urllib.request import getproxies, proxy_bypass

import certifi
from aiohappyeyeballs import start_connection
from msgspec import Struct

from snellen.errors import ModelError
from snellen.fetching.attendance import attendance
from snellen.models.http_connection import (
    HttpConnection,
    ReplyHead,
    TransportError,
    explained,
    header_lines,
    request_head,
)

REFUSED, ANSWERED = 17, -3
"""What a rate limit and an answer add to the evidence against the limit: nothing in the mean where 15% are refused. A
server that turns away a few, however many are in flight, would otherwise be asked ever more slowly for nothing."""
ENOUGH = 160
"""Evidence that lowers the limit: of ten refusals in a row, or of as many as there are slots where that is less. Where
10% are refused whatever the load, chance alone collects it about once in 35,000 outcomes."""
MOST_IN_HAND = 64 << 20
"""Bytes of requests that are on their way to a model's servers at once."""


class AdaptiveLimit:
    """A number of slots, lowered in proportion to the share of rate-limited requests, raised by one where it is small.

    Whether the share is too large for chance is told by a cumulative sum (Page 1954), which waits longer where less is
    refused. Additive increase, by one for as many outcomes as there are slots, and multiplicative decrease (Chiu and
    Jain 1989), by half the share that was limited, as DCTCP does it (Alizadeh et al. 2010), and no clock. Requests that
    acquired their slot before the last decrease do not count, since they reflect the load before it.
    """

    def __init__(self, maximum: int) -> None:
        self.maximum = maximum
        self.allowed = maximum
        self.in_use = 0
        self._evidence = self._successes = self._limited = self._peak = 0
        self._calm = self._decreases = 0
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def acquire(self) -> int:
        """Wait for a slot, first come first served; pass the returned number to `succeeded` or `slow_down`."""
        if self.in_use < self.allowed and not self._waiting:
            self.in_use += 1
            return self._decreases
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            await turn  # whoever wakes us has already counted our slot
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.release()
            raise
        return self._decreases

    def release(self) -> None:
        """Give a slot back."""
        self.in_use -= 1
        self._wake()

    def succeeded(self, acquired: int) -> None:
        """A request, whose `acquire` returned `acquired`, was answered."""
        if acquired == self._decreases:
            self._successes += 1
            self._learn(ANSWERED)

    def slow_down(self, acquired: int) -> None:
        """A request, whose `acquire` returned `acquired`, was rate limited."""
        if acquired == self._decreases:
            self._limited += 1
            self._learn(REFUSED)

    def _learn(self, evidence: int) -> None:
        self._evidence = max(0, self._evidence + evidence)
        self._peak = max(self._peak, self.in_use)
        self._calm += 1
        enough = min(ENOUGH, REFUSED * self.allowed)
        if self._evidence >= enough:
            share = self._limited / (self._limited + self._successes)
            self._decreases += 1
            # Of what was actually in flight: lowering an unused allowance would change nothing.
            self.allowed = max(1, int(min(self.allowed, self._peak) * (1 - share / 2)))
            self._evidence = self._calm = self._peak = 0
        elif self._calm >= self.allowed and self._evidence * 2 < enough:
            self._calm = self._peak = 0
            if self.allowed < self.maximum:
                self.allowed += 1
                self._wake()
        if not self._evidence:
            self._successes = self._limited = 0

    def _wake(self) -> None:
        while self._waiting and self.in_use < self.allowed:
            turn = self._waiting.popleft()
            if not turn.done():
                self.in_use += 1
                turn.set_result(None)


class BytesInHand:
    """A budget for the bytes of requests that are made and not yet sent: what is over it waits.

    Large pictures would otherwise be in memory as often as requests are in flight. The last to find room may exceed the
    budget, so a request larger than all of it is sent as well.
    """

    def __init__(self, most: int = MOST_IN_HAND) -> None:
        self.most = most
        self.held = 0
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def room(self) -> None:
        """Wait until less than the budget is held. Whoever then holds something must do so in the same turn."""
        while self.held >= self.most:
            turn = asyncio.get_running_loop().create_future()
            self._waiting.append(turn)
            await turn

    @contextmanager
    def holding(self, size: int) -> Iterator[None]:
        """Hold so many bytes during the block."""
        self.held += size
        try:
            yield
        finally:
            self.held -= size
            if self.held < self.most:
                waiting, self._waiting = self._waiting, deque()
                for turn in waiting:
                    if not turn.done():
                        turn.set_result(None)


CONNECT_TIMEOUT = 15.0
SLOW_TO_CONNECT = 2.5
"""Seconds without a connection to a server that never had one, after which that is said."""
LATE = 1.0
"""Seconds that closing waits for connections whose opening was cancelled."""
MOST_BYTES = 16 << 20
KEEP_ALIVE = 30.0
"""Seconds that an idle connection is kept. One that the server closed is detected when it is taken."""
SECOND_ADDRESS = 0.25
"""Seconds after which a host's next address is tried beside the first (Happy Eyeballs, RFC 8305)."""
PROBES = {"TCP_KEEPIDLE": 15, "TCP_KEEPALIVE": 15, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 3}
"""When a machine that says nothing is asked whether it is there: after 15 s, then every 5 s, three times. Its system
answers, however long the server takes for its reply. Linux and macOS have different names for the first."""
_KEEPALIVE = [
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    *(
        (socket.IPPROTO_TCP, getattr(socket, name), n)
        for name, n in PROBES.items()
        if hasattr(socket, name)
    ),
]


class TooLongError(Exception):
    """A reply is longer than allowed."""


class ConnectTimeoutError(TransportError):
    """A connection, or TLS on it, could not be opened in time."""


class HttpReply(Struct, frozen=True):
    """A whole reply as it came."""

    status: int
    headers: dict[str, str]
    """Names in lower case."""
    body: bytes


class HttpRequest(Struct, frozen=True):
    """A request to one of a model's servers."""

    method: str
    path: str
    """Appended to the base of the server's addresses."""
    body: bytes = b""
    headers: Mapping[str, str] = {}
    """The request's own headers, besides those of every request."""
    from_root: bool = False
    """Whether `path` begins at the root of the server, instead of behind the path of its address."""


Compose = Callable[[], Awaitable[HttpRequest]]
"""Composes a request once there is room for its bytes, again for each attempt; what it raises is raised by sending."""


class _Proxy(Struct, frozen=True):
    """A proxy between this machine and a server."""

    host: str
    port: int
    tls: bool
    headers: dict[str, str]


class Connections:
    """Connections to one server, in a stack of idle ones. The caller limits the number of concurrent requests."""

    def __init__(
        self,
        url: str,
        headers: dict[str, str],
        most_bytes: int = MOST_BYTES,
        in_hand: BytesInHand | None = None,
    ) -> None:
        """`url` is the base that paths are added to; a reply may have `most_bytes`; requests wait for room `in_hand`.

        Raises ModelError for a proxy that is not HTTP.
        """
        self._most_bytes, self._in_hand = most_bytes, in_hand or BytesInHand()
        address = urlsplit(url)
        self._secure = address.scheme == "https"
        self._host, self._port = (
            _ascii_host(url, address.hostname or ""),
            address.port or (443 if self._secure else 80),
        )
        host_name = f"[{self._host}]" if ":" in self._host else self._host
        address_name = (
            host_name
            if self._port == (443 if self._secure else 80)
            else f"{host_name}:{self._port}"
        )
        self._proxy = _proxy_for(url)
        # A proxy is asked for whole addresses, unless it is to open a way to the server, which TLS then goes through.
        forwarding = self._proxy is not None and not self._secure
        self._root = f"http://{address_name}" if forwarding else ""
        self._base = self._root + address.path.rstrip("/")
        proxy_headers = self._proxy.headers if self._proxy and forwarding else {}
        self._headers = header_lines({"host": address_name, **headers, **proxy_headers})
        self._tls = _tls_context() if self._secure or (self._proxy and self._proxy.tls) else None
        self._idle: list[tuple[HttpConnection, float]] = []
        self._late: set[asyncio.Task[HttpConnection]] = set()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closings = 0
        self._url, self._is_first = url, True

    async def send(
        self, compose: Compose, watch: Callable[[bytes], None] | None = None
    ) -> HttpReply:
        """Send one request and read the whole reply.

        `watch` is given each part of its body as it comes. Raises TransportError, and TooLongError when a reply is
        longer than allowed. Only connecting has its own time limit.
        """
        closings = self._closings
        connection = await self._take()
        try:
            await self._write(connection, compose)
            head = await connection.read_head()
            content = await self._read(connection, head, watch)
        except OSError as error:
            connection.close()
            raise TransportError(explained(error)) from None
        except BaseException:
            connection.close()
            raise
        if head.keeps_open and closings == self._closings:
            self._idle.append((connection, time.monotonic()))
        else:
            connection.close()
        return HttpReply(head.status, head.headers, content)

    async def _write(self, connection: HttpConnection, compose: Compose) -> None:
        """Write a request. Its bytes count as held from when it is composed until the server has taken them."""
        await self._in_hand.room()
        request = await compose()
        with self._in_hand.holding(len(request.body)):
            headers = self._headers + header_lines(request.headers)
            base = self._root if request.from_root else self._base
            target = f"{base}{request.path}".encode()
            await connection.write(
                request_head(request.method, target, headers, len(request.body)), request.body
            )

    async def _read(
        self, connection: HttpConnection, head: ReplyHead, watch: Callable[[bytes], None] | None
    ) -> bytes:
        content = bytearray()

        def take(part: bytes) -> None:
            content.extend(part)
            if watch:
                watch(part)
            if len(content) > self._most_bytes:
                raise TooLongError

        await connection.read_body(head, take)
        return bytes(content)

    async def close(self) -> None:
        """Close the idle connections, and those that were cancelled while opening; a later request opens new ones."""
        self._closings += 1  # what is under way is closed when it has come to its end
        idle = self._idle
        self._idle = []
        for connection, _ in idle:
            connection.close()
        await self._close_late()
        # A socket closes some loop iterations after the call, also after a request cancelled midway.
        for _ in range(4):
            await asyncio.sleep(0)

    async def _close_late(self) -> None:
        """Close connections without waiting for an unreachable server."""
        late, self._late = self._late, set()
        if not late:
            return
        opened, waiting = await asyncio.wait(late, timeout=LATE)
        for task in waiting:
            task.cancel()
        for task in opened:
            if not task.cancelled() and task.exception() is None:
                task.result().close()

    async def _take(self) -> HttpConnection:
        """An idle connection that is still open, or a new one."""
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            # Connections of an event loop that has ended can be neither used nor closed.
            self._idle = []
            self._late, self._loop = set(), loop
        while self._idle:
            connection, since = self._idle.pop()
            if connection.is_usable() and time.monotonic() - since < KEEP_ALIVE:
                return connection
            connection.close()
        # One that is cancelled in the loop iteration in which it opens would be lost, so it is let finish.
        opening = asyncio.create_task(self._open())
        try:
            return await asyncio.shield(opening)
        except asyncio.CancelledError:
            self._late.add(opening)
            raise

    async def _open(self) -> HttpConnection:
        """A new connection. Raises TransportError."""
        telling = asyncio.get_running_loop().call_later(SLOW_TO_CONNECT, self._say_slow)
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT):
                connection = await (
                    self._open_tunnel(self._proxy) if self._proxy else self._connect()
                )
                self._is_first = False
                return connection
        except TimeoutError:
            raise ConnectTimeoutError(f"no connection within {CONNECT_TIMEOUT:g} s") from None
        except (OSError, UnicodeError) as error:
            raise TransportError(explained(error)) from None
        finally:
            telling.cancel()

    def _say_slow(self) -> None:
        if self._is_first:
            attendance().say(
                f"{self._url}: no connection after {SLOW_TO_CONNECT:g} s; waiting for up to {CONNECT_TIMEOUT:g} s"
            )
        self._is_first = False

    async def _connect(self) -> HttpConnection:
        return await _connected(self._host, self._port, self._tls)

    async def _open_tunnel(self, proxy: _Proxy) -> HttpConnection:
        """A connection to a proxy, and for TLS through it to the server (RFC 9110, 9.3.6)."""
        connection = await _connected(proxy.host, proxy.port, self._tls if proxy.tls else None)
        if not self._secure or self._tls is None:
            return connection
        try:
            way = (
                f"[{self._host}]:{self._port}"
                if ":" in self._host
                else f"{self._host}:{self._port}"
            )
            headers = header_lines({"host": way, **proxy.headers})
            await connection.write(b"CONNECT %b HTTP/1.1\r\n%b\r\n" % (way.encode(), headers), b"")
            head = await connection.read_head()
            if not 200 <= head.status < 300:
                raise TransportError(f"the proxy {proxy.host}:{proxy.port} answers {head.status}")
            await connection.start_tls(self._tls, self._host)
        except BaseException:
            connection.close()
            raise
        return connection


async def _connected(host: str, port: int, tls: ssl.SSLContext | None) -> HttpConnection:
    loop = asyncio.get_running_loop()
    addresses = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    # `create_connection` would race the addresses itself, but not under uvloop, which the server runs on.
    connected = await start_connection(addresses, happy_eyeballs_delay=SECOND_ADDRESS, loop=loop)
    try:
        for option in _KEEPALIVE:
            connected.setsockopt(*option)
    except OSError:  # it was lost meanwhile
        connected.close()
        raise
    _, connection = await loop.create_connection(
        HttpConnection, sock=connected, ssl=tls, server_hostname=host if tls else None
    )
    return connection


def check_url(name: str, url: str) -> None:
    """Raise ModelError, naming the model, for a URL whose host or port cannot be one."""
    try:
        target = urlsplit(url)
        port = target.port
    except ValueError as error:
        raise ModelError(
            f"{name}: {url} has no usable address ({error}); write http://HOST:PORT/v1"
        ) from None
    host = target.hostname or ""
    if not host or port == 0 or not host.isprintable() or set(host) & set(' \\"<>^`{|}'):
        raise ModelError(
            f"{name}: {url} has no usable address ({host!r}); write http://HOST:PORT/v1"
        )


def _ascii_host(url: str, host: str) -> str:
    """The host as it is looked up and sent."""
    if host.isascii():
        return host
    try:
        return host.encode("idna").decode()
    except UnicodeError as error:
        raise ModelError(
            f"{url} has no usable address ({error}); write http://HOST:PORT/v1"
        ) from None


def _proxy_for(url: str) -> _Proxy | None:
    """The proxy that the environment names for `url`, if any. Raises ModelError for one that is not HTTP."""
    target = urlsplit(url)
    proxy = getproxies().get(target.scheme) or getproxies().get("all")
    host = target.hostname or ""
    if not proxy or _is_loopback(host) or proxy_bypass(host):
        return None
    address = urlsplit(proxy if "://" in proxy else f"http://{proxy}")
    if address.scheme not in ("http", "https"):
        raise ModelError(
            f"{url}: the environment names the proxy {address.scheme}://{address.hostname}, but only http proxies "
            f"are supported; set NO_PROXY={host} to connect directly"
        )
    headers: dict[str, str] = {}
    if address.username:
        secret = f"{unquote(address.username)}:{unquote(address.password or '')}"
        headers = {"proxy-authorization": f"Basic {b64encode(secret.encode()).decode()}"}
    tls = address.scheme == "https"
    return _Proxy(address.hostname or "", address.port or (443 if tls else 80), tls, headers)


def _tls_context() -> ssl.SSLContext:
    """A TLS context with the authorities that SSL_CERT_FILE and SSL_CERT_DIR name, or with the system's and those of
    certifi."""
    context = ssl.create_default_context()
    if not (os.environ.get("SSL_CERT_FILE") or os.environ.get("SSL_CERT_DIR")):
        context.load_verify_locations(certifi.where())
    context.set_alpn_protocols(["http/1.1"])
    return context


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _is_loopback(host: str) -> bool:
    return host == "localhost" or (_is_address(host) and ipaddress.ip_address(host).is_loopback)
