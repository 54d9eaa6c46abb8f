"""Several processes for one run: each loads the model, takes its share of the pictures, keeps its journal.

`python -m snellen.runs.workers` is one of them: it reads its number, a `RunSpec` and the folders of other runs
from standard input, and writes one `ProgressUpdate` per line to standard output.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from snellen.errors import ModelError, SnellenError
from snellen.runs.casting import load_evaluated, load_roles
from snellen.runs.drivers import ProgressCallback, ProgressUpdate
from snellen.runs.plan import RunPlan, plan_run
from snellen.runs.run_folder import locked_run
from snellen.runs.runner import RunOutcome, note_findings, run_plan
from snellen.runs.spec import RunSpec


class _Line(Struct):
    """One line from a worker: progress, or its outcome, or its error."""

    update: ProgressUpdate | None = None
    outcome: tuple[dict[str, int], dict[str, int], tuple[str, ...], dict[str, int]] | None = None
    error: str = ""


def run_workers(plan: RunPlan, progress: ProgressCallback) -> RunOutcome:
    """Carry a plan out with as many processes as it says.

    Raises StoreError for a folder that is in use, and the first worker's error as a ModelError.
    """
    lock, lines = threading.Lock(), list[_Line]()

    def listen(process: subprocess.Popen[bytes]) -> None:
        for raw in process.stdout or ():
            line = msgspec.json.decode(raw, type=_Line)
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
        raise ModelError(f"worker {codes.index(next(filter(None, codes)))} died; run the same command to go on")
    answered, failed, reasons, findings = Counter[str](), Counter[str](), Counter[str](), list[str]()
    for line in lines:
        if line.outcome:
            answered.update(line.outcome[0])
            failed.update(line.outcome[1])
            findings += line.outcome[2]
            reasons.update(line.outcome[3])
    outcome = RunOutcome(plan.folder, dict(answered), dict(failed), tuple(findings), dict(reasons))
    note_findings(outcome)
    return outcome


@contextmanager
def _started(plan: RunPlan, lock_file: int) -> Iterator[list[subprocess.Popen[bytes]]]:
    spec, processes = plan.spec, []
    try:
        for number in range(spec.workers):
            process = subprocess.Popen(
                [sys.executable, "-m", "snellen.runs.workers"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env={**os.environ, **_share(number, spec.workers)},
                pass_fds=(lock_file,),
            )
            processes.append(process)
            if process.stdin:
                process.stdin.write(
                    msgspec.json.encode((number, spec.of_model(), [str(other) for other in plan.others]))
                )
                process.stdin.close()
        yield processes
    finally:
        for process in processes:
            process.terminate()
            process.wait()
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
    number, spec, others = msgspec.json.decode(sys.stdin.buffer.read(), type=tuple[int, RunSpec, tuple[str, ...]])

    def write(line: _Line) -> None:
        sys.stdout.buffer.write(msgspec.json.encode(line) + b"\n")
        sys.stdout.buffer.flush()

    try:
        plan = replace(plan_run(spec), worker=number, others=tuple(map(Path, others)))
        [name] = spec.models
        roles = load_roles(dict(spec.roles))
        model = load_evaluated(name, dict(spec.roles), roles)
        outcome = run_plan(model, plan, lambda update: write(_Line(update=update)), roles)
        write(_Line(outcome=(outcome.answered, outcome.failed, outcome.findings, outcome.reasons)))
    except SnellenError as error:
        write(_Line(error=str(error)))
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    _main()
