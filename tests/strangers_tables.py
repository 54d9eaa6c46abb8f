"""Writes small files of predictions as strangers have them, for tests that count their numbers by hand."""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

N = 40
"""Rows of a file."""
FEELINGS = ("happy", "sad", "angry", "neutral")


def lines(name: str, rows: Sequence[dict[str, Any]]) -> str:
    """Write rows as a file of JSON lines, and return its name."""
    Path(name).write_text("\n".join(map(json.dumps, rows)))
    return name


def table(name: str, rows: Sequence[dict[str, Any]]) -> str:
    """Write rows as a CSV file, and return its name."""
    with Path(name).open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return name


def feeling(n: int) -> str:
    """Return what a model says of row n, which is wrong in one of four: the right feeling is `FEELINGS[n % 4]`."""
    return FEELINGS[n % 4] if n % 4 else "sad"
