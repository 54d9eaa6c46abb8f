"""Runs whose folder or server is broken: nothing is lost, nothing is taken for somebody else's, and it is said why."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

import small
import snellen as sn
from servers import broken, endless, malformed, rate_limited, reply_body, start_server
from slow_model import PROTOCOLS, Slow
from snellen.building.benchmark import Benchmark
from snellen.errors import ErrorBudgetError, ModelError, StoreError
from snellen.installation import install_line
from snellen.models.chat import PREFIX_DROPPED
from snellen.models.key_removal import KEY_REMOVED
from snellen.records import Failure, Usage
from snellen.runs.drivers import BudgetUse
from snellen.runs.journal import read_exchanges
from snellen.runs.locks import locked_run
from snellen.runs.mending import mend_run
from snellen.runs.run_folder import RUN_MANIFEST, journals
from snellen.runs.spec import run_spec
from test_openai import ask, ask_one, model_at, question
from test_resume import same_as, whole  # noqa: F401

KEY = "sk-very-secret-0123456789"
NO_IMAGES = r"12 of 12 requests failed .*: bad_request: HTTP 400: no pictures, please; they count"


class Other(Slow):
    """Another model of the same kind."""

    name = "other"

    def fingerprint(self) -> dict[str, str]:
        return {"model": "other"}


def run(
    model: object, benchmark: Benchmark, folder: Path, protocols: tuple[str, ...] = PROTOCOLS
) -> None:
    sn.evaluate(model, str(benchmark.folder), protocols, runs=folder, name="run")


# --- whose answers -----------------------------------------------------------------------------------------------


def test_a_run_without_its_manifest_is_not_adopted_by_another_model(
    questions: Benchmark, tmp_path: Path
) -> None:
    run(Slow(), questions, tmp_path)
    (tmp_path / "run" / RUN_MANIFEST).unlink()
    other = Other()
    with pytest.raises(
        StoreError,
        match=r"journal-0.jsonl:1: the reply is from slow#\w{8}, but this run belongs to other#\w{8}",
    ):
        run(other, questions, tmp_path)
    assert other.asked == []
    assert not (tmp_path / "run" / RUN_MANIFEST).exists()


def test_a_run_without_its_manifest_goes_on_with_its_own_model(
    questions: Benchmark,
    whole: Path,  # noqa: F811
    tmp_path: Path,
) -> None:
    run(Slow(), questions, tmp_path)
    (tmp_path / "run" / RUN_MANIFEST).unlink()
    with pytest.raises(
        StoreError,
        match=r"manifest.json is missing\); its journals contain replies: repeat the call of",
    ):
        sn.score(tmp_path / "run")
    model = Slow()
    run(model, questions, tmp_path)
    assert model.asked == []
    same_as(whole, tmp_path / "run")


def test_an_empty_manifest_says_the_remedy(questions: Benchmark, tmp_path: Path) -> None:
    run(Slow(), questions, tmp_path)
    manifest = tmp_path / "run" / RUN_MANIFEST
    manifest.write_bytes(b"\0" * 100)
    for act in (lambda: run(Slow(), questions, tmp_path), lambda: sn.score(tmp_path / "run")):
        with pytest.raises(
            StoreError,
            match=r"manifest.json is damaged \(it is empty, .*; run `snellen mend .*` to restore it",
        ):
            act()
    manifest.unlink()
    model = Slow()
    run(model, questions, tmp_path)
    assert model.asked == []


def test_a_journal_of_another_run_is_not_scored_as_this_one(
    questions: Benchmark, tmp_path: Path
) -> None:
    for model, name in ((Slow(), "mine"), (Other(), "theirs")):
        run(model, questions, tmp_path / name)
    theirs = (tmp_path / "theirs/run/journal-0.jsonl").read_bytes()
    (tmp_path / "mine/run/journal-1.jsonl").write_bytes(theirs)
    with pytest.raises(StoreError, match=r"journal-1.jsonl:1: the reply is from other#"):
        sn.score(tmp_path / "mine/run")
    assert len(mend_run(tmp_path / "mine/run")) == theirs.count(b"\n")
    assert (
        sn.score(tmp_path / "mine/run").value("accuracy", benchmark="mine", protocol="circular")
        is not None
    )


def test_the_manifest_is_on_the_disk_before_anything_is_asked(
    questions: Benchmark, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[str] = []
    sync = os.fsync

    def remember(file: int) -> None:
        synced.append(Path(f"/proc/self/fd/{file}").readlink().name)
        sync(file)

    class Watching(Slow):
        def respond(self, request):  # type: ignore[no-untyped-def]
            assert "manifest.json.part" in synced and synced[-1] == "run"
            return super().respond(request)

    monkeypatch.setattr(os, "fsync", remember)
    run(Watching(), questions, tmp_path, ("vanilla",))


# --- one command at a time ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("workers", [1, 3])
def test_a_run_that_is_going_on_is_refused_before_anything_is_asked(
    workers: int, questions: Benchmark, tmp_path: Path
) -> None:
    folder = tmp_path / "run"
    with locked_run(folder), pytest.raises(StoreError, match="run is in use by another run"):
        sn.evaluate(
            "snellen:uniform", str(questions.folder), runs=tmp_path, name="run", workers=workers
        )
    assert journals(folder) == [] and not (folder / RUN_MANIFEST).exists()
    sn.evaluate(
        "snellen:uniform", str(questions.folder), runs=tmp_path, name="run", workers=workers
    )


def test_workers_whose_parent_was_killed_still_hold_the_run(tmp_path: Path) -> None:
    script = """
