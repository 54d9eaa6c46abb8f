"""The progress of runs, read from what was added to their journals, and processes that start or resume runs.

A run that is started from the pages is a separate process, which has a folder:

exam.toml     the settings for `snellen run`; the same command resumes the run
log.txt       the output of the command
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
from snellen.runs.finding import is_ready, matching_specs
from snellen.runs.forecast import is_answered
from snellen.runs.journal_lines import StoredExchange, read_stored
from snellen.runs.locks import is_locked
from snellen.runs.own_questions import reopen_benchmark
from snellen.runs.plan import plan_run
from snellen.runs.run_folder import RUN_MANIFEST, RunManifest, journals
from snellen.runs.run_progress import SessionPace
from snellen.runs.spec import ExecutionSpec, QuestionSpec, run_spec
from snellen.scoring.kept_scoring import has_ended
from snellen.scoring.request_costs import UnansweredRequests

State = Literal["under way", "finished", "stopped"]
QUIET_SECONDS = 2.0
"""Seconds without a new line after which a run without a lock counts as stopped. Between sending requests and scoring, the
command releases the lock for a moment."""
RESULTS = "results.json"


class _VariantFields(Struct):
    """The field of a presentation that progress needs."""

    turn: int = 0


class _RequestFields(Struct):
    """The fields of a request that progress needs."""

    benchmark: str
    sample_id: str
    variant: _VariantFields


class _ResponseFields(Struct):
    """The field of a response that progress needs."""

    error: Failure | None = None


class _ExchangeFields(Struct):
    """The fields of an exchange that progress needs; the rest of the line is not decoded."""

    protocol: str
    request: _RequestFields
    response: _ResponseFields
    reused: bool = False


_exchange_decoder = msgspec.json.Decoder(_ExchangeFields)


class RunState(Struct, frozen=True):
    """The progress of a run. A finished run has only its state; the other fields are empty."""

    state: State
    requests: int
    """Requests sent to models, including failed ones."""
    failures: dict[str, int]
    """Distinct requests without a reply so far, by kind of failure, and unreadable lines."""
    replies: int
    """Requests that were answered, now or in an earlier run."""
    n_questions_reached: int
    """Number of questions for which a request was sent, counted once per protocol."""
    total: int | None
    """Questions of the complete run; None if a rule chooses them by earlier replies."""
    rate: float | None
    """Questions per second since the run was first seen under way; None before any reply."""

    @property
    def seconds_left(self) -> float | None:
        if not self.rate or self.total is None:
            return None
        return (self.total - self.n_questions_reached) / self.rate

    @property
    def failed(self) -> int:
        return sum(self.failures.values())

    @property
    def has_failed(self) -> bool:
        """Whether the run ended early without a single reply, as with a server that is not running."""
        return self.state == "stopped" and self.requests > 0 and self.replies == 0


class _JournalProgress:
    """The progress of one run, counted from its journals (the files to which replies are appended).

    It remembers up to which byte each journal was read, so that only new lines are read the next time.
    """

    def __init__(self, folder: Path, manifest: RunManifest) -> None:
        """Start to watch the progress of a run. Nothing of its journals has been read yet."""
        self.folder = folder
        self.total = _count_questions(folder, manifest)
        self.offsets: dict[Path, int] = {}
        """How many bytes of each journal have been read."""
        self.unreadable = 0
        self.unanswered = UnansweredRequests(manifest.by_sample)
        self.reached: set[tuple[str, str, str, int]] = set()
        self.asked_questions: set[tuple[str, str, str, int]] = set()
        """Questions reached, without those whose replies were all reused from another run or question."""
        self.asked = 0
        self.replies = 0
        self.session: tuple[int, SessionPace] | None = None
        """While the run is active: the number of requests before it was first seen, and the pace since then."""

    @property
    def failures(self) -> dict[str, int]:
        unreadable = {"unreadable line": self.unreadable} if self.unreadable else {}
        return {**self.unanswered.by_kind(), **unreadable}

    def read_on(self) -> None:
        """Read the lines that were added to the journals of the run since the last call."""
        offsets_before = dict(self.offsets)
        for path, line in self._lines_from(offsets_before):
            self.offsets[path] = self.offsets.get(path, 0) + len(line)
            self._add(line)
        if not self.unanswered:
            return
        # A second pass, because the reply to a repeated request may be in a journal that is read before its failure.
        for _, line in self._lines_from(offsets_before):
            exchange = _decode_exchange(line)
            if exchange is not None and exchange.response.error is None:
                self.unanswered.add_reply(exchange)

    def _lines_from(self, offsets: Mapping[Path, int]) -> Iterator[tuple[Path, bytes]]:
        """Yield the complete lines of each journal that follow an offset, with the path of the journal.

        Args:
            offsets: The offset of each journal in bytes. A journal without one is read from its beginning.
        """
        for path in journals(self.folder):
            with open_file(path) as file:
                file.seek(offsets.get(path, 0))
                for line in file:
                    if not line.endswith(b"\n"):
                        break  # it is still being written
                    yield path, line

    def _add(self, line: bytes) -> None:
        """Add a line of a journal, which has one request with its response, to the counts."""
        try:
            entry = _exchange_decoder.decode(line)
        except msgspec.DecodeError:
            self.unreadable += 1
            return
        request = entry.request
        question = (entry.protocol, request.benchmark, request.sample_id, request.variant.turn)
        self.reached.add(question)
        if not entry.reused:
            self.asked += 1
            self.asked_questions.add(question)

        if entry.response.error is None:
            self.replies += 1
            return
        exchange = _decode_exchange(line)
        if exchange is not None:
            self.unanswered.add_failure(exchange)

    def rate(self, now: float, *, is_under_way: bool) -> float | None:
        """Return the speed of the run in questions per second, measured since this process first saw it active.

        Args:
            now: The time in seconds since 1970.
            is_under_way: Whether the run is active now. If not, the measurement ends, and starts anew when the run
                is resumed.

        Returns:
            The speed; None if the run is not active, or if too few replies have arrived since then to measure it.
        """
        if not is_under_way:
            self.session = None
            return None
        if self.session is None:
            self.session = (self.asked, SessionPace())
        requests_before, pace = self.session
        requests_of_session = self.asked - requests_before
        return pace.rate(now, requests_of_session, len(self.asked_questions))


class Progress:
    """Reads the progress of runs. Safe for several threads."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._progress_by_folder: dict[Path, _JournalProgress] = {}

    def of(self, folder: Path, manifest: RunManifest, is_working: bool | None = None) -> RunState:
        """Return the progress of a run.

        Args:
            folder: The folder of the run.
            manifest: Its manifest.
            is_working: Whether its process is alive; None if the run was not started from these pages, so that this
                is unknown.

        Returns:
            The progress. The counts of a finished run are 0, because its journals are not read.
        """
        with self._lock:
            state: State = "under way"
            if not is_working:
                state = _state(folder, self._clock(), is_left=is_working is False)
            if state == "finished":
                self._progress_by_folder.pop(folder, None)
                return RunState(
                    state=state,
                    requests=0,
                    failures={},
                    replies=0,
                    n_questions_reached=0,
                    total=0,
                    rate=None,
                )
            progress = self._progress_by_folder.get(folder)
            if progress is None or _has_shrunk(folder, progress):
                progress = _JournalProgress(folder, manifest)
                self._progress_by_folder[folder] = progress
            progress.read_on()
            return RunState(
                state=state,
                requests=progress.asked,
                failures=progress.failures,
                replies=progress.replies,
                n_questions_reached=len(progress.reached),
                total=progress.total,
                rate=progress.rate(self._clock(), is_under_way=state == "under way"),
            )


