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
"""Errors that decoding JSON raises: the text is not JSON, does not fit the type, or is nested too
deeply.
"""


DecodedT = TypeVar("DecodedT")


def decode_whole(text: bytes, decode: Callable[[bytes], DecodedT]) -> tuple[DecodedT, bool]:
    """Decode JSON that may contain unpaired surrogates (halves of a character), which msgspec
    rejects.

    Models sometimes write half of a character, and Python's own `json` module stores it. Each half
    becomes U+FFFD.

    Args:
        text: The JSON.
        decode: Function that decodes it with msgspec.

    Returns:
        The decoded value, and whether a surrogate was replaced. Raises JSON_FAULTS if the text is
        not JSON.
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
    """Return decoded JSON or TOML as a record of a given type.

    Raises DataError if it does not fit. The message begins with `where` and names the wrong field.
    """
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
    """Return the content of a TOML file that is part of a Python package, as a record of a given
    type.
    """
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
    """Yield each item of a list in a JSON file as a record of a given type, with its location:
    `val.json: data[3]`.

    The caller has decoded the file only down to the list, so that an error can name the wrong item.

    Args:
        path: The file, for error messages.
        name: The name of the list, for error messages.
        items: The items, not decoded yet.
        form: The type of an item.

    Raises:
        DataError: An item does not fit the type.
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
            if not line.strip():
                continue
            where = f"{path}:{number}"
            try:
                yield where, decode(line)
            except JSON_FAULTS as error:
                raise DataError(f"{where}: {format_json_error(error, form, line)}") from None


def kept_lines(path: Path, form: type[RecordT], what: str) -> list[RecordT]:
    """Return the records in a JSONL file that `add_lines` has written; an empty list if the file
    does not exist.

    Raises StoreError if a line is not a record. The message calls a record `what`.

    Examples:
        >>> class Row(Struct):
        ...     id: str
        >>> _ = Path("rows.jsonl").write_text('{"id": "q1"}\\n')
        >>> [row.id for row in kept_lines(Path("rows.jsonl"), Row, "a row")]
        ['q1']
    """
    if not path.exists():
        return []
    records = []
    for number, line in enumerate(read_file(path, TABLE_BYTES).splitlines(), 1):
        try:
            records.append(msgspec.json.decode(line, type=form))
        except JSON_FAULTS as error:
            raise StoreError(
                f"{path}:{number}: not {what} ({error}); mend or remove the line"
            ) from None
    return records


def add_lines(path: Path, *records: Struct) -> None:
    """Append records to a JSONL file, which is created if it does not exist.

    Raises StoreError if it cannot be written.

    Examples:
        >>> class Row(Struct):
        ...     id: str
        >>> add_lines(Path("rows.jsonl"), Row("q1"), Row("q2"))
        >>> Path("rows.jsonl").read_text()
        '{"id":"q1"}\\n{"id":"q2"}\\n'
    """
    try:
        with path.open("ab", buffering=0) as file:
            # A single write, so that lines of two processes that write at once are not mixed.
            file.write(b"".join(msgspec.json.encode(record) + b"\n" for record in records))
    except OSError as error:
        raise StoreError(f"{path} cannot be written ({error.strerror})") from None


OBJECT_A_LINE = re.compile(rb"\s*\{[^\n]*\}\s*\n\s*\{")


