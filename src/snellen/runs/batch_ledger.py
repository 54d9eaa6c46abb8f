"""The ledger of the batches that a run has submitted, and of their results, in the folder of the run.

    batches.jsonl         one event per line: a batch is about to be submitted, was accepted, has ended, was counted
    batches/MARK.jsonl    the results of a batch as the service wrote them

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
MOST_NAMED = 3
"""Batches that a message names."""


class Submission(Struct, frozen=True, tag="submission"):
    """A batch that is about to be submitted."""

    mark: str
    """Identifies the submission, before the service has given the batch an id."""
    role: str
    author: str
    """The model and all that its replies depend on, as in `RunManifest.authors`."""
    form: str
    """The variant of the service's format in which the requests are written."""
    keys: tuple[str, ...]
    """Keys of the requests."""
    since: float
    """Seconds since 1970."""
    earlier: tuple[str, ...] = ()
    """Ids of batches of the account that were there before and could be taken for this one."""


class Acceptance(Struct, frozen=True, tag="acceptance"):
    """The service has accepted a batch."""

    mark: str
    batch: str
    """The service's id of the batch."""


class Ending(Struct, frozen=True, tag="ending"):
    """A batch has ended, and its results are stored."""

    mark: str
    word: str
    """The service's word for how it ended, such as completed or expired."""


class Count(Struct, frozen=True, tag="count"):
    """The failures in a batch were counted; a later session submits these requests again."""

    mark: str


class Loss(Struct, frozen=True, tag="loss"):
    """A batch was not carried out, or never reached the service. Its requests are free to be submitted."""

    mark: str
    why: str


Event = Submission | Acceptance | Ending | Count | Loss
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
        self.word = ""
        """How it ended; empty while it is open."""
        self.is_counted = False

    @property
    def is_open(self) -> bool:
        """Whether its results have not been fetched yet."""
        return not self.word


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
        """Yield the recorded events, the oldest first; raises StoreError for a damaged line."""
        if not self.path.exists():
            return
        for number, line in enumerate(read_file(self.path).split(b"\n"), 1):
            try:
                if line:
                    yield _decode(line)
            except JSON_FAULTS as error:
                raise StoreError(
                    f"{self.path}:{number}: {error}; correct the line or remove it: a batch without its line "
                    "is submitted, and paid, again"
                ) from None

    def _apply(self, event: Event) -> None:
        """Change the batches by one event: submitted, accepted, ended, counted or lost."""
        if isinstance(event, Submission):
            self._batches[event.mark] = RunBatch(event)
            return
        batch = self._batches.get(event.mark)
        if batch is None:
            return
        if isinstance(event, Acceptance):
            batch.id = event.batch
        elif isinstance(event, Ending):
            batch.word = event.word
        elif isinstance(event, Count):
            batch.is_counted = True
        else:
            del self._batches[event.mark]

    def add(self, event: Event) -> None:
        """Write an event to the disk. Raises StoreError."""
        try:
            file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
            try:
                # A process that was killed within a line leaves it without an end.
                size = os.fstat(file).st_size
                is_torn = size > 0 and os.pread(file, 1, size - 1) != b"\n"
                os.write(file, b"\n" * is_torn + _encode(event) + b"\n")
                os.fsync(file)
            finally:
                os.close(file)
            sync_folder(self._folder)
        except OSError as error:
            raise unwritable(self._folder, error, write_elsewhere()) from None
        self._apply(event)

    def batch(self, mark: str) -> RunBatch:
        """Return the batch of a submission."""
        return self._batches[mark]

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

    def keep_results(self, batch: RunBatch, content: bytes, word: str) -> None:
        """Store the results of a batch, and that it has ended. Raises StoreError."""
        path = self._results(batch)
        try:
            path.parent.mkdir(exist_ok=True)
            write_atomically(path, content)
        except OSError as error:
            raise unwritable(self._folder, error, write_elsewhere()) from None
        self.add(Ending(batch.submission.mark, word))

    def results(self, batch: RunBatch) -> Iterator[bytes]:
        """Yield the lines of a batch's results. Raises StoreError."""
        path = self._results(batch)
        try:
            content = read_file(path)
        except OSError as error:
            raise StoreError(f"{path}: cannot be read ({error.strerror})") from None
        for line in content.split(b"\n"):
            if line.strip():
                yield line

    def _results(self, batch: RunBatch) -> Path:
        return self._folder / RESULTS / f"{batch.submission.mark}.jsonl"


def open_keys(folder: Path) -> frozenset[str]:
    """Return the keys of the requests that are in batches which have not ended."""
    keys: set[str] = set()
    for batch in BatchLedger(folder).unfetched():
        keys |= batch.keys
    return frozenset(keys)


def check_no_open_batches(folder: Path, batched: Mapping[str, bool]) -> None:
    """Check that no request of open batches would be sent, and paid, again.

    Args:
        folder: The folder of the run.
        batched: Whether the model of each role submits batches.

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
