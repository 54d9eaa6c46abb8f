"""The arena of `snellen serve`: battles over real HTTP, from the question to the rating, and what must not happen."""

from __future__ import annotations

import asyncio
import html
import io
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import combinations
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from msgspec.structs import replace
from PIL import Image
from sqlalchemy import Row, func, select, update

pytest.importorskip("fastapi", reason="waits for fastapi")
pytest.importorskip("alembic", reason="waits for alembic")
pytest.importorskip("polars", reason="waits for polars")

import small
import snellen as sn
from hosting import RunningServer, hosted
from http_browser import Browser
from postgres import IS_THERE, running_postgres
from snellen.building.builder import build_benchmark
from snellen.building.recipe import Recipe
from snellen.cli import main
from snellen.common.images import Images
from snellen.errors import ModelError
from snellen.models.base import ReplyListener
from snellen.models.embedded import Scripted
from snellen.models.model_strings import ModelSpec
from snellen.records import Failure, Request, Response
from snellen.registry import register
from snellen.runs.run_folder import read_manifest, write_manifest
from snellen_server.arena.battles import (
    BattleTurn,
    Contender,
    NewBattle,
    SideReply,
    arena_battle,
    arena_vote,
    arena_voter,
    begin_turn,
    cast_vote,
    create_battle,
    find_battle,
    finish_turn,
    leave_battles,
    void_battle,
)
from snellen_server.arena.feature import combined, judge_battles, verdict_in, void_late_battles
from snellen_server.arena.running import arena_of, draw_pair, pair_probabilities, read_recorded
from snellen_server.arena.standings import (
    count_abandoned,
    exported_votes,
    latest_standing,
    rate_arena,
    standing_of,
)
from snellen_server.arena_ratings.votes import RatingSettings
from snellen_server.cli.serve import arena_of_flag
from snellen_server.hosting.accounts import erase_person
from snellen_server.hosting.callers import Caller
from snellen_server.hosting.configuration import Configuration
from snellen_server.hosting.credentials import Signer, new_id
from snellen_server.hosting.database import ConflictError, Database, MissingError, migrate
from snellen_server.hosting.features import migration_packages
from snellen_server.hosting.services import Services
from test_arena import battles as votes_on

MARKUP = "<b>bold</b> <img src=x onerror=document.title='run'>"
GATES: dict[asyncio.AbstractEventLoop, asyncio.Event] = {}
"""What a question with `wait` waits for, in each event loop."""


def gate() -> asyncio.Event:
    return GATES.setdefault(asyncio.get_running_loop(), asyncio.Event())


async def open_gate() -> None:
    """Let those pass who wait, and nobody after them."""
    gate().set()
    del GATES[asyncio.get_running_loop()]


class Talker:
    """A model whose replies follow from its name and the question; it tells of a reply word by word."""

    kinds = frozenset({"generate"})
    concurrency = 8

    def __init__(self, name: str) -> None:
        self.name = name

    def fingerprint(self) -> dict[str, str]:
        return {"talker": self.name}

    async def ask(self, request: Request, images: Images) -> Response:
        return await self.ask_streaming(request, images, lambda text: None)

    async def ask_streaming(
        self, request: Request, images: Images, listener: ReplyListener
    ) -> Response:
        question = request.messages[-1].text
        assert images.read(request.images[0]), "a model is shown the image"
        listener("hm")
        if f"fail {self.name}" in question:
            return Response(error=Failure("server", f"{self.name} broke"))
        if f"raise {self.name}" in question:
            raise ModelError(f"{self.name} is gone")
        if f"wait {self.name}" in question:
            await gate().wait()
        if "Compare their replies" in question:
            # The judge: it likes what says 6 (quokka), and where both do, or none, the right side.
            first, second = question.split("Reply of A:\n")[1].split("\n\nReply of B:\n")
            return Response(text="[[A]]" if "of 6" in first and "of 6" not in second else "[[B]]")
        text = (
            MARKUP if "markup" in question else f"reply {len(request.messages)} of {len(self.name)}"
        )
        for word in text.split():
            listener(text[: text.index(word) + len(word)])
            await asyncio.sleep(0)
        return Response(text=text, finish="stop")

    async def close(self) -> None:
        pass


LATE = threading.Event()
"""What opening the model `late` waits for."""


def open_talker(spec: ModelSpec) -> Talker:
    if spec.target == "late":
        assert LATE.wait(60)
    if spec.target == "nobody":
        raise ModelError("nobody is there")
    return Talker(spec.target)


def models(*names: str, **settings: Any) -> list[dict[str, Any]]:
    return [{"name": name, "model": f"talker:{name}", **settings} for name in names]


@pytest.fixture(scope="module", autouse=True)
def talkers() -> None:
    register("models", "talker", open_talker)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with fighting(
        tmp_path_factory.mktemp("arena") / "server", models("quokka", "numbat")
    ) as running:
        yield running


def fighting(folder: Path, entries: Sequence[Mapping[str, Any]], **more: Any) -> Any:
    return hosted(
        folder, features=["arena"], feature={"arena": {"models": entries, "resamples": 20, **more}}
    )


@pytest.fixture
def visitor(server: RunningServer) -> Browser:
    return server.visitor()


def picture(colour: str = "red") -> bytes:
    file = io.BytesIO()
    Image.new("RGB", (20, 10), colour).save(file, "PNG")
    return file.getvalue()


def events(answer: httpx.Response) -> list[tuple[str, dict[str, Any]]]:
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"].startswith("text/event-stream")
    found = []
    for block in answer.text.strip().split("\n\n"):
        kind, data = block.split("\n")
        found.append((kind.removeprefix("event: "), json.loads(data.removeprefix("data: "))))
    return found


class Fight:
    """A battle as a script of the page fights it."""

    def __init__(self, browser: Browser, question: str = "What is it?", **wanted: Any) -> None:
        self.browser = browser
        sent = browser.send("/api/v1/images", picture())
        body = {"question": question, "images": [sent.json()["digest"]], **wanted}
        self.answer = browser.ask("/api/v1/arena/battles", body)
        self.take()

    def take(self) -> None:
        self.events = events(self.answer)
        self.outcome, said = self.events[-1]
        self.token = said.get("token", "")
        self.id = self.events[0][1]["id"]

    def further(self, question: str = "And now?") -> httpx.Response:
        self.answer = self.browser.ask(
            f"/api/v1/arena/battles/{self.id}/turns", {"question": question}
        )
        return self.answer

    def vote(
        self, outcome: str = "left", token: str | None = None, browser: Browser | None = None
    ) -> httpx.Response:
        body = {"token": self.token if token is None else token, "outcome": outcome}
        return (browser or self.browser).ask(f"/api/v1/arena/battles/{self.id}/vote", body)

    def shown(self) -> dict[str, Any]:
        found: dict[str, Any] = self.browser.get(f"/api/v1/arena/battles/{self.id}").json()
        return found

    def text(self, side: str) -> str:
        text = ""
        for kind, said in self.events:
            if kind == "text" and said["side"] == side:
                text = said["text"] if said["replace"] else text + said["text"]
        return text


