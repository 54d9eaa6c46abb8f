"""The wheels with extras, and with the server: the commands of the READMEs, the server and the pages over runs.

Run by `make installed`, not by `make test`, as the environments are installed from a package index.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from environments import (
    ROOT,
    Environment,
    Line,
    build_wheels,
    check_lines,
    get,
    verbs_of,
    write_inputs,
)
from test_installed import VERBS

pytestmark = pytest.mark.installed

README = ROOT / "README.md"
SERVER_README = ROOT / "packages" / "snellen-server" / "README.md"


@pytest.fixture(scope="session")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The wheels of the harness and the server, built from this tree."""
    return build_wheels(tmp_path_factory.mktemp("wheels"), "snellen", "snellen-server")


@pytest.fixture(scope="session")
def server(wheels: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """An environment with the wheel of snellen-server, which brings the extra `view`."""
    return Environment(tmp_path_factory.mktemp("server"), *map(str, wheels.values()))


@pytest.fixture(scope="session")
def with_extras(wheels: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """An environment with the extras that the README installs."""
    [extras] = re.findall(r"^pip install '\.\[(.*)\]'", README.read_text("utf-8"), re.MULTILINE)
    requirement = f"snellen[{extras}] @ {wheels['snellen'].as_uri()}"
    return Environment(tmp_path_factory.mktemp("extras"), requirement)


# --- the server --------------------------------------------------------------------------------

SERVER_VERBS: dict[str, tuple[Line, ...]] = {
    "arena": (
        "arena rate votes.jsonl",
        "arena pairs votes.jsonl",
        "arena voters votes.jsonl",
    ),
    "serve": (("serve lab --config nothing.toml", "nothing.toml"),),
    "serve-data": (("serve-data backup nowhere backup.tar", "nowhere"),),
}
"""The same for the verbs that snellen-server adds; tests below serve."""


def test_the_verbs_of_the_server_are_tried_here(server: Environment, tmp_path: Path) -> None:
    assert verbs_of(server, tmp_path) == {*VERBS, *SERVER_VERBS}


@pytest.mark.parametrize("verb", SERVER_VERBS)
def test_a_verb_of_the_server_works(verb: str, server: Environment, tmp_path: Path) -> None:
    rows = []
    for number in range(200):
        outcome = "right" if number % 3 == 0 else "left"
        row = {"id": str(number), "left": "a", "right": "b", "outcome": outcome}
        rows.append(json.dumps({**row, "voter": f"voter-{number % 10}"}))
    (tmp_path / "votes.jsonl").write_text("\n".join(rows))
    check_lines(server, SERVER_VERBS[verb], tmp_path)


# --- the READMEs, with their extras ---------------------------------------------------------------------------------

SUBSTITUTES = {"hf:llava-hf/llava-1.5-7b-hf": "hf:./tiny-llava"}
"""What needs the hub in a line of the README, and what is tried here in its place."""
OF_A_CLONE = ("git clone https://github.com/snellen/snellen && cd snellen", "make demo")
"""Lines of the README that need a clone, which other jobs try."""
OF_AN_ENVIRONMENT = "python3 -m venv .venv && source .venv/bin/activate"
"""The line of the README that makes the environment in which the next one installs Snellen."""


def blocks_of(readme: Path) -> Iterator[tuple[str, str]]:
    """The language and the text of each block of code in a README."""
    yield from re.findall(
        r"^```(\w*)\n(.*?)^```", readme.read_text("utf-8"), re.MULTILINE | re.DOTALL
    )


def commands_of(readme: Path) -> list[str]:
    """The lines of the blocks of commands in a README, without comments."""
    lines = []
    for language, block in blocks_of(readme):
        if language != "python":
            lines += [line.partition("  #")[0].strip() for line in block.splitlines()]
    return lines


def test_the_commands_of_the_readme_work(with_extras: Environment, tmp_path: Path) -> None:
    import tiny_archs  # it loads transformers, which no other test here needs

    write_inputs(tmp_path, questions=3)
    tiny_archs.save("LLaVA", tmp_path / "tiny-llava")
    for line in commands_of(README):
        if line in OF_A_CLONE or line.startswith("pip install "):  # `with_extras` has installed it
            continue
        if line == OF_AN_ENVIRONMENT:
            continue
        assert line.startswith("snellen "), f"a new kind of line, which nothing tries: {line}"
        words = [SUBSTITUTES.get(word, word) for word in shlex.split(line)[1:]]
        if words == ["view"]:  # it serves until it is interrupted
            words += ["--port", "0"]
            with with_extras.serving(words, tmp_path, r"http://127\S+token=\S+") as address:
                assert get(address)[0] == 200
            continue
        finished = with_extras.snellen(words, tmp_path, OMP_NUM_THREADS="1")
        assert finished.code == 0, (line, finished.err)


def test_the_lines_before_the_first_command_put_snellen_on_the_path(
    wheels: dict[str, Path], tmp_path: Path
) -> None:
    lines = commands_of(README)
    assert lines[lines.index(OF_AN_ENVIRONMENT) + 1].startswith("pip install ")
    # Without what the wheel needs, which other tests install: a package index takes minutes to answer pip.
    install = f"pip install -q --no-deps {wheels['snellen']}"
    script = f"{OF_AN_ENVIRONMENT} && {install} && command -v snellen"
    variables = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    variables["PATH"] = f"{sys.base_prefix}/bin:{os.environ['PATH']}"  # a python3 outside any venv
    finished = subprocess.run(
        ["bash", "-c", script], cwd=tmp_path, env=variables, capture_output=True, text=True
    )
    assert finished.returncode == 0, finished.stderr
    assert Path(finished.stdout.strip()) == tmp_path / ".venv" / "bin" / "snellen"


def test_the_python_of_the_readme_works(with_extras: Environment, tmp_path: Path) -> None:
    python_blocks = [block for language, block in blocks_of(README) if language == "python"]
    assert python_blocks
    for block in python_blocks:
        finished = with_extras.run([str(with_extras.bin / "python"), "-c", block], tmp_path)
        assert finished.code == 0, finished.err


def test_models_that_ship_are_asked_with_the_extra(
    with_extras: Environment, tmp_path: Path
) -> None:
    words = ["run", "snellen:tiny", "snellen:tiny-xs", "eyechart/shape", "--limit", "2"]
    finished = with_extras.snellen(words, tmp_path, OMP_NUM_THREADS="1")
    assert finished.code == 0, finished.err


def test_the_server_of_its_readme_serves(server: Environment, tmp_path: Path) -> None:
    assert commands_of(SERVER_README) == [
        "pip install . packages/snellen-server",
        "snellen serve lab",
    ]
    words = ["serve", "lab", "--port", "0"]
    with server.serving(words, tmp_path, r"http://127\.0\.0\.1:\d+") as address:
        assert get(f"{address}/")[0] == 200
        assert get(f"{address}/readyz")[0] == 200


def test_the_pages_over_runs_are_shown(server: Environment, tmp_path: Path) -> None:
    run = server.snellen(["run", "snellen:oracle", "eyechart/shape", "--limit", "3"], tmp_path)
    assert run.code == 0, run.err
    with server.serving(["view", "--port", "0"], tmp_path, r"http://127\S+token=\S+") as address:
        status, page = get(address)
    assert status == 200
    assert "snellen:oracle" in page
