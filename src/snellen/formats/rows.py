"""Rows of any file that holds some: delimited text, JSON, Parquet, Arrow, spreadsheets; each row with its place.

Cells stay as they are written: texts in .csv, .tsv and .xlsx, values in JSON and Parquet, where a picture is a
`LazyImage` that is read when it is needed. An empty cell or a null is left out. Rows come as a stream.
"""

from __future__ import annotations

import codecs
import io
import json
import re
import struct
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice, pairwise
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import msgspec

from snellen.common.drafts import LazyImage
from snellen.common.foreign import regular_file
from snellen.errors import DataError
from snellen.formats.containers import records_in
from snellen.formats.delimited import (
    TABLES,
    CellError,
    DelimitedLines,
    DelimitedTable,
    delimited_records,
    numbered,
    open_text,
)
from snellen.formats.json_files import JSON_FAULTS, decoded_json, read_json_value
from snellen.formats.shown_text import whole_characters
from snellen.formats.xlsx import largest_sheet, read_sheet, sheet_pictures

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
    holds_half_pair: bool = False
    """Whether its only fault is half of a surrogate pair, for which the cells have U+FFFD."""


def row_suffix(path: Path) -> str:
    """The suffix that tells a file's format, in small letters; that of a packed file is before its `.gz`."""
    suffix = path.suffix.lower()
    return path.with_suffix("").suffix.lower() if suffix == ".gz" else suffix


def is_row_file(path: Path) -> bool:
    """Whether rows are read from such a path: by its suffix, or a folder saved by the `datasets` library."""
    return row_suffix(path) in SUFFIXES or (path / DATASET_STATE).is_file()


def read_rows(path: Path, encoding: str = "", *, as_stored: bool = False) -> Iterator[SourceRow]:
    """All rows of a file, or of the Parquet files that a pattern means. Raises DataError naming file and line.

    A table in another `encoding` than UTF-8 is read as a whole. With `as_stored` a formula of a spreadsheet is its
    text, as a reply that begins with an equals sign is one.
    """
    if (path / DATASET_STATE).is_file() or path.suffix.lower() == ARROW:
        yield from _arrow_rows(path)
        return
    form = row_suffix(path)
    if form not in SUFFIXES:
        raise DataError(
            f"{path}: cannot tell the form from {path.suffix or 'no suffix'!r}; use {', '.join(SUFFIXES)}, or a folder"
        )
    if form in (".json", ".jsonl"):
        yield from _json_rows(path, encoding)
    elif form == PARQUET:
        yield from _parquet_rows(path)
    elif form == SHEET:
        yield from _sheet_rows(path, as_stored=as_stored)
    else:
        with open_text(path) as file:
            text: BinaryIO = io.BytesIO(file.read().decode(encoding).encode()) if encoding else file
            yield from _table_rows(text, path)


LEAST_CJK = 0.9
"""The share of the characters beyond ASCII that are Chinese ones in a text which GB 18030 decodes."""


def text_encoding(path: Path) -> str:
    """The encoding of a text that is not in UTF-8; empty for UTF-8, for other files, and where it cannot be told.

    A text of which only some lines are in UTF-8 is in no encoding: the reading of the rows names the others.
    """
    form = row_suffix(path)
    if form not in (*TEXTS, ".json", ".jsonl") or not path.is_file():
        return ""
    with open_text(path) as file:
        beginning = file.read(2)
        if beginning in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
            return "utf-16"
        if form not in TEXTS:
            return ""
        content = beginning + file.read()
    try:
        content.decode()
        return ""
    except UnicodeDecodeError:
        pass
    if any(not line.isascii() and _is_utf8(line) for line in content.splitlines()):
        return ""
    letters = sum(byte >= 0x80 or chr(byte).isalpha() for byte in content)
    accented = sum(byte >= 0x80 for byte in content)
    if _is_chinese(content):
        return "gb18030"
    if accented < letters / 5:  # Western languages have few accents
        return "cp1252"
    text = content.decode("cp1251", "replace").casefold()
    cyrillic = sum("а" <= letter <= "я" for letter in text)
    return "cp1251" if cyrillic > accented * 0.9 else ""


