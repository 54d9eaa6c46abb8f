"""A model whose requests are answered by workers on a Ray cluster, which may join and leave during the run.

`RayPool` runs on the machine of the user. To a driver it looks like one model behind a network. All requests about an
image go to the same worker, so that what they share is computed once. Requests of a lost worker go to others.

`RayWorker` runs on the cluster. It holds the models of the run, and answers batches of requests. It receives images with
the requests, so it needs no file of the user's machine. This module does not import Ray, which makes an actor of
`RayWorker`.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import platform
from collections import OrderedDict, deque
from collections.abc import Coroutine, Iterable, Mapping, Sequence
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
decode_responses = msgspec.msgpack.Decoder(list[Response]).decode
_request_decoder = msgspec.msgpack.Decoder(list[Request])

DoubtfulGroups = frozenset[tuple[str, AnswerGroup]]
"""Groups of requests, each with the role of its model, in which a worker found a wrong answer."""
SentImage = bytes | str
"""The bytes of an image, or the reason why it could not be read."""


class WorkerInfo(Struct, frozen=True):
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

    def info(self) -> WorkerInfo:
        """Return where this worker runs, and its version of Snellen."""
        return WorkerInfo(platform.node(), os.getpid(), __version__)

    def load(
        self, model: str, roles: Mapping[str, str], benchmarks: Sequence[Path]
    ) -> dict[str, WorkerModel] | Refusal:
        """Load the models of the run.

        Args:
            model: The model string of the evaluated model.
            roles: The model strings of the other models, by role.
            benchmarks: The folders of the benchmarks, for models that read them.

        Returns:
            Facts about each model, by role, or a `Refusal` with the message of an error.
        """
        try:
            loaded_roles = load_roles(roles)
            evaluated = load_evaluated(model, roles, loaded_roles)
            loaded = {EVALUATED: evaluated, **loaded_roles}
            self._models_with_findings: list[HasFindings] = []
            self._withdrawing_models: dict[str, WithdrawsAnswers] = {}
            for role, role_model in loaded.items():
                if isinstance(role_model, NeedsBenchmarks):
                    role_model.prepare(benchmarks)
                if isinstance(role_model, HasFindings):
                    self._models_with_findings.append(role_model)
                if isinstance(role_model, WithdrawsAnswers):
                    self._withdrawing_models[role] = role_model
            # Models behind a network stay open for as long as the worker lives.
            self._open_models = ExitStack()
            self._models = self._open_models.enter_context(synchronous_models(loaded))
            facts = {}
            for role, role_model in loaded.items():
                facts[role] = WorkerModel(
                    name=role_model.name,
                    kinds=frozenset(role_model.kinds),
                    batch_size=self._models[role].batch_size,
                    fingerprint=identity_of(role_model).fingerprint,
                    answers_by_sample=answers_by_sample(role_model),
                )
            return facts
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
            distrusted: Groups of requests for which some worker found a wrong answer. They are answered by a slower
                method that is known to be right.
            digests: Digests of the images of the requests.
            sent_images: The images, in the order of the digests.

        Returns:
            The responses in the order of the requests, with what the models have found out about their replies so far;
            or a `Refusal` with the message of an error.
        """
        for role, group in distrusted:
            if role in self._withdrawing_models:
                self._withdrawing_models[role].distrust(group)
        requests = _request_decoder.decode(encoded)
        images = SentImages(dict(zip(digests, sent_images, strict=True)))
        try:
            responses = self._answer_by_role(requests, images)
        except SnellenError as error:
            return Refusal(str(error))

        findings: dict[str, None] = {}
        for model in self._models_with_findings:
            findings.update(dict.fromkeys(model.findings()))
        disproved: set[tuple[str, AnswerGroup]] = set()
        for role, withdrawing_model in self._withdrawing_models.items():
            for group in withdrawing_model.disproved:
                disproved.add((role, group))
        encoded_responses = msgspec.msgpack.encode(responses)
        return AnsweredBatch(encoded_responses, tuple(findings), frozenset(disproved))

    def _answer_by_role(self, requests: Sequence[Request], images: Images) -> list[Response]:
        """Pass requests to the models of their roles, and return the responses in the order of the requests.

        The requests of a role that are of the same kind are passed to its model in one call.
        """
        indices_by_call: dict[tuple[str, RequestKind], list[int]] = {}
        for index, request in enumerate(requests):
            indices_by_call.setdefault((request.role, request.kind), []).append(index)
        response_by_index: dict[int, Response] = {}
        for (role, kind), indices in sorted(indices_by_call.items()):
            requests_of_call = [requests[index] for index in indices]
            responses = answer_batch(self._models[role], kind, requests_of_call, images)
            response_by_index.update(zip(indices, responses, strict=True))
        return [response_by_index[index] for index in range(len(requests))]


