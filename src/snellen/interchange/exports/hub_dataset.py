"""The layout of a dataset of the Hugging Face hub: Parquet with the features that its `datasets` library reads, a card.

The layout is that of the hub's documentation (Datasets, "Manual configuration" and "Dataset cards"), the features that
of the metadata which `datasets` 4 and later writes into Parquet's schema.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from snellen.common.images import Images
from snellen.errors import StoreError
from snellen.records import ImageRef

CARD = "README.md"
IMAGE = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
"""What the feature `Image` is stored as."""
SHARD_BYTES = 400 << 20
"""Pictures in one file, about; the hub asks for files well below 5 GB."""
ROWS = 32
"""Rows in memory at once, with their pictures."""
_LICENCES = frozenset(
    "afl-3.0 apache-2.0 bsd-2-clause bsd-3-clause cc cc-by-2.0 cc-by-3.0 cc-by-4.0 cc-by-nc-2.0 cc-by-nc-3.0 "
    "cc-by-nc-4.0 cc-by-nc-nd-4.0 cc-by-nc-sa-3.0 cc-by-nc-sa-4.0 cc-by-nd-4.0 cc-by-sa-3.0 cc-by-sa-4.0 cc0-1.0 "
    "gpl-3.0 mit odc-by odbl".split()
)
"""Licences by the hub's own names, which are those of SPDX in small letters."""
_SIZES = ((1_000, "n<1K"), (10_000, "1K<n<10K"), (100_000, "10K<n<100K"), (1_000_000, "100K<n<1M"))


def picture_cell(image: ImageRef, images: Images) -> dict[str, Any]:
    """A picture as the feature `Image` stores it, its bytes as they are. Raises DataError where it is not here."""
    return {"bytes": images.read(image), "path": f"{image.digest}.{image.media_type.partition('/')[2]}"}


def write_shards(rows: Iterable[Mapping[str, Any]], schema: pa.Schema, folder: Path, split: str) -> list[Path]:
    """Write rows as `data/SPLIT-00000-of-00001.parquet` and so on, a new file when one has enough pictures.

    Files get their names when all are written. Raises StoreError.
    """
    data = folder / "data"
    schema = schema.with_metadata({"huggingface": json.dumps({"info": {"features": _features(schema)}})})
    parts: list[Path] = []
    try:
        data.mkdir(parents=True, exist_ok=True)
        for number, shard in enumerate(_shards(rows, schema)):
            parts.append(data / f"{split}-{number:05}.part")
            with pq.ParquetWriter(parts[-1], schema, compression="zstd") as writer:
                for table in shard:
                    writer.write_table(table)
        for old in data.glob(f"{split}-*-of-*.parquet"):
            old.unlink()
        names = [data / f"{split}-{number:05}-of-{len(parts):05}.parquet" for number in range(len(parts))]
        return [part.rename(name) for part, name in zip(parts, names, strict=True)]
    except OSError as error:
        raise StoreError(f"{folder} cannot be written ({error.strerror or error})") from None
    finally:
        for part in parts:
            part.unlink(missing_ok=True)


def _shards(rows: Iterable[Mapping[str, Any]], schema: pa.Schema) -> Iterator[Iterator[pa.Table]]:
    """Tables of some rows, in groups that make a file; without any row one empty table."""
    tables = _tables(rows, schema)
    first: pa.Table | None = next(tables, schema.empty_table())

    def shard() -> Iterator[pa.Table]:
        nonlocal first
        size = 0
        while first is not None and size < SHARD_BYTES:
            size += first.nbytes
            yield first
            first = next(tables, None)

    while first is not None:
        yield shard()


def _tables(rows: Iterable[Mapping[str, Any]], schema: pa.Schema) -> Iterator[pa.Table]:
    batch: list[Mapping[str, Any]] = []
    for row in rows:
        batch.append(row)
        if len(batch) == ROWS:
            yield pa.Table.from_pylist(batch, schema)
            batch = []
    if batch:
        yield pa.Table.from_pylist(batch, schema)


def _features(schema: pa.Schema) -> dict[str, Any]:
    return {field.name: _feature(field.type) for field in schema}


def _feature(kind: pa.DataType) -> Any:
    if kind == IMAGE:
        return {"_type": "Image"}
    if pa.types.is_list(kind):
        return {"feature": _feature(kind.value_type), "_type": "List"}
    if pa.types.is_struct(kind):
        return {field.name: _feature(field.type) for field in kind}
    return {"dtype": {"double": "float64"}.get(str(kind), str(kind)), "_type": "Value"}


def card(title: str, *, data: str, split: str, rows: int, licences: Sequence[str | None], text: Iterable[str]) -> str:
    """A dataset card: front matter with the files, the number of rows and the licence, then `text`, line by line.

    `data` is the pattern of the files. Of several licences, or of one that the hub has no name for, the card says
    `other`; where one is not stated it says none.
    """
    size = next((name for most, name in _SIZES if rows < most), "n>1M")
    return "\n".join(
        [
            "---",
            f"pretty_name: {json.dumps(title, ensure_ascii=False)}",
            *_licence(licences),
            "task_categories: [visual-question-answering]",
            "tags: [evaluation, vision-language]",
            f"size_categories: [{size}]",
            "configs:",
            "- config_name: default",
            "  data_files:",
            f"  - split: {split}",
            f"    path: {data}",
            "---",
            "",
            f"# {title}",
            "",
            *text,
            "",
        ]
    )


def _licence(licences: Sequence[str | None]) -> Iterator[str]:
    distinct = dict.fromkeys(licences)
    known_licences = [licence for licence in distinct if licence]
    if not known_licences or len(known_licences) < len(distinct):
        return
    if len(known_licences) == 1 and known_licences[0].lower() in _LICENCES:
        yield f"license: {known_licences[0].lower()}"
        return
    yield "license: other"
    yield f"license_name: {json.dumps(', '.join(known_licences), ensure_ascii=False)}"


def columns_table(schema: pa.Schema, descriptions: Mapping[str, str]) -> Iterator[str]:
    """What each column holds, as a table; columns named in families by their beginning (`tag_`)."""
    yield "| column | type | what |"
    yield "|---|---|---|"
    for field in schema:
        family = next((name for name in descriptions if name.endswith("_") and field.name.startswith(name)), field.name)
        yield f"| `{field.name}` | {_type_name(field.type)} | {descriptions.get(family, '')} |"


def _type_name(kind: pa.DataType) -> str:
    if kind == IMAGE:
        return "Image"
    if pa.types.is_list(kind):
        return f"list of {_type_name(kind.value_type)}"
    if pa.types.is_struct(kind):
        return "record of " + ", ".join(field.name for field in kind)
    return str(kind)
