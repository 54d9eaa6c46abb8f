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

    Usually it is the last one. It is the one before it if the last says only how the file was packed or made: `.csv` for
    `a.csv.gz`, and `.json` for `a.json.processed`.
    """
    last = path.suffix.lower()
    inner = Path(path.stem).suffix.lower()
    if last == ".gz":
        return inner
    is_unknown = last not in (*SUFFIXES, *ARCHIVES)
    if is_unknown and inner in TEXT_FORMATS:
        return inner
    return last
