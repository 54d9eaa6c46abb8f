"""Rate models from votes, with intervals and ranks within groups of comparable models.

Models have provisional ratings from the first vote on. A snapshot freezes published ratings together with the settings
and versions of software that are needed to compute them again from the same votes.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from statistics import NormalDist

import msgspec
import numpy as np
from msgspec import Struct, field
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from snellen import DataError, __version__
from snellen.plugin_api import Estimate, read_text, rng_for, student_t, wilson, write_atomically
from snellen_server.arena_ratings.anomalies import check_voters
from snellen_server.arena_ratings.bradley_terry import (
    MAX_NEWTON_STEP,
    MAX_NEWTON_STEPS,
    NEWTON_TOLERANCE,
    RESAMPLE_RIDGE,
    Cells,
    PairModel,
    elo_ratings,
    fit_ratings,
    fit_with_prior,
    pair_model,
    rated_outcomes,
    resampled_counts,
    resampled_elo,
    robust_covariance,
    voter_cells,
)
from snellen_server.arena_ratings.log import VoteLog
from snellen_server.arena_ratings.style import style_differences
from snellen_server.arena_ratings.trust import with_trust_weights, within_shares, without_distrusted
from snellen_server.arena_ratings.votes import (
    BOTH_BAD,
    LEFT,
    RIGHT,
    TIE,
    Array,
    RatingSettings,
    TrustSettings,
    Votes,
    chosen_votes,
    votes_digest,
)

INTERVAL_PERCENTILES = (2.5, 97.5)
Z_95 = NormalDist().inv_cdf(0.975)
ANOMALOUS = "by anomalous voters"
MAX_COMPARED_VOTES = 50
"""Largest number of votes of one network in the tests for anomalous voters.

This is enough to detect the network, but too few for it to become the norm that other voters are compared with.
"""
NEGLIGIBLE_WIDTH = 1e-6
"""An interval that is narrower than this, in points, counts as one of zero width; its width is rounding error."""
NOT_COMPARABLE = "between models that cannot be compared"


class ModelRating(Struct, frozen=True):
    """The rating and rank of a model among the models of its group."""

    model: str
    group: int
    """Index of the group of comparable models. Ratings and ranks of different groups cannot be compared."""
    rank: int | None
    """1 + the number of models in the group whose interval is entirely above this one's; None without a rating."""
    rating: float | None
    low: float | None
    """Lower end of the 95% interval; None without a rating, or if a single voter cast all votes of the group."""
    high: float | None
    votes: int
    win_share: Estimate
    """Share of wins among votes for a better side or a tie; a tie counts as half a win."""
    both_bad: Estimate
    """Share of the model's votes with the outcome `both bad`."""


class Term(Struct, frozen=True):
    """A further parameter that is estimated with the ratings of a group: in rating points, except the tie rate `nu`."""

    group: int
    name: str
    value: float
    low: float | None
    high: float | None


class ArenaRating(Struct, frozen=True):
    """Ratings of all models, with the settings and counts of votes that they are based on."""

    settings: RatingSettings
    digest: str
    """Digest of the rated votes; see `votes_digest`."""
    votes: int
    voters: int
    both_bad: int
    """Rated votes with the outcome `both bad`. By default they are counted but do not change ratings."""
    unknown_voters: int
    """Votes without a known voter; intervals count each as the vote of a different voter."""
    left_out_votes: Mapping[str, int] = field(name="left_out")
    """Number of excluded votes by reason."""
    models: tuple[ModelRating, ...]
    """Sorted by group, then by rating, the best first."""
    terms: tuple[Term, ...]
    left_share: Estimate
    """Share of votes for the left side among votes for a better side: 0.5 if the side does not matter."""

    @property
    def groups(self) -> int:
        return 1 + max(row.group for row in self.models)


