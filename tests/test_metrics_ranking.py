"""Ranking and dialogue trends: closed forms, printed tables of Student's t, numpy as second program."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from snellen.analysis.linearisation import round_trend
from snellen.errors import DataError
from snellen.scoring.ranking import gold_rank, ndcg
from snellen.suites.lvlm_ehub.extraction import visdial_reciprocal_rank

scores = st.lists(st.integers(-5, 5).map(float), min_size=2, max_size=12)


def test_ranks_by_hand():
    assert gold_rank([0.1, 0.9, 0.5], 1) == 1
    assert gold_rank([0.1, 0.9, 0.5], 0) == 3
    assert gold_rank([0.5, 0.5, 0.1], 0) == 1.5
    assert gold_rank([0.0] * 100, 17) == 50.5


@given(scores, st.randoms(use_true_random=False), st.integers(0, 11))
def test_the_gold_ranks_the_same_wherever_it_stands_in_the_file(values, draw, gold):
    gold %= len(values)
    order = list(range(len(values)))
    draw.shuffle(order)
    assert gold_rank([values[i] for i in order], order.index(gold)) == gold_rank(values, gold)
    assert 1 <= gold_rank(values, gold) <= len(values)


@given(scores)
def test_the_ranks_of_all_candidates_sum_to_the_triangular_number(values):
    n = len(values)
    assert sum(gold_rank(values, gold) for gold in range(n)) == n * (n + 1) / 2


def test_legacy_reciprocal_rank_reads_the_file_order_and_not_the_gold():
    """The right answer stands third; a short wrong one stands first and inside every reply."""
    options = ["no", "yes", "no, it is a cat"]
    assert visdial_reciprocal_rank("no, it is a cat", options) == 1.0
    assert visdial_reciprocal_rank("maybe", options) == 0.0
    assert gold_rank([-2.0, -3.0, -0.1], 2) == 1.0


def test_ndcg_by_hand():
    """Two relevant candidates, so K = 2; the better one stands second and the other third."""
    assert ndcg([3.0, 2.0, 1.0], [0.0, 1.0, 0.5]) == pytest.approx(
        (1 / math.log2(3)) / (1 + 0.5 / math.log2(3))
    )
    assert ndcg([1.0, 3.0, 2.0], [0.0, 1.0, 0.5]) == pytest.approx(1.0)


@given(scores, st.data())
def test_ndcg_is_bounded_and_unmoved_by_order_and_by_scaling_scores(values, data):
    relevance = data.draw(
        st.lists(st.sampled_from([0.0, 0.2, 1.0]), min_size=len(values), max_size=len(values))
    )
    assume(max(relevance) > 0)
    value = ndcg(values, relevance)
    assert 0.0 <= value <= 1.0 + 1e-12
    assert ndcg(values[::-1], relevance[::-1]) == pytest.approx(value)
    assert ndcg([3 * score + 1 for score in values], relevance) == pytest.approx(value)
    assert ndcg(relevance, relevance) == pytest.approx(1.0)


def test_rankings_of_nothing_or_of_nan_are_refused():
    for fault in (
        lambda: gold_rank([], 0),
        lambda: gold_rank([float("nan"), 1.0], 0),
        lambda: gold_rank([1.0], 1),
        lambda: ndcg([1.0, 2.0], [0.0, 0.0]),
        lambda: ndcg([1.0, 2.0], [1.0]),
        lambda: ndcg([1.0, 2.0], [-1.0, 1.0]),
    ):
        with pytest.raises(DataError):
            fault()


def test_a_falling_dialogue_by_hand():
    """Accuracies 4, 3, 3, 2 (of ten) in rounds 1 to 4: slope -6/10 tenths a round, r = -3 / sqrt(5 * 2)."""
    assert round_trend([0.4, 0.3, 0.3, 0.2]) == (
        pytest.approx(-3 / math.sqrt(10)),
        pytest.approx(-0.06),
    )


accuracies = st.lists(st.integers(0, 1000).map(lambda k: k / 1000), min_size=3, max_size=12)


@given(accuracies)
def test_correlation_and_slope_are_those_of_numpy(values):
    correlation, slope = round_trend(values)
    rounds = np.arange(1, len(values) + 1)
    assert slope == pytest.approx(np.polyfit(rounds, values, 1)[0], abs=1e-9)
    if len(set(values)) == 1:
        assert correlation is None
    else:
        assert correlation == pytest.approx(np.corrcoef(rounds, values)[0, 1], abs=1e-9)


@given(accuracies)
def test_a_dialogue_told_backwards_has_the_opposite_trend(values):
    correlation, slope = round_trend(values)
    correlation_back, slope_back = round_trend(values[::-1])
    assert slope_back == pytest.approx(-slope, abs=1e-12)
    if correlation is not None:
        assert correlation_back == pytest.approx(-correlation, abs=1e-12)
