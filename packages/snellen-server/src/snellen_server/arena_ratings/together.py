"""Voters who vote seldom and together: sequential detection of many who each vote a few times for one model.

A voter with a few votes cannot be tested alone. But all such votes on one model, sorted by time, can be tested
together. The ratings say how likely each outcome is. If rigged votes multiply the model's odds of winning by some
`odds`, each outcome is more (or less) likely by a factor, whose expected value in honest votes is at most 1. The
product of these factors, over the votes since the start that makes it largest, is a CUSUM statistic (Page 1954). In n
honest votes it exceeds e^h with a probability of at most n e^-h (Lorden 1971; Shin, Ramdas and Rinaldo 2023,
"E-detectors"). If it does, all votes from its start to its peak are left out, also those against the model, so that
the honest ones among them are left out in a balanced way.
"""

from __future__ import annotations

import math

import numpy as np

from snellen_server.arena_ratings.anomalies import FEWEST_VOTES
from snellen_server.arena_ratings.bradley_terry import (
    fit_with_prior,
    pair_model,
    rated_outcomes,
    voter_cells,
)
from snellen_server.arena_ratings.votes import BOTH_BAD, LEFT, TIE, Array, Votes

MAX_FALSE_ALARM_PROBABILITY = 0.01
"""Upper bound of the probability that any vote in a log of honest votes is left out."""
RIGGING_FACTORS = (1.5, 2.0, 4.0)
"""Factors by which rigged votes are assumed to improve, or worsen, a model's odds of winning; each is tested."""
MAX_SERIES = 20
"""Largest number of series of rigged votes to find."""
PRIOR_SPREAD = 2.0
"""Standard deviation of the prior of ratings, in log odds, for the ratings that votes are compared with."""


def voted_together(votes: Votes, is_tested: Array) -> Array:
    """Find series of votes by occasional voters that favour, or harm, one model too much to be honest.

    Args:
        votes: N votes, sorted by time.
        is_tested: Which votes may be rigged at all, Booleans of shape (N,). Of these, only votes of voters with fewer
            than `anomalies.FEWEST_VOTES` votes are tested, because `anomalies.check_voters` tests the other voters one by one.

    Returns:
        Whether each vote is in such a series, Booleans of shape (N,).
    """
    is_rigged = np.zeros(votes.count, dtype=bool)
    votes_of_voter = np.bincount(votes.voter, minlength=votes.voters)
    is_occasional = votes_of_voter[votes.voter] < FEWEST_VOTES
    suspects = is_tested & is_occasional & (votes.outcome != BOTH_BAD)
    suspect_count = int(suspects.sum())
    if not suspect_count:
        return is_rigged
    # Bonferroni: each vote is in the series of two models, and each series is tested in two directions for each factor.
    tests = 2 * 2 * len(RIGGING_FACTORS) * suspect_count
    threshold = math.log(tests / MAX_FALSE_ALARM_PROBABILITY)
    # Rigged votes for one model make the votes against all others look rigged, too. So only the worst series is
    # removed, and the ratings are fitted again without it.
    for _ in range(MAX_SERIES):
        log_odds = _fitted_log_odds(votes.where(~is_rigged, left_out_as=""))
        series = _most_suspicious_series(votes, suspects & ~is_rigged, log_odds, threshold)
        if series is None:
            break
        is_rigged[series] = True
    return is_rigged


def _fitted_log_odds(votes: Votes) -> Array:
    """Return the ratings of the M models under a wide prior, in log odds, shape (M,)."""
    cells = voter_cells(votes)
    outcomes = rated_outcomes(cells.counts, both_bad_is_tie=False)
    log_odds, _ = fit_with_prior(pair_model(cells), outcomes, PRIOR_SPREAD)
    return log_odds


def _most_suspicious_series(
    votes: Votes, suspects: Array, log_odds: Array, threshold: float
) -> Array | None:
    """Find the series of votes on one model that is least likely to be honest.

    For each model and each assumed effect of rigging, the votes on the model are read in the order of time. The CUSUM
    statistic is the largest amount by which the summed evidence for rigging, in nats, rises above an earlier value. The
    series with the largest statistic over all models and effects is returned.

    Args:
        votes: N votes on M models, sorted by time.
        suspects: Which votes to test, Booleans of shape (N,).
        log_odds: Ratings of the models, shape (M,).
        threshold: The value that the statistic must exceed, in nats.

    Returns:
        The indices of the votes in the series, or None if no statistic exceeds the threshold.
    """
    worst_series = None
    highest_rise = threshold
    advantage = log_odds[votes.left] - log_odds[votes.right]
    left_expected = 1 / (1 + np.exp(-advantage))
    left_score = np.select([votes.outcome == LEFT, votes.outcome == TIE], [1.0, 0.5], 0.0)
    inverse_factors = tuple(1 / factor for factor in RIGGING_FACTORS)
    for model in range(len(votes.models)):
        is_left = votes.left == model
        on_model = np.flatnonzero(suspects & (is_left | (votes.right == model)))
        if not len(on_model):
            continue
        score = np.where(is_left, left_score, 1 - left_score)[on_model]
        expected = np.where(is_left, left_expected, 1 - left_expected)[on_model]
        for factor in (*RIGGING_FACTORS, *inverse_factors):
            if_rigged = factor * expected / (factor * expected + 1 - expected)
            # The logarithm of each vote's factor. A tie is half a win and half a loss; as the logarithm is concave, its
            # factor is at most the mean of both.
            log_factor_of_win = np.log(if_rigged / expected)
            log_factor_of_loss = np.log((1 - if_rigged) / (1 - expected))
            log_factors = score * log_factor_of_win + (1 - score) * log_factor_of_loss

            # The CUSUM statistic after each vote: the rise of the sum above its lowest value so far.
            running_sum = np.concatenate([[0.0], np.cumsum(log_factors)])
            rise = running_sum - np.minimum.accumulate(running_sum)
            peak = int(rise.argmax())
            if rise[peak] <= highest_rise:
                continue
            highest_rise = float(rise[peak])
            # The series begins after the last vote at which the sum had its lowest value.
            start = int(np.flatnonzero(rise[:peak] == 0)[-1])
            worst_series = on_model[start:peak]
    return worst_series
