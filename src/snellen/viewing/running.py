"""Runs under way: how far they have come, by what their journals have grown since they were looked at last.

A run that is started from the pages is a process of its own, with a folder:

exam.toml     what `snellen run` was given; the same command goes on with the run
log.txt       what it wrote
"""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import takewhile
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlencode

import msgspec
import tomli_w
from msgspec import Struct
from msgspec.structs import asdict

from snellen.common.foreign import open_file, read_text
from snellen.errors import DataError, SnellenError, StoreError
from snellen.experiments.execution import check_model_string
from snellen.protocols.base import parse_protocol
from snellen.records import Failure
from snellen.runs.finding import is_ready, specs_of
from snellen.runs.forecast import is_answered
from snellen.runs.journal_lines import StoredExchange, read_stored
from snellen.runs.locks import is_held
from snellen.runs.own_questions import reopen_benchmark
from snellen.runs.plan import plan_run
from snellen.runs.run_folder import RUN_MANIFEST, RunManifest, journals
from snellen.runs.run_progress import SessionPace
from snellen.runs.spec import ExecutionSpec, QuestionSpec, run_spec
from snellen.scoring.kept_scoring import has_ended
from snellen.scoring.request_costs import UnansweredRequests

State = Literal["under way", "finished", "stopped"]
QUIET = 2.0
"""Seconds without a new line after which a run that nobody holds counts as stopped: between asking and scoring its
command lets go of it for a moment."""
RESULTS = "results.json"


class _Presented(Struct):
    turn: int = 0


class _AskedOf(Struct):
    benchmark: str
    sample_id: str
    variant: _Presented


class _Came(Struct):
    error: Failure | None = None


class _Line(Struct):
    """What progress needs to know of an exchange; the rest of the line is not decoded."""

    protocol: str
    request: _AskedOf
    response: _Came
    reused: bool = False


_lines = msgspec.json.Decoder(_Line)


class RunState(Struct, frozen=True):
    """How far a run has come; of a finished one no more than that."""

    state: State
    asked: int
    """Requests put to models, those that failed too."""
    failures: dict[str, int]
    """Different requests that have no reply so far, by kind of failure, and lines that cannot be read."""
    reached: int
    """Questions of which something was asked, counted once per protocol."""
    total: int | None
    """How many it asks; None where a rule chooses them by what was answered."""
    rate: float | None
    """Questions a second, by the answers that came since it was first seen under way; None before there are some."""

    @property
    def seconds_left(self) -> float | None:
        return (
            (self.total - self.reached) / self.rate
            if self.rate and self.total is not None
            else None
        )

    @property
    def failed(self) -> int:
        return sum(self.failures.values())


class _Watched:
    """One run: how much of each journal was read, and what stood there."""

    def __init__(self, folder: Path, manifest: RunManifest) -> None:
        self.folder, self.total = folder, _count(folder, manifest)
        self.offsets: dict[Path, int] = {}
        self.unreadable = 0
        self.unanswered = UnansweredRequests(manifest.by_sample)
        self.reached: set[tuple[str, str, str, int]] = set()
        self.asked = 0
        self.session: tuple[int, SessionPace] | None = None
        """While it is under way: what was asked before it was seen so, and its pace since."""

    @property
    def failures(self) -> dict[str, int]:
        unreadable = {"unreadable line": self.unreadable} if self.unreadable else {}
        return {**self.unanswered.by_kind(), **unreadable}

    def read_on(self) -> None:
        before = dict(self.offsets)
        for path, line in self._lines_from(before):
            self.offsets[path] = self.offsets.get(path, 0) + len(line)
            self._add(line)
        if (
            self.unanswered
        ):  # only now, as what was asked again may be answered in a journal that is read before
            for _, line in self._lines_from(before):
                if (exchange := _stored(line)) is not None and exchange.response.error is None:
                    self.unanswered.add_reply(exchange)

    def _lines_from(self, offsets: Mapping[Path, int]) -> Iterator[tuple[Path, bytes]]:
        """The whole lines of each journal from an offset on."""
        for path in journals(self.folder):
            with open_file(path) as file:
                file.seek(offsets.get(path, 0))
                yield from (
                    (path, line) for line in takewhile(lambda line: line.endswith(b"\n"), file)
                )

    def _add(self, line: bytes) -> None:
        try:
            entry = _lines.decode(line)
        except msgspec.DecodeError:
            self.unreadable += 1
            return
        self.asked += not entry.reused
        if entry.response.error and (exchange := _stored(line)) is not None:
            self.unanswered.add_failure(exchange)
        request = entry.request
        self.reached.add(
            (entry.protocol, request.benchmark, request.sample_id, request.variant.turn)
        )

    def rate(self, now: float, *, is_under_way: bool) -> float | None:
        """Questions a second of the session that is seen now."""
        if not is_under_way:
            self.session = None
            return None
        if self.session is None:
            self.session = self.asked, SessionPace()
        before, pace = self.session
        return pace.rate(now, self.asked - before, len(self.reached))