BATCHES_PER_WORKER = 2
"""Batches that are sent to a worker at the same time, so that the next one is ready when it has answered one."""
MAX_LOST_WORKERS = 3
"""Number of workers that may be lost while they answer a request, before the request counts as failed."""
TURNS_TO_WAIT = 4
"""Turns of the event loop to wait for requests that belong together."""
MAX_REMEMBERED_GROUPS = 10_000
"""Number of images for which the pool remembers the worker that has seen them."""
GROW_SECONDS = 10.0
"""Seconds between checks whether the cluster has grown."""


class _Waiting:
    """A request without a response."""

    def __init__(
        self, request: Request, images: Images, response: asyncio.Future[Response]
    ) -> None:
        """Describe a request.

        Args:
            request: The request.
            images: The source of its images.
            response: The future that receives its response.
        """
        self.request = request
        self.images = images
        self.response = response
        self.group = f"{request.benchmark} {request.sample_id}"
        """Requests of one group, such as those about one image, are sent to the same worker."""
        if request.images:
            self.group = request.images[0].digest
        self.n_lost_workers = 0
        """Number of workers that were lost while answering the request."""


class PoolWorker:
    """A worker process on the cluster, as this machine knows it."""

    def __init__(self, actor: Any, info_reference: Any, models_reference: Any) -> None:
        """Refer to a worker process on the cluster. It is ready when its models are loaded.

        Args:
            actor: Ray's handle of the process.
            info_reference: Ray's reference to the result of `RayWorker.info`, which exists once the process runs.
            models_reference: Ray's reference to the result of `RayWorker.load`.
        """
        self.actor = actor
        self.info_reference = info_reference
        self.models_reference = models_reference
        self.info: WorkerInfo | None = None
        """Where the process runs; None until it has started."""
        self.is_ready = False
        self.is_lost = False
        self.sent_batches: deque[list[_Waiting]] = deque()
        """Batches that were sent to it and not answered yet."""

    @property
    def name(self) -> str:
        """Name of the worker in messages, such as `worker 4711 on node3`."""
        if self.info is None:
            return "a worker that had not started"
        return f"worker {self.info.pid} on {self.info.host}"


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
            models: Facts about the model in each role.
            window: The number of requests in a batch; 0 for the batch size of the models.
        """
        self._cluster = cluster
        self.models = models
        self.batch_size = window or max(model.batch_size for model in models.values())
        self.findings: dict[PoolWorker, tuple[str, ...]] = {}
        """What the models of each worker have found out about their replies so far."""
        self.disproved: DoubtfulGroups = frozenset()
        """Groups of requests in which a worker of this session found a wrong answer."""
        self.distrusted: DoubtfulGroups = frozenset()
        """These groups, and the groups in which an earlier session of the run found a wrong answer."""
        self.answered_by_reference: set[str] = set()
        """Keys of requests of distrusted groups that a worker has answered by the slow reference method."""
        self._waiting: OrderedDict[str, deque[_Waiting]] = OrderedDict()
        """Requests that were not sent to a worker yet, by group."""
        self._suspects: deque[_Waiting] = deque()
        """Requests that a worker was answering when it was lost."""
        self._worker_by_group: OrderedDict[str, PoolWorker] = OrderedDict()
        """The worker that has answered requests of a group, the most recent one last."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._turns_to_wait = 0
        self._lost_in_a_row = 0
        self._error: ModelError | None = None

    @property
    def concurrency(self) -> int:
        """Number of requests that may be sent at the same time."""
        return self._cluster.target_count * self.batch_size * BATCHES_PER_WORKER

    async def ask(self, request: Request, images: Images) -> Response:
        """Return the response of any worker. Raises ModelError if no worker can answer."""
        if self._error:
            raise self._error
        if not self._tasks:
            self._begin()
        waiting = _Waiting(request, images, asyncio.get_running_loop().create_future())
        self._waiting.setdefault(waiting.group, deque()).append(waiting)
        self._hand_out_soon()
        return await waiting.response

    async def close(self) -> None:
        """Stop waiting for responses. The workers continue until this process leaves the cluster."""
        tasks = self._tasks
        self._tasks = set()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # --- workers -------------------------------------------------------------------------------------------------

    def _begin(self) -> None:
        """Start to wait for workers that load their models, and for machines that join the cluster."""
        for worker in self._cluster.workers:
            self._spawn(self._admit_when_loaded(worker))
        self._spawn(self._grow())

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Run a coroutine as a task. If it raises an error, the run fails."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        """Forget a task that has ended. If it raised an error, the run fails."""
        self._tasks.discard(task)
        if task.cancelled():
            return
        error = task.exception()
        if error:
            self._fail(f"Ray: {type(error).__name__}: {error}")

    async def _admit_when_loaded(self, worker: PoolWorker) -> None:
        """Wait until a worker has loaded its models, then send requests to it. Exclude it if they are other models."""
        try:
            info = await worker.info_reference
            worker.info = info
            loaded = await worker.models_reference
            reason = self._cluster.why_unusable(info, loaded, self.models)
        except self._cluster.faults as error:
            reason = self._cluster.raised_in_worker(error)
            if not reason:
                self._replace_lost(worker, error)
                return
        if reason:
            self._exclude(worker, reason)
            return
        worker.is_ready = True
        self._cluster.announce(f"Ray: {worker.name} joined")
        self._hand_out_soon()

    def _exclude(self, worker: PoolWorker, reason: str) -> None:
        """Exclude a worker that cannot be used. If it is the only one, the run ends with an error.

        Args:
            worker: The worker.
            reason: Why it cannot be used, for the user.
        """
        self._cluster.exclude(worker)
        if self._cluster.workers:
            self._cluster.announce(f"Ray: {worker.name} is not used: {reason}")
        else:
            self._fail(f"{worker.name}: {reason}")

    async def _grow(self) -> None:
        """Look at intervals whether the cluster has room for further workers, and start them."""
        while True:
            await asyncio.sleep(GROW_SECONDS)
            for worker in self._cluster.grow():
                self._spawn(self._admit_when_loaded(worker))

    def _replace_lost(self, worker: PoolWorker, error: Exception) -> None:
        """Return the requests of a lost worker to the queue, and start a replacement.

        If many workers in a row were lost before they answered anything, the run ends with an error.

        Args:
            worker: The worker.
            error: Ray's error about the loss.
        """
        if worker.is_lost:
            return
        worker.is_lost = True
        worker.is_ready = False
        self._cluster.remove(worker)
        for batch_index, batch in enumerate(worker.sent_batches):
            was_being_answered = batch_index == 0  # so that one of its requests may be the cause
            for waiting in reversed(batch):
                if was_being_answered:
                    waiting.n_lost_workers += 1
                self._put_back(waiting)
        worker.sent_batches.clear()
        self._lost_in_a_row += 1
        if self._lost_in_a_row > MAX_LOST_WORKERS * self._cluster.target_count:
            reason = str(error).partition("\n")[0]
            self._fail(
                f"{self._lost_in_a_row} workers in a row were lost before their first reply ({reason})"
            )
            return
        self._cluster.announce(f"Ray: {worker.name} was lost; other workers take over its requests")
        self._spawn(self._admit_when_loaded(self._cluster.start()))
        self._hand_out_soon()

    def _put_back(self, waiting: _Waiting) -> None:
        """Return a request to the queue, or fail it if too many workers were lost while answering it."""
        if waiting.response.done():
            return
        if waiting.n_lost_workers >= MAX_LOST_WORKERS:
            detail = f"{waiting.n_lost_workers} workers were lost while answering this request"
            failure = Failure("model", detail, waiting.n_lost_workers)
            waiting.response.set_result(Response(error=failure))
        elif waiting.n_lost_workers:
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
        queues: list[Iterable[_Waiting]] = [self._suspects, *self._waiting.values()]
        for worker in self._cluster.workers:
            queues.extend(worker.sent_batches)
        for waiting in itertools.chain.from_iterable(queues):
            if not waiting.response.done():
                waiting.response.set_exception(self._error)
                return

    # --- batches -------------------------------------------------------------------------------------------------

    def _hand_out_soon(self) -> None:
        """Distribute requests after some turns of the event loop, when requests that belong together have arrived."""
        if not self._turns_to_wait:
            self._turns_to_wait = TURNS_TO_WAIT
            self._next_turn()

    def _next_turn(self) -> None:
        """Wait for the rest of the turns of the event loop, then hand the waiting requests to workers.

        Requests of the same group arrive in these turns, so they can go to one worker together.
        """
        self._turns_to_wait -= 1
        if self._turns_to_wait:
            asyncio.get_running_loop().call_soon(self._next_turn)
        elif self._tasks:
            self._hand_out()

    def _hand_out(self) -> None:
        """Send batches to all workers that are ready: each gets a first one, then each a second one, and so on."""
        for batch_count in range(BATCHES_PER_WORKER):
            for worker in self._cluster.workers:
                if not worker.is_ready or len(worker.sent_batches) != batch_count:
                    continue
                batch = self._batch_for(worker)
                if batch:
                    worker.sent_batches.append(batch)
                    self._spawn(self._send_batch(worker, batch))

    def _batch_for(self, worker: PoolWorker) -> list[_Waiting]:
        """Take requests for a worker from the queue, and return them.

        All requests of a group, such as those about one image, are taken together, until the batch is full. Groups of
        which the worker has answered requests before come first. Groups of another worker are left to it. A request
        that may have crashed a worker is sent alone.
        """
        while self._suspects:
            suspect = self._suspects.popleft()
            if not suspect.response.done():
                return [suspect]
        groups_of_worker = []
        new_groups = []
        for group in self._waiting:
            earlier_worker = self._worker_by_group.get(group)
            if earlier_worker is worker:
                groups_of_worker.append(group)
            elif earlier_worker is None or earlier_worker.is_lost:
                new_groups.append(group)
        batch: list[_Waiting] = []
        for group in (*groups_of_worker, *new_groups):
            if len(batch) >= self.batch_size:
                break
            for waiting in self._waiting.pop(group):
                if not waiting.response.done():
                    batch.append(waiting)
            self._worker_by_group[group] = worker
            self._worker_by_group.move_to_end(group)
        while len(self._worker_by_group) > MAX_REMEMBERED_GROUPS:
            self._worker_by_group.popitem(last=False)
        return batch

    async def _send_batch(self, worker: PoolWorker, batch: Sequence[_Waiting]) -> None:
        """Send a batch of requests with their images to a worker, and handle its responses, its error or its loss."""
        images_and_sources: dict[str, tuple[ImageRef, Images]] = {}
        for waiting in batch:
            for image in waiting.request.images:
                images_and_sources[image.digest] = (image, waiting.images)
        digests = list(images_and_sources)
        contents = [_read_image(image, source) for image, source in images_and_sources.values()]
        try:
            encoded = encode_requests([waiting.request for waiting in batch])
            distrusted = self.distrusted
            answer = await worker.actor.answer.remote(encoded, distrusted, digests, *contents)
        except self._cluster.faults as error:
            message = self._cluster.raised_in_worker(error)
            if message:
                self._fail(f"{worker.name} failed: {message}")
            else:
                self._replace_lost(worker, error)
            return
        if isinstance(answer, Refusal):
            self._fail(answer.message)
            return
        for waiting in batch:
            request = waiting.request
            if (request.role, answer_group(request)) in distrusted:
                self.answered_by_reference.add(request.key)
        self._deliver_responses(worker, batch, answer)

    def _deliver_responses(
        self, worker: PoolWorker, batch: Sequence[_Waiting], answer: AnsweredBatch
    ) -> None:
        """Pass the responses of a batch to the requests that wait for them."""
        self._lost_in_a_row = 0
        unanswered = [sent for sent in worker.sent_batches if sent is not batch]
        worker.sent_batches = deque(unanswered)
        self.findings[worker] = answer.findings
        self.disproved |= answer.disproved
        self.distrusted |= answer.disproved
        responses = decode_responses(answer.responses)
        for waiting, response in zip(batch, responses, strict=True):
            if not waiting.response.done():
                waiting.response.set_result(response)
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
        """Return whether the stored answer to a request may be wrong.

        It may if a worker found a wrong answer to a request of the same group, unless this answer is by the slow
        reference method.
        """
        is_disproved = (self._role, answer_group(request)) in self._pool.disproved
        return is_disproved and request.key not in self._pool.answered_by_reference

    def distrust(self, group: AnswerGroup) -> None:
        """Let all workers answer requests of a group by the slow reference."""
        self._pool.distrusted |= {(self._role, group)}


def models_on_ray(pool: RayPool) -> tuple[RoleOnRay, dict[str, RoleOnRay]]:
    """Return the models of a run that are loaded on a cluster: the evaluated one, and the others by role."""
    models = {role: RoleOnRay(pool, role) for role in pool.models}
    evaluated = models.pop(EVALUATED)
    return evaluated, models


def _read_image(image: ImageRef, images: Images) -> SentImage:
    """Return the bytes of an image file, or the message of an error if it cannot be read."""
    try:
        return images.read(image)
    except DataError as error:
        return str(error)
