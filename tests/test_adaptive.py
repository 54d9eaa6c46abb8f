"""Asking in a random order until enough is known: intervals that hold whenever one stops, and what is asked twice."""

from __future__ import annotations

import itertools
import math
import os
import random
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from msgspec.structs import replace

import small
import snellen as sn
from servers import start_server
from snellen.analysis.confidence_sequence import (
    Bets,
    DrawnImage,
    PopulationCounts,
    sequence_interval,
)
from snellen.analysis.stopping_rules import rule_of, width_rule
from snellen.building.benchmark import Benchmark, Selection, image_order
from snellen.callers import called_from_command_line
from snellen.cli import cli
from snellen.errors import DataError, SpentBudgetError, UnknownNameError
from snellen.experiments.execution import LazyRoleModels
from snellen.experiments.run_rounds import RunRounds, run_round
from snellen.records import Failure, Request, Response
from snellen.runs.journal import read_exchanges
from snellen.runs.plan import plan_run
from snellen.runs.rounds import MIN_NEW_IMAGES, empty_parts
from snellen.runs.run_folder import read_manifest
from snellen.runs.run_progress import ignore_progress
from snellen.runs.spec import run_spec
from snellen.runs.workers import run_workers
from snellen.scoring.kept_scoring import has_ended
from view_runs import serving

PICTURES = ((1, 1.0), (3, 0.5), (2, 2.0), (1, 0.0), (2, 0.5), (4, 1.5))
"""Questions and sums of their values."""
SIZE = sum(size for size, _ in PICTURES)
MEAN = sum(total for _, total in PICTURES) / SIZE
SMALL = PopulationCounts(len(PICTURES), SIZE, 4)


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="module")
def shared_images(tmp_path_factory: pytest.TempPathFactory) -> Benchmark:
    """120 images (groups), of which each fourth has three questions: 180 questions."""
    rows = [
        {
            "id": f"{picture}-{number}",
            "group": f"p{picture}",
            "question": f"Is {picture}.{number} even?",
            "A": "yes",
            "B": "no",
            "answer": "AB"[picture % 2],
        }
        for picture in range(120)
        for number in range(1 if picture % 4 else 3)
    ]
    return small.built(rows, tmp_path_factory.mktemp("shared") / "made")


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Benchmark:
    return small.built(small.rows(12), tmp_path_factory.mktemp("own") / "made", name="own")


class SaysA:
    """Always (A): right on two questions of three. It counts what it is asked, and may fail on some images."""

    kinds, batch_size = frozenset({"generate"}), 8

    def __init__(self, name: str = "says-a", reply: str = "(A)", fails: str = "none") -> None:
        self.name, self.reply, self.fails, self.asked = name, reply, fails, list[str]()
        self.fingerprint = name

    def generate(self, requests: Sequence[Request], images: Any) -> list[Response]:
        self.asked += [request.sample_id for request in requests]
        return [
            Response(error=Failure("model", "no"))
            if request.sample_id.startswith(self.fails)
            else Response(self.reply)
            for request in requests
        ]


# --- the interval ------------------------------------------------------------------------------------------------


def test_the_capital_against_the_truth_is_one_on_average_over_all_orders() -> None:
    """Every bet is fair: the exact mean over the 720 orders is 1 after each image."""
    sums = [0.0] * len(PICTURES)
    for order in itertools.permutations(PICTURES):
        for i, log in enumerate(Bets(order, SMALL, (0.05, 0.3)).path(MEAN)):
            sums[i] += math.exp(log)
    assert [total / math.factorial(6) for total in sums] == pytest.approx([1.0] * 6, abs=1e-9)


def test_bets_that_the_mean_is_greater_lose_against_a_greater_mean() -> None:
    for order in itertools.islice(itertools.permutations(PICTURES), 0, 720, 7):
        bets = Bets(order[:4], SMALL, (0.1,))
        capitals = [bets.log_capital(mean / 50) for mean in range(51)]
        assert capitals == sorted(capitals, reverse=True)


