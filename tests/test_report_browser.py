"""The HTML report in a real browser, as wide as a desk's and as a phone's, light and dark."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import axe
from browser import CHROMIUM, Page, browsing
from report_runs import HOSTILE, counted_runs

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="waits for chromium")
TOO_WIDE = """[...document.querySelectorAll('.scroll, .panel')]
.filter(box => box.scrollWidth > box.clientWidth).map(box => box.getAttribute('aria-label'))"""


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("report")
    return counted_runs(folder / "runs").report(folder / "report.html").as_uri()


@pytest.fixture(scope="module")
def smaller(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A page of fewer elements, as axe looks at each."""
    folder = tmp_path_factory.mktemp("smaller")
    return counted_runs(folder / "runs", models=2, limit=1).report(folder / "report.html").as_uri()


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    with browsing(tmp_path_factory.mktemp("browser")) as page:
        yield page


def test_seven_models_stand_side_by_side_on_a_desk_and_a_phones_page_never_scrolls_sideways(
    page: Page, address: str
) -> None:
    page.resize(1280)
    page.open(address)
    page.run("document.querySelectorAll('details').forEach(one => { one.open = true })")
    assert page.run("document.querySelectorAll('table.wide').length") > 3
    assert page.run(TOO_WIDE) == []
    assert page.run("document.documentElement.scrollWidth") <= 1280
    page.resize(390)
    page.open(address)
    assert page.run("document.documentElement.scrollWidth") == 390
    assert page.run(TOO_WIDE) != []  # tables scroll in boxes of their own
    assert page.complaints == [] and page.requested == [address, address]


def test_the_samples_fill_themselves_offline_and_replies_are_text(page: Page, address: str) -> None:
    page.resize(1280)
    page.open(address)
    shown, of = page.run("document.getElementById('matching').textContent").split(" of ")
    assert shown == "12" and int(of.split()[0]) > 12
    assert page.run("document.querySelector('#entries img').naturalWidth") > 0
    assert HOSTILE in page.run("[...document.querySelectorAll('.reply p')].map(one => one.textContent).join()")
    assert page.run("document.title").startswith("Snellen report")
    assert page.run("document.querySelectorAll('main script, [onerror]').length") == 0
    assert page.complaints == []


@pytest.mark.parametrize(("width", "scheme"), [pytest.param(1280, "light", marks=pytest.mark.slow), (390, "dark")])
def test_axe_finds_nothing(page: Page, smaller: str, width: int, scheme: str) -> None:
    page.resize(width)
    page.prefer(scheme)
    page.open(smaller)
    assert axe.violations(page) == []
