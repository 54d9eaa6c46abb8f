"""Points in regions, clicks, spans of time and short answers: what replies are worth, and which golds are refused."""

from __future__ import annotations

from pathlib import Path

import pytest

import modern_tables
from snellen.building.builder import build_benchmark
from snellen.catalogue import entries
from snellen.catalogue.entries import with_params
from snellen.errors import DataError
from snellen.scoring.answers import open_answers
from snellen.suites.modern.clicks import _make_references, click_marks
from snellen.suites.modern.masks import mask_marks
from snellen.suites.modern.moments import moment_marks, read_span
from snellen.suites.modern.short_answers import blind_answer
from snellen.suites.modern.words_read import overlap_f1, tokens

REGION = ["[(0.5, 0.5)]", "mask 4x3 in 1: 5 2 5"]
"""Four by three pixels, of which the two in the middle are the region."""
NOTCHED = ["[1, 1]", "polygon 0 0 10 0 10 10 5 2 0 10"]


@pytest.mark.parametrize(
    ("reply", "marks"),
    [
        ("[(0.4, 0.5)]", (1.0, 1.0)),
        ("[(0.4, 0.5), (0.1, 0.5)]", (0.5, 1.0)),
        ("[(0.9, 0.9), (1.4, 0.5)]", (0.0, 0.0)),
        ('```json\n[{"point_2d": [0.3, 0.4]}]\n```', (1.0, 1.0)),
        ("It is on the left.", None),
        (f"[({'9' * 400}, 0.5), (-{'9' * 400}, 0.5)]", (0.0, 0.0)),
    ],
)
def test_points_count_by_the_share_that_lies_in_the_region(
    reply: str, marks: tuple[float, float] | None
) -> None:
    assert mask_marks(reply, REGION) == marks


def test_points_are_read_in_the_coordinates_that_the_build_chose(tmp_path: Path) -> None:
    source = modern_tables.write("refspatial-location", tmp_path / "hub")
    for coordinates, point in (
        ("1", "0.34375, 0.375"),
        ("1000", "343.75, 375.0"),
        ("pixels", "5, 4"),
    ):
        spec = with_params(entries()["modern/refspatial-location"], {"coordinates": coordinates})
        benchmark = build_benchmark(spec.from_hub(), source=source, to=tmp_path / coordinates)
        _, second, *_ = benchmark.samples()
        golds = open_answers(benchmark.folder)[second.id, 0].texts
        assert golds[0] == f"[({point})]"
        assert mask_marks(golds[0], golds) == (1.0, 1.0)
        assert len(second.images) == 1


@pytest.mark.parametrize(
    ("reply", "references", "right"),
    [
        ("[5, 1]", NOTCHED, 1.0),
        ("[5, 5]", NOTCHED, 0.0),  # in the notch
        ("click (9, 8)", NOTCHED, 1.0),
        ("[-1, -1]", NOTCHED, 0.0),
        ("[-1, -1]", ["[-1, -1]", "refusal"], 1.0),
        ("[3, 4]", ["[-1, -1]", "refusal"], 0.0),
        ("[10, 6]", ["[6, 5]", "box 4 4 10 6"], 1.0),
        ("[10.5, 6]", ["[6, 5]", "box 4 4 10 6"], 0.0),
        # In pixels of an image of 20 x 10, or as a share of its sides (lmms-eval, osworld_g/utils.py).
        ("[6, 5]", ["[6, 5]", "box 4 4 10 6 of 20 10"], 1.0),
        ("[0.3, 0.5]", ["[6, 5]", "box 4 4 10 6 of 20 10"], 1.0),
        ("[0.3, 0.7]", ["[6, 5]", "box 4 4 10 6 of 20 10"], 0.0),
        ("[0.3, 0.5]", ["[6, 5]", "box 4 4 10 6"], 0.0),
    ],
)
def test_clicks_are_right_inside_their_target(
    reply: str, references: list[str], right: float
) -> None:
    assert click_marks(reply, references) == (right,)
    assert click_marks("I do not see it.", references) is None


@pytest.mark.parametrize("form", ["bbox", "polygon"])
def test_targets_at_the_edge_of_a_large_screen_are_written_without_exponents(form: str) -> None:
    corners = [0.1, 5.0, 30.0, 40.0, 50.0, 0.1][: 4 if form == "bbox" else 6]
    references = _make_references(form, corners, (1920, 1080), "1", "row 1")
    assert "e" not in references[1].partition(" ")[2]
    assert click_marks(references[0], references) == (1.0,)


@pytest.mark.parametrize(
    ("reply", "span"),
    [
        ("The event happens in the 24.3 - 30.4 seconds.", (24.3, 30.4)),
        ("It starts at 3 s and ends at 7.5 s.", (3.0, 7.5)),
        ("From 00:18 to 00:23.", (18.0, 23.0)),
        ("start time: 9\nend time: 4", (4.0, 9.0)),
        ("At 5 seconds.", None),
    ],
)
def test_spans_of_time_are_read(reply: str, span: tuple[float, float] | None) -> None:
    assert read_span(reply) == span


def test_moments_count_by_their_overlap() -> None:
    # 4 to 8 and 6 to 10 share two of six seconds.
    assert moment_marks("4 - 8", ["6 - 10"]) == (1.0, 0.0, 0.0, pytest.approx(1 / 3))
    assert moment_marks("20 - 30", ["6 - 10"]) == (0.0, 0.0, 0.0, 0.0)
    with pytest.raises(DataError, match="gold 'later' has no two times"):
        moment_marks("4 - 8", ["later"])


def test_short_answers_have_the_form_that_their_task_asks_for() -> None:
    assert blind_answer("rows={4} columns={5}", "counting grid - blank grids") == "4,5"
    assert blind_answer("4 rows and 5 columns", "counting grid - blank grids") is None
    assert blind_answer("Yes.", "touching circles") is None
    assert blind_answer("{3} circles", "olympic counting - circles") == "3"


def test_words_in_scenes_keep_letters_and_digits_and_other_scripts_are_compared_by_character() -> (
    None
):
    assert tokens("Shop! No. 12", "en_doc", "doc_text") == ["shop", "no", "12"]
    assert tokens("안녕 하세요", "Korean", "Korean") == list("안녕하세요")
    assert overlap_f1(["a", "a", "b"], ["a", "c"]) == pytest.approx(
        2 * (1 / 3) * 0.5 / (1 / 3 + 0.5)
    )
    assert overlap_f1([], ["a"]) == 0.0
