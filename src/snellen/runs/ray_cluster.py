"""A run on a Ray cluster: workers hold the model, each on GPUs of its own; this process asks and writes the folder.

The cluster needs Snellen and the model's weights on its machines, and no file of this one. It may grow and shrink while
the run goes on.
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
from snellen.errors import MissingExtraError, ModelError
from snellen.runs.drivers import ProgressCallback
from snellen.runs.finding import Announce, silent
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
"""How long to wait until the cluster has room for a first worker; one that grows on demand takes minutes."""

CONNECT_SECONDS = 15.0
"""How long to wait until the head of a cluster answers at all."""


class WorkerSize(Struct, frozen=True):
    """What each worker takes of the cluster, and how many there should be."""

    gpus: float
    cpus: int
    wanted: int


def run_on_ray(
    plan: RunPlan, progress: ProgressCallback, announce: Announce = silent
) -> RunOutcome:
    """Carry out a plan on the cluster that its spec names. The folder is the same as that of one process.

    Raises MissingExtraError without Ray, ModelError when there is no such cluster, no room on it, or a model that
    cannot be used there, and whatever `run_plan` raises.
    """
    with _connected(plan.execution) as ray:
        cluster = RayCluster(ray, plan, announce)
        try:
            if not cluster.has_fitting_machine:
                announce(f"Ray: {cluster.no_room}; waiting up to {PLACEMENT_SECONDS:.0f} s for one")
            models = cluster.first_models()
            size = cluster.size
            announce(
                f"Ray: up to {size.wanted} workers, {size.gpus:g} GPUs and {size.cpus} CPUs each"
            )
            evaluated, roles = models_on_ray(RayPool(cluster, models, plan.execution.window))
            return run_plan(evaluated, plan, progress, roles)
        finally:
            cluster.dismiss_all()


@contextmanager
def _connected(execution: ExecutionSpec) -> Iterator[ModuleType]:
    """Ray, connected as `ray` says; a connection that the user's program has made is used, and left open."""
    with _process_as_it_was():
        try:
            import ray
        except ImportError:
            raise MissingExtraError("ray", "ray", "a run on a cluster (--ray)") from None
        if ray.is_initialized():
            yield ray
            return
        _join(ray, execution)
        try:
            yield ray
        finally:
            ray.shutdown()


def _join(ray: ModuleType, execution: ExecutionSpec) -> None:
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
                f"ray: the cluster at {execution.ray} asks for its token; set RAY_AUTH_MODE=token, and copy the file "
                "~/.ray/auth_token of its first machine to this one"
            ) from None
        raise ModelError(
            f"ray: no cluster can be joined at {execution.ray} ({_first_line(error)}); run this on a machine of the "
            "cluster (`ray start --address=HEAD:6379`), or leave the address out"
        ) from None


def _check_reachable(address: str) -> None:
    """Raise OSError where nothing answers, or OverflowError for what is not a port; Ray would wait for minutes."""
    host, _, port = address.rpartition(":")
    if host:
        socket.create_connection((host.strip("[]"), int(port)), timeout=CONNECT_SECONDS).close()


@contextmanager
def _process_as_it_was() -> Iterator[None]:
    """Undo what Ray leaves behind in a process that imports it and joins: variables, a handler of SIGTERM, a hook."""
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
    return str(error).strip().partition("\n")[0] or type(error).__name__


