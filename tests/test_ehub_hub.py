"""LVLM-eHub's sets from the hub datasets of ReForm-Eval's: the same questions as from the official files."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest

import mini_ehub
import mini_hub
from snellen.api import build
from snellen.building.benchmark import Benchmark
from snellen.building.builder import build_benchmark
from snellen.catalogue import entries
from snellen.catalogue.places import BorrowedSource, HubSource, locked_commit
from snellen.scoring.answers import open_answers
from test_lvlm_ehub import check_that_the_oracle_is_right

SAME = ("docvqa", "flickr30k", "gqa", "ocr-vqa", "textvqa", "whoops-vqa")
ALIKE = ("nocaps", "ok-vqa", "scienceqa")
"""Their datasets lack ids, groups or tags (docs/evidence/reform-eval.md)."""


def both(name: str, to: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Benchmark, Benchmark]:
    """A set built from its hub dataset in the cache, without a network, and from its official files."""
    from huggingface_hub import constants

    folder = mini_hub.snapshot(
        entries()[f"lvlm-ehub/{name}"].source.files_of.rpartition("/")[2], to
    )
    if name == "ocr-vqa":
        _validation_of_ocr_vqa(to / "official" / "dataset.json", folder)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(to / "hub"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    fetched = build(f"lvlm-ehub/{name}", to=to / "fetched")
    return fetched, build_benchmark(
        entries()[f"lvlm-ehub/{name}"], source=to / "official", to=to / "built"
    )


def _validation_of_ocr_vqa(official: Path, folder: Path) -> None:
    """The miniature's books of split 3 become those of split 2, of which the hub has a file of its own."""
    books = json.loads(official.read_text())
    for book in books.values():
        book["split"] = {2: 3, 3: 2}.get(book["split"], book["split"])
    official.write_text(json.dumps(books))
    [file] = folder.glob("data/test-*.parquet")
    file.rename(file.with_name(file.name.replace("test", "validation")))


def asked(benchmark: Benchmark) -> Counter[object]:
    """Questions, options, images and accepted answers, whatever their ids, groups and tags."""
    answers = open_answers(benchmark.folder)
    return Counter(
        (
            one.question,
            one.options,
            one.context,
            one.images,
            answers[one.id, 0].options,
            answers[one.id, 0].texts,
        )
        for one in benchmark.samples()
    )


def test_every_set_that_names_their_hub_dataset_is_tested() -> None:
    named = {
        spec.short
        for spec in entries().values()
        if any(isinstance(p, BorrowedSource) for p in spec.source.places)
    }
    assert named == {*SAME, *ALIKE}


@pytest.mark.parametrize("name", SAME)
def test_it_makes_the_same_benchmark_as_the_official_files(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetched, official = both(name, tmp_path, monkeypatch)
    # The version is a digest of all questions, answers and images.
    assert fetched.manifest.version == official.manifest.version


@pytest.mark.parametrize("name", ALIKE)
def test_it_asks_the_same_questions_about_the_same_pictures(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetched, official = both(name, tmp_path, monkeypatch)
    assert asked(fetched) == asked(official)
    assert len(list(fetched.samples())) > 2
    check_that_the_oracle_is_right(fetched, tmp_path / "runs")


def test_what_is_built_names_the_dataset_the_commit_and_the_split(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    [place] = both("ocr-vqa", tmp_path, monkeypatch)[0].spec.source.places
    assert isinstance(place, HubSource)
    assert (place.repo, place.split, place.reader) == (
        "howard-hou/OCR-VQA",
        "validation",
        "reasked",
    )
    assert place.revision == locked_commit(entries()["reform-eval/ocr-vqa"].hub) != ""


def pope_table(official: Path, kind: str, to: Path) -> None:
    rows: mini_hub.Rows = [
        {
            "id": str(number),
            "question_id": str(row["question_id"]),
            "question": row["text"],
            "answer": row["label"],
            "image_source": Path(row["image"]).stem,
            "image": mini_hub.picture(official / "val2014" / row["image"]),
            "category": kind,
        }
        for number, row in enumerate(
            map(json.loads, (official / f"coco_pope_{kind}.json").read_text().splitlines())
        )
    ]
    types = dict.fromkeys(rows[0], pa.string()) | {"image": mini_hub.PICTURE}
    mini_hub.write(to / "Full" / f"{kind}-00000-of-00001.parquet", rows, types)


@pytest.mark.parametrize("kind", ["random", "popular", "adversarial"])
def test_pope_asks_the_same_from_the_hub(kind: str, tmp_path: Path) -> None:
    official, spec = (
        mini_ehub.official(f"pope-{kind}", tmp_path / "official"),
        entries()[f"lvlm-ehub/pope-{kind}"],
    )
    pope_table(official, kind, tmp_path / "hub")
    fetched = build_benchmark(spec.from_hub(), source=tmp_path / "hub", to=tmp_path / "fetched")
    assert asked(fetched) == asked(build_benchmark(spec, source=official, to=tmp_path / "built"))
    assert {answer.tags["label"] for answer in open_answers(fetched.folder).values()} == {
        "yes",
        "no",
    }


def whoops_table(to: Path) -> Path:
    """The dataset with the captions, and beside it their official files, whose folder is returned."""
    official = mini_ehub.official("whoops-captions", to.with_name("official"))
    rows: mini_hub.Rows = [
        {
            "image": mini_hub.picture(official / "whoops_images" / row["filename"]),
            "image_id": Path(row["filename"]).stem,
            "crowd_captions": row["caption"],
        }
        for row in json.loads((official / "whoops_captions.json").read_text())
    ]
    types = {"image": mini_hub.PICTURE, "image_id": pa.string(), "crowd_captions": mini_hub.TEXTS}
    mini_hub.write(to / "TEST/test/0000.parquet", rows, types)
    return official


def test_the_captions_of_whoops_are_the_same_from_the_hub(tmp_path: Path) -> None:
    official, spec = whoops_table(tmp_path / "hub"), entries()["lvlm-ehub/whoops-captions"]
    fetched = build_benchmark(spec.from_hub(), source=tmp_path / "hub", to=tmp_path / "fetched")
    assert asked(fetched) == asked(build_benchmark(spec, source=official, to=tmp_path / "built"))