def _has_shrunk(folder: Path, progress: _JournalProgress) -> bool:
    """Return whether a journal is shorter than what was read of it, so that it has to be read again."""
    return any(path.stat().st_size < progress.offsets.get(path, 0) for path in journals(folder))


def _decode_exchange(line: bytes) -> StoredExchange | None:
    """Decode the request and the response of a line; None if it lacks them, for example after an edit by hand."""
    try:
        return read_stored(line)
    except StoreError:
        return None


def _state(folder: Path, now: float, *, is_left: bool) -> State:
    """Return whether a run is under way, finished or stopped.

    A process that works on a run holds a lock in its folder, so a locked run is under way. Without a lock, it is
    finished if it was scored. Otherwise it counts as stopped once its files have not changed for `QUIET_SECONDS`.

    Args:
        folder: The folder of the run.
        now: The time in seconds since 1970.
        is_left: Whether its process is known to have ended. Then an unfinished run counts as stopped at once.
    """
    if is_locked(folder):
        return "under way"
    if _has_ended(folder):
        return "finished"
    if is_left:
        return "stopped"
    files = [*journals(folder), folder / RUN_MANIFEST]
    last_change = max(path.stat().st_mtime for path in files)
    is_quiet = now - last_change >= QUIET_SECONDS
    return "stopped" if is_quiet else "under way"


