"""Samples that were answered before, passed over when a run goes on without making their requests again."""

from __future__ import annotations

from collections.abc import Iterator

from snellen.protocols.base import Protocol
from snellen.protocols.declaration import Declaration, declaration_of
from snellen.records import Sample
from snellen.runs.drivers import ProgressCallback, ProgressUpdate, SampleItem
from snellen.runs.journal import RunStore

ONE_IN = 200
"""Of the samples that seem finished so many are gone through all the same."""


def unfinished_items(items: Iterator[SampleItem], store: RunStore, progress: ProgressCallback) -> Iterator[SampleItem]:
    """The items of which something may be left to ask; `progress` is told of the others.

    An item is finished when its protocol promises how many presentations it asks, whatever is replied, and as many are
    answered. The first such item of a benchmark and protocol, and one in `ONE_IN` of the others, are asked for their
    requests all the same: if one is not in the store, as after a change of the words, none of that benchmark and
    protocol is passed over any more.
    """
    seen: dict[tuple[str, str], int] = {}
    changed: set[tuple[str, str]] = set()
    known: dict[int, tuple[Protocol, str, Declaration]] = {}  # a protocol makes up both whenever it is asked
    for item in items:
        _, label, declared = known.get(id(item.protocol)) or known.setdefault(
            id(item.protocol), (item.protocol, item.label, declaration_of(item.protocol))
        )
        kind = item.sample.benchmark, label
        if kind in changed or not _seems_finished(item.sample, label, declared, store):
            yield item
            continue
        seen[kind] = seen.get(kind, 0) + 1
        if seen[kind] % ONE_IN == 1 and not all(store.knows(label, request) for request in next(item.start(), ())):
            changed.add(kind)
            yield item
            continue
        progress(ProgressUpdate(items=1))


def _seems_finished(sample: Sample, label: str, declared: Declaration, store: RunStore) -> bool:
    if declared.presentations is None or declared.stops_early or declared.baselines or declared.conclude:
        return False
    promised = declared.n_presentations(sample) * len(sample.rounds)
    return store.presentations_of(label, sample) >= promised
