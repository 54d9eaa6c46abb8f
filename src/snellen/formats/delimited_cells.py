"""Cells of .tsv and .csv files, of any length.

The csv module of the standard library refuses a cell of more than 131,072 letters unless its limit is raised for the
whole process, and a cell may hold a picture in base64. This reader accepts and refuses what `csv.reader(strict=True)`
does (a test compares the two), without a limit.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

QUOTE = '"'
LINE_ENDS = "\r\n"
BROKEN = "line break within a row"


class CellError(ValueError):
    """Text that is not a row of cells."""


def delimited_records(lines: Iterable[str], delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """The number of each record's last line, from 1, with its cells; a blank line has no cells.

    `lines` keep their line endings; only as many are consumed as the record needs. Raises CellError.
    """
    numbered = enumerate(lines, 1)
    for number, line in numbered:
        if QUOTE in line:
            yield _quoted(number, line, numbered, delimiter)
        else:
            yield number, _plain(line, delimiter)


def _plain(line: str, delimiter: str) -> list[str]:
    """The cells of a line without quotes."""
    text = line.rstrip(LINE_ENDS)
    _check_end(text)
    return text.split(delimiter) if text else []


def _quoted(number: int, line: str, following: Iterator[tuple[int, str]], delimiter: str) -> tuple[int, list[str]]:
    """The cells of a record that contains quotes, which may span several lines."""
    cells: list[str] = []
    position = 0
    while True:
        if line.startswith(QUOTE, position):
            number, line, cell, position = _quoted_cell(number, line, position + 1, following)
        else:
            end = line.find(delimiter, position)
            cell = line[position:end] if end >= 0 else line[position:].rstrip(LINE_ENDS)
            _check_end(cell)
            position += len(cell)
        cells.append(cell)
        if line.startswith(delimiter, position):
            position += 1
            continue
        remainder = line[position:]
        if remainder and remainder[0] not in LINE_ENDS:
            raise CellError(f"{delimiter!r} expected after {QUOTE!r}")
        if remainder.strip(LINE_ENDS):
            raise CellError(BROKEN)
        return number, cells


def _quoted_cell(
    number: int, line: str, position: int, following: Iterator[tuple[int, str]]
) -> tuple[int, str, str, int]:
    """Number and text of the line where a quoted cell ends, the cell, and the position after its closing quote."""
    pieces: list[str] = []
    while True:
        end = line.find(QUOTE, position)
        if end < 0:
            pieces.append(line[position:])
            number, line = next(following, (0, ""))
            if not number:
                raise CellError("unexpected end of data")
            position = 0
        elif line.startswith(QUOTE, end + 1):
            pieces.append(line[position : end + 1])
            position = end + 2
        else:
            pieces.append(line[position:end])
            return number, line, "".join(pieces), end + 1


def _check_end(text: str) -> None:
    if "\r" in text or "\n" in text:
        raise CellError(BROKEN)