def test_an_interval_ends_at_the_mean_itself_and_never_claims_what_is_impossible() -> None:
    draws = [DrawnImage(size, total, total) for size, total in PICTURES]
    assert sequence_interval(draws, SMALL, (0.05,)) == pytest.approx((MEAN, MEAN), abs=1e-12)
    assert sequence_interval([], SMALL, (0.05,)) == (0.0, 1.0)
    low, high = sequence_interval(draws[:5], SMALL, (0.05,))
    known = sum(total for _, total in PICTURES[:5])
    assert known / SIZE - 1e-12 <= low <= high <= (known + 4) / SIZE + 1e-12


def test_what_was_not_answered_may_be_anything() -> None:
    pictures = [(1, float(i % 2)) for i in range(100)]
    population = PopulationCounts(100, 100, 1)
    whole = [DrawnImage(size, total, total) for size, total in pictures]
    holes = [DrawnImage(1, 0.0, 1.0) if i < 10 else one for i, one in enumerate(whole)]
    assert sequence_interval(whole, population, (0.05,)) == pytest.approx((0.5, 0.5))
    assert sequence_interval(holes, population, (0.05,)) == pytest.approx((0.45, 0.55))


@pytest.mark.parametrize("share", [0.5, 0.9])
def test_looked_at_after_every_picture_the_interval_leaves_out_the_truth_in_one_run_of_twenty_at_most(
    share: float,
) -> None:
    """200 orders: by chance alone more than 20 would be seen once in 700 times. The normal interval errs in half."""
    rng = random.Random(5)
    pictures = [(1, float(i < share * 120)) for i in range(120)]
    missed = 0
    for _ in range(200):
        rng.shuffle(pictures)
        mirrored = [(1, 1 - total) for _, total in pictures]
        population = PopulationCounts(120, 120, 1)
        most = max(
            *Bets(pictures, population, (0.05,)).path(share),
            *Bets(mirrored, population, (0.05,)).path(1 - share),
        )
        missed += most >= math.log(40)
    assert missed <= 20


# --- the rule ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    ["accuracy ±2", "accuracy +-2", "accuracy +/- 2.0", " accuracy ±2 %", "accuracy±2 points"],
)
def test_a_rule_is_a_metric_and_percentage_points(text: str) -> None:
    rule = width_rule(text)
    assert (rule.metric, rule.half_width) == ("accuracy", 0.02)
    assert rule_of("accuracy decided").half_width is None


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("accuracy", "accuracy ±2"),
        ("accuracy 2", "accuracy ±2"),
        ("±2", "accuracy ±2"),
        ("accuracy ±0.02", "2 points are ±2"),
        ("accuracy ±0", "not within 0.1 and 50"),
        ("accuracy ±80", "not within 0.1 and 50"),
        ("cider ±2", "depend on all replies"),
        ("pope ±2", "not a mean over questions"),
    ],
)
def test_what_is_no_rule_is_refused_in_one_line(text: str, says: str) -> None:
    with pytest.raises(DataError, match=says) as refused:
        width_rule(text)
    assert "\n" not in str(refused.value)


def test_a_metric_that_nobody_has_is_refused_with_the_nearest() -> None:
    with pytest.raises(UnknownNameError, match="accuracy"):
        width_rule("acuracy ±2")


# --- runs --------------------------------------------------------------------------------------------------------


def folder_of(results: sn.Results) -> Path:
    return results.runs[0].folder


def test_the_first_pictures_of_an_order_come_with_all_their_questions(
    shared_images: Benchmark,
) -> None:
    part = shared_images.random_part(Selection(), 3, "accuracy ±2")
    assert (part.images, part.total_images, part.questions, part.largest) == (0, 120, 180, 3)
    every = list(shared_images.samples())
    for count in (0, 1, 17, 120):
        chosen = list(shared_images.samples(Selection(part=replace(part, images=count))))
        first = image_order((sample.group for sample in every), 3)[:count]
        assert {s.id for s in chosen} == {s.id for s in every if s.group in first}


