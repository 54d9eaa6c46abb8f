"""Records of a run, few of them in memory: lines that are read again each time, and compressed blocks by key."""

from __future__ import annotations

import hashlib
import weakref
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from io import BytesIO
from itertools import islice
from pathlib import Path
from tempfile import SpooledTemporaryFile, gettempdir
from threading import Lock
from typing import IO, Generic, TypeVar

import msgspec
from msgspec import Struct

from snellen.common.foreign import open_file
from snellen.errors import StoreError
from snellen.formats.digest_index import DigestIndex
from snellen.formats.json_files import JSON_FAULTS
from snellen.formats.whole_files import unwritable

LINES_AT_ONCE = 10_000
BYTES_AT_ONCE = 1 << 20
BYTES_IN_MEMORY = 1 << 22
RECORDS_IN_BLOCK = 512
RECORDS_OPEN = 1 << 14

RecordT = TypeVar("RecordT", bound=Struct)
KeyT = TypeVar("KeyT")


class LineRange(Struct, frozen=True):
    """Consecutive lines of a file: `start` and `end` in bytes."""

    start: int
    end: int
    lines: int


def encoded_lines(records: Iterable[Struct]) -> Iterator[bytes]:
    """Records as lines of JSON, some thousands at once."""
    if isinstance(records, StoredRecords):
        yield from records.lines()
        return
    encode, remaining = msgspec.json.Encoder().encode_lines, iter(records)
    while batch := list(islice(remaining, LINES_AT_ONCE)):
        yield encode(batch)


class OpenFile:
    """A file, or its bytes, closed when nobody reads from it any more; what takes its name's place is another file."""

    def __init__(self, content: IO[bytes], name: str = "") -> None:
        self.content, self.name, self.lock = content, name, Lock()
        weakref.finalize(self, content.close)


def open_records(path: Path) -> OpenFile:
    """Open a file of records; the bytes of a short one are held instead, as many runs may be open at once."""
    file = open_file(path)
    if path.stat().st_size > BYTES_IN_MEMORY:
        return OpenFile(file, str(path))
    with file:
        return OpenFile(BytesIO(file.read()), str(path))


class RecordSpool:
    """Records written one after the other, to be read again: in memory, and from BYTES_IN_MEMORY on in a file without a
    name, on the disk of `folder` if given. Raises StoreError."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder or Path(gettempdir())
        self.file = OpenFile(SpooledTemporaryFile(BYTES_IN_MEMORY, dir=str(self._folder)))  # noqa: SIM115 (closed there)
        self._size = 0

    def write(self, records: Iterable[Struct]) -> LineRange:
        """Append records, and say where they are."""
        start, count = self._size, 0
        try:
            with self.file.lock:
                self.file.content.seek(start)
                for lines in encoded_lines(records):
                    self.file.content.write(lines)
                    self._size += len(lines)
                    count += lines.count(b"\n")
                self.file.content.flush()
        except OSError as error:
            raise unwritable(self._folder, error) from None
        return LineRange(start, self._size, count)


class StoredRecords(Collection[RecordT], Generic[RecordT]):
    """Records in ranges of an open file, in the order of the ranges. Raises StoreError for lines that are damaged."""

    def __init__(self, file: OpenFile, kind: type[RecordT], ranges: Sequence[LineRange]) -> None:
        self._file, self._ranges = file, tuple(ranges)
        self._decoder: msgspec.json.Decoder[RecordT] = msgspec.json.Decoder(kind)
        self._count = sum(lines.lines for lines in ranges)

    def __len__(self) -> int:
        return self._count

    def __contains__(self, record: object) -> bool:
        return any(record == stored for stored in self)

    def __iter__(self) -> Iterator[RecordT]:
        for lines in self.lines():
            with faults_told(self._file.name):
                records = self._decoder.decode_lines(lines)
            yield from records

    def __getitem__(self, place: int) -> RecordT:
        """The record at a place. Reads all before it: to look at many, go through them."""
        if not -len(self) <= place < len(self):
            raise IndexError(f"{place}: there are {len(self)} records")
        return next(islice(self, place % len(self), None))

    def lines(self) -> Iterator[bytes]:
        """The records as they are stored, some thousands of lines at once."""
        for lines in self._ranges:
            place = lines.start
            while place < lines.end:
                with faults_told(self._file.name):
                    content = self._read(place, lines.end)
                if not content:
                    raise StoreError(
                        f"{self._file.name} is shorter than it was; score the run again"
                    )
                place += len(content)
                yield content

    def _read(self, start: int, end: int) -> bytes:
        """Whole lines from `start` on, some BYTES_AT_ONCE at most."""
        with self._file.lock:
            self._file.content.seek(start)
            return b"".join(self._file.content.readlines(min(BYTES_AT_ONCE, end - start)))[
                : end - start
            ]


class PackedRecords(Mapping[KeyT, RecordT], Generic[KeyT, RecordT]):
    """Records by key in compressed blocks, of which the last few used are held open."""

    def __init__(
        self, kind: type[RecordT], key: Callable[[RecordT], KeyT], records: Iterable[RecordT]
    ) -> None:
        """Of several records with one key the last counts."""
        self._key = key
        self._decoder: msgspec.msgpack.Decoder[list[RecordT]] = msgspec.msgpack.Decoder(list[kind])
        self._places = DigestIndex(KEY_BYTES)
        self._blocks: list[bytes] = []
        self._open: dict[KeyT, RecordT] = {}
        encode, remaining, count = msgspec.msgpack.Encoder().encode, iter(records), 0
        while batch := list(islice(remaining, RECORDS_IN_BLOCK)):
            for record in batch:
                self._places.set(_digest(key(record)), len(self._blocks))
            self._blocks.append(zlib.compress(encode(batch), 1))
            count += len(batch)
        self._are_all_counted = count == len(self._places)

    def __len__(self) -> int:
        return len(self._places)

    def __iter__(self) -> Iterator[KeyT]:
        for number in range(len(self._blocks)):
            yield from self._block(number)

    def __contains__(self, key: object) -> bool:
        return key in self._open or _digest(key) in self._places

    def __getitem__(self, key: KeyT) -> RecordT:
        record = self._open.get(key)
        if record is None:
            number = self._places.get(_digest(key))
            if number is None:
                raise KeyError(key)
            block = self._block(number)
            self._open = {**self._open, **block} if len(self._open) < RECORDS_OPEN else block
            record = block[key]
        return record

    def _block(self, number: int) -> dict[KeyT, RecordT]:
        """The records of a block, except those that a later one replaces."""
        records = {
            self._key(record): record
            for record in self._decoder.decode(zlib.decompress(self._blocks[number]))
        }
        if self._are_all_counted:
            return records
        return {
            key: record
            for key, record in records.items()
            if self._places.get(_digest(key)) == number
        }


KEY_BYTES = 16


def _digest(key: object) -> bytes:
    return hashlib.blake2b(msgspec.msgpack.encode(key), digest_size=KEY_BYTES).digest()


@contextmanager
def faults_told(path: Path | str) -> Iterator[None]:
    """Turns faults in reading a file into a StoreError."""
    try:
        yield
    except OSError as error:
        raise StoreError(f"{path} cannot be read ({error.strerror}); score the run again") from None
    except JSON_FAULTS as error:
        raise StoreError(f"{path}: {error}; score the run again") from None
