"""The runs that a session shows: find them in folders, index new or grown ones, and query the index."""

from __future__ import annotations

import hashlib
import os
import sqlite3
import threading
import time
from array import array
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import closing
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from snellen.common.paths import snellen_home
from snellen.errors import SnellenError, StoreError
from snellen.models.identity import ADDRESS, address_of, answers_as
from snellen.runs.run_folder import (
    RUN_MANIFEST,
    RunManifest,
    journals,
    read_manifest,
    suggest_runs,
    suggest_unpacking,
)
from snellen.viewing.filters import QuestionFilter, select_questions
from snellen.viewing.index_database import (
    RIGHT,
    UNPARSED,
    WRONG,
    forget_runs,
    join_runs,
    open_index,
    reading,
)
from snellen.viewing.indexing import ShowsAnswers, all_answers, index_run, run_stamp
from snellen.viewing.run_summary import RunDetails, RunSummary
from snellen.viewing.running import RESULTS

T = TypeVar("T")
REST = 10
"""Least time between two indexings of a growing run, in multiples of the time that indexing took."""
LEAST_REST = 2.0
MOST_KEPT = 64


class ShownRun(Struct, frozen=True):
    """One run of the session, from its folder and the index."""

    name: str
    """Name of its folder, with as much of the path as needed to be unique."""
    folder: Path
    manifest: RunManifest | None
    """None if the folder cannot be read; `fault` then has the reason."""
    id: int = -1
    """Id in the index; -1 before it is indexed."""
    fault: str = ""
    summary: RunSummary = RunSummary()
    indexed: float = 0.0
    """Time of indexing in seconds since 1970; 0 before it is indexed."""
    seconds: float = 0.0
    """Duration of indexing."""
    stamp: str = ""
    """State of the run's files when it was indexed (`run_stamp`)."""
    server: str = ""
    """Address of its model, if the library has models of this name at several addresses; else empty."""

    @property
    def ended_since(self) -> bool:
        """Whether the run was scored again after it was indexed."""
        if self.id < 0 or self.manifest is None:
            return False
        try:
            results_time = (self.folder / RESULTS).stat().st_mtime
        except OSError:
            return False
        if results_time <= self.indexed - self.seconds:
            return False
        return self.stamp != run_stamp(self.folder, self.manifest)

    @property
    def label(self) -> str:
        """Name of its model, with the address only if it distinguishes two models."""
        if self.manifest is None:
            return self.name
        return f"{self.model_name} at {self.server}" if self.server else self.model_name

    @property
    def model_name(self) -> str:
        """Name of its model without the address; empty for a run that cannot be read."""
        return answers_as(self.manifest.model).split("@/")[0] if self.manifest else ""

    @property
    def address(self) -> str:
        """Addresses of the servers of its model; empty if it has none."""
        if self.manifest is None:
            return ""
        return self.manifest.fingerprint.get(ADDRESS, "") or address_of(self.manifest.model)


