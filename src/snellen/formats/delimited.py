"""Strict reading of .tsv and .csv files: every cell is text, empty cells are left out, each row has its position.

Cells may be of any length, as one may hold a picture in base64.
"""

from __future__ import annotations

import base64
import binascii
import csv
import difflib
import re
import string
import sys
import zlib
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from threading import Lock
from typing import Any, BinaryIO, NamedTuple, TypeVar

import msgspec

from snellen.common.foreign import lines_of, open_file, open_gzip
from snellen.errors import DataError

_lifting_limit = Lock()


_FAULTS = {
    "new-line": "line break within a row",
    "unexpected end": "a quotation mark opens a cell and is not closed",
}
"""What of the csv module's messages says that a text is no row of cells, in words of ours."""


class CellError(ValueError):
    """Text that is not a row of cells."""


def delimited_records(lines: Iterable[str], delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """The number of each record's last line, from 1, with its cells; a blank line has no cells.

    `lines` keep their line endings; only as many are consumed as the record needs. Raises CellError.
    """
    reader = csv.reader(lines, delimiter=delimiter, strict=True)
    while (cells := _next_cells(reader)) is not None:
        yield reader.line_num, cells


def _next_cells(reader: Any) -> list[str] | None:
    """The cells of the next record, of any length: the limit, which is the whole process's, is lifted for it alone."""
    with _lifting_limit:
        limit = csv.field_size_limit(sys.maxsize)
        try:
            return next(reader, None)
        except csv.Error as error:
            raise CellError(
                next((words for sign, words in _FAULTS.items() if sign in str(error)), str(error))
            ) from None
        finally:
            csv.field_size_limit(limit)


RecordT = TypeVar("RecordT")

LETTERS = string.ascii_uppercase
TABLES = {".tsv": "\t", ".csv": ","}
"""File suffixes of tables, with their delimiters."""

_CARRIAGE_RETURN = re.compile(r"(?<=\r)(?!\n)")


class DelimitedRow(NamedTuple):
    line: int
    """Number of the row's (last) line, from 1."""
    place: int
    """Byte offset at which the row begins."""
    cells: dict[str, str]
    fault: str = ""
    """Why it is not a row, in a user's own table."""


class DelimitedLines:
    """The lines of a file, decoded one at a time. `end` is the byte offset after the last line read.

    Raises DataError naming a line that is not UTF-8.
    """

    def __init__(self, file: BinaryIO, path: Path) -> None:
        self._file, self._path = file, path
        self._number, self.end = 0, file.tell()

    def __iter__(self) -> Iterator[str]:
        for raw in lines_of(self._file):
            # Files from old Macs end their lines with a bare carriage return.
            lines = (
                _CARRIAGE_RETURN.split(self._decoded(raw))
                if b"\r" in raw[:-2]
                else [self._decoded(raw)]
            )
            for line in lines:
                if line:
                    at_start = self.end == 0
                    self._number += 1
                    self.end += len(raw) if len(lines) == 1 else len(line.encode())
                    yield line.removeprefix("\ufeff") if at_start else line

    def _decoded(self, raw: bytes) -> str:
        try:
            return raw.decode()
        except UnicodeDecodeError as error:
            raise DataError(
                f"{self._path}:{self._number + 1}: not UTF-8 (byte {raw[error.start]:#04x}); save the file as UTF-8"
            ) from None


@contextmanager
def open_text(path: Path) -> Iterator[BinaryIO]:
    """Open a file for reading bytes, decompressing a .gz.

    Raises DataError when it is missing or cannot be read.
    """
    try:
        with open_file(path) as file:
            yield open_gzip(file) if path.suffix == ".gz" else file
    except FileNotFoundError:
        raise DataError(f"{path}: no such file") from None
    except (OSError, EOFError, zlib.error) as error:
        fault = getattr(error, "strerror", None) or error
        raise DataError(f"{path}: cannot read the file ({fault})") from None


def numbered(names: Sequence[str]) -> tuple[str, ...]:
    """Names of columns, those that repeat an earlier one with a number: `note`, `note (2)`."""
    earlier = (names[:place].count(name) for place, name in enumerate(names))
    return tuple(
        f"{name} ({times + 1})" if name and times else name
        for name, times in zip(names, earlier, strict=True)
    )


class DelimitedTable:
    """An open .tsv or .csv file with a header: iterate over its rows, or fetch one by its offset.

    Only one row is in memory at a time. Raises DataError naming file and line where the content is not a table.
    """

    def __init__(
        self,
        file: BinaryIO,
        path: Path,
        delimiter: str = "",
        before: int = 0,
        *,
        is_own: bool = False,
    ) -> None:
        """`delimiter` is that of the suffix unless named; `before` is how many records stand before the header.

        A column whose name stands there again is refused, and so is a row with another number of cells. In a user's own
        table the first is called `name (2)`, and the second is a row with its fault.
        """
        self._is_own = is_own
        self._file, self.path = file, path
        self._delimiter = delimiter or TABLES[path.suffix.lower()]
        self._before = before
        header = next((cells for _, _, cells in islice(self._records(0), before, None)), ())
        self.header = numbered([name.strip() for name in header]) if is_own else tuple(header)
        if repeated := {name for name in self.header if name and self.header.count(name) > 1}:
            raise DataError(f"{path}:1: the column {min(repeated)!r} appears twice")

    def __iter__(self) -> Iterator[DelimitedRow]:
        for line, place, cells in islice(self._records(0), self._before + 1, None):
            if not cells:
                continue  # a blank line
            if len(cells) != len(self.header):
                fault = f"{self.path}:{line}: {len(cells)} cells, but the header has {len(self.header)} columns"
                if not self._is_own:
                    raise DataError(fault)
                yield DelimitedRow(line, place, {}, fault)
                continue
            yield DelimitedRow(line, place, self._by_column(cells))

    def at(self, place: int) -> dict[str, str]:
        """The cells of the row that begins at byte `place`. Not to be called while iterating over the rows."""
        _, _, cells = next(self._records(place))
        return self._by_column(cells)

    def _by_column(self, cells: list[str]) -> dict[str, str]:
        return {name: cell for name, cell in zip(self.header, cells, strict=True) if cell != ""}

    def _records(self, place: int) -> Iterator[tuple[int, int, list[str]]]:
        self._file.seek(place)
        lines = DelimitedLines(self._file, self.path)
        last_line = 0
        try:
            for number, cells in delimited_records(lines, self._delimiter):
                last_line = number
                yield last_line, place, cells
                place = lines.end
        except CellError as error:
            raise DataError(
                f"{self.path}:{last_line + 1}: {error}; quote cells that hold tabs, commas or line breaks"
            ) from None


def table_rows(path: Path, form: type[RecordT]) -> Iterator[tuple[str, RecordT]]:
    """Each row of a .csv or .tsv file as a typed record, with its location: `Corpus2.csv:3`.

    Empty cells are left out, so their fields need defaults. Raises DataError.
    """
    with open_text(path) as file:
        for line, _, cells, _ in DelimitedTable(file, path):
            try:
                yield f"{path}:{line}", msgspec.convert(cells, form)
            except msgspec.ValidationError as error:
                raise DataError(f"{path}:{line}: {error}") from None


def unknown_columns(names: Sequence[str], allowed: Collection[str], where: str = "") -> list[str]:
    """The columns that have no meaning here.

    Raises DataError for one that looks like a misspelling of a missing column: it would otherwise go
    unnoticed (`anwser` would make a split with hidden answers).
    """
    letters = sum(name in LETTERS for name in names if len(name) == 1)
    missing = {
        _plain(name): name
        for name in allowed
        # Of the option letters only the next one can be missing.
        if name not in names and (len(name) > 1 or LETTERS.index(name) <= letters)
    }
    strange = [name for name in names if name not in allowed]
    for name in strange:
        if near := difflib.get_close_matches(_plain(name), missing, n=1, cutoff=0.8):
            place = f"{where}: " if where else ""
            raise DataError(
                f"{place}unknown column {name!r}; did you mean {missing[near[0]]!r}? Rename it"
            )
    return strange


def _plain(name: str) -> str:
    return re.sub(r"[-_\s]+", "-", name.strip().casefold())


def decode_base64(cell: str, where: str, otherwise: str) -> bytes:
    """The bytes of a base64 cell, also in lines. Raises DataError saying that it is neither `otherwise` nor base64."""
    text = "".join(cell.split()) if "\n" in cell[:100] else cell
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        excerpt = cell if len(cell) < 60 else cell[:60] + "..."
        raise DataError(f"{where}: image {excerpt!r} is neither {otherwise} nor base64") from None
