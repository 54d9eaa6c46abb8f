"""Asks a model's servers steadily: bounded requests in flight, retries, a circuit breaker, byte caps, no key kept.

Whatever a provider's format is, its requests go through here, so that all providers fail and recover alike.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from http import HTTPStatus
from typing import Annotated

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import replace

from snellen.common.foreign import HIDDEN, Secret, without_secrets
from snellen.common.seeds import rng_for
from snellen.errors import ModelError
from snellen.fetching.attendance import attendance
from snellen.formats.json_files import JSON_FAULTS
from snellen.formats.retry_after import parse_retry_after
from snellen.models.base import ServerGoneError, failed
from snellen.models.connections import (
    MOST_BYTES,
    MOST_IN_HAND,
    AdaptiveLimit,
    BytesInHand,
    Compose,
    Connections,
    ConnectTimeoutError,
    HttpReply,
    TooLongError,
)
from snellen.models.http_connection import TransportError
from snellen.models.idle_tasks import IdleTasks
from snellen.models.model_strings import ModelSpec
from snellen.models.request_options import RequestOptions
from snellen.records import ErrorKind, Request, Response

# --- why an attempt at a server failed, by the status and the words of its reply. No I/O ------------------------------


class ServerFault(Struct, frozen=True):
    """Why an attempt failed."""

    kind: ErrorKind
    detail: str
    retry: bool = False
    retry_after: float | None = None
    """Seconds that the server asked for."""
    fatal: bool = False
    """Every other request would fail too, so the run should end."""
    rejected_parameter: str = ""
    """The parameter that the server does not accept."""


class ReportedError(Struct, frozen=True):
    """What a server says about an error; fields are empty where it says nothing."""

    message: str = ""
    code: str = ""
    parameter: str = ""
    retry_after: float | None = None
    """Seconds to wait, if the body or one of the provider's own headers names them."""


def read_reported_error(body: bytes) -> ReportedError:
    """The error in a body, in any of the JSON forms that servers use: `{"error": ...}`, `{"message": ...}`."""
    try:
        content = msgspec.json.decode(body)
    except JSON_FAULTS:
        return ReportedError()
    error = content.get("error", content) if isinstance(content, dict) else content
    if isinstance(error, dict):
        message = error.get("message") or error.get("detail") or ""
        code = error.get("code") or error.get("type") or ""
        return ReportedError(str(message), str(code), str(error.get("param") or ""))
    return ReportedError(error) if isinstance(error, str) else ReportedError()


def no_completion(body: bytes, error: Exception) -> ServerFault:
    """The fault of a reply that is not a chat completion. One that is not JSON (a gateway's page) is quoted."""
    beginning = " ".join(body[:200].decode("utf-8", "replace").split())[:60]
    reason = (
        str(error)
        if beginning.startswith("{")
        else f"it begins with {beginning!r}"
        if beginning
        else "it is empty"
    )
    return ServerFault("malformed", f"the reply is not a chat completion: {reason}", retry=True)


def fault_of_reported(error: ReportedError) -> ServerFault:
    """The fault of a failure that a server reports under status 200, in a body, a choice or an event of a stream.

    Routers (OpenRouter) write the status of the provider behind them as the code.
    """
    detail = f"HTTP 200 with an error: {error.message or error.code or 'no reason given'}"
    if error.code in _FILTER_CODES or error.code == "403":
        return ServerFault("refused", detail)
    if error.code in _NO_CREDIT_CODES or error.code == "402":
        return ServerFault("auth", detail, fatal=True)
    if error.code in _BUSY_CODES:
        return ServerFault("rate_limit", detail, retry=True, retry_after=error.retry_after)
    if error.code in _LATE_CODES:
        return ServerFault("timeout", detail, retry=True)
    return ServerFault("server", detail, retry=True)


_BUSY_CODES = {"429", "529", "rate_limit_error", "rate_limit_exceeded", "overloaded_error"}
_LATE_CODES = {"408", "504", "timeout_error"}
_FILTER_CODES = {"content_filter", "content_policy_violation", "moderation_blocked"}
_NO_CREDIT_CODES = {"insufficient_quota", "billing_error"}
_BAD_KEY_CODES = {
    "API_KEY_INVALID",
    "authentication_error",
    "ExpiredTokenException",
    "UnrecognizedClientException",
}
ADDRESS_HINT = "check the model's name and that the URL ends in /v1"


