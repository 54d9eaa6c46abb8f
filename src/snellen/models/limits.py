"""Limits the number of requests in flight, and lowers the limit while the server reports a rate limit."""

from __future__ import annotations

import asyncio
from collections import deque

TOLERATED = 0.15
"""Share of rate-limited requests at which the limit neither grows nor shrinks. A server that turns away a few, however
many are in flight, would otherwise be asked ever more slowly for nothing."""


class AdaptiveLimit:
    """A number of slots, lowered in proportion to the share of rate-limited requests, raised by one without any.

    A window is as many outcomes as there are slots. Additive increase and multiplicative decrease (Chiu and Jain
    1989), the decrease by half the share of the window that was limited, as DCTCP does it (Alizadeh et al. 2010), and
    no clock. Requests that acquired their slot before the last decrease do not count, since they reflect the load
    before it.
    """

    def __init__(self, maximum: int) -> None:
        self.maximum = maximum
        self.allowed = maximum
        self.in_use = 0
        self._successes = self._limited = self._peak = 0
        self._decreases = 0
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
            self._end_window()

    def slow_down(self, acquired: int) -> None:
        """A request, whose `acquire` returned `acquired`, was rate limited."""
        if acquired == self._decreases:
            self._limited += 1
            self._end_window()

    def _end_window(self) -> None:
        outcomes = self._successes + self._limited
        self._peak = max(self._peak, self.in_use)
        if outcomes < self.allowed:
            return
        share, peak = self._limited / outcomes, self._peak
        self._successes = self._limited = self._peak = 0
        if share > TOLERATED:
            self._decreases += 1
            # Of what was actually in flight: lowering an unused allowance would change nothing.
            self.allowed = max(1, int(min(self.allowed, peak) * (1 - share / 2)))
        elif self.allowed < self.maximum:
            self.allowed += 1
            self._wake()

    def _wake(self) -> None:
        while self._waiting and self.in_use < self.allowed:
            turn = self._waiting.popleft()
            if not turn.done():
                self.in_use += 1
                turn.set_result(None)
