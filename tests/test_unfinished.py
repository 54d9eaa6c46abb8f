"""Numbers of runs that were stopped in the middle, where which questions have ended follows from their answers."""

from __future__ import annotations

import html
import importlib
import math
import os
import re
import shlex
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

import small
import snellen as sn
from snellen.analysis.question_means import censored_mean
from snellen.experiments.scored_folders import command_to_go_on
from snellen.metrics.declaration import reply_metric
from snellen.metrics.numbers import COUNTING
from snellen.metrics.question_counts import count_questions
from snellen.metrics.questions import AskedQuestion
from snellen.metrics.scoring_context import ScoringContext
from snellen.protocols.base import Protocol, parse_protocol
from snellen.protocols.choice import Circular, Vanilla
from snellen.records import Answer, Failure, Prediction, Request, Sample, Score, Turn, Variant
from snellen.report.findings import findings
from snellen.report.flipped import flip_tables
from snellen.report.reported_runs import prepare_reported_runs
from snellen.report.sample_cards import OUTCOME_SIGNS
from snellen.report.samples import question_entries
from snellen.runs.journal import read_exchanges
from snellen.runs.run_folder import RunManifest
from snellen.runs.spec import ExecutionSpec, QuestionSpec
from snellen.scoring.kept_scoring import has_ended, load_scoring
from snellen.scoring.scored_run import RunExtent, extent_of
from snellen.viewing.run_summary import headline_of
from view_runs import Replying, serving

ROOT = Path(__file__).parent.parent
ORDERS = 4


@pytest.fixture(scope="module")
def bench() -> Iterator[Any]:
    sys.path.insert(0, str(ROOT / "bench"))
    yield importlib.import_module("unfinished")
    sys.path.remove(str(ROOT / "bench"))
    del sys.modules["unfinished"]


@pytest.mark.parametrize(
    ("schedule", "size"), [("by_window", 1), ("by_window", 16), ("by_slots", 24)]
)
def test_the_number_of_a_stopped_run_is_that_of_the_whole_on_average_and_its_intervals_hold(
    bench: Any, schedule: str, size: int
) -> None:
    cells = bench.measured(getattr(bench, schedule), size, 60, 80)
    for share in bench.SHARES[2:]:
        mean, held, _, without = bench.summary(cells["weighted", share])
        if without < 0.1:
            assert abs(mean - bench.TRUTH) < 0.03 and held > 0.89, share
    assert bench.summary(cells["weighted", 0.5])[3] == 0
    # The questions that have a verdict, and those of them before the first that has none, are wrong too often.
    if size > 1:
        assert bench.summary(cells["with a verdict", 0.2])[0] < bench.TRUTH - 0.05
        assert (
            bench.summary(cells["before the first open", 0.2])[0]
            < bench.summary(cells["weighted", 0.2])[0]
        )


def product_limit(ends: Sequence[tuple[int, bool | None]]) -> Fraction | None:
    """The share right every time: over the orders, the product of the shares right of those asked in that order. None
    where nobody who was right so far was asked in an order. `ends` are the orders answered, and what came of it."""
    share = Fraction(1)
    for order in range(1, ORDERS + 1):
        asked = [(n, verdict) for n, verdict in ends if n >= order]
        wrong = sum(n == order and verdict is False for n, verdict in asked)
        if not asked:
            return None if share else share
        share *= 1 - Fraction(wrong, len(asked))
    return share


OPEN = st.tuples(st.integers(0, ORDERS - 1), st.none())
WRONG = st.tuples(st.integers(1, ORDERS), st.just(False))
RIGHT = st.just((ORDERS, True))


