"""The gate of a pipeline: verdicts, exit codes, files, and the examples of its page as scripts."""

from __future__ import annotations

import importlib
import json
import math
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import yaml

import small
import snellen as sn
from small import command
from snellen.analysis.group_means import estimate_mean
from snellen.analysis.paired.gate import GateRule, RuleData, check_gate, judge_release, plan_gate
from snellen.records import Failure, Request
from test_docs import ROOT

PAGE = (ROOT / "docs" / "gate.md").read_text("utf-8")


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def right_on(count: int, name: str) -> sn.Scripted:
    """Right on the first questions, wrong on the others."""

    def reply(request: Request) -> str:
        return "(A)" if int(request.sample_id[1:]) < count else "(B)"

    return sn.Scripted(reply, name=name)


@pytest.fixture(scope="module")
def evaluated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder with a benchmark of 400 questions, an image each, and runs with 300, 299, 330, 270 and 298 right."""
    folder = tmp_path_factory.mktemp("gate")
    rows = [{**row, "answer": 0} for row in small.rows(400, pictures=400)]
    benchmark = small.built(rows, folder / "many", name="many")
    for name, right in (("old", 300), ("same", 299), ("new", 330), ("bad", 270), ("near", 298)):
        model = right_on(right, name)
        sn.evaluate(model, str(benchmark.folder), "vanilla", name=name, runs=folder / "runs")
    return folder


@pytest.fixture
def runs(evaluated: Path, tmp_path: Path) -> None:
    """The runs and the benchmark of `evaluated`, in the folder of the test."""
    shutil.copytree(evaluated / "runs", tmp_path / "runs")
    (tmp_path / "many").symlink_to(evaluated / "many")


@pytest.mark.parametrize(
    ("candidate", "margin", "code", "verdict"),
    [
        ("new", "1pt", 0, "Pass"),
        ("same", "3pt", 0, "Pass"),
        ("bad", "2pt", 1, "Fail"),
        ("near", "1pt", 2, "Not enough evidence (about "),
    ],
)
def test_the_exit_code_says_whether_a_candidate_may_be_released(
    runs: None,
    capsys: pytest.CaptureFixture[str],
    candidate: str,
    margin: str,
    code: int,
    verdict: str,
) -> None:
    words = ("compare", f"runs/{candidate}", "runs/old", "--fail-if-worse", margin)
    exit_code, out, _ = command(capsys, *words)
    assert (exit_code, out.startswith(verdict)) == (code, True), out


def test_files_of_a_gate_say_the_same(runs: None, capsys: pytest.CaptureFixture[str]) -> None:
    files = ("gate.xml", "gate.md", "gate.json")
    flags = [word for file in files for word in ("-o", file)]
    on = ("--on", "many", "--on", "many:accuracy_upper")
    code, _, _ = command(
        capsys, "compare", "runs/bad", "runs/old", "--fail-if-worse", "2pt", *on, *flags
    )
    found = json.loads(Path("gate.json").read_text())
    assert code == found["exit_code"] == 1
    assert [each["on"] for each in found["outcomes"]] == ["many:accuracy", "many:accuracy_upper"]
    assert found["outcomes"][0]["difference"]["value"] == pytest.approx(-30 / 400)

    suite = ElementTree.parse("gate.xml").getroot().find("testsuite")
    assert suite is not None and (suite.get("tests"), suite.get("failures")) == ("2", "2")
    comment = Path("gate.md").read_text("utf-8")
    assert (
        comment.startswith("### Snellen: ❌ fail")
        and "| many:accuracy | 67.5% | 75.0% |" in comment
    )


def test_rules_are_read_from_a_file(runs: None, capsys: pytest.CaptureFixture[str]) -> None:
    [toml] = re.findall(r"```toml\n(.*?)```", PAGE, flags=re.DOTALL)
    Path("gate.toml").write_text(toml.replace("modern/docvqa:anls", "many").replace("1pt", "3pt"))
    code, out, _ = command(
        capsys, "compare", "runs/same", "runs/old", "--gate", "gate.toml", "--json"
    )
    margins = [outcome["margin"] for outcome in json.loads(out)["outcomes"]]
    assert code == 0 and margins == [0.03, 0.02]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--fail-if-worse", "1"), "give percentage points of a share, such as 1pt"),
        (("--fail-if-worse", "-1pt"), "is not a margin above 0"),
        (
            ("--fail-if-worse", "1pt", "--on", "mine"),
            "the runs do not both have this value; they share many",
        ),
        (("--gate", "none.toml"), "cannot read none.toml"),
        (("--gate", "empty.toml"), "has no rules"),
        (("--gate", "wrong.toml"), "unknown field `worst`"),
        (("--gate", "empty.toml", "--fail-if-worse", "1pt"), "or remove --gate"),
        (
            ("--fail-if-worse", "1pt", "-o", "gate.txt"),
            "a gate is written as one of .xml, .md, .json",
        ),
    ],
)
def test_an_error_is_not_taken_for_a_lack_of_evidence(
    runs: None, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], said: str
) -> None:
    Path("empty.toml").write_text("rules = []\n")
    Path("wrong.toml").write_text('[[rules]]\nworst = "1pt"\n')
    code, _, err = command(capsys, "compare", "runs/same", "runs/old", *words)
    assert (code == 3 and said in err.lower()) or said in err


def test_a_candidate_that_leaves_questions_unanswered_cannot_pass(
    runs: None, tmp_path: Path
) -> None:
    """It answers all that it answers correctly, and loses the requests of a tenth of the questions."""

    def reply(request: Request) -> str | sn.Response:
        if int(request.sample_id[1:]) >= 360:
            return sn.Response(error=Failure("timeout", "late"))
        return "(A)"

    lost = sn.evaluate(
        sn.Scripted(reply, name="lost"), str(tmp_path / "many"), "vanilla", error_budget=1.0
    )
    [outcome] = check_gate(lost.runs[0], sn.score("runs/old").runs[0], [GateRule("1pt")]).outcomes
    assert outcome.verdict == "not enough evidence"
    assert outcome.detail == "40 of 400 questions have no value in the candidate"


def test_the_plan_gives_the_drop_that_fails_four_times_in_five(runs: None) -> None:
    new, old = sn.score("runs/new").runs[0], sn.score("runs/old").runs[0]
    [plan] = plan_gate(new, old, [GateRule("1pt")])
    # 30 of 400 questions differ, all to one side.
    error = math.sqrt(0.075 * (1 - 0.075) / 399)
    assert plan.questions == 400
    assert plan.detectable == pytest.approx(0.01 + (1.645 + 0.842) * error, rel=0.12)
    assert plan.needed == pytest.approx(((1.645 + 0.842) / 0.01) ** 2 * error**2 * 400, rel=0.25)


def test_a_plan_without_rules_is_empty(runs: None) -> None:
    new, old = sn.score("runs/new").runs[0], sn.score("runs/old").runs[0]
    assert plan_gate(new, old, []) == []


def rule(values: list[float], margin: float = 0.02) -> RuleData:
    estimate = estimate_mean(values, [str(i) for i in range(len(values))], bounds=(-1.0, 1.0))
    return RuleData("r", margin, estimate, None, None, "share", "higher", 0)


def test_failing_is_corrected_for_the_number_of_rules() -> None:
    """A difference that fails alone at the level of 5 % does not fail among twenty rules."""
    worse = rule([-1.0] * 17 + [0.0] * 383)
    equal = rule([0.0] * 400)
    alone = judge_release("a", "b", [worse])
    assert alone.verdict == "fail" and 0.05 / 20 < alone.outcomes[0].p_fail < 0.05
    among = judge_release("a", "b", [worse, *[equal] * 19])
    assert among.verdict == "not enough evidence"
    assert among.outcomes[0].p_fail == pytest.approx(20 * alone.outcomes[0].p_fail)
    assert among.outcomes[1].verdict == "pass"


def test_false_alarms_and_misses_stay_within_what_is_declared(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The whole grid with 2,000 releases a cell is `python bench/gate.py`."""
    monkeypatch.syspath_prepend(str(ROOT / "bench"))
    bench = importlib.import_module("gate")
    assert bench.main(["--releases", "100", "--only", "4"]) == 0


