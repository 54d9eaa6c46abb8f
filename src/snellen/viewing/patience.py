"""The end of the patience of a server: HTTP of uvicorn with limits on time, headers and connections of one address.

Uvicorn waits for ever for the rest of a request and, with httptools, collects headers without end.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

HEAD_SECONDS = 15.0
"""From the first byte of a request, or from connecting, to the end of its headers."""
BODY_SECONDS = 30.0
"""For a body, and a second more for every `MIN_BODY_BYTES_PER_SECOND` bytes that came."""
MIN_BODY_BYTES_PER_SECOND = 8 * 1024
MAX_HEAD_BYTES = 64 * 1024
MAX_FRAMING_BYTES = 1024 * 1024
"""Sizes of chunks and trailers of one body at most, which are no part of it."""
MAX_CONNECTIONS_PER_ADDRESS = 256

Exempt = Callable[[str], bool]


class PatientProtocol(HttpToolsProtocol):
    """An HTTP connection with limits on what a client sends, and on how long that takes.

    The time that the server needs for a response is not limited.
    """

    def __init__(
        self, *args: Any, open_connections: Counter[str], is_exempt: Exempt, **keywords: Any
    ) -> None:
        """Prepare a connection.

        Args:
            args: Arguments of uvicorn.
            open_connections: The number of open connections by client address, shared by all connections.
            is_exempt: Function that says whether an address may have any number of connections.
            keywords: Arguments of uvicorn.
        """
        super().__init__(*args, **keywords)
        self._open_connections = open_connections
        self._is_exempt = is_exempt
        self._address = ""
        self._awaited = ""
        """What the client has to send now: `head`, `body`, or nothing."""
        self._framing = 0
        """Bytes of the request received so far, without the bytes of its body."""
        self._body = 0
        self._timer: asyncio.TimerHandle | None = None

    # --- connections ---------------------------------------------------------------------------------------------

    def connection_made(self, transport: Any) -> None:
        """Accept a new connection, or close it at once if its address has too many connections."""
        super().connection_made(transport)
        self._address = self.client[0] if self.client else ""
        self._open_connections[self._address] += 1
        is_crowded = self._open_connections[self._address] > MAX_CONNECTIONS_PER_ADDRESS
        if is_crowded and not self._is_exempt(self._address):
            self.transport.abort()
            return
        self._wait_for("head", HEAD_SECONDS)

    def connection_lost(self, exc: Exception | None) -> None:
        """Handle a closed connection: stop its timer, and count one connection less from its address."""
        self._wait_for("", 0)
        self._open_connections[self._address] -= 1
        if not self._open_connections[self._address]:
            del self._open_connections[self._address]
        super().connection_lost(exc)

    # --- time ----------------------------------------------------------------------------------------------------

    def _wait_for(self, awaited: str, seconds: float) -> None:
        """Start a timer for what the client has to send: `head`, `body`, or nothing."""
        self._awaited = awaited
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if awaited:
            self._timer = self.loop.call_later(seconds, self._too_late)

    def _too_late(self) -> None:
        """End a connection with status 408 when its timer runs out, unless the server itself causes the delay."""
        is_replying = self.cycle is not None and not self.cycle.response_complete
        if self._awaited == "head" and is_replying:
            # A reply to an earlier request is not cut off, and what comes after it waits.
            self._wait_for("head", HEAD_SECONDS)
            return
        if self._awaited == "body" and self.flow.read_paused:
            # The server itself reads no more at the moment.
            self._wait_for("body", BODY_SECONDS)
            return
        self._end(408, b"Request Timeout")

    # --- what comes ----------------------------------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        """Receive bytes from a client. The connection is closed if the head of the request, or its framing, is too long."""
        self._framing += len(data)
        super().data_received(data)
        if self.transport.is_closing():
            return
        is_idle = self.cycle is None or self.cycle.response_complete
        if not self._awaited and is_idle and self.timeout_keep_alive_task is None:
            # Blank lines between requests begin none, and have ended the time that an idle connection has.
            self._wait_for("head", HEAD_SECONDS)
        if self._awaited == "head" and self._framing > MAX_HEAD_BYTES:
            self._end(431, b"Request Header Fields Too Large")
        elif self._awaited == "body" and self._framing > MAX_FRAMING_BYTES:
            self._end(413, b"Content Too Large")

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._framing = self._body = 0
        self._wait_for("head", HEAD_SECONDS)

    def on_headers_complete(self) -> None:
        """Start the timer of the body."""
        super().on_headers_complete()
        self._framing = 0
        self._begun = self.loop.time()
        self._wait_for("body", BODY_SECONDS)

    def on_body(self, body: bytes) -> None:
        """Receive a part of a request's body, and set the time limit anew.

        The whole body may take `BODY_SECONDS`, plus time in proportion to the bytes that have arrived, so that a
        large upload is not cut off.
        """
        self._framing -= len(body)
        self._body += len(body)
        allowed_seconds = BODY_SECONDS + self._body / MIN_BODY_BYTES_PER_SECOND
        deadline = self._begun + allowed_seconds
        self._wait_for("body", max(deadline - self.loop.time(), 0))
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._wait_for("", 0)
        self._framing = 0
        super().on_message_complete()

    def _end(self, status: int, phrase: bytes) -> None:
        """Close the connection at once, with an error response if none was started yet.

        Args:
            status: The HTTP status.
            phrase: Its text.
        """
        self._wait_for("", 0)
        is_silent = self.cycle is None or not self.cycle.response_started
        if is_silent or self.cycle.response_complete:
            head = b"HTTP/1.1 %d %b\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
            self.transport.write(head % (status, phrase))
        self.transport.close()


def http_protocol(is_exempt: Exempt = lambda address: False) -> Callable[..., PatientProtocol]:
    """Return a value for `http` of `uvicorn.Config`. An exempt address may have any number of connections, as a proxy has.

    Examples:
        >>> settings = {"http": http_protocol()}  # uvicorn.Config(application, **settings)
    """
    return partial(PatientProtocol, open_connections=Counter(), is_exempt=is_exempt)
