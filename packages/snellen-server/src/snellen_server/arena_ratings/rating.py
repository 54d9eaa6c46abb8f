"""Rate models from votes, with intervals and ranks within groups of comparable models.

Models have provisional ratings from the first vote on. A snapshot freezes published ratings together with the settings
and versions of software that are needed to compute them again from the same votes.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterable, Mapping
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
    LARGEST_STEP,
    MOST_STEPS,
    RESAMPLE_RIDGE,
    TOLERANCE,
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

TAILS = (2.5, 97.5)
Z = NormalDist().inv_cdf(0.975)
ANOMALOUS = "by anomalous voters"
COMPARED_VOTES = 50
"""Largest number of votes of one network in the tests for anomalous voters.

This is enough to detect the network, but too few for it to become the norm that other voters are compared with.
"""
SAME_RATING = 1e-6
"""An interval narrower than this many points has no width but for rounding."""
APART = "between models that cannot be compared"


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
    excluded_votes: Mapping[str, int] = field(name="left_out")
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
    for number, group in enumerate(groups):
        members = _votes_within(votes, group)
        rated += members.count
        both_bad += int((members.outcome == BOTH_BAD).sum())
        ratings = lows = highs = np.full(len(group), np.nan)
        if len(group) > 1:
            fitted = _fit_group(members, settings, number)
            ratings = fitted.ratings
            lows, highs = _without_zero_widths(members, fitted, settings)
            terms += fitted.terms
        group_rows = [
            model_row(votes, model, number, ratings[index], lows[index], highs[index], lows)
            for index, model in enumerate(group)
        ]
        rows += sorted(group_rows, key=lambda row: (-(row.rating or 0.0), row.model))
    excluded_votes = dict(votes.excluded_votes)
    if votes.count > rated:
        excluded_votes[APART] = votes.count - rated
    left, right = votes.outcome == LEFT, votes.outcome == RIGHT
    return ArenaRating(
        settings,
        votes_digest(votes),
        rated,
        votes.voters,
        both_bad,
        votes.unknown_voters,
        excluded_votes,
        tuple(rows),
        tuple(terms),
        voter_share(left.astype(float), left | right, votes.voter),
    )


def counted_votes(log: VoteLog, settings: RatingSettings) -> Votes:
    """Return the votes that the settings admit, with their weights and the numbers of excluded votes by reason.

    Raises:
        DataError: If no vote is left.
    """
    votes = chosen_votes(log, settings)
    trust = settings.trust
    if trust is not None:
        votes = without_distrusted(votes, trust)
    if settings.leave_out_anomalous or (trust is not None and not trust.count_anomalous):
        votes = votes.where(~_by_flagged(votes, trust), ANOMALOUS)
    if trust is not None:
        votes = with_trust_weights(votes, trust)
    if not votes.count:
        raise DataError(
            "no votes are left to rate: the settings of trust exclude each; collect more votes, or change them"
        )
    return votes


def _by_flagged(votes: Votes, trust: TrustSettings | None) -> Array:
    """Return whether each vote is by an anomalous voter, shape (N,).

    The tests use at most `COMPARED_VOTES` votes of a network, or as many as its admitted share. Otherwise a network
    with very many votes would become the norm, and honest voters would be flagged instead.
    """
    compared = within_shares(votes, trust, COMPARED_VOTES)
    flagged = [check.number for check in check_voters(compared) if check.flagged]
    flagged_ids = compared.table["id"].to_numpy()[np.isin(compared.voter, flagged)]
    is_known = np.isin(votes.table["id"].to_numpy(), flagged_ids)
    return np.isin(votes.voter, votes.voter[is_known])


def voter_share(gained: Array, counted: Array, voter: Array) -> Estimate:
    """Estimate the mean of `gained` over some votes, with a 95% interval clustered by voter.

    The interval is Wilson's for the effective number of votes, which is share (1 - share) divided by the variance of
    the ratio of sums by voter. If that variance is 0, it is the number of voters.

    Args:
        gained: What each vote gains, in [0, 1], shape (N,).
        counted: Whether a vote counts, shape (N,).
        voter: Index of the voter of each vote, shape (N,).
    """
    n = int(counted.sum())
    if not n:
        return Estimate(None, None, None, None, 0)
    share = float(gained[counted].sum() / n)
    voters = int(np.count_nonzero(np.bincount(voter[counted])))
    sums = np.bincount(voter[counted], gained[counted] - share)
    variance = float((sums**2).sum()) / n**2 * voters / max(voters - 1, 1)
    effective = share * (1 - share) / variance if variance and voters > 1 else float(voters)
    low, high = wilson(share, effective)
    return Estimate(share, variance**0.5, low, high, n, groups=voters)


class _Fitted(Struct, frozen=True):
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
    """Fit the ratings of one group of comparable models, with intervals, by the method of the settings."""
    rng = np.random.default_rng(
        rng_for("arena", settings.method, str(group), settings.seed).getrandbits(64)
    )
    if settings.method == "elo":
        best = elo_ratings(votes, settings)
        lows, highs = np.percentile(resampled_elo(votes, settings, rng), TAILS, axis=0)
        return _Fitted(best, *_widened(best, lows, highs, votes))
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
    [best] = fit_ratings(model, counts[None])
    if settings.interval == "sandwich":
        covariance = robust_covariance(model, cells, counts, best, settings.both_bad_is_tie)
        lows, highs = _normal_interval(best, covariance)
    else:
        lows, highs = np.percentile(
            _resampled_fits(model, cells, best, settings, rng), TAILS, axis=0
        )
    return _scaled(best, *_widened(best, lows, highs, votes), _term_names(model), settings, group)


def _resampled_fits(
    model: PairModel, cells: Cells, best: Array, settings: RatingSettings, rng: np.random.Generator
) -> Array:
    """Return the parameters of bootstrap resamples of voters, shape (B, D)."""
    fits = []
    for counts in resampled_counts(cells, settings.resamples, rng):
        rated = rated_outcomes(counts, both_bad_is_tie=settings.both_bad_is_tie)
        fits.append(fit_ratings(model, rated, start=best, ridge=RESAMPLE_RIDGE))
    return np.concatenate(fits)


def _fit_style(votes: Votes, settings: RatingSettings, group: int) -> _Fitted:
    """Fit ratings together with the effects of style (such as reply length), for one group of comparable models."""
    rated_votes = (
        votes if settings.both_bad_is_tie else votes.where(votes.outcome != BOTH_BAD, "both bad")
    )
    style = style_differences(rated_votes.table)
    best, covariance = fit_with_style(rated_votes, settings, style)
    names = ["left side"] if settings.position else []
    names += [f"style: {name}, per s.d." for name in style]
    lows, highs = _widened(best, *_normal_interval(best, covariance), rated_votes)
    return _scaled(best, lows, highs, tuple(names), settings, group)


def _without_zero_widths(
    votes: Votes, fitted: _Fitted, settings: RatingSettings
) -> tuple[Array, Array]:
    """Return the ends of the rating intervals, and replace intervals of zero width by ones from the share of wins.

    If all votes of a group are ties, voters do not differ, and both the sandwich estimator and a bootstrap give an
    interval of zero width. The share of wins still has an interval (Wilson's, over voters), whose ends are converted to
    ratings: a share w against opponents of equal strength is a difference of log(w / (1 - w)). As the ratings of the G
    models in a group are centred at their mean, (G - 1) / G of the difference is the model's.
    """
    lows, highs = fitted.lows.copy(), fitted.highs.copy()
    count = len(fitted.ratings)
    for model in np.flatnonzero(highs - lows < SAME_RATING):
        share = model_row(votes, int(model), 0, np.nan, np.nan, np.nan, lows).win_share
        if share.low is None or share.high is None or share.value is None:
            continue
        middle = _log_odds(share.value)
        reach = settings.points * (count - 1) / count
        lows[model] = fitted.ratings[model] - reach * (middle - _log_odds(share.low))
        highs[model] = fitted.ratings[model] + reach * (_log_odds(share.high) - middle)
    return lows, highs


def _log_odds(share: float) -> float:
    bounded = min(max(share, 1e-6), 1 - 1e-6)
    return math.log(bounded / (1 - bounded))


def _term_names(model: PairModel) -> tuple[str, ...]:
    """Return the names of the parameters other than ratings: the left side's advantage, and Davidson's nu for ties."""
    names = []
    if model.position:
        names.append("left side")
    if model.ties:
        names.append("nu")
    return tuple(names)


def _scaled(
    best: Array,
    lows: Array,
    highs: Array,
    names: tuple[str, ...],
    settings: RatingSettings,
    group: int,
) -> _Fitted:
    """Convert parameters and their intervals (each (D,), in log odds) to ratings in points and named terms.

    The ratings are the first parameters, and are centred at the initial rating. The last ones are the terms `names`.
    """
    count = len(best) - len(names)
    points = settings.points
    initial = settings.initial

    def in_unit(name: str, log_odds: float) -> float:
        """Return a term in points; Davidson's nu, which was fitted as a logarithm, as itself."""
        return float(np.exp(log_odds)) if name == "nu" else points * float(log_odds)

    terms = []
    for index, name in enumerate(names, count):
        low = _none_if_nan(in_unit(name, lows[index]))
        high = _none_if_nan(in_unit(name, highs[index]))
        terms.append(Term(group, name, in_unit(name, best[index]), low, high))
    return _Fitted(
        initial + points * best[:count],
        initial + points * lows[:count],
        initial + points * highs[:count],
        tuple(terms),
    )


def _normal_interval(best: Array, covariance: Array) -> tuple[Array, Array]:
    margin = Z * np.sqrt(np.maximum(np.diag(covariance), 0.0))
    return best - margin, best + margin


def _widened(best: Array, lows: Array, highs: Array, votes: Votes) -> tuple[Array, Array]:
    """Widen an interval, which is valid for many voters, by t / z sqrt(G / (G - 1)).

    G = (sum_v n_v)^2 / sum_v n_v^2 is the effective number of voters, where voter v has cast votes of weight n_v, and t
    has G - 1 degrees of freedom. With few voters, or a few who cast most votes, the spread among voters is poorly known.
    With a single voter it is unknown, and the ends are NaN.
    """
    sizes = np.bincount(votes.voter, votes.weight)
    if np.count_nonzero(sizes) < 2:
        return np.full_like(best, np.nan), np.full_like(best, np.nan)
    effective = max(2.0, float(sizes.sum() ** 2 / (sizes**2).sum()))
    factor = student_t(effective - 1) / Z * (effective / (effective - 1)) ** 0.5
    return best - factor * (best - lows), best + factor * (highs - best)


def _votes_within(votes: Votes, group: tuple[int, ...]) -> Votes:
    """Return the votes between two models of a group; their model indices count within the group."""
    if len(group) == len(votes.models):
        return votes
    index_in_group = np.full(len(votes.models), -1)
    index_in_group[list(group)] = np.arange(len(group))
    is_inside = (index_in_group[votes.left] >= 0) & (index_in_group[votes.right] >= 0)
    group_votes = votes.where(is_inside, APART)
    names = tuple(votes.models[model] for model in group)
    return replace(
        group_votes,
        models=names,
        left=index_in_group[group_votes.left],
        right=index_in_group[group_votes.right],
    )


def model_row(
    votes: Votes, model: int, group: int, rating: float, low: float, high: float, lows: Array
) -> ModelRating:
    """Return the row of a model in a table of ratings, with its shares of wins and of bad pairs.

    Args:
        votes: All votes.
        model: Index of the model in `votes.models`.
        group: Index of its group.
        rating: Its rating; NaN without one.
        low: Lower end of its interval; NaN without one.
        high: Upper end of its interval; NaN without one.
        lows: Lower ends of all models in the group, for the rank.
    """
    model_votes = np.flatnonzero((votes.left == model) | (votes.right == model))
    outcome = votes.outcome[model_votes]
    voter = votes.voter[model_votes]
    decided = outcome != BOTH_BAD
    won = outcome == np.where(votes.left[model_votes] == model, LEFT, RIGHT)
    rated = not np.isnan(rating)
    return ModelRating(
        votes.models[model],
        group,
        1 + int((lows > high).sum()) if rated else None,
        _none_if_nan(rating),
        _none_if_nan(low),
        _none_if_nan(high),
        len(model_votes),
        voter_share(won + 0.5 * (outcome == TIE), decided, voter),
        voter_share((~decided).astype(float), np.ones(len(model_votes), dtype=bool), voter),
    )


def _none_if_nan(number: float) -> float | None:
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
    left_won = cells.counts[:, LEFT] + ties > 0
    right_won = cells.counts[:, RIGHT] + ties > 0
    winners = np.concatenate([cells.left[left_won], cells.right[right_won]])
    losers = np.concatenate([cells.right[left_won], cells.left[right_won]])
    edges = (np.ones(len(winners)), (winners, losers))
    graph = sparse.coo_array(edges, shape=(cells.models, cells.models))
    number, labels = connected_components(graph, directed=True, connection="strong")
    groups: list[tuple[int, ...]] = []
    for label in range(number):
        members = np.flatnonzero(labels == label)
        groups.append(tuple(members.tolist()))
    return tuple(sorted(groups, key=lambda group: (-len(group), group)))


# --- ratings at equal style ------------------------------------------------------------------------------------------


def fit_with_style(
    votes: Votes, settings: RatingSettings, style: dict[str, Array]
) -> tuple[Array, Array]:
    """Fit ratings and style covariates by logistic regression.

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
    size = len(votes.models)
    won = np.select([votes.outcome == LEFT, votes.outcome == RIGHT], [1.0, 0.0], 0.5)
    regular = np.zeros((design.shape[1], design.shape[1]))
    regular[:size, :size] = 1 / size
    parameters = np.zeros(design.shape[1])
    for _ in range(MOST_STEPS):
        expected = 1 / (1 + np.exp(-np.clip(design @ parameters, -600, 600)))
        residual = votes.weight * (won - expected)
        weight = votes.weight * expected * (1 - expected)
        information = (design.T @ sparse.diags_array(weight) @ design).toarray()
        try:
            step = np.linalg.solve(information + regular, design.T @ residual)
        except np.linalg.LinAlgError:
            break
        greatest = np.abs(step).max()
        parameters = parameters + step * min(1.0, LARGEST_STEP / max(greatest, LARGEST_STEP))
        if greatest < TOLERANCE:
            bread = np.linalg.inv(information + regular)
            bread[:size, :size] -= 1 / size
            members = sparse.coo_array((residual, (votes.voter, np.arange(votes.count)))).tocsr()
            scores = (members @ design).toarray()
            voters = len(scores)
            return parameters, np.asarray(
                bread @ (scores.T @ scores) @ bread * voters / max(voters - 1, 1)
            )
    raise DataError(
        "ratings and style are not identifiable from these votes; remove style, or collect more votes"
    )


def _design(votes: Votes, settings: RatingSettings, style: dict[str, Array]) -> sparse.csr_array:
    """Return the design matrix, shape (N, D): 1 for the left and -1 for the right model, the side, the covariates."""
    rows = np.arange(votes.count)
    ones = np.ones(votes.count)
    shape = (votes.count, len(votes.models))
    left_models = sparse.coo_array((ones, (rows, votes.left)), shape=shape)
    right_models = sparse.coo_array((ones, (rows, votes.right)), shape=shape)
    side = [ones] if settings.position else []
    covariates = sparse.csr_array(np.stack([*side, *style.values()], axis=1))
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
    differences = list[str]()
    now = {row.model: row for row in again.models}
    for row in frozen.models:
        row_now = now[row.model]
        for name in ("group", "rank", "rating", "low", "high", "votes"):
            was, became = getattr(row, name), getattr(row_now, name)
            if _rounded(was) != _rounded(became):
                differences.append(f"{row.model}: {name} was {was}, is {became}")
    terms = {(term.group, term.name): term for term in again.terms}
    for term in frozen.terms:
        term_now = terms.get((term.group, term.name))
        if term_now is None or _interval(term) != _interval(term_now):
            differences.append(f"{term.name}: was {term.value}, is {term_now and term_now.value}")
    software = _software()
    if differences and software != snapshot.software:
        changed = [
            f"{name} {snapshot.software.get(name)} then, {version} now"
            for name, version in software.items()
        ]
        differences.append(f"computed by other programs: {'; '.join(changed)}")
    return tuple(differences)


def _rounded(value: float | int | None) -> float | None:
    return None if value is None else round(value, DIGITS)


def _interval(term: Term) -> tuple[float | None, ...]:
    return _rounded(term.value), _rounded(term.low), _rounded(term.high)


def _software() -> dict[str, str]:
    return {"snellen": __version__, **{name: version(name) for name in PACKAGES}}


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
    share = row.win_share
    return (
        row.low is not None and share.n >= SETTLED_VOTES and (share.groups or 0) >= SETTLED_VOTERS
    )


def ranked_when_settled(rows: Iterable[ModelRating]) -> tuple[ModelRating, ...]:
    """Return the settled ones of some ratings, ranked among themselves within each group."""
    settled = [row for row in rows if is_settled(row)]
    ranked = []
    for row in settled:
        above = [
            other
            for other in settled
            if other.group == row.group and (other.low or 0.0) > (row.high or 0.0)
        ]
        ranked.append(msgspec.structs.replace(row, rank=1 + len(above)))
    return tuple(ranked)


def provisional_ratings(votes: Votes, settings: RatingSettings) -> tuple[ModelRating, ...]:
    """Rate all models of these votes under the prior; return them the best first, without ranks."""
    counted = (
        votes if settings.both_bad_is_tie else votes.where(votes.outcome != BOTH_BAD, "both bad")
    )
    if not counted.count:
        return ()
    cells = voter_cells(replace(counted, weight=_one_for_each_pair(counted)))
    outcomes = rated_outcomes(cells.counts, both_bad_is_tie=settings.both_bad_is_tie)
    log_odds, covariance = fit_with_prior(
        pair_model(cells), outcomes, PRIOR_POINTS / settings.points
    )
    ratings = settings.initial + settings.points * log_odds
    margins = settings.points * Z * np.sqrt(np.diag(covariance))
    rows = [
        model_row(
            votes,
            model,
            0,
            float(rating),
            float(rating - margin),
            float(rating + margin),
            np.zeros(0),
        )
        for model, (rating, margin) in enumerate(zip(ratings, margins, strict=True))
    ]
    unranked = [msgspec.structs.replace(row, rank=None) for row in rows]
    return tuple(sorted(unranked, key=lambda row: (-(row.rating or 0.0), row.model)))


def _one_for_each_pair(votes: Votes) -> Array:
    """Return weights, shape (N,), by which all votes of a voter on a pair of models together count as one vote."""
    size = len(votes.models)
    pair = np.minimum(votes.left, votes.right) * size + np.maximum(votes.left, votes.right)
    voter_and_pair = votes.voter * size**2 + pair
    _, indices, counts = np.unique(voter_and_pair, return_inverse=True, return_counts=True)
    return np.asarray(1 / counts[indices])
