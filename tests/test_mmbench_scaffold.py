"""A MMBench-like benchmark from a table of questions: split, checked for balance, ready to build and run."""

from __future__ import annotations

import csv
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import small
import snellen as sn
from snellen.building.benchmark import Benchmark
from snellen.errors import DataError
from snellen.scoring.answers import open_answers
from snellen.suites.mmbench.scaffold import (
    BalanceItem,
    ScaffoldedBenchmark,
    balance_by_leaf,
    balance_warnings,
    choose_dev,
    scaffold,
)

LEAVES = {"ocr": 30, "image_style": 20, "bar_charts": 11}


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Sixty-one questions of three abilities, one of them not MMBench's, and their images."""
    (tmp_path / "pictures").mkdir()
    rows = []
    for leaf, count in LEAVES.items():
        for _ in range(count):
            number = len(rows)
            (tmp_path / "pictures" / f"{number}.png").write_bytes(small.picture(number))
            rows.append(question(number, leaf))
    return small.write(rows, tmp_path / "questions.csv")


def question(number: int, leaf: str = "ocr", **cells: str) -> dict[str, str]:
    return {
        "question": f"What is it, number {number}?",
        "image": f"{number}.png",
        "A": "NA",
        "B": "5.0",
        "C": "cat\nand dog",
        "answer": "ABC"[number % 3],
        "category": leaf,
        "l2-category": "reading_charts" if leaf == "bar_charts" else "",
        **cells,
    }


def made(table: Path, folder: str = "mine", **how: Any) -> ScaffoldedBenchmark:
    return scaffold(table, table.parent / "pictures", table.parent / folder, **how)


def built(path: Path, **how: Any) -> Benchmark:
    return sn.build(path, to=path.parent / "built" / path.stem, **how)


def test_the_two_splits_build_and_run_at_once(table: Path) -> None:
    files = made(table)
    dev, test = built(files.dev), built(files.test)
    assert (dev.name, test.name) == ("mine-dev", "mine-test")
    assert (dev.manifest.counts.samples, test.manifest.counts.samples) == (24, 37)
    assert (dev.manifest.counts.answers, test.manifest.counts.answers) == (24, 0)
    assert dev.manifest.tags["l3"] == {"bar_charts": 4, "image_style": 8, "ocr": 12}
    assert test.manifest.tags["l3"] == {"bar_charts": 7, "image_style": 12, "ocr": 18}
    ids = [{sample.id for sample in benchmark.samples()} for benchmark in (dev, test)]
    assert not ids[0] & ids[1] and ids[0] | ids[1] == {str(number) for number in range(1, 62)}
    runs = table.parent / "runs"
    results = sn.evaluate("snellen:oracle", str(dev.folder), "circular", runs=runs)
    assert results.value("circular_accuracy", benchmark="mine-dev") == 1.0
    hidden = sn.evaluate("snellen:always-a", str(test.folder), "circular", runs=runs)
    assert hidden.value("accuracy", benchmark="mine-test") is None


def test_texts_answers_and_pictures_arrive_as_they_were(table: Path) -> None:
    files = made(table)
    whole = [built(files.dev), built(files.test, answers=files.answers)]
    assert whole[1].manifest.counts.answers == 37
    for benchmark in whole:
        answers = open_answers(benchmark.folder)
        for sample in benchmark.samples():
            number = int(sample.id) - 1
            assert sample.question == f"What is it, number {number}?"
            assert sample.options == ("NA", "5.0", "cat\nand dog")
            assert answers[sample.id, 0].options == (number % 3,)
            assert benchmark.images.read(sample.images[0]) == small.picture(number)


def test_the_answers_of_test_stand_in_no_other_file(table: Path) -> None:
    files = made(table)
    with files.test.open(newline="") as file:
        assert "answer" not in next(csv.reader(file, delimiter="\t"))
    rows = files.answers.read_text().splitlines()
    assert rows[0] == '"index"\t"answer"' and len(rows) == 38
    assert sorted(path.name for path in files.dev.parent.iterdir()) == [
        "mine-dev.tsv",
        "mine-test-answers.tsv",
        "mine-test.tsv",
        "taxonomy.toml",
    ]


