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
    WorkerModel,
    WorkerPlace,
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
    """Resources of each worker, and the intended number of workers."""

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
                announce(f"Ray: {cluster.no_room}; waiting up to {PLACEMENT_SECONDS:.0f} s for one")
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
    with _process_as_it_was():
        try:
            import ray
        except ImportError:
            raise MissingExtraError(
                "ray", "ray", f"a run on a cluster ({setting('ray')})"
            ) from None
        if ray.is_initialized():
            yield ray
            return
        _join(ray, execution)
        try:
            yield ray
        finally:
            ray.shutdown()


def _join(ray: ModuleType, execution: ExecutionSpec) -> None:
    """Connect to a Ray cluster, or start one here for `ray="auto"`; raises ModelError if that fails."""
    os.environ.setdefault(
        "RAY_USAGE_STATS_ENABLED", "0"
    )  # a cluster of this run's own tells nobody of it
    address = None if execution.ray == "auto" else execution.ray
    try:
        _check_reachable(execution.ray)
        ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
    except (OSError, OverflowError, RuntimeError, ValueError, ray.exceptions.RayError) as error:
        # Another machine's token is not an error of its own class, but a cause in words.
        if "authentication" in f"{error} {error.__cause__}".lower():
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
def _process_as_it_was() -> Iterator[None]:
    """Undo what importing and joining Ray changes in a process: variables, a handler of SIGTERM, a hook."""
    variables, on_terminate, hook = (
        dict(os.environ),
        signal.getsignal(signal.SIGTERM),
        sys.excepthook,
    )
    try:
        yield
    finally:
        for name in [
            name
            for name in {**variables, **os.environ}
            if name.startswith(("RAY_", "PYTHONBREAKPOINT"))
        ]:
            os.environ.pop(name, None)
            if name in variables:
                os.environ[name] = variables[name]
        sys.excepthook = hook
        if signal.getsignal(signal.SIGTERM) != on_terminate and on_terminate is not None:
            signal.signal(signal.SIGTERM, on_terminate)


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
        self._actor = ray.remote(RayWorker)
        self.faults = (ray.exceptions.RayError,)
        """Errors that awaiting a worker may raise."""
        self.size = worker_size(plan.execution, ray.nodes())
        self._left_out = 0
        self.workers = [self._new() for _ in range(self.size.target_count)]

    @property
    def target_count(self) -> int:
        """Intended number of workers."""
        return self.size.target_count

    def _new(self) -> PoolWorker:
        """Request a worker process on the cluster. It starts when there is room for it, and then loads the run's models."""
        [model] = self._plan.question.models
        roles = dict(self._plan.question.roles)
        folders = [use.benchmark.folder.resolve() for use in self._plan.benchmarks]
        actor_class = self._actor.options(num_gpus=self.size.gpus, num_cpus=self.size.cpus)
        actor = actor_class.remote()
        place = actor.place.remote()
        loaded = actor.load.remote(model, roles, folders)
        return PoolWorker(actor, place, loaded)

    def start(self) -> PoolWorker:
        """Start another worker. It takes part once the cluster has room for it."""
        worker = self._new()
        self.workers.append(worker)
        return worker

    def grow(self) -> list[PoolWorker]:
        """Start workers on machines that have joined, unless the user set the number of workers."""
        target = worker_size(self._plan.execution, self._ray.nodes()).target_count
        lacking = target - self._left_out - len(self.workers)
        return [self.start() for _ in range(lacking)]

    def leave(self, worker: PoolWorker) -> None:
        """Remove a worker and kill its process."""
        if worker in self.workers:
            self.workers.remove(worker)
        self._ray.kill(worker.actor)

    def leave_out(self, worker: PoolWorker) -> None:
        """Remove a worker that cannot take part, without starting a replacement."""
        self._left_out += 1
        self.leave(worker)

    def dismiss_all(self) -> None:
        """Remove all workers, which frees their resources."""
        for worker in list(self.workers):
            self.leave(worker)

    def raised_in_worker(self, error: BaseException) -> str:
        """Return the exception of a worker's own code as a line; empty if the worker itself was lost."""
        cause = getattr(error, "cause", None)
        if not isinstance(error, self._ray.exceptions.RayTaskError):
            return ""
        if isinstance(cause, self.faults):
            return ""
        if cause is None:
            return _first_line(error)
        return f"{type(cause).__name__}: {_first_line(cause)}"

    def why_not(
        self,
        place: WorkerPlace,
        loaded: dict[str, WorkerModel] | Refusal,
        models: dict[str, WorkerModel],
    ) -> str:
        """Return why a worker cannot take part with workers that have these models; empty if it can."""
        if place.version != __version__:
            return f"it has Snellen {place.version}, but this machine has {__version__}; install the same version"
        if isinstance(loaded, Refusal):
            return loaded.message
        for role, model in models.items():
            if changed := changed_fact(model.fingerprint, loaded[role].fingerprint):
                return f"its model differs from the others' ({changed})"
        return ""

    def first_models(self) -> dict[str, WorkerModel]:
        """Return the models of the first worker that has loaded them. Raises ModelError if no worker can."""
        placements = [worker.placed for worker in self.workers]
        placed, _ = self._ray.wait(placements, timeout=PLACEMENT_SECONDS)
        if not placed:
            raise ModelError(
                f"ray: no worker could start within {PLACEMENT_SECONDS:.0f} s: {self.no_room}; see "
                "`ray status`, or set gpus_per_worker"
            )
        while True:
            [ready], _ = self._ray.wait([worker.loaded for worker in self.workers], num_returns=1)
            worker = next(candidate for candidate in self.workers if candidate.loaded == ready)
            try:
                worker.place, loaded = self._ray.get([worker.placed, ready])
            except self.faults as error:
                self.leave(worker)
                if not self.workers:
                    raise ModelError(
                        f"{worker.name} could not load the model: {self._reason(error)}"
                    ) from None
                continue
            if why := self.why_not(worker.place, loaded, {}):
                raise ModelError(why if isinstance(loaded, Refusal) else f"{worker.name}: {why}")
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
    def no_room(self) -> str:
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
    if gpus:
        fitting_workers = sum(int(machine.get("GPU", 0) / gpus) for machine in machines)
    else:
        fitting_workers = len(machines)
    workers = execution.ray_workers or max(fitting_workers, 1)
    if gpus or not machines:
        return WorkerSize(gpus, 1, workers)
    fewest_cpus = min(machine["CPU"] for machine in machines)
    workers_per_machine = math.ceil(workers / len(machines))
    cpus = max(int(fewest_cpus // workers_per_machine), 1)
    return WorkerSize(gpus, cpus, workers)
