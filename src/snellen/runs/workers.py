"""Run a plan in several processes. Each loads the model, evaluates its share of the images, and writes its own journal.

`python -m snellen.runs.workers` is one of them. It reads its index, a `RunSpec` and the folders of other runs from
standard input, and writes one `ProgressUpdate` per line to standard output.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from snellen.building.benchmark import QuestionPart
from snellen.callers import called_from_command_line, for_caller, is_command_line
from snellen.errors import ModelError, SnellenError
from snellen.runs.drivers import BudgetUse, ProgressCallback, ProgressUpdate
from snellen.runs.driving import load_evaluated, load_roles
from snellen.runs.failed_starts import removed_if_unanswered
from snellen.runs.locks import locked_run
from snellen.runs.plan import RunPlan, plan_run
from snellen.runs.runner import RunOutcome, note_findings, run_plan, summed_outcome
from snellen.runs.spec import RunSpec


class _WorkerMessage(Struct):
    """A message from a worker, printed as a line of JSON: a progress update, its outcome, or its error."""

    update: ProgressUpdate | None = None
    outcome: RunOutcome | None = None
    error: str = ""


class _Job(Struct):
    """Input of a worker: its index, and the parts of its plan that a spec does not contain."""

    number: int
    spec: RunSpec
    reusable_runs: tuple[Path, ...]
    parts: dict[str, QuestionPart]
    earlier: dict[str, QuestionPart]
    budget_used: BudgetUse
    is_command_line: bool
    """Whether errors are written for a user of the command line."""


def run_workers(plan: RunPlan, progress: ProgressCallback) -> RunOutcome:
    """Run a plan in several worker processes, as many as it says.

    Args:
        plan: The plan of the run.
        progress: Receives the updates of all workers.

    Returns:
        The sum of the outcomes of all workers.

    Raises:
        StoreError: The folder is in use.
        ModelError: A worker failed.
    """
    lock = threading.Lock()
    results: list[_WorkerMessage] = []

    def listen(process: subprocess.Popen[bytes]) -> None:
        """Read the messages that a worker process prints: progress is passed on, and other messages are collected."""
        for line in process.stdout or ():
            message = msgspec.json.decode(line, type=_WorkerMessage, dec_hook=_from_text)
            with lock:
                if message.update:
                    progress(message.update)
                else:
                    results.append(message)

    with locked_run(plan.folder) as lock_file, removed_if_unanswered(plan.folder):
        with _worker_processes(plan, lock_file, listen) as processes:
            exit_codes = [process.wait() for process in processes]
        outcomes = []
        for result in results:
            if result.error:
                raise ModelError(result.error)
            if result.outcome:
                outcomes.append(result.outcome)
        for number, exit_code in enumerate(exit_codes):
            if exit_code:
                raise ModelError(
                    f"worker {number} died; repeat the {for_caller('command', 'call')} to continue"
                )
    outcome = summed_outcome(outcomes)
    note_findings(outcome)
    return outcome


def _from_text(kind: Any, text: str) -> Any:
    """Return a value of a type that JSON does not have, such as a path, from its text."""
    return kind(text)


@contextmanager
def _worker_processes(
    plan: RunPlan, lock_file: int, listen: Callable[[subprocess.Popen[bytes]], None]
) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Start the worker processes of a plan, and terminate them at the end of the block.

    At the end everything that the processes printed has been read.

    Args:
        plan: The plan of the run.
        lock_file: The descriptor of the lock of the run's folder. The processes inherit it, so that the folder stays
            locked until the last of them has ended.
        listen: Called for each process in a thread of its own. It reads what the process prints, to the end.
    """
    n_workers = plan.spec.execution.workers
    processes: list[subprocess.Popen[bytes]] = []
    threads: list[threading.Thread] = []
    try:
        for number in range(n_workers):
            process = subprocess.Popen(
                [sys.executable, "-m", "snellen.runs.workers"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env={**os.environ, **_worker_environment(number, n_workers)},
                pass_fds=(lock_file,),
            )
            processes.append(process)
            if process.stdin:
                job = _job_of_worker(plan, number)
                process.stdin.write(msgspec.json.encode(job, enc_hook=str))
                process.stdin.close()
            thread = threading.Thread(target=listen, args=(process,))
            thread.start()
            threads.append(thread)
        yield processes
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            process.wait()  # it still stores the replies in flight
        # A thread ends with its process. It must not be joined before: a signal that interrupts `join` makes Python 3.11
        # take a living thread for a dead one, and the interpreter crashes when it ends under that thread.
        for thread in threads:
            thread.join()
        for process in processes:
            if process.stdout:
                process.stdout.close()


def _job_of_worker(plan: RunPlan, number: int) -> _Job:
    """Return what a worker process is told: the plan of the run, and which worker it is."""
    parts: dict[str, QuestionPart] = {}
    earlier_parts: dict[str, QuestionPart] = {}
    for use in plan.benchmarks:
        name = use.benchmark.name
        if use.selection.part:
            parts[name] = use.selection.part
        if use.earlier and use.earlier.part:
            earlier_parts[name] = use.earlier.part
    return _Job(
        number=number,
        spec=plan.spec.of_model(),
        reusable_runs=plan.reusable_runs,
        parts=parts,
        earlier=earlier_parts,
        budget_used=plan.budget_used,
        is_command_line=is_command_line(),
    )


def _worker_environment(number: int, workers: int) -> dict[str, str]:
    """Return the environment variables that divide a machine between worker processes.

    A worker gets an equal share of the processor threads. If there are at least as many visible GPUs as workers, it
    gets one GPU.

    Args:
        number: The index of the worker.
        workers: The number of workers.
    """
    n_threads = max((os.cpu_count() or 1) // workers, 1)
    variables = {"OMP_NUM_THREADS": str(n_threads)}
    gpu_list = os.environ.get("CUDA_VISIBLE_DEVICES", "")
    visible_gpus = [gpu for gpu in gpu_list.split(",") if gpu.strip()]
    if len(visible_gpus) >= workers:
        variables["CUDA_VISIBLE_DEVICES"] = visible_gpus[number]
    return variables


def _main() -> None:
    """Read a worker's job from stdin and do it."""
    job = msgspec.json.decode(sys.stdin.buffer.read(), type=_Job, dec_hook=_from_text)
    with called_from_command_line(job.is_command_line):
        _run_job(job)


def _run_job(job: _Job) -> None:
    """Evaluate the share of one worker process. Progress, outcome and errors are printed as lines of JSON."""
    spec = job.spec

    def send(message: _WorkerMessage) -> None:
        line = msgspec.json.encode(message, enc_hook=str) + b"\n"
        sys.stdout.buffer.write(line)
        sys.stdout.buffer.flush()

    try:
        complete_plan = replace(
            plan_run(spec, absent=[]),
            worker=job.number,
            reusable_runs=job.reusable_runs,
            budget_used=job.budget_used,
        )
        plan = complete_plan.with_parts(job.parts, job.earlier)
        [model_string] = spec.question.models
        role_strings = dict(spec.question.roles)
        roles = load_roles(role_strings)
        model = load_evaluated(model_string, role_strings, roles)
        outcome = run_plan(model, plan, lambda update: send(_WorkerMessage(update=update)), roles)
        send(_WorkerMessage(outcome=outcome))
    except SnellenError as error:
        send(_WorkerMessage(error=str(error)))
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    try:
        _main()
    except BrokenPipeError:
        # The parent process was killed. Python would try to write the rest of the output again when it ends, and
        # print an error.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