def test_the_abilities_are_known_or_left_to_be_filled_in(table: Path) -> None:
    files = made(table)
    tags = built(files.dev).manifest.tags
    assert tags["l2"] == {
        "coarse_perception": 8,
        "finegrained_perception (instance-level)": 12,
        "reading_charts": 4,
    }
    assert tags["l1"] == {"perception": 20}
    assert "the l1 of reading_charts is not known: fill it in in taxonomy.toml" in files.weak
    text = files.abilities.read_text()
    assert 'name = "reading_charts"\ntitle = ""\nl1 = ""' in text
    assert 'title = "OCR"' in text
    files.abilities.write_text(
        text.replace('title = ""\nl1 = ""', 'title = "Charts"\nl1 = "reading"')
    )
    assert built(files.dev).manifest.tags["l1"] == {"perception": 20, "reading": 4}


def test_the_same_name_gives_the_same_files_and_another_name_other_splits(table: Path) -> None:
    one, two, other = (
        made(table, folder, name=name) for folder, name in (("a", "x"), ("b", "x"), ("c", "y"))
    )
    assert one.dev.read_bytes() == two.dev.read_bytes()
    assert one.answers.read_bytes() == two.answers.read_bytes() != other.answers.read_bytes()


leaves = st.lists(st.integers(1, 40), min_size=1, max_size=12)


@given(leaves, st.text(max_size=5))
def test_dev_has_two_fifths_of_each_ability_and_of_all(sizes: list[int], name: str) -> None:
    items = [
        BalanceItem(f"{leaf}-{number}", ("", str(leaf)), 4, 0, "")
        for leaf, size in enumerate(sizes)
        for number in range(size)
    ]
    dev = choose_dev(items, name)
    for leaf, size in enumerate(sizes):
        here = sum(index.startswith(f"{leaf}-") for index in dev)
        assert abs(here - 0.4 * size) < 1
        if size > 1:
            assert 0 < here < size
    assert abs(len(dev) - 0.4 * len(items)) <= 0.5 + sum(size == 2 for size in sizes)
    assert dev == choose_dev(items, name) <= {item.index for item in items}


def items(
    count: int, leaf: str = "ocr", options: int = 4, gold: int | None = None
) -> list[BalanceItem]:
    return [
        BalanceItem(
            f"{leaf}{i}", ("l2", leaf), options, i % options if gold is None else gold, f"{leaf}{i}"
        )
        for i in range(count)
    ]


def test_balanced_questions_have_no_weakness_and_their_parts_add_up() -> None:
    even = [*items(80), *items(80, "style", options=2)]
    dev = choose_dev(even, "x")
    assert balance_warnings(even, dev) == []
    ocr, style, whole = balance_by_leaf(even, dev)
    assert (ocr.total, style.total, whole.total) == (80, 80, 160)
    assert (ocr.chance, style.chance, whole.chance) == (0.25, 0.5, 0.375)
    assert ocr.letters == (20, 20, 20, 20) and style.letters == (40, 40)
    assert whole.letters == (60, 60, 20, 20)
    assert Counter(item.leaf for item in even if item.index in dev) == {
        ("l2", "ocr"): 32,
        ("l2", "style"): 32,
    }


@pytest.mark.parametrize(
    ("found", "line"),
    [
        (
            [*items(80), *items(30, "style")],
            "style has 18 questions in test: one of them is 5.6 points",
        ),
        (
            [*items(80), *items(1, "style")],
            "style has 0 questions in dev and 1 in test: it has too few to be split",
        ),
        (
            [*items(201), *items(50, "style")],
            "ocr has 201 questions and style 50: the overall accuracy is mostly",
        ),
        (
            [*items(80), *items(80, "style", gold=1)],
            "style: B is correct 100% of the time, 25% would be even",
        ),
        (
            [*items(80), *items(80, "style", gold=1)],
            "all questions: B is correct 62% of the time, 25% would be even",
        ),
        (
            [BalanceItem(i.index, i.leaf, i.count, i.gold, "one") for i in items(80)],
            "images in both splits: 1; a model trained on dev has seen them",
        ),
    ],
)
def test_what_would_make_numbers_weak_is_said(found: list[BalanceItem], line: str) -> None:
    assert any(said.startswith(line) for said in balance_warnings(found, choose_dev(found, "x"))), (
        line
    )


