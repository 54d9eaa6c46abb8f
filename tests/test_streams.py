"""Commands whose output is closed, full or read by nobody, and folders that take no more."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import snellen as sn
from small import built, rows

VERBS = (
    "--help",
    "list --json",
    "report runs/r",
    "score runs/r",
    "compare runs/r runs/s",
    "export runs/r",
    "lint mine",
    "run snellen:always-a ./mine --name r",
)


def shell(command: str, folder: Path) -> tuple[int, str]:
    """The exit code of a line for bash and what it wrote on stderr; `snellen` is this one's."""
    line = f'set -o pipefail; snellen() {{ {sys.executable} -m snellen "$@"; }}; {command}'
    done = subprocess.run(
        ["bash", "-c", line],
        cwd=folder,
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        check=False,
    )
    return done.returncode, done.stderr.decode()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("streams")
    built(rows(6), folder / "mine")
    for name in ("r", "s"):
        sn.evaluate(
            "snellen:always-a", str(folder / "mine"), "vanilla", name=name, runs=folder / "runs"
        )
    return folder


@pytest.mark.parametrize("verb", VERBS)
def test_output_that_cannot_be_written_is_one_line(verb: str, folder: Path) -> None:
    for target, reason in (
        (">/dev/full", "No space left on device"),
        (">&-", "Bad file descriptor"),
    ):
        code, messages = shell(f"snellen {verb} {target}", folder)
        assert "Traceback" not in messages and "Exception ignored" not in messages
        if f"the output cannot be written ({reason})" in messages:
            assert code == 2
        else:  # it prints nothing but where a file was written to, on stderr
            assert (code, verb.split()[0]) in {(0, "report"), (0, "export")}, messages


@pytest.mark.parametrize("verb", VERBS)
def test_a_reader_that_has_seen_enough_is_no_error(verb: str, folder: Path) -> None:
    code, messages = shell(f"snellen {verb} | true", folder)
    assert code == 0, messages
    assert "Traceback" not in messages and "Exception ignored" not in messages


@pytest.mark.parametrize("target", ["2>/dev/full", "2>&-"])
def test_messages_that_cannot_be_written_end_nothing(target: str, folder: Path) -> None:
    name = "full" if "full" in target else "closed"
    code, _ = shell(f"snellen run snellen:always-a ./mine --name {name} {target}", folder)
    assert code == 0
    assert (folder / "runs" / name / "results.json").exists() or list(
        (folder / "runs" / name).iterdir()
    )
    assert shell(f"snellen run snellen:always-a nosuch {target}", folder)[0] == 2


def test_an_argument_that_is_not_in_utf8_is_one_line(folder: Path) -> None:
    for argument in (rb"$'\xff'", rb"--name $'r\xff'", rb"--where $'a=\xff'"):
        line = b"snellen run snellen:tiny ./mine " + argument
        code, messages = shell(os.fsdecode(line), folder)
        assert code == 2
        assert messages.startswith("snellen: the argument ") and "not in UTF-8" in messages
        assert messages.count("\n") == 1
