"""Coroutines run from ordinary code, also in a notebook, whose thread already has a running event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Any, TypeVar

ResultT = TypeVar("ResultT")


class EventLoop:
    """One event loop for several coroutines, one after the other. A context manager.

    `asyncio.run` would leave this thread without the event loop that its user has set.
    """

    def __enter__(self) -> EventLoop:
        self._runner = asyncio.Runner(loop_factory=asyncio.new_event_loop)
        self._loop = self._runner.get_loop()
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            self._thread: ThreadPoolExecutor | None = None
        else:
            self._thread = ThreadPoolExecutor(max_workers=1)
        return self

    def run(self, work: Coroutine[Any, Any, ResultT]) -> ResultT:
        """Run a coroutine to its end. An interruption cancels it, and is raised when it has come to its end."""
        if self._thread is None:
            return self._runner.run(work)
        running = self._thread.submit(self._runner.run, work)
        try:
            return running.result()
        except BaseException:
            if not running.done():  # the interruption came to this thread, which nobody else hears of
                self._loop.call_soon_threadsafe(self._cancel)
            raise

    def _cancel(self) -> None:
        for task in asyncio.all_tasks(self._loop):
            task.cancel()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._thread is None:
            self._runner.close()
            return
        with self._thread as thread:
            thread.submit(self._runner.close).result()


def run_async(work: Coroutine[Any, Any, None]) -> None:
    """Run one coroutine to its end."""
    with EventLoop() as loop:
        loop.run(work)
