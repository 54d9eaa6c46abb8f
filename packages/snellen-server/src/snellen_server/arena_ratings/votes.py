"""The votes that a rating is made of, chosen from a log by its settings: as arrays, with a digest."""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np
import polars as pl
from msgspec import Meta, Struct

from snellen import DataError
from snellen_server.arena_ratings.log import OUTCOMES, Trust, VoteLog, VoterKind

Method = Literal["bradley-terry", "davidson", "elo"]
IntervalKind = Literal["bootstrap", "sandwich"]
Weighting = Literal["none", "propensity"]


class TrustSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which votes of an open arena count, and how much (`arena_ratings.trust`).

    The defaults are for a server that anybody may visit: what one network can move is bounded, however many cookies
    its visitors have.
    """

    account: Annotated[float, Meta(ge=0, le=1)] = 1.0
    """Weight of a vote by an account."""
    invited: Annotated[float, Meta(ge=0, le=1)] = 1.0
    """Weight of a vote by a visitor who came with an invitation."""
    anonymous: Annotated[float, Meta(ge=0, le=1)] = 0.5
    """Weight of a vote by any other visitor."""
    networked: tuple[Trust, ...] = ("anonymous",)
    """Classes of voters for which all votes from one network count as one voter's, with at most `network_share`."""
    network_share: Annotated[float, Meta(gt=0, le=1)] = 0.002
    """The largest share of all weight that the votes of one network may have."""
    network_votes: Annotated[float, Meta(gt=0)] = 5.0
    """Number of votes that a network may always have, because a share of a small arena is less than one vote."""
    count_leaks: bool = False
    """Count votes on battles in which a model revealed its name."""
    count_repeats: bool = False
    """Count further votes of one voter on the same question about the same image by the same two models."""
    count_together: bool = False
    """Count votes of voters who vote seldom and together (`arena_ratings.together`)."""
    count_disagreeing: bool = False
    """Count anonymous votes on models that voters with accounts rate differently (`arena_ratings.agreement`)."""
    count_anomalous: bool = False
    """Count votes of voters who vote unlike all others (`arena_ratings.anomalies`)."""
    count_failed: bool = False
    """Count votes of voters who failed more honeypots (battles with a known better reply) than an honest voter would."""

    def weight(self, trust: str) -> float:
        """Return the weight of a vote by a voter of this class; 1 for an unknown class."""
        weights = {
            "account": self.account,
            "invited": self.invited,
            "anonymous": self.anonymous,
        }
        return weights.get(trust, 1.0)


class RatingSettings(Struct, frozen=True, kw_only=True, omit_defaults=False):
    """The defaults are Bradley-Terry with ties as half a win each, by people, with a bootstrap over voters."""

    method: Method = "bradley-terry"
    voters: VoterKind = "person"
    """Votes of people and of models that judge are never mixed."""
    both_bad_is_tie: bool = False
    """Both bad counts as a tie, as in FastChat; else it is kept apart and only reported."""
    anonymous_only: bool = True
    category: str = ""
    language: str = ""
    cap: int = 0
    """Most votes of one voter that count on one day (UTC), the earliest; 0 for no limit."""
    leave_out_anomalous: bool = False
    """Leave out voters whose votes the tests of `arena_ratings.anomalies` find unlike those of all others."""
    trust: TrustSettings | None = None
    """How much a vote counts, depending on the voter; None gives all votes the same weight."""
    classes: tuple[Trust, ...] = ()
    """Rate only votes of these classes of trust; empty for all."""
    weighting: Weighting = "none"
    position: bool = False
    """Also estimate the advantage of being shown on the left."""
    style: bool = False
    """Adjust the ratings for the length and the Markdown of replies."""
    interval: IntervalKind = "bootstrap"
    resamples: int = 1000
    seed: int = 0
    initial: float = 1000.0
    """Mean rating; with Elo, the rating that every model starts with."""
    scale: float = 400.0
    """Difference in points at which the odds of a win are `base` to 1."""
    base: float = 10.0
    k: float = 4.0
    """Elo: the most points that one vote moves. Chatbot Arena: 32 in May 2023, 4 after (FastChat, rating_systems.py)."""

    @property
    def points(self) -> float:
        """Points of a rating per unit of log odds."""
        return self.scale / math.log(self.base)


Array = np.ndarray[Any, Any]
LEFT, RIGHT, TIE, BOTH_BAD = range(4)
"""Outcomes as numbers: indices in `log.OUTCOMES`."""
DAY = 86_400


