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
    """Classes whose votes from one network are taken as one voter's, and have at most `network_share`."""
    network_share: Annotated[float, Meta(gt=0, le=1)] = 0.002
    """The largest share of all weight that the votes of one network may have."""
    network_votes: Annotated[float, Meta(gt=0)] = 5.0
    """So many votes of a network count in any case, since shares of a small arena say little."""
    count_leaks: bool = False
    """Count votes on battles in which a model gave itself away."""
    count_repeats: bool = False
    """Count further votes of one voter on the same question about the same image by the same two models."""
    count_together: bool = False
    """Count votes of voters who vote seldom and together (`arena_ratings.together`)."""
    count_disagreeing: bool = False
    """Count anonymous votes on models that voters with accounts rate otherwise (`arena_ratings.agreement`)."""
    count_anomalous: bool = False
    """Count voters whose votes are unlike those of all others (`arena_ratings.anomalies`)."""
    count_failed: bool = False
    """Count voters who failed more honeypots than an honest voter would."""

    def weight(self, trust: str) -> float:
        """Return the weight of a vote of this class; 1 where the class is not known."""
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
    """How votes count by who gave them; None counts all alike."""
    classes: tuple[Trust, ...] = ()
    """Rate only votes of these classes of trust; empty for all."""
    weighting: Weighting = "none"
    position: bool = False
    """Estimate what it is worth to be shown on the left, with the ratings."""
    style: bool = False
    """Take out of the ratings what the length of a reply and its Markdown do."""
    interval: IntervalKind = "bootstrap"
    resamples: int = 1000
    seed: int = 0
    initial: float = 1000.0
    """Mean rating; in Elo where every model starts."""
    scale: float = 400.0
    """So many points more are `base` to one odds."""
    base: float = 10.0
    k: float = 4.0
    """Elo: most points that one vote moves. Chatbot Arena: 32 in May 2023, 4 after (FastChat, rating_systems.py)."""

    @property
    def points(self) -> float:
        """Points of a rating per unit of log odds."""
        return self.scale / math.log(self.base)


Array = np.ndarray[Any, Any]
LEFT, RIGHT, TIE, BOTH_BAD = range(4)
"""Outcomes as numbers: indexes of `battle.OUTCOMES`."""
DAY = 86_400


@dataclass(frozen=True)
class Votes:
    """N votes of M models by V voters, by time."""

    models: tuple[str, ...]
    """By name."""
    left: Array
    """(N,) index of the model on the left."""
    right: Array
    outcome: Array
    """(N,) index of `OUTCOMES`."""
    voter: Array
    """(N,) number of the voter, by first vote. A vote of nobody known has a voter of its own."""
    weight: Array
    """(N,) mean 1."""
    table: pl.DataFrame
    """The same votes with all that is known of them."""
    excluded_votes: Mapping[str, int]
    """Votes that do not count, by reason."""

    @property
    def count(self) -> int:
        return len(self.left)

    @property
    def voters(self) -> int:
        return int(self.voter.max()) + 1 if self.count else 0

    @property
    def unknown_voters(self) -> int:
        """Votes of which nobody knows who gave them."""
        return int(self.table["voter"].null_count())

    def where(self, chosen: Array, reason: str) -> Votes:
        """Return the votes where `chosen` (N,) is true, and count the others as left out for a reason.

        Models keep their indices and votes keep their weights; voters are numbered anew.
        """
        excluded_votes = dict(
            Counter(self.excluded_votes) + Counter({reason: int((~chosen).sum())})
        )
        voter = _renumbered(self.voter[chosen])
        return Votes(
            self.models,
            self.left[chosen],
            self.right[chosen],
            self.outcome[chosen],
            voter,
            self.weight[chosen],
            self.table.filter(pl.Series(chosen)),
            excluded_votes,
        )


def chosen_votes(log: VoteLog, settings: RatingSettings) -> Votes:
    """Return the votes of a log that the settings select, before anomalous voters are looked for.

    What is left out is counted by reason. Raises DataError when no vote remains, or weights by propensity are asked
    for and a vote has none.
    """
    table, excluded_votes = _filtered(log.battles, settings)
    if not table.height:
        reason_counts = "; ".join(f"{count:,} {reason}" for reason, count in excluded_votes.items())
        raise DataError(f"no votes are left to rate ({reason_counts or 'the log is empty'})")
    names = pl.concat([table["left_name"], table["right_name"]]).unique().sort()
    index = dict(zip(names, range(len(names)), strict=True))
    left, right = (_codes(table[f"{side}_name"], index) for side in ("left", "right"))
    outcome = _codes(table["outcome"], {name: number for number, name in enumerate(OUTCOMES)})
    return Votes(
        tuple(names),
        left,
        right,
        outcome,
        _voters(table, settings.trust),
        _weights(table, settings.weighting),
        table,
        {**log.excluded_votes, **excluded_votes},
    )


