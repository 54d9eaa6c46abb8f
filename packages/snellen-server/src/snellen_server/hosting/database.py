"""The database of a server: read and write in transactions, migrate the schema, back up and restore.

On SQLite one thread writes. While it waits for the disk, further writes are queued, and the next commit contains all of
them (group commit). Each has a savepoint, so that one that fails does not undo the others. A write is acknowledged after
its commit is on the disk (WAL, `synchronous=FULL`), so that neither `kill -9` nor a power cut loses an acknowledged
write. On PostgreSQL a pool of threads writes, and the database groups commits itself.

Migrations change the schema step by step to that of this version. A backup contains the complete folder of a server,
and can be made while the server runs.
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

ResultT = TypeVar("ResultT")
ArgumentsT = ParamSpec("ArgumentsT")
Work = Callable[Concatenate[Connection, ArgumentsT], ResultT]
"""A function that receives a connection and further arguments, and returns a result."""
MAX_WRITES_PER_COMMIT = 200
MAX_WAITING_WRITES = 4000
"""Maximum number of writes in the queue. Further ones are rejected, so that a flood of them does not fill the memory."""
READERS = 4
"""Threads that read."""
WRITERS = 8
"""Threads that write to PostgreSQL."""
BUSY_MILLISECONDS = 10_000
STORAGE_FAULTS = {
    sqlite3.SQLITE_BUSY,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_CANTOPEN,
}
"""Codes of SQLite's errors about its file. Other codes are about a faulty statement."""
CONNECT_SECONDS = 5
"""Time limit for a connection to PostgreSQL."""


class BusyError(StoreError):
    """Too many writes are waiting. Repeating the request a little later will succeed."""


class UnavailableError(StoreError):
    """The database cannot be reached or written. The client receives the status 503."""


class MissingError(DataError):
    """An object does not exist or belongs to another person, without saying which. The client receives the status 404."""


class ConflictError(DataError):
    """An object is not in the state that a request needs. The client receives the status 409."""


@dataclass(frozen=True)
class _Write:
    """A write in the queue: the function that writes, and the future of its result."""

    work: Callable[[Connection], Any]
    future: Future[Any]