class Progress:
    """Looks at runs when it is asked; safe for several threads."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock, self._lock = clock, threading.Lock()
        self._watched: dict[Path, _Watched] = {}

    def of(self, folder: Path, manifest: RunManifest, is_working: bool | None = None) -> RunState:
        """`is_working` is whether its process works, None for one that was not started here. A finished run's journals
        are not read: its numbers say what came of it."""
        with self._lock:
            state: State = (
                "under way"
                if is_working
                else _state(folder, self._clock(), is_left=is_working is False)
            )
            if state == "finished":
                self._watched.pop(folder, None)
                return RunState(state, 0, {}, 0, 0, None)
            watched = self._watched.get(folder)
            if watched is None or any(
                path.stat().st_size < watched.offsets.get(path, 0) for path in journals(folder)
            ):
                watched = self._watched[folder] = _Watched(folder, manifest)
            watched.read_on()
            rate = watched.rate(self._clock(), is_under_way=state == "under way")
            return RunState(
                state, watched.asked, watched.failures, len(watched.reached), watched.total, rate
            )


def _stored(line: bytes) -> StoredExchange | None:
    """What was asked in a line, and whether a reply came; None for one that was changed by hand and lacks it."""
    try:
        return read_stored(line)
    except StoreError:
        return None


def _state(folder: Path, now: float, *, is_left: bool) -> State:
    """By what was asked and answered; `is_left` is whether the process that asked is known to have ended."""
    if is_held(folder):
        return "under way"
    if _has_ended(folder):
        return "finished"
    journals_changed = max(
        (path.stat().st_mtime for path in [*journals(folder), folder / RUN_MANIFEST]), default=0.0
    )
    return "under way" if not is_left and now - journals_changed < QUIET else "stopped"


def _has_ended(folder: Path) -> bool:
    """As `has_ended`; not where the scoring is damaged."""
    try:
        return has_ended(folder)
    except StoreError:
        return False


def _count(folder: Path, manifest: RunManifest) -> int | None:
    """How many questions a run asks, once per protocol; None where a rule adds some by what was answered. Raises
    DataError for a benchmark that is not there any more."""
    if any(use.part for use in manifest.benchmarks):
        return None
    protocols = {text: parse_protocol(text) for text in manifest.protocols}
    total = 0
    for use in manifest.benchmarks:
        asking = [protocols[text] for text in use.protocols or protocols]
        samples = reopen_benchmark(use, folder).samples(use.selection)
        total += sum(
            len(sample.rounds)
            for sample in samples
            for protocol in asking
            if protocol.applies(sample)
        )
    return total


# --- runs that were started from the pages ---------------------------------------------------------------------------


class StartForm(Struct, frozen=True):
    """What somebody typed to start a run."""

    model: str = ""
    benchmarks: str = ""
    protocols: str = ""
    limit: str = ""
    name: str = ""

    @classmethod
    def from_form(cls, form: Mapping[str, str]) -> StartForm:
        return cls(**{name: form.get(name, "").strip()[:2000] for name in cls.__struct_fields__})

    @property
    def query(self) -> str:
        """For the address of the form as it was typed."""
        return urlencode({name: text for name, text in asdict(self).items() if text})

    @property
    def fields(self) -> dict[str, Any]:
        """Those of a run that were given. Raises DataError for a limit that is not a number from 1 on."""
        if self.limit and not (self.limit.isdecimal() and int(self.limit)):
            raise DataError(
                f"samples per benchmark: {self.limit!r} is not a whole number from 1 on; empty is all"
            )
        fields = {
            "models": [self.model] if self.model else [],
            "benchmarks": self.benchmarks.split(),
            "protocols": self.protocols.split(),
            "limit": int(self.limit or 0),
            "name": self.name,
        }
        return {name: value for name, value in fields.items() if value}

    @property
    def named_fields(self) -> dict[str, Any]:
        """The same with a name in any case, made of the model and the time."""
        model = re.sub("[^A-Za-z0-9.-]+", "-", self.model).strip("-.")[:60] or "run"
        return {"name": f"{model}-{time.strftime('%m%d-%H%M%S')}", **self.fields}

    def faults(self) -> list[str]:
        """Why such a run would be refused, as far as that can be said before anything is loaded or built."""
        checks: list[Callable[[], object]] = [
            partial(check_model_string, self.model),
            *(partial(specs_of, pattern) for pattern in self.benchmarks.split()),
            *(partial(parse_protocol, protocol) for protocol in self.protocols.split()),
            lambda: run_spec(self.fields),
        ]
        faults = [] if self.model else ["name a model"]
        faults += [] if self.benchmarks else ["name a benchmark"]
        return faults + list(filter(None, map(_fault, checks if self.model else checks[1:])))


def _fault(check: Callable[[], object]) -> str:
    try:
        check()
    except SnellenError as error:
        return str(error)
    return ""


def exam_of(fields: Mapping[str, Any], runs: Path) -> str:
    """The file that `snellen run` is given."""
    return tomli_w.dumps({**fields, "runs": str(runs)})


FORECAST_SECONDS = 20


def forecast_of(form: StartForm, runs: Path) -> list[str]:
    """What such a run would ask, in lines. Nothing is fetched: of benchmarks that have to be, it says so. Raises
    SnellenError."""
    specs = [spec for pattern in form.benchmarks.split() for spec in specs_of(pattern)]
    if missing := [spec.name for spec in specs if not is_ready(spec)]:
        return [
            f"the requests are counted once these are fetched, which the run does first: {', '.join(missing)}"
        ]
    with tempfile.TemporaryDirectory() as folder:
        exam = Path(folder) / EXAM
        exam.write_text(exam_of(form.named_fields, runs), "utf-8")
        return _counted(exam)


def _counted(exam: Path) -> list[str]:
    """The lines of a dry run. It is a process of its own, which ends even if what was typed has no end to count."""
    command = [sys.executable, "-m", "snellen", "run", str(exam), "--dry-run"]
    try:
        counted = subprocess.run(  # noqa: S603, the command is ours, and the exam data
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            text=True,
            encoding="utf-8",
            errors="replace",
            timeout=FORECAST_SECONDS,
        )
    except subprocess.TimeoutExpired:
        return [f"it asks more than can be counted within {FORECAST_SECONDS} s"]
    if counted.returncode:
        fault = counted.stderr.strip().splitlines()
        raise DataError(fault[-1] if fault else f"exit code {counted.returncode}")
    return counted.stdout.splitlines()


EXAM, LOG = "exam.toml", "log.txt"
LOG_BYTES = 20_000


class Launch(Struct):
    """A process that was started here."""

    id: str
    folder: Path
    """Of its exam and log."""
    run: Path
    """The folder of the run."""
    words: tuple[str, ...]
    """Of its command, after `snellen`."""
    process: subprocess.Popen[bytes]
    is_asked_to_stop: bool = False

    @property
    def command(self) -> str:
        return shlex.join(("snellen", *self.words))

    @property
    def exam(self) -> str:
        return read_text(self.folder / EXAM)

    @property
    def exit_code(self) -> int | None:
        """None while it works."""
        return self.process.poll()

    @property
    def state_name(self) -> str:
        if self.exit_code is None:
            return "stopping" if self.is_asked_to_stop else "running"
        if self.exit_code == 0:
            return "finished"
        return "stopped by you" if self.is_asked_to_stop else f"failed, exit code {self.exit_code}"

    @property
    def log(self) -> str:
        """The end of what it wrote."""
        with open_file(self.folder / LOG) as file:
            file.seek(max(file.seek(0, os.SEEK_END) - LOG_BYTES, 0))
            return file.read().decode("utf-8", "replace")

    @property
    def doing(self) -> str:
        """The last that it wrote while it works: what it builds, loads, or how far it is."""
        return (
            next(reversed(self.log.split("\n")[:-1]), "starting") if self.exit_code is None else ""
        )


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
        """The latest process of a run that was started here."""
        return next((launch for launch in self.all() if launch.run == folder), None)

    def start(self, fields: Mapping[str, Any], runs: Path | None = None) -> Launch:
        """Start what the fields of a run say, under a name. Raises DataError and UnknownNameError for wrong fields."""
        runs = runs or self.runs
        run = runs / run_spec(fields).execution.name
        return self._launch(run, exam_of(fields, runs), lambda exam: ("run", str(exam)))

    def resume(self, folder: Path, manifest: RunManifest) -> Launch:
        """Go on with a run as its last call asked; one that has all its answers is scored, without its model. Raises
        DataError for one that no command can go on with."""
        if not manifest.asked or not manifest.executed:
            raise DataError(
                "this run was made elsewhere, or by objects of a program: no command goes on with it"
            )
        question, execution = manifest.asked[-1], manifest.executed[-1]
        fields = {**_changed(question, QuestionSpec()), **_changed(execution, ExecutionSpec())}
        fields.pop("roles", None)
        if question.roles:
            fields["roles"] = dict(question.roles)
        fields["name"] = folder.name
        if is_answered(plan_run(run_spec({**fields, "runs": str(folder.parent)}))):
            return self._launch(
                folder, exam_of(fields, folder.parent), lambda exam: ("score", str(folder))
            )
        return self.start(fields, folder.parent)

    def _launch(self, run: Path, exam: str, words: Callable[[Path], tuple[str, ...]]) -> Launch:
        name = f"{time.strftime('%Y%m%d-%H%M%S')}-{len(self._launches)}"
        folder = self._place / name
        folder.mkdir(parents=True)
        (folder / EXAM).write_text(exam, "utf-8")
        command = words(folder / EXAM)
        with (folder / LOG).open("wb") as log:
            process = subprocess.Popen(  # noqa: S603, whoever sends the form has these rights anyway
                [sys.executable, "-m", "snellen", *command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._launches[name] = Launch(name, folder, run, command, process)
        return self._launches[name]

    def stop(self, name: str) -> None:
        """As Ctrl-C would: what is answered is kept."""
        launch = self.find(name)
        if launch.exit_code is None:
            launch.is_asked_to_stop = True
            os.killpg(launch.process.pid, signal.SIGINT)


def _changed(record: Struct, default: Struct) -> dict[str, Any]:
    defaults = asdict(default)
    return {name: value for name, value in asdict(record).items() if value != defaults[name]}
