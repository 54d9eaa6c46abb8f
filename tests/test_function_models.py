"""A function that answers one question at a time: what it answered before a stop or an error is kept."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

import snellen as sn
from snellen.errors import HookError
from snellen.runs.journal import read_exchanges

BENCHMARK = "eyechart/shape"
CALLS = Path("calls.txt")
MODEL = """
import os
import signal
from pathlib import Path

CALLS = Path("calls.txt")

def answer(question, images):
    with CALLS.open("a") as calls:
        calls.write("called\\n")
    number = len(CALLS.read_text().split())
    if Path("fault.txt").exists() and number == 13:
        raise RuntimeError("CUDA out of memory")
    if Path("stop.txt").exists() and number == 15:
        os.kill(os.getpid(), signal.SIGINT)
    return "(A)"
"""


@pytest.fixture(autouse=True)
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("my_model.py").write_text(MODEL)


def run(*flags: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "snellen", "run", "my_model.py:answer", BENCHMARK]
    return subprocess.run(
        [*command, "--limit", "24", "--name", "run", "--no-report", *flags],
        capture_output=True,
        text=True,
        check=False,
    )


def calls() -> int:
    return len(CALLS.read_text().split())


@pytest.mark.parametrize("flags", [(), ("--window", "24")])
def test_an_error_in_a_later_call_loses_no_answer(flags: tuple[str, ...]) -> None:
    Path("fault.txt").touch()
    failed = run(*flags)
    assert failed.returncode == 2
    exchanges = list(read_exchanges(Path("runs/run")))
    assert len(exchanges) == 12
    assert "failed on question shape-test-" in failed.stderr
    assert "RuntimeError: CUDA out of memory" in failed.stderr

    Path("fault.txt").unlink()
    assert run(*flags).returncode == 0
    assert calls() == 13 + 12  # the one that failed is asked again


def test_ctrl_c_keeps_the_answers_so_far() -> None:
    Path("stop.txt").touch()
    stopped = run()
    assert stopped.returncode in (130, -signal.SIGINT)
    assert "all replies so far are stored in runs/run" in stopped.stderr
    assert len(list(read_exchanges(Path("runs/run")))) == 14

    assert run().returncode == 0
    assert calls() == 15 + 10


def test_calls_in_other_threads_are_kept_when_one_fails() -> None:
    """Of the first four calls at the same time one fails; the other three end later and are kept."""
    has_failed = threading.Event()
    lock = threading.Lock()
    asked: list[str] = []

    def answer(question: str, images: Any) -> str:
        with lock:
            asked.append(question)
            is_first = len(asked) == 1
        if is_first:
            while len(asked) < 4:
                time.sleep(0.01)
            has_failed.set()
            raise RuntimeError("no memory")
        has_failed.wait(30)
        time.sleep(0.2)
        return "(A)"

    answer.fingerprint = lambda: {"version": "1"}  # type: ignore[attr-defined]
    with pytest.raises(HookError, match=r"failed on question shape-test-.*no memory"):
        sn.evaluate(answer, BENCHMARK, limit=16, workers=4, name="threads")
    replies = list(read_exchanges(Path("runs/threads")))
    assert len(replies) == len(asked) - 1 >= 3


def test_a_batch_that_fails_is_named_by_its_questions() -> None:
    def answer(questions: list[str], images: Any) -> list[str]:
        raise RuntimeError("no memory")

    named = r"one of 6 questions \(shape-test-\d+, shape-test-\d+, shape-test-\d+, \.\.\.\): RuntimeError"
    with pytest.raises(HookError, match=named):
        sn.evaluate(answer, BENCHMARK, limit=6)

    class Model:
        def generate(self, requests: Any, images: Any) -> list[str]:
            raise RuntimeError("no memory")

        loglikelihood = generate

    for protocol in ("vanilla", "likelihood"):
        with pytest.raises(HookError, match=f"the model Model failed on {named}: no memory"):
            sn.evaluate(Model(), BENCHMARK, protocol, limit=6)


def test_a_model_that_fails_says_where_its_earlier_replies_are() -> None:
    asked: list[str] = []

    def answer(question: str, images: Any) -> str:
        asked.append(question)
        if len(asked) == 3:
            raise RuntimeError("no memory")
        return "(A)"

    answer.fingerprint = "1"  # type: ignore[attr-defined]
    kept = (
        r"no memory; all replies so far are stored in runs/failing: repeat the call to resume \(a model whose code has "
        r"changed needs a new name: name='failing-2'\)"
    )
    with pytest.raises(HookError, match=kept):
        sn.evaluate(answer, BENCHMARK, limit=6, name="failing")
    assert len(list(read_exchanges(Path("runs/failing")))) == 2
    sn.evaluate(answer, BENCHMARK, limit=6, name="failing")
    assert len(asked) == 7

    asked.clear()
    with pytest.raises(HookError, match="code has changed gets a folder of its own"):
        sn.evaluate(answer, BENCHMARK, limit=6)


def test_a_command_that_asks_nothing_says_so_and_how_to_ask_again() -> None:
    nothing_asked = "all 24 questions were answered by an earlier run, until 20"
    first = run()
    assert nothing_asked not in first.stderr
    again = run()
    assert calls() == 24
    [line] = [line for line in again.stderr.splitlines() if nothing_asked in line]
    assert line.endswith("nothing was asked. --name NEW asks again")
    run("--name", "NEW")
    assert calls() == 48
    # More questions than before: some are asked.
    assert "nothing was asked" not in run("--limit", "30").stderr
