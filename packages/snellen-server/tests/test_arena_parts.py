"""What an arena does beside plain ratings: equal style, categories, languages, consent, models without a restart."""

from __future__ import annotations

import asyncio
import json
import os
import random
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from hosting import RunningServer, hosted
from http_browser import Browser
from snellen.registry import register
from snellen_server.arena.languages import language_of
from snellen_server.arena.reloading import reread_models
from snellen_server.arena.running import arena_of, pair_probabilities
from snellen_server.arena.settings import ArenaSettings, QuestionCategory, read_settings
from snellen_server.arena.slices import category_of, rated_slices
from snellen_server.arena.standings import exported_votes, rate_arena
from snellen_server.arena_ratings.log import Battle, battle_table, vote_log
from snellen_server.arena_ratings.rating import rate_votes
from snellen_server.arena_ratings.style import style_differences, style_of
from snellen_server.arena_ratings.votes import RatingSettings
from snellen_server.hosting.accounts import erase_person
from test_server_arena import Fight, models, open_talker

PLAIN = RatingSettings(interval="sandwich")


@pytest.fixture(scope="module", autouse=True)
def talkers() -> None:
    register("models", "talker", open_talker)


# --- style -----------------------------------------------------------------------------------------------------------


def battles_won_by_length(count: int) -> list[Battle]:
    """Votes for the longer reply four times of five; `long` writes more than `short` three times of four."""
    rng = random.Random(5)
    battles = []
    for number in range(count):
        longer, shorter = rng.randrange(200, 400), rng.randrange(50, 150)
        long_length, short_length = (longer, shorter) if rng.random() < 0.75 else (shorter, longer)
        votes_for_longer = rng.random() < 0.8
        long_won = (long_length > short_length) == votes_for_longer
        long_side, short_side = rng.sample(["left", "right"], 2)
        battles.append(
            Battle(
                id=str(number),
                left="long" if long_side == "left" else "short",
                right="long" if long_side == "right" else "short",
                outcome=long_side if long_won else short_side,
                time=float(number),
                voter=f"voter {number % 50}",
                category="Counting" if number % 2 else "Homework",
                language="de" if number % 4 == 0 else "",
                **style_of("x" * long_length, long_side),
                **style_of("x" * short_length, short_side),
            )
        )
    return battles


def test_at_equal_style_length_buys_no_rating() -> None:
    battles = battles_won_by_length(2_000)
    plain = {row.model: row.rating or 0.0 for row in rate_votes(vote_log(battles), PLAIN).models}
    assert plain["long"] - plain["short"] > 80
    [equal_style] = [one for one in rated_slices(battles, PLAIN) if one.kind == "style"]
    ratings = {row.model: row.rating or 0.0 for row in equal_style.models}
    assert abs(ratings["long"] - ratings["short"]) < 40
    [length] = [term for term in equal_style.terms if "length" in term.name]
    assert length.low is not None and length.low > 0


def test_parts_are_rated_by_their_own_votes() -> None:
    slices = rated_slices(battles_won_by_length(400), PLAIN)
    votes = {one.address: one.votes for one in slices}
    assert votes == {
        "style:equal style": 400,
        "category:Counting": 200,
        "category:Homework": 200,
        "language:German": 100,
    }
    assert rated_slices(battles_won_by_length(40), PLAIN) == ()


def test_style_is_the_same_from_texts_and_from_what_was_measured() -> None:
    replies = [("# A\n- b\n- c", "**d** e"), ("short", "1. one\n2. two"), ("**x**", "# y")]
    facts = {"left": "a", "right": "b", "outcome": "tie"}
    from_texts = [
        Battle(id=str(n), **facts, left_reply=left, right_reply=right)
        for n, (left, right) in enumerate(replies)
    ]
    from_measures = [
        Battle(id=str(n), **facts, **style_of(left, "left"), **style_of(right, "right"))
        for n, (left, right) in enumerate(replies)
    ]
    expected = style_differences(battle_table(from_texts))
    found = style_differences(battle_table(from_measures))
    assert expected.keys() == found.keys() == {"length", "headers", "list items", "bold"}
    for name, values in expected.items():
        assert found[name].tolist() == values.tolist()


