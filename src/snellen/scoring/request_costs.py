"""What the answers to a benchmark took: requests, tokens, seconds."""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Sequence

from msgspec import Struct

from snellen.records import Usage
from snellen.runs.journal_line import JournalEntry
from snellen.scoring.token_counts import plus

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
        self._answered: dict[Place, int] = defaultdict(int)
        self._counted: dict[Place, int] = defaultdict(int)
        self._usages: dict[Place, Usage] = {}
        self._seconds: dict[Place, array[float]] = defaultdict(lambda: array("d"))

    def add(self, entry: JournalEntry) -> None:
        place, response = (entry.request.benchmark, entry.protocol), entry.response
        if response.error is not None:
            self._failed[place] += 1
            return
        self._answered[place] += 1
        if response.usage is not None:
            self._counted[place] += 1
            total = self._usages.get(place)
            self._usages[place] = response.usage if total is None else plus(total, response.usage)
        if response.seconds is not None:
            self._seconds[place].append(response.seconds)

    @property
    def costs(self) -> tuple[RequestCost, ...]:
        return tuple(self._cost(place) for place in dict.fromkeys((*self._answered, *self._failed)))

    def _cost(self, place: Place) -> RequestCost:
        answered = self._answered.get(place, 0)
        usage = self._usages.get(place) if self._counted.get(place, 0) == answered else None
        seconds = percentiles(self._seconds.get(place, ()))
        return RequestCost(*place, answered, self._failed.get(place, 0), usage, seconds)