def row(server: RunningServer, name: str) -> Row[Any]:
    return server.services.database.read_now(
        lambda connection: connection.execute(
            select(arena_battle).where(arena_battle.c.id == name)
        ).one()
    )


def votes(server: RunningServer, name: str) -> list[Row[Any]]:
    return list(
        server.services.database.read_now(
            lambda connection: connection.execute(
                select(arena_vote).where(arena_vote.c.battle_id == name)
            ).all()
        )
    )


# --- a battle ----------------------------------------------------------------------------------------------------


def test_names_are_shown_after_the_vote_and_nowhere_before(
    server: RunningServer, visitor: Browser
) -> None:
    fight = Fight(visitor)
    assert fight.outcome == "answered"
    before = fight.answer.text + json.dumps(fight.shown())
    assert not [secret for secret in ("quokka", "numbat", "talker") if secret in before]
    voted = fight.vote("right")
    assert voted.status_code == 200
    assert {voted.json()[side]["name"] for side in ("left", "right")} == {"quokka", "numbat"}
    assert fight.shown()["left"] == voted.json()["left"]


def test_the_record_of_a_battle_holds_what_a_rating_needs_and_nobodys_name(
    server: RunningServer, visitor: Browser
) -> None:
    fight = Fight(visitor, "What colour is it?")
    fight.further("Sure?")
    fight.take()
    fight.vote("both bad")
    kept = row(server, fight.id)
    assert (kept.kind, kept.state, kept.sampling, kept.propensity) == (
        "anonymous",
        "voted",
        "uniform",
        1.0,
    )
    assert kept.left_version != kept.right_version and len(kept.left_version) == 12
    assert [turn["prompt"] for turn in kept.turns] == ["What colour is it?", "Sure?"]
    assert [turn["left"]["text"] for turn in kept.turns] == [
        f"reply {n} of {len(kept.left)}" for n in (1, 3)
    ]
    assert all(turn[side]["seconds"] > 0 for turn in kept.turns for side in ("left", "right"))
    [vote] = votes(server, fight.id)
    cookie = visitor.http.cookies["snellen_visitor"].partition(".")[0]
    assert vote.voter and vote.voter not in cookie and vote.outcome == "both bad"
    battles = server.services.database.read_now(
        lambda connection: exported_votes(connection, texts=True)
    )
    [battle] = [battle for battle in battles if battle.id == fight.id]
    assert (battle.left, battle.outcome, battle.voter, battle.propensity) == (
        kept.left,
        "both bad",
        vote.voter,
        1.0,
    )
    assert battle.image == kept.images[0] and battle.left_reply == "\n\n".join(
        t["left"]["text"] for t in kept.turns
    )
    second = Fight(visitor)
    second.vote()
    assert votes(server, second.id)[0].voter == vote.voter


def votes_at_once(server: RunningServer, fight: Fight) -> list[int]:
    """The status of sixteen votes of one person on one battle, on connections of their own."""
    token, address = fight.browser.token(), f"{server.url}/api/v1/arena/battles/{fight.id}/vote"
    cookie = f"snellen_visitor={fight.browser.http.cookies['snellen_visitor']}"

    def vote(outcome: str) -> int:
        with httpx.Client(
            trust_env=False, verify=False, headers={"cookie": cookie, "x-csrf-token": token}
        ) as client:
            return client.post(address, json={"token": fight.token, "outcome": outcome}).status_code

    with ThreadPoolExecutor(8) as pool:
        return sorted(pool.map(vote, ["left", "right", "tie", "both bad"] * 4))


def test_of_many_votes_at_once_one_counts(server: RunningServer, visitor: Browser) -> None:
    fight = Fight(visitor)
    assert votes_at_once(server, fight) == [200] + [409] * 15
    assert len(votes(server, fight.id)) == 1
    assert "already" in fight.vote().json()["error"]["message"]


def test_on_postgresql_one_vote_counts_too_and_is_rated(tmp_path: Path) -> None:
    if not IS_THERE:
        pytest.skip("waits for the system package postgresql (make system)")
    pytest.importorskip("psycopg", reason="waits for psycopg")
    feature = {"arena": {"models": models("quokka", "numbat"), "resamples": 20}}
    with (
        running_postgres() as url,
        hosted(tmp_path, features=["arena"], feature=feature, database=url) as running,
    ):
        fights = [Fight(running.visitor()) for _ in range(3)]
        for fight in fights:
            assert votes_at_once(running, fight) == [200] + [409] * 15
        running.do(rate_arena(running.services))
        standing = running.services.database.read_now(latest_standing)
        assert standing is not None and standing.votes == 3
        actor = f"visitor:{fights[0].browser.http.cookies['snellen_visitor'].partition('.')[0]}"
        running.services.database.write_now(
            lambda connection: erase_person(connection, actor, "command line")
        )
        assert row(running, fights[0].id).turns == []


def test_what_is_known_of_a_person_names_nobody_before_the_vote(server: RunningServer) -> None:
    anna = server.signed_in("Anna")
    fight = Fight(anna, "an export of mine")
    exported = anna.get("/account/export").text
    assert fight.id in exported and "an export of mine" in exported
    assert not [
        secret
        for secret in ("quokka", "numbat", row(server, fight.id).left_version)
        if secret in exported
    ]


def test_a_token_is_good_for_the_last_replies_only(visitor: Browser) -> None:
    fight = Fight(visitor)
    first = fight.token
    fight.further()
    fight.take()
    assert fight.token != first
    assert fight.vote(token=first).status_code == 409
    for forged in ("", "x", first[:-1]):
        assert fight.vote(token=forged).status_code == 409
    assert fight.vote().status_code == 200


def test_nothing_more_is_asked_or_voted_once_names_are_shown(
    server: RunningServer, visitor: Browser
) -> None:
    fight = Fight(visitor)
    fight.vote("tie")
    assert fight.further().status_code == 409
    assert fight.vote("left").status_code == 409
    assert [vote.outcome for vote in votes(server, fight.id)] == ["tie"]