class RunLibrary:
    """All runs in some folders and their subfolders, and their index. Safe for several threads.

    Examples:
        >>> results = sn.evaluate("snellen:oracle", "eyechart/colour", limit=4, report=False)
        >>> library = RunLibrary([Path("runs")])
        >>> len(library.runs())
        1
    """

    def __init__(
        self,
        roots: Sequence[Path],
        index: Path | None = None,
        shows_answers: ShowsAnswers = all_answers,
        *,
        may_be_empty: bool = False,
        shows_hosts: bool = True,
    ) -> None:
        """Open the index of some folders.

        Args:
            roots: The folders.
            index: File of the index; by default one in $SNELLEN_HOME for these folders.
            shows_answers: Returns whether the answers of a benchmark may be shown.
            may_be_empty: Whether to accept folders without runs, because the first can be started from the pages.
            shows_hosts: Whether readers of the pages may see the addresses of servers.

        Raises:
            StoreError: There is no run, unless `may_be_empty`.
        """
        self._shows_answers = shows_answers
        self._shows_hosts = shows_hosts
        self.roots = [root.absolute() for root in roots]
        root_names = "\0".join(sorted(map(str, self.roots)))
        digest = hashlib.blake2b(root_names.encode(), digest_size=8).hexdigest()
        self.index = index or snellen_home() / "views" / f"{digest}.sqlite"
        self._indexing = threading.Lock()
        self._reading = threading.Lock()
        self._kept: dict[Hashable, Any] = {}
        self._generation = 0
        self._seen: list[tuple[int, float]] = []
        self.is_indexing = False
        self.fault = ""
        """Why the last update of the index failed; empty if it succeeded."""
        if not may_be_empty and not find_runs(self.roots):
            suggestions = [suggest_unpacking(root) for root in roots]
            for suggestion in suggestions:
                if suggestion:
                    raise StoreError(suggestion)
            missing = [root for root in roots if not root.exists()]
            if missing:
                raise StoreError(f"there is no folder {missing[0]}{suggest_runs(missing[0])}")
            folders = ", ".join(map(str, roots))
            raise StoreError(
                f"{folders}: no runs found ({RUN_MANIFEST} is missing); give the folder of a run, or a folder that "
                "contains runs"
            )
        open_index(self.index).close()

    def runs(self) -> list[ShownRun]:
        """Return the runs that are in the watched folders now, the latest one first."""
        folders = find_runs(self.roots)
        with self._connection() as connection:
            rows = connection.execute(
                "SELECT folder, id, fault, summary, indexed, seconds, stamp FROM run"
            )
            indexed = {folder: _Row(*columns) for folder, *columns in rows}
        self._forget_if_changed(sorted((row.id, row.indexed) for row in indexed.values()))

        runs: list[ShownRun] = []
        for name, folder in zip(run_names(folders), folders, strict=True):
            runs.append(_shown(name, folder, indexed.get(str(folder))))
        runs = _with_distinct_labels(runs, shows_hosts=self._shows_hosts)

        def start_time(run: ShownRun) -> str:
            return run.manifest.started if run.manifest else ""

        return sorted(runs, key=start_time, reverse=True)

    def is_behind(self, runs: Sequence[ShownRun]) -> bool:
        """Return whether pages are incomplete because some of these runs are not indexed yet."""
        waiting = (run for run in runs if run.id < 0 and run.manifest and not run.fault)
        return self.is_indexing or any(waiting)

    def _forget_if_changed(self, states: list[tuple[int, float]]) -> None:
        """Clear the cache if the index has changed; another session may have done so."""
        with self._reading:
            if states != self._seen:
                self._seen = states
                self._kept.clear()
                self._generation += 1

    def refresh(self, *, rested: bool = False) -> None:
        """Index the runs that are new or have grown. Only one thread does this at a time.

        With `rested`, runs that were indexed a short time ago (`REST`) are skipped, and the call returns at once if
        another thread is indexing.
        """
        if not self._indexing.acquire(blocking=not rested):
            return
        try:
            with closing(open_index(self.index)) as connection:
                runs = self.runs()
                due = [
                    (run, run.manifest)
                    for run in runs
                    if run.manifest and (not rested or _may_be_indexed(run))
                ]
                stamps = [(run, run_stamp(run.folder, manifest)) for run, manifest in due]
                stale = [(run, stamp) for run, stamp in stamps if run.stamp != stamp]
                self.is_indexing = bool(stale)
                forget_runs(connection, [run.folder for run in runs])
                for run, stamp in stale:
                    index_run(connection, run.folder, stamp, self._shows_answers)
                if stale:
                    join_runs(connection)
            if stale:
                with self._reading:
                    self._kept.clear()
                    self._generation += 1
        finally:
            self.is_indexing = False
            self._indexing.release()

    def refresh_in_background(self) -> None:
        """Start a thread that calls `refresh(rested=True)`."""
        threading.Thread(target=self._try_to_refresh, daemon=True).start()

    def _try_to_refresh(self) -> None:
        """Update the index, and note why if that fails."""
        try:
            self.refresh(rested=True)
            self.fault = ""
        except (sqlite3.Error, OSError, SnellenError) as error:
            self.fault = f"the index {self.index} cannot be updated: {error}"

    def selection(self, chosen: QuestionFilter, runs: Sequence[ShownRun]) -> array[int]:
        """Return the numbers of the questions that pass a filter, in the order that the filter chooses.

        The result is remembered until the index changes.
        """
        run_ids = {run.name: run.id for run in runs}
        query, values = select_questions(chosen, run_ids)

        def ids() -> array[int]:
            # Fetching one text is faster than fetching a hundred thousand rows of one number.
            [(text,)] = self.rows(f"SELECT json_group_array(id) FROM ({query})", *values)
            return array("q", msgspec.json.decode(text, type=list[int]))

        return self.once(("selection", chosen.selection), ids)

    def details(self, run: ShownRun) -> RunDetails:
        """Return the details of a run for its page, from the index."""
        rows = self.rows("SELECT details FROM run WHERE id = ?", run.id)
        return msgspec.json.decode(rows[0][0], type=RunDetails) if rows else RunDetails()

    def once(self, name: Hashable, make: Callable[[], T]) -> T:
        """Return the result of `make`, cached under a name until the index changes."""
        with self._reading:
            if name in self._kept:
                cached: T = self._kept[name]
                return cached
            generation = self._generation
        value = make()
        with self._reading:
            if generation == self._generation:
                while len(self._kept) >= MOST_KEPT:
                    del self._kept[next(iter(self._kept))]
                self._kept[name] = value
        return value

    def _connection(self) -> closing[sqlite3.Connection]:
        return reading(self.index)

    def rows(self, query: str, *values: object) -> list[Any]:
        """Return the rows of an SQL query, which must not contain text from users; `values` are its parameters."""
        with self._connection() as connection:
            return connection.execute(query, values).fetchall()


