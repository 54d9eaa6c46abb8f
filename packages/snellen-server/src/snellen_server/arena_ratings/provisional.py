"""Ratings from the first vote on, of models that too few people have voted on: marked, unranked, with wide intervals.

Votes alone give no rating to a model that has won, or lost, all its battles, and no interval where one person has cast
all the votes. Until a rating is settled, the one shown is the most likely under a prior: true ratings are normal around
the mean with a standard deviation of `PRIOR_POINTS`, so an unknown model is within 400 points of the mean. Its interval
is that of a normal approximation to what is known after the votes. All that one person says of a pair of models counts
as a single vote: whoever votes a hundred times makes no rating sure.
"""

from __future__ import annotations

from dataclasses import replace

import msgspec
import numpy as np

from snellen_server.arena_ratings.bradley_terry import fit_with_prior, pair_model, rated_outcomes, voter_cells
from snellen_server.arena_ratings.rating import ModelRating, Z, model_row
from snellen_server.arena_ratings.settings import RatingSettings
from snellen_server.arena_ratings.votes import BOTH_BAD, Array, Votes

PRIOR_POINTS = 200.0
"""Standard deviation of true ratings before any vote: about that of the models of public arenas."""
SETTLED_VOTES, SETTLED_VOTERS = 50, 10
"""A rating is settled with so many votes for a better side or a tie, by so many people."""


def is_settled(row: ModelRating) -> bool:
    """Whether enough people have voted on a model for its rating to stand by votes alone."""
    share = row.win_share
    return row.low is not None and share.n >= SETTLED_VOTES and (share.groups or 0) >= SETTLED_VOTERS


def provisional_ratings(votes: Votes, settings: RatingSettings) -> tuple[ModelRating, ...]:
    """All models of these votes under the prior, the best first, without a rank."""
    counted = votes if settings.both_bad_is_tie else votes.where(votes.outcome != BOTH_BAD, "both bad")
    if not counted.count:
        return ()
    cells = voter_cells(replace(counted, weight=_one_for_each_pair(counted)))
    outcomes = rated_outcomes(cells.counts, both_bad_is_tie=settings.both_bad_is_tie)
    log_odds, covariance = fit_with_prior(pair_model(cells), outcomes, PRIOR_POINTS / settings.points)
    ratings = settings.initial + settings.points * log_odds
    margins = settings.points * Z * np.sqrt(np.diag(covariance))
    rows = [
        model_row(votes, model, 0, float(rating), float(rating - margin), float(rating + margin), np.zeros(0))
        for model, (rating, margin) in enumerate(zip(ratings, margins, strict=True))
    ]
    unranked = [msgspec.structs.replace(row, rank=None) for row in rows]
    return tuple(sorted(unranked, key=lambda row: (-(row.rating or 0.0), row.model)))


def _one_for_each_pair(votes: Votes) -> Array:
    """(N,) weights with which all votes of one voter on one pair of models count as one."""
    size = len(votes.models)
    pair = np.minimum(votes.left, votes.right) * size + np.maximum(votes.left, votes.right)
    _, place, counts = np.unique(votes.voter * size**2 + pair, return_inverse=True, return_counts=True)
    return np.asarray(1 / counts[place])
