"""Long lists in JSON files, read as a stream: only a window of the file is in memory."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, TypeVar

import msgspec

from snellen.errors import DataError
from snellen.formats.decoding import JSON_FAULTS
from snellen.formats.delimited import open_text

RecordT = TypeVar("RecordT")

WINDOW = 1 << 18
"""Bytes read at once."""
LONGEST = 1 << 24
"""Largest window, in bytes, within which an item must end."""
NESTED = 200
"""Nested objects tried as the end of an item before the window is enlarged."""
_BLANK = b" \t\r\n"
_objects = msgspec.json.Decoder(list[msgspec.Raw]).decode


def stream_list(path: Path, name: str, form: type[RecordT]) -> Iterator[tuple[str, RecordT]]:
    """Each item of the list `name` of a JSON object as a typed record, with its location: `val.json: questions[3]`.

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
            raise DataError(f"{where}[{number}]: not JSON ({error}); is the download complete?") from None


def _items(file: BinaryIO, path: Path, name: str) -> Iterator[msgspec.Raw]:
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
    """The window from the next item, or from the end of the list."""
    while not (remainder := window.lstrip(_BLANK).removeprefix(b",").lstrip(_BLANK)):
        chunk = file.read(WINDOW)
        if not chunk:
            raise ValueError("the file ends within the list")
        window += chunk
    return remainder


def _opening(file: BinaryIO, path: Path, name: str) -> bytes:
    """The window after the opening bracket of the outermost object's list `name`."""
    opening = re.compile(rb'"%s"\s*:\s*\[' % re.escape(name.encode()))
    window, searched = b"", 0
    while chunk := file.read(WINDOW):
        window += chunk
        for match in opening.finditer(window, searched):
            if _is_outermost(window[: match.end()], name):
                return _next(file, window[match.end() :])
        searched = max(0, len(window) - len(name) - 100)
    raise DataError(f"{path}: there is no list {name!r}; is this the right file?")


def _is_outermost(head: bytes, name: str) -> bool:
    try:
        return name in msgspec.json.decode(head + b"]}", type=dict[str, msgspec.Raw])
    except JSON_FAULTS:
        return False


def _last_end(window: bytes) -> int:
    """Where the last complete item ends, or 0 if none is found: everything before it must parse as a list."""
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
    """Where the list ends. Raises ValueError when it does not end within the window."""
    text = window.decode()
    _, end = json.JSONDecoder().raw_decode("[" + text)
    return len(text[: end - 2].encode())
