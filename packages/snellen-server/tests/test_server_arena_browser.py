"""A whole battle in a real browser, from the upload to the rating, on a desktop and on a phone."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("fastapi", reason="waits for fastapi")
pytest.importorskip("polars", reason="waits for polars")

from sqlalchemy import select

import small
from axe import violations
from browser import CHROMIUM, Page, browsing
from hosting import RunningServer
from snellen.registry import register
from snellen_server.arena.battles import arena_battle, arena_vote
from snellen_server.arena.standings import rate_arena
from test_server_arena import MARKUP, fighting, models, open_gate, open_talker, picture, settled

ALL_SHOWN = "document.documentElement.scrollWidth <= document.documentElement.clientWidth"
BUSY = "document.querySelectorAll('[aria-busy=true]').length"


def fill(page: Page, place: str, text: str) -> None:
    page.run(f"document.querySelector({place!r}).value = {text!r}")


def fight(page: Page, server: RunningServer, folder: Path) -> None:
    """Ask with an image of one's own, ask further, vote by key, and see the names."""
    page.open(f"{server.url}/arena")
    page.choose_file("[name=file]", folder / "photo.png")
    fill(page, "#ask textarea", "Some markup?")
    page.run("document.querySelector('#ask .primary').click()")
    page.wait_until("!document.querySelector('#votes').hidden")
    replies = page.run("[...document.querySelectorAll('.reply')].map(one => one.textContent)")
    assert replies == [MARKUP, MARKUP]
    assert page.run("document.querySelectorAll('.reply *').length") == 0
    page.wait_until("document.querySelector('#images img').naturalWidth === 20")
    fill(page, "#more textarea", "Wait: wait numbat")
    page.run("document.querySelector('#more button').click()")
    page.wait_until(f"{BUSY} === 1")
    assert page.run("document.querySelector('#votes').hidden"), (
        "nobody votes before both have replied"
    )
    page.run("document.activeElement.blur()")
    page.press("1")
    server.do(open_gate())
    page.wait_until("!document.querySelector('#votes').hidden")
    assert not page.run(
        "/quokka|numbat/.test(document.querySelector('main').textContent.replace('wait numbat', ''))"
    )
    assert violations(page) == []
    assert page.run(ALL_SHOWN)
    page.press("2")
    page.wait_until("!document.querySelector('#names').hidden")
    assert "right" in page.run("document.querySelector('#status').textContent")
    names = page.run("[...document.querySelectorAll('.side h2')].map(one => one.textContent)")
    assert sorted(names) == ["numbat", "numbat", "quokka", "quokka"]
    assert page.run("document.activeElement.id") == "again"
    page.press("1")
    page.run("document.querySelector('#again').click()")
    assert page.run(
        "document.querySelector('#battle').hidden && !document.querySelector('#ask').hidden"
    )


@pytest.mark.skipif(CHROMIUM is None, reason="waits for chromium")
@pytest.mark.parametrize("width", [1280, pytest.param(390, marks=pytest.mark.slow)])
def test_a_battle_from_the_upload_to_the_rating(tmp_path: Path, width: int) -> None:
    register("models", "talker", open_talker)
    (tmp_path / "photo.png").write_bytes(picture())
    examples = tmp_path / "examples"
    examples.mkdir()
    (examples / "blue.png").write_bytes(picture("blue"))
    with (
        fighting(
            tmp_path / "server", models("quokka", "numbat"), examples=[str(examples)]
        ) as server,
        browsing(tmp_path) as page,
    ):
        server.do(settled(server.services))
        page.resize(width)
        fight(page, server, tmp_path)
        # Another one with the example, and the vote by button.
        page.run("document.querySelector('[data-image]').click()")
        fill(page, "#ask textarea", "What is it?")
        page.run("document.querySelector('[name=file]').value = ''")
        page.run("document.querySelector('#ask .primary').click()")
        page.wait_until("!document.querySelector('#votes').hidden")
        page.run("document.querySelector('[data-outcome=tie]').click()")
        page.wait_until("!document.querySelector('#names').hidden")
        server.do(rate_arena(server.services))
        page.open(f"{server.url}/arena/ratings")
        assert "did not know the models: 2" in page.run(
            "document.querySelector('main').textContent"
        )
        assert "quokka" in page.run("document.querySelector('table').textContent")
        assert violations(page) == [] and page.run(ALL_SHOWN)
        for address in ("/", "/arena", "/arena/named", "/arena/chat", "/arena/recorded"):
            page.open(server.url + address)
            assert violations(page) == [] and page.run(ALL_SHOWN)
        page.open(f"{server.url}/arena/chat")
        page.run("document.querySelector('[data-image]').click()")
        fill(page, "#ask textarea", "fail quokka, fail numbat")
        page.run("document.querySelector('#ask .primary').click()")
        page.wait_until("document.querySelector('#status').classList.contains('fault')")
        assert "void" in page.run("document.querySelector('#status').textContent")
        assert page.complaints == []
        assert all(url.startswith(server.url) for url in page.requested)


