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
from snellen.fetching.user_callbacks import user_callbacks
from snellen.models.base import AsyncModel, Model, ServerGoneError, StopsSending, WaitsToAskAgain
from snellen.records import EVALUATED, Exchange, Request, Response
from snellen.runs.drivers import (
    NO_BUDGET,
    ProgressCallback,
    RunBudget,
    WorkItem,
    check_response,
    checked_role,
    next_requests,
    progress_of_finished,
    progress_since,
)
from snellen.runs.interrupts import GRACE_SECONDS, StopRequest, stop_loop
from snellen.runs.run_store import RunStore

MAX_WAITING_FOR_RETRY = 4096
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
    sender = _RequestSender({EVALUATED: model, **roles}, store, budget, progress)
    retrying_models: list[WaitsToAskAgain] = []
    for distinct_model in sender.distinct_models:
        if isinstance(distinct_model, WaitsToAskAgain):
            retrying_models.append(distinct_model)
    worker_count = _WorkerCount(sender.slots, retrying_models)
    remaining_items = iter(items)

    async def worker(group: asyncio.TaskGroup) -> None:
        """Process items one after the other until none is left, the budget is exhausted, or the run stops.

        It starts further workers as long as there are fewer than the limit allows.
        """
        for item in remaining_items:
            await sender.run_item(item)
            is_ending = budget.exhausted_by or sender.is_stopping
            if is_ending or not worker_count.keep_one():
                return
            for _ in range(worker_count.add_missing()):
                group.create_task(worker(group))
        worker_count.has_no_items_left = True

    try:
        with StopRequest(sender.send_nothing_more).listening():
            async with asyncio.TaskGroup() as group:
                for _ in range(worker_count.add_missing()):
                    group.create_task(worker(group))
    except* (SnellenError, OSError) as errors:
        raise _first_error(errors) from None
    finally:
        for distinct_model in sender.distinct_models:
            await distinct_model.close()


class _RequestSender:
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
            budget: Stops sending when one of its limits is reached.
            progress: Is called with the number of finished questions.
        """
        self._models = models
        self._store = store
        self._budget = budget
        self._progress = progress
        # A model can have several roles.
        model_by_id = {id(model): model for model in models.values()}
        self.distinct_models = list(model_by_id.values())
        max_in_flight = sum(model.concurrency for model in self.distinct_models)
        # Twice as many as may be in flight, so that another one is ready when a reply arrives.
        self.slots = 2 * max_in_flight
        # A budget counts requests when they are sent, so they must not queue inside a model.
        self._gate = asyncio.Semaphore(max_in_flight) if budget.is_limited else nullcontext()
        self._in_flight: dict[bytes, asyncio.Future[Response]] = {}
        """The response to each request in flight, by the digest that equal requests share (`RunStore.identity`)."""
        self._sent: dict[bytes, tuple[str, Request]] = {}
        """The protocol and the content of each request in flight, by the same digest."""
        self.is_stopping = False
        """Whether no further request is sent."""

    def send_nothing_more(self) -> None:
        """Stop sending requests, and report how many replies are still awaited."""
        self.is_stopping = True
        for model in self.distinct_models:
            if isinstance(model, StopsSending):
                model.stop_sending()
        # Cancelled requests disappear with the next step of the event loop.
        asyncio.get_running_loop().call_later(0.1, self._announce_pending_replies)

    def _announce_pending_replies(self) -> None:
        """Tell the person who interrupted the run how many replies are still awaited."""
        count = len(self._in_flight)
        if not count:
            return
        replies = "1 reply" if count == 1 else f"{count:,} replies"
        user_callbacks().say(
            f"stopping; waiting up to {GRACE_SECONDS:.0f} s for {replies} still pending; interrupt again to "
            "stop immediately"
        )

    async def run_item(self, item: WorkItem) -> None:
        """Send all requests of a unit of work, such as a sample under a protocol.

        If one request raises an error, the others are cancelled. If one is not sent, because the budget is exhausted
        or the run is stopping, the unit of work is left unfinished.
        """
        generator = item.start()
        responses: list[Response] = []
        is_stored = True
        while True:
            try:
                requests = next_requests(generator, responses)
            except StopIteration:
                self._progress(progress_of_finished(item, is_stored=is_stored))
                return
            if len(requests) == 1:
                results = [await self._response_to(item.label, requests[0], item.images)]
            else:
                async with asyncio.TaskGroup() as group:
                    tasks = [
                        group.create_task(self._response_to(item.label, request, item.images))
                        for request in requests
                    ]
                results = [task.result() for task in tasks]
            responses = []
            for response, is_new in results:
                if response is not None:
                    responses.append(response)
                if is_new:
                    is_stored = False
            if len(responses) < len(requests):
                return

    async def _response_to(
        self, label: str, request: Request, images: Images
    ) -> tuple[Response | None, bool]:
        """Return the response to a request: a stored one if there is one, otherwise that of the model.

        If the same request is being sent already, its response is used for both.

        Args:
            label: The label of the protocol.
            request: The request.
            images: The source of its images.

        Returns:
            The response, and whether it is new. The response is None if the request was not sent, because the budget
            is exhausted or the run is stopping.
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
            if self.is_stopping or not self._budget.allow_request():
                return None, False
            return await self._send(identity, label, request, images), True

    async def _send(
        self, identity: bytes, label: str, request: Request, images: Images
    ) -> Response:
        """Send a request, store its response, and pass it to equal requests that wait for it.

        Args:
            identity: The digest that equal requests share (`RunStore.identity`).
            label: The label of the protocol.
            request: The request.
            images: The source of its images.
        """
        future: asyncio.Future[Response] = asyncio.get_running_loop().create_future()
        self._in_flight[identity] = future
        self._sent[identity] = (label, request)
        model = self._models[checked_role(request.role, self._models)]
        try:
            reply = await model.ask(request, images)
            response = check_response(request, reply)
            counts_before = self._store.counts
            self._store.append([Exchange(label, request, response)])
            self._budget.record_response(response)
            self._progress(progress_since(self._store, counts_before))
            future.set_result(response)
            return response
        except ServerGoneError as error:
            self._store_failures(error)
            raise
        finally:
            del self._in_flight[identity]
            self._sent.pop(identity, None)
            if not future.done():
                future.cancel()

    def _store_failures(self, error: ServerGoneError) -> None:
        """Store a failure for each request that a server had received but not answered when it became unavailable."""
        if error.failure is None:
            return
        for identity, (label, request) in list(self._sent.items()):
            if request.key in error.failing:
                del self._sent[identity]
                self._store.append([Exchange(label, request, error.failure)])


