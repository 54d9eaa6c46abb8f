"""Rows of any file that holds some: delimited text, JSON, Parquet, Arrow, spreadsheets; each row with its place.

Cells stay as they are written: texts in .csv, .tsv and .xlsx, values in JSON and Parquet, where a picture is a
`LazyImage` that is read when it is needed. An empty cell or a null is left out. Rows come as a stream.
"""

from __future__ import annotations

import codecs
import io
import re
import struct
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import msgspec

from snellen.common.drafts import LazyImage
from snellen.errors import DataError
from snellen.formats.delimited import (
    TABLES,
    CellError,
    DelimitedLines,
    DelimitedTable,
    delimited_records,
    numbered,
    open_text,
)
from snellen.formats.json_files import JSON_FAULTS, read_json_value
from snellen.formats.text_table import largest_sheet, read_sheet, sheet_pictures

PARQUET, ARROW, SHEET = ".parquet", ".arrow", ".xlsx"
TEXTS = {**TABLES, ".txt": "\t"}
"""Suffixes of delimited text, with the usual delimiter."""
SUFFIXES = (".jsonl", ".json", *TEXTS, PARQUET, ARROW, SHEET)
DELIMITERS = (",", ";", "\t", "|")
LOOKED_AT = 20
"""Records at the beginning of a table that tell its delimiter and which of them is the header."""
DATASET_STATE = "state.json"
"""What a folder holds that the `datasets` library saved."""
VALUES = frozenset({"bytes", "path", "url", "from", "role"})
"""Fields of an object that is one value: a picture, a message."""


class SourceRow(NamedTuple):
    where: str
    """File and line, for error messages."""
    number: int
    """The number of the line, or of the record, from 1."""
    cells: dict[str, Any]
    fault: str = ""
    """Why the row cannot be read."""


def is_row_file(path: Path) -> bool:
    """Whether rows are read from such a path: by its suffix, or a folder saved by the `datasets` library."""
    return path.suffix.lower() in SUFFIXES or (path / DATASET_STATE).is_file()


def read_rows(path: Path, encoding: str = "") -> Iterator[SourceRow]:
    """All rows of a file, or of the Parquet files that a pattern means. Raises DataError naming file and line.

    A table in another `encoding` than UTF-8 is read as a whole.
    """
    if (path / DATASET_STATE).is_file() or path.suffix.lower() == ARROW:
        yield from _arrow_rows(path)
        return
    form = path.suffix.lower()
    if form not in SUFFIXES:
        raise DataError(
            f"{path}: cannot tell the form from {path.suffix or 'no suffix'!r}; use {', '.join(SUFFIXES)}, or a folder"
        )
    readers = {".json": _records, PARQUET: _parquet_rows, SHEET: _sheet_rows}
    if form in readers:
        yield from readers[form](path)
        return
    with open_text(path) as file:
        text: BinaryIO = io.BytesIO(file.read().decode(encoding).encode()) if encoding else file
        yield from (
            _objects(DelimitedLines(text, path), path)
            if form == ".jsonl"
            else _table_rows(text, path)
        )


