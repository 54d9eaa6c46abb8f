"""Read benchmarks and copies of questions that earlier versions of Snellen built.

docs/reference/compatibility.md says which formats are read. A manifest is brought to the present form in memory;
nothing is written.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import msgspec.inspect as msgspec_inspect

from snellen.common.foreign import regular_file
from snellen.errors import DataError
from snellen.formats.record_files import ENDING, Stored, read_records

FORMAT = 4
OLDEST_FORMAT = 2
PARQUET_ENDING = ".parquet"
PARQUET_ROWS = 1000  # in memory at once

RecordT = TypeVar("RecordT", bound=Stored)
ManifestT = TypeVar("ManifestT")


def read_older_manifest(raw: bytes, form: type[ManifestT]) -> ManifestT:
    """Decode the manifest of a build of this or an earlier format.

    Fields that are not known any more are left out, and missing ones have their default. The format becomes the
    present one, and records are listed under their present names; `record_file` finds the file itself.

    Raises:
        msgspec.DecodeError: The text is not a manifest of a format that is read.
    """
    content = msgspec.json.decode(raw, type=dict[str, Any])
    built_format = content.get("format")
    if isinstance(built_format, int) and OLDEST_FORMAT <= built_format < FORMAT:
        content["format"] = FORMAT
        files = content.get("files")
        if isinstance(files, dict):
            content["files"] = {_present_name(name): digest for name, digest in files.items()}
    return msgspec.convert(without_unknown_fields(content, form), form)


def _present_name(name: str) -> str:
    if name.endswith(PARQUET_ENDING):
        return name.removesuffix(PARQUET_ENDING) + ENDING
    return name


def without_unknown_fields(content: Any, form: Any) -> Any:
    """Return plain data without the fields that the records of a type do not have.

    Args:
        content: Tables, lists and values, as a decoder of JSON gives them.
        form: The type that they are to be converted to.
    """
    return _known_part(content, msgspec_inspect.type_info(form))


def _known_part(content: Any, kind: msgspec_inspect.Type) -> Any:
    match kind:
        case msgspec_inspect.StructType(fields=fields, tag_field=tag_field):
            if not isinstance(content, dict):
                return content
            types = {field.encode_name: field.type for field in fields}
            known = {
                name: _known_part(value, types[name])
                for name, value in content.items()
                if name in types
            }
            if tag_field in content:
                known[tag_field] = content[tag_field]
            return known
        case msgspec_inspect.UnionType(types=types):
            return _known_part(content, _alternative(content, types))
        case msgspec_inspect.VarTupleType(item_type=item_type) if isinstance(content, list):
            return [_known_part(item, item_type) for item in content]
        case msgspec_inspect.DictType(value_type=value_type) if isinstance(content, dict):
            return {name: _known_part(value, value_type) for name, value in content.items()}
    return content


def _alternative(content: Any, types: tuple[msgspec_inspect.Type, ...]) -> msgspec_inspect.Type:
    """Return the record of a union that a table is, by its tag; for anything else a type that changes nothing."""
    records = [kind for kind in types if isinstance(kind, msgspec_inspect.StructType)]
    if not isinstance(content, dict) or not records:
        return msgspec_inspect.AnyType()
    for record in records:
        if record.tag_field is not None and content.get(record.tag_field) == record.tag:
            return record
    return records[0]


def record_file(folder: Path, name: str) -> Path:
    """Return where a file of records lies: under its present name, else under that of format 2."""
    path = folder / name
    older_path = folder / f"{name.removesuffix(ENDING)}{PARQUET_ENDING}"
    return older_path if older_path.exists() and not path.exists() else path


def read_built_records(path: Path, kind: type[RecordT]) -> Iterator[RecordT]:
    """Yield the records of a file of any format that is read. Raises DataError for a file that cannot be read."""
    if path.suffix == PARQUET_ENDING:
        return _parquet_records(path, kind)
    return read_records(path, kind)


def _parquet_records(path: Path, kind: type[RecordT]) -> Iterator[RecordT]:
    import pyarrow as pa  # takes 0.1 s, and only old builds need it
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(regular_file(path)) as file:
            maps = [field.name for field in file.schema_arrow if pa.types.is_map(field.type)]
            for batch in file.iter_batches(batch_size=PARQUET_ROWS, use_threads=False):
                for row in batch.to_pylist():
                    for name in maps:
                        row[name] = dict(row[name] or ())
                    yield msgspec.convert(without_unknown_fields(row, kind), kind)
    except (pa.ArrowException, OSError, UnicodeDecodeError, msgspec.ValidationError) as error:
        fault = " ".join(str(error).split())
        raise DataError(f"{path} cannot be read ({fault}); build the benchmark again") from None
