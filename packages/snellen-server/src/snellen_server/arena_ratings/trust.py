"""Which votes of an open arena count and how much, depending on the voter, the voter's network and the battle.

Two people behind one address look the same as one person with two cookies. So all votes from one network count as one
voter's, and their share of all weight is limited.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl
from msgspec import Struct
from scipy import stats

from snellen import DataError
from snellen_server.arena_ratings.agreement import disagreeing_votes
from snellen_server.arena_ratings.log import TRUST_CLASSES
from snellen_server.arena_ratings.together import voted_together
from snellen_server.arena_ratings.votes import Array, TrustSettings, Votes

HONEYPOT = "on honeypots"
FAILED = "by voters who failed honeypots"
LEAKED = "a model gave itself away"
REPEATED = "the same question by the same voter again"
TOGETHER = "by voters who vote seldom and together"
DISAGREEING = "anonymous, on models that voters with accounts rate otherwise"
WEIGHTLESS = "of a class without weight"
HONEST_FAILURES = 0.1
"""Probability that an honest voter fails a honeypot: not everyone prefers the reply that is known to be better."""
FAILURE_LIMIT = 0.01
"""A voter's votes are left out if an honest voter has as many failures with a probability below this."""


class TrustShare(Struct, frozen=True):
    """How much the votes of one class of voters count in a rating."""

    trust: str
    """The class: one of `TRUST_CLASSES`, or "" for votes without a class."""
    votes: int
    """Number of votes that count."""
    weight: float
    """Their share of the weight of all votes, in [0, 1]."""


def without_distrusted(votes: Votes, trust: TrustSettings) -> Votes:
    """Return the votes that the settings of trust let count, with unchanged weights.

    The other votes are counted by reason in the result's `left_out_votes`. Votes on honeypots (battles with a known
    better reply) test voters and never count themselves.
    """
    ids_of_failed_voters = _ids_of_voters_who_failed_honeypots(votes)
    is_honeypot = (votes.table["honeypot"] != "").to_numpy()
    counted = votes.where(~is_honeypot, left_out_as=HONEYPOT)
    if not trust.count_failed:
        has_failed = np.isin(counted.table["id"].to_numpy(), ids_of_failed_voters)
        counted = counted.where(~has_failed, left_out_as=FAILED)
    has_weight = [trust.weight(name) > 0 for name in counted.table["trust"]]
    counted = counted.where(np.array(has_weight, dtype=bool), left_out_as=WEIGHTLESS)
    if not trust.count_leaks:
        has_leak = (counted.table["leak"] != "").to_numpy()
        counted = counted.where(~has_leak, left_out_as=LEAKED)
    if not trust.count_repeats:
        counted = counted.where(_is_first_on_question(counted), left_out_as=REPEATED)
    if not trust.count_together:
        # With weights, so that the votes of one large network do not become the norm that others are compared with.
        weighted = with_trust_weights(counted, trust)
        is_together = voted_together(weighted, _is_networked(counted, trust))
        counted = counted.where(~is_together, left_out_as=TOGETHER)
    if not trust.count_disagreeing:
        counted = counted.where(~disagreeing_votes(counted, trust), left_out_as=DISAGREEING)
    return counted


def with_trust_weights(votes: Votes, trust: TrustSettings) -> Votes:
    """Return the votes with weights that depend on the voter's class and are limited for each network; their mean is 1.

    The votes of a network may weigh `network_share` of all weight together, or as much as `network_votes` votes if that
    is more. The votes of a network above the limit are scaled down to it.

    Raises:
        DataError: If all votes have weight 0.
    """
    if not votes.count:
        return votes
    class_weights = np.array([trust.weight(name) for name in votes.table["trust"]])
    weight = votes.weight * class_weights
    limit, weight_of_network = _network_limit(votes, trust, weight)
    scale_of_network = np.minimum(1.0, limit / np.maximum(weight_of_network, 1e-12))
    is_networked = _is_networked(votes, trust)
    weight = np.where(is_networked, weight * scale_of_network[votes.voter], weight)

    weight = weight / weight.mean()
    if not np.isfinite(weight).all():
        raise DataError("no vote has a weight; set one of account, invited and anonymous above 0")
    return replace(votes, weight=weight)


def within_shares(votes: Votes, trust: TrustSettings | None, always_kept: int = 0) -> Votes:
    """Return the votes without the latest ones of each network that exceed its share of all weight.

    This is for tests that count votes and ignore their weights. The first `always_kept` votes of a network always remain.
    Without settings of trust, all votes remain.
    """
    if trust is None or not votes.count:
        return votes
    class_weights = np.array([trust.weight(name) for name in votes.table["trust"]])
    limit, _ = _network_limit(votes, trust, class_weights)
    earlier_weight = _earlier_weight_of_voter(votes.voter, class_weights)
    earlier_votes = _earlier_weight_of_voter(votes.voter, np.ones(votes.count))
    is_within_share = (earlier_weight < limit) | (earlier_votes < always_kept)
    is_networked = _is_networked(votes, trust)
    return votes.where(~is_networked | is_within_share, left_out_as="beyond the share of a network")


