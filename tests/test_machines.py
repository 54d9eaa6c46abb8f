"""Runs over several machines, of which some end, are cut off or join meanwhile, are the runs of one process."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest

import ray_models
import servers
import small
import snellen as sn
from machines import Machine, machines, why_not
from slow_model import PROTOCOLS
from snellen.building.benchmark import Benchmark
from snellen.runs.journal import read_exchanges

pytestmark = [pytest.mark.slow, pytest.mark.skipif(bool(why_not()), reason=why_not())]
RUNS = "/mnt/runs"
"""On the machine that asks; on no other."""


class Run:
    """`snellen run MODEL ...` on a machine, and what it has said and stored so far."""

    def __init__(
        self, machine: Machine, env: dict[str, str], name: str, *words: str | Path
    ) -> None:
        self.folder = machine.folder / "runs" / name
        self._said = machine.folder / f"{name}.said"
        command = (
            sys.executable,
            "-m",
            "snellen",
            "run",
            *words,
            "--no-report",
            "--runs",
            RUNS,
            "--name",
            name,
        )
        with self._said.open("wb") as said:
            self._process = subprocess.Popen(
                machine.command(*command), env=env, stdout=said, stderr=said
            )

    @property
    def said(self) -> str:
        return self._said.read_text("utf-8")

    def has_answered(self, count: int) -> None:
        """Wait until it has stored so many answers."""
        journal = self.folder / "journal-0.jsonl"
        while not journal.exists() or journal.read_bytes().count(b"\n") < count:
            assert self._process.poll() is None, self.said
            time.sleep(0.05)

    def ends(self) -> Path:
        """Its folder, once it has come to its end."""
        assert self._process.wait(240) == 0, self.said
        return self.folder


@contextmanager
def ray_machines(count: int, path: str) -> Iterator[tuple[list[Machine], dict[str, str]]]:
    """Machines whose cluster asks for a token (docs/cluster.md). The first only asks, and the last has yet to join."""
    environment = {
        **os.environ,
        "HOME": "/mnt",
        "PYTHONPATH": os.pathsep.join((str(Path(sn.__file__).parents[1]), path)),
        "RAY_AUTH_MODE": "token",
        "RAY_USAGE_STATS_ENABLED": "0",
        # A machine that is cut off is missed after some seconds, not after a minute.
        "RAY_health_check_initial_delay_ms": "1000",
        "RAY_health_check_period_ms": "1000",
        "RAY_health_check_timeout_ms": "2000",
    }
    with machines(count) as (first, *others):
        ray(first, environment, "get-auth-token", "--generate")
        ray(
            first,
            environment,
            "start",
            "--head",
            "--port=6379",
            "--num-cpus=0",
            "--include-dashboard=false",
        )
        for other in others[:-1]:
            join(other, first, environment)
        yield [first, *others], environment


def ray(machine: Machine, env: dict[str, str], *words: str) -> None:
    places = (
        f"--node-ip-address={machine.address}",
        "--temp-dir=/mnt/ray",
        "--object-store-memory=80000000",
    )
    machine.run(
        sys.executable,
        "-m",
        "ray.scripts.scripts",
        *words,
        *places * (words[0] == "start"),
        env=env,
    )


def join(machine: Machine, first: Machine, env: dict[str, str]) -> None:
    (machine.folder / ".ray").mkdir()
    (machine.folder / ".ray" / "auth_token").write_bytes(
        (first.folder / ".ray" / "auth_token").read_bytes()
    )
    ray(machine, env, "start", f"--address={first.address}:6379", "--num-cpus=1")


@pytest.mark.parametrize("loss", ["ends", "is cut off"])
def test_a_machine_of_a_cluster_is_lost_and_another_one_joins(
    loss: str, questions: Benchmark, tmp_path: Path
) -> None:
    from test_ray import records, same_as

    protocols = [word for protocol in PROTOCOLS for word in ("-p", protocol)]
    with ray_models.registered(tmp_path / "site") as path:
        sn.evaluate(
            "clustered:any",
            str(questions.folder),
            PROTOCOLS,
            runs=tmp_path,
            name="run",
            report=False,
        )
        with ray_machines(3, path) as ((first, second, third), env):
            model = ("clustered:any?seconds=0.05", questions.folder, *protocols)
            run = Run(first, env, "run", *model, f"--ray={first.address}:6379")
            run.has_answered(sum(records(tmp_path / "run").values()) // 4)
            if loss == "ends":
                second.end()
            else:
                second.unplug()
            join(third, first, env)
            same_as(tmp_path / "run", run.ends())
            # One that is cut off may be missed only after the other has joined.
            assert sorted(re.findall(r"on (\w+) (joined|was lost)", run.said)) == [
                ("machine2", "joined"),
                ("machine2", "was lost"),
                ("machine3", "joined"),
            ]
            assert not (third.folder / "runs").exists()


@contextmanager
def served(machine: Machine) -> Iterator[str]:
    """A server of tests/servers.py on a machine; its URL there."""
    command = machine.command(sys.executable, Path(servers.__file__))
    server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert server.stdin and server.stdout
    server.stdin.write(msgspec.json.encode(servers.Settings(latency=0.2, host="0.0.0.0")) + b"\n")
    server.stdin.flush()
    try:
        yield f"http://{machine.name}:{int(server.stdout.readline())}/v1"
    finally:
        server.communicate()


def test_a_server_whose_machine_is_cut_off_and_comes_back_is_asked_again(tmp_path: Path) -> None:
    questions = small.built(small.rows(100), tmp_path / "questions")

    def answers(folder: Path) -> Counter[tuple[str, str | None]]:
        assert not [e for e in read_exchanges(folder) if e.response.error]
        return Counter(
            (e.request.key, e.response.text) for e in read_exchanges(folder) if not e.reused
        )

    with machines(3) as (first, second, third), served(second) as one, served(third) as other:
        env = {**os.environ, "PYTHONPATH": str(Path(sn.__file__).parents[1])}
        words = (questions.folder, "-p", "circular", "-p", "instability?m=3")
        run = Run(first, env, "run", f"openai:any@{one},{other}?concurrency=4&timeout=2", *words)
        run.has_answered(60)
        third.unplug()
        run.has_answered(120)
        third.plug()
        before = requests_to(third, other)
        both = answers(run.ends())
        assert requests_to(third, other) > before
        alone = Run(first, env, "alone", f"openai:any@{one}?concurrency=8", *words)
        assert both == answers(alone.ends())


def requests_to(machine: Machine, url: str) -> int:
    """How many a server has had, as it says on its own machine."""
    script = "import sys, urllib.request as web; print(web.urlopen(sys.argv[1]).read().decode())"
    said = machine.run(sys.executable, "-c", script, url.removesuffix("/v1") + "/_stats")
    return msgspec.json.decode(said, type=dict[str, int])["requests"]
