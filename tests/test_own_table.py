"""A user's own questions: what is accepted stays as written, what is wrong is refused with file and line."""

from __future__ import annotations

import base64
import csv
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.provisional import urls

import small
import snellen as sn
from snellen.building.benchmark import Benchmark
from snellen.building.builder import build_benchmark
from snellen.common.drafts import Draft
from snellen.errors import DataError
from snellen.readers.table import read
from snellen.records import Request, Response, TextPart
from snellen.scoring.answers import open_answers

TWO = {"question": "Which?", "A": "cat", "B": "dog", "answer": "A"}
HARD_TEXTS = (
    "NA",
    "None",
    "null",
    "NaN",
    "5.0",
    "1e5",
    "007",
    "true",
    "-",
    "#N/A",
    "  two  words ",
    "inf",
    "日本",
)


def drafts(content: str | bytes, path: Path) -> list[Draft]:
    """The drafts of a file with this content."""
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return list(read({"file": path.name, **small.meant(path)}, path.parent))


def one(row: dict[str, Any], folder: Path) -> Draft:
    """The draft of a JSONL file with one row."""
    [draft] = drafts(json.dumps(row), folder / "t.jsonl")
    return draft


def options(draft: Draft) -> tuple[str, ...]:
    return draft.rounds[0].options


# --- what is accepted --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", [".tsv", ".csv", ".TSV"])
def test_cells_stay_the_texts_they_are(suffix: str, tmp_path: Path) -> None:
    rows = [{"question": text, "A": text, "B": "other", "answer": "A"} for text in HARD_TEXTS]
    path = tmp_path / f"t{suffix}"
    names = list(rows[0])
    with path.open("w", newline="") as file:
        table = csv.writer(file, delimiter="," if suffix == ".csv" else "\t")
        table.writerows([names, *([row[name] for name in names] for row in rows)])
    read_back = list(read({"file": path.name, **small.meant(path)}, tmp_path))
    assert [options(draft)[0] for draft in read_back] == list(HARD_TEXTS)
    assert [draft.rounds[0].question for draft in read_back] == list(HARD_TEXTS)


def test_values_of_json_are_the_texts_they_are_written_as(tmp_path: Path) -> None:
    listed = one(
        {"question": "Which?", "options": [5.0, 5, True, "NA", "null "], "answer": "NA"}, tmp_path
    )
    assert options(listed) == ("5.0", "5", "true", "NA", "null ")
    lettered = one(
        {"question": "Which?", "A": 5.0, "B": True, "C": "None", "answer": "None"}, tmp_path
    )
    assert options(lettered) == ("5.0", "true", "None")
    assert lettered.rounds[0].gold == (2,)


cells = st.text(
    st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=15
).filter(str.strip)


@given(st.lists(cells, min_size=2, max_size=6, unique=True), cells, st.data())
def test_any_texts_come_through_all_three_forms(
    tmp_path_factory: pytest.TempPathFactory, texts: list[str], question: str, data: st.DataObject
) -> None:
    gold = data.draw(st.integers(0, len(texts) - 1))
    row = {
        "question": question,
        **dict(zip("ABCDEF", texts, strict=False)),
        "answer": "ABCDEF"[gold],
    }
    folder = tmp_path_factory.mktemp("texts")
    for suffix in (".jsonl", ".tsv", ".csv"):
        path = small.write([row], folder / f"any{suffix}")
        [draft] = read({"file": path.name, **small.meant(path)}, folder)
        assert draft.rounds[0].question == question
        assert options(draft) == tuple(texts)
        assert draft.rounds[0].gold == (gold,)


@pytest.mark.parametrize(
    ("row", "gold"),
    [
        ({"options": ["cat", "dog"], "answer": 1}, 1),
        ({"options": ["cat", "dog"], "answer": "dog"}, 1),
        ({"options": ["cat", "dog"], "answer": "B"}, 1),
        ({"options": ["cat", "dog"], "answer": "b"}, 1),
        ({"options": ["0", "1", "2"], "answer": 1}, 1),
        ({"options": ["2", "1", "0"], "answer": "0"}, 2),
        ({"options": ["yes", "true"], "answer": True}, 1),
        ({"options": ["A", "C", "B"], "answer": "A"}, 0),
        ({"options": ["cat", "AB"], "answer": "AB"}, 1),
        ({"options": [1, 2, 3], "answer": "2"}, 1),
        ({"options": [0, 1, 2], "answer": 2}, 2),
        ({"options": [*map(str, range(29)), "A"], "answer": 29}, 29),
        # A column's letter wins where one option's text is another's letter, which a note says.
        ({"A": "B", "B": "A", "answer": "A"}, 0),
        ({"A": "b", "B": "a", "answer": "a"}, 1),
        ({"A": "cat", "B": "dog", "answer": "dog"}, 1),
        ({"A": "cat", "B": "dog", "answer": "b"}, 1),
        ({"A": "cat", "B": "dog", "answer": " B "}, 1),
    ],
)
def test_an_answer_is_a_letter_a_text_or_an_index(
    row: dict[str, Any], gold: int, tmp_path: Path
) -> None:
    assert one({"question": "Which?", **row}, tmp_path).rounds[0].gold == (gold,)


