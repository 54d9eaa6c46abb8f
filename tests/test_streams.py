"""Commands whose output is closed, full or read by nobody, and folders that take no more."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
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
    "run snellen:always-a ./mine --name r",
)
if find_spec("snellen_lab"):
    VERBS += ("lint mine",)


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
        if f"cannot write the output ({reason})" in messages:
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


@pytest.fixture
def full_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own with 4 KB left."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mounting = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(disk)]
    if os.getuid() or subprocess.run(mounting, check=False, capture_output=True).returncode:
        pytest.skip("needs the right to mount")
    (disk / "filler").write_bytes(bytes(60 << 10))
    yield disk
    subprocess.run(["umount", str(disk)], check=True)


@pytest.mark.parametrize(
    "words",
    [
        "-o DISK/samples.parquet",
        "--as inspect -o DISK/logs",
    ],
)
def test_an_export_to_a_full_disk_is_one_line_and_leaves_nothing_half(
    words: str, folder: Path, full_disk: Path
) -> None:
    # Noise in the prompts, so that no form packs the questions into what is left.
    export = f"snellen export {folder}/runs/large {words.replace('DISK', str(full_disk))}"
    if not (folder / "runs" / "large").exists():
        large = [{**row, "question": f"Which of {os.urandom(400).hex()}?"} for row in rows(100)]
        built(large, folder / "large", name="large")
        sn.evaluate(
            "snellen:always-a",
            str(folder / "large"),
            "vanilla",
            name="large",
            runs=folder / "runs",
        )
    code, messages = shell(export, folder)
    assert code == 2, messages
    assert len(messages.splitlines()) == 1, messages
    assert "the disk is full; free some space" in messages and str(full_disk) in messages
    left = sorted(path.name for path in full_disk.rglob("*") if path.is_file())
    assert left == ["filler"]


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_an_exam_with_a_byte_order_mark_runs(encoding: str, folder: Path, tmp_path: Path) -> None:
    exam = tmp_path / "exam.toml"
    benchmark = folder / "mine"
    exam.write_text(f'models = ["snellen:always-a"]\nbenchmarks = ["{benchmark}"]\n', encoding)
    code, messages = shell(f"snellen run {exam} --name marked", tmp_path)
    assert code == 0, messages
    assert (tmp_path / "runs" / "marked" / "manifest.json").exists()
