"""A run that was stopped, even by kill -9, goes on where it was and ends as one that never stopped."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

import slow_model
from slow_model import PROTOCOLS, Slow, SlowAsync
from snellen.api import evaluate, score
from snellen.building.benchmark import Benchmark
from snellen.common.images import Images
from snellen.errors import ErrorBudgetError, ModelError, StoreError
from snellen.records import Exchange, Request, Response
from snellen.runs.journal import read_exchanges
from snellen.runs.plan import RunPlan, plan_run
from snellen.runs.run_folder import journals
from snellen.runs.runner import run_plan
from snellen.runs.spec import run_spec
from snellen.runs.workers import run_workers

SECONDS_TO_WAIT = 60


@pytest.fixture(scope="module")
def whole(questions: Benchmark, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run that nobody interrupted."""
    folder = tmp_path_factory.mktemp("whole")
    evaluate(Slow(), str(questions.folder), PROTOCOLS, runs=folder, name="run")
    return folder / "run"


def scores(folder: Path) -> bytes:
    return (folder / "scores.jsonl").read_bytes()


def answered(folder: Path) -> Counter[str]:
    """How often each request was put to the model and answered."""
    return Counter(
        exchange.request.key
        for exchange in read_exchanges(folder)
        if not exchange.reused and exchange.response.error is None
    )


def presented(folder: Path) -> Counter[tuple[Any, ...]]:
    return Counter(
        (e.protocol, e.request.sample_id, e.request.variant)
        for e in read_exchanges(folder)
        if e.response.error is None
    )


def same_as(whole: Path, folder: Path) -> None:
    """The run in `folder` asked the same things once, and has the same scores."""
    assert scores(folder) == scores(whole)
    assert answered(folder) == answered(whole)
    assert presented(folder) == presented(whole)
    assert set(answered(folder).values()) == set(presented(folder).values()) == {1}


def lines(folder: Path) -> int:
    return sum(path.read_bytes().count(b"\n") for path in journals(folder))


def kill_after(count: int, form: str, benchmark: Benchmark, runs: Path) -> None:
    """Start a process that evaluates, and kill it when its journal has `count` lines more."""
    wanted = lines(runs / "run") + count
    command = [
        sys.executable,
        slow_model.__file__,
        form,
        str(benchmark.folder),
        str(runs),
        "run",
        "0.01",
    ]
    process = subprocess.Popen(command, env=os.environ)
    deadline = time.monotonic() + SECONDS_TO_WAIT
    while lines(runs / "run") < wanted and process.poll() is None:
        assert time.monotonic() < deadline, "the process wrote nothing"
        time.sleep(0.001)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL, "the process was done before it could be killed"


@pytest.mark.parametrize(
    ("form", "moments"), [("1", (1, 30)), ("16", (17, 40)), ("async", (9, 35))]
)
def test_a_killed_run_goes_on_and_ends_like_one_that_was_not(
    form: str, moments: Sequence[int], questions: Benchmark, whole: Path, tmp_path: Path
) -> None:
    for moment in moments:
        kill_after(moment, form, questions, tmp_path)
    before = answered(tmp_path / "run")
    assert sum(before.values()) >= sum(moments) - 2
    model = SlowAsync() if form == "async" else Slow()
    evaluate(model, str(questions.folder), PROTOCOLS, runs=tmp_path, name="run")
    same_as(whole, tmp_path / "run")
    assert not set(model.asked) & set(before)


class Stopping(Slow):
    """Stops the whole process, as Ctrl-C does, when it has answered so many requests."""

    def __init__(self, after: int, batch_size: int) -> None:
        super().__init__(batch_size=batch_size)
        self._after = after

    def respond(self, request: Request) -> Response:
        if len(self.asked) == self._after:
            raise KeyboardInterrupt
        return super().respond(request)


