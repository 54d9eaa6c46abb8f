"""Benchmarks with clips, and with images in archives: fetched from a loopback hub, built, asked and scored."""

from __future__ import annotations

import io
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

import archived_tables
import clips
import place_servers
import snellen as sn
import test_modern
from place_servers import HubServer, Repo
from snellen.building.benchmark import Benchmark
from snellen.building.builder import build_benchmark
from snellen.catalogue import entries
from snellen.catalogue.entries import with_params
from snellen.catalogue.places import known_dataset, locked_commit
from snellen.errors import DataError, UnknownNameError
from snellen.fetching.inventory import kept_data
from snellen.fetching.parts import build_part
from snellen.fetching.sources import FetchedSource, copy_source, fetch_source, read_copied_source
from snellen.suites.modern.metrics import mean_relative_accuracy
from test_parts import point_at


def fetched(
    name: str, folder: Path, monkeypatch: pytest.MonkeyPatch, **settings: Any
) -> FetchedSource:
    """An entry's files, fetched from a hub that has a miniature of its dataset at the commit of the lock."""
    spec = with_params(entries()[f"modern/{name}"], settings)
    monkeypatch.setenv("HF_HUB_OFFLINE", "0")
    monkeypatch.setenv("SNELLEN_DATA", str(folder / "data"))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(folder / "hub"))
    files = place_servers.folder(archived_tables.write(name, folder / "dataset"))
    commit = locked_commit(spec.hub)
    with HubServer({spec.hub.repo: Repo(files, older={commit: files} if commit else {})}) as hub:
        point_at(hub, monkeypatch)
        return fetch_source(spec)


def built(source: FetchedSource, to: Path) -> Benchmark:
    return build_benchmark(source.spec, source=source.folder, to=to)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Benchmark]:
    """The benchmark of an entry, fetched and built when it is first asked for."""

    @cache
    def make(name: str) -> Benchmark:
        folder = tmp_path_factory.mktemp(name)
        with pytest.MonkeyPatch.context() as patch:
            return built(fetched(name, folder, patch), folder / "built")

    return make


def numbers(benchmark: Benchmark, sample: Any) -> list[int]:
    return [clips.number_shown(benchmark.images.read(image)) for image in sample.images]


@pytest.mark.parametrize("name", archived_tables.MAKERS)
def test_it_is_fetched_built_and_asked(
    name: str, tmp_path: Path, made: Callable[[str], Benchmark]
) -> None:
    benchmark = made(name)
    samples = list(benchmark.samples())
    assert len(samples) == (20 if name == "mvbench" else archived_tables.ROWS)
    test_modern.holds_together(benchmark, tmp_path / "runs")


@pytest.mark.parametrize("name", archived_tables.VIDEOS)
def test_the_frames_are_those_that_the_entry_declares(
    name: str, made: Callable[[str], Benchmark]
) -> None:
    benchmark = made(name)
    video, names = benchmark.spec.source.params["video"], benchmark.source_images()
    for sample in benchmark.samples():
        shown, total = numbers(benchmark, sample), archived_tables.FRAMES
        assert len(shown) == video["frames"] and shown == sorted(set(shown))
        times = [float(name.partition("#t=")[2]) for name in names[sample.id]]
        assert times == [number / 10 for number in shown]
        if video["rule"] == "uniform":
            assert shown[0] == 0 and shown[-1] >= total - 1


