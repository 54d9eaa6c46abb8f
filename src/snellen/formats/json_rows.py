"""JSON rows of any content: a list of objects, or an object a line."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from snellen.errors import DataError
from snellen.formats.decoding import JSON_FAULTS
from snellen.formats.delimited import open_text


def read_json_rows(path: Path) -> list[dict[str, Any]]:
    """The objects of a .json list. Raises DataError saying what the file is instead."""
    content = read_json_value(path)
    if not isinstance(content, list):
        raise DataError(f"{path}: not a JSON list but {_kind(content)}")
    return [_object(row, f"{path}: record {number}") for number, row in enumerate(content, 1)]


def read_json_value(path: Path) -> Any:
    """Whatever a .json file holds. Raises DataError."""
    if not path.name.endswith((".json", ".json.gz")):
        raise DataError(f"{path}: not a .json file")
    with open_text(path) as file:
        return _decoded(file.read(), str(path))


def read_json_line_rows(path: Path) -> list[dict[str, Any]]:
    """The objects of a .jsonl file, one per line. Raises DataError naming a line that is none."""
    if not path.name.endswith((".jsonl", ".jsonl.gz")):
        raise DataError(f"{path}: not a .jsonl file")
    with open_text(path) as file:
        lines = ((number, line) for number, line in enumerate(file, 1) if line.strip())
        return [_object(_decoded(line, f"{path}: line {n}"), f"{path}: line {n}") for n, line in lines]


def _object(row: Any, where: str) -> dict[str, Any]:
    if not isinstance(row, dict):
        raise DataError(f"{where} is {_kind(row)}, not an object with fields")
    return row


def _decoded(content: bytes, where: str) -> Any:
    try:
        return msgspec.json.decode(content)
    except JSON_FAULTS as error:
        # NaN, which pandas and numpy write, is no JSON; Python's own reader takes it.
        return _with_nan(content, where, error)


def _with_nan(content: bytes, where: str, fault: Exception) -> Any:
    try:
        return json.loads(content, parse_constant=lambda name: None)
    except (ValueError, RecursionError):
        raise DataError(f"{where}: not JSON ({fault})") from None


def _kind(value: Any) -> str:
    kinds = {dict: "an object", list: "a list", str: "a text", bool: "a yes or no", type(None): "null"}
    return kinds.get(type(value), "a number")


def first_row_fault(path: Path, read: Callable[[Path], list[dict[str, Any]]], needed: Sequence[str]) -> str:
    """Why the rows that `read` gives are not of a form whose rows have the fields `needed`; empty when they are."""
    try:
        rows = read(path)
    except DataError as error:
        return str(error).removeprefix(f"{path}: ")
    if not rows:
        return "it is empty"
    missing = [name for name in needed if name not in rows[0]]
    return f"its first record has no {' and no '.join(missing)}" if missing else ""
