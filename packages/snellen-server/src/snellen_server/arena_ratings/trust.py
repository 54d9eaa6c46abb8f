"""Which votes of an open arena count, and how much: by who gave them, from which network, and on what.

Nobody can tell two people behind one address from one person with two cookies. So the votes of one network are taken
as one voter's, whose answers depend on each other, and they have a bounded share of all weight.
"""

from __future__ import annotations

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
"""Share of honeypots that an honest voter may fail: known better replies are not better to everybody."""
FAILURE_LIMIT = 0.01
"""A voter is set apart whose failures are rarer than this in an honest one."""


class TrustShare(Struct, frozen=True):
    """How much the votes of one class of trust count in a rating."""

    trust: str
    votes: int
    """Counted votes."""
    weight: float
    """Their share of all weight, in [0, 1]."""


def without_distrusted(votes: Votes, trust: TrustSettings) -> Votes:
    """Return only the votes that count; `excluded_votes` of the result has the number left out for each reason.

    Weights stay as they are; `with_trust_weights` sets them once it is known what counts.
    """
    failed = _failed_honeypots(votes)
    # Whether a voter failed is known from honeypots, which then go.
    counted = votes.where((votes.table["honeypot"] == "").to_numpy(), HONEYPOT)
    if not trust.count_failed:
        counted = counted.where(~np.isin(counted.table["id"].to_numpy(), failed), FAILED)
    has_weight = [trust.weight(name) > 0 for name in counted.table["trust"]]
    counted = counted.where(np.array(has_weight, dtype=bool), WEIGHTLESS)
    if not trust.count_leaks:
        counted = counted.where((counted.table["leak"] == "").to_numpy(), LEAKED)
    if not trust.count_repeats:
        counted = counted.where(_is_first(counted), REPEATED)
    if not trust.count_together:
        # By weight, so that one network that votes much is not what others are compared with.
        rated = with_trust_weights(counted, trust)
        counted = counted.where(~voted_together(rated, _is_networked(counted, trust)), TOGETHER)
    if not trust.count_disagreeing:
        counted = counted.where(~disagreeing_votes(counted, trust), DISAGREEING)
    return counted


def with_trust_weights(votes: Votes, trust: TrustSettings) -> Votes:
    """Return the votes with weights whose mean is 1, set by class of trust and limited for each network.

    A network whose votes weigh more than `network_share` of all weight, and more than `network_votes` votes, has them
    scaled down to the larger of the two. The limit follows from the weight that is left after scaling, so it is the
    fixed point that a falling sequence of limits comes to.
    """
    if not votes.count:
        return votes
    class_weights = np.array([trust.weight(name) for name in votes.table["trust"]])
    weight = votes.weight * class_weights
    limit, sums = _network_limit(votes, trust, weight)
    is_networked = _is_networked(votes, trust)
    scale = np.minimum(1.0, limit / np.maximum(sums, 1e-12))
    weight = np.where(is_networked, weight * scale[votes.voter], weight)
    return _with_weights(votes, weight / weight.mean())


def within_shares(votes: Votes, trust: TrustSettings | None, least: int = 0) -> Votes:
    """Leave out the latest votes of each network that go beyond its share, for counts that ignore weights.

    A network keeps `least` votes in any case.
    """
    if trust is None or not votes.count:
        return votes
    class_weights = np.array([trust.weight(name) for name in votes.table["trust"]])
    limit, _ = _network_limit(votes, trust, class_weights)
    before = _weight_before(votes.voter, class_weights)
    is_networked = _is_networked(votes, trust)
    is_early = (before < limit) | (_weight_before(votes.voter, np.ones(votes.count)) < least)
    return votes.where(~is_networked | is_early, "beyond the share of a network")


def trust_shares(votes: Votes) -> tuple[TrustShare, ...]:
    """Return for each class of trust with votes how many count, and their share of all weight."""
    total = float(votes.weight.sum())
    shares = []
    for name in (*TRUST_CLASSES, ""):
        is_of_class = (votes.table["trust"] == name).to_numpy()
        count = int(is_of_class.sum())
        if count:
            shares.append(TrustShare(name, count, float(votes.weight[is_of_class].sum()) / total))
    return tuple(shares)


def _network_limit(votes: Votes, trust: TrustSettings, weight: Array) -> tuple[float, Array]:
    """Return the most that the votes of one network may weigh together, and the weight (V,) of each voter's votes now."""
    is_networked = _is_networked(votes, trust)
    networked_weight = np.where(is_networked, weight, 0.0)
    sums = np.bincount(votes.voter, networked_weight, minlength=votes.voters)
    rest = float(weight.sum() - networked_weight.sum())
    floor = trust.network_votes * min(trust.weight(name) for name in trust.networked or ("",))
    limit = np.inf
    for _ in range(100):
        total = rest + float(np.minimum(sums, limit).sum())
        lower = max(floor, trust.network_share * total)
        if lower >= limit:
            break
        limit = lower
    return float(limit), sums


def _is_networked(votes: Votes, trust: TrustSettings) -> Array:
    """Return for each vote (N,) whether it is taken as one of its network's."""
    of_network = pl.col("trust").is_in(trust.networked) & pl.col("network").is_not_null()
    return votes.table.select(of_network.alias("of_network"))["of_network"].to_numpy()


def _is_first(votes: Votes) -> Array:
    """Return for each vote (N,) whether it is its voter's first one on this question and this pair of models."""
    size = len(votes.models)
    pair = np.minimum(votes.left, votes.right) * size + np.maximum(votes.left, votes.right)
    keys = votes.table.select("question").with_columns(
        pl.Series("voter", votes.voter), pl.Series("pair", pair)
    )
    is_first = keys.select(pl.struct(pl.all()).is_first_distinct().alias("first"))["first"]
    return np.asarray(is_first.to_numpy() | keys["question"].is_null().to_numpy())


def _failed_honeypots(votes: Votes) -> Array:
    """Return the ids of all votes of voters who failed more honeypots than chance explains in an honest voter."""
    result = votes.table["honeypot"]
    met = np.bincount(votes.voter, (result != "").to_numpy(), minlength=votes.voters)
    failures = np.bincount(votes.voter, (result == "failed").to_numpy(), minlength=votes.voters)
    chance = stats.binom.sf(failures - 1, met, HONEST_FAILURES)
    is_failed = (failures > 0) & (chance < FAILURE_LIMIT)
    return np.asarray(votes.table["id"].to_numpy()[is_failed[votes.voter]])


def _weight_before(voter: Array, weight: Array) -> Array:
    """Return for each vote (N,) the summed weight of its voter's earlier votes."""
    order = np.argsort(voter, kind="stable")
    running = np.cumsum(weight[order]) - weight[order]
    first_places = np.flatnonzero(np.diff(voter[order], prepend=-1))
    lengths = np.diff(np.append(first_places, len(voter)))
    before = np.empty(len(voter))
    before[order] = running - np.repeat(running[first_places], lengths)
    return before


def _with_weights(votes: Votes, weight: Array) -> Votes:
    """Return the votes with other weights; raises DataError if weights are not finite because all were 0."""
    if not np.isfinite(weight).all():
        raise DataError("no vote has a weight; set one of account, invited and anonymous above 0")
    return Votes(
        votes.models,
        votes.left,
        votes.right,
        votes.outcome,
        votes.voter,
        weight,
        votes.table,
        votes.excluded_votes,
    )
