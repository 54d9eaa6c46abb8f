"""Replies of earlier runs: a cache of replies by model and request, and the model `replay:RUN`, which repeats a run."""

from __future__ import annotations

import hashlib
import sqlite3
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

import msgspec

from snellen.callers import for_caller, setting
from snellen.common.images import Images
from snellen.errors import StoreError
from snellen.models.base import ALL_KINDS, ShownByName
from snellen.models.model_strings import ModelSpec
from snellen.models.object_digest import NOT_FINGERPRINTED
from snellen.records import Exchange, Failure, Request, RequestKind, Response
from snellen.runs.journal import read_exchanges
from snellen.runs.journal_lines import request_identity
from snellen.runs.run_folder import read_manifest
from snellen.runs.server_checks import ServerFacts, changed_server_fact

# --- a cache in an SQLite file, which several processes may share ------------------------------------------------------


PAUSE_SECONDS = 0.01
"""Seconds between two attempts to change the mode of a locked database."""


def write_ahead(connection: sqlite3.Connection, seconds: float) -> None:
    """Put a database into WAL mode, waiting up to `seconds` for other processes that open it at the same moment.

    SQLite's own timeout does not apply here: a process that reads the mode while another changes it fails at once.

    Raises sqlite3.Error if the file is not a database or stays locked.

    Examples:
        >>> connection = sqlite3.connect("index.sqlite")
        >>> write_ahead(connection, seconds=5)
        >>> connection.execute("PRAGMA journal_mode").fetchone()
        ('wal',)
        >>> connection.close()
    """
    deadline = time.monotonic() + seconds
    while True:
        try:
            connection.execute("PRAGMA journal_mode=WAL")
            return
        except sqlite3.OperationalError as error:
            is_locked = error.sqlite_errorcode == sqlite3.SQLITE_BUSY
            if not is_locked or time.monotonic() >= deadline:
                raise
        time.sleep(PAUSE_SECONDS)


CACHE_FILE = "answers.sqlite"
CACHE_FORMAT = 1
TIMEOUT_SECONDS = 60.0
"""How long a process waits for another one that writes."""

_response_decoder = msgspec.json.Decoder(Response)


