"""Tests that find voters who vote unlike all others. Each voter has three tests:

    crowd   Fisher's combination of a p-value for each vote: the share of other voters' votes on the same pair that
            were at least as favourable, or as unfavourable, to one side (Chiang et al., "Chatbot Arena", 2024,
            section 5.2)
    side    z test of how often the left side was chosen
    model   z test of the score of a single model, for each model, corrected for their number (Bonferroni)

The expected outcomes of a vote are those that all other voters gave to the same two models. A voter's p-value is the
smallest of the three times three, and the voter is flagged if its Benjamini-Hochberg value is below a limit. A voter of
uncommon taste is unlike others too, so a flag is a reason to look and not a proof.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from msgspec import Struct
from scipy import stats

from snellen_server.arena_ratings.log import OUTCOMES
from snellen_server.arena_ratings.votes import LEFT, RIGHT, Array, Votes

FEWEST_VOTES = 10
"""Votes that a voter needs to be tested, and that other voters must have cast on a pair of models to compare with."""
FALSE_DISCOVERIES = 0.01
"""Expected share of honest voters among the flagged ones."""
TESTS = ("crowd", "side", "model")


class VoterCheck(Struct, frozen=True):
    """How the votes of one voter differ from those of all others."""

    voter: str
    """The voter's pseudonym; "" if it is unknown."""
    number: int
    """The voter's number in `Votes.voter`."""
    votes: int
    """Number of votes that could be compared with those of others."""
    left: float
    """Share of these votes that are for the left side; a tie is half a vote for it."""
    expected_left: float
    """The share that is expected from the votes of others."""
    model: str
    """The model whose score differs most from what is expected."""
    surprise: float
    """The mean score of that model minus the expected one, in [-1, 1]."""
    p_values: tuple[float, float, float]
    """In the order of `TESTS`."""
    adjusted: float
    """Benjamini-Hochberg value of three times the smallest of them."""

    @property
    def flagged(self) -> bool:
        return self.adjusted < FALSE_DISCOVERIES

    @property
    def test(self) -> str:
        """Name of the test with the smallest p-value."""
        return TESTS[int(np.argmin(self.p_values))]


def check_voters(votes: Votes) -> tuple[VoterCheck, ...]:
    """Test each voter who has at least `FEWEST_VOTES` votes that can be compared with those of others.

    Returns:
        A result for each tested voter, the smallest p-value first.
    """
    compared = _ComparedVotes.of(votes)
    tested = np.flatnonzero(compared.votes_of_voter >= FEWEST_VOTES)
    if not len(tested):
        return ()
    crowd = compared.crowd_p_values()[tested]
    side = compared.side_p_values()[tested]
    model, favourite, surprise = compared.favourites(tested)
    smallest = np.minimum(np.minimum(crowd, side), model)
    corrected = np.minimum(1.0, 3 * smallest)  # Bonferroni, for three tests
    adjusted = stats.false_discovery_control(corrected)

    names = _voter_names(votes)
    counts = np.maximum(compared.votes_of_voter, 1)
    left_share = compared.sum_by_voter(compared.score) / counts
    expected_left_share = compared.sum_by_voter(compared.expected_score) / counts
    checks = []
    for row, number in enumerate(tested):
        check = VoterCheck(
            voter=names[int(number)],
            number=int(number),
            votes=int(compared.votes_of_voter[number]),
            left=float(left_share[number]),
            expected_left=float(expected_left_share[number]),
            model=votes.models[int(favourite[row])],
            surprise=float(surprise[row]),
            p_values=(float(crowd[row]), float(side[row]), float(model[row])),
            adjusted=float(adjusted[row]),
        )
        checks.append(check)

    def smallest_p_then_number(check: VoterCheck) -> tuple[float, int]:
        return min(check.p_values), check.number

    return tuple(sorted(checks, key=smallest_p_then_number))


def _voter_names(votes: Votes) -> Sequence[str]:
    """Return the pseudonym of each voter, by voter number; "" for a vote without a known voter."""
    _, first_votes = np.unique(votes.voter, return_index=True)
    pseudonyms = votes.table["voter"].gather(first_votes.tolist()).to_list()
    return [pseudonym or "" for pseudonym in pseudonyms]


