"""Estimates against hand values, brute force and simulation."""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from snellen.analysis.combined_estimates import mean_of_estimates
from snellen.analysis.group_means import estimate_mean
from snellen.analysis.group_spread import group_spread
from snellen.analysis.intervals import (
    NO_BOUNDS,
    UNIT_INTERVAL,
    score_interval,
    share_interval,
    wilson,
)
from snellen.analysis.quantiles import MAX_RARE_COUNT, normal_quantile, rare_limit, student_t
from snellen.analysis.template_deviation import template_deviation
from snellen.records import Estimate
from snellen.report.table import estimate_note

REPLICATES = 1000

shares = st.floats(0, 1)


def test_z_is_the_normal_quantile_of_95_percent() -> None:
    assert normal_quantile() == pytest.approx(1.959963984540054, abs=1e-12)


@pytest.mark.parametrize(
    ("right", "n", "low", "high"),
    [
        # Newcombe (1998), Statistics in Medicine 17:857, Table I, method 3 (score without continuity correction).
        (81, 263, 0.2553, 0.3662),
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0000, 0.1611),
        (1, 29, 0.0061, 0.1718),
    ],
)
def test_wilson_gives_the_published_intervals(right: int, n: int, low: float, high: float) -> None:
    assert wilson(right / n, n) == (pytest.approx(low, abs=5e-5), pytest.approx(high, abs=5e-5))


@given(shares, st.floats(1, 1e6))
def test_wilsons_interval_solves_the_score_equation_and_holds_the_share(
    share: float, n: float
) -> None:
    low, high = wilson(share, n)
    assert 0 <= low <= share + 1e-9
    assert share - 1e-9 <= high <= 1
    for end in (low, high):
        if 0 < end < 1:
            assert (share - end) ** 2 == pytest.approx(
                normal_quantile() ** 2 * end * (1 - end) / n, rel=1e-5, abs=1e-12
            )


def test_wilsons_interval_ends_exactly_at_0_and_at_1_where_none_or_all_are_right() -> None:
    """The score equation is then n mu^2 = z^2 mu (1 - mu): 0, and z^2 / (n + z^2). Rounding left 5e-18 at n = 5."""
    for n in range(1, 200):
        other = normal_quantile() ** 2 / (n + normal_quantile() ** 2)
        assert wilson(0.0, n) == (0.0, pytest.approx(other))
        assert wilson(1.0, n) == (pytest.approx(1 - other), 1.0)


@given(st.floats(0.05, MAX_RARE_COUNT), st.floats(1, 1e6))
def test_the_limit_of_a_rare_outcome_is_the_exact_one_of_a_one_sided_interval(
    count: float, n: float
) -> None:
    stats = pytest.importorskip("scipy.stats", reason="waits for scipy")
    assert rare_limit(count) == pytest.approx(stats.gamma.ppf(0.05, count), rel=1e-6)
    if count <= n:
        assert rare_limit(count, n) / n == pytest.approx(
            stats.beta.ppf(0.05, count, n - count + 1), rel=1e-6
        )


def test_limits_of_one_two_and_three_rare_outcomes_are_the_published_ones() -> None:
    """Half the 5 % quantile of chi-squared with 2, 4 and 6 degrees of freedom: 0.1026, 0.7107 and 1.6354."""
    assert [rare_limit(count) for count in (1, 2, 3)] == pytest.approx(
        [0.0513, 0.3554, 0.8177], abs=1e-4
    )


def exact_coverage(p: float, intervals: list[tuple[float, float]]) -> float:
    """How often the interval of the number right of n holds p: a sum over all numbers."""
    n = len(intervals) - 1
    return math.fsum(
        math.comb(n, right) * p**right * (1 - p) ** (n - right)
        for right, (low, high) in enumerate(intervals)
        if low - 1e-12 <= p <= high + 1e-12
    )


