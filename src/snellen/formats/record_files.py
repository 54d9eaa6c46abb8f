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
LEVEL = 6

MOST_SHARED = 100_000
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
    """Writes records of one type to a file, one block at a time."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("wb")
        self._records: list[Stored] = []

    def write(self, record: Stored) -> None:
        self._records.append(record)
        if len(self._records) >= ROWS:
            self._flush()

    def _flush(self) -> None:
        if self._records:
            self._file.write(_block(_encode_lines(self._records)))
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
    """The records of a file in order, with one block in memory at a time.

    Raises DataError for a file that is missing, truncated or in another form.
    """
    decode = msgspec.json.Decoder(kind).decode_lines
    repeated = _REPEATED.get(kind, ())
    shared: dict[Any, Any] = {}
    try:
        for lines in _blocks(path):
            records = decode(b"".join(lines))
            if repeated:
                _share_texts(records, repeated, shared)
            yield from records
    except FileNotFoundError:
        raise DataError(f"{path} is missing; build the benchmark again") from None
    except (OSError, EOFError, zlib.error, msgspec.DecodeError, UnicodeDecodeError) as error:
        fault = " ".join(str(error).split())
        raise DataError(f"{path} cannot be read ({fault}); build the benchmark again") from None


def _blocks(path: Path) -> Iterator[list[bytes]]:
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


def _block(lines: bytes) -> bytes:
    return gzip.compress(lines, LEVEL, mtime=0)


def _share_texts(records: Sequence[Struct], names: Sequence[str], shared: dict[Any, Any]) -> None:
    """Equal texts become one object, in tuples and maps too: thousands of questions have the same options and tags."""
    if len(shared) > MOST_SHARED:
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
                force_setattr(
                    record,
                    name,
                    {intern(key, key): intern(text, text) for key, text in value.items()},
                )
            else:
                force_setattr(record, name, tuple(map(intern, value, value)))


class _Grouped(Struct):
    group: str = ""


def sort_by_group(path: Path) -> None:
    """Sort the samples so that each group is together, in order of first appearance.

    Holds the group names and ROWS_AT_ONCE lines in memory; a file that is already in order is not rewritten.
    """
    decode = msgspec.json.Decoder(_Grouped).decode_lines
    numbers: dict[str, int] = {}
    rank = array("Q")
    for lines in _blocks(path):
        rank.extend(
            numbers.setdefault(line.group, len(numbers)) for line in decode(b"".join(lines))
        )
    if all(earlier <= later for earlier, later in pairwise(rank)):
        return
    place = array("Q", rank)
    for new, old in enumerate(sorted(range(len(rank)), key=rank.__getitem__)):
        place[old] = new
    ordered = path.with_name(f"{path.name}.ordered")
    with ordered.open("wb") as file:
        for start in range(0, len(place), ROWS_AT_ONCE):
            lines = _lines_between(path, place, start, min(start + ROWS_AT_ONCE, len(place)))
            for first in range(0, len(lines), ROWS):
                file.write(_block(b"".join(lines[first : first + ROWS])))
    ordered.replace(path)


def _lines_between(path: Path, place: Sequence[int], start: int, end: int) -> list[bytes]:
    """The lines whose new places are from `start` to `end`, in order."""
    ordered = [b""] * (end - start)
    every = (line for lines in _blocks(path) for line in lines)
    for new, line in zip(place, every, strict=True):
        if start <= new < end:
            ordered[new - start] = line
    return ordered
