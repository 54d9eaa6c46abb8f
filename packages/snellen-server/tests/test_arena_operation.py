"""How an operator runs an arena: what it may spend, what it says of its models, what it takes; over real HTTP."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Row, select

pytest.importorskip("fastapi", reason="waits for fastapi")
pytest.importorskip("alembic", reason="waits for alembic")

from hosting import RunningServer, hosted
from snellen.common.images import Images
from snellen.records import Request, Response
from snellen.registry import register
from snellen_server.arena.battles import arena_battle
from snellen_server.arena.running import arena_of
from snellen_server.arena.standings import rate_arena
from test_server_arena import Fight, fighting, models, open_talker, picture


@pytest.fixture(autouse=True)
def talkers() -> None:
    register("models", "talker", open_talker)


def all_battles(server: RunningServer) -> list[Row[Any]]:
    return list(
        server.services.database.read_now(
            lambda connection: connection.execute(select(arena_battle)).all()
        )
    )


def test_a_day_has_its_budget_also_after_a_restart(tmp_path: Path) -> None:
    entries = models("quokka", reply_price=0.03) + models("numbat", reply_price=0.02)
    for start in range(2):
        with fighting(tmp_path / "server", entries, daily_budget=0.12) as server:
            if start == 0:
                first = Fight(server.visitor())
                assert first.outcome == "answered"
                assert first.further().status_code == 200  # 0.10 with this
                assert first.vote(token=first.shown()["token"]).status_code == 200
            browser = server.visitor()
            digest = browser.send("/api/v1/images", picture()).json()["digest"]
            body = {"question": "What is it?", "images": [digest]}
            refused = browser.ask("/api/v1/arena/battles", body)
            assert refused.status_code == 503
            assert "today's budget for replies is spent" in refused.json()["error"]["message"]
            assert len(all_battles(server)) == 1


def test_what_no_model_is_asked_is_not_charged(tmp_path: Path) -> None:
    entries = models("quokka", "numbat", reply_price=0.03)
    with fighting(tmp_path / "server", entries, daily_budget=0.12) as server:
        voted = Fight(server.visitor())
        assert voted.vote().status_code == 200
        for _ in range(3):
            assert voted.further().status_code == 409
        assert Fight(server.visitor()).outcome == "answered"
        assert voted.further().status_code == 503  # all is spent now


def test_a_switch_stops_all_questions_at_once_and_keeps_votes(tmp_path: Path) -> None:
    with fighting(tmp_path / "server", models("quokka", "numbat")) as server:
        open_battle = Fight(server.visitor())
        admin = server.admin()
        assert server.visitor().post("/arena/switch", {"stopped": "true"}).status_code == 401
        assert admin.post("/arena/switch", {"stopped": "true"}).status_code == 303
        assert "no model is asked" in admin.get("/arena/ratings").text
        refused = open_battle.further()
        assert refused.status_code == 503 and "paused by its operator" in refused.text
        assert open_battle.vote().status_code == 200
    with fighting(tmp_path / "server", models("quokka", "numbat")) as server:
        assert arena_of(server.services).spending.is_stopped
        assert server.admin().post("/arena/switch", {"stopped": "false"}).status_code == 303
        assert Fight(server.visitor()).outcome == "answered"


def test_one_network_has_so_many_questions_a_day_whatever_its_cookies(tmp_path: Path) -> None:
    now = [0.0]
    arena = {"models": models("quokka", "numbat")}
    with hosted(
        tmp_path / "server", limited=True, features=["arena"], feature={"arena": arena}
    ) as server:
        services = server.services
        services.limiter._clock = lambda: now[0]
        allowed = 0
        # A new cookie each second of a day: the limit of a minute alone would allow 172,800 questions, two in a second.
        for second in range(86_400):
            now[0] = float(second)
            waits = [
                services.wait_seconds(name, f"cookie {second}", "203.0.113.0/24")
                for name in ("arena questions", "arena questions a day")
            ]
            allowed += waits == [0.0, 0.0]
        assert 1_500 <= allowed <= 3_000


def test_the_page_of_ratings_says_who_made_a_model_its_licence_and_price(tmp_path: Path) -> None:
    described = models("quokka", maker="Quokka Works", licence="Apache-2.0", reply_price=0.02)
    for entries, is_described in (
        (described + models("numbat"), True),
        (models("quokka", "numbat"), False),
    ):
        with fighting(tmp_path / str(is_described), entries) as server:
            Fight(server.visitor()).vote()
            server.do(rate_arena(server.services))
            page = server.visitor().get("/arena/ratings").text
            for words in ("Quokka Works", "Apache-2.0", "price of a reply", ">0.02<"):
                assert (words in page) == is_described


class Writer:
    """A model of words that says how many images it was shown."""

    kinds = frozenset({"generate"})
    concurrency = 4

    def __init__(self, name: str) -> None:
        self.name = name

    def fingerprint(self) -> dict[str, str]:
        return {"writer": self.name}

    async def ask(self, request: Request, images: Images) -> Response:
        return Response(text=f"{len(request.images)} images", finish="stop")

    async def close(self) -> None:
        pass


def test_a_question_without_an_image_is_taken_where_the_operator_wants_it(tmp_path: Path) -> None:
    register("models", "writer", lambda spec: Writer(spec.target))
    entries = [{"name": name, "model": f"writer:{name}"} for name in ("quokka", "numbat")]
    body = {"question": "What is a quokka?"}
    for without_image in (True, False):
        folder = tmp_path / str(without_image)
        with fighting(folder, entries, without_image=without_image) as server:
            browser = server.visitor()
            answer = browser.ask("/api/v1/arena/battles", body)
            marked = 'data-without-image="true"' in browser.get("/arena").text
            assert marked == without_image
            if not without_image:
                assert answer.status_code == 422 and "needs an image here" in answer.text
                continue
            name = answer.text.split('"id":"')[1].split('"')[0]
            shown = browser.get(f"/api/v1/arena/battles/{name}").json()
            assert shown["images"] == [] and shown["turns"][0]["left"] == "0 images"
            further = {"question": "And a numbat?"}
            again = browser.ask(f"/api/v1/arena/battles/{name}/turns", further)
            assert again.status_code == 200 and "answered" in again.text
            token = browser.get(f"/api/v1/arena/battles/{name}").json()["token"]
            cast = {"token": token, "outcome": "left"}
            assert browser.ask(f"/api/v1/arena/battles/{name}/vote", cast).status_code == 200


def test_a_question_may_be_about_several_images(tmp_path: Path) -> None:
    register("models", "writer", lambda spec: Writer(spec.target))
    entries = [{"name": name, "model": f"writer:{name}"} for name in ("quokka", "numbat")]
    with fighting(tmp_path, entries, max_images=2) as server:
        browser = server.visitor()
        digests: list[str] = []
        for colour in ("red", "green", "blue"):
            sent = browser.send("/api/v1/images", picture(colour))
            digests.append(sent.json()["digest"])
        body = {"question": "Which is brighter?", "images": digests[:2]}
        answer = browser.ask("/api/v1/arena/battles", body)
        name = answer.text.split('"id":"')[1].split('"')[0]
        shown = browser.get(f"/api/v1/arena/battles/{name}").json()
        assert shown["images"] == digests[:2]
        assert shown["turns"][0]["left"] == shown["turns"][0]["right"] == "2 images"
        again = browser.ask(f"/api/v1/arena/battles/{name}/turns", {"question": "And darker?"})
        assert "2 images" in again.text
        refused = browser.ask("/api/v1/arena/battles", body | {"images": digests})
        assert refused.status_code == 422 and "at most 2 images here" in refused.text
        # An image of somebody else is refused, whatever stands before it.
        stranger = server.visitor()
        stolen = stranger.ask("/api/v1/arena/battles", body | {"images": digests[:1]})
        assert stolen.status_code == 404 and "upload it first" in stolen.text


def test_hints_for_the_operator_are_shown_to_administrators_alone(tmp_path: Path) -> None:
    with hosted(tmp_path / "server", features=["arena", "leaderboard"]) as server:
        for address, words in (
            ("/arena", "[feature.arena]"),
            ("/arena/recorded", "[feature.arena]"),
            ("/leaderboard", "[[feature.leaderboard.boards]]"),
        ):
            assert words not in server.visitor().get(address).text
            assert words in server.admin().get(address).text
