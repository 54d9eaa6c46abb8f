"""Databases that earlier revisions wrote are opened by the server of today (tests/museum)."""

from __future__ import annotations

from pathlib import Path

import pytest
from sqlalchemy import text

from snellen_server.hosting.database import Database, migrate
from snellen_server.hosting.features import migration_packages
from test_museum import READ, unpack


@pytest.mark.parametrize("revision", READ)
def test_the_database_of_a_server_is_migrated(revision: str, tmp_path: Path) -> None:
    pytest.importorskip("snellen_lab", reason="some tables are of the ratings of snellen-lab")
    unpack(revision, tmp_path)
    database = Database(f"sqlite:///{tmp_path / 'server/snellen.sqlite'}")
    try:
        migrate(database, migration_packages())
        with database.engine.connect() as connection:
            accounts = connection.execute(text("SELECT name, is_admin FROM account")).all()
        assert [tuple(account) for account in accounts] == [("Ann", 1)]
    finally:
        database.close()