def fault_of_status(
    reply: HttpReply,
    error: ReportedError,
    now: float,
    address_hint: str,
    rejected_parameter: str = "",
) -> ServerFault:
    """The fault that a reply with an error status describes. `now` is seconds since 1970.

    `address_hint` says what to check when there is no such model; `rejected_parameter` is what a bad request was
    refused for, if that is known.
    """
    reason = (
        error.message
        or reply.body[:200].decode("utf-8", "replace").strip()
        or _phrase(reply.status)
    )
    detail = f"HTTP {reply.status}: {reason}"
    retry_after = _retry_after(reply, now)
    retry_after = error.retry_after if retry_after is None else retry_after
    if retry_after is not None:
        detail += f"; Retry-After {retry_after:.0f} s"
    match reply.status:
        case 400 | 403 if error.code in _FILTER_CODES:
            return ServerFault("refused", detail)
        case _ if error.code in _NO_CREDIT_CODES:
            return ServerFault("auth", detail, fatal=True)
        case 401 | 403:
            return ServerFault("auth", f"{detail}; check the API key", fatal=True)
        case 400 if error.code in _BAD_KEY_CODES:
            return ServerFault("auth", f"{detail}; check the API key", fatal=True)
        case 404:
            return ServerFault("model", f"{detail}; {address_hint}", fatal=True)
        case 402:
            return ServerFault("auth", detail, fatal=True)
        case 429 | 529:
            return ServerFault("rate_limit", detail, retry=True, retry_after=retry_after)
        case 503 if retry_after is not None:
            return ServerFault("rate_limit", detail, retry=True, retry_after=retry_after)
        case 408 | 504:
            return ServerFault("timeout", detail, retry=True, retry_after=retry_after)
        case status if status >= 500 or status in (409, 424, 425):
            return ServerFault("server", detail, retry=True, retry_after=retry_after)
        case status if 300 <= status < 400:
            where = reply.headers.get("location", "elsewhere")
            return ServerFault(
                "model", f"{detail}: redirected to {where}; give that URL", fatal=True
            )
        case _:
            return ServerFault("bad_request", detail, rejected_parameter=rejected_parameter)


def _retry_after(reply: HttpReply, now: float) -> float | None:
    """Seconds that the headers ask for: Retry-After, or Azure's form in milliseconds."""
    milliseconds = parse_retry_after(reply.headers.get("retry-after-ms", ""), now)
    if milliseconds is not None:
        return milliseconds / 1000
    return parse_retry_after(reply.headers.get("retry-after", ""), now)


def says_unsupported(error: ReportedError) -> bool:
    """Whether an error 400 complains that a parameter, and not its value, is not accepted."""
    lowered = error.message.lower()
    return error.code in ("unsupported_parameter", "unsupported_value") or any(
        word in lowered
        for word in (
            "unsupported",
            "not supported",
            "does not support",
            "unrecognized",
            "unknown",
            "deprecated",
            "extra inputs are not permitted",
            "cannot both be specified",
        )
    )


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "no reason given"


# --- asking ----------------------------------------------------------------------------------------------------------


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


# --- keeps API keys out of what is stored and printed: servers repeat the key that they were sent ---------------------


KEY_REMOVED = "the API key was removed from the reply"
LONGEST_DETAIL = 300
_OTHER_KEYS = re.compile(r"\bsk-[\w*-]+|(?<=Bearer )\S*[^\s\"'<>{}()\[\].,;:!?]")
"""What looks like a key, or part of one, without the punctuation that ends it."""


def presentable(detail: str, key: str) -> str:
    """What a server says is wrong, in one short line without the API key and other secrets."""
    if key:
        detail = detail.replace(key, HIDDEN)
    detail = without_secrets(detail)
    detail = _OTHER_KEYS.sub(HIDDEN, detail)
    detail = " ".join(detail.split())
    return detail if len(detail) <= LONGEST_DETAIL else f"{detail[: LONGEST_DETAIL - 3]}..."