DROPPED = """(async () => {
  const canvas = document.createElement("canvas");
  canvas.width = 30; canvas.height = 15;
  const blob = await new Promise((done) => canvas.toBlob(done, "image/png"));
  const files = new DataTransfer();
  files.items.add(new File([blob], "%(kind)s.png", {type: "image/png"}));
  const key = "%(kind)s" === "paste" ? "clipboardData" : "dataTransfer";
  const kinds = {paste: ClipboardEvent, drop: DragEvent};
  const event = new kinds["%(kind)s"]("%(kind)s", {[key]: files, bubbles: true, cancelable: true});
  return document.body.dispatchEvent(event);
})()"""
PREVIEWS = "[...document.querySelectorAll('#previews canvas')].map(one => one.ariaLabel)"


@pytest.mark.skipif(CHROMIUM is None, reason="waits for chromium")
def test_an_example_is_ready_and_a_picture_is_pasted_dropped_or_removed(tmp_path: Path) -> None:
    register("models", "talker", open_talker)
    benchmark = small.built(small.rows(2, pictures=2), tmp_path / "b", name="b")
    with (
        fighting(
            tmp_path / "server", models("quokka", "numbat"), examples=[str(benchmark.folder)]
        ) as server,
        browsing(tmp_path) as page,
    ):
        server.do(settled(server.services))
        page.resize(390)
        page.open(f"{server.url}/arena")
        page.wait_until(f"({PREVIEWS})[0]?.startsWith('Example 1')")
        assert (
            page.run("document.querySelector('#ask textarea').value") == "Which animal is number 0?"
        )
        page.run("document.querySelector('#previews button').click()")
        page.wait_until(f"({PREVIEWS}).length === 0")
        page.run("document.querySelector('#ask .primary').click()")
        page.wait_until("document.querySelector('#status').classList.contains('fault')")
        assert "paste or drop one" in page.run("document.querySelector('#status').textContent")
        for number, kind in enumerate(("paste", "drop"), start=1):
            assert not page.run(DROPPED % {"kind": kind}), (
                "the browser would leave the page for the file"
            )
            page.wait_until(f"({PREVIEWS}).at(-1) === 'Your image {number}: {kind}.png'")
            assert (
                page.run("document.querySelectorAll('[data-image][aria-pressed=true]').length") == 0
            )
            assert violations(page) == [] and page.run(ALL_SHOWN)
        page.run("document.querySelector('#ask .primary').click()")
        page.wait_until("!document.querySelector('#votes').hidden")
        page.wait_until("document.querySelector('#images img').naturalWidth === 30")
        assert page.run("document.querySelectorAll('#images img').length") == 2
        page.run("document.querySelector('[data-outcome=left]').click()")
        page.wait_until("!document.querySelector('#names').hidden")
        page.run("document.querySelector('#again').click()")
        page.run("document.querySelectorAll('[data-image]')[1].click()")
        page.run("document.querySelector('#ask textarea').focus()")
        page.run(
            "document.activeElement.dispatchEvent("
            "new KeyboardEvent('keydown', {key: 'Enter', ctrlKey: true, bubbles: true}))"
        )
        page.wait_until("!document.querySelector('#votes').hidden")
        assert (
            page.run("document.querySelector('.asked').textContent") == "Which animal is number 1?"
        )
        assert page.complaints == []


NAMES = "[...document.querySelectorAll('.side h2')].map(one => one.textContent)"
STATUS = "document.querySelector('#status').textContent"
CAN_VOTE = "!document.querySelector('#votes').hidden"


