"""Tasks that wait to send a request, and can be stopped without losing a reply."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager


class IdleTasks:
    """The tasks that wait to send a request, and can be stopped without losing anything."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[object]] = set()
        self._is_stopping = False

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Register the current task as waiting while the block runs. Raises CancelledError once all tasks are to stop."""
        task = asyncio.current_task()
        if self._is_stopping or task is None:
            raise asyncio.CancelledError
        self._tasks.add(task)
        try:
            yield
        finally:
            self._tasks.discard(task)

    def stop(self) -> None:
        """Cancel all that wait, and all that are about to."""
        self._is_stopping = True
        for task in tuple(self._tasks):
            task.cancel()

    def go_on(self) -> None:
        """Let tasks wait again."""
        self._is_stopping = False
