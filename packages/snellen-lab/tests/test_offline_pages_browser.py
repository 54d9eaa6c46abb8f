"""Datasheets in a real browser: nothing keeps people from using them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import axe
import snellen as sn
import snellen_lab
from browser import BROKEN_WORDS, CHROMIUM, Page, browsing
from snellen_lab.verification.datasheet_page import write_datasheet

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="waits for chromium")


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    with browsing(tmp_path_factory.mktemp("browser")) as page:
        yield page


@pytest.fixture(scope="module")
def datasheet(tmp_path_factory: pytest.TempPathFactory) -> str:
    sn.build("eyechart/count")
    sheet: Path = write_datasheet(
        snellen_lab.datasheet("eyechart/count"), tmp_path_factory.mktemp("sheet") / "sheet.html"
    )
    return sheet.as_uri()


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
def test_axe_finds_nothing_and_no_word_is_broken(
    width: int, scheme: str, page: Page, datasheet: str
) -> None:
    page.resize(width)
    page.prefer(scheme)
    page.open(datasheet)
    page.run("document.querySelectorAll('main details').forEach(one => { one.open = true })")
    assert axe.violations(page) == []
    assert page.run(BROKEN_WORDS) == []
    assert page.run("document.documentElement.scrollWidth") <= width
    assert page.complaints == []
