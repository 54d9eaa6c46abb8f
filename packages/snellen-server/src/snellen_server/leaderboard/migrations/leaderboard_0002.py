"""What boards have told about their answers, those numbers included that were shown before."""

from __future__ import annotations

import alembic.op
from sqlalchemy import (
    JSON,
    Column,
    Float,
    Index,
    LargeBinary,
    MetaData,
    String,
    Table,
    insert,
    select,
)

from snellen_server.hosting.tables import NAMES, BigId, UtcDateTime

revision = "leaderboard_0002"
down_revision = "leaderboard_0001"
branch_labels = None
depends_on = None

EARLIER_NOISE = 2.0
"""Answers, where a submission says no other: the default of then."""


def upgrade() -> None:
    tables = MetaData(naming_convention=NAMES)
    release = Table(
        "leaderboard_release",
        tables,
        Column("id", BigId, primary_key=True, autoincrement=True),
        Column("questions", String(64), nullable=False),
        Column("board", String(64), nullable=False),
        Column("benchmark", String(200), nullable=False),
        Column("build", String(64), nullable=False),
        Column("account_id", String(24), index=True),
        Column("content", String(64), nullable=False),
        Column("noise", Float, nullable=False),
        Column("cost", Float, nullable=False),
        Column("readings", LargeBinary, nullable=False),
        Column("numbers", JSON, nullable=False),
        Column("made", UtcDateTime(), nullable=False),
        Index("ix_leaderboard_release_questions", "questions"),
    )
    connection = alembic.op.get_bind()
    release.create(connection)
    submission = Table(
        "submission",
        tables,
        Column("board", String(64)),
        Column("account_id", String(24)),
        Column("state", String(16)),
        Column("created", UtcDateTime()),
        Column("builds", JSON),
        Column("numbers", JSON),
    )
    shown = select(submission).where(submission.c.state.in_(("scored", "withdrawn")))
    for row in connection.execute(shown).all():
        for benchmark, digests in row.builds.items():
            numbers = [one for one in row.numbers if one["benchmark"] == benchmark]
            noise = EARLIER_NOISE
            if numbers and numbers[0].get("unit") == "share":
                noise = numbers[0]["noise"] * numbers[0]["n"] or EARLIER_NOISE
            kinds = {one.get("slice", "").partition("=")[0] for one in numbers} or {""}
            values = {
                "questions": digests[0],
                "board": row.board,
                "benchmark": benchmark,
                "build": digests[1],
                "account_id": row.account_id,
                "content": "",
                "noise": noise,
                "cost": len(kinds) / (2 * noise**2),
                "readings": b"",
                "numbers": numbers,
                "made": row.created,
            }
            connection.execute(insert(release).values(values))
