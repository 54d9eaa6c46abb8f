"""What is installed, against `importlib.metadata`."""

from __future__ import annotations

import sys
from importlib.metadata import distributions, entry_points
from pathlib import Path

import pytest

from snellen.installation import entry_points_of, installed_versions

PACKAGES = {found.metadata["Name"]: found.version for found in distributions()}


def test_versions_are_those_that_python_knows() -> None:
    assert len(PACKAGES) > 50
    assert installed_versions([*PACKAGES, "not-there"]) == PACKAGES


@pytest.mark.parametrize("prefix", ["pytest11", "console_scripts", "mkdocs.", "no.such"])
def test_entry_points_are_those_that_python_knows(prefix: str) -> None:
    groups = {group for group in entry_points().groups if group.startswith(prefix)}
    assert groups or prefix == "no.such"
    found = entry_points_of(prefix)
    assert found.keys() == groups
    assert all(
        dict(found[group]) == {p.name: p.value for p in entry_points(group=group)}
        for group in groups
    )


@pytest.mark.parametrize("metadata", ["strange_name-2.0.dist-info", "strange_name.egg-info"])
def test_a_package_is_found_in_either_form(
    metadata: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / metadata
    folder.mkdir()
    for name in ("METADATA", "PKG-INFO"):
        (folder / name).write_text("Metadata-Version: 2.1\nName: Strange-Name\nVersion: 2.0\n")
    (folder / "entry_points.txt").write_text("[snellen.metrics]\nstrange = strange_name:METRIC\n")
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])
    assert installed_versions(["Strange-Name"]) == {"Strange-Name": "2.0"}
    assert entry_points_of("snellen.")["snellen.metrics"] == {"strange": "strange_name:METRIC"}


def test_a_path_that_is_an_archive_or_is_not_there_is_no_obstacle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "library").write_bytes(b"PK\x05\x06" + bytes(18))
    monkeypatch.setattr(
        sys, "path", [*sys.path, str(tmp_path / "library"), str(tmp_path / "nowhere")]
    )
    assert installed_versions(["pytest"]) == {"pytest": PACKAGES["pytest"]}