@given(st.lists(st.one_of(OPEN, WRONG, RIGHT), min_size=1, max_size=40))
def test_the_mean_is_the_product_over_orders_of_the_shares_right(
    ends: list[tuple[int, bool | None]],
) -> None:
    scores = [
        Score(
            "circular",
            "generation",
            "mine",
            str(i),
            0,
            "circular_accuracy",
            None if verdict is None else float(verdict),
            steps=n,
            broken=verdict is None,
        )
        for i, (n, verdict) in enumerate(ends)
    ]
    mean, expected = censored_mean([scores]), product_limit(ends)
    begun = [n for n, _ in ends if n]
    furthest = max(begun, default=0)
    stuck = [n for n, verdict in ends if verdict is None and n == furthest]
    if mean is None or not begun:
        assert all(verdict is None for _, verdict in ends)
    elif expected is not None and not stuck:
        assert math.isclose(mean.value, expected, abs_tol=1e-12) and not mean.unknown
    else:
        # Those who have come furthest and are open stand for all that came so far.
        reached = Fraction(1)
        for order in range(1, furthest + 1):
            asked = [(n, verdict) for n, verdict in ends if n >= order]
            reached *= 1 - Fraction(
                sum(n == order and verdict is False for n, verdict in asked), len(asked)
            )
        others = [n for n, verdict in ends if n == furthest and verdict is not False]
        assert math.isclose(
            mean.unknown, reached * Fraction(len(stuck), len(others)), abs_tol=1e-12
        )


