"""Run on a Ray cluster: workers hold the model on their GPUs, and this process sends requests and writes the folder.

The machines of the cluster need Snellen and the model's weights, but no file of this machine. The cluster may grow and
shrink during the run.
"""

from __future__ import annotations

import logging
import math
import os
import signal
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

from msgspec import Struct

from snellen import __version__
from snellen.callers import setting
from snellen.errors import MissingExtraError, ModelError
from snellen.runs.drivers import ProgressCallback
from snellen.runs.finding import Announce, announce_nothing
from snellen.runs.plan import RunPlan
from snellen.runs.ray_pool import (
    PoolWorker,
    RayPool,
    RayWorker,
    Refusal,
    WorkerInfo,
    WorkerModel,
    models_on_ray,
)
from snellen.runs.runner import RunOutcome, run_plan
from snellen.runs.spec import ExecutionSpec
from snellen.runs.unchanged_models import changed_fact

PLACEMENT_SECONDS = 600.0
"""Maximum seconds until the cluster has room for a first worker. A cluster that grows on demand takes minutes."""

CONNECT_SECONDS = 15.0
"""Maximum seconds until the head of a cluster answers."""


class WorkerSize(Struct, frozen=True):
    """The processors (`cpus`) and GPUs of each worker, and how many workers there should be."""

    gpus: float
    cpus: int
    target_count: int


def run_on_ray(
    plan: RunPlan, progress: ProgressCallback, announce: Announce = announce_nothing
) -> RunOutcome:
    """Run a plan on the cluster that its spec names, with the same folder as a run in one process.

    Raises:
        MissingExtraError: Ray is not installed.
        ModelError: The cluster cannot be reached, has no room, or cannot use the model.
        SnellenError: As `run_plan`.
    """
    with _connected(plan.execution) as ray:
        cluster = RayCluster(ray, plan, announce)
        try:
            if not cluster.has_fitting_machine:
                announce(
                    f"Ray: {cluster.no_room_message}; waiting up to {PLACEMENT_SECONDS:.0f} s for one"
                )
            models = cluster.first_models()
            size = cluster.size
            announce(
                f"Ray: up to {size.target_count} workers, {size.gpus:g} GPUs and {size.cpus} CPUs each"
            )
            evaluated, roles = models_on_ray(RayPool(cluster, models, plan.execution.window))
            return run_plan(evaluated, plan, progress, roles)
        finally:
            cluster.dismiss_all()


@contextmanager
def _connected(execution: ExecutionSpec) -> Iterator[ModuleType]:
    """Yield Ray, connected to the cluster. A connection that the user's program has made is reused and left open."""
    with _restored_process_state():
        try:
            import ray
        except ImportError:
            raise MissingExtraError(
                "ray", "ray", f"a run on a cluster ({setting('ray')})"
            ) from None
        if ray.is_initialized():
            yield ray
            return
        _connect(ray, execution)
        try:
            yield ray
        finally:
            ray.shutdown()


def _connect(ray: ModuleType, execution: ExecutionSpec) -> None:
    """Connect to a Ray cluster, or start one here for `ray="auto"`; raises ModelError if that fails."""
    # A cluster that is started here does not send usage statistics to Ray's developers.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    address = None if execution.ray == "auto" else execution.ray
    try:
        _check_reachable(execution.ray)
        ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
    except (OSError, OverflowError, RuntimeError, ValueError, ray.exceptions.RayError) as error:
        # Ray has no class of error for a wrong token; only the message says so.
        messages = f"{error} {error.__cause__}"
        if "authentication" in messages.lower():
            raise ModelError(
                f"ray: the cluster at {execution.ray} requires a token; set RAY_AUTH_MODE=token, and copy "
                "~/.ray/auth_token from its head node to this machine"
            ) from None
        raise ModelError(
            f"ray: cannot join a cluster at {execution.ray} ({_first_line(error)}); run this on a machine of the "
            "cluster (`ray start --address=HEAD:6379`), or remove the address"
        ) from None


def _check_reachable(address: str) -> None:
    """Raise OSError if nothing answers, or OverflowError for an invalid port. Ray itself would wait for minutes."""
    host, _, port = address.rpartition(":")
    if host:
        socket.create_connection((host.strip("[]"), int(port)), timeout=CONNECT_SECONDS).close()