def test_somebody_elses_battle_is_not_there(server: RunningServer, visitor: Browser) -> None:
    fight, thief = Fight(visitor), server.visitor()
    assert thief.get(f"/api/v1/arena/battles/{fight.id}").status_code == 404
    assert fight.vote(browser=thief).status_code == 404
    assert (
        thief.ask(f"/api/v1/arena/battles/{fight.id}/turns", {"question": "mine?"}).status_code
        == 404
    )
    assert server.signed_in("Anna").get(f"/api/v1/arena/battles/{fight.id}").status_code == 404
    assert fight.vote().status_code == 200


@pytest.mark.parametrize("fault", ["fail quokka", "raise numbat", "fail quokka, fail numbat"])
def test_a_failure_of_either_side_voids_the_battle_and_names_nobody(
    tmp_path: Path, fault: str
) -> None:
    with fighting(tmp_path, models("quokka", "numbat")) as running:
        fight = Fight(running.visitor(), fault)
        assert fight.outcome == "voided"
        assert fight.vote(token="x").status_code == 409
        assert fight.further().status_code == 409
        shown = fight.shown()
        assert (shown["state"], shown["left"], shown["right"]) == ("voided", None, None)
        said = (
            fight.answer.text
            + json.dumps(shown["turns"][0]["left"])
            + json.dumps(shown["turns"][0]["right"])
        )
        assert "quokka" not in said and "numbat" not in said and "broke" not in said
        assert row(running, fight.id).fault and votes(running, fight.id) == []


def test_a_program_may_not_fight_and_a_page_of_another_site_neither(
    server: RunningServer, visitor: Browser
) -> None:
    program = server.with_key("Program")
    body = {"question": "?", "images": ["0" * 64]}
    assert program.http.post("/api/v1/arena/battles", json=body).status_code == 403
    assert visitor.http.post("/api/v1/arena/battles", json=body).status_code == 403
    fight = Fight(visitor)
    vote = {"token": fight.token, "outcome": "left"}
    assert visitor.http.post(f"/api/v1/arena/battles/{fight.id}/vote", json=vote).status_code == 403


def test_a_picture_is_ones_own_or_not_there(server: RunningServer, visitor: Browser) -> None:
    digest = visitor.send("/api/v1/images", picture("blue")).json()["digest"]
    refused = server.visitor().ask("/api/v1/arena/battles", {"question": "?", "images": [digest]})
    assert refused.status_code == 404


@pytest.mark.parametrize("question", ["", "  \n", "a\0b", "x" * 3000])
def test_a_question_that_is_none_is_refused(visitor: Browser, question: str) -> None:
    digest = visitor.send("/api/v1/images", picture()).json()["digest"]
    refused = visitor.ask("/api/v1/arena/battles", {"question": question, "images": [digest]})
    assert refused.status_code == 422


# --- streams, queues, time limits --------------------------------------------------------------------------------


def test_a_reply_is_shown_while_the_other_side_is_still_silent(
    server: RunningServer, visitor: Browser
) -> None:
    digest = visitor.send("/api/v1/images", picture()).json()["digest"]
    headers = {"x-csrf-token": visitor.token()}
    body = {"question": "wait numbat", "images": [digest]}
    with visitor.http.stream("POST", "/api/v1/arena/battles", json=body, headers=headers) as answer:
        lines = answer.iter_lines()
        kinds = [line for line in until(lines, "event: end") if line.startswith("event")]
        assert kinds[0] == "event: battle" and "event: text" in kinds
        name = server.services.database.read_now(
            lambda c: c.execute(
                select(arena_battle.c.id).where(arena_battle.c.state == "created")
            ).scalar_one()
        )
        refused = visitor.ask(
            f"/api/v1/arena/battles/{name}/vote", {"token": "x", "outcome": "left"}
        )
        assert (
            refused.status_code == 409
            and "not all replies have arrived" in refused.json()["error"]["message"]
        )
        server.do(open_gate())
        assert [line for line in lines if line.startswith("event")][-1] == "event: answered"


def test_a_battle_whose_page_was_closed_is_settled(server: RunningServer, visitor: Browser) -> None:
    digest = visitor.send("/api/v1/images", picture()).json()["digest"]
    headers, body = (
        {"x-csrf-token": visitor.token()},
        {"question": "wait numbat", "images": [digest]},
    )
    with visitor.http.stream("POST", "/api/v1/arena/battles", json=body, headers=headers) as answer:
        name = json.loads(until(answer.iter_lines(), "data: ")[-1].removeprefix("data: "))["id"]
    server.do(open_gate())
    server.do(settled(server.services))
    assert row(server, name).state == "answered"


def until(lines: Iterator[str], beginning: str) -> list[str]:
    found = list[str]()
    for line in lines:
        found.append(line)
        if line.startswith(beginning):
            return found
    raise AssertionError(f"no line begins with {beginning!r}: {found}")


async def settled(services: Services) -> None:
    """Wait until no battle is under way."""
    tasks = arena_of(services)._tasks
    while tasks:
        await asyncio.gather(*tasks)


def test_a_model_without_room_is_asked_no_more_in_one_clear_line(tmp_path: Path) -> None:
    with fighting(tmp_path, models("quokka", "numbat", concurrency=1, waiting=0)) as running:
        anna, berta = running.visitor(), running.visitor()
        earlier = Fight(berta)
        digest = anna.send("/api/v1/images", picture()).json()["digest"]
        headers = {"x-csrf-token": anna.token()}
        body = {"question": "wait quokka wait numbat", "images": [digest]}
        with anna.http.stream(
            "POST", "/api/v1/arena/battles", json=body, headers=headers
        ) as answer:
            lines = answer.iter_lines()
            until(lines, "event: text")
            digest = berta.send("/api/v1/images", picture()).json()["digest"]
            refused = berta.ask("/api/v1/arena/battles", {"question": "?", "images": [digest]})
            assert refused.status_code == 503 and refused.headers["retry-after"] == "1"
            assert "try again" in refused.json()["error"]["message"]
            # A battle that cannot go on can still be voted on.
            assert earlier.further().status_code == 503
            assert earlier.vote().status_code == 200
            running.do(open_gate())
            until(lines, "event: answered")
        assert Fight(berta).outcome == "answered"


def test_a_reply_that_takes_too_long_voids_the_battle(tmp_path: Path) -> None:
    # Long enough for the question that each model is asked at the start, on a busy machine.
    with fighting(tmp_path, models("quokka", "numbat", seconds=2)) as running:
        fight = Fight(running.visitor(), "wait quokka")
        assert fight.outcome == "voided"
        assert row(running, fight.id).fault == "quokka: timeout"