@pytest.fixture(scope="module")
def half_right(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of 12 questions, half of them right in every order, half failed by the second."""
    folder = tmp_path_factory.mktemp("half")
    benchmark = small.built(small.rows(12), folder / "built", name="mine")

    def every_other(request: Request) -> int:
        number = int(request.sample_id[1:])
        return (number + (request.variant.test and number % 2)) % 4

    sn.evaluate(
        Replying("half", every_other),
        str(benchmark.folder),
        "circular",
        runs=folder / "runs",
        name="run",
    )
    return folder / "runs" / "run"


def stopped(run: Path, folder: Path, count: int) -> Path:
    """The run with only the first answers of its journal."""
    folder.mkdir()
    (folder / "manifest.json").write_bytes((run / "manifest.json").read_bytes())
    answers = (run / "journal-0.jsonl").read_bytes().splitlines(keepends=True)
    (folder / "journal-0.jsonl").write_bytes(b"".join(answers[:count]))
    return folder


def test_wherever_a_run_is_stopped_its_interval_holds_what_it_ends_with_or_there_is_no_number(
    half_right: Path, tmp_path: Path
) -> None:
    count = len((half_right / "journal-0.jsonl").read_bytes().splitlines())
    assert sn.score(half_right).value("circular_accuracy") == 0.5
    shown = {}
    for cut in range(1, count, 3):
        results = sn.score(stopped(half_right, tmp_path / f"cut-{cut}", cut))
        rows = [row for row in results.rows if (row.metric, row.slice) == ("circular_accuracy", "")]
        for row in rows:
            assert row.reason == (
                "too few asked to the end"
                if row.estimate.n and row.estimate.value is None
                else None
            )
            assert row.estimate.value is None or (row.estimate.low or 0) <= 0.5 <= (
                row.estimate.high or 0
            ), cut
        shown[cut] = rows[0].estimate.value
    assert shown[10] is None
    assert all(value is not None for cut, value in shown.items() if cut >= count // 2)


def test_a_report_of_a_stopped_run_says_why_it_tells_the_accuracy_of_the_first_order(
    half_right: Path, tmp_path: Path
) -> None:
    results = sn.score(stopped(half_right, tmp_path / "early", 9))
    told = " ".join(findings(prepare_reported_runs(results.runs, results.rows)))
    assert "half saw too few questions in every option order to measure circular accuracy" in told
    whole = sn.score(half_right)
    assert "circular" not in " ".join(findings(prepare_reported_runs(whole.runs, whole.rows)))
    lines = str(whole).splitlines()
    assert sum("50.0%" in line and "half" in line for line in lines) == 1
    assert (
        "Circular accuracy: the share of questions that are correct in every option order." in lines
    )


def test_footnotes_say_what_each_number_lacks_and_once_what_is_taken_of_the_rest(
    half_right: Path, tmp_path: Path
) -> None:
    """After 18 of 36 answers: accuracy lacks questions never begun; circular accuracy more, which have no verdict."""
    [run] = sn.score(stopped(half_right, tmp_path / "cut", 18)).runs
    extent = run.extent
    text = sn.Results([run]).report(tmp_path / "r.md").read_text("utf-8")
    summary = text[text.index("### Questions with options") :].split("\n### ")[0]
    never_begun, not_settled = extent.questions - extent.begun, extent.questions - extent.finished
    assert 0 < never_begun < not_settled
    assert f"{never_begun} of 12 questions are incomplete for this value; the bounds are" in summary
    assert f"{not_settled} of 12 questions are incomplete for this value" in summary
    assert summary.count("missing completely at random") == 1
    with serving(tmp_path / "cut", index=tmp_path / "index.sqlite") as client:
        page = client.get("/run?run=cut").text
    lead = page[page.index('class="lead"') :].split("</p>")[0]
    assert f"; {never_begun} are incomplete and assumed to be like them" in lead
    assert lead.endswith("1 benchmark evaluated so far")


def test_a_stopped_run_is_stopped_on_the_pages_however_often_it_was_scored(
    half_right: Path, tmp_path: Path
) -> None:
    cut = stopped(half_right, tmp_path / "runs", 9)
    [run] = sn.score(cut).runs
    answers = Counter(exchange.request.sample_id for exchange in read_exchanges(cut))
    ended = [name for name, count in answers.items() if count == (2 if int(name[1:]) % 2 else 4)]
    assert run.extent == RunExtent(12, len(answers), len(ended))
    assert load_scoring(cut).extent == run.extent and not has_ended(cut)
    for name in ("manifest.json", "journal-0.jsonl"):
        os.utime(cut / name, (0, 0))  # long ago
    with serving(cut, index=tmp_path / "index.sqlite", may_change=True) as client:
        page = client.get("/run?run=runs").text
    assert (
        ">stopped<" in page
        and ">Resume</button>" in page
        and f"<b>{len(answers)}</b> of 12 questions begun" in page
    )
    whole = stopped(half_right, tmp_path / "whole", 1000)
    assert not has_ended(whole), "nothing says yet that nothing is missing"
    [run] = sn.score(whole).runs
    assert run.extent == RunExtent(12, 12, 12) and has_ended(whole)


def test_a_question_that_was_asked_in_one_order_of_four_is_not_right_each_time(
    half_right: Path, tmp_path: Path
) -> None:
    folder = stopped(half_right, tmp_path / "runs", 1)
    [early] = sn.score(folder).runs
    [whole] = sn.score(half_right).runs
    # Of six questions the replies to all four orders are right; of the six others the second is wrong.
    assert Counter(entry.outcome for entry in question_entries(0, whole.benchmarks[0])) == {
        "right": 6,
        "wrong": 6,
    }
    [entry] = question_entries(0, early.benchmarks[0])
    assert (
        entry.outcome == "right so far" and OUTCOME_SIGNS[entry.outcome] != OUTCOME_SIGNS["right"]
    )
    assert not flip_tables([early, whole], [("half (runs)", "half (run)")]), (
        "it was not asked of both"
    )
    report = sn.Results([early]).report(tmp_path / "report.html").read_text("utf-8")
    assert 'data-outcome="right so far"' in report and "<dt>asked 1 of 4</dt>" in report
    with serving(folder, index=tmp_path / "index.sqlite") as client:
        of_run, listed = client.get("/run?run=runs").text, client.get("/questions?run=runs").text
        [address] = re.findall(r'href="(/question\?[^"]*)"', listed)
        question = client.get(html.unescape(address)).text
        right = client.get("/questions?run=runs&outcome=right").text
    assert ">right so far</th>" in of_run and ">right each time</th>" not in of_run
    assert (
        "asked 1 of 4" in listed
        and 'title="right"' not in listed
        and "No question matches" in right
    )
    assert question.count(">not asked</span>") == 3 and ">1 of 4</span>" in question


def test_no_question_of_a_run_that_came_to_its_end_is_right_so_far(tmp_path: Path) -> None:
    benchmark = small.built(small.rows(3), tmp_path / "built", name="mine")
    labels = [
        "vanilla",
        "circular",
        "circular?all_passes=true",
        "likelihood",
        "instability?m=3",
        "blind",
        "repeat?k=2&greedy",
    ]
    results = sn.evaluate(
        Replying("right", lambda request: int(request.sample_id[1:]) % 4),
        str(benchmark.folder),
        labels,
        runs=tmp_path / "runs",
    )
    entries = list(question_entries(0, results.runs[0].benchmarks[0]))
    assert {entry.protocol for entry in entries} == set(results.runs[0].manifest.protocols)
    assert {entry.outcome for entry in entries} == {"right"}


def test_a_request_that_failed_was_asked_and_rounds_after_it_are_not_waited_for() -> None:
    right = Prediction("any", "generation", "mine", "1", Variant(), "", choice=0)
    wrong, failed = (
        replace(right, choice=1),
        replace(right, choice=None, error=Failure("timeout", "")),
    )
    single = Sample("1", "mine", "What is it?", options=("a cat", "a dog", "a cow"))
    dialogue = Sample("1", "mine", turns=(Turn("What is it?"), Turn("And this?")))

    def extent(protocol: Protocol, sample: Sample, *rounds: Sequence[Prediction]) -> RunExtent:
        return extent_of(
            [AskedQuestion(protocol, sample, i, None, tuple(came)) for i, came in enumerate(rounds)]
        )

    assert extent(Circular(), single, [right, right]) == RunExtent(1, 1, 0)
    assert extent(Circular(), single, [right, wrong]) == RunExtent(1, 1, 1), "it has failed"
    assert extent(Circular(), single, [right, failed]) == RunExtent(1, 1, 1)
    assert extent(Vanilla(), dialogue, [right], []) == RunExtent(2, 1, 1)
    assert extent(Vanilla(), dialogue, [failed], []) == RunExtent(2, 1, 2)


def test_an_answer_that_never_came_counts_as_the_worst_even_where_silence_would_be_right() -> None:
    lenient = reply_metric(lambda reply, references: 1.0, name="lenient", low=0.0, high=1.0)
    context = ScoringContext("lenient", small.spec_of(Path("mine.jsonl"), "mine"))
    sample = Sample("1", "mine", "What is it?")
    came = Prediction(
        "instability?m=3", "generation", "mine", "1", Variant(test=1), "", text="a cat"
    )
    asked = AskedQuestion(
        parse_protocol("instability?m=3"), sample, 0, Answer("1", "mine", texts=("a cat",)), (came,)
    )
    [score] = lenient.score([asked], context).scores
    assert (score.value, score.n_presentations) == (1.0, 1)
    final = replace(asked, final=True)
    assert [prediction.variant.test for prediction in final.missing_as_wrong.predictions] == [
        1,
        0,
        2,
    ]
    assert {prediction.reason for prediction in final.missing_as_wrong.predictions[1:]} == {
        "not asked"
    }
    [score] = lenient.score([final], context).scores
    assert (score.value, score.n_presentations) == (pytest.approx(1 / 3), 3)


def test_where_no_answer_came_at_all_nothing_is_counted() -> None:
    asked = AskedQuestion(
        Vanilla(), Sample("1", "mine", "How many?"), 0, Answer("1", "mine", texts=("3",)), ()
    )
    [counts] = count_questions([asked], "counting", COUNTING)
    assert (counts.counts, counts.reason) == ((), "not asked")


def test_what_never_came_of_biased_presentations_changes_nothing_of_the_others() -> None:
    sample = Sample("1", "mine", "What is it?", options=("a cat", "a dog"))
    right = Prediction("circular", "generation", "mine", "1", Variant(), "", choice=0)
    asked = AskedQuestion(
        Circular(), sample, 0, Answer("1", "mine", options=(0,)), (right,), final=True
    )
    assert asked.missing_as_wrong is not asked and asked.missing_unbiased_as_wrong is asked


def test_a_mean_of_a_stopped_run_says_of_which_benchmark_it_is_and_what_was_not_asked_is_no_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folders = [
        str(small.built(small.rows(12), tmp_path / name, name=name).folder)
        for name in ("first", "second")
    ]
    spec = {"limit": 12, "runs": tmp_path / "runs", "name": "whole"}
    sn.evaluate("snellen:always-a", folders, "circular", **spec)
    cut = stopped(tmp_path / "runs/whole", tmp_path / "runs/cut", 1000)
    answers = (cut / "journal-0.jsonl").read_bytes().splitlines(keepends=True)
    second = [line for line in answers if b'"benchmark":"second"' in line]
    (cut / "journal-0.jsonl").write_bytes(
        b"".join(line for line in answers if line not in second[1:])
    )
    code, out, err = small.command(capsys, "score", str(cut))
    command = f"snellen run snellen:always-a {' '.join(folders)} --protocol circular --limit 12"
    assert (
        code == 0
        and "13 of 24 questions begun, 12 finished; to continue: " + command
        in " ".join(err.split())
    )
    assert f"--runs {tmp_path}/runs --name cut" in " ".join(err.split())
    assert "of first only" in " ".join(out.split()) and "is incomplete: 13 of 24" in out
    results = sn.score(cut)
    rows = {
        row.metric: row for row in results.rows if row.benchmark == "*" and row.dimension == "*"
    }
    circular, accuracy = rows["circular_accuracy"], rows["accuracy"]
    assert (circular.members, circular.estimate.n, circular.estimate.questions) == ("first", 12, 24)
    assert circular.partial.startswith("without second; ")
    assert (accuracy.estimate.n, accuracy.estimate.errors, accuracy.estimate.not_asked) == (
        13,
        0,
        11,
    )
    headline = headline_of(results.runs[0], results.rows)
    assert headline and headline.title == "accuracy on average over 2 benchmarks"


def test_the_command_that_goes_on_has_every_flag_and_none_for_what_objects_asked(
    tmp_path: Path,
) -> None:
    question = QuestionSpec(
        models=("openai:m@http://h/v1",),
        benchmarks=("a/b",),
        where="l2 == 'x y'",
        prefix=False,
        roles=(("judge", "m"),),
    )
    manifest = RunManifest(
        3,
        question.models[0],
        {},
        (),
        (),
        "",
        (question,),
        {},
        {},
        "",
        executed=(ExecutionSpec(price=(0.1, 2.0)),),
    )
    words = command_to_go_on(Path("runs/mine"), manifest)
    assert shlex.split(words) == [
        "snellen",
        "run",
        "openai:m@http://h/v1",
        "a/b",
        "--role",
        "judge=m",
        "--where",
        "l2 == 'x y'",
        "--no-prefix",
        "--price",
        "0.1,2.0",
        "--name",
        "mine",
    ]
    assert command_to_go_on(tmp_path, replace(manifest, model="mine")) == ""
    assert command_to_go_on(tmp_path, replace(manifest, question_specs=())) == ""


def test_what_a_stopped_run_does_not_tell_is_not_compared_either(
    half_right: Path, tmp_path: Path
) -> None:
    both = sn.Results(
        [*sn.score(stopped(half_right, tmp_path / "early", 9)).runs, *sn.score(half_right).runs]
    )
    [withheld, *_] = both.compare(metrics="circular_accuracy", resamples=0).differences
    assert (withheld.difference.value, withheld.p, withheld.reason) == (
        None,
        None,
        "too few asked to the end",
    )
    [first_order, *_] = both.compare(resamples=0).differences
    assert (first_order.metric, first_order.difference.value) == ("accuracy", 0.0)


def test_the_part_that_benchmarks_of_a_mean_have_in_common_is_said_once(tmp_path: Path) -> None:
    folders = [
        str(small.built(small.rows(4), tmp_path / name, name=name).folder)
        for name in ("first", "second")
    ]
    asked = sn.evaluate("snellen:oracle", folders, limit=2, runs=tmp_path, name="x", report=False)
    assert {row.members for row in asked.rows if row.benchmark == "*"} == {
        "first, second (each: first 2)"
    }
