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


def test_a_model_learns_in_the_notebook_and_its_curve_rises(tmp_path: Path) -> None:
    curve = ""
    with opened_notebook(tmp_path) as notebook:
        for cell in cells():
            source = "".join(cell["source"])
            shown, fault = notebook.run(source)
            assert not fault, f"{source}\n{fault}"
            for data in shown:
                curve = data.get("image/svg+xml", curve)

    scores = scores_in(curve)
    assert sorted(scores) == [0, 40, 80, 120, 160, 200]
    assert scores[200] > scores[0] + 50
    assert curve.count("whisker") >= len(scores)
    assert "colours: scores by step" in (tmp_path / "training.html").read_text("utf-8")


def test_the_stored_notebook_shows_its_curve() -> None:
    outputs = [output for cell in cells() for output in cell["outputs"]]
    [curve] = [
        "".join(output["data"]["image/svg+xml"])
        for output in outputs
        if "image/svg+xml" in output.get("data", {})
    ]
    scores = scores_in(curve)
    assert scores[200] > scores[0] + 50
