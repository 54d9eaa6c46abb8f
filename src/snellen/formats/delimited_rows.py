"""Rows of delimited text, with the delimiter and the header detected from the first records."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import BinaryIO, NamedTuple

from snellen.errors import DataError
from snellen.formats.delimited import (
    CellError,
    DelimitedLines,
    DelimitedTable,
    delimited_records,
)
from snellen.formats.source_row import SourceRow
from snellen.formats.suffixes import TEXTS, row_suffix

DELIMITERS = (",", ";", "\t", "|")
INSPECTED_RECORDS = 20
"""Records at the beginning of a table from which the delimiter and the header are detected."""


class _Regularity(NamedTuple):
    """How well the records of a table agree on their number of cells; a larger value is better."""

    has_columns: bool
    """Whether the most frequent number of cells is more than one."""
    share: float
    """Share of the non-empty records with this number."""
    width: int
    """The most frequent number of cells."""


def delimited_rows(file: BinaryIO, path: Path) -> Iterator[SourceRow]:
    """Yield the rows of a table of text, such as a .csv file, with their cells by column.

    A row with another number of cells than the header is yielded with a `fault`. Blank rows are skipped.

    Args:
        file: The file in UTF-8, opened for reading bytes.
        path: Its path, for messages.

    Raises:
        DataError: The file is not a table.
    """
    delimiter, header_index = _detect_layout(file, path)
    for line, _, cells, fault in DelimitedTable(file, path, delimiter, header_index, is_own=True):
        named_cells = {name: cell for name, cell in cells.items() if name}
        if named_cells or fault:
            yield SourceRow(f"{path}:{line}", line, named_cells, fault)


def _detect_layout(file: BinaryIO, path: Path) -> tuple[str, int]:
    """Return the delimiter of a table, and how many records precede its header."""
    usual = TEXTS[row_suffix(path)]
    samples = {usual: _first_records(file, path, usual)}

    # In a .tsv file, other delimiters count only if no row has a tab: cells of text have commas.
    is_tsv = row_suffix(path) == ".tsv"
    has_usual_columns = _regularity(samples[usual]).has_columns
    if not is_tsv or (samples[usual] and not has_usual_columns):
        for delimiter in DELIMITERS:
            samples[delimiter] = _first_records(file, path, delimiter)

    best = max(samples, key=lambda delimiter: _regularity(samples[delimiter]))
    if not samples[usual] and not _regularity(samples[best]).has_columns:
        return usual, 0  # reading the rows reports what is wrong
    return best, header_position(samples[best])


def _regularity(records: Sequence[Sequence[str]]) -> _Regularity:
    """Return how much records, each a list of cells, look like a table: how many have the most frequent width."""
    widths = Counter(len(cells) for cells in records if cells)
    if not widths:
        return _Regularity(has_columns=False, share=0.0, width=0)
    [(usual_width, frequency)] = widths.most_common(1)
    return _Regularity(
        has_columns=usual_width > 1, share=frequency / widths.total(), width=usual_width
    )


def _first_records(file: BinaryIO, path: Path, delimiter: str) -> list[list[str]]:
    """Return the first records of a table, as lists of cells; an empty list if it cannot be read with this delimiter."""
    file.seek(0)
    try:
        records = delimited_records(DelimitedLines(file, path), delimiter)
        return [cells for _, cells in islice(records, INSPECTED_RECORDS)]
    except (CellError, DataError):
        return []  # reading the rows reports what is wrong, with its line


def header_position(records: Sequence[Sequence[str]]) -> int:
    """Return the index of the header: the first record that fills more than half of the columns.

    Titles and notes above a table fill fewer.

    Examples:
        >>> header_position([["Results of May", "", ""], ["id", "question", "answer"], ["1", "How many?", "2"]])
        1
    """
    filled = [sum(bool(cell.strip()) for cell in cells) for cells in records]
    widest = max(filled, default=0)
    for position, count in enumerate(filled):
        if count > widest / 2:
            return position
    return 0
