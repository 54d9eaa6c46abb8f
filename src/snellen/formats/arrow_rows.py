"""Rows of Parquet and Arrow files; images are read only when they are needed."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from snellen.common.drafts import LazyImage
from snellen.common.foreign import regular_file
from snellen.errors import DataError
from snellen.formats.json_files import read_json_value
from snellen.formats.source_row import SourceRow, flat_record

DATASET_STATE = "state.json"
"""File in a folder that the `datasets` library saved."""
BATCH_ROWS = 1000


def parquet_rows(path: Path) -> Iterator[SourceRow]:
    """Yield the rows of a Parquet file, or of all files that a pattern matches."""
    import pyarrow as pa

    from snellen.formats.hub_parquet import (
        ImageColumn,
        ParquetSplit,
        class_names,
        holds_names_alone,
        parquet_schema,
    )

    split = ParquetSplit(*_folder_and_pattern(path))
    schema = parquet_schema(split.paths[0])
    classes = class_names(schema)
    image_columns: dict[str, ImageColumn] = {}
    name_columns: list[str] = []
    value_columns: list[str] = []
    single_precision: list[str] = []
    for name in schema.names:
        kind = schema.field(name).type
        if _holds_bytes(kind, pa):
            if all(holds_names_alone(file, name) for file in split.paths):
                name_columns.append(name)
                value_columns.append(name)
            else:
                image_columns[name] = ImageColumn(name)
            continue
        value_columns.append(name)
        if pa.types.is_float32(kind):
            single_precision.append(name)

    for place, record in split.rows((), value_columns, dict[str, Any]):
        named_images = {name: _image_names(record[name]) for name in name_columns}
        cells = _with_class_names(flat_record({**record, **named_images}), classes)
        for name in single_precision:
            if name in cells:
                cells[name] = _shortest_decimal(cells[name])
        for name, column in image_columns.items():
            images = column.images_in_row(place)
            if images:
                cells[name] = images[0] if len(images) == 1 else list(images)
        yield SourceRow(place.where, place.number + 1, _in_file_order(cells, schema.names))


def _image_names(cell: Any) -> Any:
    """Return the name of the image in a cell with `bytes` and `path`, or the names of its list of images."""
    if isinstance(cell, list):
        return [_image_names(image) for image in cell]
    return cell["path"] if cell else None


def _with_class_names(
    cells: dict[str, Any], classes: Mapping[str, Sequence[str]]
) -> dict[str, Any]:
    """Return the cells of a row with class names in place of class numbers.

    Args:
        cells: The cells by column.
        classes: For each column of class numbers, the names by number.
    """
    named_cells: dict[str, Any] = {}
    for column, value in cells.items():
        named_cells[column] = classes[column][value] if column in classes else value
    return named_cells


def _shortest_decimal(number: float) -> float:
    """Return the shortest decimal with the same single-precision value: 1.1 for 1.100000023841858."""
    single = struct.pack("f", number)
    for digits in range(6, 10):
        candidate = float(f"{number:.{digits}g}")
        if struct.pack("f", candidate) == single:
            return candidate
    return number


def _folder_and_pattern(path: Path) -> tuple[Path, tuple[str]]:
    """Split a path before its first part with an asterisk, or before the name of the file."""
    parts = path.parts
    position = len(parts) - 1
    for index, part in enumerate(parts):
        if "*" in part:
            position = index
            break
    return Path(*parts[:position]), ("/".join(parts[position:]),)


def _in_file_order(cells: Mapping[str, Any], columns: Sequence[str]) -> dict[str, Any]:
    """Return the cells of a row, by column, in the order of the columns of the file.

    A cell of a nested column, such as `answer.text`, gets the position of its outer column, `answer`. Cells of unknown
    columns come last.
    """
    position_by_column = {name: index for index, name in enumerate(columns)}

    def position(name: str) -> int:
        """Return the position of a column, or of the nested column that it belongs to."""
        outer_column = name.partition(".")[0]
        for column in (name, outer_column):
            if column in position_by_column:
                return position_by_column[column]
        return len(columns)

    return {name: cells[name] for name in sorted(cells, key=position)}


def _holds_bytes(kind: Any, pa: Any) -> bool:
    """Return whether an Arrow type is that of images: bytes, or a structure with `bytes` and `path`, or a list of these."""
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        kind = kind.value_type
    if pa.types.is_struct(kind):
        field_names = {field.name for field in kind}
        return {"bytes", "path"} <= field_names
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind))


def arrow_rows(path: Path) -> Iterator[SourceRow]:
    """Yield the rows of an Arrow file, or of a folder that the `datasets` library saved. The files stay on disk."""
    number = 0
    for file in _arrow_files(path):
        for index, cells in enumerate(_table_cells(file)):
            number += 1
            yield SourceRow(f"{file}: row {index}", number, cells)


def _table_cells(file: Path) -> Iterator[dict[str, Any]]:
    """Yield the cells of each row of an Arrow file by column. A cell with an image reads it when it is needed."""
    import pyarrow as pa

    from snellen.formats.hub_parquet import class_names

    try:
        table = pa.ipc.open_stream(pa.memory_map(str(regular_file(file)))).read_all()
    except (pa.ArrowException, OSError) as error:
        reason = getattr(error, "strerror", None) or error
        raise DataError(f"{file}: not an Arrow file of the `datasets` library ({reason})") from None
    image_columns: list[str] = []
    name_columns: list[str] = []  # with the names of image files, but not their content
    for name in table.column_names:
        if not _holds_bytes(table.schema.field(name).type, pa):
            continue
        if _are_names_alone(table.column(name), pa):
            name_columns.append(name)
        else:
            image_columns.append(name)
    classes = class_names(table.schema)
    values = table.drop_columns(image_columns)
    if not values.num_columns:
        return
    index = 0
    for batch in values.to_batches(max_chunksize=BATCH_ROWS):
        for record in batch.to_pylist():
            named_images = {name: _image_names(record[name]) for name in name_columns}
            cells = _with_class_names(flat_record({**record, **named_images}), classes)
            for name in image_columns:
                images = _images_at(table.column(name), index, f"{file}: row {index}: {name}")
                if images:
                    cells[name] = images[0] if len(images) == 1 else images
            index += 1
            yield cells


def _are_names_alone(column: Any, pa: Any) -> bool:
    """Return whether the images of a column are only named: no cell has their bytes."""
    images = column.combine_chunks()
    if pa.types.is_list(images.type) or pa.types.is_large_list(images.type):
        images = images.flatten()
    if not pa.types.is_struct(images.type):
        return False
    contents = images.field("bytes")
    names = images.field("path")
    return bool(contents.null_count == len(contents) and names.null_count < len(names))


def _arrow_files(path: Path) -> list[Path]:
    """Return an Arrow file alone, or the Arrow files of a folder that the `datasets` library saved."""
    if not path.is_dir():
        return [path]
    state = read_json_value(path / DATASET_STATE)
    if state.get("_indices_data_files"):
        raise DataError(
            f"{path}: the dataset was saved with a separate selection of rows; save it after .flatten_indices()"
        )
    return [path / file["filename"] for file in state.get("_data_files", ())]


def _images_at(column: Any, index: int, where: str) -> list[LazyImage]:
    """Return the images of a cell, which are read on demand; empty for a null."""
    value = column[index]
    if not value.is_valid:
        return []
    content = value.as_py()
    count = len(content) if isinstance(content, list) else 1

    def read(position: int) -> bytes:
        """Return the bytes of an image of the cell. `position` counts the images of a list, from 0."""
        cell = column[index].as_py()
        if isinstance(cell, list):
            cell = cell[position]
        image = cell["bytes"] if isinstance(cell, dict) else cell
        if not image:
            raise DataError(f"{where}: no image; save the dataset with its images embedded")
        return bytes(image)

    return [
        LazyImage(f"{where}[{position}]", lambda position=position: read(position))
        for position in range(count)
    ]