def without_key(response: Response, key: str) -> Response:
    """The response with the API key removed wherever the server repeats it: responses are stored and printed.

    A key that is too short for a secret, such as the EMPTY of a local server, is left in place.
    """
    Secret(key)  # known from now on, if it was not
    whole = f"{response.text}{response.finish}{response.reasoning}"
    if without_secrets(whole) == whole:
        return response
    return replace(
        response,
        text=response.text and without_secrets(response.text),
        reasoning=response.reasoning and without_secrets(response.reasoning),
        finish=response.finish and without_secrets(response.finish),
        notes=(*response.notes, KEY_REMOVED),
    )


# --- several servers of one model -------------------------------------------------------------------------------------


FAILURES = 3
"""After so many timeouts and errors of its own in a row a server counts as down; one that cannot be reached does at
once."""
FIRST_PAUSE = 0.5
LONGEST_PAUSE = 30.0
"""Seconds that a server which is down is left alone: at first, doubled each time, and at most."""


class BalancedServer:
    """One of the servers and how it is doing."""

    def __init__(self, url: str, connections: Connections, concurrency: int) -> None:
        self.url, self.connections = url, connections
        self.slots = AdaptiveLimit(concurrency)
        self.assigned = 0
        """Requests that were given to this server and are not answered yet."""
        self.is_down = False
        self.asked_again = 0.0
        """When a server that is down is asked again, in seconds of the clock."""
        self.failures = 0
        """In a row."""
        self._times_down = 0

    def answered(self) -> None:
        self.is_down, self.failures, self._times_down = False, 0, 0

    def failed(self, now: float, *, unreachable: bool) -> None:
        """It did not answer a request; if `unreachable`, not even with an error."""
        self.failures += 1
        if self.is_down and now < self.asked_again:
            return  # late news: it was asked before it counted as down
        if not (unreachable or self.failures >= FAILURES):
            return
        self.is_down = True
        self.asked_again = now + min(LONGEST_PAUSE, FIRST_PAUSE * 2.0 ** min(self._times_down, 10))
        self._times_down += 1


class BalancedServers:
    """The servers of one model, all with the same answers."""

    def __init__(
        self,
        urls: Sequence[str],
        headers: Mapping[str, str],
        most_bytes: int,
        concurrency: int,
        now: Callable[[], float],
    ) -> None:
        """Each server gets at most `concurrency` requests at once. Raises ModelError for a proxy that is not HTTP."""
        # Each has its share of the room, so that one which takes nothing keeps no other from being asked.
        room = MOST_IN_HAND // len(urls)
        self._servers = [
            BalancedServer(
                url, Connections(url, dict(headers), most_bytes, BytesInHand(room)), concurrency
            )
            for url in urls
        ]
        self._now = now

    def choose(self, without: Collection[BalancedServer] = ()) -> BalancedServer | None:
        """Of those not in `without`: one that was down long enough, for a single request; else the one with the fewest
        requests, and failures; else, when all are down, the one whose time comes first. None when none is left."""
        candidates = [server for server in self._servers if server not in without]
        up = [server for server in candidates if not server.is_down]
        now = self._now()
        due = [
            server
            for server in candidates
            if server.is_down and not server.assigned and server.asked_again <= now
        ]
        if due:
            return due[0]
        if up:
            return min(up, key=lambda server: (server.assigned, server.failures))
        return min(candidates, key=lambda server: server.asked_again, default=None)

    def others_than(self, url: str) -> list[BalancedServer]:
        """Return the servers at other addresses than `url`."""
        return [server for server in self._servers if server.url != url]

    async def close(self) -> None:
        for server in self._servers:
            await server.connections.close()


# --- stops asking a server that answers nobody, and ends the run when it does not come back ---------------------------


Outcome = Response | ServerFault


