"""Cells of text that contain several values: a list in JSON or Python, or lines such as `A. cat`, `B. dog`."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from typing import Any

import msgspec

from snellen.formats.json_files import JSON_FAULTS

_LABELLED_LINE = re.compile(r"^\s*[(\[]?([A-Za-z]|\d{1,2})[)\].:、．]\s*(.+?)\s*$")
_NEXT_LABEL = re.compile(r"\s*[;,|]?\s+(?=[(\[]?[A-Za-z][)\].:]\s)")
"""Between two labelled texts on one line: `A. cat; B. dog`."""


def listed(cell: Any) -> list[Any] | None:
    """Return the values of a cell that contains several, or None if it is a single value.

    These forms are recognised:

    - a list, also written as text in the syntax of JSON, Python or numpy, or a tuple of texts in Python's;
    - an object written as text whose keys are letters from A or numbers from 1;
    - texts labelled with letters from A or numbers from 1, such as `A. cat` and `B) dog`, on separate lines or on one.

    Examples:
        >>> listed("['cat', 'dog']")
        ['cat', 'dog']
        >>> listed("A. cat  B. dog")
        ['cat', 'dog']
        >>> listed("A cat and a dog.") is None
        True
    """
    if isinstance(cell, (list, tuple)):
        return list(cell)
    if not isinstance(cell, str):
        return None

    text = cell.strip()
    if text.startswith("[") and text.endswith("]"):
        value = _parse_literal(text)
        return value if isinstance(value, list) else None
    if text.startswith(("('", '("')) and text.endswith(")"):
        value = python_literal(text)
        return list(value) if isinstance(value, tuple) else None
    if text.startswith("{") and text.endswith("}"):
        value = _parse_literal(text)
        if isinstance(value, dict) and _are_labels(list(value)):
            return list(value.values())
        return None
    return _labelled_texts(text)


def _parse_literal(text: str) -> Any:
    """Return the value of a text in the syntax of JSON, Python or numpy; None if it is in none of
    these.
    """
    try:
        return msgspec.json.decode(text)
    except JSON_FAULTS:
        pass
    # numpy prints arrays of strings without commas.
    with_commas = re.sub(r"(['\"])\s+(?=['\"])", r"\1, ", text)
    value = python_literal(text)
    return python_literal(with_commas) if value is None else value


def python_literal(text: str) -> Any:
    """Return the value of a text in the syntax of a Python literal, such as `['a', 1]`; None if it
    is not one.

    None is also returned for literals that are nested too deeply, and for those that JSON does not
    have, such as sets and `...`.

    Examples:
        >>> python_literal("[{'question': 'Where?'}]"), python_literal("[" * 500), python_literal("[...]")
        ([{'question': 'Where?'}], None, None)
    """
    try:
        value = ast.literal_eval(text)
        return value if _is_json_like(value) else None
    except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
        return None


def _is_json_like(value: Any) -> bool:
    """Return whether a value consists only of types that JSON has, and of tuples."""
    if isinstance(value, (list, tuple)):
        return all(_is_json_like(item) for item in value)
    if isinstance(value, dict):
        return all(_is_json_like(key) and _is_json_like(item) for key, item in value.items())
    return value is None or isinstance(value, (str, int, float))


def _are_labels(names: Sequence[Any]) -> bool:
    """Return whether names are the labels of options: "A", "B", ... or "1", "2", ..., at least two of them."""
    if len(names) < 2:
        return False
    labels = [str(name).strip().upper() for name in names]
    letters = [chr(ord("A") + position) for position in range(len(labels))]
    numbers = [str(position + 1) for position in range(len(labels))]
    return labels in (letters, numbers)


def _labelled_texts(text: str) -> list[str] | None:
    """Return the texts of `A. cat`, `B. dog` on separate lines or on one; None if the text is not such a list."""
    lines = [line for line in text.splitlines() if line.strip()]
    if len(lines) == 1:
        lines = _NEXT_LABEL.split(lines[0])

    labels: list[str] = []
    texts: list[str] = []
    for line in lines:
        match = _LABELLED_LINE.match(line)
        if match is None:
            return None
        labels.append(match[1])
        texts.append(match[2])
    return texts if _are_labels(labels) else None