import subprocess, sys
from pathlib import Path
from snellen.runs.locks import locked_run
with locked_run(Path(sys.argv[1])) as file:
    child = subprocess.Popen([sys.executable, "-c", "import sys; print(1, flush=True); sys.stdin.read()"],
                             stdin=0, stdout=1, pass_fds=[file])
    import os; os._exit(9)
"""
    parent = subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert parent.stdout and parent.stdin and parent.stdout.readline() == b"1\n"
    assert parent.wait() == 9
    with pytest.raises(StoreError, match="in use"), locked_run(tmp_path):
        pass
    parent.stdin.close()
    assert parent.stdout.read() == b"", "the worker has ended"
    parent.stdout.close()
    with locked_run(tmp_path):
        pass


def test_a_worker_whose_parent_was_killed_ends_quietly(
    questions: Benchmark, tmp_path: Path
) -> None:
    spec = run_spec(
        {
            "models": ["snellen:uniform"],
            "benchmarks": [str(questions.folder)],
            "limit": 2,
            "runs": str(tmp_path),
            "name": "run",
        }
    )
    job = {
        "number": 0,
        "spec": spec,
        "reusable_runs": [],
        "parts": {},
        "earlier": {},
        "budget_used": BudgetUse(),
        "is_command_line": True,
    }
    nobody_reads, output = os.pipe()
    os.close(nobody_reads)
    worker = subprocess.run(
        [sys.executable, "-m", "snellen.runs.workers"],
        input=msgspec.json.encode(job, enc_hook=str),
        stdout=output,
        stderr=subprocess.PIPE,
    )
    os.close(output)
    assert (worker.returncode, worker.stderr) == (1, b"")
    assert journals(tmp_path / "run"), "what was answered is kept"


# --- damaged journals --------------------------------------------------------------------------------------------


def break_text(line: bytes) -> bytes:
    return without_checksum(line).replace(b"Which animal", b"Which \xff\xfe\xfa animal", 1)


def break_reply(line: bytes) -> bytes:
    """Another answer, in a line that is an exchange like any other."""
    return re.sub(
        rb'"text":"\((.)\)"}',
        lambda match: match[0].replace(match[1], bytes([match[1][0] ^ 1])),
        line,
    )


def without_checksum(line: bytes) -> bytes:
    return re.sub(rb',"crc":"\w+"', b"", line)


def break_order(line: bytes) -> bytes:
    return without_checksum(line).replace(b'"order":[0,1,2,3]', b'"order":[0,1,2,9]')


def break_turn(line: bytes) -> bytes:
    return without_checksum(line).replace(b'"variant":{', b'"variant":{"turn":7,', 1)


@pytest.mark.parametrize(
    ("damage", "fault"),
    [
        (break_text, "not an exchange of this version"),
        (break_order, r"option 9 of q\d+, which has 4"),
        (break_reply, r"the line has changed since it was written"),
        (break_turn, r"turn 7 of q\d+, which has 1"),
        (lambda line: b"[" * 100_000 + b"\n", "not an exchange of this version"),
    ],
)
def test_a_damaged_line_is_named_set_aside_and_asked_again(
    damage: Callable[[bytes], bytes],
    fault: str,
    questions: Benchmark,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    run(Slow(), questions, tmp_path, ("vanilla",))
    scores = (tmp_path / "run/scores.jsonl").read_bytes()
    [journal] = journals(tmp_path / "run")
    lines = journal.read_bytes().splitlines(keepends=True)
    broken_line = damage(lines[4])
    assert broken_line != lines[4]
    journal.write_bytes(b"".join([*lines[:4], broken_line, *lines[5:]]))
    with pytest.raises(
        StoreError,
        match=rf"journal-0.jsonl:5: {fault}.*; run `snellen mend .*run` to move damaged lines aside",
    ):
        sn.score(tmp_path / "run")
    code, printed, _ = small.command(capsys, "mend", str(tmp_path / "run"))
    assert code == 0 and "journal-0.jsonl:5: " in printed and "1 lines were moved aside" in printed
    assert (tmp_path / "run/damaged/journal-0.jsonl").read_bytes() == broken_line
    model = Slow()
    run(model, questions, tmp_path, ("vanilla",))
    assert len(model.asked) == 1
    assert sorted((tmp_path / "run/scores.jsonl").read_bytes().splitlines()) == sorted(
        scores.splitlines()
    )
    assert "nothing is damaged" in small.command(capsys, "mend", str(tmp_path / "run"))[1]


def test_a_folder_in_the_place_of_a_journal_is_one_line_and_is_set_aside(
    questions: Benchmark, tmp_path: Path
) -> None:
    run(Slow(), questions, tmp_path, ("vanilla",))
    [journal] = journals(tmp_path / "run")
    journal.unlink()
    journal.mkdir()
    for act in (
        lambda: run(Slow(), questions, tmp_path, ("vanilla",)),
        lambda: sn.score(tmp_path / "run"),
    ):
        with pytest.raises(StoreError, match=r"journal-0.jsonl.*snellen mend"):
            act()
    assert [damage.line for damage in mend_run(tmp_path / "run")] == [0]
    run(Slow(), questions, tmp_path, ("vanilla",))


# --- servers -----------------------------------------------------------------------------------------------------


def test_a_reply_without_end_is_a_typed_failure_and_the_others_go_on() -> None:
    with start_server(script=[endless(), malformed("x" * 5000)]) as server:
        model = model_at(server.url, concurrency=1, reply_bytes=4096)
        responses = ask(model, *(question(str(i)) for i in range(4)))
    errors = [response.error for response in responses if response.error]
    assert (
        errors
        == [
            Failure(
                "too_long",
                "the reply is longer than 4,096 bytes; raise reply_bytes= if replies can be that long",
            )
        ]
        * 2
    )


@pytest.mark.parametrize(
    ("usage", "read"),
    [
        ('{"prompt_tokens": "7", "completion_tokens": "3"}', Usage(7, 3)),
        ('{"prompt_tokens": "many"}', None),
        ('["x"]', None),
        ("null", None),
    ],
)
def test_token_counts_that_cannot_be_read_do_not_cost_the_reply(
    usage: str, read: Usage | None
) -> None:
    body = reply_body("(A)")
    before, _, _ = body.partition('"usage":')
    body = f'{before}"usage":{usage}}}'
    with start_server(script=[malformed(body)]) as server:
        response = ask_one(model_at(server.url))
        assert server.stats()["requests"] == 1
    assert (response.text, response.usage) == ("(A)", read)
    assert bool(response.notes) == (read is None and usage != "null")


def test_a_server_that_answers_nobody_is_left_alone_soon(tmp_path: Path) -> None:
    benchmark = small.built(small.rows(120), tmp_path / "made")
    with start_server(script=[broken(500, times=10_000)]) as server:
        model = model_at(server.url)
        with pytest.raises(
            ModelError,
            match=r"stopped, because the last \d+ requests all failed \(HTTP 500: it broke\)",
        ):
            run(model, benchmark, tmp_path, ("vanilla",))
        # In flight, sent until the sixteenth failed, probes, and the one that a later run would begin with, which is
        # on its way before all have heard that this one ends; each request tried seven times would be 840.
        asked = 32 + 15 + 6 + 1
        assert server.stats()["requests"] <= asked
        failures = [e.response.error for e in read_exchanges(tmp_path / "run") if e.response.error]
        assert 16 <= len(failures) <= asked
        assert {failure.detail for failure in failures} == {"HTTP 500: it broke"}
        [accuracy] = [
            row
            for row in sn.score(tmp_path / "run").rows
            if (row.metric, row.slice, row.dimension) == ("accuracy", "", "")
            and row.benchmark == benchmark.name
        ]
        assert accuracy.estimate.errors == len(failures)
        assert accuracy.estimate.not_asked == 120 - len(failures)
        server.script()
        run(model, benchmark, tmp_path, ("vanilla",))
        assert server.stats()["requests"] <= asked + 120
    assert sum(not e.response.error for e in read_exchanges(tmp_path / "run")) == 120


def test_a_server_that_comes_back_costs_no_sample() -> None:
    with start_server(script=[broken(503, times=36)]) as server:
        responses = ask(model_at(server.url, retries=5), *(question(str(i)) for i in range(100)))
        assert server.stats()["requests"] <= 136
    assert all(response.text for response in responses)


def test_a_question_that_breaks_the_server_fails_alone() -> None:
    poison = [msgspec.structs.replace(broken(500, times=1000), matching="bad")]
    with start_server(script=poison) as server:
        texts = [f"bad {i}" if i % 2 else str(i) for i in range(80)]
        responses = ask(model_at(server.url, retries=1), *map(question, texts))
    assert [bool(response.error) for response in responses] == [bool(i % 2) for i in range(80)]


def test_one_model_may_stop_in_several_event_loops() -> None:
    with start_server(script=[broken(500, times=10_000)]) as server:
        model = model_at(server.url)
        for _ in range(3):
            with pytest.raises(ModelError, match="stopped"):
                ask(model, *(question(str(i)) for i in range(64)))
        server.script()
        assert all(r.text for r in ask(model, *(question(str(i)) for i in range(64))))


def test_a_few_rate_limits_cost_one_more_request_each() -> None:
    limits = msgspec.structs.replace(rate_limited(), share=0.1)
    with start_server(latency=0.005, script=[limits]) as server:
        model = model_at(server.url)
        responses = ask(model, *(question(str(i)) for i in range(300)))
        limited = server.stats()["requests"] - 300
    assert all(response.text for response in responses)
    assert 10 < limited < 60 and model.client.limit.allowed > 16


def test_failures_are_told_with_their_reasons(questions: Benchmark, tmp_path: Path) -> None:
    script = [broken(400, times=1000, message="no pictures, please")]
    with start_server(script=script) as server, pytest.raises(ErrorBudgetError, match=NO_IMAGES):
        run(model_at(server.url), questions, tmp_path, ("vanilla",))


def test_workers_tell_the_reasons_of_failures_too(questions: Benchmark, tmp_path: Path) -> None:
    script = [broken(400, times=1000, message="no pictures, please")]
    with start_server(script=script) as server, pytest.raises(ErrorBudgetError, match=NO_IMAGES):
        sn.evaluate(
            f"openai:any@{server.url}", str(questions.folder), runs=tmp_path, name="run", workers=2
        )


def test_a_key_that_a_server_repeats_is_stored_nowhere(
    questions: Benchmark, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_KEY", KEY)
    with start_server(reply=f"(A), {KEY}", key=KEY) as server:
        sn.evaluate(
            f"openai:any@{server.url}?api_key_env=MY_KEY",
            str(questions.folder),
            runs=tmp_path,
            name="run",
        )
    for path in (tmp_path / "run").rglob("*"):
        assert not path.is_file() or KEY.encode() not in path.read_bytes(), path
    exchanges = list(read_exchanges(tmp_path / "run"))
    assert {(e.response.text, e.response.notes) for e in exchanges} == {
        ("(A), ***", (PREFIX_DROPPED, KEY_REMOVED))
    }


def test_a_word_that_serves_as_a_key_stays_in_replies() -> None:
    with start_server(reply="EMPTY", key="EMPTY") as server:
        assert ask_one(model_at(server.url, key="EMPTY")).text == "EMPTY"


def test_the_demo_says_what_is_missing_before_it_builds_anything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SNELLEN_HOME", str(tmp_path))
    monkeypatch.setattr("snellen.cli.verbs.demo.find_spec", lambda name: None)
    code, _, errors = small.command(capsys, "demo")
    assert code == 2 and f"snellen demo needs the package torch: {install_line('hf')}" in errors
    assert list(tmp_path.iterdir()) == []
