"""Voters who vote seldom and together: sequential detection of many who each vote a few times for one model.

Nobody of a few votes can be tested alone. But their votes on one model come one after the other, and each has an
expected score from the ratings of all. A vote is a bet against it: if the odds of the model were `odds` times as good,
its outcome would be more likely by a factor whose expectation among honest voters is at most 1. The product of the
factors since the moment that makes it largest is a CUSUM statistic (Page 1954). In n honest votes it passes e^h with
a probability of at most n e^-h (Lorden 1971; Shin, Ramdas and Rinaldo 2023, "E-detectors"). Where it passes, the
votes from its start to its peak are set apart, those against the model too, so that honest ones among them are left
out evenly.
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

FALSE_ALARMS = 0.01
"""Probability of any alarm in a log of honest votes, at most."""
ODDS = (1.5, 2.0, 4.0)
"""By how much voters together may better, or worsen, the odds of a model; each is looked for."""
ROUNDS = 20
"""Stretches that are looked for at most."""
PRIOR = 2.0
"""Standard deviation of skills, in log odds, of the ratings that votes are compared with."""


def voted_together(votes: Votes, is_tested: Array) -> Array:
    """Find the votes of voters who vote seldom and together.

    Args:
        votes: N votes by time.
        is_tested: (N,) which of them may be rigged at all. Only voters of fewer than `FEWEST_VOTES` votes are tested:
            those of more are tested one by one (`anomalies.check_voters`).

    Returns:
        (N,) whether a vote is in a stretch that is too good or too bad for one model.
    """
    is_rigged = np.zeros(votes.count, dtype=bool)
    per_voter = np.bincount(votes.voter, minlength=votes.voters)
    suspects = is_tested & (per_voter[votes.voter] < FEWEST_VOTES) & (votes.outcome != BOTH_BAD)
    count = int(suspects.sum())
    if not count:
        return is_rigged
    # Each vote is in the series of two models, in both directions, for each of the odds.
    threshold = math.log(2 * 2 * len(ODDS) * count / FALSE_ALARMS)
    # Rigged votes for one model make those against all others look rigged, too. So the worst stretch goes first, and
    # the ratings are fitted again without it.
    for _ in range(ROUNDS):
        log_odds = _fitted_log_odds(votes.where(~is_rigged, ""))
        stretch = _worst_stretch(votes, suspects & ~is_rigged, log_odds, threshold)
        if stretch is None:
            break
        is_rigged[stretch] = True
    return is_rigged


def _fitted_log_odds(votes: Votes) -> Array:
    """Return the log odds (M,) of the models under a wide prior, from the votes and their weights."""
    cells = voter_cells(votes)
    outcomes = rated_outcomes(cells.counts, both_bad_is_tie=False)
    log_odds, _ = fit_with_prior(pair_model(cells), outcomes, PRIOR)
    return log_odds


def _worst_stretch(
    votes: Votes, suspects: Array, log_odds: Array, threshold: float
) -> Array | None:
    """Return the indices of the votes in the stretch with the largest statistic; None if none passes the threshold."""
    worst, highest = None, threshold
    advantage = log_odds[votes.left] - log_odds[votes.right]
    left_expected = 1 / (1 + np.exp(-advantage))
    left_score = np.select([votes.outcome == LEFT, votes.outcome == TIE], [1.0, 0.5], 0.0)
    for model in range(len(votes.models)):
        is_left = votes.left == model
        series = np.flatnonzero(suspects & (is_left | (votes.right == model)))
        if not len(series):
            continue
        score = np.where(is_left, left_score, 1 - left_score)[series]
        expected = np.where(is_left, left_expected, 1 - left_expected)[series]
        for odds in (*ODDS, *(1 / value for value in ODDS)):
            bet = odds * expected / (odds * expected + 1 - expected)
            # A tie is half a win: by the concavity of the logarithm its factor is no larger than the mean of both.
            gain = score * np.log(bet / expected) + (1 - score) * np.log((1 - bet) / (1 - expected))
            walk = np.concatenate([[0.0], np.cumsum(gain)])
            height = walk - np.minimum.accumulate(walk)
            peak = int(height.argmax())
            if height[peak] <= highest:
                continue
            highest = float(height[peak])
            start = int(np.flatnonzero(height[:peak] == 0)[-1])
            worst = series[start:peak]
    return worst
