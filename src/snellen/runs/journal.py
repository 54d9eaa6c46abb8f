"""The journals of a run, to which exchanges are appended as they happen.

A line is written before the next request is made and synced to the disk twice a second, so a killed
run loses nothing that was answered. A torn last line is cut off when the run goes on. Each line says who answered,
so that no journal is taken for another model's, whatever becomes of the manifest.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, BinaryIO, TypeVar
from zlib import crc32

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from snellen.common.foreign import lines_of, open_file
from snellen.common.paths import as_word
from snellen.errors import StoreError
from snellen.formats.digest_index import DigestIndex
from snellen.formats.json_files import JSON_FAULTS
from snellen.formats.whole_files import sync_folder, unwritable
from snellen.records import (
    EVALUATED,
    Decoding,
    Exchange,
    Failure,
    Kind,
    Request,
    Response,
    Sample,
    Usage,
    key_of,
)
from snellen.runs.run_folder import (
    ELSEWHERE,
    RUN_MANIFEST,
    cut_torn_line,
    journals,
    lock_file,
    read_manifest,
)

if TYPE_CHECKING:
    from snellen.runs.earlier_answers import AnswerCache


# --- one line: an exchange, who answered it, and a checksum of both ---------------------------------------------------
# A line is JSON. Its last field, `crc`, is the CRC-32 of the line without it; a line that was edited on purpose has
# none.


NO_AUTHORS: Mapping[str, str] = MappingProxyType({})
LineT = TypeVar("LineT", Exchange, "JournalEntry", "StoredExchange")
_encoder = msgspec.json.Encoder()
_BEFORE_CHECKSUM, _AFTER_CHECKSUM = b',"crc":"', b'"}\n'
_END_LENGTH = len(_BEFORE_CHECKSUM) + 8 + len(_AFTER_CHECKSUM)


class EntryVariant(Struct, frozen=True, gc=False):
    """Says whether a request is a baseline, which measures what is likely without the picture."""

    baseline: str = ""


class EntryRequest(Struct, frozen=True, gc=False):
    """Who asks, and whom."""

    benchmark: str
    sample_id: str
    variant: EntryVariant
    role: str = EVALUATED


class EntryResponse(Struct, frozen=True, gc=False):
    """What a response took."""

    usage: Usage | None = None
    seconds: float | None = None
    error: Failure | None = None


class JournalEntry(Struct, frozen=True, gc=False):
    """An exchange without the texts of request and reply, read in a third of the time."""

    protocol: str
    request: EntryRequest
    response: EntryResponse
    reused: bool = False
    from_cache: bool = False
    answered_by: str = ""


_NONE, _DEFAULT = (msgspec.Raw(_encoder.encode(content)) for content in ((), Decoding()))


class StoredRequest(Struct, frozen=True, dict=True):
    """A request with its parts as they are written, from which it gets the same key."""

    benchmark: str
    sample_id: str
    variant: msgspec.Raw
    messages: msgspec.Raw
    kind: Kind = "generate"
    continuations: msgspec.Raw = _NONE
    decoding: msgspec.Raw = _DEFAULT
    role: str = EVALUATED

    @cached_property
    def key(self) -> str:
        return key_of(self.messages, self.kind, self.continuations, self.decoding, self.role)

    @property
    def is_presentation(self) -> bool:
        """Whether its response is an answer, and neither a step nor a baseline."""
        variant = bytes(self.variant)
        return b'"step":' not in variant and b'"baseline":' not in variant


class StoredResponse(Struct, frozen=True, gc=False):
    """Whether there was a response."""

    error: Failure | None = None


class StoredExchange(Struct, frozen=True, gc=False):
    """What a resumed run has to know about an exchange; it takes three quarters of the time to read with its key."""

    protocol: str
    request: StoredRequest
    response: StoredResponse
    reused: bool = False
    answered_by: str = ""


_exchanges = msgspec.json.Decoder(Exchange)
_stored = msgspec.json.Decoder(StoredExchange)
_entries = msgspec.json.Decoder(JournalEntry)


def write_line(exchange: Exchange, authors: Mapping[str, str]) -> bytes:
    """An exchange as a line; `authors` says who answers in each role."""
    body = _encoder.encode(replace(exchange, answered_by=authors.get(exchange.request.role, "")))
    return b"%b%b%08x%b" % (body[:-1], _BEFORE_CHECKSUM, crc32(body), _AFTER_CHECKSUM)


def read_line(line: bytes, authors: Mapping[str, str] = NO_AUTHORS) -> Exchange:
    """The exchange in a line. Raises StoreError, without the place, for a line that is not one, that has changed since
    it was written, or that somebody else answered than the one of its role in `authors`."""
    return _decoded(_body(line) or line, authors, _exchanges)


def read_entry(line: bytes, authors: Mapping[str, str] = NO_AUTHORS) -> JournalEntry:
    """The same without what was asked and replied, whose form is not looked at."""
    return _decoded(_body(line) or line, authors, _entries)


def read_stored(line: bytes, authors: Mapping[str, str] = NO_AUTHORS) -> StoredExchange:
    """The same, as far as a resumed run has to know it. A line that was edited, which has no checksum, may be written
    in another way than ours, so it is read and written first."""
    body = _body(line) or _encoder.encode(read_line(line, authors))
    return _decoded(body, authors, _stored)


def _body(line: bytes) -> bytes | None:
    """The exchange in a line with a checksum; None for a line without one. Raises StoreError where it does not fit."""
    end = line[-_END_LENGTH:]
    if not (end.startswith(_BEFORE_CHECKSUM) and end.endswith(_AFTER_CHECKSUM)):
        return None
    body = line[:-_END_LENGTH] + b"}"
    if b"%08x" % crc32(body) != end[len(_BEFORE_CHECKSUM) : -len(_AFTER_CHECKSUM)]:
        raise StoreError("the line has changed since it was written (its crc does not fit)")
    return body


def _decoded(
    body: bytes, authors: Mapping[str, str], decoder: msgspec.json.Decoder[LineT]
) -> LineT:
    try:
        content = decoder.decode(body)
    except JSON_FAULTS as error:
        raise StoreError(f"not an exchange of this version ({error})") from None
    author = authors.get(content.request.role)
    if author not in (None, content.answered_by):
        raise StoreError(
            f"answered by {content.answered_by or 'a model without a name'}, but this run is of {author}"
        )
    return content


# --- the store --------------------------------------------------------------------------------------------------------


SYNC_SECONDS = 0.5
READ_AT_ONCE = 1 << 20
"""Bytes of a journal that are read by one system call."""

IDENTITY_BYTES, PRESENTATION_BYTES = 16, 12
PLACE_BITS = 8
MOST_JOURNALS = 1 << PLACE_BITS
MOST_REASONS = 100
OTHER_REASONS = "other reasons"


class RunStore:
    """An open run folder. `worker` names the journal that this process appends to.

    A response is found again by what was asked; for the roles `by_sample` also by the sample that asked. It may also be
    found in one of `earlier_runs`, folders of finished runs of the same models, which are only read. `authors` says who
    answers in each role; a line that somebody else answered is refused. What a `cache` holds is not asked either, and
    new answers are added to it. Earlier responses to requests whose keys are in `asked_again` are not found. Raises
    StoreError.
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
        self._cache, self._asked_again = cache, frozenset(asked_again)
        self.folder, self._by_sample, self._authors = folder, frozenset(by_sample), authors
        self._others = [
            (path, _places_in(path, path.stat().st_size, self._by_sample))
            for run in earlier_runs
            for path in journals(run)
        ]
        self.answered, self.failed = Counter[str](), Counter[str]()
        """Different requests of this session, by role; one that failed counts as failed, whatever came for another
        presentation of it."""
        self.sent = 0
        """Requests of this session as often as they were asked."""
        self.reasons = Counter[str]()
        """Why requests of this session failed."""
        self._failed: set[bytes] = set()
        self._clock, self._synced = clock, clock()
        self._places = DigestIndex(
            IDENTITY_BYTES
        )  # what a response is found by -> offset * 256 + number of the journal
        self._known = DigestIndex(PRESENTATION_BYTES, "b")
        self._presentations = DigestIndex(PRESENTATION_BYTES, "i")
        self._path = folder / f"journal-{worker}.jsonl"
        self._file = self._open()
        self._reader = JournalReader(self._journals)

    def _open(self) -> int:
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
            sync_folder(self.folder)
        except IsADirectoryError:
            raise StoreError(
                f"{self._path} is a folder and no journal; `snellen mend {as_word(self.folder)}`"
            ) from None
        except OSError as error:
            raise unwritable(self.folder, error, ELSEWHERE) from None
        lock_file(file, self.folder)
        try:
            cut_torn_line(file)
            self._read_all()
            self._size = os.fstat(file).st_size
        except BaseException:
            os.close(file)  # and with it the lock
            raise
        return file

    def _read_all(self) -> None:
        self._journals = numbered_journals(self.folder)
        self._own = self._journals.index(self._path)
        for number, path in enumerate(self._journals):
            for offset, exchange in _read_lines(path, self._authors, read_stored):
                if exchange.request.key not in self._asked_again:
                    self._index(exchange, number, offset)

    def _index(self, exchange: Exchange | StoredExchange, journal: int, offset: int) -> None:
        if exchange.response.error is not None:
            return
        request = exchange.request
        identity = self.identity(request)
        if identity not in self._places:
            self._places.set(identity, offset << PLACE_BITS | journal)
        presentation = presentation_identity(exchange.protocol, request)
        if presentation not in self._known:
            self._known.set(presentation, 0)
            if request.is_presentation:
                sample = _asked_sample(exchange.protocol, request.benchmark, request.sample_id)
                self._presentations.set(sample, (self._presentations.get(sample) or 0) + 1)

    def identity(self, request: Request | StoredRequest) -> bytes:
        """What the response to a request is found by: two requests with the same share one response."""
        return request_identity(request, self._by_sample)

    def find(self, protocol: str, request: Request) -> Response | None:
        """The stored response to the same request, if any; it is then recorded under this presentation too.

        Failures are never returned, so they are asked again.
        """
        response, from_cache = self._stored(self.identity(request)), False
        if response is None and self._cache is not None:
            response, from_cache = self._cache.find(request), True
        if response is None:
            return None
        if presentation_identity(protocol, request) not in self._known:
            self.append([Exchange(protocol, request, response, reused=True, from_cache=from_cache)])
        return response

    def knows(self, protocol: str, request: Request) -> bool:
        """Whether the request was answered as this presentation."""
        return presentation_identity(protocol, request) in self._known

    def presentations_of(self, protocol: str, sample: Sample) -> int:
        """How many presentations of a sample were answered under a protocol."""
        return self._presentations.get(_asked_sample(protocol, sample.benchmark, sample.id)) or 0

    def _stored(self, identity: bytes) -> Response | None:
        place = self._places.get(identity)
        if place is not None:
            return self._reader.read(place).response
        for path, places in self._others:
            if identity in places:
                return read_exchange_at(path, places[identity]).response
        return None

    def share(self, protocol: str, request: Request, response: Response) -> Response:
        """Record under this presentation too the response, or failure, that another just got for the same request."""
        if response.error is None:
            return self.find(protocol, request) or response
        self.append([Exchange(protocol, request, response, reused=True)])
        return response

    def append(self, exchanges: Iterable[Exchange]) -> None:
        """Write exchanges at the end of the journal, in one system call. Raises StoreError."""
        lines = bytearray()
        exchanges = list(exchanges)
        if self._cache is not None:
            self._cache.keep(exchange for exchange in exchanges if not exchange.reused)
        for exchange in exchanges:
            self._index(exchange, self._own, self._size + len(lines))
            if not exchange.reused:
                self._count(exchange)
            lines += write_line(exchange, self._authors)
        view = memoryview(lines)
        try:
            while view:
                view = view[os.write(self._file, view) :]
            self._size += len(lines)
            if self._clock() - self._synced > SYNC_SECONDS:
                self.sync()
        except OSError as error:
            raise unwritable(self.folder, error, ELSEWHERE) from None

    def _count(self, exchange: Exchange) -> None:
        role, error = exchange.request.role, exchange.response.error
        self.sent += 1
        identity = self.identity(exchange.request)
        if identity in self._failed:
            return
        (self.failed if error else self.answered)[role] += 1
        if error:
            self._failed.add(identity)
            reason = f"{error.kind}: {error.detail}"
            self.reasons[
                reason
                if reason in self.reasons or len(self.reasons) < MOST_REASONS
                else OTHER_REASONS
            ] += 1

    @property
    def counts(self) -> tuple[int, int]:
        """Different requests of this session, and how many of them failed."""
        return self.answered.total() + self.failed.total(), self.failed.total()

    def sync(self) -> None:
        """Make all lines written so far survive a loss of power. Raises StoreError."""
        try:
            os.fsync(self._file)
        except OSError as error:
            raise unwritable(self.folder, error, ELSEWHERE) from None
        self._synced = self._clock()

    def close(self) -> None:
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


