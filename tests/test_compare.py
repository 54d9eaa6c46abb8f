"""Runs compared question by question, each number against a pencil, SciPy or a simulation."""

from __future__ import annotations

import io
import json
import math
import random
import re
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from rich.console import Console
from scipy import stats

import snellen as sn
from small import built, command, rows
from snellen import registry
from snellen.analysis.group_means import estimate_mean
from snellen.analysis.group_spread import sum_by_group
from snellen.analysis.paired.comparison import compare_runs
from snellen.analysis.paired.differences import QuestionFlip, corrected_estimate
from snellen.analysis.paired.rank_intervals import MAX_RESAMPLED_GROUPS
from snellen.analysis.paired.significance import (
    adjusted,
    agree_with_test,
    corrected_interval,
    questions_needed,
    sign_flip_test,
)
from snellen.api import Results
from snellen.building.benchmark import Benchmark
from snellen.catalogue import BenchmarkSpec, SourceSpec
from snellen.cli import cli, show
from snellen.metrics.declaration import reply_metric
from snellen.records import Estimate, Failure, Sample, Score
from snellen.report.findings import findings
from snellen.report.paired_tables import comparison_tables, needed_questions_text
from snellen.report.reported_runs import prepare_reported_runs
from snellen.runs.run_folder import RunManifest
from snellen.runs.spec import ScoringSpec
from snellen.scoring.scored_run import ScoredBenchmark, ScoredRun, by_row


def answering(right: Callable[[int], bool], name: str) -> sn.Scripted:
    """A model that is right on the questions that `right` says, by number; the gold of question i is i mod 4."""

    def reply(request: sn.Request) -> str:
        number = int(request.sample_id.removeprefix("q"))
        return "ABCD"[number % 4 if right(number) else (number + 1) % 4]

    return sn.Scripted(reply, name=name)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("comparison")


@pytest.fixture(scope="module")
def single(folder: Path) -> Benchmark:
    """40 questions, each about an image of its own."""
    return built(rows(40, pictures=40), folder / "single", name="single", dimension="FGP")


@pytest.fixture(scope="module")
def compared(folder: Path, single: Benchmark) -> Results:
    """Right on 0-29 and on 10-31: each alone right on 10 and 2, together on 20."""
    models = [answering(lambda i: i < 30, "early"), answering(lambda i: 10 <= i < 32, "late")]
    return sn.evaluate(models, str(single.folder), runs=folder / "runs")


@pytest.mark.parametrize(
    ("needed", "words"),
    [(400, "400"), (800, "800"), (801, "no difference in sight"), (None, "no difference in sight")],
)
def test_a_number_of_questions_that_nobody_has_is_no_advice(
    compared: Results, needed: int | None, words: str
) -> None:
    """Of 40 questions; twenty times as many may be found, and 1,374,240 may not."""
    [one] = [each for each in compared.compare().differences if each.scope == "benchmark"]
    assert needed_questions_text(replace(one, needed=needed)) == words


def test_two_runs_are_compared_as_a_pencil_does(compared: Results) -> None:
    [one] = [d for d in compared.compare().differences if d.scope == "benchmark"]
    assert (one.first, one.second, one.first_value, one.second_value) == (
        "early",
        "late",
        0.75,
        0.55,
    )
    assert one.difference.value == pytest.approx(0.2)
    assert (one.only_first, one.only_second, one.difference.n) == (10, 2, 40)
    assert one.p == pytest.approx(stats.binomtest(2, 12).pvalue)  # McNemar's exact test
    assert one.difference.low is not None and one.difference.low > 0
    assert (one.dimension, one.protocol, one.method, one.metric) == (
        "FGP",
        "vanilla",
        "generation",
        "accuracy",
    )
    assert (one.unit, one.better, one.only_one_has_value, one.reason) == (
        "share",
        "higher",
        0,
        None,
    )
    error = stats.sem([1.0] * 10 + [-1.0] * 2 + [0.0] * 28)
    assert one.difference.stderr == pytest.approx(error)
    # The normal formula: 80% power at the 5% level.
    assert one.needed == math.ceil(
        40 * ((stats.norm.ppf(0.975) + stats.norm.ppf(0.8)) * error / 0.2) ** 2
    )


def test_flips_name_the_questions(compared: Results) -> None:
    flips = compared.compare().flips
    assert [flip.sample_id for flip in flips] == [f"q{i:03d}" for i in (*range(10), 30, 31)]
    assert [flip.first_value for flip in flips] == [1.0] * 10 + [0.0] * 2
    assert flips[0] == QuestionFlip(
        "early", "late", "single", "q000", 0, "vanilla", "generation", "accuracy", 1.0, 0.0
    )


def test_runs_opened_together_are_compared_as_when_they_were_made(compared: Results) -> None:
    folders = [run.folder for run in compared.runs]
    opened = sn.load_run(map(str, folders))
    assert opened.rows == compared.rows
    assert opened.compare(resamples=50) == compared.compare(resamples=50)
    by_folder = opened.compare(baseline=folders[1], resamples=0)
    assert by_folder == opened.compare(baseline="late", resamples=0)
    assert {d.first for d in by_folder.differences} == {"late"}
    assert sn.load_run(folders[0]).rows == sn.load_run([folders[0]]).rows