def test_a_run_stops_when_its_interval_is_narrow_and_the_whole_run_asks_nothing_twice(
    shared_images: Benchmark,
) -> None:
    model = SaysA()
    stopped = sn.evaluate(model, str(shared_images.folder), until="accuracy ±10")
    [found] = stopped.stopped()
    assert found.half_width <= 0.1 and found.low <= 2 / 3 <= found.high
    assert 0 < found.part.images < 120 and found.questions == len(model.asked) == found.n
    assert found.saved == 1 - found.questions / 180 > 0.1
    assert all(row.estimate.errors == 0 for row in stopped.rows)
    whole = sn.evaluate(model, str(shared_images.folder))
    assert folder_of(whole) == folder_of(stopped) and whole.stopped() == []
    assert sorted(model.asked) == sorted({sample.id for sample in shared_images.samples()})
    fresh = sn.evaluate(SaysA(), str(shared_images.folder), name="fresh")
    assert [row.estimate for row in fresh.rows] == [row.estimate for row in whole.rows]


def test_a_run_that_is_killed_between_two_rounds_was_stopped_and_says_what_goes_on(
    shared_images: Benchmark,
) -> None:
    folder, told = str(shared_images.folder), list[str]()
    spec = run_spec(
        {
            "models": ("snellen:always-a",),
            "benchmarks": (folder,),
            "until": "accuracy ±10",
            "name": "cut",
        }
    )
    plan = plan_run(spec)
    rounds = RunRounds(
        plan,
        empty_parts(plan, {shared_images.name: "accuracy ±10"}),
        "snellen:always-a",
        LazyRoleModels({}),
        ignore_progress,
    )
    scored = run_round(rounds, [shared_images.name], told.append)
    assert not told and scored.extent and scored.extent.finished == scored.extent.questions < 180
    assert not has_ended(plan.folder), "its rule wants more"
    with called_from_command_line():
        sn.score(plan.folder, announce=told.append)
    assert (
        len(told) == 1
        and "cut was stopped: " in told[0]
        and f"more of {shared_images.name} to run" in told[0]
    )
    command = shlex.split(told[0].partition("to continue: ")[2])
    assert command[:3] == ["snellen", "run", "snellen:always-a"] and command[-4:-2] == [
        "--until",
        "accuracy ±10",
    ]
    done = CliRunner().invoke(cli, command[1:], catch_exceptions=False)
    assert done.exit_code == 0 and has_ended(plan.folder) and sn.load_run(plan.folder).stopped()


def test_a_run_that_cannot_be_known_so_well_is_asked_whole(own: Benchmark) -> None:
    [found] = sn.evaluate(SaysA(), str(own.folder), until="accuracy ±1").stopped()
    assert found.part.is_whole and found.low == pytest.approx(found.high) == pytest.approx(
        found.value
    )


def test_failures_keep_the_interval_wide(shared_images: Benchmark) -> None:
    results = sn.evaluate(
        SaysA(fails="1"), str(shared_images.folder), until="accuracy ±10", error_budget=1
    )
    [found] = results.stopped()
    lost = sum(sample.id.startswith("1") for sample in shared_images.samples())
    assert found.part.is_whole and found.high - found.low == pytest.approx(lost / 180, abs=1e-6)


def test_several_benchmarks_stop_each_on_its_own(shared_images: Benchmark) -> None:
    results = sn.evaluate(
        "snellen:oracle",
        [str(shared_images.folder), "eyechart/shape"],
        until="accuracy ±5",
        limit=90,
    )
    first, second = results.stopped()
    assert {first.benchmark, second.benchmark} == {shared_images.name, "eyechart/shape"}
    assert first.half_width <= 0.05 >= second.half_width
    assert sn.load_run(folder_of(results)).stopped() == results.stopped()


