"""Whether anonymous votes agree with those of voters with accounts, model by model.

Votes bought one by one, from many networks over many days, differ in nothing from honest ones but in the model that they
favour. Where enough voters with accounts or invitations have voted, their ratings say how often each model should win.
If a model does significantly better or worse in anonymous votes, these votes on it are set apart. So anonymous voters
make ratings more precise, but cannot move a model beyond what voters with accounts leave open.
"""

from __future__ import annotations

import numpy as np
from scipy import stats

from snellen_server.arena_ratings.bradley_terry import (
    fit_with_prior,
    pair_model,
    rated_outcomes,
    voter_cells,
)
from snellen_server.arena_ratings.votes import BOTH_BAD, LEFT, TIE, Array, TrustSettings, Votes

KNOWN_VOTES = 200
"""Votes by accounts and invited voters without which nothing is compared."""
FALSE_ALARM = 0.01
"""Probability that any model is found different in honest votes, about."""
PRIOR_SPREAD = 2.0
"""Standard deviation of skills, in log odds, in the ratings that votes are compared with."""


def disagreeing_votes(votes: Votes, trust: TrustSettings) -> Array:
    """Find anonymous votes on models that voters with accounts rate significantly otherwise.

    The residual of a vote is its score (1, 0.5 or 0) less what the ratings by known voters expect. Its sum over the
    anonymous votes on a model is divided by its standard deviation, which is clustered by voter and includes the
    uncertainty of the ratings. The most different model goes first, then the others are compared again without its
    votes: what is won by one model is lost by others.

    Args:
        votes: N votes by time.
        trust: Which classes of voters are `networked`, and so are compared; the others are known.

    Returns:
        Whether a vote is set apart, shape (N,). All are False if there are fewer than `KNOWN_VOTES` known ones.
    """
    is_set_apart = np.zeros(votes.count, dtype=bool)
    classes = votes.table["trust"]
    is_compared = classes.is_in(list(trust.networked)).to_numpy()
    is_decided = votes.outcome != BOTH_BAD
    is_known = classes.is_in(["account", "invited"]).to_numpy() & ~is_compared & is_decided
    suspects = is_compared & is_decided
    if is_known.sum() < KNOWN_VOTES or not suspects.any():
        return is_set_apart

    known_cells = voter_cells(votes.where(is_known, ""))
    model = pair_model(known_cells)
    outcomes = rated_outcomes(known_cells.counts, both_bad_is_tie=False)
    log_odds, covariance = fit_with_prior(model, outcomes, PRIOR_SPREAD)
    expected = 1 / (1 + np.exp(log_odds[votes.right] - log_odds[votes.left]))
    score = np.select([votes.outcome == LEFT, votes.outcome == TIE], [1.0, 0.5], 0.0)
    threshold = float(stats.norm.isf(FALSE_ALARM / 2 / len(votes.models)))

    for _ in votes.models:
        statistics = [
            _difference(
                votes, suspects & ~is_set_apart, number, score - expected, expected, covariance
            )
            for number in range(len(votes.models))
        ]
        most_different = int(np.argmax(np.abs(statistics)))
        if abs(statistics[most_different]) <= threshold:
            break
        is_on_it = (votes.left == most_different) | (votes.right == most_different)
        is_set_apart |= is_compared & is_on_it
    return is_set_apart


def _difference(
    votes: Votes,
    suspects: Array,
    model: int,
    residual: Array,
    expected: Array,
    covariance: Array,
) -> float:
    """Return by how many standard deviations a model does better in these votes than is expected."""
    is_left = votes.left == model
    indices = np.flatnonzero(suspects & (is_left | (votes.right == model)))
    if not len(indices):
        return 0.0
    sign = np.where(is_left[indices], 1.0, -1.0)
    gained = sign * residual[indices]
    by_voter = np.bincount(votes.voter[indices], gained)

    # How the sum of what is expected changes with the ratings.
    slope = expected[indices] * (1 - expected[indices])
    opponent = np.where(is_left[indices], votes.right[indices], votes.left[indices])
    gradient = -np.bincount(opponent, slope, minlength=len(votes.models))
    gradient[model] += slope.sum()
    variance = float((by_voter**2).sum() + gradient @ covariance @ gradient)
    return float(gained.sum() / variance**0.5)
