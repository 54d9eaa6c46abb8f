"""What votes say about models: ratings with intervals and ranks, by groups of models that can be compared.

From the first vote on models have provisional ratings; frozen ones hold what was published, with all that is needed to
compute it again from the same votes.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from statistics import NormalDist

import msgspec
import numpy as np
import polars as pl
from msgspec import Struct
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from snellen import __version__
from snellen.plugin_api import (
    DataError,
    Estimate,
    read_text,
    rng_for,
    student_t,
    wilson,
    write_atomically,
)
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
from snellen_server.arena_ratings.votes import (
    BOTH_BAD,
    LEFT,
    RIGHT,
    TIE,
    Array,
    RatingSettings,
    Votes,
    chosen_votes,
    votes_digest,
)

TAILS = (2.5, 97.5)
Z = NormalDist().inv_cdf(0.975)
ANOMALOUS = "by voters unlike all others"
SAME_RATING = 1e-6
"""Points by which the ends of an interval differ by rounding alone."""
APART = "between models that cannot be compared"


class ModelRating(Struct, frozen=True):
    """One model: where it stands among those it can be compared with."""

    model: str
    group: int
    """Ratings and ranks of one group say nothing about those of another."""
    rank: int | None
    """1 + the number of models of the group whose interval lies wholly above this one's; None without a rating."""
    rating: float | None
    low: float | None
    """None where there is no rating, and where all votes of the group are one voter's: then nothing says how much
    voters differ."""
    high: float | None
    votes: int
    win_share: Estimate
    """Share of wins of all votes that name a better side or a tie; a tie is half."""
    both_bad: Estimate
    """Share of the model's votes in which both were bad."""


class Term(Struct, frozen=True):
    """Something estimated beside the ratings of a group of models, in points of a rating, or as it is (`nu`)."""

    group: int
    name: str
    value: float
    low: float | None
    high: float | None


class ArenaRating(Struct, frozen=True):
    """Ratings, what they rest on, and what was left out."""

    settings: RatingSettings
    digest: str
    """Of the votes that were rated, see `votes_digest`."""
    votes: int
    voters: int
    both_bad: int
    """Votes among them in which both were bad; by default they are counted, and move no rating."""
    unknown_voters: int
    """Votes of which nobody knows who gave them; intervals take each as that of another voter."""
    left_out: Mapping[str, int]
    models: tuple[ModelRating, ...]
    """By group, and in it the best first."""
    terms: tuple[Term, ...]
    left_share: Estimate
    """How often the left side won, of votes that name a better side: 0.5 where sides do not matter."""

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
            "other, or tied, directly or through others; gather more votes"
        )
    rows, terms, rated, both_bad = list[ModelRating](), list[Term](), 0, 0
    for number, group in enumerate(groups):
        members = _among(votes, group)
        rated += members.count
        both_bad += int((members.outcome == BOTH_BAD).sum())
        ratings, lows, highs = (np.full(len(group), np.nan) for _ in range(3))
        if len(group) > 1:
            fitted = _fit_group(members, settings, number)
            ratings = fitted.ratings
            lows, highs = _without_zero_widths(members, fitted, settings)
            terms += fitted.terms
        rows += sorted(
            (
                model_row(votes, model, number, ratings[place], lows[place], highs[place], lows)
                for place, model in enumerate(group)
            ),
            key=lambda row: (-(row.rating or 0.0), row.model),
        )
    left_out = dict(votes.left_out)
    if votes.count > rated:
        left_out[APART] = votes.count - rated
    left, right = votes.outcome == LEFT, votes.outcome == RIGHT
    return ArenaRating(
        settings,
        votes_digest(votes),
        rated,
        votes.voters,
        both_bad,
        votes.unknown_voters,
        left_out,
        tuple(rows),
        tuple(terms),
        voter_share(left.astype(float), left | right, votes.voter),
    )


def counted_votes(log: VoteLog, settings: RatingSettings) -> Votes:
    """The votes that count by the settings, anomalous voters left out if they say so. Raises DataError."""
    votes = chosen_votes(log, settings)
    if not settings.leave_out_anomalous:
        return votes
    flagged = [check.number for check in check_voters(votes) if check.flagged]
    return votes.where(~np.isin(votes.voter, flagged), ANOMALOUS)