def rate_votes(log: VoteLog, settings: RatingSettings | None = None) -> ArenaRating:
    """Rate the votes of a log. The same votes and settings give the same numbers.

    Models are rated in groups within which each can be compared with each (`comparable_groups`). Raises DataError when
    no vote remains or none of the models can be compared.
    """
    settings = settings or RatingSettings()
    _refuse_contradictions(settings)
    votes = counted_votes(log, settings)
    groups = comparable_groups(voter_cells(votes), both_bad_is_tie=settings.both_bad_is_tie)
    if len(groups[0]) < 2:
        raise DataError(
            f"none of the {len(votes.models)} models can be compared with another: no two have both won against each "
            "other, or tied, directly or through others; collect more votes"
        )
    rows: list[ModelRating] = []
    terms: list[Term] = []
    rated = 0
    both_bad = 0
    for number, group in enumerate(groups):  # a group is a tuple of indices of models
        group_votes = _votes_within(votes, group)
        rated += group_votes.count
        both_bad += int((group_votes.outcome == BOTH_BAD).sum())
        if len(group) > 1:
            fitted = _fit_group(group_votes, settings, number)
            ratings = fitted.ratings
            lows, highs = _without_zero_widths(group_votes, fitted, settings)
            terms += fitted.terms
        else:  # a single model has no rating, since it cannot be compared
            ratings = lows = highs = np.full(1, np.nan)
        group_rows = []
        for index, model in enumerate(group):
            row = model_row(
                votes,
                model,
                group=number,
                rating=ratings[index],
                low=lows[index],
                high=highs[index],
                lows=lows,
            )
            group_rows.append(row)
        rows += sorted(group_rows, key=lambda row: (-(row.rating or 0.0), row.model))

    left_out_votes = dict(votes.left_out_votes)
    if votes.count > rated:
        left_out_votes[NOT_COMPARABLE] = votes.count - rated
    left_won = votes.outcome == LEFT
    right_won = votes.outcome == RIGHT
    left_share = voter_share(left_won.astype(float), left_won | right_won, votes.voter)
    return ArenaRating(
        settings=settings,
        digest=votes_digest(votes),
        votes=rated,
        voters=votes.voters,
        both_bad=both_bad,
        unknown_voters=votes.unknown_voters,
        left_out_votes=left_out_votes,
        models=tuple(rows),
        terms=tuple(terms),
        left_share=left_share,
    )


def counted_votes(log: VoteLog, settings: RatingSettings) -> Votes:
    """Return the votes that the settings admit, with their weights and the numbers of excluded votes by reason.

    Raises:
        DataError: If no vote remains.
    """
    votes = chosen_votes(log, settings)
    trust = settings.trust
    if trust is not None:
        votes = without_distrusted(votes, trust)
    exclude_anomalous = settings.leave_out_anomalous
    if trust is not None and not trust.count_anomalous:
        exclude_anomalous = True
    if exclude_anomalous:
        votes = votes.where(~_is_by_anomalous_voter(votes, trust), left_out_as=ANOMALOUS)
    if trust is not None:
        votes = with_trust_weights(votes, trust)
    if not votes.count:
        raise DataError(
            "no votes are left to rate: the settings of trust exclude each; collect more votes, or change them"
        )
    return votes


def _is_by_anomalous_voter(votes: Votes, trust: TrustSettings | None) -> Array:
    """Return which votes are by voters who vote unlike all others (`check_voters`), Booleans of shape (N,).

    The tests use at most `MAX_COMPARED_VOTES` votes of a network, or as many as its admitted share. Otherwise a network
    with very many votes would become the norm, and honest voters would be flagged instead.
    """
    compared = within_shares(votes, trust, MAX_COMPARED_VOTES)
    flagged = [check.number for check in check_voters(compared) if check.flagged]
    # The compared votes have other voter numbers than all votes have, so voters are matched by the ids of their votes.
    compared_ids = compared.table["id"].to_numpy()
    flagged_ids = compared_ids[np.isin(compared.voter, flagged)]
    has_flagged_id = np.isin(votes.table["id"].to_numpy(), flagged_ids)
    flagged_voters = votes.voter[has_flagged_id]
    return np.isin(votes.voter, flagged_voters)


