"""What it costs to move an arena's ratings, and what a board's answers cost to find out: attacks with their prices.

    python bench/arena_attacks.py            # all of it, some minutes on two cores
    python bench/arena_attacks.py --price    # votes and days for a place, a rank and three ranks
    python bench/arena_attacks.py --price --write  # and into the docs and the page of ratings
    python bench/arena_attacks.py --live     # a new cookie for each vote, against a server on loopback
    python bench/arena_attacks.py --board    # hidden answers recovered by many files

The price is measured on simulated arenas of 5,000 honest votes (packages/snellen-server/tests/simulated_arenas.py), where
HTTP adds nothing. The live attack runs over real HTTP with the default limits: every vote comes with a new cookie, the
attacker knows a model by its replies, and votes for it.
"""

from __future__ import annotations

import argparse
import io
import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from PIL import Image
from sqlalchemy import Connection, func, select

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
sys.path.insert(0, str(Path(__file__).parent.parent / "packages/snellen-server/tests"))

from hosting import RunningServer, hosted
from simulated_arenas import Population, Rigging, simulated_battles
from snellen.records import Request, Response
from snellen.registry import register
from snellen_server.arena.standings import exported_votes, rate_arena, rating_settings
from snellen_server.arena_ratings.log import VoteLog, vote_log
from snellen_server.arena_ratings.rating import counted_votes, rate_votes
from snellen_server.arena_ratings.trust import within_shares
from snellen_server.arena_ratings.votes import RatingSettings, TrustSettings
from snellen_server.hosting.configuration import Configuration
from snellen_server.hosting.database import Database, migrate
from snellen_server.hosting.features import migration_packages
from snellen_server.leaderboard.ledger import leaderboard_release
from test_board_ledger import DEFAULT, OPEN_DOOR, OPTIONS, QUESTIONS, board_of, recovered_share

# --- the price of a rank -----------------------------------------------------------------------------------------

HONEST = Population(tuple(np.linspace(-1.0, 1.0, 10).tolist()), 1_000, 5_000, taste=0.5)
BOUGHT_MODEL = 3
VOTES = (20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000)
ARENAS = 5


def place_and_rank(battles: pl.DataFrame, settings: RatingSettings) -> tuple[int, int]:
    """Where the bought model stands by its rating alone, and the rank that is shown."""
    rows = rate_votes(VoteLog(battles), settings).models
    name = HONEST.models[BOUGHT_MODEL]
    [(place, rank)] = [
        (number, row.rank or 0) for number, row in enumerate(rows) if row.model == name
    ]
    return place, rank


def gains(
    settings: RatingSettings, votes: int, placed: Callable[[pl.DataFrame], pl.DataFrame]
) -> tuple[float, float]:
    """Places and ranks that so many bought votes gain, in the median of some arenas."""
    places, ranks = [], []
    for seed in range(ARENAS):
        rigging = Rigging(BOUGHT_MODEL, votes, 1)
        battles = placed(simulated_battles(HONEST, np.random.default_rng(seed), rigging))
        honest = battles.filter(~pl.col("voter").str.starts_with("bought"))
        before = place_and_rank(honest, settings)
        after = place_and_rank(battles, settings)
        places.append(before[0] - after[0])
        ranks.append(before[1] - after[1])
    return median(places), median(ranks)


