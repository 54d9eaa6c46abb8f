"""Strict reading of .tsv and .csv files: cells are text, empty cells are left out, and each row has its position.

Cells may have any length, because a cell may contain an image in base64.
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
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from threading import Lock
from typing import Any, BinaryIO, NamedTuple, TypeVar

import msgspec

from snellen.common.foreign import lines_of, open_file, open_gzip
from snellen.errors import DataError

RecordT = TypeVar("RecordT")

LETTERS = string.ascii_uppercase
TABLES = {".tsv": "\t", ".csv": ","}
"""File suffixes of tables, with their delimiters."""

_CSV_FAULTS = {
    "new-line": "line break within a row",
    "unexpected end": "a quotation mark opens a cell and is not closed",
}
"""Parts of messages of the csv module, with clearer messages."""
_CARRIAGE_RETURN = re.compile(r"(?<=\r)(?!\n)")
_cell_limit_lock = Lock()


class CellError(ValueError):
    """Error for a text that cannot be split into the cells of a table."""


def delimited_records(lines: Iterable[str], delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """Yield each record of a table of text: the number of its last line, from 1, and its cells.

    A record may span several lines if a quoted cell contains a line break. A blank line gives an
    empty list of cells.

    Args:
        lines: Lines with their line endings. No more lines are taken than a record needs.
        delimiter: The character between cells.

    Raises:
        CellError: The text is not a table.
    """
    reader = csv.reader(lines, delimiter=delimiter, strict=True)
    while (cells := _next_cells(reader)) is not None:
        yield reader.line_num, cells


def _next_cells(reader: Any) -> list[str] | None:
    """Return the cells of the next record; None at the end of the table.

    Python's csv module has a limit for the length of cells that applies to the whole process. It is
    lifted only while the record is read.
    """
    with _cell_limit_lock:
        limit = csv.field_size_limit(sys.maxsize)
        try:
            return next(reader, None)
        except csv.Error as error:
            raise CellError(_csv_fault(error)) from None
        finally:
            csv.field_size_limit(limit)


def _csv_fault(error: csv.Error) -> str:
    for part, message in _CSV_FAULTS.items():
        if part in str(error):
            return message
    return str(error)


class DelimitedRow(NamedTuple):
    """A row of a delimited table."""

    line: int
    """Number of the row's last line, from 1."""
    place: int
    """Byte offset of the beginning of the row."""
    cells: dict[str, str]
    fault: str = ""
    """Why the row cannot be read; empty if it can.

    Only tables of a user have such rows; in other tables they are errors.
    """


class DelimitedLines:
    """The lines of a UTF-8 file as texts.

    `end` is the byte offset in the file after the last line that was read. Raises DataError for a
    line that is not in UTF-8.
    """

    def __init__(self, file: BinaryIO, path: Path) -> None:
        self._file = file
        self._path = path
        self._number = 0
        self.end = file.tell()

    def __iter__(self) -> Iterator[str]:
        """Yield the lines as text, and note where each one ends in the file. A lone carriage return also ends a line."""
        for raw in lines_of(self._file):
            text = self._decode(raw)
            lines = [text]
            if b"\r" in raw[:-2]:
                # Files from old Macs end their lines with a bare carriage return.
                lines = _CARRIAGE_RETURN.split(text)
            for line in lines:
                if not line:
                    continue
                is_first = self.end == 0
                self._number += 1
                self.end += len(line.encode())
                yield line.removeprefix("\ufeff") if is_first else line

    def _decode(self, raw: bytes) -> str:
        """Decode a line as UTF-8. Raises DataError, which names the line."""
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

    Examples:
        >>> _ = Path("birds.csv").write_text("id,name\\n1,wren\\n")
        >>> with open_text(Path("birds.csv")) as file:
        ...     print(file.readline())
        b'id,name\\n'
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
    """Return unique names of columns: the second `note` becomes `note (2)`. Empty names stay empty.

    Examples:
        >>> numbered(["id", "note", "note"])
        ('id', 'note', 'note (2)')
    """
    counts: Counter[str] = Counter()
    unique_names: list[str] = []
    for name in names:
        counts[name] += 1
        is_repeated = name and counts[name] > 1
        unique_names.append(f"{name} ({counts[name]})" if is_repeated else name)
    return tuple(unique_names)


