"""One HTTP/1.1 connection: a request is written, and its reply read as it comes by llhttp, the parser of Node.js.

A protocol of asyncio with what asking models needs and nothing else: one request at a time. General clients cost 0.1
(aiohttp) to 0.6 ms (httpx) of CPU a request more, and the former 0.2 s to load (bench/api.py).
"""

from __future__ import annotations

import asyncio
import re
import select
import socket
import ssl
from collections import deque
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import NamedTuple, cast

import httptools

MOST_HEAD_BYTES = 1 << 16
"""The longest status line with headers."""
READ_AHEAD = 1 << 18
"""Bytes of a reply that may wait to be read before no more are received."""
WRITTEN_AT_ONCE = 1 << 18
"""Bytes given to the transport at once, which copies what the system does not take."""
NO_BODY = (HTTPStatus.NO_CONTENT, HTTPStatus.NOT_MODIFIED)
_TARGET = re.compile(rb"[!-~]+")
_BREAKS = re.compile(rb"[\r\n\0]")


class TransportError(Exception):
    """The exchange failed below HTTP: no connection, one that broke off, or a reply that is not HTTP."""


class ReplyHead(NamedTuple):
    """What comes before the body of a reply."""

    status: int
    headers: dict[str, str]
    """Names in lower case; of several with one name the last."""
    keeps_open: bool
    """Whether the server expects another request on this connection."""


def request_head(method: str, target: bytes, headers: bytes, size: int) -> bytes:
    """The head of a request with a body of `size` bytes; `headers` are those of `header_lines`.

    Raises TransportError for a target that would be read as something else.
    """
    if not _TARGET.fullmatch(target):
        raise TransportError(
            f"the address {target.decode('utf-8', 'replace')!r} has letters that HTTP does not allow"
        )
    return b"%b %b HTTP/1.1\r\n%bcontent-length: %d\r\n\r\n" % (
        method.encode(),
        target,
        headers,
        size,
    )


def header_lines(headers: Mapping[str, str]) -> bytes:
    """Headers as they are sent. Raises TransportError for one that would be read as several."""
    lines = [f"{name}: {value}".encode() for name, value in headers.items()]
    for name, line in zip(headers, lines, strict=True):
        if _BREAKS.search(line):
            raise TransportError(f"the header {name!r} has a line break in it")
    return b"".join(line + b"\r\n" for line in lines)


