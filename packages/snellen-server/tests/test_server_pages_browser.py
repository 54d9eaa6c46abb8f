"""Leaderboard and explorer pages in a real browser, on a desk and on a phone."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("fastapi", reason="waits for fastapi")
pytest.importorskip("alembic", reason="waits for alembic")

import axe
import snellen as sn
from browser import CHROMIUM, Page, browsing
from hosting import RunningServer, hosted
from http_browser import PASSWORD
from leaderboard_parts import as_jsonl, board, gold, hidden_benchmark, other, predictions, scored
from snellen.records import Request
from snellen_server.explorer.feature import index_public_runs
from view_runs import HOSTILE, Replying, until

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="waits for chromium")
SIZES = [1280, 390]
WIDTH = "document.documentElement.scrollWidth"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    folder = tmp_path_factory.mktemp("pages")
    hidden, shown = (hidden_benchmark(folder, name, 12) for name in ("hidden", "shown"))

    def steady(request: Request) -> int:
        number = int(request.sample_id[1:])
        return -1 if number == 7 else number % 4

    for name in ("first", "second"):
        sn.evaluate(
            Replying(name, steady),
            [str(hidden.folder), str(shown.folder)],
            runs=folder / "server/runs",
            name=name,
        )
    feature = {
        "leaderboard": {
            "boards": [board(hidden, name="animals", title="Animals", about="Which animal is it?")]
        },
        "explorer": {"public": ["*"], "answers_of": ["shown"]},
    }
    with hosted(folder / "server", feature=feature) as running:
        asyncio.run(index_public_runs(running.services))
        anna = running.with_key("Anna", "submit")
        hostile = f"Hostile {HOSTILE}"[:100]
        scored(
            anna, as_jsonl(predictions(other, 12)), model=hostile, is_public="true", parameters="7B"
        )
        running.signed_in("Berta")  # who has a password then
        yield running


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    with browsing(tmp_path_factory.mktemp("browser")) as opened:
        yield opened


def sign_in(page: Page, server: RunningServer, name: str) -> None:
    page.open(f"{server.url}/sign-in")
    if page.run("document.querySelector('[name=name]') === null"):
        return
    fields = f"document.querySelector('[name=name]').value = {name!r};"
    fields += f"document.querySelector('[name=password]').value = {PASSWORD!r};"
    page.wait_for_load(
        lambda: page.run(f"{fields} document.querySelector('form:has([name=password])').submit()")
    )


def text(page: Page) -> str:
    return str(page.run("document.body.innerText"))


@pytest.mark.parametrize("width", [SIZES[0], pytest.param(SIZES[1], marks=pytest.mark.slow)])
def test_predictions_are_submitted_scored_and_published_by_page(
    page: Page, server: RunningServer, width: int
) -> None:
    page.resize(width)
    sign_in(page, server, "Berta")
    page.open(f"{server.url}/leaderboard/animals")
    page.wait_for_load(lambda: page.run("document.querySelector('a.button').click()"))
    assert axe.violations(page) == []
    content = json.dumps(
        as_jsonl(predictions(lambda i: gold(i) if i % 3 else other(i), 12)).decode()
    )
    page.run(
        f"""(() => {{
        const files = new DataTransfer();
        files.items.add(new File([{content}], "predictions.jsonl"));
        document.querySelector("[name=file]").files = files.files;
        document.querySelector("[name=model]").value = "By hand {width}";
        }})()"""
    )
    page.wait_for_load(lambda: page.run("document.querySelector('.fields button').click()"))
    assert f"By hand {width}" in text(page)
    until(lambda: "Origin" in text(page) and "waiting to be scored" not in text(page), 60)
    assert "accuracy" in text(page) and "private: only you see it" in text(page)
    assert axe.violations(page) == [] and page.run(WIDTH) <= width
    press = "[...document.querySelectorAll('main button')].find(one => one.textContent === 'Make it public').click()"
    page.wait_for_load(lambda: page.run(press))
    assert "It is public" in text(page)
    page.open(f"{server.url}/leaderboard/animals")
    assert f"By hand {width}" in text(page)


@pytest.mark.parametrize(
    ("width", "scheme"),
    [pytest.param(SIZES[0], "light", marks=pytest.mark.slow), (SIZES[1], "dark")],
)
def test_every_page_can_be_used_by_everybody(
    page: Page, server: RunningServer, width: int, scheme: str
) -> None:
    page.resize(width)
    page.prefer(scheme)
    sign_in(page, server, "Berta")
    page.complaints.clear()
    for address in (
        "/",
        "/leaderboard",
        "/leaderboard/animals",
        "/leaderboard/animals?order=model",
        "/explorer",
        "/explorer/questions",
        "/explorer/question?of=shown&sample=q005",
        "/explorer/question?of=hidden&sample=q005",
    ):
        page.open(f"{server.url}{address}")
        assert axe.violations(page) == [], address
        assert page.run(WIDTH) <= width, address
        assert page.run("document.title") != "owned"
    assert page.complaints == []


def test_the_explorer_is_used_with_keys(page: Page, server: RunningServer) -> None:
    page.resize(1280)
    page.open(f"{server.url}/explorer/questions?benchmark=shown")
    page.run("document.body.focus()")
    page.press("j", "j")
    assert "q001" in page.run("document.activeElement.href")
    page.wait_for_load(lambda: page.press("Enter"))
    assert page.run("location.pathname") == "/explorer/question"
    page.wait_for_load(lambda: page.press("u"))
    assert page.run("location.pathname + location.search") == "/explorer/questions?benchmark=shown"
    page.run("document.querySelector('[name=outcome]').value = 'unparsed'")
    change = "document.querySelector('[name=outcome]').dispatchEvent(new Event('change', {bubbles: true}))"
    page.wait_for_load(lambda: page.run(change))
    assert page.run("location.search") == "?benchmark=shown&outcome=unparsed"
    assert "1 to 1 of 1 questions" in text(page)


def photographs(page: Page, server: RunningServer, folder: Path) -> None:
    """For people who look at the pages: one image of each at each width."""
    sign_in(page, server, "Berta")
    for width in SIZES:
        page.resize(width)
        for name, address in {
            "board": "/leaderboard/animals",
            "submit": "/leaderboard/animals/submit",
            "runs": "/explorer",
            "questions": "/explorer/questions",
            "hidden": "/explorer/question?of=hidden&sample=q005",
            "shown": "/explorer/question?of=shown&sample=q005",
        }.items():
            page.open(f"{server.url}{address}")
            (folder / f"{name}-{width}.png").write_bytes(page.photograph("body"))
        entry = page.run("location.href") and f"{server.url}/leaderboard/animals"
        page.open(entry)
        page.wait_for_load(lambda: page.run("document.querySelector('.standings th a').click()"))
        (folder / f"entry-{width}.png").write_bytes(page.photograph("body"))
