"""Append exchanges to the journal of a run, and find earlier responses.

A line is written before the next request is sent, and synced to the disk twice a second, so a killed run loses no
response. An incomplete last line is cut off when the run resumes. Each line names the model that answered, so that a
journal is not mistaken for another model's if the manifest is lost.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from snellen.common.paths import shell_word
from snellen.errors import StoreError
from snellen.formats.digest_index import DigestIndex
from snellen.formats.whole_files import sync_folder, unwritable
from snellen.records import Exchange, Request, Response, Sample
from snellen.runs.journal import (
    JournalReader,
    numbered_journals,
    position_of,
    read_exchange_at,
    read_journal,
    read_lines,
)
from snellen.runs.journal_lines import (
    IDENTITY_BYTES,
    NO_AUTHORS,
    PRESENTATION_BYTES,
    StoredExchange,
    StoredRequest,
    presentation_identity,
    protocol_sample_identity,
    read_stored,
    request_identity,
    write_line,
)
from snellen.runs.locks import cut_torn_line, lock_file, write_elsewhere
from snellen.runs.run_folder import journals

if TYPE_CHECKING:
    from snellen.runs.earlier_answers import AnswerCache

SYNC_SECONDS = 0.5
MAX_REASONS = 100
"""Different reasons of failures that are counted; further ones are counted together."""
OTHER_REASONS = "other reasons"


class RunStore:
    """The journal of a run, open for appending, with an index of the responses that the run already has.

    Args:
        folder: The folder of the run.
        worker: Index of the process; each appends to a journal of its own.
        by_sample: Roles whose models look up the sample, such as one that knows the answers. Their responses are found
            by request and sample, those of other roles by request alone.
        authors: The identity of the model in each role.
        earlier_runs: Folders of finished runs of the same models, whose responses are used but not changed.
        cache: Responses that several runs share; new ones are added to it.
        asked_again: Keys of requests whose earlier responses are not used.
        clock: Returns the time in seconds.

    Raises:
        StoreError: A journal cannot be read or written, another process holds it, or a line was answered by another
            model.
    """

    def __init__(
        self,
        folder: Path,
        worker: int = 0,
        *,
        by_sample: Collection[str] = (),
        authors: Mapping[str, str] = NO_AUTHORS,
        earlier_runs: Sequence[Path] = (),
        cache: AnswerCache | None = None,
        asked_again: Collection[str] = (),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.folder = folder
        self.answered = Counter[str]()
        """Different requests of this session that were answered, by role."""
        self.stored = Counter[str]()
        """Different requests of the run that were answered before this session, by role."""
        self.failed = Counter[str]()
        """Different requests of this session that failed, by role.

        A request that failed once counts as failed, even if another presentation of it was answered.
        """
        self.sent = 0
        """Requests of this session, counted as often as they were sent."""
        self.reasons = Counter[str]()
        """Failures of this session, by reason."""

        self._by_sample = frozenset(by_sample)
        self.authors = authors
        """The identity of the model in each role."""
        self._cache = cache
        self._asked_again = frozenset(asked_again)
        self._earlier_journals: list[tuple[Path, Mapping[bytes, int]]] = []
        for run in earlier_runs:
            for path in journals(run):
                offsets = _offsets_in(path, path.stat().st_size, self._by_sample)
                self._earlier_journals.append((path, offsets))

        self._failed: set[bytes] = set()
        self._clock = clock
        self._synced = clock()
        self._positions = DigestIndex(IDENTITY_BYTES)
        """Position of the response in the journals, by the identity of the request."""
        self._answered_presentations = DigestIndex(PRESENTATION_BYTES, "b")
        """Presentations that were answered, as keys."""
        self._presentation_counts = DigestIndex(PRESENTATION_BYTES, "i")
        """Number of answered presentations, by sample and protocol."""
        self._path = folder / f"journal-{worker}.jsonl"
        self._file = self._open()
        self._reader = JournalReader(self._journals)

    def _open(self) -> int:
        """Open and lock the journal, cut off a line that a crash left incomplete, and read all journals of the run.

        Returns:
            The journal's file descriptor.
        """
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
            sync_folder(self.folder)
        except IsADirectoryError:
            raise StoreError(
                f"{self._path} is a folder, not a journal; run `snellen mend {shell_word(self.folder)}`"
            ) from None
        except OSError as error:
            raise unwritable(self.folder, error, write_elsewhere()) from None
        lock_file(descriptor, self.folder)
        try:
            cut_torn_line(descriptor)
            self._index_journals()
            self._size = os.fstat(descriptor).st_size
        except BaseException:
            os.close(descriptor)  # which also releases the lock
            raise
        return descriptor

    def _index_journals(self) -> None:
        """Read all journals of the run, also those of other worker processes, and note where each reply is."""
        self._journals = numbered_journals(self.folder)
        self._own_index = self._journals.index(self._path)
        for journal_index, path in enumerate(self._journals):
            for offset, exchange in read_lines(path, self.authors, read_stored):
                is_outdated = exchange.request.key in self._asked_again
                if is_outdated:
                    continue
                if (
                    exchange.response.error is None
                    and self.identity(exchange.request) not in self._positions
                ):
                    self.stored[exchange.request.role] += 1
                self._index(exchange, position_of(journal_index, offset))

    def _index(self, exchange: Exchange | StoredExchange, position: int) -> None:
        """Note where a successful reply is in the journals, and that its presentation was answered.

        Args:
            exchange: The request and its reply. A failure is ignored.
            position: Where the exchange is (`position_of`).
        """
        if exchange.response.error is not None:
            return
        protocol = exchange.protocol
        request = exchange.request
        identity = self.identity(request)
        if identity not in self._positions:
            self._positions.set(identity, position)
        presentation = presentation_identity(protocol, request)
        if presentation in self._answered_presentations:
            return
        self._answered_presentations.set(presentation, 0)
        if request.is_presentation:
            sample = protocol_sample_identity(protocol, request.benchmark, request.sample_id)
            earlier_count = self._presentation_counts.get(sample) or 0
            self._presentation_counts.set(sample, earlier_count + 1)

    # --- finding ---

    def identity(self, request: Request | StoredRequest) -> bytes:
        """Return the digest by which a response is found: two requests with the same digest share one response."""
        return request_identity(request, self._by_sample)

    def find(self, protocol: str, request: Request) -> Response | None:
        """Return the stored response to a request. It may come from this run, from an earlier one, or from the cache.

        It is then also recorded for this protocol and presentation. Failures are not returned, so they are sent again.

        Args:
            protocol: The label of the protocol.
            request: The request.
        """
        identity = self.identity(request)
        response = self._response_in_run(identity)
        from_cache = False
        may_be_elsewhere = request.key not in self._asked_again
        if response is None and may_be_elsewhere:
            response = self._response_in_earlier_runs(identity)
        if response is None and may_be_elsewhere and self._cache is not None:
            response = self._cache.find(request)
            from_cache = True
        if response is None:
            return None
        if not self.has_answered(protocol, request):
            exchange = Exchange(protocol, request, response, reused=True, from_cache=from_cache)
            self.append([exchange])
        return response

    def _response_in_run(self, identity: bytes) -> Response | None:
        """Return the reply to a request that is in the journals of this run; None if there is none."""
        position = self._positions.get(identity)
        if position is None:
            return None
        return self._reader.read(position).response

    def _response_in_earlier_runs(self, identity: bytes) -> Response | None:
        """Return the reply to a request that is in the journals of earlier runs; None if there is none."""
        for path, offsets in self._earlier_journals:
            if identity in offsets:
                return read_exchange_at(path, offsets[identity]).response
        return None

    def has_answered(self, protocol: str, request: Request) -> bool:
        """Return whether a request was answered for this sample and presentation under a protocol.

        A presentation is one way of showing a sample, for example with its options in another
        order. The same request may have been answered for another sample only; then the result is
        False.
        """
        return presentation_identity(protocol, request) in self._answered_presentations

    def count_answered_presentations(self, protocol: str, sample: Sample) -> int:
        """Return how many presentations of a sample, such as orders of its options, were answered under a protocol."""
        identity = protocol_sample_identity(protocol, sample.benchmark, sample.id)
        return self._presentation_counts.get(identity) or 0

    # --- appending ---

    def share(self, protocol: str, request: Request, response: Response) -> Response:
        """Record a response for a second question that sends the same request.

        Args:
            protocol: The label of the protocol under which the second question is presented.
            request: Its request.
            response: The response that the same request has just received for another question.

        Returns:
            The response, as it is stored for the second question.
        """
        if response.error is None:
            return self.find(protocol, request) or response
        self.append([Exchange(protocol, request, response, reused=True)])
        return response

    def append(self, exchanges: Iterable[Exchange]) -> None:
        """Write requests with their responses to the end of the journal.

        New responses are counted, and stored in the cache if there is one.

        Raises:
            StoreError: The journal or the cache cannot be written.
        """
        exchanges = list(exchanges)
        if self._cache is not None:
            new_exchanges = [exchange for exchange in exchanges if not exchange.reused]
            self._cache.keep(new_exchanges, replaced=self._asked_again)
        lines = bytearray()
        for exchange in exchanges:
            offset = self._size + len(lines)
            self._index(exchange, position_of(self._own_index, offset))
            if not exchange.reused:
                self._count(exchange)
            lines += write_line(exchange, self.authors)
        unwritten = memoryview(lines)
        try:
            while unwritten:
                n_written = os.write(self._file, unwritten)
                unwritten = unwritten[n_written:]
            self._size += len(lines)
            if self._clock() - self._synced > SYNC_SECONDS:
                self.sync()
        except OSError as error:
            raise unwritable(self.folder, error, write_elsewhere()) from None

    def _count(self, exchange: Exchange) -> None:
        """Count a request that was sent in this session as answered or failed, with the reason for a failure.

        A request that fails again is counted as one failure.
        """
        self.sent += 1
        identity = self.identity(exchange.request)
        if identity in self._failed:
            return
        role = exchange.request.role
        error = exchange.response.error
        if error is None:
            self.answered[role] += 1
            return
        self.failed[role] += 1
        self._failed.add(identity)
        reason = f"{error.kind}: {error.detail}"
        has_enough_reasons = len(self.reasons) >= MAX_REASONS
        if has_enough_reasons and reason not in self.reasons:
            reason = OTHER_REASONS
        self.reasons[reason] += 1

    @property
    def counts(self) -> tuple[int, int]:
        """Number of different requests in this session, and how many of them failed."""
        n_failed = self.failed.total()
        n_requests = self.answered.total() + n_failed
        return n_requests, n_failed

    def sync(self) -> None:
        """Make all lines written so far survive a loss of power. Raises StoreError."""
        try:
            os.fsync(self._file)
        except OSError as error:
            raise unwritable(self.folder, error, write_elsewhere()) from None
        self._synced = self._clock()

    def close(self) -> None:
        """Sync and close the journal, and release its lock."""
        try:
            self.sync()
        finally:
            os.close(self._file)
            self._reader.close()
            if self._cache is not None:
                self._cache.close()

    def __enter__(self) -> RunStore:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@lru_cache(maxsize=1024)
def _offsets_in(path: Path, size: int, by_sample: frozenset[str]) -> Mapping[bytes, int]:
    """Return where the first successful response to each request is in a journal, as an offset in bytes.

    Args:
        path: The journal.
        size: Its size. The result is cached, and a journal that has grown has another size, so it is read again.
        by_sample: Roles for which equal requests of different samples count as different.
    """
    offsets: dict[bytes, int] = {}
    for offset, exchange in read_journal(path):
        if exchange.response.error is None:
            offsets.setdefault(request_identity(exchange.request, by_sample), offset)
    return MappingProxyType(offsets)