class HttpConnection(asyncio.Protocol):
    """The client's end. For each request `write`, `read_head` and `read_body`; llhttp reads the replies."""

    _transport: asyncio.Transport
    _parser: httptools.HttpResponseParser

    def __init__(self) -> None:
        self._came: asyncio.Future[None] | None = None
        self._room: asyncio.Future[None] | None = None
        self._lost: Exception | None = None
        self._fault: TransportError | None = None
        self._ended = self._full = self._paused = self._stray = False
        self._begin()
        self._whole = True  # nothing was asked yet

    def _begin(self) -> None:
        """Wait for a reply."""
        self._parser = httptools.HttpResponseParser(self)
        self._headers: dict[str, str] = {}
        self._head: ReplyHead | None = None
        self._parts: deque[bytes] = deque()
        self._waiting = self._head_bytes = 0
        self._whole = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    @property
    def socket(self) -> socket.socket:
        """As far as asyncio lends it."""
        lent: socket.socket = self._transport.get_extra_info("socket")
        return lent

    async def start_tls(self, context: ssl.SSLContext, host: str) -> None:
        """Go on over TLS with `host`, to which a proxy has opened a way. Raises OSError."""
        loop = asyncio.get_running_loop()
        transport = await loop.start_tls(self._transport, self, context, server_hostname=host)
        if transport is None:  # the connection was lost meanwhile
            raise self._broken_off()
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        if self._whole:
            self._stray = True
        elif self._fault is None:
            try:
                self._parser.feed_data(data)
            except httptools.HttpParserUpgrade:
                # What a proxy sends behind its answer to CONNECT is the server's: nothing, before it was asked.
                pass
            except httptools.HttpParserError as error:
                self._fault = TransportError(
                    f"the reply is not valid HTTP ({error}): {data[:60]!r}"
                )
            self._head_bytes += 0 if self._head else len(data)
            if self._head_bytes > MOST_HEAD_BYTES:
                self._fault = TransportError(
                    f"the reply has no end of its headers within {MOST_HEAD_BYTES:,} bytes"
                )
        if self._waiting > READ_AHEAD and not self._paused:
            self._paused = True
            self._transport.pause_reading()
        self._wake()

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers[name.decode("latin-1").lower()] = value.decode("latin-1").strip()

    def on_headers_complete(self) -> None:
        status, headers = self._parser.get_status_code(), self._headers
        if status < HTTPStatus.OK:  # an interim reply, before the one that counts
            self._headers = {}
            return
        coding = headers.get("transfer-encoding", "chunked").lower()
        if coding != "chunked":
            self._fault = TransportError(
                f"the reply has the transfer encoding {coding!r}, which was not asked for"
            )
        bounded = "content-length" in headers or "transfer-encoding" in headers or status in NO_BODY
        self._head = ReplyHead(status, headers, bounded and self._parser.should_keep_alive())

    def on_body(self, body: bytes) -> None:
        self._parts.append(body)
        self._waiting += len(body)

    def on_message_complete(self) -> None:
        self._whole = self._head is not None

    def eof_received(self) -> bool:
        self._ended = True
        self._wake()
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self._ended, self._lost = True, exc
        self._wake()
        self.resume_writing()

    def pause_writing(self) -> None:
        self._full = True

    def resume_writing(self) -> None:
        self._full = False
        if self._room and not self._room.done():
            self._room.set_result(None)

    def _wake(self) -> None:
        if self._came and not self._came.done():
            self._came.set_result(None)

    def is_usable(self) -> bool:
        """Whether it can take a request: it is open, and nothing came on it since the last reply."""
        if (
            self._ended
            or self._stray
            or self._fault
            or not self._whole
            or self._transport.is_closing()
        ):
            return False
        readable = (
            select.poll()
        )  # what the event loop has not seen yet: that the server has closed it
        readable.register(self.socket.fileno(), select.POLLIN)
        return not readable.poll(0)

    def close(self) -> None:
        """Close it at once, whatever is under way."""
        self._transport.abort()

    async def write(self, head: bytes, body: bytes) -> None:
        """Write a request, part by part as the server takes it.

        One that the server stops reading is left there: it may have replied before the end.
        """
        self._begin()
        if len(body) <= WRITTEN_AT_ONCE:
            self._transport.write(head + body)
        else:
            self._transport.write(head)
            view = memoryview(body)
            for start in range(0, len(body), WRITTEN_AT_ONCE):
                await self._drain()
                if self._ended:
                    return
                self._transport.write(view[start : start + WRITTEN_AT_ONCE])
        await self._drain()

    async def _drain(self) -> None:
        if self._full and not self._ended:
            self._room = asyncio.get_running_loop().create_future()
            await self._room

    async def read_head(self) -> ReplyHead:
        """The status and headers of the reply. Raises TransportError."""
        while self._head is None:
            await self._more()
        return self._head

    async def read_body(self, head: ReplyHead, take: Callable[[bytes], None]) -> None:
        """Give `take` the body as it comes. Raises TransportError for one that breaks off, and what `take` raises."""
        unbounded = "content-length" not in head.headers and "transfer-encoding" not in head.headers
        while True:
            while self._parts:
                part = self._parts.popleft()
                self._waiting -= len(part)
                take(part)
            if self._whole or (unbounded and self._ended and not self._lost):
                return
            await self._more()

    async def _more(self) -> None:
        """Wait for more of the reply. Raises TransportError where there will be none."""
        if self._fault:
            raise self._fault
        if self._ended:
            raise self._broken_off()
        if self._paused:
            self._paused = False
            self._transport.resume_reading()
        self._came = asyncio.get_running_loop().create_future()
        await self._came

    def _broken_off(self) -> TransportError:
        reason = f" ({explained(self._lost)})" if self._lost else ""
        return TransportError(
            f"the server closed the connection before the end of its reply{reason}"
        )


def explained(error: BaseException) -> str:
    """What an error of the system says, without its number."""
    return getattr(error, "strerror", None) or str(error) or type(error).__name__
