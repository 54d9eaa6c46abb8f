"""Rows of the largest sheet of a spreadsheet, with its embedded images."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from snellen.common.drafts import LazyImage
from snellen.errors import DataError
from snellen.formats.delimited import numbered
from snellen.formats.delimited_rows import INSPECTED_RECORDS, header_position
from snellen.formats.source_row import SourceRow
from snellen.formats.xlsx import largest_sheet, read_sheet, sheet_images
from snellen.formats.xlsx_parts import Sheet


def sheet_rows(path: Path, *, as_stored: bool = False) -> Iterator[SourceRow]:
    """Yield the rows of the sheet with the most filled cells.

    With `as_stored`, a formula is its text and not its value: a reply may begin with an equals sign. Raises DataError.
    """
    number = largest_sheet(path)
    sheet = read_sheet(path, number=number, as_shown=not as_stored)
    if not sheet.lines:
        raise DataError(f"{path}: the first sheet is empty")
    header_index = header_position(
        [list(cells.values()) for _, cells in sheet.lines[:INSPECTED_RECORDS]]
    )
    header = _header(sheet.lines[header_index][1])
    _check_formulas(sheet, header, path)

    images_by_line: defaultdict[int, dict[int, list[LazyImage]]] = defaultdict(dict)
    for (line, column), images in sheet_images(path, number).items():
        images_by_line[line][column] = images
        header.setdefault(column, f"image in column {column + 1}")

    for line, texts in sheet.lines[header_index + 1 :]:
        cells: dict[str, Any] = {}
        for column, text in texts.items():
            if column in header:
                cells[header[column]] = text
        for column, images in images_by_line.get(line, {}).items():
            cells[header[column]] = images
        if cells:
            yield SourceRow(f"{path}:{line}", line, cells)


def _header(cells: dict[int, str]) -> dict[int, str]:
    """Return the unique names of the columns that have one."""
    names = {column: name.strip() for column, name in cells.items() if name.strip()}
    unique_names = numbered(list(names.values()))
    return dict(zip(names, unique_names, strict=True))


def _check_formulas(sheet: Sheet, header: dict[int, str], path: Path) -> None:
    """Raise DataError for a formula in a named column whose value is not stored."""
    for line, column in sheet.uncomputed:
        if column in header:
            raise DataError(
                f"{path}:{line}: {header[column]!r} is a formula without a stored value; open the file in a "
                "spreadsheet program and save it"
            )
