"""Voters whose votes are unlike those of all others: three tests for each voter, and what is left when many are made.

    crowd   Fisher's combination of a p-value for each vote: how rare so good a vote for one side of the pair, or so
            bad, is among the votes of others (Chiang et al., "Chatbot Arena", 2024, section 5.2)
    side    z test of how often the left side was chosen
    model   z test of how a single model fared, for each model, corrected for their number (Bonferroni)

Expected are the outcomes that the same two models had with all other voters. A voter's p-value is the least of the
three times three; of all voters those are flagged whose Benjamini-Hochberg value is below a limit. A voter of uncommon
taste is unlike others too: a flag is a reason to look, not a proof.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from msgspec import Struct
from scipy import stats

from snellen_server.arena_ratings.log import OUTCOMES
from snellen_server.arena_ratings.votes import LEFT, RIGHT, Array, Votes

FEWEST_VOTES = 10
"""Votes of which a voter's are tested, and votes of others that a pair needs to be compared with."""
FALSE_DISCOVERIES = 0.01
"""Expected share of honest voters among those flagged."""
TESTS = ("crowd", "side", "model")


class VoterCheck(Struct, frozen=True):
    """One voter's votes against those of others."""

    voter: str
    number: int
    """The voter's number in `Votes.voter`."""
    votes: int
    left: float
    """Share of the left side; a tie is half."""
    expected_left: float
    model: str
    """The model that fared least as expected, and by how much: mean score above expectation."""
    surprise: float
    p_values: tuple[float, float, float]
    """By the tests in `TESTS`."""
    adjusted: float
    """Benjamini-Hochberg value of the least of them, times three."""

    @property
    def flagged(self) -> bool:
        return self.adjusted < FALSE_DISCOVERIES

    @property
    def test(self) -> str:
        """The test with the least p-value."""
        return TESTS[int(np.argmin(self.p_values))]


def check_voters(votes: Votes) -> tuple[VoterCheck, ...]:
    """Voters of at least `FEWEST_VOTES` votes that can be compared with others', the least p-value first."""
    compared = _Compared.of(votes)
    tested = np.flatnonzero(compared.per_voter >= FEWEST_VOTES)
    if not len(tested):
        return ()
    crowd = compared.crowd()[tested]
    side = compared.side()[tested]
    model, favourite, surprise = compared.favourites(tested)
    least = np.minimum(1.0, 3 * np.minimum(np.minimum(crowd, side), model))
    adjusted = stats.false_discovery_control(least).tolist()
    names = _names(votes)
    counts = np.maximum(compared.per_voter[tested], 1)
    left_share = compared.sums(compared.score)[tested] / counts
    expected_left_share = compared.sums(compared.mean)[tested] / counts
    checks = [
        VoterCheck(
            names[int(number)],
            int(number),
            int(compared.per_voter[number]),
            float(left_share[row]),
            float(expected_left_share[row]),
            votes.models[int(favourite[row])],
            float(surprise[row]),
            (float(crowd[row]), float(side[row]), float(model[row])),
            adjusted[row],
        )
        for row, number in enumerate(tested)
    ]
    return tuple(sorted(checks, key=lambda check: (min(check.p_values), check.number)))


def _names(votes: Votes) -> Sequence[str]:
    """Return the pseudonym of each voter by number; a vote of nobody known has none."""
    _, first = np.unique(votes.voter, return_index=True)
    return [name or "" for name in votes.table["voter"].gather(first.tolist()).to_list()]