def test_a_model_that_cannot_be_opened_is_left_out(tmp_path: Path) -> None:
    with fighting(tmp_path, models("quokka", "nobody")) as running:
        running.do(settled(running.services))
        assert "fewer than two" in running.visitor().get("/readyz").json()["missing"]["arena"]
        page = running.visitor().get("/arena").text
        assert (
            "cannot begin: fewer than two of its models could be opened" in page
            and "data-again" not in page
        )
        digest = (anna := running.visitor()).send("/api/v1/images", picture()).json()["digest"]
        assert (
            anna.ask("/api/v1/arena/battles", {"question": "?", "images": [digest]}).status_code
            == 503
        )
        chat = Fight(anna, kind="chat", left="quokka")
        assert chat.outcome == "answered"


def test_an_arena_of_one_model_says_that_battles_need_two(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with fighting(tmp_path, models("quokka")) as running:
        running.do(settled(running.services))
        assert running.visitor().get("/readyz").status_code == 200
        assert "the arena has one model, but battles need two" in caplog.messages
        assert (
            "cannot begin: the arena has one model, but battles need two."
            in running.visitor().get("/arena").text
        )
        digest = (anna := running.visitor()).send("/api/v1/images", picture()).json()["digest"]
        refusal = anna.ask("/api/v1/arena/battles", {"question": "?", "images": [digest]})
        assert refusal.status_code == 503 and "battles need two" in refusal.text
        assert Fight(anna, kind="chat", left="quokka").outcome == "answered"
    caplog.clear()
    with fighting(tmp_path / "two", models("quokka", "numbat")) as running:
        running.do(settled(running.services))
        assert not any("battles need two" in message for message in caplog.messages)


def test_while_models_are_loaded_the_page_looks_again_by_itself(tmp_path: Path) -> None:
    with fighting(tmp_path, models("quokka", "late")) as running:
        visitor = running.visitor()
        waiting = visitor.get("/arena").text
        LATE.set()
        assert "models are being loaded" in waiting and 'role="status" data-again="1"' in waiting
        assert (
            '<noscript><meta http-equiv="refresh" content="5"></noscript>' in waiting
            and 'id="arena"' not in waiting
        )
        running.do(loaded(running.services))
        ready = visitor.get("/arena").text
        assert 'id="arena"' in ready and "data-again" not in ready and "http-equiv" not in ready


def test_a_model_that_is_gone_stays_nameless(server: RunningServer, visitor: Browser) -> None:
    fight = Fight(visitor)
    change = update(arena_battle).where(arena_battle.c.id == fight.id).values(left="dingo")
    server.services.database.write_now(lambda connection: connection.execute(change))
    refused = fight.further()
    # In the words for a model that is down, which a honeypot of no model here has too.
    assert refused.status_code == 503 and "not available right now" in refused.text
    assert "dingo" not in refused.text
    assert fight.vote().json()["left"]["name"] == "dingo"


def test_battles_of_a_server_that_was_killed_are_void_in_the_end(
    server: RunningServer, visitor: Browser
) -> None:
    fight = Fight(visitor)
    long_ago = row(server, fight.id).changed.replace(year=2020)
    change = (
        update(arena_battle)
        .where(arena_battle.c.id == fight.id)
        .values(state="created", changed=long_ago)
    )
    server.services.database.write_now(lambda connection: connection.execute(change))
    server.do(void_late_battles(server.services))
    assert row(server, fight.id).state == "voided"
    assert fight.vote().status_code == 409


# --- a page that is loaded again ---------------------------------------------------------------------------------


def on_page(browser: Browser, part: str = "") -> dict[str, Any] | None:
    """The battle that a page of the arena shows as it is loaded."""
    found = re.search(r'data-battle="([^"]*)"', browser.get(f"/arena{part}").text)
    assert found
    shown: dict[str, Any] | None = json.loads(html.unescape(found[1])) if found[1] else None
    return shown


def test_a_page_loaded_again_has_the_battle_and_its_vote_and_no_names_before(
    visitor: Browser,
) -> None:
    assert on_page(visitor) is None
    fight = Fight(visitor, "Some markup?")
    page = visitor.get("/arena").text
    names = r"quokka|numbat|talker"
    assert not re.search(names, page) and MARKUP not in page
    shown = on_page(visitor)
    assert shown == fight.shown()
    assert (shown["id"], shown["state"], shown["left"], shown["right"]) == (
        fight.id,
        "answered",
        None,
        None,
    )
    assert shown["turns"] == [{"question": "Some markup?", "left": MARKUP, "right": MARKUP}]
    first = shown["token"]
    fight.further()
    fight.take()
    again = on_page(visitor)
    assert again and len(again["turns"]) == 2 and again["token"] == fight.token != first
    assert not re.search(names, visitor.get("/arena").text)
    assert fight.vote(token=first).status_code == 409
    assert fight.vote("left", token=again["token"]).status_code == 200
    after = on_page(visitor)
    assert after and (after["state"], after["token"]) == ("voted", None)
    assert {after["left"]["name"], after["right"]["name"]} == {"quokka", "numbat"}


def test_a_page_loaded_again_gives_no_second_vote(server: RunningServer, visitor: Browser) -> None:
    fight = Fight(visitor)
    tabs = [on_page(visitor), on_page(visitor)]
    first, second = (tab["token"] for tab in tabs if tab)
    assert fight.vote("left", token=first).status_code == 200
    refused = fight.vote("right", token=second)
    assert refused.status_code == 409 and "already has a vote" in refused.json()["error"]["message"]
    assert [vote.outcome for vote in votes(server, fight.id)] == ["left"]


def test_nobody_else_is_shown_the_battle(server: RunningServer, visitor: Browser) -> None:
    fight = Fight(visitor)
    thief = server.visitor()
    assert on_page(thief) is None and on_page(server.signed_in("Berta")) is None
    assert thief.get(f"/api/v1/arena/battles/{fight.id}/events").status_code == 404
    assert on_page(visitor, "/named") is None, "each part of the arena has its own battle"


def test_a_page_loaded_while_the_replies_come_gets_all_of_them(
    server: RunningServer, visitor: Browser
) -> None:
    digest = visitor.send("/api/v1/images", picture()).json()["digest"]
    headers, body = (
        {"x-csrf-token": visitor.token()},
        {"question": "wait numbat", "images": [digest]},
    )
    with visitor.http.stream("POST", "/api/v1/arena/battles", json=body, headers=headers) as first:
        lines = first.iter_lines()
        until(lines, "event: end")
        shown = on_page(visitor)
        assert shown and (shown["state"], shown["token"]) == ("created", None)
        assert shown["turns"] == [{"question": "wait numbat", "left": None, "right": None}]
        with visitor.http.stream("GET", f"/api/v1/arena/battles/{shown['id']}/events") as second:
            also = second.iter_lines()
            until(also, "event: end")
            server.do(open_gate())
            told = [[*until(each, "event: answered"), next(each)] for each in (lines, also)]
    token = json.loads(told[0][-1].removeprefix("data: "))["token"]
    assert told[0][-1] == told[1][-1]
    assert not re.search("quokka|numbat", "".join(told[1]))
    again = on_page(visitor)
    assert (
        again
        and again["token"] == token
        and again["turns"][0]["left"]
        and again["turns"][0]["right"]
    )
    assert visitor.get(f"/api/v1/arena/battles/{shown['id']}/events").status_code == 409
    cast = {"token": token, "outcome": "tie"}
    assert visitor.ask(f"/api/v1/arena/battles/{shown['id']}/vote", cast).status_code == 200


def test_who_begins_another_battle_has_abandoned_the_open_one(
    server: RunningServer, visitor: Browser
) -> None:
    named, chat = (
        Fight(visitor, kind="named", left="numbat", right="quokka"),
        Fight(visitor, kind="chat", left="numbat"),
    )
    elsewhere, first = Fight(server.visitor()), Fight(visitor)
    before = server.services.database.read_now(count_abandoned)
    second = Fight(visitor)
    Fight(visitor, kind="chat", left="quokka")
    states = [row(server, fight.id).state for fight in (first, second, named, chat, elsewhere)]
    assert states == ["abandoned", "answered", "answered", "answered", "answered"]
    refused = first.vote()
    assert refused.status_code == 409 and "started another" in refused.json()["error"]["message"]
    assert first.further().status_code == 409 and first.shown()["left"] is None
    assert on_page(visitor) == second.shown()
    assert server.services.database.read_now(count_abandoned) == before + 1
    assert 'snellen_arena_battles_total{state="abandoned"}' in visitor.get("/metrics").text


def test_a_battle_left_while_its_replies_come_is_void(
    server: RunningServer, visitor: Browser
) -> None:
    digest = visitor.send("/api/v1/images", picture()).json()["digest"]
    headers, body = (
        {"x-csrf-token": visitor.token()},
        {"question": "wait numbat", "images": [digest]},
    )
    with visitor.http.stream("POST", "/api/v1/arena/battles", json=body, headers=headers) as answer:
        lines = answer.iter_lines()
        name = json.loads(until(lines, "data: ")[-1].removeprefix("data: "))["id"]
        second = Fight(visitor)
        server.do(open_gate())
        told = [*until(lines, "event: voided"), next(lines)]
    assert "you started another" in told[-1]
    assert (row(server, name).state, row(server, name).fault) == (
        "voided",
        "another battle was started",
    )
    assert second.vote().status_code == 200


def test_a_vote_of_long_ago_leaves_an_empty_page(server: RunningServer, visitor: Browser) -> None:
    fight = Fight(visitor)
    fight.vote()
    assert on_page(visitor)
    long_ago = row(server, fight.id).changed.replace(year=2020)
    change = update(arena_battle).where(arena_battle.c.id == fight.id).values(changed=long_ago)
    server.services.database.write_now(lambda connection: connection.execute(change))
    assert on_page(visitor) is None


# --- other kinds -------------------------------------------------------------------------------------------------


def test_a_named_battle_is_voted_on_but_not_rated_with_the_others(
    server: RunningServer, visitor: Browser
) -> None:
    fight = Fight(visitor, kind="named", left="numbat", right="quokka")
    assert fight.shown()["left"]["name"] == "numbat"
    assert fight.vote().status_code == 200
    battles = server.services.database.read_now(
        lambda connection: exported_votes(connection, texts=False)
    )
    assert [battle.anonymous for battle in battles if battle.id == fight.id] == [False]
    digest = visitor.send("/api/v1/images", picture()).json()["digest"]
    for wrong in ({"left": "numbat", "right": "numbat"}, {"left": "numbat", "right": "dingo"}):
        body = {"question": "?", "images": [digest], "kind": "named", **wrong}
        assert visitor.ask("/api/v1/arena/battles", body).status_code == 422


def test_a_chat_has_no_vote(visitor: Browser) -> None:
    chat = Fight(visitor, kind="chat", left="numbat")
    assert (
        chat.outcome == "answered"
        and chat.text("left") == "reply 1 of 6"
        and chat.text("right") == ""
    )
    chat.further()
    chat.take()
    assert chat.text("left") == "reply 3 of 6"
    assert chat.vote().status_code == 409


def test_replies_of_runs_are_voted_on_with_no_model_running(tmp_path: Path) -> None:
    benchmark = small.built(small.rows(4), tmp_path / "made")
    for name in ("quokka", "numbat"):
        replier = Scripted(
            lambda request, name=name: f"by {len(name)}: {request.sample_id}", name=name
        )  # type: ignore[misc]
        sn.evaluate(replier, str(benchmark.folder), runs=tmp_path, name=name, protocols="vanilla")
    runs = [str(tmp_path / name) for name in ("quokka", "numbat")]
    with hosted(
        tmp_path / "server", features=["arena"], feature={"arena": {"runs": runs}}
    ) as running:
        running.do(settled(running.services))
        anna = running.visitor()
        assert "Show two replies" in anna.get("/arena/recorded").text
        begun = anna.ask("/api/v1/arena/recorded", {})
        assert begun.status_code == 200
        battle = begun.json()
        assert (battle["state"], battle["left"], battle["right"]) == ("answered", None, None)
        [turn] = battle["turns"]
        assert "Which animal is number" in turn["question"] and "by 6: q" in turn["left"]
        assert anna.get(f"/images/{battle['images'][0]}").status_code == 200
        address = f"/api/v1/arena/battles/{battle['id']}"
        assert anna.ask(f"{address}/turns", {"question": "?"}).status_code == 409
        voted = anna.ask(f"{address}/vote", {"token": battle["token"], "outcome": "tie"}).json()
        assert {voted[side]["name"] for side in ("left", "right")} == {"quokka", "numbat"}
        kept = row(running, battle["id"])
        assert (kept.propensity, kept.category, set(kept.origin)) == (
            1.0,
            benchmark.name,
            {"benchmark", "sample"},
        )
        assert (
            anna.ask(
                "/api/v1/arena/battles", {"question": "?", "images": battle["images"]}
            ).status_code
            == 503
        )
        shutil.rmtree(benchmark.folder / "images")
        gone = anna.ask("/api/v1/arena/recorded", {})
        assert gone.status_code == 404 and str(tmp_path) not in gone.text


def test_a_field_of_another_version_of_the_page_is_refused(tmp_path: Path) -> None:
    two = models("quokka", "numbat")
    with fighting(tmp_path, two, without_image=True) as running:
        running.do(settled(running.services))
        anna = running.visitor()
        body = {"question": "What is it?", "image": "0" * 64}
        refused = anna.ask("/api/v1/arena/battles", body)
        assert refused.status_code == 422 and "image" in refused.json()["error"]["message"]


def test_recorded_battles_show_no_images_of_few_shot_examples(tmp_path: Path) -> None:
    table = small.write(small.rows(12), tmp_path / "table.jsonl")
    benchmark = build_benchmark(
        small.spec_of(table, "mine"),
        source=tmp_path,
        to=tmp_path / "made",
        recipe=Recipe(examples="4"),
    )
    for name, few_shot in (("plain", 0), ("shown", 2)):
        replier = Scripted(lambda request: "A", name=name)
        sn.evaluate(
            replier,
            str(benchmark.folder),
            runs=tmp_path,
            name=name,
            protocols="vanilla",
            few_shot=few_shot,
        )
    assert len(read_recorded([tmp_path / "plain"]).questions) == 8
    assert not read_recorded([tmp_path / "shown"]).questions

    # A journal may have replies to a benchmark that the manifest beside it does not list.
    other_manifest = replace(read_manifest(tmp_path / "plain"), benchmarks=())
    write_manifest(tmp_path / "plain", other_manifest)
    assert not read_recorded([tmp_path / "plain"]).questions


@pytest.mark.parametrize("other", ["numbat", "bat"])
def test_a_judge_votes_on_the_same_battles_apart_from_people(tmp_path: Path, other: str) -> None:
    judge = {"name": "wombat", "model": "talker:wombat", "every_seconds": 0}
    with fighting(tmp_path, models("quokka", other), judge=judge) as running:
        anna = running.visitor()
        abandoned, fight = Fight(anna), Fight(anna)
        fight.vote("both bad")
        for _ in range(2):  # the second time there is nothing left to do
            running.do(judge_battles(running.services))
        by_kind = {vote.voter_kind: vote for vote in votes(running, fight.id)}
        kept = row(running, fight.id)
        assert by_kind["person"].outcome == "both bad" and by_kind["judge"].judge == "wombat"
        # numbat has six letters too, so that the judge follows the order: that is a tie.
        better = "left" if kept.left == "quokka" else "right"
        assert by_kind["judge"].outcome == ("tie" if other == "numbat" else better)
        exported = running.services.database.read_now(
            lambda connection: exported_votes(connection, texts=False)
        )
        assert {(battle.voter_kind, battle.id) for battle in exported} == {
            ("person", fight.id),
            ("judge", f"{fight.id}/wombat"),
            ("judge", f"{abandoned.id}/wombat"),
        }


def test_a_judge_that_fails_is_left_alone_until_it_answers_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    judge = {"name": "wombat", "model": "talker:wombat", "every_seconds": 0}
    with fighting(tmp_path, models("quokka", "numbat"), judge=judge) as running:
        anna = running.visitor()
        for _ in range(5):
            Fight(anna, "raise wombat").vote("both bad")
        for _ in range(2):
            running.do(judge_battles(running.services))
    failures = [record for record in caplog.records if record.message == "a model failed"]
    # Each battle takes two requests; the third failure in a row is the last one that a model is allowed.
    assert len(failures) == 4


def test_a_judge_that_follows_the_order_says_tie_and_one_without_a_verdict_nothing() -> None:
    assert verdict_in("[[A]] I thought, but\n[[both bad]]") == "both bad"
    assert verdict_in("[[C]] A is better") is None
    assert (combined("left", "left"), combined("left", "right"), combined("left", None)) == (
        "left",
        "tie",
        None,
    )


# --- ratings -----------------------------------------------------------------------------------------------------


def test_votes_become_ratings_that_are_frozen_and_computed_again(tmp_path: Path) -> None:
    alike = {"networked": [], "anonymous": 1.0}
    with fighting(tmp_path / "server", models("quokka", "numbat"), trust=alike) as running:
        page = running.visitor().get("/arena/ratings").text
        assert "no votes" in page
        visitor = running.visitor()
        for number in range(12):
            browser = visitor if number % 2 else running.visitor()
            fight = Fight(browser, f"What is it, {number}?", kind="anonymous")
            names = [getattr(row(running, fight.id), side) for side in ("left", "right")]
            # The name that comes first wins three times of four.
            best = ("left", "right")[names.index(min(names))]
            worst = {"left": "right", "right": "left"}[best]
            fight.vote("both bad" if number == 5 else worst if number % 4 == 0 else best)
        running.do(rate_arena(running.services))
        standing = running.services.database.read_now(latest_standing)
        assert standing is not None and standing.rating is not None and standing.votes == 12
        versions = {
            f"{model.name}@{model.version}"
            for model in arena_of(running.services).pool.models.values()
        }
        assert (
            {one.model for one in standing.elo}
            == {one.model for one in standing.rating.models}
            == versions
        )
        # Of eleven votes for a better side three were for the name that comes later.
        assert {one.model.partition("@")[0]: one.rank for one in standing.rating.models}[
            "numbat"
        ] == 1
        assert standing.rating.models[0].win_share.value == pytest.approx(8 / 11)
        assert (
            sum(pair.both_bad for pair in standing.pairs) == 2
        )  # one vote, in the records of both models
        admin = running.admin()
        assert running.visitor().post("/arena/ratings/freeze").status_code == 401
        assert admin.post("/arena/ratings/freeze").status_code == 303
        running.do(rate_arena(running.services))
        page = admin.get("/arena/ratings").text
        assert "quokka" in page and "votes.parquet" in page
        for name in ("snapshot.json", "votes.parquet"):
            answer = admin.get(f"/arena/ratings/{frozen_number(page)}/{name}")
            assert answer.status_code == 200
            (tmp_path / name).write_bytes(answer.content)
        assert admin.get("/arena/ratings/999/snapshot.json").status_code == 404
        assert admin.get(f"/arena/ratings/{frozen_number(page)}/standing").status_code == 404
    command = [
        "arena",
        "rate",
        str(tmp_path / "votes.parquet"),
        "--check",
        str(tmp_path / "snapshot.json"),
    ]
    with pytest.raises(SystemExit) as ended:
        main(command)
    assert ended.value.code == 0


def frozen_number(page: str) -> str:
    return page.split('/snapshot.json"')[0].rpartition("/")[2]


def test_the_first_vote_makes_provisional_ratings_with_intervals_and_no_rank(
    tmp_path: Path,
) -> None:
    with fighting(tmp_path, models("quokka", "numbat")) as running:
        assert "There are no votes yet" in running.visitor().get("/").text
        fight = Fight(running.visitor())
        best = fight.vote("left").json()["left"]["name"]
        waiting = running.visitor().get("/").text
        assert (
            "ratings follow within a minute" in waiting and "There are no votes yet" not in waiting
        )
        running.do(rate_arena(running.services))
        standing = running.services.database.read_now(latest_standing)
        assert standing is not None and standing.rating is None and standing.ranked_models == ()
        first, second = standing.provisional
        assert first.model.partition("@")[0] == best and (first.rank, second.rank) == (None, None)
        assert first.low < 1000 < first.rating < first.high and first.high - first.low > 300
        for _ in range(2):
            Fight(running.visitor(), kind="named", left="numbat", right="quokka").vote()
        running.do(rate_arena(running.services))
        ratings = running.visitor().get("/arena/ratings").text
        assert "did not know the models: 1 of 3 votes, as of" in ratings
        assert "2 the names of the models were visible" in ratings
        for address in ("/arena/ratings", "/"):
            page = running.visitor().get(address).text
            assert (
                page.count("provisional</span>") == 2
                and f"{first.low:.0f}, {first.high:.0f}" in page
            )


def test_a_new_model_is_provisional_beside_those_that_are_settled() -> None:
    rows = votes_on(*["a>b", "b>a"] * 100, "a>c", voter=lambda number: str(number // 2 % 20))
    standing = standing_of(rows, RatingSettings(resamples=50))
    assert [(one.model, one.rank) for one in standing.ranked_models] == [("a", 1), ("b", 1)]
    assert [(one.model, one.rank) for one in standing.provisional] == [("c", None)]
    assert standing.provisional[0].low < standing.provisional[0].rating < 1000
    better = standing_of(
        votes_on(*["a>b"] * 150, *["b>a"] * 50, voter=lambda number: str(number % 20)),
        RatingSettings(),
    )
    assert [(one.model, one.rank) for one in better.ranked_models] == [
        ("a", 1),
        ("b", 2),
    ] and not better.provisional


def test_the_home_page_shows_outcomes_of_battles_and_nobodys_words(tmp_path: Path) -> None:
    benchmark = small.built(small.rows(2, pictures=2), tmp_path / "b", name="b")
    with fighting(
        tmp_path / "server", models("quokka", "numbat"), examples=[str(benchmark.folder)]
    ) as running:
        running.do(settled(running.services))
        visitor, examples = running.visitor(), arena_of(running.services).examples
        Fight(visitor, "an untold question").vote("tie")
        Fight(visitor, "asked about an example", images=[examples[0].digest]).vote("both bad")
        Fight(visitor, examples[1].question, images=[examples[1].digest]).vote("left")
        Fight(visitor, "a battle without a vote")
        page = html.unescape(running.visitor().get("/").text)
        assert page.count("the voter's own question") == 2
        assert "an untold question" not in page and "asked about an example" not in page
        assert (
            examples[1].question in page
            and examples[1].digest in page
            and examples[0].digest not in page
        )
        assert page.count("won against") == 1 and ": a tie" in page and ": both bad" in page


def test_who_is_erased_leaves_votes_without_texts_or_name(tmp_path: Path) -> None:
    with fighting(tmp_path, models("quokka", "numbat")) as running:
        fight = Fight(visitor := running.visitor(), "my secret question")
        fight.vote("left")
        actor = f"visitor:{visitor.http.cookies['snellen_visitor'].partition('.')[0]}"
        database = running.services.database
        database.write_now(lambda connection: erase_person(connection, actor, "command line"))
        kept = row(running, fight.id)
        assert (kept.visitor, kept.turns, kept.images, kept.state) == (None, [], [], "voted")
        assert [vote.outcome for vote in votes(running, fight.id)] == ["left"]
        voters = database.read_now(
            lambda c: c.execute(select(func.count()).select_from(arena_voter)).scalar_one()
        )
        assert voters == 0
        assert fight.shown()["error"]["status"] == 404


# --- the command -------------------------------------------------------------------------------------------------


def test_one_command_serves_the_models_of_a_file(tmp_path: Path) -> None:
    examples = tmp_path / "examples"
    examples.mkdir()
    (examples / "red.png").write_bytes(picture())
    file = tmp_path / "arena.toml"
    entries = [
        f'[[models]]\nname = "{name}"\nmodel = "snellen:{name}"\n'
        for name in ("uniform", "always-a")
    ]
    file.write_text(f"examples = ['{examples}']\n" + "".join(entries))
    process = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "snellen",
            "serve",
            str(tmp_path / "lab"),
            "--port",
            "0",
            "--arena",
            str(file),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "COLUMNS": "200"},
    )
    assert process.stdout is not None and process.stderr is not None
    process.stdout.readline()
    visitor = Browser(process.stdout.readline().split()[0])
    while (
        visitor.get("/readyz").status_code != 200 or "data-image" not in visitor.get("/arena").text
    ):
        process.stderr.readline()  # the log of what was asked
    assert vote_on_an_example(visitor) == {"uniform", "always-a"}
    visitor.http.close()
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)
    assert process.returncode in (0, -signal.SIGTERM)


