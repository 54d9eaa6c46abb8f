"""JSON and JSONL files as typed records; errors name the file and the record."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TypeVar

import msgspec

from snellen.errors import DataError
from snellen.formats.decoding import JSON_FAULTS
from snellen.formats.delimited import open_text

RecordT = TypeVar("RecordT")


def read_json(path: Path, form: type[RecordT]) -> RecordT:
    """The JSON of a file as a typed record. Raises DataError naming the file and the wrong field."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=form)
    except OSError as error:
        raise DataError(f"{path}: cannot read the file ({error.strerror})") from None
    except JSON_FAULTS as error:
        raise DataError(f"{path}: {error}; is the download complete, and the right file?") from None


def list_items(
    path: Path, name: str, items: Sequence[msgspec.Raw], form: type[RecordT]
) -> Iterator[tuple[str, RecordT]]:
    """Each item of the list `name` in a JSON file as a typed record, with its location: `val.json: data[3]`.

    The caller reads the list as `list[msgspec.Raw]`, so that an error can name the wrong item. Raises DataError.
    """
    decode = msgspec.json.Decoder(form).decode
    for number, item in enumerate(items):
        where = f"{path}: {name}[{number}]"
        try:
            yield where, decode(item)
        except JSON_FAULTS as error:
            raise DataError(f"{where}: {error}") from None


def json_lines(path: Path, form: type[RecordT]) -> Iterator[tuple[str, RecordT]]:
    """Each line of a JSONL file (or .jsonl.gz) as a typed record, with its location `test.jsonl:3`.

    Raises DataError.
    """
    decode = msgspec.json.Decoder(form).decode
    with open_text(path) as file:
        for number, line in enumerate(file, 1):
            if line.strip():
                try:
                    yield f"{path}:{number}", decode(line)
                except JSON_FAULTS as error:
                    raise DataError(f"{path}:{number}: {error}") from None