def test_a_run_named_twice_or_none_at_all_is_refused(
    compared: Results, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = compared.runs[0].folder
    for verb in ("compare", "report"):
        code, _, err = command(capsys, verb, str(folder), f"{folder}/")
        assert code == 2 and f"{folder.name} is given more than once; give each run once" in err
    monkeypatch.chdir(folder.parent)
    with pytest.raises(
        sn.DataError, match=rf"{folder.name} is given more than once; give each run once"
    ):
        sn.load_run([folder, folder.name])
    with pytest.raises(sn.DataError, match="needs at least one run folder"):
        sn.load_run([])


def test_runs_of_one_model_in_folders_of_the_same_name_are_told_apart(
    single: Benchmark, tmp_path: Path
) -> None:
    for place, wrong in (("first", 1), ("second", 2)):
        model = answering(lambda i, wrong=wrong: i >= wrong, "m")  # type: ignore[misc]
        sn.evaluate(model, str(single.folder), runs=tmp_path / place, name="run")
    folders = [tmp_path / place / "run" for place in ("first", "second")]
    opened = sn.load_run(folders)
    assert {row.model for row in opened.rows} == {f"m ({folder})" for folder in folders}
    [one] = [
        d
        for d in opened.compare(baseline=folders[1], resamples=0).differences
        if d.scope == "benchmark"
    ]
    assert (one.first_value, one.second_value) == (38 / 40, 39 / 40)


def test_the_baseline_comes_first_and_other_pairs_are_left_out(
    folder: Path, single: Benchmark
) -> None:
    models = [answering(lambda i, k=k: i % k == 0, f"every {k}") for k in (2, 3, 5)]
    results = sn.evaluate(models, str(single.folder), runs=folder / "three")
    pairs = {
        (d.first, d.second) for d in results.compare(baseline="every 3", resamples=0).differences
    }
    assert pairs == {("every 3", "every 2"), ("every 3", "every 5")}
    comparison = results.compare(resamples=50)
    assert len({(d.first, d.second) for d in comparison.differences}) == 3
    [*_, ranks] = comparison_tables(comparison)
    assert (
        ranks.title == "Ranks in accuracy by generation" and ranks.header[1:] == comparison.labels
    )
    assert re.fullmatch(r"1 \[1 to [12]\], first in \d+\.\d%", str(ranks.rows[0][1])), (
        "every 2 has most right"
    )
    with pytest.raises(sn.UnknownNameError, match="every 4"):
        results.compare(baseline="every 4")


def test_what_only_one_run_has_a_value_for_is_left_out_and_counted(
    folder: Path, single: Benchmark
) -> None:
    def sometimes(request: sn.Request) -> str | sn.Response:
        number = int(request.sample_id.removeprefix("q"))
        return sn.Response(error=Failure("server", "gone")) if number < 5 else "ABCD"[number % 4]

    whole = sn.evaluate(
        answering(lambda i: i >= 5, "whole"), str(single.folder), runs=folder / "errors"
    )
    part = sn.evaluate(
        sn.Scripted(sometimes, name="part"),
        str(single.folder),
        runs=folder / "errors",
        error_budget=1.0,
    )
    [one] = [
        d
        for d in Results([*whole.runs, *part.runs]).compare().differences
        if d.scope == "benchmark"
    ]
    assert (one.difference.n, one.only_one_has_value, one.difference.value) == (35, 5, 0.0)
    assert one.needed is None


def test_a_mean_of_benchmarks_weighs_them_alike(folder: Path) -> None:
    small, large = (
        built(rows(n, pictures=n), folder / f"of{n}", name=f"of{n}", dimension="FGP")
        for n in (10, 30)
    )
    models = [answering(lambda i: True, "right"), answering(lambda i: i >= 5, "late")]
    results = sn.evaluate(models, [str(small.folder), str(large.folder)], runs=folder / "means")
    found = {(d.benchmark, d.dimension): d for d in results.compare().differences}
    assert found["of10", "FGP"].difference.value == 0.5
    assert found["of30", "FGP"].difference.value == pytest.approx(5 / 30)
    assert found["*", "FGP"].difference.value == pytest.approx((0.5 + 5 / 30) / 2)
    assert {d.scope for d in found.values()} == {"benchmark", "dimension"}


@reply_metric(unit="seconds", better="lower")
def seconds_late(reply: str, references: Sequence[str]) -> float:
    return abs(float(reply) - float(references[0]))


def test_a_metric_of_which_less_is_better_is_counted_so_and_has_no_mean_over_benchmarks(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Early is off by 0 0 0 0 2 10, late by 0 3 0 4 2 20; accuracies are 1 and 1/4, in a suite of each benchmark."""
    monkeypatch.setitem(registry._NAMES, "metrics", dict(registry._NAMES["metrics"]))
    registry.register("metrics", "seconds_late", seconds_late)
    clock = [
        {"id": f"q{i:03d}", "question": "How late?", "answer": "10", "image": row["image"]}
        for i, row in enumerate(rows(6, pictures=6))
    ]
    open_questions = {"formulation": "text", "metrics": ("seconds_late",), "dimension": "FGP"}
    benchmarks = [
        built(clock, folder / "less" / name, name=name, **open_questions)
        for name in ("clock", "watch")
    ]
    benchmarks += [
        built(
            rows(4, pictures=4), folder / "less" / name, name=name, dimension=dimension, suite=suite
        )
        for name, dimension, suite in (
            ("one", "CG", "mine"),
            ("two", "CG", "yours"),
            ("three", "VMT", "mine"),
        )
    ]

    def model(name: str, seconds: list[int], right: range) -> sn.Scripted:
        def reply(request: sn.Request) -> str:
            number = int(request.sample_id[1:])
            if request.benchmark in ("clock", "watch"):
                return str(seconds[number])
            return "ABCD"[number if number in right else (number + 1) % 4]

        return sn.Scripted(reply, name=name)

    models = [
        model("early", [10, 10, 10, 10, 12, 20], range(4)),
        model("late", [10, 13, 10, 14, 12, 30], range(1)),
    ]
    results = sn.evaluate(
        models, [str(benchmark.folder) for benchmark in benchmarks], runs=folder / "clocks"
    )
    found = {
        (one.benchmark, one.dimension): one for one in results.compare(resamples=0).differences
    }
    late = found["clock", "FGP"]
    assert (late.only_first, late.only_second, late.unit, late.better) == (3, 0, "seconds", "lower")
    gaps = [0, -3, 0, -4, 0, -10]
    assert (late.first_value, late.difference.value) == (2.0, pytest.approx(sum(gaps) / 6))
    assert late.difference.stderr == pytest.approx(stats.sem(gaps))
    # An interval of numbers without bounds: both ends are far from those of a share.
    assert late.difference.low is not None and late.difference.low < -1
    assert late.difference.high is not None and late.difference.high > 1
    # Seconds have no mean over benchmarks, and so there is none over all dimensions.
    assert [place for place in found if place[0] == "*"] == [("*", "CG"), ("*", "VMT")]
    mean, alone = found["*", "CG"], found["*", "VMT"]
    assert (mean.first_value, mean.second_value, mean.difference.n) == (1.0, 0.25, 8)
    assert (mean.suite, alone.suite, mean.unit, mean.metric) == ("", "mine", "share", "accuracy")
    assert mean.p == pytest.approx(stats.binomtest(6, 6).pvalue) and (
        mean.only_first,
        mean.needed,
    ) == (None, None)


def test_the_mean_over_all_weighs_benchmarks_of_any_size_alike(folder: Path) -> None:
    """Accuracy 1 and 1/2 on four questions of one dimension, 1 and 3/4 on eight of another."""
    benchmarks = [
        built(rows(n, pictures=n), folder / f"d{n}", name=f"d{n}", dimension=d)
        for n, d in ((4, "CG"), (8, "VMT"))
    ]
    models = [answering(lambda i: True, "right"), answering(lambda i: i >= 2, "late")]
    results = sn.evaluate(
        models, [str(benchmark.folder) for benchmark in benchmarks], runs=folder / "overall"
    )
    [overall] = [one for one in results.compare(resamples=0).differences if one.scope == "overall"]
    assert (overall.first_value, overall.second_value) == (1.0, 0.625)
    assert (overall.difference.value, overall.difference.n) == (0.375, 12)
    assert overall.difference.stderr == pytest.approx(
        math.hypot(stats.sem([1, 1, 0, 0]), stats.sem([1, 1, *[0] * 6])) / 2
    )
    # Questions of the small benchmark move the mean by 1/8, those of the large one by 1/16; all went one way.
    assert overall.p == pytest.approx(2 / 2**4)


def test_the_difference_over_all_benchmarks_is_the_one_that_the_sentence_at_the_head_tells(
    folder: Path,
) -> None:
    """Two benchmarks of one dimension and one of another: the mean of the dimensions is another number."""
    benchmarks = [
        built(rows(n, pictures=n), folder / "head" / name, name=name, dimension=dimension)
        for n, name, dimension in ((4, "h4", "CG"), (8, "h8", "CG"), (16, "h16", "VMT"))
    ]
    models = [answering(lambda i: True, "right"), answering(lambda i: i >= 4, "late")]
    results = sn.evaluate(
        models, [str(benchmark.folder) for benchmark in benchmarks], runs=folder / "head-runs"
    )
    [overall] = [one for one in results.compare(resamples=0).differences if one.scope == "overall"]
    assert overall.difference.value == pytest.approx((1 + 1 / 2 + 1 / 4) / 3)
    corrected = corrected_estimate(overall)
    assert corrected.low is not None and corrected.high is not None
    ends = f"{100 * corrected.low:.1f} to {100 * corrected.high:.1f}"
    assert findings(prepare_reported_runs(results.runs, results.rows))[0].startswith(
        f"right is better than late by {ends} points"
    )
    first, second = (
        results.value("accuracy", model=name, benchmark="*") for name in ("right", "late")
    )
    assert (overall.first_value, overall.second_value) == (
        pytest.approx(first),
        pytest.approx(second),
    )


def test_without_a_question_or_a_value_the_difference_says_why(
    folder: Path, single: Benchmark
) -> None:
    models = [answering(lambda i: True, "easy"), answering(lambda i: True, "hard")]
    apart = [
        sn.evaluate(
            model, str(single.folder), where=f"level == '{model.name}'", runs=folder / "apart"
        ).runs[0]
        for model in models
    ]
    [one] = [d for d in Results(apart).compare(resamples=0).differences if d.scope == "benchmark"]
    assert (one.reason, one.difference.n, one.only_one_has_value) == ("not asked", 0, 40)
    assert (one.difference.value, one.p, one.needed, one.first_value) == (None, None, None, None)


def test_a_metric_of_summed_counts_is_compared_too(folder: Path) -> None:
    """F1 of yes: 2 p r / (p + r) for both runs, and no count of better questions."""
    questions = [
        {
            "id": f"q{i:03d}",
            "question": "Is there a cat?",
            "answer": "yes" if i % 2 else "no",
            "image": row["image"],
        }
        for i, row in enumerate(rows(40, pictures=20))
    ]
    benchmark = built(
        questions, folder / "presence", name="presence", formulation="text", metrics=("pope",)
    )
    says_yes, says_gold = (
        sn.Scripted(lambda request: "yes", name="agreeable"),
        sn.Scripted(
            lambda request: "yes" if int(request.sample_id[1:]) % 2 else "no", name="seeing"
        ),
    )
    results = sn.evaluate([says_gold, says_yes], str(benchmark.folder), runs=folder / "f1")
    [one] = results.compare(metrics="pope_f1").differences
    assert (one.first_value, one.second_value) == (1.0, pytest.approx(2 / 3))
    assert one.difference.value == pytest.approx(1 / 3)
    assert one.only_first is None and one.p is not None and one.p < 0.01
    assert (one.difference.n, one.difference.groups) == (40, 20)
    assert results.compare(metrics="pope_f1").flips == ()
    never = sn.evaluate(
        sn.Scripted(lambda request: "no", name="no"), str(benchmark.folder), runs=folder / "f1"
    )
    [one] = (
        Results([*results.runs[:1], *never.runs])
        .compare(metrics="pope_precision", resamples=0)
        .differences
    )
    assert (one.first_value, one.second_value, one.difference.value) == (1.0, None, None)
    assert one.reason == "metric undefined" and one.difference.n == 40
    turned = (
        Results([*never.runs, *results.runs[:1]])
        .compare(metrics="pope_precision", resamples=0)
        .differences[0]
    )
    assert (turned.first_value, turned.second_value, turned.difference.value) == (None, 1.0, None)


@given(st.floats(-1, 1), st.floats(0, 1), st.floats(0, 1), st.floats(0, 1))
def test_the_interval_of_a_single_comparison_is_not_corrected(
    value: float, below: float, above: float, p: float
) -> None:
    estimate, p = agree_with_test(Estimate(value, 0.1, value - below, value + above, 40), p)
    assert corrected_interval(estimate, p, p, 1) == (estimate.low, estimate.high)


@pytest.mark.parametrize("bound", [1.0, 10.0])
def test_whoever_is_never_worse_is_as_surely_better_as_whoever_is_so_once(bound: float) -> None:
    """Twelve captions of a hundred are better by 0.1 to 0.2; an unseen loss is no greater than the gains seen."""
    gains = [0.1 + i / 120 for i in range(12)]

    def low_and_p(*losses: float) -> tuple[float, float]:
        gaps = [*gains, *losses, *[0.0] * (88 - len(losses))]
        estimate = estimate_mean(gaps, range(100), bounds=(-bound, bound))
        agreed, p = agree_with_test(estimate, sign_flip_test(gaps))
        assert agreed.low is not None and p is not None
        return agreed.low, p

    (never_low, never_p), (once_low, once_p) = low_and_p(), low_and_p(-0.1)
    assert 0 < once_low / 2 < never_low and never_p < 0.01 and once_p < 0.01


@pytest.mark.parametrize(
    ("name", "row"),
    [
        ("unparsed_rate", "unparsed_rate"),
        ("accuracy_upper", "accuracy_upper"),
        ("pope_f1", "pope_f1"),
        ("pope", "pope_accuracy"),
    ],
)
def test_the_command_compares_any_row_by_its_name_and_a_metric_by_its_first(
    name: str, row: str, folder: Path, compared: Results, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = compared.runs
    if name.startswith("pope"):
        questions = [
            {**one, "options": ["yes", "no"], "answer": i % 2} for i, one in enumerate(rows(4))
        ]
        benchmark = built(questions, folder / f"either-{name}", name="either")
        models = [sn.Scripted(lambda request, text=text: text, name=text) for text in ("yes", "no")]
        runs = sn.evaluate(models, str(benchmark.folder), runs=folder / f"either-runs-{name}").runs
    words = ("compare", *(str(run.folder) for run in runs), "--metric", name, "--json")
    code, out, err = command(capsys, *words)
    assert code == 0, err
    assert json.loads(out.splitlines()[0])["metric"] == row


def test_a_metric_that_nobody_has_is_named_with_the_nearest(
    compared: Results, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(
        sn.UnknownNameError, match=r"unknown metric 'pass_at_j'; did you mean pass_at_k\?"
    ):
        compared.compare(metrics="pass_at_j")
    code, _, err = command(
        capsys, "compare", *(str(run.folder) for run in compared.runs), "--metric", "zzz"
    )
    assert code == 2 and f"shows all {len(registry.names('metrics'))}" in err


def test_runs_on_different_builds_are_refused(folder: Path) -> None:
    found = []
    for n in (8, 9):
        benchmark = built(rows(n), folder / f"build{n}", name="same")
        found += sn.evaluate(
            answering(lambda i: True, f"m{n}"), str(benchmark.folder), runs=folder / "builds"
        ).runs
    with pytest.raises(sn.DataError, match="different builds of same"):
        Results(found).compare()
    with pytest.raises(sn.DataError, match="at least two runs"):
        Results(found[:1]).compare()


def test_ranks_have_intervals_that_a_clear_winner_does_not_need(
    compared: Results, single: Benchmark
) -> None:
    ranks = {(one.model, one.benchmark): one for one in compared.compare(resamples=2000).ranks}
    early, late = ranks["early", "single"], ranks["late", "single"]
    assert (early.rank, late.rank) == (1, 2)
    # Late is not behind where its 2 questions are drawn as often as the other's 10, or more often.
    behind = stats.skellam(2, 10).sf(-0.5)
    assert late.best == pytest.approx(behind, abs=4 * math.sqrt(behind / 2000))
    assert (early.low, early.high) == (1, 1)


def test_many_pictures_are_drawn_in_lots_with_the_same_spread() -> None:
    """The chance that the better of two is ahead, against the normal approximation, on more images than lots."""
    from snellen.analysis.paired.differences import QuestionMeasures
    from snellen.analysis.paired.rank_intervals import rank_intervals

    n, rng = 4 * MAX_RESAMPLED_GROUPS, random.Random(3)
    spec = BenchmarkSpec(
        name="many", title="many", formulation="choice", source=SourceSpec("table")
    )
    samples = {f"q{i}": Sample(f"q{i}", "many", group=f"q{i}") for i in range(n)}
    scored = ScoredBenchmark(spec, samples, (), (), {})
    values = [{(name, 0): float(rng.random() < share) for name in samples} for share in (0.5, 0.51)]
    measures = [
        QuestionMeasures(scored, "vanilla", "generation", "accuracy", values=one) for one in values
    ]
    gaps = [b - a for a, b in zip(values[0].values(), values[1].values(), strict=True)]
    mean, variance = sum(gaps) / n, sum(gap * gap for gap in gaps) / n
    ahead = stats.norm.cdf(mean / math.sqrt((variance - mean * mean) / n))
    second = next(
        one for one in rank_intervals(["a", "b"], [measures], {}, 4000, 0) if one.model == "b"
    )
    assert second.best == pytest.approx(ahead, abs=0.04)


def near_the_border(questions: int, about_a_image: int, apart: float, seed: int) -> ScoredRun:
    """A run of right and wrong answers; runs of other seeds were asked the same questions."""
    rng = random.Random(f"{questions} {about_a_image} {apart} {seed}")
    spec = BenchmarkSpec(
        name="border",
        title="border",
        formulation="choice",
        source=SourceSpec("table"),
        dimension="FGP",
    )
    share = 0.5 + seed * apart / math.sqrt(questions)
    samples = {
        f"q{i}": Sample(f"q{i}", "border", group=f"p{i // about_a_image}") for i in range(questions)
    }
    scores = [
        Score("vanilla", "generation", "border", name, 0, "accuracy", float(rng.random() < share))
        for name in samples
    ]
    manifest = RunManifest(1, f"model {seed}", {}, (), (), "", (), {}, {}, "")
    scored = ScoredBenchmark(spec, samples, (), by_row(scores), {})
    return ScoredRun(Path(f"{seed}"), manifest, ScoringSpec(), (), (scored,), 0, 0)


def test_in_a_table_the_interval_and_the_corrected_p_beside_it_say_the_same() -> None:
    clear_by_themselves_alone = 0
    for apart in (0.6, 0.8, 1.0, 1.4):
        runs = [near_the_border(120, 1, apart, seed) for seed in range(4)]
        [table, *_] = comparison_tables(compare_runs(runs, resamples=0))
        place = {name: i for i, name in enumerate(table.header)}
        for row in table.rows:
            interval = row[place["difference"]].estimate
            corrected, alone = (
                float(row[place[name]].lstrip("<")) for name in ("p corrected", "p alone")
            )
            assert (interval.low > 0 or interval.high < 0) == (corrected < 0.05)
            clear_by_themselves_alone += alone < 0.05 <= corrected
    assert clear_by_themselves_alone > 3


def test_interval_test_and_rank_say_the_same_near_the_border() -> None:
    """Of three models at a time, whose neighbours differ by about two standard errors."""
    apart_by_two_methods = pairs = 0
    for questions, about_a_image in ((12, 1), (30, 1), (30, 3), (90, 3)):
        for apart in (round(1 + 0.05 * k, 2) for k in range(24)):
            runs = [near_the_border(questions, about_a_image, apart, seed) for seed in range(3)]
            comparison = compare_runs(runs, resamples=20)
            places = {rank.model: rank for rank in comparison.ranks if rank.benchmark == "border"}
            for found in (one for one in comparison.differences if one.scope == "benchmark"):
                low, high, p, corrected = (
                    found.difference.low,
                    found.difference.high,
                    found.p,
                    found.p_adjusted,
                )
                assert None not in (
                    low,
                    high,
                    p,
                    corrected,
                    found.low_corrected,
                    found.high_corrected,
                )
                assert (low > 0 or high < 0) == (p < 0.05)
                assert -1 <= found.low_corrected <= low and high <= found.high_corrected <= 1
                assert (found.low_corrected > 0 or found.high_corrected < 0) == (corrected < 0.05)
                first, second = places[found.first], places[found.second]
                # A rank is above another one's for sure only where the difference is shown.
                assert not (first.high < second.low or second.high < first.low) or corrected < 0.05
                assert (corrected < 0.05) <= (first.low != second.low or first.high != second.high)
                # What an interval and a test of their own would have said.
                names = int(found.first[-1]), int(found.second[-1])
                gaps = [
                    a.value - b.value
                    for a, b in zip(
                        *(runs[name].benchmarks[0].scores for name in names), strict=True
                    )
                ]
                groups = [f"p{i // about_a_image}" for i in range(questions)]
                own = estimate_mean(gaps, groups, bounds=(-1.0, 1.0))
                test = sign_flip_test(list(sum_by_group(gaps, groups).values()))
                apart_by_two_methods += (own.low > 0 or own.high < 0) != (test < 0.05)
                pairs += 1
    assert pairs == 288 and apart_by_two_methods > 10


@given(st.lists(st.sampled_from([-1.0, 1.0, 0.0]), min_size=1, max_size=60))
def test_single_answers_have_the_p_value_of_mcnemar(sums: list[float]) -> None:
    better, moved = sums.count(1.0), len(sums) - sums.count(0.0)
    expected = stats.binomtest(better, moved).pvalue if moved else 1.0
    assert sign_flip_test(sums) == pytest.approx(expected)


# Eighths have exact sums: rounding makes other ties in a sum of our order than in SciPy's.
@given(
    st.lists(st.integers(-24, 24).map(lambda n: n / 8), min_size=2, max_size=8).filter(
        lambda v: len(set(v)) > 1
    )
)
def test_few_groups_have_the_p_value_of_all_permutations(sums: list[float]) -> None:
    def total(values: list[float], axis: int) -> float:
        return values.sum(axis=axis)  # type: ignore[attr-defined, no-any-return]

    if len({abs(value) for value in sums if value}) < 2:
        return
    expected = stats.permutation_test(
        (sums,), total, permutation_type="samples", n_resamples=10**6
    ).pvalue
    assert sign_flip_test(sums) == pytest.approx(expected, abs=1e-9)


def test_many_groups_have_the_p_value_of_durkalski() -> None:
    sums = [float(i % 5 - 1) for i in range(50)]
    statistic = sum(sums) ** 2 / sum(value * value for value in sums)
    assert sign_flip_test(sums) == pytest.approx(stats.chi2(1).sf(statistic))


def test_equal_models_are_told_apart_in_five_percent_at_most() -> None:
    """Two systems as good as each other, 60 images of 1 to 4 questions, answers of an image alike."""
    rng, found, trials = random.Random(11), 0, 1500
    for _ in range(trials):
        sums = []
        for _ in range(60):
            hard = rng.random()
            sums.append(
                sum((rng.random() > hard) - (rng.random() > hard) for _ in range(rng.randint(1, 4)))
            )
        found += sign_flip_test([float(value) for value in sums]) < 0.05
    assert found / trials < 0.05 + 3 * math.sqrt(0.05 * 0.95 / trials)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12))
def test_corrections_agree_with_other_programs(p_values: list[float]) -> None:
    assert adjusted(p_values, "bh") == pytest.approx(list(stats.false_discovery_control(p_values)))
    assert adjusted(p_values, "none") == p_values
    holm, m = adjusted(p_values, "holm"), len(p_values)
    # Holm's own procedure: step down until the first that is not below level / (m - j + 1).
    for level in (0.01, 0.05, 0.2):
        rejected: set[int] = set()
        for step, i in enumerate(sorted(range(m), key=p_values.__getitem__)):
            if p_values[i] > level / (m - step):
                break
            rejected.add(i)
        assert {i for i in range(m) if holm[i] <= level * (1 + 1e-12)} >= rejected
        assert {i for i in range(m) if holm[i] <= level * (1 - 1e-12)} <= rejected


def test_so_many_questions_do_find_the_difference_four_times_in_five() -> None:
    """McNemar's question: 30% and 20% only one right; the normal formula by hand, and a simulation."""
    gap, variance = 0.1, 0.5 - 0.1**2
    needed = questions_needed(gap, math.sqrt(variance / 100), 100, differing=50)
    assert needed == math.ceil(
        (stats.norm.ppf(0.975) + stats.norm.ppf(0.8)) ** 2 * variance / gap**2
    )
    rng, found = random.Random(5), 0
    for _ in range(400):
        sums = [rng.choices([1.0, -1.0, 0.0], [0.3, 0.2, 0.5])[0] for _ in range(needed)]
        found += sign_flip_test(sums) < 0.05
    assert found / 400 == pytest.approx(0.8, abs=0.06)


def test_the_command_prints_tables_and_writes_files(
    compared: Results, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = [str(run.folder) for run in compared.runs]
    files = [folder / f"comparison.{suffix}" for suffix in ("md", "csv", "json")]
    outputs = [word for file in files for word in ("-o", str(file))]
    cli.main(["compare", *runs, "--details", "--resamples", "200", *outputs], standalone_mode=False)
    text = " ".join(capsys.readouterr().out.split())
    assert text.startswith(
        "early is better than late by 3.2 to 36.3 points of accuracy (95% interval, paired on 40"
    )
    assert (
        "Paired differences of accuracy under vanilla: early minus late" in text
        and "20.0 points [" in text
    )
    assert "12 questions differ in accuracy under vanilla" in text and "Ranks" not in text, (
        "of two there is one order"
    )
    assert re.search(
        "only early correct only late correct decided in both ─+ vanilla 10 2 40 ", text
    )
    markdown, table, everything = (file.read_text("utf-8") for file in files)
    assert "## Paired differences of accuracy under vanilla: early minus late" in markdown
    assert table.startswith("first,second,benchmark")
    assert len(json.loads(everything)["flips"]) == 12
    with pytest.raises(sn.DataError, match="snellen report"):
        cli.main(["compare", *runs, "-o", str(folder / "comparison.html")], standalone_mode=False)


def test_files_and_json_have_the_circular_differences_that_the_terminal_shows(
    single: Benchmark, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    models = [answering(lambda i: i < 30, "early"), answering(lambda i: 10 <= i < 32, "late")]
    results = sn.evaluate(models, str(single.folder), "circular", runs=folder / "rotated")
    runs = [str(run.folder) for run in results.runs]
    cli.main(["compare", *runs, "--details"], standalone_mode=False)
    shown = " ".join(capsys.readouterr().out.split())
    assert "of accuracy under circular (first order only): early minus late" in shown
    assert "of circular accuracy under circular: early minus late" in shown
    files = [folder / f"rotated.{suffix}" for suffix in ("md", "csv", "json")]
    cli.main(
        ["compare", *runs, "--json", *(word for file in files for word in ("-o", str(file)))],
        standalone_mode=False,
    )
    printed = [json.loads(line)["metric"] for line in capsys.readouterr().out.splitlines()]
    wanted = ["accuracy", "accuracy", "circular_accuracy", "circular_accuracy"]
    markdown, table, everything = (file.read_text("utf-8") for file in files)
    written = json.loads(everything)
    assert (
        printed == wanted == [row["metric"] for row in written["differences"]]
        and "circular" not in written
    )
    assert [line.split(",")[7] for line in table.splitlines()] == ["metric", *wanted]
    assert "## Paired differences of circular accuracy under circular: early minus late" in markdown
    assert results.compare(resamples=0).table()["metric"].to_list() == wanted
    assert (
        results.compare(metrics="accuracy", resamples=0).table()["metric"].to_list() == wanted[:2]
    )


def test_questions_answered_in_part_are_no_part_of_n_and_a_footnote_counts_them(
    single: Benchmark, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def failing(name: str, first: int) -> sn.Scripted:
        """Right always, but from the third order on nothing comes for ten questions."""

        def reply(request: sn.Request) -> str | sn.Response:
            number = int(request.sample_id.removeprefix("q"))
            if request.variant.test >= 2 and first <= number < first + 10:
                return sn.Response(error=Failure("server", "500"))
            return "ABCD"[request.variant.order.index(number % 4)]

        return sn.Scripted(reply, name=name)

    models = [failing("a", 0), failing("b", 5)]
    results = sn.evaluate(
        models, str(single.folder), "circular", runs=folder / "broken", error_budget=1.0
    )
    own = [
        r.estimate
        for r in results.rows
        if (r.metric, r.benchmark, r.slice) == ("circular_accuracy", "single", "")
    ]
    assert [(estimate.n, estimate.errors) for estimate in own] == [(30, 10), (30, 10)]
    comparison = results.compare()
    [difference] = [d.difference for d in comparison.circular or () if d.scope == "benchmark"]
    assert (difference.value, difference.n, difference.errors) == (0.0, 25, 15)
    cli.main(
        ["compare", *(str(run.folder) for run in results.runs), "--details"], standalone_mode=False
    )
    shown = " ".join(capsys.readouterr().out.split())
    assert "n=25" in shown and "15 of 40 questions are incomplete, because requests failed" in shown


def test_a_narrow_terminal_breaks_no_word_and_names_the_columns_that_it_has_no_room_for(
    compared: Results, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = io.StringIO()
    monkeypatch.setattr(show, "console", Console(file=written, width=60))
    [table, *_] = comparison_tables(compared.compare(resamples=0))
    show.print_tables([replace(table, rows=(("eyechart/position", *table.rows[0][1:]),))])
    words = written.getvalue().split()
    assert {"eyechart/position", "75.0%", "difference", "36.3]", "n=40", "corrected"} <= set(words)
    assert (
        "Not shown (narrow terminal): only first better, only second better, needed."
        in " ".join(words)
    )


def test_a_report_of_several_runs_compares_each_with_the_first(
    compared: Results, folder: Path
) -> None:
    page = compared.report(folder / "report.html").read_text("utf-8")
    assert 'id="comparison"' in page and "early minus late" in page
    alone = Results(compared.runs[:1]).report(folder / "alone.html").read_text("utf-8")
    assert 'id="comparison"' not in alone


def test_frames_have_a_row_a_difference_a_rank_and_a_flip(compared: Results) -> None:
    found = compared.compare(resamples=100)
    assert found.table()["difference"].to_list() == pytest.approx([0.2, 0.2])
    assert found.rank_table().height == 4 and found.flip_table().height == 12


def test_numbers_by_different_rules_are_not_compared(folder: Path) -> None:
    """The same captions as published and by the standard rules have different headline metrics."""
    captions = [
        {"id": f"q{i}", "question": "Describe it.", "answer": ["a cat"], "image": row["image"]}
        for i, row in enumerate(rows(6))
    ]
    facts = {"suite": "reform-eval", "task": "caption", "dimension": "Desc", "formulation": "text"}
    benchmark = built(captions, folder / "captions", name="captions", metrics=("cider",), **facts)
    model = sn.Scripted(lambda request: "a cat", name="captioner")
    [run] = sn.evaluate(model, str(benchmark.folder), "vanilla", runs=folder / "rules").runs
    both = [*sn.score(run.folder).runs, *sn.score(run.folder, as_published=True).runs]
    with pytest.raises(sn.DataError, match="no benchmark, protocol and metric in common"):
        Results(both).compare()


# --- what is said where little can be ----------------------------------------------------------------------------------


def test_the_number_needed_is_never_below_what_the_test_can_decide_by() -> None:
    """Six images that differ give a p of 2 / 2^6 = 0.031 at best, five one of 0.0625: witnesses by hand."""
    assert questions_needed(0.75, 0.25, 4, differing=3) == 8
    assert questions_needed(0.5, 0.1, 100, differing=50) == math.ceil(
        100 * ((stats.norm.ppf(0.975) + stats.norm.ppf(0.8)) * 0.1 / 0.5) ** 2
    )


def test_of_four_questions_the_advice_is_more_than_four(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    benchmark = built(rows(4, pictures=4), folder / "four", name="four")
    for name, misses in (("knows", 0), ("misses", 3)):
        model = sn.Scripted(
            lambda request, misses=misses: (
                "(Z)"
                if int(request.sample_id[1:]) < misses
                else f"({'ABCD'[int(request.sample_id[1:]) % 4]})"
            ),
            name=name,
        )
        sn.evaluate(model, str(benchmark.folder), runs=folder / "few", name=name)
    code, out, _ = command(capsys, "compare", str(folder / "few/knows"), str(folder / "few/misses"))
    assert code == 0 and "paired on 4 questions" in " ".join(out.split())
    said = " ".join(out.split())
    assert "questions needed to detect differences of this size: at least 8 for four." in said


def test_runs_with_nothing_in_common_are_told_what_they_do_not_share(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = folder / "apart"
    for name, benchmark, protocol in (
        ("a", "eyechart/shape", "vanilla"),
        ("b", "eyechart/shape", "blind"),
        ("c", "eyechart/colour", "vanilla"),
        ("d", "eyechart/shape", "circular"),
    ):
        sn.evaluate("snellen:always-a", benchmark, protocol, limit=4, runs=runs, name=name)
    code, _, err = command(capsys, "compare", str(runs / "a"), str(runs / "b"))
    assert code == 2 and err == (
        "snellen: these runs asked eyechart/shape under different protocols: vanilla in snellen:always-a (a); blind in "
        "snellen:always-a (b); run both under the same one (--protocol vanilla)\n"
    )
    code, _, err = command(capsys, "compare", str(runs / "a"), str(runs / "c"))
    assert code == 2 and err == (
        "snellen: these runs have no benchmark in common: eyechart/shape in snellen:always-a (a); eyechart/colour in "
        "snellen:always-a (c); run the models on the same benchmarks\n"
    )
    # The first pass of a circular run asks what a run under vanilla asks.
    code, out, err = command(capsys, "compare", str(runs / "a"), str(runs / "d"), "--json")
    assert code == 0, err
    difference = json.loads(out.splitlines()[0])
    assert difference["protocol"] == "vanilla" and difference["second_protocol"] == "circular"
    assert (
        difference["first_value"] == difference["second_value"] == sn.load_run(runs / "a").value()
    )
    assert difference["only_one_has_value"] == 0
    out = " ".join(command(capsys, "compare", str(runs / "d"), str(runs / "a"))[1].split())
    note = "(circular, vanilla): accuracy is that of the first order of options, which is the same in both."
    assert note in out


def test_first_orders_that_differ_between_protocols_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    header = "id,question,A,B,C,answer,prediction\n"
    asked = [f"q{n},Which colour has sign {n}?,red,blue,grey,B\n" for n in range(6)]
    Path("asked.csv").write_text(header.replace(",prediction", "") + "".join(asked))
    sn.build("asked.csv", name="signs", no_images=True)
    sn.evaluate("snellen:always-a", "signs", "circular", runs="runs", name="circular")
    shown = [row.replace("\n", ",A\n") for row in asked]
    for n in (1, 4):
        shown[n] = shown[n].replace("red,blue,grey,B", "blue,red,grey,A")
    Path("shown.csv").write_text(header + "".join(shown))
    sn.score(sn.import_run("shown.csv", benchmark="signs", to="runs/shown"))

    code, out, err = command(capsys, "compare", "runs/shown", "runs/circular")

    assert code == 0, err
    note = "accuracy is that of the first order of options, which differs between the runs on 2 questions."
    assert note in " ".join(out.split())


def test_a_model_in_place_of_a_run_is_told_of_both_ways(
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = ("compare", "snellen:tiny", "snellen:tiny-xs", "eyechart/word")
    code, _, err = command(capsys, *words)
    assert code == 2 and len(err.splitlines()) == 1
    assert "first `snellen run snellen:tiny BENCHMARK`" in err
    assert "`snellen compare --sequential MODEL_A MODEL_B BENCHMARK`" in err


def test_a_run_that_shares_nothing_with_the_others_is_left_out_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, model, benchmark, protocol in (
        ("colour", "snellen:oracle", "eyechart/colour", "vanilla"),
        ("blind", "snellen:oracle", "eyechart/shape", "blind"),
        ("a", "snellen:oracle", "eyechart/shape", "vanilla"),
        ("b", "snellen:always-a", "eyechart/shape", "vanilla"),
    ):
        sn.evaluate(model, benchmark, protocol, limit=4, name=name, report=False)
    reasons = {
        "colour": "it was asked eyechart/colour, the others eyechart/shape",
        "blind": "it was asked eyechart/shape under blind, the others under vanilla",
    }
    _, alone, _ = command(capsys, "compare", "runs/a", "runs/b", "--json")
    for name, reason in reasons.items():
        words = ("compare", f"runs/{name}", "runs/a", "runs/b")
        code, out, err = command(capsys, *words)
        assert code == 0 and f"runs/{name} is left out of the comparison: {reason}" in err
        assert "100.0 points" in out
        code, _, err = command(capsys, *words, "--baseline", "runs/a")
        assert code == 0, err
        _, out, _ = command(capsys, *words, "--json")
        assert [json.loads(line)["p"] for line in out.splitlines()] == [
            json.loads(line)["p"] for line in alone.splitlines()
        ]