def test_the_same_seed_asks_the_same_pictures_and_another_seed_others(
    shared_images: Benchmark,
) -> None:
    asked = []
    for name, seed in (("a", 0), ("b", 0), ("c", 7)):
        model = SaysA(name)
        sn.evaluate(model, str(shared_images.folder), until="accuracy ±20", seed=seed)
        asked.append(set(model.asked))
    assert asked[0] == asked[1] != asked[2]


def test_workers_ask_the_pictures_of_their_round_and_no_others(shared_images: Benchmark) -> None:
    plan = plan_run(
        run_spec(
            {
                "models": ("snellen:always-a",),
                "benchmarks": (str(shared_images.folder),),
                "workers": 2,
            }
        )
    )
    part = shared_images.random_part(Selection(), 0, "accuracy ±2")
    before, now = (replace(part, images=count) for count in (20, 50))
    run_workers(
        plan.with_parts({shared_images.name: now}, {shared_images.name: before}),
        lambda update: None,
    )
    order = image_order((sample.group for sample in shared_images.samples()), 0)
    expected = [sample.id for sample in shared_images.samples() if sample.group in order[20:50]]
    asked = [exchange.request.sample_id for exchange in read_exchanges(plan.folder)]
    assert sorted(asked) == sorted(expected)
    assert read_manifest(plan.folder).benchmarks[0].part == now


def test_a_model_behind_a_server_stops_too(shared_images: Benchmark) -> None:
    with start_server() as server:
        results = sn.evaluate(
            f"openai:tiny@{server.url}", str(shared_images.folder), until="accuracy ±14"
        )
        assert len(server.seen()) == results.stopped()[0].questions < 180


def test_a_budget_holds_over_all_rounds(shared_images: Benchmark) -> None:
    model = SaysA()
    with pytest.raises(SpentBudgetError, match="40 requests were answered in this session"):
        sn.evaluate(model, str(shared_images.folder), until="accuracy ±2", max_requests=40)
    assert len(model.asked) == 40


def test_a_benchmark_that_an_earlier_session_left_open_is_not_run_on(
    own: Benchmark, shared_images: Benchmark
) -> None:
    model = SaysA()
    with pytest.raises(SpentBudgetError):
        sn.evaluate(
            model, str(shared_images.folder), until="accuracy ±2", max_requests=40, name="two"
        )
    results = sn.evaluate(model, str(own.folder), until="accuracy ±40", name="two")
    stopped = {found.benchmark: found.questions for found in results.stopped()}
    assert stopped.keys() == {own.name, shared_images.name}
    assert len(model.asked) == 40 + stopped[own.name]


def test_a_metric_that_a_benchmark_has_not_is_said(shared_images: Benchmark) -> None:
    with pytest.raises(DataError, match="has no circular_accuracy under the protocols of this run"):
        sn.evaluate(SaysA(), str(shared_images.folder), until="circular_accuracy ±5")


def test_the_terminal_and_the_report_name_the_interval_and_the_part(
    shared_images: Benchmark,
) -> None:
    words = [
        "run",
        "snellen:always-a",
        str(shared_images.folder),
        "--until",
        "accuracy ±10",
        "--name",
        "shown",
    ]
    done = CliRunner().invoke(cli, words, catch_exceptions=False)
    assert done.exit_code == 0
    part = read_manifest(Path("runs/shown")).benchmarks[0].part
    assert (
        part is not None
        and f"{part.images} of 120" in done.stdout
        and "accuracy ±10" in done.stdout
    )
    for text in (done.stdout, Path("runs/shown/report.html").read_text("utf-8")):
        assert "anytime-valid" in text and "random subset" in text


# --- two models --------------------------------------------------------------------------------------------------