@pytest.mark.parametrize(
    ("n", "wilsons", "least"), [(5, 0.8315, 0.9314), (30, 0.8371, 0.9244), (100, 0.8379, 0.9268)]
)
def test_the_interval_of_a_share_holds_every_true_share(
    n: int, wilsons: float, least: float
) -> None:
    """Coverage is least just beyond the end of an interval. Wilson's alone is 0.860 at 0.995 and n = 30."""
    for interval, expected in ((wilson, wilsons), (share_interval, least)):
        intervals = [interval(right / n, n) for right in range(n + 1)]
        beyond = [
            end + sign * 1e-9
            for ends in intervals
            for end in ends
            if 0 < end < 1
            for sign in (-1, 1)
        ]
        assert min(exact_coverage(p, intervals) for p in beyond) == pytest.approx(
            expected, abs=1e-4
        )
    rare = [1 - expected / n for expected in (0.01, 0.03, 0.05, 0.1, 0.15, 0.2, 0.5, 1.0)]
    assert (
        min(
            exact_coverage(p, [share_interval(right / n, n) for right in range(n + 1)])
            for p in rare
        )
        > 0.949
    )


@given(st.floats(0, 1), st.floats(1, 1e6))
def test_the_interval_of_a_share_is_wilsons_where_no_outcome_is_rare(
    share: float, n: float
) -> None:
    wide, plain = share_interval(share, n), wilson(share, n)
    assert wide[0] <= plain[0]
    assert wide[1] >= plain[1]
    if MAX_RARE_COUNT < share * n < n - MAX_RARE_COUNT:
        assert wide == plain


@pytest.mark.parametrize("df", [1, 1.3, 2, 2.7, 4, 9, 29.5, 299, 1e6])
def test_students_t_is_that_of_scipy(df: float) -> None:
    quantile = pytest.importorskip("scipy.stats", reason="waits for scipy").t.ppf
    assert student_t(df) == pytest.approx(quantile(0.975, df), rel=1e-5)
    assert student_t(df, 0.99) == pytest.approx(quantile(0.995, df), rel=1e-3)


@pytest.mark.parametrize(
    "values",
    [[0.3, 1.9, 2.2, 4.0, 0.1, 7.5], [0.5, 1.0, 2.0, 3.0, 3.5], [-9.0, 1.0, 1.5, 2.0, 2.5]],
)
def test_a_mean_without_bounds_has_students_interval_longer_on_the_side_of_the_tail(
    values: list[float],
) -> None:
    stats = pytest.importorskip("scipy.stats", reason="waits for scipy")
    estimate, n = estimate_mean(values, range(len(values)), bounds=NO_BOUNDS), len(values)
    mean, interval = statistics.fmean(values), stats.ttest_1samp(values, 0).confidence_interval()
    # (mu - mean)^2 = t^2 v + t z sqrt(v) skewness (mu - mean), with scipy's unbiased cumulants.
    skewness = stats.kstat(values, 3) / stats.kstat(values, 2) ** 1.5 / math.sqrt(n)
    few = (
        math.sqrt(n / (n - 1)) if n <= 5 else 1.0
    )  # where t alone is too short (bench/interval_coverage.py)
    margin = few * (interval.high - mean)
    lean, root = (
        normal_quantile() * skewness / 2,
        math.sqrt(1 + (normal_quantile() * skewness / 2) ** 2),
    )
    assert estimate.low == pytest.approx(
        min(mean + margin * (lean - root), mean - margin), rel=1e-5
    )
    assert estimate.high == pytest.approx(
        max(mean + margin * (lean + root), mean + margin), rel=1e-5
    )


def test_fewer_than_five_groups_have_no_side_of_the_tail() -> None:
    estimate = estimate_mean([0.0, 0.0, 0.1, 9.0], range(4), bounds=NO_BOUNDS)
    assert estimate.low is not None and estimate.high is not None and estimate.value is not None
    assert estimate.high - estimate.value == pytest.approx(estimate.value - estimate.low)


def _spread(values: list[float], groups: list[int]) -> float:
    mean = sum(values) / len(values)
    return group_spread([(value - mean) / len(values) for value in values], groups).error


@given(st.lists(st.tuples(shares, st.integers(0, 5)), min_size=2, max_size=30))
def test_the_cluster_error_is_that_of_leaving_out_each_group_in_turn(
    pairs: list[tuple[float, int]],
) -> None:
    values, groups = [x for x, _ in pairs], [g for _, g in pairs]
    names = set(groups)
    if len(names) < 2:
        assert _spread(values, groups) == 0
        return
    mean = sum(values) / len(values)
    kept = [[x for x, g in pairs if g != name] for name in names]
    changes = [sum(some) / len(some) - mean for some in kept]
    wanted = math.sqrt((len(names) - 1) / len(names) * sum(change**2 for change in changes))
    assert _spread(values, groups) == pytest.approx(wanted, abs=1e-7)


