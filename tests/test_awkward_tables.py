"""Tables as people have them, easily misread: each is read as it is meant, or refused with its line."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import openpyxl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import xlsxwriter

import small
from snellen.common.decoding import inspect_image
from snellen.common.drafts import Draft, image_bytes
from snellen.errors import DataError
from snellen.formats import locate, xlsx
from snellen.formats.locate import ImageFinder, locate_or_none
from snellen.formats.rows import read_rows
from snellen.formats.text_table import TextTable
from snellen.readers.table import read
from snellen.recognition import recognise
from snellen.recognition.recognising import TableSettings

HEAD = ["question", "A", "B", "answer"]
TWO = {"question": "Which?", "options": ["cat", "dog"], "answer": "B"}
NO_IMAGES = TableSettings(no_images=True)


def drafts(path: Path) -> list[Draft]:
    return list(read({"file": path.name, **small.meant(path)}, path.parent))


def texts(path: Path) -> list[tuple[str, tuple[str, ...], tuple[int, ...]]]:
    return [
        (draft.rounds[0].question, draft.rounds[0].options, draft.rounds[0].gold)
        for draft in drafts(path)
    ]


def refusal(path: Path) -> str:
    with pytest.raises(DataError) as refused:
        list(read(recognise(path, NO_IMAGES).params, path.parent))
    return str(refused.value).replace(f"{path.parent}/", "")


# --- spreadsheets -----------------------------------------------------------------------------------------------------


def sheet(path: Path, *rows: list[Any]) -> Path:
    book = openpyxl.Workbook()
    for row in (HEAD, *rows):
        book.active.append(row)
    book.save(path)
    return path


def test_a_formula_is_the_value_that_the_spreadsheet_has_computed(tmp_path: Path) -> None:
    book = xlsxwriter.Workbook(str(tmp_path / "t.xlsx"))
    page = book.add_worksheet()
    page.write_row(0, 0, HEAD)
    page.write_row(1, 0, ["Which?", "cat", "dog"])
    page.write_formula(1, 3, "=CHAR(66)", None, "B")
    book.close()
    assert texts(tmp_path / "t.xlsx") == [("Which?", ("cat", "dog"), (1,))]
    # A table of replies keeps one that begins like a formula.
    assert TextTable.read(tmp_path / "t.xlsx").rows[0][1]["answer"] == "=CHAR(66)"


def test_a_formula_that_nothing_has_computed_is_refused_with_its_line(tmp_path: Path) -> None:
    path = sheet(
        tmp_path / "t.xlsx",
        ["Which?", "cat", "dog", "A"],
        ['=CONCATENATE("a","b")', "cat", "dog", "B"],
    )
    assert refusal(path) == (
        "t.xlsx:3: 'question' is a formula without a stored value; open the file in a spreadsheet program and save it"
    )


def test_any_formula_without_a_value_is_refused_in_a_column_that_is_read(tmp_path: Path) -> None:
    path = sheet(tmp_path / "t.xlsx", ['=CONCATENATE("a","b")', "cat", "dog", "B", None, "=1+1"])
    assert refusal(path).startswith("t.xlsx:2: 'question' is a formula without a stored value")


def test_the_sizes_of_an_archive_are_looked_at_before_its_sheets_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = sheet(tmp_path / "t.xlsx", ["Which?", "cat", "dog", "A"])
    monkeypatch.setattr(xlsx, "MAX_UNPACKED_BYTES", 1000)
    with pytest.raises(DataError, match="more than the limit of 0 MiB"):
        xlsx.filled_sheets(path)


def test_a_date_that_no_calendar_has_stays_the_number_that_it_is(tmp_path: Path) -> None:
    book = xlsxwriter.Workbook(str(tmp_path / "t.xlsx"))
    page = book.add_worksheet()
    page.write_row(0, 0, HEAD)
    page.write_row(1, 0, ["Which?", "cat", "dog", "A"])
    page.write_number(1, 1, 1e12, book.add_format({"num_format": "yyyy-mm-dd"}))
    book.close()
    [(_, (first, _), _)] = texts(tmp_path / "t.xlsx")
    assert float(first) == 1e12


@pytest.mark.parametrize("first_day", [datetime(1899, 12, 30), datetime(1904, 1, 1)])
def test_dates_are_dates_and_no_numbers_of_days(first_day: datetime, tmp_path: Path) -> None:
    path = tmp_path / "t.xlsx"
    book = openpyxl.Workbook()
    book.epoch = first_day
    for row in (
        HEAD,
        ["When?", date(2020, 2, 29), datetime(2021, 1, 1, 12, 30), "A"],
        ["How many?", 43831, 0.5, "B"],
    ):
        book.active.append(row)
    book.active[
        "B3"
    ].number_format = '0" months"'  # neither this nor a colour makes a number a date
    book.active["C3"].number_format = "[Red]0.00"
    book.save(path)
    assert [options for _, options, _ in texts(path)] == [
        ("2020-02-29", "2021-01-01 12:30:00"),
        ("43831", "0.5"),
    ]


def test_which_of_several_sheets_is_read_is_said(tmp_path: Path) -> None:
    path = sheet(tmp_path / "t.xlsx", ["Which?", "cat", "dog", "A"])
    assert not any("sheet" in line for line in recognise(path, NO_IMAGES).lines())
    book = openpyxl.load_workbook(path)
    book.create_sheet("more").append(["a", "few", "words"])
    book.save(path)
    assert (
        recognise(path, NO_IMAGES).lines()[-1].split("   ")[-1].strip()
        == "sheet  `Sheet`, not `more`"
    )


# --- values -----------------------------------------------------------------------------------------------------------


def test_decimals_dates_and_short_numbers_of_parquet_are_as_they_are_written(
    tmp_path: Path,
) -> None:
    columns = {
        "A": [Decimal("1.50")],
        "B": [datetime(2020, 1, 1, tzinfo=UTC).date()],
        "C": pa.array([1.1], pa.float32()),
    }
    pq.write_table(
        pa.table({"question": ["Which?"], **columns, "answer": ["A"]}), tmp_path / "t.parquet"
    )
    assert texts(tmp_path / "t.parquet") == [("Which?", ("1.50", "2020-01-01", "1.1"), (0,))]


def test_a_null_among_options_is_no_option_called_null(tmp_path: Path) -> None:
    path = small.write([TWO, {**TWO, "options": ["cat", "dog", None]}], tmp_path / "t.jsonl")
    assert refusal(path) == "t.jsonl:2: option 3 is null; write its text, or remove it"


@pytest.mark.parametrize(("answers", "named"), [("AB", "'A'"), ((1, 0), "'1'")])
def test_a_letter_or_number_is_no_text_where_the_options_are_missing(
    answers: tuple[Any, ...], named: str, tmp_path: Path
) -> None:
    rows = [{**TWO, "answer": answer} for answer in answers]
    path = small.write(
        [*rows, {**TWO, "options": None, "answer": answers[0]}], tmp_path / "t.jsonl"
    )
    assert refusal(path) == (
        f"t.jsonl:3: there are no options, but the answer {named} names one; add the options, or write the answer as text"
    )


def test_open_questions_among_choices_are_counted(tmp_path: Path) -> None:
    path = small.write([TWO, {**TWO, "options": [], "answer": "a dog"}], tmp_path / "t.jsonl")
    assert drafts(path)[-1].notes == (
        "t.jsonl: 1 of 2 questions have no options and are open (line 2)",
    )


@pytest.mark.parametrize(
    ("answers", "words"), [((False, True), "true and false"), (("1", "0"), "0 and 1")]
)
def test_answers_of_true_and_false_are_noted_where_a_reply_may_be_yes(
    answers: tuple[Any, ...], words: str, tmp_path: Path
) -> None:
    path = small.write(
        [{"question": "Is it red?", "answer": answer} for answer in answers], tmp_path / "t.jsonl"
    )
    assert drafts(path)[-1].notes == (
        f"t.jsonl: the answers of 2 open questions are {words} (line 1, 2), which a reply of yes or no does not match; write "
        "the words that the question asks for",
    )
    path = small.write(
        [{"question": "How many?", "answer": answer} for answer in (*answers, "2")], path
    )
    assert drafts(path)[-1].notes == ()


def test_a_bar_in_the_answer_of_an_open_question_is_noted(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text(
        'question,answer\nWhich colour?,red|x\nWhich one?,blue\nWhich other?,"[""a|b""]"\n'
    )
    assert [draft.rounds[0].texts for draft in drafts(path)] == [("red|x",), ("blue",), ("a|b",)]
    [note] = drafts(path)[-1].notes
    assert note == (
        "t.csv: the answers of 1 open questions contain `|` (line 2) and are one text each; write a list "
        '(`["red", "crimson"]`) if several answers are accepted'
    )


def test_a_nan_that_pandas_wrote_as_a_text_is_noted(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text(
        "hint,question,A,B,C,answer\nnan,Which?,cat,dog,bird,B\n,Who?,cat,dog,nan,A\n,Who?,Nan,dog,NA,A\n"
    )
    [note] = drafts(path)[-1].notes
    assert (
        note
        == "t.csv: 2 of 3 questions contain the text 'nan' (line 2, 3); leave empty cells empty"
    )


def test_marks_that_place_no_picture_are_noted(tmp_path: Path) -> None:
    pictures = [small.cell(1), small.cell(2)]
    path = small.write(
        [{**TWO, "question": "<image> or <image>?", "image": pictures}], tmp_path / "t.jsonl"
    )
    assert drafts(path)[-1].notes == ()
    path = small.write([{**TWO, "question": "<image> or <image>?", "image": pictures[0]}], path)
    [note] = drafts(path)[-1].notes
    assert note.startswith("t.jsonl: 1 of 1 questions contain `<image>` as text (line 1)")


# --- images ---------------------------------------------------------------------------------------------------------


def test_a_picture_of_one_split_is_not_taken_for_that_of_another(tmp_path: Path) -> None:
    (tmp_path / "train").mkdir()
    (tmp_path / "train" / "1.png").write_bytes(small.picture())
    (tmp_path / "train" / "2.png").write_bytes(small.picture())
    finder = ImageFinder(tmp_path)
    for column in ("val/{}.png", "Validation/{}", "/home/me/{}.png", "training/{}.png"):
        finder.learn(column.format(number) for number in (1, 2))
    assert finder.find("val/1.png") is None and finder.find("Validation/1") is None
    assert (
        finder.find("/home/me/1.png")
        == finder.find("training/1.png")
        == tmp_path / "train" / "1.png"
    )


def test_a_picture_is_not_looked_for_in_a_folder_with_too_many_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deeper = tmp_path / "notes" / "pictures"
    deeper.mkdir(parents=True)
    (deeper / "cat.png").touch()
    for name in ("a.txt", "b.txt", "c.txt"):
        (tmp_path / "notes" / name).touch()
    assert ImageFinder(tmp_path).find("cat.png") == deeper / "cat.png"
    monkeypatch.setattr(locate, "MAX_FILES", 2)
    assert ImageFinder(tmp_path).find("cat.png") is None


def test_pictures_found_in_another_folder_than_the_file_says_are_noted(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    for name in ("1.png", "2.png"):
        (tmp_path / "b" / name).write_bytes(small.picture())
    path = small.write(
        [{**TWO, "image": cell} for cell in ("a/1.png", "1.PNG", "a/2.png")], tmp_path / "t.jsonl"
    )
    assert list(read({"file": path.name, "find_images": True}, tmp_path))[-1].notes == (
        "t.jsonl: 2 images were found by name in another folder: "
        f"a/1.png is {tmp_path / 'b' / '1.png'}",
    )


@pytest.mark.parametrize(
    ("cells", "files", "missing"),
    [
        ("scene1/rgb.png scene2/rgb.png", "scene1/rgb.png", "scene2/rgb.png"),
        ("left/01 right/01 left/02 right/02", "left/01 right/01 left/02", "right/02"),
        ("a/1.png a/2.png a/3.png b/4.png", "a/1.png a/2.png a/3.png c/4.png", "b/4.png"),
        ("x/scene1/rgb.png x/scene2/rgb.png", "scene1/rgb.png", "x/scene2/rgb.png"),
        ("scene2/rgb.png scene3/rgb.png", "scene1/rgb.png", "scene2/rgb.png"),
        ("scene2/rgb.png", "scene1/rgb.png", "scene2/rgb.png"),
        ("a/1.png b/2.png", "c/1.png d/2.png", "a/1.png"),
        ("a/7 a/8 b/9", "a/0007.png a/0008.png c/0009.png", "b/9"),
        (r"scene1\rgb.png scene2\RGB.png", "scene1/rgb.png", r"scene2\RGB.png"),
        ("scene1/rgb.png scene2/rgb.png", "scene1/rgb.png old/scene2/rgb.png", "scene2/rgb.png"),
        ("1.png 2.png", "1.png masks/2.png", "2.png"),
        ("1 2", "1.png masks/0002.png", "2"),
    ],
)
def test_a_missing_picture_is_missing_though_another_has_its_name(
    cells: str, files: str, missing: str, tmp_path: Path
) -> None:
    for number, name in enumerate(files.split()):
        file = tmp_path / (name if name.endswith(".png") else f"{name}.png")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(small.picture(number))
    finder = ImageFinder(tmp_path)
    finder.learn(cells.split())
    assert finder.find(missing) is None
    rows = [{**TWO, "image": cell} for cell in cells.split()]
    path = small.write(rows, tmp_path / "t.jsonl")
    with pytest.raises(
        DataError, match=r"cannot read the image|not a readable image|is neither a file name"
    ):
        for draft in read({"file": path.name, "find_images": True}, tmp_path):
            for image in draft.images:
                inspect_image(image_bytes(image, draft.where), draft.where)


@pytest.mark.parametrize(
    ("cells", "files"),
    [
        ("val/1.png val/2.png", "images/1.png images/2.png"),
        ("/home/me/data/a/1.png /home/me/data/b/1.png", "a/1.png b/1.png"),
        ("a/1.png b/1.png", "data/a/1.png data/b/1.png"),
        ("a/1.png b/2.png", "all/1.png all/2.png"),
        ("/home/me/1.png", "1.png"),
        ("old/a/1 old/b/1", "new/a/1.png new/b/1.png"),
    ],
)
def test_one_rule_may_explain_every_picture_of_a_column(
    cells: str, files: str, tmp_path: Path
) -> None:
    for name in files.split():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(small.picture())
    finder = ImageFinder(tmp_path)
    finder.learn(cells.split())
    assert [finder.find(cell) for cell in cells.split()] == [
        tmp_path / name for name in files.split()
    ]


def numbered(folder: Path, *names: str) -> list[Path]:
    for name in names:
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(small.picture(len(name)))
    return [folder / name for name in names]


def test_a_number_names_the_only_picture_that_is_called_so_with_zeros_before_it(
    tmp_path: Path,
) -> None:
    files = numbered(tmp_path, "000000000001.png", "000000000012.png", "2.png")
    path = tmp_path / "t.csv"
    path.write_text(
        "image_id,question,A,B,answer\n1,Which?,cat,dog,B\n12,Who?,cat,dog,A\n2,What?,cat,dog,A\n"
    )
    read_drafts = list(read(recognise(path, TableSettings()).params, tmp_path))
    assert [draft.images for draft in read_drafts] == [(file,) for file in files]
    assert read_drafts[-1].notes == (
        f"t.csv: 2 images were found by number alone: 1 is {files[0]}",
    )


def test_a_number_that_two_pictures_have_is_refused_with_both(tmp_path: Path) -> None:
    numbered(tmp_path, "0001.png", "000001.png", "002.png")
    path = tmp_path / "t.csv"
    path.write_text(
        "image_id,question,A,B,answer\n1,Which?,cat,dog,B\n2,Who?,cat,dog,A\n2,What?,cat,dog,A\n"
    )
    with pytest.raises(DataError) as refused:
        list(read(recognise(path, TableSettings()).params, tmp_path))
    assert str(refused.value).replace(f"{tmp_path}/", "") == (
        "t.csv:2: the image '1' may be 000001.png or 0001.png; write the name of its file"
    )


def test_a_number_is_not_that_of_another_split_and_a_name_comes_first(tmp_path: Path) -> None:
    padded, other, plain = numbered(tmp_path, "train/0001.png", "train/0003.png", "3.png")
    finder = ImageFinder(tmp_path)
    assert finder.find("val/1") is None and finder.find("train/1") == padded
    assert finder.find(3) == plain and finder.find("0003") == other and finder.find("01") is None


@pytest.mark.parametrize("cell", ["bäum.png", "BÄUM.PNG", "bäum", " bäum.png "])
def test_names_of_pictures_are_matched_in_a_named_folder_too(cell: str, tmp_path: Path) -> None:
    (tmp_path / "pictures").mkdir()
    (tmp_path / "pictures" / "ba\u0308um.png").write_bytes(small.picture())
    path = small.write([{**TWO, "image": cell}], tmp_path / "t.csv")
    path.write_text(f"image,question,A,B,answer\n{cell},Which?,cat,dog,B\n{cell},Who?,cat,dog,A\n")
    params = recognise(path, TableSettings(images="pictures")).params
    found = [image for draft in read(params, tmp_path) for image in draft.images]
    assert len(found) == 2 and all(isinstance(image, Path) and image.is_file() for image in found)


def test_a_list_of_pictures_written_as_a_text_is_one(tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / f"{name}.png").write_bytes(small.picture())
    row = {
        "images": json.dumps(["a.png", "b.png"]),
        "question": "Same?",
        "A": "yes",
        "B": "no",
        "answer": "B",
    }
    path = small.write([row, row], tmp_path / "t.csv")
    assert [len(draft.images) for draft in read({"file": path.name}, tmp_path)] == [2, 2]


def test_pictures_in_the_file_are_taken_before_names_of_files(tmp_path: Path) -> None:
    rows = [
        {**TWO, "image": f"images/{n}.jpg", "decoded_image": {"bytes": small.picture(n)}}
        for n in range(3)
    ]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "t.parquet")
    assert recognise(tmp_path / "t.parquet").params["columns"]["image"] == "decoded_image"


def test_pictures_are_read_that_the_cache_of_the_hub_links_to(tmp_path: Path) -> None:
    snapshot = tmp_path / "snapshots" / "0123abc"
    (snapshot / "images").mkdir(parents=True)
    (tmp_path / "blobs").mkdir()
    for kept in ("blobs/a", "other.png"):
        (tmp_path / kept).write_bytes(small.picture())
    (snapshot / "images" / "a.png").symlink_to(tmp_path / "blobs" / "a")
    (snapshot / "images" / "b.png").symlink_to(tmp_path / "other.png")
    path = small.write([{**TWO, "image": "images/a.png"}], snapshot / "t.jsonl")
    assert [draft.images for draft in read({"file": path.name}, snapshot)] == [
        (snapshot / "images" / "a.png",)
    ]
    for cell in ("images/b.png", "../../blobs/a"):
        path = small.write([{**TWO, "image": cell}], snapshot / "t.jsonl")
        with pytest.raises(DataError, match="is outside"):
            list(read({"file": path.name}, snapshot))


def test_base64_in_lines_is_read(tmp_path: Path) -> None:
    text = small.cell()
    lines = "\n".join(text[place : place + 76] for place in range(0, len(text), 76))
    path = small.write([{**TWO, "image": lines}], tmp_path / "t.jsonl")
    assert [draft.images for draft in read({"file": path.name}, tmp_path)] == [(small.picture(),)]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"\0\0\0\x18ftypheic\0\0\0\0mif1heic", "a HEIC file"),
        (b"%PDF-1.7", "a PDF file"),
        (b"\n<!DOCTYPE html><html>404", "a web page, perhaps of a failed download"),
        (b"version https://git-lfs.github.com/spec/v1\noid", "a pointer of Git LFS"),
        (b"GIF? no", "it is not in a supported format"),
    ],
)
def test_what_a_file_is_that_is_no_picture_is_said(content: bytes, words: str) -> None:
    with pytest.raises(
        DataError, match=rf"^t:2: not a readable image \({words}.*\); convert it to PNG or JPEG$"
    ):
        inspect_image(content, "t:2")


# --- columns ----------------------------------------------------------------------------------------------------------


def test_lists_of_something_else_are_no_options(tmp_path: Path) -> None:
    pictures = [
        {"image": small.cell(n), "caption": ["a dog", "one"], "sentids": [f"{n}"], "split": "test"}
        for n in (1, 2)
    ]
    captions = recognise(small.write(pictures, tmp_path / "captions.jsonl"))
    assert (captions.kind, captions.params["columns"]["caption"]) == ("annotations", "caption")
    rows = [
        {
            "image": small.cell(n),
            "question": "What?",
            "answer": ["a dog", "left"],
            "outline": [1.0, 2.0],
            "level": n,
        }
        for n in (1, 2)
    ]
    questions = recognise(small.write(rows, tmp_path / "questions.jsonl"))
    assert (questions.form, questions.params["columns"]["answer"]) == ("open questions", "answer")


def test_a_context_among_facts_about_a_row_is_not_shown_with_its_question(tmp_path: Path) -> None:
    row = {"metadata": {"context": "scatter plot"}, **TWO}
    assert (
        "context"
        not in recognise(small.write([row], tmp_path / "t.jsonl"), NO_IMAGES).params["columns"]
    )
    row = {"qa": {"context": "A plot.", "question": "What?", "answer": "cat"}}
    columns = recognise(small.write([row], tmp_path / "u.jsonl"), NO_IMAGES).params["columns"]
    assert columns["context"] == "qa.context"


def test_a_doubt_of_columns_is_said_before_a_name_that_is_like_another(tmp_path: Path) -> None:
    row = {
        "question": "What?",
        "multiple_choice_answer": "dog",
        "answers": [{"answer": "dog"}, {"answer": "cat"}],
    }
    path = small.write([row, {**row, "multiple_choice_answer": "cat"}], tmp_path / "t.jsonl")
    assert {doubt.role for doubt in recognise(path, NO_IMAGES).doubts} == {"answer"}


# --- texts ------------------------------------------------------------------------------------------------------------


def test_a_table_that_only_some_lines_of_are_utf8_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(
        "question,A,B,answer\nFärbe?,a,b,A\n".encode() + "Farbtöne?,a,b,B\n".encode("cp1252")
    )
    with pytest.raises(
        DataError, match=r"t\.csv:3: not UTF-8 \(byte 0xf6\); save the file as UTF-8$"
    ):
        recognise(path)


def test_a_table_named_tsv_may_have_commas(tmp_path: Path) -> None:
    path = tmp_path / "t.tsv"
    path.write_text("question,A,B,answer\nWhich?,cat,dog,B\n")
    assert texts(path) == [("Which?", ("cat", "dog"), (1,))]


def test_a_quotation_mark_that_is_never_closed_is_named_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text('question,A,B,answer\nWhich?,cat,dog,B\n"Which?,cat,dog,B\nWho?,cat,dog,A\n')
    with pytest.raises(
        DataError, match=r"t\.csv:3: a quotation mark opens a cell and is not closed"
    ):
        recognise(path)


@pytest.mark.parametrize("orient", ["list", "dict", "split"])
def test_json_by_columns_is_rows(orient: str, tmp_path: Path) -> None:
    columns = {
        "question": ["Which?", "Who?"],
        "options": [["cat", "dog"], ["dog", "cat"]],
        "answer": ["B", "A"],
    }
    forms: dict[str, Any] = {
        "list": columns,
        "dict": {name: dict(zip("01", cells, strict=True)) for name, cells in columns.items()},
        "split": {
            "columns": [*columns],
            "index": [0, 1],
            "data": [list(row) for row in zip(*columns.values(), strict=True)],
        },
    }
    (tmp_path / "t.json").write_text(json.dumps(forms[orient]))
    assert texts(tmp_path / "t.json") == [
        ("Which?", ("cat", "dog"), (1,)),
        ("Who?", ("dog", "cat"), (0,)),
    ]


def test_json_in_the_other_form_is_read_and_nan_is_no_value(tmp_path: Path) -> None:
    path = small.write([TWO, TWO], tmp_path / "t.jsonl").rename(tmp_path / "t.json")
    assert recognise(path, NO_IMAGES).rows == 2
    path = small.write([{**TWO, "level": float("nan")}], tmp_path / "u.jsonl")
    assert "level" not in recognise(path, NO_IMAGES).unused


@pytest.mark.parametrize("form", [".jsonl", ".json"])
def test_half_of_a_surrogate_pair_is_named_with_its_row(form: str, tmp_path: Path) -> None:
    rows = [{"id": "1", "reply": "a"}, {"id": "2", "reply": "cut \ud83d"}, "\udc00"]
    lines = [json.dumps(row) for row in rows]
    path = tmp_path / f"t{form}"
    path.write_text("\n".join(lines) if form == ".jsonl" else f"[{','.join(lines)}]")
    whole, *halves = read_rows(path)
    assert whole.cells == rows[0] and not whole.fault
    for number, row in enumerate(halves, 2):
        place = f"{path}:{number}" if form == ".jsonl" else f"{path}: record {number}"
        assert row.fault.startswith(f"{place}: a text contains '\\ud")


def test_of_several_names_the_first_is_found_be_it_a_folder_or_a_file(tmp_path: Path) -> None:
    (tmp_path / "official").mkdir()
    file = tmp_path / "official.json"
    file.write_text("[]")
    assert locate_or_none(tmp_path, "official", "official.json") == tmp_path / "official"
    assert locate_or_none(tmp_path, "official.json", "official") == file


def test_an_absolute_path_that_does_not_exist_is_not_found(tmp_path: Path) -> None:
    file = tmp_path / "questions [1].csv"
    file.write_text("id\n")
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    assert locate_or_none(folder, str(file)) == file
    assert locate_or_none(tmp_path, file.name) == file
    assert locate_or_none(folder, str(tmp_path / "gone.csv")) is None
