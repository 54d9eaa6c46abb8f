"""How a model is reached is no part of who answers: a run goes on over another server, with other limits."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import snellen as sn
from servers import Server, start_server
from snellen.building.benchmark import Benchmark
from snellen.models.base import answers_as, load_model
from snellen.runs.journal import read_exchanges
from snellen.runs.run_folder import read_manifest
from snellen.scoring.judges import Judge


@pytest.fixture(scope="module")
def servers() -> Iterator[tuple[Server, Server]]:
    with start_server() as first, start_server() as second:
        yield first, second


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_a_run_goes_on_over_another_server_with_other_limits(
    servers: tuple[Server, Server], questions: Benchmark
) -> None:
    first, second = servers
    ways = (
        f"openai:any@{first.url}?concurrency=1&retries=0",
        f"openai:any@{second.url}?timeout=9&concurrency=7",
    )
    begun = sn.evaluate(ways[0], str(questions.folder), limit=4, name="run")
    whole = sn.evaluate(ways[1], str(questions.folder), limit=8, name="run")
    asked = [exchange.request.sample_id for exchange in read_exchanges(Path("runs/run"))]
    assert len(asked) == len(set(asked)) == 8 and whole.runs[0].folder == begun.runs[0].folder
    manifest = read_manifest(Path("runs/run"))
    assert [stretch.models for stretch in manifest.stretches] == [{"": ways[0]}, {"": ways[1]}]
    sn.evaluate(ways[1], str(questions.folder), limit=8, name="run")
    assert read_manifest(Path("runs/run")).stretches == manifest.stretches


def test_a_run_that_is_not_named_is_found_again_however_its_model_is_reached(
    servers: tuple[Server, Server], questions: Benchmark
) -> None:
    folders = {
        sn.evaluate(f"openai:any@{server.url}?concurrency={n}", str(questions.folder), limit=2)
        .runs[0]
        .folder
        for n, server in enumerate(servers, 1)
    }
    assert len(folders) == 1


def test_a_judge_finds_its_verdicts_again_however_it_is_reached(
    servers: tuple[Server, Server],
) -> None:
    ways = [
        load_model(f"openai:any@{server.url}?timeout={n}") for n, server in enumerate(servers, 1)
    ]
    assert len({Judge(model, Path("run"), None, print).folder for model in ways}) == 1


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
    assert answers_as(name) == identity
