"""The driver of models behind a network: many requests in flight.

Coroutines run from ordinary code, also in a notebook, whose thread already has a running event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import ExitStack, contextmanager, nullcontext
from types import MappingProxyType, TracebackType
from typing import Any, TypeVar

from snellen.common.images import Images
from snellen.errors import SnellenError
from snellen.fetching.attendance import attendance
from snellen.models.base import AsyncModel, Model, ServerGoneError, StopsSending, WaitsToAskAgain
from snellen.records import EVALUATED, Exchange, Request, Response
from snellen.runs.drivers import (
    NO_BUDGET,
    ProgressCallback,
    RunBudget,
    WorkItem,
    advance_item,
    check_response,
    finished_questions,
    played_role,
    sent_since,
)
from snellen.runs.interrupts import GRACE_SECONDS, StopRequest, stop_loop
from snellen.runs.run_store import RunStore

MOST_WAITING = 4096
"""Maximum number of items that wait for a retry while other items use their slots."""


async def drive_async(
    model: AsyncModel,
    items: Iterator[WorkItem],
    store: RunStore,
    *,
    roles: Mapping[str, AsyncModel] = MappingProxyType({}),
    budget: RunBudget = NO_BUDGET,
    progress: ProgressCallback = lambda update: None,
) -> None:
    """Run all items with models behind a network, with as many requests in flight as the models allow.

    Raises:
        ModelError: A model is unusable. Replies that arrived before are stored.
        Interrupted: A signal arrived. Replies that were in flight at that time are stored, too.
    """
    asker = _Asker({EVALUATED: model, **roles}, store, budget, progress)
    crew = _Crew(
        asker.slots, [each for each in asker.distinct if isinstance(each, WaitsToAskAgain)]
    )
    source = iter(items)

    async def worker(group: asyncio.TaskGroup) -> None:
        """Process samples one after the other until there are none left, the budget is spent, or the run stops.

        It starts further workers as long as there are fewer than the limit allows.
        """
        for item in source:
            await asker.work_off(item)
            if budget.spent or asker.is_stopping or not crew.stays():
                return
            for _ in range(crew.lacks()):
                group.create_task(worker(group))
        crew.is_full = True

    try:
        with StopRequest(asker.send_nothing_more).listening():
            async with asyncio.TaskGroup() as group:
                for _ in range(crew.lacks()):
                    group.create_task(worker(group))
    except* (SnellenError, OSError) as errors:
        raise _first_error(errors) from None
    finally:
        for distinct_model in asker.distinct:
            await distinct_model.close()


class _Asker:
    """Sends the requests of a run. Of equal requests in flight, only the first is sent."""

    def __init__(
        self,
        models: Mapping[str, AsyncModel],
        store: RunStore,
        budget: RunBudget,
        progress: ProgressCallback,
    ) -> None:
        """Prepare to send requests to models.

        Args:
            models: The model in each role.
            store: Stores the responses.
            budget: Stops sending when it is spent.
            progress: Is called with the number of finished questions.
        """
        self._models = models
        self._store = store
        self._budget = budget
        self._progress = progress
        # A model can have several roles.
        self.distinct = list({id(model): model for model in models.values()}.values())
        most_in_flight = sum(model.concurrency for model in self.distinct)
        # Twice as many as may be in flight, so that another one is ready when a reply arrives.
        self.slots = 2 * most_in_flight
        # A budget counts requests when they are sent, so they must not queue inside a model.
        self._gate = asyncio.Semaphore(most_in_flight) if budget.is_limited else nullcontext()
        self._in_flight: dict[bytes, asyncio.Future[Response]] = {}
        self._sent: dict[bytes, tuple[str, Request]] = {}
        """Protocol and request of each request in flight, by identity."""
        self.is_stopping = False
        """Whether no further request is sent."""

    def send_nothing_more(self) -> None:
        """Stop sending requests, and report how many replies are still awaited."""
        self.is_stopping = True
        for model in self.distinct:
            if isinstance(model, StopsSending):
                model.stop_sending()
        # Cancelled requests disappear with the next step of the event loop.
        asyncio.get_running_loop().call_later(0.1, self._say_what_is_waited_for)

    def _say_what_is_waited_for(self) -> None:
        """Tell the person who interrupted the run how many replies are still awaited."""
        if count := len(self._in_flight):
            replies = "1 reply" if count == 1 else f"{count:,} replies"
            attendance().say(
                f"stopping; waiting up to {GRACE_SECONDS:.0f} s for {replies} still pending; interrupt again to "
                "stop immediately"
            )

    async def work_off(self, item: WorkItem) -> None:
        """Send all requests of an item. If one of them raises, the others are cancelled."""
        wave = item.start()
        responses: list[Response] = []
        is_stored = True
        while True:
            try:
                requests = advance_item(wave, responses)
            except StopIteration:
                self._progress(finished_questions(item, is_stored=is_stored))
                return
            if len(requests) == 1:
                results = [await self._ask(item.label, requests[0], item.images)]
            else:
                async with asyncio.TaskGroup() as group:
                    tasks = [
                        group.create_task(self._ask(item.label, request, item.images))
                        for request in requests
                    ]
                results = [task.result() for task in tasks]
            responses = [response for response, _ in results if response is not None]
            if any(is_new for _, is_new in results):
                is_stored = False
            if len(responses) < len(requests):
                return

    async def _ask(
        self, label: str, request: Request, images: Images
    ) -> tuple[Response | None, bool]:
        """Return the response to a request: a stored one if there is one, otherwise that of the model.

        If the same request is being sent already, its response is used for both.

        Returns:
            The response, and whether it is new. There is none if the budget is spent or the run is stopping, so that
            the request was not sent.
        """
        async with self._gate:
            stored = self._store.find(label, request)
            if stored is not None:
                return stored, False
            identity = self._store.identity(request)
            pending = self._in_flight.get(identity)
            if pending is not None:
                response = await asyncio.shield(pending)
                return self._store.share(label, request, response), True
            if self.is_stopping or not self._budget.take():
                return None, False
            return await self._send(identity, label, request, images), True

    async def _send(
        self, identity: bytes, label: str, request: Request, images: Images
    ) -> Response:
        """Send a request, store its response, and pass it to equal requests that wait for it."""
        future: asyncio.Future[Response] = asyncio.get_running_loop().create_future()
        self._in_flight[identity] = future
        self._sent[identity] = (label, request)
        model = self._models[played_role(request.role, self._models)]
        try:
            response = check_response(request, await model.ask(request, images))
            before = self._store.counts
            self._store.append([Exchange(label, request, response)])
            self._budget.settle(response)
            self._progress(sent_since(self._store, before))
            future.set_result(response)
            return response
        except ServerGoneError as error:
            self._keep_failures(error)
            raise
        finally:
            del self._in_flight[identity]
            self._sent.pop(identity, None)
            if not future.done():
                future.cancel()

    def _keep_failures(self, error: ServerGoneError) -> None:
        """Store a failure for each request that a server had received but not answered when it became unavailable."""
        if error.failure is None:
            return
        for identity, (label, request) in list(self._sent.items()):
            if request.key in error.failing:
                del self._sent[identity]
                self._store.append([Exchange(label, request, error.failure)])


class _Crew:
    """Number of workers: one per slot, and one for each request that waits for a retry, since others can use its slot."""

    def __init__(self, slots: int, models: list[WaitsToAskAgain]) -> None:
        """Start without workers; at most `slots` will work at once."""
        self._slots = slots
        self._models = models
        self._size = 0
        self.is_full = False
        """Whether no items are left for further workers."""

    def _target(self) -> int:
        """Return the number of workers that should run now."""
        waiting_for_retry = sum(model.waiting for model in self._models)
        return self._slots + min(MOST_WAITING, waiting_for_retry)

    def lacks(self) -> int:
        """Return how many workers to start, and count them as started."""
        lacking = 0 if self.is_full else max(0, self._target() - self._size)
        self._size += lacking
        return lacking

    def stays(self) -> bool:
        """Return whether a worker that has finished an item continues. If not, it is no longer counted."""
        if self._size <= self._target():
            return True
        self._size -= 1
        return False


def _first_error(errors: BaseExceptionGroup[BaseException]) -> BaseException:
    """Return the first error in a group, which may contain groups."""
    first = errors.exceptions[0]
    return _first_error(first) if isinstance(first, BaseExceptionGroup) else first


ResultT = TypeVar("ResultT")


class EventLoop:
    """Event loop that runs several coroutines one after the other. A context manager.

    Unlike `asyncio.run`, it keeps the event loop that the user has set for this thread.
    """

    def __enter__(self) -> EventLoop:
        """Open a loop; inside a running one, as in a notebook, it gets a thread of its own."""
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
        """Run a coroutine to its end. An interruption cancels it and is raised after it has ended."""
        if self._thread is None:
            return self._runner.run(work)
        running = self._thread.submit(self._runner.run, work)
        try:
            return running.result()
        except BaseException:
            # Only this thread received the interruption, so it has to stop the other one.
            if not running.done():
                self._stop(running)
            raise

    def _stop(self, running: Future[Any]) -> None:
        """Wait for requests in flight; a second interruption cancels them."""
        try:
            if stop_loop(self._loop):
                wait([running])
        finally:
            if not running.done():
                self._loop.call_soon_threadsafe(self._cancel)

    def _cancel(self) -> None:
        for task in asyncio.all_tasks(self._loop):
            task.cancel()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the loop, and its thread."""
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
    """Synchronous model that sends all requests of a batch at once, as far as the asynchronous model allows."""

    def __init__(self, model: AsyncModel, loop: EventLoop) -> None:
        """Present an asynchronous model as one that answers batches; `loop` runs its requests."""
        self.name = model.name
        self.kinds = model.kinds
        self.batch_size = model.concurrency
        self._model = model
        self._loop = loop

    def fingerprint(self) -> dict[str, str]:
        return self._model.fingerprint()

    def generate(self, requests: Sequence[Request], images: Images) -> Sequence[Response]:
        return self._loop.run(self._ask(requests, images))

    loglikelihood = generate

    async def _ask(self, requests: Sequence[Request], images: Images) -> list[Response]:
        """Return the responses to requests that are sent at the same time."""
        calls = [self._model.ask(request, images) for request in requests]
        return await asyncio.gather(*calls)


@contextmanager
def in_batches(models: Mapping[str, Model | AsyncModel]) -> Iterator[dict[str, Model]]:
    """Make all models answer lists of requests, and yield them by role.

    A model that answers requests asynchronously is wrapped. At the end the wrapped models are closed.
    """
    with ExitStack() as open_models:
        batched: dict[int, Model] = {}
        for model in models.values():
            if id(model) in batched:
                continue
            if isinstance(model, AsyncModel):
                batched[id(model)] = _batched(model, open_models)
            else:
                batched[id(model)] = model
        yield {role: batched[id(model)] for role, model in models.items()}


def _batched(model: AsyncModel, open_models: ExitStack) -> BatchedModel:
    """Return a model adapted to answer batches, and have it closed at the end of `open_models`."""
    loop = open_models.enter_context(EventLoop())
    open_models.callback(lambda: loop.run(model.close()))
    return BatchedModel(model, loop)