def test_the_cluster_error_by_hand() -> None:
    # Means of two images with two questions each: (1, 1) and (0, 0). Deviations sum to 1 and -1.
    assert _spread([1, 1, 0, 0], [0, 0, 1, 1]) == pytest.approx(math.sqrt(2 * 2) / 4)
    # Every question its own image: the ordinary sqrt(p (1 - p) / (n - 1)).
    assert _spread([1, 1, 0, 0], [0, 1, 2, 3]) == pytest.approx(math.sqrt(0.25 / 3))


def test_one_group_is_one_observation_without_a_spread() -> None:
    one = group_spread([0.5, -0.5], "aa")
    assert (one.groups, one.effective_groups, one.error, one.independent) == (1, 1.0, 0.0, 0.5)


def test_copies_of_a_question_add_no_certainty() -> None:
    values = [1.0, 0.0, 1.0, 1.0, 0.0, 1.0]
    once = estimate_mean(values, range(6))
    often = estimate_mean(values * 10, [*range(6)] * 10)
    assert often.stderr == pytest.approx(once.stderr)
    assert (often.low, often.high) == (pytest.approx(once.low), pytest.approx(once.high))
    assert often.n == 60


def test_independent_questions_have_wilsons_interval() -> None:
    values = [1.0] * 81 + [0.0] * 182
    found = estimate_mean(values, range(263))
    assert found.value == pytest.approx(81 / 263)
    assert (found.low, found.high) == (
        pytest.approx(0.2553, abs=5e-5),
        pytest.approx(0.3662, abs=5e-5),
    )


def test_all_right_is_not_certain() -> None:
    found = estimate_mean([1.0] * 20, range(20))
    assert (found.value, found.stderr, found.high) == (1.0, 0.0, 1.0)
    assert found.low == pytest.approx(1 - 0.1611, abs=5e-5)


def test_one_picture_alone_has_no_interval_and_few_have_a_note() -> None:
    alone = estimate_mean([1.0, 0.0] * 10, ["one picture"] * 20)
    assert (alone.value, alone.low, alone.high) == (0.5, None, None)
    assert estimate_note(alone, str).startswith("no interval: only one image")
    assert estimate_note(estimate_mean([1.0, 0.0] * 9, [*range(9)] * 2), str).startswith(
        "fewer than 10 images (or dialogues, or questions without an image)"
    )
    assert estimate_note(estimate_mean([1.0, 0.0] * 10, [*range(10)] * 2), str) == ""


@given(st.integers(2, 60), st.integers(1, 6), st.integers(1, 7))
def test_equal_numbers_right_in_each_picture_are_no_certainty(
    pictures: int, right: int, wrong: int
) -> None:
    """33.3 % [33.3, 33.3] n=300: each image has one right answer of three, and rounding made the error 1e-18."""
    values, groups = (
        ([1.0] * right + [0.0] * wrong) * pictures,
        [g for g in range(pictures) for _ in range(right + wrong)],
    )
    estimate = estimate_mean(values, groups)
    plain = share_interval(right / (right + wrong), len(values))
    assert (estimate.low, estimate.high) == (pytest.approx(plain[0]), pytest.approx(plain[1]))


@pytest.mark.parametrize(
    ("value", "low", "high"), [(0.0, 0.0, 0.1611), (1.0, 0.8389, 1.0), (0.4, 0.3355, 0.4967)]
)
def test_values_that_are_all_the_same_may_hide_others(
    value: float, low: float, high: float
) -> None:
    """At 0 and 1 it is Wilson's (0 of 20: Newcombe 1998); between, as large a share may lie at either bound."""
    estimate = estimate_mean([value] * 20, range(20))
    assert (estimate.low, estimate.high) == (
        pytest.approx(low, abs=1e-4),
        pytest.approx(high, abs=1e-4),
    )
    nothing = estimate_mean([value] * 20, range(20), bounds=NO_BOUNDS)
    assert (nothing.low, nothing.high) == (None, None)
    assert estimate_note(nothing, str)


def test_nothing_scored_is_no_number() -> None:
    assert estimate_mean([], [], unscored=3) == Estimate(None, None, None, None, 0, 3)