WRONG: dict[str, tuple[dict[str, str], str]] = {
    "no question": ({"question": " "}, "q.csv:3: the question is empty"),
    "no category": ({"category": ""}, "q.csv:3: the category is empty"),
    "no image": ({"image": ""}, "q.csv:3: the image is empty"),
    "no answer": ({"answer": ""}, "q.csv:3: the answer is empty"),
    "answer without option": (
        {"answer": "D"},
        "q.csv:3: the answer 'D' is not one of the letters A-C",
    ),
    "one option": ({"B": "", "C": ""}, "q.csv:3: two options are needed, there is 1"),
    "equal options": ({"B": "NA"}, "q.csv:3: the option 'NA' appears twice; options must differ"),
    "missing picture": (
        {"image": "no.png"},
        "q.csv:3: cannot read the image no.png (No such file or directory)",
    ),
    "NUL": ({"image": "no\0.png"}, "q.csv:3: cannot read the image no\0.png (embedded null byte)"),
    "text for a picture": ({"image": "q.csv"}, "q.csv:3: q.csv: not a readable image"),
    "text for an index": (
        {"index": "x"},
        "q.csv:3: the index 'x' is not a whole number under 1000000",
    ),
    "large index": (
        {"index": "1000000"},
        "q.csv:3: the index '1000000' is not a whole number under 1000000",
    ),
    "index twice": ({"index": "01"}, "q.csv:3: the index 1 appears twice"),
}


@pytest.mark.parametrize("cells, fault", WRONG.values(), ids=WRONG)
def test_a_wrong_row_is_refused_with_its_line_and_nothing_is_made(
    cells: dict[str, str], fault: str, tmp_path: Path
) -> None:
    (tmp_path / "0.png").write_bytes(small.picture())
    good = {"index": "1", **question(0, C="cat")}
    bad = {"index": "2", **question(0, C="cat"), **cells}
    path = small.write([good, bad], tmp_path / "q.csv")
    with pytest.raises(DataError) as caught:
        scaffold(path, None, tmp_path / "mine")
    assert str(caught.value).replace(f"{tmp_path}/", "").startswith(fault)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["0.png", "q.csv"]


def test_wrong_tables_and_folders_are_refused(table: Path, tmp_path: Path) -> None:
    pictures = tmp_path / "pictures"
    for text, fault in {
        "question,A,B,answer,category\n": ":1: the column 'image' is missing; there are question, A",
        "question,image,A,B,anwser,category\n": ":1: unknown column 'anwser'; did you mean 'answer'",
        "question,image,A,B,answer,category\n": ": two questions are needed for two splits, there are 0",
    }.items():
        path = tmp_path / "q.csv"
        path.write_text(text)
        with pytest.raises(DataError, match=fault):
            scaffold(path, pictures, tmp_path / "mine")
    with pytest.raises(DataError, match=r"q.jsonl: a table of questions ends with .tsv or .csv"):
        scaffold(tmp_path / "q.jsonl", pictures, tmp_path / "mine")
    with pytest.raises(DataError, match=r"no.csv: no such file"):
        scaffold(tmp_path / "no.csv", pictures, tmp_path / "mine")
    with pytest.raises(DataError, match=r"pictures exists and is not an empty folder"):
        scaffold(table, pictures, pictures)
    with pytest.raises(
        DataError, match=r"'a/b' cannot be part of a file's name; call it 'a-b' with name="
    ):
        made(table, name="a/b")
    assert not (tmp_path / "mine").exists()


def test_up_to_ten_wrong_rows_are_named_at_once(tmp_path: Path) -> None:
    path = small.write([question(number) for number in range(30)], tmp_path / "q.tsv")
    with pytest.raises(DataError) as caught:
        scaffold(path, None, tmp_path / "mine")
    assert len(str(caught.value).splitlines()) == 10
