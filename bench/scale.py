"""How time and memory grow with the number of samples: build, run, score, aggregate, report.

    python bench/scale.py [--sizes 1000,5000,20000] [--presentations 1] [--full] [--without report] [--kill-at 2000000]

Each stage runs in a process of its own, so that its memory is its own; the model answers at once. `--full` takes
20,000, 100,000, 200,000 and 500,000 samples. One row a size and stage: seconds, of CPU, the most memory held (MB), and
how much more it was than at the size before, for each 1,000 samples more. With `--kill-at` the run is killed (SIGKILL)
once its journal has so many lines, and a row `resume` says what it took to the first new request.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import multiprocessing
import os
import resource
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from msgspec.structs import replace

import snellen as sn
from snellen.analysis.aggregate import aggregate_run
from snellen.common.images import Images
from snellen.experiments.execution import LazyRoleModels, carry_out
from snellen.experiments.scored_folders import score_folders
from snellen.models.base import ALL_KINDS
from snellen.records import Request, Response
from snellen.report.page import write_report
from snellen.runs.plan import plan_run
from snellen.runs.run_progress import ignore_progress
from snellen.runs.spec import JudgeSpec, ScoringSpec, run_spec
from snellen.scoring.kept_scoring import load_scoring

FULL = (20_000, 100_000, 200_000, 500_000)


class AtOnce:
    """Right for a quarter of the questions, without a moment's thought."""

    name = "at-once"
    kinds = ALL_KINDS
    batch_size = 512

    def fingerprint(self) -> dict[str, str]:
        return {"model": self.name}

    def generate(self, requests: Sequence[Request], images: Images) -> list[Response]:
        return [Response(text=f"({request.variant.labels[0]})") for request in requests]

    loglikelihood = generate


def write_table(folder: Path, count: int) -> None:
    with (folder / "many.jsonl").open("w") as file:
        for i in range(count):
            row = {
                "id": f"q{i:06d}",
                "question": f"Which animal is number {i} here?",
                "answer": i % 4,
            }
            options = ["cat", "dog", "horse", "cow"]
            file.write(
                json.dumps({**row, "options": options, "tag_level": ("easy", "hard")[i % 2]}) + "\n"
            )


def build(folder: Path, protocol: str) -> None:
    sn.build(folder / "many.jsonl", name="many", to=folder / "many", no_images=True)


def run(folder: Path, protocol: str, model: AtOnce | None = None) -> None:
    spec = run_spec(
        {"models": ("at-once",), "benchmarks": (str(folder / "many"),), "protocols": (protocol,)}
    )
    spec = spec.with_execution(runs=str(folder), name="run")
    carry_out(plan_run(spec, print), model or AtOnce(), LazyRoleModels({}), ignore_progress)


def score(folder: Path, protocol: str) -> None:
    score_folders([folder / "run"], ScoringSpec(), JudgeSpec())


def aggregate(folder: Path, protocol: str) -> None:
    aggregate_run(replace(load_scoring(folder / "run"), stored_rows=None))


def report(folder: Path, protocol: str) -> None:
    scored = load_scoring(folder / "run")
    write_report([scored], aggregate_run(scored), folder / "report.html")


class FirstRequestError(Exception):
    """A request was made."""


class StopsAtOnce(AtOnce):
    """Ends a run with its first request."""

    def generate(self, requests: Sequence[Request], images: Images) -> list[Response]:
        raise FirstRequestError

    loglikelihood = generate


def resume(folder: Path, protocol: str) -> None:
    with contextlib.suppress(FirstRequestError):
        run(folder, protocol, StopsAtOnce())


STAGES: dict[str, Callable[[Path, str], None]] = {
    stage.__name__: stage for stage in (build, resume, run, score, aggregate, report)
}


def measured(
    stage: str, folder: Path, protocol: str, results: multiprocessing.SimpleQueue[tuple[float, ...]]
) -> None:
    start = time.perf_counter(), time.process_time()
    STAGES[stage](folder, protocol)
    seconds, cpu = time.perf_counter() - start[0], time.process_time() - start[1]
    results.put((seconds, cpu, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024))


def kill_at(folder: Path, protocol: str, lines: int) -> None:
    """Begin the run, and kill it once its journal has so many lines."""
    child = multiprocessing.get_context("spawn").Process(target=run, args=(folder, protocol))
    child.start()
    journal, found = folder / "run" / "journal-0.jsonl", 0
    while not journal.exists():
        time.sleep(0.1)
    with journal.open("rb") as file:
        while found < lines and child.is_alive():
            found += file.read(1 << 24).count(b"\n")
            time.sleep(0.01)
    child.kill()
    child.join()
    print(f"killed with {found:,} responses", flush=True)


def stages(
    folder: Path, protocol: str, names: Sequence[str], kill_after: int
) -> Iterator[tuple[str, tuple[float, ...]]]:
    spawn = multiprocessing.get_context("spawn")
    for name in names:
        if name == "resume":
            if not kill_after:
                continue
            kill_at(folder, protocol, kill_after)
        results: multiprocessing.SimpleQueue[tuple[float, ...]] = spawn.SimpleQueue()
        child = spawn.Process(target=measured, args=(name, folder, protocol, results))
        child.start()
        child.join()
        if child.exitcode:
            raise SystemExit(f"{name} ended with {child.exitcode}")
        yield name, results.get()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sizes", default="1000,5000,20000")
    parser.add_argument("--presentations", type=int, default=1)
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--kill-at", type=int, default=0, metavar="LINES")
    parser.add_argument("--without", default="", help="stages to leave out, with commas between")
    options = parser.parse_args()
    sizes = FULL if options.full else tuple(map(int, options.sizes.split(",")))
    protocol = f"instability?m={options.presentations}" if options.presentations > 1 else "vanilla"
    names = [name for name in STAGES if name not in options.without.split(",")]
    print(
        f"{'samples':>9} {'stage':10} {'seconds':>8} {'of CPU':>8} {'RSS MB':>8} {'MB per 1,000 more':>18}"
    )
    before: dict[str, tuple[int, float]] = {}
    for size in sizes:
        with tempfile.TemporaryDirectory() as name:
            os.environ["SNELLEN_HOME"] = name
            write_table(Path(name), size)
            for stage, (seconds, cpu, most) in stages(Path(name), protocol, names, options.kill_at):
                smaller = before.get(stage)
                growth = (
                    f"{1000 * (most - smaller[1]) / (size - smaller[0]):18.2f}" if smaller else ""
                )
                print(
                    f"{size:9,} {stage:10} {seconds:8.1f} {cpu:8.1f} {most:8,.0f} {growth}",
                    flush=True,
                )
                before[stage] = size, most


if __name__ == "__main__":
    main()