def text_encoding(path: Path) -> str:
    """The encoding of a table that is not in UTF-8, as spreadsheets write them; empty for UTF-8, for other files, and
    where it cannot be told or only some lines are in UTF-8."""
    if path.suffix.lower() not in TEXTS or not path.is_file():
        return ""
    content = path.read_bytes()
    if content[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
        return "utf-16"
    try:
        content.decode()
        return ""
    except UnicodeDecodeError:
        if any(not line.isascii() and _is_utf8(line) for line in content.splitlines()):
            return ""
        letters = sum(byte >= 0x80 or chr(byte).isalpha() for byte in content)
        accented = sum(byte >= 0x80 for byte in content)
        if accented < letters / 5:  # Western languages have few accents
            return "cp1252"
        cyrillic = sum(
            "а" <= letter <= "я" for letter in content.decode("cp1251", "replace").casefold()
        )
        return "cp1251" if cyrillic > accented * 0.9 else ""


def _is_utf8(line: bytes) -> bool:
    try:
        line.decode()
        return True
    except UnicodeDecodeError:
        return False


# --- JSON -------------------------------------------------------------------------------------------------------------


def _records(path: Path) -> Iterator[SourceRow]:
    """The objects of a JSON list, of the one list in an object, or under the ids that are an object's keys; or the rows
    of a column under each key."""
    content = read_json_value(path)
    if isinstance(content, dict):
        lists = [
            value
            for value in content.values()
            if isinstance(value, list) and value and _are_objects(value)
        ]
        if len(lists) == 1:
            content = lists[0]
        elif columns := _columns(content):
            content = [
                dict(zip(columns, cells, strict=True))
                for cells in zip(*columns.values(), strict=True)
            ]
        elif len(content) > 1 and _are_objects(list(content.values())):
            content = [{"id": key, **value} for key, value in content.items()]
    if not isinstance(content, list):
        raise DataError(
            f"{path}: not a list of questions; write [{{...}}, {{...}}], or one object a line as .jsonl"
        )
    for number, record in enumerate(content, 1):
        yield _row_of(record, f"{path}: record {number}", number)


def _columns(content: dict[str, Any]) -> dict[str, Sequence[Any]]:
    """The columns that an object holds under their names, as lists or, as pandas writes them, by the rows' numbers or
    apart from their names; none where it holds something else."""
    if content.keys() == {"columns", "index", "data"}:
        names, rows = content["columns"], content["data"]
        if (
            not isinstance(names, list)
            or not isinstance(rows, list)
            or not all(isinstance(name, str) for name in names)
        ):
            return {}
        if not all(isinstance(row, list) and len(row) == len(names) for row in rows):
            return {}
        return {name: [row[place] for row in rows] for place, name in enumerate(names)}
    columns = {
        name: list(value.values()) if isinstance(value, dict) and _are_numbered(value) else value
        for name, value in content.items()
    }
    is_table = len(columns) > 1 and all(isinstance(value, list) for value in columns.values())
    return columns if is_table and len({len(value) for value in columns.values()}) == 1 else {}


def _are_numbered(rows: dict[str, Any]) -> bool:
    return bool(rows) and list(rows) == [str(number) for number in range(len(rows))]


def _are_objects(values: Sequence[Any]) -> bool:
    return all(isinstance(value, dict) for value in values)


def _objects(lines: DelimitedLines, path: Path) -> Iterator[SourceRow]:
    first = True
    for number, text in enumerate(lines, 1):
        if first and text.lstrip().startswith("["):
            raise DataError(f"{path}:{number}: not JSON lines but a JSON list; name the file .json")
        if text.strip():
            first = False
            try:
                yield _row_of(msgspec.json.decode(text), f"{path}:{number}", number)
            except JSON_FAULTS as error:
                why = (
                    "NaN is none of its values; write null"
                    if re.search(r":\s*NaN\b", text)
                    else str(error)
                )
                yield SourceRow(
                    f"{path}:{number}", number, {}, f"{path}:{number}: not JSON ({why})"
                )


def _row_of(record: Any, where: str, number: int) -> SourceRow:
    if not isinstance(record, dict):
        beginning = msgspec.json.encode(record).decode()[:40]
        return SourceRow(
            where, number, {}, f"{where}: a row must be an object with a question, not {beginning}"
        )
    return SourceRow(where, number, _flat(record))


def _flat(record: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Fields of inner objects beside the others: `qa.question`; an object that is one value stays whole."""
    cells: dict[str, Any] = {}
    for name, value in record.items():
        if isinstance(value, dict) and value and VALUES.isdisjoint(value):
            cells |= _flat(value, f"{prefix}{name}.")
        elif value is not None:
            cells[f"{prefix}{name}"] = value
    return cells


# --- delimited text and spreadsheets ----------------------------------------------------------------------------------


def _table_rows(file: BinaryIO, path: Path) -> Iterator[SourceRow]:
    delimiter, header = _layout(file, path)
    for line, _, cells, fault in DelimitedTable(file, path, delimiter, header, is_own=True):
        if (by_name := {name: cell for name, cell in cells.items() if name}) or fault:
            yield SourceRow(f"{path}:{line}", line, by_name, fault)


def _layout(file: BinaryIO, path: Path) -> tuple[str, int]:
    """A table's delimiter, and how many records stand before its header."""
    usual = TEXTS[path.suffix.lower()]
    looks = {usual: _first_records(file, path, usual)}
    if path.suffix.lower() != ".tsv" or (looks[usual] and not _regularity(looks[usual])[0]):
        looks |= {delimiter: _first_records(file, path, delimiter) for delimiter in DELIMITERS}
    delimiter = max(looks, key=lambda delimiter: _regularity(looks[delimiter]))
    if not looks[usual] and not _regularity(looks[delimiter])[0]:
        return usual, 0  # the reading of the rows says what is wrong with it
    return delimiter, header_place(looks[delimiter])


def _regularity(records: Sequence[Sequence[str]]) -> tuple[bool, float, int]:
    """How well records agree on their number of cells: whether it is more than one, the share that has it, and it."""
    counts = Counter(len(cells) for cells in records if cells)
    usual, times = counts.most_common(1)[0] if counts else (0, 0)
    return usual > 1, times / max(sum(counts.values()), 1), usual


def _first_records(file: BinaryIO, path: Path, delimiter: str) -> list[list[str]]:
    file.seek(0)
    try:
        records = delimited_records(DelimitedLines(file, path), delimiter)
        return [cells for _, cells in islice(records, LOOKED_AT)]
    except (CellError, DataError):
        return []  # the reading of the rows says what is wrong, with its line


def _filled(cells: Sequence[str]) -> int:
    return sum(bool(cell.strip()) for cell in cells)


def header_place(records: Sequence[Sequence[str]]) -> int:
    """Which of the first records is the header: the first that fills most of the columns; titles stand before it."""
    widest = max(map(_filled, records), default=0)
    return next((place for place, cells in enumerate(records) if _filled(cells) > widest / 2), 0)


def _sheet_rows(path: Path) -> Iterator[SourceRow]:
    number = largest_sheet(path)
    sheet, pictures = read_sheet(path, number=number, as_shown=True), sheet_pictures(path, number)
    lines = sheet.lines
    if not lines:
        raise DataError(f"{path}: the first sheet is empty")
    place = header_place([list(cells.values()) for _, cells in lines[:LOOKED_AT]])
    header = {column: name.strip() for column, name in lines[place][1].items() if name.strip()}
    header = dict(zip(header, numbered(list(header.values())), strict=True))
    if faults := [(line, header[column]) for line, column in sheet.uncomputed if column in header]:
        line, name = faults[0]
        raise DataError(
            f"{path}:{line}: {name!r} is a formula whose value is not in the file; open it in a spreadsheet and save it"
        )
    unnamed = {column for _, column in pictures} - set(header)
    header |= {column: f"picture in column {column + 1}" for column in unnamed}
    for line, texts in lines[place + 1 :]:
        cells: dict[str, Any] = {
            header[column]: text for column, text in texts.items() if column in header
        }
        cells |= {header[column]: held for (row, column), held in pictures.items() if row == line}
        if cells:
            yield SourceRow(f"{path}:{line}", line, cells)


# --- Parquet and Arrow ------------------------------------------------------------------------------------------------


def _parquet_rows(path: Path) -> Iterator[SourceRow]:
    """The rows of a Parquet file, or of all that a pattern means; columns of pictures are read when needed."""
    import pyarrow as pa

    from snellen.formats.hub_parquet import ParquetSplit, PictureColumn, class_names, parquet_schema

    parts = ParquetSplit(*_folder_and_pattern(path))
    schema = parquet_schema(parts.paths[0])
    pictures = {
        name: PictureColumn(name)
        for name in schema.names
        if _holds_bytes(schema.field(name).type, pa)
    }
    classes = class_names(schema)
    texts = [name for name in schema.names if name not in pictures]
    short = [name for name in texts if pa.types.is_float32(schema.field(name).type)]
    for place, cells in parts.rows((), texts, dict[str, Any]):
        row = {
            name: classes[name][value] if name in classes else value
            for name, value in _flat(cells).items()
        }
        row |= {name: _as_written(row[name]) for name in short if name in row}
        for name, column in pictures.items():
            if held := column.all_at(place):
                row[name] = held[0] if len(held) == 1 else list(held)
        yield SourceRow(
            place.where,
            place.number + 1,
            {name: row[name] for name in _in_order(schema.names, row)},
        )


def _as_written(number: float) -> float:
    """A number of single precision by the fewest digits that tell it from others: 1.1, not 1.100000023841858."""
    written = (float(f"{number:.{digits}g}") for digits in range(6, 10))
    return next(
        (short for short in written if struct.pack("f", short) == struct.pack("f", number)), number
    )


def _folder_and_pattern(path: Path) -> tuple[Path, tuple[str]]:
    """The folder above a path's first part that is a pattern, and the rest."""
    parts = path.parts
    place = next((place for place, part in enumerate(parts) if "*" in part), len(parts) - 1)
    return Path(*parts[:place]), ("/".join(parts[place:]),)


def _in_order(names: Sequence[str], row: dict[str, Any]) -> list[str]:
    """The columns of a row in the order of the file."""
    rank = {name: place for place, name in enumerate(names)}
    return sorted(row, key=lambda name: rank.get(name, rank.get(name.partition(".")[0], len(rank))))


def _holds_bytes(kind: Any, pa: Any) -> bool:
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        kind = kind.value_type
    if pa.types.is_struct(kind):
        return {"bytes", "path"} <= {field.name for field in kind}
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind))


