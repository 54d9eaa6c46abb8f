"""The reader of cells against the standard library's, which has a limit that is the whole process's."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from snellen.formats.delimited import CellError, DelimitedLines, delimited_records


def lines(text: str) -> DelimitedLines:
    return DelimitedLines(io.BytesIO(text.encode()), Path("table.csv"))


def ours(text: str, delimiter: str) -> tuple[list[tuple[int, list[str]]], bool]:
    """The records before the first fault, and whether there was one."""
    records: list[tuple[int, list[str]]] = []
    try:
        records.extend(delimited_records(lines(text), delimiter))
    except CellError:
        return records, True
    return records, False


def standard(text: str, delimiter: str) -> tuple[list[tuple[int, list[str]]], bool]:
    reader = csv.reader(lines(text), delimiter=delimiter, strict=True)
    records: list[tuple[int, list[str]]] = []
    try:
        records.extend((reader.line_num, cells) for cells in reader)
    except csv.Error:
        return records, True
    return records, False


@settings(max_examples=500)
@given(st.text(alphabet='a",\t\r\n é\0', max_size=24), st.sampled_from("\t,"))
@example('"a""b",c\n', ",")
@example('"two\nlines"\tx\r\ny\tz', "\t")
@example('"never closed\n', ",")
@example('"closed"but', ",")
@example('a"b",""\n\n,\n', ",")
@example("a\rb", ",")
def test_cells_are_those_of_the_standard_library(text: str, delimiter: str) -> None:
    assert ours(text, delimiter) == standard(text, delimiter)


@pytest.mark.parametrize("quote", ["", '"'])
def test_a_cell_may_be_longer_than_the_standard_library_s_limit(quote: str) -> None:
    long = "x" * (csv.field_size_limit() + 1)
    assert ours(f"{quote}{long}{quote},b\n", ",") == ([(1, [long, "b"])], False)
    assert standard(f"{quote}{long}{quote},b\n", ",") == ([], True)
