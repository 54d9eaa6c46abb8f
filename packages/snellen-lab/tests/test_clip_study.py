"""CLIP in a study beside models that reply."""

from __future__ import annotations

from pathlib import Path

import mini_aro
from snellen_lab import run_study
from test_clip import folder

__all__ = ["folder"]  # a fixture


def test_a_scorer_stands_beside_others_in_a_study_where_it_can_be_asked(
    folder: Path, tmp_path: Path
) -> None:
    """LVLM-eHub compares CLIP by likelihood with models that reply (Table A.3)."""
    source = str(mini_aro.official(tmp_path / "files"))
    model = f"clip:{folder}"
    results = run_study(
        "composition", model, source=source, output=tmp_path / "study", benchmarks="aro/*-order"
    )
    cells = {row.cell for row in results.rows if row.metric == "accuracy"}
    assert cells == {"by likelihood"}
    assert {cell.spec.label: bool(cell.why) for cell in results.outcome.numbers.cells} == {
        "by generation": True,
        "by likelihood": False,
    }
