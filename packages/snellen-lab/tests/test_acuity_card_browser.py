"""Acuity cards in a real browser: nothing keeps people from using them, and charts are read by keys."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import axe
from browser import BROKEN_WORDS, CHROMIUM, Page, browsing
from observers import Observer, placed
from snellen_lab.acuity.report import acuity_page

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="waits for chromium")


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    with browsing(tmp_path_factory.mktemp("browser")) as page:
        yield page


@pytest.fixture(scope="module")
def card(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("card")
    runs = [
        placed(Observer(threshold, name=name))
        for threshold, name in ((13.0, "fine"), (40.0, "coarse"))
    ]
    (folder / "card.html").write_text(acuity_page(runs), "utf-8")
    return (folder / "card.html").as_uri()


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
def test_axe_finds_nothing_and_no_word_is_broken(
    width: int, scheme: str, page: Page, card: str
) -> None:
    page.resize(width)
    page.prefer(scheme)
    page.open(card)
    page.run("document.querySelectorAll('main details').forEach(one => { one.open = true })")
    assert axe.violations(page) == []
    assert page.run(BROKEN_WORDS) == []
    assert page.run("document.documentElement.scrollWidth") <= width
    assert page.complaints == []


def test_each_chart_of_a_card_is_one_stop_and_its_marks_say_their_numbers(
    card: str, page: Page
) -> None:
    page.open(card)
    stops = "[...document.querySelectorAll('.chart [tabindex=\"0\"]')].map(one => one.getAttribute('aria-label'))"
    labels = page.run(stops)
    assert len(labels) == 2 and all(label.startswith(("fine", "coarse")) for label in labels)
