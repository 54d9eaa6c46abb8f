"""Scored runs for tests of reports: models that say what their answers took, on the embedded eye chart."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from msgspec.structs import replace

import snellen as sn
from snellen.api import Results
from snellen.common.seeds import rng_for
from snellen.records import ContinuationScore, Request, Response, Usage

HOSTILE = "</p></script><script>document.title='owned'</script><img src=x onerror=alert(1)>"
BENCHMARKS = ["eyechart/shape", "eyechart/exists"]


class Counted:
    """Always names the first option, or any; every third model replies with markup. The later cost more."""

    kinds = frozenset({"generate", "loglikelihood"})

    def __init__(self, number: int) -> None:
        self.name = f"vendor/Model-Name-{number}-7B-Instruct"
        self.fingerprint, self.number = str(number), number

    def generate(self, requests: Sequence[Request], images: Any) -> list[Response]:
        used = Usage(100 + 50 * self.number, 2)
        return [
            Response(text=self._reply(one), usage=used, seconds=0.01 * (1 + self.number))
            for one in requests
        ]

    def loglikelihood(self, requests: Sequence[Request], images: Any) -> list[Response]:
        return [
            Response(
                scores=tuple(
                    ContinuationScore(-1.0 - place, 1, 1) for place in range(len(one.continuations))
                )
            )
            for one in requests
        ]

    def _reply(self, request: Request) -> str:
        if self.number % 3 == 0:
            return f"I cannot say. {HOSTILE}"
        return f"({'AB'[rng_for(request.sample_id, self.name, 0).randrange(2)]})"


def counted_runs(folder: Path, models: int = 7, limit: int = 2) -> Results:
    """Runs with a price, each model by circular and by likelihood."""
    results = sn.evaluate(
        [Counted(n) for n in range(models)],
        BENCHMARKS,
        ["circular", "likelihood"],
        limit=limit,
        runs=folder,
    )
    return Results([replace(run, price=(1.0, 10.0)) for run in results.runs])
