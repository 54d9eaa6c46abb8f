"""A model whose requests are answered by workers on a Ray cluster, which come and go.

To a driver it is one model behind a network. An image's requests go to one worker while that lives, together, so that
what they share is computed once; workers take the next images as they have room. What a lost worker had in hand goes
to others.

What runs on a Ray cluster: a worker that holds a run's models and answers batches of requests.

It is given images with the requests and returns responses, so it needs no file of the machine that asks. This module
does not import Ray, which makes an actor of `RayWorker`.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import platform
from collections import OrderedDict, deque
from collections.abc import Coroutine, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from snellen import __version__
from snellen.common.images import Images
from snellen.errors import DataError, ModelError, SnellenError
from snellen.models.base import (
    AnswerGroup,
    HasFindings,
    NeedsBenchmarks,
    WithdrawsAnswers,
    answer_group,
    answers_by_sample,
)
from snellen.models.identity import identity_of
from snellen.records import EVALUATED, Failure, ImageRef, Request, RequestKind, Response
from snellen.runs.async_driver import synchronous_models
from snellen.runs.drivers import answer_batch
from snellen.runs.driving import load_evaluated, load_roles

if TYPE_CHECKING:
    from snellen.runs.ray_cluster import RayCluster

encode_requests = msgspec.msgpack.encode
"""Encodes requests as the journal does. Pickling would not restore which fields have defaults, and so change keys."""
decode_answer = msgspec.msgpack.Decoder(list[Response]).decode
_requests = msgspec.msgpack.Decoder(list[Request])

DoubtfulGroups = frozenset[tuple[str, AnswerGroup]]
"""Groups of requests, each with the role of its model, in which a worker found a wrong answer."""
SentImage = bytes | str
"""The bytes of an image, or the reason why it could not be read."""


class WorkerPlace(Struct, frozen=True):
    """Where a worker runs, and its version of Snellen."""

    host: str
    pid: int
    version: str


class WorkerModel(Struct, frozen=True):
    """The facts about a model that are needed to use it remotely."""

    name: str
    kinds: frozenset[RequestKind]
    batch_size: int
    fingerprint: dict[str, str]
    answers_by_sample: bool


class Refusal(Struct, frozen=True):
    """A line that says why a worker's models cannot be used."""

    message: str


class AnsweredBatch(Struct, frozen=True):
    """Encoded responses in the order of the requests, and what the models have found so far."""

    responses: bytes
    findings: tuple[str, ...] = ()
    disproved: DoubtfulGroups = frozenset()


class SentImages:
    """The images that were sent with a batch."""

    def __init__(self, sent_images: Mapping[str, SentImage]) -> None:
        self._images = sent_images

    def read(self, image: ImageRef) -> bytes:
        """Return the bytes of an image. Raises DataError if the sender could not read it."""
        content = self._images[image.digest]
        if isinstance(content, str):
            raise DataError(content)
        return content


