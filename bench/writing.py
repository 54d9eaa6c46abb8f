"""What a run's writing costs where its model answers at once: journal and cache of answers, by CPU and clock.

    python bench/writing.py [--questions 10000] [--batch 1] [--folder FOLDER]

The journal is written batch by batch and synced at most twice a second; the cache (`--cache`) commits batch by batch.
The table has for each what it took of the run's time in all, as the run was asked, without planning and scoring.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import snellen as sn
from snellen.common.images import Images
from snellen.experiments import execution
from snellen.models.base import ALL_KINDS
from snellen.records import Request, Response
from snellen.runs.earlier_answers import AnswerCache
from snellen.runs.run_store import RunStore
from view import write_table

CLOCK: Counter[str] = Counter()
BUSY: Counter[str] = Counter()


class Instant:
    """Says (A)."""

    kinds = ALL_KINDS
    name = "instant"

    def __init__(self, batch: int) -> None:
        self.batch_size = batch

    def fingerprint(self) -> dict[str, str]:
        return {"model": self.name}

    def generate(self, requests: Sequence[Request], images: Images) -> list[Response]:
        return [Response(text="(A)")] * len(requests)

    loglikelihood = generate


def timed(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    def call(*arguments: Any, **keywords: Any) -> Any:
        clock, busy = time.perf_counter(), time.process_time()
        try:
            return function(*arguments, **keywords)
        finally:
            CLOCK[name] += time.perf_counter() - clock
            BUSY[name] += time.process_time() - busy

    return call


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--questions", type=int, default=10_000)
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--folder", type=Path)
    chosen = parser.parse_args()
    RunStore.append = timed("append", RunStore.append)  # type: ignore[method-assign]
    AnswerCache.keep = timed("cache", AnswerCache.keep)  # type: ignore[method-assign]
    os.fsync = timed("sync", os.fsync)
    execution.run_plan = timed("asking", execution.run_plan)
    with tempfile.TemporaryDirectory(dir=chosen.folder) as scratch:
        write_table(Path(scratch) / "many.tsv", chosen.questions)
        made = sn.build(
            Path(scratch) / "many.tsv", name="many", to=Path(scratch) / "many", no_images=True
        )
        for cache in ("", str(Path(scratch) / "cache")):
            CLOCK.clear(), BUSY.clear()
            sn.evaluate(
                Instant(chosen.batch),
                str(made.folder),
                "vanilla",
                runs=Path(scratch) / f"runs{bool(cache)}",
                cache=cache,
                report=False,
            )
            print(
                "with cache" if cache else "journal alone",
                f"asking {CLOCK['asking']:.1f} s, {BUSY['asking']:.1f} CPU s",
            )
            for name in ("append", "cache", "sync"):
                clock, busy = CLOCK[name] / CLOCK["asking"], BUSY[name] / BUSY["asking"]
                print(f"  {name:7} {clock:6.1%} of the clock, {busy:6.1%} of the CPU")


if __name__ == "__main__":
    main()
