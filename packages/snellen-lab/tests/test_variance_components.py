"""Shares of variance, by closed form, by another program's sums of squares, and on data whose variances are known."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats as witness

from snellen.errors import DataError
from snellen_lab.rank_correlation import spearman
from snellen_lab.studies.variance_components import RESIDUAL, variance_components


def test_two_crossed_factors_come_out_as_by_hand() -> None:
    # Two prompts and three questions: rows 1 2 6 and 3 2 10; means 3 and 5, 2 and 2 and 8, grand mean 4.
    components = {
        c.source: c for c in variance_components(("prompt", "item"), (2, 3), [1, 2, 6, 3, 2, 10])
    }
    squares = {name: component.mean_square for name, component in components.items()}
    assert squares == pytest.approx({"prompt": 6, "item": 48 / 2, RESIDUAL: 4 / 2})
    variances = {name: component.variance for name, component in components.items()}
    assert variances == pytest.approx({"prompt": (6 - 2) / 3, "item": (24 - 2) / 2, RESIDUAL: 2})
    assert {name: component.df for name, component in components.items()} == {
        "prompt": 1,
        "item": 2,
        RESIDUAL: 2,
    }
    assert components["item"].share == pytest.approx(11 / (4 / 3 + 11 + 2))


def test_prompts_that_change_nothing_have_no_share() -> None:
    components = variance_components(("prompt", "item"), (3, 4), [0, 1, 1, 0] * 3)
    assert [component.share for component in components] == [0, 1, 0]


def test_scores_that_are_all_the_same_have_no_shares() -> None:
    assert [c.share for c in variance_components(("prompt", "item"), (2, 2), [1, 1, 1, 1])] == [
        0,
        0,
        0,
    ]


def test_a_factor_with_one_level_is_left_out() -> None:
    with_it = variance_components(("seed", "prompt", "item"), (1, 2, 3), [1, 2, 6, 3, 2, 10])
    assert with_it == variance_components(("prompt", "item"), (2, 3), [1, 2, 6, 3, 2, 10])


def test_a_single_factor_is_no_residual() -> None:
    [component] = variance_components(("item",), (3,), [1.0, 2.0, 3.0])
    assert (component.source, component.variance, component.share) == (
        "item",
        pytest.approx(1.0),
        1.0,
    )


@pytest.mark.parametrize(
    ("sizes", "values", "fault"),
    [
        ((2, 3), [1.0] * 5, "5 values are not a full crossing of 2 x 3 levels"),
        ((1, 1), [1.0], "a factor with two levels"),
    ],
)
def test_what_is_no_crossing_is_refused(
    sizes: tuple[int, ...], values: list[float], fault: str
) -> None:
    with pytest.raises(DataError, match=fault):
        variance_components(("prompt", "item"), sizes, values)


@given(st.lists(st.integers(2, 4), min_size=1, max_size=4), st.integers(0, 10**6))
def test_sums_of_squares_are_those_of_projections_and_add_up(sizes: list[int], seed: int) -> None:
    """Witness: each subset's effects by averaging and centring along the axes of an array."""
    cube = np.random.default_rng(seed).normal(size=sizes)
    names = [f"f{i}" for i in range(len(sizes))]
    components = variance_components(names, sizes, cube.ravel().tolist())
    for component in components:
        effects = cube
        for axis, name in enumerate(names):
            mean = effects.mean(axis=axis, keepdims=True)
            effects = (
                effects - mean
                if name in component.factors
                else np.broadcast_to(mean, effects.shape)
            )
        assert component.mean_square * component.df == pytest.approx(
            float((effects**2).sum()), abs=1e-9
        )
    assert sum(component.df for component in components) == cube.size - 1
    assert sum(c.mean_square * c.df for c in components) == pytest.approx(
        float(((cube - cube.mean()) ** 2).sum())
    )


@pytest.mark.parametrize("sizes", [{"prompt": 6, "item": 30}, {"prompt": 5, "seed": 3, "item": 20}])
def test_variances_that_are_known_are_found_on_average(sizes: dict[str, int]) -> None:
    """Unbiased: the mean over simulated studies is within 4 standard errors of the truth, 0 included."""
    rng, replicates = np.random.default_rng(7), 300
    subsets = [s for n in range(1, len(sizes) + 1) for s in itertools.combinations(sizes, n)]
    truth = {subset: (0.0, 0.5, 2.0)[i % 3] for i, subset in enumerate(subsets)} | {
        tuple(sizes): 1.0
    }
    found: dict[tuple[str, ...], list[float]] = {subset: [] for subset in subsets}
    for _ in range(replicates):
        cube = np.zeros(tuple(sizes.values()))
        for subset, variance in truth.items():
            shape = [size if name in subset else 1 for name, size in sizes.items()]
            cube = cube + rng.normal(scale=math.sqrt(variance), size=shape)
        for component in variance_components(
            list(sizes), list(sizes.values()), cube.ravel().tolist()
        ):
            found[component.factors].append(component.variance)
    for subset, variance in truth.items():
        error = float(np.std(found[subset], ddof=1)) / math.sqrt(replicates)
        assert abs(float(np.mean(found[subset])) - variance) < 4 * error, subset


# --- rank correlation --------------------------------------------------------------------------------------------


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=6, max_size=40))
def test_spearmans_correlation_is_scipys(pairs: list[tuple[int, int]]) -> None:
    x, y = [float(a) for a, _ in pairs], [float(b) for _, b in pairs]
    mine = spearman(x, y, len(x))
    if len(set(x)) == 1 or len(set(y)) == 1:
        assert mine.value is None
    else:
        assert mine.value == pytest.approx(witness.spearmanr(x, y).statistic)


def test_the_interval_of_a_rank_correlation_covers_the_true_one() -> None:
    """Of 400 samples of 50 normal pairs with r = 0.6; Spearman's is then 6 / pi asin(r / 2)."""
    rng, truth = np.random.default_rng(3), 6 / math.pi * math.asin(0.3)
    covered = 0
    for _ in range(400):
        x, e = rng.normal(size=50), rng.normal(size=50)
        mine = spearman(x.tolist(), (0.6 * x + 0.8 * e).tolist(), 50)
        covered += (mine.low or 0) <= truth <= (mine.high or 0)
    assert 0.92 <= covered / 400 <= 0.98


def test_a_perfect_correlation_or_few_pictures_have_no_interval() -> None:
    assert spearman([1, 2, 3, 4, 5, 6], [1, 2, 3, 4, 5, 6], 6).low is None
    assert spearman([1, 2, 3, 4], [1, 3, 2, 4], 4).low is None
