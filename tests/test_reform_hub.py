"""Benchmarks from their datasets on the hub: the same questions as from the official files, read in a stream."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import mini_hub
import reform
import small
from mini_hub import COMMIT, DATASETS
from snellen.api import build
from snellen.building.benchmark import Benchmark
from snellen.building.builder import build_benchmark
from snellen.building.recipe import BuildInputs, Recipe
from snellen.catalogue import entries
from snellen.catalogue.places import HubSource
from snellen.errors import DataError
from snellen.fetching.sources import source_to_build
from snellen.formats.hub_parquet import ImageColumn, ParquetRow, ParquetSplit
from snellen.readers import classes
from snellen.reformulation.sampling import Sampling
from snellen.scoring.answers import open_answers
from test_reform_classes import needs_wordnet

SAME = (
    "vqav2",
    "vqa-mt",
    "gqa",
    "textvqa",
    "docvqa",
    "ocr-vqa",
    "coco-caption",
    "textcaps",
    "flickr30k",
    "whoops",
)
"""The dataset has all that the official files have."""
ALIKE = (
    "ok-vqa",
    "vizwiz",
    "scienceqa",
    "a-okvqa",
    "a-okvqra",
    "a-okvqar",
    "nocaps",
    "cifar10",
    "pets37",
)
"""It lacks ids, groups or tags, or names classes in another case."""


def made(name: str, folder: Path, to: Path, recipe: Recipe = reform.COMPLETE) -> Benchmark:
    entry, files, origin = source_to_build(
        entries()[f"reform-eval/{name}"], folder, hub=True, settings={}
    )
    return build_benchmark(
        entry, source=files, to=to, recipe=recipe, inputs=BuildInputs(origin=origin)
    )


def ready(name: str, tmp_path: Path) -> Path:
    if name in ("cifar10", "imagenet-1k"):
        needs_wordnet()
    return mini_hub.snapshot(name, tmp_path)


def changed(path: Path, **columns: Any) -> None:
    """The file with other columns; a column that becomes None is gone."""
    table = pq.read_table(path)
    for name, column in columns.items():
        place = table.column_names.index(name)
        table = table.remove_column(place)
        if column is not None:
            table = table.add_column(place, name, column)
    pq.write_table(table, path, row_group_size=5)


def test_every_known_dataset_is_tested() -> None:
    assert {
        spec.short
        for spec in entries().values()
        if spec.suite == "reform-eval"
        and any(isinstance(place, HubSource) for place in spec.source.places)
    } == set(DATASETS)
    assert {*SAME, *ALIKE} < set(DATASETS)


@pytest.mark.parametrize("name", DATASETS)
def test_a_dataset_goes_through_build_run_and_score(name: str, tmp_path: Path) -> None:
    benchmark = made(name, ready(name, tmp_path), tmp_path / "built")
    reform.holds_together(benchmark, tmp_path / "runs")


@pytest.mark.parametrize("name", SAME)
def test_it_makes_the_same_benchmark_as_the_official_files(name: str, tmp_path: Path) -> None:
    folder = mini_hub.snapshot(name, tmp_path)
    hub, official = (
        made(name, folder, tmp_path / "built"),
        reform.made(name, tmp_path / "official", tmp_path),
    )
    # The version is a digest of all questions, answers and images.
    assert hub.manifest.version == official.manifest.version
    assert list(hub.samples()) == list(official.samples())


def _asked(benchmark: Benchmark) -> Counter[tuple[str, str]]:
    texts = reform.golds(benchmark)
    return Counter((sample.question, texts[sample.id, 0].lower()) for sample in benchmark.samples())


@pytest.mark.parametrize("name", ALIKE)
def test_it_asks_the_same_questions_with_the_same_answers_as_the_official_files(
    name: str, tmp_path: Path
) -> None:
    folder = ready(name, tmp_path)
    hub, official = (
        made(name, folder, tmp_path / "built"),
        reform.made(name, tmp_path / "official", tmp_path),
    )
    assert _asked(hub) == _asked(official)
    accepted = [
        Counter(answer.texts for answer in open_answers(one.folder).values())
        for one in (hub, official)
    ]
    assert accepted[0] == accepted[1] or name == "pets37"


@pytest.mark.parametrize("name", ("vqav2", "docvqa", "nocaps", "scienceqa"))
def test_the_papers_part_is_drawn_from_it(name: str, tmp_path: Path) -> None:
    folder = mini_hub.snapshot(name, tmp_path)
    drawn = made(name, folder, tmp_path / "part", Recipe(distractors="pool")).manifest
    official = reform.made(
        name, tmp_path / "official", tmp_path, Recipe(distractors="pool")
    ).manifest
    assert (drawn.counts.samples, drawn.build_info.complete) == (
        official.counts.samples,
        official.build_info.complete,
    )


def test_only_pictures_of_chosen_questions_are_read(tmp_path: Path) -> None:
    folder = mini_hub.snapshot("docvqa", tmp_path)
    recipe = Recipe(sample=Sampling("random", count=2), distractors="pool")
    chosen = {sample.id for sample in made("docvqa", folder, tmp_path / "first", recipe).samples()}
    (path,) = folder.glob("DocVQA/*.parquet")
    table = pq.read_table(path)
    names = table.column("questionId").to_pylist()
    pictures = [
        cell if name in chosen else {"bytes": b"no image", "path": None}
        for name, cell in zip(names, table.column("image").to_pylist(), strict=True)
    ]
    changed(path, image=pa.array(pictures, mini_hub.PICTURE))
    # An image that is not one is found out when it is read; these two builds never meet it.
    assert {
        sample.id for sample in made("docvqa", folder, tmp_path / "second", recipe).samples()
    } == chosen
    with pytest.raises(DataError, match=r"row 0: .*image"):
        made("docvqa", folder, tmp_path / "whole")


@given(st.lists(st.integers(0, 59), max_size=40), st.integers(1, 25))
def test_a_picture_is_its_rows_in_any_order_and_groups_of_any_size(
    tmp_path_factory: pytest.TempPathFactory, asked: list[int], group: int
) -> None:
    folder = tmp_path_factory.mktemp("rows")
    contents = [
        {"bytes": bytes([number]) * (number * 700 % 5000 + 1), "path": None} for number in range(60)
    ]
    rows = [{"image": content} for content in contents]
    paths = [
        mini_hub.write(
            folder / f"{part}.parquet",
            rows[part * 30 :][:30],
            {"image": mini_hub.PICTURE},
            group=group,
        )
        for part in range(2)
    ]
    pictures = ImageColumn("image")
    for number in asked:
        packed = pictures.at(ParquetRow(paths[number // 30], number % 30, number))
        assert packed.read() == contents[number]["bytes"]


@pytest.mark.parametrize(
    ("bird", "machine"), [("crane", "crane"), ("crane bird", "crane"), ("crane", "crane2")]
)
def test_imagenets_two_cranes_are_told_apart_by_their_order(bird: str, machine: str) -> None:
    needs_wordnet()
    found = classes.imagenet_classes(
        ["tench, Tinca tinca", bird, "beaker", "cab, hack, taxi, taxicab", machine]
    )
    assert [one.stratum for one in found] == [
        "n01440764",
        "n02012849",
        "n02815834",
        "n02930766",
        "n03126707",
    ]


def test_a_class_is_no_distractor_for_another_of_the_same_name(tmp_path: Path) -> None:
    benchmark = made("imagenet-1k", ready("imagenet-1k", tmp_path), tmp_path / "built")
    golds = reform.golds(benchmark)
    options = {sample.id: set(sample.options) for sample in benchmark.samples()}
    # Rows 3 and 4 are a bird and a machine; neither is offered beside the other.
    assert golds["3", 0] == golds["4", 0] == "crane"
    assert options["3"] == options["4"] == {"crane", "tench", "goldfish", "tiger shark"}


def test_classes_out_of_order_are_refused(tmp_path: Path) -> None:
    folder = ready("imagenet-1k", tmp_path)
    (path,) = folder.glob("data/*.parquet")
    rows = [{"image": mini_hub.drawn(0), "label": 0}]
    types = {"image": mini_hub.PICTURE, "label": pa.int64()}
    mini_hub.write(
        path, rows, types, {"label": ["goldfish, Carassius auratus", "tench, Tinca tinca"]}
    )
    with pytest.raises(
        DataError, match="no class of WordNet is called 'tench, Tinca tinca'; is it ImageNet's list"
    ):
        made("imagenet-1k", folder, tmp_path / "built")


def test_it_is_fetched_from_the_cache_and_what_is_built_names_the_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from huggingface_hub import constants

    mini_hub.snapshot("vqav2", tmp_path)
    monkeypatch.setenv("SNELLEN_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    asked = ("build", "reform-eval/vqav2", "--hub", "--distractors", "pool")
    code, shown, _ = small.command(capsys, *asked)
    assert code == 0 and "built reform-eval/vqav2" in shown
    manifest = Benchmark(tmp_path / "home" / "benchmarks" / "reform-eval" / "vqav2").manifest
    assert manifest.spec.hub.revision == COMMIT
    assert manifest.spec.source.reader == "hub-rows"
    code, _, said = small.command(capsys, *asked, "--force", "--revision", "b" * 40)
    assert code == 2 and f"lmms-lab-encoder/VQAv2@{'b' * 40} is not in the hub's cache" in said
    code, _, said = small.command(capsys, "build", "reform-eval/vqav2", "--revision", COMMIT)
    assert code == 2 and "--revision selects a revision of the hub's dataset; add --hub" in said
    code, _, said = small.command(capsys, "build", "reform-eval/vsr", "--hub")
    assert code == 2 and "the catalogue has no hub dataset for reform-eval/vsr" in said


def test_a_folder_is_read_as_it_is_and_its_commit_is_known_by_its_name_only(tmp_path: Path) -> None:
    folder = mini_hub.snapshot("vqav2", tmp_path)
    with pytest.raises(
        DataError, match="has no revisions; remove either the revision 'main' or the folder"
    ):
        build("reform-eval/vqav2", hub=True, source=folder, revision="main", to=tmp_path / "built")
    copied = shutil.copytree(folder, tmp_path / "VQAv2")
    assert made("vqav2", copied, tmp_path / "built").manifest.spec.hub.revision == ""


@pytest.mark.parametrize(
    ("name", "column", "values", "fault"),
    [
        (
            "vqav2",
            "answers",
            None,
            r"validation-00000-of-00002.parquet: there is no column 'answers'; there are quest",
        ),
        (
            "vqav2",
            "question",
            [5] * 90,
            r"00000-of-00002.parquet: row 0: Expected `str`, got `int` - at `\$.question`",
        ),
        ("vqav2", "image", ["a.jpg"] * 90, r"row 1: image is a text, but not an image in base64"),
        (
            "vqav2",
            "image",
            [1.5] * 90,
            r"00000-of-00002.parquet: the column 'image' holds double, not images",
        ),
        (
            "pets37",
            "label",
            [*[0] * 7, 5, *[1] * 12],
            r"row 7: the label is 5, but classes are 0-4; has the split lab",
        ),
        (
            "pets37",
            "label",
            [-1] * 20,
            r"row 0: the label is -1, but classes are 0-4; has the split labels\?",
        ),
        ("pets37", "label_cat_dog", [2] * 20, r"row 0: the species is 2, but classes are 0-1"),
        (
            "docvqa",
            "answers",
            [["x"]] * 3 + [None] * 9,
            r"row 3: Object missing required field `answers`",
        ),
        (
            "docvqa",
            "answers",
            [["x"]] * 3 + [[]] * 9,
            r"row 3: answers is empty; is this the file of a",
        ),
        (
            "a-okvqa",
            "correct_choice_idx",
            [*range(4), 4, *[0] * 7],
            r"row 4: correct_choice_idx 4 but choices are 0-3",
        ),
        ("scienceqa", "answer", [9] * 14, r"row 0: answer 9 but choices are 0-\d"),
        (
            "gqa",
            "imageId",
            ["n1"] * 8 + ["n9"] * 12,
            r"row 8: there is no image n9 in testdev_balanced_images/testd",
        ),
        (
            "whoops",
            "question_answering_pairs",
            [[["a?"]]] * 6,
            r"row 0: Expected `array` of length 2, got 1",
        ),
        ("ocr-vqa", "answers", [["x"]] * 5, r"row 0: 4 questions and 1 answers"),
        ("coco-caption", "answer", [[" "]] * 12, r"row 0: answer is empty"),
    ],
)
def test_a_dataset_of_another_form_is_refused_with_file_and_row(
    name: str, column: str, values: list[Any] | None, fault: str, tmp_path: Path
) -> None:
    folder = mini_hub.snapshot(name, tmp_path)
    changed(
        sorted(folder.glob(entries()[f"reform-eval/{name}"].hub.rows[0]))[0],
        **{column: None if values is None else pa.array(values)},
    )
    with pytest.raises(DataError, match=fault):
        made(name, folder, tmp_path / "built")
    assert not (tmp_path / "built").exists()


@pytest.mark.parametrize(
    ("cell", "fault"),
    [
        (None, r"row 7: image holds no image; is it the dataset with images\?"),
        (
            {"bytes": None, "path": "x/7.jpg"},
            r"row 7: image holds no image, only its name x/7.jpg; write the names",
        ),
        ({"bytes": b"GIF?", "path": None}, r"row 7"),
    ],
)
def test_a_row_without_its_picture_is_refused(cell: Any, fault: str, tmp_path: Path) -> None:
    folder = mini_hub.snapshot("textcaps", tmp_path)
    (path,) = folder.glob("data/*.parquet")
    cells = pq.read_table(path).column("image").to_pylist()
    cells[7] = cell
    changed(path, image=pa.array(cells, mini_hub.PICTURE))
    with pytest.raises(DataError, match=fault):
        made("textcaps", folder, tmp_path / "built")


def test_classes_without_names_are_refused(tmp_path: Path) -> None:
    folder = mini_hub.snapshot("pets37", tmp_path)
    (path,) = folder.glob("data/*.parquet")
    pq.write_table(pq.read_table(path).replace_schema_metadata(), path)
    with pytest.raises(
        DataError, match="does not say which classes the numbers in 'label' stand for"
    ):
        made("pets37", folder, tmp_path / "built")


def test_a_split_with_a_missing_a_doubled_or_a_cut_file_is_refused(tmp_path: Path) -> None:
    folder = mini_hub.snapshot("vqav2", tmp_path)
    last = folder / "data" / "validation-00001-of-00002.parquet"
    content = last.read_bytes()
    last.write_bytes(content[:-100])
    with pytest.raises(DataError, match=r"00001-of-00002.parquet: .*; is the download complete\?"):
        made("vqav2", folder, tmp_path / "built")
    last.unlink()
    with pytest.raises(
        DataError, match=r"the file -00001-of-00002 of the split is missing; fetch all 2"
    ):
        made("vqav2", folder, tmp_path / "built")
    last.write_bytes(content)
    shutil.copy(last, last.with_name("validation-00001-of-00002-7775fd61bc6a3d98.parquet"))
    with pytest.raises(DataError, match="3 files of 2; two versions are mixed up there"):
        made("vqav2", folder, tmp_path / "built")


def test_a_folder_that_is_no_snapshot_is_refused_with_what_is_looked_for(tmp_path: Path) -> None:
    with pytest.raises(
        DataError,
        match=r"there is no data/val-\*.parquet; is this the dataset's folder, at its top\?",
    ):
        made("textcaps", tmp_path, tmp_path / "built")
    with pytest.raises(DataError, match=r"no folder with a\*.parquet; fetch it with hub=True"):
        ParquetSplit(None, ("a*.parquet",))
