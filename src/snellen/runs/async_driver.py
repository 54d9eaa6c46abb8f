"""The driver of models behind a network: many requests in flight."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from types import MappingProxyType

from snellen.common.images import Images
from snellen.errors import SnellenError
from snellen.models.base import AsyncModel, WaitsToAskAgain
from snellen.records import EVALUATED, Exchange, Request, Response
from snellen.runs.budget import NO_BUDGET, RunBudget
from snellen.runs.drivers import (
    ProgressCallback,
    ProgressUpdate,
    WorkItem,
    advance_item,
    check_response,
    played_role,
)
from snellen.runs.journal import RunStore

MOST_WAITING = 4096
"""The largest number of items whose requests wait to be sent again while others take their slots."""


async def drive_async(
    model: AsyncModel,
    items: Iterator[WorkItem],
    store: RunStore,
    *,
    roles: Mapping[str, AsyncModel] = MappingProxyType({}),
    budget: RunBudget = NO_BUDGET,
    progress: ProgressCallback = lambda update: None,
) -> None:
    """Run all items with models behind a network, as many at once as they allow.

    Raises ModelError when a model is unusable; what was answered before is stored.
    """
    models = {EVALUATED: model, **roles}
    distinct = list({id(distinct_model): distinct_model for distinct_model in models.values()}.values())
    source = iter(items)
    in_flight: dict[bytes, asyncio.Future[Response]] = {}
    # Twice as many as may be in flight, so that the next is at hand when one comes back.
    slots = 2 * sum(distinct_model.concurrency for distinct_model in distinct)
    # With a budget requests count when they are sent, so they do not queue inside a model.
    gate = asyncio.Semaphore(slots) if budget.is_limited else nullcontext()
    crew = _Crew(slots, [distinct_model for distinct_model in distinct if isinstance(distinct_model, WaitsToAskAgain)])

    async def ask(label: str, request: Request, images: Images) -> Response | None:
        """The response, or None when the budget is spent."""
        async with gate:
            return await ask_now(label, request, images)

    async def ask_now(label: str, request: Request, images: Images) -> Response | None:
        if (stored := store.find(label, request)) is not None:
            return stored
        identity = store.identity(request)
        if (pending := in_flight.get(identity)) is not None:
            response = await asyncio.shield(pending)
            return store.share(label, request, response)
        if not budget.take():
            return None
        future: asyncio.Future[Response] = asyncio.get_running_loop().create_future()
        in_flight[identity] = future
        try:
            response = check_response(request, await models[played_role(request.role, models)].ask(request, images))
            store.append([Exchange(label, request, response)])
            budget.settle(response)
            progress(ProgressUpdate(requests=1, failures=int(response.error is not None)))
            future.set_result(response)
            return response
        finally:
            del in_flight[identity]
            if not future.done():
                future.cancel()

    async def run(item: WorkItem) -> None:
        """Work off one item; when one of its requests raises, the others are cancelled."""
        wave, label = item.start(), item.label
        responses: list[Response] = []
        while True:
            try:
                requests = advance_item(wave, responses)
            except StopIteration:
                progress(ProgressUpdate(items=1))
                return
            if len(requests) == 1:
                came = [await ask(label, requests[0], item.images)]
            else:
                async with asyncio.TaskGroup() as together:
                    asking = [together.create_task(ask(label, request, item.images)) for request in requests]
                came = [task.result() for task in asking]
            responses = [response for response in came if response is not None]
            if len(responses) < len(requests):
                return

    async def worker(group: asyncio.TaskGroup) -> None:
        for item in source:
            await run(item)
            if budget.spent or not crew.stays():
                return
            for _ in range(crew.lacks()):
                group.create_task(worker(group))
        crew.is_full = True

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(crew.lacks()):
                group.create_task(worker(group))
    except* (SnellenError, OSError) as errors:
        raise _first(errors) from None
    finally:
        for distinct_model in distinct:
            await distinct_model.close()


class _Crew:
    """How many workers there are: one per slot, and one more for each request that waits to be sent again, whose slot
    others may use."""

    def __init__(self, slots: int, models: list[WaitsToAskAgain]) -> None:
        self._slots, self._models = slots, models
        self._size = 0
        self.is_full = False
        """Nothing is left for more of them."""

    def _target(self) -> int:
        return self._slots + min(MOST_WAITING, sum(model.waiting for model in self._models))

    def lacks(self) -> int:
        """How many workers are to be started; they count as started."""
        lacking = 0 if self.is_full else max(0, self._target() - self._size)
        self._size += lacking
        return lacking

    def stays(self) -> bool:
        """Whether a worker that has finished an item goes on; otherwise it is no longer counted."""
        is_wanted = self._size <= self._target()
        self._size -= not is_wanted
        return is_wanted


def _first(errors: BaseExceptionGroup[BaseException]) -> BaseException:
    first = errors.exceptions[0]
    return _first(first) if isinstance(first, BaseExceptionGroup) else first