class Database:
    """The database of a server.

    Its methods call functions with a connection. These functions must be short, use only their connection, and must not
    call the database again. Further arguments of the methods are passed to the function after the connection.
    """

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
        self.is_sqlite = url.startswith("sqlite")
        try:
            if self.is_sqlite:
                self.engine = _sqlite_engine(url, reads=False)
                self._reading_engine = _sqlite_engine(url, reads=True).execution_options()
            else:
                self.engine = _postgresql_engine(url)
                self._reading_engine = self.engine.execution_options(postgresql_readonly=True)
        except ModuleNotFoundError as error:
            raise SnellenError(
                f"the database {_without_password(url)} needs the package {error.name}: pip install 'psycopg[binary]'"
            ) from None
        except ArgumentError as error:
            raise DataError(
                f"database {_without_password(url)}: {error}; write postgresql://USER@HOST/NAME"
            ) from None
        self._readers = ThreadPoolExecutor(READERS, "snellen-read")
        self._writers = None if self.is_sqlite else ThreadPoolExecutor(WRITERS, "snellen-write")
        self._waiting: queue.Queue[_Write | None] = queue.Queue()
        self._is_closed = False
        if self.is_sqlite:
            self._writer = threading.Thread(
                target=self._commit_waiting, name="snellen-write", daemon=True
            )
            self._writer.start()

    # --- methods that read and write -------------------------------------------------------------------------------

    async def read(
        self, work: Work[ArgumentsT, ResultT], *args: ArgumentsT.args, **keywords: ArgumentsT.kwargs
    ) -> ResultT:
        """Call a function with a connection that cannot write, and return its result.

        Args:
            work: The function.
            args: Its arguments after the connection.
            keywords: Its keyword arguments.

        Raises:
            UnavailableError: The database cannot be reached.
        """

        def read_with(connection: Connection) -> ResultT:
            return work(connection, *args, **keywords)

        return await asyncio.wrap_future(self._readers.submit(self._read, read_with))

    async def write(
        self, work: Work[ArgumentsT, ResultT], *args: ArgumentsT.args, **keywords: ArgumentsT.kwargs
    ) -> ResultT:
        """Call a function in a transaction, and return its result after the transaction is on the disk.

        An exception of the function undoes all that it wrote, and is raised here.

        Args:
            work: The function.
            args: Its arguments after the connection.
            keywords: Its keyword arguments.

        Raises:
            BusyError: Too many writes are waiting.
            UnavailableError: The database cannot be reached or written.
        """

        def write_with(connection: Connection) -> ResultT:
            return work(connection, *args, **keywords)

        return await asyncio.wrap_future(self._begin_write(write_with))

    def read_now(
        self, work: Work[ArgumentsT, ResultT], *args: ArgumentsT.args, **keywords: ArgumentsT.kwargs
    ) -> ResultT:
        """Do the same as `read` in code that is not asynchronous. The call blocks until the result is there."""

        def read_with(connection: Connection) -> ResultT:
            return work(connection, *args, **keywords)

        return self._readers.submit(self._read, read_with).result()

    def write_now(
        self, work: Work[ArgumentsT, ResultT], *args: ArgumentsT.args, **keywords: ArgumentsT.kwargs
    ) -> ResultT:
        """Do the same as `write` in code that is not asynchronous. The call blocks until the result is there."""

        def write_with(connection: Connection) -> ResultT:
            return work(connection, *args, **keywords)

        return self._begin_write(write_with).result()

    def close(self) -> None:
        """Finish the writes in the queue, and close the database."""
        self._is_closed = True
        if self._writers is None:
            self._waiting.put(None)
            self._writer.join()
        else:
            self._writers.shutdown()
        self._readers.shutdown()
        self._reading_engine.dispose()
        self.engine.dispose()

    @property
    def waiting(self) -> int:
        """Approximate number of writes in the queue."""
        return self._waiting.qsize()

    # --- threads -------------------------------------------------------------------------------------------------

    def _read(self, work: Callable[[Connection], ResultT]) -> ResultT:
        """Call a function with a connection that cannot write. This runs in a thread for reading."""
        with _database_errors(), self._reading_engine.connect() as connection, connection.begin():
            return work(connection)

    def _begin_write(self, work: Callable[[Connection], ResultT]) -> Future[ResultT]:
        """Queue a write, and return the future of its result.

        Writes to PostgreSQL run in several threads. Those to SQLite run in a single thread, which puts the waiting
        writes into one commit.

        Args:
            work: The function that writes.

        Raises:
            StoreError: The database is closed.
            BusyError: Too many writes are waiting.
        """
        if self._is_closed:
            raise StoreError("the database is closed because the server is stopping")
        if self._writers is not None:
            return self._writers.submit(self._write_alone, work)
        if self._waiting.qsize() >= MAX_WAITING_WRITES:
            raise BusyError(f"{MAX_WAITING_WRITES} writes are waiting; try again in a moment")
        future: Future[ResultT] = Future()
        self._waiting.put(_Write(work, future))
        return future

    def _write_alone(self, work: Callable[[Connection], ResultT]) -> ResultT:
        """Call a function that writes in a transaction of its own, and return its result."""
        started_at = time.perf_counter()
        with _database_errors(), self.engine.begin() as connection:
            result = work(connection)
        self._on_commit(1, time.perf_counter() - started_at)
        return result

    def _commit_waiting(self) -> None:
        """Commit all waiting writes together, again and again, until None is taken from the queue.

        This is the thread that writes to SQLite.
        """
        is_open = True
        while is_open:
            taken: list[_Write | None] = [self._waiting.get()]
            while len(taken) < MAX_WRITES_PER_COMMIT and not self._waiting.empty():
                taken.append(self._waiting.get())
            is_open = None not in taken
            started_at = time.perf_counter()
            writes = []
            for write in taken:
                # A write whose caller has gone is cancelled, and left out.
                if write is not None and write.future.set_running_or_notify_cancel():
                    writes.append(write)
            if writes:
                self._commit(writes)
                self._on_commit(len(writes), time.perf_counter() - started_at)

    def _commit(self, writes: list[_Write]) -> None:
        """Carry out several writes in one transaction, and pass each result or error to its future after the commit."""
        outcomes: list[tuple[Any, Exception | None]] = []
        try:
            with _database_errors(), self.engine.begin() as connection:
                for write in writes:
                    outcomes.append(_in_savepoint(connection, write.work))
        except Exception as error:  # any error fails all writes of the transaction
            outcomes = [(None, error)] * len(writes)
        for write, (result, fault) in zip(writes, outcomes, strict=True):
            if fault is None:
                write.future.set_result(result)
            else:
                write.future.set_exception(fault)


