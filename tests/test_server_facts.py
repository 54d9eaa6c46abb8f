"""A server that was started again with another model under the same name and address is noticed by what it states."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import snellen as sn
from servers import Fault, Server, broken, error_body, reply_body, start_server
from snellen.building.benchmark import Benchmark
from snellen.models.base import DescribesServer
from snellen.models.loading import load_model
from snellen.runs.async_driver import run_async
from snellen.runs.journal import read_exchanges
from snellen.runs.run_folder import read_manifest
from snellen.runs.run_progress import RunProgress

VLLM: dict[str, Any] = {
    "object": "model",
    "created": 1764342000,
    "owned_by": "vllm",
    "root": "/models/first",
    "parent": None,
    "max_model_len": 4096,
    "permission": [{"id": "modelperm-1", "created": 1764342000}],
}
SECOND = {**VLLM, "root": "/models/second"}


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@contextmanager
def served(entry: dict[str, Any], reply: str, port: int = 0, **settings: Any) -> Iterator[Server]:
    with start_server(
        flavour="vllm", entry=entry, reply=reply, port=port, models=("default",), **settings
    ) as server:
        yield server


def model_at(server: Server) -> str:
    return f"openai:default@{server.url}"


def texts(run: str) -> set[str]:
    return {exchange.response.text for exchange in read_exchanges(Path("runs") / run)}


# --- what each kind of server states ------------------------------------------------------------------------------


def facts(model: str) -> dict[str, str]:
    loaded = load_model(model)
    assert isinstance(loaded, DescribesServer)
    stated: dict[str, str] = {}

    async def ask() -> None:
        stated.update(await loaded.server_facts())
        await loaded.close()

    run_async(ask())
    return {name.partition(" at ")[0]: text for name, text in stated.items()}


@pytest.mark.parametrize(
    ("entry", "pages", "expected"),
    [
        (VLLM, {}, {"owned_by": "vllm", "root": "/models/first"}),
        (
            {"owned_by": "vllm", "root": "/adapters/a", "parent": "base"},
            {},
            {"owned_by": "vllm", "root": "/adapters/a", "parent": "base"},
        ),
        (
            {"owned_by": "sglang", "root": "default", "max_model_len": 4096},
            {"/model_info": {"model_path": "/models/first", "is_generation": True}},
            {"owned_by": "sglang", "root": "default", "model_path": "/models/first"},
        ),
        (  # before SGLang had /model_info
            {"owned_by": "sglang", "root": "default"},
            {"/get_model_info": {"model_path": "/models/first"}},
            {"owned_by": "sglang", "root": "default", "model_path": "/models/first"},
        ),
        (
            {"id": "/gguf/m.gguf", "owned_by": "llamacpp", "meta": {"n_params": 9, "size": 7}},
            {},
            {"owned_by": "llamacpp", "id": "/gguf/m.gguf", "n_params": "9", "size": "7"},
        ),
        (
            {"owned_by": "default", "created": 0},
            {"/info": {"model_id": "org/name", "model_sha": "12ab", "max_batch_size": 4}},
            {"owned_by": "default", "model_id": "org/name", "model_sha": "12ab"},
        ),
        (
            {"owned_by": "library", "created": 1764342000},
            {"/api/tags": {"models": [{"name": "default:latest", "digest": "34cd"}]}},
            {"owned_by": "library", "digest": "34cd"},
        ),
        ({"owned_by": "library"}, {"/api/tags": {"models": [7]}}, {"owned_by": "library"}),
        ({"owned_by": "sglang"}, {"/model_info": []}, {"owned_by": "sglang"}),
        ({"owned_by": None, "root": ["x"], "meta": 3}, {}, {}),
    ],
)
def test_facts_of_each_server(
    entry: dict[str, Any], pages: dict[str, Any], expected: dict[str, str]
) -> None:
    with start_server(models=("default",), entry=entry, pages=pages) as server:
        assert facts(model_at(server)) == expected


@pytest.mark.parametrize(
    "about",
    [
        Fault(501, error_body("no list")),
        broken(),
        Fault(body="{"),
        Fault(body='{"data": 3}'),
        Fault(body="[]"),
        Fault(cut="before"),
    ],
)
def test_a_server_that_states_nothing_fails_no_question(about: Fault, questions: Benchmark) -> None:
    with start_server(reply="A", about=about) as server:
        assert facts(f"openai:any@{server.url}") == {}
        results = sn.evaluate(f"openai:any@{server.url}", str(questions.folder), limit=2)
        assert results.runs[0].failed == 0


def test_each_of_several_servers_is_asked() -> None:
    with served(VLLM, "A") as one, served(SECOND, "A") as other:
        loaded = load_model(f"openai:default@{one.url},{other.url}")
        assert isinstance(loaded, DescribesServer)
        stated: dict[str, str] = {}

        async def ask() -> None:
            stated.update(await loaded.server_facts())
            await loaded.close()

        run_async(ask())
    assert stated[f"root at 127.0.0.1:{one.port}"] == "/models/first"
    assert stated[f"root at 127.0.0.1:{other.port}"] == "/models/second"


# --- runs -----------------------------------------------------------------------------------------------------------


def test_a_run_is_not_continued_by_another_model_at_the_same_address(questions: Benchmark) -> None:
    folder = str(questions.folder)
    with served(VLLM, "A") as server:
        sn.evaluate(model_at(server), folder, limit=4, name="run")
        [session] = read_manifest(Path("runs/run")).sessions
        assert session.servers[""][f"root at 127.0.0.1:{server.port}"] == "/models/first"
    before = Path("runs/run/journal-0.jsonl").read_bytes()
    with served(SECOND, "B", server.port) as server:
        with pytest.raises(
            sn.StoreError,
            match=r"root at 127.0.0.1:\d+ was /models/first, is /models/second.*moved=True.*name=",
        ) as refused:
            sn.evaluate(model_at(server), folder, limit=8, name="run")
        assert "\n" not in str(refused.value)
        assert server.stats()["requests"] == 0
        assert Path("runs/run/journal-0.jsonl").read_bytes() == before

        sn.evaluate(model_at(server), folder, limit=8, name="run", moved=True)
        assert len(read_manifest(Path("runs/run")).sessions) == 2
        sn.evaluate(model_at(server), folder, limit=8, name="run")  # known from now on
    assert texts("run") == {"A", "B"}


def test_an_automatically_named_run_is_refused_too(questions: Benchmark) -> None:
    folder = str(questions.folder)
    with served(VLLM, "A") as server:
        sn.evaluate(model_at(server), folder, limit=4)
    with served(SECOND, "B", server.port) as server:
        with pytest.raises(sn.StoreError, match="moved=True"):
            sn.evaluate(model_at(server), folder, limit=4)
        assert sn.evaluate(model_at(server), folder, limit=4, name="second").runs[0].failed == 0
    assert texts("second") == {"B"}


def test_a_restart_of_the_same_model_goes_on(questions: Benchmark) -> None:
    folder = str(questions.folder)
    with served(VLLM, "A") as server:
        sn.evaluate(model_at(server), folder, limit=2, name="run")
    restarted = {**VLLM, "created": 1764349999, "max_model_len": 8192, "permission": []}
    with served(restarted, "A", server.port) as server:
        sn.evaluate(model_at(server), folder, limit=4, name="run")
    assert len(read_manifest(Path("runs/run")).sessions) == 1


@pytest.mark.parametrize("silent_at", ["first", "second"])
def test_a_server_that_stated_nothing_before_or_now_goes_on(
    silent_at: str, questions: Benchmark
) -> None:
    folder = str(questions.folder)
    silent = Fault(404, error_body("no list"))
    about = {"first": (silent, None), "second": (None, silent)}[silent_at]
    with served(VLLM, "A", about=about[0]) as server:
        sn.evaluate(model_at(server), folder, limit=2, name="run")
    with served(SECOND, "B", server.port, about=about[1]) as server:
        sn.evaluate(model_at(server), folder, limit=4, name="run")
    assert texts("run") == {"A", "B"}

    # What was stated in any session still holds for the next one.
    third = {**VLLM, "root": "/models/third"}
    with served(third, "C", server.port) as server, pytest.raises(sn.StoreError, match="third"):
        sn.evaluate(model_at(server), folder, limit=6, name="run")


def test_several_workers_compare_what_a_server_states(questions: Benchmark) -> None:
    folder = str(questions.folder)
    with served(VLLM, "A") as server:
        # One worker has finished before the other has written the manifest.
        sn.evaluate(model_at(server), folder, "vanilla", limit=1, name="run", workers=2)
    with served(SECOND, "B", server.port) as server:
        with pytest.raises(sn.ModelError, match="was /models/first, is /models/second"):
            sn.evaluate(model_at(server), folder, "vanilla", limit=4, name="run", workers=2)
        assert server.stats()["requests"] == 0


def test_a_model_that_changes_during_a_session_is_noted(questions: Benchmark) -> None:
    with served(VLLM, "A") as server:
        listed = {"data": [{"id": "default", **SECOND}]}
        second = Fault(body=json.dumps(listed))

        def swap(progress: RunProgress) -> None:
            if progress.requests:
                server.says_of_itself(second)

        results = sn.evaluate(
            model_at(server), str(questions.folder), limit=2, name="run", progress=swap
        )
    assert results.runs[0].failed == 0
    notes = " ".join(read_manifest(Path("runs/run")).notes)
    assert "may have changed its model during the run" in notes
    assert "was /models/first, is /models/second" in notes


@pytest.mark.parametrize(
    ("fingerprint", "notes"), [("fp_1", ("system_fingerprint fp_1",)), (7, ()), (None, ())]
)
def test_the_system_fingerprint_of_a_reply_is_noted(
    fingerprint: object, notes: tuple[str, ...], questions: Benchmark
) -> None:
    body = json.loads(reply_body("A")) | {"system_fingerprint": fingerprint}
    with start_server(script=(Fault(body=json.dumps(body), times=99),)) as server:
        sn.evaluate(f"openai:any@{server.url}", str(questions.folder), limit=2, name="run")
    replies = [exchange.response for exchange in read_exchanges(Path("runs/run"))]
    noted = {note for reply in replies for note in reply.notes if "fingerprint" in note}
    assert replies and noted == set(notes)


# --- caches and judges ------------------------------------------------------------------------------------------------


def test_a_cache_does_not_give_the_answers_of_another_model(questions: Benchmark) -> None:
    folder = str(questions.folder)
    with served(VLLM, "A") as server:
        sn.evaluate(model_at(server), folder, limit=4, name="first", cache="answers")
    with served(SECOND, "B", server.port) as server:
        with pytest.raises(sn.StoreError, match=r"was /models/first, is /models/second.*cache="):
            sn.evaluate(model_at(server), folder, limit=4, name="second", cache="answers")
        assert server.stats()["requests"] == 0
        sn.evaluate(model_at(server), folder, limit=4, name="second", cache="others")
        assert texts("second") == {"B"}
        sn.evaluate(model_at(server), folder, limit=4, name="third", cache="answers", moved=True)
        assert texts("third") == {"A"}


def test_the_verdicts_of_a_judge_are_not_taken_for_those_of_another(questions: Benchmark) -> None:
    run = sn.evaluate(
        sn.Scripted(lambda request: "I would say it depends.", name="vague"),
        str(questions.folder),
        limit=2,
        name="run",
    )
    folder = run.runs[0].folder
    with served(VLLM, "A") as server:
        sn.score(folder, judge=model_at(server))
        asked = server.stats()["requests"]
        assert asked > 0
        sn.score(folder, judge=model_at(server))
        assert server.stats()["requests"] == asked
    with served(SECOND, "B", server.port) as server:
        with pytest.raises(
            sn.StoreError,
            match=r"was /models/first, is /models/second.*sn\.JudgeSpec\(moved=True\)",
        ):
            sn.score(folder, judge=model_at(server))
        assert server.stats()["requests"] == 0