def test_a_folder_of_pictures_that_is_not_there_is_named_once(tmp_path: Path) -> None:
    path = small.write([TWO, {**TWO, "image": "a.png"}], tmp_path / "t.jsonl")
    with pytest.raises(DataError, match=r"^nowhere: no such folder of images \(images=\.\.\.\)$"):
        list(read({"file": path.name, "images": "nowhere"}, tmp_path))


def test_letters_that_are_texts_of_other_options_are_noted(tmp_path: Path) -> None:
    table = "question\tA\tB\tanswer\nWhich?\tB\tA\tA\nWhich?\tcat\tdog\tA\nWhich?\tA\tB\tB\nWhich?\tB\tC\tB\n"
    assert drafts(table, tmp_path / "t.tsv")[-1].notes == (
        "t.tsv: in 2 questions the answer is the letter of one option and the text of another, and was read as the "
        "letter (line 2, 5)",
    )


def test_open_questions_have_reference_texts(tmp_path: Path) -> None:
    assert one({"question": "What?", "answer": ["a", "b", 5]}, tmp_path).rounds[0].texts == (
        "a",
        "b",
        "5",
    )
    assert one({"question": "What?", "answer": "a cat"}, tmp_path).rounds[0].texts == ("a cat",)
    assert one({"question": "What?"}, tmp_path).rounds[0].texts == ()


def test_a_missing_value_is_the_same_in_a_table_and_in_json(tmp_path: Path) -> None:
    names = ("id", "context", "group", "tag_level", "answer", "C", "image")
    empty = one({**TWO, **dict.fromkeys(names)}, tmp_path)
    [blank] = drafts(
        "question\tA\tB\t" + "\t".join(names) + "\nWhich?\tcat\tdog" + "\t" * 7, tmp_path / "t.tsv"
    )
    left_out = one({"question": "Which?", "A": "cat", "B": "dog"}, tmp_path)
    assert (empty.id, blank.id) == ("1", "2")
    for draft in (empty, blank):
        assert (draft.rounds, draft.context, draft.group, draft.tags, draft.images) == (
            left_out.rounds,
            None,
            "",
            {},
            (),
        )


def test_ids_contexts_groups_and_tags_are_kept(tmp_path: Path) -> None:
    draft = one(
        {
            **TWO,
            "id": 7,
            "hint": "a hint",
            "group": 3,
            "tag_level": "easy",
            "tag_size": 5,
            "extra": 1,
        },
        tmp_path,
    )
    assert (draft.id, draft.context, draft.group, draft.tags) == (
        "7",
        "a hint",
        "3",
        {"level": "easy", "size": "5"},
    )
    assert one({**TWO, "index": 9}, tmp_path).id == "9"
    assert one(TWO, tmp_path).id == "1"


def test_a_byte_order_mark_blank_lines_and_windows_line_ends_do_no_harm(tmp_path: Path) -> None:
    table = "\ufeffquestion\tA\tB\tanswer\r\nWhich?\tcat\tdog\tA\r\n\r\nWhat?\tcat\tdog\tB\r\n"
    assert [draft.rounds[0].gold for draft in drafts(table, tmp_path / "t.tsv")] == [(0,), (1,)]
    lines = "\ufeff" + "\r\n\r\n".join([json.dumps(TWO)] * 2) + "\r\n"
    assert [draft.where for draft in drafts(lines, tmp_path / "t.jsonl")] == [
        f"{tmp_path / 't.jsonl'}:{i}" for i in (1, 3)
    ]


def test_quoted_cells_may_hold_tabs_quotes_and_line_breaks(tmp_path: Path) -> None:
    table = 'question\tA\tB\tanswer\n"a\tb\n""c"""\tcat\tdog\tA\nWhich?\tcat\t\tA\n'
    path = tmp_path / "t.tsv"
    path.write_text(table)
    rows = read({"file": path.name, **small.meant(path)}, tmp_path)
    first = next(rows)
    assert first.rounds[0].question == 'a\tb\n"c"'
    assert next(rows).where == f"{path}:4"