class RayWorker:
    """The models of a run by role, loaded on one machine of a cluster."""

    def place(self) -> WorkerPlace:
        return WorkerPlace(platform.node(), os.getpid(), __version__)

    def load(
        self, model: str, roles: Mapping[str, str], benchmarks: Sequence[Path]
    ) -> dict[str, WorkerModel] | Refusal:
        """Load the evaluated model and those of `roles`. Returns facts about each, by role."""
        try:
            played = load_roles(roles)
            loaded = {EVALUATED: load_evaluated(model, roles, played), **played}
            for role_model in loaded.values():
                if isinstance(role_model, NeedsBenchmarks):
                    role_model.prepare(benchmarks)
            self._checking = [
                role_model for role_model in loaded.values() if isinstance(role_model, HasFindings)
            ]
            self._withdrawing = {
                role: role_model
                for role, role_model in loaded.items()
                if isinstance(role_model, WithdrawsAnswers)
            }
            # Those behind a network are asked in batches too, and stay open for as long as the worker lives.
            self._open = ExitStack()
            self._models = self._open.enter_context(synchronous_models(loaded))
            return {
                role: WorkerModel(
                    role_model.name,
                    frozenset(role_model.kinds),
                    self._models[role].batch_size,
                    identity_of(role_model).fingerprint,
                    answers_by_sample(role_model),
                )
                for role, role_model in loaded.items()
            }
        except SnellenError as error:
            return Refusal(str(error))

    def answer(
        self,
        encoded: bytes,
        distrusted: DoubtfulGroups,
        digests: Sequence[str],
        *sent_images: SentImage,
    ) -> AnsweredBatch | Refusal:
        """Answer a batch of requests with the models of this worker.

        Args:
            encoded: The encoded requests.
            distrusted: Kinds of requests for which some worker found a wrong answer. They are answered by a slower
                method that is known to be right.
            digests: Digests of the images of the requests.
            sent_images: The images, in the order of the digests.

        Returns:
            The responses in the order of the requests, or a `Refusal` with the message of an error.
        """
        for role, group in distrusted:
            if role in self._withdrawing:
                self._withdrawing[role].distrust(group)
        requests = _requests.decode(encoded)
        images = SentImages(dict(zip(digests, sent_images, strict=True)))
        indices_by_group: dict[tuple[str, RequestKind], list[int]] = {}
        for index, request in enumerate(requests):
            indices_by_group.setdefault((request.role, request.kind), []).append(index)
        responses: dict[int, Response] = {}
        try:
            for (role, kind), indices in sorted(indices_by_group.items()):
                group = [requests[index] for index in indices]
                group_responses = answer_batch(self._models[role], kind, group, images)
                responses.update(zip(indices, group_responses, strict=True))
        except SnellenError as error:
            return Refusal(str(error))
        findings: dict[str, None] = {}
        for model in self._checking:
            findings.update(dict.fromkeys(model.findings()))
        disproved: set[tuple[str, AnswerGroup]] = set()
        for role, withdrawing_model in self._withdrawing.items():
            disproved.update((role, group) for group in withdrawing_model.disproved)
        ordered = [responses[index] for index in range(len(requests))]
        return AnsweredBatch(msgspec.msgpack.encode(ordered), tuple(findings), frozenset(disproved))


BATCHES_IN_HAND = 2
"""Batches that a worker holds, so that the next one is ready when it has finished one."""
MOST_LOST = 3
"""Lost workers after which the request that they were answering counts as failed."""
TURNS = 4
"""Turns of the event loop to wait for requests that belong together."""
REMEMBERED_IMAGES = 10_000
"""Number of images for which the worker that has seen them is remembered."""
GROW_SECONDS = 10.0
"""Seconds between checks whether the cluster has grown."""


class _Waiting:
    """A request without a response."""

    def __init__(
        self, request: Request, images: Images, answered: asyncio.Future[Response]
    ) -> None:
        """Queue a request; `answered` is the future of its response."""
        self.request = request
        self.images = images
        self.answered = answered
        self.group = f"{request.benchmark} {request.sample_id}"
        """Requests of one group, such as those about one image, are sent to the same worker."""
        if request.images:
            self.group = request.images[0].digest
        self.lost = 0
        """Workers that were lost while answering the request."""


class PoolWorker:
    """A worker from the view of the pool."""

    def __init__(self, actor: Any, placed: Any, loaded: Any) -> None:
        """Refer to a worker process on the cluster. It is ready when its model is loaded.

        Args:
            actor: Ray's handle of the process.
            placed: Ray's reference to the machine that it will run on (`WorkerPlace`).
            loaded: Ray's reference to what it will have loaded.
        """
        self.actor = actor
        self.placed = placed
        self.loaded = loaded
        self.place: WorkerPlace | None = None
        self.is_ready = False
        self.is_lost = False
        self.in_hand: deque[list[_Waiting]] = deque()
        """Batches that were sent to it and not answered yet."""

    @property
    def name(self) -> str:
        if self.place is None:
            return "a worker that had not started"
        return f"worker {self.place.pid} on {self.place.host}"