@given(
    st.lists(st.tuples(shares, st.integers(0, 9)), min_size=2, max_size=40),
    st.sampled_from([(0.0, 1.0), (0.0, math.log(5)), (-1.0, 1.0), (0.0, math.inf), NO_BOUNDS]),
    st.randoms(),
)
def test_an_interval_holds_its_mean_within_bounds_whatever_the_order(
    pairs: list[tuple[float, int]], bounds: tuple[float, float], draw: random.Random
) -> None:
    values, groups = zip(*pairs, strict=True)
    estimate = estimate_mean(values, groups, bounds=bounds)
    assert estimate.value is not None
    if len(set(groups)) < 2 or estimate.low is None or estimate.high is None:
        assert estimate.low is None
        assert len(set(groups)) < 2 or math.inf in bounds
        return
    assert bounds[0] <= estimate.low <= estimate.value + 1e-9
    assert estimate.value - 1e-9 <= estimate.high <= bounds[1]
    assert estimate.high - estimate.low > 1e-9
    mixed = [*pairs]
    draw.shuffle(mixed)
    again = estimate_mean([x for x, _ in mixed], [f"picture {g}" for _, g in mixed], bounds=bounds)
    assert (again.low, again.high) == (
        pytest.approx(estimate.low, abs=1e-7),
        pytest.approx(estimate.high, abs=1e-7),
    )


@given(st.lists(st.lists(st.integers(0, 1), min_size=1, max_size=5), min_size=2, max_size=20))
def test_the_effective_sample_size_lies_between_that_of_groups_and_n(
    pictures: list[list[int]],
) -> None:
    values = [float(value) for some in pictures for value in some]
    groups = [g for g, some in enumerate(pictures) for _ in some]
    n, mean = len(values), sum(values) / len(values)
    if len(set(values)) < 2:
        return
    spread = group_spread([(value - mean) / n for value in values], groups)
    effective = mean * (1 - mean) / spread.variance(binary=True)
    assert spread.effective_groups - 1e-6 <= effective <= n + 1e-6


@given(st.lists(st.floats(0, 1), min_size=3, max_size=10), st.integers(2, 20))
def test_more_of_the_same_pictures_narrow_the_interval(values: list[float], times: int) -> None:
    once = estimate_mean(values, range(len(values)))
    more = estimate_mean(values * times, range(len(values) * times))
    assert (more.high or 0) - (more.low or 0) < (once.high or 0) - (once.low or 0)


@given(st.floats(0.01, 0.99), st.floats(1e-6, 0.1))
def test_a_score_interval_of_one_bound_is_the_limit_of_that_of_two(
    value: float, variance: float
) -> None:
    one, two = (
        score_interval(value, variance, (0.0, math.inf)),
        score_interval(value, variance, (0.0, 1e7)),
    )
    assert one == (pytest.approx(two[0], abs=1e-4), pytest.approx(two[1], rel=1e-4))
    for end in one:
        rare = value * rare_limit(value**2 / variance) * variance / value**2
        assert end == pytest.approx(rare) or (value - end) ** 2 == pytest.approx(
            normal_quantile() ** 2 * variance * end / value, abs=1e-7
        )
    low, high = score_interval(-value, variance, (-math.inf, 0.0))
    assert (-high, -low) == one


def test_a_value_out_of_its_bounds_has_no_score_interval() -> None:
    with pytest.raises(ValueError, match=r"1\.5 is not within 0\.0 and 1\.0"):
        score_interval(1.5, 0.1, UNIT_INTERVAL)


# --- coverage: seeded, and held against the nominal level within the error of so many replicates ------------------


def coverage(
    draw: Callable[[random.Random], tuple[list[float], list[int]]], truth: float, **kind: object
) -> float:
    rng, held = random.Random(11), 0
    for _ in range(REPLICATES):
        values, groups = draw(rng)
        estimate = estimate_mean(values, groups, **kind)  # type: ignore[arg-type]
        held += (
            estimate.low is not None
            and estimate.high is not None
            and estimate.low <= truth <= estimate.high
        )
    return held / REPLICATES


SIMULATION_ERROR = 3 * math.sqrt(0.95 * 0.05 / REPLICATES)
"""Three binomial standard errors of a coverage of 0.95: 0.021."""