@pytest.mark.parametrize("suffix", [".jsonl", ".tsv", ".csv"])
def test_an_image_is_a_path_or_base64_of_any_length(suffix: str, tmp_path: Path, make: Any) -> None:
    (tmp_path / "pictures").mkdir()
    (tmp_path / "pictures" / "a b.png").write_bytes(small.picture(1))
    large = small.picture(2, "BMP", (400, 300))
    rows = [
        {**TWO, "image": "pictures/a b.png"},
        {**TWO, "image": base64.b64encode(large).decode()},
        {**TWO, "image": str(tmp_path / "pictures" / "a b.png")},
        TWO,
    ]
    path = small.write(rows, tmp_path / f"t{suffix}")
    made = build_benchmark(small.spec_of(path), source=tmp_path, to=tmp_path / "made")
    shown = [[image.width for image in sample.images] for sample in made.samples()]
    assert sorted(shown) == [[], [8], [8], [400]]
    assert made.manifest.counts.images == 2


def test_image_paths_may_be_relative_to_another_folder(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "cat.png").write_bytes(small.picture())
    path = small.write([{**TWO, "image": "cat.png"}], tmp_path / "t.csv")
    spec = small.spec_of(path, images=str(tmp_path / "elsewhere"))
    assert build_benchmark(spec, source=tmp_path, to=tmp_path / "made").manifest.counts.images == 1


def test_a_folder_is_no_picture(tmp_path: Path) -> None:
    (tmp_path / "a.png").mkdir()
    with pytest.raises(
        DataError, match=r"t.csv:2: cannot read the image .*a.png \(it is a folder, not a file"
    ):
        built_from([{**TWO, "image": "a.png"}], tmp_path / "t.csv", tmp_path / "made")


# --- what is refused ---------------------------------------------------------------------------------------------

WRONG_ROWS: dict[str, tuple[dict[str, Any], str]] = {
    "missing image": (
        {**TWO, "image": "no/such.png"},
        r"cannot read the image .*no/such.png \(No such file",
    ),
    "image name too long": (
        {**TWO, "image": "a" * 900 + ".png"},
        r"cannot read the image .* \(File name too long",
    ),
    "truncated image": (
        {**TWO, "image": base64.b64encode(small.picture(1)[:50]).decode()},
        "not a readable image",
    ),
    "no image": ({**TWO, "image": base64.b64encode(b"a text").decode()}, "not a readable image"),
    "bad base64": (
        {**TWO, "image": "?" * 80},
        r"image '\?{60}\.\.\.' is neither a file name nor base64",
    ),
    "a bare word": ({**TWO, "image": "cat1"}, "not a readable image"),
    "unknown letter": (
        {**TWO, "answer": "C"},
        "answer 'C' is neither one of the letters A-B nor the text",
    ),
    "unknown text": ({**TWO, "answer": "cow"}, "answer 'cow' is neither"),
    "equal options": ({**TWO, "B": " cat "}, "the option 'cat' appears twice; options must differ"),
    "single option": (
        {"question": "Which?", "A": "cat", "answer": "A"},
        "at least two options, but there is only 'cat'",
    ),
    "hole in the options": (
        {**TWO, "B": "", "C": "cow"},
        "option C is given, but an option before it is empty|option 1 is empty",
    ),
    "blank option": ({**TWO, "B": "  "}, "option 1 is empty"),
    "no first option": (
        {"question": "Which?", "B": "cat"},
        "option B is given, but an option before it is empty",
    ),
    "empty question": ({**TWO, "question": ""}, "the question is empty"),
    "blank question": ({**TWO, "question": " \t"}, "the question is empty"),
    "blank id": ({**TWO, "id": "  "}, "the id is empty"),
}