class RayCluster:
    """The workers of a run on a cluster, and what becomes of them."""

    def __init__(self, ray: ModuleType, plan: RunPlan, announce: Announce) -> None:
        self._ray, self._plan, self.announce = ray, plan, announce
        self._actor = ray.remote(RayWorker)
        self.faults = (ray.exceptions.RayError,)
        """What awaiting a worker may raise."""
        self.size = worker_size(plan.execution, ray.nodes())
        self._left_out = 0
        self.workers = [self._new() for _ in range(self.size.wanted)]

    @property
    def wanted(self) -> int:
        """How many workers there should be."""
        return self.size.wanted

    def _new(self) -> PoolWorker:
        actor = self._actor.options(num_gpus=self.size.gpus, num_cpus=self.size.cpus).remote()
        [model], roles = self._plan.question.models, dict(self._plan.question.roles)
        folders = [use.benchmark.folder.resolve() for use in self._plan.benchmarks]
        return PoolWorker(actor, actor.place.remote(), actor.load.remote(model, roles, folders))

    def start(self) -> PoolWorker:
        """One more worker; it takes part once the cluster has room for it."""
        self.workers.append(worker := self._new())
        return worker

    def grow(self) -> list[PoolWorker]:
        """New workers for machines that have joined, where no number was asked for."""
        total = worker_size(self._plan.execution, self._ray.nodes()).wanted
        return [self.start() for _ in range(total - self._left_out - len(self.workers))]

    def leave(self, worker: PoolWorker) -> None:
        """Do without a worker, whatever is left of it."""
        if worker in self.workers:
            self.workers.remove(worker)
        self._ray.kill(worker.actor)

    def leave_out(self, worker: PoolWorker) -> None:
        """Do without a worker that cannot take part, and start none in its place."""
        self._left_out += 1
        self.leave(worker)

    def dismiss_all(self) -> None:
        """Free what the run holds on the cluster."""
        for worker in list(self.workers):
            self.leave(worker)

    def raised_in_worker(self, error: BaseException) -> str:
        """The exception of a worker's own code, in a line; empty where the worker itself was lost."""
        cause = getattr(error, "cause", None)
        if not isinstance(error, self._ray.exceptions.RayTaskError) or isinstance(
            cause, self.faults
        ):
            return ""
        return f"{type(cause).__name__}: {_first_line(cause)}" if cause else _first_line(error)

    def why_not(
        self,
        place: WorkerPlace,
        loaded: dict[str, WorkerModel] | Refusal,
        models: dict[str, WorkerModel],
    ) -> str:
        """Why a worker cannot take part beside those with these models; empty when it can."""
        if place.version != __version__:
            return f"it has Snellen {place.version}, this is {__version__}; install the same"
        if isinstance(loaded, Refusal):
            return loaded.message
        for role, model in models.items():
            if changed := changed_fact(model.fingerprint, loaded[role].fingerprint):
                return f"its model differs from the others' ({changed})"
        return ""

    def first_models(self) -> dict[str, WorkerModel]:
        """What the first worker has loaded. Raises ModelError where none can."""
        if not self._ray.wait(
            [worker.placed for worker in self.workers], timeout=PLACEMENT_SECONDS
        )[0]:
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
        """Whether some machine of the cluster is large enough for a worker, free or not."""
        machines = [node["Resources"] for node in self._ray.nodes() if node["Alive"]]
        return any(
            machine.get("GPU", 0.0) >= self.size.gpus and machine.get("CPU", 0.0) >= self.size.cpus
            for machine in machines
        )

    @property
    def no_room(self) -> str:
        """That a worker finds no room, in words."""
        most = max(
            (node["Resources"].get("GPU", 0.0) for node in self._ray.nodes() if node["Alive"]),
            default=0.0,
        )
        return (
            f"a worker needs {self.size.gpus:g} GPUs and {self.size.cpus} CPUs of one machine, which none of the "
            f"cluster has free (the most GPUs of one: {most:g})"
        )


def worker_size(execution: ExecutionSpec, nodes: list[dict[str, Any]]) -> WorkerSize:
    """What workers take of a cluster of `nodes`, which are as `ray.nodes()` gives them.

    Without GPUs, the workers of a machine share its processors.
    """
    machines = [
        node["Resources"] for node in nodes if node["Alive"] and node["Resources"].get("CPU")
    ]
    has_gpus = any(machine.get("GPU") for machine in machines)
    gpus = float(has_gpus) if execution.gpus_per_worker is None else execution.gpus_per_worker
    fit = sum(int(machine.get("GPU", 0) / gpus) for machine in machines) if gpus else len(machines)
    workers = execution.ray_workers or max(fit, 1)
    if gpus or not machines:
        return WorkerSize(gpus, 1, workers)
    fewest = min(machine["CPU"] for machine in machines)
    return WorkerSize(gpus, max(int(fewest // math.ceil(workers / len(machines))), 1), workers)
