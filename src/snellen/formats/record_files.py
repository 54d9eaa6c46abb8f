"""Records in files: JSON Lines in gzip, a member for each block of lines; the same records give the same bytes.

`zcat` shows such a file, and whatever reads `.jsonl.gz` reads it. Beside Parquet it is smaller, since most fields are
empty or text, is read in a tenth of the time, and needs no library that takes 0.2 s to load.
"""

from __future__ import annotations

import gzip
import zlib
from array import array
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import force_setattr

from snellen.common.foreign import lines_of, open_file
from snellen.errors import DataError
from snellen.records import (
    Answer,
    Example,
    History,
    IndistinguishableQuestion,
    ItemDecision,
    Sample,
    SetApartQuestion,
    SourceImages,
    SourceRows,
)

ENDING = ".jsonl.gz"
ROWS = 1000
"""Records held in memory, and lines in a block."""
BLOCK_BYTES = 64 << 20
"""Bytes after which a block of fewer lines is read on its own."""
ROWS_AT_ONCE = 50 * ROWS
"""Lines sorted at once, in whole blocks."""
COMPRESSION_LEVEL = 6

MAX_SHARED_TEXTS = 100_000
_OF_SAMPLES = ("benchmark", "options", "group", "tags")
_REPEATED: dict[type, tuple[str, ...]] = {
    Sample: _OF_SAMPLES,
    Example: _OF_SAMPLES,
    Answer: ("tags",),
}
"""Fields of texts that records have in common."""

Stored = (
    Sample
    | Example
    | Answer
    | History
    | SourceRows
    | SourceImages
    | IndistinguishableQuestion
    | ItemDecision
    | SetApartQuestion
)
RecordT = TypeVar("RecordT", bound=Stored)

_encode_lines = msgspec.json.Encoder(order="deterministic").encode_lines


class RecordWriter:
    """Writes records of one type to a compressed file, in blocks of `ROWS` records."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("wb")
        self._records: list[Stored] = []

    def write(self, record: Stored) -> None:
        self._records.append(record)
        if len(self._records) >= ROWS:
            self._flush()

    def _flush(self) -> None:
        if self._records:
            self._file.write(_compress_block(_encode_lines(self._records)))
            self._records = []

    def __enter__(self) -> RecordWriter:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with self._file:
            if error is None:
                self._flush()


def read_records(path: Path, kind: type[RecordT]) -> Iterator[RecordT]:
    """Yield the records of a file in order. Only one block of them is in memory.

    Raises DataError if the file is missing, cut off, or has records of another type.
    """
    decode = msgspec.json.Decoder(kind).decode_lines
    repeated = _REPEATED.get(kind, ())
    shared: dict[Any, Any] = {}
    try:
        for lines in _read_blocks(path):
            records = decode(b"".join(lines))
            if repeated:
                _share_equal_texts(records, repeated, shared)
            yield from records
    except FileNotFoundError:
        raise DataError(f"{path} is missing; build the benchmark again") from None
    except (OSError, EOFError, zlib.error, msgspec.DecodeError, UnicodeDecodeError) as error:
        fault = " ".join(str(error).split())
        raise DataError(f"{path} cannot be read ({fault}); build the benchmark again") from None


def _read_blocks(path: Path) -> Iterator[list[bytes]]:
    """Yield the lines of a compressed file in blocks of at most `ROWS` lines or, if the lines are long, about
    `BLOCK_BYTES`."""
    with open_file(path) as packed, gzip.open(packed) as file:
        block: list[bytes] = []
        size = 0
        for line in lines_of(file):
            block.append(line)
            size += len(line)
            if len(block) == ROWS or size > BLOCK_BYTES:
                yield block
                block = []
                size = 0
        if block:
            yield block


def _compress_block(lines: bytes) -> bytes:
    """Return compressed lines. No time is stored with them, so that files with the same records
    have the same bytes.
    """
    return gzip.compress(lines, COMPRESSION_LEVEL, mtime=0)


def _share_equal_texts(
    records: Sequence[Struct], names: Sequence[str], shared: dict[Any, Any]
) -> None:
    """Make equal texts in the named fields of records one object in memory.

    This saves memory, because thousands of questions have the same options and tags.

    Args:
        records: The records, which are changed.
        names: The fields.
        shared: The texts so far, which are added to.
    """
    if len(shared) > MAX_SHARED_TEXTS:
        shared.clear()
    intern = shared.setdefault
    for record in records:
        for name in names:
            value = getattr(record, name)
            if not value:
                continue
            if isinstance(value, str):
                force_setattr(record, name, intern(value, value))
            elif isinstance(value, dict):
                shared_items = {intern(key, key): intern(text, text) for key, text in value.items()}
                force_setattr(record, name, shared_items)
            else:
                force_setattr(record, name, tuple(map(intern, value, value)))


class _Grouped(Struct):
    group: str = ""


def sort_by_group(path: Path) -> None:
    """Sort the samples in a file so that samples of the same group, such as all questions about an
    image, follow each other.

    Groups are in the order of their first samples. To limit memory, the file is read several times,
    and each time `ROWS_AT_ONCE` lines are written. A file that is already in order is not written
    again.
    """
    decode = msgspec.json.Decoder(_Grouped).decode_lines
    number_by_group: dict[str, int] = {}
    group_numbers = array("Q")  # for each line, the number of its group
    for lines in _read_blocks(path):
        for line in decode(b"".join(lines)):
            next_number = len(number_by_group)
            group_numbers.append(number_by_group.setdefault(line.group, next_number))
    if all(earlier <= later for earlier, later in pairwise(group_numbers)):
        return
    new_positions = array("Q", group_numbers)
    old_positions = sorted(range(len(group_numbers)), key=group_numbers.__getitem__)
    for new, old in enumerate(old_positions):
        new_positions[old] = new
    ordered = path.with_name(f"{path.name}.ordered")
    with ordered.open("wb") as file:
        for start in range(0, len(new_positions), ROWS_AT_ONCE):
            end = min(start + ROWS_AT_ONCE, len(new_positions))
            lines = _lines_for_range(path, new_positions, start, end)
            for first in range(0, len(lines), ROWS):
                file.write(_compress_block(b"".join(lines[first : first + ROWS])))
    ordered.replace(path)


def _lines_for_range(path: Path, new_positions: Sequence[int], start: int, end: int) -> list[bytes]:
    """Return the lines that belong at the positions from `start` up to (but without) `end` of the
    sorted file, in this order.

    Args:
        path: The unsorted file.
        new_positions: For each of its lines, the position in the sorted file.
        start: The first position.
        end: The position after the last one.
    """
    ordered = [b""] * (end - start)
    all_lines = (line for lines in _read_blocks(path) for line in lines)
    for new, line in zip(new_positions, all_lines, strict=True):
        if start <= new < end:
            ordered[new - start] = line
    return ordered