def from_networks(size: int, battles: pl.DataFrame) -> pl.DataFrame:
    """Every voter is anonymous: honest ones each in a network of their own, bought ones `size` to a network."""
    is_bought = pl.col("voter").str.starts_with("bought")
    number = pl.col("voter").str.extract(r"(\d+)$").cast(pl.Int64)
    bought_network = pl.concat_str(pl.lit("bought-"), (number // size).cast(pl.String))
    network = pl.when(is_bought).then(bought_network).otherwise(pl.col("voter"))
    return battles.with_columns(network.alias("network"), pl.lit("anonymous").alias("trust"))


def with_accounts(share: float, battles: pl.DataFrame) -> pl.DataFrame:
    """A share of the honest voters has accounts."""
    is_bought = pl.col("voter").str.starts_with("bought")
    number = pl.col("voter").str.extract(r"(\d+)$").cast(pl.Int64)
    has_account = ~is_bought & (number % 100 < 100 * share)
    trust = pl.when(has_account).then(pl.lit("account")).otherwise(pl.col("trust"))
    return battles.with_columns(trust.alias("trust"))


def at_once(battles: pl.DataFrame) -> pl.DataFrame:
    """All bought votes come in one day, in the middle of 30 days of honest ones."""
    is_bought = pl.col("voter").str.starts_with("bought")
    middle = battles["time"].max() / 2
    day = battles["time"].max() / 30
    share = pl.col("time") / battles["time"].max()
    time = pl.when(is_bought).then(middle + share * day).otherwise(pl.col("time"))
    return battles.with_columns(time.alias("time")).sort("time", maintain_order=True)


OPEN = RatingSettings(interval="sandwich")
TRUSTED = RatingSettings(interval="sandwich", trust=TrustSettings())
UNCOMPARED = RatingSettings(interval="sandwich", trust=TrustSettings(count_disagreeing=True))
ONE_NETWORK = 10**9


class Attack(NamedTuple):
    """How bought votes come, and how the arena rates."""

    settings: RatingSettings
    per_network: int
    """Bought votes from one network."""
    is_at_once: bool
    """Whether they come in one day."""
    accounts: float = 0.0
    """Share of honest voters with accounts."""


SLOWLY = "one vote from each of many networks, in 30 days"
ATTACKS = {
    "every vote alike: a new cookie for each vote": Attack(OPEN, ONE_NETWORK, True),
    "by trust: a new cookie for each vote, from one network": Attack(TRUSTED, ONE_NETWORK, True),
    "by trust: five votes from each of many networks, in a day": Attack(TRUSTED, 5, True),
    "by trust: one vote from each of many networks, in a day": Attack(TRUSTED, 1, True),
    f"by trust: {SLOWLY}": Attack(TRUSTED, 1, False),
    f"by trust, a fifth of the honest voters with accounts, not compared with them: {SLOWLY}": Attack(
        UNCOMPARED, 1, False, 0.2
    ),
    f"by trust, a fifth of the honest voters with accounts: {SLOWLY}": Attack(
        TRUSTED, 1, False, 0.2
    ),
    f"by trust, half of the honest voters with accounts: {SLOWLY}": Attack(TRUSTED, 1, False, 0.5),
}
AIMS = (("one place", 0, 1), ("one rank", 1, 1), ("three ranks", 1, 3))


RESULTS = (
    Path(__file__).parent.parent / "packages/snellen-server/src/snellen_server/arena/prices.json"
)
"""What the page of ratings says of them."""
PAGE = Path(__file__).parent.parent / "docs/evidence/arena.md"
BEGIN, END = "<!-- prices of a rank -->\n", "<!-- end of prices -->\n"


def price(write: bool, only: str = "") -> None:
    """Measure the attacks whose name contains `only`, and take over the prices of the others."""
    earlier = {row["attack"]: row for row in json.loads(RESULTS.read_text("utf-8"))}
    prices: list[dict[str, str]] = []
    for name, attack in ATTACKS.items():
        if only not in name:
            prices += [earlier[name]] if name in earlier else []
            continue

        def placed(battles: pl.DataFrame, attack: Attack = attack) -> pl.DataFrame:
            spread = from_networks(attack.per_network, battles)
            known = with_accounts(attack.accounts, spread)
            return at_once(known) if attack.is_at_once else known

        found: dict[int, tuple[float, float]] = {}
        for votes in VOTES:
            found[votes] = gains(attack.settings, votes, placed)
        print(name, found, flush=True)
        row = {"attack": name}
        for aim, column, wanted in AIMS:
            enough = [votes for votes, gained in found.items() if gained[column] >= wanted]
            row[aim] = f"{min(enough):,}" if enough else f"more than {VOTES[-1]:,}"
        prices.append(row)
    table = price_table(prices)
    print(
        f"\nvotes bought for one of {len(HONEST.skills)} models beside {HONEST.votes:,} honest ones\n"
    )
    print(table)
    if write:
        RESULTS.write_text(json.dumps(prices, indent=1) + "\n", "utf-8")
        before, rest = PAGE.read_text("utf-8").split(BEGIN)
        PAGE.write_text(f"{before}{BEGIN}\n{table}\n{END}{rest.split(END)[1]}", "utf-8")


def price_table(prices: list[dict[str, str]]) -> str:
    """The rows as Markdown."""
    names = [name for name, _, _ in AIMS]
    lines = ["| attack | " + " | ".join(f"votes for {name}" for name in names) + " |"]
    lines.append("|---|" + "---|" * len(names))
    for row in prices:
        lines.append(f"| {row['attack']} | " + " | ".join(row[name] for name in names) + " |")
    return "\n".join(lines) + "\n"


# --- live: a new cookie for each vote ----------------------------------------------------------------------------


class Parrot:
    """A model whose replies give it away: by a word of its own, or by its name."""

    kinds = frozenset({"generate"})
    concurrency = 8

    def __init__(self, name: str) -> None:
        self.name = name

    def fingerprint(self) -> dict[str, str]:
        return {"parrot": self.name}

    async def ask(self, request: Request, images: Any) -> Response:
        return Response(text=f"{REPLIES[self.name]} It is a square.", finish="stop")

    async def close(self) -> None:
        pass


REPLIES = {"alpha-model": "Well!", "beta-model": "Hm.", "gamma-model": "I am gamma-model."}


def live(seconds: float) -> None:
    register("models", "parrot", lambda spec: Parrot(spec.target))
    models = [{"name": name, "model": f"parrot:{name}"} for name in REPLIES]
    with TemporaryDirectory() as folder:
        settings = {"models": models, "resamples": 50}
        with hosted(
            Path(folder) / "server", limited=True, features=["arena"], feature={"arena": settings}
        ) as server:
            file = io.BytesIO()
            Image.new("RGB", (20, 10), "red").save(file, "PNG")
            begun, voted, refused = time.monotonic(), 0, 0
            while time.monotonic() - begun < seconds:
                if vote_with_a_new_cookie(server, file.getvalue()):
                    voted += 1
                else:
                    refused += 1
                    time.sleep(0.3)
            took = time.monotonic() - begun
            server.do(rate_arena(server.services))
            battles = server.services.database.read_now(
                lambda connection: exported_votes(connection, texts=False)
            )
            settings_now = rating_settings(server.services)
            votes = counted_votes(vote_log(battles), settings_now)
            within = within_shares(votes, settings_now.trust)
        print(
            f"\nlive, from one address with a new cookie for each vote: {voted} votes stored in {took:.0f} s"
            f" ({refused} refused)"
        )
        print(f"votes that count: {votes.count}, as those of {votes.voters} voters")
        print(f"worth {within.count} votes of the class; not counted: {dict(votes.left_out_votes)}")


def vote_with_a_new_cookie(server: RunningServer, image: bytes) -> bool:
    """Whether a vote for the alpha model was stored; a battle without it is left."""
    browser = server.visitor()
    sent = browser.send("/api/v1/images", image)
    if sent.status_code != 200 and sent.status_code != 201:
        return False
    body = {"question": "What is it?", "images": [sent.json()["digest"]]}
    answer = browser.ask("/api/v1/arena/battles", body)
    if answer.status_code != 200 or "answered" not in answer.text:
        return False
    name = answer.text.split('"id":"')[1].split('"')[0]
    shown = browser.get(f"/api/v1/arena/battles/{name}").json()
    favoured = REPLIES["alpha-model"]
    outcome = "left" if favoured in shown["turns"][0]["left"] else "right"
    body = {"token": shown["token"], "outcome": outcome}
    is_stored = browser.ask(f"/api/v1/arena/battles/{name}/vote", body).status_code == 200
    browser.http.close()
    return is_stored


# --- a board of 200 questions ------------------------------------------------------------------------------------


def board() -> None:
    print(f"\na board of {QUESTIONS} questions of {OPTIONS} options; guessing recovers a quarter\n")
    print("| files of random choices | recovered before | with the ledger | scored of them |")
    print("|---|---|---|---|")
    for files in (50, 100, 200, 400):
        cells = []
        for of in (OPEN_DOOR, DEFAULT):
            shares, scored = [], []
            for seed in range(5):
                answers = np.random.default_rng(seed).integers(0, OPTIONS, QUESTIONS)
                with empty_database() as database:
                    publish = board_of(database, of, answers, seed)
                    shares.append(recovered_share(answers, publish, files))
                    scored.append(database.read_now(released))
            cells.append(f"{np.mean(shares):.0%}")
        print(f"| {files} | {cells[0]} | {cells[1]} | {np.mean(scored):.0f} |", flush=True)


def released(connection: Connection) -> int:
    return connection.execute(select(func.count()).select_from(leaderboard_release)).scalar_one()


@contextmanager
def empty_database() -> Iterator[Database]:
    with TemporaryDirectory() as folder:
        database = Database(Configuration(folder=Path(folder)).url)
        migrate(database, migration_packages())
        yield database
        database.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--price", action="store_true")
    parser.add_argument("--live", action="store_true")
    parser.add_argument("--board", action="store_true")
    parser.add_argument("--seconds", type=float, default=60.0, help="of the live attack")
    parser.add_argument("--write", action="store_true", help="prices into the docs and the page")
    parser.add_argument("--only", default="", help="attacks whose name contains this, of --price")
    chosen = parser.parse_args()
    everything = not (chosen.price or chosen.live or chosen.board)
    if chosen.price or everything:
        price(chosen.write, chosen.only)
    if chosen.live or everything:
        live(chosen.seconds)
    if chosen.board or everything:
        board()
