"""The recipes of docs/cluster.md: commands that are understood, jobs that share a run, a fitting RayJob."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml
from click import Context

import snellen as sn
from snellen.cli import cli
from snellen.cli.verbs.run import run_command
from snellen.errors import DataError, StoreError
from snellen.experiments.shares import run_share
from snellen.models.model_strings import parse_spec
from snellen.runs.journal import read_exchanges
from snellen.runs.run_folder import read_manifest
from snellen.runs.spec import run_spec, share_of_run

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "cluster.md").read_text("utf-8")
SHARED = {
    "models": ("snellen:uniform",),
    "benchmarks": ("eyechart/shape",),
    "protocols": ("circular",),
    "limit": 12,
}


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, flags=re.DOTALL | re.MULTILINE)


def slurm_file(name: str) -> str:
    return (ROOT / "deploy" / "slurm" / name).read_text("utf-8")


def understood(words: list[str]) -> dict[str, Any]:
    """The flags of `snellen run WORDS`, as the command line reads them."""
    return run_command.make_context("run", words).params


def answered(folder: Path) -> Counter[tuple[str, str, str | None]]:
    return Counter((e.protocol, e.request.key, e.response.text) for e in read_exchanges(folder))


def test_every_script_of_the_page_is_understood_by_the_shell_and_every_command_by_snellen() -> None:
    scripts = [
        *map(slurm_file, ("shares.sbatch", "score.sbatch", "servers.sbatch")),
        *blocks("bash"),
    ]
    for script in scripts:
        assert not subprocess.run(
            ["bash", "-n"], input=script, text=True, check=True, capture_output=True
        ).stderr
    lines = [line for script in scripts for line in script.splitlines() if "snellen " in line]
    commands = [
        shlex.split(line[line.index("snellen ") :], comments=True)[1:]
        for line in lines
        if "pip " not in line
    ]
    assert len(commands) == 6 and {words[0] for words in commands} <= set(
        cli.list_commands(Context(cli))
    )
    assert {understood(words[1:])["ray"] for words in commands if "--ray" in words} == {"auto"}


@pytest.mark.slow
def test_jobs_of_an_array_share_a_run_which_the_last_one_scores(tmp_path: Path) -> None:
    """The page's own scripts, with a `srun` that only runs what it is told; at first the second of two shares alone."""
    for name in ("exam.toml", "shares.sbatch", "score.sbatch"):
        Path(name).write_text(slurm_file(name).replace("/8", "/2"))
    programs = tmp_path / "bin"
    programs.mkdir()
    for name, text in {
        "srun": 'exec "$@"',
        "snellen": f'exec {shlex.quote(sys.executable)} -m snellen "$@"',
    }.items():
        (programs / name).write_text(f"#!/bin/sh\n{text}\n")
        (programs / name).chmod(0o755)
    places = {
        "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(Path(sn.__file__).parents[1]),
    }

    def job(script: str, number: str = "") -> str:
        array = {"SLURM_ARRAY_TASK_ID": number}
        done = subprocess.run(
            ["bash", "-e", script],
            env={**os.environ, **places, **array},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout + done.stderr

    sn.evaluate("snellen:uniform", "eyechart/shape", "circular", limit=12, name="whole")
    assert "share 2/2 of runs/exam is complete" in job("shares.sbatch", "2")
    first = answered(Path("runs/exam"))
    assert 0 < sum(first.values()) < sum(answered(Path("runs/whole")).values())
    assert not (Path("runs/exam") / "scores.jsonl").exists()
    job("shares.sbatch", "1")
    before = answered(Path("runs/exam"))
    assert "accuracy" in job("score.sbatch")
    assert before == answered(Path("runs/exam")) == answered(Path("runs/whole"))
    scores = [(Path("runs") / name / "scores.jsonl").read_bytes() for name in ("exam", "whole")]
    assert scores[0] == scores[1]


def test_shares_go_on_beside_each_other_and_beside_nothing_else() -> None:
    spec = run_spec({**SHARED, "name": "r", "runs": "runs"})
    inner: list[str] = []

    def beside(state: sn.RunProgress) -> None:
        """While the first share is asked."""
        if state.requests and not inner:
            inner.append("begun")
            run_share(spec, "2/2")
            others = [lambda share=share: run_share(spec, share) for share in ("1/2", "3/4")]
            for other in (*others, lambda: sn.evaluate("snellen:uniform", **as_kwargs())):
                with pytest.raises(StoreError, match="is in use by another run"):
                    other()

    def as_kwargs() -> dict[str, Any]:
        return {"benchmarks": "eyechart/shape", "protocols": "circular", "limit": 12, "name": "r"}

    run_share(spec, "1/2", progress=beside)
    whole = sn.evaluate("snellen:uniform", "eyechart/shape", "circular", limit=12, name="whole")
    assert answered(Path("runs/r")) == answered(whole.runs[0].folder)
    assert inner and read_manifest(Path("runs/r")).model == "snellen:uniform"


def test_the_progress_of_a_share_ends_where_the_share_does() -> None:
    totals = []
    for share in ("1/2", "2/2"):
        states: list[sn.RunProgress] = []
        run_share(run_spec({**SHARED, "name": "r"}), share, progress=states.append)
        assert states[-1].done == states[-1].total
        totals.append(states[-1].total)
    assert sum(totals) == 12 and min(totals) > 0


def test_one_share_is_the_whole_run() -> None:
    [outcome] = run_share(run_spec({**SHARED, "name": "r"}), "1/1")
    assert outcome.sent == sum(answered(Path("runs/r")).values()) >= 12


@pytest.mark.parametrize("text", ["0/8", "9/8", "3", "3/", "/8", "a/8", "3/65", "-1/8"])
def test_what_is_no_share_says_what_one_is(text: str) -> None:
    with pytest.raises(
        DataError, match=r"is not K/N with K from 1 to N and N at most 64, such as 3/8$"
    ):
        share_of_run(text)


@pytest.mark.parametrize("other", [{"workers": 2}, {"ray": "auto"}, {"until": "accuracy ±2"}])
def test_a_share_is_one_process_of_several(other: dict[str, Any]) -> None:
    with pytest.raises(
        DataError,
        match=f"^share: this process runs only a part .*; remove {next(iter(other))}$",
    ):
        run_share(
            run_spec({"models": ("snellen:uniform",), "benchmarks": ("eyechart/shape",), **other}),
            "1/2",
        )


def test_the_servers_of_the_page_are_one_model(tmp_path: Path) -> None:
    [urls] = re.findall(r"^urls=.*$", slurm_file("servers.sbatch"), flags=re.MULTILINE)
    shown = subprocess.run(
        ["bash", "-c", f'hosts=$(printf "node1\\nnode2\\n"); {urls}; echo "$urls"'],
        capture_output=True,
        text=True,
    )
    assert shown.stdout.strip() == "http://node1:8000/v1,http://node2:8000/v1"
    model = sn.load_model(f"openai:org/name@{shown.stdout.strip()}?concurrency=64")
    assert model.client.urls == ("http://node1:8000/v1", "http://node2:8000/v1")


def test_the_job_on_kubernetes_runs_a_command_that_exists_with_as_many_workers_as_it_may_have() -> (
    None
):
    assert "](../deploy/rayjob.yaml)" in PAGE
    job = yaml.safe_load((ROOT / "deploy" / "rayjob.yaml").read_text("utf-8"))
    assert (job["apiVersion"], job["kind"]) == ("ray.io/v1", "RayJob")
    cluster = job["spec"]["rayClusterSpec"]
    pinned = re.search(r"^ray==(.+)$", (ROOT / "constraints.txt").read_text(), re.MULTILINE)
    assert pinned and cluster["rayVersion"] == pinned[1]
    words = shlex.split(job["spec"]["entrypoint"])
    asked = understood(words[2:])
    assert words[:2] == ["snellen", "run"] and (asked["ray"], asked["gpus_per_worker"]) == (
        "auto",
        1,
    )
    assert parse_spec(asked["model"]).scheme == "hf"
    [group] = cluster["workerGroupSpecs"]
    assert asked["ray_workers"] == group["maxReplicas"] >= group["replicas"] >= group["minReplicas"]
    [head] = cluster["headGroupSpec"]["template"]["spec"]["containers"]
    [worker] = group["template"]["spec"]["containers"]
    assert (
        head["image"] == worker["image"] and worker["resources"]["limits"]["nvidia.com/gpu"] == "1"
    )
    assert [asked["runs"]] == [mount["mountPath"] for mount in head["volumeMounts"]]
    for pod in (cluster["headGroupSpec"]["template"]["spec"], group["template"]["spec"]):
        volumes = {volume["name"] for volume in pod["volumes"]}
        assert {
            mount["name"] for one in pod["containers"] for mount in one["volumeMounts"]
        } == volumes