def test_the_models_that_ship_fight_without_key_or_download(tmp_path: Path) -> None:
    pytest.importorskip("transformers", reason="waits for transformers")
    with hosted(tmp_path, features=["arena"], feature={"arena": arena_of_flag("demo")}) as running:
        running.do(settled(running.services))
        running.do(loaded(running.services))
        assert running.visitor().get("/readyz").status_code == 200
        assert vote_on_an_example(running.visitor()) == {"tiny", "tiny-xs"}


async def loaded(services: Services) -> None:
    await asyncio.gather(*arena_of(services).pool._loading)


def vote_on_an_example(visitor: Browser) -> set[str]:
    """The names that a vote on an example's battle shows."""
    page = visitor.get("/arena").text
    body = {"question": "What colour is the star?", "images": [page.split('data-image="')[1][:64]]}
    told = events(visitor.ask("/api/v1/arena/battles", body))
    assert told[-1][0] == "answered"
    assert {said["side"] for kind, said in told if kind == "text"} == {"left", "right"}
    vote = {"token": told[-1][1]["token"], "outcome": "left"}
    voted = visitor.ask(f"/api/v1/arena/battles/{told[0][1]['id']}/vote", vote).json()
    return {voted[side]["name"] for side in ("left", "right")}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("models = [{ name = 'a' }]", "missing required field `model`"),
        (
            "[[models]]\nname = 'a'\nmodel = 'x:1'\n[[models]]\nname = 'a'\nmodel = 'x:2'",
            "two models are named 'a'",
        ),
        ("sampling = 'always'", "always"),
        ("model = 1", "unknown field"),
        ("[", "docs/reference/server.md"),
    ],
)
def test_a_file_of_an_arena_that_cannot_be_meant_is_refused_in_one_line(
    tmp_path: Path, text: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "arena.toml").write_text(text)
    with pytest.raises(SystemExit) as ended:
        main(["serve", str(tmp_path / "lab"), "--arena", str(tmp_path / "arena.toml")])
    said = capsys.readouterr().err
    assert ended.value.code != 0 and message in said and said.count("\n") == 1