def voter_share(gained: Array, counted: Array, voter: Array) -> Estimate:
    """Estimate the mean of `gained` over the votes that count, with a 95% interval clustered by voter.

    The interval is Wilson's, with an effective number of votes in place of the number of votes: p (1 - p) / variance,
    where p is the mean and the variance is that of a mean of clusters (one per voter). If the variance is 0, the
    effective number is the number of voters.

    Args:
        gained: Value of each vote, in [0, 1], shape (N,).
        counted: Whether each vote counts, Booleans of shape (N,).
        voter: Number of the voter of each vote, shape (N,).

    Returns:
        The mean with its interval; it has no value if no vote counts.
    """
    n = int(counted.sum())
    if not n:
        return Estimate(None, None, None, None, 0)
    counted_voter = voter[counted]
    share = float(gained[counted].sum() / n)
    voters = int(np.count_nonzero(np.bincount(counted_voter)))
    residual_by_voter = np.bincount(counted_voter, gained[counted] - share)
    sum_of_squares = float((residual_by_voter**2).sum())
    variance = sum_of_squares / n**2 * voters / max(voters - 1, 1)
    if variance and voters > 1:
        effective_votes = share * (1 - share) / variance
    else:
        effective_votes = float(voters)
    low, high = wilson(share, effective_votes)
    return Estimate(share, variance**0.5, low, high, n, groups=voters)


class _Fitted(Struct, frozen=True):
    """Ratings of the models of a group with their intervals, in points, each of shape (M,); and other parameters."""

    ratings: Array
    lows: Array
    highs: Array
    terms: tuple[Term, ...] = ()


def _refuse_contradictions(settings: RatingSettings) -> None:
    """Raise DataError for settings that do not fit together."""
    if settings.style and settings.method != "bradley-terry":
        raise DataError(f"style is taken out of Bradley-Terry ratings, not of {settings.method}'s")
    if settings.style and settings.interval != "sandwich":
        raise DataError(
            "with style, intervals are those of the sandwich estimator; set interval to sandwich"
        )
    if settings.method == "elo" and (settings.position or settings.weighting != "none"):
        raise DataError(
            "online Elo knows neither sides nor weights of votes; use bradley-terry or davidson"
        )
    if settings.method == "elo" and settings.interval != "bootstrap":
        raise DataError("intervals of online Elo are those of a bootstrap")
    if settings.interval == "bootstrap" and settings.resamples < 1:
        raise DataError("a bootstrap needs resamples")


def _fit_group(votes: Votes, settings: RatingSettings, group: int) -> _Fitted:
    """Fit the ratings of one group of comparable models, with intervals, by the method that the settings name.

    Args:
        votes: The votes between models of the group.
        settings: The method, the kind of interval and the seed.
        group: Index of the group, which also seeds the bootstrap.
    """
    seed = rng_for("arena", settings.method, str(group), settings.seed).getrandbits(64)
    rng = np.random.default_rng(seed)
    if settings.method == "elo":
        best = elo_ratings(votes, settings)
        resamples = resampled_elo(votes, settings, rng)
        lows, highs = np.percentile(resamples, INTERVAL_PERCENTILES, axis=0)
        lows, highs = _widened_for_few_voters(best, lows, highs, votes)
        return _Fitted(best, lows, highs)
    if settings.style:
        return _fit_style(votes, settings, group)

    cells = voter_cells(votes)
    counts = rated_outcomes(cells.counts, both_bad_is_tie=settings.both_bad_is_tie)
    ties = settings.method == "davidson" and bool(counts[:, TIE].any())
    if ties and not counts[:, :TIE].any():
        raise DataError(
            "every vote is a tie: how likely a tie is has no finite estimate; use bradley-terry"
        )
    model = pair_model(cells, position=settings.position, ties=ties)
    best = fit_ratings(model, counts[None])[0]
    if settings.interval == "sandwich":
        covariance = robust_covariance(model, cells, counts, best, settings.both_bad_is_tie)
        lows, highs = _normal_interval(best, covariance)
    else:
        resamples = _resampled_fits(model, cells, best, settings, rng)
        lows, highs = np.percentile(resamples, INTERVAL_PERCENTILES, axis=0)
    lows, highs = _widened_for_few_voters(best, lows, highs, votes)

    term_names = []
    if settings.position:
        term_names.append("left side")
    if ties:
        term_names.append("nu")
    return _in_points(best, lows, highs, term_names, settings, group)


