"""`replay:RUN`: a model that gives the responses of an earlier run, found by what was asked."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from snellen.images import Images
from snellen.models.base import ALL_KINDS, ModelSpec
from snellen.models.object_fingerprint import NOT_FINGERPRINTED
from snellen.records import Failure, Kind, Request, Response
from snellen.runs.journal import identity_of, read_exchanges, read_manifest


class Replay:
    """Answers what the earlier run was asked; anything else is a failure, counted as such."""

    kinds: frozenset[Kind] = ALL_KINDS
    batch_size = 1024

    def __init__(self, name: str, folder: Path) -> None:
        self.name = name
        self._manifest = read_manifest(folder)
        self.answers_by_sample = self._manifest.answers_by_sample
        self._responses = {
            self._identity(exchange.request): exchange.response
            for exchange in read_exchanges(folder)
            if exchange.response.error is None
        }

    def fingerprint(self) -> dict[str, str]:
        known = {name: text for name, text in self._manifest.fingerprint.items() if name != NOT_FINGERPRINTED}
        return {"replay of": self._manifest.model, **known}

    def _identity(self, request: Request) -> bytes:
        return identity_of(request, self.answers_by_sample)

    def generate(self, requests: Sequence[Request], images: Images) -> list[Response]:
        missing = Response(error=Failure("not recorded", "the replayed run was not asked this"))
        return [self._responses.get(self._identity(request), missing) for request in requests]

    loglikelihood = generate


def open_replay(spec: ModelSpec) -> Replay:
    """Raises StoreError when the folder is no run."""
    return Replay(spec.text, Path(spec.target))