# --- pairs -------------------------------------------------------------------------------------------------------


@given(
    st.integers(2, 8).flatmap(
        lambda size: st.tuples(
            st.just(size), st.lists(st.integers(0, 10**6), min_size=28, max_size=28)
        )
    ),
    st.sampled_from(["uniform", "need"]),
)
def test_the_propensities_of_all_pairs_sum_to_one_and_none_is_tiny(
    drawn: tuple[int, list[int]], sampling: Any
) -> None:
    size, counts = drawn
    pairs = list(combinations([f"model {n}" for n in range(size)], 2))
    known = {frozenset(pair): count for pair, count in zip(pairs, counts, strict=False)}
    shares = pair_probabilities(pairs, known, sampling)
    assert sum(shares) == pytest.approx(1) and min(shares) >= 0.2 / len(pairs)
    if sampling == "need":
        neediest = min(range(len(pairs)), key=lambda place: known[frozenset(pairs[place])])
        assert shares[neediest] == max(shares)


def test_pairs_are_drawn_as_often_as_their_propensity_says_on_either_side() -> None:
    rng, pairs = random.Random(1), [("a", "b"), ("a", "c"), ("b", "c")]
    known = {frozenset(("a", "b")): 9}
    draws = [draw_pair(pairs, known, "need", rng) for _ in range(4000)]
    rare = [draw for draw in draws if {draw.left, draw.right} == {"a", "b"}]
    # 0.2 / 3 + 0.8 (1 / 10) / (1 / 10 + 1 + 1) = 0.1048, of 4,000: 419 with a standard deviation of 19
    assert rare[0].propensity == pytest.approx(0.10476, abs=1e-5)
    assert 360 < len(rare) < 480
    assert 0.35 < sum(draw.left == "a" for draw in rare) / len(rare) < 0.65