# --- categories and languages ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("question", "category"),
    [
        ("How many birds are there?", "Counting"),
        ("What does the sign say?", "Reading text"),
        ("Which bar of the CHART is highest?", "Charts and documents"),
        ("Describe the picture.", "Describing"),
        ("Solve the equation.", "Homework"),
        ("Is it a wren?", ""),
    ],
)
def test_a_question_is_in_the_first_category_that_fits(question: str, category: str) -> None:
    assert category_of(question, ArenaSettings().categories) == category


@pytest.mark.parametrize(
    ("question", "language"),
    [
        ("What is in this picture?", "en"),
        ("Was ist auf dem Bild?", "de"),
        ("Combien de chats sont dans cette image ?", "fr"),
        ("¿Cuántos perros hay en la imagen?", "es"),
        ("Quantos cães há na imagem?", "pt"),
        ("図には何がありますか", "ja"),
        ("图里有什么？", "zh"),
        ("Что на картинке?", "ru"),
        ("Що це за птах і де він?", "uk"),
        ("ما هذا؟", "ar"),
        ("이게 뭐야?", "ko"),
        ("7 + 5 = ?", ""),
        ("wren", ""),
    ],
)
def test_a_language_is_named_on_evidence(question: str, language: str) -> None:
    assert language_of(question) == language


def test_a_pattern_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match="category 'x' is no regular expression"):
        QuestionCategory(name="x", pattern="(")


# --- on a server -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    settings = {
        "models": models("quokka", "numbat", maker="Marsupials"),
        "resamples": 20,
        "trust": {"networked": []},  # all visitors of this test have one address
    }
    folder = tmp_path_factory.mktemp("parts") / "server"
    with hosted(folder, features=["arena"], feature={"arena": settings}) as running:
        yield running


def vote(fight: Fight, *, consent: bool) -> None:
    body = {"token": fight.token, "outcome": "left", "consent": consent}
    answer = fight.browser.ask(f"/api/v1/arena/battles/{fight.id}/vote", body)
    assert answer.status_code == 200


def published(admin: Browser) -> list[str]:
    answer = admin.get("/arena/conversations.jsonl")
    assert answer.status_code == 200
    return [json.loads(line)["id"] for line in answer.text.splitlines()]


def test_a_vote_records_category_language_and_style(server: RunningServer) -> None:
    fight = Fight(server.visitor(), "How many birds are on it?")
    vote(fight, consent=False)
    battles = server.services.database.read_now(partial(exported_votes, texts=False))
    [battle] = [battle for battle in battles if battle.id == fight.id]
    assert (battle.category, battle.language) == ("Counting", "en")
    assert battle.left_reply is None
    assert battle.left_characters == len(fight.text("left"))
    assert battle.right_bold == 0


def test_conversations_are_exported_with_consent_and_to_administrators_alone(
    server: RunningServer,
) -> None:
    visitor = server.visitor()
    with_consent = Fight(visitor, "One?")
    vote(with_consent, consent=True)
    without = Fight(visitor, "Two?")
    vote(without, consent=False)
    admin = server.admin()
    assert with_consent.id in published(admin)
    assert without.id not in published(admin)
    assert visitor.get("/arena/conversations.jsonl").headers["location"].startswith("/sign-in")
    assert server.signed_in("Ben").get("/arena/conversations.jsonl").status_code == 403

    line = next(
        json.loads(line)
        for line in admin.get("/arena/conversations.jsonl").text.splitlines()
        if with_consent.id in line
    )
    assert line["turns"][0]["prompt"] == "One?" and line["outcome"] == "left"
    assert "visitor" not in line and "voter" not in line

    name = visitor.http.cookies["snellen_visitor"].partition(".")[0]
    server.services.database.write_now(
        lambda connection: erase_person(connection, f"visitor:{name}", asked_by="test")
    )
    assert with_consent.id not in published(admin)