def read_json_value(path: Path) -> Any:
    """Return the decoded content of a .json file (or .json.gz).

    Raises DataError if it is not a JSON value.

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
    """Return a decoded JSON value.

    NaN, which is not JSON but written by pandas and numpy, becomes None. Raises DataError, which
    begins with `where`.
    """
    try:
        return msgspec.json.decode(content)
    except JSON_FAULTS as error:
        # Unlike msgspec, Python's own json module accepts NaN.
        return _decoded_with_nan(content, where, error)


def _decoded_with_nan(content: bytes, where: str, fault: Exception) -> Any:
    """Return the value of a JSON text in which NaN and Infinity become None.

    Args:
        content: The text.
        where: Location of the text, with which error messages begin.
        fault: Why the text is not standard JSON, for the message if it cannot be read here, either.

    Raises:
        DataError: The text cannot be read. If it contains a conflict mark of Git, the message names the line.
    """
    try:
        return json.loads(content, parse_constant=lambda name: None)
    except (ValueError, RecursionError):
        merge_mark = _MERGE_MARK.search(content)
        if merge_mark:
            line = content.count(b"\n", 0, merge_mark.start()) + 1
            raise DataError(
                f"{where}: not JSON, as line {line:,} has the mark of a Git merge with conflicts "
                f"({merge_mark[0].decode()}); keep one of the two sides, and run this again"
            ) from None
        raise DataError(f"{where}: not JSON ({fault})") from None


_MERGE_MARK = re.compile(rb"^<<<<<<< [ -~]{1,40}", re.MULTILINE)
"""What Git writes into a file where two branches differ."""
READ_BYTES = 1 << 18
"""Bytes read at once."""
MAX_WINDOW_BYTES = 1 << 24
"""Largest window, in bytes, within which an item must end."""
MAX_TRIED_ENDS = 200
"""Nested objects tried as the end of an item before the window is enlarged."""
_BLANK = b" \t\r\n"
_objects = msgspec.json.Decoder(list[msgspec.Raw]).decode


def stream_list(path: Path, name: str, form: type[RecordT]) -> Iterator[tuple[str, RecordT]]:
    """Yield each item of a list in a JSON object as a record of a given type, with its location:
    `val.json: questions[3]`.

    The file is read in parts, so that it may be larger than the memory. Nothing after the list is
    read.

    Args:
        path: The file, which contains a JSON object.
        name: The field of the object that contains the list.
        form: The type of an item.

    Raises:
        DataError: An item does not fit the type, or the file ends within the list.
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
    """Yield the items of the list `name` in the outermost object of a JSON file, reading the file in parts.

    Args:
        file: The file, from its beginning.
        path: Its path, for messages.
        name: The field with the list.
    """
    window = _opening(file, path, name)  # what has been read but not yet decoded
    while not window.startswith(b"]"):
        end = _last_end(window)
        if not end:
            # No item is complete. Read more, or else take the rest of the list: its last items may be no objects.
            chunk = b""
            if len(window) < MAX_WINDOW_BYTES:
                chunk = file.read(max(READ_BYTES, len(window)))
            if chunk:
                window += chunk
                continue
            end = _list_end(window)
        yield from _objects(b"[" + window[:end] + b"]")
        window = _next(file, window[end:])


def _next(file: BinaryIO, window: bytes) -> bytes:
    """Skip the white space and the comma before the next item of a list.

    Args:
        file: The file, from which more is read if the window ends.
        window: What has been read but not yet decoded.

    Returns:
        The window, from the next item or from the bracket that ends the list.
    """
    while True:
        remainder = window.lstrip(_BLANK).removeprefix(b",").lstrip(_BLANK)
        if remainder:
            return remainder
        chunk = file.read(READ_BYTES)
        if not chunk:
            raise ValueError("the file ends within the list")
        window += chunk


def _opening(file: BinaryIO, path: Path, name: str) -> bytes:
    """Read a JSON file up to the beginning of a list in its outermost object.

    Returns:
        What was read beyond the opening bracket, from the first item on.

    Raises:
        DataError: The outermost object has no such list.
    """
    opening = re.compile(rb'"%s"\s*:\s*\[' % re.escape(name.encode()))
    window = b""
    searched = 0  # no list begins in this many first bytes of the window
    while True:
        chunk = file.read(READ_BYTES)
        if not chunk:
            break
        window += chunk
        for match in opening.finditer(window, searched):
            if _is_outermost(window[: match.end()], name):
                return _next(file, window[match.end() :])
        # A match may begin in this window and end in the next one.
        searched = max(0, len(window) - len(name) - 100)
    raise DataError(f"{path}: there is no list {name!r}; is this the right file?")


def _is_outermost(head: bytes, name: str) -> bool:
    """Return whether a list that has just been opened belongs to the outermost object, and not to
    an object inside it.

    Args:
        head: The file up to and including the opening bracket of the list. If `]}` after it makes
            it valid JSON with the field `name`, the list belongs to the outermost object.
        name: The field that contains the list.
    """
    try:
        return name in msgspec.json.decode(head + b"]}", type=dict[str, msgspec.Raw])
    except JSON_FAULTS:
        return False


def _last_end(window: bytes) -> int:
    """Return the index just after the last complete object in a list; 0 if none is complete.

    Args:
        window: The list from one of its items on, without the opening bracket.
    """
    end = len(window)
    for _ in range(MAX_TRIED_ENDS):
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
    """Return the index of the bracket that ends a list.

    Raises ValueError if the list does not end within the window.
    """
    text = window.decode()
    _, end = json.JSONDecoder().raw_decode("[" + text)
    return len(text[: end - 2].encode())
