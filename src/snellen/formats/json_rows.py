"""Rows of a JSON file of any layout, or of a file with one object per line."""

from __future__ import annotations

import codecs
import io
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from snellen.errors import DataError
from snellen.formats.containers import records_in
from snellen.formats.delimited import DelimitedLines, open_text
from snellen.formats.json_files import OBJECT_A_LINE, decoded_json
from snellen.formats.shown_text import whole_characters
from snellen.formats.source_row import SourceRow, flat_record
from snellen.formats.suffixes import row_suffix


def json_rows(path: Path, encoding: str = "") -> Iterator[SourceRow]:
    """Yield the rows of a JSON file, which has records in any layout that `records_in` knows, or an
    object in each line.

    Which of the two it is, is recognised by the content: a `.json` file may have an object in each
    line.

    Args:
        path: The file.
        encoding: Encoding of the file, if it is not UTF-8.

    Raises:
        DataError: The file is not JSON, or contains no records.
    """
    with open_text(path) as file:
        if row_suffix(path) == ".jsonl" and not encoding and _begins_with_record(file):
            # A file with images may be larger than the memory.
            yield from _line_rows(DelimitedLines(file, path), path)
            return
        content = file.read()
    if encoding:
        content = content.decode(encoding).encode()
    content = content.removeprefix(codecs.BOM_UTF8)
    if OBJECT_A_LINE.match(content):
        yield from _line_rows(DelimitedLines(io.BytesIO(content), path), path)
        return

    try:
        value = decoded_json(content, str(path))
    except DataError:
        value = _consecutive_values(content)
        if not value:
            raise
    records = records_in(value)
    if records is None:
        raise DataError(
            f"{path}: not a list of questions{_contents(value)}; write [{{...}}, {{...}}], or one object per line as .jsonl"
        )
    for number, record in enumerate(records, 1):
        yield _row_of(record, f"{path}: record {number}", number)


MAX_SHOWN_KEYS = 6
"""Largest number of keys of an object that an error message lists."""


def _contents(value: Any) -> str:
    """Return a clause for an error message that says which keys an object has; empty if the value
    is not an object.
    """
    if not isinstance(value, dict) or not value:
        return ""
    keys = ", ".join(repr(key) for key in list(value)[:MAX_SHOWN_KEYS])
    if len(value) > MAX_SHOWN_KEYS:
        keys += ", ..."
    return f", but one object without rows of questions and replies ({keys})"


def _begins_with_record(file: BinaryIO) -> bool:
    """Return whether the first line of a file can be a complete JSON object.

    It cannot if it begins a list, or is only the opening bracket of an object that spans several
    lines.
    """
    beginning = file.read(1024).removeprefix(codecs.BOM_UTF8).lstrip()
    file.seek(0)
    first_line = beginning.partition(b"\n")[0].rstrip()
    is_list = beginning.startswith(b"[")
    return not is_list and first_line != b"{"


def _consecutive_values(content: bytes) -> list[Any]:
    """Return the JSON values of a file that contains several, one after the other: `{"id": 1}
    {"id": 2}`.

    Programs that append to a file write it in this way, with white space or commas between values.
    Returns an empty list if the content is not JSON, or is a single value.
    """
    decoder = json.JSONDecoder(parse_constant=lambda name: None)
    values: list[Any] = []
    try:
        text = content.decode().strip()
        position = 0
        while position < len(text):
            value, position = decoder.raw_decode(text, position)
            values.append(value)
            while position < len(text) and (text[position].isspace() or text[position] == ","):
                position += 1
    except (ValueError, RecursionError):
        return []
    return values if len(values) > 1 else []


def _line_rows(lines: Iterable[str], path: Path) -> Iterator[SourceRow]:
    """Yield the rows of a file with a JSON object in each line."""
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
    """Return a decoded JSON value as a row.

    The row has a fault if the value is not an object, or contains an unpaired surrogate (half of a
    character).
    """
    try:
        encoded = msgspec.json.encode(record)
    except UnicodeEncodeError as error:
        surrogate = error.object[error.start : error.end]
        return _row_with_surrogate(record, surrogate, where, number)
    if not isinstance(record, dict):
        beginning = encoded.decode()[:40]
        fault = f"{where}: a row must be an object with a question, not {beginning}"
        return SourceRow(where, number, {}, fault)
    return SourceRow(where, number, flat_record(record))


def _row_with_surrogate(record: Any, surrogate: str, where: str, number: int) -> SourceRow:
    """Return the row of a record that contains an unpaired surrogate (half of a character), with an
    error message in `fault`.

    In its cells, U+FFFD replaces unpaired surrogates, because they cannot be encoded.

    Args:
        record: The decoded record.
        surrogate: The surrogate.
        where: File and line, for the message.
        number: Number of the line.
    """
    fault = f"{where}: a text contains {surrogate!r}, an unpaired surrogate; replace it with the complete character"
    repaired = json.loads(whole_characters(json.dumps(record, ensure_ascii=False)))
    if not isinstance(repaired, dict):
        return SourceRow(where, number, {}, fault)
    return SourceRow(where, number, flat_record(repaired), fault, holds_half_pair=True)
