"""Samples that were answered before, passed over when a run goes on without making their requests again."""

from __future__ import annotations

from collections.abc import Iterator

from snellen.protocols.declaration import declaration_of
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
    for item in items:
        kind = item.sample.benchmark, item.label
        if kind in changed or not _seems_finished(item, store):
            yield item
            continue
        seen[kind] = seen.get(kind, 0) + 1
        if seen[kind] % ONE_IN == 1 and not all(store.knows(item.label, request) for request in next(item.start(), ())):
            changed.add(kind)
            yield item
            continue
        progress(ProgressUpdate(items=1))


def _seems_finished(item: SampleItem, store: RunStore) -> bool:
    declared = declaration_of(item.protocol)
    if declared.presentations is None or declared.stops_early or declared.baselines or declared.conclude:
        return False
    promised = declared.n_presentations(item.sample) * len(item.sample.rounds)
    return store.presentations_of(item.label, item.sample) >= promised
