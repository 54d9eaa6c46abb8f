"""All objects of an image: average precision by hand, boxes in space, and what replies and rows are read as."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import modern_tables
import snellen as sn
from snellen.building.benchmark import Benchmark
from snellen.building.builder import build_benchmark
from snellen.catalogue import entries
from snellen.errors import DataError
from snellen.suites.modern.detection import (
    DetectionParams,
    Found,
    _boxes_and_labels,
    average_precision,
    has_objects,
    iou_in_space,
    match_boxes,
    read_detections,
)


@pytest.fixture(scope="module")
def odinw(tmp_path_factory: pytest.TempPathFactory) -> Benchmark:
    folder = tmp_path_factory.mktemp("odinw")
    source = modern_tables.write("odinw-13", folder / "hub")
    spec = entries()["modern/odinw-13"].from_hub()
    return build_benchmark(spec, source=source, to=folder / "built")


def rows(benchmark: Benchmark, replies: dict[str, str], folder: Path) -> dict[str, float | None]:
    model = sn.Scripted(lambda request: replies.get(request.sample_id, "[]"))
    results = sn.evaluate(model, str(benchmark.folder), runs=folder)
    return {row.metric: row.estimate.value for row in results.rows if not row.slice}


def test_average_precision_by_hand() -> None:
    # One right, one wrong, one right of two objects: at the recalls 0 to 0.50 (51 of 101) the precision is 1, at 0.51 to
    # 1.00 (50) it is 2/3.
    hits = np.array([[True, False, True], [False, False, False]])
    first, second = average_precision(hits, 2)
    assert first == pytest.approx((51 + 50 * 2 / 3) / 101)
    assert second == 0
    assert average_precision(np.zeros((1, 0), dtype=bool), 2).tolist() == [0]


def test_a_box_takes_the_free_object_that_it_overlaps_most() -> None:
    def overlap(box: tuple[float, ...], wanted: tuple[float, ...]) -> float:
        return 1 - abs(box[0] - wanted[0])

    # The second box would like the object at 0.0 most, which the first one has.
    matches = match_boxes([(0.0,), (0.1,), (0.2,)], [(0.0,), (0.4,)], overlap, (0.5, 0.9))
    assert matches.hits.tolist() == [[True, True, False], [True, False, False]]
    assert match_boxes([(0.0,)], [], overlap, (0.5,)).hits.tolist() == [[False]]


def test_the_mean_is_over_datasets_of_the_mean_over_categories(
    odinw: Benchmark, tmp_path: Path
) -> None:
    # Aquarium: rows 0 (cat), 2 (horse), 4 (dog), one box each. EgoHands: rows 1 (dog) and 3 (cat), two boxes each.
    cat = '[{"bbox_2d": [125, 333.333, 625, 666.667], "label": "Cat"}]'
    dogs = (
        '[{"bbox_2d": [125, 333.333, 625, 666.667], "label": "dog"}, '
        '{"bbox_2d": [0, 0, 100, 100], "label": "dog"}, '
        '{"bbox_2d": [500, 166.667, 1000, 1000], "label": "dog"}]'
    )
    # Row 5 has no object: what is found there is wrong.
    ghost = '[{"bbox_2d": [125, 333.333, 625, 666.667], "label": "dog"}]'
    found = rows(odinw, {"0": cat, "1": dogs, "2": "I see a horse.", "5": ghost}, tmp_path)
    aquarium = (1 + 0 + 0) / 3
    egohands = (0 + (51 + 50 * 2 / 3) / 101) / 2
    expected = (aquarium + egohands) / 2
    for metric in ("detection_map", "detection_map_50", "detection_map_75"):
        assert found[metric] == pytest.approx(expected)
    assert found["detection_unparsed_rate"] == pytest.approx(1 / 6)


def test_the_interval_is_of_images(odinw: Benchmark, tmp_path: Path) -> None:
    cat = '[{"bbox_2d": [125, 333.333, 625, 666.667], "label": "cat"}]'
    model = sn.Scripted(lambda request: cat if request.sample_id == "0" else "[]")
    results = sn.evaluate(model, str(odinw.folder), runs=tmp_path)
    [estimate] = [
        row.estimate
        for row in results.rows
        if (row.metric, row.benchmark, row.slice) == ("detection_map", odinw.name, "")
    ]
    # Without row 0 the value is 0, without row 2 or 4 it is 1/4 instead of 1/6, without row 1 or 3 it is 1/6; row 5 changes
    # nothing. The jackknife's error is the root of 5/6 of the sum of squares about their mean.
    left_out = [0, 1 / 6, 1 / 4, 1 / 6, 1 / 4, 1 / 6]
    mean = sum(left_out) / 6
    error = math.sqrt(5 / 6 * sum((value - mean) ** 2 for value in left_out))
    assert (estimate.value, estimate.n) == (pytest.approx(1 / 6), 6)
    assert estimate.stderr == pytest.approx(error)


@pytest.mark.parametrize(
    ("reply", "objects"),
    [
        ('[{"bbox_2d": [1, 2, 3, 4], "label": "Dog "}]', [Found((1, 2, 3, 4), "dog")]),
        ('```json\n{"a": [{"box": [1, 2, 3, 4], "name": "x"}]}\n```', [Found((1, 2, 3, 4), "x")]),
        ('{"bbox": [1, 2, 3, 4], "class": "a } b"}', [Found((1, 2, 3, 4), "a } b")]),
        ('[{"bbox_2d": [1, 2, 3, 4], "label": "a"}, {"bbox_2d": [1, 2', [Found((1, 2, 3, 4), "a")]),
        ('{"bbox_2d": [1, 2, 3], "label": "a"}', []),
        ('{"bbox_2d": [1, 2, 3, 4]}', []),
        ('{"bbox_2d": [1, 2, 3, "x"], "label": "a"}', []),
        ("(1, 2), (3, 4)", []),
    ],
)
def test_objects_of_a_reply(reply: str, objects: list[Found]) -> None:
    assert read_detections(reply, 4) == objects


def test_a_reply_that_says_that_there_is_nothing_is_read() -> None:
    assert has_objects("[]", 4) and has_objects('{"objects": [ ]}', 4)
    assert not has_objects("There is nothing.", 4)
    [found] = read_detections('{"bbox_3d": [1, 2, 3, 4, 5, 6, 0.5], "label": "bed"}', 9)
    assert found.box == (1, 2, 3, 4, 5, 6, 0, 0, 0.5)


def test_overlap_in_space_by_hand() -> None:
    cube = (0.0, 0.0, 2.0, 1.0, 1.0, 1.0, 0.0, 0.0, 0.0)
    half_up = (0.0, 0.5, 2.0, 1.0, 1.0, 1.0, 0.0, 0.0, 0.0)
    turned = (0.0, 0.0, 2.0, 1.0, 1.0, 1.0, 0.0, 0.0, math.pi / 4)
    assert iou_in_space(cube, cube) == pytest.approx(1.0)
    assert iou_in_space(cube, half_up) == pytest.approx(1 / 3)
    # Two squares turned by 45 degrees share an octagon of 2 (sqrt 2 - 1).
    shared = 2 * (math.sqrt(2) - 1)
    assert iou_in_space(cube, turned) == pytest.approx(shared / (2 - shared))
    assert iou_in_space(cube, (5.0, *cube[1:])) == 0.0
    assert iou_in_space(cube, (*cube[:3], 0.0, *cube[4:])) == 0.0
    assert iou_in_space(cube, (math.inf, *cube[1:])) == 0.0


@pytest.mark.parametrize(
    ("boxes", "labels", "message"),
    [
        ('["[1, 2, 3, 4]"]', '["a", "b"]', "1 boxes and 2 labels"),
        ('["[1, 2, 3]"]', '["a"]', "each box needs a label and 4 numbers"),
        ('["[10, 20, 5, 40]"]', '["a"]', "is not left, top, right, bottom"),
    ],
)
def test_rows_whose_boxes_are_of_another_form(boxes: str, labels: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        _boxes_and_labels([boxes, labels], DetectionParams(), "test.parquet: row 0")


def test_a_question_with_two_accepted_lists_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SNELLEN_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    dog = json.dumps([{"bbox_2d": [1, 2, 30, 40], "label": "dog"}])
    cat = json.dumps([{"bbox_2d": [1, 2, 30, 40], "label": "cat"}])
    questions = []
    for number, answers in enumerate(([dog, cat], [dog])):
        Image.new("RGB", (64, 64), ("red", "blue")[number]).save(f"{number}.png")
        row = {
            "id": str(number),
            "image": f"{number}.png",
            "question": "Find it",
            "answer": answers,
        }
        questions.append(row)
    Path("pets.jsonl").write_text("\n".join(map(json.dumps, questions)))
    results = sn.evaluate(
        sn.Scripted(lambda _: dog), "pets.jsonl", metrics=["detection"], report=False
    )
    for tally in results.runs[0].benchmarks[0].tallies:
        assert tally.detail.startswith("pets 0: 2 accepted answers")
