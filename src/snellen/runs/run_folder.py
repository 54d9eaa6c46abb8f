"""A run folder: its manifest, one writer at a time, and what was written stays.

manifest.json       what was asked of which model, and all that the answers depend on
journal-0.jsonl     one Exchange per line, in order of arrival; one file per worker
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from difflib import get_close_matches
from pathlib import Path

import msgspec
from msgspec import Struct

from snellen.building.benchmark import ChosenPart, Part, RandomPart, Selection
from snellen.common.foreign import LimitError, NotAFileError, read_file
from snellen.common.paths import as_word
from snellen.errors import StoreError
from snellen.formats.json_files import JSON_FAULTS
from snellen.formats.whole_files import unwritable, write_atomically
from snellen.models.base import answers_as
from snellen.models.object_digest import DECLARE, is_of_content, why_not_fingerprinted
from snellen.records import EVALUATED, Decoding
from snellen.runs.spec import ExecutionSpec, QuestionSpec

# --- what it needs from the file system -------------------------------------------------------------------------------


LOCK = ".lock"
ELSEWHERE = "choose a folder you can write with --runs"
RECEIVED = "received"
"""The folder that lines name into which packed runs are unpacked; `runs` may have runs of the same names."""


@contextmanager
def locked_run(folder: Path) -> Iterator[int]:
    """Hold a run folder, made where it is not there, for one command.

    Yields the lock's file, which the command's worker processes inherit: the folder stays held until the last of them
    has ended. Raises StoreError."""
    file = _opened(folder, LOCK)
    lock_file(file, folder)
    try:
        yield file
    finally:
        os.close(file)


@contextmanager
def locked_share(folder: Path, shares: int) -> Iterator[None]:
    """Hold a run folder together with others that ask a share of it, out of as many. Raises StoreError."""
    with ExitStack() as locks:
        for name in (LOCK, f"{LOCK}-{shares}"):
            file = _opened(folder, name)
            lock_file(file, folder, shared=True)
            locks.callback(os.close, file)
        # Whoever comes second sees the first one's lock.
        for lock in folder.glob(f"{LOCK}-*"):
            if lock.name != f"{LOCK}-{shares}":
                file = _opened(folder, lock.name)
                lock_file(file, folder)
                os.close(file)
        yield


def _opened(folder: Path, name: str) -> int:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return os.open(folder / name, os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as error:
        raise unwritable(folder, error, ELSEWHERE) from None


def lock_file(file: int, folder: Path, *, shared: bool = False) -> None:
    """Lock an open file of a run folder, or close it. Raises StoreError when somebody else holds it."""
    try:
        fcntl.flock(file, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except OSError:
        os.close(file)
        raise StoreError(
            f"{folder} is in use by another run; wait for it, or choose another --name"
        ) from None


@contextmanager
def held_while_scored(folder: Path) -> Iterator[None]:
    """Hold a run folder that was asked for as long as the same command scores it, so that whoever looks sees that it
    goes on; does without where that cannot be, as scoring disturbs nobody."""
    with ExitStack() as hold:
        with suppress(StoreError):
            hold.enter_context(locked_run(folder))
        yield


def is_held(folder: Path) -> bool:
    """Whether a command works on a run folder now. Nothing is written; who holds it is not disturbed."""
    try:
        # Network file systems lock only what is open for writing.
        file = os.open(folder / LOCK, os.O_RDONLY if is_read_only(folder / LOCK) else os.O_RDWR)
    except OSError:  # never held, or copied without its lock
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # one of these, and a folder of somebody else's
        return False
    finally:
        os.close(file)
    return False


def cut_torn_line(file: int) -> None:
    """Drop what follows the last line break: a line that a killed run did not finish."""
    size = os.fstat(file).st_size
    end, step = size, 1 << 16
    while end > 0:
        start = max(end - step, 0)
        newline = os.pread(file, end - start, start).rfind(b"\n")
        if newline >= 0:
            end = start + newline + 1
            break
        end = start
    if end < size:
        os.ftruncate(file, end)


def is_read_only(run: Path) -> bool:
    """Whether a run's folder, or a file in it, cannot be written by this user."""
    effective = os.access in os.supports_effective_ids
    return not os.access(run, os.W_OK, effective_ids=effective)


# --- the manifest -----------------------------------------------------------------------------------------------------


RUN_FORMAT = 3
RUN_MANIFEST = "manifest.json"
MANIFEST_COPY = ".manifest.json"
"""A copy of the manifest, from which `snellen mend` restores a damaged one."""
JOURNALS = "journal-*.jsonl"
MOST_NAMED = 3
"""Runs that a message names."""


