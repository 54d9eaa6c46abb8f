"""The database's door: functions that read, and functions that write, each in a transaction of its own.

On SQLite one thread writes. While it waits for the disk, what comes in queues up, and the next commit takes all of it
(group commit), each in a savepoint, so that one that fails takes no other with it. A write is acknowledged after its
commit is on disk (WAL, `synchronous=FULL`), so neither `kill -9` nor a power cut loses one that was. On
PostgreSQL a pool of threads writes, and the database groups commits itself.

Migrations bring it to the schema of this version, step by step. A whole server folder is copied while it serves, and
put back into an empty one.
"""

from __future__ import annotations

import asyncio
import os
import queue
import re
import sqlite3
import tarfile
import tempfile
import threading
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from alembic.script.revision import ResolutionError
from alembic.util.exc import CommandError
from sqlalchemy import Connection, Engine, create_engine, event, text
from sqlalchemy.exc import ArgumentError, InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as SQLAlchemyTimeoutError
from sqlalchemy.pool import ConnectionPoolEntry

from snellen import DataError, SnellenError, StoreError
from snellen.plugin_api import open_file, write_ahead
from snellen_server.hosting.configuration import DATABASE, KEY_FILE, PICTURES, Configuration

Found = TypeVar("Found")
Given = ParamSpec("Given")
Work = Callable[Concatenate[Connection, Given], Found]
"""A function of a connection, and of what else a caller of the door gives."""
LARGEST_COMMIT = 200
"""Writes of one commit at most."""
MOST_WAITING = 4000
"""Writes that wait at most; more are turned away, so that a flood is refused and not remembered."""
READERS = 4
WRITERS = 8
"""Threads that write to PostgreSQL."""
BUSY_MILLISECONDS = 10_000
STORAGE_FAULTS = {
    sqlite3.SQLITE_BUSY,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_CANTOPEN,
}
"""What SQLite reports when its file cannot be used; its other errors are of the statement."""
CONNECT_SECONDS = 5
"""For a connection to PostgreSQL."""


class BusyError(StoreError):
    """Too much waits to be written; asking again a little later will do."""


class UnavailableError(StoreError):
    """The database cannot be reached, or cannot write; told to the client as 503."""


class MissingError(DataError):
    """There is no such thing, or it is somebody else's; the error does not say which. Told to the client as 404."""


class ConflictError(DataError):
    """It is not in the state that this step needs; told to the client as 409."""


@dataclass(frozen=True)
class _Write:
    work: Callable[[Connection], Any]
    future: Future[Any]