@pytest.mark.parametrize("suffix", [".jsonl", ".tsv", ".csv"])
@pytest.mark.parametrize("row, fault", WRONG_ROWS.values(), ids=WRONG_ROWS)
def test_a_wrong_row_is_refused_with_file_and_line(
    row: dict[str, Any], fault: str, suffix: str, tmp_path: Path
) -> None:
    good = {**TWO, "id": "good", "image": small.cell()}
    path = small.write([good, {"id": "bad", **row}], tmp_path / f"t{suffix}")
    with pytest.raises(DataError, match=fault) as caught:
        build_benchmark(small.spec_of(path), source=tmp_path, to=tmp_path / "made")
    assert str(caught.value).startswith(f"{path}:{2 if suffix == '.jsonl' else 3}: ")
    assert "\n" not in str(caught.value)
    assert sorted(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("row", "fault"),
    [
        (
            {"question": "Which?", "options": ["a", "b"], "answer": 2},
            "answer 2 but options are 0-1",
        ),
        (
            {"question": "Which?", "options": ["a", "b"], "answer": -1},
            "answer -1 but options are 0-1",
        ),
        (
            {"question": "Which?", "options": ["a", "b"], "answer": [0, 1]},
            "answer '.0,1.' is neither",
        ),
        ({"question": "Which?", "options": ["a", "b"], "answer": 1.0}, "answer '1.0' is neither"),
        (
            {"question": "Which?", "options": ["B", "A"], "answer": "A"},
            "answer 'A' is the text of one option and the letter of another; write the index",
        ),
        (
            {"question": "How many?", "options": [1, 2, 3], "answer": 2},
            'answer 2 is the index of option 3 and also the text of another option; write "2" for the option 2, or "3"',
        ),
        (
            {"question": "How many?", "A": 1, "B": 2, "C": 3, "answer": 2},
            "answer 2 is the index of option 3 and also",
        ),
        ({"question": "Which?", "options": "a, b"}, "options must be a list of texts"),
        ({"question": "Which?", "options": ["a", "", "b"]}, "option 1 is empty"),
        ({"question": "Which?", "options": ["a"]}, "but there is only 'a'"),
        ({"question": 5}, "the question is empty"),
        ({"question": "What?", "answer": [""]}, "an answer text is empty"),
        ({**TWO, "image": 5}, "image must be a path or base64 text"),
        ({**TWO, "image": "a\0b.png"}, "the image path 'a.x00b.png' contains a NUL"),
    ],
)
def test_a_wrong_value_in_json_is_refused_with_file_and_line(
    row: dict[str, Any], fault: str, tmp_path: Path
) -> None:
    first = {"question": "Which?", "options": ["cat", "dog"]} if "options" in row else TWO
    path = small.write([{**first, "id": "q"}, row], tmp_path / "t.jsonl")
    with pytest.raises(DataError, match=fault) as caught:
        build_benchmark(small.spec_of(path), source=tmp_path, to=tmp_path / "made")
    assert str(caught.value).startswith(f"{path}:2: ")


@pytest.mark.parametrize("suffix", [".tsv", ".csv"])
def test_an_empty_image_file_and_a_bomb_are_refused_with_file_and_line(
    suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "empty.png").touch()
    (tmp_path / "large.png").write_bytes(small.picture(0, "PNG", (30, 20)))
    monkeypatch.setenv("SNELLEN_MAX_PIXELS", "599")
    path = small.write(
        [{**TWO, "image": "empty.png"}, {**TWO, "image": "large.png"}], tmp_path / f"t{suffix}"
    )
    with pytest.raises(DataError) as caught:
        build_benchmark(small.spec_of(path), source=tmp_path, to=tmp_path / "made")
    first, second = str(caught.value).splitlines()
    assert first == f"{path}:2: the image file is empty; replace it"
    assert second.startswith(f"{path}:3: the image has 30 x 20 pixels, above the limit of 599")


WRONG_FILES: dict[str, tuple[str, str | bytes, str]] = {
    "latin-1 table": (
        "t.tsv",
        "question\tA\tB\nWhich?\tcat\tdog\ncafé\tcat\tdog\n".encode("latin-1"),
        r":3: not UTF-8 \(byte 0xe9\)",
    ),
    "latin-1 lines": (
        "t.jsonl",
        '{"question": "a"}\n{"question": "café"}\n'.encode("latin-1"),
        r":2: not UTF-8 \(byte 0xe9\)",
    ),
    "utf-16": (
        "t.csv",
        "question,A,B\n".encode("utf-16"),
        r":1: not UTF-8 \(byte 0xff\); save the file as UTF-8",
    ),
    "short row": (
        "t.tsv",
        "question\tA\tB\nWhich?\tcat\tdog\nWhat?\tcat\n",
        ":3: 2 cells, but the header has 3 columns",
    ),
    "long row": (
        "t.csv",
        "question,A,B\nWhich?,cat,dog,cow\n",
        ":2: 4 cells, but the header has 3 columns",
    ),
    "missing header": (
        "t.tsv",
        "Which?\tcat\tdog\n",
        "mine: the source has no questions",
    ),
    "empty table": ("t.csv", "", "mine: the source has no questions"),
    "empty lines": ("t.jsonl", "\n\n", "mine: the source has no questions"),
    "header alone": ("t.tsv", "question\tA\tB\n", "mine: the source has no questions"),
    "column twice": (
        "t.tsv",
        "question\tA\tA\nWhich?\tx\ty\n",
        "the column 'A' appears twice; rename one of them",
    ),
    "open quote": (
        "t.csv",
        'question,A,B\n"Which?,cat,dog\n',
        r":\d: .*; quote cells that hold tabs",
    ),
    "no json": ("t.jsonl", '{"question": "a"}\n{question: b}\n', ":2: not JSON"),
    "not an object": (
        "t.jsonl",
        '{"question": "a"}\n["Which?", "cat"]\n',
        ':2: a row must be an object .*not \\["Which',
    ),
    "no question": (
        "t.csv",
        "a name,A,B\nanna,cat,dog\n",
        "no column is recognised as the question among a name, A, B; name it with",
    ),
    "unknown suffix": (
        "t.doc",
        "question",
        "t.doc: the format cannot be determined from '.doc'; use .jsonl, .json, .tsv, .csv, .txt, .parquet, .arrow, .xlsx",
    ),
    "no suffix": ("t", "question", "t: the format cannot be determined from no suffix"),
}


