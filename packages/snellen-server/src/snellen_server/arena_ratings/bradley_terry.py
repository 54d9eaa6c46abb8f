"""Bradley-Terry and Davidson ratings by maximum likelihood, of many resamples at once.

With eta = theta_left - theta_right + gamma (gamma: what the left side is worth, if it is estimated)

    Bradley-Terry   P(left) = 1 / (1 + exp(-eta)); a tie is half a win of each side
    Davidson        P(left) : P(tie) : P(right) = exp(eta / 2) : nu : exp(-eta / 2)

Davidson, "On extending the Bradley-Terry model to accommodate ties in paired comparison experiments", 1970. Both
log-likelihoods are concave; Newton's steps solve one small system a resample, whose matrix is a Laplacian of the graph
of comparisons. Ratings have mean 0, in units of log odds.

Votes enter as sums of weights by cell. A cell is a model on the left, a model on the right, and an outcome.
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

RESAMPLES_PER_CHUNK = 100
"""Number of resamples that are in memory at once."""


@dataclass(frozen=True)
class Cells:
    """Votes summed up by ordered pair of models and outcome: P pairs of M models, V voters, four outcomes."""

    models: int
    """The number of models, M."""
    left: Array
    """(P,) index of the model on the left."""
    right: Array
    counts: Array
    """(P, 4) summed weights of the votes, by the outcomes of `log.OUTCOMES`."""
    by_voter: sparse.csr_array
    """(V, 4 P) summed weights for each voter; column 4 p + o is outcome o of pair p."""


def voter_cells(votes: Votes) -> Cells:
    """Sum the weights of votes by cell: an ordered pair of models together with an outcome."""
    model_count = len(votes.models)
    outcome_count = len(OUTCOMES)
    # An ordered pair of models as one number, and the index of each vote's pair among those that occur.
    pair_codes = votes.left * model_count + votes.right
    pairs, pair = np.unique(pair_codes, return_inverse=True)
    cell = pair * outcome_count + votes.outcome
    cell_count = len(pairs) * outcome_count

    by_voter = sparse.coo_array(
        (votes.weight, (votes.voter, cell)), shape=(votes.voters, cell_count)
    ).tocsr()
    by_voter.sum_duplicates()
    counts = np.bincount(cell, votes.weight, minlength=cell_count)
    return Cells(
        models=model_count,
        left=pairs // model_count,
        right=pairs % model_count,
        counts=counts.reshape(len(pairs), outcome_count),
        by_voter=by_voter,
    )


def resampled_counts(cells: Cells, resamples: int, rng: np.random.Generator) -> Iterator[Array]:
    """Yield the counts of bootstrap resamples, up to `RESAMPLES_PER_CHUNK` resamples at a time; each array has shape (B, P, 4).

    Each resample draws as many voters as there are, with replacement, and takes all votes of a drawn voter (the cluster
    bootstrap). Voters whose votes are all in one cell, with the same weight, are interchangeable: how often any of them
    is drawn follows a multinomial distribution. Only the other voters are drawn one by one.
    """
    voters, cell_count = cells.by_voter.shape
    cells_per_voter = np.diff(cells.by_voter.indptr)
    single_cell_voters = np.flatnonzero(cells_per_voter == 1)
    other_voters = np.flatnonzero(cells_per_voter > 1)
    votes_of_others = cells.by_voter[other_voters]

    # Kinds of interchangeable voters: a cell and a weight, and how many voters have just these.
    entries = cells.by_voter.indptr[single_cell_voters]
    cell_and_weight = np.stack([cells.by_voter.indices[entries], cells.by_voter.data[entries]])
    kinds, voters_of_kind = np.unique(cell_and_weight, axis=1, return_counts=True)
    kind_count = len(voters_of_kind)
    cell_of_kind = kinds[0].astype(np.int64)
    weight_of_kind = kinds[1]
    votes_of_kinds = sparse.csr_array(
        (weight_of_kind, (np.arange(kind_count), cell_of_kind)), shape=(kind_count, cell_count)
    )
    # The last category of the multinomial distribution is all other voters together.
    probabilities = np.append(voters_of_kind, len(other_voters)) / voters

    for start in range(0, resamples, RESAMPLES_PER_CHUNK):
        size = min(RESAMPLES_PER_CHUNK, resamples - start)
        draws = rng.multinomial(voters, probabilities, size=size)
        times_of_others: list[Array] = []  # for each resample, how often each other voter is drawn
        for number_of_draws in draws[:, -1]:
            if len(other_voters):
                drawn = rng.integers(0, len(other_voters), number_of_draws)
                times_of_others.append(np.bincount(drawn, minlength=len(other_voters)))
            else:
                times_of_others.append(np.zeros(0))
        counts_of_kinds = votes_of_kinds.T @ draws[:, :-1].T.astype(float)
        counts_of_others = votes_of_others.T @ np.stack(times_of_others, axis=1).astype(float)
        counts = (counts_of_kinds + counts_of_others).T  # (B, 4 P)
        yield counts.reshape(size, *cells.counts.shape)


# --- who beat whom how often -----------------------------------------------------------------------------------------


class PairRecord(Struct, frozen=True):
    """Outcomes of the votes between two models, whichever of them was on the left."""

    model: str
    opponent: str
    wins: int
    losses: int
    ties: int
    both_bad: int

    @property
    def win_share(self) -> float | None:
        """Share of wins of `model`, in [0, 1], where a tie is half a win. None if all votes were "both bad"."""
        decided = self.wins + self.losses + self.ties
        if not decided:
            return None
        return (self.wins + self.ties / 2) / decided


def win_rates(votes: Votes) -> tuple[PairRecord, ...]:
    """Return a record for each ordered pair of models that met, so that each vote counts in two records."""
    size = len(votes.models)
    counts = np.zeros((4, size, size), dtype=np.int64)  # by outcome, left model and right model
    np.add.at(counts, (votes.outcome, votes.left, votes.right), 1)

    # By first and second model, whichever was on the left: a transposed matrix has the sides exchanged.
    wins = counts[LEFT] + counts[RIGHT].T
    ties = counts[TIE] + counts[TIE].T
    both_bad = counts[BOTH_BAD] + counts[BOTH_BAD].T
    meetings = wins + wins.T + ties + both_bad

    records = []
    for first, second in permutations(range(size), 2):
        if not meetings[first, second]:
            continue
        record = PairRecord(
            model=votes.models[first],
            opponent=votes.models[second],
            wins=int(wins[first, second]),
            losses=int(wins[second, first]),
            ties=int(ties[first, second]),
            both_bad=int(both_bad[first, second]),
        )
        records.append(record)
    return tuple(records)


NEWTON_TOLERANCE = 1e-9
"""A fit has converged if the largest change of a parameter in a step of Newton's method is below this, in log odds."""
MAX_NEWTON_STEP = 1.5
"""Longer steps are shortened to this, in log odds."""
MAX_NEWTON_STEPS = 200
RESAMPLE_RIDGE = 0.01
"""Prior precision of ratings in resamples. It keeps the rating of a model finite that won, or lost, all drawn votes."""


