"""An acuity test of a suite of one's own is measured like those of the lab."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import small

TEST = """
from snellen_lab import acuity_test, disc, stimulus

RIGHT = (disc(0.35, 0.6, 0.3), disc(0.65, 0.3, 0.2), (((0.8, 0.2), (1.0, 0.3), (0.8, 0.4)),))
LEFT = tuple(tuple(tuple((1 - x, y) for x, y in contour) for contour in part) for part in RIGHT)


@acuity_test(
    "bird-size", "height of a bird", "px", (3, 4, 6, 8, 12, 16, 24, 32, 48, 64), exemplars=4
)
def bird_size(trial):
    canvas = trial.canvas()
    side = trial.one_of(("left", "right"))
    bird = LEFT if side == "left" else RIGHT
    canvas.put(bird, trial.level, trial.corner(canvas, trial.level))
    return stimulus(canvas, "To which side does the bird look?", ("left", "right"), side)
"""
ENTRY = """
title = "Where does the small bird look?"
formulation = "choice"
dimension = "Feathers"
licence = "CC0-1.0"
expected = { samples = 40 }

[source]
reader = "acuity"
embedded = true
params = { test = "bird-size" }
"""
SUITE = """
name = "birds"
title = "Birds"
dimensions = { Feathers = "What feathers look like" }

[hooks.acuity_tests]
bird-size = "bird_tests:bird_size"
"""


def test_a_suite_brings_a_test_whose_thresholds_are_measured_and_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    suite = tmp_path / "birds"
    (suite / "entries").mkdir(parents=True)
    (suite / "suite.toml").write_text(SUITE)
    (suite / "entries" / "size.toml").write_text(ENTRY)
    (suite / "bird_tests.py").write_text(TEST)

    words = ["--suites", "birds", "acuity", "snellen:oracle", "snellen:always-a"]
    words += ["--test", "birds/size", "--json", "--card", "card.html"]
    code, shown, _ = small.command(capsys, *words)
    assert code == 0
    oracle, guesser, difference = map(json.loads, shown.splitlines())
    assert (oracle["verdict"], oracle["value"], oracle["unit"], oracle["title"]) == (
        "sees all",
        None,
        "px",
        "height of a bird",
    )
    assert (guesser["model"], guesser["verdict"]) == ("snellen:always-a", "sees none")
    assert difference["better"] == "snellen:oracle"
    assert "bird-size" in Path("card.html").read_text("utf-8")
