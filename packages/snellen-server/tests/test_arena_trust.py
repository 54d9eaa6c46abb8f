"""Which votes of an open arena count: classes of trust, networks, leaks, repeats, honeypots, voters who come together."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from sqlalchemy import select, text, update

pytest.importorskip("fastapi", reason="waits for fastapi")
pytest.importorskip("alembic", reason="waits for alembic")

from hosting import RunningServer, hosted
from simulated_arenas import Population, Rigging, simulated_battles
from snellen.registry import register
from snellen_server.arena.battles import (
    BattleTurn,
    SideReply,
    arena_battle,
    arena_network_key,
    arena_vote,
)
from snellen_server.arena.feature import forget_networks
from snellen_server.arena.leaks import (
    ASKED,
    NAMED,
    SELF_DESCRIPTION,
    identity_leak,
    names_pattern,
)
from snellen_server.arena.routes import measured_prices
from snellen_server.arena.running import arena_of
from snellen_server.arena.standings import latest_standing, rate_arena
from snellen_server.arena.voters import network_pseudonym
from snellen_server.arena_ratings.log import Battle, VoteLog, battle_table
from snellen_server.arena_ratings.rating import ANOMALOUS, counted_votes, rate_votes
from snellen_server.arena_ratings.trust import (
    FAILED,
    HONEYPOT,
    LEAKED,
    REPEATED,
    TOGETHER,
    trust_shares,
    within_shares,
)
from snellen_server.arena_ratings.votes import RatingSettings, TrustSettings
from snellen_server.hosting.configuration import Configuration
from snellen_server.hosting.database import Database, migrate
from snellen_server.hosting.features import migration_packages
from test_server_arena import Fight, events, open_talker, picture
from view_runs import until

CROWD = Population(tuple(np.linspace(-1.0, 1.0, 10).tolist()), 1_000, 5_000, taste=0.5)
BOUGHT = 3
OPEN = RatingSettings(interval="sandwich")
TRUSTED = RatingSettings(interval="sandwich", trust=TrustSettings())


def attacked(votes: int, network_size: int, seed: int = 0) -> pl.DataFrame:
    """5,000 honest votes, and bought ones within one day; honest voters each have a network of their own."""
    battles = simulated_battles(CROWD, np.random.default_rng(seed), Rigging(BOUGHT, votes, 1))
    is_bought = pl.col("voter").str.starts_with("bought")
    number = pl.col("voter").str.extract(r"(\d+)$").cast(pl.Int64)
    network = pl.concat_str(pl.lit("bought-"), (number // network_size).cast(pl.String))
    last = battles["time"].max()
    day = 0.5 * last + pl.col("time") / 30
    return battles.with_columns(
        pl.when(is_bought).then(network).otherwise(pl.col("voter")).alias("network"),
        pl.when(is_bought).then(day).otherwise(pl.col("time")).alias("time"),
        pl.lit("anonymous").alias("trust"),
    ).sort("time", maintain_order=True)


def honest(battles: pl.DataFrame) -> pl.DataFrame:
    return battles.filter(~pl.col("voter").str.starts_with("bought"))


def points(battles: pl.DataFrame, settings: RatingSettings) -> tuple[float, int]:
    """Rating and rank of the bought model."""
    [row] = [
        row
        for row in rate_votes(VoteLog(battles), settings).models
        if row.model == CROWD.models[BOUGHT]
    ]
    assert row.rating is not None and row.rank is not None
    return row.rating, row.rank


# --- what an attack gains ----------------------------------------------------------------------------------------


def test_one_network_gains_no_rank_with_any_number_of_cookies() -> None:
    battles = attacked(2_000, network_size=10**9)
    rating, rank = points(honest(battles), TRUSTED)
    open_rating, open_rank = points(battles, OPEN)
    assert open_rating > rating + 100 and open_rank < rank - 2  # the attack, where all count alike
    trusted_rating, trusted_rank = points(battles, TRUSTED)
    assert trusted_rating < rating + 8 and trusted_rank == rank


def test_voters_of_many_networks_who_come_together_are_found() -> None:
    battles = attacked(500, network_size=1)
    counted = counted_votes(VoteLog(battles), TRUSTED)
    voters = counted.table["voter"]
    bought_left = int(voters.str.starts_with("bought").sum())
    assert bought_left < 25
    assert counted.left_out_votes[TOGETHER] < 600  # of which 500 are bought
    rating, _ = points(honest(battles), TRUSTED)
    assert abs(points(battles, TRUSTED)[0] - rating) < 10


@pytest.mark.parametrize("seed", range(4))
def test_honest_votes_raise_no_alarm(seed: int) -> None:
    counted = counted_votes(VoteLog(honest(attacked(1, 1, seed))), TRUSTED)
    assert TOGETHER not in counted.left_out_votes
    assert counted.left_out_votes.get(ANOMALOUS, 0) < 100


# --- weights -----------------------------------------------------------------------------------------------------


def vote(number: int, outcome: str = "left", **facts: Any) -> Battle:
    given = {"voter": f"v{number}", "trust": "anonymous", "network": f"n{number}", **facts}
    left, right = ("a", "b") if number % 2 else ("b", "a")
    return Battle(id=str(number), left=left, right=right, outcome=outcome, time=number, **given)


def log(*battles: Battle) -> VoteLog:
    return VoteLog(battle_table(battles))


def outcomes(number: int) -> str:
    return "left" if number % 3 else "right"


ALL_COUNT = {
    "count_leaks": True,
    "count_repeats": True,
    "count_together": True,
    "count_anomalous": True,
    "count_failed": True,
}


def test_a_network_has_its_share_of_all_weight_and_no_more() -> None:
    own = [vote(i, outcomes(i)) for i in range(900)]
    shared = [vote(900 + i, outcomes(i), network="big") for i in range(100)]
    trust = TrustSettings(network_share=0.02, network_votes=1, **ALL_COUNT)
    votes = counted_votes(log(*own, *shared), RatingSettings(trust=trust))
    is_big = (votes.table["network"] == "big").to_numpy()
    assert votes.weight.mean() == pytest.approx(1)
    assert votes.weight[is_big].sum() / votes.weight.sum() == pytest.approx(0.02)
    assert len(set(votes.voter[is_big])) == 1
    # 0.02 of all weight w: w = 900 + 0.02 w, so w is 918.4 votes and the share 18.4.
    kept = within_shares(votes, trust)
    assert (kept.table["network"] == "big").sum() == 19
    few = counted_votes(log(*own[:5], *shared), RatingSettings(trust=trust))
    assert few.weight[(few.table["network"] == "big").to_numpy()].sum() / few.weight.sum() == (
        pytest.approx(1 / 6)  # `network_votes`, beside five others
    )


def test_each_class_has_its_weight_and_one_without_weight_is_left_out() -> None:
    battles = [
        *(vote(i, outcomes(i), trust="account") for i in range(10)),
        *(vote(10 + i, outcomes(i)) for i in range(20)),
        *(vote(30 + i, outcomes(i), trust="invited") for i in range(5)),
    ]
    trust = TrustSettings(account=1.0, anonymous=0.25, invited=0.0, networked=(), **ALL_COUNT)
    votes = counted_votes(log(*battles), RatingSettings(trust=trust))
    shares = {share.trust: (share.votes, share.weight) for share in trust_shares(votes)}
    assert shares == {
        "account": (10, pytest.approx(10 / 15)),
        "anonymous": (20, pytest.approx(5 / 15)),
    }
    assert votes.left_out_votes == {"of a class without weight": 5}


def test_ratings_without_trust_are_as_they_were() -> None:
    """A log of others has no classes, and its numbers are those of every vote alike."""
    battles = simulated_battles(CROWD, np.random.default_rng(1))
    votes = counted_votes(VoteLog(battles), OPEN)
    assert (votes.weight == 1).all() and not votes.left_out_votes


def test_leaks_repeats_and_honeypots_are_set_apart_by_reason() -> None:
    battles = [vote(i, outcomes(i), question=f"q{i}") for i in range(30)]
    battles += [vote(30 + i, leak=NAMED) for i in range(3)]
    battles += [
        vote(40 + i, network="n1", question="q1") for i in range(0, 8, 2)
    ]  # the same two models
    # Twenty honeypots of one voter, one of them failed: an honest one. Three failed of three: none.
    battles += [vote(60, voter="fair", network="fair", question="own")]
    for i in range(20):
        result = "passed" if i else "failed"
        battles.append(vote(70 + i, voter="fair", network="fair", honeypot=result))
    battles += [vote(100 + i, voter="foul", network="foul", honeypot="failed") for i in range(3)]
    battles += [vote(110 + i, voter="foul", network="foul", question=f"f{i}") for i in range(4)]
    votes = counted_votes(log(*battles), RatingSettings(trust=TrustSettings(count_together=True)))
    assert votes.left_out_votes == {HONEYPOT: 23, FAILED: 4, LEAKED: 3, REPEATED: 4}
    assert "fair" in set(votes.table["voter"])


# --- leaks -------------------------------------------------------------------------------------------------------

PATTERNS = names_pattern(["alpha-model", "Llama", "quokka"], ["Quokka Works"])


@pytest.mark.parametrize(
    ("prompt", "reply", "leak"),
    [
        ("What is it?", "I am alpha-model, and this is a car.", NAMED),
        ("What is it?", "Alpha-Model here. A car.", NAMED),
        ("What is it?", "I am a large language model trained by Google.", SELF_DESCRIPTION),
        ("What is it?", "As an AI developed by OpenAI, I see a car.", SELF_DESCRIPTION),
        ("What is it?", "I'm Claude, made by Anthropic.", SELF_DESCRIPTION),
        ("What is it?", "My name is Qwen.", SELF_DESCRIPTION),
        ("What is it?", "I was built by Quokka Works to help.", SELF_DESCRIPTION),
        ("Who are you?", "A helpful assistant.", ASKED),
        ("Which model are you?", "I cannot say.", ASKED),
        ("Who made you?", "People.", ASKED),
        # What images show is no leak.
        ("What is it?", "A sign with the logo of Google above a Meta poster.", ""),
        ("What is it?", "This is a llama beside a quokka.", ""),
        ("What are you seeing?", "A phone by Apple.", ""),
        ("Who is this?", "I am not sure; a man in front of a Microsoft office.", ""),
        ("What is your guess?", "It was built by IBM.", ""),
    ],
)
def test_what_gives_a_model_away(prompt: str, reply: str, leak: str) -> None:
    turns = [BattleTurn(prompt, SideReply("A car."), SideReply(reply))]
    assert identity_leak(turns, PATTERNS) == leak


# --- over HTTP ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module", autouse=True)
def talkers() -> None:
    register("models", "talker", open_talker)


def known(model: str, reply: str) -> dict[str, str]:
    return {"model": model, "reply": reply}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    folder = tmp_path_factory.mktemp("trust")
    examples = folder / "examples"
    examples.mkdir()
    (examples / "blue.png").write_bytes(picture("blue"))
    honeypot = {
        "question": "Which colour?",
        "image": str(examples / "blue.png"),
        "better": known("numbat", "It is blue."),
        "worse": known("quokka", "It is a train."),
    }
    arena = {
        "models": [{"name": name, "model": f"talker:{name}"} for name in ("quokka", "numbat")],
        "resamples": 20,
        "examples": [str(examples)],
        "honeypots": [honeypot],
        "honeypot_share": 1.0,
    }
    with hosted(
        folder / "server",
        features=["arena"],
        trusted_proxies=["127.0.0.1"],
        feature={"arena": arena},
    ) as running:
        opened = arena_of(running.services)
        until(lambda: bool(opened.examples and opened.honeypots))
        yield running


def vote_row(server: RunningServer, name: str) -> Any:
    return server.services.database.read_now(
        lambda connection: connection.execute(
            select(arena_vote).where(arena_vote.c.battle_id == name)
        ).one()
    )


def voted(server: RunningServer, address: str, question: str = "What is it?") -> Any:
    fight = Fight(server.visitor(x_forwarded_for=address), question)
    assert fight.vote().status_code == 200
    return vote_row(server, fight.id)


def test_a_vote_records_its_class_a_pseudonym_of_the_network_and_the_question(
    server: RunningServer,
) -> None:
    first = voted(server, "203.0.113.7")
    again = voted(server, "203.0.113.200", "  what IS it ")
    other = voted(server, "198.51.100.7", "What else is it?")
    assert (first.trust, again.trust) == ("anonymous", "anonymous")
    assert first.network == again.network != other.network
    assert first.question == again.question != other.question
    assert "203" not in f"{first.network}" or len(first.network) == 24
    anna = Fight(server.signed_in("Anna"), "And this?")
    anna.vote()
    assert vote_row(server, anna.id).trust == "account"


def test_a_pseudonym_expires_with_its_key(server: RunningServer) -> None:
    before = voted(server, "203.0.113.7").network
    database = server.services.database
    # The key becomes that of a past period, as time does it.
    database.write_now(
        lambda connection: connection.execute(
            update(arena_network_key).values(period=arena_network_key.c.period - 1)
        )
    )
    arena_of(server.services)._network_key = None
    server.do(forget_networks(server.services))
    keys = database.read_now(lambda c: c.execute(select(arena_network_key)).all())
    assert keys == []
    assert voted(server, "203.0.113.7").network != before


def test_neighbours_behind_one_ipv6_customer_are_one_network() -> None:
    key = b"k" * 32
    first, second, other = (
        network_pseudonym(f"2001:db8:{place}::/64", key) for place in ("1:1", "1:2", "2:1")
    )
    assert first == second != other
    assert network_pseudonym("unknown", key) is None


def test_an_invitation_has_so_many_seats(server: RunningServer) -> None:
    admin = server.admin()
    fields = {"title": "a class", "seats": "2", "days": "1"}
    assert server.visitor().post("/arena/invitations", fields).status_code == 401
    page = admin.post("/arena/invitations", fields).text
    address = "/arena/invited/" + page.split("/arena/invited/")[1].split("<")[0]
    guests = [server.visitor(), server.visitor(), server.visitor()]
    assert "Take part" in guests[0].get(address).text
    statuses = [guest.post(address).status_code for guest in guests]
    assert statuses == [303, 303, 422]
    assert guests[0].post(address).status_code == 303  # it has its seat already
    assert guests[0].post("/arena/invited/nothing").status_code == 404
    fights = [Fight(guest) for guest in (guests[0], guests[2])]
    for fight in fights:
        fight.vote()
    assert [vote_row(server, fight.id).trust for fight in fights] == ["invited", "anonymous"]
    assert "a class</bdi>: 2 of 2 seats taken" in admin.get("/arena/ratings").text
    assert "seats taken" not in server.visitor().get("/arena/ratings").text


def test_a_honeypot_looks_like_a_battle_and_its_vote_is_not_rated(server: RunningServer) -> None:
    for outcome, result in (("better", "passed"), ("worse", "failed")):
        browser = server.visitor()
        [example] = arena_of(server.services).examples
        body = {"question": "Which colour?", "images": [example.digest]}
        answer = browser.ask("/api/v1/arena/battles", body)
        assert answer.status_code == 200 and "better" not in answer.text
        name = answer.text.split('"id":"')[1].split('"')[0]
        shown = browser.get(f"/api/v1/arena/battles/{name}").json()
        turn = shown["turns"][0]
        assert {turn["left"], turn["right"]} == {"It is blue.", "It is a train."}
        assert set(shown) == set(Fight(server.visitor()).shown())
        better = "left" if turn["left"] == "It is blue." else "right"
        chosen = better if outcome == "better" else {"left": "right", "right": "left"}[better]
        cast = {"token": shown["token"], "outcome": chosen}
        named = browser.ask(f"/api/v1/arena/battles/{name}/vote", cast).json()
        assert named[better]["name"] == "numbat"
        assert vote_row(server, name).honeypot == result
        assert {said["side"] for kind, said in events(answer) if kind == "end"} == {"left", "right"}
    other = Fight(server.visitor(), "Which colour?")  # about an image of one's own
    other.vote()
    assert vote_row(server, other.id).honeypot == ""


def test_what_an_image_shows_is_no_leak() -> None:
    patterns = names_pattern(["quokka-7b"], [])

    def leak(question: str, reply: str) -> str:
        return identity_leak(
            [BattleTurn(question, SideReply(reply), SideReply("A car."))], patterns
        )

    for reply in ("I am looking at a Google sign.", "I am sure that this is Nova Scotia."):
        assert leak("What is it?", reply) == ""
    assert leak("What model is this car?", "A Mini.") == ""
    for reply in ("I am Gemini.", "I'm a large language model called Gemini."):
        assert leak("What is it?", reply) == SELF_DESCRIPTION
    assert leak("Which model are you?", "A car.") == leak("Which AI is this?", "A car.") == ASKED


def test_nobody_knows_a_honeypot_by_what_is_refused(tmp_path: Path) -> None:
    (tmp_path / "blue.png").write_bytes(picture("blue"))
    honeypot = {
        "question": "Which colour?",
        "image": str(tmp_path / "blue.png"),
        "better": known("no longer here", "It is blue."),
        "worse": known("quokka", " "),
    }
    arena = {
        "models": [{"name": name, "model": f"talker:{name}"} for name in ("quokka", "numbat")],
        "examples": [str(tmp_path)],
        "honeypots": [honeypot],
        "honeypot_share": 1.0,
    }
    with hosted(tmp_path / "server", features=["arena"], feature={"arena": arena}) as server:
        opened = arena_of(server.services)
        until(lambda: bool(opened.examples and opened.honeypots))
        [example] = opened.examples
        body = {"question": "Which colour?", "images": [example.digest]}
        browser = server.visitor()
        answer = browser.ask("/api/v1/arena/battles", body)
        assert "event: answered" in answer.text
        name = answer.text.split('"id":"')[1].split('"')[0]
        further = browser.ask(f"/api/v1/arena/battles/{name}/turns", {"question": "And now?"})
        assert further.status_code == 503 and "not available right now" in further.text
        # There are no earlier replies here, so a battle of them could only be a honeypot.
        assert browser.ask("/api/v1/arena/recorded", {}).status_code == 422
        opened.spending.switch(stopped=True)
        refused = server.visitor().ask("/api/v1/arena/battles", body)
        assert refused.status_code == 503 and "paused by its operator" in refused.text


def test_the_page_says_what_counted(server: RunningServer) -> None:
    for number in range(3):
        Fight(server.signed_in(f"Voter {number}"), f"What, {number}?").vote()
    voted(server, "192.0.2.8", "What is on the sign?")
    voted(server, "192.0.2.9", "who are you?")
    server.do(rate_arena(server.services))
    standing = server.services.database.read_now(latest_standing)
    assert standing is not None
    assert {share.trust for share in standing.shares} >= {"account", "anonymous"}
    assert sum(share.weight for share in standing.shares) == pytest.approx(1)
    assert standing.left_out_votes[LEAKED] >= 1
    page = server.visitor().get("/arena/ratings").text
    assert "What counted" in page and "with an account" in page
    assert f"{standing.left_out_votes[LEAKED]} {LEAKED}" in page
    assert "at most 0.2% of all weight" in page


def test_prices_on_the_page_are_those_of_the_docs(server: RunningServer) -> None:
    prices = measured_prices()
    rows = [" | ".join(row.values()) for row in prices]
    docs = (Path(__file__).parents[3] / "docs/evidence/arena.md").read_text("utf-8")
    assert len(rows) >= 4 and all(f"| {row} |" in docs for row in rows)
    assert prices[1]["one rank"] == "more than 10,000"
    if server.services.database.read_now(latest_standing) is not None:
        assert prices[1]["attack"] in server.visitor().get("/arena/ratings").text


def test_an_older_database_keeps_its_votes_and_their_classes(tmp_path: Path) -> None:
    database = Database(Configuration(folder=tmp_path).url)
    packages = migration_packages()
    migrate(database, packages, "arena_0001")
    with database.engine.begin() as connection:
        for name, account, image in (("one", "'anna'", "'abc'"), ("two", "NULL", "NULL")):
            connection.execute(
                text(
                    "INSERT INTO arena_battle VALUES "
                    f"('{name}', 'anonymous', 'voted', {account}, NULL, NULL, 'a', '1', 'b', '1', "
                    f"'uniform', 0.5, '', '{{}}', {image}, 1, '[]', '', '2026-01-01', '2026-01-01')"
                )
            )
            connection.execute(
                text(
                    "INSERT INTO arena_vote VALUES "
                    f"('{name}', 'person', '', 'x', 'left', '2026-01-01', '{{}}')"
                )
            )
    migrate(database, packages)
    rows = database.read_now(
        lambda connection: connection.execute(
            select(arena_vote.c.battle_id, arena_vote.c.trust, arena_vote.c.network)
        ).all()
    )
    images = database.read_now(
        lambda connection: dict(
            connection.execute(select(arena_battle.c.id, arena_battle.c.images)).all()
        )
    )
    database.close()
    assert sorted(map(tuple, rows)) == [("one", "account", None), ("two", "anonymous", None)]
    assert images == {"one": ["abc"], "two": []}