def numbered_journals(folder: Path) -> list[Path]:
    """The journals whose numbers stand in places. Raises StoreError for more than a place can tell."""
    paths = journals(folder)
    if len(paths) > MOST_JOURNALS:
        raise StoreError(
            f"{folder} has {len(paths)} journals, more than {MOST_JOURNALS}; join some"
        )
    return paths


def read_exchanges(folder: Path) -> Iterator[Exchange]:
    """All exchanges of a run in order of arrival.

    Raises StoreError for a line that is not an exchange, or that another model answered than the manifest's, if any.
    """
    authors = read_manifest(folder).authors if (folder / RUN_MANIFEST).exists() else NO_AUTHORS
    for path in journals(folder):
        for _, exchange in read_journal(path, authors):
            yield exchange


def read_journal(
    path: Path, authors: Mapping[str, str] = NO_AUTHORS
) -> Iterator[tuple[int, Exchange]]:
    """Offset and exchange of each whole line; a torn last line is passed over. Raises StoreError as above."""
    return _read_lines(path, authors, read_line)


def read_entries(
    paths: Sequence[Path], authors: Mapping[str, str]
) -> Iterator[tuple[int, JournalEntry]]:
    """Place (see `JournalReader`) and short form of all exchanges in these journals in order of arrival. Raises
    StoreError as above."""
    for number, path in enumerate(paths):
        for offset, entry in _read_lines(path, authors, read_entry):
            yield offset << PLACE_BITS | number, entry


