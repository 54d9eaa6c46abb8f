"""Runs of one model name at two addresses have different names on the local pages."""

from __future__ import annotations

from pathlib import Path

import pytest

import snellen as sn
from servers import start_server
from snellen.building.benchmark import Benchmark
from snellen.viewing.library import RunLibrary


@pytest.fixture
def runs(questions: Benchmark, tmp_path: Path) -> Path:
    folder = tmp_path / "runs"
    for reply in "AB":
        with start_server(reply=reply) as server:
            sn.evaluate(f"openai:m@{server.url}", str(questions.folder), limit=2, runs=folder)
    with start_server() as server:
        sn.evaluate(f"openai:other@{server.url}", str(questions.folder), limit=2, runs=folder)
    return folder


def test_the_label_of_a_run_has_its_server_where_the_name_is_ambiguous(
    runs: Path, tmp_path: Path
) -> None:
    shown = RunLibrary([runs], tmp_path / "index.sqlite").runs()
    by_label = {run.label: run for run in shown}
    assert len(by_label) == 3
    assert "openai:other" in by_label
    for run in shown:
        if run.model_name == "openai:m":
            assert run.label == f"openai:m at {run.address}"
            assert run.address.startswith("127.0.0.1:")


def test_public_pages_tell_servers_apart_without_their_addresses(
    runs: Path, tmp_path: Path
) -> None:
    library = RunLibrary([runs], tmp_path / "index.sqlite", shows_hosts=False)
    labels = {run.label for run in library.runs()}
    assert labels == {"openai:m at server 1", "openai:m at server 2", "openai:other"}
