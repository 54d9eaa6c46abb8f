"""Records of large runs, kept out of memory: lines in a file that are read again each time, and compressed blocks.

Both look like what small runs have, a tuple and a dict, and give equal records in the same order.
"""

from __future__ import annotations

import hashlib
import tempfile
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import IO, Generic, TypeVar

import msgspec
from msgspec import Struct

from snellen.errors import StoreError
from snellen.formats.decoding import JSON_FAULTS
from snellen.formats.digest_index import DigestIndex
from snellen.runs.run_folder import unwritable

LINES_AT_ONCE = 10_000
BYTES_AT_ONCE = 1 << 20
RECORDS_IN_BLOCK = 512

RecordT = TypeVar("RecordT", bound=Struct)
KeyT = TypeVar("KeyT")


class LineRange(Struct, frozen=True):
    """Consecutive lines of a file: `start` and `end` in bytes."""

    start: int
    end: int
    lines: int


def encoded_lines(records: Iterable[Struct]) -> Iterator[bytes]:
    """Records as lines of JSON, some thousands at once."""
    encode, left = msgspec.json.Encoder().encode_lines, iter(records)
    while batch := list(islice(left, LINES_AT_ONCE)):
        yield encode(batch)


class OpenFile:
    """A file that is closed when nobody reads from it any more; what takes its name's place meanwhile is another."""

    def __init__(self, content: IO[bytes], name: str = "") -> None:
        self.content, self.name = content, name

    def __del__(self) -> None:
        self.content.close()


class RecordSpool:
    """A file without a name, on the disk of `folder` if given, to which records are written and from which they are
    read. Raises StoreError."""

    def __init__(self, folder: Path | None) -> None:
        self._where = folder or Path(tempfile.gettempdir())
        try:
            self.file = OpenFile(tempfile.TemporaryFile(dir=self._where))  # noqa: SIM115 (closed by OpenFile)
        except OSError as error:
            raise unwritable(self._where, error) from None
        self._size = 0

    def write(self, records: Iterable[Struct]) -> LineRange:
        """Append records, and say where they are."""
        start, count = self._size, 0
        try:
            content = self.file.content
            content.seek(start)
            for lines in encoded_lines(records):
                content.write(lines)
                self._size += len(lines)
                count += lines.count(b"\n")
            content.flush()
        except OSError as error:
            raise unwritable(self._where, error) from None
        return LineRange(start, self._size, count)


class StoredRecords(Collection[RecordT], Generic[RecordT]):
    """Records that lie in ranges of an open file, in the order of the ranges. Raises StoreError for what is none."""

    def __init__(self, file: OpenFile, kind: type[RecordT], ranges: Sequence[LineRange]) -> None:
        self._file, self._ranges = file, tuple(ranges)
        self._decoder: msgspec.json.Decoder[RecordT] = msgspec.json.Decoder(kind)
        self._count = sum(one.lines for one in ranges)

    def __len__(self) -> int:
        return self._count

    def __contains__(self, record: object) -> bool:
        return any(record == one for one in self)

    def __iter__(self) -> Iterator[RecordT]:
        for one in self._ranges:
            place = one.start
            while place < one.end:
                with faults_told(self._file.name):
                    self._file.content.seek(place)
                    lines = b"".join(self._file.content.readlines(min(BYTES_AT_ONCE, one.end - place)))
                    lines = lines[: one.end - place]
                    records = self._decoder.decode_lines(lines)
                if not lines:
                    raise StoreError(f"{self._file.name} is shorter than it was; score the run again")
                place += len(lines)
                yield from records


class PackedRecords(Mapping[KeyT, RecordT], Generic[KeyT, RecordT]):
    """Records by key in compressed blocks, of which the last one used is held open; read in order they are quick."""

    def __init__(self, kind: type[RecordT], key: Callable[[RecordT], KeyT], records: Iterable[RecordT]) -> None:
        """Of several records with one key the last counts."""
        self._key = key
        self._decoder: msgspec.msgpack.Decoder[list[RecordT]] = msgspec.msgpack.Decoder(list[kind])  # type: ignore[valid-type]
        self._places = DigestIndex(KEY_BYTES)
        self._blocks: list[bytes] = []
        encode, left, count = msgspec.msgpack.Encoder().encode, iter(records), 0
        while batch := list(islice(left, RECORDS_IN_BLOCK)):
            first = RECORDS_IN_BLOCK * len(self._blocks)
            for place, record in enumerate(batch, first):
                self._places.set(_digest(key(record)), place)
            self._blocks.append(zlib.compress(encode(batch), 1))
            count = first + len(batch)
        self._open: tuple[int, list[RecordT]] = -1, []
        self._last = 0  # the place in it of the record asked for last
        self._are_all_counted = count == len(self._places)

    def __len__(self) -> int:
        return len(self._places)

    def __iter__(self) -> Iterator[KeyT]:
        for block in range(len(self._blocks)):
            for place, record in enumerate(self._decoded(block), RECORDS_IN_BLOCK * block):
                key = self._key(record)
                if self._places.get(_digest(key)) == place:
                    yield key

    def __contains__(self, key: object) -> bool:
        return _digest(key) in self._places

    def __getitem__(self, key: KeyT) -> RecordT:
        # Mostly the same again, or the next one: half the time of looking it up.
        nearby = self._open[1][self._last : self._last + 2] if self._are_all_counted else ()
        for place, record in enumerate(nearby, self._last):
            if self._key(record) == key:
                self._last = place
                return record
        found = self._places.get(_digest(key))
        if found is None:
            raise KeyError(key)
        block, place = divmod(found, RECORDS_IN_BLOCK)
        if self._open[0] != block:
            self._open = block, self._decoded(block)
        self._last = place
        return self._open[1][place]

    def _decoded(self, block: int) -> list[RecordT]:
        return self._decoder.decode(zlib.decompress(self._blocks[block]))


KEY_BYTES = 16


def _digest(key: object) -> bytes:
    return hashlib.blake2b(msgspec.msgpack.encode(key), digest_size=KEY_BYTES).digest()


@contextmanager
def faults_told(path: Path | str) -> Iterator[None]:
    """What cannot be read of a file is told as a StoreError."""
    try:
        yield
    except OSError as error:
        raise StoreError(f"{path} cannot be read ({error.strerror}); score the run again") from None
    except JSON_FAULTS as error:
        raise StoreError(f"{path}: {error}; score the run again") from None