@pytest.mark.parametrize("name", ["mvbench", "nextqa-mc"])
def test_a_build_may_show_other_frames(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = fetched(name, tmp_path, monkeypatch, frames="3", rule="uniform")
    benchmark = built(source, tmp_path / "built")
    first = next(iter(benchmark.samples()))
    shown = numbers(benchmark, first)
    assert len(shown) == 3 and shown[1] == shown[2] // 2
    assert benchmark.manifest.spec.source.params["video"]["frames"] == 3
    with pytest.raises(UnknownNameError, match="frame"):
        with_params(source.spec, {"frame": "3"})
    with pytest.raises(DataError, match="frames is 3 in the entry; 'many' has another type"):
        with_params(source.spec, {"frames": "many"})


def test_questions_about_one_clip_share_its_frames_and_a_group(
    made: Callable[[str], Benchmark],
) -> None:
    benchmark = made("video-mme")
    first, second, third, *_ = benchmark.samples()
    assert (
        first.images == second.images != third.images and first.group == second.group != third.group
    )
    assert benchmark.manifest.counts.images == len(
        {image for sample in benchmark.samples() for image in sample.images}
    )
    assert benchmark.source_images()["002-1"][0] == "data/fFj-2_.mkv#t=0.000"


def test_numbers_are_scored_by_their_relative_accuracy(
    tmp_path: Path, made: Callable[[str], Benchmark]
) -> None:
    benchmark = made("vsi-bench")
    results = sn.evaluate(
        sn.Scripted(lambda request: "about 5 metres"), str(benchmark.folder), runs=tmp_path / "runs"
    )
    off = [abs(5 - gold) / gold for gold in (4.5, 5.5)]
    expected = [sum(one <= 1 - bound / 100 for bound in range(50, 100, 5)) / 10 for one in off]
    assert results.value("mean_relative_accuracy", benchmark="modern/vsi-bench") == pytest.approx(
        sum(expected) / 2
    )
    assert (
        mean_relative_accuracy("three", ["3"]) == 1 and mean_relative_accuracy("3 or 4", ["3"]) == 0
    )
    assert mean_relative_accuracy("1.5", ["3"]) == 0.1 and mean_relative_accuracy("7", ["3"]) == 0
    with pytest.raises(DataError, match="gold 'none at all' is not one number"):
        mean_relative_accuracy("3", ["none at all"])


def test_a_broken_clip_stops_the_build_with_its_question_and_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = fetched("mvbench", tmp_path, monkeypatch)
    folder = archived_tables.write("mvbench", tmp_path / "own")
    (folder / "vlnqa/egocentric_navigation.mp4").write_bytes(b"")
    (folder / "clevrer/video_validation/moving_count.mp4").unlink()
    with pytest.raises(DataError) as fault:
        build_benchmark(source.spec, source=folder, to=tmp_path / "built")
    assert (
        "the clip moving_count.mp4 is in none of" in str(fault.value)
        and not (tmp_path / "built").exists()
    )
    (folder / "clevrer/video_validation/moving_count.mp4").write_bytes(archived_tables.clip(1))
    with pytest.raises(
        DataError,
        match=r"json: \[0\]: the clip .*egocentric_navigation\.mp4 is empty; replace the file",
    ):
        build_benchmark(source.spec, source=folder, to=tmp_path / "built")


def test_what_archives_held_is_told_of_and_carried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = fetched("visulogic", tmp_path, monkeypatch)
    [kept] = [one for one in kept_data() if one.kind == "unpacked"]
    assert (kept.name, kept.benchmarks) == ("VisuLogic--VisuLogic", ("modern/visulogic",))
    folder = copy_source(source, tmp_path / "carried")
    carried = read_copied_source(entries()["modern/visulogic"], folder)
    assert carried and not any(path.is_symlink() for path in folder.rglob("*"))
    again = built(carried, tmp_path / "again")
    assert again.manifest.version == built(source, tmp_path / "built").manifest.version
    sizes = {
        Image.open(io.BytesIO(again.images.read(image))).size
        for s in again.samples()
        for image in s.images
    }
    assert sizes and again.source_images()["00000"] == ("images/00000.png",)
    assert build_part(entries()["modern/visulogic"], 1) is None


@pytest.mark.parametrize("name", archived_tables.MAKERS)
def test_an_entry_says_what_it_is_and_where_its_data_are(name: str) -> None:
    spec = entries()[f"modern/{name}"]
    assert (
        spec.dimension == archived_tables.IMAGES.get(name, "Video")
        and spec.licence
        and spec.origins
    )
    assert (
        len(locked_commit(spec.hub)) == 40
        or "no full commit known" in known_dataset(spec.hub).rests_on
    )
