"""Submissions to the leaderboard."""

from __future__ import annotations

import alembic.op
from sqlalchemy import JSON, Boolean, Column, ForeignKey, Integer, MetaData, String, Table

from snellen_server.hosting.tables import NAMES, UtcDateTime

revision = "leaderboard_0001"
down_revision = None
branch_labels = ("leaderboard",)
depends_on = "core_0001"


def upgrade() -> None:
    tables = MetaData(naming_convention=NAMES)
    account = Table("account", tables, Column("id", String(24), primary_key=True))
    submission = Table(
        "submission",
        tables,
        Column("id", String(24), primary_key=True),
        Column("board", String(64), nullable=False, index=True),
        Column(
            "account_id", ForeignKey(account.c.id, ondelete="CASCADE"), nullable=False, index=True
        ),
        Column("state", String(16), nullable=False, index=True),
        Column("is_public", Boolean, nullable=False),
        Column("model", String(100), nullable=False),
        Column("facts", JSON, nullable=False),
        Column("suffix", String(16), nullable=False),
        Column("file_digest", String(64), nullable=False),
        Column("file_bytes", Integer, nullable=False),
        Column("attempts", Integer, nullable=False),
        Column("created", UtcDateTime(), nullable=False),
        Column("finished", UtcDateTime(), nullable=True),
        Column("snellen_version", String(40), nullable=False),
        Column("builds", JSON, nullable=False),
        Column("rows", Integer, nullable=False),
        Column("faults", JSON, nullable=False),
        Column("numbers", JSON, nullable=False),
    )
    submission.create(alembic.op.get_bind())
