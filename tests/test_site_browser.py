"""The documentation site in a browser, opened from a folder: the search works, and nothing is loaded."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from browser import CHROMIUM, browsing

pytest.importorskip("mkdocs", reason="waits for mkdocs")

ROOT = Path(__file__).parent.parent


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="waits for chromium")
def test_the_site_is_searched_from_a_folder(tmp_path: Path, home: Path) -> None:
    build = [
        sys.executable,
        "-m",
        "mkdocs",
        "build",
        "--strict",
        "--site-dir",
        str(tmp_path / "site"),
    ]
    places = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "NO_MKDOCS_2_WARNING": "1"}
    subprocess.run(build, cwd=ROOT, env=places, check=True, timeout=600)
    with browsing(tmp_path) as page:
        page.resize(1400)
        page.open((tmp_path / "site/tutorials/own-data.html").as_uri())
        page.wait_until("document.querySelector('iframe') !== null")  # the worker that searches
        page.run("document.querySelector('[data-md-component=search-query]').focus()")
        page.press(*"confidence sequence")
        page.wait_until(
            "document.querySelector('.md-search-result__link[href*=\"/site/adaptive.html\"]') !== null"
        )
        assert [url for url in page.requested if not url.startswith("file:")] == []
        assert page.complaints == []
