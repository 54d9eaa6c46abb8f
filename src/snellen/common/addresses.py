"""Open addresses with a limit on the bytes and seconds from the first connection to the last byte."""

from __future__ import annotations

import http.client
import io
import os
import socket
import ssl
import urllib.error
import urllib.request
from functools import cache, partial
from typing import Any, BinaryIO

import certifi

from snellen.common.foreign import Allowance

MAX_SILENCE_SECONDS = 60.0
"""Seconds without a byte after which a connection counts as broken."""


def open_address(
    request: urllib.request.Request,
    allowance: Allowance,
    redirects: urllib.request.HTTPRedirectHandler | None = None,
    *,
    silence: float = MAX_SILENCE_SECONDS,
) -> Any:
    """Send a request over HTTP, and return the open reply. All bytes of the reply are counted, those of its head too.

    Args:
        request: The request, to an http: or https: address.
        allowance: Limits the bytes and seconds of the request and of all redirections.
        redirects: Decides which redirections are followed; by default all those to http: and https:.
        silence: Seconds without a byte after which the connection counts as broken.

    Raises:
        OSError: The server does not answer. LimitError: the allowance is used up, which may also be raised later, while
            the reply is read.
        http.client.HTTPException: The reply is not HTTP.
    """
    opener = urllib.request.OpenerDirector()
    for handler in (
        urllib.request.ProxyHandler(),
        urllib.request.UnknownHandler(),
        _HttpHandler(allowance, silence),
        _HttpsHandler(allowance, silence),
        urllib.request.HTTPDefaultErrorHandler(),
        redirects or urllib.request.HTTPRedirectHandler(),
        urllib.request.HTTPErrorProcessor(),
    ):
        opener.add_handler(handler)
    timeout = min(silence, allowance.remaining_seconds())
    return opener.open(request, timeout=timeout)


def ssl_context() -> ssl.SSLContext:
    """Return an SSL context that trusts the certificate authorities named by the environment, or those of certifi."""
    authorities = os.environ.get("SSL_CERT_FILE") or os.environ.get("REQUESTS_CA_BUNDLE")
    return _context_with(authorities or certifi.where())


@cache
def _context_with(authorities: str) -> ssl.SSLContext:
    """Return an SSL context that trusts the authorities in a file.

    It is cached, because reading a hundred certificates takes longer than most requests.
    """
    return ssl.create_default_context(cafile=authorities)


class _HttpHandler(urllib.request.HTTPHandler):
    def __init__(self, allowance: Allowance, silence: float) -> None:
        super().__init__()
        self._limits = (allowance, silence)

    def http_open(self, req: urllib.request.Request) -> Any:
        return self.do_open(partial(_Connection, *self._limits), req)


class _HttpsHandler(urllib.request.HTTPSHandler):
    def __init__(self, allowance: Allowance, silence: float) -> None:
        super().__init__(context=ssl_context())
        self._limits = (allowance, silence)

    def https_open(self, req: urllib.request.Request) -> Any:
        return self.do_open(partial(_SecureConnection, *self._limits), req, context=ssl_context())


class _Connection(http.client.HTTPConnection):
    def __init__(self, allowance: Allowance, silence: float, host: str, **settings: Any) -> None:
        super().__init__(host, **settings)
        self.response_class = partial(_Reply, allowance, silence)  # type: ignore[assignment]


class _SecureConnection(http.client.HTTPSConnection):
    def __init__(self, allowance: Allowance, silence: float, host: str, **settings: Any) -> None:
        super().__init__(host, **settings)
        self.response_class = partial(_Reply, allowance, silence)  # type: ignore[assignment]


class _Reply(http.client.HTTPResponse):
    def __init__(
        self,
        allowance: Allowance,
        silence: float,
        connected: socket.socket,
        *args: Any,
        **settings: Any,
    ) -> None:
        counted: Any = _CountedSocket(connected, allowance, silence)
        super().__init__(counted, *args, **settings)


class _CountedSocket:
    """A socket whose bytes are counted. It has only the method that `HTTPResponse` calls."""

    def __init__(self, connected: socket.socket, allowance: Allowance, silence: float) -> None:
        self._socket = connected
        self._allowance = allowance
        self._silence = silence

    def makefile(self, mode: str) -> BinaryIO:
        stream = _CountedStream(self._socket, self._allowance, self._silence)
        return io.BufferedReader(stream, 1 << 16)


class _CountedStream(io.RawIOBase):
    """The bytes that come over a socket. Waiting for them ends when the allowance is used up."""

    def __init__(self, connected: socket.socket, allowance: Allowance, silence: float) -> None:
        self._socket = connected
        self._allowance = allowance
        self._silence = silence
        self._stream: Any = connected.makefile("rb", buffering=0)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int:
        """Read bytes into a buffer, and count them in the allowance. Raises LimitError if it is used up."""
        self._socket.settimeout(min(self._silence, self._allowance.remaining_seconds()))
        try:
            count = int(self._stream.readinto(buffer) or 0)
        except TimeoutError:
            self._allowance.remaining_seconds()  # raises LimitError if the allowance is the reason
            raise
        self._allowance.spend(count)
        return count

    def close(self) -> None:
        self._stream.close()
        super().close()