def _has_ended(folder: Path) -> bool:
    """Return whether a run was completed and scored. A run whose scoring is damaged counts as not ended."""
    try:
        return has_ended(folder)
    except StoreError:
        return False


def _count_questions(folder: Path, manifest: RunManifest) -> int | None:
    """Return how many questions the complete run will have. A question counts once for each protocol that asks it.

    Returns:
        The number; None if it depends on the replies: a rule may stop the run early, or choose the next questions.

    Raises:
        DataError: A benchmark of the run no longer exists.
    """
    if any(use.part for use in manifest.benchmarks):
        return None
    protocol_by_label = {label: parse_protocol(label) for label in manifest.protocols}
    n_questions = 0
    for use in manifest.benchmarks:
        labels = use.protocols or manifest.protocols
        for sample in reopen_benchmark(use, folder).samples(use.selection):
            for label in labels:
                if protocol_by_label[label].applies(sample):
                    n_questions += len(sample.rounds)
    return n_questions


# --- runs that were started from the pages ---------------------------------------------------------------------------


class StartForm(Struct, frozen=True):
    """The fields of the form that starts a run."""

    model: str = ""
    benchmarks: str = ""
    protocols: str = ""
    limit: str = ""
    name: str = ""

    @classmethod
    def from_form(cls, form: Mapping[str, str]) -> StartForm:
        """Read the settings of a new run from a submitted form. Texts are cut off at a maximum length.

        The form has lists to choose from and fields to type in. A typed model replaces the chosen one; typed benchmarks
        and protocols are added to the chosen ones.
        """
        fields: dict[str, str] = {}
        for name in cls.__struct_fields__:
            fields[name] = form.get(name, "").strip()[:2000]
        if not fields["model"]:
            fields["model"] = form.get("listed_model", "").strip()[:2000]
        for name in ("benchmarks", "protocols"):
            chosen = form.get(f"listed_{name}", "")[:20_000].split()
            typed = fields[name].split()
            without_duplicates = dict.fromkeys([*chosen, *typed])
            fields[name] = " ".join(without_duplicates)
        return cls(**fields)

    @property
    def query(self) -> str:
        """The fields as the query of a URL that restores the form."""
        return urlencode({name: text for name, text in asdict(self).items() if text})

    @property
    def fields(self) -> dict[str, Any]:
        """The settings of the run that the user filled in, as fields of an exam.toml.

        Raises:
            DataError: The limit is not a positive whole number.
        """
        is_positive = self.limit.isdecimal() and int(self.limit) > 0
        if self.limit and not is_positive:
            raise DataError(
                f"samples per benchmark: {self.limit!r} is not a positive whole number; leave the field empty for "
                "all samples"
            )
        settings = {
            "models": [self.model] if self.model else [],
            "benchmarks": self.benchmarks.split(),
            "protocols": self.protocols.split(),
            "limit": int(self.limit or 0),
            "name": self.name,
        }
        return {name: value for name, value in settings.items() if value}

    @property
    def named_fields(self) -> dict[str, Any]:
        """`fields` with a name: by default one made of the model and the time."""
        model = re.sub("[^A-Za-z0-9.-]+", "-", self.model).strip("-.")[:60] or "run"
        return {"name": f"{model}-{time.strftime('%m%d-%H%M%S')}", **self.fields}

    def faults(self) -> list[str]:
        """Return the errors in the form that can be found without loading a model or building a benchmark."""
        faults: list[str] = []
        checks: list[Callable[[], object]] = []
        if self.model:
            checks.append(partial(check_model_string, self.model))
        else:
            faults.append("name a model")
        if not self.benchmarks:
            faults.append("name a benchmark")
        for pattern in self.benchmarks.split():
            checks.append(partial(matching_specs, pattern))
        for protocol in self.protocols.split():
            checks.append(partial(parse_protocol, protocol))
        checks.append(lambda: run_spec(self.fields))
        for check in checks:
            fault = _fault(check)
            if fault:
                faults.append(fault)
        return faults


