"""Where a folder or table of that name lies beside the user, messages about an unknown name say how to build it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

import small
import snellen as sn
from snellen.errors import SnellenError


@pytest.fixture(autouse=True)
def own_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SNELLEN_HOME", str(tmp_path / "home"))
    for colour in ("red", "blue"):
        Path("classes", colour).mkdir(parents=True)
        for number in range(4):
            Image.new("RGB", (20 + number, 20), colour).save(f"classes/{colour}/{number}.png")
    small.write(small.rows(4), Path("mine.jsonl"))
    Path("empty").mkdir()


@pytest.mark.parametrize(
    "words",
    [
        ("run", "snellen:tiny", "classes"),
        ("run", "snellen:tiny", "./classes"),
        ("report", "classes"),
        ("score", "classes"),
        ("pack", "classes"),
        ("export", "classes", "--as", "dataset"),
        ("lint", "classes"),
    ],
)
def test_every_verb_says_that_a_folder_can_be_built(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = small.command(capsys, *words)
    assert (code, out) == (2, "")
    assert "from the folder classes with `snellen build classes`" in err.splitlines()[-1]


def test_what_the_message_says_works(capsys: pytest.CaptureFixture[str]) -> None:
    assert small.command(capsys, "build", "classes")[0] == 0
    assert small.command(capsys, "run", "snellen:always-a", "classes", "--limit", "2")[0] == 0


@pytest.mark.parametrize(
    "call",
    [
        lambda: sn.evaluate("snellen:tiny", "classes"),
        lambda: sn.load_benchmark("classes"),
        lambda: sn.score("classes"),
        lambda: sn.load_run("classes"),
    ],
)
def test_python_says_so_too(call: Callable[[], Any]) -> None:
    with pytest.raises(SnellenError, match=r"from the folder classes with sn.build\('classes'\)"):
        call()


def test_a_table_is_found_without_its_suffix_and_an_empty_folder_is_no_hint(
    capsys: pytest.CaptureFixture[str],
) -> None:
    code, _, err = small.command(capsys, "run", "snellen:tiny", "mine")
    assert code == 2 and err == (
        "snellen: no benchmark is named 'mine'; build one from the file mine.jsonl with `snellen build mine.jsonl`\n"
    )
    code, _, err = small.command(capsys, "run", "snellen:tiny", "empty")
    assert code == 2 and err.startswith("snellen: unknown benchmark 'empty'")
