"""The server's database: migrations step by step, and writes that are kept, on SQLite and on PostgreSQL."""

from __future__ import annotations

import asyncio
import hashlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastapi", reason="waits for fastapi")
pytest.importorskip("alembic", reason="waits for alembic")

from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import Connection, func, insert, select
from sqlalchemy.dialects import sqlite
from sqlalchemy.exc import OperationalError
from sqlalchemy.schema import CreateIndex, CreateTable

from postgres import IS_THERE, running_postgres
from snellen.errors import DataError, SnellenError, StoreError
from snellen_server.hosting import accounts, database
from snellen_server.hosting.accounts import erase_person, export_person
from snellen_server.hosting.configuration import Configuration
from snellen_server.hosting.database import BusyError, Database, heads, migrate, revisions_of, steps
from snellen_server.hosting.features import installed_features, migration_packages
from snellen_server.hosting.services import open_database
from snellen_server.hosting.tables import METADATA, audit, utc_now


@pytest.fixture(scope="module")
def postgres() -> Iterator[str]:
    if not IS_THERE:
        pytest.skip("waits for the system package postgresql (make system)")
    pytest.importorskip("psycopg", reason="waits for psycopg")
    with running_postgres() as url:
        yield url


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return ""
    return str(request.getfixturevalue("postgres"))


@pytest.fixture
def opened(url: str, tmp_path: Path) -> Iterator[Database]:
    """An empty database without any table."""
    made = Database(Configuration(folder=tmp_path, database=url).url)
    if url:
        with made.engine.begin() as connection:
            connection.exec_driver_sql("DROP SCHEMA public CASCADE")
            connection.exec_driver_sql("CREATE SCHEMA public")
    yield made
    made.close()


def note_one(connection: Connection, subject: str = "") -> None:
    connection.execute(
        insert(audit).values(at=utc_now(), actor="test", action="wrote", subject=subject, detail={})
    )


def subjects(connection: Connection) -> list[str]:
    return list(connection.execute(select(audit.c.subject).order_by(audit.c.id)).scalars())


def test_an_empty_database_is_migrated_step_by_step_to_the_tables_that_are_declared(
    opened: Database,
) -> None:
    packages = migration_packages()
    for step in steps(packages):
        migrate(opened, packages, step)
    assert opened.read_now(revisions_of) == heads(packages)
    with opened.engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, METADATA) == []
    migrate(opened, packages)  # nothing is left to do


def test_what_first_revisions_make_has_not_changed_without_a_second_one() -> None:
    pytest.importorskip("snellen_lab", reason="some tables are of the ratings of snellen-lab")
    tables = [table for feature in installed_features() for table in feature.tables]
    ddl = [str(CreateTable(table).compile(dialect=sqlite.dialect())) for table in tables]
    ddl += sorted(str(CreateIndex(index)) for table in tables for index in table.indexes)
    digest = hashlib.sha256("".join(" ".join(ddl).split()).encode()).hexdigest()[:16]
    assert digest == "0fe63c94f27eb2d0", (
        "the declared tables have changed: write a second revision of the branch, and write out in the first, in place "
        "of `create_declared`, what the tables were before"
    )


