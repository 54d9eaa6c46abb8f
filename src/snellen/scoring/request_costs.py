"""What the answers to a benchmark took: requests, tokens, seconds."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from msgspec import Struct

from snellen.records import Exchange, Usage
from snellen.scoring.token_counts import add_usages

PERCENTILES = (50, 95, 99)
Place = tuple[str, str]
"""Benchmark and protocol."""


class RequestCost(Struct, frozen=True):
    """One protocol on one benchmark, as if it had been asked alone: answers taken over from another protocol count."""

    benchmark: str
    protocol: str
    answered: int
    failed: int
    usage: Usage | None
    """Tokens of those that were answered; None where a model does not count, or not always."""
    seconds: tuple[float, ...] = ()
    """The percentiles of the seconds that a request took; empty where they were not measured."""


def percentiles(values: Sequence[float]) -> tuple[float, ...]:
    """The nearest-rank percentiles: the least value that at least so many per cent do not exceed; empty for none."""
    ordered = sorted(values)
    return tuple(ordered[-(-len(ordered) * p // 100) - 1] for p in PERCENTILES) if ordered else ()


class CostTally:
    """Adds exchanges up, by benchmark and protocol."""

    def __init__(self) -> None:
        self._failed: dict[Place, int] = defaultdict(int)
        self._seconds: dict[Place, list[float]] = defaultdict(list)
        self._usages: dict[Place, list[Usage | None]] = defaultdict(list)

    def add(self, exchange: Exchange) -> None:
        place, response = (exchange.request.benchmark, exchange.protocol), exchange.response
        if response.error is not None:
            self._failed[place] += 1
            return
        self._usages[place].append(response.usage)
        if response.seconds is not None:
            self._seconds[place].append(response.seconds)

    @property
    def costs(self) -> tuple[RequestCost, ...]:
        return tuple(self._cost(place) for place in dict.fromkeys((*self._usages, *self._failed)))

    def _cost(self, place: Place) -> RequestCost:
        uses = self._usages[place]
        counted = [use for use in uses if use is not None]
        usage = add_usages(counted) if len(counted) == len(uses) else None
        return RequestCost(*place, len(uses), self._failed[place], usage, percentiles(self._seconds[place]))
