"""Tasks that wait to send a request, and can be stopped without losing a reply."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager


class IdleTasks:
    """The tasks that wait to send a request. They can be cancelled without losing a reply.

    A task whose request is on its way is not in this set, so it is never cancelled here.
    """

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[object]] = set()
        self._is_stopping = False

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Count the current task as waiting inside the block, so that `stop` cancels it.

        Raises CancelledError if `stop` was called already, and `go_on` was not called since.
        """
        task = asyncio.current_task()
        if self._is_stopping or task is None:
            raise asyncio.CancelledError
        self._tasks.add(task)
        try:
            yield
        finally:
            self._tasks.discard(task)

    def stop(self) -> None:
        """Cancel all tasks that wait now, and each task that is going to wait until `go_on` is called."""
        self._is_stopping = True
        for task in tuple(self._tasks):
            task.cancel()

    def go_on(self) -> None:
        """Allow tasks to wait again after `stop`."""
        self._is_stopping = False
