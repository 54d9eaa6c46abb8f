"""Hub datasets stored as Parquet files with images inside, read as a stream.

Text columns are read separately from the image column, of which only a few rows are in memory, and only when an
image is needed. The files' metadata, as the `datasets` library writes it, says what the columns hold.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
from msgspec import Struct

from snellen.callers import setting, source_setting
from snellen.common.drafts import LazyImage
from snellen.common.foreign import regular_file
from snellen.errors import DataError
from snellen.formats.json_files import converted

RowT = TypeVar("RowT")

TEXTS = 1000
"""Text rows in memory at once."""
PICTURES = 8
"""Image rows in memory at once."""
BUFFER = 1 << 20
"""Bytes of an image column read at once."""
REMOTE_BUFFER = 8 << 20
"""The same of a file that is read over a network, where each request takes a while."""
_SHARD = re.compile(r"-(\d{5})-of-(\d{5})")


_opener: ContextVar[Callable[[Path], Any] | None] = ContextVar("opener", default=None)


@contextmanager
def read_by(opener: Callable[[Path], Any]) -> Iterator[None]:
    """Have files read by what `opener` makes of their paths, a file that can seek, in place of the files there."""
    token = _opener.set(opener)
    try:
        yield
    finally:
        _opener.reset(token)


class ParquetRow(Struct, frozen=True):
    """A row: its file, its number in the file, and its number across all files, both from 0."""

    path: Path
    row: int
    number: int

    @property
    def where(self) -> str:
        return f"{self.path}: row {self.row}"


class ParquetSplit:
    """The rows of one split."""

    def __init__(self, folder: Path | None, patterns: Sequence[str]) -> None:
        self.paths = parquet_files(folder, patterns)

    def rows(
        self, needed: Sequence[str], optional: Sequence[str], form: type[RowT]
    ) -> Iterator[tuple[ParquetRow, RowT]]:
        """Each row as a typed record of the named columns, in the order of the files.

        Columns in `optional` may be missing; empty cells are left out. Raises DataError for a missing `needed` column
        and for a row that does not fit.
        """
        number = 0
        for path in self.paths:
            row = 0
            for cells in _batches(path, needed, optional):
                for place in range(len(next(iter(cells.values()), ()))):
                    source_row = ParquetRow(path, row, number)
                    row, number = row + 1, number + 1
                    yield source_row, _record(form, cells, place, source_row.where)

    def names(self, column: str) -> tuple[str, ...]:
        """The class names that the column's numbers stand for. Raises DataError when the file does not name them."""
        path = self.paths[0]
        names = class_names(parquet_schema(path)).get(column)
        if names is None:
            raise DataError(
                f"{path}: does not say which classes the numbers in {column!r} stand for"
            )
        return tuple(names)


def parquet_files(folder: Path | None, patterns: Sequence[str]) -> list[Path]:
    """The matching Parquet files, sorted by name. Raises DataError when there are none, or a shard is missing."""
    if folder is None:
        raise DataError(
            f"no folder with {patterns[0]}; fetch it with {setting('hub', True)}, or name one with {source_setting()} too"
        )
    paths = sorted({path for pattern in patterns for path in folder.glob(pattern)})
    if not paths:
        raise DataError(
            f"{folder}: there is no {' or '.join(patterns)}; is this the dataset's folder, at its top?"
        )
    splits: dict[Path, list[re.Match[str]]] = {}
    for path in paths:
        if shard := _SHARD.search(path.name):
            splits.setdefault(path.with_name(path.name[: shard.start()]), []).append(shard)
    for split, shards in splits.items():
        expected = [f"-{number:05d}-of-{shards[0][2]}" for number in range(int(shards[0][2]))]
        shard_names = [shard[0] for shard in shards]
        if missing := [name for name in expected if name not in shard_names]:
            raise DataError(
                f"{split.parent}: the file {missing[0]} of the split is missing; fetch all {len(expected)}"
            )
        if len(shard_names) > len(expected):
            raise DataError(
                f"{split.parent}: {len(shard_names)} files of {len(expected)}; two versions are mixed up there"
            )
    return paths


