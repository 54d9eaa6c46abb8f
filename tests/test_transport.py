"""Limits, retries and keys are no part of who answers; the address of a server is, unless its model has moved."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import snellen as sn
from servers import Server, start_server
from snellen.building.benchmark import Benchmark
from snellen.models.identity import identifying_string
from snellen.models.loading import load_model
from snellen.runs.journal import read_exchanges
from snellen.runs.run_folder import read_manifest
from snellen.scoring.judges import Judge, JudgeEnsemble


@pytest.fixture(scope="module")
def servers() -> Iterator[tuple[Server, Server]]:
    with start_server() as first, start_server() as second:
        yield first, second


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_a_run_goes_on_with_other_limits(
    servers: tuple[Server, Server], questions: Benchmark
) -> None:
    ways = (
        f"openai:any@{servers[0].url}?concurrency=1&retries=0",
        f"openai:any@{servers[0].url}?timeout=9&concurrency=7",
    )
    begun = sn.evaluate(ways[0], str(questions.folder), limit=4)
    whole = sn.evaluate(ways[1], str(questions.folder), limit=4)
    assert begun.runs[0].folder == whole.runs[0].folder


def test_a_run_goes_on_at_another_address_where_its_model_has_moved(
    servers: tuple[Server, Server], questions: Benchmark
) -> None:
    ways = [f"openai:any@{server.url}" for server in servers]
    sn.evaluate(ways[0], str(questions.folder), limit=4, name="run")
    with pytest.raises(
        sn.StoreError, match=r"may serve another model with that name; .* moved=True"
    ):
        sn.evaluate(ways[1], str(questions.folder), limit=8, name="run")

    sn.evaluate(ways[1], str(questions.folder), limit=8, name="run", moved=True)
    asked = [exchange.request.sample_id for exchange in read_exchanges(Path("runs/run"))]
    assert len(asked) == len(set(asked)) == 8
    manifest = read_manifest(Path("runs/run"))
    assert [session.models for session in manifest.sessions] == [{"": ways[0]}, {"": ways[1]}]

    # Both addresses are now known to have this model.
    for way in (ways[1], ways[0]):
        sn.evaluate(way, str(questions.folder), limit=8, name="run")


def test_the_same_name_at_two_addresses_is_two_models(questions: Benchmark) -> None:
    with start_server(reply="A") as first, start_server(reply="B") as second:
        ways = [f"openai:any@{server.url}" for server in (first, second)]
        results = [sn.evaluate(way, str(questions.folder), cache="answers") for way in ways]
        folders = [result.runs[0].folder for result in results]
        assert len(set(folders)) == 2
        for folder, server, reply in zip(folders, (first, second), "AB", strict=True):
            assert str(server.port) in folder.name
            assert {e.response.text for e in read_exchanges(folder)} == {reply}

        # The same command goes on in the same folder, and a model that has moved in that of its former address.
        assert sn.evaluate(ways[1], str(questions.folder)).runs[0].folder == folders[1]
    with start_server(reply="C") as third:
        moved = sn.evaluate(
            f"openai:any@{third.url}", str(questions.folder), runs="one", moved=True
        )
        assert moved.runs[0].folder.parent == Path("one")
        with pytest.raises(
            sn.DataError, match=r"moved=True: .* are the same run at other addresses"
        ):
            sn.evaluate(f"openai:any@{third.url}", str(questions.folder), moved=True)


def test_an_automatic_folder_is_found_again_after_a_move(
    servers: tuple[Server, Server], questions: Benchmark
) -> None:
    ways = [f"openai:any@{server.url}" for server in servers]
    first = sn.evaluate(ways[0], str(questions.folder), limit=4).runs[0].folder
    moved = sn.evaluate(ways[1], str(questions.folder), limit=4, moved=True).runs[0].folder
    assert moved == first


def test_two_models_of_one_name_play_different_roles_and_rivals(questions: Benchmark) -> None:
    with start_server(reply="A") as first, start_server(reply="B") as second:
        ways = [f"openai:any@{server.url}" for server in (first, second)]
        both = sn.evaluate(ways, str(questions.folder))
    assert len({run.folder for run in both.runs}) == 2
    assert len({row.model for row in both.rows}) == 2  # their labels in tables


def test_a_judge_is_known_by_its_address_and_not_by_its_limits(
    servers: tuple[Server, Server],
) -> None:
    first, second = servers
    here = [load_model(f"openai:any@{first.url}?timeout={seconds}") for seconds in (1, 2)]
    there = load_model(f"openai:any@{second.url}")
    folders = [Judge(model, Path("run"), None, print).folder for model in (*here, there)]
    assert folders[0] == folders[1] != folders[2]
    with pytest.raises(sn.DataError, match="is given twice"):
        JudgeEnsemble(here, Path("run"))


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ("openai:other@{url}", "another model"),
        ("openai:any@{url}?prefix=drop", "prefix was auto, is drop"),
        ("openai:any@{url}/deployments/b", "endpoint was /v1, is /v1/deployments/b"),
        ("openai:any@{url}?likelihood=letters", "likelihood"),
    ],
)
def test_what_answers_depend_on_is_another_model(
    changed: str, words: str, servers: tuple[Server, Server], questions: Benchmark
) -> None:
    sn.evaluate(f"openai:any@{servers[0].url}", str(questions.folder), limit=2, name="run")
    with pytest.raises(sn.StoreError, match=words):
        sn.evaluate(changed.format(url=servers[0].url), str(questions.folder), limit=2, name="run")


@pytest.mark.parametrize(
    ("name", "identity"),
    [
        (
            "openai:a/b:7b@http://h:1/v1?concurrency=3&prefix=send&timeout=1",
            "openai:a/b:7b@/v1?prefix=send",
        ),
        ("openai:gpt-4o?retries=9", "openai:gpt-4o"),
        ("snellen:biased?seed=1", "snellen:biased?seed=1"),
        ("hf:./folder?dtype=float32", "hf:./folder?dtype=float32"),
        ("MyModel", "MyModel"),
    ],
)
def test_an_identity_is_the_model_string_without_how_the_model_is_reached(
    name: str, identity: str
) -> None:
    assert identifying_string(name) == identity
