"""SpatialSense: built from files in the form that its README shows, and asked."""

from __future__ import annotations

import json
from pathlib import Path

import small
import snellen as sn
from snellen.building.builder import build_benchmark
from snellen.catalogue import entries
from snellen.scoring.answers import open_answers


def relation(number: int, predicate: str, label: bool) -> dict[str, object]:
    return {
        "_id": f"59fbffe4f25c8070bb77ec{number}",
        "predicate": predicate,
        "subject": {"name": "cat", "x": 157, "y": 317, "bbox": [230, 434, 31, 264]},
        "object": {"name": "ground", "x": 148, "y": 402, "bbox": [196, 500, 3, 278]},
        "label": label,
    }


def image(address: str, split: str, *relations: dict[str, object]) -> dict[str, object]:
    record = {"url": address, "nsid": "10392797@N03", "height": 500, "width": 281}
    return {**record, "split": split, "annotations": list(relations)}


def write(to: Path) -> Path:
    """Two images of the test split, one of each source, and one of training."""
    records = [
        image("https://farm4.staticflickr.com/3543/a.jpg", "train", relation(10, "on", True)),
        image(
            "https://farm4.staticflickr.com/3543/b.jpg",
            "test",
            relation(11, "on", True),
            relation(12, "to the left of", False),
        ),
        image("/home/data/nyu/c.jpg", "test", relation(13, "under", False)),
    ]
    for name in ("flickr/a", "flickr/b", "nyu/c"):
        path = to / f"images/{name}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(small.picture(len(name)))
    (to / "annotations.json").write_text(json.dumps(records))
    return to


def test_relations_of_the_test_split_become_questions_of_yes_and_no(tmp_path: Path) -> None:
    spec = entries()["modern/spatialsense"]
    benchmark = build_benchmark(spec, source=write(tmp_path / "files"), to=tmp_path / "built")
    samples = list(benchmark.samples())
    answers = open_answers(benchmark.folder)
    golds = {sample.question: answers[sample.id, 0].texts for sample in samples}
    assert golds == {
        "Is it true that the cat is on the ground?": ("yes",),
        "Is it true that the cat is to the left of the ground?": ("no",),
        "Is it true that the cat is under the ground?": ("no",),
    }
    assert samples[0].images == samples[1].images != samples[2].images

    def accuracy(model: object, name: str) -> float | None:
        results = sn.evaluate(model, str(benchmark.folder), runs=tmp_path, name=name)
        return results.value("typed_match", benchmark="modern/spatialsense")

    assert accuracy("snellen:oracle", "oracle") == 1.0
    assert accuracy("snellen:uniform", "uniform") < 1.0
    assert accuracy("snellen:always-a", "a") < 1.0
    assert accuracy(sn.Scripted(lambda request: "Yes."), "yes") == 1 / 3