def votes_digest(votes: Votes) -> str:
    """Return a digest of the rated votes: models, outcomes, times, weights, and which votes are by the same voter.

    Voters enter by their number and not by their pseudonym, so that a log of addresses read again has the same digest.
    Ids do not enter, since a log that has none is given them by its name.
    """
    digest = hashlib.blake2b(digest_size=16)
    for name in ("left_name", "right_name", "outcome"):
        column = votes.table[name]
        digest.update(np.asarray(column.str.len_bytes(), dtype="<u4").tobytes())
        digest.update("".join(column).encode())
    for numbers, kind in (
        (votes.table["time"].fill_null(-1.0), "<f8"),
        (votes.voter, "<i8"),
        (votes.weight, "<f8"),
    ):
        digest.update(np.ascontiguousarray(numbers, dtype=kind).tobytes())
    return digest.hexdigest()


def _filtered(table: pl.DataFrame, settings: RatingSettings) -> tuple[pl.DataFrame, dict[str, int]]:
    """Leave out the votes that the settings exclude.

    Returns:
        The remaining votes, and how many were left out for each reason (a phrase that completes "votes left out: ...").
    """
    rows = table.with_columns(_label("left"), _label("right"))
    steps: dict[
        str, pl.Expr
    ] = {}  # by the reason why votes that do not meet the condition are left out
    others = "models that judge" if settings.voters == "person" else "people"
    steps[f"votes by {others}"] = pl.col("voter_kind") == settings.voters
    if settings.anonymous_only:
        steps["the names of the models were visible"] = pl.col("anonymous")
    if settings.classes:
        steps["of another class of trust"] = pl.col("trust").is_in(settings.classes)
    steps["of another category"] = _equals_if_given("category", settings.category)
    steps["of another language"] = _equals_if_given("language", settings.language)
    if settings.trust is None:
        # With trust settings, honeypots are needed to tell who is no honest voter, and are left out later.
        steps["on honeypots"] = pl.col("honeypot") == ""
    steps["a model against itself"] = pl.col("left_name") != pl.col("right_name")

    excluded_votes = dict[str, int]()
    for reason, condition in steps.items():
        before, rows = rows.height, rows.filter(condition)
        if rows.height < before:
            excluded_votes[reason] = before - rows.height
    if settings.cap and rows.height:
        day = (pl.col("time") // DAY).fill_null(-1)
        rank = pl.int_range(pl.len()).over("voter", day)
        before = rows.height
        rows = rows.filter(pl.col("voter").is_null() | (rank < settings.cap))
        if rows.height < before:
            excluded_votes[f"beyond {settings.cap:,} votes of a voter on a day"] = (
                before - rows.height
            )
    return rows, excluded_votes


def _label(side: str) -> pl.Expr:
    """Return the name of a model with its version, under which it is rated."""
    version = pl.col(f"{side}_version")
    suffix = pl.when(version == "").then(pl.lit("")).otherwise(pl.concat_str(pl.lit("@"), version))
    return pl.concat_str(pl.col(side), suffix).alias(f"{side}_name")


def _equals_if_given(column: str, value: str) -> pl.Expr:
    return pl.col(column) == value if value else pl.lit(True)


def _codes(column: pl.Series, index: Mapping[str, int]) -> Array:
    return column.replace_strict(index, return_dtype=pl.Int64).to_numpy()


def _renumbered(voter: Array) -> Array:
    """Numbers by first appearance, without gaps."""
    _, first, inverse = np.unique(voter, return_index=True, return_inverse=True)
    order = np.empty(len(first), dtype=np.int64)
    order[np.argsort(first)] = np.arange(len(first))
    return np.asarray(order[inverse], dtype=np.int64)


def _voters(table: pl.DataFrame, trust: TrustSettings | None) -> Array:
    """Return a number for the voter of each vote; (N,), from 0.

    With trust settings, all votes of one network count as one voter's. A vote without a voter is a voter of its own.
    """
    voter = table["voter"]
    if trust is not None:
        of_network = pl.col("trust").is_in(trust.networked) & pl.col("network").is_not_null()
        network = pl.concat_str(pl.lit("network "), pl.col("network"))
        clusters = pl.when(of_network).then(network).otherwise(pl.col("voter"))
        voter = table.select(clusters.alias("voter"))["voter"]
    codes = voter.cast(pl.Categorical).to_physical().cast(pl.Int64).fill_null(-1).to_numpy()
    return _renumbered(np.where(codes >= 0, codes, -1 - np.arange(len(codes))))


def _weights(table: pl.DataFrame, weighting: Weighting) -> Array:
    """Return the weights (N,) of the votes, whose mean is 1: equal ones, or 1 / propensity of the pair."""
    if weighting == "none":
        return np.ones(table.height)
    if missing := table["propensity"].null_count():
        raise DataError(
            f"{missing:,} of {table.height:,} votes have no propensity of their pair; weigh them alike"
        )
    raw = 1 / table["propensity"].to_numpy()
    return np.asarray(raw / raw.mean())