def trust_shares(votes: Votes) -> tuple[TrustShare, ...]:
    """Return how much the votes of each class of voters count; classes without votes are left out."""
    total = float(votes.weight.sum())
    shares = []
    for name in (*TRUST_CLASSES, ""):
        is_of_class = (votes.table["trust"] == name).to_numpy()
        count = int(is_of_class.sum())
        if count:
            share = float(votes.weight[is_of_class].sum()) / total
            shares.append(TrustShare(trust=name, votes=count, weight=share))
    return tuple(shares)


def _network_limit(votes: Votes, trust: TrustSettings, weight: Array) -> tuple[float, Array]:
    """Find the limit of the weight of one network, where all votes of a network have the same voter number.

    The limit is a share of all weight, and all weight becomes smaller when networks are scaled down to the limit. So
    the limit is lowered again and again until it no longer falls: the fixed point.

    Args:
        votes: N votes by V voters.
        trust: The share and the number of votes that a network may have, and the classes of voters it applies to.
        weight: Weights of the votes before any limit, shape (N,).

    Returns:
        The limit, and the weight of each voter's votes from networks before the limit, shape (V,).
    """
    is_networked = _is_networked(votes, trust)
    networked_weight = np.where(is_networked, weight, 0.0)
    weight_of_network = np.bincount(votes.voter, networked_weight, minlength=votes.voters)
    other_weight = float(weight.sum() - networked_weight.sum())
    smallest_class_weight = min(trust.weight(name) for name in trust.networked or ("",))
    lowest_limit = trust.network_votes * smallest_class_weight
    limit = np.inf
    for _ in range(100):
        total = other_weight + float(np.minimum(weight_of_network, limit).sum())
        next_limit = max(lowest_limit, trust.network_share * total)
        if next_limit >= limit:
            break
        limit = next_limit
    return float(limit), weight_of_network


def _is_networked(votes: Votes, trust: TrustSettings) -> Array:
    """Return which votes count as votes of their network instead of their voter, Booleans of shape (N,).

    These are the votes whose network is known and whose voter is of a class in `trust.networked`.
    """
    is_networked = pl.col("trust").is_in(trust.networked) & pl.col("network").is_not_null()
    return votes.table.select(is_networked.alias("networked"))["networked"].to_numpy()


def _is_first_on_question(votes: Votes) -> Array:
    """Return whether each vote is the voter's first one on its question and pair of models; (N,), of Booleans.

    It does not matter which model was on the left. A vote without a known question is always a first one.
    """
    # The pair as one number, equal for both orders of the same two models.
    first_model = np.minimum(votes.left, votes.right)
    second_model = np.maximum(votes.left, votes.right)
    pair = first_model * len(votes.models) + second_model
    rows = votes.table.select("question").with_columns(
        pl.Series("voter", votes.voter), pl.Series("pair", pair)
    )
    is_first_row = rows.select(pl.struct(pl.all()).is_first_distinct().alias("first"))["first"]
    has_no_question = rows["question"].is_null()
    return np.asarray(is_first_row.to_numpy() | has_no_question.to_numpy())


def _ids_of_voters_who_failed_honeypots(votes: Votes) -> Array:
    """Return the ids of all votes of voters who failed too many honeypots to be honest (a one-sided binomial test)."""
    result = votes.table["honeypot"]  # "passed", "failed", or "" for a vote on another battle
    is_honeypot = (result != "").to_numpy()
    is_failure = (result == "failed").to_numpy()
    honeypots_of_voter = np.bincount(votes.voter, is_honeypot, minlength=votes.voters)
    failures_of_voter = np.bincount(votes.voter, is_failure, minlength=votes.voters)
    # The probability that an honest voter has at least as many failures.
    p_value = stats.binom.sf(failures_of_voter - 1, honeypots_of_voter, HONEST_FAILURES)
    has_failed = (failures_of_voter > 0) & (p_value < FAILURE_LIMIT)
    return np.asarray(votes.table["id"].to_numpy()[has_failed[votes.voter]])


def _earlier_weight_of_voter(voter: Array, weight: Array) -> Array:
    """Return for each vote the summed weight of the same voter's earlier votes.

    Args:
        voter: The voter's number for each vote, in the order of votes, shape (N,).
        weight: The weight of each vote, shape (N,).

    Returns:
        The sums, shape (N,): voters [0, 1, 0, 0] with weights [1, 1, 1, 1] have [0, 0, 1, 2].
    """
    by_voter = np.argsort(voter, kind="stable")
    earlier_weight = np.cumsum(weight[by_voter]) - weight[by_voter]  # of all voters up to here
    first_of_voter = np.flatnonzero(np.diff(voter[by_voter], prepend=-1))
    votes_of_voter = np.diff(np.append(first_of_voter, len(voter)))
    weight_of_other_voters = np.repeat(earlier_weight[first_of_voter], votes_of_voter)
    result = np.empty(len(voter))
    result[by_voter] = earlier_weight - weight_of_other_voters
    return result
