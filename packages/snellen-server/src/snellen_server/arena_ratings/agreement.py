"""Compare anonymous votes with those of voters with accounts, for each model.

Votes that someone buys one by one, from many networks over many days, differ from honest ones only in the model that
they favour. If enough voters with accounts or invitations have voted, their ratings predict how often each model wins.
If a model does significantly better or worse in anonymous votes, the anonymous votes on it are left out. So anonymous
voters make ratings more precise, but cannot contradict the votes of voters with accounts.
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

MIN_KNOWN_VOTES = 200
"""Number of votes by accounts and invited voters that the comparison needs."""
FALSE_ALARM_PROBABILITY = 0.01
"""Approximate probability that a log of honest votes has a model with a significant difference."""
PRIOR_SPREAD = 2.0
"""Standard deviation of the prior of ratings, in log odds, for the ratings that votes are compared with."""


def disagreeing_votes(votes: Votes, trust: TrustSettings) -> Array:
    """Find anonymous votes on models that do much better, or worse, in them than in the votes of voters with accounts.

    Known voters are those with an account or an invitation. The residual of a vote is its score (1, 0.5 or 0) minus the score that the ratings by known voters predict. The
    test statistic of a model is the sum of the residuals of anonymous votes on it, divided by its standard deviation,
    which is clustered by voter and includes the uncertainty of the ratings. The most different model is removed first,
    and the others are compared again without its votes, because what one model wins is lost by the others.

    Args:
        votes: N votes, sorted by time.
        trust: Its `networked` names the classes of voters, by default "anonymous", whose votes are compared with those
            of known voters.

    Returns:
        Which votes to exclude, Booleans of shape (N,). All are False if there are fewer than `MIN_KNOWN_VOTES` votes by
        known voters.
    """
    is_excluded = np.zeros(votes.count, dtype=bool)
    voter_class = votes.table["trust"]
    is_compared = voter_class.is_in(list(trust.networked)).to_numpy()
    is_decided = votes.outcome != BOTH_BAD
    is_by_known_voter = voter_class.is_in(["account", "invited"]).to_numpy()
    is_known = is_by_known_voter & ~is_compared & is_decided
    suspects = is_compared & is_decided
    if is_known.sum() < MIN_KNOWN_VOTES or not suspects.any():
        return is_excluded

    # Ratings by known voters, and what they predict for each vote.
    known_cells = voter_cells(votes.where(is_known, left_out_as=""))
    outcomes = rated_outcomes(known_cells.counts, both_bad_is_tie=False)
    log_odds, covariance = fit_with_prior(pair_model(known_cells), outcomes, PRIOR_SPREAD)
    expected = 1 / (1 + np.exp(log_odds[votes.right] - log_odds[votes.left]))
    score = np.select([votes.outcome == LEFT, votes.outcome == TIE], [1.0, 0.5], 0.0)
    residual = score - expected

    # Two-sided, with Bonferroni's correction for the number of models.
    threshold = float(stats.norm.isf(FALSE_ALARM_PROBABILITY / 2 / len(votes.models)))
    for _ in votes.models:
        z_scores = []
        for model in range(len(votes.models)):
            remaining = suspects & ~is_excluded
            z_scores.append(_z_score(votes, remaining, model, residual, expected, covariance))
        most_different = int(np.argmax(np.abs(z_scores)))
        if abs(z_scores[most_different]) <= threshold:
            break
        is_on_model = (votes.left == most_different) | (votes.right == most_different)
        is_excluded |= is_compared & is_on_model
    return is_excluded


def _z_score(
    votes: Votes,
    suspects: Array,
    model: int,
    residual: Array,
    expected: Array,
    covariance: Array,
) -> float:
    """Return by how many standard deviations a model does better in some votes than expected.

    Args:
        votes: N votes on M models.
        suspects: Which votes to test, Booleans of shape (N,).
        model: Index of the model.
        residual: Score of the left model minus the expected one, shape (N,).
        expected: Expected score of the left model, shape (N,).
        covariance: Covariance of the ratings that the expected scores are from, in squared log odds, shape (M, M).
    """
    is_left = votes.left == model
    indices = np.flatnonzero(suspects & (is_left | (votes.right == model)))
    if not len(indices):
        return 0.0
    sign = np.where(is_left[indices], 1.0, -1.0)
    gained = sign * residual[indices]
    gained_by_voter = np.bincount(votes.voter[indices], gained)

    # Derivative of the sum of expected scores with respect to the ratings, shape (M,): the uncertainty of the ratings.
    slope = expected[indices] * (1 - expected[indices])
    opponent = np.where(is_left[indices], votes.right[indices], votes.left[indices])
    gradient = -np.bincount(opponent, slope, minlength=len(votes.models))
    gradient[model] += slope.sum()
    rating_variance = gradient @ covariance @ gradient
    variance = float((gained_by_voter**2).sum() + rating_variance)
    return float(gained.sum() / variance**0.5)
