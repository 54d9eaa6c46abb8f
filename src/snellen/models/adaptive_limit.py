"""How many requests may be in flight: fewer while a server reports a rate limit, more as it answers again."""

from __future__ import annotations

import asyncio
from collections import deque

REFUSED, ANSWERED = 17, -3
"""What a rate limit and an answer add to the evidence against the limit: nothing in the mean where 15% are refused. A
server that turns away a few, however many are in flight, would otherwise be asked ever more slowly for nothing."""
ENOUGH = 160
"""Evidence that lowers the limit: of ten refusals in a row, or of as many as there are slots where that is less. Where
10% are refused whatever the load, chance alone collects it about once in 35,000 outcomes."""


class AdaptiveLimit:
    """A number of slots, lowered in proportion to the share of rate-limited requests, raised by one where it is small.

    Whether the share is too large for chance is told by a cumulative sum (Page 1954), which waits longer where less is
    refused. Additive increase, by one for as many outcomes as there are slots, and multiplicative decrease (Chiu and
    Jain 1989), by half the share that was limited, as DCTCP does it (Alizadeh et al. 2010), and no clock. Requests that
    acquired their slot before the last decrease do not count, since they reflect the load before it.
    """

    def __init__(self, maximum: int) -> None:
        self.maximum = maximum
        self.allowed = maximum
        self.in_use = 0
        self._evidence = self._successes = self._limited = self._peak = 0
        self._calm = self._decreases = 0
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
        """Record that a request was answered; `acquired` is what `acquire` returned for it."""
        if acquired == self._decreases:
            self._successes += 1
            self._learn(ANSWERED)

    def slow_down(self, acquired: int) -> None:
        """Record that a request was rate limited; `acquired` is what `acquire` returned for it."""
        if acquired == self._decreases:
            self._limited += 1
            self._learn(REFUSED)

    def _learn(self, evidence: int) -> None:
        """Adapt how many requests may be in flight to whether the service accepts or refuses them.

        Args:
            evidence: Added to the evidence that there are too many: positive for a refused request, negative for a success. With
                enough evidence the limit falls, by up to a half. It rises by one after a calm time.
        """
        self._evidence = max(0, self._evidence + evidence)
        self._peak = max(self._peak, self.in_use)
        self._calm += 1
        enough = min(ENOUGH, REFUSED * self.allowed)
        if self._evidence >= enough:
            share = self._limited / (self._limited + self._successes)
            self._decreases += 1
            # Of what was actually in flight: lowering an unused allowance would change nothing.
            self.allowed = max(1, int(min(self.allowed, self._peak) * (1 - share / 2)))
            self._evidence = self._calm = self._peak = 0
        elif self._calm >= self.allowed and self._evidence * 2 < enough:
            self._calm = self._peak = 0
            if self.allowed < self.maximum:
                self.allowed += 1
                self._wake()
        if not self._evidence:
            self._successes = self._limited = 0

    def _wake(self) -> None:
        while self._waiting and self.in_use < self.allowed:
            turn = self._waiting.popleft()
            if not turn.done():
                self.in_use += 1
                turn.set_result(None)
