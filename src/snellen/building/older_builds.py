"""Read benchmarks and copies of questions that earlier versions of Snellen built.

docs/reference/compatibility.md lists the formats. A manifest is converted to the present format in memory; no file is
changed.
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

FORMAT = 5
OLDEST_FORMAT = 2
PARQUET_ENDING = ".parquet"
PARQUET_BATCH_ROWS = 1000  # in memory at once

RecordT = TypeVar("RecordT", bound=Stored)
ManifestT = TypeVar("ManifestT")


def read_older_manifest(raw: bytes, form: type[ManifestT]) -> ManifestT:
    """Decode the manifest (`benchmark.json`) of a benchmark that this or an earlier version of
    Snellen built.

    Fields that no longer exist are dropped, missing ones get their default, and renamed files and
    fields get their present names.

    Args:
        raw: The content of the file.
        form: The type of the manifest.

    Raises:
        msgspec.DecodeError: The content is not a manifest of a supported version.
    """
    content = msgspec.json.decode(raw, type=dict[str, Any])
    built_format = content.get("format")
    if isinstance(built_format, int) and OLDEST_FORMAT <= built_format < FORMAT:
        content["format"] = FORMAT
        files = content.get("files")
        if isinstance(files, dict):
            content["files"] = {_present_name(name): digest for name, digest in files.items()}
        if isinstance(content.get("spec"), dict):
            content["spec"] = _present_spec(content["spec"])
    return msgspec.convert(without_unknown_fields(content, form), form)


def _present_spec(spec: dict[str, Any]) -> dict[str, Any]:
    """Return the entry in a manifest under the present names of its fields: up to format 4, images were `pictures`."""
    present = dict(spec)
    if "pictures" in present:
        present["image_sources"] = present.pop("pictures")
    for name in ("source", "groups", "prompts"):
        if name in present:
            present[name] = _with_image_names(present[name])
    return present


_IMAGE_NAME_BY_PICTURE_NAME = {
    "picture": "image",
    "pictures": "images",
    "no_pictures": "no_images",
    "find_pictures": "find_images",
    "fetch_pictures": "fetch_images",
}
_TABLES_WITH_USER_NAMES = ("fields", "tags", "answer_tags")
"""Tables whose keys are not renamed, because they are columns and tags, whose names the user chose."""


def _with_image_names(content: Any) -> Any:
    """Return decoded JSON in which fields with old names, such as `pictures`, have their present
    names, such as `images`.
    """
    if isinstance(content, list):
        return [_with_image_names(item) for item in content]
    if not isinstance(content, dict):
        return content
    present: dict[str, Any] = {}
    for name, value in content.items():
        if name in _TABLES_WITH_USER_NAMES:
            present[name] = value
        else:
            present_name = _IMAGE_NAME_BY_PICTURE_NAME.get(name, name)
            present[present_name] = _with_image_names(value)
    return present


def _present_name(name: str) -> str:
    """Return the present name of a file of records: `samples.jsonl.gz` for `samples.parquet`."""
    if name.endswith(PARQUET_ENDING):
        return name.removesuffix(PARQUET_ENDING) + ENDING
    return name


def without_unknown_fields(content: Any, form: Any) -> Any:
    """Return plain data without the fields that the records of a type do not have.

    Args:
        content: Tables, lists and values, as a decoder of JSON returns them.
        form: The type to which a caller will convert them.

    Examples:
        >>> from snellen.records import SourceImages
        >>> without_unknown_fields({"sample_id": "q1", "names": ["1.png"], "colour": "red"}, SourceImages)
        {'sample_id': 'q1', 'names': ['1.png']}
    """
    return _known_part(content, msgspec_inspect.type_info(form))


def _known_part(content: Any, kind: msgspec_inspect.Type) -> Any:
    """Return decoded JSON without the fields that its type does not have, inside nested records,
    lists and dicts too.

    Args:
        content: Decoded JSON.
        kind: The type that the content will be converted to.
    """
    if isinstance(kind, msgspec_inspect.UnionType):
        return _known_part(content, _union_member(content, kind.types))
    if isinstance(kind, msgspec_inspect.StructType) and isinstance(content, dict):
        return _known_fields(content, kind)
    if isinstance(kind, msgspec_inspect.VarTupleType) and isinstance(content, list):
        return [_known_part(item, kind.item_type) for item in content]
    if isinstance(kind, msgspec_inspect.DictType) and isinstance(content, dict):
        return {name: _known_part(value, kind.value_type) for name, value in content.items()}
    return content


def _known_fields(content: dict[str, Any], record: msgspec_inspect.StructType) -> dict[str, Any]:
    """Return the fields of a JSON object that the record type has.

    The field by which a union of types is told apart (its tag) is not a field of the record, but is
    kept too.
    """
    types = {field.encode_name: field.type for field in record.fields}
    known: dict[Any, Any] = {}
    for name, value in content.items():
        if name in types:
            known[name] = _known_part(value, types[name])
    if record.tag_field in content:
        known[record.tag_field] = content[record.tag_field]
    return known


def _union_member(content: Any, types: tuple[msgspec_inspect.Type, ...]) -> msgspec_inspect.Type:
    """Return the record type of a union that a JSON object belongs to.

    The object's tag field names the type. Without one, the first record type of the union is
    returned; if the content is not an object, the type `Any`, which leaves it unchanged.
    """
    records = [kind for kind in types if isinstance(kind, msgspec_inspect.StructType)]
    if not isinstance(content, dict) or not records:
        return msgspec_inspect.AnyType()
    for record in records:
        if record.tag_field is not None and content.get(record.tag_field) == record.tag:
            return record
    return records[0]


def record_file(folder: Path, name: str) -> Path:
    """Return the path of a file of records, such as `samples.jsonl.gz`.

    If only the file of an older build exists, `samples.parquet`, its path is returned.
    """
    path = folder / name
    parquet_path = folder / f"{name.removesuffix(ENDING)}{PARQUET_ENDING}"
    if parquet_path.exists() and not path.exists():
        return parquet_path
    return path


def read_built_records(path: Path, kind: type[RecordT]) -> Iterator[RecordT]:
    """Yield the records of a file of any supported format. Raises DataError if it cannot be read."""
    if path.suffix == PARQUET_ENDING:
        return _parquet_records(path, kind)
    return read_records(path, kind)


def _parquet_records(path: Path, kind: type[RecordT]) -> Iterator[RecordT]:
    """Yield the records of a Parquet file, in which earlier versions of Snellen stored the questions of a benchmark.

    Args:
        path: The file.
        kind: The type of a record.

    Raises:
        DataError: The file cannot be read.
    """
    import pyarrow as pa  # takes 0.1 s, and only old builds need it
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(regular_file(path)) as file:
            # PyArrow returns a map as a list of pairs.
            map_columns = [field.name for field in file.schema_arrow if pa.types.is_map(field.type)]
            for batch in file.iter_batches(batch_size=PARQUET_BATCH_ROWS, use_threads=False):
                for row in batch.to_pylist():
                    for name in map_columns:
                        row[name] = dict(row[name] or ())
                    yield msgspec.convert(without_unknown_fields(row, kind), kind)
    except (pa.ArrowException, OSError, UnicodeDecodeError, msgspec.ValidationError) as error:
        fault = " ".join(str(error).split())
        raise DataError(f"{path} cannot be read ({fault}); build the benchmark again") from None
