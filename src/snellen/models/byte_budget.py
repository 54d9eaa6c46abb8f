"""A budget for the bytes of requests that are composed and not yet sent."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

MOST_IN_HAND = 64 << 20
"""Bytes of requests that are on their way to a model's servers at once."""


class ByteBudget:
    """A budget for the bytes of requests that are made and not yet sent: what is over it waits.

    Large images would otherwise be in memory as often as requests are in flight. The last to find room may exceed the
    budget, so a request larger than all of it is sent as well.
    """

    def __init__(self, most: int = MOST_IN_HAND) -> None:
        self.most = most
        self.held = 0
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def room(self) -> None:
        """Wait until less than the budget is held. Whoever then holds something must do so in the same turn."""
        while self.held >= self.most:
            turn = asyncio.get_running_loop().create_future()
            self._waiting.append(turn)
            await turn

    @contextmanager
    def holding(self, size: int) -> Iterator[None]:
        """Hold so many bytes during the block."""
        self.held += size
        try:
            yield
        finally:
            self.held -= size
            if self.held < self.most:
                waiting, self._waiting = self._waiting, deque()
                for turn in waiting:
                    if not turn.done():
                        turn.set_result(None)