class RayPool:
    """The workers of a run, and the requests that wait for them.

    Args:
        cluster: Starts and removes workers.
        models: Facts about the models of every worker, by role.
        window: Requests per batch; 0 for the batch size of the models.
    """

    def __init__(self, cluster: RayCluster, models: dict[str, WorkerModel], window: int) -> None:
        """Prepare to divide requests between the workers of a cluster.

        Args:
            cluster: The cluster.
            models: What is known of the model in each role.
            window: The number of requests that are sent to a worker at a time; 0 for what the models suggest.
        """
        self._cluster = cluster
        self.models = models
        self.batch_size = window or max(model.batch_size for model in models.values())
        self.findings = dict[PoolWorker, tuple[str, ...]]()
        """What the models of each worker have found so far."""
        self.disproved: DoubtfulGroups = frozenset()
        self.distrusted: DoubtfulGroups = frozenset()
        """These, and the groups of answers that an earlier session withdrew."""
        self.asked_by_reference = set[str]()
        """Keys of the requests of these groups that were answered after their worker was told."""
        self._waiting = OrderedDict[str, deque[_Waiting]]()
        self._suspects = deque[_Waiting]()
        self._home = OrderedDict[str, PoolWorker]()
        self._tasks = set[asyncio.Task[None]]()
        self._turns = 0
        self._lost_in_a_row = 0
        self._error: ModelError | None = None

    @property
    def concurrency(self) -> int:
        return self._cluster.target_count * self.batch_size * BATCHES_IN_HAND

    async def ask(self, request: Request, images: Images) -> Response:
        """Return the response of any worker. Raises ModelError if no worker can answer."""
        if self._error:
            raise self._error
        if not self._tasks:
            self._begin()
        waiting = _Waiting(request, images, asyncio.get_running_loop().create_future())
        self._waiting.setdefault(waiting.group, deque()).append(waiting)
        self._hand_out_soon()
        return await waiting.answered

    async def close(self) -> None:
        """Stop waiting for responses. The workers continue until this process leaves the cluster."""
        tasks = self._tasks
        self._tasks = set()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # --- workers -------------------------------------------------------------------------------------------------

    def _begin(self) -> None:
        for worker in self._cluster.workers:
            self._spawn(self._welcome(worker))
        self._spawn(self._grow())

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()):
            self._fail(f"Ray: {type(error).__name__}: {error}")

    async def _welcome(self, worker: PoolWorker) -> None:
        """Let a worker take part as soon as it has loaded the same models."""
        try:
            worker.place = place = await worker.placed
            why = self._cluster.why_not(place, await worker.loaded, self.models)
        except self._cluster.faults as error:
            why = self._cluster.raised_in_worker(error)
            if not why:
                self._lose(worker, error)
                return
        if why:
            self._dismiss(worker, why)
            return
        worker.is_ready = True
        self._cluster.announce(f"Ray: {worker.name} joined")
        self._hand_out_soon()

    def _dismiss(self, worker: PoolWorker, why: str) -> None:
        """Exclude a worker that cannot be used. If it is the only one, the run ends with an error."""
        self._cluster.leave_out(worker)
        if self._cluster.workers:
            self._cluster.announce(f"Ray: {worker.name} is not used: {why}")
        else:
            self._fail(f"{worker.name}: {why}")

    async def _grow(self) -> None:
        """Look at intervals whether the cluster has room for further workers, and start them."""
        while True:
            await asyncio.sleep(GROW_SECONDS)
            for worker in self._cluster.grow():
                self._spawn(self._welcome(worker))

    def _lose(self, worker: PoolWorker, error: Exception) -> None:
        """Return the requests of a lost worker to the queue, and start a replacement."""
        if worker.is_lost:
            return
        worker.is_lost = True
        worker.is_ready = False
        self._cluster.leave(worker)
        # Only requests of the first batch, which it was answering, may have been the cause.
        for number, batch in enumerate(worker.in_hand):
            for waiting in reversed(batch):
                if number == 0:
                    waiting.lost += 1
                self._put_back(waiting)
        worker.in_hand.clear()
        self._lost_in_a_row += 1
        if self._lost_in_a_row > MOST_LOST * self._cluster.target_count:
            reason = str(error).partition("\n")[0]
            self._fail(
                f"{self._lost_in_a_row} workers in a row were lost before their first reply ({reason})"
            )
            return
        self._cluster.announce(f"Ray: {worker.name} was lost; other workers take over its requests")
        self._spawn(self._welcome(self._cluster.start()))
        self._hand_out_soon()

    def _put_back(self, waiting: _Waiting) -> None:
        """Return a request to the queue, or fail it if too many workers were lost while answering it."""
        if waiting.answered.done():
            return
        if waiting.lost >= MOST_LOST:
            detail = f"{waiting.lost} workers were lost while answering this request"
            failure = Failure("model", detail, waiting.lost)
            waiting.answered.set_result(Response(error=failure))
        elif waiting.lost:
            self._suspects.appendleft(waiting)
        else:
            self._waiting.setdefault(waiting.group, deque()).appendleft(waiting)
            self._waiting.move_to_end(waiting.group, last=False)

    def _fail(self, reason: str) -> None:
        """End the run because of an error. One request that still waits for its response raises it.

        Args:
            reason: The message of the error.
        """
        self._error = ModelError(reason)
        being_answered = (batch for worker in self._cluster.workers for batch in worker.in_hand)
        for waiting in itertools.chain(self._suspects, *self._waiting.values(), *being_answered):
            if not waiting.answered.done():
                waiting.answered.set_exception(self._error)
                return

    # --- batches -------------------------------------------------------------------------------------------------

    def _hand_out_soon(self) -> None:
        """Distribute requests after some turns of the event loop, when requests that belong together have arrived."""
        if not self._turns:
            self._turns = TURNS
            self._next_turn()

    def _next_turn(self) -> None:
        """Wait for the rest of the turns of the event loop, then hand the waiting requests to workers.

        Requests of the same group arrive in these turns, so they can go to one worker together.
        """
        self._turns -= 1
        if self._turns:
            asyncio.get_running_loop().call_soon(self._next_turn)
        elif self._tasks:
            self._hand_out()

    def _hand_out(self) -> None:
        """Send batches to all workers that are ready: each gets a first one, then each a second one, and so on."""
        for batch_count in range(BATCHES_IN_HAND):
            for worker in self._cluster.workers:
                if not worker.is_ready or len(worker.in_hand) != batch_count:
                    continue
                batch = self._batch_for(worker)
                if batch:
                    worker.in_hand.append(batch)
                    self._spawn(self._have_answered(worker, batch))

    def _batch_for(self, worker: PoolWorker) -> list[_Waiting]:
        """Return requests up to the size of a batch, with all requests about an image together.

        Images that the worker has seen before come first. A request that may have crashed a worker is sent alone.
        """
        while self._suspects:
            suspect = self._suspects.popleft()
            if not suspect.answered.done():
                return [suspect]
        seen_groups = []
        unseen_groups = []
        for group in self._waiting:
            home = self._home.get(group)
            if home is worker:
                seen_groups.append(group)
            elif home is None or home.is_lost:
                unseen_groups.append(group)
        batch: list[_Waiting] = []
        for group in (*seen_groups, *unseen_groups):
            if len(batch) >= self.batch_size:
                break
            for waiting in self._waiting.pop(group):
                if not waiting.answered.done():
                    batch.append(waiting)
            self._home[group] = worker
            self._home.move_to_end(group)
        while len(self._home) > REMEMBERED_IMAGES:
            self._home.popitem(last=False)
        return batch

    async def _have_answered(self, worker: PoolWorker, batch: Sequence[_Waiting]) -> None:
        """Send a batch of requests with their images to a worker, and handle its responses, its error or its loss."""
        sources: dict[str, tuple[ImageRef, Images]] = {}
        for waiting in batch:
            for image in waiting.request.images:
                sources[image.digest] = (image, waiting.images)
        contents = [_content_of(image, images) for image, images in sources.values()]
        try:
            encoded = encode_requests([waiting.request for waiting in batch])
            distrusted = self.distrusted
            answer = await worker.actor.answer.remote(encoded, distrusted, list(sources), *contents)
        except self._cluster.faults as error:
            raised = self._cluster.raised_in_worker(error)
            if raised:
                self._fail(f"{worker.name} failed: {raised}")
            else:
                self._lose(worker, error)
            return
        if isinstance(answer, Refusal):
            self._fail(answer.message)
            return
        for waiting in batch:
            request = waiting.request
            if (request.role, answer_group(request)) in distrusted:
                self.asked_by_reference.add(request.key)
        self._take_in(worker, batch, answer)

    def _take_in(
        self, worker: PoolWorker, batch: Sequence[_Waiting], answer: AnsweredBatch
    ) -> None:
        """Pass the responses of a batch to the requests that wait for them."""
        self._lost_in_a_row = 0
        worker.in_hand = deque(
            other_batch for other_batch in worker.in_hand if other_batch is not batch
        )
        self.findings[worker] = answer.findings
        self.disproved |= answer.disproved
        self.distrusted |= answer.disproved
        for waiting, response in zip(batch, decode_answer(answer.responses), strict=True):
            if not waiting.answered.done():
                waiting.answered.set_result(response)
        self._hand_out_soon()


