"""The pages on which raters rate, in a real browser, on a desk and on a phone."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

pytest.importorskip("fastapi", reason="waits for fastapi")
pytest.importorskip("alembic", reason="waits for alembic")

import axe
from browser import CHROMIUM, Page, browsing
from hosting import RunningServer
from test_rating_pages import server as server  # a fixture
from test_server_pages_browser import WIDTH, sign_in
from view_runs import until

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="waits for chromium")


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory, server: RunningServer) -> Iterator[Page]:
    """A browser in which Berta has signed in."""
    with browsing(tmp_path_factory.mktemp("browser")) as opened:
        server.signed_in("Berta")  # who has a password then
        sign_in(opened, server, "Berta")
        yield opened


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
def test_the_pages_of_raters_can_be_used_by_everybody(
    page: Page, server: RunningServer, width: int, scheme: str
) -> None:
    page.resize(width)
    page.prefer(scheme)
    page.complaints.clear()
    for address in ("/ratings", "/ratings/plans", "/ratings/plans?place=99"):
        page.open(f"{server.url}{address}")
        assert axe.violations(page) == [], address
        assert page.run(WIDTH) <= width, address
    assert page.complaints == []


def test_ratings_are_kept_as_they_are_chosen(page: Page, server: RunningServer) -> None:
    page.resize(390)
    page.open(f"{server.url}/ratings/plans?place=2")
    page.run('document.querySelector(\'[name="rating.fit"][value="3"]\').click()')
    until(lambda: page.run("document.getElementById('kept').textContent") == "kept")
    page.open(f"{server.url}/ratings/plans?place=2")
    assert page.run('document.querySelector(\'[name="rating.fit"][value="3"]\').checked')
