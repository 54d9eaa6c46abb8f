"""What is made when it is first used: entries of packages, patterns, compiled templates."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import platformdirs
import pytest

from snellen.common.late import late_pattern
from snellen.report.rendering import templates

ENTRY = """
name = "made/{name}"
title = "Made"
formulation = "text"
dimension = "Things"
task = "naming"
metrics = ["exact_match"]
licence = "CC0-1.0"

[source]
reader = "mapped"
"""


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A folder for the path, with a package whose suite has one entry in a file of its name and one in another's."""
    entries = tmp_path / "made_suite" / "entries"
    entries.mkdir(parents=True)
    (tmp_path / "made_suite" / "__init__.py").touch()
    (tmp_path / "made_suite" / "suite.toml").write_text(
        'name = "made"\ntitle = "Made"\n[dimensions]\nThings = "things"\n'
    )
    (entries / "right.toml").write_text(ENTRY.format(name="right"))
    (entries / "wrong.toml").write_text(ENTRY.format(name="other"))
    metadata = tmp_path / "made_suite-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: made-suite\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text("[snellen.suites]\nmade = made_suite\n")
    return tmp_path


def shown(package: Path, name: str) -> tuple[int, str]:
    code = (
        f"from snellen.catalogue import select; print(*(spec.title for spec in select({name!r})))"
    )
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(package), *filter(None, sys.path)]),
    }
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, env=environment
    )
    return done.returncode, done.stdout.strip() or done.stderr.strip().splitlines()[-1]


def test_an_entry_of_a_package_is_found_by_the_name_of_its_file(package: Path) -> None:
    assert shown(package, "made/right") == (0, "Made")


def test_an_entry_that_has_another_name_than_its_file_is_refused_with_the_file(
    package: Path,
) -> None:
    code, line = shown(package, "made/wrong")
    assert code
    assert "wrong.toml" in line
    assert "name = 'made/other', but a benchmark in this file must be named 'made/wrong'" in line


@pytest.mark.parametrize("method", ["search", "match", "fullmatch", "finditer", "findall", "split"])
@pytest.mark.parametrize("flags", [0, re.IGNORECASE])
def test_a_late_pattern_does_what_a_pattern_does(method: str, flags: int) -> None:
    text, found = "a cat and a Cat", list[Any]()
    for pattern in (late_pattern("(c)at", flags), re.compile("(c)at", flags)):
        match getattr(pattern, method)(text):
            case re.Match() as one:
                found.append([(one.span(), one.groups())])
            case list() | None as plain:
                found.append(plain)
            case every:
                found.append([(one.span(), one.groups()) for one in every])
    assert found[0] == found[1]


def test_a_late_pattern_that_is_none_fails_when_it_is_used() -> None:
    broken = late_pattern("(")
    with pytest.raises(re.error):
        broken.search("")


def test_templates_are_compiled_once_for_all_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(platformdirs, "user_cache_dir", lambda *_, **__: str(tmp_path))
    first = templates().get_template("offline.html")
    kept = {path: path.stat().st_mtime_ns for path in (tmp_path / "templates").iterdir()}
    assert kept
    again = templates().get_template("offline.html")
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "templates").iterdir()} == kept
    assert again.root_render_func.__code__ == first.root_render_func.__code__


def test_a_folder_that_cannot_be_written_is_done_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setattr(platformdirs, "user_cache_dir", lambda *_, **__: str(tmp_path / "file"))
    assert templates().get_template("offline.html")


def test_a_compiled_template_that_is_broken_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(platformdirs, "user_cache_dir", lambda *_, **__: str(tmp_path))
    templates().get_template("offline.html")
    for path in (tmp_path / "templates").iterdir():
        path.write_bytes(path.read_bytes()[:40])
    assert templates().get_template("offline.html")