class CircuitBreaker:
    """A circuit breaker (Nygard, Release It!, 2007): closed while anything is answered.

    It opens when the attempts of `most` different requests failed in a row, for reasons that may pass. Then one
    request at a time is sent, after growing waits: the last that was answered, so that questions which break the
    server are not taken for a broken server, or any where none was. An answer closes it; after as many such probes as
    a request has retries, or waits as long as its patience where the server only asks for time, the server counts as
    gone. Failures while it is open are not the fault of the requests, and need not count as attempts.
    """

    def __init__(self, most: int, retry: Retry, sleep: Callable[[float], Awaitable[None]]) -> None:
        """`most` = 0: never opens."""
        self.is_open = False
        self.failures = 0
        """Attempts in a row that failed."""
        self._most, self._retry, self._sleep = most, retry, sleep
        self.failing: set[str] = set()
        """Keys of the requests that these attempts were for."""
        self._probes = 0
        self._waited = self._pause = 0.0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._probing = asyncio.Lock()
        self._answered: Callable[[], Awaitable[Outcome]] | None = None
        self._fault = ServerFault("connection", "")

    @property
    def fault(self) -> ServerFault:
        """What was wrong with the last probe."""
        return self._fault

    async def attempt(self, key: str, send: Callable[[], Awaitable[Outcome]]) -> Outcome:
        """What `send` returns for the request named `key`, once it may be sent; a fatal fault when the server counts
        as gone."""
        while self.is_open:
            async with self._lock():
                if self.is_open and self._is_spent():
                    return self._give_up()
                if self.is_open:
                    probe = self._answered
                    outcome = await self._probe(key, probe or send)
                    if probe is None:
                        return outcome
        outcome = await send()
        self._note(key, outcome)
        if isinstance(outcome, Response):
            self._answered = send
        return outcome

    def _lock(self) -> asyncio.Lock:
        """The lock of the running event loop: a model may serve in several, one after the other."""
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            self._loop, self._probing = loop, asyncio.Lock()
        return self._probing

    async def _probe(self, key: str, send: Callable[[], Awaitable[Outcome]]) -> Outcome:
        self._waited += self._pause
        await self._sleep(self._pause)
        outcome = await send()
        self._note(key, outcome)
        if isinstance(outcome, ServerFault) and outcome.retry:
            self._probes += outcome.kind != "rate_limit"
            self._next_pause(outcome)
        return outcome

    def _note(self, key: str, outcome: Outcome) -> None:
        if isinstance(outcome, Response) or not outcome.retry:  # a server that refuses is there
            self.failing.clear()
            self.is_open, self.failures, self._probes, self._waited = False, 0, 0, 0.0
            return
        self.failing.add(key)
        self.failures += 1
        if not self.is_open and 0 < self._most <= len(self.failing):
            self.is_open = True
            self._next_pause(outcome)

    def _next_pause(self, fault: ServerFault) -> None:
        longest = min(self._retry.longest, self._retry.first * 2.0**self._probes)
        self._pause = max(longest, min(fault.retry_after or 0.0, self._retry.patience))
        self._fault = fault

    def _is_spent(self) -> bool:
        return (
            self._probes > 0 and self._probes >= self._retry.retries
        ) or self._waited > self._retry.patience

    def _give_up(self) -> ServerFault:
        """The fault that ends the run. A later run with the same model begins with one probe, at once."""
        self._probes, self._waited, self._pause = max(self._retry.retries - 1, 0), 0.0, 0.0
        detail = (
            f"stopped, since the last {self.failures} requests all failed ({self._fault.detail}); what was answered is "
            "kept, and the same command goes on; ?stop_after=0 asks on whatever fails"
        )
        return replace(self._fault, detail=detail, fatal=True)


# --- how long to wait before a request is sent again ------------------------------------------------------------------


class Retry(Struct, frozen=True):
    """Exponential waiting with jitter. All times in seconds."""

    retries: int = 6
    first: float = 0.5
    longest: float = 30.0
    patience: float = 300.0
    """A server that asks for a longer wait than this is not asked again."""

    @property
    def seconds(self) -> float:
        """The longest that all waits for one request take together, where no server asks for longer ones."""
        return sum(map(self._longest_wait, range(1, self.retries + 1)))

    def _longest_wait(self, attempt: int) -> float:
        return min(self.longest, self.first * 2.0 ** (attempt - 1))

    def wait(self, attempt: int, name: str, requested: float | None = None) -> float | None:
        """Seconds to wait after attempt number `attempt` (from 1) failed, or None to give up.

        `requested` is the server's Retry-After, which is honoured, plus jitter. `name` distinguishes requests, so
        that those that failed together do not retry together.
        """
        if attempt > self.retries:
            return None
        jitter = rng_for("retry", name, attempt).random()
        if requested is None:
            return self._longest_wait(attempt) * (0.5 + jitter / 2)
        if requested > self.patience:
            return None
        return requested + jitter * max(self.first, requested / 10)
