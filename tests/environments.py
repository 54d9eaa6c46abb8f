"""Fresh Python environments in which wheels of this tree are installed, and their commands, run as a newcomer would."""

from __future__ import annotations

import base64
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import NamedTuple

import small

ROOT = Path(__file__).parent.parent
CONSTRAINTS = ROOT / "constraints.txt"
UV = shutil.which("uv") or shutil.which("uv", path=str(Path(sys.executable).parent))
"""It takes seconds where pip takes a minute, as its cache links the files that are there already."""
SURROUNDINGS = dict(os.environ)
"""The environment variables before conftest.py keeps tests from the network; installing needs an index."""


PROJECTS = {
    "snellen": ROOT,
    "snellen-lab": ROOT / "packages" / "snellen-lab",
    "snellen-server": ROOT / "packages" / "snellen-server",
}

Line = str | tuple[str, str]
"""The words of a command that succeeds, or those of one that ends with the exit code 2, and a pattern of its last line."""


class Finished(NamedTuple):
    """A command that has ended, with all that it printed."""

    code: int
    out: str
    err: str


def build_wheels(folder: Path, *packages: str) -> dict[str, Path]:
    """Build the wheels of packages of this repository, each in a folder of its own; by package."""
    return {package: _wheel(PROJECTS[package], folder / package) for package in packages}


def _wheel(project: Path, to: Path) -> Path:
    if UV:
        command = [UV, "build", "--quiet", "--wheel", "--out-dir", str(to), str(project)]
    else:
        command = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", str(to), project]
    _run(command)
    [wheel] = to.glob("*.whl")
    return wheel


class Environment:
    """A Python environment of its own, with a home folder of its own and nothing of this repository on its path."""

    def __init__(self, folder: Path, *requirements: str) -> None:
        self.bin = folder / "venv" / "bin"
        self.home = folder / "home"
        self.home.mkdir(parents=True)
        if UV:
            _run([UV, "venv", "--quiet", "--python", sys.executable, str(folder / "venv")])
        else:
            _run([sys.executable, "-m", "venv", str(folder / "venv")])
        self.install(*requirements)

    def install(self, *requirements: str) -> None:
        """Install packages as `make ready` does: in the versions of the constraints, with torch for this machine."""
        python = str(self.bin / "python")
        if UV:
            places = [f"--find-links={os.environ.get('PIP_FIND_LINKS', '')}"]
            if places == ["--find-links="]:
                places = ["--torch-backend", "auto"]
            install = [UV, "pip", "install", "--quiet", "--python", python, *places]
        else:
            install = [python, "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
        _run([*install, "--constraint", str(CONSTRAINTS), *requirements])

    @property
    def variables(self) -> dict[str, str]:
        """All that a command of this environment finds set: no key, no proxy, no path to another Python."""
        path = os.pathsep.join([str(self.bin), "/usr/bin", "/bin"])
        return {"HOME": str(self.home), "PATH": path, "LANG": "C.UTF-8", "COLUMNS": "200"}

    def run(self, command: list[str], folder: Path, **variables: str) -> Finished:
        """Run a command in a folder to its end. A traceback in what it prints fails the test."""
        done = subprocess.run(
            command,
            cwd=folder,
            env=self.variables | variables,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
        assert "Traceback" not in done.stdout + done.stderr, (command, done.stderr)
        return Finished(done.returncode, done.stdout, done.stderr)

    def snellen(self, words: list[str], folder: Path, **variables: str) -> Finished:
        """Run `snellen WORDS` in a folder."""
        return self.run([str(self.bin / "snellen"), *words], folder, **variables)

    @contextmanager
    def serving(self, words: list[str], folder: Path, ready: str) -> Iterator[str]:
        """Start `snellen WORDS` and wait for the line that matches `ready`; yield the address in it.

        At the end of the block the command is stopped as Ctrl-C stops it, and has to end without a traceback.
        """
        log = folder / "serving.log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                [str(self.bin / "snellen"), *words],
                cwd=folder,
                env=self.variables | {"PYTHONUNBUFFERED": "1"},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                # A job in the background of a shell ignores Ctrl-C, and so would what it starts.
                preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL),
            )
        try:
            yield _address(process, log, ready)
        finally:
            process.send_signal(signal.SIGINT)
            try:
                process.wait(60)
            finally:
                process.kill()
        assert "Traceback" not in log.read_text("utf-8"), log.read_text("utf-8")


