"""A run on a Ray cluster is the run of one process, whatever becomes of the workers."""

from __future__ import annotations

import json
import logging
import os
import re
import signal
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

import ray_models
import small
import snellen as sn
from slow_model import PROTOCOLS
from snellen.building.benchmark import Benchmark
from snellen.errors import (
    DataError,
    ErrorBudgetError,
    MissingExtraError,
    ModelError,
    SpentBudgetError,
)
from snellen.records import Exchange
from snellen.runs.journal import read_exchanges
from snellen.runs.ray_cluster import WorkerSize, worker_size
from snellen.runs.run_folder import journals
from snellen.runs.run_progress import RunProgress
from snellen.runs.spec import ExecutionSpec

ray = pytest.importorskip("ray")
PIDS = re.compile(r"worker (\d+) on \S+ joined")


@pytest.fixture(scope="module", autouse=True)
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A small cluster for all tests of this module; its workers find the model of `ray_models`."""
    with (
        ray_models.registered(tmp_path_factory.mktemp("site")) as path,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setenv("PYTHONPATH", path)
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        ray.init(
            num_cpus=2,
            include_dashboard=False,
            object_store_memory=100 << 20,
            log_to_driver=False,
            logging_level=logging.ERROR,
        )
        try:
            yield
        finally:
            ray.shutdown()


@pytest.fixture(scope="module")
def whole(cluster: None, questions: Benchmark, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the run of one process."""
    folder = tmp_path_factory.mktemp("whole")
    sn.evaluate("clustered:any", str(questions.folder), PROTOCOLS, runs=folder, name="run")
    return folder / "run"


def on_ray(questions: Benchmark, runs: Path, model: str = "clustered:any", **how: Any) -> Path:
    sn.evaluate(
        model,
        str(questions.folder),
        PROTOCOLS,
        runs=runs,
        name="run",
        **{"ray": "auto", "ray_workers": 2} | how,
    )
    return runs / "run"


def records(folder: Path) -> Counter[Exchange]:
    """What was asked and answered, without who was first to ask what two presentations share."""
    return Counter(
        replace(e, answered_by="", reused=False, response=replace(e.response, seconds=None))
        for e in read_exchanges(folder)
        if e.response.error is None
    )


def same_as(whole: Path, folder: Path) -> None:
    """The run in `folder` has the same records, in one journal, each request asked once, and the same scores."""
    assert records(folder) == records(whole)
    asked = Counter(
        e.request.key for e in read_exchanges(folder) if not e.reused and e.response.error is None
    )
    assert set(asked.values()) == {1}
    assert (folder / "scores.jsonl").read_bytes() == (whole / "scores.jsonl").read_bytes()
    assert [path.name for path in journals(folder)] == ["journal-0.jsonl"]


class Killing:
    """Kills the first worker, as `kill -9` does, once so many requests are answered."""

    def __init__(self, after: int) -> None:
        self._after = after
        self.lines: list[str] = []
        self.killed = 0

    def announce(self, line: str) -> None:
        self.lines.append(line)

    def progress(self, state: RunProgress) -> None:
        pids = PIDS.findall("\n".join(self.lines))
        if state.requests >= self._after and pids and not self.killed:
            self.killed = int(pids[0])
            os.kill(self.killed, signal.SIGKILL)


