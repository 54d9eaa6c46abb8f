"""A bare name never means the data of another folder than the one where the user works, without a word."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from PIL import Image

import snellen as sn
from snellen.common.paths import benchmark_folder
from snellen.errors import DataError
from snellen.recognition.recognising import recognise
from snellen.runs.finding import find_benchmarks

EARLIER = "question\tA\tB\tanswer\nIs ice cold?\tyes\tno\tA\nIs fire cold?\tyes\tno\tB\n"
OTHER = "question\tA\tB\tanswer\nIs grass green?\tyes\tno\tA\n"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder whose `questions.tsv` is built under the name `questions`; the working folder is another one."""
    earlier = tmp_path / "earlier"
    present = tmp_path / "present"
    earlier.mkdir()
    present.mkdir()
    monkeypatch.chdir(earlier)
    Path("questions.tsv").write_text(EARLIER)
    sn.build("questions.tsv", no_images=True)
    monkeypatch.chdir(present)
    return earlier


def said_of(name: str) -> list[str]:
    said: list[str] = []
    find_benchmarks([name], announce=said.append)
    return said


def test_an_earlier_build_is_not_taken_for_the_table_in_this_folder(project: Path) -> None:
    Path("questions.tsv").write_text(OTHER)
    folder = benchmark_folder("questions")
    with pytest.raises(DataError) as error:
        sn.evaluate("snellen:oracle", "questions")
    assert str(error.value) == (
        f"questions was built from {project}/questions.tsv, not from questions.tsv in this folder; to use the file "
        f"here, name questions.tsv; to use that build, name {folder}"
    )
    assert len(sn.evaluate("snellen:oracle", str(folder)).samples()) == 2


def test_an_earlier_build_is_not_taken_for_the_folder_in_this_folder(project: Path) -> None:
    Path("questions").mkdir()
    Path("questions/all.tsv").write_text(OTHER)
    with pytest.raises(DataError, match="not from questions in this folder; to use the folder"):
        said_of("questions")


def test_an_earlier_build_says_where_it_comes_from(project: Path) -> None:
    [line] = said_of("questions")
    assert line.startswith(f"questions: built from {project}/questions.tsv on 2")


def test_a_copy_of_the_table_is_the_same_source(project: Path) -> None:
    Path("questions.tsv").write_text(EARLIER)
    [line] = said_of("questions")
    assert line.startswith("questions: built from ")


def test_nothing_is_said_where_the_source_is(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(project)
    Path("questions.csv").write_text("another table of the same name\n")
    assert said_of("questions") == []


def test_a_touched_table_has_not_changed(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(project)
    table = Path("questions.tsv")
    os.utime(table, (1, 1))
    assert said_of("questions") == []
    table.write_text(OTHER)
    [line] = said_of("questions")
    assert "questions.tsv has changed since questions was built from it" in line


def test_a_touched_picture_has_not_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for label in ("red", "blue"):
        folder = Path("classes", label)
        folder.mkdir(parents=True)
        for number in range(3):
            shade = 40 * number
            colour = (255, shade, 0) if label == "red" else (0, shade, 255)
            Image.new("RGB", (32, 32), colour).save(folder / f"{number}.png")
    sn.build("classes")
    picture = Path("classes/red/0.png")
    os.utime(picture, (1, 1))
    assert said_of("classes") == []
    Image.new("RGB", (32, 32), (9, 9, 9)).save(picture)
    [line] = said_of("classes")
    assert "classes has changed since classes was built from it" in line


def test_coco_annotations_beside_their_images_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """COCO's own layout: `annotations/instances.json` beside the folders of images."""
    monkeypatch.chdir(tmp_path)
    for folder in ("coco/annotations", "coco/images", "coco/others"):
        Path(folder).mkdir(parents=True)
    images = []
    annotations = []
    for number, (kind, colour) in enumerate([(1, "red"), (2, "blue"), (1, "pink"), (2, "navy")]):
        Image.new("RGB", (64, 64), colour).save(f"coco/images/{number}.png")
        images.append({"id": number, "file_name": f"{number}.png", "width": 64, "height": 64})
        annotations.append(
            {"id": number, "image_id": number, "category_id": kind, "bbox": [8, 8, 40, 40]}
        )
    categories = [{"id": 1, "name": "cat"}, {"id": 2, "name": "dog"}]
    content = {"images": images, "annotations": annotations, "categories": categories}
    table = Path("coco/annotations/instances.json")
    table.write_text(json.dumps(content))
    assert recognise("coco").params["images"] == "../images"
    assert recognise(table).params["images"] == "../images"
    assert sn.build("coco").manifest.counts.questions > 0