def read_stored_lines(
    paths: Sequence[Path], authors: Mapping[str, str]
) -> Iterator[StoredExchange]:
    """What a resumed run has to know of all exchanges in these journals. Raises StoreError as above."""
    for path in paths:
        for _, stored in _read_lines(path, authors, read_stored):
            yield stored


def _read_lines(
    path: Path, authors: Mapping[str, str], decode: Callable[[bytes, Mapping[str, str]], LineT]
) -> Iterator[tuple[int, LineT]]:
    offset = 0
    for number, line in enumerate(_lines(path), 1):
        if line.endswith(b"\n"):
            try:
                content = decode(line, authors)
            except StoreError as error:
                raise _at_line(path, number, error) from None
            yield offset, content
        offset += len(line)


def _at_line(path: Path, number: int, error: StoreError) -> StoreError:
    return StoreError(
        f"{path}:{number}: {error}; `snellen mend {as_word(path.parent)}` sets such lines aside"
    )


class JournalReader:
    """Reads exchanges of journals by their places: the offset of the line, and in the last byte the number of the
    journal among `paths`."""

    def __init__(self, paths: Sequence[Path]) -> None:
        self._paths = paths
        self._files: dict[int, BinaryIO] = {}

    def read(self, place: int) -> Exchange:
        """The exchange at a place. Raises StoreError as `read_journal`."""
        number, offset = place & MOST_JOURNALS - 1, place >> PLACE_BITS
        file = self._files.get(number) or self._files.setdefault(
            number, open_file(self._paths[number])
        )
        try:
            return read_line(_line_at(file, offset))
        except StoreError as error:
            file.seek(0)
            raise _at_line(self._paths[number], file.read(offset).count(b"\n") + 1, error) from None

    def close(self) -> None:
        for file in self._files.values():
            file.close()

    def __enter__(self) -> JournalReader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _lines(path: Path) -> Iterator[bytes]:
    try:
        with open_file(path, buffering=READ_AT_ONCE) as file:
            yield from lines_of(file)
    except OSError as error:
        remedy = (
            f"`snellen mend {as_word(path.parent)}` sets it aside"
            if path.is_dir()
            else "see that it can be read"
        )
        raise StoreError(f"{path}: cannot be read ({error.strerror}); {remedy}") from None