def _arrow_rows(path: Path) -> Iterator[SourceRow]:
    """The rows of an Arrow file, or of a folder that the `datasets` library saved; files stay on the disk."""
    import pyarrow as pa

    from snellen.formats.hub_parquet import class_names

    number = 0
    for file in _arrow_files(path):
        try:
            table = pa.ipc.open_stream(pa.memory_map(str(file))).read_all()
        except (pa.ArrowException, OSError) as error:
            raise DataError(
                f"{file}: not an Arrow file of the `datasets` library ({error})"
            ) from None
        pictures = [
            name for name in table.column_names if _holds_bytes(table.schema.field(name).type, pa)
        ]
        classes, texts = class_names(table.schema), table.drop_columns(pictures)
        for batch in texts.to_batches(max_chunksize=1000) if texts.num_columns else ():
            for cells in batch.to_pylist():
                row = {
                    name: classes[name][value] if name in classes else value
                    for name, value in _flat(cells).items()
                }
                for name in pictures:
                    row |= _arrow_pictures(
                        table.column(name), name, number, f"{file}: row {number}"
                    )
                number += 1
                yield SourceRow(f"{file}: row {number - 1}", number, row)


def _arrow_files(path: Path) -> list[Path]:
    if path.is_file():
        return [path]
    state = read_json_value(path / DATASET_STATE)
    if state.get("_indices_data_files"):
        raise DataError(
            f"{path}: saved with a selection of its rows apart; save it after .flatten_indices()"
        )
    return [path / file["filename"] for file in state.get("_data_files", ())]


