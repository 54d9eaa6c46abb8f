"""In a notebook: a real kernel, whose thread has a running event loop, and a server on loopback."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

import snellen as sn
from notebooks import Notebook, opened_notebook
from servers import Fault, Server, start_server
from snellen.building.benchmark import Benchmark


@pytest.fixture(scope="module")
def notebook(tmp_path_factory: pytest.TempPathFactory, home: Path) -> Iterator[Notebook]:
    with opened_notebook(tmp_path_factory.mktemp("notebook")) as opened:
        yield opened


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with start_server(latency=0.005) as running:
        yield running


def test_a_served_model_with_a_served_judge_is_evaluated_in_a_cell(
    notebook: Notebook, server: Server, questions: Benchmark, tmp_path: Path
) -> None:
    shown, fault = notebook.run(f"""
import asyncio, json
import snellen as sn
assert asyncio.get_running_loop().is_running()
model, folder = "openai:any@{server.url}", {str(questions.folder)!r}
results = sn.evaluate(
    model, folder, "circular", limit=10, name="cell", judge=model + "?concurrency=2", progress=sn.shown_progress()
)
reopened = sn.load_run("runs/cell", results.runs[0].stored_in.name)
print(json.dumps([row.estimate.value for row in results.rows]), reopened.rows == results.rows)
results
""")
    assert not fault, fault
    bars = [data["text/html"] for data in shown if "<progress" in data.get("text/html", "")]
    assert (
        "10 of 10 questions done" in bars[-1]
        and len({bar.partition("<progress")[0] for bar in bars}) == 1
    )
    assert "<table" in shown[-1]["text/html"], "the last line of a cell shows the summary"
    [printed] = [data["text/plain"] for data in shown if data["text/plain"].startswith("[")]
    plain = sn.evaluate(
        f"openai:any@{server.url}",
        str(questions.folder),
        "circular",
        limit=10,
        runs=tmp_path,
        judge=f"openai:any@{server.url}?concurrency=2",
    )
    assert printed.strip() == f"{json.dumps([row.estimate.value for row in plain.rows])} True"


@pytest.fixture
def halting_server() -> Iterator[Server]:
    """Answers five requests, keeps the next four waiting for longer than any test, and then answers again."""
    with start_server(
        latency=0.005, script=[Fault(times=5), Fault(seconds=300, times=4)]
    ) as running:
        yield running


def test_an_interrupted_cell_leaves_a_run_that_goes_on(
    notebook: Notebook, halting_server: Server, questions: Benchmark
) -> None:
    model = f"openai:any@{halting_server.url}?concurrency=4"
    call = f'sn.evaluate("{model}", {str(questions.folder)!r}, "circular?all_passes=true", name="stopped", progress=show, announce=str)'
    begin = f"""
import snellen as sn
from snellen.runs import async_driver, interrupts
async_driver.GRACE_SECONDS = interrupts.GRACE_SECONDS = 2.0  # the four replies never come
seen = []
def show(state):
    seen.append(state)
    if state.requests == 5:
        display("five")
{call}
"""
    _, fault = notebook.run(begin, interrupted_by=lambda data: "five" in data["text/plain"])
    assert "KeyboardInterrupt" in fault and "all replies so far are stored in runs/stopped" in fault
    _, fault = notebook.run("first, asked = len(seen), seen[-1].requests; seen.clear()")
    assert not fault
    halting_server.script()  # on a busy machine, fewer than four requests may have been sent
    shown, fault = notebook.run(
        f"{call}; print(seen[-1].done == seen[-1].total, asked, seen[-1].requests)"
    )
    assert not fault, fault
    ended, asked, later = shown[-1]["text/plain"].split()
    assert ended == "True" and int(asked) == 5 and int(later) > 0


@pytest.mark.slow
def test_a_local_model_is_loaded_without_advice_on_widgets_that_are_not_there(
    notebook: Notebook,
) -> None:
    pytest.importorskip("transformers", reason="needs transformers (pip install 'snellen[hf]')")
    shown, fault = notebook.run("""
import sys, warnings
sys.modules["ipywidgets"] = None  # not installed, whatever this machine has
import snellen as sn
sn.load_model("snellen:tiny")
assert not [message for _, message, *_ in warnings.filters if "IProgress" in getattr(message, "pattern", "")]
from tqdm.auto import tqdm
assert list(tqdm("abc")) == ["a", "b", "c"]
""")
    assert not fault, fault
    text = "".join(data["text/plain"] for data in shown)
    assert "100%|" in text and "3/3" in text, "the bar is text"
    assert "IProgress" not in text and "Warning" not in text
