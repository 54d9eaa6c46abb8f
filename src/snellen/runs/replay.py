"""`replay:RUN`: a model that gives the responses of an earlier run, found by what was asked."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from snellen.common.images import Images
from snellen.models.base import ALL_KINDS, NOT_FINGERPRINTED, ModelSpec, ShownByName
from snellen.records import Failure, Kind, Request, Response
from snellen.runs.journal import read_exchanges, read_manifest, request_identity


class Replay(ShownByName):
    """Answers what the earlier run was asked; anything else is a failure, counted as such."""

    kinds: frozenset[Kind] = ALL_KINDS
    batch_size = 1024

    def __init__(self, name: str, folder: Path) -> None:
        self.name = name
        self._manifest = read_manifest(folder)
        self.answers_by_sample = bool(self._manifest.by_sample)
        self._responses = {
            self._identity(exchange.request): exchange.response
            for exchange in read_exchanges(folder)
            if exchange.response.error is None
        }

    def fingerprint(self) -> dict[str, str]:
        facts = {"replay of": self._manifest.model, **self._manifest.fingerprint}
        for role, use in self._manifest.roles.items():
            facts[role] = use.model
            facts.update({f"{role}: {name}": text for name, text in use.fingerprint.items()})
        return {name: text for name, text in facts.items() if not name.endswith(NOT_FINGERPRINTED)}

    def _identity(self, request: Request) -> bytes:
        return request_identity(request, self._manifest.by_sample)

    def generate(self, requests: Sequence[Request], images: Images) -> list[Response]:
        missing = Response(error=Failure("not recorded", "the replayed run was not asked this"))
        return [self._responses.get(self._identity(request), missing) for request in requests]

    loglikelihood = generate


def open_replay(spec: ModelSpec) -> Replay:
    """Raises StoreError when the folder is not a run."""
    return Replay(spec.text, Path(spec.target))
