"""The ledger of the batches that a run has submitted, and of their results, in the folder of the run.

    batches.jsonl         one event per line: a batch is about to be submitted, was accepted, has ended, ...
    batches/ID.jsonl      the results of a batch as the service wrote them; ID is that of the submission

A batch is recorded before it is submitted. If a process is killed while the service accepts the batch, the ledger has a
submission without an id, and the next process looks for it among the batches of the account.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec
from msgspec import Struct

from snellen.common.foreign import read_file
from snellen.errors import StoreError
from snellen.formats.json_files import JSON_FAULTS
from snellen.formats.whole_files import sync_folder, unwritable, write_atomically
from snellen.records import EVALUATED
from snellen.runs.locks import write_elsewhere

BATCHES = "batches.jsonl"
RESULTS = "batches"
MAX_NAMED_BATCHES = 3
"""Maximum number of batches that a message names."""


class Submission(Struct, frozen=True, tag="submission", rename={"submission_id": "mark"}):
    """Event: a batch is about to be submitted."""

    submission_id: str
    """Identifies the submission, because the batch has no id until the service has accepted it."""
    role: str
    """Role of the model that answers the requests."""
    author: str
    """The model and all that its replies depend on, as in `RunManifest.authors`."""
    form: str
    """The variant of the service's format in which the requests are written."""
    keys: tuple[str, ...]
    """Keys of the requests."""
    since: float
    """Seconds since 1970."""
    earlier: tuple[str, ...] = ()
    """Ids of batches of the account that existed before and could be mistaken for this one."""


class BatchAcceptance(
    Struct,
    frozen=True,
    tag="acceptance",
    rename={"submission_id": "mark", "batch_id": "batch"},
):
    """Event: the service has accepted a batch."""

    submission_id: str
    batch_id: str
    """The service's id of the batch."""


class BatchEnding(
    Struct,
    frozen=True,
    tag="ending",
    rename={"submission_id": "mark", "service_status": "word"},
):
    """Event: a batch has ended, and its results are stored."""

    submission_id: str
    service_status: str
    """How it ended, as the service names it, such as completed or expired."""


class CountedFailures(Struct, frozen=True, tag="count", rename={"submission_id": "mark"}):
    """Event: a session has handled the failed requests of a batch. A later session submits them again."""

    submission_id: str


class LostBatch(Struct, frozen=True, tag="loss", rename={"submission_id": "mark"}):
    """Event: a batch was not carried out, or never reached the service. Its requests can be submitted again."""

    submission_id: str
    why: str


Event = Submission | BatchAcceptance | BatchEnding | CountedFailures | LostBatch
_decode = msgspec.json.Decoder(Event).decode
_encode = msgspec.json.Encoder().encode


class RunBatch:
    """A batch of a run, as its events describe it."""

    def __init__(self, submission: Submission) -> None:
        """Record a batch that is about to be submitted."""
        self.submission = submission
        self.keys = frozenset(submission.keys)
        self.id = ""
        """The service's id; empty until the batch was accepted."""
        self.service_status = ""
        """How it ended, as the service names it; empty until its results were fetched."""
        self.are_failures_counted = False
        """Whether an earlier session handled its failed requests, so that they are submitted again."""

    @property
    def is_open(self) -> bool:
        """Whether its results have not been fetched yet."""
        return not self.service_status