def find_runs(roots: Sequence[Path]) -> list[Path]:
    """Return the distinct folders of runs among these folders and their subfolders."""
    folders = (path.parent for root in roots for path in _manifests(root))
    return list(dict.fromkeys(folders))


def _manifests(root: Path) -> Iterator[Path]:
    """Yield the manifests of runs in a folder and its subfolders, but not inside of runs."""
    manifest = root / RUN_MANIFEST
    if manifest.is_file():
        yield manifest
        return
    for folder, folders, names in os.walk(root):
        manifest = Path(folder, RUN_MANIFEST)
        if RUN_MANIFEST in names and (journals(manifest.parent) or _is_run(manifest)):
            folders.clear()  # do not search inside of a run
            yield manifest
        folders.sort()


def _is_run(manifest: Path) -> bool:
    """Return whether a manifest is a run's, rather than another file of this name."""
    try:
        read_manifest(manifest.parent)
    except SnellenError:
        return False
    return True


def run_names(folders: Sequence[Path]) -> list[str]:
    """Return a short, unique name for each folder: as many of the last parts of its path as are needed.

    For `a/run`, `b/run` and `c/other` the names are `a/run`, `b/run` and `other`.
    """
    names = [folder.name for folder in folders]
    longest = max((len(folder.parts) for folder in folders), default=0)
    for depth in range(2, longest + 1):
        counts = Counter(names)
        if all(count == 1 for count in counts.values()):
            break
        longer_names: list[str] = []
        for name, folder in zip(names, folders, strict=True):
            is_unique = counts[name] == 1
            longer_names.append(name if is_unique else "/".join(folder.parts[-depth:]))
        names = longer_names
    return names


@lru_cache(maxsize=4096)
def _manifest_at(folder: Path, changed: int) -> RunManifest:
    """Read a manifest. The time of its last change is part of the cache key."""
    return read_manifest(folder)


