"""A run folder: a manifest, and journals to which exchanges are appended as they happen.

    manifest.json       what was asked of which model, and all that the answers depend on
    journal-0.jsonl     one Exchange per line, in order of arrival; one file per worker

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
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, BinaryIO

import msgspec
from msgspec import Struct

from snellen.building.benchmark import Part, Selection
from snellen.common.paths import as_word
from snellen.errors import StoreError
from snellen.formats.decoding import JSON_FAULTS
from snellen.formats.digest_index import DigestIndex
from snellen.models.base import answers_as
from snellen.records import EVALUATED, Decoding, Exchange, Request, Response, Sample
from snellen.runs.journal_line import (
    NO_AUTHORS,
    JournalEntry,
    LineT,
    StoredExchange,
    StoredRequest,
    read_entry,
    read_line,
    read_stored,
    write_line,
)
from snellen.runs.run_folder import cut_torn_line, lock_file, sync_folder, unwritable
from snellen.runs.spec import ExecutionSpec, QuestionSpec

if TYPE_CHECKING:
    from snellen.runs.answer_cache import AnswerCache

RUN_FORMAT = 3
RUN_MANIFEST = "manifest.json"
JOURNALS = "journal-*.jsonl"
SYNC_SECONDS = 0.5
READ_AT_ONCE = 1 << 20
"""Bytes of a journal that are read by one system call."""

IDENTITY_BYTES, PRESENTATION_BYTES = 16, 12
PLACE_BITS = 8
MOST_JOURNALS = 1 << PLACE_BITS
MOST_REASONS = 100
OTHER_REASONS = "other reasons"

_encoder = msgspec.json.Encoder()


class BenchmarkUse(Struct, frozen=True):
    """One benchmark as it takes part in a run."""

    name: str
    version: str
    folder: str
    where: str = ""
    limit: int | None = None
    protocols: tuple[str, ...] = ()
    """Labels of the protocols that asked it; empty for all protocols of the run."""
    questions: str = ""
    """The digest of its questions, which a build with other answers shares."""
    part: Part | None = None
    """Which pictures a rule has let the run ask, or which samples it chose; None for all."""
    examples_from: str = ""
    """The folder of the benchmark whose examples were shown before its questions; empty where none were."""
    examples: str = ""
    """SHA-256 of the file of these examples."""
    origin: str = ""
    """Where the files it was built from come from, in words."""

    @property
    def selection(self) -> Selection:
        return Selection(self.where, self.limit, self.part)

    def fits(self, version: str, questions: str) -> bool:
        """Whether a build of this version asks what was asked; its answers may have been hidden then."""
        return self.version == version or "" != self.questions == questions


class RoleModel(Struct, frozen=True):
    """A model of a run besides the evaluated one. The fields are as in the manifest."""

    model: str
    fingerprint: dict[str, str]
    left_as: dict[str, str] = {}
    answers_by_sample: bool = False

    @property
    def identity(self) -> str:
        """Its name without how it is reached."""
        return answers_as(self.model)


class Stretch(Struct, frozen=True):
    """A part of a run in which its models were reached in the same way."""

    started: str
    """UTC, ISO 8601."""
    models: dict[str, str]
    """By role, the model string as it was given then; the evaluated model's role is ''."""


class RunManifest(Struct, frozen=True):
    """Describes a run: enough to resume it, to score it, and to tell where its numbers come from."""

    format: int
    model: str
    fingerprint: dict[str, str]
    benchmarks: tuple[BenchmarkUse, ...]
    protocols: tuple[str, ...]
    templates: str
    """Digest of the template file."""
    asked: tuple[QuestionSpec, ...]
    """What the calls of this run asked, each once; none for imported predictions."""
    software: dict[str, str]
    hardware: dict[str, str]
    started: str
    """UTC, ISO 8601."""
    notes: tuple[str, ...] = ()
    """What a reader of its numbers needs to know."""
    left_as: dict[str, str] = {}
    """The fingerprint that an object of the user's program had when it had last answered, if it changes in answering
    (it counts, it keeps a cache): both are of the model that answered."""
    answers_by_sample: bool = False
    """Whether the model looks up which sample asks, so that samples that ask the same may get different replies."""
    roles: dict[str, RoleModel] = {}
    """The other models that the run asks, by role."""
    stretches: tuple[Stretch, ...] = ()
    """How the models were reached, in order; a new one begins where that has changed."""
    words: dict[str, str] = {}
    """By protocol, the version of its wording besides the templates; protocols without such wording are absent."""
    executed: tuple[ExecutionSpec, ...] = ()
    """How the calls were carried out; equal settings are listed once."""

    @property
    def made_elsewhere(self) -> bool:
        """Whether another toolkit asked: what has not come never will."""
        return not self.asked

    @property
    def by_sample(self) -> frozenset[str]:
        """The roles whose models look up which sample asks."""
        roles = (role for role, use in self.roles.items() if use.answers_by_sample)
        return frozenset([EVALUATED, *roles] if self.answers_by_sample else roles)

    @property
    def authors(self) -> dict[str, str]:
        """Who answers in each role: the model's name, and a digest of its fingerprint and of how it is asked."""
        models = {EVALUATED: (answers_as(self.model), self.fingerprint)}
        models |= {role: (use.identity, use.fingerprint) for role, use in self.roles.items()}
        settings = (self.templates, self.decoding, self.prefix, *self.few_shot)
        return {role: f"{name}#{_digest((name, facts, settings))}" for role, (name, facts) in models.items()}

    @property
    def decoding(self) -> Decoding:
        """How replies were sampled; the longest has length 0 where each benchmark has its own limit."""
        return self.asked[0].decoding if self.asked else Decoding()

    @property
    def prefix(self) -> bool:
        return bool(self.asked) and self.asked[0].prefix

    @property
    def few_shot(self) -> tuple[int, ...]:
        """How many examples were shown before each question, and how they were drawn; empty where none were."""
        return self.asked[0].few_shot_drawing if self.asked else ()