def _fault(check: Callable[[], object]) -> str:
    """Return the error message of a check; empty if it passes."""
    try:
        check()
    except (OSError, SnellenError) as error:  # a name may be too long for the file system
        return str(error)
    return ""


def exam_toml(fields: Mapping[str, Any], runs: Path) -> str:
    """Return the text of an exam.toml, which `snellen run` reads: the settings of a run, and the folder for its results."""
    return tomli_w.dumps({**fields, "runs": str(runs)})


FORECAST_TIMEOUT_SECONDS = 20


def forecast_lines(form: StartForm, runs: Path) -> list[str]:
    """Estimate the requests of a run before it is started, as lines of text. Nothing is downloaded.

    If benchmarks must be downloaded first, a line says so instead.

    Raises:
        SnellenError: The form has errors.
    """
    missing: list[str] = []
    for pattern in form.benchmarks.split():
        for spec in matching_specs(pattern):
            if not is_ready(spec):
                missing.append(spec.name)
    if missing:
        return [
            f"requests can be counted once these are fetched, which the run does first: {', '.join(missing)}"
        ]
    with tempfile.TemporaryDirectory() as folder:
        exam = Path(folder) / EXAM_FILE
        exam.write_text(exam_toml(form.named_fields, runs), "utf-8")
        return _dry_run_output(exam)


def _dry_run_output(exam: Path) -> list[str]:
    """Return the output of a dry run. It runs in a separate process, which a timeout ends if counting takes too long."""
    command = [sys.executable, "-m", "snellen", "run", str(exam), "--dry-run"]
    try:
        dry_run = subprocess.run(  # noqa: S603, the command is ours, and the exam data
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            text=True,
            encoding="utf-8",
            errors="replace",
            timeout=FORECAST_TIMEOUT_SECONDS,
        )
    except subprocess.TimeoutExpired:
        return [f"it has more requests than can be counted in {FORECAST_TIMEOUT_SECONDS} s"]
    if dry_run.returncode:
        fault = dry_run.stderr.strip().splitlines()
        raise DataError(fault[-1] if fault else f"exit code {dry_run.returncode}")
    return dry_run.stdout.splitlines()


EXAM_FILE, LOG_FILE = "exam.toml", "log.txt"
MAX_LOG_BYTES = 20_000


class StartedRun(Struct):
    """A process that was started from the pages."""

    id: str
    folder: Path
    """The folder of its settings file and log."""
    run: Path
    """The folder of the run."""
    arguments: tuple[str, ...]
    """Arguments of its command, after `snellen`."""
    process: subprocess.Popen[bytes]
    is_asked_to_stop: bool = False

    @property
    def command(self) -> str:
        return shlex.join(("snellen", *self.arguments))

    @property
    def exam(self) -> str:
        return read_text(self.folder / EXAM_FILE)

    @property
    def exit_code(self) -> int | None:
        """Exit code of the process; None while it is running."""
        return self.process.poll()

    @property
    def state_name(self) -> str:
        """The state of the process in words: `running`, `stopping`, `finished`, `stopped by you` or `failed, exit code 1`."""
        if self.exit_code is None:
            return "stopping" if self.is_asked_to_stop else "running"
        if self.exit_code == 0:
            return "finished"
        return "stopped by you" if self.is_asked_to_stop else f"failed, exit code {self.exit_code}"

    @property
    def log(self) -> str:
        """The end of its output."""
        with open_file(self.folder / LOG_FILE) as file:
            file.seek(max(file.seek(0, os.SEEK_END) - MAX_LOG_BYTES, 0))
            return file.read().decode("utf-8", "replace")

    @property
    def last_output_line(self) -> str:
        """The last complete line that the process has printed, such as its progress; empty if it has ended."""
        if self.exit_code is not None:
            return ""
        complete_lines = self.log.split("\n")[:-1]
        return complete_lines[-1] if complete_lines else "starting"