class Database:
    """A database of one server. Functions given to it are short, touch nothing but their connection, and must not
    ask it for anything in turn. What else is given with one goes to it after the connection.

    `on_commit` is told after each commit how many writes it took, and how many seconds."""

    def __init__(
        self, url: str, on_commit: Callable[[int, float], None] = lambda writes, seconds: None
    ) -> None:
        """Open a database.

        Args:
            url: The address of an SQLite file or a PostgreSQL server, as SQLAlchemy writes it.
            on_commit: Called after each commit with the number of writes in it and the seconds it took.

        Raises:
            DataError: The address is of another kind of database.
            SnellenError: The driver of PostgreSQL is not installed.
        """
        self._on_commit = on_commit
        if not url.startswith(("sqlite:///", "postgresql+psycopg://")):
            raise DataError(
                f"database {_without_password(url)} is not of PostgreSQL; write postgresql://USER@HOST/NAME"
            )
        try:
            self.is_sqlite = url.startswith("sqlite")
            self.engine = (
                _sqlite_engine(url, reads=False) if self.is_sqlite else _server_engine(url)
            )
            reading = _sqlite_engine(url, reads=True) if self.is_sqlite else self.engine
        except ModuleNotFoundError as error:
            raise SnellenError(
                f"the database {_without_password(url)} needs the package {error.name}: pip install 'psycopg[binary]'"
            ) from None
        except ArgumentError as error:
            raise DataError(
                f"database {_without_password(url)}: {error}; write postgresql://USER@HOST/NAME"
            ) from None
        self._reading = (
            reading.execution_options()
            if self.is_sqlite
            else reading.execution_options(postgresql_readonly=True)
        )
        self._readers = ThreadPoolExecutor(READERS, "snellen-read")
        self._writers = None if self.is_sqlite else ThreadPoolExecutor(WRITERS, "snellen-write")
        self._waiting: queue.Queue[_Write | None] = queue.Queue()
        self._is_closed = False
        if self.is_sqlite:
            self._writer = threading.Thread(
                target=self._write_on, name="snellen-write", daemon=True
            )
            self._writer.start()

    # --- the door ------------------------------------------------------------------------------------------------

    async def read(
        self, work: Work[Given, Found], *args: Given.args, **keywords: Given.kwargs
    ) -> Found:
        """Call `work` with a connection that cannot write, and return its result."""
        return await asyncio.wrap_future(
            self._readers.submit(self._read, lambda connection: work(connection, *args, **keywords))
        )

    async def write(
        self, work: Work[Given, Found], *args: Given.args, **keywords: Given.kwargs
    ) -> Found:
        """Call `work` in a transaction, and return its result once what it wrote is on disk.

        An exception of `work` undoes all it wrote, and is raised here. Raises BusyError when too much is waiting.
        """
        return await asyncio.wrap_future(
            self._begin_write(lambda connection: work(connection, *args, **keywords))
        )

    def read_now(
        self, work: Work[Given, Found], *args: Given.args, **keywords: Given.kwargs
    ) -> Found:
        """`read` for code that is not asynchronous; it blocks."""
        return self._readers.submit(
            self._read, lambda connection: work(connection, *args, **keywords)
        ).result()

    def write_now(
        self, work: Work[Given, Found], *args: Given.args, **keywords: Given.kwargs
    ) -> Found:
        """`write` for code that is not asynchronous; it blocks."""
        return self._begin_write(lambda connection: work(connection, *args, **keywords)).result()

    def close(self) -> None:
        """Finish what waits, and let go of the database."""
        self._is_closed = True
        if self._writers is None:
            self._waiting.put(None)
            self._writer.join()
        else:
            self._writers.shutdown()
        self._readers.shutdown()
        self._reading.dispose()
        self.engine.dispose()

    @property
    def waiting(self) -> int:
        """Writes that wait, roughly."""
        return self._waiting.qsize()

    # --- threads -------------------------------------------------------------------------------------------------

    def _read(self, work: Callable[[Connection], Found]) -> Found:
        with _available(), self._reading.connect() as connection, connection.begin():
            return work(connection)

    def _begin_write(self, work: Callable[[Connection], Found]) -> Future[Found]:
        """Queue a write; the result is the future value of `work`.

        PostgreSQL writes on several threads, SQLite on a single one that joins waiting writes into one commit.
        """
        if self._is_closed:
            raise StoreError("the database is closed because the server is stopping")
        if self._writers is not None:
            return self._writers.submit(self._write_alone, work)
        if self._waiting.qsize() >= MOST_WAITING:
            raise BusyError(f"{MOST_WAITING} writes are waiting; try again in a moment")
        future: Future[Found] = Future()
        self._waiting.put(_Write(work, future))
        return future

    def _write_alone(self, work: Callable[[Connection], Found]) -> Found:
        """Do one write in a transaction of its own."""
        started_at = time.perf_counter()
        with _available(), self.engine.begin() as connection:
            result = work(connection)
        self._on_commit(1, time.perf_counter() - started_at)
        return result

    def _write_on(self) -> None:
        """Commit all waiting writes together, again and again; None ends the queue.

        This is the thread that writes to SQLite.
        """
        is_open = True
        while is_open:
            writes: list[_Write | None] = [self._waiting.get()]
            while len(writes) < LARGEST_COMMIT and not self._waiting.empty():
                writes.append(self._waiting.get())
            is_open = None not in writes
            started_at = time.perf_counter()
            pending = [
                write for write in writes if write and write.future.set_running_or_notify_cancel()
            ]
            if pending:
                self._commit(pending)
                self._on_commit(len(pending), time.perf_counter() - started_at)

    def _commit(self, writes: list[_Write]) -> None:
        """Carry out all of them in one transaction, and only then say so."""
        outcomes: list[tuple[Any, Exception | None]] = []
        try:
            with _available(), self.engine.begin() as connection:
                outcomes.extend(_in_savepoint(connection, write.work) for write in writes)
        except Exception as error:  # whatever it is, each of those that wait is told
            outcomes = [(None, error)] * len(writes)
        for write, (result, fault) in zip(writes, outcomes, strict=True):
            if fault is None:
                write.future.set_result(result)
            else:
                write.future.set_exception(fault)