@pytest.mark.parametrize("name, content, fault", WRONG_FILES.values(), ids=WRONG_FILES)
def test_a_wrong_file_is_refused_with_its_line(
    name: str, content: str | bytes, fault: str, tmp_path: Path
) -> None:
    path = tmp_path / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    with pytest.raises(DataError, match=fault) as caught:
        build_benchmark(small.spec_of(path), source=tmp_path, to=tmp_path / "made")
    assert "\n" not in str(caught.value)


def test_a_file_that_is_not_there_or_no_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"no.tsv: no such file"):
        list(read({"file": "no.tsv"}, tmp_path))
    (tmp_path / "folder.tsv").mkdir()
    with pytest.raises(
        DataError, match=r"folder.tsv: cannot read the file \(it is a folder, not a file\)"
    ):
        list(read({"file": "folder.tsv"}, tmp_path))
    with pytest.raises(DataError, match="unknown field 'files'; did you mean file"):
        list(read({"file": "a.tsv", "files": 1}, tmp_path))


def test_ten_wrong_rows_are_named_at_once_and_the_others_counted(tmp_path: Path) -> None:
    path = small.write(
        [{**TWO, "id": str(i), "answer": "C"} for i in range(3)], tmp_path / "t.jsonl"
    )
    with pytest.raises(DataError):
        list(read({"file": path.name, **small.meant(path)}, tmp_path))
    path = small.write([TWO, *[{**TWO, "answer": "E"}] * 29], path)
    with pytest.raises(DataError) as caught:
        build_benchmark(small.spec_of(path), source=tmp_path, to=tmp_path / "made")
    assert [line.split(": ")[0] for line in str(caught.value).splitlines()] == [
        *(f"{path}:{i}" for i in range(2, 12)),
        "and 19 more wrong rows",
    ]


def test_an_id_that_repeats_is_the_images_and_rows_are_numbered_under_it(tmp_path: Path) -> None:
    rows = [
        {"id": "1", "question": "What is it?", "answer": "a cup"},
        {"id": "1", "question": "What colour is it?", "answer": "red"},
        {"id": "2", "question": "What is it?", "answer": "a hat"},
    ]
    path = small.write(rows, tmp_path / "t.jsonl")
    made = sn.build(path, to=tmp_path / "made", no_images=True)
    samples = list(made.samples())
    assert [sample.id for sample in samples] == ["1", "1 (2)", "2"]
    assert samples[0].group == samples[1].group != samples[2].group
    assert "1 ids in 'id' belong to several rows" in " ".join(made.manifest.warnings)


def test_answers_of_few_classes_are_a_choice_among_them(tmp_path: Path) -> None:
    rows = [
        {"id": str(n), "question": f"Is it {n}?", "answer": ["True", "false"][n % 2]}
        for n in range(4)
    ]
    made = sn.build(small.write(rows, tmp_path / "t.jsonl"), to=tmp_path / "made", no_images=True)
    assert {sample.options for sample in made.samples()} == {("True", "false")}
    assert made.spec.formulation == "choice"


