"""Battles, votes, voters' pseudonyms, ratings."""

from __future__ import annotations

import alembic.op
from sqlalchemy import (
    JSON,
    Boolean,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    String,
    Table,
)

from snellen_server.hosting.tables import NAMES, BigId, UtcDateTime

revision = "arena_0001"
down_revision = None
branch_labels = ("arena",)
depends_on = "core_0001"


def upgrade() -> None:
    tables = MetaData(naming_convention=NAMES)
    Table(
        "arena_battle",
        tables,
        Column("id", String(24), primary_key=True),
        Column("kind", String(12), nullable=False),
        Column("state", String(12), nullable=False),
        Column("account_id", String(24), index=True),
        Column("visitor", String(24), index=True),
        Column("token_digest", String(64)),
        Column("left", String(200), nullable=False),
        Column("left_version", String(24), nullable=False),
        Column("right", String(200), nullable=False),
        Column("right_version", String(24), nullable=False),
        Column("sampling", String(12), nullable=False),
        Column("propensity", Float),
        Column("category", String(200), nullable=False),
        Column("origin", JSON, nullable=False),
        Column("image", String(64)),
        Column("turn_count", Integer, nullable=False),
        Column("turns", JSON, nullable=False),
        Column("fault", String(300), nullable=False),
        Column("created", UtcDateTime(), nullable=False),
        Column("changed", UtcDateTime(), nullable=False),
        Index("ix_arena_battle_state_changed", "state", "changed"),
    )
    Table(
        "arena_vote",
        tables,
        Column("battle_id", ForeignKey("arena_battle.id", ondelete="CASCADE"), nullable=False),
        Column("voter_kind", String(8), nullable=False),
        Column("judge", String(100), nullable=False),
        Column("voter", String(100)),
        Column("outcome", String(8)),
        Column("cast", UtcDateTime(), nullable=False, index=True),
        Column("detail", JSON, nullable=False),
        PrimaryKeyConstraint("battle_id", "voter_kind", "judge"),
    )
    Table(
        "arena_voter",
        tables,
        Column("actor", String(80), primary_key=True),
        Column("pseudonym", String(24), nullable=False, unique=True),
    )
    Table(
        "arena_rating",
        tables,
        Column("id", BigId, primary_key=True, autoincrement=True),
        Column("made", UtcDateTime(), nullable=False, index=True),
        Column("is_frozen", Boolean, nullable=False),
        Column("votes", Integer, nullable=False),
        Column("standing", JSON, nullable=False),
        Column("snapshot", LargeBinary),
        Column("log", LargeBinary),
    )
    tables.create_all(alembic.op.get_bind())
