"""Asks a model's servers steadily: bounded requests in flight, retries, a circuit breaker, byte caps, no key kept.

Whatever a provider's format is, its requests go through here, so that all providers fail and recover alike.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from http import HTTPStatus
from typing import Annotated

from msgspec import Meta, Struct

from snellen.errors import ModelError
from snellen.fetching.attendance import attendance
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
from snellen.models.server_faults import ServerFault
from snellen.records import Request, Response

HEADERS = {
    "content-type": "application/json",
    "accept": "application/json",
    "user-agent": "snellen",
}


class ClientOptions(RequestOptions, frozen=True):
    """Options of every model behind a network; docs/models-openai.md explains each."""

    concurrency: Annotated[int, Meta(ge=1, le=10_000)] = 32
    timeout: Annotated[float, Meta(gt=0)] = 120.0
    """Time limit of one attempt in seconds, from connecting to the last byte of the reply."""
    retries: Annotated[int, Meta(ge=0)] = 6
    patience: Annotated[float, Meta(ge=0)] = 300.0
    """The longest Retry-After to wait for, in seconds."""
    stop_after: Annotated[int, Meta(ge=0)] = 16
    """Requests that fail in a row before the server is only probed, and the run ends when that fails too; 0: never."""
    reply_bytes: Annotated[int, Meta(ge=1024)] = MOST_BYTES
    """The longest reply that is read."""
    api_key_env: str = ""


TRANSPORT = frozenset((*ClientOptions.__annotations__, "logprobs", "max_tokens_field"))
"""Options that no answer depends on. All others are part of the model's identity."""


def answering_string(spec: ModelSpec, target: str) -> str:
    """A model string with `target` in place of its own, and without the options of `TRANSPORT`."""
    options = "&".join(
        f"{name}={value}" for name, value in sorted(spec.options.items()) if name not in TRANSPORT
    )
    return f"{spec.scheme}:{target}{'?' * bool(options)}{options}"


def identity_of_service(spec: ModelSpec) -> str:
    """`NAME:MODEL?options` of a service whose model is the same whatever address it is reached at."""
    return answering_string(spec, spec.target.partition("@")[0])


COURTESY_SECONDS = 10.0
"""The longest that a server is waited for when it is asked about itself."""
COURTESY_PAUSES = (0.0, 0.5, 1.0)
"""Seconds before each attempt to ask a server about itself."""
NOT_IMPLEMENTED = (HTTPStatus.NOT_IMPLEMENTED, HTTPStatus.HTTP_VERSION_NOT_SUPPORTED)
"""Errors of a server that do not pass."""


class Clock(Struct, frozen=True):
    """Where time comes from; tests pass their own."""

    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    now: Callable[[], float] = time.time
    """Seconds since 1970."""


