"""Anonymous votes against those by accounts: what honest ones keep, and what bought ones lose."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from simulated_arenas import Population, Rigging, simulated_battles
from snellen_server.arena_ratings.agreement import disagreeing_votes
from snellen_server.arena_ratings.log import VoteLog
from snellen_server.arena_ratings.rating import rate_votes
from snellen_server.arena_ratings.trust import DISAGREEING
from snellen_server.arena_ratings.votes import RatingSettings, TrustSettings, chosen_votes

CROWD = Population(tuple(np.linspace(-1.0, 1.0, 6).tolist()), 600, 3_000, taste=0.5)
BOUGHT = 2
# Without the detection of voters who vote together, which finds these, too.
TRUSTED = RatingSettings(interval="sandwich", trust=TrustSettings(count_together=True))
UNCOMPARED = RatingSettings(
    interval="sandwich", trust=TrustSettings(count_together=True, count_disagreeing=True)
)


def mixed_battles(seed: int, bought: int, accounts: float = 0.5) -> VoteLog:
    """A share of the honest voters has accounts; each other voter, honest or bought, has a network alone."""
    riggings = [Rigging(BOUGHT, bought, 1)] if bought else []
    battles = simulated_battles(CROWD, np.random.default_rng(seed), *riggings)
    is_bought = pl.col("voter").str.starts_with("bought")
    number = pl.col("voter").str.extract(r"(\d+)$").cast(pl.Int64)
    has_account = ~is_bought & (number % 100 < 100 * accounts)
    trust = pl.when(has_account).then(pl.lit("account")).otherwise(pl.lit("anonymous"))
    return VoteLog(battles.with_columns(trust.alias("trust"), pl.col("voter").alias("network")))


def rating_of_bought(log: VoteLog, settings: RatingSettings) -> float:
    rows = {row.model: row.rating or 0.0 for row in rate_votes(log, settings).models}
    return rows[CROWD.models[BOUGHT]]


def test_honest_anonymous_votes_are_rarely_set_apart() -> None:
    alarms = 0
    for seed in range(20):
        votes = chosen_votes(mixed_battles(seed, 0), TRUSTED)
        alarms += bool(disagreeing_votes(votes, TrustSettings()).any())
    assert alarms <= 2  # of 20, at a probability of about .01 each


@pytest.mark.parametrize("bought", [400, 3_000])
def test_bought_votes_move_a_model_only_as_far_as_accounts_leave_open(bought: int) -> None:
    gained, gained_before = [], []
    for seed in range(3):
        honest = rating_of_bought(mixed_battles(seed, 0), TRUSTED)
        log = mixed_battles(seed, bought)
        gained.append(rating_of_bought(log, TRUSTED) - honest)
        gained_before.append(rating_of_bought(log, UNCOMPARED) - honest)
    assert min(gained_before) > 50
    assert max(gained) < 25


def test_the_page_says_how_many_votes_were_set_apart() -> None:
    rating = rate_votes(mixed_battles(0, 400), TRUSTED)
    assert rating.left_out_votes[DISAGREEING] >= 400


def test_nothing_is_compared_without_enough_known_votes() -> None:
    log = mixed_battles(0, 400, accounts=0.05)
    votes = chosen_votes(log, TRUSTED)
    assert (votes.table["trust"] == "account").sum() < 200
    assert not disagreeing_votes(votes, TrustSettings()).any()
