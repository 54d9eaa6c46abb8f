"""Coroutines run from ordinary code, also in a notebook, whose thread already has a running event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from types import TracebackType
from typing import Any, TypeVar

from snellen.common.images import Images
from snellen.models.base import AsyncModel, Model
from snellen.records import Request, Response

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


# --- models behind a network asked in batches, where other models are local -------------------------------------------


class BatchedModel:
    """All requests of a batch are in flight at once, as far as the model allows."""

    def __init__(self, model: AsyncModel, loop: EventLoop) -> None:
        self.name, self.kinds, self.batch_size = model.name, model.kinds, model.concurrency
        self._model, self._loop = model, loop

    def fingerprint(self) -> dict[str, str]:
        return self._model.fingerprint()

    def generate(self, requests: Sequence[Request], images: Images) -> Sequence[Response]:
        return self._loop.run(self._ask(requests, images))

    loglikelihood = generate

    async def _ask(self, requests: Sequence[Request], images: Images) -> list[Response]:
        return await asyncio.gather(*(self._model.ask(request, images) for request in requests))


@contextmanager
def in_batches(models: Mapping[str, Model | AsyncModel]) -> Iterator[dict[str, Model]]:
    """The models by role, those behind a network asked in batches, and closed at the end."""
    with ExitStack() as open_models:
        batched: dict[int, Model] = {}
        for model in models.values():
            if id(model) not in batched:
                batched[id(model)] = _batched(model, open_models) if isinstance(model, AsyncModel) else model
        yield {role: batched[id(model)] for role, model in models.items()}


def _batched(model: AsyncModel, open_models: ExitStack) -> BatchedModel:
    loop = open_models.enter_context(EventLoop())
    open_models.callback(lambda: loop.run(model.close()))
    return BatchedModel(model, loop)
