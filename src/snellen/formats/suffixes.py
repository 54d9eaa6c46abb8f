"""Suffixes of the files that rows are read from."""

from __future__ import annotations

from pathlib import Path

from snellen.formats.delimited import TABLES

PARQUET = ".parquet"
ARROW = ".arrow"
SHEET = ".xlsx"
TEXTS = {**TABLES, ".txt": "\t"}
"""Suffixes of delimited text, with the usual delimiter."""
TEXT_FORMATS = (".jsonl", ".json", *TEXTS)
SUFFIXES = (*TEXT_FORMATS, PARQUET, ARROW, SHEET)
ARCHIVES = (".zip", ".tar", ".tgz", ".7z", ".rar", ".bz2", ".xz", ".zst")
"""Suffixes of packed files that have to be unpacked before rows can be read."""


def row_suffix(path: Path) -> str:
    """Return the suffix that determines the format of a file, in lower case.

    It is the last, or the one before a suffix that says how the file was packed or made: `.csv` for `a.csv.gz`, and
    `.json` for `a.json.processed`.
    """
    suffix = path.suffix.lower()
    before = Path(path.stem).suffix.lower()
    is_readable = suffix not in (*SUFFIXES, *ARCHIVES) and before in TEXT_FORMATS
    return before if suffix == ".gz" or is_readable else suffix