def test_a_run_of_two_workers_one_of_which_is_killed_half_way_is_that_of_one_process(
    questions: Benchmark, whole: Path, tmp_path: Path
) -> None:
    killing = Killing(after=sum(records(whole).values()) // 2)
    folder = on_ray(
        questions,
        tmp_path,
        "clustered:any?seconds=0.005",
        announce=killing.announce,
        progress=killing.progress,
    )
    same_as(whole, folder)
    assert any(
        re.match(rf"Ray: worker {killing.killed} on \S+ was lost; other workers take over", line)
        for line in killing.lines
    )


def test_what_one_worker_finds_wrong_is_asked_again_of_all(
    questions: Benchmark, whole: Path, tmp_path: Path
) -> None:
    folder = on_ray(questions, tmp_path, "clustered:any?doubtful=12&seconds=0.002", window=2)
    answers: dict[str, Exchange] = {}
    for exchange in read_exchanges(folder):
        answers[exchange.request.key] = exchange
    expected = {exchange.request.key: exchange for exchange in read_exchanges(whole)}
    assert answers.keys() == expected.keys()
    for key, exchange in answers.items():
        assert exchange.response.scores == expected[key].response.scores
    assert len(list(read_exchanges(folder))) > len(list(read_exchanges(whole)))


@pytest.mark.slow
@settings(max_examples=2)
@given(workers=st.integers(1, 2), window=st.sampled_from([1, 7, 100]), after=st.integers(0, 120))
def test_whatever_the_workers_and_their_batches_the_run_is_the_same(
    workers: int,
    window: int,
    after: int,
    questions: Benchmark,
    whole: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    killing = Killing(after)
    folder = on_ray(
        questions,
        tmp_path_factory.mktemp("runs"),
        ray_workers=workers,
        window=window,
        announce=killing.announce,
        progress=killing.progress,
    )
    same_as(whole, folder)


@pytest.mark.slow
def test_what_is_asked_of_a_picture_is_asked_of_one_worker_together(
    questions: Benchmark, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    model, protocols = (
        f"clustered:any?seconds=0.002&batch=6&log={log}",
        ["instability?m=3", "circular"],
    )
    sn.evaluate(
        model,
        str(questions.folder),
        protocols,
        runs=tmp_path,
        name="run",
        ray="auto",
        ray_workers=2,
    )
    batches = [json.loads(line) for line in log.read_text().splitlines()]
    first = dict[str, int]()
    for _, pictures in batches:
        for picture, count in Counter(pictures).items():
            first.setdefault(picture, count)
    # Two questions about each of six images: three presentations of each question and its first rotation come at
    # once, in one batch. The other rotations come later, and to the same worker.
    assert sorted(first.values()) == [8] * 6
    assert len({(pid, picture) for pid, pictures in batches for picture in pictures}) == 6
    assert sum(len(pictures) for _, pictures in batches) > 6 * 8


@pytest.mark.slow
def test_a_request_that_ends_every_worker_fails_and_no_other_does(
    questions: Benchmark, tmp_path: Path
) -> None:
    with pytest.raises(ErrorBudgetError, match="3 workers were lost while answering this request"):
        sn.evaluate(
            "clustered:any?deadly=q003",
            str(questions.folder),
            runs=tmp_path,
            name="run",
            ray="auto",
            ray_workers=1,
        )
    failed = {
        e.request.sample_id: e.response.error is not None for e in read_exchanges(tmp_path / "run")
    }
    assert failed == {f"q{number:03d}": number == 3 for number in range(12)}


@pytest.mark.slow
def test_a_worker_with_another_model_takes_no_part(questions: Benchmark, tmp_path: Path) -> None:
    lines: list[str] = []
    model = f"clustered:any?unlike={tmp_path / 'loaded'}&batch=1&seconds=0.02"
    how = {
        "runs": tmp_path,
        "name": "run",
        "ray": "auto",
        "ray_workers": 2,
        "announce": lines.append,
    }
    sn.evaluate(model, str(questions.folder), **how)
    [left] = [line for line in lines if "is not used" in line]
    assert re.match(
        r"Ray: worker \d+ on \S+ is not used: its model differs .*\(process was \d+, is \d+\)", left
    )
    assert len(list(read_exchanges(tmp_path / "run"))) == 12


@pytest.mark.slow
def test_a_run_whose_budget_is_spent_goes_on(
    questions: Benchmark, whole: Path, tmp_path: Path
) -> None:
    with pytest.raises(
        SpentBudgetError, match="stopped at max_requests=20: 20 requests were answered"
    ):
        on_ray(questions, tmp_path, max_requests=20)
    assert records(tmp_path / "run") <= records(whole)
    same_as(whole, on_ray(questions, tmp_path))


def test_the_page_s_command_asks_the_models_of_all_roles_on_the_cluster(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    page = (Path(__file__).parent.parent / "docs" / "cluster.md").read_text("utf-8")
    [line] = re.findall(r"^snellen run (snellen:.*) --ray$", page, flags=re.MULTILINE)
    roles = [
        word
        for role in ("questioner", "reasoner")
        for word in ("--role", f"{role}=snellen:uniform")
    ]
    words = [
        "run",
        *line.split(),
        "--limit",
        "6",
        "-p",
        "reasoning",
        *roles,
        "--runs",
        str(tmp_path),
        "--name",
    ]
    assert (
        small.command(capsys, *words, "one")[0]
        == small.command(capsys, *words, "other", "--ray")[0]
        == 0
    )
    assert records(tmp_path / "one") == records(tmp_path / "other")
    assert {e.request.role for e in records(tmp_path / "other")} == {"", "questioner", "reasoner"}


@pytest.mark.slow
def test_a_model_that_cannot_be_loaded_is_the_line_that_it_is_without_a_cluster(
    questions: Benchmark, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    words = [
        "run",
        "snellen:scripted?file=nowhere.json",
        str(questions.folder),
        "--runs",
        str(tmp_path),
    ]
    code, _, one = small.command(capsys, *words)
    again, _, other = small.command(capsys, *words, "--ray")
    assert (code, one) == (again, other) and "cannot read replies from nowhere.json" in one


def test_a_worker_for_which_no_machine_is_large_enough_is_said_and_not_waited_for_without_end(
    monkeypatch: pytest.MonkeyPatch, questions: Benchmark, tmp_path: Path
) -> None:
    monkeypatch.setattr("snellen.runs.ray_cluster.PLACEMENT_SECONDS", 0.5)
    lines: list[str] = []
    with pytest.raises(
        ModelError,
        match=r"^ray: no worker could start .* needs 2 GPUs and 1 CPUs .*at most 0 GPUs\); see `ray status`",
    ):
        sn.evaluate(
            "snellen:uniform",
            str(questions.folder),
            runs=tmp_path,
            ray="auto",
            gpus_per_worker=2,
            announce=lines.append,
        )
    assert [
        line
        for line in lines
        if line.startswith("Ray: a worker needs 2 GPUs") and "waiting up to" in line
    ]


def test_without_ray_the_line_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, questions: Benchmark
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(
        MissingExtraError,
        match=r"^a run on a cluster \(ray=\.\.\.\) needs the package ray: .*\[ray\]",
    ):
        sn.evaluate("snellen:uniform", str(questions.folder), ray="auto")


@pytest.mark.parametrize("address", ["127.0.0.1:9", "127.0.0.1:99999", "nowhere.invalid:6379"])
def test_no_cluster_is_an_error_that_says_what_to_do(
    address: str, monkeypatch: pytest.MonkeyPatch, questions: Benchmark
) -> None:
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    before = dict(os.environ)
    with pytest.raises(
        ModelError,
        match=rf"^ray: cannot join a cluster at {address} \(.+\); run this on a machine",
    ):
        sn.evaluate("snellen:uniform", str(questions.folder), ray=address)
    assert dict(os.environ) == before


@pytest.mark.parametrize("place", ["error", "cause"])
def test_a_cluster_that_asks_for_its_token_says_where_that_is(
    place: str, monkeypatch: pytest.MonkeyPatch, questions: Benchmark
) -> None:
    """As Ray 2.60 fails where this machine has no token, and where it has another one."""
    monkeypatch.setattr(ray, "is_initialized", lambda: False)

    def refuse(**how: Any) -> None:
        if place == "error":
            raise ray.exceptions.AuthenticationError(
                "Token authentication is enabled but no token was found"
            )
        cause = RuntimeError(
            "RPC error: InvalidAuthToken: Authentication token is missing or incorrect"
        )
        raise ConnectionError("Failed to connect to Ray cluster") from cause

    monkeypatch.setattr(ray, "init", refuse)
    with pytest.raises(
        ModelError, match=r"^ray: the cluster at auto requires a token; set RAY_AUTH_MODE="
    ):
        sn.evaluate("snellen:uniform", str(questions.folder), ray="auto")


@pytest.mark.parametrize(
    ("how", "fault"),
    [
        (
            {"ray": "snellen:uniform"},
            "ray: 'snellen:uniform' is not an address of a cluster; write HOST:PORT, auto or",
        ),
        (
            {"ray": "auto", "workers": 2},
            "workers are processes on this machine; with ray, use ray_workers",
        ),
        ({"ray_workers": 2}, "ray_workers and gpus_per_worker need a cluster; set ray"),
    ],
)
def test_ways_to_share_the_work_that_exclude_each_other_are_refused(
    how: dict[str, Any], fault: str
) -> None:
    with pytest.raises(DataError, match=f"^{re.escape(fault)}"):
        sn.evaluate("snellen:uniform", "eyechart/shape", **how)


def machine(cpus: float, gpus: float = 0.0, alive: bool = True) -> dict[str, Any]:
    return {"Alive": alive, "Resources": {"CPU": cpus} | ({"GPU": gpus} if gpus else {})}


@pytest.mark.parametrize(
    ("machines", "how", "size"),
    [
        ([machine(16, 8), machine(16, 8), machine(4)], {}, WorkerSize(1.0, 1, 16)),
        ([machine(16, 8), machine(16, 8, alive=False)], {}, WorkerSize(1.0, 1, 8)),
        ([machine(16, 8), machine(16, 3)], {"gpus_per_worker": 4.0}, WorkerSize(4.0, 1, 2)),
        ([machine(16, 2)], {"gpus_per_worker": 0.5}, WorkerSize(0.5, 1, 4)),
        ([machine(16, 2)], {"gpus_per_worker": 4.0}, WorkerSize(4.0, 1, 1)),
        ([machine(16, 8)], {"ray_workers": 3}, WorkerSize(1.0, 1, 3)),
        ([machine(16), machine(6)], {}, WorkerSize(0.0, 6, 2)),
        ([machine(16), machine(6)], {"ray_workers": 5}, WorkerSize(0.0, 2, 5)),
        ([machine(2)], {"ray_workers": 9}, WorkerSize(0.0, 1, 9)),
        ([], {}, WorkerSize(0.0, 1, 1)),
    ],
)
def test_a_worker_takes_one_gpu_or_shares_the_processors_of_its_machine(
    machines: list[dict[str, Any]], how: dict[str, Any], size: WorkerSize
) -> None:
    assert worker_size(ExecutionSpec(**how), machines) == size
