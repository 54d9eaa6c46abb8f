"""JSON, JSONL and TOML files: whole and typed, row by row, or as a stream; errors name the file and the record."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Iterator, Sequence
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

import msgspec
from msgspec import Struct

from snellen.common import foreign
from snellen.common.faults import format_json_error, format_validation_error
from snellen.common.foreign import TABLE_BYTES, read_file
from snellen.errors import DataError, StoreError
from snellen.formats.delimited import open_text
from snellen.formats.shown_text import whole_characters

JSON_FAULTS = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""Raised for a text that is not JSON, has another form, or is nested deeper than any sensible file."""


DecodedT = TypeVar("DecodedT")


def decode_whole(text: bytes, decode: Callable[[bytes], DecodedT]) -> tuple[DecodedT, bool]:
    """Decode JSON, and if it has unpaired surrogates, which msgspec rejects, decode it with U+FFFD in their place. Returns
    the value, and whether there were any.

    A model may write half of one, and Python's own JSON sends it. Raises JSON_FAULTS.
    """
    try:
        return decode(text), False
    except msgspec.DecodeError:
        try:
            content = json.loads(text)
        except ValueError:
            content = None
        if content is None:
            raise
        written = json.dumps(content, ensure_ascii=False)
        whole = whole_characters(written)
        return decode(whole.encode()), whole != written


def parse_toml(text: str, where: str) -> dict[str, Any]:
    """Return the tables of TOML text. Raises DataError, which names the file.

    Examples:
        >>> parse_toml('name = "birds"', "birds.toml")
        {'name': 'birds'}
    """
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise DataError(f"{where}: {error}") from None
    except RecursionError:
        raise DataError(f"{where}: nested too deeply to be read") from None


RecordT = TypeVar("RecordT")


def converted(content: Any, form: type[RecordT], where: str) -> RecordT:
    """Tables or objects as a typed record. Raises DataError, which begins with `where`, naming the wrong field."""
    try:
        return msgspec.convert(content, form)
    except msgspec.ValidationError as error:
        raise DataError(f"{where}: {format_validation_error(error, form, content)}") from None


def read_packaged_text(file: Path | Traversable) -> str:
    """Return the text of a file in UTF-8. Raises DataError, which names the file."""
    try:
        return foreign.read_text(file)
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{file}: cannot read the file ({error})") from None


def read_toml(file: Path | Traversable, form: type[RecordT]) -> RecordT:
    """Return the content of a TOML file as a record of a given type. Raises DataError, which names the file and the wrong
    field.

    Examples:
        >>> class Bird(Struct):
        ...     name: str
        >>> _ = Path("bird.toml").write_text('name = "wren"')
        >>> read_toml(Path("bird.toml"), Bird).name
        'wren'
    """
    return converted(parse_toml(read_packaged_text(file), str(file)), form, str(file))


def packaged_toml(package: str, name: str, form: type[RecordT]) -> RecordT:
    """Return the content of a TOML file of a package as a record of a given type."""
    return read_toml(resources.files(package).joinpath(name), form)


def read_json(path: Path, form: type[RecordT]) -> RecordT:
    """Return the content of a JSON file as a value of a given type. Raises DataError, which names the file and the wrong
    field.

    Examples:
        >>> _ = Path("names.json").write_text('["wren", "robin"]')
        >>> read_json(Path("names.json"), list[str])
        ['wren', 'robin']
    """
    try:
        return msgspec.json.decode(foreign.read_text(path, TABLE_BYTES), type=form)
    except OSError as error:
        raise DataError(f"{path}: cannot read the file ({error.strerror})") from None
    except JSON_FAULTS as error:
        raise DataError(f"{path}: {error}; is the download complete, and the right file?") from None


def list_items(
    path: Path, name: str, items: Sequence[msgspec.Raw], form: type[RecordT]
) -> Iterator[tuple[str, RecordT]]:
    """Yield each item of the list `name` of a JSON file as a record of a given type, with its location: `val.json: data[3]`.

    The caller reads the list as `list[msgspec.Raw]`, so that an error can name the wrong item. Raises DataError.
    """
    decode = msgspec.json.Decoder(form).decode
    for number, item in enumerate(items):
        where = f"{path}: {name}[{number}]"
        try:
            yield where, decode(item)
        except JSON_FAULTS as error:
            raise DataError(f"{where}: {format_json_error(error, form, item)}") from None


