"""Circuit breaker that pauses requests to a server that does not answer, and ends the run if it stays silent."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from msgspec.structs import replace

from snellen.models.retry import Retry
from snellen.models.server_faults import ServerFault
from snellen.records import Response

Outcome = Response | ServerFault
FIRST_PROBES = 3
"""Probes of a server that no request has ever reached: it most likely does not run, or has another address."""


class CircuitBreaker:
    """A circuit breaker (Nygard, Release It!, 2007), which stops sending requests to a server that does not answer.

    While the server answers, the breaker is closed, and requests are sent as usual. It opens when
    attempts for `most` different requests have failed in a row, for reasons that may be temporary.
    From then on one request at a time is sent as a probe, after waits that become longer.

    The probe is the last request that was answered successfully. It is known to be harmless; a
    request that makes the server crash would look like a broken server. If no request was answered
    so far, any request is the probe.

    If the server answers, the breaker closes. The server counts as gone if it fails as many probes
    as a request has retries. If it only asks for more time (rate limit), it counts as gone after it
    was waited for longer than `Retry.patience`. Failures while the breaker is open are not the
    fault of the requests, so they need not count as attempts.
    """

    def __init__(
        self,
        most: int,
        retry: Retry,
        sleep: Callable[[float], Awaitable[None]],
        is_connected: Callable[[], bool],
    ) -> None:
        """Create a closed breaker.

        Args:
            most: The breaker opens after this many different requests have failed in a row; with 0
                it never opens.
            retry: How often and for how long a failed request is sent again.
            sleep: Waits for a number of seconds.
            is_connected: Returns whether a connection to the server was ever opened.
        """
        self._is_connected = is_connected
        self.is_open = False
        self.failures = 0
        """Consecutive failed attempts."""
        self._most, self._retry, self._sleep = most, retry, sleep
        self.failing: set[str] = set()
        """Keys of the requests of these attempts."""
        self._probes = 0
        self._waited = self._pause = 0.0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._probing = asyncio.Lock()
        self._answered: Callable[[], Awaitable[Outcome]] | None = None
        self._fault = ServerFault("connection", "")
        self._is_reached = False

    @property
    def fault(self) -> ServerFault:
        """The fault of the last failed probe or, before the first probe, the fault that opened the breaker."""
        return self._fault

    async def attempt(self, key: str, send: Callable[[], Awaitable[Outcome]]) -> Outcome:
        """Call `send` for a request as soon as the breaker allows it, and return the outcome.

        While the breaker is open, this waits for the server to recover. If the server counts as
        gone, it returns a fatal fault.

        Args:
            key: The key of the request.
            send: Sends the request once.
        """
        while self.is_open:
            async with self._lock():
                if self.is_open and self._has_used_all_probes():
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
        """Return the lock that lets only one request at a time be a probe.

        Each event loop gets a lock of its own, because a model may be used in several event loops
        one after the other.
        """
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
        """Update the breaker after a request was answered or failed.

        An answer closes the breaker and sets all counts back to zero, and so does a permanent
        error, such as 400: a server that rejects a request is working. A failure that may be
        temporary is counted. The breaker opens when enough different requests have failed in a row,
        or after a single failure if the server was never reached.

        Args:
            key: The key of the request.
            outcome: Its response, or the fault.
        """
        is_answer = isinstance(outcome, Response) or outcome.kind != "connection"
        if is_answer or self._is_connected():
            self._is_reached = True
        if isinstance(outcome, Response) or not outcome.retry:  # a server that refuses is working
            self.failing.clear()
            self.is_open = False
            self.failures = 0
            self._probes = 0
            self._waited = 0.0
            return
        self.failing.add(key)
        self.failures += 1
        # A server that was never reached pauses after a single failure.
        most_failing = self._most if self._is_reached else min(self._most, 1)
        if not self.is_open and 0 < most_failing <= len(self.failing):
            self.is_open = True
            self._next_pause(outcome)

    def _next_pause(self, fault: ServerFault) -> None:
        """Set how long to wait before the next probe, and remember the fault.

        The pause doubles with each probe, up to `Retry.longest`. It is longer if the server asks
        for more time, up to `Retry.patience`.
        """
        doubled_pause = self._retry.first * 2.0**self._probes
        pause = min(self._retry.longest, doubled_pause)
        requested_pause = min(fault.retry_after or 0.0, self._retry.patience)
        self._pause = max(pause, requested_pause)
        self._fault = fault

    def _has_used_all_probes(self) -> bool:
        """Return whether the server counts as gone.

        It does if enough probes failed, or if all pauses together were longer than
        `Retry.patience`. A server that was never reached gets fewer probes, because it most likely
        does not run.
        """
        max_probes = self._retry.retries
        if not self._is_reached:
            max_probes = min(max_probes, FIRST_PROBES)
        has_sent_enough = self._probes > 0 and self._probes >= max_probes
        has_waited_enough = self._waited > self._retry.patience
        return has_sent_enough or has_waited_enough

    def _give_up(self) -> ServerFault:
        """Return the fatal fault that ends the run, with a message that says how to resume it.

        The counts are reset so that a later run with the same model object sends one probe at once.
        """
        self._probes, self._waited, self._pause = max(self._retry.retries - 1, 0), 0.0, 0.0
        if not self._is_reached:
            detail = (
                f"stopped, because no request got through ({self._fault.detail}); start the server or correct its "
                "address, and repeat the command; ?stop_after=0 keeps trying"
            )
            return replace(self._fault, detail=detail, fatal=True)
        detail = (
            f"stopped, because the last {self.failures} requests all failed ({self._fault.detail}); replies so "
            "far are stored, and repeating the command resumes the run; ?stop_after=0 never stops"
        )
        return replace(self._fault, detail=detail, fatal=True)