class RoleOnRay:
    """The model of one role, with the interface that drivers use."""

    def __init__(self, pool: RayPool, role: str) -> None:
        """Make the workers of a cluster look like a single model.

        Args:
            pool: The workers.
            role: The role of the model in the run, since each worker has a model for every role.
        """
        self._pool = pool
        self._role = role
        self._model = pool.models[role]
        self.name = self._model.name
        self.kinds = self._model.kinds
        self.concurrency = pool.concurrency
        self.answers_by_sample = self._model.answers_by_sample
        self.ask = pool.ask
        self.close = pool.close

    def fingerprint(self) -> dict[str, str]:
        return self._model.fingerprint

    def findings(self) -> tuple[str, ...]:
        """Return the findings of the models of all workers about their own replies."""
        sentences = itertools.chain.from_iterable(self._pool.findings.values())
        return tuple(dict.fromkeys(sentences))

    @property
    def disproved(self) -> frozenset[AnswerGroup]:
        """Groups of requests in which a worker found a wrong answer."""
        return frozenset(group for role, group in self._pool.disproved if role == self._role)

    def doubts(self, request: Request) -> bool:
        """Return whether the answer to an earlier request may be wrong."""
        is_disproved = (self._role, answer_group(request)) in self._pool.disproved
        return is_disproved and request.key not in self._pool.asked_by_reference

    def distrust(self, group: AnswerGroup) -> None:
        """Let all workers answer requests of a group by the slow reference."""
        self._pool.distrusted |= {(self._role, group)}


def models_on_ray(pool: RayPool) -> tuple[RoleOnRay, dict[str, RoleOnRay]]:
    """Return the evaluated model, and those of the other roles."""
    models = {role: RoleOnRay(pool, role) for role in pool.models}
    evaluated = models.pop(EVALUATED)
    return evaluated, models


def _content_of(image: ImageRef, images: Images) -> SentImage:
    """Return the file of an image, or why it cannot be read."""
    try:
        return images.read(image)
    except DataError as error:
        return str(error)
