"""Every entry that is fetched from addresses: archives of their true layout, from a server, to the same benchmark."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

import mini_text
import mmbench_rows
import reform
import test_reform_classes as classes
import test_reform_coco as coco
import test_reform_inference as inference
import test_reform_spatial as spatial
import test_reform_vqa as vqa
from place_servers import FileServer
from snellen.building.builder import build_benchmark
from snellen.catalogue import BenchmarkSpec, entries
from snellen.catalogue.places import HubSource, ManualSource, SourceFile, UrlSource, source_lock
from snellen.errors import NoSourceError
from snellen.fetching.sources import announce_fetch, fetch_source, is_fetchable, source_places
from snellen.fetching.user_callbacks import UserCallbacks, agree_to_all, using_callbacks

Packed = dict[str, bytes]
"""What lies at the addresses of a place, by the last part of each."""


def zipped(folder: Path, names: dict[str, str]) -> bytes:
    """A zip of files and folders, by what they are called in it, with what zips of a Mac hold besides."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("__MACOSX/._x", b"x")
        for name, inside in names.items():
            for path in (
                [folder / name] if (folder / name).is_file() else sorted((folder / name).rglob("*"))
            ):
                if path.is_file():
                    archive.write(
                        path, inside + str(path.relative_to(folder / name)).removeprefix(".")
                    )
    return packed.getvalue()


def tarred(folder: Path, *names: str) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for name in names:
            archive.add(folder / name, name)
    return packed.getvalue()


def coco_val2017(make: Callable[[Path], object]) -> Callable[[Path], tuple[Path, Packed]]:
    def both(folder: Path) -> tuple[Path, Packed]:
        make(folder)
        return folder, {
            "annotations_trainval2017.zip": zipped(folder, {"annotations": "annotations/"}),
            "val2017.zip": zipped(folder, {"val2017": "val2017/"}),
        }

    return both


def vqav2(folder: Path) -> tuple[Path, Packed]:
    questions, notes = (
        "v2_OpenEnded_mscoco_val2014_questions.json",
        "v2_mscoco_val2014_annotations.json",
    )
    vqa.vqav2(folder)
    return folder, {
        "v2_Questions_Val_mscoco.zip": zipped(folder, {questions: questions}),
        "v2_Annotations_Val_mscoco.zip": zipped(folder, {notes: notes}),
        "val2014.zip": zipped(folder, {"val2014": "val2014/"}),
    }


def textocr(folder: Path) -> tuple[Path, Packed]:
    mini_text.textocr(folder)
    return folder, {
        "TextOCR_0.1_val.json": (folder / "TextOCR_0.1_val.json").read_bytes(),
        "train_val_images.zip": zipped(folder, {"train_images": "train_images/"}),
    }


def ic15(folder: Path) -> tuple[Path, Packed]:
    """MMOCR's list of 1,811 words, whose paths are those of its own layout."""
    pictures = "textrecog_imgs/test"
    mini_text.ic15(folder / "authors")
    (folder / "textrecog_imgs").mkdir()
    (folder / "authors" / "ch4_test_word_images_gt").rename(folder / pictures)
    words = [
        {"img_path": f"{pictures}/word_{number}.png", "instances": [{"text": word}]}
        for number, word in enumerate(mini_text.WORDS, 1)
    ]
    listed = reform.write_json(
        folder / "textrecog_test_1811.json", {"metainfo": {}, "data_list": words}
    )
    return folder, {
        "ch4_test_word_images_gt.zip": zipped(folder, {pictures: ""}),
        "textrecog_test_1811.json": listed.read_bytes(),
    }


def gic15(folder: Path) -> tuple[Path, Packed]:
    mini_text.gic15(folder)
    return folder, {
        "ch4_test_images.zip": zipped(folder, {"ch4_test_images": ""}),
        "Challenge4_Test_Task4_GT.zip": zipped(folder, {"Challenge4_Test_Task4_GT": ""}),
    }


def flowers102(folder: Path) -> tuple[Path, Packed]:
    official = classes.flowers102_lists(folder) / "flowers-102"
    return official, {
        "102flowers.tgz": tarred(official, "jpg"),
        **{name: (official / name).read_bytes() for name in ("imagelabels.mat", "setid.mat")},
    }


