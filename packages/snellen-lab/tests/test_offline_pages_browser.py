"""Datasheets and acuity cards in a real browser: nothing keeps people from using them, and charts are read by keys."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import axe
import snellen as sn
import snellen_lab
from browser import BROKEN_WORDS, CHROMIUM, Page, browsing
from observers import Observer, placed
from snellen_lab.acuity.card import acuity_page
from snellen_lab.verification.datasheet_page import write_datasheet

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="waits for chromium")


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    with browsing(tmp_path_factory.mktemp("browser")) as page:
        yield page


@pytest.fixture(scope="module")
def addresses(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """File addresses of a datasheet and of an acuity card of two observers."""
    folder = tmp_path_factory.mktemp("pages")
    sn.build("eyechart/count")
    sheet: Path = write_datasheet(snellen_lab.datasheet("eyechart/count"), folder / "sheet.html")

    fine = placed(Observer(13.0, name="fine"))
    coarse = placed(Observer(40.0, name="coarse"))
    card = folder / "card.html"
    card.write_text(acuity_page([fine, coarse]), "utf-8")
    return {"datasheet": sheet.as_uri(), "acuity card": card.as_uri()}


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
@pytest.mark.parametrize("name", ["datasheet", "acuity card"])
def test_axe_finds_nothing_and_no_word_is_broken(
    name: str, width: int, scheme: str, page: Page, addresses: dict[str, str]
) -> None:
    page.resize(width)
    page.prefer(scheme)
    page.open(addresses[name])
    page.run("document.querySelectorAll('main details').forEach(one => { one.open = true })")
    assert axe.violations(page) == []
    assert page.run(BROKEN_WORDS) == []
    assert page.run("document.documentElement.scrollWidth") <= width
    assert page.complaints == []


def test_each_chart_of_a_card_is_one_stop_and_its_marks_say_their_numbers(
    addresses: dict[str, str], page: Page
) -> None:
    page.open(addresses["acuity card"])
    stops = "[...document.querySelectorAll('.chart [tabindex=\"0\"]')].map(one => one.getAttribute('aria-label'))"
    labels = page.run(stops)
    assert len(labels) == 2 and all(label.startswith(("fine", "coarse")) for label in labels)