class RunStarter:
    """Starts runs as separate processes, and stops them. They continue when the server of the pages ends."""

    def __init__(self, runs: Path, settings_folder: Path) -> None:
        self.runs = runs
        self._settings_folder = settings_folder
        self._started: dict[str, StartedRun] = {}

    def all(self) -> list[StartedRun]:
        """Return all started processes, the latest first."""
        return list(reversed(self._started.values()))

    def find(self, name: str) -> StartedRun:
        """Return a started process by id. Raises DataError for an unknown id."""
        if name not in self._started:
            raise DataError("`snellen view` has not started a process with this name")
        return self._started[name]

    def latest_of_run(self, folder: Path) -> StartedRun | None:
        """Return the latest process of a run, or None if it was not started here."""
        for launch in self.all():
            if launch.run == folder:
                return launch
        return None

    def start(self, fields: Mapping[str, Any], runs: Path | None = None) -> StartedRun:
        """Start a run with these fields. Raises DataError or UnknownNameError if a field is invalid."""
        runs = runs or self.runs
        run = runs / run_spec(fields).execution.name
        return self._start_process(run, exam_toml(fields, runs), lambda exam: ("run", str(exam)))

    def resume(self, folder: Path, manifest: RunManifest) -> StartedRun:
        """Continue a run with the settings of its last session, in a new process.

        If the run has all replies already, the process only scores it.

        Args:
            folder: The folder of the run.
            manifest: Its manifest, which has the settings.

        Raises:
            DataError: The run was made by another program or with Python objects as models.
        """
        if not manifest.question_specs or not manifest.executed:
            raise DataError(
                "this run was made elsewhere, or with Python objects, so no command can resume it"
            )
        question_spec = manifest.question_specs[-1]
        execution_spec = manifest.executed[-1]
        fields = {
            **_changed_fields(question_spec, QuestionSpec()),
            **_changed_fields(execution_spec, ExecutionSpec()),
        }
        fields.pop("roles", None)
        if question_spec.roles:
            fields["roles"] = dict(question_spec.roles)
        fields["name"] = folder.name

        runs = folder.parent
        plan = plan_run(run_spec({**fields, "runs": str(runs)}))
        if not is_answered(plan):
            return self.start(fields, runs)
        return self._start_process(
            folder, exam_toml(fields, runs), lambda exam_file: ("score", str(folder))
        )

    def _start_process(
        self, run: Path, exam: str, arguments_for: Callable[[Path], tuple[str, ...]]
    ) -> StartedRun:
        """Start a command of Snellen as a process that continues when the server of the pages ends.

        Args:
            run: The folder of the run.
            exam: The content of its exam.toml, which is stored with the output of the process.
            arguments_for: Returns the arguments of the command, given the path of the exam.toml.
        """
        name = f"{time.strftime('%Y%m%d-%H%M%S')}-{len(self._started)}"
        folder = self._settings_folder / name
        folder.mkdir(parents=True)
        exam_file = folder / EXAM_FILE
        exam_file.write_text(exam, "utf-8")
        arguments = arguments_for(exam_file)
        with (folder / LOG_FILE).open("wb") as log:
            process = subprocess.Popen(  # noqa: S603, whoever sends the form has these rights anyway
                [sys.executable, "-m", "snellen", *arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        started = StartedRun(id=name, folder=folder, run=run, arguments=arguments, process=process)
        self._started[name] = started
        return started

    def stop(self, name: str) -> None:
        """Interrupt a process as Ctrl-C does. The replies that it has received are kept."""
        launch = self.find(name)
        if launch.exit_code is None:
            launch.is_asked_to_stop = True
            os.killpg(launch.process.pid, signal.SIGINT)


def _changed_fields(record: Struct, default: Struct) -> dict[str, Any]:
    """Return the fields of a record whose values differ from those of another record of the same type."""
    default_values = asdict(default)
    changed: dict[str, Any] = {}
    for name, value in asdict(record).items():
        if value != default_values[name]:
            changed[name] = value
    return changed
