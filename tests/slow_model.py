"""Models that take their time, and a process that evaluates one.

    python slow_model.py FORM BENCHMARK RUNS NAME SECONDS

What they reply depends on the request alone; one reply in eight cannot be read.
"""

from __future__ import annotations

import asyncio
import random
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from snellen.api import evaluate
from snellen.common.images import Images
from snellen.common.seeds import rng_for
from snellen.models.base import ALL_KINDS
from snellen.records import ContinuationScore, Failure, Request, Response

PROTOCOLS = ("circular", "instability?m=3", "likelihood?m=2")


def reply_to(request: Request) -> Response:
    rng = rng_for("slow", request.key)
    if request.kind == "loglikelihood":
        return Response(
            scores=tuple(ContinuationScore(-rng.random(), 1, 1) for _ in request.continuations)
        )
    labels = request.variant.labels
    if not labels or rng.random() < 0.125:
        return Response(text="I cannot tell.")
    # Mostly the same option wherever it stands, so that rotations go on for a while.
    place = request.variant.order.index(0) if rng.random() < 0.7 else rng.randrange(len(labels))
    return Response(text=f"({labels[place]})")


class Slow:
    """Answers batches; `failing` is the share of requests that get an error instead of a reply."""

    name = "slow"
    kinds = ALL_KINDS

    def __init__(self, seconds: float = 0.0, batch_size: int = 8, failing: float = 0.0) -> None:
        self.batch_size = batch_size
        self.asked: list[str] = []
        self._seconds = seconds
        self._chance = random.Random(1)
        self._failing = failing

    def fingerprint(self) -> dict[str, str]:
        return {"model": "slow"}

    def respond(self, request: Request) -> Response:
        self.asked.append(request.key)
        if self._chance.random() < self._failing:
            return Response(error=Failure("server", "500"))
        return reply_to(request)

    def generate(self, requests: Sequence[Request], images: Images) -> list[Response]:
        time.sleep(self._seconds * len(requests))
        return [self.respond(request) for request in requests]

    loglikelihood = generate


class SlowAsync:
    """The same behind a network of its own: replies come in another order than they were asked for."""

    name = "slow"
    kinds = ALL_KINDS

    def __init__(self, seconds: float = 0.0, concurrency: int = 4, failing: float = 0.0) -> None:
        self.concurrency = concurrency
        self.closed = False
        self.most = self._now = 0
        self._slow = Slow(failing=failing)
        self._seconds = seconds

    @property
    def asked(self) -> list[str]:
        return self._slow.asked

    def fingerprint(self) -> dict[str, str]:
        return {"model": "slow"}

    async def ask(self, request: Request, images: Images) -> Response:
        assert images.read(request.images[0])
        self._now += 1
        self.most = max(self.most, self._now)
        await asyncio.sleep(self._seconds * rng_for("wait", request.key).random())
        self._now -= 1
        return self._slow.respond(request)

    async def close(self) -> None:
        self.closed = True


def main(form: str, benchmark: str, runs: str, name: str, seconds: str) -> None:
    model = (
        SlowAsync(float(seconds)) if form == "async" else Slow(float(seconds), batch_size=int(form))
    )
    evaluate(model, benchmark, PROTOCOLS, runs=Path(runs), name=name)


if __name__ == "__main__":
    main(*sys.argv[1:])
