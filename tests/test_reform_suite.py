"""The whole of ReForm-Eval in miniature: 61 benchmarks, both methods, one command, eight dimensions."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

import mini_text
import small
import test_reform_classes as classes
import test_reform_inference as inference
import test_reform_knowledge as knowledge
import test_reform_spatial as spatial
import test_reform_vqa as vqa
from snellen.catalogue import suite_facts
from snellen.runs.run_folder import read_manifest
from snellen.suites.reform_eval.published import published_entries
from test_published import miniature
from test_reform_coco import coco_objects


@pytest.mark.slow
def test_the_tiny_model_takes_the_whole_suite_by_both_methods(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SNELLEN_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    for name in published_entries():
        miniature(name, tmp_path / "data")
    assert small.command(capsys, "import", "reform-eval", "data")[0] == 0
    asked = ["--method", "both", "--limit", "1", "--name", "all", "--json"]
    code, shown, _ = small.command(capsys, "run", "snellen:tiny", "reform-eval", *asked)
    assert code == 0
    manifest = read_manifest(tmp_path / "runs" / "all")
    assert len(manifest.benchmarks) == 61
    assert set(manifest.protocols) == {"instability", "likelihood?m=5", "vanilla"}
    rows = [json.loads(line) for line in shown.splitlines()]
    capable = {
        method: {
            row["dimension"]
            for row in rows
            if row["metric"] in ("capability", "headline") and row["method"] == method
        }
        for method in ("generation", "likelihood")
    }
    titles = suite_facts()["reform-eval"].dimensions
    assert capable["generation"] == {*titles, "*"}
    # The paper evaluates no likelihood of scene text and descriptions.
    assert capable["likelihood"] == {*titles, "*"} - {"STP", "Desc"}
    assert all(row["errors"] == 0 for row in rows)
    page = (tmp_path / "runs" / "all" / "report.html").read_text("utf-8")
    assert 'aria-label="Capability by dimension, generation"' in page
    assert "partial, without" not in page
    for title in titles.values():
        # The radar breaks names into two lines.
        assert f"{title} (" in page


def official(folder: Path) -> Path:
    """Miniatures of the official files of all 61, each in a folder of its own."""
    makers: dict[str, Callable[[Path], object]] = {
        **mini_text.MINIATURES,
        **{name: make for name, (make, _) in classes.SOURCES.items()},
        **{
            name: make for name, (make, _) in {**inference.MINIATURES, **spatial.MINIATURES}.items()
        },
        **knowledge.LAYOUTS,
        **vqa.LAYOUTS,
        "mscoco-count": vqa.coco_qa,
        **dict.fromkeys(["mscoco-mci", "mscoco-goi", "mscoco-mos"], coco_objects),
    }
    folder.mkdir()
    for name, make in makers.items():
        make(folder / name)
    return folder


def test_all_61_are_counted_and_built_from_official_files_in_one_command_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SNELLEN_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    classes.needs_wordnet()
    source = str(official(tmp_path / "official"))
    code, shown, _ = small.command(capsys, "verify", "reform-eval", "--source", source, "--json")
    counted = {
        row["benchmark"].partition("/")[2]: row for row in map(json.loads, shown.splitlines())
    }
    assert code == 0 and set(counted) == set(published_entries())
    assert {row["state"] for row in counted.values()} <= {"differs", "as published"}
    assert all(row["why"] for row in counted.values() if row["state"] == "differs")
    asked = ["--source", source, "--distractors", "pool", "--ratio", "1"]
    code, shown, said = small.command(capsys, "build", "reform-eval", *asked)
    assert code == 0, said
    assert shown.count("built reform-eval/") == 61
    code, _, _ = small.command(
        capsys, "run", "snellen:oracle", "reform-eval", "--limit", "2", "--name", "oracle"
    )
    assert code == 0
    assert len(read_manifest(tmp_path / "runs" / "oracle").benchmarks) == 61