def _arrow_pictures(column: Any, name: str, number: int, where: str) -> dict[str, Any]:
    """The cell of a picture column: nothing, a picture, or several."""
    value = column[number]
    if not value.is_valid:
        return {}
    count = len(value) if isinstance(value.as_py(), list) else 1

    def read(place: int) -> bytes:
        cell = column[number].as_py()
        cell = cell[place] if isinstance(cell, list) else cell
        content = cell["bytes"] if isinstance(cell, dict) else cell
        if not content:
            raise DataError(
                f"{where}: {name} holds no picture; save the dataset with its pictures in it"
            )
        return bytes(content)

    held = [
        LazyImage(f"{where}: {name}[{place}]", lambda place=place: read(place))
        for place in range(count)
    ]
    return {name: held[0] if count == 1 else held} if held else {}


# --- texts that hold a list -------------------------------------------------------------------------------------------

_LETTERED = re.compile(r"^\s*[(\[]?([A-Za-z]|\d{1,2})[)\].:、．]\s*(.+?)\s*$")


def listed(cell: Any) -> list[Any] | None:
    """The values of a cell that holds several: a list, a list written as JSON or as Python writes it, or lines that
    begin with `A.`, `B)` ...; None for one value."""
    if isinstance(cell, (list, tuple)):
        return list(cell)
    if not isinstance(cell, str):
        return None
    text = cell.strip()
    if text.startswith("[") and text.endswith("]"):
        return _literal(text)
    return _lettered_lines(text)


def _literal(text: str) -> list[Any] | None:
    import ast

    try:
        value = msgspec.json.decode(text)
    except JSON_FAULTS:
        try:
            value = ast.literal_eval(text)
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            # numpy writes its arrays without commas.
            try:
                value = ast.literal_eval(re.sub(r"(['\"])\s+(?=['\"])", r"\1, ", text))
            except (ValueError, SyntaxError, RecursionError, MemoryError):
                return None
    return value if isinstance(value, list) else None


def _lettered_lines(text: str) -> list[str] | None:
    """The texts of `A. cat`, `B. dog` on lines of their own, or after one another on one."""
    lines = [line for line in text.splitlines() if line.strip()]
    if len(lines) == 1:
        lines = re.split(r"\s*[;,|]?\s+(?=[(\[]?[A-Za-z][)\].:]\s)", lines[0])
    matches = [_LETTERED.match(line) for line in lines]
    if len(matches) < 2 or not all(matches):
        return None
    labels = [match[1].upper() for match in matches if match]
    letters = [chr(ord("A") + place) for place in range(len(labels))]
    numbers = [str(place + 1) for place in range(len(labels))]
    return [match[2] for match in matches if match] if labels in (letters, numbers) else None
