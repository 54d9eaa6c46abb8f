"""Questions for people to look at, by what models answered with the image and without it."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

import small
import snellen as sn
from snellen.building.benchmark import Benchmark
from snellen.records import Request
from snellen_lab.linting.doubtful import doubtful_questions, majority_by_luck
from test_lint import even


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SNELLEN_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)


def model(name: str, *knows: range) -> sn.Scripted:
    """Right about some questions, by the number in their id, and wrong about all others."""

    def reply(request: Request) -> str:
        number = int(request.sample_id[1:])
        right = number % 4
        return f"({'ABCD'[right if any(number in some for some in knows) else (right + 1) % 4]})"

    return sn.Scripted(reply, name=name)


def run(made: sn.Scripted, benchmark: Benchmark, protocol: str) -> Path:
    results = sn.evaluate(
        made, str(benchmark.folder), protocol, runs=f"runs/{protocol}-{made.name}", report=False
    )
    return results.runs[0].folder


def test_what_most_models_solve_blind_and_what_all_miss_is_listed_with_what_luck_would_do(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    benchmark = small.built(even(), tmp_path / "mine")
    folders = [
        run(model("a", range(60)), benchmark, "blind"),
        run(model("b", range(40)), benchmark, "blind"),
        run(model("c", range(30, 50)), benchmark, "blind"),
        run(model("d", range(200)), benchmark, "vanilla"),
        run(model("e", range(120, 235)), benchmark, "vanilla"),
    ]
    words = [str(folder) for folder in folders]
    code, out, err = small.command(capsys, "lint", str(benchmark.folder), *words, "--json")
    assert code == 0 and "55 questions to review: mine.doubtful.jsonl" in err
    findings = {finding["check"]: finding for finding in map(msgspec.json.decode, out.splitlines())}
    blind, missed = findings["solved-blind"], findings["missed-by-all"]
    # Two of three are right about 0 to 39 (a and b) and 40 to 49 (a and c); nobody sees 235 to 239.
    assert blind["count"] == 50 and blind["of"] == 240 and "3 models (a, b, c)" in blind["says"]
    assert (
        f"{240 * majority_by_luck(3, 0.25):,.1f} expected if all guessed independently"
        in blind["says"]
    )
    assert (
        missed["count"] == 5
        and missed["severity"] == "note"
        and "all of 2 models (d, e)" in missed["says"]
    )
    assert (
        f"{240 * (40 / 240) * (125 / 240):,.1f} expected if their errors were independent"
        in missed["says"]
    )
    rows = [
        msgspec.json.decode(line) for line in Path("mine.doubtful.jsonl").read_bytes().splitlines()
    ]
    assert [row["id"] for row in rows] == [f"q{i:03d}" for i in (*range(50), *range(235, 240))]
    assert rows[0]["reason"] == "solved-blind" and rows[-1]["reason"] == "missed-by-all"


def test_guessing_models_are_no_finding_and_luck_is_what_arithmetic_says(tmp_path: Path) -> None:
    benchmark = small.built(even(), tmp_path / "mine")
    guessing = [
        sn.evaluate(
            f"snellen:uniform?seed={seed}", str(benchmark.folder), "blind", report=False
        ).runs[0]
        for seed in (1, 2, 3)
    ]
    [finding], _ = doubtful_questions("mine", guessing)
    assert finding.severity == "note" and 15 < finding.count < 60
    assert majority_by_luck(1, 0.25) == 0.25
    assert majority_by_luck(3, 0.25) == pytest.approx(3 * 0.25**2 * 0.75 + 0.25**3)
    assert majority_by_luck(2, 0.5) == 0.25  # more than half of two are both
    assert doubtful_questions("other", guessing) == ([], [])


def test_runs_go_with_the_benchmark_and_the_version_that_they_asked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    benchmark = small.built(even(), tmp_path / "mine")
    folder = str(run(model("a"), benchmark, "blind"))
    other = small.built(even(80), tmp_path / "other")
    for words, message in (
        ((folder,), "all arguments are runs; also name the benchmark that they were run on"),
        ((str(benchmark.folder), "-o", "x"), "add runs to the arguments"),
        ((str(other.folder), folder), "asked mine version"),
    ):
        code, _, err = small.command(capsys, "lint", *words)
        assert code != 0 and message in err and len(err.strip().splitlines()) == 1


def test_each_of_several_benchmarks_has_a_list_of_its_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    benchmarks = [small.built(even(), tmp_path / name, name=name) for name in ("mine", "other")]
    names = [str(benchmark.folder) for benchmark in benchmarks]
    runs = [
        str(run(model(f"{name}-{benchmark.name}", range(200)), benchmark, "vanilla"))
        for benchmark in benchmarks
        for name in ("a", "b", "c")
    ]
    code, _, err = small.command(capsys, "lint", *names, *runs, "--json")
    assert code == 0
    for benchmark in benchmarks:
        audit = f"`snellen audit {benchmark.folder} --only {benchmark.name}.doubtful.jsonl`"
        assert f"questions to review: {benchmark.name}.doubtful.jsonl; {audit}" in err
    code, _, err = small.command(capsys, "lint", *names, *runs, "-o", "list.jsonl")
    assert code == 2 and "-o writes one list, but 2 benchmarks are named" in err
    assert not Path("list.jsonl").exists()


def test_a_suggested_audit_names_a_single_benchmark(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = small.command(capsys, "lint", "eyechart/colour", "eyechart/shape")
    assert code == 0 and "`snellen audit eyechart/colour` draws questions" in err
    code, _, err = small.command(capsys, "lint", "eyechart/[cs]*e")
    assert code == 0 and "`snellen audit eyechart/" in err and "[cs]" not in err.split("audit")[1]
