"""A run whose numbers people have corrected says so where the package that corrects them is not installed."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import pytest

import snellen as sn
from snellen import registry
from snellen.cli import main
from snellen.interchange.exports.packing import pack_runs
from snellen.runs.run_folder import read_manifest
from snellen.viewing.indexing import run_stamp
from view_runs import serving


def test_an_audit_that_cannot_be_used_is_announced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    sn.evaluate("snellen:always-a", "eyechart/shape", "vanilla", limit=4, runs=tmp_path, name="run")
    targets = registry.targets

    def targets_without_lab(group: registry.Group) -> dict[str, Any]:
        return {} if group == "corrections" else targets(group)

    monkeypatch.setattr(registry, "targets", targets_without_lab)
    score(tmp_path / "run")
    assert "snellen-lab" not in capsys.readouterr().err
    (tmp_path / "run" / "audit.json").write_text("{}")
    said = "the labels of its audit need snellen-lab; without it, its numbers are not corrected"
    score(tmp_path / "run")
    assert f"{said}: pip install" in capsys.readouterr().err
    told: list[str] = []
    sn.evaluate(
        "snellen:always-a",
        "eyechart/shape",
        "vanilla",
        limit=4,
        runs=tmp_path,
        name="run",
        announce=told.append,
    )
    assert any(f"{said}: pip install" in line for line in told)
    with serving(tmp_path, index=tmp_path / "index.db") as client:
        assert f"{said[0].upper()}{said[1:]}." in client.get("/run", params={"run": "run"}).text


def test_rows_of_the_viewer_are_made_again_when_the_labels_of_an_audit_change(
    tmp_path: Path,
) -> None:
    sn.evaluate("snellen:always-a", "eyechart/shape", "vanilla", limit=4, runs=tmp_path, name="run")
    folder, manifest = tmp_path / "run", read_manifest(tmp_path / "run")
    stamps = [run_stamp(folder, manifest)]
    (folder / "labels.jsonl").write_text("\n")
    assert run_stamp(folder, manifest) == stamps[0]  # without an audit, labels change no number
    for file, text in (("audit.json", "{}"), ("labels.jsonl", "\n\n")):
        (folder / file).write_text(text)
        stamps.append(run_stamp(folder, manifest))
    assert len(set(stamps)) == 3


def test_an_audit_is_packed_with_its_run_by_the_harness_itself(tmp_path: Path) -> None:
    sn.evaluate("snellen:always-a", "eyechart/shape", "vanilla", limit=4, runs=tmp_path, name="run")
    (tmp_path / "run" / "audit.json").write_text("{}")
    assert "audit" in registry.own_targets("packed_files")
    pack_runs([tmp_path / "run"], tmp_path / "run.zip")
    with zipfile.ZipFile(tmp_path / "run.zip") as archive:
        assert "run/audit.json" in archive.namelist()


def score(run: Path) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["score", str(run)])
    assert not ended.value.code
