"""A row of a file of any format, with its location for error messages."""

from __future__ import annotations

from typing import Any, NamedTuple

VALUES = frozenset({"bytes", "path", "url", "from", "role"})
"""Field names by which an object is recognised as a single value, such as an image or a message,
and is not flattened.
"""


class SourceRow(NamedTuple):
    """One row of a file: a line of text, a record of JSON, a row of a table."""

    where: str
    """File and line, for error messages."""
    number: int
    """Number of the line or record, from 1."""
    cells: dict[str, Any]
    """Values by column, without empty cells and nulls."""
    fault: str = ""
    """Why the row cannot be read; empty if it can."""
    holds_half_pair: bool = False
    """Whether the row would be readable but for an unpaired surrogate (half of a character).

    In the cells, U+FFFD replaces it.
    """


def flat_record(record: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return a record without nested objects: `{"qa": {"question": "Why?"}}` becomes
    `{"qa.question": "Why?"}`.

    Nulls are left out. An object that is a single value, such as an image with `bytes` and `path`,
    stays as it is. An object whose keys are whole questions becomes a list of objects with the
    field `question`.
    """
    cells: dict[str, Any] = {}
    for name, value in record.items():
        column = f"{prefix}{name}"
        if value is None:
            continue
        if _is_map_by_text(value):
            cells[column] = [{"question": key, **inner} for key, inner in value.items()]
            continue
        is_nested = isinstance(value, dict) and value and VALUES.isdisjoint(value)
        if is_nested:
            cells |= flat_record(value, f"{column}.")
        else:
            cells[column] = value
    return cells


def _is_map_by_text(value: Any) -> bool:
    """Return whether an object has texts of several words, such as questions, as keys and objects
    as values.

    Such keys are data, and not names of columns.
    """
    if not isinstance(value, dict) or len(value) < 2:
        return False
    return all(" " in key and isinstance(inner, dict) for key, inner in value.items())