# --- the examples of the page ----------------------------------------------------------------------------------------


def scripts() -> list[tuple[str, str]]:
    """The shell lines of each example: of GitHub's steps, of a script between, and of GitLab's job."""
    found: list[tuple[str, str]] = []
    for language, text in re.findall(r"```(yaml|bash)\n(.*?)```", PAGE, flags=re.DOTALL):
        if language == "bash":
            found.append(("bash", text))
            continue
        settings: dict[str, Any] = yaml.safe_load(text)
        if "jobs" in settings:
            steps = [step["run"] for step in settings["jobs"]["gate"]["steps"] if "run" in step]
            found.append(("github", "\n".join(steps)))
        else:
            found.append(("gitlab", "\n".join(settings["gate"]["script"])))
    return found


@pytest.mark.parametrize(("place", "script"), scripts(), ids=[place for place, _ in scripts()])
@pytest.mark.parametrize(("candidate", "code"), [("snellen:oracle", 0), ("snellen:uniform", 1)])
def test_the_examples_of_the_page_run_as_scripts(
    runs: None, tmp_path: Path, place: str, script: str, candidate: str, code: int
) -> None:
    lines = [line for line in script.splitlines() if not line.startswith("pip install")]
    program = tmp_path / "bin" / "snellen"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m snellen "$@"\n')
    program.chmod(0o755)
    environment = {
        **os.environ,
        "PATH": f"{program.parent}:{os.environ['PATH']}",
        "CANDIDATE": candidate,
        "BENCHMARK": str(tmp_path / "many"),
        "BASELINE": "runs/old",
        "MARGIN": "1pt",
        "GITHUB_STEP_SUMMARY": str(tmp_path / "summary.md"),
    }
    if place == "bash":
        sn.evaluate(candidate, str(tmp_path / "many"), "vanilla", name="new", runs=tmp_path / "own")
        environment["BASELINE"] = "runs/old"
        lines = [line.replace("runs/new", "own/new") for line in lines]
    else:
        lines = [line.replace("--name new", "--name fresh") for line in lines]
        lines = [line.replace("runs/new", "runs/fresh") for line in lines]
    done = subprocess.run(
        ["bash", "-e", "-c", "\n".join(lines)], env=environment, capture_output=True, text=True
    )
    assert done.returncode == code, done.stdout + done.stderr
    assert (tmp_path / "gate.md").read_text("utf-8").startswith("### Snellen: ")


