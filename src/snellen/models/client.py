"""HTTP client for a model's servers: limits on requests in flight, retries, a circuit breaker, size limits.

Requests of all providers pass through here, so that all fail and recover in the same way.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from http import HTTPStatus
from typing import Annotated

from msgspec import Meta, Struct

from snellen.errors import ModelError
from snellen.fetching.user_callbacks import user_callbacks
from snellen.models.adaptive_limit import AdaptiveLimit
from snellen.models.balancing import BalancedServer, BalancedServers
from snellen.models.base import ServerGoneError, failed
from snellen.models.circuit_breaker import CircuitBreaker
from snellen.models.connections import (
    MOST_BYTES,
    Compose,
    ConnectTimeoutError,
    HttpReply,
    TooLongError,
    TransportError,
)
from snellen.models.idle_tasks import IdleTasks
from snellen.models.key_removal import presentable, without_key
from snellen.models.model_strings import ModelSpec
from snellen.models.request_options import RequestOptions
from snellen.models.retry import Retry
from snellen.models.server_faults import KEY_HINT, ServerFault
from snellen.records import Request, Response

HEADERS = {
    "content-type": "application/json",
    "accept": "application/json",
    "user-agent": "snellen",
}


class ClientOptions(RequestOptions, frozen=True):
    """Options of every model behind a network; docs/models-openai.md explains each.

    Examples:
        >>> ClientOptions(temperature=0.5, retries=2).retries
        2
    """

    concurrency: Annotated[int, Meta(ge=1, le=10_000)] = 32
    timeout: Annotated[float, Meta(gt=0)] = 120.0
    """Time limit of one attempt in seconds, from connecting to the last byte of the reply."""
    retries: Annotated[int, Meta(ge=0)] = 6
    patience: Annotated[float, Meta(ge=0)] = 300.0
    """Maximum Retry-After that is waited for, in seconds."""
    stop_after: Annotated[int, Meta(ge=0)] = 16
    """Consecutive failures after which the server is only probed; if that fails, the run ends. 0: never."""
    reply_bytes: Annotated[int, Meta(ge=1024)] = MOST_BYTES
    """The longest reply that is read."""
    api_key_env: str = ""


TRANSPORT = frozenset(
    (*ClientOptions.__annotations__, "batch", "cache_images", "logprobs", "max_tokens_field")
)
"""Options that no reply depends on. All others are part of the model's identity."""


def answering_string(spec: ModelSpec, target: str) -> str:
    """Return a model string with another target, and without the options that no reply depends on (`TRANSPORT`)."""
    options = []
    for name, value in sorted(spec.options.items()):
        if name not in TRANSPORT:
            options.append(f"{name}={value}")
    string = f"{spec.scheme}:{target}"
    return f"{string}?{'&'.join(options)}" if options else string


def identity_of_service(spec: ModelSpec) -> str:
    """Return `NAME:MODEL?options` for a service whose model is the same at any address."""
    return answering_string(spec, spec.target.partition("@")[0])


COURTESY_SECONDS = 10.0
"""Maximum seconds to wait for a server's answer about itself."""
COURTESY_PAUSES = (0.0, 0.5, 1.0)
"""Seconds before each attempt to ask a server about itself."""
NOT_IMPLEMENTED = (HTTPStatus.NOT_IMPLEMENTED, HTTPStatus.HTTP_VERSION_NOT_SUPPORTED)
"""Server errors that are permanent."""


class Clock(Struct, frozen=True):
    """Source of time, which tests replace."""

    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    now: Callable[[], float] = time.time
    """Seconds since 1970."""


