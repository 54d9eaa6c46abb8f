"""A benchmark that one person packs runs at another's, as docs/sharing.md says, and keeps its answers if it is meant to."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

import small
import snellen as sn
from snellen.errors import DataError
from snellen.plugin_api import open_benchmark

Command = Callable[..., tuple[int, str, str]]


@pytest.fixture
def command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Command:
    """Runs a command at one of two people, who share neither a home for benchmarks nor a folder."""

    def command_of(person: str, *words: str) -> tuple[int, str, str]:
        folder = tmp_path / person
        folder.mkdir(exist_ok=True)
        monkeypatch.chdir(folder)
        monkeypatch.setenv("SNELLEN_HOME", str(folder / "home"))
        return small.command(capsys, *words)

    return command_of


def build_questions(command: Command) -> None:
    assert command("ann", "list", "models")[0] == 0
    small.write(small.rows(8), Path("questions.jsonl"))
    code, _, err = command("ann", "build", "questions.jsonl")
    assert code == 0
    assert err.splitlines()[-1] == (
        "next: `snellen run MODEL questions`; `snellen pack questions --answers` makes one file of it for a colleague"
    )


def receive(tmp_path: Path, person: str, file: str) -> None:
    target = tmp_path / person / "received"
    target.mkdir(parents=True)
    with zipfile.ZipFile(file) as archive:
        archive.extractall(target)


def test_a_packed_benchmark_runs_on_another_machine_with_the_same_number(
    tmp_path: Path, command: Command
) -> None:
    build_questions(command)
    before = sn.evaluate("snellen:always-a", "questions").value()
    version = open_benchmark("questions").manifest.version
    code, out, err = command("ann", "pack", "questions", "--answers")
    assert code == 0 and out == "wrote questions.zip: 8 questions, 4 images, with answers\n"
    assert err.endswith(
        "run `python -m zipfile -e questions.zip received`, then `snellen run MODEL received/questions`\n"
    )
    receive(tmp_path, "ben", "questions.zip")
    code, out, _ = command("ben", "run", "snellen:always-a", "received/questions", "--name", "run")
    assert code == 0 and f"{before:.1%}" in out
    run = sn.load_run("runs/run").runs[0].manifest
    assert run.benchmarks[0].version == version
    manifest = Path("received/questions/benchmark.json").read_text()
    assert str(tmp_path) not in manifest and "questions.jsonl" in manifest
    code, _, err = command("ben", "run", "snellen:always-a", "received")
    assert (
        code == 2
        and "received is a folder with a benchmark inside; write received/questions\n" in err
    )
    code, _, err = command("ben", "run", "snellen:always-a", "questions")
    assert code == 2 and "but received/questions is one; name that folder" in err


def test_without_answers_a_colleague_runs_and_the_owner_scores(
    tmp_path: Path, command: Command
) -> None:
    build_questions(command)
    assert command("ann", "pack", "questions")[0] == 0
    receive(tmp_path, "ben", "questions.zip")
    packed = sorted(path.name for path in (tmp_path / "ben/received/questions").iterdir())
    assert packed == ["benchmark.json", "images", "samples.jsonl.gz"]
    manifest = json.loads((tmp_path / "ben/received/questions/benchmark.json").read_text())
    assert manifest["counts"]["answers"] == 0

    code, _, _ = command("ben", "run", "snellen:always-a", "received/questions", "--name", "run")
    assert code == 0
    assert sn.load_run("runs/run").value("accuracy") is None
    assert command("ben", "pack", "runs/run", "-o", str(tmp_path / "run.zip"))[0] == 0

    receive(tmp_path, "ann", str(tmp_path / "run.zip"))
    for folder in (tmp_path / "ben").iterdir():
        folder.rename(folder.with_name(f"gone-{folder.name}"))  # it lies on another machine
    code, out, _ = command("ann", "score", "received/run")
    assert code == 0 and "n=8" in out


def test_the_owner_scores_a_run_whose_copy_without_answers_is_still_there(
    tmp_path: Path, command: Command
) -> None:
    build_questions(command)
    expected = sn.evaluate("snellen:always-a", "questions").value()
    assert command("ann", "pack", "questions")[0] == 0
    receive(tmp_path, "ben", "questions.zip")
    assert command("ben", "run", "snellen:always-a", "received/questions", "--name", "run")[0] == 0

    run = str(tmp_path / "ben/runs/run")  # on a disk that both can read
    code, out, _ = command("ann", "score", run)

    assert code == 0 and f"{expected:.1%}" in out
    assert "hidden" not in out


def test_hidden_answers_are_not_packed_and_nothing_else_is_taken_for_a_benchmark(
    command: Command,
) -> None:
    assert command("ann", "list", "models")[0] == 0
    small.write(small.rows(4), Path("mine.jsonl"))
    with pytest.raises(DataError):
        sn.build("mine.jsonl", hidden_answers=True)
    rows = [
        {name: value for name, value in row.items() if name != "answer"} for row in small.rows(4)
    ]
    small.write(rows, Path("mine.jsonl"))
    sn.build("mine.jsonl", hidden_answers=True)
    code, out, _ = command("ann", "pack", "mine")
    assert code == 0 and "without answers" in out
    code, _, err = command("ann", "pack", "nosuch")
    assert code == 2 and err.startswith("snellen: there is no folder nosuch")


def test_one_benchmark_is_packed_at_a_time_and_a_table_is_built_first(command: Command) -> None:
    build_questions(command)
    sn.build("questions.jsonl", name="others")
    code, _, err = command("ann", "pack", "questions", "others")
    assert code == 2 and "pack it by itself: `snellen pack questions`" in err
    code, _, err = command("ann", "pack", "questions.jsonl")
    assert (
        code == 2 and "first build a benchmark from it with `snellen build questions.jsonl`" in err
    )
