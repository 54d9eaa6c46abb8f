"""COCO's objects: which is there, which is in the box, which is missing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import reform
from snellen.building.recipe import Recipe
from snellen.common.images import ImageStore

ANIMALS = ("cat", "dog", "horse", "cow", "sheep")
VEHICLES = ("car", "bus", "train", "boat")
CATEGORIES = [
    (number, name, "animal" if name in ANIMALS else "vehicle")
    for number, name in enumerate((*ANIMALS, *VEHICLES), 1)
]


@pytest.fixture
def coco(tmp_path: Path) -> Path:
    return coco_objects(tmp_path / "coco")


def coco_objects(folder: Path) -> Path:
    """Twelve images; each shows two animals and a vehicle, in boxes of which one is small."""
    for number in range(12):
        reform.write_picture(folder / "val2017" / f"{number:012d}.jpg", number, (200, 160))
    annotations = [
        {
            "id": number * 3 + place,
            "image_id": number,
            "category_id": category,
            "bbox": [10.5 + 60 * place, 12.25, side, side],
            "iscrowd": 0,
        }
        for number in range(12)
        for place, (category, side) in enumerate(
            [(1 + number % 5, 55), (1 + (number + 1) % 5, 52), (6 + number % 4, 30)]
        )
    ]
    content = {
        "images": [
            {"id": n, "file_name": f"{n:012d}.jpg", "width": 200, "height": 160} for n in range(12)
        ],
        "annotations": annotations,
        "categories": [
            {"id": i, "name": name, "supercategory": group} for i, name, group in CATEGORIES
        ],
    }
    reform.write_json(folder / "annotations" / "instances_val2017.json", content)
    return folder


@pytest.mark.parametrize(("task", "count"), [("mci", 36), ("goi", 36), ("mos", 12)])
def test_a_task_goes_through_build_run_and_score(
    task: str, count: int, coco: Path, tmp_path: Path
) -> None:
    benchmark = reform.made(f"mscoco-{task}", coco, tmp_path)
    assert benchmark.manifest.counts.samples == count
    reform.holds_together(benchmark, tmp_path / "runs")


def test_no_distractor_is_in_the_picture_unless_a_box_rules_it_out(
    coco: Path, tmp_path: Path
) -> None:
    shown = {
        n: {CATEGORIES[n % 5][1], CATEGORIES[(n + 1) % 5][1], CATEGORIES[5 + n % 4][1]}
        for n in range(12)
    }
    for sample in reform.made("mscoco-mci", coco, tmp_path).samples():
        assert len(set(sample.options) & shown[int(sample.group)]) == 1
    for sample in reform.made("mscoco-goi", coco, tmp_path).samples():
        # What else the image shows comes first: two other objects.
        assert shown[int(sample.group)] <= set(sample.options)
    for sample in reform.made("mscoco-mos", coco, tmp_path).samples():
        missing = set(sample.options) - shown[int(sample.group)]
        small = CATEGORIES[5 + int(sample.group) % 4][1]
        # The vehicle is too small for a box, so it is what no box holds.
        assert not missing and small in sample.options


def test_what_no_box_holds_is_asked_of_pictures_whose_large_objects_are_each_of_a_class_of_its_own(
    coco: Path, tmp_path: Path
) -> None:
    path = coco / "annotations" / "instances_val2017.json"
    content = json.loads(path.read_text())
    twins = [
        {**annotation, "id": 100 + annotation["id"], "bbox": [100.5, 80, side, 60]}
        for annotation, side in zip(content["annotations"][0:9:3], (60, 40, 60), strict=True)
    ]
    twins[2]["iscrowd"] = 1
    path.write_text(json.dumps({**content, "annotations": [*content["annotations"], *twins]}))
    # Of three images with a second object of one class, it is large in one, small in one, and a crowd in the third.
    asked = {sample.id for sample in reform.made("mscoco-mos", coco, tmp_path).samples()}
    assert asked == {str(number) for number in range(1, 12)}


def test_boxes_are_drawn_where_they_are_and_as_wide_as_the_paper_says(
    coco: Path, tmp_path: Path
) -> None:
    import io

    from PIL import Image

    benchmark = reform.made("mscoco-goi", coco, tmp_path)
    store = ImageStore(benchmark.folder / "images")
    sample = next(sample for sample in benchmark.samples() if sample.id == "0")
    picture = Image.open(io.BytesIO(store.read(sample.images[0]))).convert("RGB")
    red = {
        (x, y) for x in range(200) for y in range(160) if picture.getpixel((x, y)) == (255, 0, 0)
    }
    # The box [10.5, 12.25, 55, 55] has its corners at (10, 12) and (65, 67), and a line of 3 pixels inside.
    frame = {(x, y) for x in range(10, 66) for y in range(12, 68)}
    inner = {(x, y) for x in range(13, 63) for y in range(15, 65)}
    assert red == frame - inner


def test_fewer_or_more_options_are_made_on_request(coco: Path, tmp_path: Path) -> None:
    recipe = Recipe(sample=reform.COMPLETE.sample, options=6)
    benchmark = reform.made("mscoco-mci", coco, tmp_path, recipe)
    assert {len(sample.options) for sample in benchmark.samples()} == {6}
    assert benchmark.manifest.build_info.recipe["options"] == 6


def test_the_paper_takes_as_many_of_each_supercategory_and_then_a_tenth(
    coco: Path, tmp_path: Path
) -> None:
    benchmark = reform.made("mscoco-mci", coco, tmp_path, Recipe())
    made = benchmark.manifest
    # 24 animals and 12 vehicles, fewer than 300 of each; a tenth of 36 is 3, two to one.
    assert (made.build_info.read, made.build_info.complete, made.counts.samples) == (36, 36, 3)
    assert reform.scored_tags(benchmark, "supercategory") == {"animal": 2, "vehicle": 1}
    assert made.warnings == ("samples: built 3, expected 360",)


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        (
            '"image_id": 3,',
            '"image_id": 99,',
            r"instances_val2017.json: annotations\[9\]: there is no image 99",
        ),
        ('"category_id": 4,', '"category_id": 77,', r"annotations\[\d+\]: there is no category 77"),
        ('"bbox": [10.5, 12.25, 55, 55]', '"bbox": [10.5, 12.25, 55]', r"annotations\[0\]: .*bbox"),
        (
            '"bbox": [10.5, 12.25, 55, 55]',
            '"bbox": [310.5, 12.25, 55, 55]',
            r"annotations\[0\]: the box .* no area",
        ),
        (
            '"categories"',
            '"sorts"',
            r"instances_val2017.json: .*missing required field `categories`",
        ),
    ],
)
def test_a_broken_file_is_refused_with_file_and_place(
    old: str, new: str, fault: str, coco: Path, tmp_path: Path
) -> None:
    reform.broken(coco / "annotations" / "instances_val2017.json", old, new)
    reform.refused("mscoco-goi", coco, tmp_path, fault)