def test_questions_answered_by_yes_and_no_ask_for_these_words(tmp_path: Path) -> None:
    """As POPE's own do: nobody expects `A. yes` and `B. no` below them."""
    rows = [
        {"id": str(n), "question": f"Is there a {n}?", "answer": ["Yes", "no"][n % 2]}
        for n in range(4)
    ]
    table = small.write(rows, tmp_path / "t.jsonl")
    made = sn.build(table, to=tmp_path / "made", no_images=True)

    asked: list[str] = []

    class Model:
        name, kinds, batch_size = "yes", frozenset({"generation"}), 1
        fingerprint: ClassVar[dict[str, str]] = {"model": "yes"}

        def generate(self, requests: Sequence[Request], images: Any) -> list[Response]:
            parts = [part for request in requests for part in request.messages[-1].content]
            asked.extend(part.text for part in parts if isinstance(part, TextPart))
            return [Response(text="Yes, there is.") for _ in requests]

    results = sn.evaluate(Model(), [str(made.folder)], runs=tmp_path / "runs")
    assert sorted(asked)[0] == "Is there a 0?\nPlease answer yes or no."
    values = {row.metric: row.estimate.value for row in results.rows}
    assert values["pope_accuracy"] == 0.5


@given(
    st.text(max_size=60) | urls() | st.text('\t,"\n ABquestion', max_size=80),
    st.sampled_from([".jsonl", ".tsv", ".csv"]),
)
def test_any_text_is_rows_or_a_data_error(
    tmp_path_factory: pytest.TempPathFactory, text: str, suffix: str
) -> None:
    path = tmp_path_factory.mktemp("random") / f"random{suffix}"
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    try:
        assert all(
            draft.rounds[0].question.strip()
            for draft in read({"file": path.name, **small.meant(path)}, path.parent)
        )
    except DataError as error:
        assert "random" in str(error)


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ("anwser", "answer"),
        ("hintt", "hint"),
    ],
)
@pytest.mark.parametrize("suffix", [".jsonl", ".tsv"])
def test_a_column_that_is_nearly_a_known_one_is_refused(
    suffix: str, wrong: str, right: str, tmp_path: Path
) -> None:
    row = {**TWO, "image": small.cell(), "hint": "look"}
    renamed = {wrong if name == right else name: value for name, value in row.items()}
    path = small.write([renamed], tmp_path / f"t{suffix}")
    with pytest.raises(DataError, match=rf"unknown column '{wrong}'; did you mean '{right}'\?"):
        build_benchmark(small.spec_of(path), source=tmp_path, to=tmp_path / "made")


NAMES = {
    "image": "img picture Pic photo path File_Name filename image_url IMAGE_FILE img-path file images".split(),
    "answer": "label gold Ground_Truth correct target answer_idx gt Answer ANSWERS solution correct-option".split(),
    "hint": ["Hint", " hint "],
    "question": ["Question", "QUESTION"],
}


@pytest.mark.parametrize("suffix", [".jsonl", ".tsv", ".csv"])
@pytest.mark.parametrize(
    ("known", "name"), [(known, name) for known, names in NAMES.items() for name in names]
)
def test_a_column_may_have_another_usual_name(
    known: str, name: str, suffix: str, tmp_path: Path
) -> None:
    row = {**TWO, "image": small.cell(), "hint": "look"}
    expected = built_from([row], tmp_path / f"plain{suffix}", tmp_path / "plain")
    renamed = {name if column == known else column: value for column, value in row.items()}
    made = built_from([renamed], tmp_path / f"renamed{suffix}", tmp_path / "renamed")
    assert made.manifest.version == expected.manifest.version
    assert made.manifest.counts.answers == made.manifest.counts.images == 1


def built_from(rows: list[dict[str, Any]], path: Path, to: Path, **meant: bool) -> Benchmark:
    return sn.build(small.write(rows, path), name="t", to=to, **meant)


def test_an_answer_that_has_to_be_a_text_is_not_asked_for_by_letter(tmp_path: Path) -> None:
    small.write([{**TWO, "answer": "cow"}], tmp_path / "t.csv")
    params = {"file": "t.csv", "answer_is": "text", "no_images": True}
    with pytest.raises(DataError, match=r"t.csv:2: answer 'cow' is not the text of an option"):
        list(read(params, tmp_path))


def test_a_folder_of_pictures_beside_the_table_is_found(tmp_path: Path) -> None:
    (tmp_path / "t_files").mkdir()
    (tmp_path / "t_files" / "1.png").write_bytes(small.picture(1))
    made = built_from(
        [{**TWO, "scan": "1.png", "notes": "see page 3"}], tmp_path / "t.jsonl", tmp_path / "made"
    )
    assert made.manifest.counts.images == 1
    assert made.manifest.spec.source.params["images"] == "t_files"
    with pytest.raises(
        DataError, match=r"none of the images in 'scan' is there \(2.png ...\); name their"
    ):
        built_from([{**TWO, "scan": "2.png"}], tmp_path / "u.jsonl", tmp_path / "other")
    assert not (tmp_path / "other").exists()