def _resampled_fits(
    model: PairModel, cells: Cells, best: Array, settings: RatingSettings, rng: np.random.Generator
) -> Array:
    """Fit the rating model to bootstrap resamples of the voters.

    Args:
        model: The pairs, and which parameters are estimated.
        cells: The votes, by voter.
        best: Parameters fitted to all votes, shape (D,), from which each fit starts.
        settings: The number of resamples, and whether "both bad" is a tie.
        rng: The random numbers that draw the voters.

    Returns:
        The parameters of each resample, shape (B, D), in log odds.
    """
    fits = []
    for counts in resampled_counts(cells, settings.resamples, rng):
        rated = rated_outcomes(counts, both_bad_is_tie=settings.both_bad_is_tie)
        fits.append(fit_ratings(model, rated, start=best, ridge=RESAMPLE_RIDGE))
    return np.concatenate(fits)


def _fit_style(votes: Votes, settings: RatingSettings, group: int) -> _Fitted:
    """Fit ratings together with the effects of style (such as reply length), for one group of comparable models."""
    if settings.both_bad_is_tie:
        rated_votes = votes
    else:
        rated_votes = votes.where(votes.outcome != BOTH_BAD, left_out_as="both bad")
    style = style_differences(rated_votes.table)
    best, covariance = fit_with_style(rated_votes, settings, style)
    lows, highs = _normal_interval(best, covariance)
    lows, highs = _widened_for_few_voters(best, lows, highs, rated_votes)

    term_names = []
    if settings.position:
        term_names.append("left side")
    for covariate in style:
        term_names.append(f"style: {covariate}, per s.d.")
    return _in_points(best, lows, highs, term_names, settings, group)


def _without_zero_widths(
    votes: Votes, fitted: _Fitted, settings: RatingSettings
) -> tuple[Array, Array]:
    """Return the ends of the rating intervals, with intervals of zero width replaced by ones from the share of wins.

    If all votes of a group are ties, voters do not differ, and both the sandwich estimator and a bootstrap give an
    interval of zero width. The share of wins still has an interval (Wilson's, over voters), whose ends are converted to
    ratings: a share w against opponents of equal strength is a difference of log(w / (1 - w)). As the ratings of the G
    models in a group are centred at their mean, (G - 1) / G of the difference is the model's.

    Args:
        votes: The votes between the models of the group.
        fitted: Their ratings and intervals, in points.
        settings: The points of a rating per unit of log odds.

    Returns:
        The lower and the upper ends, each of shape (M,), in points.
    """
    lows = fitted.lows.copy()
    highs = fitted.highs.copy()
    group_size = len(fitted.ratings)
    points_per_log_odds = settings.points * (group_size - 1) / group_size
    for model in np.flatnonzero(highs - lows < NEGLIGIBLE_WIDTH):
        share = _win_share(votes, int(model))
        if share.low is None or share.high is None or share.value is None:
            continue
        log_odds = _log_odds(share.value)
        below = log_odds - _log_odds(share.low)
        above = _log_odds(share.high) - log_odds
        lows[model] = fitted.ratings[model] - points_per_log_odds * below
        highs[model] = fitted.ratings[model] + points_per_log_odds * above
    return lows, highs


def _log_odds(share: float) -> float:
    """Return log(p / (1 - p)) for a share p, which is first limited to [1e-6, 1 - 1e-6] so that it is finite."""
    bounded = min(max(share, 1e-6), 1 - 1e-6)
    return math.log(bounded / (1 - bounded))


def _in_points(
    best: Array,
    lows: Array,
    highs: Array,
    term_names: Sequence[str],
    settings: RatingSettings,
    group: int,
) -> _Fitted:
    """Convert fitted parameters to ratings and other terms in points.

    Args:
        best: The D parameters in log odds: first the ratings, with mean 0, then one for each of `term_names`.
        lows: Lower ends of their intervals, shape (D,).
        highs: Upper ends, shape (D,).
        term_names: Names of the parameters that are not ratings.
        settings: The mean rating, and the points per unit of log odds.
        group: Index of the group of models.
    """
    points = settings.points
    rating_count = len(best) - len(term_names)
    terms = []
    for index, name in enumerate(term_names, rating_count):
        values = best[index], lows[index], highs[index]
        if name == "nu":
            value, low, high = (float(np.exp(number)) for number in values)  # fitted as a logarithm
        else:
            value, low, high = (float(points * number) for number in values)
        terms.append(Term(group, name, value, _none_if_nan(low), _none_if_nan(high)))
    return _Fitted(
        ratings=settings.initial + points * best[:rating_count],
        lows=settings.initial + points * lows[:rating_count],
        highs=settings.initial + points * highs[:rating_count],
        terms=tuple(terms),
    )


