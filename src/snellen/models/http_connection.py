"""One HTTP/1.1 connection: a request is written, and its reply read as it comes (RFC 9112).

A protocol of asyncio with what asking models needs and nothing else: one request at a time, replies of known length, in
chunks, or up to the end of the connection. General clients cost 0.6 ms of CPU a request more (bench/api.py).
"""

from __future__ import annotations

import asyncio
import re
import select
import socket
import ssl
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import NamedTuple, cast

MOST_HEAD_BYTES = 1 << 16
"""The longest status line with headers, and the longest line before a chunk."""
READ_AHEAD = 1 << 18
"""Bytes of a reply that may wait to be read before no more are received."""
WRITTEN_AT_ONCE = 1 << 18
"""Bytes given to the transport at once, which copies what the system does not take."""
NO_BODY = (HTTPStatus.NO_CONTENT, HTTPStatus.NOT_MODIFIED)
_STATUS_LINE = re.compile(r"HTTP/(\d\.\d) (\d{3})(?: .*)?")
_END_OF_HEAD = re.compile(rb"\r?\n\r?\n")
_END_OF_LINE = re.compile(rb"\r?\n")
_CHUNK_SIZE = re.compile(rb"([0-9A-Fa-f]{1,15})[ \t]*(?:;.*)?")
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
        raise TransportError(f"the address {target.decode('utf-8', 'replace')!r} has letters that HTTP does not allow")
    return b"%b %b HTTP/1.1\r\n%bcontent-length: %d\r\n\r\n" % (method.encode(), target, headers, size)


def header_lines(headers: Mapping[str, str]) -> bytes:
    """Headers as they are sent. Raises TransportError for one that would be read as several."""
    lines = [f"{name}: {value}".encode() for name, value in headers.items()]
    for name, line in zip(headers, lines, strict=True):
        if _BREAKS.search(line):
            raise TransportError(f"the header {name!r} has a line break in it")
    return b"".join(line + b"\r\n" for line in lines)


class HttpConnection(asyncio.Protocol):
    """The client's end. For each, `write`, `read_head` and `read_body`."""

    _transport: asyncio.Transport

    def __init__(self) -> None:
        self._received = bytearray()
        self._came: asyncio.Future[None] | None = None
        self._room: asyncio.Future[None] | None = None
        self._lost: Exception | None = None
        self._ended = self._full = self._paused = False

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
        self._received += data
        if len(self._received) > READ_AHEAD and not self._paused:
            self._paused = True
            self._transport.pause_reading()
        self._wake()

    def eof_received(self) -> bool:
        self._ended = True
        self._wake()
        return False

    def connection_lost(self, error: Exception | None) -> None:
        self._ended, self._lost = True, error
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
        if self._ended or self._received or self._transport.is_closing():
            return False
        readable = select.poll()  # what the event loop has not seen yet: that the server has closed it
        readable.register(self.socket.fileno(), select.POLLIN)
        return not readable.poll(0)

    def close(self) -> None:
        """Close it at once, whatever is under way."""
        self._transport.abort()

    async def write(self, head: bytes, body: bytes) -> None:
        """Write a request, part by part as the server takes it.

        One that the server stops reading is left there: it may have replied before the end.
        """
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
        while True:
            head = _parse_head(await self._until(_END_OF_HEAD))
            if head.status >= HTTPStatus.OK:
                return head

    async def read_body(self, head: ReplyHead, take: Callable[[bytes], None]) -> None:
        """Give `take` the body as it comes. Raises TransportError for one that breaks off, and what `take` raises."""
        headers = head.headers
        coding = headers.get("transfer-encoding", "").lower()
        if head.status in NO_BODY:
            return
        if coding == "chunked":
            await self._read_chunks(take)
        elif coding:
            raise TransportError(f"the reply has the transfer encoding {coding!r}, which was not asked for")
        elif (length := headers.get("content-length")) is not None:
            if not (length.isascii() and length.isdecimal()):
                raise TransportError(f"the reply has the content-length {length!r}")
            await self._read_exactly(int(length), take)
        else:
            while part := await self._part():
                take(part)

    async def _read_chunks(self, take: Callable[[bytes], None]) -> None:
        while True:
            line = await self._until(_END_OF_LINE)
            if not (size := _CHUNK_SIZE.fullmatch(line)):
                raise TransportError(f"the reply has a chunk of size {line[:40]!r}")
            if not int(size[1], 16):
                break
            await self._read_exactly(int(size[1], 16), take)
            if await self._until(_END_OF_LINE):
                raise TransportError("a chunk of the reply is longer than it says")
        while await self._until(_END_OF_LINE):
            pass  # trailers

    async def _read_exactly(self, size: int, take: Callable[[bytes], None]) -> None:
        while size:
            part = await self._part(size)
            if not part:
                raise self._broken_off()
            size -= len(part)
            take(part)

    async def _part(self, most: int = READ_AHEAD) -> bytes:
        """What has come, at least a byte and at most so many; nothing at the end of the connection."""
        while not self._received:
            if self._ended:
                if self._lost:
                    raise self._broken_off()
                return b""
            await self._more()
        part = bytes(self._received[:most])
        del self._received[:most]
        return part

    async def _until(self, end: re.Pattern[bytes]) -> bytes:
        """What comes before `end`, which is passed over."""
        while not (found := end.search(self._received)):
            if self._ended:
                raise self._broken_off()
            if len(self._received) > MOST_HEAD_BYTES:
                raise TransportError(f"the reply has no end of its headers within {MOST_HEAD_BYTES:,} bytes")
            await self._more()
        before = bytes(self._received[: found.start()])
        del self._received[: found.end()]
        return before

    async def _more(self) -> None:
        if self._paused:
            self._paused = False
            self._transport.resume_reading()
        self._came = asyncio.get_running_loop().create_future()
        await self._came

    def _broken_off(self) -> TransportError:
        reason = f" ({explained(self._lost)})" if self._lost else ""
        return TransportError(f"the server closed the connection before the end of its reply{reason}")


def explained(error: BaseException) -> str:
    """What an error of the system says, without its number."""
    return getattr(error, "strerror", None) or str(error) or type(error).__name__


def _parse_head(raw: bytes) -> ReplyHead:
    first, *lines = raw.decode("latin-1").replace("\r\n", "\n").lstrip("\n").split("\n")
    if not (status := _STATUS_LINE.fullmatch(first)):
        raise TransportError(f"the reply is no HTTP: it begins with {first[:60]!r}")
    headers = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon or not name.strip() or name != name.strip():
            raise TransportError(f"the reply has a header {line[:60]!r}")
        headers[name.lower()] = value.strip()
    closing = "close" in (option.strip() for option in headers.get("connection", "").lower().split(","))
    number = int(status[2])
    bounded = "content-length" in headers or "transfer-encoding" in headers or number in NO_BODY
    return ReplyHead(number, headers, status[1] == "1.1" and not closing and bounded)