@settings(max_examples=15)
@given(
    stops=st.lists(st.tuples(st.integers(0, 60), st.sampled_from([1, 3, 16])), max_size=3),
    torn=st.integers(0, 300),
)
def test_however_often_a_run_is_stopped_it_ends_the_same(
    stops: list[tuple[int, int]],
    torn: int,
    questions: Benchmark,
    whole: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    runs = tmp_path_factory.mktemp("stopped")
    for after, batch_size in stops:
        try:
            evaluate(
                Stopping(after, batch_size), str(questions.folder), PROTOCOLS, runs=runs, name="run"
            )
        except KeyboardInterrupt:
            for path in journals(runs / "run"):
                # As if the power had failed in the middle of a line.
                os.truncate(path, max(0, path.stat().st_size - torn))
    evaluate(Slow(), str(questions.folder), PROTOCOLS, runs=runs, name="run")
    same_as(whole, runs / "run")


@pytest.mark.parametrize("window", [1, 2, 7, 64, 10_000])
def test_the_size_of_the_window_changes_nothing(
    window: int, questions: Benchmark, whole: Path, tmp_path: Path
) -> None:
    model = Slow()
    evaluate(model, str(questions.folder), PROTOCOLS, window=window, runs=tmp_path, name="run")
    same_as(whole, tmp_path / "run")
    assert len(model.asked) == len(set(model.asked))


@pytest.mark.parametrize("concurrency", [1, 3, 50])
def test_the_number_of_requests_in_flight_changes_nothing(
    concurrency: int, questions: Benchmark, whole: Path, tmp_path: Path
) -> None:
    model = SlowAsync(0.002, concurrency)
    evaluate(model, str(questions.folder), PROTOCOLS, runs=tmp_path, name="run")
    same_as(whole, tmp_path / "run")
    assert len(model.asked) == len(set(model.asked))
    assert model.closed


def share_of(
    questions: Benchmark, protocols: tuple[str, ...], runs: Path, number: int, workers: int
) -> RunPlan:
    """What one of several workers is to do."""
    spec = run_spec(
        {
            "models": ("slow",),
            "benchmarks": (str(questions.folder),),
            "protocols": protocols,
            "runs": str(runs),
            "name": "run",
            "workers": workers,
        }
    )
    return replace(plan_run(spec), worker=number)


@pytest.mark.parametrize("workers", [2, 3])
def test_workers_share_a_run_and_none_asks_what_another_did(
    workers: int, questions: Benchmark, whole: Path, tmp_path: Path
) -> None:
    asked: list[set[str]] = []
    for number in range(workers):
        model = Slow()
        run_plan(model, share_of(questions, PROTOCOLS, tmp_path, number, workers))
        asked.append(set(model.asked))
    assert len(journals(tmp_path / "run")) == workers
    assert all(asked)
    assert sum(map(len, asked)) == len(set.union(*asked))
    score(tmp_path / "run")
    same_as(whole, tmp_path / "run")


def test_samples_of_one_picture_go_to_the_same_worker(questions: Benchmark, tmp_path: Path) -> None:
    seen: dict[str, set[int]] = {}
    for number in range(2):
        run_plan(Slow(), share_of(questions, ("vanilla",), tmp_path, number, 2))
        for line in (tmp_path / "run" / f"journal-{number}.jsonl").read_bytes().splitlines():
            exchange = msgspec.json.decode(line, type=Exchange)
            seen.setdefault(exchange.request.images[0].digest, set()).add(number)
    assert len(seen) == 6
    assert all(len(workers) == 1 for workers in seen.values())


def test_a_run_that_is_done_asks_nothing(questions: Benchmark, whole: Path) -> None:
    model, before = Slow(), lines(whole)
    evaluate(model, str(questions.folder), PROTOCOLS, runs=whole.parent, name="run")
    assert model.asked == []
    assert lines(whole) == before


def test_a_run_can_grow_by_protocols_and_samples(
    questions: Benchmark, whole: Path, tmp_path: Path
) -> None:
    evaluate(Slow(), str(questions.folder), PROTOCOLS[:1], limit=5, runs=tmp_path, name="run")
    evaluate(Slow(), str(questions.folder), PROTOCOLS[1:], limit=9, runs=tmp_path, name="run")
    evaluate(Slow(), str(questions.folder), PROTOCOLS, runs=tmp_path, name="run")
    same_as(whole, tmp_path / "run")


# --- failures ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make_model", [Slow, SlowAsync])
def test_failures_are_counted_and_asked_again_until_the_run_is_whole(
    make_model: Callable[..., Slow | SlowAsync], questions: Benchmark, whole: Path, tmp_path: Path
) -> None:
    with pytest.raises(
        ErrorBudgetError,
        match=r"\d+ of \d+ requests failed .*repeat the call to retry them",
    ):
        evaluate(
            make_model(failing=0.3), str(questions.folder), PROTOCOLS, runs=tmp_path, name="run"
        )
    partly = score(tmp_path / "run")
    assert sum(row.estimate.errors for row in partly.rows) > 0
    reasons = {
        (s.reason, s.detail)
        for scored in partly.runs
        for b in scored.benchmarks
        for s in b.scores
        if s.value is None
    }
    assert reasons == {("request failed", "server"), ("refused", "")}
    before = answered(tmp_path / "run")
    model = make_model()
    evaluate(model, str(questions.folder), PROTOCOLS, runs=tmp_path, name="run")
    assert not set(model.asked) & set(before)
    same_as(whole, tmp_path / "run")


def test_every_question_of_a_run_without_an_answer_is_an_error_under_every_metric(
    questions: Benchmark, tmp_path: Path
) -> None:
    results = evaluate(
        Slow(failing=1.0),
        str(questions.folder),
        PROTOCOLS,
        runs=tmp_path,
        name="run",
        error_budget=1.0,
    )
    rows = [row for row in results.rows if row.benchmark == "mine" and not row.slice]
    metrics = (
        "accuracy",
        "accuracy_of_parsed",
        "accuracy_upper",
        "unparsed_rate",
        "circular_accuracy",
        "circular_accuracy_of_parsed",
        "circular_accuracy_upper",
        "hit_rate",
        "instability",
    )
    assert {row.metric for row in rows} >= set(metrics)
    for row in rows:
        assert (row.estimate.value, row.estimate.n, row.estimate.unscored, row.estimate.errors) == (
            None,
            0,
            0,
            12,
        )


def test_the_budget_is_a_share_of_all_requests_of_a_run(
    questions: Benchmark, tmp_path: Path
) -> None:
    evaluate(Slow(failing=0.2), str(questions.folder), runs=tmp_path, name="some", error_budget=0.9)
    with pytest.raises(
        ErrorBudgetError, match=r"12 of 12 requests failed \(100.0%, error_budget=0.9\)"
    ):
        evaluate(
            Slow(failing=1.0), str(questions.folder), runs=tmp_path, name="all", error_budget=0.9
        )
    assert ErrorBudgetError.exit_code == 3

    # A repeated call sends only what failed; the replies of the first call count as well.
    said: list[str] = []
    for share in (0.3, 1.0):
        model = Slow(failing=share)
        with pytest.raises(ErrorBudgetError) as raised:
            evaluate(model, str(questions.folder), runs=tmp_path, name="resumed", error_budget=0.0)
        said.append(str(raised.value).partition(" (")[0])
    assert said[0] == said[1] and said[0].endswith(" of 12 requests failed")


class Broken(Slow):
    """Becomes unusable after some answers."""

    def respond(self, request: Request) -> Response:
        if len(self.asked) >= 20:
            raise ModelError("the GPU has left")
        return super().respond(request)


class BrokenAsync(SlowAsync):
    def __init__(self) -> None:
        super().__init__(0.001, 5)
        self._slow = Broken()


@pytest.mark.parametrize("make_model", [Broken, BrokenAsync])
def test_an_unusable_model_is_one_line_and_loses_nothing_that_was_answered(
    make_model: Callable[..., Slow], questions: Benchmark, whole: Path, tmp_path: Path
) -> None:
    broken = make_model()
    with pytest.raises(ModelError, match=r"^the GPU has left$"):
        evaluate(broken, str(questions.folder), PROTOCOLS, runs=tmp_path, name="run")
    before = answered(tmp_path / "run")
    assert sum(before.values()) >= 20 - 8
    model = SlowAsync() if isinstance(broken, SlowAsync) else Slow()
    evaluate(model, str(questions.folder), PROTOCOLS, runs=tmp_path, name="run")
    same_as(whole, tmp_path / "run")


class Filling(SlowAsync):
    """A model during whose work the disk fills up."""

    def __init__(self, limit: Callable[[], None]) -> None:
        super().__init__(0.001, 5)
        self._limit: Callable[[], None] | None = limit

    async def ask(self, request: Request, images: Images) -> Response:
        if self._limit and len(self.asked) >= 10:
            self._limit()
            self._limit = None
        return await super().ask(request, images)


def test_a_full_disk_is_one_line_and_loses_nothing_that_was_answered(
    questions: Benchmark, whole: Path, tmp_path: Path
) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)

    def limit() -> None:
        size = (tmp_path / "run" / "journal-0.jsonl").stat().st_size
        resource.setrlimit(resource.RLIMIT_FSIZE, (size + 100, hard))

    try:
        with pytest.raises(StoreError, match=r"run: cannot write \(File too large\)"):
            evaluate(Filling(limit), str(questions.folder), PROTOCOLS, runs=tmp_path, name="run")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert sum(answered(tmp_path / "run").values()) >= 10
    evaluate(SlowAsync(), str(questions.folder), PROTOCOLS, runs=tmp_path, name="run")
    same_as(whole, tmp_path / "run")


