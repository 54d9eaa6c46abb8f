"""The easy-vqa package as a benchmark."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

import small
from snellen.errors import DataError
from snellen.suites.easy_vqa.reader import COLOUR_ANSWERS, SHAPE_ANSWERS, YES_NO_ANSWERS, read

ROWS = [
    ["what color is the shape?", "teal", 0],
    ["is there a circle?", "no", 0],
    ["what shape is it?", "circle", 1],
]


def folder_with(rows: object, folder: Path) -> Path:
    (folder / "test" / "images").mkdir(parents=True)
    (folder / "test" / "questions.json").write_text(json.dumps(rows))
    for number in range(2):
        (folder / "test" / "images" / f"{number}.png").write_bytes(small.picture(number))
    return folder


def test_questions_become_choices_with_the_right_gold(tmp_path: Path) -> None:
    colour, polar, shape = read({}, folder_with(ROWS, tmp_path))
    assert colour.rounds[0].question == "What color is the shape?"
    assert len(colour.rounds[0].options) == 4
    assert set(colour.rounds[0].options) <= set(COLOUR_ANSWERS)
    assert polar.rounds[0].options == YES_NO_ANSWERS
    assert shape.rounds[0].options == SHAPE_ANSWERS
    golds = [draft.rounds[0].options[draft.rounds[0].gold[0]] for draft in (colour, polar, shape)]
    assert golds == ["teal", "no", "circle"]
    assert [draft.group for draft in (colour, polar, shape)] == ["0", "0", "1"]


@pytest.mark.parametrize(
    ("rows", "fault"),
    [
        (
            [["a", "red"]],
            r"questions.json: question 0: \['a', 'red'\] is not \[question, answer, image id\]",
        ),
        ([*ROWS, ["a", "mauve", 0]], "question 3: unknown answer 'mauve'"),
        ([["a", "red", "x"]], "question 0: "),
    ],
)
def test_a_wrong_row_is_refused_with_its_number(rows: object, fault: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=fault):
        list(read({}, folder_with(rows, tmp_path)))


def test_a_folder_without_questions_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"questions.json: cannot read the questions"):
        list(read({"split": "dev"}, tmp_path))


def test_the_installed_package_has_the_questions_that_the_entry_promises() -> None:
    pytest.importorskip("easy_vqa", reason="waits for easy-vqa")
    drafts = list(read({"split": "test"}, None))
    assert len(drafts) == 9673
    assert len({draft.images for draft in drafts}) == 1000
    assert Counter(draft.tags["asks"] for draft in drafts) == {
        "yes/no": 7136,
        "shape": 1257,
        "colour": 1280,
    }
    places = Counter(draft.rounds[0].gold[0] for draft in drafts if draft.tags["asks"] == "colour")
    assert max(places.values()) - min(places.values()) < 150