def voter_share(gained: Array, counted: Array, voter: Array) -> Estimate:
    """The share of `gained` (N,) in the votes `counted` (N,), with an interval over voters.

    Wilson's interval on the effective number of votes: share (1 - share) over the variance of a ratio of sums by voter,
    or the number of voters where nothing varies.
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
    """(B, D) parameters of resampled voters."""
    fits = []
    for counts in resampled_counts(cells, settings.resamples, rng):
        rated = rated_outcomes(counts, both_bad_is_tie=settings.both_bad_is_tie)
        fits.append(fit_ratings(model, rated, start=best, ridge=RESAMPLE_RIDGE))
    return np.concatenate(fits)


def _fit_style(votes: Votes, settings: RatingSettings, group: int) -> _Fitted:
    rated_votes = (
        votes if settings.both_bad_is_tie else votes.where(votes.outcome != BOTH_BAD, "both bad")
    )
    style = style_differences(rated_votes.table)
    best, covariance = fit_with_style(rated_votes, settings, style)
    names = (
        *(["left side"] if settings.position else []),
        *(f"style: {name}, per s.d." for name in style),
    )
    return _scaled(
        best,
        *_widened(best, *_normal_interval(best, covariance), rated_votes),
        names,
        settings,
        group,
    )


def _without_zero_widths(
    votes: Votes, fitted: _Fitted, settings: RatingSettings
) -> tuple[Array, Array]:
    """Return intervals of ratings, with one from the share of wins where votes show no spread at all.

    If all votes of a group are ties, voters do not differ, and both the sandwich estimator and a bootstrap give an
    interval without width. The share of wins still has one (Wilson's, over voters). Its ends stand for ratings: a share
    w against opponents of the same strength is a difference of log(w / (1 - w)), of which a model has (G - 1) / G as
    the ratings of its G models are around their mean.
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
    return (*(["left side"] if model.position else []), *(["nu"] if model.ties else []))


def _scaled(
    best: Array,
    lows: Array,
    highs: Array,
    names: tuple[str, ...],
    settings: RatingSettings,
    group: int,
) -> _Fitted:
    """Parameters (D,) in log odds, the ratings first, as points around the initial rating, and named terms."""
    count = len(best) - len(names)
    points, initial = settings.points, settings.initial
    terms = []
    for name, *log_odds in zip(names, best[count:], lows[count:], highs[count:], strict=True):
        value, low, high = (
            float(np.exp(x)) if name == "nu" else points * float(x) for x in log_odds
        )
        terms.append(Term(group, name, value, _known(low), _known(high)))
    ratings, lowest, highest = (initial + points * values[:count] for values in (best, lows, highs))
    return _Fitted(ratings, lowest, highest, tuple(terms))


def _normal_interval(best: Array, covariance: Array) -> tuple[Array, Array]:
    margin = Z * np.sqrt(np.maximum(np.diag(covariance), 0.0))
    return best - margin, best + margin


def _widened(best: Array, lows: Array, highs: Array, votes: Votes) -> tuple[Array, Array]:
    """An interval that is right for many voters, widened for few, by t / z sqrt(G / (G - 1)).

    G = (sum_v n_v)^2 / sum_v n_v^2 is the effective number of voters of n_v votes, and t has G - 1 degrees of freedom:
    few voters, or a few who vote much, tell little of how much voters differ. One alone tells nothing: NaN.
    """
    sizes = np.bincount(votes.voter).astype(float)
    if np.count_nonzero(sizes) < 2:
        return np.full_like(best, np.nan), np.full_like(best, np.nan)
    effective = max(2.0, float(sizes.sum() ** 2 / (sizes**2).sum()))
    factor = student_t(effective - 1) / Z * (effective / (effective - 1)) ** 0.5
    return best - factor * (best - lows), best + factor * (highs - best)


def _among(votes: Votes, group: tuple[int, ...]) -> Votes:
    """The votes between models of a group, which alone are its models."""
    if len(group) == len(votes.models):
        return votes
    places = np.full(len(votes.models), -1)
    places[list(group)] = np.arange(len(group))
    inside = (places[votes.left] >= 0) & (places[votes.right] >= 0)
    inner_votes = votes.where(inside, APART)
    names = tuple(votes.models[model] for model in group)
    return replace(
        inner_votes, models=names, left=places[inner_votes.left], right=places[inner_votes.right]
    )


def model_row(
    votes: Votes, model: int, group: int, rating: float, low: float, high: float, lows: Array
) -> ModelRating:
    """A model by its index, with its shares of the votes; NaN where there is no number. `lows` are of its group."""
    own_votes = np.flatnonzero((votes.left == model) | (votes.right == model))
    outcome, voter = votes.outcome[own_votes], votes.voter[own_votes]
    decided = outcome != BOTH_BAD
    won = outcome == np.where(votes.left[own_votes] == model, LEFT, RIGHT)
    rated = not np.isnan(rating)
    return ModelRating(
        votes.models[model],
        group,
        1 + int((lows > high).sum()) if rated else None,
        _known(rating),
        _known(low),
        _known(high),
        len(own_votes),
        voter_share(won + 0.5 * (outcome == TIE), decided, voter),
        voter_share((~decided).astype(float), np.ones(len(own_votes), dtype=bool), voter),
    )


def _known(number: float) -> float | None:
    return None if np.isnan(number) else float(number)


# --- comparable models -----------------------------------------------------------------------------------------------


def comparable_groups(
    cells: Cells, *, both_bad_is_tie: bool = False
) -> tuple[tuple[int, ...], ...]:
    """The strongly connected components of the graph of who has beaten whom (a tie counts both ways), largest first.

    Bradley-Terry ratings have a finite maximum of the likelihood if and only if there is one component (Ford 1957);
    between components votes only say that one side never lost, which is not a distance.
    """
    ties = cells.counts[:, TIE] + (cells.counts[:, BOTH_BAD] if both_bad_is_tie else 0)
    left_held, right_held = cells.counts[:, LEFT] + ties > 0, cells.counts[:, RIGHT] + ties > 0
    winners = np.concatenate([cells.left[left_held], cells.right[right_held]])
    losers = np.concatenate([cells.right[left_held], cells.left[right_held]])
    graph = sparse.coo_array(
        (np.ones(len(winners)), (winners, losers)), shape=(cells.models, cells.models)
    )
    number, labels = connected_components(graph, directed=True, connection="strong")
    groups = [
        tuple(int(model) for model in np.flatnonzero(labels == label)) for label in range(number)
    ]
    return tuple(sorted(groups, key=lambda group: (-len(group), group)))


# --- ratings at equal style ------------------------------------------------------------------------------------------
# Chatbot Arena's style control (Li, Angelopoulos and Chiang, "Does style matter?", 2024): length and Markdown are
# covariates beside the models, so that a rating is what a model's replies are worth at equal style.


MARKDOWN = {
    "headers": r"(?m)^#{1,6} ",
    "list items": r"(?m)^\s*(?:[-*+]|\d+\.) ",
    "bold": r"\*\*[^*\n]+\*\*",
}
LENGTH = "length"


def style_differences(table: pl.DataFrame) -> dict[str, Array]:
    """By name of a covariate (N,) left against right, standardised to mean 0 and standard deviation 1.

    Length is the difference of the logarithms of characters + 1; each count of Markdown is (l - r) / (l + r + 1). What
    is the same in all votes is not a covariate. Raises DataError when a vote has no replies, or there is no covariate.
    """
    if missing := table.filter(
        pl.col("left_reply").is_null() | pl.col("right_reply").is_null()
    ).height:
        raise DataError(
            f"{missing:,} of {table.height:,} votes hold no replies, whose style could be measured; leave style out"
        )
    left, right = pl.col("left_reply"), pl.col("right_reply")
    columns = {LENGTH: (left.str.len_chars() + 1).log() - (right.str.len_chars() + 1).log()}
    for name, pattern in MARKDOWN.items():
        left_count, right_count = (
            side.str.count_matches(pattern).cast(pl.Float64) for side in (left, right)
        )
        columns[name] = (left_count - right_count) / (left_count + right_count + 1)
    raw = {
        name: table.select(column.alias(name))[name].to_numpy() for name, column in columns.items()
    }
    style = {
        name: (values - values.mean()) / values.std()
        for name, values in raw.items()
        if values.std() > 0
    }
    if not style:
        raise DataError(
            "the two replies are of the same length and Markdown in all votes; leave style out"
        )
    return style


def fit_with_style(
    votes: Votes, settings: RatingSettings, style: dict[str, Array]
) -> tuple[Array, Array]:
    """Parameters (D,) and their covariance (D, D): M ratings with mean 0, the left side if asked for, the covariates.

    All in log odds. Votes are those to be rated: whatever is not left or right is half a win. The covariance is
    clustered by voter, as in `bradley_terry.robust_covariance`. Raises DataError when there is no finite maximum.
    """
    design, size = _design(votes, settings, style), len(votes.models)
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
        "ratings and style cannot be told apart in these votes; leave style out, or gather more votes"
    )


