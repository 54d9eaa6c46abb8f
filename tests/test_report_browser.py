"""The HTML report in a real browser: its script runs under its own policy, and pictures are there."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

import snellen as sn
from browser import CHROMIUM, QUIET


@pytest.mark.skipif(CHROMIUM is None, reason="waits for chromium")
def test_the_browser_of_samples_fills_itself_offline(tmp_path: Path) -> None:
    results = sn.evaluate("snellen:always-a", "eyechart/shape", "circular", limit=8, runs=tmp_path)
    page = results.report(tmp_path / "report.html")
    assert CHROMIUM is not None
    words = [CHROMIUM, *QUIET, f"--user-data-dir={tmp_path / 'profile'}", "--dump-dom", page.as_uri()]
    shown = subprocess.run(words, check=True, capture_output=True, text=True, timeout=120).stdout
    assert re.search(r"[1-9]\d* of [1-9]\d* shown", shown)
    assert 'src="data:image/png;base64,' in shown