@contextmanager
def _available() -> Iterator[None]:
    """Raise UnavailableError for what is the fault of the database and not of what was asked."""
    try:
        yield
    except (OperationalError, InterfaceError, SQLAlchemyTimeoutError) as error:
        code = getattr(getattr(error, "orig", None), "sqlite_errorcode", None)
        if code is not None and code & 0xFF not in STORAGE_FAULTS:
            raise
        message = "the database does not answer; try again in a moment"
        raise UnavailableError(message) from error


def _in_savepoint(
    connection: Connection, work: Callable[[Connection], Any]
) -> tuple[Any, Exception | None]:
    """Do one of several writes of a transaction; if it fails, only this one is undone.

    Returns:
        The value of `work` and None, or None and the error.
    """
    try:
        with _available(), connection.begin_nested():
            return work(connection), None
    except Exception as error:  # it belongs to the one who asked
        # A full disk makes SQLite give up the whole transaction, and with it the writes before this one.
        driver = connection.connection.dbapi_connection
        if driver is None or not driver.in_transaction:
            raise
        return None, error


def _sqlite_engine(url: str, *, reads: bool) -> Engine:
    """Return an engine for an SQLite file with a write-ahead log, either for reading or for writing."""
    engine = create_engine(
        url, connect_args={"timeout": BUSY_MILLISECONDS / 1000}, pool_size=READERS
    )

    @event.listens_for(engine, "connect")
    def prepare(connection: Any, _entry: ConnectionPoolEntry) -> None:
        connection.isolation_level = None
        write_ahead(connection, BUSY_MILLISECONDS / 1000)
        for pragma in (
            "synchronous=FULL",
            "foreign_keys=ON",
            f"query_only={'ON' if reads else 'OFF'}",
        ):
            connection.execute(f"PRAGMA {pragma}")

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        # A write takes its lock at once: one that reads first could not get it any more after another's commit.
        connection.exec_driver_sql("BEGIN" if reads else "BEGIN IMMEDIATE")

    return engine


def _server_engine(url: str) -> Engine:
    """Return an engine for a PostgreSQL server."""
    return create_engine(
        url,
        pool_size=READERS + WRITERS,
        max_overflow=0,
        pool_pre_ping=True,
        connect_args={"connect_timeout": CONNECT_SECONDS},
    )


def _without_password(url: str) -> str:
    """Return the URL without what may be a password."""
    scheme, _, place = url.partition("://")
    return f"{scheme}://{place.rpartition('@')[2]}"


_ENVIRONMENT = "snellen_server.hosting.migrations"
_LOCK = 0x536E656C
"""A number of our own, under which PostgreSQL lets one process migrate at a time."""


def migrate(database: Database, packages: Sequence[str], target: str = "heads") -> None:
    """Carry out the migrations of the house and of `packages` that are still to be done.

    Raises StoreError for a database of a later version, or of a feature that is not installed.
    """
    with database.engine.connect() as connection:
        if not database.is_sqlite:
            connection.execute(text("SELECT pg_advisory_lock(:lock)"), {"lock": _LOCK})
            connection.commit()
        try:
            settings = _settings(packages)
            settings.attributes["connection"] = connection
            command.upgrade(settings, target)
        except (CommandError, ResolutionError) as error:
            raise StoreError(
                f"the database holds what this installation does not know ({error}); install the version of Snellen, "
                "and the packages of features, that wrote it"
            ) from None
        finally:
            connection.rollback()
            if not database.is_sqlite:
                connection.execute(text("SELECT pg_advisory_unlock(:lock)"), {"lock": _LOCK})
                connection.commit()


def steps(packages: Sequence[str]) -> list[str]:
    """Return all revisions, in an order in which they can be carried out one by one."""
    revisions = ScriptDirectory.from_config(_settings(packages)).walk_revisions("base", "heads")
    return [revision.revision for revision in revisions][::-1]


def revisions_of(connection: Connection) -> tuple[str, ...]:
    """Return the latest revision that was carried out in each branch."""
    return tuple(sorted(MigrationContext.configure(connection).get_current_heads()))