@pytest.mark.parametrize(
    ("pictures", "at_most"), [(2, 1.0), (3, 1.0), (5, 0.98), (10, 0.98), (30, 0.97)]
)
def test_few_pictures_hold_the_truth_too(pictures: int, at_most: float) -> None:
    """Five questions on each image, right together; accuracy 0.5. A normal interval held 74 % with two images."""

    def draw(rng: random.Random) -> tuple[list[float], list[int]]:
        chances = [rng.betavariate(1, 1) for _ in range(pictures)]
        return (
            [float(rng.random() < chance) for chance in chances for _ in range(5)],
            [g for g in range(pictures) for _ in range(5)],
        )

    assert 0.95 - SIMULATION_ERROR <= coverage(draw, 0.5) <= at_most + SIMULATION_ERROR


@pytest.mark.parametrize("unstable", [0.03, 0.5])
@pytest.mark.parametrize("n", [30, 100])
def test_an_instability_that_is_mostly_zero_has_an_interval_that_holds(
    unstable: float, n: int
) -> None:
    """One dissenting reply of five (0.500 nats), or a tie of kinds (1.055); 3 % unstable was held 59 % of the time."""

    def draw(rng: random.Random) -> tuple[list[float], list[int]]:
        return [
            rng.choice([0.5, 0.5, 1.055]) if rng.random() < unstable else 0.0 for _ in range(n)
        ], [*range(n)]

    truth = unstable * (2 * 0.5 + 1.055) / 3
    assert (
        0.95 - SIMULATION_ERROR
        <= coverage(draw, truth, bounds=(0.0, math.log(5)))
        <= 0.97 + SIMULATION_ERROR
    )


def test_two_models_that_seldom_differ_have_an_interval_that_holds() -> None:
    """1 of 100 gained and 1 of 100 lost: half of the normal intervals were points or missed zero."""

    def draw(rng: random.Random) -> tuple[list[float], list[int]]:
        return rng.choices([1.0, -1.0, 0.0], [0.01, 0.01, 0.98], k=100), [*range(100)]

    assert coverage(draw, 0.0, bounds=(-1.0, 1.0)) >= 0.95 - SIMULATION_ERROR


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_gains_without_losses_reach_below_as_far_as_both_intervals_do(sign: float) -> None:
    """10 of 100 gained, none lost: what does not vary is correlated with nothing, so the margins are at right angles.

    Both are Wilson's: 0.1 is [0.0552, 0.1744], and 0 of 100 reaches to z^2 / (100 + z^2) = 0.0370.
    """
    found = estimate_mean([sign] * 10 + [0.0] * 90, range(100), bounds=(-1.0, 1.0))
    lower, upper = 0.1 - math.hypot(0.1 - 0.05523, 0.03700), 0.17437
    ends = (lower, upper) if sign > 0 else (-upper, -lower)
    assert (found.low, found.high) == (
        pytest.approx(ends[0], abs=2e-5),
        pytest.approx(ends[1], abs=2e-5),
    )


def test_the_deviation_over_templates_needs_two_of_them() -> None:
    rights = {"a": [1.0, 1.0, 0.0, 0.0], "b": [1.0, 0.0, 0.0], "c": [1.0, 1.0]}
    estimate = template_deviation(rights)
    assert estimate.value == pytest.approx(statistics.stdev([1 / 2, 1 / 3, 1]))
    assert (estimate.low, estimate.high, estimate.n) == (None, None, 2)
    assert template_deviation({"a": [1.0, 0.0]}).value is None
    assert template_deviation({}).value is None


def test_a_rare_outcome_that_a_large_picture_has_throughout_came_once() -> None:
    """One of 30 images, with 10 of 90 questions, is wrong: 1 / 9 times the limit of a single event, or less."""
    sizes = [(1, 1, 2, 1, 10, 3)[g % 6] for g in range(30)]
    groups = [g for g, size in enumerate(sizes) for _ in range(size)]
    estimate = estimate_mean([float(g != 4) for g in groups], groups)
    assert estimate.high is not None
    assert 1 - estimate.high <= 10 / 90 * rare_limit(1)


