"""A run whose numbers people have corrected says so where the package that corrects them is not installed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import snellen as sn
from snellen import registry
from snellen.cli import main


def test_an_audit_that_cannot_be_used_is_announced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    sn.evaluate("snellen:always-a", "eyechart/shape", "vanilla", limit=4, runs=tmp_path, name="run")
    targets = registry.targets

    def targets_without_lab(group: registry.Group) -> dict[str, Any]:
        return {} if group == "corrections" else targets(group)

    monkeypatch.setattr(registry, "targets", targets_without_lab)
    score(tmp_path / "run")
    assert "snellen-lab" not in capsys.readouterr().err
    (tmp_path / "run" / "audit.json").write_text("{}")
    score(tmp_path / "run")
    assert (
        "so its numbers are not corrected; they need snellen-lab: pip install"
        in capsys.readouterr().err
    )


def score(run: Path) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["score", str(run)])
    assert not ended.value.code
