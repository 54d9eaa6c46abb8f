"""Several builds of one benchmark at once, and builds that were killed: the place is always whole."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

import small
from snellen.building import staging
from snellen.building.benchmark import Benchmark
from snellen.building.builder import build_benchmark
from snellen.common.paths import slug
from snellen.errors import DataError

TESTS = Path(__file__).parent
CALL = "import os, signal, socket, sys, pathlib; sys.path.insert(0, sys.argv[1]); import small\n"


def start(code: str, *words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", CALL + code, str(TESTS), *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def wait_for(builders: list[subprocess.Popen[str]]) -> None:
    for process in builders:
        assert process.stdout and process.stdout.readline() == "ready\n", process.communicate(
            timeout=120
        )[1]


def let_go(builders: list[subprocess.Popen[str]]) -> None:
    """Let all of them go on at once."""
    for process in builders:
        assert process.stdin
        process.stdin.write("go\n")
        process.stdin.flush()


def see_succeeded(builders: list[subprocess.Popen[str]]) -> None:
    for process in builders:
        _, complaint = process.communicate(timeout=120)
        assert (process.returncode, complaint) == (0, "")


REPEAT = (
    "for count in sys.argv[3:]:\n"
    "    print('ready', flush=True); sys.stdin.readline()\n"
    "    for i in range(6):\n"
    "        small.built(small.rows(int(count)), pathlib.Path(sys.argv[2]))\n"
    "print('ready', flush=True); sys.stdin.readline()\n"
)


@pytest.mark.parametrize(
    "earlier",
    [pytest.param(False, marks=pytest.mark.slow), True],
    ids=["none before", "one before"],
)
def test_builds_of_one_benchmark_at_once_all_succeed(earlier: bool, tmp_path: Path) -> None:
    target = tmp_path / "home" / "made"
    if earlier:
        small.built(small.rows(2), target)
    each = ("4", "4"), ("4", "6"), ("4", "8")  # all build the same, and then different ones
    builders = [start(REPEAT, str(target), *counts) for counts in each]
    wait_for(builders)
    for counts in zip(*each, strict=True):
        let_go(builders)
        wait_for(builders)  # they have built
        made = Benchmark(target)
        assert str(made.manifest.counts.samples) in counts
        assert len(list(made.samples())) == made.manifest.counts.samples
        assert all(made.images.read(image) for sample in made.samples() for image in sample.images)
        assert [path.name for path in target.parent.iterdir()] == ["made"]
    see_succeeded(builders)


def test_a_command_that_builds_what_another_is_building_finds_it_built(tmp_path: Path) -> None:
    code = (
        "os.environ['SNELLEN_HOME'] = sys.argv[2]\n"
        "from snellen.runs.finding import find_benchmarks\n"
        "print('ready', flush=True); sys.stdin.readline()\n"
        "[use] = find_benchmarks(['eyechart/exists'])\n"
        "assert use.benchmark.count() == 300\n"
    )
    builders = [start(code, str(tmp_path)) for _ in range(2)]
    wait_for(builders)
    let_go(builders)
    see_succeeded(builders)
    assert [path.name for path in (tmp_path / "benchmarks" / "eyechart").iterdir()] == ["exists"]


KILLED = (
    "from snellen.building.builder import build_benchmark\n"
    "def kill(count):\n"
    "    if count == 3: os.kill(os.getpid(), signal.SIGKILL)\n"
    "folder = pathlib.Path(sys.argv[2])\n"
    "path = small.write(small.rows(9), folder / 't.jsonl')\n"
    "build_benchmark(small.spec_of(path), source=folder, to=folder / 'home' / 'made', progress=kill)\n"
)


def test_the_next_build_removes_what_a_killed_one_has_left(tmp_path: Path) -> None:
    made = small.built(small.rows(4), tmp_path / "home" / "made")
    small.built(small.rows(4), tmp_path / "home" / "made-2")
    killed = start(KILLED, str(tmp_path))
    killed.communicate(timeout=60)
    assert killed.returncode == -signal.SIGKILL
    [left] = (tmp_path / "home").glob(".made-*")
    assert left.name.startswith(f".made-{killed.pid}@") and list(left.iterdir())
    assert Benchmark(made.folder).count() == 4
    small.built(small.rows(4), tmp_path / "home" / "made-2")
    assert left.exists()  # another benchmark's
    small.built(small.rows(6), made.folder)
    assert sorted(path.name for path in (tmp_path / "home").iterdir()) == ["made", "made-2"]
    assert Benchmark(made.folder).count() == 6


def test_a_build_under_way_is_left_alone(tmp_path: Path) -> None:
    path = small.write(small.rows(6), tmp_path / "t.jsonl")
    target = tmp_path / "home" / "made"

    def another(count: int) -> None:
        if count == 3:
            small.built(small.rows(2), target)

    made = build_benchmark(small.spec_of(path), source=tmp_path, to=target, progress=another)
    assert made.count() == 6
    assert [path.name for path in target.parent.iterdir()] == ["made"]


def test_an_earlier_build_that_was_taken_away_by_a_killed_one_is_put_back(tmp_path: Path) -> None:
    made = small.built(small.rows(4), tmp_path / "home" / "made")
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    aside = made.folder.with_name(
        f".made-{ended.pid}@{slug(socket.gethostname())}-abc_123-earlier0"
    )
    made.folder.rename(aside)
    with pytest.raises(DataError):
        small.built([{"question": ""}], made.folder)
    assert Benchmark(made.folder).count() == 4 and not aside.exists()


def test_where_folders_cannot_be_swapped_the_earlier_build_steps_aside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(staging, "_exchange", lambda folder, target: False)
    for count in (4, 6):
        assert small.built(small.rows(count), tmp_path / "home" / "made").count() == count
    assert [path.name for path in (tmp_path / "home").iterdir()] == ["made"]


@pytest.mark.parametrize("swaps", [True, False])
def test_builds_that_end_just_before_the_rename_are_replaced_in_turn(
    swaps: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target, taken, quicker = tmp_path / "home" / "made", staging._rename, iter((2, 4, 8))
    if not swaps:
        monkeypatch.setattr(staging, "_exchange", lambda folder, target: False)

    def late(folder: Path, there: Path) -> bool:
        with monkeypatch.context() as patch:
            patch.setattr(staging, "_rename", taken)
            if count := next(quicker, 0):
                small.built(small.rows(count), target)
        return taken(folder, there)

    monkeypatch.setattr(staging, "_rename", late)
    assert small.built(small.rows(6), target).count() == 6
    assert [path.name for path in target.parent.iterdir()] == ["made"]


def test_of_two_that_build_the_same_the_first_stays(tmp_path: Path) -> None:
    path = small.write(small.rows(6), tmp_path / "t.jsonl")
    target = tmp_path / "home" / "made"
    first: list[os.stat_result] = []

    def another(count: int) -> None:
        if count == 3:
            build_benchmark(small.spec_of(path), source=tmp_path, to=target)
            first.append(target.stat())

    build_benchmark(small.spec_of(path), source=tmp_path, to=target, progress=another)
    assert target.stat().st_ino == first[0].st_ino
    build_benchmark(small.spec_of(path), source=tmp_path, to=target)
    assert (
        target.stat().st_ino != first[0].st_ino
    )  # built again on purpose: a damaged image is mended


def test_the_owner_on_another_machine_may_be_alive(tmp_path: Path) -> None:
    other = tmp_path / "home" / f".made-{os.getpid()}0@elsewhere-abc"
    other.mkdir(parents=True)
    small.built(small.rows(2), tmp_path / "home" / "made")
    assert other.exists()
