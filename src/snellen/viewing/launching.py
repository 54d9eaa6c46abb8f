"""Runs that were started from the pages: processes of their own, each with a file that says what it asks, and a log.

exam.toml     what `snellen run` was given; the same command goes on with the run
log.txt       what it wrote
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tomli_w
from msgspec import Struct
from msgspec.structs import asdict

from snellen.errors import DataError
from snellen.runs.journal import RunManifest
from snellen.runs.spec import ExecutionSpec, QuestionSpec, run_spec

EXAM, LOG = "exam.toml", "log.txt"
LOG_BYTES = 20_000


class Launch(Struct, frozen=True):
    """A process that was started here."""

    id: str
    folder: Path
    """Of its exam and log."""
    run: str
    """The name of the run's folder."""
    process: subprocess.Popen[bytes]

    @property
    def command(self) -> str:
        return f"snellen run {self.folder / EXAM}"

    @property
    def exit_code(self) -> int | None:
        """None while it works."""
        return self.process.poll()

    @property
    def log(self) -> str:
        """The end of what it wrote."""
        with (self.folder / LOG).open("rb") as file:
            file.seek(max(file.seek(0, os.SEEK_END) - LOG_BYTES, 0))
            return file.read().decode("utf-8", "replace")


class Launcher:
    """Starts runs into a folder and stops those that it started; they live on when the pages are closed."""

    def __init__(self, runs: Path, place: Path) -> None:
        self.runs, self._place = runs, place
        self._launches: dict[str, Launch] = {}

    def all(self) -> list[Launch]:
        """The latest first."""
        return list(reversed(self._launches.values()))

    def find(self, name: str) -> Launch:
        """Raises DataError."""
        if name not in self._launches:
            raise DataError("no process of this name was started since `snellen view` was")
        return self._launches[name]

    def of_run(self, folder: Path) -> Launch | None:
        """The process that works on a run, if it was started here."""
        working = (launch for launch in self.all() if launch.exit_code is None)
        return next((launch for launch in working if folder == self.runs / launch.run), None)

    def start(self, fields: Mapping[str, Any], runs: Path | None = None) -> Launch:
        """Start what the fields of a run say, under a name. Raises DataError and UnknownNameError for wrong fields."""
        content = {**fields, "runs": str(runs or self.runs)}
        spec = run_spec(content)
        if not spec.question.models or not spec.question.benchmarks:
            raise DataError("a run needs a model and a benchmark")
        name = f"{time.strftime('%Y%m%d-%H%M%S')}-{len(self._launches)}"
        folder = self._place / name
        folder.mkdir(parents=True)
        (folder / EXAM).write_text(tomli_w.dumps(content), "utf-8")
        with (folder / LOG).open("wb") as log:
            process = subprocess.Popen(  # noqa: S603, whoever sends the form has these rights anyway
                [sys.executable, "-m", "snellen", "run", str(folder / EXAM)],
                stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip
        self._launches[name] = Launch(name, folder, spec.execution.name, process)
        return self._launches[name]

    def resume(self, folder: Path, manifest: RunManifest) -> Launch:
        """Go on with a run as its last call asked. Raises DataError for one that no command can go on with."""
        if not manifest.asked or not manifest.executed:
            raise DataError("this run was made elsewhere, or by objects of a program: no command goes on with it")
        question, execution = manifest.asked[-1], manifest.executed[-1]
        fields = {**_changed(question, QuestionSpec()), **_changed(execution, ExecutionSpec())}
        fields.pop("roles", None)
        if question.roles:
            fields["roles"] = dict(question.roles)
        return self.start({**fields, "name": folder.name}, folder.parent)

    def stop(self, name: str) -> None:
        """As Ctrl-C would: what is answered is kept."""
        launch = self.find(name)
        if launch.exit_code is None:
            os.killpg(launch.process.pid, signal.SIGINT)


def _changed(record: Struct, default: Struct) -> dict[str, Any]:
    defaults = asdict(default)
    return {name: value for name, value in asdict(record).items() if value != defaults[name]}
