"""Limit the memory of requests that were built but are not sent yet."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

MOST_IN_HAND = 64 << 20
"""Bytes of requests that are on their way to a model's servers at once."""


class ByteBudget:
    """A limit on the bytes of requests that were built but are not sent yet. Further requests wait.

    Without it, a large image would be in memory once for each request in flight. The limit is
    checked before a request is built, when its size is not known, so the last request may exceed
    it. A request that is larger than the whole limit can be sent for the same reason.
    """

    def __init__(self, most: int = MOST_IN_HAND) -> None:
        self.most = most
        self.held = 0
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def room(self) -> None:
        """Wait until fewer bytes than the limit are in use.

        Call `holding` before the next `await` that gives way to other tasks. Otherwise another task
        may take the same room.
        """
        while self.held >= self.most:
            turn = asyncio.get_running_loop().create_future()
            self._waiting.append(turn)
            await turn

    @contextmanager
    def holding(self, size: int) -> Iterator[None]:
        """Count `size` bytes as in use inside the block. At its end, wake the tasks that wait for room."""
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
