"""A model for workers on a cluster, found by an entry point as one of another package is: `clustered:NAME?...`.

It replies as `slow_model` does, and only to images whose bytes have come. Options: `seconds` for each request,
`batch`, `log` (a file that gets a line of JSON for each batch), `deadly` (the sample that ends its process), `unlike`
(a file: every process has another fingerprint, and answers when the file says that two have loaded the model),
`doubtful` (requests after which the model finds that all its scores were wrong).
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from msgspec.structs import replace

from slow_model import Slow
from snellen.common.images import Images
from snellen.models.base import AnswerGroup, answer_group
from snellen.models.model_strings import ModelSpec
from snellen.records import Request, Response


class Clustered(Slow):
    def __init__(self, spec: ModelSpec) -> None:
        self._given = spec.options
        super().__init__(
            float(spec.options.get("seconds", "0")), int(spec.options.get("batch", "4"))
        )
        self.name = spec.text

    def fingerprint(self) -> dict[str, str]:
        if file := self._given.get("unlike"):
            with Path(file).open("a") as loaded:
                loaded.write(f"{os.getpid()}\n")
            return {"model": "clustered", "process": str(os.getpid())}
        return {"model": "clustered"}

    def _await_another(self, file: Path) -> None:
        deadline = time.monotonic() + 60
        while len(set(file.read_text().split())) < 2:
            assert time.monotonic() < deadline, "no other process has loaded the model"
            time.sleep(0.01)

    def generate(self, requests: Sequence[Request], images: Images) -> list[Response]:
        pictures = [image.digest for request in requests for image in request.images]
        assert pictures == [
            hashlib.sha256(images.read(image)).hexdigest()
            for request in requests
            for image in request.images
        ]
        if self._given.get("deadly") in {request.sample_id for request in requests}:
            os.kill(os.getpid(), signal.SIGKILL)
        if file := self._given.get("unlike"):
            self._await_another(Path(file))
        if log := self._given.get("log"):
            with Path(log).open("a") as file:
                file.write(json.dumps([os.getpid(), pictures]) + "\n")
        return super().generate(requests, images)

    loglikelihood = generate


class Doubtful(Clustered):
    """Adds 1,000 nats to all scores until it has found that out, or is told."""

    def __init__(self, spec: ModelSpec) -> None:
        super().__init__(spec)
        self._left = int(spec.options["doubtful"])
        self._distrusted: set[AnswerGroup] = set()
        self.disproved: frozenset[AnswerGroup] = frozenset()

    def loglikelihood(self, requests: Sequence[Request], images: Images) -> list[Response]:
        right = super().loglikelihood(requests, images)
        answers = []
        for request, response in zip(requests, right, strict=True):
            if answer_group(request) in self.disproved | self._distrusted:
                answers.append(response)
                continue
            scores = tuple(replace(score, sum=score.sum + 1000) for score in response.scores)
            answers.append(replace(response, scores=scores))
        self._left -= len(requests)
        if self._left <= 0 and not self._distrusted:
            self.disproved = frozenset(map(answer_group, requests))
        return answers

    def doubts(self, request: Request) -> bool:
        return answer_group(request) in self.disproved

    def distrust(self, group: AnswerGroup) -> None:
        self._distrusted.add(group)


def open_clustered(spec: ModelSpec) -> Clustered:
    return Doubtful(spec) if "doubtful" in spec.options else Clustered(spec)


@contextmanager
def registered(folder: Path) -> Iterator[str]:
    """The model is found by this process; yields the PYTHONPATH with which others find it too."""
    info = folder / "clustered-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: clustered\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        f"[snellen.models]\nclustered = {__name__}:open_clustered\n"
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(folder))
        paths = [str(folder), str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")]
        yield os.pathsep.join(filter(None, paths))