def _address(process: subprocess.Popen[bytes], log: Path, ready: str) -> str:
    while process.poll() is None:
        found = re.search(ready, log.read_text("utf-8"))
        if found:
            return found[0]
        time.sleep(0.1)
    raise AssertionError(f"it ended before it was ready: {log.read_text('utf-8')}")


def get(address: str, headers: Mapping[str, str] | None = None) -> tuple[int, str]:
    """The status and the text of an answer of a server on this machine."""
    directly = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with directly.open(urllib.request.Request(address, headers=dict(headers or {}))) as answer:
        return answer.status, answer.read().decode()


def _run(command: list[str | Path]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=SURROUNDINGS)
    assert done.returncode == 0, (command, done.stdout, done.stderr)


def verbs_of(environment: Environment, folder: Path) -> set[str]:
    """The verbs that `snellen --help` lists: the first words of the lines below each heading of a section."""
    commands = environment.snellen(["--help"], folder).out.split("Show this message and exit.")[1]
    return set(re.findall(r"^  ([a-z][a-z-]*)  ", commands, re.MULTILINE))


def check_lines(environment: Environment, lines: tuple[Line, ...], folder: Path) -> None:
    """Run the lines of a verb in a folder, and check how each of them ends."""
    for line in lines:
        if isinstance(line, str):
            finished = environment.snellen(shlex.split(line), folder)
            assert finished.code == 0, (line, finished.err)
            continue
        line, message = line
        finished = environment.snellen(shlex.split(line), folder)
        assert finished.code == 2, (line, finished)
        last_line = finished.err.splitlines()[-1]
        assert last_line.startswith("snellen: "), (line, finished.err)
        assert re.search(message, last_line), (line, last_line)


# --- a newcomer's files ----------------------------------------------------------------------

OWN_MODEL = """
class Sentences:
    def generate(self, requests, images):
        return ["I think that it is red." for _ in requests]

class Served:
    def generate(self, messages, images, **decoding):
        return "I think that it is red."

def sentence(image, question):
    return "I think that it is red."
"""
EXAM = """
models = ["my_model.py:Sentences"]
benchmarks = ["questions"]
name = "exam"
"""
STUDY = """
title = "Does it help to say please?"
metrics = ["accuracy"]
statistics = ["cells"]

[fixed]
benchmarks = ["questions"]

[[vary]]
name = "prompt"
values = ["{question}", "Please answer. {question}"]
"""
RATING = """
name = "captions"
title = "Captions of colours"
instructions = "Look at the picture first, then rate the sentence."

[[dimensions]]
name = "waste"
title = "Waste of words"
question = "How many words could go?"
low = "none"
high = "most"
better = "lower"
"""
COLOURS = ("red", "blue", "green")


def write_inputs(folder: Path, questions: int = 12) -> None:
    """Write small files of each kind that verbs take, with so many questions."""
    table = [("index", "image", "question", "A", "B", "C", "answer")]
    abilities = [("index", "question", "A", "B", "category", "image")]
    for number in range(questions):
        picture = f"{number}.png"
        colour = COLOURS[number % 3]
        for image_folder in (folder / "pictures", folder / "photos" / colour):
            image_folder.mkdir(parents=True, exist_ok=True)
            (image_folder / picture).write_bytes(small.picture(number))

        question = f"Which colour is thing {number}?"
        table.append((str(number), picture, question, *COLOURS, "ABC"[number % 3]))
        content = base64.b64encode(small.picture(number)).decode()
        abilities.append((str(number), question, "red", "blue", "ocr", content))
    write_rows(folder / "questions.tsv", table, "\t")
    write_rows(folder / "abilities.tsv", abilities, "\t")  # of MMBench's form, without answers

    (folder / "my_model.py").write_text(OWN_MODEL, "utf-8")
    (folder / "exam.toml").write_text(EXAM, "utf-8")
    (folder / "study.toml").write_text(STUDY, "utf-8")
    (folder / "rating.toml").write_text(RATING, "utf-8")
    (folder / "empty").mkdir()


def write_rows(path: Path, rows: Sequence[Sequence[str]], delimiter: str) -> None:
    lines = [delimiter.join(row) + "\n" for row in rows]
    path.write_text("".join(lines), "utf-8")
