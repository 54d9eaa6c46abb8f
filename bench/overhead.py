"""What the framework itself costs: CPU a sample and peak memory with a model that takes no time, and how
close to the ideal rate an API with fixed latency is driven.

    python bench/overhead.py            # all of it, about two minutes
    python bench/overhead.py local      # without the server

Each measurement runs in a fresh process. "Run" is the time from the first sample to the last line of
the journal; "score" reads and scores that journal.
"""

from __future__ import annotations

import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SAMPLES, LARGE, QUESTIONS_AN_IMAGE = 2_000, 20_000, 10
LATENCY, CONCURRENCY, CALLS = 0.1, 64, 6_400


def make_benchmark(folder: Path, samples: int, per_image: int) -> None:
    """Multiple choice over 336 x 336 JPEG pictures of noise (about 30 KB each)."""
    from PIL import Image

    from snellen.api import build_table

    source = folder / "source"
    source.mkdir(parents=True)
    rng = random.Random(0)
    lines = []
    for number in range(samples):
        image = f"{number // per_image}.jpg"
        if number % per_image == 0:
            small = Image.frombytes("RGB", (84, 84), rng.randbytes(84 * 84 * 3))
            small.resize((336, 336)).save(source / image, quality=92)
        options = [f"option {rng.randrange(10**6)} {i}" for i in range(4)]
        row = {
            "id": f"q{number}",
            "question": f"What is in picture {number}?",
            "image": image,
            "options": options,
        }
        lines.append(json.dumps({**row, "answer": rng.randrange(4)}))
    (source / "rows.jsonl").write_text("\n".join(lines))
    build_table(source / "rows.jsonl", name="bench", to=folder / "bench")


def cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def peak_mb() -> float:
    """Peak resident memory of this process. ru_maxrss would do, but a child inherits its parent's."""
    status = Path("/proc/self/status").read_text()
    return (
        int(next(line for line in status.splitlines() if line.startswith("VmHWM")).split()[1])
        / 1024
    )


def measure_local(folder: Path) -> dict[str, float]:
    """CPU milliseconds a sample of a vanilla run and of its scoring, and peak RSS in MB."""
    from snellen.api import score
    from snellen.models.base import load_model
    from snellen.runs.plan import plan_run
    from snellen.runs.runner import run_plan
    from snellen.runs.spec import run_spec

    model = "snellen:always-a"
    with tempfile.TemporaryDirectory() as runs:
        spec = run_spec(
            {
                "models": (model,),
                "benchmarks": (str(folder / "bench"),),
                "protocols": ("vanilla",),
                "runs": runs,
                "name": "r",
            }
        )
        plan = plan_run(spec)
        count = plan.benchmarks[0].benchmark.count()
        begun = cpu()
        run_plan(load_model(model), plan)
        ran = cpu()
        peak = peak_mb()
        score(Path(runs) / "r")
        scored = cpu()
    return {
        "run_ms": 1000 * (ran - begun) / count,
        "score_ms": 1000 * (scored - ran) / count,
        "run_mb": peak,
        "score_mb": peak_mb(),
    }


def measure_served(folder: Path, url: str) -> dict[str, float]:
    """Achieved against ideal request rate, and CPU milliseconds a request, at fixed latency."""
    from snellen.models.base import load_model
    from snellen.runs.plan import plan_run
    from snellen.runs.runner import run_plan
    from snellen.runs.spec import run_spec

    model = f"openai:bench@{url}?concurrency={CONCURRENCY}"
    with tempfile.TemporaryDirectory() as runs:
        spec = run_spec(
            {
                "models": (model,),
                "benchmarks": (str(folder / "bench"),),
                "protocols": ("vanilla",),
                "limit": CALLS,
                "runs": runs,
                "name": "r",
            }
        )
        plan = plan_run(spec)
        begun, clock = cpu(), time.perf_counter()
        outcome = run_plan(load_model(model), plan)
        seconds, used = time.perf_counter() - clock, cpu() - begun
    return {
        "failed": sum(outcome.failed.values()),
        "rate": sum(outcome.answered.values()) / seconds / (CONCURRENCY / LATENCY),
        "cpu_ms": 1000 * used / sum(outcome.answered.values()),
    }


def in_fresh_process(what: str, *words: str) -> dict[str, float]:
    """Run one measurement in its own interpreter and read what it prints."""
    done = subprocess.run(
        [sys.executable, __file__, what, *words], check=True, stdout=subprocess.PIPE, env=os.environ
    )
    found: dict[str, float] = json.loads(done.stdout)
    return found


def main() -> None:
    with tempfile.TemporaryDirectory() as place:
        for samples, per_image in ((SAMPLES, 1), (LARGE, QUESTIONS_AN_IMAGE)):
            folder = Path(place) / str(samples)
            make_benchmark(folder, samples, per_image)
            found = in_fresh_process("measure-local", str(folder))
            print(
                f"{samples:>6} samples, no latency: run {found['run_ms']:.3f} ms CPU a sample (target 0.35), "
                f"peak {found['run_mb']:.0f} MB (target 120); "
                f"score {found['score_ms']:.3f} ms, {found['score_mb']:.0f} MB"
            )
        if "local" in sys.argv[1:]:
            return
        sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
        from servers import start_server

        with start_server(process=True, latency=LATENCY, record=False) as server:
            found = in_fresh_process("measure-served", str(Path(place) / str(LARGE)), server.url)
        print(
            f"{CALLS:>6} requests at {LATENCY * 1000:.0f} ms, concurrency {CONCURRENCY}: "
            f"{found['rate']:.2f} of the ideal rate (target 0.90), {found['cpu_ms']:.2f} ms CPU a request (target 1), "
            f"{found['failed']:.0f} failed"
        )


if __name__ == "__main__":
    if sys.argv[1:2] == ["measure-local"]:
        print(json.dumps(measure_local(Path(sys.argv[2]))))
    elif sys.argv[1:2] == ["measure-served"]:
        print(json.dumps(measure_served(Path(sys.argv[2]), sys.argv[3])))
    else:
        main()
