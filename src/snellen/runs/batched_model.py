"""A model behind a network that is asked in batches, for runs whose other models are local."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager

from snellen.images import Images
from snellen.models.base import AsyncModel, Model
from snellen.records import Request, Response
from snellen.runs.event_loop import EventLoop


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
        made: dict[int, Model] = {}
        for model in models.values():
            if id(model) not in made:
                made[id(model)] = _batched(model, open_models) if isinstance(model, AsyncModel) else model
        yield {role: made[id(model)] for role, model in models.items()}


def _batched(model: AsyncModel, open_models: ExitStack) -> BatchedModel:
    loop = open_models.enter_context(EventLoop())
    open_models.callback(lambda: loop.run(model.close()))
    return BatchedModel(model, loop)
