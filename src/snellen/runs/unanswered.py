"""Requests that have no reply in the end: what "failed" means wherever requests are counted over all of a run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from snellen.records import Exchange
from snellen.runs.journal import (
    JournalReader,
    StoredExchange,
    presentation_identity,
    read_stored_lines,
    request_identity,
)


class UnansweredRequest(Struct, frozen=True, gc=False):
    """A request without a reply for a presentation under a protocol."""

    identity: bytes
    role: str
    benchmark: str
    protocol: str
    kind: str
    """Of the failure."""


class UnansweredRequests:
    """Collects failures of a run, then takes off those whose presentation was asked again and answered.

    Several presentations may wait for one request, which counts once. It counts although another presentation of it was
    answered: a question goes without an answer. For the roles `by_sample` each sample has requests of its own.
    """

    def __init__(self, by_sample: Collection[str]) -> None:
        self._by_sample = by_sample
        self._waiting: dict[bytes, UnansweredRequest] = {}
        self._failed: set[bytes] = set()
        self._answered: set[bytes] = set()
        """Of those that failed, those that were answered for some presentation."""

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def add_failure(self, exchange: Exchange | StoredExchange) -> None:
        request, error = exchange.request, exchange.response.error
        presentation = presentation_identity(exchange.protocol, request)
        identity = request_identity(request, self._by_sample)
        self._failed.add(identity)
        self._waiting[presentation] = UnansweredRequest(
            identity, request.role, request.benchmark, exchange.protocol, error.kind if error else ""
        )

    def add_reply(self, exchange: StoredExchange) -> None:
        """Take note of a reply, after all failures that may have come before it; one reused is no further request."""
        self._waiting.pop(presentation_identity(exchange.protocol, exchange.request), None)
        identity = request_identity(exchange.request, self._by_sample)
        if identity in self._failed and not exchange.reused:
            self._answered.add(identity)

    def by_role(self) -> Counter[str]:
        """How many requests each role left without a reply."""
        return Counter(request.role for request in self._by_identity().values())

    def answered_elsewhere_by_role(self) -> Counter[str]:
        """How many of these were answered for another presentation."""
        identities = self._by_identity()
        return Counter(identities[identity].role for identity in identities.keys() & self._answered)

    def by_kind(self) -> Counter[str]:
        """How many requests have no reply, by the kind of failure."""
        return Counter(request.kind for request in self._by_identity().values())

    def by_place(self) -> Counter[tuple[str, str]]:
        """How many requests each benchmark and protocol would lack if it were asked alone."""
        identities = {(request.benchmark, request.protocol, request.identity) for request in self._waiting.values()}
        return Counter((benchmark, protocol) for benchmark, protocol, _ in identities)

    def _by_identity(self) -> dict[bytes, UnansweredRequest]:
        return {request.identity: request for request in self._waiting.values()}


def unanswered_requests(
    paths: Sequence[Path], authors: Mapping[str, str], by_sample: Collection[str], failures: Iterable[int]
) -> UnansweredRequests:
    """What has no reply in the end of the requests that failed at these places of journals (see `JournalReader`).

    Where any did, the journals are read once more, as a reply may stand in one before. Raises StoreError.
    """
    unanswered = UnansweredRequests(by_sample)
    with JournalReader(paths) as journal:
        for place in failures:
            unanswered.add_failure(journal.read(place))
    if unanswered:
        for exchange in read_stored_lines(paths, authors):
            if exchange.response.error is None:
                unanswered.add_reply(exchange)
    return unanswered
