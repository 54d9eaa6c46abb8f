"""Online Elo: each vote moves two ratings at once, so that the order of votes matters. What early arenas published."""

from __future__ import annotations

import numpy as np

from snellen_server.arena_ratings.settings import RatingSettings
from snellen_server.arena_ratings.votes import BOTH_BAD, LEFT, RIGHT, Array, Votes


def elo_ratings(votes: Votes, settings: RatingSettings) -> Array:
    """(M,) ratings after all votes, in their order: R_a += K (S - 1 / (1 + base^((R_b - R_a) / scale))).

    A tie is half a win. Both bad is left out, or a tie by the settings.
    """
    return _after(votes, settings, np.arange(votes.count))


def resampled_elo(votes: Votes, settings: RatingSettings, rng: np.random.Generator) -> Array:
    """(B, M) ratings of the votes of as many voters drawn with replacement, in random order.

    Every resample also shuffles the votes, as FastChat's bootstrap does, so that its spread is that of voters and of
    orders together.
    """
    by_voter = np.argsort(votes.voter, kind="stable")
    sizes = np.bincount(votes.voter, minlength=votes.voters)
    starts = np.cumsum(sizes) - sizes
    ratings = []
    for _ in range(settings.resamples):
        voters = rng.integers(0, votes.voters, votes.voters)
        counts = sizes[voters]
        offsets = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        ratings.append(_after(votes, settings, rng.permutation(by_voter[np.repeat(starts[voters], counts) + offsets])))
    return np.stack(ratings)


def shuffled_elo(votes: Votes, settings: RatingSettings, orders: int, rng: np.random.Generator) -> Array:
    """(orders, M) ratings of the same votes in other orders: how much of a rating is the order alone."""
    return np.stack([_after(votes, settings, rng.permutation(votes.count)) for _ in range(orders)])


def _after(votes: Votes, settings: RatingSettings, order: Array) -> Array:
    rated_order = order if settings.both_bad_is_tie else order[votes.outcome[order] != BOTH_BAD]
    scores = np.full(4, 0.5)
    scores[LEFT], scores[RIGHT] = 1.0, 0.0
    ratings = [settings.initial] * len(votes.models)
    # Plain numbers in lists: a step of arrays takes ten times as long.
    columns = (votes.left[rated_order], votes.right[rated_order], scores[votes.outcome[rated_order]])
    base, scale, k = settings.base, settings.scale, settings.k
    for left, right, score in zip(*(column.tolist() for column in columns), strict=True):
        moved = k * (score - 1 / (1 + base ** ((ratings[right] - ratings[left]) / scale)))
        ratings[left] += moved
        ratings[right] -= moved
    return np.array(ratings)
