"""Pages of `snellen view` on runs that are not of shares of right answers."""

from __future__ import annotations

from pathlib import Path

import pytest

from observers import Observer, measured
from view_runs import serving


def test_a_run_of_placed_questions_shows_thresholds_and_no_share(tmp_path: Path) -> None:
    pytest.importorskip("numpy")
    run = measured(Observer(13.0, name="thirteen"), tmp_path / "runs")
    with serving(tmp_path / "runs", index=tmp_path / "index") as client:
        page = client.get(f"/run?run={run.folder.name}").text
        assert f"<td>{run.thresholds[0].text}</td>" in page and "says nothing" in page
        assert "Nothing is scored" not in page
        assert 'data-label="headline" class="num headline"><span class="none">—' in client.get("/").text