def parquet_schema(path: Path) -> pa.Schema:
    """The columns of a file with their types. Raises DataError."""
    with _opened(path) as file:
        return file.schema_arrow


def class_names(schema: pa.Schema) -> dict[str, list[str]]:
    """For each column of class numbers the names of the classes, as the `datasets` library writes them."""
    try:
        features = msgspec.json.decode((schema.metadata or {})[b"huggingface"])["info"]["features"]
    except (KeyError, TypeError, msgspec.DecodeError):
        return {}
    return {
        name: feature["names"]
        for name, feature in features.items()
        if isinstance(feature, dict) and "names" in feature
    }


class ImageColumn:
    """A column of images, or of lists of images, of which a few rows are in memory; reading in order is fastest.

    An image is one of the `datasets` library (bytes and path), plain bytes, or a text in base64.
    """

    def __init__(self, column: str) -> None:
        self._column = column
        self._reading: tuple[Path, int] | None = None
        self._batches: Iterator[pa.RecordBatch] = iter(())
        self._held: Any = ()
        self._first = 0
        self._groups: dict[Path, list[tuple[int, int]]] = {}
        self._counts: dict[Path, list[int]] = {}

    def at(self, place: ParquetRow) -> LazyImage:
        """The image of a row."""
        return LazyImage(f"{place.where}: {self._column}", partial(self._read, place, 0))

    def all_at(self, place: ParquetRow) -> tuple[LazyImage, ...]:
        """The images of a row: those of its list, its only one, or none where the cell is empty."""
        return tuple(
            LazyImage(
                f"{place.where}: {self._column}{f'[{number}]' if number else ''}",
                partial(self._read, place, number),
            )
            for number in range(self._count(place))
        )

    def _count(self, place: ParquetRow) -> int:
        if place.path not in self._counts:
            self._counts[place.path] = _count_pictures(place.path, self._column)
        return self._counts[place.path][place.row]

    def _read(self, place: ParquetRow, number: int) -> bytes:
        try:
            self._move_to(place)
        except (pa.ArrowException, OSError) as error:
            raise DataError(
                f"{place.where}: {_one_line(error)}; is the download complete?"
            ) from None
        cell = self._held[place.row - self._first].as_py()
        if isinstance(cell, list):
            cell = cell[number] if number < len(cell) else None
        if isinstance(cell, str):
            return _from_base64(cell, f"{place.where}: {self._column}")
        content = cell["bytes"] if isinstance(cell, dict) else cell
        if not content:
            name_note = (
                f", only its name {cell['path']}" if isinstance(cell, dict) and cell["path"] else ""
            )
            raise DataError(
                f"{place.where}: {self._column} holds no image{name_note}; is it the dataset with images?"
            )
        return bytes(content)

    def _move_to(self, place: ParquetRow) -> None:
        """Load the batch with the row, reading on from the current position within a row group."""
        group, start = self._group(place)
        if self._reading != (place.path, group) or place.row < self._first:
            self._batches = self._of_group(place.path, group)
            self._reading, self._held, self._first = (place.path, group), (), start
        while place.row >= self._first + len(self._held):
            self._first += len(self._held)
            self._held = next(self._batches).column(0)

    def _group(self, place: ParquetRow) -> tuple[int, int]:
        """The number and the first row of the row group that contains the row."""
        if place.path not in self._groups:
            with _opened(place.path) as file:
                _check_picture(file.schema_arrow, self._column, place.path)
                starts, start = list[tuple[int, int]](), 0
                for number in range(file.num_row_groups):
                    starts.append((number, start))
                    start += file.metadata.row_group(number).num_rows
            self._groups[place.path] = starts
        return max(group for group in self._groups[place.path] if group[1] <= place.row)

    def _of_group(self, path: Path, group: int) -> Iterator[pa.RecordBatch]:
        with _opened(path, REMOTE_BUFFER if _opener.get() else BUFFER) as file:
            yield from file.iter_batches(
                PICTURES, row_groups=[group], columns=[self._column], use_threads=False
            )


