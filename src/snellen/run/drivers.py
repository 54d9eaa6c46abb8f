"""Drivers: they carry requests from live protocols to a model, and responses back.

`drive` serves models that answer batches: a window of live protocols, so that all presentations of a
picture travel together. `drive_async` serves models behind a network: many requests in flight.
Both write each response to the store before its protocol sees it.
"""

from __future__ import annotations

import asyncio
import itertools
import math
from collections.abc import Callable, Iterator
from typing import Protocol as Form

from msgspec import Struct
from msgspec.structs import replace

from snellen.errors import ModelError, SnellenError
from snellen.images import Images
from snellen.models.base import AsyncModel, Model
from snellen.prompts.render import Prompt
from snellen.protocols.base import Protocol, Wave
from snellen.records import Exchange, Failure, Kind, Request, Response, Sample
from snellen.run.store import RunStore

KINDS: tuple[Kind, ...] = ("generate", "loglikelihood")


class Errand(Form):
    """What a driver carries to its end: waves of requests, stored under a label."""

    @property
    def label(self) -> str: ...

    @property
    def images(self) -> Images: ...

    def start(self) -> Wave: ...


class Job(Struct, frozen=True):
    """One sample under one protocol."""

    sample: Sample
    protocol: Protocol
    prompt: Prompt
    images: Images
    history: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        return self.protocol.label

    def start(self) -> Wave:
        return self.protocol.ask(self.sample, self.prompt, self.history)


class Tick(Struct, frozen=True):
    """What happened since the last one, for progress bars."""

    jobs: int = 0
    requests: int = 0
    failures: int = 0


Report = Callable[[Tick], object]


class _Live:
    """A protocol under way: the requests it waits for, and what came so far."""

    def __init__(self, job: Errand) -> None:
        self.job, self.label = job, job.label
        self._wave = job.start()
        self.requests: list[Request] = []
        self.responses: list[Response | None] = []

    def advance(self, store: RunStore) -> bool:
        """Go on until something must be asked; False when the protocol has ended."""
        while True:
            if any(response is None for response in self.responses):
                return True
            try:
                self.requests = step(self._wave, [r for r in self.responses if r is not None])
            except StopIteration:
                return False
            self.responses = [store.find(self.label, request) for request in self.requests]

    def missing(self) -> list[int]:
        return [i for i, response in enumerate(self.responses) if response is None]


def step(wave: Wave, responses: list[Response]) -> list[Request]:
    """The next requests of a protocol, after `responses` to its last ones (none at the start)."""
    return wave.send(responses) if responses else next(wave)


def drive(
    model: Model, jobs: Iterator[Errand], store: RunStore, *, window: int = 0, report: Report = lambda tick: None
) -> None:
    """Run all jobs with a model that answers batches; `window` is how many requests it gets at once.

    Raises ModelError when the model is unusable; what was answered before is stored.
    """
    window = window or model.batch_size
    live: list[_Live] = []
    waiting = 0
    for job in jobs:
        one = _Live(job)
        if one.advance(store):
            live.append(one)
            waiting += len(one.missing())
        else:
            report(Tick(jobs=1))
        if waiting >= window:
            live = _serve(model, live, store, report)
            waiting = sum(len(one.missing()) for one in live)
    while live:
        live = _serve(model, live, store, report)


def _serve(model: Model, live: list[_Live], store: RunStore, report: Report) -> list[_Live]:
    """Ask what all live protocols wait for; the ones that go on."""
    for kind in KINDS:
        waiting = [(one, i) for one in live for i in one.missing() if one.requests[i].kind == kind]
        for _, group in itertools.groupby(waiting, key=lambda pair: id(pair[0].job.images)):
            _ask(model, kind, list(group), store, report)
    left = []
    for one in live:
        if one.advance(store):
            left.append(one)
        else:
            report(Tick(jobs=1))
    return left