class _Compared:
    """The votes on pairs that enough others voted on, with the mean and variance of their scores for the left side."""

    def __init__(self, votes: Votes, comparable: Array, score: Array, other_counts: Array) -> None:
        """Keep the comparable votes, and what other voters lead one to expect of each.

        Args:
            votes: All N votes.
            comparable: (N,) whether enough other voters voted on the same pair of models.
            score: (N,) score of the left model: 0, 0.5 or 1.
            other_counts: (N, 3) how often other voters gave each of these scores to the same pair.
        """
        self.votes = votes
        self.voter = votes.voter[comparable]
        self.left = votes.left[comparable]
        self.right = votes.right[comparable]
        self.score = score[comparable]
        self.others = other_counts[comparable]
        shares = self.others / self.others.sum(axis=1, keepdims=True)
        self.mean = shares @ _SCORES
        self.variance = shares @ _SCORES**2 - self.mean**2
        self.per_voter = np.bincount(self.voter, minlength=votes.voters)

    @classmethod
    def of(cls, votes: Votes) -> _Compared:
        """Count, for each vote, how often all other voters chose each outcome on the same pair of models."""
        size = len(votes.models)
        width = len(_SCORES)
        # Both orders of a pair are one, seen from its first model: a win of the left is a loss when sides are turned.
        is_turned = votes.left > votes.right
        first = np.minimum(votes.left, votes.right)
        second = np.maximum(votes.left, votes.right)
        column = _COLUMN[votes.outcome]
        outcome = np.where(is_turned, width - 1 - column, column)

        # How often each pair had each outcome, with all voters and with this voter.
        pairs, pair = np.unique(first * size + second, return_inverse=True)
        totals = np.bincount(pair * width + outcome, minlength=len(pairs) * width)
        totals = totals.reshape(-1, width)
        voter_pairs, voter_pair = np.unique(votes.voter * len(pairs) + pair, return_inverse=True)
        own_counts = np.bincount(voter_pair * width + outcome, minlength=len(voter_pairs) * width)
        own_counts = own_counts.reshape(-1, width)

        other_counts = (totals[pair] - own_counts[voter_pair]).astype(float)
        other_counts = np.where(is_turned[:, None], other_counts[:, ::-1], other_counts)
        is_comparable = other_counts.sum(axis=1) >= FEWEST_VOTES
        return cls(votes, is_comparable, _SCORES[column], other_counts)

    def sums(self, values: Array) -> Array:
        """Return (V,) sums of a value of each comparable vote, by voter."""
        return np.bincount(self.voter, values, minlength=self.votes.voters)

    def side(self) -> Array:
        """Return the (V,) two-sided p-values of the share of the left side, beyond what it has with everybody."""
        usual_excess = np.mean(self.score - self.mean) if len(self.score) else 0.0
        return _two_sided(
            self.sums(self.score - self.mean - usual_excess), self.sums(self.variance)
        )

    def favourites(self, tested: Array) -> tuple[Array, Array, Array]:
        """Find the model that each voter's votes favour, or disfavour, most against expectation.

        Args:
            tested: (T,) numbers of the voters to test.

        Returns:
            For each of these voters the p-value, corrected for the number of models; the model; and its mean score
            above expectation. Each of shape (T,).
        """
        size = len(self.votes.models)
        shape = (self.votes.voters, size)
        # A cell is a voter and a model; each vote is in the cells of both its models.
        cells = np.concatenate([self.voter * size + self.left, self.voter * size + self.right])
        excess = self.score - self.mean
        excesses = np.concatenate([excess, -excess])
        variance = np.tile(self.variance, 2)
        sums = np.bincount(cells, excesses, minlength=shape[0] * size).reshape(shape)[tested]
        variances = np.bincount(cells, variance, minlength=shape[0] * size).reshape(shape)[tested]
        counts = np.bincount(cells, minlength=shape[0] * size).reshape(shape)[tested]

        enough = counts >= FEWEST_VOTES // 2
        p_values = np.where(enough, _two_sided(sums, variances), 1.0)
        favourite = p_values.argmin(axis=1)
        rows = np.arange(len(tested))
        n_compared = np.maximum(enough.sum(axis=1), 1)
        corrected = np.minimum(1.0, p_values[rows, favourite] * n_compared)
        mean_excess = sums[rows, favourite] / np.maximum(counts[rows, favourite], 1)
        return corrected, favourite, mean_excess

    def crowd(self) -> Array:
        """Return (V,) p-values of each voter's votes together, by Fisher's combination.

        The p-value of a vote is (1 + others who scored at least as high) / (1 + others), or at most as high. Both
        directions are combined, and the smaller result is doubled.
        """
        total = 1 + self.others.sum(axis=1)
        column = np.searchsorted(_SCORES, self.score)
        at_least = self.others[:, ::-1].cumsum(axis=1)[:, ::-1]
        at_most = self.others.cumsum(axis=1)
        rows = np.arange(len(column))
        degrees = 2 * np.maximum(self.per_voter, 1)
        combined = []
        for tail in (at_least, at_most):
            vote_p_values = (1 + tail[rows, column]) / total
            combined.append(stats.chi2.sf(-2 * self.sums(np.log(vote_p_values)), degrees))
        smaller = np.minimum(combined[0], combined[1])
        return np.asarray(np.minimum(1.0, 2 * smaller))


_SCORES = np.array([0.0, 0.5, 1.0])
"""Scores of the left side: it lost, a tie or both bad, it won."""
_COLUMN = np.array([{LEFT: 2, RIGHT: 0}.get(outcome, 1) for outcome in range(len(OUTCOMES))])


def _two_sided(sums: Array, variances: Array) -> Array:
    """Two-sided normal p-values of sums whose expectation is 0; 1 where nothing varies."""
    deviation = np.sqrt(variances)
    z_scores = np.divide(sums, deviation, out=np.zeros_like(sums), where=deviation > 0)
    return np.asarray(2 * stats.norm.sf(np.abs(z_scores)))