def _check_picture(schema: pa.Schema, column: str, path: Path) -> None:
    if column not in schema.names:
        raise DataError(
            f"{path}: there is no column {column!r}; there are {', '.join(schema.names)}"
        )
    kind = schema.field(column).type
    if not _is_picture(kind.value_type if _is_list(kind) else kind):
        raise DataError(
            f"{path}: the column {column!r} holds {kind}, not images (bytes and path, bytes, or base64)"
        )


def _is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind))


def _is_picture(kind: pa.DataType) -> bool:
    if pa.types.is_struct(kind):
        return {"bytes", "path"} <= {kind.field(place).name for place in range(kind.num_fields)}
    kinds = (
        pa.types.is_binary,
        pa.types.is_large_binary,
        pa.types.is_string,
        pa.types.is_large_string,
    )
    return any(is_kind(kind) for is_kind in kinds)


def _count_pictures(path: Path, column: str) -> list[int]:
    """How many images each row of a file has, by the leaf with their names where there is one."""
    with _opened(path) as file:
        _check_picture(file.schema_arrow, column, path)
        leaves = [file.schema.column(number).path for number in range(len(file.schema.names))]
        names = [
            leaf for leaf in leaves if leaf.startswith(f"{column}.") and leaf.endswith(".path")
        ]
        counts: list[int] = []
        for batch in file.iter_batches(
            TEXTS if names else PICTURES, columns=names or [column], use_threads=False
        ):
            cells = batch.column(0)
            lengths = cells.value_lengths() if _is_list(cells.type) else cells.is_valid()
            counts += [int(length or 0) for length in lengths.to_pylist()]
    return counts


def _from_base64(text: str, where: str) -> bytes:
    """An image written as a text, maybe as a `data:` address."""
    try:
        return base64.b64decode(text.partition(";base64,")[2] or text, validate=True)
    except ValueError:
        raise DataError(f"{where} is a text, but not an image in base64") from None


def _batches(
    path: Path, needed: Sequence[str], optional: Sequence[str]
) -> Iterator[dict[str, list[Any]]]:
    """The named columns of a file, TEXTS rows at a time."""
    with _opened(path) as file:
        columns = file.schema_arrow.names
        if missing := [name for name in needed if name not in columns]:
            raise DataError(
                f"{path}: there is no column {missing[0]!r}; there are {', '.join(columns)}; is it another version of "
                "the dataset?"
            )
        names = sorted({*needed, *(name for name in optional if name in columns)})
        try:
            for batch in file.iter_batches(TEXTS, columns=names, use_threads=False):
                yield {name: batch.column(name).to_pylist() for name in names}
        except (pa.ArrowException, OSError) as error:
            raise DataError(f"{path}: {_one_line(error)}; is the download complete?") from None


def _record(form: type[RowT], cells: dict[str, list[Any]], place: int, where: str) -> RowT:
    row = {name: column[place] for name, column in cells.items() if column[place] is not None}
    return converted(row, form, where)


def _opened(path: Path, buffer: int = 0) -> pq.ParquetFile:
    """A file of which whole columns of row groups are read at once, or so many bytes where a buffer's size is given."""
    opener = _opener.get()
    try:
        return pq.ParquetFile(
            opener(path) if opener else regular_file(path),
            buffer_size=buffer,
            pre_buffer=not buffer,
        )
    except (pa.ArrowException, OSError) as error:
        raise DataError(f"{path}: {_one_line(error)}; is the download complete?") from None


def _one_line(error: Exception) -> str:
    fault = getattr(error, "strerror", None) or str(error)
    return " ".join(fault.split())[:200]
