"""The runs that a session shows: find them in folders, index new or grown ones, and query the index."""

from __future__ import annotations

import hashlib
import os
import sqlite3
import threading
import time
from array import array
from collections import Counter, defaultdict
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
from snellen.models.identity import ADDRESS, address_of, identifying_string
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
REINDEX_PAUSE_FACTOR = 10
"""Least time between two indexings of a growing run, in multiples of the time that indexing took."""
MIN_REINDEX_PAUSE_SECONDS = 2.0
MAX_CACHED_RESULTS = 64


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
    def was_scored_since(self) -> bool:
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
        if self.manifest is None:
            return ""
        name, _, _ = identifying_string(self.manifest.model).partition("@/")
        return name

    @property
    def address(self) -> str:
        """Addresses of the servers of its model; empty if it has none."""
        if self.manifest is None:
            return ""
        return self.manifest.fingerprint.get(ADDRESS, "") or address_of(self.manifest.model)


class RunLibrary:
    """All runs in some folders and their subfolders, with an index of their results. Several threads may use it.

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
        self._cached: dict[Hashable, Any] = {}
        self._generation = 0
        self._indexed_states: list[tuple[int, float]] = []
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
        indexed_by_folder: dict[str, _IndexedRun] = {}
        with self._connection() as connection:
            rows = connection.execute(
                "SELECT folder, id, fault, summary, indexed, seconds, stamp FROM run"
            )
            for folder, *columns in rows:
                indexed_by_folder[folder] = _IndexedRun(*columns)
        states = [(indexed.id, indexed.indexed) for indexed in indexed_by_folder.values()]
        self._forget_if_changed(sorted(states))

        runs: list[ShownRun] = []
        for name, path in zip(run_names(folders), folders, strict=True):
            runs.append(_shown_run(name, path, indexed_by_folder.get(str(path))))
        runs = _with_distinct_labels(runs, shows_hosts=self._shows_hosts)

        def start_time(run: ShownRun) -> str:
            return run.manifest.started if run.manifest else ""

        return sorted(runs, key=start_time, reverse=True)

    def is_behind(self, runs: Sequence[ShownRun]) -> bool:
        """Return whether pages are incomplete because some of these runs are not indexed yet."""
        if self.is_indexing:
            return True
        for run in runs:
            is_indexed = run.id >= 0
            can_be_indexed = bool(run.manifest) and not run.fault
            if can_be_indexed and not is_indexed:
                return True
        return False

    def _forget_if_changed(self, states: list[tuple[int, float]]) -> None:
        """Clear the cache if the index has changed; another session may have done so."""
        with self._reading:
            if states != self._indexed_states:
                self._indexed_states = states
                self._cached.clear()
                self._generation += 1

    def refresh(self, *, skip_recent: bool = False) -> None:
        """Bring the index up to date: index runs that are new or have changed, and remove runs that no longer exist.

        Only one thread does this at a time.

        Args:
            skip_recent: Whether to skip runs that were indexed a short time ago (`REINDEX_PAUSE_FACTOR`), and to return at
                once if another thread is indexing. Otherwise the call waits for that thread.
        """
        if not self._indexing.acquire(blocking=not skip_recent):
            return
        try:
            with closing(open_index(self.index)) as connection:
                runs = self.runs()
                outdated: list[tuple[ShownRun, str]] = []
                for run in runs:
                    if run.manifest is None or (skip_recent and not _is_due_for_indexing(run)):
                        continue
                    stamp = run_stamp(run.folder, run.manifest)
                    if run.stamp != stamp:
                        outdated.append((run, stamp))

                self.is_indexing = bool(outdated)
                forget_runs(connection, [run.folder for run in runs])
                for run, stamp in outdated:
                    index_run(connection, run.folder, stamp, self._shows_answers)
                if outdated:
                    join_runs(connection)
            if outdated:
                with self._reading:
                    self._cached.clear()
                    self._generation += 1
        finally:
            self.is_indexing = False
            self._indexing.release()

    def refresh_in_background(self) -> None:
        """Start a thread that calls `refresh(skip_recent=True)`."""
        threading.Thread(target=self._try_to_refresh, daemon=True).start()

    def _try_to_refresh(self) -> None:
        """Update the index, and note why if that fails."""
        try:
            self.refresh(skip_recent=True)
            self.fault = ""
        except (sqlite3.Error, OSError, SnellenError) as error:
            self.fault = f"the index {self.index} cannot be updated: {error}"

    def selection(self, chosen: QuestionFilter, runs: Sequence[ShownRun]) -> array[int]:
        """Return the ids of the questions that match a filter, in the order of the filter.

        The result is remembered until the index changes.

        Args:
            chosen: The filter.
            runs: The runs that the filter can name.
        """
        run_ids = {run.name: run.id for run in runs}
        query, parameters = select_questions(chosen, run_ids)

        def read_ids() -> array[int]:
            # Fetching one text is faster than fetching a hundred thousand rows of one number.
            [(ids_json,)] = self.rows(f"SELECT json_group_array(id) FROM ({query})", *parameters)
            ids = msgspec.json.decode(ids_json, type=list[int])
            return array("q", ids)

        return self.cached(("selection", chosen.selection), read_ids)

    def details(self, run: ShownRun) -> RunDetails:
        """Return the details of a run for its page, from the index."""
        rows = self.rows("SELECT details FROM run WHERE id = ?", run.id)
        return msgspec.json.decode(rows[0][0], type=RunDetails) if rows else RunDetails()

    def cached(self, name: Hashable, make: Callable[[], T]) -> T:
        """Return the result of a function, which is computed once and then remembered until the index changes.

        Args:
            name: The name under which the result is remembered. It must contain everything that the result depends on.
            make: The function.
        """
        with self._reading:
            if name in self._cached:
                value: T = self._cached[name]
                return value
            generation = self._generation
        value = make()  # without the lock, because it may take long
        with self._reading:
            index_has_changed = generation != self._generation
            if not index_has_changed:
                while len(self._cached) >= MAX_CACHED_RESULTS:
                    oldest_name = next(iter(self._cached))
                    del self._cached[oldest_name]
                self._cached[name] = value
        return value

    def _connection(self) -> closing[sqlite3.Connection]:
        return reading(self.index)

    def rows(self, query: str, *values: object) -> list[Any]:
        """Return the rows of an SQL query, which must not contain text from users; `values` are its parameters."""
        with self._connection() as connection:
            return connection.execute(query, values).fetchall()


def find_runs(roots: Sequence[Path]) -> list[Path]:
    """Return the folders of all runs in some folders and their subfolders, each once."""
    folders: dict[Path, None] = {}
    for root in roots:
        for manifest in _find_manifests(root):
            folders[manifest.parent] = None
    return list(folders)


def _find_manifests(root: Path) -> Iterator[Path]:
    """Yield the manifest of each run in a folder and its subfolders. The inside of a run is not searched."""
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
def _cached_manifest(folder: Path, changed: int) -> RunManifest:
    """Read a manifest. The time of its last change is part of the cache key."""
    return read_manifest(folder)


def _shown_run(name: str, folder: Path, row: _IndexedRun | None) -> ShownRun:
    """Return a run as the pages show it.

    Args:
        name: Its name on the pages.
        folder: Its folder. If the manifest there cannot be read, the result only has the error message.
        row: Its row in the index; None if it is not indexed yet.
    """
    try:
        manifest = _cached_manifest(folder, (folder / RUN_MANIFEST).stat().st_mtime_ns)
    except (OSError, SnellenError) as error:
        return ShownRun(name, folder, None, fault=str(error))
    if row is None:
        return ShownRun(name, folder, manifest)
    return ShownRun(
        name=name,
        folder=folder,
        manifest=manifest,
        id=row.id,
        fault=row.fault,
        summary=msgspec.json.decode(row.summary, type=RunSummary),
        indexed=row.indexed,
        seconds=row.seconds,
        stamp=row.stamp,
    )


def _with_distinct_labels(runs: Sequence[ShownRun], *, shows_hosts: bool) -> list[ShownRun]:
    """Add the server to the labels of runs whose models have the same name on different servers.

    Args:
        runs: The runs.
        shows_hosts: Whether readers may see the addresses of servers. Otherwise the labels have `server 1`, `server
            2` and so on.
    """
    addresses_by_model: dict[str, list[str]] = defaultdict(list)
    for run in runs:
        addresses = addresses_by_model[run.model_name]
        if run.address and run.address not in addresses:
            addresses.append(run.address)

    labelled: list[ShownRun] = []
    for run in runs:
        addresses = addresses_by_model[run.model_name]
        if not run.address or len(addresses) < 2:
            labelled.append(run)
            continue
        number = addresses.index(run.address) + 1
        server = run.address if shows_hosts else f"server {number}"
        labelled.append(replace(run, server=server))
    return labelled


class _IndexedRun(Struct, frozen=True):
    """A row of the table of runs in the index."""

    id: int
    fault: str
    summary: bytes
    indexed: float
    seconds: float
    stamp: str


def _is_due_for_indexing(run: ShownRun) -> bool:
    """Return whether a run that may still be growing should be indexed again now.

    A growing run waits for a while, so that indexing does not take all the time; the pause is a multiple of the
    time that indexing took last. A run that has been scored since then is complete and does not wait.
    """
    pause = max(MIN_REINDEX_PAUSE_SECONDS, REINDEX_PAUSE_FACTOR * run.seconds)
    seconds_since_indexing = time.time() - run.indexed
    return run.was_scored_since or seconds_since_indexing > pause


# --- questions that went the other way in another run ----------------------------------------------------------------


class FlipCounts(Struct, frozen=True):
    """Numbers of questions of a benchmark that only one of two runs answered correctly, under one protocol."""

    first: str
    second: str
    benchmark: str
    """Empty for all benchmarks together."""
    protocol: str
    only_first: int
    only_second: int
    common: int
    """Number of questions that have a verdict in both runs."""


def flip_counts(library: RunLibrary, first: ShownRun, second: ShownRun) -> list[FlipCounts]:
    """Count the questions that only one of two runs answered correctly, for each protocol and benchmark of both."""
    rows = library.rows(_FLIP_COUNTS_QUERY, first.id, second.id)
    return [FlipCounts(first.name, second.name, *columns) for columns in rows]


def previous_run(run: ShownRun, runs: Sequence[ShownRun]) -> ShownRun | None:
    """Return the latest earlier run of the same model that has a benchmark in common with a run.

    Args:
        run: The run.
        runs: All runs, the latest first.

    Returns:
        The run; None if there is none in the index.
    """
    for other in runs:
        is_indexed = other.id >= 0
        if is_indexed and _precedes(other, run):
            return other
    return None


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


_FLIP_COUNTS_QUERY = f"""
SELECT question.benchmark, protocol, sum(one.outcome = {RIGHT} AND other.outcome != {RIGHT}),
  sum(one.outcome != {RIGHT} AND other.outcome = {RIGHT}), count(*)
FROM entry AS one JOIN entry AS other USING (question, protocol) JOIN question ON question.id = question
WHERE one.run = ? AND other.run = ?
AND one.outcome IN ({RIGHT}, {WRONG}, {UNPARSED}) AND other.outcome IN ({RIGHT}, {WRONG}, {UNPARSED})
GROUP BY question.benchmark, protocol ORDER BY protocol, question.benchmark
"""