def test_the_page_shows_a_part_and_refuses_one_that_there_is_not(server: RunningServer) -> None:
    for number in range(60):
        fight = Fight(server.visitor(), f"How many birds are on number {number}?")
        body = {"token": fight.token, "outcome": "left" if number % 2 else "right"}
        assert fight.browser.ask(f"/api/v1/arena/battles/{fight.id}/vote", body).status_code == 200
    server.do(rate_arena(server.services))
    page = server.visitor().get("/arena/ratings")
    assert 'href="/arena/ratings?by=category%3ACounting"' in page.text
    part = server.visitor().get("/arena/ratings?by=category:Counting")
    assert "questions of the category Counting" in part.text and "Marsupials" in part.text
    assert server.visitor().get("/arena/ratings?by=category:None").status_code == 404


def write_models(file: Path, *lines: str) -> None:
    text = "".join(f"[[models]]\n{line}\n" for line in lines)
    file.write_text(text)
    os.utime(file, ns=(0, file.stat().st_mtime_ns + 1_000_000))


def test_models_are_added_retired_and_removed_without_a_restart(tmp_path: Path) -> None:
    file = tmp_path / "arena.toml"
    quokka = 'name = "quokka"\nmodel = "talker:quokka"'
    numbat = 'name = "numbat"\nmodel = "talker:numbat"'
    write_models(file, quokka, numbat)
    feature = {"arena": {"models": models("quokka", "numbat")}}
    with hosted(
        tmp_path / "server", features=["arena"], feature=feature, settings_files={"arena": file}
    ) as server:
        arena = arena_of(server.services)
        quokka_before = arena.pool.models["quokka"]
        fight = Fight(server.visitor())

        bilby = 'name = "bilby"\nmodel = "talker:bilby"\nreply_price = 0.5\nboost = 3.0'
        write_models(file, f"{quokka}\nretired = true", numbat, bilby)
        server.do(reread_models(server.services))
        server.do(asyncio.wait_for(settled(arena.pool.models["bilby"]), 30))
        assert arena.pool.models["quokka"] is quokka_before  # it was not opened anew
        assert sorted(arena.pool.available) == ["bilby", "numbat"]
        assert fight.vote().status_code == 200  # on a battle begun before
        after = Fight(server.visitor())
        voted = after.vote().json()
        names = {voted[side]["name"] for side in ("left", "right")}
        assert names == {"bilby", "numbat"}

        file.write_text("models = 3")
        os.utime(file, ns=(0, file.stat().st_mtime_ns + 2_000_000))
        server.do(reread_models(server.services))
        assert sorted(arena.pool.models) == ["bilby", "numbat", "quokka"]

        write_models(file, numbat, bilby)
        server.do(reread_models(server.services))
        assert sorted(arena.pool.models) == ["bilby", "numbat"]
        assert "quokka" not in server.visitor().get("/arena/named").text


async def settled(model: object) -> None:
    while getattr(model, "state", "") == "loading":
        await asyncio.sleep(0.01)


def test_settings_are_read_from_the_file_of_a_server_too(tmp_path: Path) -> None:
    file = tmp_path / "server.toml"
    file.write_text('[[feature.arena.models]]\nname = "a"\nmodel = "talker:a"\nboost = 2.0\n')
    [model] = read_settings(file).models
    assert (model.name, model.boost) == ("a", 2.0)


def test_a_boosted_model_is_drawn_more_often_with_a_known_probability() -> None:
    pairs = [("a", "b"), ("a", "c"), ("b", "c")]
    assert pair_probabilities(pairs, {}, "uniform", {"a": 2.0}) == [0.4, 0.4, 0.2]
    by_need = pair_probabilities(pairs, {frozenset(("a", "b")): 9}, "need", {"a": 2.0})
    assert sum(by_need) == pytest.approx(1.0)
    assert by_need[1] == pytest.approx(2 * by_need[2])
