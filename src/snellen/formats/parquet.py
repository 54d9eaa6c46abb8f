"""Reading and writing records as Parquet, streamed by row group; the same records give the same bytes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from snellen.errors import DataError
from snellen.records import Answer, Example, History, IndistinguishableQuestion, Sample, SourcePictures, SourceRows

ROWS = 1000
"""Rows held in memory, and rows in a Parquet row group."""
ROWS_AT_ONCE = 50 * ROWS
"""Rows sorted at once, in whole row groups."""

_IMAGE = pa.struct(
    [("digest", pa.string()), ("media_type", pa.string()), ("width", pa.int32()), ("height", pa.int32())]
)
_TURN = pa.struct([("question", pa.string()), ("options", pa.list_(pa.string()))])
_PLACED = pa.struct([("index", pa.string()), ("order", pa.list_(pa.int32()))])
_REGION = pa.struct([("box", pa.list_(pa.float64())), ("label", pa.string())])
_SAMPLE = [
    ("id", pa.string()),
    ("benchmark", pa.string()),
    ("question", pa.string()),
    ("images", pa.list_(_IMAGE)),
    ("options", pa.list_(pa.string())),
    ("context", pa.string()),
    ("turns", pa.list_(_TURN)),
    ("regions", pa.list_(_REGION)),
    ("group", pa.string()),
    ("tags", pa.map_(pa.string(), pa.string())),
    ("rewordings", pa.list_(pa.string())),
]
SCHEMAS: dict[type, pa.Schema] = {
    Sample: pa.schema(_SAMPLE),
    Example: pa.schema([*_SAMPLE, ("gold", pa.list_(pa.int32())), ("texts", pa.list_(pa.string()))]),
    Answer: pa.schema(
        [
            ("sample_id", pa.string()),
            ("turn", pa.int32()),
            ("options", pa.list_(pa.int32())),
            ("texts", pa.list_(pa.string())),
            ("relevance", pa.list_(pa.float64())),
            ("tags", pa.map_(pa.string(), pa.string())),
            ("candidates", pa.list_(pa.string())),
        ]
    ),
    History: pa.schema([("sample_id", pa.string()), ("replies", pa.list_(pa.string()))]),
    SourcePictures: pa.schema({"sample_id": pa.string(), "names": pa.list_(pa.string())}.items()),
    SourceRows: pa.schema(
        [
            ("sample_id", pa.string()),
            ("rows", pa.list_(_PLACED)),
            ("cells", pa.map_(pa.string(), pa.string())),
        ]
    ),
    IndistinguishableQuestion: pa.schema(
        [("sample_id", pa.string()), ("turn", pa.int32()), ("group", pa.int32()), ("kind", pa.int32())]
    ),
}

_REPEATED = frozenset({"benchmark", "options", "group", "tags"})
"""Fields of texts that samples have in common."""
MOST_SHARED = 100_000
_MAPS = frozenset({"tags", "cells"})
_STRUCTS = frozenset({"images", "turns", "regions", "rows"})

RecordT = TypeVar("RecordT", Sample, Example, Answer, History, SourceRows, SourcePictures, IndistinguishableQuestion)


def _row(record: Any, names: list[str]) -> dict[str, Any]:
    """The fields of a record with those of the records in it, and its maps as pairs in the order of their keys."""
    row = {name: getattr(record, name) for name in names}
    for name in _STRUCTS.intersection(row):
        row[name] = [msgspec.structs.asdict(struct) for struct in row[name]]
    for name in _MAPS.intersection(row):
        row[name] = [{"key": key, "value": value} for key, value in sorted(row[name].items())]
    return row


def _table(records: list[Any], schema: pa.Schema) -> pa.Table:
    """The records as a table.

    They pass as JSON, since `pyarrow.array` of a list imports pandas wherever it is installed: 0.2 s and 50 MB.
    """
    import pyarrow.json as pj

    encode = msgspec.json.Encoder().encode
    text = b"\n".join([encode(_row(record, schema.names)) for record in records])
    table = pj.read_json(
        pa.BufferReader(text),
        pj.ReadOptions(use_threads=False, block_size=len(text) + 1),
        pj.ParseOptions(explicit_schema=_as_pairs(schema), unexpected_field_behavior="error"),
    )
    columns = [_as_map(column, field.type) for column, field in zip(table.columns, schema, strict=True)]
    return pa.Table.from_arrays(columns, schema=schema)


def _as_pairs(schema: pa.Schema) -> pa.Schema:
    pairs = pa.list_(pa.struct([("key", pa.string()), ("value", pa.string())]))
    return pa.schema([field.with_type(pairs) if pa.types.is_map(field.type) else field for field in schema])


def _as_map(column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray | pa.Array:
    if not pa.types.is_map(kind):
        return column
    pairs = column.combine_chunks()
    return pa.MapArray.from_arrays(pairs.offsets, pairs.values.field(0), pairs.values.field(1))


class RecordWriter:
    """Writes records of one type to a Parquet file, one row group at a time."""

    def __init__(self, path: Path, kind: type) -> None:
        self._schema = SCHEMAS[kind]
        self._writer = pq.ParquetWriter(path, self._schema, compression="zstd", use_dictionary=True)
        self._records: list[Any] = []

    def write(
        self, record: Sample | Example | Answer | History | SourceRows | SourcePictures | IndistinguishableQuestion
    ) -> None:
        self._records.append(record)
        if len(self._records) >= ROWS:
            self._flush()

    def _flush(self) -> None:
        if self._records:
            self._writer.write_table(_table(self._records, self._schema), row_group_size=ROWS)
            self._records = []

    def __enter__(self) -> RecordWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self._flush()
        self._writer.close()


def read_records(path: Path, kind: type[RecordT]) -> Iterator[RecordT]:
    """The records of a file in order, with one row group in memory at a time.

    Raises DataError for a file that is missing, truncated or in another form.
    """
    shared: dict[Any, Any] = {}
    try:
        with pq.ParquetFile(path) as file:
            for batch in file.iter_batches(batch_size=ROWS, use_threads=False):
                names = batch.schema.names
                columns = [_values(batch.column(i), name in _MAPS) for i, name in enumerate(names)]
                columns = [
                    _shared(values, shared) if name in _REPEATED else values
                    for name, values in zip(names, columns, strict=True)
                ]
                rows = [dict(zip(names, values, strict=True)) for values in zip(*columns, strict=True)]
                yield from msgspec.convert(rows, list[kind])  # type: ignore[valid-type]
    except FileNotFoundError:
        raise DataError(f"{path} is missing; build the benchmark again") from None
    except (pa.ArrowException, OSError, UnicodeDecodeError, msgspec.ValidationError) as error:
        fault = " ".join(str(error).split())
        raise DataError(f"{path} cannot be read ({fault}); build the benchmark again") from None


def _shared(values: list[Any], shared: dict[Any, Any]) -> list[Any]:
    """Equal texts as one object, in lists and maps too: thousands of questions have the same options and tags."""
    if len(shared) > MOST_SHARED:
        shared.clear()

    intern = shared.setdefault

    def of(value: Any) -> Any:
        if isinstance(value, dict):
            return {intern(name, name): intern(text, text) for name, text in value.items()}
        return list(map(intern, value, value)) if isinstance(value, (list, tuple)) else intern(value, value)

    return list(map(of, values))


def _values(column: pa.Array, is_map: bool) -> list[Any]:
    """One field of all rows. Arrow is slow at converting lists, and most list columns are entirely empty."""
    if pa.types.is_nested(column.type) and column.offsets[0] == column.offsets[-1]:
        return [{} if is_map else ()] * len(column)
    values = column.to_pylist()
    return [dict(pairs or ()) for pairs in values] if is_map else values


def sort_by_group(path: Path) -> None:
    """Sort the samples so that each group is together, in order of first appearance.

    Holds the group names and ROWS_AT_ONCE rows in memory; a file that is already in order is not rewritten.
    """
    import pyarrow.compute as pc

    groups = pq.read_table(path, columns=["group"]).column("group").combine_chunks()
    # Names are numbered as they appear.
    rank = groups.dictionary_encode().indices
    if len(rank) < 2 or pc.all(pc.less_equal(rank[:-1], rank[1:])).as_py():
        return
    # The sort is stable; its inverse says where each row goes.
    place = pc.sort_indices(pc.sort_indices(rank))
    ordered = path.with_name(f"{path.name}.ordered")
    with (
        pq.ParquetFile(path) as file,
        pq.ParquetWriter(ordered, file.schema_arrow, compression="zstd", use_dictionary=True) as writer,
    ):
        for start in range(0, len(rank), ROWS_AT_ONCE):
            writer.write_table(_rows_between(file, place, start, start + ROWS_AT_ONCE), row_group_size=ROWS)
    ordered.replace(path)


def _rows_between(file: pq.ParquetFile, place: pa.Array, start: int, end: int) -> pa.Table:
    """The rows whose new positions are from `start` to `end`, in order."""
    import pyarrow.compute as pc

    batches, places, offset = [], [], 0
    for batch in file.iter_batches(batch_size=ROWS, use_threads=False):
        new_positions = place.slice(offset, batch.num_rows)
        offset += batch.num_rows
        mask = pc.and_(pc.greater_equal(new_positions, start), pc.less(new_positions, end))
        batches.append(batch.filter(mask))
        places.append(new_positions.filter(mask))
    return pa.Table.from_batches(batches).take(pc.sort_indices(pa.concat_arrays(places)))