def _is_chinese(content: bytes) -> bool:
    """Whether a text is in GB 18030 (GBK, GB 2312), by the common characters that it then has.

    The characters of level 1 of GB 2312, which make up nearly all of a Chinese text, begin with the bytes B0 to D7.
    """
    try:
        text = content.decode("gb18030")
    except UnicodeDecodeError:
        return False
    foreign = [character for character in text if not character.isascii()]
    ideographs = [character for character in foreign if "\u4e00" <= character <= "\u9fff"]
    common = [
        character for character in ideographs if 0xB0 <= character.encode("gb18030")[0] <= 0xD7
    ]
    has_words = any(
        first in ideographs and second in ideographs for first, second in pairwise(text)
    )
    punctuation = sum("\u3000" <= c <= "\u303f" or "\uff00" <= c <= "\uffef" for c in foreign)
    return has_words and len(common) + punctuation >= LEAST_CJK * len(foreign)


def _is_utf8(line: bytes) -> bool:
    try:
        line.decode()
        return True
    except UnicodeDecodeError:
        return False


# --- JSON -------------------------------------------------------------------------------------------------------------


_OBJECT_A_LINE = re.compile(rb"\s*\{[^\n]*\}\s*\n\s*\{")


def _json_rows(path: Path, encoding: str) -> Iterator[SourceRow]:
    """The rows of a JSON value of any layout (`containers.records_in`), or of an object a line, whatever the suffix."""
    with open_text(path) as file:
        if row_suffix(path) == ".jsonl" and not encoding and _begins_with_line(file):
            # A file with images may be larger than the memory.
            yield from _json_lines(DelimitedLines(file, path), path)
            return
        content = file.read()
    if encoding:
        content = content.decode(encoding).encode()
    content = content.removeprefix(codecs.BOM_UTF8)
    if _OBJECT_A_LINE.match(content):
        yield from _json_lines(DelimitedLines(io.BytesIO(content), path), path)
        return
    try:
        value = decoded_json(content, str(path))
    except DataError:
        value = _values_in_sequence(content)
        if not value:
            raise
    records = records_in(value)
    if records is None:
        raise DataError(
            f"{path}: not a list of questions; write [{{...}}, {{...}}], or one object a line as .jsonl"
        )
    for number, record in enumerate(records, 1):
        yield _row_of(record, f"{path}: record {number}", number)


def _begins_with_line(file: BinaryIO) -> bool:
    """Whether a file begins with a line that may be a whole record, not with a list or a record of several lines."""
    beginning = file.read(1024).removeprefix(codecs.BOM_UTF8).lstrip()
    file.seek(0)
    return not beginning.startswith(b"[") and beginning.partition(b"\n")[0].rstrip() != b"{"


def _values_in_sequence(content: bytes) -> list[Any]:
    """Return JSON values that follow each other, as a program appends them with indents; none if anything else is there."""
    decoder = json.JSONDecoder(parse_constant=lambda name: None)
    values: list[Any] = []
    try:
        text = content.decode().strip()
        place = 0
        while place < len(text):
            value, place = decoder.raw_decode(text, place)
            values.append(value)
            while place < len(text) and text[place].isspace():
                place += 1
    except (ValueError, RecursionError):
        return []
    return values if len(values) > 1 else []


def _json_lines(lines: Iterable[str], path: Path) -> Iterator[SourceRow]:
    for number, text in enumerate(lines, 1):
        if not text.strip():
            continue
        where = f"{path}:{number}"
        try:
            record = decoded_json(text.encode(), where)
        except DataError as error:
            yield SourceRow(where, number, {}, str(error))
            continue
        yield _row_of(record, where, number)


def _row_of(record: Any, where: str, number: int) -> SourceRow:
    try:
        encoded = msgspec.json.encode(record)
    except UnicodeEncodeError as error:
        half = error.object[error.start : error.end]
        fault = f"{where}: a text holds {half!r}, half of a surrogate pair; replace it with the whole character"
        whole = json.loads(whole_characters(json.dumps(record, ensure_ascii=False)))
        if not isinstance(whole, dict):
            return SourceRow(where, number, {}, fault)
        return SourceRow(where, number, flat_record(whole), fault, holds_half_pair=True)
    if not isinstance(record, dict):
        beginning = encoded.decode()[:40]
        return SourceRow(
            where, number, {}, f"{where}: a row must be an object with a question, not {beginning}"
        )
    return SourceRow(where, number, flat_record(record))