@dataclass(frozen=True)
class Votes:
    """N votes on M models by V voters, sorted by time."""

    models: tuple[str, ...]
    """Names of the models, sorted."""
    left: Array
    """(N,) index of the model on the left."""
    right: Array
    outcome: Array
    """(N,) index of `OUTCOMES`."""
    voter: Array
    """(N,) index of the voter, in the order of first votes. A vote without a known voter has a voter of its own."""
    weight: Array
    """(N,) weight of the vote, with mean 1."""
    table: pl.DataFrame
    """The same votes with all columns of `log.SCHEMA`, one row per vote."""
    left_out_votes: Mapping[str, int]
    """Number of votes that do not count, by reason."""

    @property
    def count(self) -> int:
        return len(self.left)

    @property
    def voters(self) -> int:
        return int(self.voter.max()) + 1 if self.count else 0

    @property
    def unknown_voters(self) -> int:
        """Number of votes without a known voter."""
        return int(self.table["voter"].null_count())

    def where(self, is_kept: Array, left_out_as: str) -> Votes:
        """Return the votes where `is_kept` (N,) is true, and count the others as excluded for the reason `left_out_as`.

        Models keep their indices and votes keep their weights; the remaining voters are numbered from 0 again.
        """
        left_out_votes = Counter(self.left_out_votes)
        left_out_votes[left_out_as] += int((~is_kept).sum())
        return Votes(
            models=self.models,
            left=self.left[is_kept],
            right=self.right[is_kept],
            outcome=self.outcome[is_kept],
            voter=_numbers_by_first_vote(self.voter[is_kept]),
            weight=self.weight[is_kept],
            table=self.table.filter(pl.Series(is_kept)),
            left_out_votes=dict(+left_out_votes),  # without reasons that excluded no vote
        )


def chosen_votes(log: VoteLog, settings: RatingSettings) -> Votes:
    """Return the votes of a log that the settings select, as arrays. Anomalous voters are still included.

    The votes that are not selected are counted by reason in `left_out_votes`.

    Raises:
        DataError: If no vote remains, or the settings weigh votes by propensity and a vote has none.
    """
    table, left_out_votes = _admitted_battles(log.battles, settings)
    if not table.height:
        reason_counts = [f"{count:,} {reason}" for reason, count in left_out_votes.items()]
        explanation = "; ".join(reason_counts) or "the log is empty"
        raise DataError(f"no votes are left to rate ({explanation})")
    models = pl.concat([table["left_name"], table["right_name"]]).unique().sort()
    index_of_model = {model: index for index, model in enumerate(models)}
    index_of_outcome = {outcome: index for index, outcome in enumerate(OUTCOMES)}
    return Votes(
        models=tuple(models),
        left=_indices(table["left_name"], index_of_model),
        right=_indices(table["right_name"], index_of_model),
        outcome=_indices(table["outcome"], index_of_outcome),
        voter=_voter_numbers(table, settings.trust),
        weight=_weights(table, settings.weighting),
        table=table,
        left_out_votes={**log.left_out_votes, **left_out_votes},
    )


def votes_digest(votes: Votes) -> str:
    """Return a digest of the rated votes, in hexadecimal: models, outcomes, times, weights, and who cast which votes.

    Voters enter by their number and not by their pseudonym: a log of addresses gets new pseudonyms each time it is
    read, and must still have the same digest. Ids of votes do not enter, because a log without ids gets them from the
    name of its file.
    """
    digest = hashlib.blake2b(digest_size=16)
    for name in ("left_name", "right_name", "outcome"):
        texts = votes.table[name]
        # The lengths come first, so that ("ab", "c") and ("a", "bc") have different digests.
        lengths = np.asarray(texts.str.len_bytes(), dtype="<u4")
        digest.update(lengths.tobytes())
        digest.update("".join(texts).encode())
    times = votes.table["time"].fill_null(-1.0)
    digest.update(np.ascontiguousarray(times, dtype="<f8").tobytes())
    digest.update(np.ascontiguousarray(votes.voter, dtype="<i8").tobytes())
    digest.update(np.ascontiguousarray(votes.weight, dtype="<f8").tobytes())
    return digest.hexdigest()


