"""Answers of earlier runs: a cache by who answered and what was asked, and `replay:RUN`, a model that gives them."""

from __future__ import annotations

import hashlib
import sqlite3
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

import msgspec

from snellen.common.images import Images
from snellen.errors import StoreError
from snellen.models.base import ALL_KINDS, ShownByName
from snellen.models.model_strings import ModelSpec
from snellen.models.object_digest import NOT_FINGERPRINTED
from snellen.records import Exchange, Failure, Kind, Request, Response
from snellen.runs.journal import read_exchanges
from snellen.runs.journal_lines import request_identity
from snellen.runs.run_folder import read_manifest
from snellen.runs.server_checks import ServerFacts, changed_server_fact

# --- one SQLite file, which several processes may share ---------------------------------------------------------------


PAUSE = 0.01
"""Seconds between two attempts."""


def write_ahead(connection: sqlite3.Connection, seconds: float) -> None:
    """Put a database into WAL mode, waiting up to `seconds` for others that open it at the same moment.

    SQLite does not wait there, whatever the connection's timeout: a process that reads the mode while another changes
    it is refused at once. Raises sqlite3.Error for a file that is not a database or stays locked.
    """
    until = time.monotonic() + seconds
    while True:
        try:
            connection.execute("PRAGMA journal_mode=WAL")
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() >= until:
                raise
        time.sleep(PAUSE)


FILE = "answers.sqlite"
FORMAT = 1
SECONDS = 60.0
"""How long one process waits for another that writes."""

_response = msgspec.json.Decoder(Response)


class AnswerCache:
    """The cache in a folder, which is created if it does not exist. Raises StoreError if it cannot be used.

    `authors` has, by role, a digest of who answers (`ModelIdentity`); answers of other roles are never cached, nor are
    replies that are sampled without a seed.

    `servers` has, by the same digest, what the author's server states now. If the answers in the cache are from when it
    stated something else, StoreError is raised, unless the model has `moved`.
    """

    def __init__(
        self,
        folder: Path,
        authors: Mapping[str, str],
        servers: Mapping[str, ServerFacts] = MappingProxyType({}),
        *,
        moved: bool = False,
    ) -> None:
        self._path, self._authors, self._servers = folder / FILE, authors, servers
        try:
            folder.mkdir(parents=True, exist_ok=True)
            # In a notebook the run goes on in another thread than the one that opens it, never in two at once.
            self._file = sqlite3.connect(
                self._path, timeout=SECONDS, isolation_level=None, check_same_thread=False
            )
            try:
                self._open()
                if not moved:
                    self._check_servers()
            except BaseException:
                self.close()
                raise
        except (sqlite3.Error, OSError) as error:
            raise self._unusable(error) from None

    def _open(self) -> None:
        write_ahead(self._file, SECONDS)
        # A loss of power may take the last answers from here; the journals of their runs have them.
        self._file.execute("PRAGMA synchronous=NORMAL")
        [version] = self._file.execute("PRAGMA user_version").fetchone()
        if version not in (0, FORMAT):
            raise StoreError(
                f"{self._path} is of format {version}, not {FORMAT}; name another folder with --cache"
            )
        self._file.execute(
            "CREATE TABLE IF NOT EXISTS answers (asked BLOB PRIMARY KEY, response BLOB) WITHOUT ROWID"
        )
        self._file.execute(
            "CREATE TABLE IF NOT EXISTS servers "
            "(author TEXT, fact TEXT, value TEXT, PRIMARY KEY (author, fact, value)) WITHOUT ROWID"
        )
        self._file.execute(f"PRAGMA user_version={FORMAT}")

    def _check_servers(self) -> None:
        for author, facts in self._servers.items():
            known: dict[str, set[str]] = {}
            rows = self._file.execute("SELECT fact, value FROM servers WHERE author = ?", (author,))
            for fact, value in rows:
                known.setdefault(fact, set()).add(value)
            if changed := changed_server_fact(known, facts):
                raise StoreError(
                    f"{self._path} holds answers from when the model's server stated something else ({changed}); if "
                    "it is the same model, go on with --moved (moved=True), else name another folder with --cache"
                )

    def find(self, request: Request) -> Response | None:
        """What the same model was answered to the same request, in any run."""
        digest = self._key(request)
        if digest is None:
            return None
        try:
            row = self._file.execute(
                "SELECT response FROM answers WHERE asked = ?", (digest,)
            ).fetchone()
        except sqlite3.Error as error:
            raise self._unusable(error) from None
        return _response.decode(row[0]) if row else None

    def keep(self, exchanges: Iterable[Exchange]) -> None:
        """Keep answers: no failures, and only the first of two answers to the same request."""
        rows = [
            (digest, msgspec.json.encode(exchange.response))
            for exchange in exchanges
            if exchange.response.error is None and (digest := self._key(exchange.request))
        ]
        if not rows:
            return
        stated = [
            (author, fact, value)
            for author, facts in self._servers.items()
            for fact, value in facts.items()
        ]
        try:
            self._file.execute("BEGIN IMMEDIATE")
            self._file.executemany("INSERT OR IGNORE INTO answers VALUES (?, ?)", rows)
            self._file.executemany("INSERT OR IGNORE INTO servers VALUES (?, ?, ?)", stated)
            self._file.execute("COMMIT")
        except sqlite3.Error as error:
            raise self._unusable(error) from None

    def close(self) -> None:
        self._file.close()

    def _key(self, request: Request) -> bytes | None:
        author = self._authors.get(request.role)
        if author is None or (request.decoding.temperature > 0 and not request.decoding.seed):
            return None
        # A request's key says which role is asked, but the same model may have another role in another run.
        return hashlib.blake2b(
            f"{author} {msgspec.structs.replace(request, role='').key}".encode(), digest_size=16
        ).digest()

    def _unusable(self, error: Exception) -> StoreError:
        return StoreError(
            f"{self._path} cannot be used ({error}); name another folder with --cache, or remove it"
        )


# --- a model that gives the responses of an earlier run, found by what was asked --------------------------------------


class Replay(ShownByName):
    """Answers what the earlier run was asked; anything else is a failure, counted as such."""

    kinds: frozenset[Kind] = ALL_KINDS
    batch_size = 1024

    def __init__(self, name: str, folder: Path) -> None:
        self.name = name
        self._manifest = read_manifest(folder)
        self.answers_by_sample = bool(self._manifest.by_sample)
        self._responses = {
            self._identity(exchange.request): exchange.response
            for exchange in read_exchanges(folder)
            if exchange.response.error is None
        }

    def fingerprint(self) -> dict[str, str]:
        facts = {"replay of": self._manifest.model, **self._manifest.fingerprint}
        for role, use in self._manifest.roles.items():
            facts[role] = use.model
            facts.update({f"{role}: {name}": text for name, text in use.fingerprint.items()})
        return {name: text for name, text in facts.items() if not name.endswith(NOT_FINGERPRINTED)}

    def _identity(self, request: Request) -> bytes:
        return request_identity(request, self._manifest.by_sample)

    def generate(self, requests: Sequence[Request], images: Images) -> list[Response]:
        missing = Response(error=Failure("not recorded", "the replayed run was not asked this"))
        return [self._responses.get(self._identity(request), missing) for request in requests]

    loglikelihood = generate


def open_replay(spec: ModelSpec) -> Replay:
    """Raises StoreError when the folder is not a run."""
    return Replay(spec.text, Path(spec.target))