@contextmanager
def _restored_process_state() -> Iterator[None]:
    """At the end of the block, undo what Ray changes in a process when it is imported and connected.

    These are environment variables, the handler of SIGTERM, and the hook for uncaught exceptions.
    """
    variables_before = dict(os.environ)
    handler_before = signal.getsignal(signal.SIGTERM)
    hook_before = sys.excepthook
    try:
        yield
    finally:
        for name in {**variables_before, **os.environ}:
            if not name.startswith(("RAY_", "PYTHONBREAKPOINT")):
                continue
            os.environ.pop(name, None)
            if name in variables_before:
                os.environ[name] = variables_before[name]
        sys.excepthook = hook_before
        has_changed_handler = signal.getsignal(signal.SIGTERM) != handler_before
        if has_changed_handler and handler_before is not None:
            signal.signal(signal.SIGTERM, handler_before)


def _first_line(error: BaseException) -> str:
    """Return the first line of an error's message, or the name of its type if it has none."""
    first_line = str(error).strip().partition("\n")[0]
    return first_line or type(error).__name__


class RayCluster:
    """The workers of a run on a cluster."""

    def __init__(self, ray: ModuleType, plan: RunPlan, announce: Announce) -> None:
        """Start as many workers as fit on the GPUs of the cluster."""
        self._ray = ray
        self._plan = plan
        self.announce = announce
        self._actor_class = ray.remote(RayWorker)
        self.faults = (ray.exceptions.RayError,)
        """Errors that awaiting a worker may raise."""
        self.size = worker_size(plan.execution, ray.nodes())
        self._n_excluded = 0
        """Workers that were removed because they cannot be used, and are not replaced."""
        self.workers = [self._start_worker() for _ in range(self.size.target_count)]

    @property
    def target_count(self) -> int:
        """Intended number of workers."""
        return self.size.target_count

    def _start_worker(self) -> PoolWorker:
        """Request a worker process on the cluster. It starts when there is room for it, and then loads the run's models."""
        [model] = self._plan.question.models
        roles = dict(self._plan.question.roles)
        folders = [use.benchmark.folder.resolve() for use in self._plan.benchmarks]
        actor_class = self._actor_class.options(num_gpus=self.size.gpus, num_cpus=self.size.cpus)
        actor = actor_class.remote()
        info_reference = actor.info.remote()
        models_reference = actor.load.remote(model, roles, folders)
        return PoolWorker(actor, info_reference, models_reference)

    def start(self) -> PoolWorker:
        """Start another worker. It takes part once the cluster has room for it."""
        worker = self._start_worker()
        self.workers.append(worker)
        return worker

    def grow(self) -> list[PoolWorker]:
        """Start workers on machines that have joined, unless the user set the number of workers."""
        target = worker_size(self._plan.execution, self._ray.nodes()).target_count
        lacking = target - self._n_excluded - len(self.workers)
        return [self.start() for _ in range(lacking)]

    def remove(self, worker: PoolWorker) -> None:
        """Remove a worker and kill its process."""
        if worker in self.workers:
            self.workers.remove(worker)
        self._ray.kill(worker.actor)

    def exclude(self, worker: PoolWorker) -> None:
        """Remove a worker that cannot take part, without starting a replacement."""
        self._n_excluded += 1
        self.remove(worker)

    def dismiss_all(self) -> None:
        """Remove all workers, which frees their resources."""
        for worker in list(self.workers):
            self.remove(worker)

    def raised_in_worker(self, error: BaseException) -> str:
        """Return the message of an exception that the code of a worker raised; empty if the worker itself was lost.

        Args:
            error: The error that Ray raised when the result of the worker was awaited.
        """
        if not isinstance(error, self._ray.exceptions.RayTaskError):
            return ""
        cause = getattr(error, "cause", None)
        if isinstance(cause, self.faults):
            return ""
        if cause is None:
            return _first_line(error)
        return f"{type(cause).__name__}: {_first_line(cause)}"

    def why_unusable(
        self,
        info: WorkerInfo,
        loaded: dict[str, WorkerModel] | Refusal,
        models: dict[str, WorkerModel],
    ) -> str:
        """Return why a worker cannot be used together with the others, as a part of a message; empty if it can.

        Args:
            info: The version of Snellen of the worker.
            loaded: The models that the worker has loaded, or why it could not.
            models: The models that the others have loaded, by role.
        """
        if info.version != __version__:
            return f"it has Snellen {info.version}, but this machine has {__version__}; install the same version"
        if isinstance(loaded, Refusal):
            return loaded.message
        for role, model in models.items():
            difference = changed_fact(model.fingerprint, loaded[role].fingerprint)
            if difference:
                return f"its model differs from the others' ({difference})"
        return ""

    def first_models(self) -> dict[str, WorkerModel]:
        """Wait until a worker has loaded the models, and return facts about them by role.

        Raises:
            ModelError: No worker could start or load the models.
        """
        info_references = [worker.info_reference for worker in self.workers]
        started, _ = self._ray.wait(info_references, timeout=PLACEMENT_SECONDS)
        if not started:
            raise ModelError(
                f"ray: no worker could start within {PLACEMENT_SECONDS:.0f} s: {self.no_room_message}; see "
                "`ray status`, or set gpus_per_worker"
            )
        while True:
            worker_by_reference = {worker.models_reference: worker for worker in self.workers}
            [ready_reference], _ = self._ray.wait(list(worker_by_reference), num_returns=1)
            worker = worker_by_reference[ready_reference]
            try:
                worker.info, loaded = self._ray.get([worker.info_reference, ready_reference])
            except self.faults as error:
                self.remove(worker)
                if not self.workers:
                    raise ModelError(
                        f"{worker.name} could not load the model: {self._reason(error)}"
                    ) from None
                continue
            reason = self.why_unusable(worker.info, loaded, {})
            if reason and isinstance(loaded, Refusal):
                raise ModelError(reason)
            if reason:
                raise ModelError(f"{worker.name}: {reason}")
            models: dict[str, WorkerModel] = loaded
            return models

    def _reason(self, error: BaseException) -> str:
        return self.raised_in_worker(error) or _first_line(error)

    @property
    def has_fitting_machine(self) -> bool:
        """Whether a machine of the cluster has enough GPUs and processors for a worker, even if they are in use now."""
        for node in self._ray.nodes():
            if not node["Alive"]:
                continue
            resources = node["Resources"]
            has_gpus = resources.get("GPU", 0.0) >= self.size.gpus
            has_processors = resources.get("CPU", 0.0) >= self.size.cpus
            if has_gpus and has_processors:
                return True
        return False

    @property
    def no_room_message(self) -> str:
        """A message that says why no worker can be started."""
        machines = [node["Resources"] for node in self._ray.nodes() if node["Alive"]]
        most_gpus = max((machine.get("GPU", 0.0) for machine in machines), default=0.0)
        return (
            f"a worker needs {self.size.gpus:g} GPUs and {self.size.cpus} CPUs on one machine, but no machine of "
            f"the cluster has as many free (at most {most_gpus:g} GPUs)"
        )