def test_images_in_a_folder_beside_that_of_the_table_are_anothers(tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "1.png").write_bytes(small.picture(1))
    rows = [{**TWO, "scan": "1.png"}]
    (tmp_path / "mine").mkdir()
    with pytest.raises(DataError, match="none of the images in 'scan' is there"):
        built_from(rows, tmp_path / "mine" / "t.jsonl", tmp_path / "made")
    (tmp_path / "annotations").mkdir()  # but that is how COCO is laid out
    made = built_from(rows, tmp_path / "annotations" / "t.jsonl", tmp_path / "made")
    assert made.manifest.counts.images == 1


def test_a_file_without_pictures_or_answers_takes_a_word(tmp_path: Path) -> None:
    row = {"question": "Which?", "A": "cat", "B": "dog"}
    pictured = {**row, "image": small.cell(), "which_one": "no", "second": "x"}
    with pytest.raises(
        DataError,
        match=r"no column holds images; name it with columns={'image': 'NAME'}, or say no_im",
    ):
        built_from([{**row, "answer": "A"}], tmp_path / "a.csv", tmp_path / "a")
    with pytest.raises(
        DataError,
        match=r"no column holds answers; name it with columns={'answer': ...}, or say hidden_an",
    ):
        built_from([pictured], tmp_path / "b.csv", tmp_path / "b")
    assert (
        built_from(
            [{**row, "answer": "A"}], tmp_path / "a.csv", tmp_path / "a", no_images=True
        ).count()
        == 1
    )
    hidden = built_from([pictured], tmp_path / "b.csv", tmp_path / "b", hidden_answers=True)
    assert hidden.manifest.counts.answers == 0 and hidden.count() == 1


def test_two_columns_that_may_be_the_same_are_refused(tmp_path: Path) -> None:
    row = {
        "question": "Which?",
        "A": "cat",
        "B": "dog",
        "image": small.cell(),
        "label": "A",
        "gold": "B",
    }
    with pytest.raises(
        DataError,
        match=r"columns 'label' and 'gold' may all be the answer; say columns={'answer': 'label'} or col",
    ):
        built_from([row], tmp_path / "t.csv", tmp_path / "made")
    made = built_from([{**row, "answer": "B"}], tmp_path / "u.csv", tmp_path / "made")
    assert made.manifest.counts.answers == 1  # the name itself goes before the others


def test_pictures_behind_urls_are_not_fetched(tmp_path: Path) -> None:
    row = {**TWO, "image": "https://example.org/1.png"}
    with pytest.raises(
        DataError,
        match="in 'image' are addresses, and nothing is fetched unless you say fetch_images=True",
    ):
        built_from([row], tmp_path / "t.csv", tmp_path / "made")


@pytest.mark.parametrize("suffix", [".jsonl", ".csv"])
def test_columns_without_a_meaning_are_named_once_and_left_out(suffix: str, tmp_path: Path) -> None:
    row = {**TWO, "question_id": "7", "x": "1", "answer_type": "letter", "tag_level": "easy"}
    path = small.write([{**row, "id": str(number)} for number in range(3)], tmp_path / f"t{suffix}")
    made = build_benchmark(small.spec_of(path), source=tmp_path, to=tmp_path / "made")
    assert made.manifest.warnings == (
        f"{path.name}: unused columns: 'question_id', 'x', 'answer_type'",
    )


