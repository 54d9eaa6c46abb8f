"""Open the SQLite index of the local pages, and keep what follows from all runs together."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from importlib.resources import files
from pathlib import Path

from snellen.report.samples import OUTCOMES

INDEX_FORMAT = 16
RIGHT = OUTCOMES.index("right")
WRONG = OUTCOMES.index("wrong")
UNPARSED = OUTCOMES.index("unparsed")


def open_index(path: Path, *, read_only: bool = False) -> sqlite3.Connection:
    """Open the database of the index; it is created if it does not exist.

    If another version of Snellen made it, it is deleted and created again, unless it is only to be read. Nothing is
    lost, because it can be made from the runs.
    """
    if read_only:
        uri = f"{path.absolute().as_uri()}?mode=ro"
        return sqlite3.connect(uri, uri=True, check_same_thread=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    connection = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
    if _format_of(connection) != INDEX_FORMAT:
        connection.close()
        for suffix in ("", "-wal", "-shm"):
            path.with_name(path.name + suffix).unlink(missing_ok=True)
        connection = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.executescript(files("snellen.viewing").joinpath("schema.sql").read_text("utf-8"))
        connection.execute(f"PRAGMA user_version = {INDEX_FORMAT}")
    connection.execute("PRAGMA synchronous = OFF")  # a lost index can be made again
    return connection


def reading(path: Path) -> closing[sqlite3.Connection]:
    """Return a context manager with a read-only connection to the index."""
    return closing(open_index(path, read_only=True))


def _format_of(connection: sqlite3.Connection) -> int:
    """Return the format of an index, or -1 for a file that is not an index."""
    try:
        return int(connection.execute("PRAGMA user_version").fetchone()[0])
    except sqlite3.DatabaseError:
        return -1


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """Commit what the block writes when it ends, or undo it if the block raises an error."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")


def forget_runs(connection: sqlite3.Connection, kept_runs: Iterable[Path]) -> None:
    """Delete all runs from the index except those in these folders."""
    kept_folders = {str(folder) for folder in kept_runs}
    for run, folder in connection.execute("SELECT id, folder FROM run").fetchall():
        if folder in kept_folders:
            continue
        with transaction(connection):
            forget_rows(connection, run)
            connection.execute("DELETE FROM run WHERE id = ?", (run,))


def forget_rows(connection: sqlite3.Connection, run: int) -> None:
    """Delete the rows of a run, except that in the table of runs."""
    connection.execute(
        "DELETE FROM entry_record WHERE entry IN (SELECT id FROM entry WHERE run = ?)", (run,)
    )
    connection.execute("DELETE FROM entry WHERE run = ?", (run,))
    connection.execute("DELETE FROM exchange WHERE run = ?", (run,))


def join_runs(connection: sqlite3.Connection) -> None:
    """Compute shares and disagreement over all runs, and delete questions that no run has."""
    with transaction(connection):
        connection.execute(
            "DELETE FROM question_words WHERE rowid NOT IN (SELECT question FROM entry)"
        )
        connection.execute(
            "DELETE FROM reply_words WHERE rowid NOT IN (SELECT words FROM entry WHERE words NOT NULL)"
        )
        connection.execute(
            "DELETE FROM reply_digest WHERE words NOT IN (SELECT words FROM entry WHERE words NOT NULL)"
        )
        connection.execute("DELETE FROM tag WHERE question NOT IN (SELECT question FROM entry)")
        connection.execute(
            "DELETE FROM question_record WHERE question NOT IN (SELECT question FROM entry)"
        )
        connection.execute("DELETE FROM question WHERE id NOT IN (SELECT question FROM entry)")
        connection.execute(
            f"""
            UPDATE question SET share_right = joined.share, unstable = joined.unstable FROM (
              SELECT question, max(unstable) AS unstable,
                avg(CASE outcome WHEN {RIGHT} THEN 1.0 WHEN {WRONG} THEN 0.0 WHEN {UNPARSED} THEN 0.0 END) AS share
              FROM entry GROUP BY question) AS joined
            WHERE question.id = joined.question"""
        )
        connection.execute("UPDATE question SET disagree = 0 WHERE disagree")
        connection.execute(
            f"""
            UPDATE question SET disagree = 1 WHERE id IN (
              SELECT question FROM entry WHERE outcome IN ({RIGHT}, {WRONG}, {UNPARSED})
              GROUP BY question, protocol HAVING min(outcome = {RIGHT}) < max(outcome = {RIGHT}))"""
        )
        connection.execute("ANALYZE")
