"""Read datasets of the Hugging Face hub whose Parquet files contain the images, a few rows at a
time.

Columns of text are read separately from the column of images, which is read only when an image is
needed. The metadata that the `datasets` library writes into the files says what the columns
contain.
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

TEXT_ROWS_AT_ONCE = 1000
"""Text rows in memory at once."""
IMAGE_ROWS_AT_ONCE = 8
"""Image rows in memory at once."""
BUFFER_BYTES = 1 << 20
"""Bytes of an image column read at once."""
REMOTE_BUFFER = 8 << 20
"""Bytes of an image column read at once from a file on a network, where each request takes a while.
"""
_SHARD = re.compile(r"-(\d{5})-of-(\d{5})")


_opener: ContextVar[Callable[[Path], Any] | None] = ContextVar("opener", default=None)


@contextmanager
def files_opened_by(opener: Callable[[Path], Any]) -> Iterator[None]:
    """Inside the block, let `opener` open all Parquet files.

    It takes a path and returns a seekable file, such as one that is read over the network.
    """
    token = _opener.set(opener)
    try:
        yield
    finally:
        _opener.reset(token)


class ParquetRow(Struct, frozen=True):
    """The position of a row: its file, its number in this file, and its number in all files of the
    split.

    Numbers count from 0.
    """

    path: Path
    row: int
    number: int

    @property
    def where(self) -> str:
        return f"{self.path}: row {self.row}"


class ParquetSplit:
    """The rows of one split of a dataset, which may be in several Parquet files."""

    def __init__(self, folder: Path | None, patterns: Sequence[str]) -> None:
        self.paths = parquet_files(folder, patterns)

    def rows(
        self, needed: Sequence[str], optional: Sequence[str], form: type[RowT]
    ) -> Iterator[tuple[ParquetRow, RowT]]:
        """Yield each row with its position and as a typed record of the named columns, in the order of the files.

        Columns in `optional` may be missing; empty cells are left out. Raises DataError if a `needed` column is
        missing, or a row does not fit the type.
        """
        number = 0
        for path in self.paths:
            row = 0
            for cells in _column_batches(path, needed, optional):
                first_column = next(iter(cells.values()), ())
                for index in range(len(first_column)):
                    source_row = ParquetRow(path=path, row=row, number=number)
                    row += 1
                    number += 1
                    yield source_row, _typed_row(form, cells, index, source_row.where)

    def names(self, column: str) -> tuple[str, ...]:
        """Return the names of the classes whose numbers are in a column: number 3 stands for item
        3.

        Raises DataError if the first file has no such names.
        """
        path = self.paths[0]
        names = class_names(parquet_schema(path)).get(column)
        if names is None:
            raise DataError(
                f"{path}: does not say which classes the numbers in {column!r} stand for"
            )
        return tuple(names)


def parquet_files(folder: Path | None, patterns: Sequence[str]) -> list[Path]:
    """Return the Parquet files that match any of the patterns, sorted by name.

    Raises DataError if there are none, or if the files of a split are incomplete:
    `test-00000-of-00003.parquet` must come with two others.
    """
    if folder is None:
        raise DataError(
            f"no folder with {patterns[0]}; fetch it with {setting('hub', True)}, or name one with {source_setting()} too"
        )
    matching_paths: set[Path] = set()
    for pattern in patterns:
        matching_paths.update(folder.glob(pattern))
    paths = sorted(matching_paths)
    if not paths:
        raise DataError(
            f"{folder}: there is no {' or '.join(patterns)}; is this the dataset's folder, at its top?"
        )
    shards_by_split: dict[Path, list[re.Match[str]]] = {}
    for path in paths:
        shard = _SHARD.search(path.name)
        if shard:
            split = path.with_name(path.name[: shard.start()])
            shards_by_split.setdefault(split, []).append(shard)
    for split, shards in shards_by_split.items():
        total = shards[0][2]
        expected = [f"-{number:05d}-of-{total}" for number in range(int(total))]
        shard_names = [shard[0] for shard in shards]
        for name in expected:
            if name not in shard_names:
                raise DataError(
                    f"{split.parent}: the file {name} of the split is missing; fetch all {len(expected)}"
                )
        if len(shard_names) > len(expected):
            raise DataError(
                f"{split.parent}: {len(shard_names)} files of {len(expected)}; two versions are mixed up there"
            )
    return paths


def parquet_schema(path: Path) -> pa.Schema:
    """Return the columns of a file with their types. Raises DataError if it is not a Parquet file."""
    with _open_parquet(path) as file:
        return file.schema_arrow


def class_names(schema: pa.Schema) -> dict[str, list[str]]:
    """Return the class names of each column with class numbers.

    The `datasets` library stores them in the metadata of the files that it writes. For other files,
    the result is empty.
    """
    try:
        features = msgspec.json.decode((schema.metadata or {})[b"huggingface"])["info"]["features"]
    except (KeyError, TypeError, msgspec.DecodeError):
        return {}
    return {
        name: feature["names"]
        for name, feature in features.items()
        if isinstance(feature, dict) and "names" in feature
    }


def holds_names_alone(path: Path, column: str) -> bool:
    """Return whether a column contains only the names of images: no cell has the bytes of an image.

    This is read from the statistics in the file, without reading an image. If there are none, the
    result is False.
    """
    n_bytes = 0
    n_names = 0
    with _open_parquet(path) as file:
        for group in range(file.metadata.num_row_groups):
            row_group = file.metadata.row_group(group)
            for index in range(row_group.num_columns):
                leaf = row_group.column(index)
                outer, _, _ = leaf.path_in_schema.partition(".")
                if outer != column:
                    continue
                if leaf.statistics is None or not leaf.statistics.has_null_count:
                    return False
                n_filled = leaf.num_values - leaf.statistics.null_count
                if leaf.path_in_schema.endswith(".bytes"):
                    n_bytes += n_filled
                elif leaf.path_in_schema.endswith(".path"):
                    n_names += n_filled
    return n_names > 0 and n_bytes == 0


class ImageColumn:
    """A column of images, or of lists of images, in Parquet files.

    Only a few rows are in memory, so reading them in order is fastest. A cell with an image is an
    object with `bytes` and `path` (as the `datasets` library writes it), bytes, or base64 text.
    """

    def __init__(self, column: str) -> None:
        self._column = column
        # The row group that is being read, as (file, number of the group), and its further batches.
        self._reading: tuple[Path, int] | None = None
        self._column_batches: Iterator[pa.RecordBatch] = iter(())
        # The batch in memory: its cells, and the number of its first row in the file.
        self._held: Any = ()
        self._first = 0
        # By file: (number, first row) of each row group, and the number of images in each row.
        self._groups: dict[Path, list[tuple[int, int]]] = {}
        self._counts: dict[Path, list[int]] = {}

    def at(self, place: ParquetRow) -> LazyImage:
        """Return the only image of a row. Its bytes are read when they are needed."""
        return LazyImage(f"{place.where}: {self._column}", partial(self._read, place, 0))

    def images_in_row(self, place: ParquetRow) -> tuple[LazyImage, ...]:
        """Return all images of a row; an empty tuple if its cell is empty.

        Their bytes are read when they are needed.
        """
        images = []
        for number in range(self._image_count(place)):
            # The first one has no number, as most cells contain a single image.
            position = f"[{number}]" if number else ""
            where = f"{place.where}: {self._column}{position}"
            images.append(LazyImage(where, partial(self._read, place, number)))
        return tuple(images)

    def _image_count(self, place: ParquetRow) -> int:
        """Return how many images the cell of a row contains."""
        if place.path not in self._counts:
            self._counts[place.path] = _count_images(place.path, self._column)
        return self._counts[place.path][place.row]

    def _read(self, place: ParquetRow, number: int) -> bytes:
        """Return the bytes of an image. Raises DataError if there is none.

        Args:
            place: The row.
            number: Which image of the row's list, from 0. It is ignored if the cell contains a
                single image.
        """
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
            return _decode_base64_image(cell, f"{place.where}: {self._column}")
        content = cell["bytes"] if isinstance(cell, dict) else cell
        if not content:
            if isinstance(cell, dict) and cell["path"]:
                raise DataError(
                    f"{place.where}: {self._column} holds no image, only its name {cell['path']}; write the names as a "
                    f"column of text and name the folder of the images ({setting('images', 'FOLDER')}), or use the "
                    "dataset that holds them"
                )
            raise DataError(
                f"{place.where}: {self._column} holds no image; is it the dataset with images?"
            )
        return bytes(content)

    def _move_to(self, place: ParquetRow) -> None:
        """Load the batch that contains a row.

        Rows are decompressed in groups (row groups), from the beginning of a group. Later rows of
        the same group are therefore read on from the current position, and only going back starts
        the group again.
        """
        group, start = self._row_group_of(place)
        if self._reading != (place.path, group) or place.row < self._first:
            self._column_batches = self._read_group(place.path, group)
            self._reading = (place.path, group)
            self._held = ()
            self._first = start
        while place.row >= self._first + len(self._held):
            self._first += len(self._held)
            self._held = next(self._column_batches).column(0)

    def _row_group_of(self, place: ParquetRow) -> tuple[int, int]:
        """Return the number of the row group that contains a row, and the number of its first row
        in the file.

        Row groups are the units from whose beginning a Parquet file can be read.
        """
        if place.path not in self._groups:
            with _open_parquet(place.path) as file:
                _check_image_column(file.schema_arrow, self._column, place.path)
                starts: list[tuple[int, int]] = []
                start = 0
                for number in range(file.num_row_groups):
                    starts.append((number, start))
                    start += file.metadata.row_group(number).num_rows
            self._groups[place.path] = starts
        groups = self._groups[place.path]
        return max((number, start) for number, start in groups if start <= place.row)

    def _read_group(self, path: Path, group: int) -> Iterator[pa.RecordBatch]:
        """Yield the batches of a row group, with the image column alone."""
        with _open_parquet(path, REMOTE_BUFFER if _opener.get() else BUFFER_BYTES) as file:
            yield from file.iter_batches(
                IMAGE_ROWS_AT_ONCE, row_groups=[group], columns=[self._column], use_threads=False
            )


def _check_image_column(schema: pa.Schema, column: str, path: Path) -> None:
    """Raise DataError if a file lacks a column, or the column contains no images."""
    if column not in schema.names:
        raise DataError(
            f"{path}: there is no column {column!r}; there are {', '.join(schema.names)}"
        )
    kind = schema.field(column).type
    image_type = kind.value_type if _is_list_type(kind) else kind
    if not _is_image_type(image_type):
        raise DataError(
            f"{path}: the column {column!r} holds {kind}, not images (bytes and path, bytes, or base64)"
        )


def _is_list_type(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind))


def _is_image_type(kind: pa.DataType) -> bool:
    """Return whether a type can contain an image: bytes with a path, plain bytes, or a text in base64."""
    if pa.types.is_struct(kind):
        field_names = {kind.field(index).name for index in range(kind.num_fields)}
        return {"bytes", "path"} <= field_names
    kinds = (
        pa.types.is_binary,
        pa.types.is_large_binary,
        pa.types.is_string,
        pa.types.is_large_string,
    )
    return any(is_kind(kind) for is_kind in kinds)


def _count_images(path: Path, column: str) -> list[int]:
    """Return how many images each row of a file has, as a list with an item for each row."""
    with _open_parquet(path) as file:
        _check_image_column(file.schema_arrow, column, path)
        # An image is stored as its bytes and its name, in two inner columns such as `image.bytes` and `image.path`.
        # Reading the names alone is much faster than reading the images.
        name_columns = []
        for index in range(len(file.schema.names)):
            inner_column = file.schema.column(index).path
            if inner_column.startswith(f"{column}.") and inner_column.endswith(".path"):
                name_columns.append(inner_column)
        batch_size = TEXT_ROWS_AT_ONCE if name_columns else IMAGE_ROWS_AT_ONCE
        columns = name_columns or [column]
        counts: list[int] = []
        for batch in file.iter_batches(batch_size, columns=columns, use_threads=False):
            cells = batch.column(0)
            if _is_list_type(cells.type):
                counts_of_cells = cells.value_lengths()
            else:
                counts_of_cells = cells.is_valid()  # one image, or none
            counts += [int(count or 0) for count in counts_of_cells.to_pylist()]
    return counts


def _decode_base64_image(text: str, where: str) -> bytes:
    """Return the bytes of an image that is written as base64 text, with or without
    `data:image/png;base64,` before it.

    Raises DataError if the text is not base64.
    """
    _, _, data_of_url = text.partition(";base64,")
    try:
        return base64.b64decode(data_of_url or text, validate=True)
    except ValueError:
        raise DataError(f"{where} is a text, but not an image in base64") from None


def _column_batches(
    path: Path, needed: Sequence[str], optional: Sequence[str]
) -> Iterator[dict[str, list[Any]]]:
    """Yield the named columns of a file as lists of cells, `TEXT_ROWS_AT_ONCE` rows at a time.

    Raises DataError if a column in `needed` is missing, or the file is damaged.
    """
    with _open_parquet(path) as file:
        columns = file.schema_arrow.names
        missing = [name for name in needed if name not in columns]
        if missing:
            raise DataError(
                f"{path}: there is no column {missing[0]!r}; there are {', '.join(columns)}; is it another version of "
                "the dataset?"
            )
        names = sorted({*needed, *(name for name in optional if name in columns)})
        try:
            for batch in file.iter_batches(TEXT_ROWS_AT_ONCE, columns=names, use_threads=False):
                yield {name: batch.column(name).to_pylist() for name in names}
        except (pa.ArrowException, OSError) as error:
            raise DataError(f"{path}: {_one_line(error)}; is the download complete?") from None


def _typed_row(form: type[RowT], cells: dict[str, list[Any]], index: int, where: str) -> RowT:
    """Return one row of a batch as a typed record, without empty cells."""
    row = {name: column[index] for name, column in cells.items() if column[index] is not None}
    return converted(row, form, where)


def _open_parquet(path: Path, buffer: int = 0) -> pq.ParquetFile:
    """Open a Parquet file. Raises DataError if it cannot be read.

    Args:
        path: The file.
        buffer: Number of bytes to read at once. If 0, all of a column in a row group is read at
            once.
    """
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
    """Return the message of an error in one line of at most 200 characters."""
    fault = getattr(error, "strerror", None) or str(error)
    return " ".join(fault.split())[:200]
