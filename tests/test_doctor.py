"""`snellen doctor`, and the install lines of messages: they name where this Snellen came from."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click
import pytest

import snellen
from snellen.cli import main
from snellen.installation import install_line, sibling_install_line

NOTHING = "a-package-that-nobody-has"


def install(
    folder: Path, monkeypatch: pytest.MonkeyPatch, came_from: dict[str, Any] | None, *requires: str
) -> None:
    """Puts an installed Snellen in front of the real one, as pip would write it."""
    info = folder / "snellen-9.0.dist-info"
    info.mkdir(parents=True)
    extras = "Provides-Extra: some\nProvides-Extra: more\nProvides-Extra: dev\n"
    needed = "".join(f"Requires-Dist: {text}\n" for text in requires)
    (info / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: snellen\nVersion: 9.0\n{extras}{needed}"
    )
    if came_from is not None:
        (info / "direct_url.json").write_text(json.dumps(came_from))
    monkeypatch.syspath_prepend(str(folder))


@pytest.mark.parametrize(
    ("came_from", "line", "server_line"),
    [
        (None, "pip install 'snellen[some]'", "pip install snellen-server"),
        (
            {"url": "file:///a%20b/c", "dir_info": {"editable": True}},
            "pip install -e '/a b/c[some]'",
            "pip install -e '/a b/c/packages/snellen-server'",
        ),
        (
            {"url": "file:///a/c", "dir_info": {}},
            "pip install '/a/c[some]'",
            "pip install '/a/c/packages/snellen-server'",
        ),
        (
            {"url": "file:///a/snellen.whl", "archive_info": {}},
            "pip install 'snellen[some] @ file:///a/snellen.whl'",
            "pip install snellen-server",
        ),
        (
            {"url": "https://host/s.git", "vcs_info": {"vcs": "git", "commit_id": "abc"}},
            "pip install 'snellen[some] @ git+https://host/s.git@abc'",
            "pip install 'snellen-server @ git+https://host/s.git@abc#subdirectory=packages/snellen-server'",
        ),
    ],
)
def test_the_install_line_names_where_this_snellen_came_from(
    came_from: dict[str, Any] | None,
    line: str,
    server_line: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    install(tmp_path, monkeypatch, came_from)
    assert install_line("some") == line
    assert install_line("") == line.replace("[some]", "")
    assert sibling_install_line("snellen-server") == server_line


def doctor(
    capsys: pytest.CaptureFixture[str], *words: str
) -> tuple[int, dict[str, dict[str, str]]]:
    with pytest.raises(SystemExit) as stopped:
        main(["doctor", *words, "--json"])
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    return int(stopped.value.code or 0), {row["name"]: row for row in rows}


def test_an_extra_is_there_when_all_that_it_and_its_extras_need_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    some = ('click>=1; extra == "some"', f'{NOTHING}; extra == "some" and python_version < "3"')
    install(
        tmp_path,
        monkeypatch,
        None,
        "rich",
        *some,
        'snellen[some]; extra == "more"',
        f'{NOTHING}; extra == "more"',
    )
    code, found = doctor(capsys)
    assert (
        code == 0
        and found["some"]["state"] == "good"
        and found["required packages"]["state"] == "good"
    )
    assert (found["more"]["state"], found["more"]["found"]) == ("absent", f"lacks {NOTHING}")
    assert found["more"]["what to do"] == "pip install 'snellen[more]'"
    assert doctor(capsys, "--require", "some")[0] == 0
    assert (
        doctor(capsys, "--require", "more")[0]
        == doctor(capsys, "--require", "some", "--require", "nil")[0]
        == 1
    )


def test_the_server_is_there_when_its_package_and_all_that_it_needs_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert doctor(capsys)[1]["snellen-server"]["state"] == "good"
    info = tmp_path / "snellen_server-9.0.dist-info"
    info.mkdir()
    needed = f"Requires-Dist: snellen[view]\nRequires-Dist: {NOTHING}\n"
    (info / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: snellen-server\nVersion: 9.0\n{needed}"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    found = doctor(capsys)[1]["snellen-server"]
    assert (found["state"], found["found"]) == (
        "absent",
        f"lacks {NOTHING}",
    )
    assert found["what to do"] == sibling_install_line("snellen-server")


def test_a_package_that_is_too_old_is_named_and_breaks_what_is_always_needed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    install(tmp_path, monkeypatch, None, "click>=999")
    code, found = doctor(capsys)
    assert code == 1 and found["required packages"]["state"] == "broken"
    assert found["required packages"]["found"].startswith("lacks click>=999 (installed: 8")


def test_a_snellen_on_the_path_that_is_not_installed_is_poor_and_not_absent(
    tmp_path: Path,
) -> None:
    packages = Path(click.__file__).parents[1]
    for entry in packages.iterdir():
        is_snellen = entry.name.lower().replace("_", "").lstrip("_").startswith("snellen")
        if not is_snellen and not entry.name.endswith(".pth"):
            (tmp_path / entry.name).symlink_to(entry)
    sources = Path(snellen.__file__).parents[1]
    code = (
        "from snellen.cli.verbs.doctor import diagnose_packages\n"
        "for row in diagnose_packages(): print(row.name, row.state, row.finding, sep='|')"
    )
    done = subprocess.run(
        [sys.executable, "-S", "-c", code],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(sources), str(tmp_path)])},
        capture_output=True,
        text=True,
        check=True,
    )
    [python, package] = [line.split("|") for line in done.stdout.splitlines()]
    assert python[:2] == ["Python", "good"]
    assert package[:2] == ["snellen", "poor"] and package[2].endswith("but not installed")


def test_the_table_ends_with_what_is_to_be_mended(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["doctor", "--require", "nonsense"])
    assert capsys.readouterr().out.splitlines()[-1] == "needs repair: nonsense"


def test_the_table_names_optional_parts_that_are_absent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    needs = [f'{NOTHING}; extra == "{extra}"' for extra in ("more", "dev")]
    install(tmp_path, monkeypatch, None, *needs)
    with pytest.raises(SystemExit):
        main(["doctor"])
    printed = capsys.readouterr()
    lines = printed.out.splitlines()
    assert lines[-1] == "nothing is broken"
    assert printed.err.startswith("next: `snellen ")
    # What only developers of Snellen need is not shown, unless it is required.
    [lacking] = [line for line in lines if f"lacks {NOTHING}" in line]
    assert lacking.split()[:3] == ["extras", "more", "absent"]
    with pytest.raises(SystemExit):
        main(["doctor", "--require", "dev"])
    assert capsys.readouterr().out.splitlines()[-1] == "needs repair: dev"
    # A pipe receives a table without the commands, which would make every line as long as the longest of them.
    assert lines[0].split() == ["part", "name", "state", "found"]
    assert "  an extra, or several: pip install 'snellen[more]'" in lines


@pytest.mark.skipif(find_spec("torch") is None, reason="waits for torch")
def test_torchvision_which_no_extra_brings_has_a_row(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["doctor", "--json"])
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    [row] = [row for row in rows if row["name"] == "torchvision"]
    if find_spec("torchvision") is not None:
        assert row["state"] == "good"
    else:
        assert row["state"] == "absent" and "Qwen-VL" in row["found"]
        assert row["what to do"] == "pip install torchvision"