def test_two_models_are_asked_the_same_until_the_better_one_is_known(
    shared_images: Benchmark,
) -> None:
    first, second = SaysA(), SaysA("other", "no idea")
    found = sn.decide(first, second, str(shared_images.folder))
    [difference] = found.differences
    assert (
        difference.verdict == "first"
        and difference.low > 0
        and set(first.asked) == set(second.asked)
    )
    assert difference.questions == len(first.asked) < 180 and difference.saved > 0.3
    swapped = sn.decide(second, first, str(shared_images.folder), runs="swapped")
    assert swapped.differences[0].verdict == "second"
    assert (swapped.differences[0].low, swapped.differences[0].high) == pytest.approx(
        (-difference.high, -difference.low), abs=1e-5
    )


def test_models_that_answer_alike_are_equivalent_before_the_end_and_equal_at_it(
    shared_images: Benchmark, own: Benchmark
) -> None:
    alike = SaysA(), SaysA("other")
    [close] = sn.decide(*alike, str(shared_images.folder), equivalent=10).differences
    assert close.verdict == "equivalent" and close.part.images < 120
    [equal] = sn.decide(*alike, str(own.folder)).differences
    assert (equal.verdict, equal.low, equal.high, equal.saved) == ("equal", 0.0, 0.0, 0.0)


def test_a_comparison_that_is_stopped_between_two_rounds_has_not_decided(
    shared_images: Benchmark,
) -> None:
    """The first model has answered all of its second round, which is scored, when the second model is interrupted."""

    class Impatient(SaysA):
        def generate(self, requests: Sequence[Request], images: Any) -> list[Response]:
            if len(self.asked) > MIN_NEW_IMAGES:
                raise KeyboardInterrupt
            return super().generate(requests, images)

    words, told = str(shared_images.folder), list[str]()
    with pytest.raises(KeyboardInterrupt):
        sn.decide(SaysA(), Impatient("other"), words)
    first, second = sorted(
        Path("runs").iterdir(), key=lambda run: read_manifest(run).model, reverse=True
    )
    results = sn.Results([*sn.score(first, announce=told.append).runs, *sn.score(second).runs])
    undecided = f"which of two models is better in {shared_images.name} not decided"
    assert (
        not has_ended(first)
        and f"{first} was stopped: " in told[0]
        and f"{undecided}; repeat the call that" in told[0]
    )
    report = results.report("r.md").read_text("utf-8")
    assert (
        "A rule stopped" not in report
        and report.count(undecided) == 2
        and "accuracy decided (not yet)" in report
    )
    assert undecided in CliRunner().invoke(cli, ["compare", str(first), str(second)]).stderr
    for name in ("manifest.json", "journal-0.jsonl"):
        os.utime(first / name, (0, 0))  # long ago
    with serving(Path("runs"), index=Path("index.sqlite"), may_change=True) as client:
        page = client.get(f"/run?run={first.name}").text
    assert (
        "stopped before that was decided for " in page
        and "Resume" not in page
        and ">finished<" not in page
    )
    decided = sn.decide(SaysA(), SaysA("other", "no idea"), words)
    assert (
        decided.differences[0].verdict == "first"
        and has_ended(first)
        and not read_manifest(first).undecided
    )
    assert "(not yet)" not in sn.load_run(first).report("done.md").read_text("utf-8")


def test_compare_asks_two_models_on_the_command_line(shared_images: Benchmark) -> None:
    words = [
        "compare",
        "--sequential",
        "snellen:oracle",
        "snellen:always-a",
        str(shared_images.folder),
    ]
    done = CliRunner().invoke(cli, words, catch_exceptions=False)
    assert (
        done.exit_code == 0
        and "snellen:oracle is better" in done.stdout
        and "not asked" in done.stdout
    )
    same = CliRunner().invoke(cli, [*words[:2], *words[2:3] * 2, words[4]])
    assert isinstance(same.exception, DataError) and "give two different models" in str(
        same.exception
    )
    alone = CliRunner().invoke(cli, words[:3])
    assert isinstance(alone.exception, DataError) and "two models, but 1 are given" in str(
        alone.exception
    )
    gate = CliRunner().invoke(cli, [*words, "--fail-if-worse", "1pt"])
    assert isinstance(gate.exception, DataError) and "--fail-if-worse applies to" in str(
        gate.exception
    )
