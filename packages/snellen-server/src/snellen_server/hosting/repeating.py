"""Work that every process of a server repeats, unlike a job, which one process does for all."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

from snellen_server.hosting.monitoring import LOGGER
from snellen_server.hosting.services import Services


@asynccontextmanager
async def repeating(
    services: Services, seconds: float, work: Callable[[Services], Awaitable[None]]
) -> AsyncIterator[None]:
    """Repeat some work in this process while the context is open, the first time after `seconds`.

    What the work raises is logged, and it is repeated all the same.
    """

    async def repeat() -> None:
        """Carry out the work every `seconds`, until the task is cancelled."""
        while True:
            await asyncio.sleep(seconds)
            try:
                await work(services)
            except Exception as error:  # a fault now is no reason to stop for good
                facts = {"work": work.__name__, "error": type(error).__name__}
                LOGGER.exception("repeated work failed", extra={"facts": facts})

    task = asyncio.create_task(repeat())
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