@pytest.mark.parametrize(
    ("p", "per_picture"), [(0.995, 1), (0.5, 1), (0.9, 1), (0.97, 1), (0.7, 4)]
)
def test_intervals_hold_the_truth_about_as_often_as_they_promise(
    p: float, per_picture: int
) -> None:
    # 2000 seeded benchmarks of 60 images; questions about one image are right together 7 times in 10.
    rng = random.Random(11)
    held = 0
    for _ in range(2000):
        values, groups = [], []
        for picture in range(60):
            common = rng.random() < p
            for _ in range(per_picture):
                values.append(
                    float(common if per_picture > 1 and rng.random() < 0.7 else rng.random() < p)
                )
                groups.append(picture)
        found = estimate_mean(values, groups)
        held += found.low is not None and found.high is not None and found.low <= p <= found.high
    assert 0.925 < held / 2000 < 0.985


def test_ignoring_the_pictures_would_promise_too_much() -> None:
    rng = random.Random(12)
    held = 0
    for _ in range(1000):
        values = [float(right) for _ in range(60) for right in [rng.random() < 0.7] * 4]
        found = estimate_mean(values, range(240))
        held += found.low is not None and found.high is not None and found.low <= 0.7 <= found.high
    assert held / 1000 < 0.8


def test_a_mean_over_benchmarks_counts_them_alike() -> None:
    one, other = (
        estimate_mean([1.0, 0.0] * 50, range(100)),
        replace(estimate_mean([1.0] * 9 + [0.0], range(10), unscored=2), errors=1),
    )
    both = mean_of_estimates([one, other])
    assert both.value == pytest.approx(0.7)
    assert both.stderr == pytest.approx(math.hypot(one.stderr or 0, other.stderr or 0) / 2)
    # By hand: products of the margins with half of what they lack of (z stderr)^2, and the weighted difference.
    sides = [
        (e.value - e.low, e.high - e.value, normal_quantile() * e.stderr) for e in (one, other)
    ]  # type: ignore[operator]
    products = [(below * above + margin**2) / 2 for below, above, margin in sides]
    lean = (
        sum(p * (above - below) for p, (below, above, _) in zip(products, sides, strict=True))
        / sum(products)
        / 2
    )
    root = math.sqrt(sum(products) + lean**2)
    assert (both.low, both.high) == (
        pytest.approx(0.7 - (root - lean) / 2),
        pytest.approx(0.7 + (root + lean) / 2),
    )
    assert (both.n, both.unscored, both.errors) == (110, 2, 1)
    nothing = replace(estimate_mean([], []), errors=4)
    assert mean_of_estimates([one, nothing]).value == one.value
    assert mean_of_estimates([one, nothing]).errors == 4
    assert mean_of_estimates([nothing]) == nothing


def test_a_mean_of_numbers_that_are_not_defined_keeps_what_they_were_counted_on() -> None:
    undefined = Estimate(None, None, None, None, 4, 1, 2, groups=3)
    assert mean_of_estimates([undefined, undefined]) == Estimate(
        None, None, None, None, 8, 2, 4, groups=6
    )


def test_a_mean_over_benchmarks_at_the_end_of_its_range_counts_pictures_and_not_questions() -> None:
    """At 0 and 1 there is no spread to tell how much questions about one image depend on each other."""
    pictures = [f"p{number // 4}" for number in range(40)]
    one = estimate_mean([1.0] * 40, pictures)
    assert one.groups == 10
    # One benchmark alone: the mean over benchmarks is the benchmark, interval and all.
    assert mean_of_estimates([one]) == one
    below = (1 - wilson(1.0, 10)[0]) / math.sqrt(2)
    assert mean_of_estimates([one, one]).low == pytest.approx(1 - below)
    assert mean_of_estimates([one, one]).high == 1.0


@pytest.mark.parametrize(
    ("right", "n", "times"), [(30, 100, 4), (90, 100, 10), (480, 500, 20), (15, 120, 3)]
)
def test_benchmarks_that_are_alike_have_the_interval_of_one_that_is_as_large(
    right: int, n: int, times: int
) -> None:
    one = estimate_mean([1.0] * right + [0.0] * (n - right), range(n))
    several = mean_of_estimates([one] * times)
    whole = wilson(right / n, n * times)
    # The jackknife divides by n - 1.
    assert several.high - several.value == pytest.approx(whole[1] - right / n, rel=0.03)  # type: ignore[operator]
    assert several.value - several.low == pytest.approx(right / n - whole[0], rel=0.03)  # type: ignore[operator]