@dataclass(frozen=True)
class PairModel:
    """The parameters of a rating model and the P ordered pairs of models that they are estimated from.

    The D parameters are the ratings of the M models; then, if they are estimated, the advantage of the left side
    (`position`) and the logarithm of nu (`ties`).
    """

    models: int
    """The number of models, M."""
    left: Array
    """(P,) index of the model on the left."""
    right: Array
    position: bool = False
    ties: bool = False

    @property
    def size(self) -> int:
        """Number of parameters, D."""
        return self.models + self.position + self.ties

    @cached_property
    def design(self) -> sparse.csr_array:
        """Design matrix, shape (P, M), or (P, M + 1) if the advantage of the left side is estimated.

        A row has 1 for the left model, -1 for the right model and 1 for the left side, so that its product with the
        parameters is eta (see the module).
        """
        pairs = np.arange(len(self.left))
        ones = np.ones(len(pairs))
        rows = [pairs, pairs]
        columns = [self.left, self.right]
        values = [ones, -ones]
        if self.position:
            rows.append(pairs)
            columns.append(np.full(len(pairs), self.models))
            values.append(ones)
        coordinates = (np.concatenate(rows), np.concatenate(columns))
        shape = (len(pairs), self.models + self.position)
        matrix = sparse.coo_array((np.concatenate(values), coordinates), shape=shape)
        return sparse.csr_array(matrix)

    @cached_property
    def squares(self) -> sparse.csr_array:
        """Outer product of each row of `design` with itself, shape (P, K^2), where K is the number of its columns."""
        pair_count, width = self.design.shape
        entries_per_row = 2 + self.position
        entries = self.design.tocoo()
        by_row = np.argsort(entries.row, kind="stable")
        columns = entries.col[by_row].reshape(-1, entries_per_row).astype(np.int64)
        values = entries.data[by_row].reshape(-1, entries_per_row)

        # All products of two entries of a row: shape (P, entries per row, entries per row).
        products = values[:, :, None] * values[:, None, :]
        product_columns = columns[:, :, None] * width + columns[:, None, :]
        rows = np.repeat(np.arange(pair_count), entries_per_row**2)
        matrix = sparse.coo_array(
            (products.ravel(), (rows, product_columns.ravel())), shape=(pair_count, width**2)
        )
        return sparse.csr_array(matrix)


