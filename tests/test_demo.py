"""`snellen demo`: the table that the README promises, from real models, and a report beside it."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path

import pytest

from snellen.cli import main


def test_the_demo_prints_seven_rows_with_their_numbers_and_writes_a_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as stopped:
        main(["demo", "--limit", "1"])
    shown, said = capsys.readouterr()
    assert stopped.value.code == 0
    next_line = said.splitlines()[-1]
    assert next_line.startswith("next: `") and "view runs/demo` shows every question" in next_line
    for row in (
        "snellen:tiny, generation",
        "snellen:tiny, likelihood",
        "snellen:tiny-xs, generation",
        "snellen:tiny-xs, likelihood",
        "snellen:uniform, generation",
        "snellen:always-a, generation",
        "snellen:oracle, generation",
    ):
        [line] = [line for line in shown.splitlines() if line.startswith(row)]
        assert "n=" in line and "[" in line
    page = (tmp_path / "runs/demo/report.html").read_text("utf-8")
    assert page.count("snellen:tiny-xs") > 3
    if find_spec("snellen_lab") is None:
        assert "acuity card" not in shown
    else:
        card = (tmp_path / "runs/demo/acuity.html").read_text("utf-8")
        assert "acuity card: runs/demo/acuity.html" in shown and "input of snellen:tiny" in card
    manifest = json.loads((tmp_path / "runs/demo/tiny/manifest.json").read_bytes())
    assert manifest["model"] == "snellen:tiny" and manifest["fingerprint"]["adapter"].startswith(
        "hf"
    )
