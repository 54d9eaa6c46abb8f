"""The sentences at the head of a report: made where a test or an interval says so, and nowhere else."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

import small
import snellen as sn
from snellen.analysis.paired.comparison import ComparedRuns
from snellen.analysis.paired.differences import PairedDifference, is_significant
from snellen.building.benchmark import Benchmark
from snellen.common.seeds import rng_for
from snellen.records import Estimate, Failure, Request
from snellen.report.findings import findings, sentences
from snellen.report.markdown import markdown_report
from snellen.report.model_numbers import DimensionShare, ModelNumbers
from snellen.report.reported_runs import prepare_reported_runs
from snellen.scoring.scored_run import ScoredRun


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def estimate(value: float, margin: float, n: int = 400) -> Estimate:
    return Estimate(value, margin / 1.96, value - margin, value + margin, n, groups=n)


def model(name: str, value: float, **facts: object) -> ModelNumbers:
    return replace(
        ModelNumbers(
            name,
            "generation",
            "accuracy",
            estimate(value, 0.04),
            chance=0.25,
            counts_replies=True,
        ),
        **facts,
    )


def difference(
    first: str, second: str, value: float, margin: float = 0.02, p: float = 0.001
) -> PairedDifference:
    return PairedDifference(
        first,
        second,
        "*",
        "*",
        "",
        "generation",
        "generation",
        "accuracy",
        0.5,
        0.5 - value,
        estimate(value, margin),
        p,
        p,
        unit="share",
    )


def words(results: sn.Results) -> str:
    return " ".join(findings(prepare_reported_runs(results.runs, results.rows)))


def of_accuracy(share: float, name: str) -> sn.Scripted:
    """Right on a fixed part of the questions, of which the first option is right; else wrong."""

    def reply(request: Request) -> str:
        is_right = rng_for(request.benchmark, request.sample_id, name, 0).random() < share
        return f"({request.variant.labels[request.variant.order.index(0 if is_right else 1)]})"

    return sn.Scripted(reply, name=name)


def right_on(numbers: range, name: str) -> sn.Scripted:
    """Right on the questions of these numbers."""
    return sn.Scripted(
        lambda request: "(A)" if int(request.sample_id[1:]) in numbers else "(B)", name=name
    )


# --- of made numbers -------------------------------------------------------------------------------------------------


def test_one_model_is_set_beside_guessing() -> None:
    assert sentences([model("a", 0.6)], {}) == [
        "a answers 60.0% of the questions correctly (95% interval 56.0 to 64.0%), significantly above chance (25.0%)."
    ]
    assert "not significantly different from chance (25.0%)" in sentences([model("a", 0.27)], {})[0]
    assert "significantly below chance (25.0%)" in sentences([model("a", 0.1)], {})[0]


def test_the_worst_benchmark_is_named_where_it_is_shown_to_be_that() -> None:
    def lowest(*shares: tuple[str, float, float]) -> str:
        by_benchmark = tuple((name, estimate(share, margin)) for name, share, margin in shares)
        said = sentences([model("a", 0.6, by_benchmark=by_benchmark)], {})
        return next((sentence for sentence in said if "is worst in" in sentence), "")

    opening, end = "a is worst in ", ": significantly below every other benchmark."
    assert (
        lowest(("x", 0.9, 0.03), ("y", 0.2, 0.05), ("z", 0.6, 0.05))
        == f"{opening}y (20.0%, 15.0 to 25.0%){end}"
    )
    assert lowest(("x", 0.9, 0.03), ("y", 0.2, 0.05), ("z", 0.24, 0.05)) == (
        f"{opening}y (20.0%, 15.0 to 25.0%) or z (24.0%, 19.0 to 29.0%){end}"
    )
    # 7.5 points are more than their interval at 95 %, of 7.1, and less than at the level for three pairs, of 8.6.
    assert lowest(("x", 0.275, 0.05), ("y", 0.2, 0.05), ("z", 0.22, 0.05)) == "", (
        "none is shown to be above"
    )
    assert lowest(("x", 0.9, 0.03), ("y", 0.2, 0.05)) == "", "of two the dimensions say so"


def test_a_difference_is_told_with_its_interval_and_an_unclear_one_as_unclear() -> None:
    models = [model("a", 0.6), model("b", 0.5)]
    [clear] = sentences(models, {"generation": [difference("a", "b", 0.065, 0.025)]})
    assert (
        clear
        == "a is better than b by 4.0 to 9.0 points of accuracy (95% interval, paired on 400 questions)."
    )
    for unclear in (difference("a", "b", 0.01, 0.02), difference("a", "b", 0.065, 0.025, p=0.06)):
        [sentence] = sentences(models, {"generation": [unclear]})
        assert "not significantly different" in sentence and "better" not in sentence
    [turned] = sentences(models, {"generation": [difference("a", "b", -0.065, 0.025)]})
    assert turned.startswith("b is better than a by 4.0 to 9.0 points")


def test_models_with_too_few_questions_in_common_are_not_told_apart_for_that_reason() -> None:
    few = replace(difference("a", "b", 0.4), difference=Estimate(0.4, None, None, None, 7))
    assert sentences([model("a", 0.9), model("b", 0.3)], {"generation": [few]}) == [
        "a is not significantly different from b: the 7 common questions have too few images for an interval."
    ]


@given(st.floats(-0.5, 0.5), st.floats(0.001, 0.5), st.floats(0, 1))
def test_nobody_is_called_better_where_the_interval_holds_zero_or_the_test_shows_nothing(
    value: float, margin: float, p: float
) -> None:
    made = difference("a", "b", value, margin, p)
    [sentence] = sentences([model("a", 0.6), model("b", 0.5)], {"generation": [made]})
    assert (
        ("is better than" in sentence) == is_significant(made) == (abs(value) > margin and p < 0.05)
    )
    assert ("not significantly different" in sentence) != ("is better than" in sentence)


def test_of_several_models_each_is_better_or_cannot_be_told_apart() -> None:
    models = [model(name, 0.5) for name in "abcd"]
    all_better = [difference("a", name, 0.1) for name in "bcd"]
    [best] = sentences(models, {"generation": all_better})
    assert best.startswith("a is the best of 4 models, ahead of b by 8.0 to 12.0 points")
    [tied] = sentences(models, {"generation": [difference("a", "b", 0.01), *all_better[1:]]})
    assert tied.startswith(
        "a is better than 2 of the 3 other models, ahead of the nearest, c, by 8.0 to 12.0 points"
    )
    assert tied.endswith("; it is not significantly different from b.")
    [nobody] = sentences(models, {"generation": [difference("a", name, 0.01) for name in "bcd"]})
    assert nobody == "a is not significantly different from b, c and d."


def test_lower_values_win_where_lower_is_better() -> None:
    made = replace(difference("a", "b", -0.4, 0.1), better="lower", unit="seconds")
    models = [model(name, 0.5, metric="capability", unit="seconds") for name in "ab"]
    assert sentences(models, {"generation": [made]}) == [
        "a is better than b by 0.300 to 0.500 seconds (95% interval, paired on 400 questions)."
    ]


def test_more_dimensions_must_each_be_farther_above_guessing() -> None:
    def dimensions(count: int) -> tuple[DimensionShare, ...]:
        clear = [DimensionShare(f"d{i}", estimate(0.9, 0.05), 0.25) for i in range(count - 1)]
        return (*clear, DimensionShare("doubtful", estimate(0.25 + 0.045, 0.04), 0.25))

    alone = sentences([model("a", 0.6, dimensions=dimensions(2)[1:] * 2)], {})
    assert "not significantly above chance" in alone[1]  # of two, one margin is not enough
    assert "doubtful" in sentences([model("a", 0.6, dimensions=dimensions(8))], {})[1]
    surely = [DimensionShare(f"d{i}", estimate(0.5 + i / 100, 0.05), 0.25) for i in range(8)]
    assert (
        "above chance in all 8 dimensions"
        in sentences([model("a", 0.6, dimensions=tuple(surely))], {})[1]
    )


@pytest.mark.parametrize("sure", [0, 1])
def test_models_that_guess_in_different_dimensions_are_not_said_to_guess_in_all(sure: int) -> None:
    def blind_in(number: int) -> ModelNumbers:
        shares = [estimate(0.25 if i == number else 0.9, 0.05) for i in range(4)]
        return model(
            f"m{number}",
            0.7,
            dimensions=tuple(DimensionShare(f"d{i}", s, 0.25) for i, s in enumerate(shares)),
        )

    models = [blind_in(number) for number in range(4)] + [blind_in(9)] * sure
    who = f"4 of {len(models)} models are not" if sure else "None of the 4 models is"
    assert f"{who} significantly above chance in every dimension." in sentences(models, {})


def test_what_was_not_read_not_answered_or_not_asked_is_said_last() -> None:
    careful = model("a", 0.6, unparsed=estimate(0.03, 0.01), errors=3, is_partial=True)
    assert sentences([careful], {})[-1] == (
        "Unparsed replies, scored as wrong: a 3.0% (2.0 to 4.0%); 3 questions received no reply "
        "from a. The results cover only part of the benchmarks or questions."
    )
    assert sentences([model("a", 0.6, errors=1)], {})[-1] == "1 question received no reply from a."


# --- of runs ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def hundred(make: Callable[..., Benchmark]) -> str:
    """A hundred questions, an image each; the first option is always right."""
    return str(
        make([{**row, "answer": 0} for row in small.rows(100, pictures=100)], dimension="CG").folder
    )


def test_runs_of_known_accuracies_give_the_sentence_that_is_true(hundred: str) -> None:
    clear = sn.evaluate([of_accuracy(0.9, "strong"), of_accuracy(0.5, "weak")], hundred)
    assert words(clear).startswith("strong is better than weak by ")
    assert "paired on 100 questions" in words(clear)


def test_models_that_are_equally_good_are_not_told_apart(hundred: str) -> None:
    equal = sn.evaluate([of_accuracy(0.6, f"model {i}") for i in range(6)], hundred)
    assert "not significantly different" in words(equal) and "better" not in words(equal)


def test_p_values_are_corrected_for_all_pairs_although_only_those_of_the_best_are_tested(
    hundred: str,
) -> None:
    """A difference that is clear between two models is not between the best and the worst of twelve."""
    results = sn.evaluate([right_on(range(60), "more"), right_on(range(15, 64), "fewer")], hundred)
    [pair] = [d for d in results.compare().differences if d.scope == "benchmark"]
    assert pair.p is not None and 0.05 / 66 < pair.p < 0.05
    assert words(results).startswith("more is better than fewer")
    more = sn.evaluate(
        [right_on(range(7, 62), f"middle {i}") for i in range(10)], hundred, name="middle"
    )
    together = sn.Results([*results.runs, *more.runs])
    assert "is better than" not in words(together)


def test_no_table_shows_a_difference_that_the_sentences_above_it_leave_open(hundred: str) -> None:
    """Twelve runs: a p-value that counts among the eleven comparisons with the first, and not among all 66 pairs."""
    results = sn.evaluate([right_on(range(62), "more"), right_on(range(16, 64), "fewer")], hundred)
    [pair] = [d for d in results.compare().differences if d.scope == "benchmark"]
    assert pair.p is not None and 0.05 / 66 < pair.p < 0.05 / 11
    more = sn.evaluate(
        [right_on(range(7, 62), f"middle {i}") for i in range(10)], hundred, name="middle"
    )
    together = sn.Results([*results.runs, *more.runs])
    page = markdown_report(prepare_reported_runs(together.runs, together.rows))
    assert "is better than" not in page and "more is not significantly different from" in page
    rows = [line.split("|") for line in page.splitlines() if "more - fewer" in line]
    for row in rows:
        low = float(row[5].partition("[")[2].partition(",")[0])
        assert low <= 0 and float(row[6]) == pytest.approx(66 * pair.p, abs=0.001)
    assert rows
    assert "for all pairs, by kind (benchmarks, dimensions, overall)" in page


def test_instruments_that_were_run_beside_models_make_no_difference_of_theirs_less_sure(
    hundred: str,
) -> None:
    models = sn.evaluate(
        [right_on(range(62), "more"), right_on(range(45, 65), "fewer")], hundred, "vanilla"
    )
    beside = sn.evaluate(["snellen:oracle", "snellen:uniform"], hundred, "vanilla")
    together = sn.Results([*models.runs, *beside.runs])
    [alone] = [d for d in models.compare(resamples=0).differences if d.scope == "benchmark"]
    comparison = together.compare(resamples=0)
    of_pair = {(d.first, d.second): d for d in comparison.differences if d.scope == "benchmark"}
    assert of_pair["more", "fewer"] == alone and alone.p == alone.p_adjusted
    with_oracle = of_pair["more", "snellen:oracle"]
    assert (
        with_oracle.p
        and with_oracle.p_adjusted
        and with_oracle.p < with_oracle.p_adjusted <= 5 * with_oracle.p
    )
    page = markdown_report(prepare_reported_runs(together.runs, together.rows))
    assert (
        "pairs with snellen:oracle, snellen:uniform, which are instruments and not models, are corrected separately"
        in page
    )
    assert words(together).split(";")[0].split("(")[0] == words(models).split(";")[0].split("(")[0]


def test_a_baseline_that_was_chosen_is_what_the_verdict_is_about(hundred: str) -> None:
    """Corrected for the eleven pairs with it, as the table is."""
    results = sn.evaluate([right_on(range(62), "more"), right_on(range(16, 64), "fewer")], hundred)
    more = sn.evaluate(
        [right_on(range(7, 62), f"middle {i}") for i in range(10)], hundred, name="middle"
    )
    together = sn.Results([*results.runs, *more.runs])
    comparison = together.compare(baseline="fewer", resamples=0)
    [said, *_] = findings(
        prepare_reported_runs(together.runs, together.rows), ComparedRuns(together.runs, comparison)
    )
    assert said.startswith(
        "fewer is not significantly different from middle 0, middle 1, middle 2 and 7 more; more is better than"
    )
    assert "95% interval, corrected for all pairs with fewer, paired on 100 questions" in said


def test_a_report_without_dimensions_does_not_say_what_they_average(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    rows = [f"q{n},Which colour has sign {n}?,red,blue,B\n" for n in range(6)]
    Path("signs.csv").write_text("id,question,A,B,answer\n" + "".join(rows))
    signs = sn.build("signs.csv", to="signs", no_images=True)
    sn.evaluate("snellen:always-a", signs).report("report.md")
    text = Path("report.md").read_text()
    assert "Means are taken only over metrics with a common scale." in text
    assert "Each dimension" not in text


def test_unparsed_failed_and_partial_runs_are_said(hundred: str) -> None:
    def reply(request: Request) -> str | sn.Response:
        number = int(request.sample_id[1:])
        if number < 5:
            return sn.Response(error=Failure("timeout", "late"))
        return "Who can say." if number < 20 else "(A)"

    whole = words(
        sn.evaluate(sn.Scripted(reply, name="shy"), hundred, error_budget=1.0, name="whole")
    )
    # 15 of the 95 that came
    assert "Unparsed replies, scored as wrong: shy 15.8% (" in whole
    assert (
        "; 5 questions received no reply from shy. The results cover only part of the benchmarks or questions."
        in whole
    )
    results = sn.evaluate(
        sn.Scripted(reply, name="shy"), hundred, error_budget=1.0, limit=50, name="part"
    )
    assert "The results cover only part of the benchmarks or questions." in words(results)


def test_instruments_are_compared_only_with_each_other(hundred: str) -> None:
    results = sn.evaluate(
        [of_accuracy(0.9, "strong"), of_accuracy(0.5, "weak"), "snellen:oracle"], hundred
    )
    assert "This summary leaves out snellen:oracle: reference baselines, not models." in words(
        results
    ) and "strong is better than weak" in words(results)
    assert words(sn.evaluate("snellen:oracle", hundred)).startswith("snellen:oracle answers 100.0%")


def test_what_the_order_of_options_does_to_a_lead_is_said_where_it_is_shown(hundred: str) -> None:
    def drifting(request: Request) -> str:
        """Right in half of the orders of 7 in 10 questions."""
        labels, order = request.variant.labels, request.variant.order
        knows = rng_for(request.benchmark, request.sample_id, "knows", 0).random() < 0.7
        return f"({labels[order.index(0 if knows and order.index(0) < 2 else 1)]})"

    protocols = ["vanilla", "circular"]
    said = words(
        sn.evaluate(
            [of_accuracy(0.95, "steady"), sn.Scripted(drifting, name="drifting")],
            hundred,
            protocols,
        )
    )
    # 95 and 35 of 100 first answers are right, 95 and none in every order: 60 points, of which nothing is the order's.
    assert "correctly in every option order count, steady leads drifting by " in said
    assert (
        "points more than by first replies, because the replies of drifting depend more on the order."
        in said
    )

    def leaning(request: Request) -> str:
        """Right in the first order of all questions; in the others of 6 in 10."""
        labels, order = request.variant.labels, request.variant.order
        knows = rng_for(request.benchmark, request.sample_id, "leans", 0).random() < 0.6
        return f"({labels[order.index(0 if knows or order[0] == 0 else 1)]})"

    said = words(
        sn.evaluate(
            [sn.Scripted(leaning, name="leaning"), of_accuracy(0.2, "weaker")], hundred, protocols
        )
    )
    assert "correctly in every option order count, leaning leads weaker by " in said
    assert "points, comes from replies that change with the order." in said
    said = words(
        sn.evaluate([of_accuracy(0.9, "strong"), of_accuracy(0.5, "weak")], hundred, protocols)
    )
    assert "strong is better than weak" in said and "If only questions" not in said


def test_runs_on_other_builds_of_a_benchmark_are_not_compared(
    make: Callable[..., Benchmark],
) -> None:
    runs: list[ScoredRun] = []
    for count in (20, 30):
        folder = str(make([{**row, "answer": 0} for row in small.rows(count)], name="same").folder)
        runs += sn.evaluate(of_accuracy(0.9 if count == 20 else 0.2, f"m{count}"), folder).runs
    assert "The runs are not compared: " in words(sn.Results(runs)) and "better" not in words(
        sn.Results(runs)
    )


def test_open_questions_and_hidden_answers_make_no_claim(make: Callable[..., Benchmark]) -> None:
    hidden = [
        {name: value for name, value in row.items() if name != "answer"} for row in small.rows(6)
    ]
    assert words(sn.evaluate("snellen:uniform", str(make(hidden).folder))) == ""
    texts = sn.evaluate("snellen:uniform", ["eyechart/word", "eyechart/caption"], limit=5)
    assert words(texts).startswith(
        "snellen:uniform has no overall score for its 2 benchmarks, because word accuracy, CIDEr have no common scale; "
    )
    captions = sn.evaluate("snellen:uniform", "eyechart/caption", limit=5)
    assert words(captions).startswith("snellen:uniform scores 0.")


def test_long_right_answers_need_a_judge_before_any_number() -> None:
    facts = [model("A", 0.19, metric="rouge_l", chance=None, counts_replies=False)]
    [advice, *others] = sentences(facts, {})
    assert "metrics='judged_correct' and judge=MODEL" in advice
    assert "so A has no score yet" in advice
    assert "19.0%" not in " ".join([advice, *others])
