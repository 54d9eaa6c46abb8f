"""How far a vote is trusted: its class, network, question, leak and honeypot; invitations, and keys of networks."""

from __future__ import annotations

import alembic.op
from sqlalchemy import Column, Integer, LargeBinary, MetaData, String, Table, text

from snellen_server.hosting.tables import NAMES, UtcDateTime

revision = "arena_0002"
down_revision = "arena_0001"
branch_labels = None
depends_on = None

ACCOUNT = "SELECT account_id FROM arena_battle WHERE arena_battle.id = arena_vote.battle_id"
"""Whose vote one of before was."""


def upgrade() -> None:
    for column in (
        Column("trust", String(12), nullable=False, server_default=""),
        Column("network", String(24)),
        Column("question", String(24)),
        Column("leak", String(24), nullable=False, server_default=""),
        Column("honeypot", String(8), nullable=False, server_default=""),
    ):
        alembic.op.add_column("arena_vote", column)
    alembic.op.add_column("arena_voter", Column("invitation", String(64)))
    people = "UPDATE arena_vote SET trust = {} WHERE voter_kind = 'person'"
    alembic.op.execute(
        text(people.format(f"CASE WHEN ({ACCOUNT}) IS NULL THEN 'anonymous' ELSE 'account' END"))
    )
    tables = MetaData(naming_convention=NAMES)
    Table(
        "arena_invitation",
        tables,
        Column("digest", String(64), primary_key=True),
        Column("title", String(100), nullable=False),
        Column("seats", Integer, nullable=False),
        Column("taken", Integer, nullable=False),
        Column("created", UtcDateTime(), nullable=False),
        Column("expires", UtcDateTime(), nullable=False),
    )
    Table(
        "arena_network_key",
        tables,
        Column("period", Integer, primary_key=True, autoincrement=False),
        Column("key", LargeBinary, nullable=False),
    )
    tables.create_all(alembic.op.get_bind())