class Client:
    """A model's servers, one or several, and how they are doing."""

    def __init__(
        self,
        name: str,
        urls: Sequence[str],
        options: ClientOptions,
        key: str,
        headers: Mapping[str, str],
        clock: Clock,
    ) -> None:
        """`headers` go with every request. Raises ModelError for a proxy that is not HTTP."""
        self.now = clock.now
        self.limit = AdaptiveLimit(options.concurrency * len(urls))
        self.urls = tuple(urls)
        self.waiting = 0
        """Requests that failed, and wait to be sent again."""
        self._name, self._options, self._key, self._clock = name, options, key, clock
        self._idle = IdleTasks()
        self._retry = Retry(retries=options.retries, patience=options.patience)
        self._breaker = CircuitBreaker(options.stop_after, self._retry, self._sleep)
        headers = HEADERS | dict(headers)
        self._servers = BalancedServers(
            urls, headers, options.reply_bytes, options.concurrency, clock.now
        )
        self._first_contact = True

    async def ask(
        self, request: Request, send: Callable[[], Awaitable[Response | ServerFault]]
    ) -> Response:
        """The response of `send`, which is repeated as often as that may help; a failure is inside the response.

        Raises ModelError for a fault that every request would share, and when the server answers nobody any more.
        """
        attempt = 1
        while True:
            outcome = await self._attempt(request, send)
            if isinstance(outcome, Response):
                self._first_contact = False
                return without_key(outcome, self._key)
            detail = presentable(outcome.detail, self._key)
            if outcome.fatal and self._breaker.is_open:
                fault = presentable(self._breaker.fault.detail, self._key)
                failure = failed(outcome.kind, fault, attempt)
                raise ServerGoneError(f"{self._name}: {detail}", failure, self._breaker.failing)
            if outcome.fatal:
                raise ModelError(f"{self._name}: {detail}")
            self._say_unreachable(outcome, detail)
            if outcome.retry and self._breaker.is_open:
                continue
            wait = (
                self._retry.wait(attempt, request.key, outcome.retry_after)
                if outcome.retry
                else None
            )
            if wait is None:
                return failed(outcome.kind, detail, attempt)
            self.waiting += 1
            try:
                await self._sleep(wait)
            finally:
                self.waiting -= 1
            attempt += 1

    def _say_unreachable(self, fault: ServerFault, detail: str) -> None:
        """Say that not even the first request reached a server: one that never ran is not worth the wait."""
        if self._first_contact and fault.kind == "connection" and self._retry.seconds:
            attendance().say(
                f"{self._name}: no answer yet ({detail}); each request is tried again for up to "
                f"{self._retry.seconds:.0f} s before it counts as failed"
            )
        self._first_contact = False

    async def _attempt(
        self, request: Request, send: Callable[[], Awaitable[Response | ServerFault]]
    ) -> Response | ServerFault:
        """One attempt in a slot, as soon as the breaker lets it through."""
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
        """One HTTP exchange with a server that answers; a failure below HTTP is a fault that is worth another attempt.

        Where one cannot be reached, the next one is asked at once, unless `watch` is given each part of the body as it
        comes.
        """
        tried: list[BalancedServer] = []
        outcome: HttpReply | ServerFault = ServerFault("connection", "")
        while (server := self._servers.choose(tried)) is not None:
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
            unreachable = (
                isinstance(outcome, ServerFault) and outcome.kind == "connection" and outcome.retry
            )
            if unreachable or _is_failing(outcome):
                server.failed(self.now(), unreachable=unreachable)
            else:
                server.answered()
            if (
                not unreachable or watch
            ):  # half of what was watched may have come: another attempt begins anew
                break
            tried.append(server)
        return outcome

    async def ask_about_server(self, compose: Compose, url: str = "") -> HttpReply | None:
        """The reply to a question about the server itself, such as its list of models; None while it gives none.

        Of several servers the one at `url` is asked, or any if that is empty.

        Such a question is a courtesy: nothing that comes of it is a fault of a request or of the server. Errors that
        may pass are asked about again, a hanging server is not.
        """
        limit = min(self._options.timeout, COURTESY_SECONDS)
        for pause in COURTESY_PAUSES:
            if pause:
                await self._sleep(pause)
            tried = self._servers.others_than(url) if url else []
            while (server := self._servers.choose(tried)) is not None:
                tried.append(server)
                outcome = await self._exchange_with(server, compose, None, limit)
                if isinstance(outcome, HttpReply):
                    if not _may_pass(outcome.status):
                        return outcome
                    break
                if outcome.kind == "timeout" or not outcome.retry:
                    return None
        return None

    async def _exchange_with(
        self,
        server: BalancedServer,
        compose: Compose,
        watch: Callable[[bytes], None] | None,
        limit: float,
    ) -> HttpReply | ServerFault:
        try:
            async with asyncio.timeout(limit):
                return await server.connections.send(compose, watch)
        except TooLongError:
            most = self._options.reply_bytes
            detail = f"the reply is longer than {most:,} bytes; raise reply_bytes= if that is right"
            return ServerFault("too_long", detail)
        except TimeoutError:
            return ServerFault(
                "timeout",
                f"no complete reply within {limit:g} s; raise timeout= for slow models",
                retry=True,
            )
        except TransportError as error:
            message = str(error)
            if "CERTIFICATE_VERIFY_FAILED" in message:
                hint = "name the certificate of its authority in SSL_CERT_FILE"
                return ServerFault("connection", f"{server.url}: {message}; {hint}", fatal=True)
            doubt = "is it running"
            if "WRONG_VERSION_NUMBER" in message:
                doubt = "does it speak https"
            elif server.url.startswith("https:") and isinstance(error, ConnectTimeoutError):
                doubt = "is it running, and does it speak https"  # a handshake without an answer times out too
            return ServerFault("connection", f"{server.url}: {message}; {doubt}?", retry=True)

    async def _sleep(self, seconds: float) -> None:
        with self._idle.waiting():
            await self._clock.sleep(seconds)

    def stop_sending(self) -> None:
        """Cancel the requests that are not on their way, until `close`."""
        self._idle.stop()

    async def close(self) -> None:
        await self._servers.close()
        self._idle.go_on()


def _may_pass(status: int) -> bool:
    """Whether a server may answer otherwise a moment later."""
    if status in (408, 409, 425, 429):
        return True
    return status >= 500 and status not in NOT_IMPLEMENTED


def _is_failing(outcome: HttpReply | ServerFault) -> bool:
    """Whether a fault shows that a server is failing, rather than that it is busy or rejects the request."""
    if isinstance(outcome, ServerFault):
        return outcome.kind == "timeout"
    return outcome.status >= 500 and outcome.status != 529 and "retry-after" not in outcome.headers