class BenchmarkUse(Struct, frozen=True):
    """One benchmark as it takes part in a run."""

    name: str
    version: str
    folder: str
    where: str = ""
    limit: int | None = None
    protocols: tuple[str, ...] = ()
    """Labels of the protocols that asked it; empty for all protocols of the run."""
    questions: str = ""
    """The digest of its questions, which a build with other answers shares."""
    part: Part | None = None
    """Which pictures a rule has let the run ask, or which samples it chose; None for all."""
    examples_from: str = ""
    """The folder of the benchmark whose examples were shown before its questions; empty where none were."""
    examples: str = ""
    """SHA-256 of the file of these examples."""
    origin: str = ""
    """Where the files it was built from come from, in words."""

    @property
    def selection(self) -> Selection:
        return Selection(self.where, self.limit, self.part)

    def fits(self, version: str, questions: str) -> bool:
        """Whether a build of this version asks what was asked; its answers may have been hidden then."""
        return self.version == version or "" != self.questions == questions


class RoleModel(Struct, frozen=True):
    """A model of a run besides the evaluated one. The fields are as in the manifest."""

    model: str
    fingerprint: dict[str, str]
    left_as: dict[str, str] = {}
    answers_by_sample: bool = False

    @property
    def identity(self) -> str:
        """Its name without how it is reached."""
        return answers_as(self.model)


class Stretch(Struct, frozen=True):
    """A part of a run in which its models were reached in the same way, at servers that stated the same."""

    started: str
    """UTC, ISO 8601."""
    models: dict[str, str]
    """By role, the model string as it was given then; the evaluated model's role is ''."""
    servers: dict[str, dict[str, str]] = {}
    """By role, what the model's servers stated about it then; roles whose servers stated nothing are absent."""


class RunManifest(Struct, frozen=True):
    """Describes a run: enough to resume it, to score it, and to tell where its numbers come from."""

    format: int
    model: str
    fingerprint: dict[str, str]
    benchmarks: tuple[BenchmarkUse, ...]
    protocols: tuple[str, ...]
    templates: str
    """Digest of the template file."""
    asked: tuple[QuestionSpec, ...]
    """What the calls of this run asked, each once; none for imported predictions."""
    software: dict[str, str]
    hardware: dict[str, str]
    started: str
    """UTC, ISO 8601."""
    notes: tuple[str, ...] = ()
    """What a reader of its numbers needs to know."""
    left_as: dict[str, str] = {}
    """The fingerprint that an object of the user's program had when it had last answered, if it changes in answering
    (it counts, it keeps a cache): both are of the model that answered."""
    answers_by_sample: bool = False
    """Whether the model looks up which sample asks, so that samples that ask the same may get different replies."""
    roles: dict[str, RoleModel] = {}
    """The other models that the run asks, by role."""
    stretches: tuple[Stretch, ...] = ()
    """How the models were reached, and what their servers stated, in order; a new one begins where that has changed."""
    words: dict[str, str] = {}
    """By protocol, the version of its wording besides the templates; protocols without such wording are absent."""
    executed: tuple[ExecutionSpec, ...] = ()
    """How the calls were carried out; equal settings are listed once."""
    authors_by_journal: dict[str, str] = {}
    """By role, who answered, as the journals say. Only in a manifest that was lost and that `snellen mend` has made
    from the journals; the run's command writes a whole one again."""

    @property
    def made_elsewhere(self) -> bool:
        """Whether another toolkit asked: what has not come never will."""
        return not self.asked

    @property
    def undecided(self) -> tuple[str, ...]:
        """The benchmarks that two models were asked until one is shown to be better, and were stopped before."""
        parts = ((use.name, use.part) for use in self.benchmarks)
        return tuple(
            name for name, part in parts if isinstance(part, RandomPart) and part.awaits_verdict
        )

    @property
    def adaptive_rules(self) -> tuple[str, ...]:
        """The procedures that chose questions of this run by earlier replies; empty for most runs."""
        rules = [use.part.rule for use in self.benchmarks if isinstance(use.part, ChosenPart)]
        return tuple(dict.fromkeys(rules))

    @property
    def by_sample(self) -> frozenset[str]:
        """The roles whose models look up which sample asks."""
        roles = (role for role, use in self.roles.items() if use.answers_by_sample)
        return frozenset([EVALUATED, *roles] if self.answers_by_sample else roles)

    @property
    def authors(self) -> dict[str, str]:
        """Who answers in each role: the model's name, and a digest of its fingerprint and of how it is asked."""
        if self.authors_by_journal:
            return self.authors_by_journal
        models = {EVALUATED: (answers_as(self.model), self.fingerprint)}
        models |= {role: (use.identity, use.fingerprint) for role, use in self.roles.items()}
        settings = (self.templates, self.decoding, self.prefix, *self.few_shot)
        return {
            role: f"{name}#{_digest((name, facts, settings))}"
            for role, (name, facts) in models.items()
        }

    @property
    def decoding(self) -> Decoding:
        """How replies were sampled; the longest has length 0 where each benchmark has its own limit."""
        return self.asked[0].decoding if self.asked else Decoding()

    @property
    def prefix(self) -> bool:
        return bool(self.asked) and self.asked[0].prefix

    @property
    def few_shot(self) -> tuple[int, ...]:
        """How many examples were shown before each question, and how they were drawn; empty where none were."""
        return self.asked[0].few_shot_drawing if self.asked else ()


