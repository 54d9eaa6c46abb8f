"""What a run's options score without their picture, found beside the scores that they are to be taken from."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from snellen.protocols.base import parse_protocol
from snellen.protocols.choice import Likelihood
from snellen.records import ContinuationScore, Exchange
from snellen.run.store import read_exchanges

Place = tuple[str, str, str, int]
"""Protocol, benchmark, sample, presentation."""


class Baselines:
    """The baselines of the protocols among `labels` that ask for them; the journal is read only for those."""

    def __init__(self, folder: Path, labels: Iterable[str]) -> None:
        protocols = {label: parse_protocol(label) for label in labels}
        self._tests = {label: p.m for label, p in protocols.items() if isinstance(p, Likelihood) and p.pmi}
        self._scores: dict[Place, tuple[ContinuationScore, ...]] = {}
        for exchange in read_exchanges(folder) if self._tests else ():
            if exchange.request.variant.baseline and exchange.response.error is None:
                place = _place(exchange, exchange.request.variant.test - self._tests[exchange.protocol])
                self._scores[place] = exchange.response.scores

    def of(self, exchange: Exchange) -> tuple[ContinuationScore, ...] | None:
        """What to subtract: empty when it never came, None when the protocol asks for no baseline."""
        if exchange.protocol not in self._tests:
            return None
        return self._scores.get(_place(exchange, exchange.request.variant.test), ())


def _place(exchange: Exchange, test: int) -> Place:
    return exchange.protocol, exchange.request.benchmark, exchange.request.sample_id, test