class DelimitedTable:
    """An open .tsv or .csv file with a header. Iterate over its rows, or fetch a row by its offset.

    Only one row is in memory at a time. Raises DataError, naming file and line, if the content is not a table.
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
        """Read the header.

        Args:
            file: The file, opened for reading bytes.
            path: Its path, for messages.
            delimiter: The character between cells; by default that of the suffix.
            before: Number of records before the header.
            is_own: Whether the table is a user's own. Then a repeated column is renamed to `name (2)`, and a row with
                another number of cells than the header is yielded with its fault. Otherwise both are errors.
        """
        self._is_own = is_own
        self._file = file
        self.path = path
        self._delimiter = delimiter or TABLES[path.suffix.lower()]
        self._before = before
        header: Sequence[str] = ()
        for _, _, cells in islice(self._records(0), before, before + 1):
            header = cells
        self.header = numbered([name.strip() for name in header]) if is_own else tuple(header)
        repeated = {name for name in self.header if name and self.header.count(name) > 1}
        if repeated:
            raise DataError(f"{path}:1: the column {min(repeated)!r} appears twice")

    def __iter__(self) -> Iterator[DelimitedRow]:
        """Yield the rows below the header, without blank ones.

        A row whose number of cells differs from that of the header is yielded with a fault if the
        table is a user's own; otherwise DataError is raised.
        """
        for line, place, cells in islice(self._records(0), self._before + 1, None):
            is_blank_line = not cells
            if is_blank_line:
                continue
            if len(cells) == len(self.header):
                yield DelimitedRow(line, place, self._by_column(cells))
                continue
            fault = f"{self.path}:{line}: {len(cells)} cells, but the header has {len(self.header)} columns"
            if not self._is_own:
                raise DataError(fault)
            yield DelimitedRow(line, place, {}, fault)

    def at(self, place: int) -> dict[str, str]:
        """Return the cells of the row that begins at a byte offset. Do not call it while iterating over the rows."""
        _, _, cells = next(self._records(place))
        return self._by_column(cells)

    def _by_column(self, cells: list[str]) -> dict[str, str]:
        return {name: cell for name, cell in zip(self.header, cells, strict=True) if cell != ""}

    def _records(self, place: int) -> Iterator[tuple[int, int, list[str]]]:
        """Yield the records of the table from a place in the file on.

        Args:
            place: Position of the first record in the file, in bytes.

        Yields:
            The number of the record's last line, counted from `place`; its position in the file, in bytes; and its cells.
        """
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
    """Yield each row of a .csv or .tsv file as a typed record, with its location: `Corpus2.csv:3`.

    Empty cells are left out, so their fields need defaults. Raises DataError.
    """
    with open_text(path) as file:
        for row in DelimitedTable(file, path):
            where = f"{path}:{row.line}"
            try:
                record = msgspec.convert(row.cells, form)
            except msgspec.ValidationError as error:
                raise DataError(f"{where}: {error}") from None
            yield where, record


def unknown_columns(names: Sequence[str], allowed: Collection[str], where: str = "") -> list[str]:
    """Return the columns that are not among the allowed ones.

    Raises DataError for a column that looks like a misspelling of a missing one, which would otherwise go unnoticed:
    with `anwser`, the answers would count as hidden.
    """
    used_letters = sum(name in LETTERS for name in names if len(name) == 1)
    missing: dict[str, str] = {}
    for name in allowed:
        is_later_letter = len(name) == 1 and LETTERS.index(name) > used_letters
        # Only the next option letter can be missing.
        if name not in names and not is_later_letter:
            missing[_simplified(name)] = name

    unknown = [name for name in names if name not in allowed]
    for name in unknown:
        near = difflib.get_close_matches(_simplified(name), missing, n=1, cutoff=0.8)
        if near:
            location = f"{where}: " if where else ""
            raise DataError(
                f"{location}unknown column {name!r}; did you mean {missing[near[0]]!r}? Rename it"
            )
    return unknown


def _simplified(name: str) -> str:
    return re.sub(r"[-_\s]+", "-", name.strip().casefold())


def decode_base64(cell: str, where: str, otherwise: str) -> bytes:
    """Decode base64 text, which may be wrapped into lines.

    Raises DataError with the message that the text is neither base64 nor `otherwise`, such as "a file name".
    """
    is_wrapped = "\n" in cell[:100]
    text = "".join(cell.split()) if is_wrapped else cell
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        excerpt = cell if len(cell) < 60 else cell[:60] + "..."
        raise DataError(f"{where}: image {excerpt!r} is neither {otherwise} nor base64") from None