def _ask(model: Model, kind: Kind, waiting: list[tuple[_Live, int]], store: RunStore, report: Report) -> None:
    """Ask each different request once; the store answers its other presentations."""
    first = {one.requests[i].key: (one, i) for one, i in reversed(waiting)}
    asked = [(one, i) for one, i in waiting if first[one.requests[i].key] == (one, i)]
    requests = [one.requests[i] for one, i in asked]
    responses = _answer(model, kind, requests, waiting[0][0].job.images)
    store.append(
        Exchange(one.label, request, response)
        for (one, _), request, response in zip(asked, requests, responses, strict=True)
    )
    given = {request.key: response for request, response in zip(requests, responses, strict=True)}
    for one, i in waiting:
        request = one.requests[i]
        own = first[request.key] == (one, i)
        one.responses[i] = given[request.key] if own else store.share(one.label, request, given[request.key])
    report(Tick(requests=len(responses), failures=sum(response.error is not None for response in responses)))


def _answer(model: Model, kind: Kind, requests: list[Request], images: Images) -> list[Response]:
    ask = model.generate if kind == "generate" else model.loglikelihood
    responses = list(ask(requests, images))
    if len(responses) != len(requests):
        raise ModelError(f"{model.name} gave {len(responses)} responses to {len(requests)} requests")
    return [check_response(request, response) for request, response in zip(requests, responses, strict=True)]


def check_response(request: Request, response: Response) -> Response:
    """The response, or a failure in its place when it does not answer the request."""
    if response.error is not None:
        return response
    if request.kind == "generate":
        return _readable(response) if response.text is not None else _failed("the model gave no text")
    if len(response.scores) != len(request.continuations):
        return _failed(f"the model gave {len(response.scores)} scores for {len(request.continuations)} continuations")
    # JSON has no way to write them, and no comparison means anything with them.
    if wrong := [score.sum for score in response.scores if not math.isfinite(score.sum)]:
        return _failed(f"the model gave {wrong[0]} for a log-likelihood")
    return response


def _readable(response: Response) -> Response:
    """The same, half characters (which no file can hold) replaced."""
    text = response.text or ""
    whole = text.encode("utf-8", "replace").decode()
    return response if whole == text else replace(response, text=whole, notes=(*response.notes, "half characters"))


def _failed(detail: str) -> Response:
    return Response(error=Failure("model", detail))


async def drive_async(
    model: AsyncModel, jobs: Iterator[Errand], store: RunStore, *, report: Report = lambda tick: None
) -> None:
    """Run all jobs with a model behind a network, as many at once as it allows.

    Raises ModelError when the model is unusable; what was answered before is stored.
    """
    source = iter(jobs)
    asked: dict[str, asyncio.Future[Response]] = {}

    async def ask(label: str, request: Request, images: Images) -> Response:
        if (known := store.find(label, request)) is not None:
            return known
        if (pending := asked.get(request.key)) is not None:
            response = await asyncio.shield(pending)
            return store.share(label, request, response)
        future: asyncio.Future[Response] = asyncio.get_running_loop().create_future()
        asked[request.key] = future
        try:
            response = check_response(request, await model.ask(request, images))
            store.append([Exchange(label, request, response)])
            report(Tick(requests=1, failures=int(response.error is not None)))
            future.set_result(response)
            return response
        finally:
            del asked[request.key]
            if not future.done():
                future.cancel()

    async def run(job: Errand) -> None:
        """One job to its end; when one of its requests raises, the others are cancelled."""
        wave, label = job.start(), job.label
        responses: list[Response] = []
        while True:
            try:
                requests = step(wave, responses)
            except StopIteration:
                report(Tick(jobs=1))
                return
            if len(requests) == 1:
                responses = [await ask(label, requests[0], job.images)]
            else:
                async with asyncio.TaskGroup() as together:
                    asking = [together.create_task(ask(label, request, job.images)) for request in requests]
                responses = [task.result() for task in asking]

    async def worker() -> None:
        for job in source:
            await run(job)

    try:
        async with asyncio.TaskGroup() as group:
            # Twice as many as may be in flight: those that wait for another attempt leave their slot to others.
            for _ in range(2 * model.concurrency):
                group.create_task(worker())
    except* (SnellenError, OSError) as errors:
        raise _first(errors) from None
    finally:
        await model.close()


def _first(errors: BaseExceptionGroup[BaseException]) -> BaseException:
    first = errors.exceptions[0]
    return _first(first) if isinstance(first, BaseExceptionGroup) else first
