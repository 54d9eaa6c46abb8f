"""Find the samples of a resumed run that have all their replies, so that they need not be evaluated again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from snellen.protocols.base import declaration_of
from snellen.runs.drivers import ProgressCallback, SampleItem, progress_of_finished
from snellen.runs.run_store import RunStore

CHECKED_ONE_IN = 200
"""Of this many samples that seem finished, one is checked request by request."""


def unfinished_items(
    items: Iterator[SampleItem], store: RunStore, progress: ProgressCallback
) -> Iterator[SampleItem]:
    """Yield the samples of a run that may have missing replies. The others are reported to `progress` as finished.

    To save time, a sample counts as finished if the store has as many replies as its protocol needs. This is checked
    request by request for the first such sample of each benchmark and protocol, and for one in `CHECKED_ONE_IN` of the others.
    If a request is missing there, for example because a prompt has changed, all further samples of that benchmark and
    protocol are yielded.
    """
    n_seemingly_finished: Counter[tuple[str, str]] = Counter()
    changed_groups: set[tuple[str, str]] = set()
    for item in items:
        group = (item.sample.benchmark, item.label)
        if group in changed_groups or not _seems_finished(item, store):
            yield item
            continue
        n_seemingly_finished[group] += 1
        is_checked = n_seemingly_finished[group] % CHECKED_ONE_IN == 1
        if is_checked and not _has_all_requests(item, store):
            changed_groups.add(group)
            yield item
            continue
        progress(progress_of_finished(item, is_stored=True))


def _seems_finished(item: SampleItem, store: RunStore) -> bool:
    """Return whether the store has as many replies for a sample as its protocol needs.

    The result is always False for protocols that do not send a fixed number of requests per
    question.
    """
    declared = declaration_of(item.protocol)
    if declared.presentations is None or declared.stops_early:
        return False
    if declared.baselines or declared.conclude:
        return False
    n_needed = declared.n_presentations(item.sample) * len(item.sample.rounds)
    n_answered = store.count_answered_presentations(item.label, item.sample)
    return n_answered >= n_needed


def _has_all_requests(item: SampleItem, store: RunStore) -> bool:
    """Return whether the first requests of a sample under a protocol were answered exactly as they would be sent now."""
    first_requests = next(item.start(), ())
    return all(store.has_answered(item.label, request) for request in first_requests)
