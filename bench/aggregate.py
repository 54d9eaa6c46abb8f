"""Speed and memory of aggregation: scored rows of a whole suite to numbers with intervals, as `snellen report` does it.

    python bench/aggregate.py [--samples 521712] [--presentations 5] [--suite reform-eval]

The rows are made up (two questions an image, options and templates by turns); from there on everything is the real
code. The questions are shared out over the benchmarks of the suite that show options, by the sizes of the paper. One
row a stage: seconds, and the most memory that the process has held so far.
"""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

from snellen.analysis.aggregate import aggregate_run
from snellen.catalogue import BenchmarkSpec, select
from snellen.common.seeds import rng_for
from snellen.metrics.questions import AskedQuestion
from snellen.protocols.base import parse_protocol
from snellen.records import Answer, Prediction, Sample, Score, Variant
from snellen.runs.run_folder import RUN_FORMAT, BenchmarkUse, RunManifest
from snellen.runs.spec import ScoringSpec
from snellen.scoring.choice_scoring import score_choice
from snellen.scoring.scored_run import ScoredBenchmark, ScoredRun, by_row

PROTOCOL = "instability?m=5"
OPTIONS = ("cat", "dog", "horse", "cow")
Stage = TypeVar("Stage")


def timed(name: str, step: Callable[[], Stage]) -> Stage:
    start, cpu = time.perf_counter(), time.process_time()
    made = step()
    seconds, busy = time.perf_counter() - start, time.process_time() - cpu
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{name:44} {seconds:8.1f} {busy:8.1f} {most:8,.0f}", flush=True)
    return made


def shares(specs: tuple[BenchmarkSpec, ...], samples: int) -> Iterator[tuple[BenchmarkSpec, int]]:
    """Each benchmark with its part of the samples, by the sizes that its paper states."""
    sizes = [spec.complete.samples or spec.expected.samples or 100 for spec in specs]
    left, total = samples, sum(sizes)
    for spec, size in zip(specs, sizes, strict=True):
        count = round(left * size / total)
        yield spec, count
        left, total = left - count, total - size


def scored_benchmark(spec: BenchmarkSpec, count: int, presentations: int) -> ScoredBenchmark:
    """A benchmark as scoring leaves it: right at random in 60 % of the presentations, unparsed in 2 %."""
    protocol = parse_protocol(f"instability?m={presentations}")
    draw = rng_for("aggregate", spec.name)
    variants = [
        Variant(
            test=test,
            template=f"choice.generation.{test}",
            order=tuple((i + test) % 4 for i in range(4)),
            labels=("A", "B", "C", "D"),
        )
        for test in range(presentations)
    ]
    samples, answers = {}, {}
    predictions: list[Prediction] = []
    scores: list[Score] = []
    for number in range(count):
        name = f"{spec.name.rpartition('/')[2]}-{number:06d}"
        tags = {"level": ("easy", "hard")[number % 2]}
        sample = Sample(
            name,
            spec.name,
            f"Which animal is number {number}?",
            options=OPTIONS,
            group=f"p{number // 2}",
            tags=tags,
        )
        answer = Answer(name, options=(number % 4,))
        made = tuple(
            Prediction(
                protocol.label,
                "generation",
                spec.name,
                name,
                variant,
                f"{number * presentations + variant.test:032x}",
                choice=None
                if (kind := draw.random()) < 0.02
                else number % 4
                if kind < 0.6
                else draw.randrange(4),
                extraction_method="label",
                confidence="certain",
                follows_format=True,
                extractor_version="snellen-choice",
            )
            for variant in variants
        )
        samples[name], answers[name, 0] = sample, answer
        predictions += made
        scores += score_choice(AskedQuestion(protocol, sample, 0, answer, made))
    return ScoredBenchmark(spec, samples, tuple(predictions), by_row(scores), answers)


def scored_run(options: argparse.Namespace) -> ScoredRun:
    specs = tuple(spec for spec in select(options.suite) if spec.formulation == "choice")
    benchmarks = tuple(
        scored_benchmark(spec, count, options.presentations)
        for spec, count in shares(specs, options.samples)
    )
    uses = tuple(BenchmarkUse(spec.name, "0", "") for spec in specs)
    manifest = RunManifest(
        RUN_FORMAT, "model", {}, uses, (PROTOCOL,), "", (), {}, {}, "2020-01-01T00:00:00+00:00"
    )
    return ScoredRun(Path("run"), manifest, ScoringSpec(), (), benchmarks, 0, 0)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--samples", type=int, default=521_712)
    parser.add_argument("--presentations", type=int, default=5)
    parser.add_argument("--suite", default="reform-eval")
    options = parser.parse_args()
    print(f"{options.samples:,} samples x {options.presentations} presentations\n")
    print(f"{'stage':44} {'seconds':>8} {'of CPU':>8} {'RSS MB':>8}")
    run = timed("made-up questions, scored", lambda: scored_run(options))
    rows = timed("numbers with intervals", lambda: aggregate_run(run))
    scores = sum(len(scores) for scored in run.benchmarks for scores in scored.score_rows.values())
    print(f"\n{scores:,} scores, {len(rows):,} numbers")


if __name__ == "__main__":
    main()