@contextmanager
def _database_errors() -> Iterator[None]:
    """Raise UnavailableError in place of errors that are the fault of the database, and not of a statement."""
    try:
        yield
    except (OperationalError, InterfaceError, SQLAlchemyTimeoutError) as error:
        driver_error = getattr(error, "orig", None)
        extended_code = getattr(driver_error, "sqlite_errorcode", None)
        # The lowest byte of SQLite's extended code is the primary code.
        if extended_code is not None and extended_code & 0xFF not in STORAGE_FAULTS:
            raise
        message = "the database does not answer; try again in a moment"
        raise UnavailableError(message) from error


def _in_savepoint(
    connection: Connection, work: Callable[[Connection], Any]
) -> tuple[Any, Exception | None]:
    """Carry out one of several writes of a transaction. If it fails, only this write is undone.

    Args:
        connection: The connection, inside the transaction.
        work: The function that writes.

    Returns:
        The result of the function and None, or None and its error.
    """
    try:
        with _database_errors(), connection.begin_nested():
            return work(connection), None
    except Exception as error:  # it is passed to the caller of this write
        # If the disk is full, SQLite undoes the complete transaction, and with it the writes before this one.
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
        """Set up a new connection to SQLite. A connection for reading cannot change the database."""
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
        # A transaction that writes is locked at its beginning. If it read first, it could not be locked any more
        # after a commit of another process.
        connection.exec_driver_sql("BEGIN" if reads else "BEGIN IMMEDIATE")

    return engine


def _postgresql_engine(url: str) -> Engine:
    """Return an engine for a PostgreSQL server."""
    return create_engine(
        url,
        pool_size=READERS + WRITERS,
        max_overflow=0,
        pool_pre_ping=True,
        connect_args={"connect_timeout": CONNECT_SECONDS},
    )


def _without_password(url: str) -> str:
    """Return the URL of a database without the user and the password."""
    scheme, _, address = url.partition("://")
    _, _, host_and_path = address.rpartition("@")
    return f"{scheme}://{host_and_path}"


_ENVIRONMENT = "snellen_server.hosting.migrations"
_LOCK = 0x536E656C
"""Number of the PostgreSQL lock that lets only one process migrate at a time."""


def migrate(database: Database, packages: Sequence[str], target: str = "heads") -> None:
    """Carry out all migrations that a database still needs.

    Args:
        database: The database.
        packages: Packages with migrations, in addition to those of the server itself.
        target: The revision to stop at; by default the latest ones.

    Raises:
        StoreError: The database is of a later version, or has tables of a feature that is not installed.
    """
    with database.engine.connect() as connection:
        if not database.is_sqlite:
            connection.execute(text("SELECT pg_advisory_lock(:lock)"), {"lock": _LOCK})
            connection.commit()
        try:
            settings = _alembic_settings(packages)
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
    """Return the ids of all revisions, in an order in which they can be carried out one by one."""
    scripts = ScriptDirectory.from_config(_alembic_settings(packages))
    latest_first = [revision.revision for revision in scripts.walk_revisions("base", "heads")]
    return latest_first[::-1]