# --- other runs of the same model --------------------------------------------------------------------------------


class NewerSlow(Slow):
    """The same by name, with other weights."""

    def fingerprint(self) -> dict[str, str]:
        return {"model": "newer"}


@pytest.mark.parametrize(("model", "asked"), [(Slow(), 0), (NewerSlow(), 12)])
def test_what_another_run_of_the_same_model_has_is_not_asked_again(
    model: Slow, asked: int, questions: Benchmark, tmp_path: Path
) -> None:
    evaluate(Slow(), str(questions.folder), runs=tmp_path, name="first")
    spec = run_spec(
        {
            "models": ("slow",),
            "benchmarks": (str(questions.folder),),
            "runs": str(tmp_path),
            "name": "second",
        }
    )
    outcome = run_plan(model, replace(plan_run(spec), reusable_runs=(tmp_path / "first",)))
    assert (sum(outcome.answered.values()), len(model.asked)) == (asked, asked)
    assert sum(presented(tmp_path / "second").values()) == 12


def test_workers_too_take_over_what_another_run_has(questions: Benchmark, tmp_path: Path) -> None:
    model = "snellen:uniform"
    evaluate(model, str(questions.folder), runs=tmp_path, name="first")
    spec = run_spec(
        {
            "models": (model,),
            "benchmarks": (str(questions.folder),),
            "runs": str(tmp_path),
            "name": "second",
            "workers": 2,
        }
    )
    outcome = run_workers(
        replace(plan_run(spec), reusable_runs=(tmp_path / "first",)), lambda update: None
    )
    assert outcome.answered == {} and sum(presented(tmp_path / "second").values()) == 12


