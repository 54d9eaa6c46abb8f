"""What a run's options score without their picture, found beside the scores that they are to be taken from."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from msgspec.structs import replace

from snellen.protocols.base import parse_protocol
from snellen.protocols.declaration import declaration_of
from snellen.records import ContinuationScore, Exchange, Variant
from snellen.runs.journal import read_exchanges

Place = tuple[str, str, str, Variant]
"""Protocol, benchmark, sample, presentation."""


class Baselines:
    """The baselines of the protocols among `labels` that ask for them; the journal is read only for those."""

    def __init__(self, folder: Path, labels: Iterable[str]) -> None:
        self._asking = {label for label in labels if declaration_of(parse_protocol(label)).baselines}
        self._scores: dict[Place, tuple[ContinuationScore, ...]] = {}
        for exchange in read_exchanges(folder) if self._asking else ():
            if exchange.request.variant.baseline and exchange.response.error is None:
                self._scores[_place(exchange)] = exchange.response.scores

    def of(self, exchange: Exchange) -> tuple[ContinuationScore, ...] | None:
        """What to subtract: empty when it never came, None when the protocol asks for no baseline."""
        return self._scores.get(_place(exchange), ()) if exchange.protocol in self._asking else None


def _place(exchange: Exchange) -> Place:
    """The presentation that an exchange is of, or is the baseline of."""
    request = exchange.request
    return exchange.protocol, request.benchmark, request.sample_id, replace(request.variant, baseline="")