class _ComparedVotes:
    """The votes on pairs of models that enough other voters voted on, with the scores that those votes lead to expect."""

    def __init__(self, votes: Votes, comparable: Array, score: Array, other_counts: Array) -> None:
        """Select the comparable votes, and compute the mean and variance that is expected of each score.

        Args:
            votes: All N votes.
            comparable: Whether enough other voters voted on the same pair of models, Booleans of shape (N,).
            score: Score of the left model, 0, 0.5 or 1, shape (N,).
            other_counts: How many votes of other voters gave each of these scores to the same pair, shape (N, 3).
        """
        self.votes = votes
        self.voter = votes.voter[comparable]
        self.left = votes.left[comparable]
        self.right = votes.right[comparable]
        self.score = score[comparable]
        self.other_counts = other_counts[comparable]
        shares = self.other_counts / self.other_counts.sum(axis=1, keepdims=True)
        self.expected_score = shares @ _SCORES
        self.variance = shares @ _SCORES**2 - self.expected_score**2
        self.votes_of_voter = np.bincount(self.voter, minlength=votes.voters)

    @classmethod
    def of(cls, votes: Votes) -> _ComparedVotes:
        """Count for each vote how often all other voters gave each score to the same pair of models."""
        model_count = len(votes.models)
        score_count = len(_SCORES)
        # Both orders of a pair of models are the same pair, seen from the model with the smaller index: if the two were
        # shown the other way round, a win of the left one is a loss.
        is_swapped = votes.left > votes.right
        first_model = np.minimum(votes.left, votes.right)
        second_model = np.maximum(votes.left, votes.right)
        left_column = _SCORE_COLUMN[votes.outcome]
        column = np.where(is_swapped, score_count - 1 - left_column, left_column)

        # How many votes gave each score to each pair: by all voters, and by each voter. Both have three columns.
        pair_codes = first_model * model_count + second_model
        pairs, pair = np.unique(pair_codes, return_inverse=True)
        cells = pair * score_count + column
        counts = np.bincount(cells, minlength=len(pairs) * score_count)
        counts = counts.reshape(-1, score_count)
        voter_and_pair = votes.voter * len(pairs) + pair
        voter_pairs, voter_pair = np.unique(voter_and_pair, return_inverse=True)
        own_cells = voter_pair * score_count + column
        own_counts = np.bincount(own_cells, minlength=len(voter_pairs) * score_count)
        own_counts = own_counts.reshape(-1, score_count)

        other_counts = (counts[pair] - own_counts[voter_pair]).astype(float)
        # Back to the view of the model that was on the left.
        other_counts = np.where(is_swapped[:, None], other_counts[:, ::-1], other_counts)
        is_comparable = other_counts.sum(axis=1) >= FEWEST_VOTES
        return cls(votes, is_comparable, _SCORES[left_column], other_counts)

    def sum_by_voter(self, values: Array) -> Array:
        """Sum a value of each comparable vote by voter. Returns shape (V,)."""
        return np.bincount(self.voter, values, minlength=self.votes.voters)

    def side_p_values(self) -> Array:
        """Return the two-sided p-value of each voter's preference for the left or the right side, shape (V,).

        The preference is compared with that of all voters together.
        """
        if not len(self.score):
            return _two_sided_p_values(np.zeros(self.votes.voters), np.zeros(self.votes.voters))
        excess = self.score - self.expected_score
        sums = self.sum_by_voter(excess - np.mean(excess))
        return _two_sided_p_values(sums, self.sum_by_voter(self.variance))

    def favourites(self, tested: Array) -> tuple[Array, Array, Array]:
        """Find for each voter the model whose scores differ most from what is expected, in either direction.

        Args:
            tested: Numbers of the voters to test, shape (T,).

        Returns:
            Three arrays of shape (T,): the p-value of the difference, corrected for the number of models; the index of the
            model; and its mean score minus the expected one.
        """
        voter_count = self.votes.voters
        model_count = len(self.votes.models)
        excess = self.score - self.expected_score

        # Each vote counts for both its models: what the left one gains, the right one loses.
        voter = np.tile(self.voter, 2)
        model = np.concatenate([self.left, self.right])
        cells = voter * model_count + model
        excess_of_model = np.concatenate([excess, -excess])
        variance = np.tile(self.variance, 2)

        # Sums by voter and model, of the tested voters: shape (T, M).
        cell_count = voter_count * model_count
        shape = (voter_count, model_count)
        sums = np.bincount(cells, excess_of_model, minlength=cell_count).reshape(shape)[tested]
        variances = np.bincount(cells, variance, minlength=cell_count).reshape(shape)[tested]
        counts = np.bincount(cells, minlength=cell_count).reshape(shape)[tested]

        has_enough_votes = counts >= FEWEST_VOTES // 2
        p_values = np.where(has_enough_votes, _two_sided_p_values(sums, variances), 1.0)
        favourite = p_values.argmin(axis=1)
        rows = np.arange(len(tested))
        models_compared = np.maximum(has_enough_votes.sum(axis=1), 1)
        corrected = np.minimum(1.0, p_values[rows, favourite] * models_compared)
        mean_excess = sums[rows, favourite] / np.maximum(counts[rows, favourite], 1)
        return corrected, favourite, mean_excess

    def crowd_p_values(self) -> Array:
        """Return the p-value of each voter's votes together, by Fisher's combination, shape (V,).

        The p-value of a single vote is (1 + n) / (1 + N), where n of the N votes of others on the same pair have at least
        its score, or at most its score. Both directions are combined over all votes, and the smaller result is doubled.
        """
        column = np.searchsorted(_SCORES, self.score)
        rows = np.arange(len(column))
        # For each vote and each score, how many votes of others have at most, or at least, that score: shape (n, 3).
        at_most = self.other_counts.cumsum(axis=1)
        at_least = self.other_counts[:, ::-1].cumsum(axis=1)[:, ::-1]
        total = 1 + self.other_counts.sum(axis=1)
        degrees_of_freedom = 2 * np.maximum(self.votes_of_voter, 1)
        combined = []
        for counts in (at_least, at_most):
            vote_p_values = (1 + counts[rows, column]) / total
            statistic = -2 * self.sum_by_voter(np.log(vote_p_values))
            combined.append(stats.chi2.sf(statistic, degrees_of_freedom))
        smaller = np.minimum(combined[0], combined[1])
        return np.asarray(np.minimum(1.0, 2 * smaller))


_SCORES = np.array([0.0, 0.5, 1.0])
"""Scores of the left model: 0 if it lost, 0.5 for a tie or "both bad", 1 if it won."""
_SCORE_COLUMN = np.ones(len(OUTCOMES), dtype=np.int64)
"""Index in `_SCORES` of the score of the left model, by outcome."""
_SCORE_COLUMN[LEFT] = 2
_SCORE_COLUMN[RIGHT] = 0


def _two_sided_p_values(sums: Array, variances: Array) -> Array:
    """Return two-sided p-values of sums that are normal with mean 0 and these variances; 1 if the variance is 0."""
    deviation = np.sqrt(variances)
    z_scores = np.divide(sums, deviation, out=np.zeros_like(sums), where=deviation > 0)
    return np.asarray(2 * stats.norm.sf(np.abs(z_scores)))
