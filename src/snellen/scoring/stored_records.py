"""Collections of records that need little memory: lines of a file that are read each time, and compressed blocks."""

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
MAX_RECORDS_OPEN = 1 << 14
"""If more records are unpacked, they are forgotten when another block is unpacked."""

RecordT = TypeVar("RecordT", bound=Struct)
KeyT = TypeVar("KeyT")


class LineRange(Struct, frozen=True):
    """Consecutive lines of a file: `start` and `end` in bytes."""

    start: int
    end: int
    lines: int


def encoded_lines(records: Iterable[Struct]) -> Iterator[bytes]:
    """Yield records as lines of JSON. Each item has thousands of lines."""
    if isinstance(records, StoredRecords):
        yield from records.lines()
        return
    encode = msgspec.json.Encoder().encode_lines
    remaining = iter(records)
    batch = list(islice(remaining, LINES_AT_ONCE))
    while batch:
        yield encode(batch)
        batch = list(islice(remaining, LINES_AT_ONCE))


class OpenFile:
    """An open file, or its bytes in memory. It is closed when the last reference to it is gone.

    If another file replaces it under its name, this object still reads the original.
    """

    def __init__(self, content: IO[bytes], name: str = "") -> None:
        self.content = content
        self.name = name
        self.lock = Lock()
        weakref.finalize(self, content.close)


def open_records(path: Path) -> OpenFile:
    """Open a file of records. A short file is read into memory, so that many runs do not need many open files."""
    file = open_file(path)
    if path.stat().st_size > BYTES_IN_MEMORY:
        return OpenFile(file, str(path))
    with file:
        return OpenFile(BytesIO(file.read()), str(path))


class RecordSpool:
    """Temporary storage to which records are appended and from which they are read again.

    It is in memory up to BYTES_IN_MEMORY, then in an unnamed file on the disk of `folder`, by default of the system's
    folder of temporary files. Raises StoreError if the disk cannot be written.
    """

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder or Path(gettempdir())
        self.file = OpenFile(SpooledTemporaryFile(BYTES_IN_MEMORY, dir=str(self._folder)))  # noqa: SIM115 (closed there)
        self._size = 0

    def write(self, records: Iterable[Struct]) -> LineRange:
        """Append records to the temporary file, one JSON object a line, and return where the lines are.

        Raises:
            StoreError: The file cannot be written.
        """
        start = self._size
        count = 0
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
    """Records in ranges of lines of an open file, read on each iteration. Raises StoreError for damaged lines."""

    def __init__(self, file: OpenFile, kind: type[RecordT], ranges: Sequence[LineRange]) -> None:
        self._file = file
        self._ranges = tuple(ranges)
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

    def __getitem__(self, index: int) -> RecordT:
        """Return the record at an index. It reads all records before it, so iterate to see many."""
        if not -len(self) <= index < len(self):
            raise IndexError(f"{index}: there are {len(self)} records")
        return next(islice(self, index % len(self), None))

    def lines(self) -> Iterator[bytes]:
        """Yield the stored lines of the records, about BYTES_AT_ONCE in each item."""
        for lines in self._ranges:
            position = lines.start
            while position < lines.end:
                with faults_told(self._file.name):
                    content = self._read(position, lines.end)
                if not content:
                    raise StoreError(
                        f"{self._file.name} is shorter than it was; score the run again"
                    )
                position += len(content)
                yield content

    def _read(self, start: int, end: int) -> bytes:
        """Return complete lines of the file from the byte `start` on: about `BYTES_AT_ONCE` bytes, and none after `end`."""
        size = end - start
        with self._file.lock:
            self._file.content.seek(start)
            lines = self._file.content.readlines(min(BYTES_AT_ONCE, size))
        return b"".join(lines)[:size]


class PackedRecords(Mapping[KeyT, RecordT], Generic[KeyT, RecordT]):
    """Read-only mapping from keys to records, stored in compressed blocks. Recently used blocks stay unpacked."""

    def __init__(
        self,
        record_type: type[RecordT],
        key: Callable[[RecordT], KeyT],
        records: Iterable[RecordT],
    ) -> None:
        """Store records in compressed blocks, and the number of the block of each key.

        Args:
            record_type: The type of the records.
            key: Function that returns the key of a record.
            records: The records. If several have the same key, the mapping has the last one.
        """
        self._key = key
        self._decoder: msgspec.msgpack.Decoder[list[RecordT]] = msgspec.msgpack.Decoder(
            list[record_type]
        )
        self._places = DigestIndex(KEY_BYTES)
        self._blocks: list[bytes] = []
        self._open: dict[KeyT, RecordT] = {}
        encode = msgspec.msgpack.Encoder().encode
        remaining = iter(records)
        n_records = 0
        batch = list(islice(remaining, RECORDS_IN_BLOCK))
        while batch:
            block_number = len(self._blocks)
            for record in batch:
                self._places.set(_digest(key(record)), block_number)
            self._blocks.append(zlib.compress(encode(batch), 1))
            n_records += len(batch)
            batch = list(islice(remaining, RECORDS_IN_BLOCK))
        self._has_unique_keys = n_records == len(self._places)

    def __len__(self) -> int:
        return len(self._places)

    def __iter__(self) -> Iterator[KeyT]:
        for number in range(len(self._blocks)):
            yield from self._block(number)

    def __contains__(self, key: object) -> bool:
        return key in self._open or _digest(key) in self._places

    def __getitem__(self, key: KeyT) -> RecordT:
        """Return the record with a key. Its block is unpacked, and some unpacked blocks are remembered."""
        record = self._open.get(key)
        if record is None:
            number = self._places.get(_digest(key))
            if number is None:
                raise KeyError(key)
            block = self._block(number)
            if len(self._open) < MAX_RECORDS_OPEN:
                self._open = {**self._open, **block}
            else:
                self._open = block
            record = block[key]
        return record

    def _block(self, number: int) -> dict[KeyT, RecordT]:
        """Return the records of a block, without those that a later block replaces."""
        encoded = zlib.decompress(self._blocks[number])
        records: dict[KeyT, RecordT] = {}
        for record in self._decoder.decode(encoded):
            records[self._key(record)] = record
        if self._has_unique_keys:
            return records
        current: dict[KeyT, RecordT] = {}
        for key, record in records.items():
            if self._places.get(_digest(key)) == number:
                current[key] = record
        return current


KEY_BYTES = 16


def _digest(key: object) -> bytes:
    return hashlib.blake2b(msgspec.msgpack.encode(key), digest_size=KEY_BYTES).digest()


@contextmanager
def faults_told(path: Path | str) -> Iterator[None]:
    """Return a context in which an error while reading a file becomes a StoreError that names the file."""
    try:
        yield
    except OSError as error:
        raise StoreError(f"{path} cannot be read ({error.strerror}); score the run again") from None
    except JSON_FAULTS as error:
        raise StoreError(f"{path}: {error}; score the run again") from None
