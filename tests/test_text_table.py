"""Tables of texts: what is written is read again, spreadsheets are read as texts, and none can fill the memory."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import openpyxl
import pandas
import pytest
from hypothesis import given
from hypothesis import strategies as st

from snellen.errors import DataError
from snellen.formats import xlsx
from snellen.formats.text_table import (
    READERS,
    TextTable,
    replacing_atomically,
    write_text_table,
)

HARD = [
    "=1+1",
    "http://example.org/" + "x" * 3000,
    "NA",
    "None",
    "5.0",
    "007",
    "TRUE",
    " padded ",
    "two\nlines",
    "a\rb",
    "a\r\nb",
    "a\tb",
    "a\x01b",
    "a_x0041_b",
    "\x00",
    "\ufffe",
    "猫",
    "😀",
    "'quoted",
    '"',
    "-1",
    "@x",
    "x" * 32_767,
]
FORMS = sorted(READERS)


def rows(texts: list[str]) -> list[dict[str, str]]:
    return [{"index": str(i), "prediction": text} for i, text in enumerate(texts)]


def read(path: Path) -> list[dict[str, str]]:
    return [cells for _, cells in TextTable.read(path).rows]


@pytest.mark.parametrize("form", FORMS)
def test_every_form_gives_back_what_was_written(form: str, tmp_path: Path) -> None:
    write_text_table(tmp_path / f"t{form}", ["index", "prediction"], rows([*HARD, ""]))
    assert read(tmp_path / f"t{form}") == [*rows(HARD), {"index": str(len(HARD))}]
    assert [path.name for path in tmp_path.iterdir()] == [f"t{form}"]


@pytest.mark.parametrize("form", FORMS)
@given(
    texts=st.lists(
        st.text(st.characters(exclude_categories=["Cs"]), max_size=20), min_size=1, max_size=5
    )
)
def test_any_text_comes_through_every_form(
    form: str, texts: list[str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("any") / f"t{form}"
    write_text_table(path, ["index", "prediction"], rows(texts))
    assert read(path) == [{name: text for name, text in row.items() if text} for row in rows(texts)]


@pytest.mark.parametrize(
    ("form", "written"),
    [
        (".tsv", '"index"\t"prediction"\n"1"\t"two\nlines"\n"2"\t""\n'),
        (".csv", '"index","prediction"\n"1","two\nlines"\n"2",""\n'),
        (
            ".json",
            '[{"index": "1", "prediction": "two\\nlines"},\n{"index": "2", "prediction": ""}]\n',
        ),
        (
            ".jsonl",
            '{"index": "1", "prediction": "two\\nlines"}\n{"index": "2", "prediction": ""}\n',
        ),
    ],
)
def test_a_text_file_is_what_other_programs_read_and_anyone_may_read_it(
    form: str, written: str, tmp_path: Path
) -> None:
    path = tmp_path / f"t{form}"
    write_text_table(
        path, ["index", "prediction"], [{"index": "1", "prediction": "two\nlines"}, {"index": "2"}]
    )
    assert path.read_bytes() == written.encode()
    assert path.stat().st_mode & 0o777 == 0o644
    assert TextTable.read(path).columns == ("index", "prediction")


WRITER = "from snellen.formats.text_table import *; from pathlib import Path; import sys; "
WRITER += "write_text_table(Path(sys.argv[1]), ['a'], [{'a': chr(29483)}])"


def test_a_table_is_utf_8_whatever_the_locale(tmp_path: Path) -> None:
    places = {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}
    subprocess.run(
        [sys.executable, "-c", WRITER, str(tmp_path / "t.tsv")], env=os.environ | places, check=True
    )
    assert (tmp_path / "t.tsv").read_text("utf-8") == '"a"\n"猫"\n'


def test_another_reader_finds_texts_in_the_spreadsheet_and_no_formula(tmp_path: Path) -> None:
    plain = ["=1+1", "http://example.org", "NA", "None", "5.0", "007", "TRUE", "two\nlines", "猫"]
    write_text_table(tmp_path / "t.xlsx", ["index", "prediction"], rows(plain))
    sheet = openpyxl.load_workbook(tmp_path / "t.xlsx").active
    cells = [row[1] for row in sheet.iter_rows(min_row=2)]
    assert [cell.value for cell in cells] == plain
    assert {cell.data_type for cell in cells} == {"s"}
    assert not any(cell.hyperlink for cell in cells)


@pytest.mark.parametrize(
    ("text", "form", "fault"),
    [
        (
            "x" * 40_000,
            ".xlsx",
            "row 0, prediction: 40,000 characters, but a cell of an .xlsx file holds at most 32,767",
        ),
        ("😀" * 20_000, ".xlsx", "row 0, prediction: 20,000 characters"),
        ("\ud800", ".xlsx", "an unpaired surrogate; use .json or .jsonl"),
        ("\ud800", ".tsv", "an unpaired surrogate"),
    ],
)
def test_what_a_form_cannot_hold_is_refused_and_nothing_is_left(
    text: str, form: str, fault: str, tmp_path: Path
) -> None:
    with pytest.raises(DataError, match=fault):
        write_text_table(tmp_path / f"t{form}", ["index", "prediction"], rows([text]))
    assert list(tmp_path.iterdir()) == []
    write_text_table(tmp_path / "t.jsonl", ["index", "prediction"], rows([text]))
    assert read(tmp_path / "t.jsonl") == rows([text])


@pytest.mark.parametrize(
    ("columns", "row", "place"),
    [
        (["index", ""], {"index": "7", "": "x"}, "row 7, column ''"),
        (["index", ""], {"": "x"}, "row 2, column ''"),
        (["index", "a", ""], {"index": "7", "a": "1", "": "x"}, "row 7, column ''"),
    ],
)
def test_a_table_that_would_not_be_read_again_as_it_is_names_the_cell_and_leaves_nothing(
    columns: list[str], row: dict[str, str], place: str, tmp_path: Path
) -> None:
    """pandas writes its index as a column without a name, and so such a column is not read."""
    path = tmp_path / "t.tsv"
    with pytest.raises(DataError) as caught:
        write_text_table(path, columns, [{"index": "1"}, row])
    advice = "the text would change when it is read again; write .jsonl instead"
    assert str(caught.value) == f"cannot write {path}: {place}: {advice}"
    assert list(tmp_path.iterdir()) == []


def test_a_row_that_a_spreadsheet_has_no_place_for_is_missed(tmp_path: Path) -> None:
    path = tmp_path / "t.xlsx"
    with pytest.raises(DataError) as caught:
        write_text_table(path, ["index"], [{"index": "1"}, {}, {"index": "3"}])
    assert str(caught.value) == f"cannot write {path}: only 2 of 3 rows could be read again"


@pytest.mark.parametrize("name", ["t.tsv", "t.csv", "t.xlsx"])
def test_the_index_that_pandas_writes_without_a_name_is_left_out(name: str, tmp_path: Path) -> None:
    frame = pandas.DataFrame({"index": ["7"], "prediction": ["A"]})
    if name == "t.xlsx":
        frame.to_excel(tmp_path / name)
    else:
        frame.to_csv(tmp_path / name, sep="\t" if name == "t.tsv" else ",")
    table = TextTable.read(tmp_path / name)
    row = (2, {"index": "7", "prediction": "A"})
    assert (table.columns, table.rows, table.notes) == (("index", "prediction"), (row,), ())


@pytest.mark.parametrize(
    ("lines", "fault"),
    [
        ([], ": the first sheet is empty"),
        ([["index", "A", "B", "A"], [1, 2, 3, 4]], ":1: the column 'A' appears twice"),
    ],
)
def test_a_sheet_without_names_for_its_columns_is_refused(
    lines: list[list[object]], fault: str, tmp_path: Path
) -> None:
    book = openpyxl.Workbook()
    for line in lines:
        book.active.append(line)
    book.save(tmp_path / "t.xlsx")
    with pytest.raises(DataError) as caught:
        TextTable.read(tmp_path / "t.xlsx")
    assert str(caught.value) == f"{tmp_path / 't.xlsx'}{fault}"


def test_a_form_that_is_none_is_refused_with_those_that_are(tmp_path: Path) -> None:
    said = f"{tmp_path / 't.xls'}: the suffix of a table must be one of .xlsx, .json, .jsonl, .tsv, .csv"
    for attempt in (
        lambda: TextTable.read(tmp_path / "t.xls"),
        lambda: write_text_table(tmp_path / "t.xls", [], []),
    ):
        with pytest.raises(DataError) as caught:
            attempt()
        assert str(caught.value) == said


@pytest.mark.parametrize("name", ["t.json", "t.jsonl"])
def test_a_text_in_another_encoding_is_refused_with_its_place(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes('{"index": "é"}'.encode("latin-1"))
    with pytest.raises(DataError) as caught:
        TextTable.read(tmp_path / name)
    assert str(caught.value) == f"{tmp_path / name}: not UTF-8 (byte 11); save the file as UTF-8"


def test_a_file_stays_as_it_was_until_the_new_one_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "t.tsv"
    path.write_text("old")
    with pytest.raises(DataError), replacing_atomically(path) as draft:
        assert draft.exists() and draft.parent == tmp_path, (
            "on the same disk, or it could not be moved"
        )
        assert draft.name.startswith(".t-") and draft.suffix == ".tsv", (
            "hidden from whoever lists the tables"
        )
        draft.write_text("new")
        raise DataError("stopped")
    assert [file.read_text() for file in tmp_path.iterdir()] == ["old"]


def test_a_folder_that_is_not_there_is_said(tmp_path: Path) -> None:
    path = tmp_path / "none" / "t.tsv"
    with pytest.raises(DataError) as caught:
        write_text_table(path, ["index"], [])
    advice = "free some space or choose another folder"
    assert str(caught.value) == f"cannot write {path}: No such file or directory; {advice}"


def test_a_spreadsheet_of_another_program_is_read_as_it_is_stored(tmp_path: Path) -> None:
    book = openpyxl.Workbook()
    sheet = book.active
    for row in (
        ["index", "prediction", "A"],
        [1, "=A1+1", 5.0],
        [2.0, "=B", 5.5],
        [3, True, None],
        [4, "#N/A", "NA"],
    ):
        sheet.append(row)
    book.create_sheet("more")
    book.save(tmp_path / "t.xlsx")
    table = TextTable.read(tmp_path / "t.xlsx")
    assert [cells for _, cells in table.rows] == [
        {"index": "1", "prediction": "=A1+1", "A": "5"},
        {"index": "2", "prediction": "=B", "A": "5.5"},
        {"index": "3", "prediction": "TRUE"},
        {"index": "4", "prediction": "#N/A", "A": "NA"},
    ]
    assert table.notes == (
        "cells with formulas, read as text: 2",
        "only the first sheet is read; further sheets: 1",
    )


def test_two_cells_far_apart_take_no_memory(tmp_path: Path) -> None:
    book = openpyxl.Workbook()
    book.active.cell(1, 1, "index")
    book.active.cell(1_048_576, 16_384, "far")
    book.active.cell(1_048_576, 1, "7")
    book.save(tmp_path / "t.xlsx")
    assert read(tmp_path / "t.xlsx") == [{"index": "7"}]


def repacked(path: Path, name: str, content: bytes) -> None:
    """Put other content in place of one part of an .xlsx file."""
    with zipfile.ZipFile(path) as pack:
        parts = {one: pack.read(one) for one in pack.namelist()}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as pack:
        for one, old in {**parts, name: b""}.items():
            pack.writestr(one, content if one == name else old)


def test_bombs_and_broken_files_are_refused_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, sheet = tmp_path / "t.xlsx", "xl/worksheets/sheet1.xml"
    lol = b'<?xml version="1.0"?><!DOCTYPE l [<!ENTITY a "ha"><!ENTITY b "&a;&a;">]><worksheet>&b;</worksheet>'
    for content, fault in (
        (lol, "has a document type"),
        (b"<worksheet", "unclosed token"),
        (b"", "no element found"),
    ):
        write_text_table(path, ["index"], [{"index": "1"}])
        repacked(path, sheet, content)
        with pytest.raises(DataError, match=f"t.xlsx: not a readable .xlsx file .*{fault}"):
            TextTable.read(path)
    monkeypatch.setattr(xlsx, "MAX_UNPACKED_BYTES", 1 << 20)
    repacked(path, sheet, b" " * (2 << 20))
    assert path.stat().st_size < 20_000
    with pytest.raises(DataError, match="its uncompressed size is 2 MiB, more than"):
        TextTable.read(path)
    path.write_bytes(b"index\tprediction\n")
    with pytest.raises(DataError, match=r"not a readable .xlsx file"):
        TextTable.read(path)


@pytest.mark.parametrize(
    ("name", "content", "fault"),
    [
        ("t.json", '{"index": 1}', "a table in JSON must be a list of objects"),
        ("t.json", "[" * 100_000, "t.json: not JSON"),
        (
            "t.json",
            '[{"index": [1]}]',
            "t.json:1: index: a cell must be a text or a number, not a list",
        ),
        (
            "t.jsonl",
            '{"index": 1}\n[2]\n',
            "t.jsonl:2: a row must be an object, {'index': ..., 'prediction': ...}$",
        ),
        ("t.jsonl", '{"index": 1', "t.jsonl:1: not JSON"),
        ("t.xls", "", "the suffix of a table must be"),
    ],
)
def test_what_is_no_table_is_refused_with_its_line(
    name: str, content: str, fault: str, tmp_path: Path
) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(DataError, match=fault):
        TextTable.read(tmp_path / name)


def test_numbers_in_json_keep_their_digits_and_nan_is_an_empty_cell(tmp_path: Path) -> None:
    (tmp_path / "t.json").write_text(
        '[{"index": 1.0, "A": 5.50, "B": NaN, "C": null, "D": true, "E": false, "F": "x"}]'
    )
    assert read(tmp_path / "t.json") == [
        {"index": "1.0", "A": "5.50", "D": "TRUE", "E": "FALSE", "F": "x"}
    ]
