"""Bradley-Terry and Davidson ratings by maximum likelihood, of many resamples at once.

With eta = theta_left - theta_right + gamma (gamma: what the left side is worth, if it is estimated)

    Bradley-Terry   P(left) = 1 / (1 + exp(-eta)); a tie is half a win of each side
    Davidson        P(left) : P(tie) : P(right) = exp(eta / 2) : nu : exp(-eta / 2)

Davidson, "On extending the Bradley-Terry model to accommodate ties in paired comparison experiments", 1970. Both
log-likelihoods are concave; Newton's steps solve one small system a resample, whose matrix is a Laplacian of the graph
of comparisons. Ratings have mean 0, in units of log odds.

Votes summed up by cells: a model on the left, a model on the right, and an outcome; by voter, and resampled.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import permutations

import numpy as np
from msgspec import Struct
from scipy import sparse

from snellen import DataError
from snellen_server.arena_ratings.log import OUTCOMES
from snellen_server.arena_ratings.votes import (
    BOTH_BAD,
    LEFT,
    RIGHT,
    TIE,
    Array,
    RatingSettings,
    Votes,
)

CHUNK = 100
"""Resamples held at once."""


@dataclass(frozen=True)
class Cells:
    """P ordered pairs of M models, and the weight of each of four outcomes in them."""

    models: int
    left: Array
    """(P,) index of the model on the left."""
    right: Array
    counts: Array
    """(P, 4) summed weights, by the outcomes of `battle.OUTCOMES`."""
    by_voter: sparse.csr_array
    """(V, 4 P) the same for each voter."""


def voter_cells(votes: Votes) -> Cells:
    """Sum up votes by cell: an ordered pair of models together with an outcome."""
    size = len(votes.models)
    pairs, pair = np.unique(votes.left * size + votes.right, return_inverse=True)
    width = len(OUTCOMES)
    cell = pair * width + votes.outcome
    shape = (votes.voters, len(pairs) * width)
    by_voter = sparse.coo_array((votes.weight, (votes.voter, cell)), shape=shape).tocsr()
    by_voter.sum_duplicates()
    counts = np.bincount(cell, votes.weight, minlength=shape[1]).reshape(len(pairs), width)
    return Cells(size, pairs // size, pairs % size, counts, by_voter)


def resampled_counts(cells: Cells, resamples: int, rng: np.random.Generator) -> Iterator[Array]:
    """Yield counts (B, P, 4) of bootstrap resamples, some resamples at a time.

    Each resample draws as many voters as there are, with replacement, and takes all votes of a drawn voter (the cluster
    bootstrap). Voters whose votes are all in one cell, with the same weight, are interchangeable: how often any of them
    is drawn follows a multinomial distribution. Only the other voters are drawn one by one.
    """
    voters = cells.by_voter.shape[0]
    sizes = np.diff(cells.by_voter.indptr)
    single_cell_voters = np.flatnonzero(sizes == 1)
    other_voters = np.flatnonzero(sizes > 1)
    starts = cells.by_voter.indptr[single_cell_voters]
    votes_of_single = np.stack([cells.by_voter.indices[starts], cells.by_voter.data[starts]])
    cell_weights, times = np.unique(votes_of_single, axis=1, return_counts=True)
    shares = np.append(times, len(other_voters)) / voters
    counts_of_kinds = sparse.csr_array(
        (cell_weights[1], (np.arange(len(times)), cell_weights[0].astype(np.int64))),
        shape=(len(times), cells.by_voter.shape[1]),
    )
    busy_voters = cells.by_voter[other_voters]
    for start in range(0, resamples, CHUNK):
        size = min(CHUNK, resamples - start)
        kind_counts = rng.multinomial(voters, shares, size=size)
        picks: list[Array] = []  # of each resample, how often each of the other voters is drawn
        for number in kind_counts[:, -1]:
            if len(other_voters):
                draws = rng.integers(0, len(other_voters), number)
                picks.append(np.bincount(draws, minlength=len(other_voters)))
            else:
                picks.append(np.zeros(0))
        single_counts = counts_of_kinds.T @ kind_counts[:, :-1].T.astype(float)
        other_counts = busy_voters.T @ np.stack(picks, axis=1).astype(float)
        total = (single_counts + other_counts).T
        yield total.reshape(size, *cells.counts.shape)


# --- who beat whom how often -----------------------------------------------------------------------------------------


class PairRecord(Struct, frozen=True):
    """What votes between two models came to, on whichever sides they stood."""

    model: str
    opponent: str
    wins: int
    losses: int
    ties: int
    both_bad: int

    @property
    def win_share(self) -> float | None:
        """Share of votes for the first model, where a tie is half a vote; None if there is no vote for either and no
        tie.
        """
        decided = self.wins + self.losses + self.ties
        return (self.wins + self.ties / 2) / decided if decided else None


def win_rates(votes: Votes) -> tuple[PairRecord, ...]:
    """Return a record for each ordered pair of models that met, so that each vote counts in two records."""
    size = len(votes.models)
    counts = np.zeros((4, size, size), dtype=np.int64)
    np.add.at(counts, (votes.outcome, votes.left, votes.right), 1)
    wins = counts[LEFT] + counts[RIGHT].T
    ties = counts[TIE] + counts[TIE].T
    both_bad = counts[BOTH_BAD] + counts[BOTH_BAD].T
    meetings = wins + wins.T + ties + both_bad

    records = []
    for model, opponent in permutations(range(size), 2):
        if not meetings[model, opponent]:
            continue
        records.append(
            PairRecord(
                votes.models[model],
                votes.models[opponent],
                int(wins[model, opponent]),
                int(wins[opponent, model]),
                int(ties[model, opponent]),
                int(both_bad[model, opponent]),
            )
        )
    return tuple(records)


TOLERANCE = 1e-9
"""Greatest Newton step, in log odds, at which a fit is done."""
LARGEST_STEP = 1.5
MOST_STEPS = 200
RESAMPLE_RIDGE = 0.01
"""Prior precision of ratings in resamples: keeps a model finite that won, or lost, everything that was drawn."""


@dataclass(frozen=True)
class PairModel:
    """What is estimated of P ordered pairs: D parameters, the ratings of M models first.

    Then, if they are estimated, the advantage of the left side (`position`) and the logarithm of nu (`ties`).
    """

    models: int
    left: Array
    right: Array
    position: bool = False
    ties: bool = False

    @property
    def size(self) -> int:
        """Number of parameters, D."""
        return self.models + self.position + self.ties

    @cached_property
    def design(self) -> sparse.csr_array:
        """(P, M or M + 1) derivative of eta by the ratings and gamma."""
        pairs = np.arange(len(self.left))
        unit_weights = np.ones(len(pairs))
        rows = [pairs, pairs]
        columns = [self.left, self.right]
        values = [unit_weights, -unit_weights]
        if self.position:
            rows.append(pairs)
            columns.append(np.full(len(pairs), self.models))
            values.append(unit_weights)
        places = (np.concatenate(rows), np.concatenate(columns))
        shape = (len(pairs), self.models + self.position)
        return sparse.csr_array(sparse.coo_array((np.concatenate(values), places), shape=shape))

    @cached_property
    def squares(self) -> sparse.csr_array:
        """(P, K^2) outer product of each row of the design with itself, K = M or M + 1."""
        width = self.design.shape[1]
        entries = self.design.tocoo()
        per_row = 2 + self.position
        order = np.argsort(entries.row, kind="stable")
        columns = entries.col[order].reshape(-1, per_row)
        values = entries.data[order].reshape(-1, per_row)
        flat = (columns[:, :, None].astype(np.int64) * width + columns[:, None, :]).ravel()
        rows = np.repeat(np.arange(len(columns)), per_row**2)
        products = (values[:, :, None] * values[:, None, :]).ravel()
        return sparse.csr_array(
            sparse.coo_array((products, (rows, flat)), shape=(len(columns), width**2))
        )


def pair_model(cells: Cells, *, position: bool = False, ties: bool = False) -> PairModel:
    """Return the rating model for the pairs of these cells."""
    return PairModel(cells.models, cells.left, cells.right, position, ties)


def rated_outcomes(counts: Array, *, both_bad_is_tie: bool) -> Array:
    """Counts (..., P, 3) of left, right and tie, from counts (..., P, 4) of all outcomes."""
    rated = counts[..., :BOTH_BAD].copy()
    if both_bad_is_tie:
        rated[..., TIE] += counts[..., BOTH_BAD]
    return rated


def fit_ratings(
    model: PairModel, counts: Array, *, start: Array | None = None, ridge: float = 0.0
) -> Array:
    """Fit parameters by maximum likelihood, with Newton's method.

    Args:
        model: The pairs, and which parameters are estimated.
        counts: Left wins, right wins and ties of each pair, of B resamples at once; (B, P, 3).
        start: Parameters (D,) to begin with, 0 by default.
        ridge: Precision of a normal prior on each parameter; 0 for none.

    Returns:
        The most likely parameters, (B, D) in log odds. The ratings among them have mean 0.

    Raises:
        DataError: No finite maximum was found.
    """
    if start is None:
        parameters = np.zeros((len(counts), model.size))
    else:
        parameters = np.tile(start, (len(counts), 1))
    penalty = np.full(model.size, ridge)
    # Ratings may all grow alike without a change of the likelihood; a unit of curvature in that direction keeps the
    # matrix regular, and moves nothing, since the gradient has no part in it.
    regular = np.diag(penalty)
    regular[: model.models, : model.models] += 1 / model.models
    for _ in range(MOST_STEPS):
        gradient, information = _derivatives(model, parameters, counts)
        gradient -= penalty * parameters
        try:
            step = np.linalg.solve(information + regular, gradient[..., None])[..., 0]
        except np.linalg.LinAlgError:
            break
        greatest = np.abs(step).max(axis=1, keepdims=True)
        shortening = np.minimum(1.0, LARGEST_STEP / np.maximum(greatest, LARGEST_STEP))
        parameters = parameters + step * shortening
        if greatest.max() < TOLERANCE:
            ratings = parameters[:, : model.models]
            ratings -= ratings.mean(axis=1, keepdims=True)  # a view of the parameters
            return np.asarray(parameters)
    raise DataError(
        "the ratings have no finite maximum of the likelihood: too few votes for what is estimated; leave out position "
        "or ties as an outcome, or collect more votes"
    )


def fit_with_prior(model: PairModel, counts: Array, spread: float) -> tuple[Array, Array]:
    """Fit parameters under a normal prior, so that they are finite whatever the counts are.

    Args:
        model: The pairs, and which parameters are estimated.
        counts: Left wins, right wins and ties of each pair; (P, 3).
        spread: Standard deviation of the prior, around 0, in log odds.

    Returns:
        The most likely parameters after the counts, (D,), and their covariance, (D, D).
    """
    [parameters] = fit_ratings(model, counts[None], ridge=spread**-2)
    _, information = _derivatives(model, parameters[None], counts[None])
    covariance = np.linalg.inv(information[0] + np.diag(np.full(model.size, spread**-2)))
    # No vote says anything of the mean of all ratings, which is 0 by definition: what the prior leaves open of it goes.
    covariance[: model.models, : model.models] -= spread**2 / model.models
    return parameters, covariance


def robust_covariance(
    model: PairModel, cells: Cells, counts: Array, parameters: Array, both_bad_is_tie: bool
) -> Array:
    """Covariance (D, D) of the parameters that holds however one voter's votes depend on each other.

    H^-1 (sum_v s_v s_v') H^-1 V / (V - 1) over the V voters, s_v the gradient of one voter's votes (Liang and Zeger
    1986). `counts` (P, 3) are those that were fitted, `cells` hold each voter's.
    """
    _, information = _derivatives(model, parameters[None], counts[None])
    regular = np.zeros((model.size, model.size))
    regular[: model.models, : model.models] = 1 / model.models
    bread = np.linalg.inv(information[0] + regular)
    bread[: model.models, : model.models] -= 1 / model.models
    per_outcome = _outcome_scores(model, parameters, both_bad_is_tie)
    scores = cells.by_voter @ per_outcome
    voters = scores.shape[0]
    return np.asarray(bread @ (scores.T @ scores) @ bread * voters / max(voters - 1, 1))


def _probabilities(model: PairModel, parameters: Array) -> tuple[Array, Array, Array]:
    """Return the (B, P) probabilities of left, right and tie. Without `ties` a tie has none."""
    eta = (model.design @ parameters[:, : model.design.shape[1]].T).T
    if not model.ties:
        left = _logistic(eta)
        return left, 1 - left, np.zeros_like(left)
    half = np.clip(eta / 2, -300, 300)
    left, right, tie = np.exp(half), np.exp(-half), np.exp(parameters[:, -1:])
    total = left + right + tie
    return left / total, right / total, tie / total


def _derivatives(model: PairModel, parameters: Array, counts: Array) -> tuple[Array, Array]:
    """Gradient (B, D) of the log-likelihood, and minus its second derivative (B, D, D)."""
    left, right, tie = _probabilities(model, parameters)
    total = counts.sum(axis=2)
    win_counts, loss_counts, tie_counts = counts[..., LEFT], counts[..., RIGHT], counts[..., TIE]
    width = model.design.shape[1]
    gradient = np.empty_like(parameters)
    information = np.empty((len(parameters), model.size, model.size))
    if model.ties:
        residual = (win_counts - loss_counts - total * (left - right)) / 2
        weight = total * (left + right - (left - right) ** 2) / 4
        gradient[:, -1] = (tie_counts - total * tie).sum(axis=1)
        cross = -total * (left - right) * tie / 2
        information[:, :width, -1] = information[:, -1, :width] = (model.design.T @ cross.T).T
        information[:, -1, -1] = (total * tie * (1 - tie)).sum(axis=1)
    else:
        residual = win_counts + tie_counts / 2 - total * left
        weight = total * left * right
    gradient[:, :width] = (model.design.T @ residual.T).T
    information[:, :width, :width] = (model.squares.T @ weight.T).T.reshape(-1, width, width)
    return gradient, information


def _outcome_scores(model: PairModel, parameters: Array, both_bad_is_tie: bool) -> Array:
    """Return the (4 P, D) gradient of the log-likelihood of a single vote in each cell."""
    left, right, tie = (part[0] for part in _probabilities(model, parameters[None]))
    pairs = len(left)
    width = model.design.shape[1]
    by_eta = np.zeros((pairs, 4))
    by_ties = np.zeros((pairs, 4))
    rated = (LEFT, RIGHT, TIE, BOTH_BAD) if both_bad_is_tie else (LEFT, RIGHT, TIE)
    for outcome in rated:
        side = {LEFT: 1.0, RIGHT: -1.0}.get(outcome, 0.0)
        if model.ties:
            by_eta[:, outcome] = (side - (left - right)) / 2
            by_ties[:, outcome] = (side == 0) - tie
        else:
            by_eta[:, outcome] = (1 + side) / 2 - left
    scores = np.zeros((4 * pairs, model.size))
    scores[:, :width] = np.repeat(model.design.toarray(), 4, axis=0) * by_eta.reshape(-1, 1)
    if model.ties:
        scores[:, -1] = by_ties.ravel()
    return scores


def _logistic(eta: Array) -> Array:
    """Return 1 / (1 + exp(-eta)), clipped so that the exponential does not overflow."""
    return np.asarray(1 / (1 + np.exp(-np.clip(eta, -600, 600))))


# --- online Elo ------------------------------------------------------------------------------------------------------
# Each vote moves two ratings at once, so that the order of votes matters. What early arenas published.


def elo_ratings(votes: Votes, settings: RatingSettings) -> Array:
    """Return the (M,) ratings after all votes, in their order: R_a += K (S - 1 / (1 + base^((R_b - R_a) / scale))).

    A tie is half a win. Both bad is left out, or a tie by the settings.
    """
    return _elo_after(votes, settings, np.arange(votes.count))


def resampled_elo(votes: Votes, settings: RatingSettings, rng: np.random.Generator) -> Array:
    """Return the (B, M) ratings of the votes of as many voters drawn with replacement, in random order.

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
        # All votes of the drawn voters: `offsets` counts up from 0 within each of them.
        offsets = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        drawn_votes = by_voter[np.repeat(starts[voters], counts) + offsets]
        ratings.append(_elo_after(votes, settings, rng.permutation(drawn_votes)))
    return np.stack(ratings)


def shuffled_elo(
    votes: Votes, settings: RatingSettings, orders: int, rng: np.random.Generator
) -> Array:
    """Return the (orders, M) ratings of the same votes in other orders: how much of a rating is the order alone."""
    return np.stack(
        [_elo_after(votes, settings, rng.permutation(votes.count)) for _ in range(orders)]
    )


def _elo_after(votes: Votes, settings: RatingSettings, order: Array) -> Array:
    """Return the (M,) Elo ratings after all votes, counted in a given order.

    Args:
        votes: N votes on M models.
        settings: The initial rating, the step size `k`, the base and the scale of Elo.
        order: Indices of the votes, the one that counts first at the front.
    """
    if not settings.both_bad_is_tie:
        order = order[votes.outcome[order] != BOTH_BAD]
    score_of_outcome = np.full(4, 0.5)
    score_of_outcome[LEFT] = 1.0
    score_of_outcome[RIGHT] = 0.0

    # Plain numbers in lists: a step of arrays takes ten times as long.
    lefts = votes.left[order].tolist()
    rights = votes.right[order].tolist()
    scores = score_of_outcome[votes.outcome[order]].tolist()
    ratings = [settings.initial] * len(votes.models)
    base = settings.base
    scale = settings.scale
    for left, right, score in zip(lefts, rights, scores, strict=True):
        expected = 1 / (1 + base ** ((ratings[right] - ratings[left]) / scale))
        change = settings.k * (score - expected)
        ratings[left] += change
        ratings[right] -= change
    return np.array(ratings)