# --- the state machine -------------------------------------------------------------------------------------------


class BattleMachine(RuleBasedStateMachine):
    """One battle, done anything to at any time, beside what may become of it."""

    @initialize(kind=st.sampled_from(["anonymous", "named", "chat"]))
    def begin(self, kind: Any) -> None:
        self.database = OPENED[0]
        self.owner, self.other = Caller(new_id(), "net"), Caller(new_id(), "net")
        new = NewBattle(kind, Contender("x", "1"), Contender("y", "2"), BattleTurn("?"), ())
        self.kind, self.state, self.turns = kind, "created", 1
        self.tokens = list[str]()
        self.name = self.database.write_now(
            lambda connection: create_battle(connection, self.owner, new)
        )

    def replied(self) -> list[BattleTurn]:
        return [BattleTurn("?", SideReply("l"), SideReply("r"))] * self.turns

    @rule(late=st.booleans())
    def finish(self, late: bool) -> None:
        turns = self.replied()[: self.turns - late]
        token = self.database.write_now(
            lambda connection: finish_turn(connection, SIGNER, self.name, turns)
        )
        assert (token is not None) == (self.state == "created" and not late)
        if token:
            self.tokens.append(token)
            self.state = "answered"

    @rule(by_owner=st.booleans())
    def begin_another(self, by_owner: bool) -> None:
        caller = self.owner if by_owner else self.other
        left = self.database.write_now(
            lambda connection: leave_battles(connection, caller, self.kind)
        )
        is_left = by_owner and self.kind != "chat"
        assert left == (is_left and self.state == "answered")
        if is_left:
            self.state = {"created": "voided", "answered": "abandoned"}.get(self.state, self.state)

    @rule()
    def fail(self) -> None:
        turns = self.replied()
        self.database.write_now(
            lambda connection: void_battle(connection, self.name, turns, "fault")
        )
        self.state = "voided" if self.state == "created" else self.state

    @rule(by_owner=st.booleans())
    def ask_further(self, by_owner: bool) -> None:
        caller = self.owner if by_owner else self.other
        try:
            self.database.write_now(
                lambda connection: begin_turn(connection, caller, self.name, "?", 3)
            )
        except MissingError:
            assert not by_owner
        except ConflictError:
            assert by_owner and (self.state != "answered" or self.turns == 3)
        else:
            assert by_owner and self.state == "answered" and self.turns < 3
            self.state, self.turns = "created", self.turns + 1

    @precondition(lambda self: self.tokens)
    @rule(data=st.data(), by_owner=st.booleans())
    def vote(self, data: st.DataObject, by_owner: bool) -> None:
        token = data.draw(st.sampled_from(self.tokens))
        caller = self.owner if by_owner else self.other
        may = (
            by_owner
            and self.state == "answered"
            and token == self.tokens[-1]
            and self.kind != "chat"
        )
        try:
            self.database.write_now(cast_vote, caller, self.name, token, "left")
        except MissingError:
            assert not by_owner
        except ConflictError:
            assert by_owner and not may
        else:
            assert may
            self.state = "voted"

    @invariant()
    def is_as_expected(self) -> None:
        battle = self.database.read_now(
            lambda connection: find_battle(connection, self.owner, self.name)
        )
        count = (
            select(func.count()).select_from(arena_vote).where(arena_vote.c.battle_id == self.name)
        )
        assert (battle.state, battle.turn_count, len(battle.turns)) == (
            self.state,
            self.turns,
            self.turns,
        )
        assert self.database.read_now(lambda c: c.execute(count).scalar_one()) == (
            self.state == "voted"
        )
        assert (battle.token_digest is not None) == (self.state == "answered")


SIGNER = Signer(b"key")
OPENED: list[Database] = []
"""What a state machine cannot be given: it has no fixtures."""


@pytest.fixture(scope="module")
def battle_database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    opened = Database(Configuration(folder=tmp_path_factory.mktemp("battles")).url)
    migrate(opened, migration_packages())
    OPENED.append(opened)
    yield
    OPENED.clear()
    opened.close()


@pytest.mark.usefixtures("battle_database")
def test_whatever_is_done_to_a_battle_in_whatever_order_it_has_one_vote_at_most() -> None:
    run_state_machine_as_test(
        BattleMachine, settings=settings(max_examples=25, stateful_step_count=12, deadline=None)
    )