def request_identity(request: Request | StoredRequest, by_sample: Collection[str]) -> bytes:
    """What the response to a request is found by; for the roles `by_sample` also by the sample that asks."""
    return sample_identity(request) if request.role in by_sample else bytes.fromhex(request.key)


@lru_cache(maxsize=1024)
def _places_in(path: Path, size: int, by_sample: frozenset[str]) -> Mapping[bytes, int]:
    """Where the first answer to each request stands in a journal of that size: read once, however many runs ask."""
    places: dict[bytes, int] = {}
    for offset, exchange in read_journal(path):
        if exchange.response.error is None:
            places.setdefault(request_identity(exchange.request, by_sample), offset)
    return MappingProxyType(places)


def sample_identity(request: Request | StoredRequest) -> bytes:
    """A digest of what a request asks and of the sample that asks it."""
    who = (request.benchmark, request.sample_id, request.key)
    return hashlib.blake2b(_encoder.encode(who), digest_size=IDENTITY_BYTES).digest()


def presentation_identity(protocol: str, request: Request | StoredRequest) -> bytes:
    """A digest of what a request asks, of the sample and protocol that ask it, and of how the sample is presented."""
    who = (protocol, request.benchmark, request.sample_id, request.variant, request.key)
    return hashlib.blake2b(_encoder.encode(who), digest_size=PRESENTATION_BYTES).digest()


def _asked_sample(protocol: str, benchmark: str, sample_id: str) -> bytes:
    who = (protocol, benchmark, sample_id)
    return hashlib.blake2b(_encoder.encode(who), digest_size=PRESENTATION_BYTES).digest()


def read_exchange_at(path: Path, offset: int) -> Exchange:
    """The exchange whose line begins at an offset that `read_journal` gave."""
    with open_file(path) as file:
        return read_line(_line_at(file, offset))


def _line_at(file: BinaryIO, offset: int) -> bytes:
    """The line that begins at an offset. Raises StoreError for one that is longer than a line may be."""
    file.seek(offset)
    try:
        return next(lines_of(file), b"")
    except OSError as error:
        raise StoreError(f"it cannot be read ({error.strerror})") from None
