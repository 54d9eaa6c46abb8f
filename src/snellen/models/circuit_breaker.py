"""Stops asking a server that answers nobody, and ends the run when it does not come back."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from msgspec.structs import replace

from snellen.models.retry import Retry
from snellen.models.server_faults import ServerFault
from snellen.records import Response

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