def pair_model(cells: Cells, *, position: bool = False, ties: bool = False) -> PairModel:
    """Return the rating model for the pairs of these cells."""
    return PairModel(cells.models, cells.left, cells.right, position, ties)


def rated_outcomes(counts: Array, *, both_bad_is_tie: bool) -> Array:
    """Reduce counts of four outcomes to those that change ratings: left, right and tie.

    Args:
        counts: Counts of left, right, tie and "both bad", shape (..., P, 4).
        both_bad_is_tie: Whether "both bad" is added to the ties; otherwise it is dropped.

    Returns:
        Counts of left, right and tie, shape (..., P, 3).
    """
    rated = counts[..., :BOTH_BAD].copy()
    if both_bad_is_tie:
        rated[..., TIE] += counts[..., BOTH_BAD]
    return rated


def fit_ratings(
    model: PairModel, counts: Array, *, start: Array | None = None, ridge: float = 0.0
) -> Array:
    """Fit the parameters of a rating model by maximum likelihood, with Newton's method.

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
    prior_precision = np.full(model.size, ridge)
    # The likelihood is the same if all ratings grow alike. A unit of curvature in that direction makes the matrix
    # regular, and changes no step, since the gradient is 0 in that direction.
    regularisation = np.diag(prior_precision)
    regularisation[: model.models, : model.models] += 1 / model.models
    for _ in range(MAX_NEWTON_STEPS):
        gradient, information = _derivatives(model, parameters, counts)
        gradient -= prior_precision * parameters
        try:
            step = np.linalg.solve(information + regularisation, gradient[..., None])[..., 0]
        except np.linalg.LinAlgError:
            break
        largest_change = np.abs(step).max(axis=1, keepdims=True)  # (B, 1)
        shortening = np.minimum(1.0, MAX_NEWTON_STEP / np.maximum(largest_change, MAX_NEWTON_STEP))
        parameters = parameters + step * shortening
        if largest_change.max() < NEWTON_TOLERANCE:
            ratings = parameters[:, : model.models]
            ratings -= ratings.mean(axis=1, keepdims=True)  # in place: also changes `parameters`
            return np.asarray(parameters)
    raise DataError(
        "the ratings have no finite maximum of the likelihood: too few votes for what is estimated; leave out position "
        "or ties as an outcome, or collect more votes"
    )


def fit_with_prior(model: PairModel, counts: Array, spread: float) -> tuple[Array, Array]:
    """Fit the parameters of a rating model under a normal prior, which keeps them finite for any counts.

    Args:
        model: The pairs, and which parameters are estimated.
        counts: Left wins, right wins and ties of each pair; (P, 3).
        spread: Standard deviation of the prior, around 0, in log odds.

    Returns:
        The parameters with the highest posterior density, (D,), and the covariance of the normal approximation of the
        posterior, (D, D), both in log odds.
    """
    precision = spread**-2
    parameters = fit_ratings(model, counts[None], ridge=precision)[0]
    _, information = _derivatives(model, parameters[None], counts[None])
    posterior_precision = information[0] + np.diag(np.full(model.size, precision))
    covariance = np.linalg.inv(posterior_precision)
    # The mean of all ratings is 0 by definition, so its variance under the prior does not count as uncertainty.
    covariance[: model.models, : model.models] -= spread**2 / model.models
    return parameters, covariance


def robust_covariance(
    model: PairModel, cells: Cells, counts: Array, parameters: Array, both_bad_is_tie: bool
) -> Array:
    """Return the covariance of fitted parameters, valid even if the votes of one voter depend on each other.

    This is the sandwich estimator clustered by voter (Liang and Zeger 1986), H^-1 (sum_v s_v s_v') H^-1 V / (V - 1),
    with the second derivative H of the log-likelihood and the gradient s_v of the votes of voter v, of V voters.

    Args:
        model: The pairs, and which parameters are estimated.
        cells: The votes, by voter.
        counts: Left wins, right wins and ties that the parameters were fitted to, (P, 3).
        parameters: The fitted parameters, (D,).
        both_bad_is_tie: Whether votes with the outcome "both bad" are rated as ties.

    Returns:
        The covariance, (D, D), in squared log odds.
    """
    _, information = _derivatives(model, parameters[None], counts[None])
    # As in `fit_ratings`, curvature is added in the direction in which all ratings grow alike, so that the matrix can be
    # inverted. It is removed again afterwards.
    regularisation = np.zeros((model.size, model.size))
    regularisation[: model.models, : model.models] = 1 / model.models
    bread = np.linalg.inv(information[0] + regularisation)
    bread[: model.models, : model.models] -= 1 / model.models

    gradient_per_cell = _vote_gradients(model, parameters, both_bad_is_tie)  # (4 P, D)
    gradient_per_voter = cells.by_voter @ gradient_per_cell  # (V, D)
    meat = gradient_per_voter.T @ gradient_per_voter
    voters = len(gradient_per_voter)
    return np.asarray(bread @ meat @ bread * voters / max(voters - 1, 1))


def _probabilities(model: PairModel, parameters: Array) -> tuple[Array, Array, Array]:
    """Return the probabilities of left, right and tie, each of shape (B, P), for parameters of shape (B, D).

    Without `ties`, the model has two outcomes, and a tie has probability 0.
    """
    width = model.design.shape[1]
    eta = (model.design @ parameters[:, :width].T).T
    if not model.ties:
        left = _logistic(eta)
        return left, 1 - left, np.zeros_like(left)
    half = np.clip(eta / 2, -300, 300)  # the exponential of more overflows
    left_odds = np.exp(half)
    right_odds = np.exp(-half)
    tie_odds = np.exp(parameters[:, -1:])  # (B, 1): nu, which is fitted as a logarithm
    total = left_odds + right_odds + tie_odds
    return left_odds / total, right_odds / total, tie_odds / total


def _derivatives(model: PairModel, parameters: Array, counts: Array) -> tuple[Array, Array]:
    """Return the derivatives of the log-likelihood of B resamples at their parameters.

    Args:
        model: The pairs, and which parameters are estimated.
        parameters: The parameters, (B, D).
        counts: Left wins, right wins and ties of each pair, (B, P, 3).

    Returns:
        The gradient, (B, D), and the information matrix (minus the second derivative), (B, D, D).
    """
    left, right, tie = _probabilities(model, parameters)
    left_wins = counts[..., LEFT]
    right_wins = counts[..., RIGHT]
    ties = counts[..., TIE]
    total = counts.sum(axis=2)
    width = model.design.shape[1]
    gradient = np.empty_like(parameters)
    information = np.empty((len(parameters), model.size, model.size))

    # `residual` and `curvature` are the first derivative and minus the second one with respect to eta, (B, P).
    if model.ties:
        advantage = left - right
        residual = (left_wins - right_wins - total * advantage) / 2
        curvature = total * (left + right - advantage**2) / 4
        gradient[:, -1] = (ties - total * tie).sum(axis=1)
        mixed = -total * advantage * tie / 2  # by eta and log nu
        mixed_information = (model.design.T @ mixed.T).T
        information[:, :width, -1] = mixed_information
        information[:, -1, :width] = mixed_information
        information[:, -1, -1] = (total * tie * (1 - tie)).sum(axis=1)
    else:
        residual = left_wins + ties / 2 - total * left
        curvature = total * left * right

    # The chain rule from eta to the parameters.
    gradient[:, :width] = (model.design.T @ residual.T).T
    squares = (model.squares.T @ curvature.T).T  # (B, width^2)
    information[:, :width, :width] = squares.reshape(-1, width, width)
    return gradient, information


def _vote_gradients(model: PairModel, parameters: Array, both_bad_is_tie: bool) -> Array:
    """Return the gradient of the log-likelihood of a single vote in each cell, shape (4 P, D).

    Row 4 p + o is for outcome o of pair p. Rows of outcomes that are not rated are 0.
    """
    left, right, tie = (probability[0] for probability in _probabilities(model, parameters[None]))
    pairs = len(left)
    width = model.design.shape[1]
    advantage = left - right
    by_eta = np.zeros((pairs, 4))  # derivative by eta, for each pair and outcome
    by_log_nu = np.zeros((pairs, 4))
    if model.ties:
        by_eta[:, LEFT] = (1 - advantage) / 2
        by_eta[:, RIGHT] = (-1 - advantage) / 2
        by_eta[:, TIE] = -advantage / 2
        by_log_nu[:, LEFT] = -tie
        by_log_nu[:, RIGHT] = -tie
        by_log_nu[:, TIE] = 1 - tie
    else:
        by_eta[:, LEFT] = 1 - left
        by_eta[:, RIGHT] = -left
        by_eta[:, TIE] = 0.5 - left
    if both_bad_is_tie:
        by_eta[:, BOTH_BAD] = by_eta[:, TIE]
        by_log_nu[:, BOTH_BAD] = by_log_nu[:, TIE]

    gradients = np.zeros((4 * pairs, model.size))
    design_of_cells = np.repeat(model.design.toarray(), 4, axis=0)
    gradients[:, :width] = design_of_cells * by_eta.reshape(-1, 1)
    if model.ties:
        gradients[:, -1] = by_log_nu.ravel()
    return gradients


def _logistic(eta: Array) -> Array:
    """Return 1 / (1 + exp(-eta)), clipped so that the exponential does not overflow."""
    return np.asarray(1 / (1 + np.exp(-np.clip(eta, -600, 600))))


# --- online Elo ------------------------------------------------------------------------------------------------------
# Each vote changes the ratings of its two models at once, so that the order of votes matters. Early arenas published
# these ratings.


def elo_ratings(votes: Votes, settings: RatingSettings) -> Array:
    """Return the Elo ratings of the M models after all votes in their order, shape (M,), in points.

    After each vote, R_a += K (S - 1 / (1 + base^((R_b - R_a) / scale))), where S is 1 for a win of a, 0.5 for a tie and
    0 for a loss. "Both bad" is ignored, or counts as a tie if the settings say so.
    """
    return _elo_after(votes, settings, np.arange(votes.count))


def resampled_elo(votes: Votes, settings: RatingSettings, rng: np.random.Generator) -> Array:
    """Return the Elo ratings of B bootstrap resamples, shape (B, M), in points.

    A resample draws as many voters as there are, with replacement, and takes all votes of the drawn voters in random
    order, as FastChat's bootstrap does. So the spread is that of voters and of orders together.
    """
    votes_by_voter = np.argsort(votes.voter, kind="stable")
    votes_per_voter = np.bincount(votes.voter, minlength=votes.voters)
    first_of_voter = np.cumsum(votes_per_voter) - votes_per_voter  # indices in `votes_by_voter`
    ratings = []
    for _ in range(settings.resamples):
        drawn_voters = rng.integers(0, votes.voters, votes.voters)
        counts = votes_per_voter[drawn_voters]
        # The votes of each drawn voter are the entries first, first + 1, ..., first + count - 1 of `votes_by_voter`.
        counts_before = np.cumsum(counts) - counts
        offsets = np.arange(counts.sum()) - np.repeat(counts_before, counts)
        entries = np.repeat(first_of_voter[drawn_voters], counts) + offsets
        drawn_votes = votes_by_voter[entries]
        ratings.append(_elo_after(votes, settings, rng.permutation(drawn_votes)))
    return np.stack(ratings)


def shuffled_elo(
    votes: Votes, settings: RatingSettings, orders: int, rng: np.random.Generator
) -> Array:
    """Return the Elo ratings of the same votes in random orders, shape (orders, M), in points.

    Their spread shows how much a rating depends on the order of votes alone.
    """
    ratings = []
    for _ in range(orders):
        order = rng.permutation(votes.count)
        ratings.append(_elo_after(votes, settings, order))
    return np.stack(ratings)


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

    # Plain numbers in lists are used, because a step with arrays takes ten times as long.
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
