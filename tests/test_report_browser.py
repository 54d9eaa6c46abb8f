"""The HTML report in a real browser, as wide as a desk's and as a phone's, light and dark."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import axe
from browser import BROKEN_WORDS, CHROMIUM, LOST_LABELS, Page, browsing
from report_runs import BENCHMARKS, HOSTILE, counted_runs

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


def test_on_a_phone_each_row_keeps_all_its_labels_in_sight(page: Page, smaller: str) -> None:
    page.resize(390)
    page.open(smaller)
    page.run("document.querySelectorAll('details').forEach(one => { one.open = true })")
    assert (
        page.run(LOST_LABELS) == [] and page.run("document.querySelectorAll('.scroll').length") > 20
    )
    label = page.run("document.querySelector('#comparison tbody th.together').innerText").split(
        "\n"
    )
    assert len(label) == 2 and label[0] in BENCHMARKS
    page.resize(1280)
    assert (
        page.run(
            "[...document.querySelectorAll('.together')].some(label => label.checkVisibility())"
        )
        is False
    )


def test_the_samples_fill_themselves_offline_and_replies_are_text(page: Page, address: str) -> None:
    page.resize(1280)
    page.open(address)
    shown, of = page.run("document.getElementById('matching').textContent").split(" of ")
    assert shown == "12" and int(of.split()[0]) > 12
    assert page.run("document.querySelector('#entries img').naturalWidth") > 0
    assert HOSTILE in page.run(
        "[...document.querySelectorAll('.reply p')].map(one => one.textContent).join()"
    )
    assert page.run("document.title").startswith("Snellen report")
    assert page.run("document.querySelectorAll('main script, [onerror]').length") == 0
    assert page.complaints == []


def test_the_first_screen_has_a_sentence_and_a_chart_and_the_page_is_short(
    page: Page, address: str
) -> None:
    page.resize(1280, 800)
    page.open(address)
    assert "not significantly different from" in page.run(
        "document.querySelector('.findings').textContent"
    )
    chart = "document.querySelector('#summary .chart')"
    assert page.run(f"{chart}.getBoundingClientRect().bottom") < 800
    assert page.run("document.documentElement.scrollHeight") < 6000
    page.resize(2560)
    page.open(address)
    assert page.run("document.querySelector('main').offsetWidth") > 1800
    assert page.run("document.querySelector('nav').getBoundingClientRect().right") < page.run(
        "document.querySelector('main').getBoundingClientRect().left"
    )


@pytest.mark.parametrize("width", [390, 1280, 2560])
def test_no_word_is_broken_in_two(page: Page, smaller: str, width: int) -> None:
    page.resize(width)
    page.open(smaller)
    page.run(
        "document.querySelectorAll('main details').forEach(one => { one.open = !one.closest('.entry') })"
    )
    assert page.run(BROKEN_WORDS) == []


def test_long_tables_show_ten_rows_until_all_are_asked_for(page: Page, address: str) -> None:
    page.resize(1280)
    page.open(address)
    page.run("document.querySelectorAll('main details').forEach(one => { one.open = true })")
    heights = "[...document.querySelectorAll('tbody.rest')].map(one => one.offsetHeight)"
    assert set(page.run(heights)) == {0}
    page.run("document.querySelectorAll('.more input').forEach(one => one.click())")
    assert 0 not in page.run(heights)


def test_a_mark_tells_its_numbers_and_leads_to_the_samples_behind_it(
    page: Page, address: str
) -> None:
    page.resize(1280)
    page.open(address)
    mark = "document.querySelector('#summary g[data-samples]')"
    told = page.run(
        f"({mark}.querySelector(':scope > title') ?? {{}}).textContent ?? {mark}.dataset.tip"
    )
    page.run(f"{mark}.dispatchEvent(new PointerEvent('pointermove', {{bubbles: true}}))")
    assert page.run("document.querySelector('.tip').textContent") == told and "n=4" in told
    page.run(f"{mark}.dispatchEvent(new MouseEvent('click', {{bubbles: true}}))")
    assert page.run("document.getElementById('samples').closest('details').open") is True
    model = told.partition(":")[0]
    assert (
        page.run("document.querySelector('[name=model]').selectedOptions[0].textContent") == model
    )
    labels = "[...document.querySelectorAll('.entry:not([hidden]) > header > bdi:first-of-type')]"
    assert set(page.run(f"{labels}.map(one => one.textContent)")) == {model}
    page.run("document.querySelector('#benchmarks th a').click()")
    assert page.run("document.querySelector('[name=benchmark]').value") in BENCHMARKS
    assert page.complaints == []


def test_a_chart_is_read_by_keys(page: Page, address: str) -> None:
    page.resize(1280)
    page.open(address)
    svg = "document.querySelector('#summary .chart:has(g[data-samples])')"
    page.run(f"{svg}.closest('.panel').querySelector('p, a, [tabindex]').focus()")
    assert page.run(f"{svg}.getAttribute('role')") == "group" and page.run(f"{svg}.ariaLabel")
    at, tip = "document.activeElement", "document.querySelector('.tip')"
    for _ in range(40):
        page.press("Tab")
        if page.run(f"{svg}.contains({at})"):
            break
    first = page.run(f"{at}.getAttribute('aria-label')")
    assert page.run(f"{tip}.textContent") == first != "" and page.run(f"{tip}.hidden") is False
    assert page.run(f"getComputedStyle({at}).outlineStyle") == "solid"
    page.press("ArrowRight")
    second = page.run(f"{at}.getAttribute('aria-label')")
    assert page.run(f"{tip}.textContent") == second != first
    page.press("End", "ArrowRight")
    last = page.run(f"{at}.getAttribute('aria-label')")
    page.press("Home")
    assert page.run(f"{at}.getAttribute('aria-label')") == first != last
    assert page.run(f"{svg}.querySelectorAll('[tabindex=\"0\"]').length") == 1, (
        "a chart is one stop of Tab"
    )
    while not page.run(f"{at}.dataset.samples ?? ''"):
        page.press("ArrowRight")
    told = page.run(f"{at}.getAttribute('aria-label')")
    assert page.run(f"{at}.getAttribute('role')") == "link"
    page.press("Escape")
    assert page.run(f"{tip}.hidden") is True
    page.press("Enter")
    assert page.run("document.getElementById('samples').closest('details').open") is True
    assert (
        page.run("document.querySelector('[name=model]').selectedOptions[0].textContent")
        == told.partition(":")[0]
    )
    assert page.run(f"{at}.name") == "model"
    assert page.complaints == []


def test_a_section_opens_for_whoever_goes_to_it(page: Page, address: str) -> None:
    page.open(address)
    assert page.run("document.getElementById('counts').closest('details').open") is False
    page.run("document.querySelector('nav a[href=\"#counts\"]').click()")
    assert page.run("document.getElementById('counts').closest('details').open") is True


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
def test_axe_finds_nothing(page: Page, smaller: str, width: int, scheme: str) -> None:
    page.resize(width)
    page.prefer(scheme)
    page.open(smaller)
    assert axe.violations(page) == []