def journals(folder: Path) -> list[Path]:
    return sorted(folder.glob(JOURNALS))


def holds_answers(folder: Path) -> bool:
    """Whether anything was written into the journals of a folder."""
    return any(path.is_file() and path.stat().st_size for path in journals(folder))


def read_manifest(folder: Path) -> RunManifest:
    """Raises StoreError for a folder that is not a run, or a run of another version."""
    path = folder / RUN_MANIFEST
    try:
        raw = read_file(path)
    except (NotAFileError, LimitError) as error:
        raise StoreError(f"{path}: cannot be read ({error.strerror})") from None
    except OSError:
        if line := unpacking_line(folder):
            raise StoreError(line) from None
        again = (
            "; its journals hold answers: the command of the run, given again, goes on"
            * holds_answers(folder)
        )
        raise StoreError(
            f"{folder} is not a run ({RUN_MANIFEST} is missing){again or near_runs(folder)}"
        ) from None
    try:
        return decode_manifest(folder, raw)
    except JSON_FAULTS as error:
        fault = str(error) if raw.strip(b"\0 \n") else "it is empty, as after a loss of power"
        raise StoreError(
            f"{path} is damaged ({fault}); `snellen mend {as_word(folder)}` restores it"
        ) from None


def decode_manifest(folder: Path, raw: bytes) -> RunManifest:
    """Decode the manifest of a run. Raises JSON_FAULTS for damage, StoreError for a run of another format."""
    version = msgspec.json.decode(raw, type=dict[str, msgspec.Raw]).get("format", b"none")
    if bytes(version) != str(RUN_FORMAT).encode():
        raise StoreError(
            f"{folder} is a run of format {bytes(version).decode()}, this Snellen reads {RUN_FORMAT}; "
            "choose another --name, or use the Snellen that made it"
        )
    return msgspec.json.decode(raw, type=RunManifest)


def unpacking_line(path: Path) -> str:
    """What to do with an archive that is named where a run is wanted; empty for anything else."""
    if path.suffix != ".zip" or not path.is_file():
        return ""
    unpack = shlex.join(("python", "-m", "zipfile", "-e", str(path), RECEIVED))
    return (
        f"{path} is an archive; unpack it first with `{unpack}`, and name {RECEIVED} or a run in it"
    )


def near_runs(folder: Path) -> str:
    """What to name instead of a folder that is no run: runs in it, else runs beside it with a name like its own, else
    the latest beside it; where there are none, how to make one."""
    if inside := _runs_in(folder):
        return f"; name runs in it: {_few(inside)}"
    beside = _runs_in(folder.parent)
    near = get_close_matches(folder.name, [run.name for run in beside])
    if near:
        return f"; did you mean {' or '.join(str(folder.parent / name) for name in near)}?"
    if beside:
        return f"; there are {_few(beside)}"
    return "; make one with `snellen demo`, or with `snellen run MODEL BENCHMARK`"


def _runs_in(folder: Path) -> list[Path]:
    """The latest first."""
    manifests = sorted(
        folder.glob(f"*/{RUN_MANIFEST}"), key=lambda path: path.stat().st_mtime, reverse=True
    )
    return [manifest.parent for manifest in manifests]


def _few(runs: Sequence[Path]) -> str:
    more = len(runs) - MOST_NAMED
    return ", ".join(map(str, runs[:MOST_NAMED])) + (f" and {more:,} more" if more > 0 else "")


def write_manifest(folder: Path, manifest: RunManifest) -> None:
    """Write the manifest of a run, and a copy from which it can be restored. Raises StoreError."""
    content = msgspec.json.format(msgspec.json.encode(manifest), indent=2)
    write_atomically(folder / MANIFEST_COPY, content)
    write_atomically(folder / RUN_MANIFEST, content)


def _digest(facts: object) -> str:
    return hashlib.blake2b(msgspec.json.encode(facts, order="sorted"), digest_size=4).hexdigest()


# --- whether stored answers are those of the model at hand: by its fingerprint, never by its name alone ---------------


def check_identity(folder: Path, name: str, fingerprint: Mapping[str, str]) -> None:
    """Raise StoreError where a folder holds answers of an object that may have changed since, as far as anyone can
    tell."""
    why = why_not_fingerprinted(fingerprint)
    if why and holds_answers(folder):
        raise StoreError(
            f"{folder} holds answers of {name}, and nothing says whether it is still the same ({why}); {DECLARE}, or "
            "choose another folder (--name)"
        )


def changed_fact(earlier: Mapping[str, str], now: Mapping[str, str]) -> str:
    """The first fact that differs between two fingerprints, in words; empty when none does."""
    for name in sorted({*earlier, *now}):
        if earlier.get(name) != now.get(name):
            return f"{name} was {earlier.get(name)}, is {now.get(name)}"
    return ""


def way_out(fingerprint: Mapping[str, str]) -> str:
    """What to do where a fingerprint has changed."""
    if is_of_content(fingerprint):
        return f"choose another --name or, where its answers do not depend on that, {DECLARE}"
    return "choose another --name"
