"""What the numbers of an arena are worth: how often intervals hold the truth, what defences catch, how long it takes.

    python bench/arena.py                 # all three, some ten minutes on two cores
    python bench/arena.py --coverage 200  # only the intervals, so many arenas for each row
    python bench/arena.py --defences      # only rigged votes
    python bench/arena.py --million       # only a million votes, with evalica's ratings of the same log beside

Votes are simulated on models of known skills (packages/snellen-server/tests/simulated_arenas.py). The truth of a rating is what
endlessly many honest votes would come to.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import evalica
import numpy as np
import polars as pl

sys.path.insert(0, str(Path(__file__).parent.parent / "packages/snellen-server/tests"))

from simulated_arenas import (
    Population,
    Rigging,
    simulated_battles,
    true_ratings,
)
from snellen.errors import DataError
from snellen_server.arena_ratings.anomalies import check_voters
from snellen_server.arena_ratings.bradley_terry import elo_ratings
from snellen_server.arena_ratings.log import VoteLog, read_votes, write_votes
from snellen_server.arena_ratings.rating import (
    ArenaRating,
    counted_votes,
    is_settled,
    provisional_ratings,
    rate_votes,
)
from snellen_server.arena_ratings.votes import BOTH_BAD, LEFT, RIGHT, RatingSettings, chosen_votes

SKILLS = (-1.0, -0.6, -0.2, 0.2, 0.6, 1.0)
CROWDS = {
    "20 voters, 400 votes": Population(SKILLS, 20, 400),
    "20 voters, 2,000 votes, tastes": Population(SKILLS, 20, 2_000, taste=0.5),
    "50 voters, 1,000 votes, tastes": Population(SKILLS, 50, 1_000, taste=0.5),
    "100 voters, 2,000 votes, tastes, sides": Population(
        SKILLS, 100, 2_000, taste=0.5, position=0.3
    ),
    "100 voters, a tenth lazy": Population(SKILLS, 100, 2_000, taste=0.5, lazy=0.1),
    "300 voters, a few vote most": Population(SKILLS, 300, 3_000, taste=0.5, activity=1.5),
    "1,000 voters, 5,000 votes, tastes": Population(SKILLS, 1_000, 5_000, taste=0.5),
    "one model in most battles, by propensity": Population(
        SKILLS, 200, 4_000, taste=0.5, focus=5.0
    ),
}
WAYS = ("bootstrap", "sandwich", "davidson", "votes independent")
RESAMPLES = 400


def settings_of(crowd: Population, way: str) -> RatingSettings:
    return RatingSettings(
        method="davidson" if way == "davidson" else "bradley-terry",
        interval="bootstrap" if way == "bootstrap" else "sandwich",
        weighting="propensity" if crowd.focus != 1 else "none",
        resamples=RESAMPLES,
    )


def held_and_width(crowd: Population, way: str, seed: int) -> list[tuple[bool, float]]:
    """For each model of one simulated arena: whether its interval holds the truth, and how wide it is."""
    battles = simulated_battles(crowd, np.random.default_rng(seed))
    if way == "votes independent":
        battles = battles.with_columns(pl.lit(None, pl.String).alias("voter"))
    given = settings_of(crowd, way)
    truth = dict(zip(crowd.models, true_ratings(crowd, given), strict=True))
    rows = rate_votes(VoteLog(battles), given).models
    return [(row.low <= truth[row.model] <= row.high, row.high - row.low) for row in rows]


def coverage(arenas: int) -> None:
    print(
        f"share of 95 % intervals that hold the truth (mean width in points); {arenas} arenas of 6 models each"
    )
    print(f"{'':45}" + "".join(f"{way:>20}" for way in WAYS))
    with ProcessPoolExecutor(2) as pool:
        for name, crowd in CROWDS.items():
            cells = []
            for way in WAYS:
                found = [
                    one
                    for part in pool.map(partial(held_and_width, crowd, way), range(arenas))
                    for one in part
                ]
                held, width = (np.mean(values) for values in zip(*found, strict=True))
                cells.append(f"{held:.3f} ({width:3.0f})")
            print(f"{name:45}" + "".join(f"{cell:>20}" for cell in cells), flush=True)


FIRST_VOTES = (
    (1, 1),
    (1, 20),
    (1, 200),
    (3, 30),
    (5, 50),
    (10, 100),
    (10, 200),
    (20, 200),
    (30, 300),
)
"""Voters and votes of arenas that have just begun."""
SPREAD = 150.0
"""Standard deviation of the true ratings of their models, in points."""


def held_at_first(voters: int, votes: int, seed: int) -> tuple[list[bool], list[bool]]:
    """Which intervals of one arena hold the truth: provisional ones of all models, and those of settled ratings."""
    rng, given = np.random.default_rng(seed), RatingSettings(resamples=200)
    crowd = Population(tuple(rng.normal(0, SPREAD / given.points, 6)), voters, votes, taste=0.5)
    log = VoteLog(simulated_battles(crowd, rng))
    truth = dict(zip(crowd.models, true_ratings(crowd, given), strict=True))
    try:
        settled = [row for row in rate_votes(log, given).models if is_settled(row)]
    except DataError:  # no two models can be compared by these votes alone
        settled = []
    rated = provisional_ratings(counted_votes(log, given), given), settled
    provisional, settled_too = (
        [row.low <= truth[row.model] <= row.high for row in rows] for rows in rated
    )
    return provisional, settled_too


def first_votes(arenas: int) -> None:
    print(f"\nshare of 95 % intervals that hold the truth, of {arenas} arenas that have just begun")
    print(f"{'':45}{'provisional':>18}{'settled':>18}{'models settled':>18}")
    with ProcessPoolExecutor(2) as pool:
        for voters, votes in FIRST_VOTES:
            parts = zip(
                *pool.map(partial(held_at_first, voters, votes), range(arenas)), strict=True
            )
            provisional, settled = ([held for arena in part for held in arena] for part in parts)
            cells = (f"{np.mean(held):.3f}" if held else "-" for held in (provisional, settled))
            shares = "".join(
                f"{cell:>18}" for cell in (*cells, f"{len(settled) / max(len(provisional), 1):.0%}")
            )
            print(f"{f'{voters} voters, {votes} votes, tastes':45}{shares}", flush=True)


RIGGINGS = {
    "nobody": (),
    "1 voter, 20 votes": (Rigging(0, 1, 20),),
    "1 voter, 300 votes": (Rigging(0, 1, 300),),
    "20 voters, 5 votes each": (Rigging(0, 20, 5),),
    "20 voters, 15 votes each": (Rigging(0, 20, 15),),
    "20 voters, 50 votes each": (Rigging(0, 20, 50),),
    "5 voters, 20 votes, each sent 10 times": (Rigging(0, 5, 20, sent=10),),
}
CAP = 20


def moved_and_caught(riggings: tuple[Rigging, ...], seed: int) -> list[float]:
    """Points that the bought model gains: in all, with a cap, without flagged voters; shares of voters flagged."""
    crowd = Population(SKILLS, 300, 6_000, taste=0.3)
    rng = np.random.default_rng(seed)
    battles = simulated_battles(crowd, rng, *riggings).unique(
        "id", keep="first", maintain_order=True
    )
    bought = pl.col("voter").str.starts_with("bought")
    ways = [
        RatingSettings(interval="sandwich", cap=cap, leave_out_anomalous=out)
        for cap, out in ((0, False), (CAP, False), (0, True))
    ]
    honest = rating_of(rate_votes(VoteLog(battles.filter(~bought)), ways[0]), "model-00")
    gains = [rating_of(rate_votes(VoteLog(battles), way), "model-00") - honest for way in ways]
    checks = check_voters(chosen_votes(VoteLog(battles), ways[0]))
    caught = sum(check.flagged and check.voter.startswith("bought") for check in checks)
    wrongly = sum(check.flagged and not check.voter.startswith("bought") for check in checks)
    voters = sum(rigging.voters for rigging in riggings)
    return [*gains, caught / voters if voters else np.nan, wrongly / crowd.voters]


def rating_of(rating: ArenaRating, model: str) -> float:
    [row] = [row for row in rating.models if row.model == model]
    return row.rating or np.nan


def defences(arenas: int) -> None:
    print(
        f"\nvotes bought for the weakest model, beside 6,000 votes of 300 honest voters; means of {arenas} arenas"
    )
    header = (
        "points gained",
        f"at most {CAP} a day",
        "without flagged",
        "bought flagged",
        "honest flagged",
    )
    print(f"{'':45}" + "".join(f"{name:>18}" for name in header))
    with ProcessPoolExecutor(2) as pool:
        for name, riggings in RIGGINGS.items():
            means = np.mean(
                list(pool.map(partial(moved_and_caught, riggings), range(arenas))), axis=0
            )
            cells = [
                *(f"{points:.1f}" for points in means[:3]),
                *("-" if np.isnan(share) else f"{share:.1%}" for share in means[3:]),
            ]
            print(f"{name:45}" + "".join(f"{cell:>18}" for cell in cells), flush=True)


@contextmanager
def timed(name: str) -> Iterator[None]:
    begun = time.perf_counter()
    yield
    print(f"{name:60}{time.perf_counter() - begun:8.1f} s", flush=True)


def million() -> None:
    crowd = Population(
        tuple(np.linspace(-1.5, 1.5, 20).tolist()), 100_000, 1_000_000, taste=0.3, position=0.1
    )
    print(f"\n{crowd.votes:,} votes of up to {crowd.voters:,} voters on {len(crowd.skills)} models")
    battles = simulated_battles(crowd, np.random.default_rng(0))
    with TemporaryDirectory() as folder:
        path = Path(folder) / "votes.parquet"
        write_votes(path, battles)
        with timed("read from Parquet"):
            log = read_votes([path])
    with timed("Bradley-Terry, 1,000 resamples of voters"):
        found = rate_votes(log)
    with timed("Bradley-Terry, sandwich"):
        rate_votes(log, RatingSettings(interval="sandwich"))
    with timed("Davidson with sides, 1,000 resamples of voters"):
        rate_votes(log, RatingSettings(method="davidson", position=True))
    votes = chosen_votes(log, RatingSettings())
    with timed("tests of all voters"):
        check_voters(votes)
    with timed("Elo, once through"):
        elo = elo_ratings(votes, RatingSettings())
    kept = votes.outcome != BOTH_BAD
    winners = np.select([votes.outcome == LEFT, votes.outcome == RIGHT], [1, 2], 0)[kept].tolist()
    names = [np.array(votes.models)[side[kept]].tolist() for side in (votes.left, votes.right)]
    with timed("evalica's Bradley-Terry, without intervals"):
        theirs = evalica.bradley_terry(
            *names, winners, tolerance=1e-12, limit=10_000
        ).scores.sort_index()
    log_odds = np.log(theirs.to_numpy())
    ours = np.array([row.rating for row in sorted(found.models, key=lambda row: row.model)])
    apart = np.abs(ours - 1000 - RatingSettings().points * (log_odds - log_odds.mean())).max()
    ratings = np.full(len(votes.models), 1000.0).tolist()
    for left, right, winner in zip(
        votes.left[kept].tolist(), votes.right[kept].tolist(), winners, strict=True
    ):
        moved = 4 * (
            (0.5, 1.0, 0.0)[winner] - 1 / (1 + 10 ** ((ratings[right] - ratings[left]) / 400))
        )
        ratings[left] += moved
        ratings[right] -= moved
    print(f"greatest difference from evalica's Bradley-Terry: {apart:.1e} points")
    print(
        f"greatest difference of Elo from the published loop: {np.abs(elo - ratings).max():.1e} points"
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--coverage", type=int, metavar="ARENAS")
    parser.add_argument("--defences", action="store_true")
    parser.add_argument("--million", action="store_true")
    chosen = parser.parse_args()
    everything = not (chosen.coverage or chosen.defences or chosen.million)
    if chosen.coverage or everything:
        coverage(chosen.coverage or 200)
        first_votes(chosen.coverage or 200)
    if chosen.defences or everything:
        defences(20)
    if chosen.million or everything:
        million()