def _normal_interval(best: Array, covariance: Array) -> tuple[Array, Array]:
    """Return the ends of 95% intervals of normal estimates, each of shape (D,), from their covariance (D, D)."""
    variance = np.maximum(np.diag(covariance), 0.0)  # not below 0 by rounding
    margin = Z_95 * np.sqrt(variance)
    return best - margin, best + margin


def _widened_for_few_voters(
    best: Array, lows: Array, highs: Array, votes: Votes
) -> tuple[Array, Array]:
    """Widen 95% intervals that assume many voters, because few voters show little of how much voters differ.

    The effective number of voters is G = (sum of n_v)^2 / (sum of n_v^2), where n_v is the weight of the votes of voter
    v: it is small if a few voters cast most votes. Both sides of an interval are multiplied by t / z sqrt(G / (G - 1)),
    where t and z are the 97.5% quantiles of Student's distribution with G - 1 degrees of freedom and of the normal
    distribution.

    Args:
        best: Estimates, shape (D,).
        lows: Lower ends of their intervals, shape (D,).
        highs: Upper ends, shape (D,).
        votes: The votes that they were estimated from.

    Returns:
        The new lower and upper ends. They are NaN if there is only one voter.
    """
    weight_of_voter = np.bincount(votes.voter, votes.weight)
    if np.count_nonzero(weight_of_voter) < 2:
        unknown = np.full_like(best, np.nan)
        return unknown, unknown.copy()
    effective_voters = float(weight_of_voter.sum() ** 2 / (weight_of_voter**2).sum())
    effective_voters = max(2.0, effective_voters)
    degrees_of_freedom = effective_voters - 1
    correction = (effective_voters / degrees_of_freedom) ** 0.5
    factor = student_t(degrees_of_freedom) / Z_95 * correction
    return best - factor * (best - lows), best + factor * (highs - best)


def _votes_within(votes: Votes, group: tuple[int, ...]) -> Votes:
    """Return the votes between two models of a group, as votes on these models alone.

    Model number 0 of the result is `votes.models[group[0]]`, and so on.
    """
    if len(group) == len(votes.models):
        return votes
    index_in_group = np.full(len(votes.models), -1)
    index_in_group[list(group)] = np.arange(len(group))
    is_inside = (index_in_group[votes.left] >= 0) & (index_in_group[votes.right] >= 0)
    group_votes = votes.where(is_inside, left_out_as=NOT_COMPARABLE)
    return replace(
        group_votes,
        models=tuple(votes.models[model] for model in group),
        left=index_in_group[group_votes.left],
        right=index_in_group[group_votes.right],
    )


def model_row(
    votes: Votes, model: int, group: int, rating: float, low: float, high: float, lows: Array
) -> ModelRating:
    """Return the row of a model in a table of ratings, with its share of wins and its share of "both bad".

    Args:
        votes: All votes.
        model: Index of the model in `votes.models`.
        group: Index of its group.
        rating: Its rating; NaN without one.
        low: Lower end of its interval; NaN without one.
        high: Upper end of its interval; NaN without one.
        lows: Lower ends of all models in the group, for the rank.
    """
    is_on_model = (votes.left == model) | (votes.right == model)
    is_both_bad = (votes.outcome == BOTH_BAD).astype(float)
    rank = None
    if not np.isnan(rating):
        rank = 1 + int((lows > high).sum())
    return ModelRating(
        model=votes.models[model],
        group=group,
        rank=rank,
        rating=_none_if_nan(rating),
        low=_none_if_nan(low),
        high=_none_if_nan(high),
        votes=int(is_on_model.sum()),
        win_share=_win_share(votes, model),
        both_bad=voter_share(is_both_bad, is_on_model, votes.voter),
    )


