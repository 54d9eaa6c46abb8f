"""A benchmark that cannot be fetched is left out of a run, and named at its end."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import small
import snellen as sn
from snellen.building.benchmark import Benchmark

ABSENT = "reform-eval/vqav2"


@pytest.fixture(autouse=True)
def offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")


@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_run_goes_on_without_a_benchmark_that_cannot_be_fetched(
    workers: str, questions: Benchmark, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["run", "snellen:uniform", ABSENT, str(questions.folder), "--workers", workers]
    code, printed, error = small.command(capsys, *command)
    assert code == 3 and "snellen:uniform" in printed
    assert f"skipped: {ABSENT}; " in error.splitlines()[-1]
    [run] = Path("runs").iterdir()
    assert sn.score(run).value("accuracy", benchmark="mine") is not None

    # Strict, it stops before anything is asked.
    code, _, error = small.command(capsys, *command, "--strict", "--name", "strict")
    assert code == 2 and "cannot be fetched" in error.splitlines()[-1]
    assert not Path("runs/strict").exists()


def test_python_says_so_too(questions: Benchmark) -> None:
    benchmarks = [ABSENT, str(questions.folder)]
    with pytest.raises(sn.AbsentBenchmarkError, match=f"skipped: {ABSENT}; ") as caught:
        sn.evaluate("snellen:uniform", benchmarks, name="run")
    assert caught.value.exit_code == 3
    assert sn.score("runs/run").value("accuracy", benchmark="mine") is not None
    with pytest.raises(sn.DataError, match="cannot be fetched"):
        sn.evaluate("snellen:uniform", benchmarks, name="strict", strict=True)
    assert not Path("runs/strict").exists()


def test_a_benchmark_that_needs_a_package_is_left_out_too(
    questions: Benchmark, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)  # as if it was not installed
    code, _, error = small.command(
        capsys, "run", "snellen:uniform", ABSENT, str(questions.folder), "--name", "run"
    )
    assert code == 3
    assert f"skipped: {ABSENT}; " in error.splitlines()[-1] and "huggingface_hub" in error
    assert sn.score("runs/run").value("accuracy", benchmark="mine") is not None


def test_a_run_of_nothing_else_stops(questions: Benchmark) -> None:
    with pytest.raises(sn.DataError, match="cannot be fetched"):
        sn.evaluate("snellen:uniform", ABSENT)


def test_a_run_of_which_nothing_can_be_fetched_names_each_benchmark(
    capsys: pytest.CaptureFixture[str],
) -> None:
    code, _, error = small.command(capsys, "run", "snellen:uniform", ABSENT, "modern/mmstar")
    assert code == 3
    for name in (ABSENT, "modern/mmstar"):
        assert any(line.startswith(f"{name} cannot be fetched: ") for line in error.splitlines())
    assert f"none of {ABSENT}, modern/mmstar can be fetched" in error.splitlines()[-1]
