"""Several processes for one run: each loads the model, takes its share of the pictures, keeps its journal.

`python -m snellen.runs.workers` is one of them: it reads its number, a `RunSpec` and the folders of other runs
from standard input, and writes one `ProgressUpdate` per line to standard output.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from snellen.building.benchmark import Part
from snellen.errors import ModelError, SnellenError
from snellen.runs.drivers import BudgetTaken, ProgressCallback, ProgressUpdate
from snellen.runs.driving import load_evaluated, load_roles
from snellen.runs.locks import locked_run
from snellen.runs.plan import RunPlan, plan_run, with_parts
from snellen.runs.runner import RunOutcome, note_findings, run_plan, summed_outcome
from snellen.runs.spec import RunSpec


class _Line(Struct):
    """One line from a worker: progress, or its outcome, or its error."""

    update: ProgressUpdate | None = None
    outcome: RunOutcome | None = None
    error: str = ""


class _Job(Struct):
    """What a worker is told: its number, and what its plan has that a spec does not say."""

    number: int
    spec: RunSpec
    others: tuple[Path, ...]
    parts: dict[str, Part]
    earlier: dict[str, Part]
    taken: BudgetTaken


def run_workers(plan: RunPlan, progress: ProgressCallback) -> RunOutcome:
    """Carry out a plan with as many processes as it says.

    Raises StoreError for a folder that is in use, and the first worker's error as a ModelError.
    """
    lock, lines = threading.Lock(), list[_Line]()

    def listen(process: subprocess.Popen[bytes]) -> None:
        for raw in process.stdout or ():
            line = msgspec.json.decode(raw, type=_Line, dec_hook=lambda form, text: form(text))
            with lock:
                if line.update:
                    progress(line.update)
                else:
                    lines.append(line)

    with locked_run(plan.folder) as lock_file, _started(plan, lock_file) as processes:
        threads = [threading.Thread(target=listen, args=(process,)) for process in processes]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        codes = [process.wait() for process in processes]
    if error := next((line.error for line in lines if line.error), ""):
        raise ModelError(error)
    if any(codes):
        raise ModelError(
            f"worker {codes.index(next(filter(None, codes)))} died; run the same command to go on"
        )
    outcome = summed_outcome([line.outcome for line in lines if line.outcome])
    note_findings(outcome)
    return outcome


@contextmanager
def _started(plan: RunPlan, lock_file: int) -> Iterator[list[subprocess.Popen[bytes]]]:
    spec, processes = plan.spec, list[subprocess.Popen[bytes]]()
    try:
        for number in range(spec.execution.workers):
            process = subprocess.Popen(
                [sys.executable, "-m", "snellen.runs.workers"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env={**os.environ, **_share(number, spec.execution.workers)},
                pass_fds=(lock_file,),
            )
            processes.append(process)
            if process.stdin:
                parts = {
                    use.benchmark.name: use.selection.part
                    for use in plan.benchmarks
                    if use.selection.part
                }
                before = {
                    use.benchmark.name: use.earlier.part
                    for use in plan.benchmarks
                    if use.earlier and use.earlier.part
                }
                job = _Job(number, spec.of_model(), plan.others, parts, before, plan.taken)
                process.stdin.write(msgspec.json.encode(job, enc_hook=str))
                process.stdin.close()
        yield processes
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            process.wait()  # while it keeps the replies that are on their way
            if process.stdout:
                process.stdout.close()


def _share(number: int, workers: int) -> dict[str, str]:
    """A worker's part of the machine: its processor threads, and one of the visible GPUs."""
    share = {"OMP_NUM_THREADS": str(max((os.cpu_count() or 1) // workers, 1))}
    visible = os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")
    if len(visible) >= workers:
        share["CUDA_VISIBLE_DEVICES"] = visible[number]
    return share


def _main() -> None:
    job = msgspec.json.decode(
        sys.stdin.buffer.read(), type=_Job, dec_hook=lambda form, text: form(text)
    )
    spec = job.spec

    def write(line: _Line) -> None:
        sys.stdout.buffer.write(msgspec.json.encode(line, enc_hook=str) + b"\n")
        sys.stdout.buffer.flush()

    try:
        whole = replace(
            plan_run(spec, absent=[]), worker=job.number, others=job.others, taken=job.taken
        )
        plan = with_parts(whole, job.parts, job.earlier)
        [name] = spec.question.models
        roles = load_roles(dict(spec.question.roles))
        model = load_evaluated(name, dict(spec.question.roles), roles)
        outcome = run_plan(model, plan, lambda update: write(_Line(update=update)), roles)
        write(_Line(outcome=outcome))
    except SnellenError as error:
        write(_Line(error=str(error)))
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    try:
        _main()
    except BrokenPipeError:
        # The parent was killed. Python would write what is left once more when it ends, and complain.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