def _win_share(votes: Votes, model: int) -> Estimate:
    """Estimate the share of wins of a model, where a tie is half a win, among its votes that are not "both bad"."""
    is_left = votes.left == model
    is_right = votes.right == model
    won = (is_left & (votes.outcome == LEFT)) | (is_right & (votes.outcome == RIGHT))
    tied = votes.outcome == TIE
    counted = (is_left | is_right) & (votes.outcome != BOTH_BAD)
    return voter_share(won + 0.5 * tied, counted, votes.voter)


def _none_if_nan(number: float) -> float | None:
    """Return the number as a float of Python, or None if it is NaN."""
    return None if np.isnan(number) else float(number)


# --- comparable models -----------------------------------------------------------------------------------------------


def comparable_groups(
    cells: Cells, *, both_bad_is_tie: bool = False
) -> tuple[tuple[int, ...], ...]:
    """Return the groups of models whose ratings can be compared, as tuples of model indices, the largest first.

    These are the strongly connected components of the graph with an edge from each winner to each loser (a tie is two
    edges). The Bradley-Terry likelihood has a finite maximum if and only if there is one component (Ford 1957). Between
    components, votes only show that one side never lost, from which no distance can be estimated.
    """
    ties = cells.counts[:, TIE]
    if both_bad_is_tie:
        ties = ties + cells.counts[:, BOTH_BAD]
    left_won = cells.counts[:, LEFT] + ties > 0  # by pair, at least once
    right_won = cells.counts[:, RIGHT] + ties > 0
    winners = np.concatenate([cells.left[left_won], cells.right[right_won]])
    losers = np.concatenate([cells.right[left_won], cells.left[right_won]])
    ones = np.ones(len(winners))
    graph = sparse.coo_array((ones, (winners, losers)), shape=(cells.models, cells.models))
    group_count, group_of_model = connected_components(graph, directed=True, connection="strong")

    groups: list[tuple[int, ...]] = []
    for number in range(group_count):
        members = np.flatnonzero(group_of_model == number)
        groups.append(tuple(members.tolist()))
    return tuple(sorted(groups, key=lambda group: (-len(group), group)))


# --- ratings at equal style ------------------------------------------------------------------------------------------


def fit_with_style(
    votes: Votes, settings: RatingSettings, style: dict[str, Array]
) -> tuple[Array, Array]:
    """Fit ratings and style covariates by logistic regression, with Newton's method.

    Args:
        votes: The votes to rate. Every outcome other than left or right counts as half a win.
        settings: With `position`, the left side gets a parameter.
        style: Covariates by name, from `style_differences`.

    Returns:
        The parameters, shape (D,), and their covariance, shape (D, D), in log odds: ratings with mean 0, the left side
        if requested, and the covariates. The covariance is clustered by voter, as in `bradley_terry.robust_covariance`.

    Raises:
        DataError: If the likelihood has no finite maximum.
    """
    design = _design(votes, settings, style)
    parameter_count = design.shape[1]
    size = len(votes.models)
    left_score = np.select([votes.outcome == LEFT, votes.outcome == RIGHT], [1.0, 0.0], 0.5)
    # The likelihood is the same if all ratings grow alike; a unit of curvature in that direction makes the matrix
    # regular and changes no step.
    regularisation = np.zeros((parameter_count, parameter_count))
    regularisation[:size, :size] = 1 / size
    parameters = np.zeros(parameter_count)
    for _ in range(MAX_NEWTON_STEPS):
        expected = 1 / (1 + np.exp(-np.clip(design @ parameters, -600, 600)))
        residual = votes.weight * (left_score - expected)
        curvature = votes.weight * expected * (1 - expected)
        information = (design.T @ sparse.diags_array(curvature) @ design).toarray()
        try:
            step = np.linalg.solve(information + regularisation, design.T @ residual)
        except np.linalg.LinAlgError:
            break
        largest_change = np.abs(step).max()
        shortening = min(1.0, MAX_NEWTON_STEP / max(largest_change, MAX_NEWTON_STEP))
        parameters = parameters + step * shortening
        if largest_change < NEWTON_TOLERANCE:
            bread = np.linalg.inv(information + regularisation)
            bread[:size, :size] -= 1 / size
            vote_indices = np.arange(votes.count)
            residual_by_voter = sparse.coo_array((residual, (votes.voter, vote_indices))).tocsr()
            gradient_by_voter = (residual_by_voter @ design).toarray()  # (V, D)
            meat = gradient_by_voter.T @ gradient_by_voter
            voters = len(gradient_by_voter)
            covariance = bread @ meat @ bread * voters / max(voters - 1, 1)
            return parameters, np.asarray(covariance)
    raise DataError(
        "ratings and style are not identifiable from these votes; remove style, or collect more votes"
    )


