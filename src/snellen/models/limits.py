"""Limits the number of requests in flight, and lowers the limit while the server reports a rate limit."""

from __future__ import annotations

import asyncio
from collections import deque


class AdaptiveLimit:
    """A number of slots, halved at a rate limit and increased by one after a window of successes.

    Additive increase, multiplicative decrease, as TCP does it (Chiu and Jain 1989), without a clock:
    a window is as many successes as there are slots, and requests that acquired their slot before the
    last decrease cannot cause another one, since they reflect the load before it.
    """

    def __init__(self, maximum: int) -> None:
        self.maximum = maximum
        self.allowed = maximum
        self.in_use = 0
        self._successes = 0
        self._decreases = 0
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def acquire(self) -> int:
        """Wait for a slot, first come first served; pass the returned number to `slow_down`."""
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

    def succeeded(self) -> None:
        """A request was answered."""
        self._successes += 1
        if self._successes >= self.allowed and self.allowed < self.maximum:
            self._successes = 0
            self.allowed += 1
            self._wake()

    def slow_down(self, acquired: int) -> None:
        """A request, whose `acquire` returned `acquired`, was rate limited."""
        if acquired < self._decreases:
            return
        self._decreases += 1
        self._successes = 0
        # Half of what is actually in flight: halving an unused allowance would change nothing.
        self.allowed = max(1, min(self.allowed, self.in_use) // 2)

    def _wake(self) -> None:
        while self._waiting and self.in_use < self.allowed:
            turn = self._waiting.popleft()
            if not turn.done():
                self.in_use += 1
                turn.set_result(None)