class Client:
    """The servers of one model: sends requests to them, and remembers which of them fail."""

    def __init__(
        self,
        name: str,
        urls: Sequence[str],
        options: ClientOptions,
        key: str,
        headers: Mapping[str, str],
        clock: Clock,
        hint_without_key: str = "",
    ) -> None:
        """Prepare the connections, without opening one.

        Args:
            name: Name of the model, for messages.
            urls: The addresses of the servers.
            options: Limits, timeouts and numbers of retries.
            key: The API key, which is removed from messages and replies.
            headers: HTTP headers of every request.
            clock: Source of time.
            hint_without_key: What the user can do if the server asks for a key and none was sent.

        Raises:
            ModelError: The environment names a proxy that is not an HTTP proxy.
        """
        self._hint_without_key = hint_without_key
        self.now = clock.now
        self.limit = AdaptiveLimit(options.concurrency * len(urls))
        self.urls = tuple(urls)
        self.waiting = 0
        """Requests that failed and wait for a retry."""
        self._name, self._options, self._key, self._clock = name, options, key, clock
        self._idle = IdleTasks()
        self._retry = Retry(retries=options.retries, patience=options.patience)
        headers = HEADERS | dict(headers)
        self._servers = BalancedServers(
            urls, headers, options.reply_bytes, options.concurrency, clock.now
        )
        self._breaker = CircuitBreaker(
            options.stop_after, self._retry, self._sleep, lambda: self._servers.is_reached
        )
        self._first_contact = True

    async def ask(
        self, request: Request, send: Callable[[], Awaitable[Response | ServerFault]]
    ) -> Response:
        """Call `send` until it returns a response, or until another attempt would not help.

        Raises ModelError for a fault that every request would have, such as a wrong API key, and
        ServerGoneError if no server answers any more.

        Args:
            request: The request.
            send: Sends the request once.

        Returns:
            The response. If the request failed by itself, it is a response with an `error`.
        """
        attempt = 1
        while True:
            outcome = await self._attempt(request, send)
            if isinstance(outcome, Response):
                self._first_contact = False
                return without_key(outcome, self._key)
            detail = presentable(outcome.detail, self._key)
            if outcome.kind == "auth" and self._hint_without_key:
                detail = f"{detail.removesuffix(KEY_HINT)}{self._hint_without_key}"
            if outcome.fatal and self._breaker.is_open:
                first_fault = presentable(self._breaker.fault.detail, self._key)
                failure = failed(outcome.kind, first_fault, attempt)
                raise ServerGoneError(f"{self._name}: {detail}", failure, self._breaker.failing)
            if outcome.fatal:
                raise ModelError(f"{self._name}: {detail}")
            self._say_unreachable(outcome, detail)
            if outcome.retry and self._breaker.is_open:
                continue
            wait = None
            if outcome.retry:
                wait = self._retry.wait(attempt, request.key, outcome.retry_after)
            if wait is None:
                return failed(outcome.kind, detail, attempt)
            self.waiting += 1
            try:
                await self._sleep(wait)
            finally:
                self.waiting -= 1
            attempt += 1

    def _say_unreachable(self, fault: ServerFault, detail: str) -> None:
        """Tell the user at once if the very first request of this client could not reach a server.

        Otherwise the user would see nothing until all retries have failed. Later calls say nothing.
        """
        if self._first_contact and fault.kind == "connection" and self._retry.seconds:
            patience = "it is tried for a few more seconds"
            if not self._options.stop_after:
                patience = (
                    f"each request is tried again for up to {self._retry.seconds:.0f} s before it "
                    "counts as failed"
                )
            user_callbacks().say(f"{self._name}: no answer yet ({detail}); {patience}")
        self._first_contact = False

    async def _attempt(
        self, request: Request, send: Callable[[], Awaitable[Response | ServerFault]]
    ) -> Response | ServerFault:
        """Wait for a free slot, and send the request once when the circuit breaker allows it.

        The outcome is reported to the limit on requests in flight, which falls after a rate limit.
        """
        with self._idle.waiting():
            acquired = await self.limit.acquire()
        try:
            outcome = await self._breaker.attempt(request.key, send)
            if isinstance(outcome, Response):
                self.limit.succeeded(acquired)
            elif outcome.kind == "rate_limit":
                self.limit.slow_down(acquired)
            return outcome
        finally:
            self.limit.release()

    async def exchange(
        self, compose: Compose, watch: Callable[[bytes], None] | None = None
    ) -> HttpReply | ServerFault:
        """Send one HTTP request to one of the servers, and return the reply, whatever its status.

        If a server cannot be reached, the next one is tried at once. This is not done if there is a
        `watch`, which may have received a part of a reply already; then the caller has to begin
        again with a new attempt.

        Args:
            compose: Builds the request.
            watch: Called with each part of the reply's body as it arrives.

        Returns:
            The reply, or a fault if there was none.
        """
        tried: list[BalancedServer] = []
        outcome: HttpReply | ServerFault = ServerFault("connection", "")
        while True:
            server = self._servers.choose(tried)
            if server is None:
                return outcome
            server.assigned += 1
            try:
                with self._idle.waiting():
                    await server.slots.acquire()
                try:
                    limit = self._options.timeout
                    outcome = await self._exchange_with(server, compose, watch, limit)
                finally:
                    server.slots.release()
            finally:
                server.assigned -= 1
            is_unreachable = False
            if isinstance(outcome, ServerFault):
                is_unreachable = outcome.kind == "connection" and outcome.retry
            if is_unreachable or _is_failing(outcome):
                server.failed(self.now(), unreachable=is_unreachable)
            else:
                server.answered()
            if watch or not is_unreachable:
                return outcome
            tried.append(server)

    async def ask_about_server(self, compose: Compose, url: str = "") -> HttpReply | None:
        """Send an optional request for facts about the server itself, such as its list of models.

        The run can continue without the reply, so a failure here counts neither as a failed
        question nor as a failure of the server. After temporary errors, the request is sent again.
        This is not done after a timeout, nor if no server was ever reached and connections are
        refused. Whether such a server is about to start is found out by the requests of the run.

        Args:
            compose: Builds the request.
            url: The server to ask, if there are several; empty for any.

        Returns:
            The reply; None if there is none.
        """
        limit = min(self._options.timeout, COURTESY_SECONDS)
        for pause in COURTESY_PAUSES:
            if pause:
                await self._sleep(pause)
            excluded_servers = self._servers.others_than(url) if url else []
            is_absent = False
            while True:
                server = self._servers.choose(excluded_servers)
                if server is None and is_absent:
                    return None
                if server is None:
                    break
                excluded_servers.append(server)
                outcome = await self._exchange_with(server, compose, None, limit)
                if isinstance(outcome, ServerFault):
                    is_absent = outcome.kind == "connection" and not self._servers.is_reached
                    if outcome.kind == "timeout" or not outcome.retry:
                        return None
                elif _may_pass(outcome.status):
                    break
                else:
                    return outcome
        return None

    async def _exchange_with(
        self,
        server: BalancedServer,
        compose: Compose,
        watch: Callable[[bytes], None] | None,
        limit: float,
    ) -> HttpReply | ServerFault:
        """Send one request to a server and return the reply, or a fault that says why there is none.

        Args:
            server: The server.
            compose: Builds the request.
            watch: Called with each part of the reply's body as it arrives.
            limit: Maximum time until the complete reply, in seconds.
        """
        try:
            async with asyncio.timeout(limit):
                return await server.connections.send(compose, watch)
        except TooLongError:
            most = self._options.reply_bytes
            detail = f"the reply is longer than {most:,} bytes; raise reply_bytes= if replies can be that long"
            return ServerFault("too_long", detail)
        except TimeoutError:
            detail = f"no complete reply within {limit:g} s; raise timeout= for slow models"
            return ServerFault("timeout", detail, retry=True)
        except TransportError as error:
            message = str(error)
            if "CERTIFICATE_VERIFY_FAILED" in message:
                hint = "set SSL_CERT_FILE to the certificate of its authority"
                return ServerFault("connection", f"{server.url}: {message}; {hint}", fatal=True)
            question = "is it running"
            if "WRONG_VERSION_NUMBER" in message:
                question = "does it use https"
            elif server.url.startswith("https:") and isinstance(error, ConnectTimeoutError):
                # A handshake without an answer times out too.
                question = "is it running, and does it use https"
            return ServerFault("connection", f"{server.url}: {message}; {question}?", retry=True)

    async def _sleep(self, seconds: float) -> None:
        with self._idle.waiting():
            await self._clock.sleep(seconds)

    def stop_sending(self) -> None:
        """Cancel all requests that are not in flight, and those that come until `close` is called."""
        self._idle.stop()

    async def close(self) -> None:
        await self._servers.close()
        self._idle.go_on()


def _may_pass(status: int) -> bool:
    """Return whether a reply with this error status may be temporary, such as 429 or 503, so that a retry can help."""
    if status in (408, 409, 425, 429):
        return True
    return status >= 500 and status not in NOT_IMPLEMENTED


def _is_failing(outcome: HttpReply | ServerFault) -> bool:
    """Return whether the outcome of a request shows that the server itself is failing.

    This is so after a timeout or an internal error such as 500. A server that is busy (529, or a
    `Retry-After` header) or that rejects the request (such as 400) is working.
    """
    if isinstance(outcome, ServerFault):
        return outcome.kind == "timeout"
    return outcome.status >= 500 and outcome.status != 529 and "retry-after" not in outcome.headers