class _WorkerCount:
    """How many coroutines process items at the same time.

    There is one for each slot, and one for each request that waits for a retry, because it does not use its slot.
    """

    def __init__(self, slots: int, models: list[WaitsToAskAgain]) -> None:
        """Start with a count of zero.

        Args:
            slots: The number of requests that may be in flight or ready to be sent.
            models: The models that wait before they repeat a failed request.
        """
        self._slots = slots
        self._models = models
        self._count = 0
        self.has_no_items_left = False
        """Whether all items were started, so that further workers would have nothing to do."""

    def _target(self) -> int:
        """Return the number of workers that should run now."""
        waiting_for_retry = sum(model.waiting for model in self._models)
        return self._slots + min(MAX_WAITING_FOR_RETRY, waiting_for_retry)

    def add_missing(self) -> int:
        """Count as many workers as are missing as started, and return their number. The caller has to start them."""
        if self.has_no_items_left:
            return 0
        n_missing = max(0, self._target() - self._count)
        self._count += n_missing
        return n_missing

    def keep_one(self) -> bool:
        """Return whether a worker that has finished an item continues. If not, it is no longer counted."""
        if self._count <= self._target():
            return True
        self._count -= 1
        return False


def _first_error(errors: BaseExceptionGroup[BaseException]) -> BaseException:
    """Return the first error in a group of errors. If it is a group itself, this is its first error, and so on."""
    first = errors.exceptions[0]
    if isinstance(first, BaseExceptionGroup):
        return _first_error(first)
    return first


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
        """Run a coroutine to its end, and return its result.

        An interruption cancels the coroutine, and is raised after the coroutine has ended.
        """
        if self._thread is None:
            return self._runner.run(work)
        result = self._thread.submit(self._runner.run, work)
        try:
            return result.result()
        except BaseException:
            # Only this thread received the interruption, so it has to stop the other one.
            if not result.done():
                self._stop(result)
            raise

    def _stop(self, result: Future[Any]) -> None:
        """Stop the coroutine in the other thread after its requests in flight. A second interruption cancels them.

        Args:
            result: The future result of the coroutine.
        """
        try:
            if stop_loop(self._loop):
                wait([result])
        finally:
            if not result.done():
                self._loop.call_soon_threadsafe(self._cancel_tasks)

    def _cancel_tasks(self) -> None:
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


# --- models behind a network with the interface of a local model, for runs that have both ------------------------------


class SynchronousModel:
    """Adapter that gives an asynchronous model the interface of a local model.

    All requests of a call are sent at once, as far as the concurrency of the asynchronous model allows.
    """

    def __init__(self, model: AsyncModel, loop: EventLoop) -> None:
        """Wrap an asynchronous model; `loop` runs its requests."""
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
def synchronous_models(models: Mapping[str, Model | AsyncModel]) -> Iterator[dict[str, Model]]:
    """Yield the models by role, with all of them as models that answer a list of requests in one call.

    An asynchronous model is wrapped, and closed at the end of the block. A model that has several roles is wrapped
    once.
    """
    with ExitStack() as open_models:
        synchronous: dict[int, Model] = {}
        for model in models.values():
            if id(model) in synchronous:
                continue
            if isinstance(model, AsyncModel):
                synchronous[id(model)] = _wrap(model, open_models)
            else:
                synchronous[id(model)] = model
        yield {role: synchronous[id(model)] for role, model in models.items()}


def _wrap(model: AsyncModel, open_models: ExitStack) -> SynchronousModel:
    """Wrap an asynchronous model as a synchronous one, which is closed at the end of `open_models`."""
    loop = open_models.enter_context(EventLoop())
    open_models.callback(lambda: loop.run(model.close()))
    return SynchronousModel(model, loop)
