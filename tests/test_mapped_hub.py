"""What tables on the hub hold in ways of their own: several images, bytes, lists as texts, options in a text."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import mini_hub
import small
from snellen.building.benchmark import Benchmark
from snellen.building.builder import build_benchmark
from snellen.catalogue.entries import BenchmarkSpec, SourceSpec
from snellen.catalogue.places import HubSource
from snellen.errors import DataError
from snellen.protocols.prompts.rendering import place_images
from snellen.readers.mapped.questions import InlineOptions, OptionSplitter
from snellen.records import ImagePart, TextPart
from snellen.scoring.answers import open_answers

TEXT, PICTURE = pa.string(), mini_hub.PICTURE


def built(
    folder: Path,
    rows: mini_hub.Rows,
    types: dict[str, pa.DataType],
    params: dict[str, Any],
    file: str = "data/test-0.parquet",
) -> Benchmark:
    """A benchmark whose entry has its mapping once, from a dataset with these rows."""
    mini_hub.write(folder / "hub" / file, rows, types)
    place = HubSource(repo="a/b", files=("*/test-*.parquet",))
    source = SourceSpec(
        "hub-rows", {"id": "{id}", "question": "{question}", **params}, places=(place,)
    )
    spec = BenchmarkSpec(name="own", title="own", formulation="choice", source=source)
    return build_benchmark(spec.from_hub(), source=folder / "hub", to=folder / "built")


def picture(number: int) -> dict[str, Any]:
    return mini_hub.drawn(number)


def digests(benchmark: Benchmark) -> dict[str, list[str]]:
    return {sample.id: [image.digest for image in sample.images] for sample in benchmark.samples()}


def golds(benchmark: Benchmark) -> dict[str, tuple[tuple[str, ...], str | tuple[str, ...]]]:
    """The options of each question, and the right one, or the texts of an open one."""
    answers = open_answers(benchmark.folder)
    return {
        sample.id: (
            sample.options,
            sample.options[answers[sample.id, 0].options[0]]
            if sample.options
            else answers[sample.id, 0].texts,
        )
        for sample in benchmark.samples()
    }


# --- images ----------------------------------------------------------------------------------------------------


def test_numbered_columns_are_the_pictures_of_a_question_in_order_but_for_empty_ones(
    tmp_path: Path,
) -> None:
    rows: mini_hub.Rows = [
        {
            "id": "a",
            "question": "<image 1> or <image 2>?",
            "answer": "x",
            "image_1": picture(1),
            "image_2": picture(2),
        },
        {
            "id": "b",
            "question": "What is <image 1>?",
            "answer": "x",
            "image_1": picture(3),
            "image_2": None,
        },
        {"id": "c", "question": "What?", "answer": "x", "image_1": None, "image_2": None},
    ]
    types = {"id": TEXT, "question": TEXT, "answer": TEXT, "image_1": PICTURE, "image_2": PICTURE}
    fields = {"id": "text", "question": "text", "answer": "text"}
    params = {"answer": "{answer}", "records": {"fields": fields}}
    columns = {"columns": ["image_1", "image_2"]}
    with pytest.raises(DataError, match="row 2: image_1 holds no image"):
        built(tmp_path / "strict", rows, types, {**params, "image": columns})
    benchmark = built(tmp_path, rows, types, {**params, "image": {**columns, "optional": True}})
    assert {name: len(found) for name, found in digests(benchmark).items()} == {
        "a": 2,
        "b": 1,
        "c": 0,
    }
    one = {sample.id: sample for sample in benchmark.samples()}["a"]
    assert one.images[0] != one.images[1]


@pytest.mark.parametrize("group", [2, 10])
def test_lists_bytes_and_base64_are_pictures_as_the_librarys_are(
    tmp_path: Path, group: int
) -> None:
    contents = [small.picture(number) for number in range(6)]
    written = {
        "struct": (PICTURE, lambda content: {"bytes": content, "path": None}),
        "bytes": (pa.binary(), lambda content: content),
        "base64": (TEXT, lambda content: base64.b64encode(content).decode()),
        "address": (
            TEXT,
            lambda content: f"data:image/png;base64,{base64.b64encode(content).decode()}",
        ),
        "list": (pa.list_(PICTURE), lambda content: [{"bytes": content, "path": "x.png"}]),
        "texts": (pa.list_(TEXT), lambda content: [base64.b64encode(content).decode()]),
    }
    seen = []
    for name, (kind, cell) in written.items():
        rows = [
            {"id": str(n), "question": "?", "answer": "x", "image": cell(content)}
            for n, content in enumerate(contents)
        ]
        types = {"id": TEXT, "question": TEXT, "answer": TEXT, "image": kind}
        fields = {"id": "text", "question": "text", "answer": "text"}
        seen.append(
            digests(
                built(
                    tmp_path / name,
                    rows,
                    types,
                    {"answer": "{answer}", "records": {"fields": fields}},
                )
            )
        )
    assert all(one == seen[0] for one in seen) and len(seen[0]) == 6


def test_a_list_of_pictures_is_a_question_about_all_of_them(tmp_path: Path) -> None:
    rows = [
        {"id": str(n), "question": "?", "answer": "x", "images": [picture(k) for k in range(n + 1)]}
        for n in range(3)
    ]
    types = {"id": TEXT, "question": TEXT, "answer": TEXT, "images": pa.list_(PICTURE)}
    params = {
        "answer": "{answer}", "image": {"column": "images"},
        "records": {"fields": {"id": "text", "question": "text", "answer": "text"}},
    }  # fmt: skip
    benchmark = built(tmp_path, rows, types, params)
    assert [len(found) for _, found in sorted(digests(benchmark).items())] == [1, 2, 3]
    assert digests(benchmark)["2"][:2] == digests(benchmark)["1"]


@pytest.mark.parametrize("cell", ["not base64!", "x.png"])
def test_a_text_that_is_not_a_picture_is_refused_by_its_place(tmp_path: Path, cell: str) -> None:
    rows = [{"id": "a", "question": "?", "answer": "x", "image": cell}]
    types = {"id": TEXT, "question": TEXT, "answer": TEXT, "image": TEXT}
    fields = {"id": "text", "question": "text", "answer": "text"}
    with pytest.raises(DataError, match="row 0: image is a text, but not an image in base64"):
        built(tmp_path, rows, types, {"answer": "{answer}", "records": {"fields": fields}})


def test_folders_of_a_dataset_are_a_tag(tmp_path: Path) -> None:
    types = {"id": TEXT, "question": TEXT, "answer": TEXT, "image": PICTURE}
    for number, config in enumerate(("Art_Style", "Counting")):
        rows = [
            {"id": f"{config}-{n}", "question": "?", "answer": "x", "image": picture(n)}
            for n in range(number + 1)
        ]
        mini_hub.write(tmp_path / "hub" / config / "test-00000-of-00001.parquet", rows, types)
    more = [{"id": "c", "question": "?", "answer": "x", "image": picture(5)}]
    fields = {"id": "text", "question": "text", "answer": "text"}
    params = {"answer": "{answer}", "tags": {"task": "{@folder}"}, "records": {"fields": fields}}
    benchmark = built(tmp_path, more, types, params, "Depth/test-00000-of-00001.parquet")
    assert benchmark.manifest.tags["task"] == {"Art_Style": 1, "Counting": 2, "Depth": 1}


# --- options -----------------------------------------------------------------------------------------------------


def test_empty_columns_of_options_are_left_out_and_letters_stay_with_their_columns(
    tmp_path: Path,
) -> None:
    cells = {
        "a": ("x", "y", "z", None, "C"),
        "b": ("x", "y", "", "w", "D"),
        "c": ("x", "y", None, None, "A"),
    }
    rows: mini_hub.Rows = [
        {
            "id": name,
            "question": "?",
            "A": a,
            "B": b,
            "C": c,
            "D": d,
            "answer": gold,
            "image": picture(1),
        }
        for name, (a, b, c, d, gold) in cells.items()
    ]
    types = {**dict.fromkeys(rows[0], TEXT), "image": PICTURE}
    fields = {
        "id": "text",
        "question": "text",
        "A": "text",
        "B": "text",
        "C": "text?",
        "D": "text?",
        "answer": "text",
    }
    params = {
        "options": ["{A}", "{B}", "{C}", "{D}"],
        "answer": "{answer}",
        "answer_is": "letter",
        "records": {"fields": fields},
    }
    benchmark = built(tmp_path, rows, types, params)
    assert golds(benchmark) == {
        "a": (("x", "y", "z"), "z"),
        "b": (("x", "y", "w"), "w"),
        "c": (("x", "y"), "x"),
    }
    rows[1]["answer"] = "C"
    with pytest.raises(DataError, match="row 1: the answer is option C, which is empty"):
        built(tmp_path / "wrong", rows, types, params)
    needed = {**params, "records": {"fields": {**fields, "C": "text"}}}
    with pytest.raises(DataError, match="C"):
        built(tmp_path / "needed", rows, types, needed)


def test_a_list_written_as_a_text_and_letters_with_signs_around_them(tmp_path: Path) -> None:
    rows: mini_hub.Rows = [
        {
            "id": "a",
            "question": "?",
            "options": "['one', \"it's\", 'x, y']",
            "answer": "(B)",
            "image": picture(1),
        },
        {
            "id": "b",
            "question": "?",
            "options": '["A. one", "B. two"]',
            "answer": "A.",
            "image": picture(2),
        },
        {"id": "c", "question": "?", "options": "[]", "answer": "(B)", "image": picture(3)},
    ]
    types = {**dict.fromkeys(rows[0], TEXT), "image": PICTURE}
    params = {
        "options": "{options:literal:unlabelled}", "answer": "{answer:letter}", "answer_is": "letter",
        "records": {"fields": {"id": "text", "question": "text", "options": "text", "answer": "text"}},
    }  # fmt: skip
    assert golds(built(tmp_path, rows, types, params)) == {
        "a": (("one", "it's", "x, y"), "it's"),
        "b": (("one", "two"), "one"),
        "c": ((), ("B",)),
    }


@pytest.mark.parametrize(
    ("inline", "text", "question", "options"),
    [
        (
            InlineOptions("{}: ", heading="Options:"),
            "Which one?\nOptions: A: a cat, B: a dog; or so, C: no, thanks, D: 5",
            "Which one?",
            ("a cat", "a dog; or so", "no, thanks", "5"),
        ),
        (
            InlineOptions("{}. ", closing="Please answer .*"),
            "In which direction?\n\nA. Left\nB. Right.\nPlease answer directly with only the letter of the option.",
            "In which direction?",
            ("Left", "Right."),
        ),
        (
            InlineOptions("({}) ", closing="Answer .*"),
            "Who? (A) Ann (B) Bo\nAnswer now.",
            "Who?",
            ("Ann", "Bo"),
        ),
        (
            InlineOptions("{}. ", heading="Choices:"),
            "Is A. so? Choices: A. Yes. B. No.",
            "Is A. so?",
            ("Yes.", "No."),
        ),
        (InlineOptions("{}."), "Which?\nA.CAB.\nB.BA. C\nC.x", "Which?", ("CAB.", "BA. C", "x")),
        (InlineOptions("{}. "), "How many signs are there?", "How many signs are there?", ()),
        (InlineOptions("{}. "), "What is by J. A. Smith?", "What is by J. A. Smith?", ()),
    ],
)
def test_options_inside_a_question(
    inline: InlineOptions, text: str, question: str, options: tuple[str, ...]
) -> None:
    assert OptionSplitter(inline).split(text) == (question, options)


def test_where_no_options_are_inside_the_question_is_open(tmp_path: Path) -> None:
    rows: mini_hub.Rows = [
        {"id": "a", "question": "Who?\nA. Ann\nB. Bo", "answer": "B", "image": picture(1)},
        {"id": "b", "question": "How many?", "answer": "3", "image": picture(2)},
    ]
    types = {**dict.fromkeys(rows[0], TEXT), "image": PICTURE}
    params = {
        "inline": {"label": "{}. "}, "answer": "{answer}", "answer_is": "letter",
        "records": {"fields": {"id": "text", "question": "text", "answer": "text"}},
    }  # fmt: skip
    benchmark = built(tmp_path, rows, types, params)
    assert golds(benchmark) == {"a": (("Ann", "Bo"), "Bo"), "b": ((), ("3",))}
    assert {sample.id: sample.question for sample in benchmark.samples()} == {
        "a": "Who?",
        "b": "How many?",
    }


# --- where images stand in a text ------------------------------------------------------------------------------


def test_numbered_marks_place_pictures_as_often_as_they_are_told(tmp_path: Path) -> None:
    types = {"id": TEXT, "question": TEXT, "answer": TEXT, "images": pa.list_(PICTURE)}
    row = {"id": "a", "question": "?", "answer": "x", "images": [picture(1), picture(2)]}
    params = {
        "answer": "{answer}", "image": {"column": "images"},
        "records": {"fields": {"id": "text", "question": "text", "answer": "text"}},
    }  # fmt: skip
    [sample] = built(tmp_path, [row], types, params).samples()
    first, second = map(ImagePart, sample.images)
    parts = place_images(sample.images, "Is <image 2> or <image 1> as <image 2>?")
    assert parts == (
        TextPart("Is "),
        second,
        TextPart(" or "),
        first,
        TextPart(" as "),
        second,
        TextPart("?"),
    )
    assert place_images(sample.images[:1], "<image 1> What?") == (first, TextPart(" What?"))
    # An image without a mark, or a mark without an image: images first, the text as it is.
    for text in ("Is <image 1> it?", "Is <image 1>, <image 2> or <image 3>?"):
        assert place_images(sample.images, text) == (first, second, TextPart(text))


def test_an_option_that_stands_there_twice_is_refused_unless_the_entry_says_it_may(
    tmp_path: Path,
) -> None:
    rows: mini_hub.Rows = [
        {"id": "a", "question": "?", "A": "x", "B": "x", "answer": "B", "image": picture(1)}
    ]
    types = {**dict.fromkeys(rows[0], TEXT), "image": PICTURE}
    fields = {"id": "text", "question": "text", "A": "text", "B": "text", "answer": "text"}
    params = {
        "options": ["{A}", "{B}"],
        "answer": "{answer}",
        "answer_is": "letter",
        "records": {"fields": fields},
    }
    with pytest.raises(DataError, match="the option 'x' appears twice"):
        built(tmp_path / "strict", rows, types, params)
    [sample] = built(tmp_path, rows, types, {**params, "may_repeat": True}).samples()
    assert sample.options == ("x", "x")


def test_so_many_questions_as_an_entry_says_may_be_left_out_when_they_cannot_be_read(
    tmp_path: Path,
) -> None:
    rows: mini_hub.Rows = [
        {"id": str(n), "question": "?", "A": "x", "B": "y", "answer": "A", "image": picture(n % 6)}
        for n in range(40)
    ]
    rows[7]["answer"] = "Z"
    types = {**dict.fromkeys(rows[0], TEXT), "image": PICTURE}
    fields = {"id": "text", "question": "text", "A": "text", "B": "text", "answer": "text"}
    params = {
        "options": ["{A}", "{B}"],
        "answer": "{answer}",
        "answer_is": "letter",
        "records": {"fields": fields},
    }
    with pytest.raises(DataError, match="row 7: the answer 'Z' is none of A, B"):
        built(tmp_path / "strict", rows, types, params)
    lenient = built(tmp_path / "lenient", rows, types, {**params, "unreadable": 0.03})
    assert lenient.manifest.counts.samples == 39
    [note] = [text for text in lenient.manifest.warnings if "skipped" in text]
    assert "1 skipped: it cannot be read, the first as" in note and "row 7: the answer 'Z'" in note
    rows[8]["answer"] = "Y"
    with pytest.raises(DataError, match=r"(?s)row 7: .*row 8: the answer 'Y' is none of"):
        built(tmp_path / "many", rows, types, {**params, "unreadable": 0.03})