# --- runs that an earlier revision began -------------------------------------------------------------------------


class Scoring(Slow):
    """A model whose scores are computed in one way; `way` is its name as `hf:` models give it."""

    def __init__(self, way: str) -> None:
        super().__init__()
        self._way = way

    def fingerprint(self) -> dict[str, str]:
        return {"model": "slow", "scoring": self._way}


TREE = "tree, image shared"


def test_a_run_begun_when_short_prefixes_ran_in_one_forward_resumes(
    questions: Benchmark, tmp_path: Path
) -> None:
    folder = str(questions.folder)
    earlier = Scoring("tree, picture shared, features kept, one forward, trunks kept")
    evaluate(earlier, folder, "likelihood", runs=tmp_path, name="run", limit=4)
    now = Scoring(TREE)
    evaluate(now, folder, "likelihood", runs=tmp_path, name="run")
    # Twelve questions, of which four were answered before.
    assert len(earlier.asked) == 4
    assert len(now.asked) == 8
    assert not set(earlier.asked) & set(now.asked)
    assert set(answered(tmp_path / "run").values()) == {1}


def test_a_run_that_was_scored_in_another_way_is_refused(
    questions: Benchmark, tmp_path: Path
) -> None:
    folder = str(questions.folder)
    rows = Scoring("rows, image shared")
    evaluate(rows, folder, "likelihood", runs=tmp_path, name="run", limit=4)
    with pytest.raises(StoreError, match=f"scoring was rows, .*, is {TREE}"):
        evaluate(Scoring(TREE), folder, "likelihood", runs=tmp_path, name="run")