class AnswerCache:
    """Cache of replies in a folder, which is created if it does not exist.

    Args:
        folder: The folder.
        authors: Digest of the model by role (`ModelIdentity`). Replies of other roles, and replies sampled without a
            seed, are not cached.
        servers: What the servers of each model state now, by the same digest.
        moved: Whether to accept replies from before the servers' statements changed.

    Raises:
        StoreError: The folder cannot be used, or servers stated something else when cached replies were given.
    """

    def __init__(
        self,
        folder: Path,
        authors: Mapping[str, str],
        servers: Mapping[str, ServerFacts] = MappingProxyType({}),
        *,
        moved: bool = False,
    ) -> None:
        self._path = folder / CACHE_FILE
        self._authors = authors
        self._servers = servers
        try:
            folder.mkdir(parents=True, exist_ok=True)
            # In a notebook, the run uses the cache in another thread than the one that opens it.
            self._file = sqlite3.connect(
                self._path, timeout=TIMEOUT_SECONDS, isolation_level=None, check_same_thread=False
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
        """Create the tables if they are missing; raises StoreError if the file has another format."""
        write_ahead(self._file, TIMEOUT_SECONDS)
        # A power failure may lose the last replies here, but the journals of their runs have them.
        self._file.execute("PRAGMA synchronous=NORMAL")
        [version] = self._file.execute("PRAGMA user_version").fetchone()
        if version not in (0, CACHE_FORMAT):
            raise StoreError(
                f"{self._path} has format {version}, not {CACHE_FORMAT}; choose another folder with {setting('cache')}"
            )
        self._file.execute(
            "CREATE TABLE IF NOT EXISTS answers (asked BLOB PRIMARY KEY, response BLOB) WITHOUT ROWID"
        )
        self._file.execute(
            "CREATE TABLE IF NOT EXISTS servers "
            "(author TEXT, fact TEXT, value TEXT, PRIMARY KEY (author, fact, value)) WITHOUT ROWID"
        )
        self._file.execute(f"PRAGMA user_version={CACHE_FORMAT}")

    def _check_servers(self) -> None:
        """Raise StoreError if a server reports something else than when the cached replies were written."""
        for author, facts in self._servers.items():
            known_facts: dict[str, set[str]] = {}
            rows = self._file.execute("SELECT fact, value FROM servers WHERE author = ?", (author,))
            for fact, value in rows:
                known_facts.setdefault(fact, set()).add(value)
            changed = changed_server_fact(known_facts, facts)
            if changed:
                raise StoreError(
                    f"{self._path} contains replies from before the model's server changed what it reports "
                    f"({changed}); if it is the same model, add "
                    f"{for_caller('--moved (moved=True)', 'moved=True')}, otherwise choose another folder with {setting('cache')}"
                )

    def find(self, request: Request) -> Response | None:
        """Return the reply of the same model to the same request in any run; None if there is none.

        Raises:
            StoreError: The cache cannot be read.
        """
        cache_key = self._cache_key(request)
        if cache_key is None:
            return None
        try:
            row = self._file.execute(
                "SELECT response FROM answers WHERE asked = ?", (cache_key,)
            ).fetchone()
        except sqlite3.Error as error:
            raise self._unusable(error) from None
        if row is None:
            return None
        [encoded_response] = row
        return _response_decoder.decode(encoded_response)

    def keep(
        self, exchanges: Iterable[Exchange], *, replaced: Collection[str] = frozenset()
    ) -> None:
        """Store replies, except failures. Of two replies to the same request, the first is kept.

        What the servers of the models state about themselves is stored as well.

        Args:
            exchanges: Requests and replies.
            replaced: Keys of requests whose new reply replaces an earlier one.

        Raises:
            StoreError: The cache cannot be written.
        """
        answer_rows: list[tuple[bytes, bytes]] = []
        outdated_keys: list[tuple[bytes]] = []
        for exchange in exchanges:
            cache_key = self._cache_key(exchange.request)
            if exchange.response.error is not None or not cache_key:
                continue
            answer_rows.append((cache_key, msgspec.json.encode(exchange.response)))
            if exchange.request.key in replaced:
                outdated_keys.append((cache_key,))
        if not answer_rows:
            return
        server_rows: list[tuple[str, str, str]] = []
        for author, facts in self._servers.items():
            for fact, value in facts.items():
                server_rows.append((author, fact, value))
        try:
            self._file.execute("BEGIN IMMEDIATE")
            self._file.executemany("DELETE FROM answers WHERE asked = ?", outdated_keys)
            self._file.executemany("INSERT OR IGNORE INTO answers VALUES (?, ?)", answer_rows)
            self._file.executemany("INSERT OR IGNORE INTO servers VALUES (?, ?, ?)", server_rows)
            self._file.execute("COMMIT")
        except sqlite3.Error as error:
            raise self._unusable(error) from None

    def close(self) -> None:
        self._file.close()

    def _cache_key(self, request: Request) -> bytes | None:
        """Return the key under which the reply to a request is cached: a digest of the model and the request.

        Returns:
            None if the reply must not be cached, because it is random or its model is not known.
        """
        author = self._authors.get(request.role)
        is_random = request.decoding.temperature > 0 and not request.decoding.seed
        if author is None or is_random:
            return None
        # A request's key includes the role, but the same model may have another role in another run.
        without_role = msgspec.structs.replace(request, role="")
        content = f"{author} {without_role.key}"
        return hashlib.blake2b(content.encode(), digest_size=16).digest()

    def _unusable(self, error: Exception) -> StoreError:
        """Return the error for a cache that cannot be read or written."""
        return StoreError(
            f"{self._path} cannot be used ({error}); choose another folder with {setting('cache')}, or remove it"
        )


# --- a model that repeats the replies of an earlier run ---------------------------------------------------------------


class Replay(ShownByName):
    """Model that repeats the replies of an earlier run. Any other request fails."""

    kinds: frozenset[RequestKind] = ALL_KINDS
    batch_size = 1024

    def __init__(self, name: str, folder: Path) -> None:
        """Read the successful replies of the run in a folder."""
        self.name = name
        self._manifest = read_manifest(folder)
        self.answers_by_sample = bool(self._manifest.by_sample)
        self._responses: dict[bytes, Response] = {}
        for exchange in read_exchanges(folder):
            if exchange.response.error is None:
                self._responses[self._identity(exchange.request)] = exchange.response

    def fingerprint(self) -> dict[str, str]:
        """Return the properties that identify the replayed run's model, such as a digest of its weights.

        Properties of models in other roles have the role before their name.
        """
        properties = {"replay of": self._manifest.model, **self._manifest.fingerprint}
        for role, role_model in self._manifest.roles.items():
            properties[role] = role_model.model
            for name, value in role_model.fingerprint.items():
                properties[f"{role}: {name}"] = value

        # A note that the replayed model has no fingerprint is not a property of the replay, which never changes.
        fingerprint = {}
        for name, value in properties.items():
            if not name.endswith(NOT_FINGERPRINTED):
                fingerprint[name] = value
        return fingerprint

    def _identity(self, request: Request) -> bytes:
        """Return the digest by which the reply to a request is found."""
        return request_identity(request, self._manifest.by_sample)

    def generate(self, requests: Sequence[Request], images: Images) -> list[Response]:
        """Return the recorded reply to each request, or an error where there is none."""
        missing = Response(
            error=Failure("not recorded", "the replayed run has no reply to this request")
        )
        return [self._responses.get(self._identity(request), missing) for request in requests]

    loglikelihood = generate


def open_replay(spec: ModelSpec) -> Replay:
    """Return the replaying model of a spec. Raises StoreError if the folder is not a run."""
    return Replay(spec.text, Path(spec.target))
