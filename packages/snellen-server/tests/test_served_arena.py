"""The arena as it is installed: a server's process under uvloop, and models behind real HTTP."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("fastapi", reason="waits for fastapi")

from PIL import Image

from http_browser import Browser
from served import served
from servers import Server, broken, start_server
from snellen_server.arena import model_pool
from test_server_arena import Fight, fighting, settled

ARENA = """
examples = ["{examples}"]
[[models]]
name = "quokka"
model = "openai:first@{first}"
[[models]]
name = "numbat"
model = "openai:second@{second}"
"""


@pytest.fixture
def first() -> Iterator[Server]:
    with start_server(reply="a red square") as server:
        yield server


@pytest.fixture
def second() -> Iterator[Server]:
    with start_server(reply="something red") as server:
        yield server


def arena_file(folder: Path, first: str, second: str) -> Path:
    examples = folder / "examples"
    examples.mkdir()
    Image.new("RGB", (32, 32), "red").save(examples / "red.png")
    file = folder / "arena.toml"
    file.write_text(ARENA.format(examples=examples, first=first, second=second))
    return file


def wait_for(browser: Browser, status: int) -> dict[str, str]:
    """What is missing once /readyz has this status."""
    while (readiness := browser.get("/readyz")).status_code != status:
        time.sleep(0.1)
    missing: dict[str, str] = readiness.json()["missing"]
    return missing


def test_a_served_arena_holds_a_battle_between_models_behind_an_api(
    tmp_path: Path, first: Server, second: Server
) -> None:
    file = arena_file(tmp_path, first.url, second.url)
    with served("serve", tmp_path / "lab", "--arena", file, folder=tmp_path) as server:
        visitor = server.visitor()
        wait_for(visitor, 200)
        assert server.has_loaded("uvloop")

        fight = Fight(visitor, "Which colour is the square?")
        assert fight.outcome == "answered"
        assert {fight.text("left"), fight.text("right")} == {"a red square", "something red"}
        voted = fight.vote("left")
        assert voted.status_code == 200
        names = {voted.json()[side]["name"] for side in ("left", "right")}
        assert names == {"quokka", "numbat"}
        expected = "quokka" if fight.text("left") == "a red square" else "numbat"
        assert voted.json()["left"]["name"] == expected

    for api in (first, second):
        asked = api.seen()[-1].asked["messages"][-1]["content"]
        assert {part["type"] for part in asked} == {"text", "image_url"}
        assert "Which colour is the square?" in str(asked)


def test_an_arena_whose_models_cannot_be_asked_is_not_ready(tmp_path: Path, first: Server) -> None:
    with start_server(key="another") as locked:
        file = arena_file(tmp_path, first.url, locked.url)
        with served("serve", tmp_path / "lab", "--arena", file, folder=tmp_path) as server:
            visitor = server.visitor()
            while "being loaded" in (missing := wait_for(visitor, 503)["arena"]):
                time.sleep(0.1)
            assert "fewer than two of its models reply" in missing
            assert "cannot begin: fewer than two" in visitor.get("/arena").text


def test_a_model_that_fails_again_and_again_takes_part_again_once_it_replies(
    tmp_path: Path, first: Server, second: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model_pool, "TRIAL_SECONDS", 0.05)
    entries = [
        {"name": "quokka", "model": f"openai:first@{first.url}"},
        {"name": "numbat", "model": f"openai:second@{second.url}?retries=0"},
    ]
    with fighting(tmp_path, entries) as running:
        visitor = running.visitor()
        wait_for(visitor, 200)
        second.script(broken(400, times=1000))
        outcomes = [Fight(visitor).outcome for _ in range(model_pool.FAILURES_BEFORE_PAUSE)]
        assert outcomes == ["voided"] * model_pool.FAILURES_BEFORE_PAUSE
        assert "fewer than two of its models reply" in wait_for(visitor, 503)["arena"]

        second.script()
        assert wait_for(visitor, 200) == {}
        assert Fight(visitor).outcome == "answered"
        running.do(settled(running.services))