def test_a_migration_that_fails_leaves_the_database_as_it_was(
    opened: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "failing_migrations"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "failing_0001.py").write_text(
        "import sqlalchemy as sa\nfrom alembic import op\n"
        "revision, down_revision, branch_labels, depends_on = 'failing_0001', None, ('failing',), 'core_0001'\n"
        "def upgrade():\n    op.create_table('half', sa.Column('id', sa.Integer))\n    raise ValueError('no further')\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    migrate(opened, ())
    with pytest.raises(ValueError, match="no further"):
        migrate(opened, ("failing_migrations",))
    with opened.engine.connect() as connection:
        assert not connection.dialect.has_table(connection, "half")
    assert opened.read_now(revisions_of) == ("pictures_0001",)


def test_a_database_of_a_later_version_is_refused(opened: Database) -> None:
    migrate(opened, migration_packages())
    with pytest.raises(StoreError, match="does not know"):
        migrate(opened, ())  # an installation without the features that have written the others


def test_a_write_that_fails_takes_no_other_with_it(opened: Database) -> None:
    migrate(opened, migration_packages())

    def failing(connection: Connection) -> None:
        note_one(connection, "undone")
        raise DataError("no")

    async def several() -> list[Any]:
        asked = [
            opened.write(lambda c, i=i: note_one(c, str(i)) if i % 2 else failing(c))
            for i in range(6)
        ]
        return await asyncio.gather(*asked, return_exceptions=True)

    outcomes = asyncio.run(several())
    assert [type(outcome) for outcome in outcomes] == [DataError, type(None)] * 3
    assert sorted(opened.read_now(subjects)) == ["1", "3", "5"]


def test_who_reads_cannot_write(opened: Database) -> None:
    migrate(opened, migration_packages())
    with pytest.raises(Exception, match=r"read-?only"):
        opened.read_now(note_one)
    assert opened.read_now(subjects) == []


def test_a_name_that_looks_like_another_is_refused(opened: Database) -> None:
    def make(name: str) -> str:
        return opened.write_now(
            lambda connection: accounts.create_account(connection, name, "hash")
        ).name

    migrate(opened, migration_packages())
    assert make("Anna  Bell") == "Anna Bell"
    assert [make(name) for name in ("Анна", "Άννα", "中村 Ken")] == ["Анна", "Άννα", "中村 Ken"]
    with pytest.raises(DataError, match="taken"):
        make("anna bell")
    for mixed in ("\u0410nna Bell", "Αnna"):  # with a Cyrillic and a Greek letter in place of the A
        with pytest.raises(DataError, match="does not mix Latin, Greek and Cyrillic"):
            make(mixed)


def test_a_name_is_taken_but_once_and_an_erased_person_is_gone(opened: Database) -> None:
    migrate(opened, migration_packages())
    anna = opened.write_now(lambda connection: accounts.create_account(connection, "Anna", "hash"))
    with pytest.raises(DataError, match="taken"):
        opened.write_now(lambda connection: accounts.create_account(connection, "ＡＮＮＡ", "hash"))
    opened.write_now(
        lambda connection: accounts.create_key(connection, anna, "laptop", ["submit"], days=1)
    )
    opened.write_now(lambda connection: accounts.begin_session(connection, anna, 1))
    found = opened.read_now(lambda connection: export_person(connection, anna.actor))
    assert [row["title"] for row in found["api_key"]] == ["laptop"]
    assert [row["action"] for row in found["audit"]] == ["account made", "key made", "signed in"]
    assert "hash" not in str(found)
    opened.write_now(lambda connection: erase_person(connection, anna.actor, anna.actor))
    after = opened.read_now(lambda connection: export_person(connection, anna.actor))
    assert set(map(len, after.values())) == {0}
    assert anna.id not in opened.read_now(
        lambda connection: str(connection.execute(select(audit.c.actor)).all())
    )


def test_writes_that_wait_for_the_disk_are_committed_together(tmp_path: Path) -> None:
    commits: list[int] = []
    opened = Database(
        Configuration(folder=tmp_path).url, lambda writes, seconds: commits.append(writes)
    )
    migrate(opened, ())

    async def many() -> None:
        await asyncio.gather(*(opened.write(note_one) for _ in range(300)))

    asyncio.run(many())
    opened.close()
    assert sum(commits) == 300 > 10 * len(commits)


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("mysql://anna:secret@host/name", "not of PostgreSQL"),
        ("postgresql://anna:secret@127.0.0.1:1/x", "not answer"),
    ],
)
def test_a_database_that_cannot_be_used_is_refused_without_its_password(
    tmp_path: Path, url: str, message: str
) -> None:
    pytest.importorskip("psycopg", reason="waits for psycopg")
    with pytest.raises(SnellenError, match=message) as refused:
        open_database(Configuration(folder=tmp_path, database=url))
    assert "secret" not in str(refused.value)


def test_a_flood_of_writes_is_turned_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "MAX_WAITING_WRITES", 0)
    opened = open_database(Configuration(folder=tmp_path))
    with pytest.raises(BusyError, match="waiting"):
        opened.write_now(note_one)
    opened.close()
    with pytest.raises(StoreError, match="closed"):
        opened.write_now(note_one)


def test_a_full_disk_fails_all_writes_of_the_commit_and_loses_none_silently(tmp_path: Path) -> None:
    opened = open_database(Configuration(folder=tmp_path))

    def limit_pages(connection: Connection) -> None:
        connection.exec_driver_sql(
            f"PRAGMA max_page_count={connection.exec_driver_sql('PRAGMA page_count').scalar()}"
        )

    opened.write_now(limit_pages)

    async def many() -> list[Any]:
        asked = (
            opened.write(lambda c, i=i: note_one(c, f"{i:03}" + "x" * 197)) for i in range(300)
        )
        return await asyncio.gather(*asked, return_exceptions=True)

    outcomes = asyncio.run(many())
    kept = set(opened.read_now(subjects))
    opened.close()
    assert any(isinstance(outcome, OperationalError) for outcome in outcomes)
    assert {f"{i:03}" + "x" * 197 for i, outcome in enumerate(outcomes) if outcome is None} == kept


WRITING = """
import sys
from snellen_server.hosting.accounts import note
from snellen_server.hosting.database import Database
database = Database(sys.argv[1])
for i in range(100_000):
    database.write_now(lambda connection: note(connection, "test", "wrote", str(i)))
    print(i, flush=True)
"""


def test_no_write_that_was_acknowledged_is_lost_when_the_process_is_killed(tmp_path: Path) -> None:
    configuration = Configuration(folder=tmp_path)
    open_database(configuration).close()
    process = subprocess.Popen(
        [sys.executable, "-c", WRITING, configuration.url], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    said = [process.stdout.readline() for _ in range(50)]
    os.kill(process.pid, signal.SIGKILL)
    said += process.stdout.readlines()
    process.wait()
    process.stdout.close()
    opened = open_database(configuration)
    count = opened.read_now(
        lambda c: c.execute(select(func.count()).select_from(audit)).scalar_one()
    )
    opened.close()
    assert count >= len([line for line in said if line.endswith("\n")]) >= 50