def cute80(folder: Path) -> tuple[Path, Packed]:
    official = mini_text.cute80(folder) / "CUTE80"
    return official, {
        "timage.tar.gz": tarred(official, "timage"),
        "test_label.txt": (official / "test_label.txt").read_bytes(),
    }


def in_one(
    make: Callable[[Path], Any], name: str, pack: Callable[[Path], bytes]
) -> Callable[[Path], tuple[Path, Packed]]:
    def both(folder: Path) -> tuple[Path, Packed]:
        make(folder)
        return folder, {name: pack(folder)}

    return both


def pets37(folder: Path) -> tuple[Path, Packed]:
    classes.pets37(folder)
    return folder, {
        "images.tar.gz": tarred(folder, "images"),
        "annotations.tar.gz": tarred(folder, "annotations"),
    }


LAYOUTS: dict[str, Callable[[Path], tuple[Path, Packed]]] = {
    "cifar10": in_one(
        classes.cifar10,
        "cifar-10-python.tar.gz",
        lambda folder: tarred(folder, "cifar-10-batches-py"),
    ),
    "clevr": in_one(
        spatial.clevr,
        "CLEVR_v1.0.zip",
        lambda folder: zipped(folder, {"CLEVR_v1.0": "CLEVR_v1.0/"}),
    ),
    "coco-caption": coco_val2017(mini_text.coco_caption),
    "cute80": cute80,
    "flowers102": flowers102,
    "funsd": in_one(
        mini_text.funsd, "dataset.zip", lambda folder: zipped(folder, {"dataset": "dataset/"})
    ),
    "gic15": gic15,
    "gtextocr": textocr,
    "ic15": ic15,
    "iiit5k": in_one(
        mini_text.iiit5k, "IIIT5K-Word_V3.0.tar.gz", lambda folder: tarred(folder, "IIIT5K")
    ),
    **{f"mscoco-{task}": coco_val2017(coco.coco_objects) for task in ("goi", "mci", "mos")},
    **{f"mscoco-{task}": coco_val2017(inference.coco) for task in ("itm", "its")},
    "pets37": pets37,
    "textocr": textocr,
    "vqa-mt": vqav2,
    "vqav2": vqav2,
}


def at(server: FileServer, spec: BenchmarkSpec) -> BenchmarkSpec:
    """An entry whose files lie on a server of one's own, with the digests of what lies there."""
    [place, *_] = (place for place in source_places(spec) if isinstance(place, UrlSource))
    files = tuple(
        replace(
            file,
            url=f"{server.url}/{file.url.rpartition('/')[2]}",
            sha256=server.files[file.url.rpartition("/")[2]].sha256,
        )
        for file in place.files
    )
    return replace(
        spec, source=replace(spec.source, places=(replace(place, files=files),), files_of="")
    )