def _design(votes: Votes, settings: RatingSettings, style: dict[str, Array]) -> sparse.csr_array:
    """Return the design matrix of the regression on models and style, one row per vote.

    Columns: one for each model (1 if it was on the left, -1 if it was on the right), a column of ones if the advantage
    of the left side is estimated, and one for each style covariate.
    """
    rows = np.arange(votes.count)
    ones = np.ones(votes.count)
    shape = (votes.count, len(votes.models))
    left_models = sparse.coo_array((ones, (rows, votes.left)), shape=shape)
    right_models = sparse.coo_array((ones, (rows, votes.right)), shape=shape)
    other_columns = list(style.values())
    if settings.position:
        other_columns.insert(0, ones)
    covariates = sparse.csr_array(np.stack(other_columns, axis=1))
    return sparse.csr_array(sparse.hstack([left_models - right_models, covariates]))


# --- frozen ratings --------------------------------------------------------------------------------------------------


DIGITS = 4
"""Decimals to which two computations of a rating must agree. The order of summation changes it by about 1e-9."""
PACKAGES = ("numpy", "scipy")


class Snapshot(Struct, frozen=True):
    """A frozen rating, with the versions of the software that computed it."""

    rating: ArenaRating
    software: dict[str, str]


def write_snapshot(path: Path, rating: ArenaRating) -> None:
    """Freeze a rating in a JSON file. Raises StoreError."""
    write_atomically(path, encode_snapshot(rating))


def encode_snapshot(rating: ArenaRating) -> bytes:
    """Return the bytes of a snapshot file, as `write_snapshot` writes it."""
    return msgspec.json.format(msgspec.json.encode(Snapshot(rating, _software())), indent=1) + b"\n"


def read_snapshot(path: Path) -> Snapshot:
    """Read a snapshot. Raises DataError if the file does not exist or is not a snapshot."""
    try:
        return msgspec.json.decode(read_text(path), type=Snapshot)
    except FileNotFoundError:
        raise DataError(
            f"{path}: no such file; `snellen arena rate LOG --snapshot {shlex.quote(str(path))}` writes one"
        ) from None
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror})") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: not a snapshot of ratings ({error})") from None


def snapshot_differences(snapshot: Snapshot, log: VoteLog) -> tuple[str, ...]:
    """Rate `log` again by the snapshot's settings, and return a message for each difference from the snapshot."""
    frozen = snapshot.rating
    again = rate_votes(log, frozen.settings)
    if again.digest != frozen.digest:
        return (
            f"the votes differ: {frozen.votes:,} were rated then, {again.votes:,} now, digest {again.digest[:12]} "
            f"and not {frozen.digest[:12]}",
        )
    differences: list[str] = []
    rows_now = {row.model: row for row in again.models}
    for row in frozen.models:
        for name in ("group", "rank", "rating", "low", "high", "votes"):
            before = getattr(row, name)
            now = getattr(rows_now[row.model], name)
            if _rounded(before) != _rounded(now):
                differences.append(f"{row.model}: {name} was {before}, is {now}")

    terms_now = {(term.group, term.name): term for term in again.terms}
    for term in frozen.terms:
        term_now = terms_now.get((term.group, term.name))
        if term_now is None:
            differences.append(f"{term.name}: was {term.value}, is None")
        elif _rounded_term(term) != _rounded_term(term_now):
            differences.append(f"{term.name}: was {term.value}, is {term_now.value}")

    software = _software()
    if differences and software != snapshot.software:
        versions = []
        for name, version_now in software.items():
            versions.append(f"{name} {snapshot.software.get(name)} then, {version_now} now")
        differences.append(f"computed by other programs: {'; '.join(versions)}")
    return tuple(differences)


def _rounded(value: float | int | None) -> float | None:
    """Round a number to `DIGITS` decimals; None stays None."""
    return None if value is None else round(value, DIGITS)