class BatchLedger:
    """The batches of a run. A missing file is an empty ledger.

    Raises:
        StoreError: The file cannot be read, or a line of it is not an event.
    """

    def __init__(self, folder: Path) -> None:
        """Read the events of earlier sessions from the run's folder."""
        self._folder = folder
        self.path = folder / BATCHES
        self._batches: dict[str, RunBatch] = {}
        for event in self._events():
            self._apply(event)

    def _events(self) -> Iterator[Event]:
        """Yield the recorded events, the oldest first. Raises StoreError for a damaged line."""
        if not self.path.exists():
            return
        for line_number, line in enumerate(read_file(self.path).split(b"\n"), 1):
            if not line:
                continue
            try:
                event = _decode(line)
            except JSON_FAULTS as error:
                raise StoreError(
                    f"{self.path}:{line_number}: {error}; correct the line or remove it (a batch whose line is "
                    "removed is submitted again, and costs again)"
                ) from None
            yield event

    def _apply(self, event: Event) -> None:
        """Update the batches by one event. A batch that was lost is removed."""
        if isinstance(event, Submission):
            self._batches[event.submission_id] = RunBatch(event)
            return
        batch = self._batches.get(event.submission_id)
        if batch is None:
            return
        if isinstance(event, BatchAcceptance):
            batch.id = event.batch_id
        elif isinstance(event, BatchEnding):
            batch.service_status = event.service_status
        elif isinstance(event, CountedFailures):
            batch.are_failures_counted = True
        else:
            del self._batches[event.submission_id]

    def add(self, event: Event) -> None:
        """Append an event to the ledger's file, and apply it. Raises StoreError if the file cannot be written."""
        line = _encode(event) + b"\n"
        try:
            descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
            try:
                # A process that was killed while it wrote a line leaves the line without an end.
                size = os.fstat(descriptor).st_size
                is_last_line_torn = size > 0 and os.pread(descriptor, 1, size - 1) != b"\n"
                if is_last_line_torn:
                    line = b"\n" + line
                os.write(descriptor, line)
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
            sync_folder(self._folder)
        except OSError as error:
            raise unwritable(self._folder, error, write_elsewhere()) from None
        self._apply(event)

    def batch(self, submission_id: str) -> RunBatch:
        """Return the batch of a submission."""
        return self._batches[submission_id]

    def of_role(self, role: str) -> list[RunBatch]:
        """Return the batches of a role in order of submission."""
        batches = []
        for batch in self._batches.values():
            if batch.submission.role == role:
                batches.append(batch)
        return batches

    def unfetched(self) -> list[RunBatch]:
        """Return the batches whose results have not been fetched."""
        return [batch for batch in self._batches.values() if batch.is_open]

    def ids(self) -> list[str]:
        """Return the ids of all batches."""
        return [batch.id for batch in self._batches.values() if batch.id]

    def store_results(self, batch: RunBatch, content: bytes, service_status: str) -> None:
        """Store the results of a batch, and record that it has ended.

        Args:
            batch: The batch.
            content: Its results as the service wrote them, one line of JSON per request.
            service_status: How it ended, as the service names it.

        Raises:
            StoreError: The results cannot be written.
        """
        path = self._results_path(batch)
        try:
            path.parent.mkdir(exist_ok=True)
            write_atomically(path, content)
        except OSError as error:
            raise unwritable(self._folder, error, write_elsewhere()) from None
        self.add(BatchEnding(batch.submission.submission_id, service_status))

    def results(self, batch: RunBatch) -> Iterator[bytes]:
        """Yield the lines of a batch's results. Raises StoreError."""
        path = self._results_path(batch)
        try:
            content = read_file(path)
        except OSError as error:
            raise StoreError(f"{path}: cannot be read ({error.strerror})") from None
        for line in content.split(b"\n"):
            if line.strip():
                yield line

    def _results_path(self, batch: RunBatch) -> Path:
        return self._folder / RESULTS / f"{batch.submission.submission_id}.jsonl"


def open_keys(folder: Path) -> frozenset[str]:
    """Return the keys of the requests of a run that are in batches whose results have not been fetched."""
    keys: set[str] = set()
    for batch in BatchLedger(folder).unfetched():
        keys |= batch.keys
    return frozenset(keys)


def check_no_open_batches(folder: Path, batched: Mapping[str, bool]) -> None:
    """Check that a run does not send requests again that are in open batches, because they would be paid twice.

    Args:
        folder: The folder of the run.
        batched: For each role, whether its model submits batches now.

    Raises:
        StoreError: A role has open batches, and its model sends requests directly.
    """
    if not (folder / BATCHES).exists():
        return
    for batch in BatchLedger(folder).unfetched():
        role = batch.submission.role
        if role in batched and not batched[role]:
            of_role = "" if role == EVALUATED else f" of the {role}"
            raise StoreError(
                f"{folder} has submitted a batch{of_role} whose replies have not been fetched; add batch=true to the "
                f"model string, which fetches them, or cancel the batch with `snellen batches {folder} --cancel` first"
            )