@pytest.mark.parametrize("name", LAYOUTS)
def test_what_is_fetched_is_the_benchmark_of_the_official_files(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SNELLEN_DATA", str(tmp_path / "data"))
    official, packed = LAYOUTS[name](tmp_path / "official")
    with FileServer(packed) as server:
        source = fetch_source(at(server, entries()[f"reform-eval/{name}"]))
        fetched = build_benchmark(
            source.spec, source=source.folder, to=tmp_path / "fetched", recipe=reform.COMPLETE
        )
        assert len(server.log) == len(packed)
        fetch_source(at(server, entries()[f"reform-eval/{name}"]))
        assert len(server.log) == len(packed)
    assert fetched.manifest.version == reform.made(name, official, tmp_path).manifest.version
    reform.holds_together(fetched, tmp_path / "runs")


@pytest.mark.parametrize(
    "name",
    [
        spec.name
        for spec in entries().values()
        if spec.suite in ("mmbench", "modern")
        and any(isinstance(place, UrlSource) for place in spec.source.places)
    ],
)
def test_a_table_of_mmbenchs_form_is_fetched(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SNELLEN_DATA", str(tmp_path / "data"))
    spec = entries()[name]
    [file] = (
        file for place in spec.source.places if isinstance(place, UrlSource) for file in place.files
    )
    table = mmbench_rows.write(
        [mmbench_rows.row(number) for number in range(6)], tmp_path / file.file_name
    )
    with FileServer({file.file_name: table}) as server:
        source = fetch_source(at(server, spec))
    assert (
        build_benchmark(
            source.spec, source=source.folder, to=tmp_path / "built"
        ).manifest.counts.samples
        == 6
    )


@pytest.mark.parametrize("name", ["cifar10", "funsd", "pets37"])
def test_the_files_of_another_benchmark_are_its_own(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SNELLEN_DATA", str(tmp_path / "data"))
    _, packed = LAYOUTS[name](tmp_path / "official")
    with FileServer(packed) as server:
        source = fetch_source(at(server, entries()[f"lvlm-ehub/{name}"]))
    assert build_benchmark(
        source.spec, source=source.folder, to=tmp_path / "built"
    ).manifest.counts.samples


def test_every_entry_with_addresses_is_tested() -> None:
    specs = [
        s
        for s in entries().values()
        if any(isinstance(place, UrlSource) for place in s.source.places)
    ]
    assert {spec.short for spec in specs if spec.suite == "reform-eval"} == set(LAYOUTS)
    assert {spec.suite for spec in specs} == {"reform-eval", "mmbench", "lvlm-ehub", "modern"}


def test_the_lock_knows_what_is_fetched() -> None:
    known = source_lock()
    for spec in entries().values():
        for place in spec.source.places:
            if isinstance(place, UrlSource):
                for file in place.files:
                    assert file.url in known.files, spec.name
                    unknown = (
                        file.file_name == "ch4_test_word_images_gt.zip"
                    )  # the only one without a digest
                    assert (
                        bool(known.files[file.url].sha256 or known.files[file.url].md5) != unknown
                    )
            if isinstance(place, HubSource):
                assert place.repo in known.hub and not place.revision, spec.name


def test_what_no_machine_can_fetch_says_what_to_do() -> None:
    spec = entries()["lvlm-ehub/wordart"]
    [place] = (place for place in source_places(spec) if isinstance(place, ManualSource))
    with pytest.raises(NoSourceError) as caught:
        fetch_source(spec)
    said = str(caught.value)
    assert "cannot be downloaded automatically: " in said and place.url in said and "\n" not in said
    assert said.endswith("then sn.build('lvlm-ehub/wordart', source=FOLDER)")


def test_the_docs_name_all_that_is_had_by_hand() -> None:
    page = (
        (Path(__file__).parents[1] / "docs/reference/manual-downloads.md")
        .read_text()
        .partition("## By hand")[2]
    )
    for spec in entries().values():
        if not is_fetchable(spec) and (place := next(iter(source_places(spec)), None)):
            assert isinstance(place, ManualSource)
            assert f"| `{spec.name}` | {place.what} | {place.url} |" in page


def test_a_source_in_one_file_needs_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SNELLEN_DATA", str(tmp_path / "data"))
    rows = b"".join(
        json.dumps({"question": f"{n}?", "answer": "a"}).encode() + b"\n" for n in range(3)
    )
    with FileServer({"rows.jsonl": rows}) as server:
        file = SourceFile(f"{server.url}/rows.jsonl", sha256=hashlib.sha256(rows).hexdigest())
        spec = entries()["reform-eval/vqav2"]
        source = fetch_source(
            replace(spec, source=replace(spec.source, places=(UrlSource((file,)),)))
        )
    assert [path.name for path in source.folder.glob("*.jsonl")] == ["rows.jsonl"]


def test_an_entry_whose_distractors_a_model_writes_says_so() -> None:
    asked = {
        spec.name
        for spec in entries().values()
        if "prompt" in spec.source.params.get("distractors", {})
    }
    theirs = {"reform-eval/vqa-mt", "reform-eval/k-viquae"}  # which ask VQA v2's and ViQuAE's again
    assert {spec.name for spec in entries().values() if spec.source.written} == asked | theirs


def test_it_is_asked_before_much_is_fetched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SNELLEN_DATA", str(tmp_path))
    told = "3 benchmarks will be fetched and built, 1.1 GB or more"
    said: list[str] = []
    asked: list[str] = []
    coco = [entries()[f"reform-eval/mscoco-{task}"] for task in ("goi", "mci", "mos")]
    with using_callbacks(UserCallbacks(said.append, agree=asked.append)):
        announce_fetch(coco)
        assert said == [told] and not asked
        monkeypatch.setattr("snellen.fetching.sources.CONSENT_BYTES", 1_000_000_000)
        with pytest.raises(NoSourceError, match="nothing was fetched; choose fewer benchmarks"):
            announce_fetch(coco)
        agree_to_all()
        announce_fetch(coco)
    assert asked == [f"{told}; continue?"]
