"""The recipes of docs/cluster.md under a real SLURM, whose machines are those of `machines`."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import servers
import snellen as sn
from machines import Machine, machines, why_not
from snellen.runs.journal import read_exchanges
from test_cluster_page import answered, slurm_file

PROGRAMS = ("slurmctld", "slurmd", "sbatch", "munged", "curl")
MISSING = ", ".join(name for name in PROGRAMS if not shutil.which(name))
WAITS_FOR = f"needs {MISSING}" if MISSING else why_not()
pytestmark = [pytest.mark.slow, pytest.mark.skipif(bool(WAITS_FOR), reason=WAITS_FOR)]
SETTINGS = """
ClusterName=here
SlurmctldHost=machine1
SlurmUser=root
AuthInfo=socket=/mnt/munge
StateSaveLocation=/mnt
SlurmdSpoolDir=/mnt
SlurmctldLogFile=/mnt/controller.log
SlurmdLogFile=/mnt/daemon.log
SlurmctldPidFile=/mnt/controller.pid
SlurmdPidFile=/mnt/daemon.pid
ProctrackType=proctrack/linuxproc
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
MpiDefault=none
KillWait=1
SchedulerParameters=batch_sched_delay=0,sched_interval=2,bf_interval=2
GresTypes=gpu
NodeName=machine[1-2] CPUs=32 RealMemory=1000 Gres=gpu:4
PartitionName=all Nodes=ALL Default=YES State=UP
"""


class Slurm:
    """Two machines with SLURM, and a folder that both see."""

    def __init__(self, first: Machine, folder: Path) -> None:
        self._first, self.folder = first, folder
        programs = folder / "bin"
        programs.mkdir()
        # A server of one model in place of vLLM, which wants a GPU.
        config = '{"host": "0.0.0.0", "port": 8000, "latency": 0.05}'
        serve = (
            f"(echo {shlex.quote(config)}; exec sleep 300) | {sys.executable} {servers.__file__}"
        )
        snellen = f'exec {sys.executable} -m snellen "$@"'
        for name, text in {"snellen": snellen, "vllm": serve}.items():
            (programs / name).write_text(f"#!/bin/sh\n{text}\n")
            (programs / name).chmod(0o755)
        self._env = {
            **os.environ,
            "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": str(Path(sn.__file__).parents[1]),
            "SLURM_CONF": str(folder / "slurm.conf"),
        }

    def __call__(self, *words: str) -> str:
        return self._first.run(*words, env=self._env, cwd=self.folder).strip()

    def submit(self, script: str, *options: str) -> str:
        """The number of a new job."""
        return self("sbatch", "--parsable", *options, script)

    def ended(self) -> None:
        """Wait until no job is left."""
        deadline = time.monotonic() + 180
        while jobs := self("squeue", "--noheader"):
            assert time.monotonic() < deadline, jobs
            time.sleep(0.2)

    def said(self) -> str:
        return "\n".join(
            path.read_text("utf-8") for path in sorted(self.folder.glob("slurm-*.out"))
        )


@contextmanager
def running_slurm(folder: Path) -> Iterator[Slurm]:
    (folder / "slurm.conf").write_text(SETTINGS)
    (folder / "gres.conf").write_text("Name=gpu File=/mnt/gpu[0-3]\n")
    with machines(2) as both:
        slurm = Slurm(both[0], folder)
        env = {**os.environ, "SLURM_CONF": str(folder / "slurm.conf")}
        key = os.urandom(128)
        for machine in both:
            for number in range(4):
                (machine.folder / f"gpu{number}").touch()
            (machine.folder / "munge.key").write_bytes(key)
            (machine.folder / "munge.key").chmod(0o600)
            files = (f"--{name}-file=/mnt/munge.{name}" for name in ("key", "pid", "seed", "log"))
            machine.run("munged", "--force", "--socket=/mnt/munge", *files)
            if machine is both[0]:
                machine.run("slurmctld", env=env)
            machine.run("slurmd", "-N", machine.name, env=env)
        yield slurm


def test_the_page_s_jobs_of_which_some_are_killed_make_the_run_of_one_process(
    tmp_path: Path,
) -> None:
    for name in ("exam.toml", "shares.sbatch", "score.sbatch"):
        text = slurm_file(name)
        (tmp_path / name).write_text(text)
    runs = tmp_path / "runs"
    sn.evaluate("snellen:uniform", "eyechart/shape", "circular", limit=12, runs=runs, name="whole")
    with running_slurm(tmp_path) as slurm:
        job = slurm.submit("shares.sbatch")
        slurm("scancel", f"{job}_3", f"{job}_5")
        slurm.ended()
        assert "share 1/8 of runs/exam is asked" in slurm.said() and "share 3/8" not in slurm.said()
        assert sum(answered(runs / "exam").values()) < sum(answered(runs / "whole").values())
        again = slurm.submit("shares.sbatch", "--array=3")
        slurm.submit("score.sbatch", f"--dependency=afterany:{again}")
        slurm.ended()
        assert "share 3/8 of runs/exam is asked" in slurm.said() and "accuracy" in slurm.said()
    assert answered(runs / "exam") == answered(runs / "whole")
    assert (runs / "exam" / "scores.jsonl").read_bytes() == (
        runs / "whole" / "scores.jsonl"
    ).read_bytes()


def test_the_page_s_servers_on_two_machines_answer_one_run(tmp_path: Path) -> None:
    script = slurm_file("servers.sbatch").replace("--nodes=4", "--nodes=2")
    (tmp_path / "servers.sbatch").write_text(script)
    with running_slurm(tmp_path) as slurm:
        slurm.submit("servers.sbatch")
        slurm.ended()
        assert (
            "machine1:8000/v1,http://machine2:8000/v1" in slurm.said()
            and "accuracy" in slurm.said()
        )
    [folder] = (tmp_path / "runs").iterdir()
    assert not [e for e in read_exchanges(folder) if e.response.error]