class RunStore:
    """An open run folder. `worker` names the journal that this process appends to.

    A response is found again by what was asked; for the roles `by_sample` also by the sample that asked. It may also be
    found in one of `earlier_runs`, folders of finished runs of the same models, which are only read. `authors` says who
    answers in each role; a line that somebody else answered is refused. What a `cache` holds is not asked either, and
    new answers are added to it. Raises StoreError.
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
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._cache = cache
        self.folder, self._by_sample, self._authors = folder, frozenset(by_sample), authors
        self._others = [
            (path, _places_in(path, path.stat().st_size, self._by_sample))
            for run in earlier_runs
            for path in journals(run)
        ]
        self.answered, self.failed = Counter[str](), Counter[str]()
        """Requests of this session, by role."""
        self.reasons = Counter[str]()
        """Why requests of this session failed."""
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
            raise unwritable(self.folder, error) from None
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
                self._index(exchange, number, offset)

    def _index(self, exchange: Exchange | StoredExchange, journal: int, offset: int) -> None:
        if exchange.response.error is not None:
            return
        request = exchange.request
        identity = self.identity(request)
        if identity not in self._places:
            self._places.set(identity, offset << PLACE_BITS | journal)
        presentation = _presentation(exchange.protocol, request)
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
        if _presentation(protocol, request) not in self._known:
            self.append([Exchange(protocol, request, response, reused=True, from_cache=from_cache)])
        return response

    def knows(self, protocol: str, request: Request) -> bool:
        """Whether the request was answered as this presentation."""
        return _presentation(protocol, request) in self._known

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
            raise unwritable(self.folder, error) from None

    def _count(self, exchange: Exchange) -> None:
        role, error = exchange.request.role, exchange.response.error
        (self.failed if error else self.answered)[role] += 1
        if error:
            reason = f"{error.kind}: {error.detail}"
            self.reasons[reason if reason in self.reasons or len(self.reasons) < MOST_REASONS else OTHER_REASONS] += 1

    def sync(self) -> None:
        """Make all lines written so far survive a loss of power. Raises StoreError."""
        try:
            os.fsync(self._file)
        except OSError as error:
            raise unwritable(self.folder, error) from None
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


def journals(folder: Path) -> list[Path]:
    return sorted(folder.glob(JOURNALS))


def numbered_journals(folder: Path) -> list[Path]:
    """The journals whose numbers stand in places. Raises StoreError for more than a place can tell."""
    paths = journals(folder)
    if len(paths) > MOST_JOURNALS:
        raise StoreError(f"{folder} has {len(paths)} journals, more than {MOST_JOURNALS}; join some")
    return paths


def read_exchanges(folder: Path) -> Iterator[Exchange]:
    """All exchanges of a run in order of arrival.

    Raises StoreError for a line that is not an exchange, or that another model answered than the manifest's, if any.
    """
    authors = read_manifest(folder).authors if (folder / RUN_MANIFEST).exists() else NO_AUTHORS
    for path in journals(folder):
        for _, exchange in read_journal(path, authors):
            yield exchange


def read_journal(path: Path, authors: Mapping[str, str] = NO_AUTHORS) -> Iterator[tuple[int, Exchange]]:
    """Offset and exchange of each whole line; a torn last line is passed over. Raises StoreError as above."""
    return _read_lines(path, authors, read_line)


def read_entries(paths: Sequence[Path], authors: Mapping[str, str]) -> Iterator[tuple[int, JournalEntry]]:
    """Place (see `JournalReader`) and short form of all exchanges in these journals in order of arrival. Raises
    StoreError as above."""
    for number, path in enumerate(paths):
        for offset, entry in _read_lines(path, authors, read_entry):
            yield offset << PLACE_BITS | number, entry


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
    return StoreError(f"{path}:{number}: {error}; `snellen mend {as_word(path.parent)}` sets such lines aside")


class JournalReader:
    """Reads exchanges of journals by their places: the offset of the line, and in the last byte the number of the
    journal among `paths`."""

    def __init__(self, paths: Sequence[Path]) -> None:
        self._paths = paths
        self._files: dict[int, BinaryIO] = {}

    def read(self, place: int) -> Exchange:
        """The exchange at a place. Raises StoreError as `read_journal`."""
        number, offset = place & MOST_JOURNALS - 1, place >> PLACE_BITS
        file = self._files.get(number) or self._files.setdefault(number, self._paths[number].open("rb"))
        file.seek(offset)
        try:
            return read_line(file.readline())
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
        with path.open("rb", buffering=READ_AT_ONCE) as file:
            yield from file
    except OSError as error:
        remedy = f"`snellen mend {as_word(path.parent)}` sets it aside" if path.is_dir() else "see that it can be read"
        raise StoreError(f"{path}: cannot be read ({error.strerror}); {remedy}") from None


def holds_answers(folder: Path) -> bool:
    """Whether anything was written into the journals of a folder."""
    return any(path.is_file() and path.stat().st_size for path in journals(folder))


def read_manifest(folder: Path) -> RunManifest:
    """Raises StoreError for a folder that is not a run, or a run of another version."""
    path = folder / RUN_MANIFEST
    try:
        raw = path.read_bytes()
    except OSError:
        again = "; its journals hold answers: the command of the run, given again, goes on" * holds_answers(folder)
        raise StoreError(f"{folder} is not a run ({RUN_MANIFEST} is missing){again}") from None
    if not raw.strip(b"\0 \n"):
        raise StoreError(
            f"{path} is empty, as after a loss of power; remove it and give the run's command again: answers are kept"
        )
    try:
        version = msgspec.json.decode(raw, type=dict[str, msgspec.Raw]).get("format", b"none")
        if bytes(version) != str(RUN_FORMAT).encode():
            raise StoreError(
                f"{folder} is a run of format {bytes(version).decode()}, this Snellen writes {RUN_FORMAT}; "
                "choose another --name, or use the Snellen that made it"
            )
        return msgspec.json.decode(raw, type=RunManifest)
    except JSON_FAULTS as error:
        raise StoreError(f"{path}: {error}") from None


def write_manifest(folder: Path, manifest: RunManifest) -> None:
    write_atomically(folder / RUN_MANIFEST, msgspec.json.format(_encoder.encode(manifest), indent=2))


def write_atomically(path: Path, content: bytes | Iterable[bytes]) -> None:
    """Write a file so that it appears complete or not at all, and stays after a loss of power. Raises StoreError.

    Content in parts is written part by part, so that it need not be in memory as a whole.
    """
    part = path.with_name(path.name + ".part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with part.open("wb") as file:
            file.writelines([content] if isinstance(content, bytes) else content)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
        sync_folder(path.parent)
    except OSError as error:
        with suppress(OSError):
            part.unlink(missing_ok=True)
        raise unwritable(path.parent, error) from None


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


def _digest(facts: object) -> str:
    return hashlib.blake2b(msgspec.json.encode(facts, order="sorted"), digest_size=4).hexdigest()


def sample_identity(request: Request | StoredRequest) -> bytes:
    """A digest of what a request asks and of the sample that asks it."""
    who = (request.benchmark, request.sample_id, request.key)
    return hashlib.blake2b(_encoder.encode(who), digest_size=IDENTITY_BYTES).digest()


def _presentation(protocol: str, request: Request | StoredRequest) -> bytes:
    who = (protocol, request.benchmark, request.sample_id, request.variant, request.key)
    return hashlib.blake2b(_encoder.encode(who), digest_size=PRESENTATION_BYTES).digest()


def _asked_sample(protocol: str, benchmark: str, sample_id: str) -> bytes:
    who = (protocol, benchmark, sample_id)
    return hashlib.blake2b(_encoder.encode(who), digest_size=PRESENTATION_BYTES).digest()


def read_exchange_at(path: Path, offset: int) -> Exchange:
    """The exchange whose line begins at an offset that `read_journal` gave."""
    with path.open("rb") as file:
        file.seek(offset)
        return read_line(file.readline())