def json_lines(path: Path, form: type[RecordT]) -> Iterator[tuple[str, RecordT]]:
    """Yield each line of a JSONL file (or .jsonl.gz) as a record of a given type, with its location: `test.jsonl:3`.

    Raises DataError.

    Examples:
        >>> class Row(Struct):
        ...     id: str
        >>> _ = Path("rows.jsonl").write_text('{"id": "q1"}\\n{"id": "q2"}\\n')
        >>> [(where, row.id) for where, row in json_lines(Path("rows.jsonl"), Row)]
        [('rows.jsonl:1', 'q1'), ('rows.jsonl:2', 'q2')]
    """
    decode = msgspec.json.Decoder(form).decode
    with open_text(path) as file:
        for number, line in enumerate(file, 1):
            if line.strip():
                try:
                    yield f"{path}:{number}", decode(line)
                except JSON_FAULTS as error:
                    raise DataError(
                        f"{path}:{number}: {format_json_error(error, form, line)}"
                    ) from None


def kept_lines(path: Path, form: type[RecordT], what: str) -> list[RecordT]:
    """Return the records of a file to which lines are only added; none if the file does not exist.

    Raises StoreError naming a line that is not `what`.

    Examples:
        >>> class Row(Struct):
        ...     id: str
        >>> _ = Path("rows.jsonl").write_text('{"id": "q1"}\\n')
        >>> [row.id for row in kept_lines(Path("rows.jsonl"), Row, "a row")]
        ['q1']
    """
    records = []
    for number, line in enumerate(
        read_file(path, TABLE_BYTES).splitlines() if path.exists() else (), 1
    ):
        try:
            records.append(msgspec.json.decode(line, type=form))
        except JSON_FAULTS as error:
            raise StoreError(
                f"{path}:{number}: not {what} ({error}); mend or remove the line"
            ) from None
    return records


def add_lines(path: Path, *records: Struct) -> None:
    """Add records to such a file. Raises StoreError where it cannot be written.

    Examples:
        >>> class Row(Struct):
        ...     id: str
        >>> add_lines(Path("rows.jsonl"), Row("q1"), Row("q2"))
        >>> Path("rows.jsonl").read_text()
        '{"id":"q1"}\\n{"id":"q2"}\\n'
    """
    try:
        with path.open("ab", buffering=0) as file:
            # One write, so that two who write at once mix no lines.
            file.write(b"".join(msgspec.json.encode(record) + b"\n" for record in records))
    except OSError as error:
        raise StoreError(f"{path} cannot be written ({error.strerror})") from None


OBJECT_A_LINE = re.compile(rb"\s*\{[^\n]*\}\s*\n\s*\{")


def read_json_value(path: Path) -> Any:
    """Whatever a .json file holds. Raises DataError.

    Examples:
        >>> _ = Path("note.json").write_text('{"bird": "wren"}')
        >>> read_json_value(Path("note.json"))
        {'bird': 'wren'}
    """
    if not path.name.endswith((".json", ".json.gz")):
        raise DataError(f"{path}: not a .json file")
    with open_text(path) as file:
        content = file.read()
    if OBJECT_A_LINE.match(content):
        raise DataError(
            f"{path}: not a JSON value but an object on each line; name the file .jsonl"
        )
    return decoded_json(content, str(path))


def decoded_json(content: bytes, where: str) -> Any:
    """Return a JSON value, with null for NaN, which pandas and numpy write. Raises DataError naming the place."""
    try:
        return msgspec.json.decode(content)
    except JSON_FAULTS as error:
        # Python's own reader takes NaN.
        return _with_nan(content, where, error)


def _with_nan(content: bytes, where: str, fault: Exception) -> Any:
    try:
        return json.loads(content, parse_constant=lambda name: None)
    except (ValueError, RecursionError):
        if merge := _MERGE_MARK.search(content):
            line = content.count(b"\n", 0, merge.start()) + 1
            raise DataError(
                f"{where}: not JSON, as line {line:,} has the mark of a Git merge with conflicts "
                f"({merge[0].decode()}); keep one of the two sides, and run this again"
            ) from None
        raise DataError(f"{where}: not JSON ({fault})") from None


