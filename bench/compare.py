"""How long a comparison takes: `python bench/compare.py [--questions 250000] [--benchmarks 61] [--runs 2]`.

Scores of zeros and ones are made up, three questions an image, and spread over the benchmarks alike. Reading and
scoring of runs is not part of it. A share of a goal, not a limit: 10,000 resamples over 500,000 scores in under 10 s.
"""

from __future__ import annotations

import argparse
import random
import resource
import time
from pathlib import Path

from snellen.analysis.paired.comparison import compare_runs
from snellen.analysis.paired.differences import RESAMPLES
from snellen.catalogue import BenchmarkSpec, SourceSpec
from snellen.records import Sample, Score
from snellen.runs.run_folder import RunManifest
from snellen.runs.spec import ScoringSpec
from snellen.scoring.scored_run import ScoredBenchmark, ScoredRun, by_row

GOAL_SECONDS = 10


def made_up_run(name: str, share: float, benchmarks: int, questions: int) -> ScoredRun:
    rng = random.Random(name)
    scored = []
    for b in range(benchmarks):
        benchmark = f"benchmark {b}"
        spec = BenchmarkSpec(
            name=benchmark,
            title=benchmark,
            formulation="choice",
            source=SourceSpec("table"),
            dimension=f"D{b % 8}",
        )
        ids = [f"q{i}" for i in range(questions // benchmarks)]
        samples = {id_: Sample(id_, benchmark, group=f"p{i // 3}") for i, id_ in enumerate(ids)}
        scores = tuple(
            Score(
                "vanilla", "generation", benchmark, id_, 0, "accuracy", float(rng.random() < share)
            )
            for id_ in ids
        )
        scored.append(ScoredBenchmark(spec, samples, (), by_row(scores), {}))
    return ScoredRun(Path(name), empty_manifest(name), ScoringSpec(), (), tuple(scored), 0, 0)


def empty_manifest(name: str) -> RunManifest:
    return RunManifest(1, name, {}, (), (), "", (), {}, {}, "")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--questions", type=int, default=250_000)
    parser.add_argument("--benchmarks", type=int, default=61)
    parser.add_argument("--runs", type=int, default=2)
    options = parser.parse_args()
    runs = [
        made_up_run(f"model {k}", 0.5 + 0.01 * k, options.benchmarks, options.questions)
        for k in range(options.runs)
    ]
    began = time.perf_counter()
    found = compare_runs(runs, baseline="model 0")
    seconds = time.perf_counter() - began
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        f"{options.runs * options.questions:,} scores, {options.benchmarks} benchmarks, {options.runs} runs, "
        f"{RESAMPLES:,} resamples: {seconds:.1f} s ({seconds / GOAL_SECONDS:.2f} of the goal), "
        f"{memory:,.0f} MiB at most; {len(found.differences):,} differences, {len(found.ranks):,} ranks"
    )


if __name__ == "__main__":
    main()