def _admitted_battles(
    table: pl.DataFrame, settings: RatingSettings
) -> tuple[pl.DataFrame, dict[str, int]]:
    """Remove the votes that the settings exclude from a table of battles.

    Returns:
        The remaining votes with their columns `left_name` and `right_name`, and how many votes were removed for each
        reason (a phrase that completes "votes left out: ...").
    """
    rows = table.with_columns(_versioned_name("left"), _versioned_name("right"))
    other_voters = "models that judge" if settings.voters == "person" else "people"

    # A vote is kept if it meets all conditions; the reason says why a vote that does not meet one is removed.
    conditions: dict[str, pl.Expr] = {}
    conditions[f"votes by {other_voters}"] = pl.col("voter_kind") == settings.voters
    if settings.anonymous_only:
        conditions["the names of the models were visible"] = pl.col("anonymous")
    if settings.classes:
        conditions["of another class of trust"] = pl.col("trust").is_in(settings.classes)
    if settings.category:
        conditions["of another category"] = pl.col("category") == settings.category
    if settings.language:
        conditions["of another language"] = pl.col("language") == settings.language
    if settings.trust is None:
        # With trust settings, honeypots are still needed to find dishonest voters, and are removed later.
        conditions["on honeypots"] = pl.col("honeypot") == ""
    conditions["a model against itself"] = pl.col("left_name") != pl.col("right_name")
    if settings.cap:
        # Counted within the votes that meet the conditions above.
        day = (pl.col("time") // DAY).fill_null(-1)
        earlier_votes_of_day = pl.int_range(pl.len()).over("voter", day)
        reason = f"beyond {settings.cap:,} votes of a voter on a day"
        conditions[reason] = pl.col("voter").is_null() | (earlier_votes_of_day < settings.cap)

    left_out_votes: dict[str, int] = {}
    for reason, condition in conditions.items():
        kept = rows.filter(condition)
        if kept.height < rows.height:
            left_out_votes[reason] = rows.height - kept.height
        rows = kept
    return rows, left_out_votes


def _versioned_name(side: str) -> pl.Expr:
    """Return the column `left_name` or `right_name`: the model with "@" and its version, if it has one."""
    version = pl.col(f"{side}_version")
    version_with_sign = pl.concat_str(pl.lit("@"), version)
    suffix = pl.when(version == "").then(pl.lit("")).otherwise(version_with_sign)
    return pl.concat_str(pl.col(side), suffix).alias(f"{side}_name")


def _indices(column: pl.Series, index_of_value: Mapping[str, int]) -> Array:
    """Return the index of each value of a column, shape (N,)."""
    return column.replace_strict(index_of_value, return_dtype=pl.Int64).to_numpy()


def _numbers_by_first_vote(voter: Array) -> Array:
    """Number voters 0, 1, 2, ... in the order in which they first appear: [7, 3, 7, 9] becomes [0, 1, 0, 2]."""
    _, first_positions, index_in_sorted = np.unique(voter, return_index=True, return_inverse=True)
    number_in_sorted = np.empty(len(first_positions), dtype=np.int64)
    number_in_sorted[np.argsort(first_positions)] = np.arange(len(first_positions))
    return np.asarray(number_in_sorted[index_in_sorted], dtype=np.int64)


def _voter_numbers(table: pl.DataFrame, trust: TrustSettings | None) -> Array:
    """Return the number of the voter of each vote, from 0, shape (N,).

    With trust settings, all votes of one network by classes of voters in `trust.networked` count as one voter's. A vote
    whose voter is unknown gets a number that no other vote has.
    """
    voter = table["voter"]
    if trust is not None:
        is_networked = pl.col("trust").is_in(trust.networked) & pl.col("network").is_not_null()
        network = pl.concat_str(pl.lit("network "), pl.col("network"))
        voter_or_network = pl.when(is_networked).then(network).otherwise(pl.col("voter"))
        voter = table.select(voter_or_network.alias("voter"))["voter"]
    codes = voter.cast(pl.Categorical).to_physical().cast(pl.Int64).fill_null(-1).to_numpy()
    separate_codes = -1 - np.arange(len(codes))  # a different negative number for each vote
    return _numbers_by_first_vote(np.where(codes >= 0, codes, separate_codes))


def _weights(table: pl.DataFrame, weighting: Weighting) -> Array:
    """Return the weight of each vote, shape (N,), with mean 1.

    All weights are equal, or with `propensity` the inverse of the probability with which the pair of models was drawn.
    """
    if weighting == "none":
        return np.ones(table.height)
    missing = table["propensity"].null_count()
    if missing:
        raise DataError(
            f"{missing:,} of {table.height:,} votes have no propensity; set weighting to none"
        )
    inverse = 1 / table["propensity"].to_numpy()
    return np.asarray(inverse / inverse.mean())
