"""The notebook of the documentation that trains a tiny model by LoRA, in a real kernel."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from notebooks import opened_notebook

pytest.importorskip("peft", reason="waits for peft")
pytest.importorskip("transformers", reason="waits for transformers")

NOTEBOOK = Path(__file__).parents[1] / "docs/notebooks/lora-curve.ipynb"


def cells() -> list[Any]:
    notebook = json.loads(NOTEBOOK.read_text("utf-8"))
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


def scores_in(svg: str) -> dict[int, float]:
    """Scores by step, from the tooltips of a curve."""
    tips = re.findall(r"colours, step (\d+): [a-z ]+ (\d+\.\d)%", svg)
    return {int(step): float(score) for step, score in tips}


SETTINGS = {"steps": "max_steps=200", "rate": "learning_rate=3e-4"}
"""Lines of the notebook that the quicker test replaces."""


def run_cells(folder: Path, steps: str, rate: str) -> str:
    """Run all cells with other steps and another learning rate, and return the curve as SVG."""
    curve = ""
    with opened_notebook(folder) as notebook:
        for cell in cells():
            source = "".join(cell["source"])
            source = source.replace(SETTINGS["steps"], steps).replace(SETTINGS["rate"], rate)
            shown, fault = notebook.run(source)
            assert not fault, f"{source}\n{fault}"
            for data in shown:
                curve = data.get("image/svg+xml", curve)
    return curve


def check_curve(curve: str, steps: list[int], points_gained: int, report: Path) -> None:
    scores = scores_in(curve)
    assert sorted(scores) == steps
    assert scores[steps[-1]] > scores[0] + points_gained
    assert curve.count("whisker") >= len(scores)
    assert "colours: scores by step" in report.read_text("utf-8")


def test_a_model_learns_in_the_notebook_and_its_curve_rises(tmp_path: Path) -> None:
    """With 40 steps at a higher learning rate, which take a third of the time."""
    curve = run_cells(tmp_path, steps="max_steps=40", rate="learning_rate=1e-3")
    check_curve(curve, [0, 40], 20, tmp_path / "training.html")


@pytest.mark.slow
def test_a_model_learns_in_the_notebook_as_it_is_written(tmp_path: Path) -> None:
    curve = run_cells(tmp_path, **SETTINGS)
    check_curve(curve, [0, 40, 80, 120, 160, 200], 50, tmp_path / "training.html")


def test_the_notebook_has_each_setting_that_is_replaced_once() -> None:
    source = "\n".join("".join(cell["source"]) for cell in cells())
    for setting in SETTINGS.values():
        assert source.count(setting) == 1


def test_the_stored_notebook_shows_its_curve() -> None:
    outputs = [output for cell in cells() for output in cell["outputs"]]
    [curve] = [
        "".join(output["data"]["image/svg+xml"])
        for output in outputs
        if "image/svg+xml" in output.get("data", {})
    ]
    scores = scores_in(curve)
    assert scores[200] > scores[0] + 50
