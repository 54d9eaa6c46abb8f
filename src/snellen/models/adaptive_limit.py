"""Limit the requests in flight: fewer while a server reports a rate limit, more when it answers again."""

from __future__ import annotations

import asyncio
from collections import deque

REFUSED, ANSWERED = 17, -3
"""What one rate-limited request and one answered request add to the evidence that the limit is too high.

If 15% of the requests are refused, the two cancel out: 0.15 * 17 is 0.85 * 3. This leaves the limit alone for a server
that refuses a few requests at any load; lowering the limit would only slow the run down.
"""
ENOUGH = 160
"""The limit is lowered when the evidence reaches this value, which takes ten refusals in a row.

With fewer than ten slots, as many refusals in a row as there are slots are enough. If a server refuses 10% of the
requests at any load, this value is reached by chance about once in 35,000 requests.
"""


class AdaptiveLimit:
    """A number of slots for requests in flight, which adapts to the server's rate limit.

    If too many requests are rate limited, the number of slots is lowered in proportion to their
    share: if half of them are, a quarter of the slots is taken away (as DCTCP does it, Alizadeh et
    al. 2010). After a calm time, which is as many requests as there are slots, one slot is added
    (additive increase and multiplicative decrease, Chiu and Jain 1989). No clock is involved.

    Whether so many refusals can be due to chance is decided by a cumulative sum (Page 1954): each
    refusal adds to it, each answer subtracts from it, and the number is lowered when the sum is
    large enough. Requests that got their slot before the last decrease are not counted, because
    they show the load before it.
    """

    def __init__(self, maximum: int) -> None:
        self.maximum = maximum
        self.allowed = maximum
        self.in_use = 0
        self._evidence = self._successes = self._limited = self._peak = 0
        self._calm = self._decreases = 0
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def acquire(self) -> int:
        """Wait for a slot. Whoever asked first gets the next free one.

        Returns:
            The number of times that the limit was lowered so far. Pass it to `succeeded` or
            `slow_down` when the request has ended, so that outcomes from before the last decrease
            can be ignored.
        """
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
        """Adapt the number of slots after a request was answered or refused.

        With enough evidence, the number falls by up to a half. It rises by one after a calm time.

        Args:
            evidence: What this request adds to the evidence that there are too many slots:
                `REFUSED` (positive) or `ANSWERED` (negative).
        """
        self._evidence = max(0, self._evidence + evidence)
        self._peak = max(self._peak, self.in_use)
        self._calm += 1
        enough = min(ENOUGH, REFUSED * self.allowed)
        if self._evidence >= enough:
            share = self._limited / (self._limited + self._successes)
            self._decreases += 1
            # Start from the number of requests that were really in flight. If fewer slots were used than are allowed,
            # lowering the allowed number a little would change nothing.
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
