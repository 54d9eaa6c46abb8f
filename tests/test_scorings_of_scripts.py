"""A metric of a script: its numbers are stored, and the command line shows them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import small

SCRIPT = """
import snellen as sn

def judge(question, reply, reference):
    return float(reply == reference)

rows = [{"question": f"Which is number {number}?", "answer": f"word{number}"} for number in range(4)]
questions = sn.build(rows, no_images=True)
sn.evaluate(lambda question, images: "word1", questions, judge=judge, runs="runs", name="r", progress=False)
"""


def test_a_report_shows_the_stored_numbers_of_a_script(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SNELLEN_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    Path("script.py").write_text(SCRIPT)
    subprocess.run([sys.executable, "script.py"], check=True, capture_output=True)
    code, _, err = small.command(capsys, "report", "runs/r", "-o", "x.csv")
    assert code == 0 and "__main__" not in err
    assert "runs/r: scored with judge judge of a script" in err
    judged = [line for line in Path("x.csv").read_text().splitlines() if ",judge," in line]
    assert judged and ",0.25," in judged[0]
