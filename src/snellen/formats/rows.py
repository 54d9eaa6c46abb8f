"""Rows of a file of any supported format: delimited text, JSON, Parquet, Arrow and spreadsheets.

Cells stay as they are written: text in .csv, .tsv and .xlsx, values in JSON and Parquet. An image is a `LazyImage`, which
is read when it is needed. Empty cells and nulls are left out. Rows are a stream.
"""

from __future__ import annotations

import codecs
import io
import re
from collections.abc import Iterator
from pathlib import Path

from snellen.errors import DataError
from snellen.formats.arrow_rows import DATASET_STATE, arrow_rows, parquet_rows
from snellen.formats.delimited import open_text
from snellen.formats.delimited_rows import delimited_rows
from snellen.formats.json_rows import json_rows
from snellen.formats.packed_files import how_to_unpack
from snellen.formats.sheet_rows import sheet_rows
from snellen.formats.source_row import SourceRow
from snellen.formats.suffixes import ARCHIVES, ARROW, PARQUET, SHEET, SUFFIXES, row_suffix

BEGINNING = 1024
"""How many bytes of a text file show whether it is JSON."""
BEGINS_WITH_OBJECT = re.compile(rb'\s*(?:\[\s*)?\{\s*"[^"\n]*"\s*:')
"""The beginning of a JSON object, or of a list of such. A text file that begins like this is no table."""


def is_row_file(path: Path) -> bool:
    """Return whether rows can be read from a path: a file with a known suffix, or a saved `datasets` folder."""
    return row_suffix(path) in SUFFIXES or (path / DATASET_STATE).is_file()


def read_rows(path: Path, encoding: str = "", *, as_stored: bool = False) -> Iterator[SourceRow]:
    """Yield all rows of a file, or of the Parquet files that a pattern matches.

    Args:
        path: The file, a folder saved by the `datasets` library, or a pattern of Parquet files.
        encoding: Encoding of a text file that is not in UTF-8. Such a file is read into memory.
        as_stored: Return a formula of a spreadsheet as its text and not as its value.

    Raises:
        DataError: The file cannot be read. The message names file and line.
    """
    if (path / DATASET_STATE).is_file() or path.suffix.lower() == ARROW:
        yield from arrow_rows(path)
        return
    suffix = row_suffix(path)
    if suffix not in SUFFIXES:
        if suffix in ARCHIVES:
            how = how_to_unpack(path)
            if how:
                raise DataError(f"{path} was packed by Snellen; {how}")
            raise DataError(
                f"{path} is an archive; unpack it with `{_unpacking(path)}`, then name the file or folder that was in it"
            )
        found = repr(path.suffix) if path.suffix else "no suffix"
        raise DataError(
            f"{path}: the format cannot be determined from {found}; use {', '.join(SUFFIXES)}, or a folder"
        )
    if suffix in (".json", ".jsonl"):
        yield from json_rows(path, encoding)
    elif suffix == PARQUET:
        yield from parquet_rows(path)
    elif suffix == SHEET:
        yield from sheet_rows(path, as_stored=as_stored)
    else:
        with open_text(path) as file:
            beginning = file.read(BEGINNING).removeprefix(codecs.BOM_UTF8)
        if BEGINS_WITH_OBJECT.match(beginning):
            yield from json_rows(path, encoding)
            return
        with open_text(path) as file:
            if not encoding:
                yield from delimited_rows(file, path)
                return
            content = file.read().decode(encoding).encode()
        yield from delimited_rows(io.BytesIO(content), path)


def _unpacking(path: Path) -> str:
    """Return the command that unpacks an archive, for a message."""
    command = {
        ".zip": "unzip",
        ".7z": "7z x",
        ".rar": "unrar x",
        ".bz2": "bunzip2",
        ".xz": "unxz",
        ".zst": "unzstd",
    }
    return f"{command.get(path.suffix.lower(), 'tar -xf')} {path}"