@pytest.mark.parametrize("wrong", [1, 2, 3, 6, 12])
def test_rare_errors_in_several_benchmarks_have_the_limit_of_as_many_in_one(wrong: int) -> None:
    """Of 20 benchmarks of 1,000 questions some have one wrong answer each: by MOVER 12 had a limit of 8.7."""
    perfect, one = (estimate_mean([0.0] * k + [1.0] * (1000 - k), range(1000)) for k in (0, 1))
    mean = mean_of_estimates([one] * wrong + [perfect] * (20 - wrong))
    limit = (1 - (mean.high or 0.0)) * 20_000
    assert limit == pytest.approx(
        min(rare_limit(wrong), wilson(wrong / 20_000, 20_000)[0] * 20_000), rel=0.1
    )


@pytest.mark.parametrize(
    ("benchmarks", "n", "p"), [(20, 30, 0.99), (20, 5, 0.9), (50, 10, 0.99), (10, 30, 0.5)]
)
def test_a_mean_of_nearly_perfect_benchmarks_has_an_interval_that_holds(
    benchmarks: int, n: int, p: float
) -> None:
    """By MOVER alone it held 0.862 of the time for 20 benchmarks of 30 questions at 0.99: errors add up to one side."""
    rng, held = random.Random(5), 0
    of_right = [
        estimate_mean([1.0] * right + [0.0] * (n - right), range(n)) for right in range(n + 1)
    ]
    for _ in range(REPLICATES):
        rights = [sum(rng.random() < p for _ in range(n)) for _ in range(benchmarks)]
        mean = mean_of_estimates([of_right[right] for right in rights])
        held += mean.low is not None and mean.high is not None and mean.low <= p <= mean.high
    assert held / REPLICATES >= 0.95 - SIMULATION_ERROR


@given(st.lists(st.lists(shares, min_size=2, max_size=6), min_size=1, max_size=6))
def test_a_mean_over_benchmarks_lies_between_the_means_of_their_limits(
    benchmarks: list[list[float]],
) -> None:
    estimates = [estimate_mean(values, range(len(values))) for values in benchmarks]
    mean = mean_of_estimates(estimates)
    lows, highs = ([getattr(estimate, side) for estimate in estimates] for side in ("low", "high"))
    assert statistics.fmean(lows) - 1e-9 <= (mean.low or 0.0) <= (mean.value or 0.0) + 1e-9
    assert (mean.value or 0.0) - 1e-9 <= (mean.high or 0.0) <= statistics.fmean(highs) + 1e-9
    if len(estimates) == 1:
        assert (mean.low, mean.high) == (
            pytest.approx(lows[0], abs=1e-9),
            pytest.approx(highs[0], abs=1e-9),
        )


def test_a_mean_over_benchmarks_has_no_interval_when_one_of_them_has_none() -> None:
    alone = estimate_mean([1.0, 0.0], "aa")
    assert mean_of_estimates([alone, estimate_mean([1.0, 0.0] * 9, range(18))]).low is None


@given(
    st.lists(st.tuples(shares, st.integers(0, 3)), min_size=2, max_size=30),
    st.randoms(use_true_random=False),
)
def test_an_estimate_does_not_depend_on_the_order_of_the_questions(
    scores: list[tuple[float, int]], rng: random.Random
) -> None:
    shuffled = rng.sample(scores, len(scores))
    first, second = (
        estimate_mean([value for value, _ in part], [group for _, group in part])
        for part in (scores, shuffled)
    )
    assert first == second


@pytest.mark.parametrize(("groups", "share"), [(12, 0.9), (20, 0.95)])
@pytest.mark.parametrize("correlation", [0.3, 0.6])
def test_few_large_groups_that_are_alike_are_covered_near_a_bound(
    groups: int, share: float, correlation: float
) -> None:
    """Shares of groups of 25 questions from a beta distribution; the coverage was .90 to .93."""
    rng = np.random.default_rng(5)
    size = 25
    draws = 600
    spread = (1 - correlation) / correlation
    held = 0
    for _ in range(draws):
        shares = rng.beta(share * spread, (1 - share) * spread, groups)
        values = (rng.random((groups, size)) < shares[:, None]).astype(float)
        labels = np.repeat(np.arange(groups), size).tolist()
        estimate = estimate_mean(values.ravel().tolist(), labels)
        held += estimate.low <= share <= estimate.high
    assert held / draws >= 0.93