@cache
def heads(packages: tuple[str, ...]) -> tuple[str, ...]:
    """Return what `revisions_of` finds in a database of this version, without revisions that others depend on."""
    scripts = ScriptDirectory.from_config(_settings(packages))
    needed = {
        name for revision in scripts.walk_revisions() for name in _names(revision.dependencies)
    }
    return tuple(sorted(set(scripts.get_heads()) - needed))


def _names(names: str | Iterable[str] | None) -> Iterable[str]:
    return (names,) if isinstance(names, str) else names or ()


def _settings(packages: Sequence[str]) -> Config:
    """Return the settings of Alembic, which finds the migrations of these packages and of the server itself."""
    settings = Config()
    settings.set_main_option("script_location", _folder(_ENVIRONMENT))
    settings.set_main_option("path_separator", "newline")
    settings.set_main_option(
        "version_locations", "\n".join(map(_folder, (f"{_ENVIRONMENT}.versions", *packages)))
    )
    return settings


def _folder(package: str) -> str:
    """Return the folder of a package, which needs no `__init__.py` if it only has revisions."""
    return str(import_module(package).__path__[0])


def back_up(configuration: Configuration, archive: Path) -> int:
    """Write the database, as of one moment, with the images and the key into a tar file; how many images.

    The server may serve meanwhile: the database is copied first, and an image is never changed. The file holds the key
    and all that people sent, and is readable by its owner alone. Raises StoreError, also for a database elsewhere.
    """
    if configuration.database:
        raise StoreError(
            "this server's database is not in its folder; use pg_dump for it (docs/server.md)"
        )
    source = configuration.folder / DATABASE
    if not source.is_file():
        raise StoreError(
            f"{configuration.folder} is not the folder of a server: {DATABASE} is missing"
        )
    with tempfile.TemporaryDirectory(dir=configuration.folder) as passing:
        copy = Path(passing) / DATABASE
        with closing(sqlite3.connect(source)) as live, closing(sqlite3.connect(copy)) as copied:
            live.backup(copied)
            copied.execute("PRAGMA journal_mode=DELETE")
        pictures = [
            path
            for path in sorted((configuration.folder / PICTURES).glob("??/*"))
            if not path.suffix
        ]
        try:
            descriptor = os.open(archive, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        except OSError as error:
            raise StoreError(
                f"{archive} cannot be written ({error.strerror}); choose another file"
            ) from None
        with os.fdopen(descriptor, "wb") as file:
            with tarfile.open(fileobj=file, mode="w") as tar:
                tar.add(copy, DATABASE)
                tar.add(configuration.folder / KEY_FILE, KEY_FILE)
                for path in pictures:
                    tar.add(path, str(path.relative_to(configuration.folder)))
            file.flush()
            os.fsync(file.fileno())
    return len(pictures)


_BACKED_UP = re.compile(rf"{DATABASE}|{KEY_FILE}|{PICTURES}/[^/]+/[^/]+")
"""Names of the files that `back_up` writes."""


def restore(archive: Path, folder: Path) -> None:
    """Put a backup into a folder that is empty or not there, and check the database. Raises StoreError, DataError."""
    if folder.exists() and any(folder.iterdir()):
        raise StoreError(f"{folder} is not empty; restore into a new folder, then move it")
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        with open_file(archive) as file, tarfile.open(fileobj=file) as tar:
            for member in tar:
                if not (member.isfile() and _BACKED_UP.fullmatch(member.name)):
                    raise DataError(
                        f"{archive} is not a backup of a server: it holds {member.name!r}, which a backup never does"
                    )
                tar.extract(member, folder, filter="data")
    except OSError as error:
        raise DataError(
            f"{archive} cannot be read as a backup ({error.strerror or error})"
        ) from None
    except (tarfile.TarError, EOFError, zlib.error) as error:
        raise DataError(f"{archive} cannot be read as a backup ({error})") from None
    database = folder / DATABASE
    for name in (DATABASE, KEY_FILE):
        if not (folder / name).is_file():
            raise DataError(f"{archive} is not a backup of a server: it has no {name}")
    (folder / KEY_FILE).chmod(0o600)
    with closing(sqlite3.connect(database)) as connection:
        [(outcome,)] = connection.execute("PRAGMA integrity_check(1)").fetchall()
    if outcome != "ok":
        raise DataError(f"{archive}: the database in it is damaged ({outcome})")