def worker_size(execution: ExecutionSpec, nodes: list[dict[str, Any]]) -> WorkerSize:
    """Return how many GPUs and processors a worker on a cluster gets, and how many workers there are.

    Without GPUs, the workers of a machine share its processors.

    Args:
        execution: The settings of the user. What they leave open follows from the machines.
        nodes: The machines of the cluster, in the format of `ray.nodes()`.
    """
    machines = []
    for node in nodes:
        resources = node["Resources"]
        if node["Alive"] and resources.get("CPU"):
            machines.append(resources)
    gpus = execution.gpus_per_worker
    if gpus is None:
        has_gpu = any(machine.get("GPU") for machine in machines)
        gpus = 1.0 if has_gpu else 0.0
    n_fitting = len(machines)
    if gpus:
        n_fitting = sum(int(machine.get("GPU", 0) / gpus) for machine in machines)
    n_workers = execution.ray_workers or max(n_fitting, 1)
    if gpus or not machines:
        return WorkerSize(gpus, 1, n_workers)
    fewest_cpus = min(machine["CPU"] for machine in machines)
    workers_per_machine = math.ceil(n_workers / len(machines))
    cpus = max(int(fewest_cpus // workers_per_machine), 1)
    return WorkerSize(gpus, cpus, n_workers)
