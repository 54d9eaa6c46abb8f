"""Every benchmark with a dataset on the hub: fetched by the hub's own client from a loopback hub, built, and asked.

Those with addresses are in test_places.py, those of the suite `modern` in test_modern.py. Most are for `make slow`.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

import mini_ehub
import mini_hub
import modern_metric_tables
import modern_tables
import reform
import test_ehub_hub
import test_lvlm_ehub
import test_mmbench
import test_modern
import test_published
from mmbench_rows import rotated, row
from place_servers import HubServer, Repo
from snellen.building.builder import build_benchmark
from snellen.catalogue import BenchmarkSpec, entries
from snellen.catalogue.places import HubSource, locked_commit
from snellen.fetching.sources import fetch_source, source_places
from test_parts import point_at

Maker = Callable[[Path], object]
"""Writes a dataset's files into a folder."""


def reform_eval(name: str) -> Maker:
    def make(to: Path) -> None:
        make_official, make_hub = mini_hub.DATASETS[name]
        make_hub(make_official(to.with_name("official")), to)
        if name == "ocr-vqa":  # LVLM-eHub asks the split of which the hub has a file of its own
            [file] = to.glob("data/test-*.parquet")
            shutil.copy(file, file.with_name(file.name.replace("test", "validation")))

    return make


def pope(kind: str) -> Maker:
    return lambda to: test_ehub_hub.pope_table(
        mini_ehub.official(f"pope-{kind}", to.with_name("official")), kind, to
    )


def mmbench(config: str, split: str) -> Maker:
    rows = rotated(*(row(number, gold=number % 4) for number in range(4)))
    return lambda to: test_mmbench.as_parquet(rows, to / config / f"{split}-00000-of-00001.parquet")


def published(name: str) -> Maker:
    return lambda to: test_published.miniature(name, to / "huggingface_data")


def makers() -> dict[tuple[str, str], Maker]:
    """By benchmark and dataset."""
    found: dict[tuple[str, str], Maker] = {}
    for spec in (spec for spec in entries().values() if spec.suite != "modern"):
        for place in source_places(spec):
            if isinstance(place, HubSource):
                found[spec.name, place.repo] = _maker(spec, place)
    return found


def _maker(spec: BenchmarkSpec, place: HubSource) -> Maker:
    if place.importer:
        return published(spec.short)
    if spec.suite == "mmbench":
        return mmbench(place.config, place.split)
    if spec.suite == "modern" and spec.short in modern_metric_tables.TABLES:
        return lambda to: modern_metric_tables.write(spec.short, to)
    if spec.suite == "modern":
        return lambda to: modern_tables.write(spec.short, to)
    if spec.short.startswith("pope-"):
        return pope(place.split)
    if spec.short == "whoops-captions":
        return test_ehub_hub.whoops_table
    return reform_eval(spec.source.files_of.rpartition("/")[2] or spec.short)


def only(spec: BenchmarkSpec, repo: str) -> BenchmarkSpec:
    """The benchmark with one of its places alone."""
    [place] = (
        place
        for place in source_places(spec)
        if isinstance(place, HubSource) and place.repo == repo
    )
    hidden = {"places": (place,), "files_of": "", "written": False}
    return replace(spec, source=replace(spec.source, **hidden))


CASES = [
    pytest.param(
        *case,
        marks=[pytest.mark.slow] if number % 12 else [],
        id=f"{case[0]}-{case[1].partition('/')[0]}",
    )
    for number, case in enumerate(sorted(makers()))
]


@pytest.mark.parametrize(("name", "repo"), CASES)
def test_it_is_fetched_built_and_asked(
    name: str, repo: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "0")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    makers()[name, repo](tmp_path / "dataset")
    files: dict[str, Any] = {
        path.relative_to(tmp_path / "dataset").as_posix(): path.read_bytes()
        for path in (tmp_path / "dataset").rglob("*")
        if path.is_file()
    }
    spec = only(entries()[name], repo)
    [place] = spec.source.places
    assert isinstance(place, HubSource)
    commit = locked_commit(place)
    with HubServer({repo: Repo(files, older={commit: files} if commit else {})}) as hub:
        point_at(hub, monkeypatch)
        source = fetch_source(spec)
    built = build_benchmark(
        source.spec, source=source.folder, to=tmp_path / "built", recipe=reform.COMPLETE
    )
    assert built.manifest.counts.samples
    if spec.suite == "lvlm-ehub":
        test_lvlm_ehub.check_that_the_oracle_is_right(built, tmp_path / "runs")
    elif spec.suite == "modern":
        test_modern.holds_together(built, tmp_path / "runs")
    else:
        reform.holds_together(built, tmp_path / "runs")