def test_a_file_of_an_old_mac_has_lines_too(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    found = drafts("question,A,B,answer\rWhich é?,cat,dog,A\rWhat?,cat,dog,B\r", path)
    assert [(draft.where, draft.rounds[0].gold) for draft in found] == [
        (f"{path}:2", (0,)),
        (f"{path}:3", (1,)),
    ]


def test_answers_never_stand_in_a_sample(make: Any) -> None:
    made: Benchmark = make([{**TWO, "id": "q", "A": "an unusual word", "answer": "A"}])
    [sample] = made.samples()
    assert open_answers(made.folder)["q", 0].options == (0,)
    assert "answer" not in type(sample).__struct_fields__


def test_several_pictures_are_a_list_or_columns_of_their_own(tmp_path: Path) -> None:
    listed = one({"question": "Alike?", "answer": "no", "image": ["a.png", "b.png"]}, tmp_path)
    apart = one(
        {"question": "Alike?", "answer": "no", "image": "a.png", "image_2": "b.png"}, tmp_path
    )
    assert listed.images == apart.images == (tmp_path / "a.png", tmp_path / "b.png")
    [row] = drafts(
        "question\tanswer\timage\timage_2\timage_3\nAlike?\tno\ta.png\tb.png\tc.png\n",
        tmp_path / "t.tsv",
    )
    assert row.images == tuple(tmp_path / name for name in ("a.png", "b.png", "c.png"))
    for wrong in ({"image": "a.png", "image_3": "c.png"}, {"image": ["a.png", 3]}):
        with pytest.raises(DataError, match=r"image before it is empty|list of them"):
            one({"question": "Alike?", "answer": "no", **wrong}, tmp_path)


def test_all_kinds_of_wrong_rows_are_named_at_once_in_order(tmp_path: Path) -> None:
    rows = [
        TWO,
        {**TWO, "answer": "C"},
        {**TWO, "image": "gone.png"},
        {**TWO, "question": " "},
        {**TWO, "B": " "},
    ]
    path = small.write([*rows, TWO], tmp_path / "t.jsonl")
    path.write_text(path.read_text() + "{no\n")
    with pytest.raises(DataError) as caught:
        build_benchmark(small.spec_of(path), source=tmp_path, to=tmp_path / "made")
    faults = str(caught.value).splitlines()
    assert [line.split(": ")[0] for line in faults] == [f"{path}:{i}" for i in (2, 3, 4, 5, 7)]
    for fault, words in zip(
        faults,
        ("answer 'C'", "gone.png", "question is empty", "option 1 is empty", "not JSON"),
        strict=True,
    ):
        assert words in fault


def test_a_json_list_has_the_same_rows_as_json_lines(tmp_path: Path) -> None:
    rows = [{**TWO, "id": i, "options": ["cat", "dog"], "A": None, "B": None} for i in range(3)]
    [small.write(rows, tmp_path / "t.jsonl"), (tmp_path / "t.json").write_text(json.dumps(rows))]
    listed, lines = (
        list(read({"file": f"t.{form}", **small.meant(tmp_path / f"t.{form}")}, tmp_path))
        for form in ("json", "jsonl")
    )
    assert [(draft.id, draft.rounds) for draft in listed] == [
        (draft.id, draft.rounds) for draft in lines
    ]
    assert [draft.where for draft in listed] == [
        f"{tmp_path / 't.json'}: record {i}" for i in (1, 2, 3)
    ]
    (tmp_path / "t.json").write_text('{"question": "What?"}')
    with pytest.raises(DataError, match="not a list of questions"):
        list(read({"file": "t.json"}, tmp_path))


def test_rows_without_a_picture_are_noted_where_others_have_one(tmp_path: Path) -> None:
    rows = [{**TWO, "id": str(i), "image": small.cell(i) if i % 3 else ""} for i in range(7)]
    path = small.write(rows, tmp_path / "t.jsonl")
    built = build_benchmark(small.spec_of(path), source=tmp_path, to=tmp_path / "made")
    assert "t.jsonl: 3 of 7 questions have no image (line 1, 4, 7)" in built.manifest.warnings
    without = small.write([{**TWO, "id": str(i)} for i in range(3)], tmp_path / "u.jsonl")
    built = build_benchmark(small.spec_of(without), source=tmp_path, to=tmp_path / "other")
    assert not any("picture" in warning for warning in built.manifest.warnings)


@pytest.mark.parametrize(
    ("columns", "known"),
    [
        ({"question_id": "7", "text": "Is it red?"}, ("7", "Is it red?")),
        ({"idx": "7", "question_id": "8", "prompt": "Is it red?"}, ("8", "Is it red?")),
        ({"ID": "7", "qid": "8", "Question": "Is it red?"}, ("7", "Is it red?")),
        ({"index": "3", "idx": "7", "query": "Is it red?"}, ("3", "Is it red?")),
    ],
)
def test_other_names_of_ids_and_questions_are_known(
    columns: dict[str, str], known: tuple[str, str], tmp_path: Path
) -> None:
    path = small.write(
        [{**columns, "image": small.cell(), "choices": ["yes", "no"], "label": "(B)"}],
        tmp_path / "t.jsonl",
    )
    [draft] = read({"file": path.name}, tmp_path)
    assert (draft.id, draft.rounds[0].question) == known
    assert draft.rounds[0].options == ("yes", "no") and draft.rounds[0].gold == (1,)


def test_a_flag_that_the_table_contradicts_is_refused(tmp_path: Path) -> None:
    path = small.write([TWO | {"image": small.cell()}], tmp_path / "t.jsonl")
    for flag, what in (
        ("no_images", "1 questions have an image"),
        ("hidden_answers", "1 questions have an answer; remove .*; `snellen pack NAME` then packs"),
    ):
        with pytest.raises(DataError, match=what):
            list(read({"file": path.name, flag: True}, tmp_path))