# --- the commands of the page --------------------------------------------------------------------------------------

STAND_INS = {
    "modern/mmmu": "eyechart/colour",
    "modern/docvqa:anls": "eyechart/count:accuracy",
}
"""Benchmarks that need no download, in the place of those that the page names."""


def with_stand_ins(text: str) -> str:
    for name, stand_in in STAND_INS.items():
        assert name in PAGE
        text = text.replace(name, stand_in)
    return text


def comparisons() -> list[str]:
    """The commands in the plain blocks of the page that compare runs."""
    found = []
    for language, block in re.findall(r"^```(\w*)\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE):
        if language:
            continue
        for line in block.splitlines():
            if line.startswith("snellen compare "):
                found.append(line)
    return found


def test_the_comparisons_of_the_page_give_a_verdict(capsys: pytest.CaptureFixture[str]) -> None:
    benchmarks = ["eyechart/colour", "eyechart/count"]
    models = {"new": "snellen:oracle", "old": "snellen:oracle", "older": "snellen:always-a"}
    for name, model in models.items():
        sn.evaluate(model, benchmarks, "vanilla", limit=20, name=name)
    [rules] = re.findall(r"^```toml\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    Path("gate.toml").write_text(with_stand_ins(rules))
    lines = comparisons()
    assert len(lines) == 4

    for line in lines:
        words = shlex.split(with_stand_ins(line))
        code, _, error = command(capsys, *words[1:])
        assert code in (0, 1, 2), f"{line}\n{error}"

    assert {path.name for path in Path().glob("gate.*")} == {
        "gate.toml",
        "gate.xml",
        "gate.md",
        "gate.json",
    }
