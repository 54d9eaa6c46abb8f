"""The numbers of an arena: against closed forms, evalica, scikit-learn, and simulations whose truth is known."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import product
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from scipy import sparse

from simulated_arenas import Population, Rigging, simulated_battles, true_ratings
from snellen.errors import DataError
from snellen_server.arena_ratings.anomalies import check_voters
from snellen_server.arena_ratings.bradley_terry import (
    Cells,
    elo_ratings,
    fit_ratings,
    pair_model,
    rated_outcomes,
    resampled_counts,
    voter_cells,
    win_rates,
)
from snellen_server.arena_ratings.log import (
    OUTCOMES,
    VOTED_AGAIN,
    Battle,
    Outcome,
    VoteLog,
    battle_table,
    vote_log,
)
from snellen_server.arena_ratings.rating import (
    ANOMALOUS,
    NOT_COMPARABLE,
    PRIOR_POINTS,
    ArenaRating,
    ModelRating,
    comparable_groups,
    counted_votes,
    is_settled,
    provisional_ratings,
    rate_votes,
    read_snapshot,
    snapshot_differences,
    style_differences,
    write_snapshot,
)
from snellen_server.arena_ratings.votes import Method, RatingSettings, chosen_votes, votes_digest

SANDWICH = RatingSettings(interval="sandwich")
SKILLS = (-1.0, -0.5, 0.0, 0.5, 1.0)


def battles(
    *rows: str, voter: Callable[[int], str | None] = lambda number: f"v{number % 7}"
) -> list[Battle]:
    """`a>b` is a win of a on the left, `a<b` one of b on the right, `a=b` a tie, `a!b` both bad."""
    signs = dict(zip("><=!", OUTCOMES, strict=True))
    return [
        Battle(
            id=f"{n:06d}",
            left=row[0],
            right=row[2],
            outcome=signs[row[1]],
            time=float(n),
            voter=voter(n),
        )  # type: ignore[arg-type]
        for n, row in enumerate(rows)
    ]


def rated(rows: Sequence[Battle], given: RatingSettings = SANDWICH) -> dict[str, float | None]:
    return {row.model: row.rating for row in rate_votes(vote_log(rows), given).models}


@pytest.fixture(scope="module")
def simulated() -> VoteLog:
    population = Population(SKILLS, voters=60, votes=1500, position=0.2, taste=0.3, focus=3.0)
    return VoteLog(simulated_battles(population, np.random.default_rng(3)))


def decided(log: VoteLog) -> pl.DataFrame:
    return log.battles.filter(pl.col("outcome") != "both bad")


def centred(ratings: Sequence[float] | np.ndarray) -> np.ndarray:
    values = np.asarray(ratings, dtype=float)
    return values - values.mean()


# --- Elo ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("k", "points"), [(32.0, 16.0), (4.0, 2.0)])
def test_a_win_between_equals_moves_both_by_half_of_k(k: float, points: float) -> None:
    votes = chosen_votes(vote_log(battles("a>b")), RatingSettings())
    assert elo_ratings(votes, RatingSettings(k=k)).tolist() == pytest.approx(
        [1000 + points, 1000 - points]
    )


def test_elo_is_that_of_the_published_algorithm(simulated: VoteLog) -> None:
    """The loop that FastChat publishes, in which both bad is a tie too."""
    ratings = dict.fromkeys(
        sorted({*simulated.battles["left"], *simulated.battles["right"]}), 1000.0
    )
    for left, right, outcome in simulated.battles.select("left", "right", "outcome").iter_rows():
        expected = 1 / (1 + 10 ** ((ratings[right] - ratings[left]) / 400))
        moved = 4 * ({"left": 1.0, "right": 0.0}.get(outcome, 0.5) - expected)
        ratings[left] += moved
        ratings[right] -= moved
    given = RatingSettings(method="elo", both_bad_is_tie=True)
    assert elo_ratings(chosen_votes(simulated, given), given) == pytest.approx(
        list(ratings.values())
    )


def test_elo_depends_on_the_order_of_votes_and_bradley_terry_does_not(simulated: VoteLog) -> None:
    backwards = VoteLog(simulated.battles.reverse())
    elo = RatingSettings(method="elo", resamples=1)
    there, back = (elo_ratings(chosen_votes(log, elo), elo) for log in (simulated, backwards))
    assert np.abs(there - back).max() > 1
    one, other = (rate_votes(log, SANDWICH) for log in (simulated, backwards))
    assert [row.rating for row in one.models] == pytest.approx([row.rating for row in other.models])


def test_intervals_of_elo_hold_the_rating_of_most_models(simulated: VoteLog) -> None:
    found = rate_votes(simulated, RatingSettings(method="elo", resamples=30))
    assert all(row.low < row.high for row in found.models)  # type: ignore[operator]
    assert np.mean([row.low <= row.rating <= row.high for row in found.models]) >= 0.6  # type: ignore[operator]


# --- Bradley-Terry and Davidson ----------------------------------------------------------------------------------


@given(wins=st.integers(1, 40), losses=st.integers(1, 40), ties=st.integers(0, 40))
@settings(deadline=None, max_examples=25)
def test_two_models_have_the_ratings_of_the_closed_form(wins: int, losses: int, ties: int) -> None:
    rows = battles(*["a>b"] * wins, *["b>a"] * losses, *["a=b"] * ties)
    apart = 400 * math.log10((wins + ties / 2) / (losses + ties / 2))
    assert rated(rows) == pytest.approx({"a": 1000 + apart / 2, "b": 1000 - apart / 2})
    found = rate_votes(vote_log(rows), RatingSettings(method="davidson", interval="sandwich"))
    assert {row.model: row.rating for row in found.models}["a"] == pytest.approx(
        1000 + 200 * math.log10(wins / losses)
    )
    assert [term.value for term in found.terms] == pytest.approx(
        [ties / math.sqrt(wins * losses)] if ties else []
    )


def test_ratings_are_those_of_evalica(simulated: VoteLog) -> None:
    import evalica  # with all of pandas, as scikit-learn below comes late: each worker of a session lists these tests

    votes, winner = decided(simulated), evalica.Winner
    winners = {"left": winner.X, "right": winner.Y, "tie": winner.Draw}
    given = (
        votes["left"].to_list(),
        votes["right"].to_list(),
        [winners[name] for name in votes["outcome"]],
    )
    theirs = np.log(
        evalica.bradley_terry(*given, tolerance=1e-12, limit=10_000).scores.sort_index()
    )
    cells = voter_cells(chosen_votes(simulated, SANDWICH))
    counts = rated_outcomes(cells.counts, both_bad_is_tie=False)[None]
    assert fit_ratings(pair_model(cells), counts)[0] == pytest.approx(centred(theirs), abs=1e-7)
    newman = evalica.newman(*given, tolerance=1e-12, limit=10_000)
    *davidson, nu = fit_ratings(pair_model(cells, ties=True), counts)[0]
    assert davidson == pytest.approx(centred(np.log(newman.scores.sort_index())), abs=1e-6)
    assert math.exp(nu) == pytest.approx(
        2 * newman.v, abs=1e-6
    )  # Newman's v is half of Davidson's nu.


def regression(log: VoteLog, *columns: np.ndarray, weights: np.ndarray | None = None) -> np.ndarray:
    """Log odds by the notebook that FastChat publishes: each vote twice, a tie once for either side."""
    from sklearn.linear_model import LogisticRegression

    votes = decided(log)
    names = sorted({*votes["left"], *votes["right"]})
    design = np.zeros((votes.height, len(names) + len(columns)))
    for place, (left, right) in enumerate(votes.select("left", "right").iter_rows()):
        design[place, names.index(left)], design[place, names.index(right)] = 1, -1
    for place, column in enumerate(columns, len(names)):
        design[:, place] = column
    wins = np.array(
        [{"left": (1, 1), "right": (0, 0), "tie": (1, 0)}[name] for name in votes["outcome"]]
    )
    weight = np.ones(votes.height) if weights is None else weights
    fit = LogisticRegression(fit_intercept=False, C=1e9, tol=1e-10, max_iter=10_000)
    fit.fit(np.concatenate([design, design]), wins.T.ravel(), sample_weight=np.tile(weight, 2))
    return np.concatenate([centred(fit.coef_[0][: len(names)]), fit.coef_[0][len(names) :]])


def in_log_odds(found: ArenaRating) -> list[float]:
    rows = sorted(found.models, key=lambda row: row.model)
    points = found.settings.points
    return [(row.rating - 1000) / points for row in rows] + [
        term.value / points for term in found.terms
    ]  # type: ignore[operator]


def test_ratings_are_those_of_a_logistic_regression_with_or_without_sides_and_weights(
    simulated: VoteLog,
) -> None:
    votes = decided(simulated)
    plain = rate_votes(simulated, SANDWICH)
    assert in_log_odds(plain) == pytest.approx(regression(simulated), abs=1e-4)
    sides = rate_votes(simulated, RatingSettings(interval="sandwich", position=True))
    assert [term.name for term in sides.terms] == ["left side"]
    assert in_log_odds(sides) == pytest.approx(
        regression(simulated, np.ones(votes.height)), abs=1e-4
    )
    weighted = rate_votes(simulated, RatingSettings(interval="sandwich", weighting="propensity"))
    inverse = 1 / votes["propensity"].to_numpy()
    assert in_log_odds(weighted) == pytest.approx(regression(simulated, weights=inverse), abs=1e-4)
    assert in_log_odds(weighted) != pytest.approx(in_log_odds(plain), abs=1e-3)


def test_style_is_taken_out_as_by_a_logistic_regression_on_it(simulated: VoteLog) -> None:
    rng = np.random.default_rng(0)
    texts = [
        "a" * int(size) + "\n- b" * int(items)
        for size, items in zip(*rng.integers(1, 50, (2, 3000)), strict=True)
    ]
    replies = [
        pl.Series(f"{side}_reply", texts[place::2][:1500])
        for place, side in enumerate(("left", "right"))
    ]
    log = VoteLog(simulated.battles.with_columns(replies))
    found = rate_votes(log, RatingSettings(interval="sandwich", style=True))
    style = style_differences(decided(log))
    assert list(style) == ["length", "list items"]  # All replies have as many headers: none.
    assert in_log_odds(found) == pytest.approx(regression(log, *style.values()), abs=1e-4)
    alike = VoteLog(simulated.battles.with_columns(left_reply=pl.lit("a"), right_reply=pl.lit("b")))
    with pytest.raises(DataError, match="of the same length and Markdown in all votes"):
        rate_votes(alike, RatingSettings(interval="sandwich", style=True))
    with pytest.raises(DataError, match="have no replies"):
        rate_votes(simulated, RatingSettings(interval="sandwich", style=True))


# --- intervals ---------------------------------------------------------------------------------------------------


def test_the_interval_of_two_models_and_many_voters_is_that_of_a_share() -> None:
    rows = battles(*["a>b"] * 600, *["b>a"] * 400, voter=str)
    [first, _] = rate_votes(vote_log(rows), SANDWICH).models
    # The difference of two ratings is the logit of a share, whose standard error is 1 / sqrt(n p (1 - p)).
    margin = 1.96 * SANDWICH.points / 2 / math.sqrt(1000 * 0.6 * 0.4)
    assert first.high - first.rating == pytest.approx(margin, rel=0.005)  # type: ignore[operator]
    bootstrap = rate_votes(vote_log(rows)).models[0]
    assert bootstrap.high - bootstrap.rating == pytest.approx(margin, rel=0.1)  # type: ignore[operator]


def test_a_voter_who_votes_a_hundred_times_alike_counts_as_one_witness() -> None:
    once = battles(*["a>b"] * 12, *["b>a"] * 8, voter=str)
    often = battles(*["a>b"] * 1200, *["b>a"] * 800, voter=lambda number: str(number // 100))
    one, hundred = (rate_votes(vote_log(rows), SANDWICH).models[0] for rows in (once, often))
    assert (one.rating, one.low, one.high) == pytest.approx(
        (hundred.rating, hundred.low, hundred.high)
    )


def test_resampled_counts_have_the_moments_of_voters_drawn_with_replacement() -> None:
    per_voter = np.array(
        [[1, 0, 0, 0], [1, 0, 0, 0], [0, 2, 0, 0], [3, 1, 0, 0], [0, 4, 1, 1], [1, 0, 0, 0]], float
    )
    cells = Cells(
        2, np.array([0]), np.array([1]), per_voter.sum(axis=0)[None], sparse.csr_array(per_voter)
    )
    drawn = np.concatenate(list(resampled_counts(cells, 20_000, np.random.default_rng(1))))[:, 0]
    assert drawn.mean(axis=0) == pytest.approx(per_voter.sum(axis=0), abs=0.06)
    assert np.cov(drawn.T) == pytest.approx(6 * np.cov(per_voter.T, bias=True), abs=0.35)


@pytest.mark.parametrize("method", ["bootstrap", "sandwich"])
def test_intervals_hold_the_truth_as_often_as_they_say(method: str) -> None:
    population = Population(SKILLS, voters=40, votes=800, taste=0.5)
    given = RatingSettings(interval=method, resamples=200)  # type: ignore[arg-type]
    truth = dict(zip(population.models, true_ratings(population), strict=True))
    held = [
        row.low <= truth[row.model] <= row.high  # type: ignore[operator]
        for seed in range(50)
        for row in rate_votes(
            VoteLog(simulated_battles(population, np.random.default_rng(seed))), given
        ).models
    ]
    # 250 ratings of 50 arenas; bench/arena.py has more of them.
    assert 0.90 <= np.mean(held) <= 0.99


def provisional(log: VoteLog) -> dict[str, ModelRating]:
    return {
        row.model: row
        for row in provisional_ratings(counted_votes(log, RatingSettings()), RatingSettings())
    }


def test_one_vote_gives_a_rating_and_an_interval_by_the_prior_and_no_rank() -> None:
    from scipy.optimize import minimize_scalar

    found = provisional(vote_log(battles("a>b")))
    # With a = -b = x the log-posterior is log(1 / (1 + exp(-2 x))) - x^2 / s^2.
    points = RatingSettings().points
    spread = PRIOR_POINTS / points
    best = minimize_scalar(
        lambda x: math.log1p(math.exp(-2 * x)) + x**2 / spread**2, bounds=(0, 5), method="bounded"
    )
    assert found["a"].rating == pytest.approx(1000 + points * best.x, abs=0.01)
    curvature = 4 * math.exp(-2 * best.x) / (1 + math.exp(-2 * best.x)) ** 2 + 2 / spread**2
    margin = 1.959964 * points / math.sqrt(curvature)
    assert (found["a"].low, found["a"].high) == pytest.approx(
        (found["a"].rating - margin, found["a"].rating + margin), abs=0.1
    )
    assert found["b"].rating == pytest.approx(2000 - found["a"].rating)
    assert {row.rank for row in found.values()} == {None}


def test_one_voter_makes_no_rating_sure_however_often_they_vote() -> None:
    once, often, many = (
        provisional(vote_log(battles(*["a>b"] * count, voter=voter)))["a"]
        for count, voter in ((1, str), (100, lambda number: "x"), (100, str))
    )
    assert (once.rating, once.low, once.high) == pytest.approx(
        (often.rating, often.low, often.high)
    )
    assert many.low > often.low
    assert provisional(vote_log(battles("a!b"))) == {}


def test_provisional_intervals_hold_the_truth_at_least_as_often_as_they_say() -> None:
    held = []
    for seed in range(60):
        rng = np.random.default_rng(seed)
        population = Population(tuple(rng.normal(0, 0.9, 5)), voters=4, votes=40, taste=0.5)
        truth = dict(zip(population.models, true_ratings(population), strict=True))
        rows = provisional(VoteLog(simulated_battles(population, rng))).values()
        held += [row.low <= truth[row.model] <= row.high for row in rows]  # type: ignore[operator]
    assert np.mean(held) >= 0.95


def test_a_rating_is_settled_by_enough_votes_of_enough_voters() -> None:
    def is_sure(votes: int, voters: int) -> bool:
        rows = battles(
            *["a>b", "b>a"] * (votes // 2), voter=lambda number: str(number // 2 % voters)
        )
        return is_settled(rate_votes(vote_log(rows), SANDWICH).models[0])

    assert is_sure(50, 10) and not is_sure(48, 10) and not is_sure(50, 9) and not is_sure(5000, 1)


def test_the_truth_of_a_simulation_is_what_very_many_votes_come_to() -> None:
    population = Population(
        SKILLS, voters=20_000, votes=200_000, taste=1.0, position=0.5, lazy=0.1, activity=0.0
    )
    found = rate_votes(VoteLog(simulated_battles(population, np.random.default_rng(0))), SANDWICH)
    assert sorted(row.rating for row in found.models) == pytest.approx(
        true_ratings(population), abs=4
    )  # type: ignore[type-var]
    # Without tastes, sides and lazy voters it is the skills themselves.
    davidson = RatingSettings(method="davidson")
    exact = true_ratings(Population(SKILLS, voters=1, votes=1), davidson)
    assert exact == pytest.approx(1000 + davidson.points * np.array(SKILLS))


# --- what is rated -----------------------------------------------------------------------------------------------


def test_models_that_nothing_joins_both_ways_are_not_ranked_across() -> None:
    rows = battles("a>b", "b>a", "c>d", "d>c", "a>c", "b>d", "a>e", "c>e")
    found = rate_votes(vote_log(rows), SANDWICH)
    assert [(row.model, row.group, row.rank) for row in found.models] == [
        ("a", 0, 1),
        ("b", 0, 1),
        ("c", 1, 1),
        ("d", 1, 1),
        ("e", 2, None),
    ]
    assert found.votes == 4 and found.left_out_votes == {NOT_COMPARABLE: 4}
    with pytest.raises(DataError, match="none of the 3 models can be compared"):
        rate_votes(vote_log(battles("a>b", "b>c", "a>c")), SANDWICH)


@given(
    st.lists(
        st.tuples(st.integers(0, 4), st.integers(0, 4), st.sampled_from("><=")),
        min_size=1,
        max_size=14,
    )
)
@settings(deadline=None, max_examples=40)
def test_groups_are_the_sets_whose_members_reach_each_other_by_wins(
    edges: list[tuple[int, int, str]],
) -> None:
    rows = battles(*(f"{'abcde'[i]}{sign}{'abcde'[j]}" for i, j, sign in edges if i != j))
    if not rows:
        return
    votes = chosen_votes(vote_log(rows), SANDWICH)
    beats = {(row.left, row.right) for row in rows if row.outcome != "right"}
    beats |= {(row.right, row.left) for row in rows if row.outcome != "left"}
    for middle, one, other in product(votes.models, repeat=3):
        if (one, middle) in beats and (middle, other) in beats:
            beats.add((one, other))
    groups = [
        {votes.models[model] for model in group} for group in comparable_groups(voter_cells(votes))
    ]
    assert set().union(*groups) == set(votes.models)
    for one, other in product(votes.models, repeat=2):
        together = one == other or ((one, other) in beats and (other, one) in beats)
        assert any({one, other} <= group for group in groups) == together


def test_both_bad_moves_no_rating_and_has_a_rate_of_its_own() -> None:
    rows = battles(*["a>b"] * 3, *["b>a"] * 2, *["a!b"] * 5)
    assert rated(rows) == rated(rows[:5])
    found = rate_votes(vote_log(rows), SANDWICH)
    assert [(row.both_bad.value, row.win_share.value) for row in found.models] == [
        (0.5, 0.6),
        (0.5, 0.4),
    ]
    assert (found.votes, found.both_bad) == (10, 5)
    as_ties = RatingSettings(interval="sandwich", both_bad_is_tie=True)
    assert rated(rows, as_ties)["a"] == pytest.approx(1000 + 200 * math.log10(5.5 / 4.5))


def test_votes_of_people_and_judges_categories_and_named_battles_are_kept_apart_and_counted() -> (
    None
):
    rows = battles(*["a>b", "b>a"] * 5)
    rows[0] = replace(rows[0], voter_kind="judge")
    rows[1] = replace(rows[1], anonymous=False)
    rows[2] = replace(rows[2], category="charts")
    rows[3] = replace(rows[3], right="b")
    rows[5] = replace(rows[5], left_version="2", right_version="1")
    found = rate_votes(vote_log(rows), SANDWICH)
    assert found.left_out_votes == {
        "votes by models that judge": 1,
        "the names of the models were visible": 1,
        "a model against itself": 1,
        NOT_COMPARABLE: 1,
    }
    assert [row.model for row in found.models] == ["a", "b", "a@1", "b@2"]
    with pytest.raises(DataError, match="no votes are left to rate"):
        rate_votes(vote_log(rows), RatingSettings(category="maps"))
    judged = chosen_votes(vote_log(rows), RatingSettings(voters="judge"))
    assert judged.count == 1 and judged.left_out_votes["votes by people"] == 9


def test_each_vote_stands_in_the_records_of_both_models(simulated: VoteLog) -> None:
    votes = chosen_votes(simulated, SANDWICH)
    records = {(row.model, row.opponent): row for row in win_rates(votes)}
    assert (
        sum(row.wins + row.losses + row.ties + row.both_bad for row in records.values())
        == 2 * votes.count
    )
    for (one, other), row in records.items():
        assert (row.wins, row.ties) == (records[other, one].losses, records[other, one].ties)
        won = simulated.battles.filter(
            ((pl.col("left") == one) & (pl.col("right") == other) & (pl.col("outcome") == "left"))
            | (
                (pl.col("right") == one)
                & (pl.col("left") == other)
                & (pl.col("outcome") == "right")
            )
        )
        assert row.wins == won.height


def test_the_digest_knows_the_votes_and_not_the_names_of_voters(simulated: VoteLog) -> None:
    def digest(table: pl.DataFrame) -> str:
        return votes_digest(chosen_votes(VoteLog(table), SANDWICH))

    table = simulated.battles
    renamed = table.with_columns(
        pl.concat_str(pl.lit("x"), pl.col("voter").str.reverse()).alias("voter")
    )
    turned = table.with_columns(left="right", right="left")
    merged = table.with_columns(pl.col("voter").replace("voter-1", "voter-2"))
    assert digest(table) == digest(renamed)
    assert len({digest(changed) for changed in (table, turned, merged, table.head(-1))}) == 4


# --- voters ------------------------------------------------------------------------------------------------------

CROWD = Population(SKILLS, voters=100, votes=3000, taste=0.2)


def log_of(*riggings: Rigging, crowd: Population = CROWD) -> VoteLog:
    rows = simulated_battles(crowd, np.random.default_rng(5), *riggings)
    first = rows.unique("id", keep="first", maintain_order=True)
    return VoteLog(first, {VOTED_AGAIN: rows.height - first.height})


def flagged(log: VoteLog) -> set[str]:
    return {check.voter for check in check_voters(chosen_votes(log, SANDWICH)) if check.flagged}


def test_a_voter_who_floods_for_one_model_is_found_and_without_that_voter_the_rating_is_the_honest_one() -> (
    None
):
    honest, rigged = log_of(), log_of(Rigging(model=0, voters=1, votes=400))
    assert flagged(honest) == set()
    assert flagged(rigged) == {"bought-0-0"}
    cleaned = rate_votes(rigged, RatingSettings(interval="sandwich", leave_out_anomalous=True))
    assert cleaned.left_out_votes[ANOMALOUS] == 400
    ratings = [
        {row.model: row.rating for row in found.models}["model-00"]
        for found in (rate_votes(honest, SANDWICH), rate_votes(rigged, SANDWICH), cleaned)
    ]
    assert ratings[1] - ratings[0] > 50  # type: ignore[operator]
    assert ratings[2] == pytest.approx(ratings[0])


def test_a_cap_bounds_what_one_voter_can_do() -> None:
    rigged = log_of(Rigging(model=0, voters=1, votes=400))
    capped = chosen_votes(rigged, RatingSettings(cap=10))
    assert (
        capped.table["voter"].value_counts()["count"].max() == 20
    )  # The log has votes of two days.
    assert (
        sum(count for reason, count in capped.left_out_votes.items() if "beyond 10 votes" in reason)
        == 3400 - capped.count
    )


def test_colluding_voters_are_found_one_by_one_and_a_token_counts_once() -> None:
    rigged = log_of(Rigging(model=1, voters=5, votes=30, sent=4))
    assert rigged.left_out_votes == {VOTED_AGAIN: 450}
    assert {f"bought-0-{number}" for number in range(5)} == flagged(rigged)


def test_lazy_voters_are_found_by_their_side_and_the_left_share_says_so() -> None:
    crowd = Population(SKILLS, voters=100, votes=3000, lazy=0.2)
    votes = chosen_votes(log_of(crowd=crowd), SANDWICH)
    found = {check.voter: check for check in check_voters(votes)}
    always = {name for name, check in found.items() if check.left == 1}
    assert always and {name for name in always if found[name].votes >= 20} <= {
        n for n in found if found[n].flagged
    }
    assert {name for name, check in found.items() if check.flagged} <= always
    left = rate_votes(log_of(crowd=crowd), SANDWICH).left_share
    assert left.low is not None and left.low > 0.5


def test_settings_that_contradict_each_other_are_refused(simulated: VoteLog) -> None:
    for contradicting, fault in (
        (RatingSettings(style=True), "sandwich"),
        (RatingSettings(style=True, method="davidson"), "Bradley-Terry"),
        (RatingSettings(method="elo", position=True), "neither sides nor weights"),
        (RatingSettings(method="elo", interval="sandwich"), "bootstrap"),
        (RatingSettings(resamples=0), "resamples"),
    ):
        with pytest.raises(DataError, match=fault):
            rate_votes(simulated, contradicting)
    nothing_known = VoteLog(
        simulated.battles.with_columns(pl.lit(None, pl.Float64).alias("propensity"))
    )
    with pytest.raises(DataError, match="1,500 of 1,500 votes have no propensity"):
        rate_votes(nothing_known, RatingSettings(weighting="propensity"))
    with pytest.raises(DataError, match="every vote is a tie"):
        rate_votes(vote_log(battles("a=b", "b=a")), RatingSettings(method="davidson"))


def test_votes_of_nobody_known_are_voters_of_their_own() -> None:
    rows = battles(*["a>b", "b>a"] * 10, voter=lambda number: None if number < 5 else "x")
    found = rate_votes(vote_log(rows), SANDWICH)
    assert (found.voters, found.unknown_voters) == (6, 5)
    assert battle_table(rows)["voter"].null_count() == 5


@pytest.mark.parametrize("method", ["bradley-terry", "davidson", "elo"])
def test_one_voter_alone_says_nothing_of_how_much_voters_differ(
    method: Method, tmp_path: Path
) -> None:
    outcomes: tuple[Outcome, ...] = ("left", "left", "tie", "right", "left")
    battles = [
        Battle(id=str(n), left="a", right="b", outcome=outcome, voter="x", time=float(n))
        for n, outcome in enumerate(outcomes)
    ]
    alone = rate_votes(vote_log(battles), RatingSettings(method=method, resamples=20))
    assert [(row.low, row.high, row.rank) for row in alone.models] == [(None, None, 1)] * 2
    write_snapshot(tmp_path / "one.json", alone)
    assert snapshot_differences(read_snapshot(tmp_path / "one.json"), vote_log(battles)) == ()
    another = Battle(id="y", left="a", right="b", outcome="right", voter="y", time=9.0)
    both = rate_votes(vote_log([*battles, another]), RatingSettings(method=method, resamples=20))
    assert all(row.low is not None for row in both.models)
