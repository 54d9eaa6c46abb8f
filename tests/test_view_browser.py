"""`snellen view` in a real browser, as wide as a desk's and as a phone's: no complaints, replies as text, keys."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import axe
import small
import snellen as sn
from browser import BROKEN_WORDS, CHROMIUM, LOST_LABELS, Page, browsing
from snellen.records import Request
from view_runs import HOSTILE, Replying, serving, until

pytest.importorskip("starlette", reason="waits for starlette")
pytest.importorskip("uvicorn", reason="waits for uvicorn")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="waits for chromium")


PAGES = (
    "/",
    "/run?run=unclear",
    "/compare?run=unclear&run=first",
    "/start",
    "/start?look=1&model=snellen:tinny",
    "/questions",
    "/question?of=animals&sample=q001",
    "/training?name=lora",
)


CUT_OFF = """[...document.querySelectorAll('nav ul, #letters .scroll, #flips > .scroll')].filter(
    part => part.scrollWidth > part.clientWidth).map(part => part.outerHTML)"""
"""What can only be seen by scrolling sideways, of what a page should show at once."""


def unclear(request: Request) -> int:
    """Every second reply names no option, and has markup."""
    return -1 if int(request.sample_id[1:]) % 2 else 0


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory, page: Page) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("view")
    rows = small.rows(8, pictures=8)
    rows[1]["question"] = f"Which animal is it? {HOSTILE}"
    made = small.built(rows, folder / "made", name="animals")
    for name, choose in (("unclear", unclear), ("first", lambda request: 0)):
        sn.evaluate(
            Replying(name, choose),
            str(made.folder),
            "instability?m=2",
            runs=folder / "runs",
            name=name,
        )
    for step, model in ((0, "snellen:always-a"), (500, "snellen:oracle")):
        sn.evaluate(
            model,
            ["eyechart/shape", "eyechart/colour"],
            ["vanilla", "circular"],
            limit=6,
            runs=folder / "runs",
            name=f"step-{step}",
            label=f"lora@{step}",
        )
    with serving(folder / "runs", index=folder / "index.sqlite", may_change=True) as client:
        address = str(client.base_url).rstrip("/")
        page.open(f"{address}/?token={client.headers['token']}")
        yield address


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    with browsing(tmp_path_factory.mktemp("browser")) as page:
        yield page


def where(page: Page) -> Any:
    return page.run("location.pathname + location.search")


@pytest.mark.parametrize("width", [1280, 390])
def test_pages_fit_and_complain_of_nothing(page: Page, address: str, width: int) -> None:
    page.resize(width)
    for path in (*PAGES, "/questions?disagree=1"):
        page.open(address + path)
        assert page.run("document.documentElement.scrollWidth") <= width, path
        assert (
            page.run("getComputedStyle(document.querySelector('nav')).position") == "sticky"
        )  # the style is there
        assert page.run(CUT_OFF) == [], path
    page.open(f"{address}/question?of=animals&sample=q001")
    assert page.run("document.images[0].naturalWidth") == 8
    assert page.complaints == []
    assert {one for one in page.requested if not one.startswith(address)} == set()


def test_the_state_of_runs_with_long_names_is_in_sight(page: Page, tmp_path: Path) -> None:
    made = small.built(small.rows(8), tmp_path / "made", name="a-benchmark-of-many-charts")
    model = Replying("Qwen2.5-VL-7B-Instruct-AWQ-int4", lambda request: 0)
    folder = str(made.folder)
    sn.evaluate(
        model,
        folder,
        "circular?all_passes=true",
        runs=tmp_path / "runs",
        name="Qwen2.5-VL-7B-step-1",
    )
    with serving(tmp_path / "runs", index=tmp_path / "index.sqlite") as client:
        page.resize(1280)
        page.open(str(client.base_url))
        table = "document.querySelector('.scroll:has(.runs-table)')"
        assert page.run(f"{table}.scrollWidth - {table}.clientWidth") <= 0


@pytest.mark.parametrize("path", ["", "/questions"])
def test_no_word_is_broken_in_two_on_a_phone(page: Page, address: str, path: str) -> None:
    page.resize(390)
    page.open(address + path)
    assert page.run(BROKEN_WORDS) == []
    assert page.run("document.querySelector('tbody th').offsetWidth") > 250


def test_on_a_phone_rows_keep_their_labels_in_sight(page: Page, address: str) -> None:
    page.resize(390)
    for path in (
        "/run?run=unclear",
        "/compare?run=unclear&run=first",
        "/question?of=animals&sample=q001",
    ):
        page.open(address + path)
        page.run("document.querySelectorAll('details').forEach(one => { one.open = true })")
        assert page.run(LOST_LABELS) == [], path
    page.open(f"{address}/run?run=unclear")
    page.run("document.querySelectorAll('details').forEach(one => { one.open = true })")
    label = page.run("document.querySelector('#benchmarks .matrix tbody th').innerText")
    assert label.split("\n") == ["animals", "instability?m=2"]


def test_a_phone_shows_no_dot_at_the_end_of_a_line_and_no_empty_strip_above_a_table(
    page: Page, address: str
) -> None:
    page.resize(390)
    page.open(f"{address}/")
    benchmarks = "document.querySelector('td[data-label=benchmarks]')"
    assert page.run(f"getComputedStyle({benchmarks}, '::before').content") == '"·\u00a0"', (
        "what follows stays with it"
    )
    assert page.run(f"getComputedStyle({benchmarks}).paddingRight") == "0px"
    page.open(f"{address}/run?run=unclear")
    heads = page.run(
        "[...document.querySelectorAll('#benchmarks thead th')].map(head => head.clientHeight)"
    )
    assert max(heads) < 40, "a line of words, not the height of the longest heading"


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
def test_axe_finds_nothing(page: Page, address: str, width: int, scheme: str) -> None:
    page.resize(width)
    page.prefer(scheme)
    for path in (*PAGES, "/nothing-here"):
        page.open(address + path)
        assert axe.violations(page) == [], path
    page.complaints.clear()  # that a page is not there is logged as an error


def test_what_models_say_is_text(page: Page, address: str) -> None:
    page.open(f"{address}/question?of=animals&sample=q001")
    said = page.run("[...document.querySelectorAll('.said.reply p')].map(one => one.textContent)")
    assert f"I cannot tell. {HOSTILE}" in said
    assert HOSTILE in page.run("document.querySelector('h1').textContent")
    assert page.run("document.title").startswith("q001")
    assert page.run("document.querySelectorAll('main script, [onerror]').length") == 0
    assert page.complaints == []


def test_keys_lead_through_the_questions(page: Page, address: str) -> None:
    page.resize(1280)
    page.open(f"{address}/questions?run=unclear&outcome=unparsed")
    assert page.run("document.querySelectorAll('.line').length") == 4
    page.press("j", "j", "k", "j")
    assert (
        page.run("[...document.querySelectorAll('.line')].findIndex(one => one.matches('.at'))")
        == 1
    )
    page.wait_for_load(lambda: page.press("Enter"))
    assert "sample=q003" in where(page) and "outcome=unparsed" in where(page)
    page.wait_for_load(lambda: page.press("j"))
    assert "sample=q005" in where(page)
    page.wait_for_load(lambda: page.press("k"))
    assert "sample=q003" in where(page)
    page.wait_for_load(lambda: page.press("u"))
    assert where(page) == "/questions?run=unclear&outcome=unparsed"
    page.press("/")
    assert page.run("document.activeElement.name") == "q"
    page.run("document.activeElement.value = 'number 5'")
    page.wait_for_load(lambda: page.press("Enter"))
    assert where(page) == "/questions?q=number+5&run=unclear&outcome=unparsed"
    assert page.run("document.querySelectorAll('.line').length") == 1
    assert page.complaints == []


def test_a_filter_is_applied_when_it_is_chosen(page: Page, address: str) -> None:
    page.resize(390)
    page.open(f"{address}/questions")
    assert page.run("document.getElementById('more').open") is False
    choose = "const box = document.querySelector('[name=disagree]'); box.checked = true;"
    page.wait_for_load(
        lambda: page.run(f"{choose} box.dispatchEvent(new Event('change', {{bubbles: true}}))")
    )
    assert where(page) == "/questions?disagree=1"


def test_the_overview_keeps_up_without_being_loaded_again(page: Page, address: str) -> None:
    page.open(address)
    found = "document.querySelector('#live .kicker').textContent"
    page.run("document.querySelector('[name=run]').checked = true")
    page.run(f"{found} = 'old'; keepUp()")
    assert page.run(found) == "old", "a reader who has picked a run is not disturbed"
    page.run("document.querySelector('[name=run]').checked = false")
    page.run("keepUp()")
    until(lambda: "4 runs" in page.run(found))
    assert page.complaints == []


def test_a_runs_report_stands_in_its_page(page: Page, address: str) -> None:
    page.resize(1280)
    page.open(f"{address}/run?run=first")
    page.requested.clear()
    page.run(
        "new Promise(done => { const frame = document.querySelector('iframe'); frame.onload = () => done(true);"
        "document.querySelector('details.report').open = true; frame.scrollIntoView(); })"
    )
    assert f"{address}/report?run=first" in page.requested
    assert page.complaints == []


def test_runs_are_picked_and_compared(page: Page, address: str) -> None:
    page.open(address)
    for name in ("unclear", "first"):
        page.run(f"document.querySelector('[name=run][value={name}]').click()")
    page.wait_for_load(lambda: page.run("document.querySelector('.pick button').click()"))
    assert where(page).startswith("/compare?run=") and where(page).count("run=") == 2
    assert page.run("document.querySelectorAll('svg.chart').length") >= 1
    page.open(f"{address}/?q=animals")
    page.press("j", "j")
    page.wait_for_load(lambda: page.press("Enter"))
    assert where(page) == "/run?run=unclear"
    assert page.complaints == []


def test_a_run_is_named_in_its_page(page: Page, address: str) -> None:
    page.open(f"{address}/run?run=first")
    page.run("document.querySelector('[name=alias]').value = 'The first <i>one</i>'")
    page.wait_for_load(lambda: page.run("document.querySelector('#keep button').click()"))
    assert page.run("document.querySelector('h1').textContent") == "The first <i>one</i>"
    assert page.complaints == []


def test_a_question_unfolds_other_protocols_when_asked(page: Page, address: str) -> None:
    page.open(f"{address}/questions?benchmark=eyechart/shape&protocol=circular")
    page.wait_for_load(lambda: page.run("document.querySelector('.line a').click()"))
    folded = "[...document.querySelectorAll('details.protocol')]"
    assert page.run("document.querySelector('main > h2').textContent") == "circular"
    assert page.run(f"{folded}.map(one => one.querySelector('h2').textContent)") == ["vanilla"]
    assert page.run(f"{folded}[0].open") is False
    page.run(f"{folded}[0].querySelector('summary').click()")
    assert page.run(f"{folded}[0].querySelector('.entry').checkVisibility()") is True