def _rounded_term(term: Term) -> tuple[float | None, ...]:
    """Return the value of a term and the ends of its interval, rounded to `DIGITS` decimals."""
    return _rounded(term.value), _rounded(term.low), _rounded(term.high)


def _software() -> dict[str, str]:
    """Return the versions of Snellen and of the packages that compute ratings, by name."""
    versions = {"snellen": __version__}
    for package in PACKAGES:
        versions[package] = version(package)
    return versions


# --- provisional ratings ---------------------------------------------------------------------------------------------
# Votes alone give no rating to a model that has won or lost all its battles, and no interval if one person has cast all
# votes. Until a rating is settled, the arena therefore shows the maximum of the posterior under a prior: true ratings
# are normal around the mean with a standard deviation of `PRIOR_POINTS`, so that a model without votes is within 400
# points of the mean. The interval is from a normal approximation to the posterior. All votes of one person on a pair of
# models count as a single vote, so that one person's many votes do not settle a rating.


PRIOR_POINTS = 200.0
"""Standard deviation of true ratings under the prior: about that of the models of public arenas."""
SETTLED_VOTES = 50
"""Votes for a better side or a tie that a settled rating needs."""
SETTLED_VOTERS = 10
"""People who must have cast these votes."""


def is_settled(row: ModelRating) -> bool:
    """Return whether enough people have voted on a model to rate it from votes alone, without the prior."""
    if row.low is None:
        return False
    votes = row.win_share.n
    voters = row.win_share.groups or 0
    return votes >= SETTLED_VOTES and voters >= SETTLED_VOTERS


def ranked_when_settled(rows: Iterable[ModelRating]) -> tuple[ModelRating, ...]:
    """Return the ratings that rest on enough votes (`is_settled`), with ranks among the settled models of their group."""
    settled = [row for row in rows if is_settled(row)]
    ranked = []
    for row in settled:
        n_better = 0
        for rival in settled:
            is_better = (rival.low or 0.0) > (row.high or 0.0)
            if is_better and rival.group == row.group:
                n_better += 1
        ranked.append(msgspec.structs.replace(row, rank=1 + n_better))
    return tuple(ranked)


def provisional_ratings(votes: Votes, settings: RatingSettings) -> tuple[ModelRating, ...]:
    """Rate all models of these votes under a normal prior, which also gives models with few votes a finite rating.

    All votes of a voter on the same pair of models together count as one vote.

    Returns:
        The ratings, the best first, without ranks; () if no vote is rated.
    """
    if settings.both_bad_is_tie:
        rated_votes = votes
    else:
        rated_votes = votes.where(votes.outcome != BOTH_BAD, left_out_as="both bad")
    if not rated_votes.count:
        return ()
    cells = voter_cells(replace(rated_votes, weight=_one_vote_per_voter_and_pair(rated_votes)))
    outcomes = rated_outcomes(cells.counts, both_bad_is_tie=settings.both_bad_is_tie)
    prior_spread = PRIOR_POINTS / settings.points
    log_odds, covariance = fit_with_prior(pair_model(cells), outcomes, prior_spread)
    ratings = settings.initial + settings.points * log_odds
    margins = settings.points * Z_95 * np.sqrt(np.diag(covariance))

    rows = []
    for model in range(len(votes.models)):
        rating = float(ratings[model])
        margin = float(margins[model])
        row = model_row(
            votes,
            model,
            group=0,
            rating=rating,
            low=rating - margin,
            high=rating + margin,
            lows=np.zeros(0),
        )
        rows.append(msgspec.structs.replace(row, rank=None))
    return tuple(sorted(rows, key=lambda row: (-(row.rating or 0.0), row.model)))


def _one_vote_per_voter_and_pair(votes: Votes) -> Array:
    """Return weights, shape (N,), by which all votes of a voter on a pair of models together count as one vote."""
    size = len(votes.models)
    first_model = np.minimum(votes.left, votes.right)
    second_model = np.maximum(votes.left, votes.right)
    pair = first_model * size + second_model
    voter_and_pair = votes.voter * size**2 + pair
    _, index, votes_of_voter_on_pair = np.unique(
        voter_and_pair, return_inverse=True, return_counts=True
    )
    return np.asarray(1 / votes_of_voter_on_pair[index])