def revisions_of(connection: Connection) -> tuple[str, ...]:
    """Return the latest revision that was carried out in each branch of migrations, sorted."""
    context = MigrationContext.configure(connection)
    return tuple(sorted(context.get_current_heads()))


@cache
def heads(packages: tuple[str, ...]) -> tuple[str, ...]:
    """Return the revisions that `revisions_of` finds in a database with the schema of this version.

    Revisions on which others depend are left out.
    """
    scripts = ScriptDirectory.from_config(_alembic_settings(packages))
    dependencies: set[str] = set()
    for revision in scripts.walk_revisions():
        dependencies.update(_as_names(revision.dependencies))
    return tuple(sorted(set(scripts.get_heads()) - dependencies))


def _as_names(dependencies: str | Iterable[str] | None) -> Iterable[str]:
    """Return the dependencies of a revision as names. Alembic gives one name, several, or None."""
    if dependencies is None:
        return ()
    if isinstance(dependencies, str):
        return (dependencies,)
    return dependencies


def _alembic_settings(packages: Sequence[str]) -> Config:
    """Return the settings of Alembic, with the folders of migrations of these packages and of the server itself."""
    packages_with_migrations = (f"{_ENVIRONMENT}.versions", *packages)
    folders = [_folder(package) for package in packages_with_migrations]
    settings = Config()
    settings.set_main_option("script_location", _folder(_ENVIRONMENT))
    settings.set_main_option("path_separator", "newline")
    settings.set_main_option("version_locations", "\n".join(folders))
    return settings


def _folder(package: str) -> str:
    """Return the folder of a package. A package that only has revisions need not have an `__init__.py`."""
    return str(import_module(package).__path__[0])


def back_up(configuration: Configuration, archive: Path) -> int:
    """Write a backup of a server to a tar file: the database as of one moment, the images and the key.

    The server can run meanwhile, because the database is copied first, and images never change. Only the owner of the
    file can read it, because it contains the key and all that people have sent.

    Args:
        configuration: The configuration of the server.
        archive: The file to write. It must not exist.

    Returns:
        The number of images.

    Raises:
        StoreError: The file cannot be written, the folder is not that of a server, or its database is elsewhere.
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
    with tempfile.TemporaryDirectory(dir=configuration.folder) as temporary_folder:
        copy = Path(temporary_folder) / DATABASE
        with closing(sqlite3.connect(source)) as live, closing(sqlite3.connect(copy)) as copied:
            live.backup(copied)
            copied.execute("PRAGMA journal_mode=DELETE")
        image_paths = []
        for path in sorted((configuration.folder / PICTURES).glob("??/*")):
            is_unfinished = bool(path.suffix)
            if not is_unfinished:
                image_paths.append(path)
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
                for path in image_paths:
                    tar.add(path, str(path.relative_to(configuration.folder)))
            file.flush()
            os.fsync(file.fileno())
    return len(image_paths)


_NAME_IN_BACKUP = re.compile(rf"{DATABASE}|{KEY_FILE}|{PICTURES}/[^/]+/[^/]+")
"""Names of the files that `back_up` writes."""


def restore(archive: Path, folder: Path) -> None:
    """Restore a backup to a folder, and check its database.

    Args:
        archive: The file that `back_up` wrote.
        folder: The folder, which must be empty or not exist.

    Raises:
        StoreError: The folder is not empty.
        DataError: The file is not a backup, or is damaged.
    """
    if folder.exists() and any(folder.iterdir()):
        raise StoreError(f"{folder} is not empty; restore into a new folder, then move it")
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        with open_file(archive) as file, tarfile.open(fileobj=file) as tar:
            for member in tar:
                if not (member.isfile() and _NAME_IN_BACKUP.fullmatch(member.name)):
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
