"""Samples that a resumed run has finished already, and that it passes over."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from snellen.protocols.base import declaration_of
from snellen.runs.drivers import ProgressCallback, SampleItem, progress_of_finished
from snellen.runs.run_store import RunStore

ONE_IN = 200
"""One in this many of the samples that seem finished is checked against the store."""


def unfinished_items(
    items: Iterator[SampleItem], store: RunStore, progress: ProgressCallback
) -> Iterator[SampleItem]:
    """Yield the samples of a run that may have missing replies. The others are reported to `progress` as finished.

    To save time, a sample counts as finished if the store has as many replies as its protocol needs. This is checked
    request by request for the first such sample of each benchmark and protocol, and for one in `ONE_IN` of the others.
    If a request is missing there, for example because a prompt has changed, all further samples of that benchmark and
    protocol are yielded.
    """
    seemingly_finished: Counter[tuple[str, str]] = Counter()
    changed: set[tuple[str, str]] = set()
    for item in items:
        kind = (item.sample.benchmark, item.label)
        if kind in changed or not _seems_finished(item, store):
            yield item
            continue
        seemingly_finished[kind] += 1
        is_checked = seemingly_finished[kind] % ONE_IN == 1
        if is_checked and not _has_all_requests(item, store):
            changed.add(kind)
            yield item
            continue
        progress(progress_of_finished(item, is_stored=True))


def _seems_finished(item: SampleItem, store: RunStore) -> bool:
    """Return whether a sample has all its replies, as far as their number shows it.

    Some protocols do not send a fixed number of requests per question. Their samples never seem finished here.
    """
    declared = declaration_of(item.protocol)
    if declared.presentations is None or declared.stops_early:
        return False
    if declared.baselines or declared.conclude:
        return False
    promised = declared.n_presentations(item.sample) * len(item.sample.rounds)
    return store.presentations_of(item.label, item.sample) >= promised


def _has_all_requests(item: SampleItem, store: RunStore) -> bool:
    first_requests = next(item.start(), ())
    return all(store.knows(item.label, request) for request in first_requests)