def _shown(name: str, folder: Path, row: _Row | None) -> ShownRun:
    """Return a run as the pages show it.

    Args:
        name: Its name.
        folder: Its folder. If the manifest in it cannot be read, the result has the error message.
        row: What the index has of it; None if it is not indexed yet.
    """
    try:
        manifest = _manifest_at(folder, (folder / RUN_MANIFEST).stat().st_mtime_ns)
    except (OSError, SnellenError) as error:
        return ShownRun(name, folder, None, fault=str(error))
    if row is None:
        return ShownRun(name, folder, manifest)
    summary = msgspec.json.decode(row.summary, type=RunSummary)
    return ShownRun(
        name, folder, manifest, row.id, row.fault, summary, row.indexed, row.seconds, row.stamp
    )


def _with_distinct_labels(runs: Sequence[ShownRun], *, shows_hosts: bool) -> list[ShownRun]:
    """Add the server to runs whose models have the same name but different addresses, so that a user can distinguish them.

    Args:
        runs: The runs.
        shows_hosts: Whether to show the address. If not, servers are numbered.
    """
    addresses: dict[str, dict[str, None]] = {}
    for run in runs:
        if run.address:
            addresses.setdefault(run.model_name, {})[run.address] = None
    labelled = []
    for run in runs:
        addresses_of_name = list(addresses.get(run.model_name, {}))
        if len(addresses_of_name) > 1 and run.address:
            number = addresses_of_name.index(run.address) + 1
            server = run.address if shows_hosts else f"server {number}"
            labelled.append(replace(run, server=server))
        else:
            labelled.append(run)
    return labelled


class _Row(Struct, frozen=True):
    """What the index says of a run."""

    id: int
    fault: str
    summary: bytes
    indexed: float
    seconds: float
    stamp: str


def _may_be_indexed(run: ShownRun) -> bool:
    return run.ended_since or time.time() - run.indexed > max(LEAST_REST, REST * run.seconds)


# --- questions that went the other way in another run ----------------------------------------------------------------


class FlipCounts(Struct, frozen=True):
    """How many questions of a benchmark one of two runs has right and the other has not."""

    first: str
    second: str
    benchmark: str
    """Empty for all benchmarks together."""
    protocol: str
    only_first: int
    only_second: int
    common: int
    """Questions that are right or not in both runs."""


def flip_counts(library: RunLibrary, first: ShownRun, second: ShownRun) -> list[FlipCounts]:
    """By protocol and benchmark."""
    return [
        FlipCounts(first.name, second.name, *row)
        for row in library.rows(_FLIPS, first.id, second.id)
    ]


def previous_run(run: ShownRun, runs: Sequence[ShownRun]) -> ShownRun | None:
    """The latest earlier run of the same model that shares a benchmark with it; None if there is none."""
    earlier = (
        other for other in runs if other.id >= 0 and _precedes(other, run)
    )  # the latest first
    return next(earlier, None)


def _precedes(earlier: ShownRun, run: ShownRun) -> bool:
    """Return whether one run is an earlier run of the same model as another, with a benchmark in common."""
    if earlier.manifest is None or run.manifest is None:
        return False
    if earlier.manifest.model != run.manifest.model:
        return False
    if earlier.manifest.started >= run.manifest.started:
        return False
    earlier_names = {use.name for use in earlier.manifest.benchmarks}
    names = {use.name for use in run.manifest.benchmarks}
    return bool(earlier_names & names)


_FLIPS = f"""
SELECT question.benchmark, protocol, sum(one.outcome = {RIGHT} AND other.outcome != {RIGHT}),
  sum(one.outcome != {RIGHT} AND other.outcome = {RIGHT}), count(*)
FROM entry AS one JOIN entry AS other USING (question, protocol) JOIN question ON question.id = question
WHERE one.run = ? AND other.run = ?
AND one.outcome IN ({RIGHT}, {WRONG}, {UNPARSED}) AND other.outcome IN ({RIGHT}, {WRONG}, {UNPARSED})
GROUP BY question.benchmark, protocol ORDER BY protocol, question.benchmark
"""