def _design(votes: Votes, settings: RatingSettings, style: dict[str, Array]) -> sparse.csr_array:
    rows = np.arange(votes.count)
    shape = (votes.count, len(votes.models))
    models = sparse.coo_array(
        (np.ones(votes.count), (rows, votes.left)), shape=shape
    ) - sparse.coo_array((np.ones(votes.count), (rows, votes.right)), shape=shape)
    side = [np.ones(votes.count)] if settings.position else []
    return sparse.csr_array(
        sparse.hstack([models, sparse.csr_array(np.stack([*side, *style.values()], axis=1))])
    )


# --- frozen ratings --------------------------------------------------------------------------------------------------


DIGITS = 4
"""Decimals of a rating that two computations must share. Sums in another order differ by some 1e-9."""
PACKAGES = ("numpy", "scipy")


class Snapshot(Struct, frozen=True):
    """A rating, and by which versions of programs it was computed."""

    rating: ArenaRating
    software: dict[str, str]


def write_snapshot(path: Path, rating: ArenaRating) -> None:
    """Freeze a rating in a JSON file. Raises StoreError."""
    write_atomically(path, encode_snapshot(rating))


def encode_snapshot(rating: ArenaRating) -> bytes:
    """What `write_snapshot` writes."""
    return msgspec.json.format(msgspec.json.encode(Snapshot(rating, _software())), indent=1) + b"\n"