def ask_about_the_example(page: Page, question: str) -> None:
    page.run("document.querySelector('[data-image]').click()")
    fill(page, "#ask textarea", question)
    page.run("document.querySelector('#ask .primary').click()")


@pytest.mark.skipif(CHROMIUM is None, reason="waits for chromium")
def test_a_page_loaded_again_goes_on_with_its_battle(tmp_path: Path) -> None:
    register("models", "talker", open_talker)
    examples = tmp_path / "examples"
    examples.mkdir()
    (examples / "blue.png").write_bytes(picture("blue"))
    with (
        fighting(
            tmp_path / "server", models("quokka", "numbat"), examples=[str(examples)]
        ) as server,
        browsing(tmp_path) as page,
    ):
        database = server.services.database
        server.do(settled(server.services))
        page.resize(390)
        page.open(f"{server.url}/arena")
        ask_about_the_example(page, "Wait: wait numbat")
        page.wait_until(f"{BUSY} === 1")
        # In the middle of the replies.
        page.open(f"{server.url}/arena")
        page.wait_until(f"{BUSY} === 1")
        assert "still being written" in page.run(STATUS) and not page.run(CAN_VOTE)
        server.do(open_gate())
        page.wait_until(CAN_VOTE)
        # After them.
        page.open(f"{server.url}/arena")
        page.wait_until(CAN_VOTE)
        assert page.run("document.querySelector('.asked').textContent") == "Wait: wait numbat"
        page.wait_until("document.querySelector('#images img').naturalWidth === 20")
        assert page.run("[...document.querySelectorAll('.reply')].every(one => one.textContent)")
        assert page.run(NAMES) == ["Left", "Right"] and page.run(
            "document.querySelector('#ask').hidden"
        )
        assert not page.run(
            "/quokka|numbat/.test(document.documentElement.innerHTML.replaceAll('wait numbat', ''))"
        )
        assert violations(page) == [] and page.run(ALL_SHOWN)
        # The page is a second tab from now on: the vote is cast in the first, over the same session.
        page.run(
            """window.first = (() => {
                 const shown = JSON.parse(document.querySelector('#arena').dataset.battle);
                 return fetch(`/api/v1/arena/battles/${shown.id}`).then((answer) => answer.json()).then((battle) =>
                   fetch(`/api/v1/arena/battles/${battle.id}/vote`, {
                     method: 'POST',
                     headers: { 'content-type': 'application/json',
                                'x-csrf-token': document.querySelector('meta[name=csrf-token]').content },
                     body: JSON.stringify({ token: battle.token, outcome: 'left' }),
                   })).then((answer) => { document.body.dataset.first = answer.status; });
               })(), 0"""
        )
        page.wait_until("document.body.dataset.first === '200'")
        page.press("2")
        page.wait_until("!document.querySelector('#names').hidden")
        assert page.run(STATUS) == "this battle already has a vote" and not page.run(CAN_VOTE)
        outcomes = database.read_now(
            lambda connection: connection.execute(select(arena_vote.c.outcome)).scalars().all()
        )
        assert outcomes == ["left"]
        # The names stay, until another battle is begun.
        page.open(f"{server.url}/arena")
        assert sorted(page.run(NAMES)) == ["numbat", "quokka"] and not page.run(CAN_VOTE)
        page.run("document.querySelector('#again').click()")
        ask_about_the_example(page, "And this?")
        page.wait_until(CAN_VOTE)
        # Another battle beside the open one: nothing is left before it begins.
        page.run("document.querySelector('#again').click()")
        assert "ends without a vote" in page.run(STATUS)
        page.open(f"{server.url}/arena")
        page.wait_until(CAN_VOTE)
        page.run("document.querySelector('#again').click()")
        ask_about_the_example(page, "And that?")
        page.wait_until(CAN_VOTE)
        page.run("document.querySelector('[data-outcome=tie]').click()")
        page.wait_until("!document.querySelector('#names').hidden")
        states = select(arena_battle.c.state).order_by(arena_battle.c.created)
        told = database.read_now(lambda connection: connection.execute(states).scalars().all())
        assert told == ["voted", "abandoned", "voted"]
        server.do(rate_arena(server.services))
        page.open(f"{server.url}/arena/ratings")
        assert "Battles abandoned without a vote: 1." in page.run(
            "document.querySelector('main').textContent"
        )
        assert len(page.complaints) == 1 and "409" in str(page.complaints)