_MERGE_MARK = re.compile(rb"^<<<<<<< [ -~]{1,40}", re.MULTILINE)
"""What Git writes into a file where two branches differ."""
WINDOW = 1 << 18
"""Bytes read at once."""
LONGEST = 1 << 24
"""Largest window, in bytes, within which an item must end."""
NESTED = 200
"""Nested objects tried as the end of an item before the window is enlarged."""
_BLANK = b" \t\r\n"
_objects = msgspec.json.Decoder(list[msgspec.Raw]).decode


def stream_list(path: Path, name: str, form: type[RecordT]) -> Iterator[tuple[str, RecordT]]:
    """Yield each item of the list `name` of a JSON object as a record of a given type, with its location:
    `val.json: questions[3]`.

    Nothing after the list is read. Raises DataError naming an item that is wrong or cut off.
    """
    decode = msgspec.json.Decoder(form).decode
    number = 0
    where = f"{path}: {name}"
    with open_text(path) as file:
        try:
            for item in _items(file, path, name):
                yield f"{where}[{number}]", decode(item)
                number += 1
        except JSON_FAULTS as error:
            raise DataError(f"{where}[{number}]: {error}") from None
        except ValueError as error:
            raise DataError(
                f"{where}[{number}]: not JSON ({error}); is the download complete?"
            ) from None


def _items(file: BinaryIO, path: Path, name: str) -> Iterator[msgspec.Raw]:
    """Yield the items of the list `name`, reading the file in parts. The window is the part that is not yet decoded."""
    window = _opening(file, path, name)
    while not window.startswith(b"]"):
        end = _last_end(window)
        if not end:
            chunk = file.read(max(WINDOW, len(window))) if len(window) < LONGEST else b""
            if chunk:
                window += chunk
                continue
            end = _list_end(window)
        yield from _objects(b"[" + window[:end] + b"]")
        window = _next(file, window[end:])


def _next(file: BinaryIO, window: bytes) -> bytes:
    """Skip blanks and a comma inside a list, reading on if the window ends there.

    Returns:
        The window from the next item, or from the bracket that ends the list.
    """
    while True:
        remainder = window.lstrip(_BLANK).removeprefix(b",").lstrip(_BLANK)
        if remainder:
            return remainder
        chunk = file.read(WINDOW)
        if not chunk:
            raise ValueError("the file ends within the list")
        window += chunk


def _opening(file: BinaryIO, path: Path, name: str) -> bytes:
    """Read a JSON file up to the list `name` of its outermost object.

    Returns:
        What was read of the list, from its first item on.

    Raises:
        DataError: The outermost object has no such list.
    """
    opening = re.compile(rb'"%s"\s*:\s*\[' % re.escape(name.encode()))
    window = b""
    searched = 0  # bytes of the window without a match
    while chunk := file.read(WINDOW):
        window += chunk
        for match in opening.finditer(window, searched):
            if _is_outermost(window[: match.end()], name):
                return _next(file, window[match.end() :])
        # A match may begin in this window and end in the next one.
        searched = max(0, len(window) - len(name) - 100)
    raise DataError(f"{path}: there is no list {name!r}; is this the right file?")


def _is_outermost(head: bytes, name: str) -> bool:
    """Return whether the list `name` that opens at the end of `head` belongs to the outermost object.

    If it does, closing the list and the object makes `head` complete JSON with this field.
    """
    try:
        return name in msgspec.json.decode(head + b"]}", type=dict[str, msgspec.Raw])
    except JSON_FAULTS:
        return False


def _last_end(window: bytes) -> int:
    """Return the index behind the last complete item of a list; 0 if none is found. All items before it must parse."""
    end = len(window)
    for _ in range(NESTED):
        end = window.rfind(b"}", 0, end)
        if end < 0:
            return 0
        try:
            _objects(b"[" + window[: end + 1] + b"]")
        except JSON_FAULTS:
            continue
        return end + 1
    return 0


def _list_end(window: bytes) -> int:
    """Return the index behind the bracket that ends a list. Raises ValueError if the list does not end within the window."""
    text = window.decode()
    _, end = json.JSONDecoder().raw_decode("[" + text)
    return len(text[: end - 2].encode())