def flat_record(record: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Fields of inner objects beside the others: `qa.question`; an object that is one value stays whole."""
    cells: dict[str, Any] = {}
    for name, value in record.items():
        if isinstance(value, dict) and value and VALUES.isdisjoint(value):
            cells |= flat_record(value, f"{prefix}{name}.")
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
    usual = TEXTS[row_suffix(path)]
    looks = {usual: _first_records(file, path, usual)}
    if row_suffix(path) != ".tsv" or (looks[usual] and not _regularity(looks[usual])[0]):
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


def _sheet_rows(path: Path, *, as_stored: bool = False) -> Iterator[SourceRow]:
    number = largest_sheet(path)
    sheet = read_sheet(path, number=number, as_shown=not as_stored)
    pictures = sheet_pictures(path, number)
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
            for name, value in flat_record(cells).items()
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
            table = pa.ipc.open_stream(pa.memory_map(str(regular_file(file)))).read_all()
        except (pa.ArrowException, OSError) as error:
            raise DataError(
                f"{file}: not an Arrow file of the `datasets` library ({getattr(error, 'strerror', None) or error})"
            ) from None
        pictures = [
            name for name in table.column_names if _holds_bytes(table.schema.field(name).type, pa)
        ]
        classes, texts = class_names(table.schema), table.drop_columns(pictures)
        for batch in texts.to_batches(max_chunksize=1000) if texts.num_columns else ():
            for cells in batch.to_pylist():
                row = {
                    name: classes[name][value] if name in classes else value
                    for name, value in flat_record(cells).items()
                }
                for name in pictures:
                    row |= _arrow_pictures(
                        table.column(name), name, number, f"{file}: row {number}"
                    )
                number += 1
                yield SourceRow(f"{file}: row {number - 1}", number, row)


def _arrow_files(path: Path) -> list[Path]:
    if not path.is_dir():
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
    """Return the values of a cell that holds several, or None for one value.

    A list counts, also one that is written as JSON or as Python writes it, an object written so whose keys are letters
    from A on, and lines that begin with `A.`, `B)` ...
    """
    if isinstance(cell, (list, tuple)):
        return list(cell)
    if not isinstance(cell, str):
        return None
    text = cell.strip()
    if text.startswith("[") and text.endswith("]"):
        value = _literal(text)
        return value if isinstance(value, list) else None
    if text.startswith("{") and text.endswith("}"):
        value = _literal(text)
        is_lettered = isinstance(value, dict) and _are_labels(list(value))
        return list(value.values()) if is_lettered else None
    return _lettered_lines(text)


def _literal(text: str) -> Any:
    """Return a value written as JSON, as Python or as numpy writes it; None if it is none of these."""
    import ast

    try:
        return msgspec.json.decode(text)
    except JSON_FAULTS:
        pass
    spaced_with_commas = re.sub(r"(['\"])\s+(?=['\"])", r"\1, ", text)  # numpy writes no commas
    for written in (text, spaced_with_commas):
        try:
            return ast.literal_eval(written)
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            continue
    return None


def _are_labels(names: Sequence[Any]) -> bool:
    """Whether names are letters from A on, or numbers from 1 on."""
    labels = [str(name).strip().upper() for name in names]
    letters = [chr(ord("A") + place) for place in range(len(labels))]
    numbers = [str(place + 1) for place in range(len(labels))]
    return len(labels) > 1 and labels in (letters, numbers)


def _lettered_lines(text: str) -> list[str] | None:
    """The texts of `A. cat`, `B. dog` on lines of their own, or after one another on one."""
    lines = [line for line in text.splitlines() if line.strip()]
    if len(lines) == 1:
        lines = re.split(r"\s*[;,|]?\s+(?=[(\[]?[A-Za-z][)\].:]\s)", lines[0])
    matches = [_LETTERED.match(line) for line in lines]
    if len(matches) < 2 or not all(matches):
        return None
    found = [match for match in matches if match]
    return [match[2] for match in found] if _are_labels([match[1] for match in found]) else None