def read_snapshot(path: Path) -> Snapshot:
    """A frozen rating. Raises DataError when the file is not one."""
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
    """In what a rating of `log` by the snapshot's settings differs from the snapshot; empty when in nothing."""
    again, frozen = rate_votes(log, snapshot.rating.settings), snapshot.rating
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
            if _shown(was) != _shown(became):
                differences.append(f"{row.model}: {name} was {was}, is {became}")
    terms = {(term.group, term.name): term for term in again.terms}
    for term in frozen.terms:
        term_now = terms.get((term.group, term.name))
        if term_now is None or _interval(term) != _interval(term_now):
            differences.append(f"{term.name}: was {term.value}, is {term_now and term_now.value}")
    if differences and (software := _software()) != snapshot.software:
        changed = [
            f"{name} {snapshot.software.get(name)} then, {now} now"
            for name, now in software.items()
        ]
        differences.append(f"computed by other programs: {'; '.join(changed)}")
    return tuple(differences)


def _shown(value: float | int | None) -> float | None:
    return None if value is None else round(value, DIGITS)


def _interval(term: Term) -> tuple[float | None, ...]:
    return _shown(term.value), _shown(term.low), _shown(term.high)


def _software() -> dict[str, str]:
    return {"snellen": __version__, **{name: version(name) for name in PACKAGES}}


# --- provisional ratings ---------------------------------------------------------------------------------------------
# Votes alone give no rating to a model that has won, or lost, all its battles, and no interval where one person has
# cast all the votes. Until a rating is settled, the one shown is the most likely under a prior: true ratings are normal
# around the mean with a standard deviation of `PRIOR_POINTS`, so an unknown model is within 400 points of the mean. Its
# interval is that of a normal approximation to what is known after the votes. All that one person says of a pair of
# models counts as a single vote: whoever votes a hundred times makes no rating sure.


PRIOR_POINTS = 200.0
"""Standard deviation of true ratings before any vote: about that of the models of public arenas."""
SETTLED_VOTES, SETTLED_VOTERS = 50, 10
"""A rating is settled with so many votes for a better side or a tie, by so many people."""


def is_settled(row: ModelRating) -> bool:
    """Whether enough people have voted on a model for its rating to stand by votes alone."""
    share = row.win_share
    return (
        row.low is not None and share.n >= SETTLED_VOTES and (share.groups or 0) >= SETTLED_VOTERS
    )


def provisional_ratings(votes: Votes, settings: RatingSettings) -> tuple[ModelRating, ...]:
    """All models of these votes under the prior, the best first, without a rank."""
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
    """(N,) weights with which all votes of one voter on one pair of models count as one."""
    size = len(votes.models)
    pair = np.minimum(votes.left, votes.right) * size + np.maximum(votes.left, votes.right)
    _, place, counts = np.unique(
        votes.voter * size**2 + pair, return_inverse=True, return_counts=True
    )
    return np.asarray(1 / counts[place])
