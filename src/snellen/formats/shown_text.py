"""Text from outside (names, replies, options) made safe to show: in a terminal, on a page, in a spreadsheet."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Mapping, Sequence
from typing import Any

_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
_DIRECTIONS = re.compile("[\u202a-\u202e\u2066-\u2069]")
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def strip_controls(text: str) -> str:
    """Return a text with U+FFFD in place of control characters and unpaired surrogates.

    Tabs and line breaks stay.

    Examples:
        >>> strip_controls("red: \\x1b[31m")
        'red: �[31m'
    """
    return _CONTROLS.sub("\ufffd", text)


HALF_CHARACTERS = "half characters"
"""The note on a reply that held halves of surrogate pairs."""


def whole_characters(text: str) -> str:
    """Return a text with U+FFFD in place of each unpaired surrogate, which cannot be written to a file."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def short_name(text: str) -> str:
    """Return a text that is safe inside a line: without control characters, and without those that
    change the writing direction.

    Examples:
        >>> short_name("red: \\x1b[31m")
        'red: �[31m'
    """
    return _DIRECTIONS.sub("\ufffd", strip_controls(text))


def object_line(kind: object, subject: str, **counts: int) -> str:
    """Return the `repr` of an object, such as `<Results: snellen:tiny in runs/a; benchmarks: 2, numbers: 154>`.

    Args:
        kind: The object. Its class name begins the text.
        subject: What the object is about, such as the name of a benchmark; may be empty.
        counts: How many of each thing the object has, by the word for it.

    Examples:
        >>> object_line("Benchmark", "animals", questions=120)
        '<str: animals; questions: 120>'
    """
    class_name = type(kind).__name__
    count_texts = [f"{name}: {count:,}" for name, count in counts.items()]
    parts = [short_name(subject), ", ".join(count_texts)]
    filled_parts = [part for part in parts if part]
    return f"<{class_name}: {'; '.join(filled_parts)}>"


def csv_table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return rows as CSV text with a header; None becomes an empty field.

    A text that a spreadsheet would run as a formula begins with an apostrophe, as OWASP advises.

    Args:
        rows: Each row maps the names of the columns to values. All rows have the same columns.

    Examples:
        >>> csv_table([{"bird": "wren", "songs": 3}])
        'bird,songs\\nwren,3\\n'
    """
    columns = list(rows[0]) if rows else []
    file = io.StringIO()
    writer = csv.DictWriter(file, fieldnames=columns, lineterminator="\n")
    writer.writeheader()
    for row in rows:
        safe_row: dict[str, Any] = {}
        for name, value in row.items():
            safe_row[name] = guard_formula(value) if isinstance(value, str) else value
        writer.writerow(safe_row)
    return file.getvalue()


def guard_formula(text: str) -> str:
    """Put an apostrophe before a text that a spreadsheet would run as a formula; `unguard_formula` takes it away again.

    Examples:
        >>> guard_formula("=1+2"), guard_formula("Anna")
        ("'=1+2", 'Anna')
    """
    return f"'{text}" if text.lstrip("'").startswith(_FORMULA) else text


def unguard_formula(text: str) -> str:
    """Return the text that `guard_formula` was given.

    Examples:
        >>> unguard_formula("'=1+2"), unguard_formula("'tis")
        ('=1+2', "'tis")
    """
    return text[1:] if text.startswith("'") and guard_formula(text) != text else text
